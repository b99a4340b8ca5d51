/* SPDX-License-Identifier: MIT
 *
 * Forked copies of this process, for work that may crash, hang or see too much: a save, a rehearsal. A copy
 * has no channel, its output goes nowhere, it dies with its parent. It answers through a pipe, once; the
 * parent's loop polls and trusts nothing of the answer. A copy is made only while this process has one
 * thread. */
#ifndef SANDBOXD_HOST_COPY_H
#define SANDBOXD_HOST_COPY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/host/death.h"
#include "proto/buf.h"
#include "proto/err.h"

struct copy {
	pid_t pid; /* 0: there is none */
	int pidfd, pipe_fd;
	uint32_t timeout_ms;
	int64_t deadline_us;
	bool timed_out;
	struct death_page *page; /* shared with it */
	struct buf answer;       /* as it comes in */
	const char *what;        /* "rehearsal", "save": for messages */
};

/* Runs in the copy. status 0: body is the result; 1: an error body. */
struct copy_answer {
	uint32_t status;
	int64_t value;
	struct buf body; /* JSON, or empty */
};
typedef void copy_fn(void *ctx, struct copy_answer *answer);

#define COPY_POLLFDS 2

void copy_init(struct copy *c, const char *what);
/* keep_fd: a descriptor that the copy may keep (-1: none); 0, 1, 2 and its pipe aside, all others are closed
 * in it. */
int copy_start(struct copy *c, uint32_t timeout_ms, copy_fn *run, void *ctx, int keep_fd, struct err *e);
bool copy_running(const struct copy *c);
unsigned copy_threads(void); /* that this process has; 0: nobody knows */
/* This process has one thread: 0. ERR_RELOAD_FAILED says how many it has. */
int copy_one_thread(struct err *e);
/* Fills what poll has to wait for; returns how many. */
size_t copy_pollfds(const struct copy *c, struct pollfd fds[COPY_POLLFDS]);
/* To be called after each poll: true once it has ended and is reaped. Then copy_finish, once. */
bool copy_progress(struct copy *c, int64_t now_us);
/* What came of it. 0: the copy's own answer (status, value, checked JSON in body, which the caller frees);
 * -1: there is none: killed, crashed, late or lying; step: what it was doing. */
int copy_finish(struct copy *c, struct copy_answer *ret, char step[LIMIT_FUNCTION_BYTES + 1], struct err *e);
void copy_kill(struct copy *c); /* kill, reap, forget; none running: a no-op */

#endif
