/* SPDX-License-Identifier: MIT
 *
 * Forbidden system calls of hosts, named: the kernel asks the spawner, over a listener per host, what a call is to be
 * answered; control is told. A host that asks too often loses its listener, and from then on the kernel answers it
 * with ENOSYS, so that no module keeps this process busy. */
#ifndef SANDBOXD_DENIALS_H
#define SANDBOXD_DENIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/spawner/table.h"
#include "proto/err.h"
#include "proto/spawner_wire.h"

struct spawner;

#define DENIALS_WAITING 256 /* untold ones of all hosts; later ones are only counted */

struct denials {
	int epoll_fd;
	struct spawner_message waiting[DENIALS_WAITING]; /* a ring of notices */
	uint32_t first, n;
	uint64_t dropped;
};

int denials_open(struct denials *d, struct err *e);
void denials_close(struct denials *d);
void denials_watch(struct spawner *sp, struct entry *entry, int listener_fd_take);
/* Before its listener's descriptor is closed: a child that is just being made may hold the same listener, which would leave it in the set. */
void denials_unwatch(struct entry *entry);
void denials_ready(struct spawner *sp);      /* epoll_fd is readable */
const struct spawner_message *denials_first(const struct denials *d); /* NULL: none */
void denials_sent(struct denials *d);

#endif
