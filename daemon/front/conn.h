/* SPDX-License-Identifier: MIT
 *
 * One client's connection: bytes -> lines -> rpc, replies -> bytes. What connections share (loop, turns, limits,
 * counts) is a conn_set, which the listener owns. A connection is freed in the last close callback of its handles;
 * nobody else holds a pointer to it. SIGPIPE is ignored in this process. Control process only. */
#ifndef SANDBOXD_CONN_H
#define SANDBOXD_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "daemon/control/control.h"
#include "daemon/front/hangup.h"
#include "daemon/front/rights.h"
#include "proto/err.h"

struct conn;
struct rpc_user;
TAILQ_HEAD(conn_list, conn);

struct conn_set {
	uint32_t magic;
	struct control *control;
	uint64_t idle_partial_line_ms;  /* LIMIT_IDLE_PARTIAL_LINE_MS */
	uint64_t linger_ms;             /* how long a refused client may go on sending into the void */

	struct conn_list all;
	struct conn_list due;           /* with replies to send or lines to take before the loop waits again */
	unsigned n_open_handles;        /* of connections and of the set */
	unsigned n;                     /* connections that aren't closed */
	uint64_t turn;                  /* of the loop */
	uint64_t n_ever, n_requests;    /* connections, and lines that weren't empty */
	struct hangup hangup;           /* of those that aren't read */
	uv_prepare_t prepare;
	uv_idle_t idle;                 /* active: some have more lines, so the loop must not wait */
	/* a connection is closed: its user may have been left by its last one; or the last handle is closed */
	void (*conn_closed)(struct conn_set *s, struct rpc_user *user);
	void (*handles_closed)(struct conn_set *s);
};

int conn_set_start(struct conn_set *s, struct control *c, struct err *e);
/* All connections stop taking requests, send the replies that are due, and close. */
void conn_set_drain(struct conn_set *s);
void conn_set_close_all(struct conn_set *s);   /* now */
void conn_set_close(struct conn_set *s);       /* its own handles; when n == 0 */

/* user->n_connections counts it until it is closed. On failure the descriptor is closed. */
int conn_open(struct conn_set *s, int fd_take, struct rpc_user *user, enum rights_level rights, struct err *e);

#endif
