/* SPDX-License-Identifier: MIT
 *
 * Descriptors: nothing leaks, nothing is closed twice, messages keep their borders. Leaks are seen by
 * counting. */
#include "proto/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void pair(int s[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s), 0);
}

/* More descriptors than fd_message_send allows; what a hostile peer may send. */
static void send_many(int to, const void *data, size_t size, int fd, size_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(64 * sizeof(int))];
	} control = { 0 };
	char copy[64];
	struct iovec part = { copy, size };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	ck_assert(n <= 64 && size <= sizeof(copy));
	memcpy(copy, data, size);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(to, &m, MSG_NOSIGNAL), (ssize_t)size);
}

START_TEST(close_and_take)
{
	int before = count_fds();
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), other;

	errno = EDOM;
	other = fd_take(&fd);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_ge(other, 0);
	fd_close(&other);
	ck_assert_int_eq(other, -1);
	fd_close(&other);
	ck_assert_int_eq(errno, EDOM);
	{
		autoclose int scoped = open("/dev/null", O_RDONLY | O_CLOEXEC);

		ck_assert_int_eq(count_fds(), before + 1);
		ck_assert_int_ge(scoped, 0);
	}
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(nonblocking)
{
	int p[2];

	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	ck_assert_int_eq(fd_set_nonblocking(p[0], true), 0);
	ck_assert(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	ck_assert_int_eq(fd_set_nonblocking(p[0], false), 0);
	ck_assert(!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
	fd_close(&p[0]);
	fd_close(&p[1]);
	ck_assert_int_eq(fd_set_nonblocking(-1, true), -1);
}
END_TEST

START_TEST(memfd_seals)
{
	autoclose int sealed = fd_memfd("test", "hello", 5, true);
	autoclose int open_one = fd_memfd("test", NULL, 0, false);
	char back[8];

	ck_assert_int_ge(sealed, 0);
	ck_assert(fcntl(sealed, F_GETFD) & FD_CLOEXEC);
	ck_assert(fd_is_memfd_sealed(sealed));
	ck_assert_int_eq(read(sealed, back, sizeof(back)), 5); /* from the start */
	ck_assert_int_eq(pwrite(sealed, "x", 1, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(sealed, 1), -1);
	ck_assert_int_eq(ftruncate(sealed, 100), -1);
	ck_assert_int_eq(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), -1);

	ck_assert(!fd_is_memfd_sealed(open_one));
	ck_assert_int_eq(pwrite(open_one, "x", 1, 0), 1);
	ck_assert_int_eq(fcntl(open_one, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
	ck_assert(!fd_is_memfd_sealed(open_one));
	ck_assert_int_eq(fcntl(open_one, F_ADD_SEALS, F_SEAL_GROW), 0);
	ck_assert(fd_is_memfd_sealed(open_one));
	errno = EDOM;
	ck_assert(!fd_is_memfd_sealed(STDIN_FILENO));
	ck_assert(!fd_is_memfd_sealed(-1));
	ck_assert_int_eq(errno, EDOM);
}
END_TEST

START_TEST(pipes_filled)
{
	static char all[1 << 20];
	struct err e = ERR_INIT;
	char *data;
	int ends[2], fd;

	memset(all, 'x', sizeof all);
	all[0] = 'a';
	all[sizeof all - 1] = 'z';
	for (size_t size = 0; size <= sizeof all; size = size ? size * 2 : 1) {
		fd = fd_pipe_filled(all, size);
		ck_assert_msg(fd >= 0, "%zu bytes: %s", size, strerror(errno));
		ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		ck_assert_ptr_null(fd_read_pipe(fd, size + 1, &e)); /* and nothing was taken */
		if (size > 0)
			ck_assert_ptr_null(fd_read_pipe(fd, size - 1, &e));
		data = fd_read_pipe(fd, size, &e);
		ck_assert_ptr_nonnull(data);
		ck_assert(memcmp(data, all, size) == 0 && data[size] == '\0');
		free(data);
		fd_close(&fd);
	}
	ck_assert_int_eq(fd_pipe_filled(all, (size_t)INT_MAX + 1), -1);
	/* an empty pipe that blocks, with a writer that says nothing: no waiting */
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_ptr_null(fd_read_pipe(ends[0], 1, &e));
	ck_assert_ptr_nonnull(strstr(e.text, "0 bytes instead of 1"));
	fd_close(&ends[0]);
	fd_close(&ends[1]);
	fd = fd_memfd("test", "hello", 5, true);
	ck_assert_ptr_null(fd_read_pipe(fd, 5, &e)); /* it says that it has 5 bytes, but is no pipe */
	fd_close(&fd);
	ck_assert_ptr_null(fd_read_pipe(-1, 5, &e));
}
END_TEST

START_TEST(read_all)
{
	autoclose int fd = fd_memfd("test", "he\0lo", 5, true);
	autoclose int empty = fd_memfd("test", NULL, 0, true);
	struct err e = ERR_INIT;
	size_t size = 0;
	char *data = fd_read_all(fd, 5, &size, &e);
	int p[2];

	ck_assert_ptr_nonnull(data);
	ck_assert_uint_eq(size, 5);
	ck_assert_mem_eq(data, "he\0lo\0", 6);
	free(data);
	data = fd_read_all(fd, 5, NULL, &e); /* the offset isn't used up */
	ck_assert_ptr_nonnull(data);
	free(data);
	data = fd_read_all(empty, 0, &size, &e);
	ck_assert_ptr_nonnull(data);
	ck_assert_uint_eq(size, 0);
	ck_assert_str_eq(data, "");
	free(data);

	ck_assert_ptr_null(fd_read_all(fd, 4, &size, &e));
	ck_assert_int_eq(e.code, ERR_LIMIT_EXCEEDED);
	ck_assert_ptr_null(fd_read_all(-1, 4, &size, &e));
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(e.sys_errno, EBADF);
	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	ck_assert_ptr_null(fd_read_all(p[0], 100, &size, &e)); /* would block */
	ck_assert_int_eq(e.code, ERR_IO);
	fd_close(&p[0]);
	fd_close(&p[1]);
}
END_TEST

/* /proc files say 0 bytes and hold more: the same as a file that grew after fstat. */
START_TEST(read_all_of_a_file_that_grew)
{
	autoclose int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	struct err e = ERR_INIT;
	size_t size;

	ck_assert_int_ge(fd, 0);
	ck_assert_ptr_null(fd_read_all(fd, 1000, &size, &e));
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "changed its size"));
}
END_TEST

START_TEST(messages)
{
	int before = count_fds(), s[2], fds[FD_MESSAGE_MAX], null;
	size_t n_fds = 99;
	char in[64];

	pair(s);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	errno = 0;
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(n_fds, 0);

	ck_assert_int_eq(fd_message_send(s[0], "one", 3, NULL, 0), 0);
	ck_assert_int_eq(fd_message_send2(s[0], "he", 2, "ad", 2, (int[]){ null, s[0] }, 2), 0);
	ck_assert_int_eq(
		fd_message_send(s[0], "six", 3, (int[]){ null, null, null, null, null, null }, 6), 0);
	ck_assert_int_eq(fd_message_send(s[0], "", 0, NULL, 0), -1);
	ck_assert_int_eq(errno, EINVAL);

	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 3);
	ck_assert_uint_eq(n_fds, 0);
	ck_assert_mem_eq(in, "one", 3);
	ck_assert_int_eq(fd_message_receive(s[1], in, 4, fds, &n_fds), 4); /* exactly fits */
	ck_assert_uint_eq(n_fds, 2);
	ck_assert_mem_eq(in, "head", 4);
	ck_assert_int_eq(fds[2], -1);
	ck_assert(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	ck_assert(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 3);
	ck_assert_uint_eq(n_fds, 6);
	for (size_t i = 0; i < 6; i++)
		fd_close(&fds[i]);

	fd_close(&s[0]);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 0);
	ck_assert_int_eq(fd_message_send(s[1], "x", 1, NULL, 0), -1); /* and no SIGPIPE */
	ck_assert_int_eq(errno, EPIPE);
	fd_close(&s[1]);
	fd_close(&null);
	ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* It ends with one of ours unread: what it had said is read all the same. */
START_TEST(last_words_of_a_peer)
{
	int s[2], fds[FD_MESSAGE_MAX];
	size_t n_fds;
	char in[64];

	pair(s);
	ck_assert_int_eq(fd_message_send(s[1], "unread", 6, NULL, 0), 0);
	ck_assert_int_eq(fd_message_send(s[0], "last", 4, NULL, 0), 0);
	ck_assert_int_eq(fd_message_send(s[0], "words", 5, NULL, 0), 0);
	(void)close(s[0]);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 4);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 5);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 0);
	(void)close(s[1]);
}
END_TEST

