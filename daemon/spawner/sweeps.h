/* SPDX-License-Identifier: MIT
 *
 * User ids whose processes may not all have ended: each is swept, and free again only when that is done. Whatever keeps a sweep from being
 * done (no process to be had, a sweeper that was killed) delays it; it is never taken for done. Spawner, as root. */
#ifndef SANDBOXD_SWEEPS_H
#define SANDBOXD_SWEEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spawner/uids.h"

#define SWEEPS_AT_ONCE 64
#define SWEEP_RETRY_MS 1000

struct sweeps {
	struct sweep {
		pid_t pid; /* of the sweeper; 0: a free place */
		uid_t uid;
	} at_work[SWEEPS_AT_ONCE];
	uid_t *waiting;        /* not begun */
	size_t n_waiting, room;
	int64_t retry_at_ms;   /* INT64_MAX: nothing waits for the time */
};
#define SWEEPS_INIT { .retry_at_ms = INT64_MAX }

void sweeps_fini(struct sweeps *s);
void sweeps_add(struct sweeps *s, uid_t uid, int64_t now_ms);
/* A child has ended: true when it was a sweeper; the uid goes to `free`, or waits again. */
bool sweeps_rest(const struct sweeps *s); /* no sweep is at work */
bool sweeps_reaped(struct sweeps *s, struct uids *free, pid_t pid, int status, int64_t now_ms);
void sweeps_timer(struct sweeps *s, int64_t now_ms);

#endif
