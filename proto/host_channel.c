/* SPDX-License-Identifier: MIT
 *
 * One place that knows how a message lies on the channel: header, then body, inline or by memfd or pipe. */
#include "proto/host_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"

int host_incoming_init(struct host_incoming *in, struct err *e)
{
	*in = (struct host_incoming){ .state_fd = -1 };
	in->buffer = malloc(LIMIT_MESSAGE_BYTES + 1);
	return in->buffer ? 0 : err_sys(e, ERR_INTERNAL, "cannot allocate a message buffer");
}

void host_incoming_fini(struct host_incoming *in)
{
	free(in->buffer);
	free(in->large);
	fd_close(&in->state_fd);
	*in = (struct host_incoming){ .state_fd = -1 };
}

/* A pipe can't be changed under a reader's eyes either: what was read is out of it. */
static int take_body(struct host_incoming *in, int fd, struct err *e)
{
	struct stat st;
	size_t size = in->head.body_bytes;

	if (in->head.body_bytes > LIMIT_BODY_BYTES)
		return err_set(e, ERR_INTERNAL, "message %u has a body of %u bytes", in->head.type, in->head.body_bytes);
	if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		in->large = fd_read_pipe(fd, size, e);
	else if (!fd_is_memfd_sealed(fd))
		return err_set(e, ERR_INTERNAL, "message %u has a body that isn't a sealed memfd", in->head.type);
	else
		in->large = fd_read_all(fd, LIMIT_BODY_BYTES, &size, e);
	if (!in->large)
		return -1;
	in->body = in->large;
	if (size != in->head.body_bytes)
		return err_set(e, ERR_INTERNAL, "message %u says %u bytes and brings %zu", in->head.type, in->head.body_bytes, size);
	return 0;
}

/* Assigns the descriptors that came to their roles: state first, body last. */
static int host_take_fds(struct host_incoming *in, int *fds, size_t n_fds, struct err *e)
{
	size_t want = 0;
	int rc = 0;

	if (in->head.flags & HOST_F_STATE)
		want++;
	if (in->head.flags & HOST_F_BODY_FD)
		want++;
	if (n_fds != want)
		rc = err_set(e, ERR_INTERNAL, "message %u came with %zu descriptors instead of %zu", in->head.type, n_fds, want);
	else if (in->head.flags & HOST_F_BODY_FD)
		rc = take_body(in, fds[n_fds - 1], e);
	if (rc == 0 && (in->head.flags & HOST_F_STATE))
		in->state_fd = fd_take(&fds[0]);
	for (size_t i = 0; i < n_fds; i++)
		fd_close(&fds[i]);
	return rc;
}

int host_receive(int channel_fd, struct host_incoming *in, struct err *e)
{
	int fds[FD_MESSAGE_MAX];
	size_t n_fds = 0;
	ssize_t n;

	free(in->large);
	in->large = NULL;
	fd_close(&in->state_fd);
	n = fd_message_receive_once(channel_fd, in->buffer, LIMIT_MESSAGE_BYTES, fds, &n_fds);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return err_sys(e, ERR_INTERNAL, "cannot receive from the channel");
	if (n <= 0) {
		err_set(e, ERR_INTERNAL, "the channel is closed");
		return err_about(e, "eof", -1);
	}
	if ((size_t)n < sizeof in->head) {
		while (n_fds > 0)
			fd_close(&fds[--n_fds]);
		return err_set(e, ERR_INTERNAL, "a message of %zd bytes is shorter than its header", n);
	}
	memcpy(&in->head, in->buffer, sizeof in->head);
	in->buffer[n] = '\0';
	in->body = in->buffer + sizeof in->head;
	if (in->head.magic != HOST_MESSAGE_MAGIC ||
		(!(in->head.flags & HOST_F_BODY_FD) && in->head.body_bytes != (size_t)n - sizeof in->head)) {
		while (n_fds > 0)
			fd_close(&fds[--n_fds]);
		return err_set(e, ERR_INTERNAL, "a message's magic or size is wrong");
	}
	return host_take_fds(in, fds, n_fds, e) < 0 ? -1 : 1;
}

int host_send(int channel_fd, struct host_message *head, const void *body, size_t body_bytes, int state_fd, struct err *e)
{
	autoclose int body_fd = -1;
	int fds[2];
	size_t n_fds = 0;

	if (body_bytes > LIMIT_BODY_BYTES)
		return err_set(e, ERR_REPLY_TOO_LARGE, "a body of %zu bytes exceeds %u", body_bytes, LIMIT_BODY_BYTES);
	head->magic = HOST_MESSAGE_MAGIC;
	head->body_bytes = (uint32_t)body_bytes;
	head->flags &= (uint16_t)~(HOST_F_BODY_FD | HOST_F_STATE);
	if (state_fd >= 0) {
		fds[n_fds++] = state_fd;
		head->flags |= HOST_F_STATE;
	}
	if (body_bytes > HOST_INLINE_BYTES) {
		body_fd = fd_memfd("body", body, body_bytes, true);
		if (body_fd < 0 && errno == ENOSYS) /* the profile refuses memfds */
			body_fd = fd_pipe_filled(body, body_bytes);
		if (body_fd < 0)
			return err_sys(e, ERR_INTERNAL, "cannot make a memfd or pipe of %zu bytes for a message", body_bytes);
		fds[n_fds++] = body_fd;
		head->flags |= HOST_F_BODY_FD;
		body_bytes = 0;
	}
	if (fd_message_send2(channel_fd, head, sizeof *head, body, body_bytes, fds, n_fds) == 0)
		return 0;
	if (errno == EAGAIN)
		return 1;
	return err_sys(e, ERR_INTERNAL, "cannot send message %u", head->type);
}
