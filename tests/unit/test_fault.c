/* SPDX-License-Identifier: MIT
 *
 * Planted faults: what --fault takes, when a fault happens, and that the manual names each point. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/fault.h"
#include "tests/support/check_main.h"

static void good(const char *text, enum fault_point point, enum fault_kind kind, int number, uint32_t at)
{
	struct err e = ERR_INIT;
	struct fault f;

	ck_assert_msg(fault_parse(text, &f, &e) == 0, "%s: %s", text, e.text);
	ck_assert_uint_eq(f.point, point);
	ck_assert_uint_eq(f.kind, kind);
	ck_assert_int_eq(f.sys_errno, number);
	ck_assert_uint_eq(f.at, at);
	ck_assert_uint_eq(f.passed, 0);
}

START_TEST(what_is_taken)
{
	good("object.write=error", FAULT_OBJECT_WRITE, FAULT_ERROR, EIO, 1);
	good("object.write=error:ENOSPC", FAULT_OBJECT_WRITE, FAULT_ERROR, ENOSPC, 1);
	good("object.write=error:ENOSPC:3", FAULT_OBJECT_WRITE, FAULT_ERROR, ENOSPC, 3);
	good("object.write=error:3", FAULT_OBJECT_WRITE, FAULT_ERROR, EIO, 3);
	good("registry.committed=kill", FAULT_REGISTRY_COMMITTED, FAULT_KILL, EIO, 1);
	good("reload.save=hang:1000000", FAULT_RELOAD_SAVE, FAULT_HANG, EIO, 1000000);
	good("spawner.keep=crash:2", FAULT_SPAWNER_KEEP, FAULT_CRASH, EIO, 2);
	good("host.commit=trace", FAULT_HOST_COMMIT, FAULT_TRACE, EIO, 1);
}
END_TEST

static const struct {
	const char *text, *says;
} bad[] = {
	{ "", "is not POINT=" },
	{ "object.write", "is not POINT=" },
	{ "=error", "no point ''" },
	{ "object.wrte=error", "is 'object.write' meant?" },
	{ "elephant=error", "sandboxd(8) lists them" },
	{ "object.write=", "is not error, crash" },
	{ "object.write=err", "is not error, crash" },
	{ "object.write=errors", "is not error, crash" },
	{ "object.write=error:EWHAT", "no error that can be planted" },
	{ "object.write=error:", "no error that can be planted" },
	{ "object.write=error:EIO:", "is not ':N'" },
	{ "object.write=error:EIO:0", "is not ':N'" },
	{ "object.write=error:EIO:-1", "is not ':N'" },
	{ "object.write=error:EIO:1000001", "is not ':N'" },
	{ "object.write=error:EIO:99999999999999999999", "is not ':N'" },
	{ "object.write=error:EIO:1x", "is not ':N'" },
	{ "object.write=kill:EIO", "is not ':N'" },
	{ "object.write=kill:1:2", "is not ':N'" },
	{ "registry.committed=error", "nothing can fail at 'registry.committed'" },
};

START_TEST(what_is_refused)
{
	struct err e = ERR_INIT;
	struct fault f;

	ck_assert_int_eq(fault_parse(bad[_i].text, &f, &e), -1);
	ck_assert_int_eq(e.code, ERR_BAD_PARAM);
	ck_assert_msg(strstr(e.text, bad[_i].says), "%s: %s", bad[_i].text, e.text);
}
END_TEST

START_TEST(nothing_happens_unless_planted)
{
	ck_assert(!fault_on);
	ck_assert(!FAULT(OBJECT_WRITE));
}
END_TEST

static int plant(const char *const *texts, size_t n)
{
	struct fault faults[4];
	struct err e = ERR_INIT;
	int fd;

	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(fault_parse(texts[i], &faults[i], &e), 0);
	fd = fault_plant(faults, n, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	return fd;
}

START_TEST(the_nth_time_and_never_again)
{
	const char *const texts[] = { "object.write=error:ENOSPC:2", "state.write=error:EDQUOT" };
	int fd = plant(texts, 2);

	ck_assert(!FAULT(OBJECT_FSYNC));
	ck_assert(!FAULT(OBJECT_WRITE));
	errno = 0;
	ck_assert(FAULT(OBJECT_WRITE));
	ck_assert_int_eq(errno, ENOSPC);
	ck_assert(!FAULT(OBJECT_WRITE));
	ck_assert(FAULT(STATE_WRITE));
	ck_assert_int_eq(errno, EDQUOT);
	ck_assert(!FAULT(STATE_WRITE));
	(void)close(fd);
}
END_TEST

/* One count for all processes, as control and its successors have it. */
START_TEST(it_counts_over_processes)
{
	const char *const texts[] = { "object.write=error:3", "registry.commit=kill", "registry.begin=crash" };
	int fd = plant(texts, 3), status;
	struct err e = ERR_INIT;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fault_use(fd, &e) == -1 || FAULT(OBJECT_WRITE));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(!FAULT(OBJECT_WRITE));
	ck_assert(FAULT(OBJECT_WRITE));
	pid = fork();
	if (pid == 0)
		_exit(FAULT(REGISTRY_COMMIT) ? 1 : 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert(!FAULT(REGISTRY_COMMIT));
	pid = fork();
	if (pid == 0)
		_exit(FAULT(REGISTRY_BEGIN) ? 1 : 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	(void)close(fd);
}
END_TEST

START_TEST(a_page_that_isnt_one)
{
	struct err e = ERR_INIT;
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(fault_use(ends[0], &e), -1);
	ck_assert(!fault_on);
	ck_assert_int_eq(fault_use(-1, &e), -1);
}
END_TEST

START_TEST(the_manual_names_each)
{
	FILE *f = fopen("docs/man/sandboxd.8.scd", "r");
	static char text[1 << 16];

	ck_assert_msg(f, "tests run in the top folder");
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	(void)fclose(f);
	for (int i = 0; i < FAULT__N; i++) {
		char name[40];

		(void)snprintf(name, sizeof name, "_%s_", fault_point_text((enum fault_point)i));
		ck_assert_msg(strstr(text, name), "sandboxd(8) doesn't name the point %s", name);
	}
}
END_TEST

CHECK_MAIN("fault", tcase_add_test(tc, what_is_taken); tcase_add_loop_test(tc, what_is_refused, 0, (int)(sizeof bad / sizeof bad[0]));
	tcase_add_test(tc, nothing_happens_unless_planted); tcase_add_test(tc, the_nth_time_and_never_again);
	tcase_add_test(tc, it_counts_over_processes); tcase_add_test(tc, a_page_that_isnt_one); tcase_add_test(tc, the_manual_names_each))
