/* SPDX-License-Identifier: MIT
 *
 * Control's end of the contract in proto/spawner_wire.h: requests with their replies matched by tag, notices handed on.
 * EOF means that the spawner is gone: control ends too (its hosts do the same by themselves). Loop thread only. */
#ifndef SANDBOXD_SPAWNER_LINK_H
#define SANDBOXD_SPAWNER_LINK_H

#include <stddef.h>
#include <uv.h>

#include "proto/err.h"
#include "proto/spawner_wire.h"

struct spawner_link;

/* Descriptors in fds[] are the callee's: it takes (fd_take) what it wants, the rest is closed after it returns. */
typedef void spawner_reply_fn(void *ctx, const struct spawner_message *reply, int *fds, size_t n_fds);
typedef void spawner_notice_fn(void *ctx, const struct spawner_message *notice, int *fds, size_t n_fds);

/* Blocking, before the loop runs: receives struct control_begin. */
int spawner_receive_begin(int fd, struct control_begin *ret, struct err *e);
int spawner_link_new(uv_loop_t *loop, int fd_take, spawner_notice_fn *notice, void *ctx, struct spawner_link **ret, struct err *e);
void spawner_link_close(struct spawner_link *s); /* pending replies are dropped without a call; frees itself on the loop */

/* Sends a request; op, sandbox etc. are the caller's, version and tag are filled here. fds stay the caller's. `reply` is called once,
 * later (never from inside this call); ctx must live until then. Returns the tag, or 0 with err (nothing will be called). */
uint64_t spawner_request(struct spawner_link *s, struct spawner_message *m, const int *fds, size_t n_fds, spawner_reply_fn *reply,
	void *ctx, struct err *e);
/* Requests without a reply (READY, ACK_EXIT, JOB_KILL, FINISHED), or whose reply doesn't matter. */
void spawner_send(struct spawner_link *s, struct spawner_message *m, const int *fds, size_t n_fds);
/* A request whose reply comes before the loop runs (take-over): blocks until it is there. For main.c only. */
int spawner_ask(struct spawner_link *s, struct spawner_message *m, struct spawner_message *ret_reply, int fds[], size_t *n_fds, struct err *e);

void spawner_message_init(struct spawner_message *m, enum spawner_op op, const char *sandbox);

#endif
