/* SPDX-License-Identifier: MIT
 *
 * A user id is free again only when its sweep was done. The sweepers are children that this test makes. */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_main.h"

static bool fails;
static pid_t last;
static unsigned n_forks;

/* In the place of fork: a child that does nothing. */
static pid_t planted_fork(void)
{
	if (fails)
		return -1;
	n_forks++;
	last = fork();
	if (last == 0) {
		(void)pause();
		_exit(0);
	}
	return last;
}

#define sweep_fork planted_fork
#include "daemon/spawner/sweeps.c"
#include "daemon/spawner/uids.c"

static struct sweeps s;
static struct uids u;

static void setup(void)
{
	struct err e = ERR_INIT;

	fails = false;
	n_forks = 0;
	s = (struct sweeps)SWEEPS_INIT;
	u = (struct uids)UIDS_INIT;
	ck_assert_int_eq(uids_add(&u, 5000, 256, &e), 0);
}

static void teardown(void)
{
	for (size_t i = 0; i < SWEEPS_AT_ONCE; i++)
		if (s.at_work[i].pid > 0) {
			(void)kill(s.at_work[i].pid, SIGKILL);
			(void)waitpid(s.at_work[i].pid, NULL, 0);
		}
	sweeps_fini(&s);
	uids_fini(&u);
}

static uid_t take(void)
{
	uid_t uid;

	ck_assert(uids_take(&u, &uid));
	return uid;
}

/* The sweeper ends; status: as if it had ended so. */
static void reap(pid_t pid, int status, int64_t now_ms)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert(sweeps_reaped(&s, &u, pid, status, now_ms));
}

START_TEST(done_means_free)
{
	uid_t uid = take();

	sweeps_add(&s, uid, 0);
	ck_assert_uint_eq(u.n_free, 255);
	ck_assert(!sweeps_reaped(&s, &u, last + 100000, 0, 0)); /* somebody else */
	reap(last, 0, 0);
	ck_assert_uint_eq(u.n_free, 256);
}
END_TEST

START_TEST(a_killed_sweeper_is_followed_by_another)
{
	sweeps_add(&s, take(), 0);
	for (int i = 0; i < 5; i++) {
		pid_t before = last;

		reap(last, SIGKILL, 0);
		ck_assert_int_ne(last, before);
		ck_assert_uint_eq(u.n_free, 255);
	}
	reap(last, 0, 0);
	ck_assert_uint_eq(u.n_free, 256);
}
END_TEST

START_TEST(without_processes_it_waits)
{
	uid_t uid = take();

	fails = true;
	sweeps_add(&s, uid, 1000);
	ck_assert_uint_eq(u.n_free, 255);
	ck_assert_int_eq(s.retry_at_ms, 1000 + SWEEP_RETRY_MS);
	sweeps_timer(&s, 1999);
	sweeps_timer(&s, 2000);
	ck_assert_int_eq(s.retry_at_ms, 2000 + SWEEP_RETRY_MS);
	fails = false;
	sweeps_timer(&s, 3000);
	ck_assert_uint_eq(n_forks, 1);
	ck_assert_int_eq(s.retry_at_ms, INT64_MAX);
	reap(last, 1 << 8, 3000); /* it couldn't become the user */
	ck_assert_uint_eq(u.n_free, 255);
	ck_assert_int_eq(s.retry_at_ms, 3000 + SWEEP_RETRY_MS);
	sweeps_timer(&s, 4000);
	reap(last, 0, 4000);
	ck_assert_uint_eq(u.n_free, 256);
}
END_TEST

START_TEST(more_than_there_are_places_for)
{
	for (int i = 0; i < 200; i++)
		sweeps_add(&s, take(), 0);
	ck_assert_uint_eq(n_forks, SWEEPS_AT_ONCE);
	ck_assert_uint_eq(u.n_free, 56);
	for (int i = 0; i < 200; i++) {
		size_t k = 0;

		while (s.at_work[k].pid == 0)
			k++;
		reap(s.at_work[k].pid, 0, 0);
	}
	ck_assert_uint_eq(n_forks, 200);
	ck_assert_uint_eq(u.n_free, 256);
	ck_assert_uint_eq(s.n_waiting, 0);
}
END_TEST

CHECK_MAIN("sweeps", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, done_means_free);
	tcase_add_test(tc, a_killed_sweeper_is_followed_by_another); tcase_add_test(tc, without_processes_it_waits);
	tcase_add_test(tc, more_than_there_are_places_for));
