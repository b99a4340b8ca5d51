/* SPDX-License-Identifier: MIT
 *
 * The clients' socket in the control process: accepts on a listening descriptor that the spawner made and holds too
 * (closing ours unlinks nothing), tells who asks by SO_PEERCRED, keeps the caps on connections. SIGPIPE is ignored
 * from listener_start on. */
#ifndef SANDBOXD_LISTENER_H
#define SANDBOXD_LISTENER_H

#include <stdint.h>

#include "daemon/control/control.h"
#include "proto/err.h"

struct listener;

struct listener_counters {
	unsigned connections;         /* open now */
	uint64_t partial_bytes;       /* of lines that aren't whole */
	uint64_t connections_ever, requests, refused; /* refused: connections over a cap, or for want of descriptors */
};

/* What tests make smaller; 0 keeps a value. */
struct listener_caps {
	unsigned connections, connections_per_uid;
	uint64_t idle_partial_line_ms, linger_ms, drain_ms;
};

/* listen_fd_take: listening and non-blocking; closed on failure too. */
int listener_start(struct control *c, int listen_fd_take, struct listener **ret, struct err *e);
/* SPAWNER_LISTENER: accept on this one from now on; connections stay. */
void listener_replace(struct listener *l, int listen_fd_take);
/* Accepts no more, takes no more requests, sends the replies that are due (for at most two seconds), closes the
 * connections. `closed` is called from the loop when all handles are gone and *l is freed. Once. */
void listener_close(struct listener *l, void (*closed)(void *ctx), void *ctx);
void listener_count(const struct listener *l, struct listener_counters *ret);
void listener_set_caps(struct listener *l, const struct listener_caps *caps);

#endif
