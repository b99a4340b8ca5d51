/* SPDX-License-Identifier: MIT
 *
 * Exits of children that nobody has named yet: whose they are is decided by whether the process is there, not by its number alone. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/spawner.h"
#include "daemon/spawner/zygotes_inside.h"
#include "tests/support/check_main.h"

static struct spawner sp;
static struct entry entry;
static struct birth birth;

/* One birth whose pid is still to be told. */
static void setup(void)
{
	memset(&sp, 0, sizeof sp);
	zygotes_init(&sp.zygotes, 0);
	entry = (struct entry){ .pid = 0 };
	birth = (struct birth){ .entry = &entry, .sent = true };
	sp.zygotes.of[PROFILE_MEDIUM].first = &birth;
}

static pid_t child(void)
{
	pid_t pid = fork();

	ck_assert_int_ne(pid, -1);
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(what_lives_is_not_taken_for_an_orphan_that_had_its_number)
{
	pid_t pid = child();
	int status;

	ck_assert(zygotes_early_exit(&sp, pid, 7 << 8)); /* an orphan's, before the number was given again */
	ck_assert(!zygotes_early_take(&sp, pid, &status));
	end(pid);
	ck_assert(zygotes_early_take(&sp, pid, &status)); /* and what was noted is gone */
	ck_assert_int_eq(status, SIGKILL);
}
END_TEST

START_TEST(what_has_ended_and_is_not_reaped_is_still_there)
{
	pid_t pid = child();
	siginfo_t info;
	int status;

	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ck_assert(!zygotes_early_take(&sp, pid, &status)); /* its exit will be told by whoever reaps it */
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(what_was_reaped_has_its_status)
{
	pid_t pid = child();
	int status;

	end(pid);
	ck_assert(zygotes_early_exit(&sp, pid, 1));
	ck_assert(zygotes_early_exit(&sp, pid, 9)); /* the newer one counts */
	ck_assert(zygotes_early_take(&sp, pid, &status));
	ck_assert_int_eq(status, 9);
}
END_TEST

START_TEST(nothing_is_kept_when_nobody_waits)
{
	pid_t pid = child();
	int status;

	end(pid);
	ck_assert(zygotes_early_exit(&sp, pid, 5));
	sp.zygotes.of[PROFILE_MEDIUM].first = NULL;
	ck_assert(!zygotes_early_exit(&sp, pid + 1, 0));
	sp.zygotes.of[PROFILE_MEDIUM].first = &birth;
	ck_assert(zygotes_early_take(&sp, pid, &status));
	ck_assert_int_eq(status, SIGKILL); /* what was kept has been forgotten */
}
END_TEST

CHECK_MAIN("early_exits", tcase_add_checked_fixture(tc, setup, NULL); tcase_add_test(tc, what_lives_is_not_taken_for_an_orphan_that_had_its_number);
	tcase_add_test(tc, what_has_ended_and_is_not_reaped_is_still_there); tcase_add_test(tc, what_was_reaped_has_its_status);
	tcase_add_test(tc, nothing_is_kept_when_nobody_waits));
