/* SPDX-License-Identifier: MIT
 *
 * What /proc says, in a folder made for it: trees, threads, odd names, processes that go meanwhile, lists that are cut. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sandbox/usage.h"
#include "proto/limits.h"
#include "tests/support/check_main.h"

static char top[64];

static void file(const char *text, const char *format, int pid, int thread)
{
	char path[192], name[96];
	FILE *f;

	(void)snprintf(name, sizeof name, "%.80s", format);
	if (thread >= 0)
		(void)snprintf(path, sizeof path, "%s/%d/task/%d/%s", top, pid, thread, name);
	else
		(void)snprintf(path, sizeof path, "%s/%d/%s", top, pid, name);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

static void folder(const char *format, int pid, int thread)
{
	char path[192];

	if (thread >= 0)
		(void)snprintf(path, sizeof path, "%s/%d/task/%d", top, pid, thread);
	else
		(void)snprintf(path, sizeof path, "%s/%d%.60s", top, pid, format);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

/* A process with one thread. */
static void process(int pid, unsigned uid, unsigned anon_kib, unsigned ticks, const char *children)
{
	char text[512];

	folder("", pid, -1);
	folder("/task", pid, -1);
	folder(NULL, pid, pid);
	folder("/fd", pid, -1);
	(void)snprintf(text, sizeof text, "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nVmHWM:\t  99 kB\nRssAnon:\t%8u kB\nRssFile:\t  10 kB\nRssShmem:\t   1 kB\nThreads:\t1\n",
		uid, uid, uid, uid, anon_kib);
	file(text, "status", pid, -1);
	(void)snprintf(text, sizeof text, "%d (a) b ) c) S 1 2 3 4 5 6 7 8 9 10 %u 0 0 %u 20 0 1 0\n", pid, ticks, ticks);
	file(text, "stat", pid, -1);
	file(children, "children", pid, pid);
}

