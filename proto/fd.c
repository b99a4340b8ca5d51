/* SPDX-License-Identifier: MIT
 *
 * Descriptors. A message's descriptors belong to the receiver from the moment that recvmsg returns, whatever
 * the message turns out to be: each path of fd_message_receive either hands them out or closes them. */
#include "proto/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Some more than may be used: a small excess is closed here. A large one the kernel drops itself
 * (MSG_CTRUNC), so that a hostile sender can't fill our descriptor table even for a moment. */
#define RECEIVE_MAX (2 * FD_MESSAGE_MAX)

void fd_close(int *fd)
{
	int kept = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = kept;
}

int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

bool fd_room_beside(unsigned reserve)
{
	struct rlimit limit;
	rlim_t wanted = reserve;
	int lowest;

	if (getrlimit(RLIMIT_NOFILE, &limit) == -1 || limit.rlim_cur == RLIM_INFINITY)
		return true;
	if (wanted > limit.rlim_cur / 4)
		wanted = limit.rlim_cur / 4;
	lowest = fcntl(0, F_DUPFD_CLOEXEC, 0);
	if (lowest == -1)
		return errno != EMFILE;
	(void)close(lowest);
	return (rlim_t)lowest < limit.rlim_cur - wanted;
}

int fd_set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);
	int wanted;

	if (flags == -1)
		return -1;
	wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return wanted == flags ? 0 : fcntl(fd, F_SETFL, wanted);
}

/* pwrite leaves the file offset at 0 for whoever reads it with read. */
static int write_all(int fd, const char *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pwrite(fd, data + done, size - done, (off_t)done);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

int fd_memfd(const char *name, const void *data, size_t size, bool sealed)
{
	/* Data is never a program; some systems also refuse memfds that don't say so. Older kernels don't
	 * know the flag. */
	autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd == -1 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd == -1)
		return -1;
	if (size > 0 && write_all(fd, data, size) == -1)
		return -1;
	if (sealed && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == -1)
		return -1;
	return fd_take(&fd);
}

int fd_pipe_filled(const void *data, size_t size)
{
	int ends[2];
	autoclose int from = -1, to = -1;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == -1)
		return -1;
	from = ends[0];
	to = ends[1];
	if (size > INT_MAX) {
		errno = EFBIG;
		return -1;
	}
	if (fcntl(to, F_GETPIPE_SZ) < (int)size && fcntl(to, F_SETPIPE_SZ, (int)size) == -1)
		return -1;
	n = size > 0 ? write(to, data, size) : 0; /* it doesn't block and fits: no signal cuts it short */
	if (n != (ssize_t)size) {
		errno = n == -1 ? errno : ENOSPC;
		return -1;
	}
	return fd_take(&from);
}

char *fd_read_pipe(int fd, size_t size, struct err *e)
{
	char *data;
	size_t done = 0;
	int there = 0;

	if (ioctl(fd, FIONREAD, &there) == -1 || there < 0 || (size_t)there != size) {
		err_set(e, ERR_IO, "a pipe brings %d bytes instead of %zu", there, size);
		return NULL;
	}
	data = malloc(size + 1);
	if (!data) {
		err_set(e, ERR_INTERNAL, "no memory for %zu bytes from a pipe", size);
		return NULL;
	}
	while (done < size) {
		struct iovec part = { data + done, size - done };
		ssize_t n = vmsplice(fd, &part, 1, SPLICE_F_NONBLOCK);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0) {
			err_set(e, ERR_IO, "a pipe has %zu bytes instead of %zu", done, size);
			free(data);
			return NULL;
		}
		done += (size_t)n;
	}
	data[size] = '\0';
	return data;
}

/* Reads `size` bytes and makes sure that there is no more. 1: the size isn't what fstat said. */
static int read_exactly(int fd, char *to, size_t size)
{
	size_t done = 0;
	char more;

	for (;;) {
		ssize_t n = done < size ? pread(fd, to + done, size - done, (off_t)done)
					: pread(fd, &more, 1, (off_t)done);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		if (n == 0)
			return done != size;
		if (done == size)
			return 1;
		done += (size_t)n;
	}
}