static void on_alarm(int number)
{
	(void)number;
}

/* The timer repeats: a signal that comes before the waiting changes nothing. */
START_TEST(a_signal_ends_the_waiting)
{
	struct sigaction act = { .sa_handler = on_alarm };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
	int s[2], fds[FD_MESSAGE_MAX];
	size_t n_fds = 1;
	char in[16];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	ck_assert_int_eq(sigaction(SIGALRM, &act, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	ck_assert_int_eq(fd_message_receive_once(s[1], in, sizeof(in), fds, &n_fds), -1);
	ck_assert_int_eq(errno, EINTR);
	ck_assert_uint_eq(n_fds, 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
	ck_assert_int_eq(fd_message_send(s[0], "one", 3, NULL, 0), 0);
	ck_assert_int_eq(fd_message_receive_once(s[1], in, sizeof(in), fds, &n_fds), 3);
	fd_close(&s[0]);
	fd_close(&s[1]);
}
END_TEST

START_TEST(full_is_eagain)
{
	char big[4096] = { 0 };
	int s[2], r;

	pair(s);
	do
		r = fd_message_send(s[0], big, sizeof(big), NULL, 0);
	while (r == 0);
	ck_assert_int_eq(errno, EAGAIN);
	fd_close(&s[0]);
	fd_close(&s[1]);
}
END_TEST

START_TEST(surplus_descriptors_are_closed)
{
	int s[2], fds[FD_MESSAGE_MAX], before;
	char in[64];

	pair(s);
	before = count_fds();
	for (size_t n = 1; n <= 40; n++) {
		size_t n_fds = 99;
		ssize_t got;

		send_many(s[0], "many", 4, s[0], n);
		got = fd_message_receive(s[1], in, sizeof(in), fds, &n_fds);
		if (n <= FD_MESSAGE_MAX)
			ck_assert_uint_eq(n_fds, n);
		else if (got == 4)
			ck_assert_uint_eq(n_fds, FD_MESSAGE_MAX);
		else
			ck_assert(got == -1 && errno == EMSGSIZE && n_fds == 0);
		if (n > 2 * FD_MESSAGE_MAX)
			ck_assert_int_eq(got, -1);
		for (size_t i = 0; i < n_fds; i++)
			fd_close(&fds[i]);
		ck_assert_int_eq(count_fds(), before);
	}
	fd_close(&s[0]);
	fd_close(&s[1]);
}
END_TEST

START_TEST(truncated_messages_are_refused)
{
	int s[2], fds[FD_MESSAGE_MAX], before;
	size_t n_fds = 99;
	char in[3];

	pair(s);
	before = count_fds();
	send_many(s[0], "four", 4, s[0], 3);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_uint_eq(n_fds, 0);
	ck_assert_int_eq(fds[0], -1);
	ck_assert_int_eq(count_fds(), before);
	/* the next one is whole again */
	send_many(s[0], "3 b", 3, s[0], 1);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 3);
	ck_assert_uint_eq(n_fds, 1);
	fd_close(&fds[0]);
	/* an empty message with descriptors reads as the end, and leaks none */
	send_many(s[0], "", 0, s[0], 2);
	ck_assert_int_eq(fd_message_receive(s[1], in, sizeof(in), fds, &n_fds), 0);
	ck_assert_uint_eq(n_fds, 0);
	ck_assert_int_eq(count_fds(), before);
	fd_close(&s[0]);
	fd_close(&s[1]);
}
END_TEST

CHECK_MAIN("fd", tcase_add_test(tc, close_and_take); tcase_add_test(tc, nonblocking); tcase_add_test(tc, last_words_of_a_peer);
	tcase_add_test(tc, memfd_seals); tcase_add_test(tc, pipes_filled); tcase_add_test(tc, read_all);
	tcase_add_test(tc, read_all_of_a_file_that_grew); tcase_add_test(tc, messages);
	tcase_add_test(tc, a_signal_ends_the_waiting); tcase_add_test(tc, full_is_eagain); tcase_add_test(tc, surplus_descriptors_are_closed);
	tcase_add_test(tc, truncated_messages_are_refused))