static void setup(void)
{
	(void)snprintf(top, sizeof top, "/tmp/sbxprocXXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void teardown(void)
{
	(void)nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

START_TEST(one_process)
{
	struct usage u;

	process(7, 1000, 100, 50, "");
	ck_assert(usage_read(top, 7, 0, &u));
	ck_assert_uint_eq(u.anon_bytes, 100 * 1024);
	ck_assert_uint_eq(u.file_bytes, 10 * 1024);
	ck_assert_uint_eq(u.shared_bytes, 1024);
	ck_assert_uint_eq(u.peak_bytes, 99 * 1024);
	ck_assert_uint_eq(u.processes, 1);
	ck_assert_uint_eq(u.threads, 1);
	ck_assert_uint_eq(u.cpu_us, 100 * 1000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	ck_assert(!u.is_partial);
}
END_TEST

START_TEST(nobody)
{
	struct usage u;

	ck_assert(!usage_read(top, 7, 0, &u));
	ck_assert_uint_eq(u.processes, 0);
}
END_TEST

START_TEST(a_tree_with_some_that_go_meanwhile)
{
	struct usage u;

	process(7, 1000, 100, 0, "8 9 99 ");
	process(8, 1000, 10, 0, "");
	process(9, 1000, 1, 0, "10 ");
	process(10, 1000, 1, 0, "");
	ck_assert(usage_read(top, 7, 0, &u)); /* 99 has ended since */
	ck_assert_uint_eq(u.processes, 4);
	ck_assert_uint_eq(u.anon_bytes, 112 * 1024);
	ck_assert(!u.is_partial);
}
END_TEST

START_TEST(each_thread_has_children)
{
	struct usage u;

	process(7, 1000, 1, 0, "8 ");
	process(8, 1000, 1, 0, "");
	process(9, 1000, 1, 0, "");
	folder(NULL, 7, 71);
	file("9 ", "children", 7, 71);
	ck_assert(usage_read(top, 7, 0, &u));
	ck_assert_uint_eq(u.processes, 3);
}
END_TEST

START_TEST(orphans_by_their_user)
{
	struct usage u;

	process(5, 0, 1000, 0, "7 20 21 22 ");
	process(7, 1000, 1, 0, "");
	process(20, 1000, 1, 0, "23 ");
	process(21, 1001, 1, 0, "");
	process(22, 0, 1, 0, "");
	process(23, 0, 1, 0, "");
	ck_assert(usage_read(top, 7, 5, &u));
	ck_assert_uint_eq(u.processes, 3); /* 7, 20, 23 */
	ck_assert(usage_read(top, 7, 0, &u));
	ck_assert_uint_eq(u.processes, 1);
}
END_TEST

START_TEST(too_many_are_said_to_be)
{
	char *children = malloc(1 << 16);
	struct usage u;
	size_t n = 0;

	for (int i = 0; i < LIMIT_USAGE_PROCESSES + 5; i++)
		n += (size_t)snprintf(children + n, (1 << 16) - n, "%d ", 100000 + i);
	process(7, 1000, 1, 0, children);
	ck_assert(usage_read(top, 7, 0, &u));
	ck_assert(u.is_partial);
	ck_assert_uint_eq(u.processes, 1);
	free(children);
}
END_TEST

START_TEST(odd_texts)
{
	static const char *const odd[] = { "", "(", ")", "7 (x) S 1", "7 (x) S 1 2 3 4 5 6 7 8 9 10 a b c d", "\n\n", "RssAnon:" };
	struct usage u;

	process(7, 1000, 1, 0, "junk");
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		file(odd[i], "stat", 7, -1);
		ck_assert(usage_read(top, 7, 0, &u) == (odd[i][0] != '\0'));
		ck_assert_uint_eq(u.cpu_us, 0);
	}
	file("RssAnon:", "status", 7, -1);
	file("7 (x) S", "stat", 7, -1);
	ck_assert(usage_read(top, 7, 0, &u));
	ck_assert_uint_eq(u.anon_bytes, 0);
}
END_TEST

START_TEST(of_a_cgroup)
{
	struct usage u;
	char path[192];

	process(7, 1000, 100, 50, "");
	ck_assert(usage_read(top, 7, 0, &u));
	ck_assert(!usage_read_cgroup(top, "web@7", &u)); /* there is none: what /proc said stays */
	ck_assert_uint_eq(u.anon_bytes, 100 * 1024);
	(void)snprintf(path, sizeof path, "%s/700", top);
	folder("", 700, -1);
	file("inactive_anon 1\nanon 40960\nfile 24576\nkernel 5\nshmem 8192\n", "memory.stat", 700, -1);
	file("123456\n", "memory.peak", 700, -1);
	file("3\n", "pids.current", 700, -1);
	file("usage_usec 77\nuser_usec 1\n", "cpu.stat", 700, -1);
	ck_assert(usage_read_cgroup(top, "700", &u));
	ck_assert_uint_eq(u.anon_bytes, 40960);
	ck_assert_uint_eq(u.shared_bytes, 8192);
	ck_assert_uint_eq(u.file_bytes, 16384);
	ck_assert_uint_eq(u.peak_bytes, 123456);
	ck_assert_uint_eq(u.processes, 3);
	ck_assert_uint_eq(u.cpu_us, 77);
	file("nonsense", "memory.stat", 700, -1);
	ck_assert(usage_read_cgroup(top, "700", &u));
	ck_assert_uint_eq(u.anon_bytes, 0);
}
END_TEST

START_TEST(percent)
{
	ck_assert_double_eq_tol(usage_percent(0, 0, 500000, 1000000), 50, 0.001);
	ck_assert_double_eq_tol(usage_percent(1000000, 5000000, 3000000, 6000000), 200, 0.001);
	ck_assert_double_eq_tol(usage_percent(10, 0, 5, 100), 0, 0.001);
	ck_assert_double_eq_tol(usage_percent(0, 100, 5, 100), -1, 0.001);
}
END_TEST

CHECK_MAIN("usage", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, one_process); tcase_add_test(tc, nobody);
	tcase_add_test(tc, a_tree_with_some_that_go_meanwhile); tcase_add_test(tc, each_thread_has_children); tcase_add_test(tc, orphans_by_their_user);
	tcase_add_test(tc, too_many_are_said_to_be); tcase_add_test(tc, odd_texts); tcase_add_test(tc, of_a_cgroup); tcase_add_test(tc, percent));