char *fd_read_all(int fd, size_t limit, size_t *ret_size, struct err *e)
{
	struct stat st;
	char *data;
	int r;

	if (fstat(fd, &st) == -1) {
		err_sys(e, ERR_IO, "cannot look at a file");
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_size < 0) {
		err_set(e, ERR_IO, "cannot read a file: it is not a regular file");
		return NULL;
	}
	if ((uint64_t)st.st_size > limit || (uint64_t)st.st_size >= SIZE_MAX) {
		err_set(e, ERR_LIMIT_EXCEEDED, "a file has %lld bytes, at most %zu are read",
			(long long)st.st_size, limit);
		return NULL;
	}
	data = malloc((size_t)st.st_size + 1);
	if (!data) {
		err_set(e, ERR_INTERNAL, "no memory for a file of %lld bytes", (long long)st.st_size);
		return NULL;
	}
	r = read_exactly(fd, data, (size_t)st.st_size);
	if (r != 0) {
		if (r == -1)
			err_sys(e, ERR_IO, "cannot read a file");
		else
			err_set(e, ERR_IO, "a file changed its size while it was read");
		free(data);
		return NULL;
	}
	data[st.st_size] = '\0';
	if (ret_size)
		*ret_size = (size_t)st.st_size;
	return data;
}

bool fd_is_memfd_sealed(int fd)
{
	int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	int kept = errno;
	int seals = fcntl(fd, F_GET_SEALS);

	errno = kept;
	return seals != -1 && (seals & wanted) == wanted;
}

int fd_message_send(int socket_fd, const void *data, size_t size, const int *fds, size_t n_fds)
{
	return fd_message_send2(socket_fd, data, size, NULL, 0, fds, n_fds);
}

/* sendmsg only reads what an iovec points to, but its type doesn't say so. */
static struct iovec part(const void *data, size_t size)
{
	union {
		const void *in;
		void *out;
	} p = { .in = data };

	return (struct iovec){ .iov_base = p.out, .iov_len = size };
}

int fd_message_send2(int socket_fd, const void *head, size_t head_size, const void *body, size_t body_size,
	const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FD_MESSAGE_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec parts[2] = { part(head, head_size), part(body, body_size) };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = body_size > 0 ? 2 : 1 };
	ssize_t n;

	assert(n_fds <= FD_MESSAGE_MAX);
	if (head_size + body_size == 0) { /* the receiver would take it for the end */
		errno = EINVAL;
		return -1;
	}
	if (n_fds > 0) {
		struct cmsghdr *c;

		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		assert(c); /* there is room for one */
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		n = sendmsg(socket_fd, &m, MSG_NOSIGNAL);
	while (n == -1 && errno == EINTR);
	if (n == -1)
		return -1;
	if ((size_t)n != head_size + body_size) { /* no SEQPACKET socket: our mistake, but not one to hide */
		errno = EPROTOTYPE;
		return -1;
	}
	return 0;
}

/* Hands out the first `most` descriptors and closes the rest; most = 0 closes all. */
static size_t take_descriptors(struct msghdr *m, int *fds, size_t most)
{
	size_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (taken < most)
				fds[taken++] = fd;
			else
				fd_close(&fd);
		}
	}
	return taken;
}

ssize_t fd_message_receive_once(int socket_fd, void *data, size_t room, int fds[FD_MESSAGE_MAX], size_t *n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(RECEIVE_MAX * sizeof(int))];
	} control;
	struct iovec whole = { .iov_base = data, .iov_len = room };
	struct msghdr m = {
		.msg_iov = &whole,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	bool was_reset = false;
	ssize_t n;

	*n_fds = 0;
	for (size_t i = 0; i < FD_MESSAGE_MAX; i++)
		fds[i] = -1;
	/* A peer that ended with messages of ours unread: the kernel tells that once, in front of what the peer had sent. */
	do
		n = recvmsg(socket_fd, &m, MSG_CMSG_CLOEXEC);
	while (n == -1 && errno == ECONNRESET && !was_reset && (was_reset = true));
	if (n == -1)
		return -1;
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		(void)take_descriptors(&m, fds, 0);
		errno = EMSGSIZE;
		return -1;
	}
	/* An empty message is the end for the caller, who then looks for no descriptors. */
	*n_fds = take_descriptors(&m, fds, n == 0 ? 0 : FD_MESSAGE_MAX);
	return n;
}

ssize_t fd_message_receive(int socket_fd, void *data, size_t room, int fds[FD_MESSAGE_MAX], size_t *n_fds)
{
	ssize_t n;

	do
		n = fd_message_receive_once(socket_fd, data, room, fds, n_fds);
	while (n == -1 && errno == EINTR);
	return n;
}
