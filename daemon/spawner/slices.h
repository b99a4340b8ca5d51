/* SPDX-License-Identifier: MIT
 *
 * Daemons side by side as root share one range of user ids: each locks slices of LIMIT_UIDS_PER_SLICE ids of it, by a byte
 * for each in a lock file. The kernel gives the bytes back when the daemon ends. Runs in the spawner. */
#ifndef SANDBOXD_SLICES_H
#define SANDBOXD_SLICES_H

#include "proto/config.h"
#include "proto/err.h"

#define SLICES_FILE "/run/sandboxd.uids"

struct slices {
	int fd;
	uid_t first;
	uint32_t n, next; /* how many the range has; the first not yet tried */
};

#define SLICES_INIT { .fd = -1 }

/* Refuses a range that meets /etc/passwd, group, subuid or subgid. */
int slices_open(struct slices *s, const struct config *c, struct err *e);
int slices_lock(struct slices *s, uid_t *ret_first, struct err *e); /* the next slice that no other daemon holds */
void slices_close(struct slices *s);

#endif
