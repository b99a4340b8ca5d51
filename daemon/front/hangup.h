/* SPDX-License-Identifier: MIT
 *
 * Tells that a client has hung up while its connection isn't read: libuv watches a stream only while it reads or writes. One
 * epoll descriptor for all connections; it reports nothing but hang-ups (both directions closed; a client that only sends
 * no more still reads). Each connection is told of once, until it is watched anew. Control process only. */
#ifndef SANDBOXD_HANGUP_H
#define SANDBOXD_HANGUP_H

#include <stdbool.h>
#include <uv.h>

#include "proto/err.h"

struct hangup {
	int fd;
	uv_poll_t poll;
	void (*gone)(void *who);
};

/* On failure there is no handle and fd is -1. `gone` may close the connection, and must let the others be. */
int hangup_open(struct hangup *h, uv_loop_t *loop, void (*gone)(void *who), struct err *e);
/* `who` lives at least to the end of the loop's turn in which its descriptor is closed. -1: can't be watched. */
int hangup_watch(struct hangup *h, int fd, bool is_first, void *who);
void hangup_close(struct hangup *h, uv_close_cb closed); /* of h->poll, whose data is the caller's */

#endif
