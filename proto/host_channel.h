/* SPDX-License-Identifier: MIT
 *
 * Sending and receiving struct host_message on a channel: both ends use it. Pure apart from the socket. */
#ifndef SANDBOXD_HOST_CHANNEL_H
#define SANDBOXD_HOST_CHANNEL_H

#include <stddef.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/host_wire.h"

struct host_incoming {
	struct host_message head;
	const char *body;   /* NUL-terminated (the NUL not counted); valid until the next receive on the same struct, or fini */
	int state_fd;       /* HOST_F_STATE or HOST_SAVE/HOST_LOAD's descriptor; -1: none. Take it with fd_take or it is closed */
	char *buffer;       /* LIMIT_MESSAGE_BYTES + 1, owned */
	char *large;        /* a body that came by a descriptor, owned */
};

int host_incoming_init(struct host_incoming *in, struct err *e);
void host_incoming_fini(struct host_incoming *in);

/* 1: a message; 0: nothing there now (EAGAIN), or a signal came while it waited (EINTR); -1 with err: EOF (sys_errno 0, name "eof") or a violation of the contract
 * (wrong magic, sizes that don't agree, body too large, surplus descriptors): the peer can't be trusted any more. */
int host_receive(int channel_fd, struct host_incoming *in, struct err *e);

/* Fills magic, body_bytes, HOST_F_BODY_FD; a body beyond HOST_INLINE_BYTES goes by sealed memfd, or by a pipe where
 * memfd_create isn't there. state_fd: -1 or a descriptor
 * to pass first (HOST_F_STATE is set); it stays the caller's. 0; 1: the socket is full (EAGAIN), nothing was sent; -1 with err. */
int host_send(int channel_fd, struct host_message *head, const void *body, size_t body_bytes, int state_fd, struct err *e);

#endif
