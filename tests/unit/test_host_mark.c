/* SPDX-License-Identifier: MIT
 *
 * The mark of a host, asked for from outside: of it, of what descends from it, of the dead, and of one that has lowered it. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/host_mark.h"
#include "tests/support/check_main.h"

enum act { NOTHING, MARK, MARK_AND_FORK, MARK_AND_LOWER };

/* A process that does it, tells the pid that it is about, and ends when the pipe is closed. */
static pid_t made(enum act act, int *ret_fd, pid_t *ret_host)
{
	int told[2], end[2];
	pid_t pid, about = 0;
	char c;

	ck_assert_int_eq(pipe(told), 0);
	ck_assert_int_eq(pipe(end), 0);
	*ret_host = pid = fork();
	if (pid == 0) {
		struct rlimit low = { 7, 7 };

		(void)close(end[1]);
		if (act != NOTHING)
			host_mark_set();
		if (act == MARK_AND_LOWER)
			(void)setrlimit(RLIMIT_LOCKS, &low);
		if (act != MARK_AND_FORK || fork() == 0) {
			(void)setsid();
			about = getpid();
			(void)!write(told[1], &about, sizeof about);
		}
		(void)!read(end[0], &c, 1);
		_exit(0);
	}
	(void)close(end[0]);
	(void)close(told[1]);
	ck_assert_int_eq(read(told[0], &about, sizeof about), sizeof about);
	(void)close(told[0]);
	*ret_fd = end[1];
	return about;
}

START_TEST(whose_it_is)
{
	static const enum act acts[] = { NOTHING, MARK, MARK_AND_FORK, MARK_AND_LOWER };
	pid_t host, about, found;
	int fd;

	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		about = made(acts[i], &fd, &host);
		found = host_mark_of(about);
		(void)close(fd);
		if (about == host) { /* dead, and not waited for: still */
			ck_assert_int_eq(waitid(P_PID, (id_t)host, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
			ck_assert_int_eq(host_mark_of(host), found);
		}
		ck_assert_int_eq(waitpid(host, NULL, 0), host);
		ck_assert_int_eq(found, acts[i] == NOTHING ? 0 : acts[i] == MARK_AND_LOWER ? -1 : host);
	}
}
END_TEST

START_TEST(there_is_nobody)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(host_mark_of(pid), 0);
}
END_TEST

/* Who has a limit of its own below all marks can't tell its children's from its own. */
START_TEST(with_a_lower_limit_there_are_none)
{
	struct rlimit low = { 7, 7 };
	pid_t host;
	int fd;

	ck_assert_int_eq(setrlimit(RLIMIT_LOCKS, &low), 0);
	ck_assert_int_eq(host_mark_of(made(MARK, &fd, &host)), 0);
	(void)close(fd);
	ck_assert_int_eq(waitpid(host, NULL, 0), host);
}
END_TEST

CHECK_MAIN("host_mark", tcase_add_test(tc, whose_it_is); tcase_add_test(tc, there_is_nobody);
	tcase_add_test(tc, with_a_lower_limit_there_are_none))
