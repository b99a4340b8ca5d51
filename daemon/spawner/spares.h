/* SPDX-License-Identifier: MIT
 *
 * Spare hosts: processes that a zygote has cloned in advance, confined as far as nothing of their sandbox is needed for it
 * (proto/zygote_wire.h, SPARE). They belong to no sandbox, hold nothing of one, and are in no table; each is used once. How many there
 * should be is pool.c's decision. */
#ifndef SANDBOXD_SPARES_H
#define SANDBOXD_SPARES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spawner/pool.h"
#include "proto/limits.h"

struct spawner;
struct zygote;
struct zygote_message;

#define SPARE_PLACES (2 * LIMIT_SPARES) /* with those that have ended and aren't reaped */
#define SPARE_TAG    (1ull << 63)       /* in the tags of SPARE: they are no generations */

struct spare {
	enum { SPARE_NONE, SPARE_COMING, SPARE_WAITING, SPARE_GONE } state;
	uint64_t tag;
	pid_t pid;             /* 0: its zygote has not said it yet */
	int fds[3], order_fd;  /* our ends: channel, stdout, stderr; its order */
};

struct spares {
	struct pool pool;
	struct spare of[SPARE_PLACES];
	uint64_t last_tag;
};

void spares_init(struct spares *s, uint32_t target);
/* Sends an order with this descriptor (-1: none) to one that waits. True: it has it; ret_fds are our ends, now the caller's. */
bool spare_use(struct zygote *z, const struct zygote_message *order, int objects_fd, int ret_fds[3], pid_t *ret_pid);
void spare_cloned(struct spawner *sp, struct zygote *z, const struct zygote_message *m);
bool spare_reaped(struct spawner *sp, pid_t pid);                   /* true: it was one */
bool spares_coming(const struct zygote *z);                         /* pids that nobody knows yet may be theirs */
void spares_drop(struct zygote *z);                                 /* their zygote is gone: those that wait end too */
void spares_link_ended(struct zygote *z);                           /* those that never came never will */
void spares_timer(struct zygote *z, int64_t now_ms); /* makes those that are due; its zygote serves */
void spares_kill(struct zygote *z);                                 /* the daemon ends */

#endif
