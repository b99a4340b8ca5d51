/* SPDX-License-Identifier: MIT
 *
 * The listening socket: bound by the spawner, served by control, made again when somebody unlinks it. Never removes what is
 * not a socket, nor a socket that answers. Runs in the spawner. */
#ifndef SANDBOXD_LISTENER_H
#define SANDBOXD_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/err.h"

#define LISTENER_BACKLOG 1024

struct listener {
	int fd;
	int inotify_fd;
	char path[108], folder[108];
	mode_t mode;
	gid_t group;
	uint64_t device, inode; /* of the path when it was bound */
	int64_t retry_at_ms;    /* INT64_MAX: no retry due */
};

#define LISTENER_INIT { .fd = -1, .inotify_fd = -1, .retry_at_ms = INT64_MAX }

/* ERR_ALREADY_EXISTS: somebody answers on it. */
int listener_open(struct listener *l, const struct config *c, struct err *e);
/* The socket of another program's, which is bound already. */
int listener_take_over(struct listener *l, const struct config *c, int fd, uint64_t device, uint64_t inode, struct err *e);
/* Reads inotify. True if the socket was unlinked and is bound again: l->fd is its successor. */
bool listener_check(struct listener *l, int64_t now_ms);
void listener_close(struct listener *l); /* unlinks the path if it is still ours */

#endif
