/* SPDX-License-Identifier: MIT
 *
 * Where the daemon's cgroup is, and what is done in it, in a folder of plain files. What the kernel makes of it: make check-vm. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/spawner/cgroups.h"
#include "tests/support/check_main.h"

#define V2   "25 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1   "30 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define PROC "20 1 0:19 / /proc rw - proc proc rw\n"

static const struct {
	const char *own, *mounts, *path; /* NULL: there is none */
} cases[] = {
	{ "0::/system.slice/sandboxd.service\n", PROC V2, "/sys/fs/cgroup/system.slice/sandboxd.service" },
	{ "0::/\n", V2, "/sys/fs/cgroup" },
	{ "4:memory:/x\n0::/user.slice\n", V1 V2, "/sys/fs/cgroup/user.slice" },
	{ "4:memory:/x\n", V1 V2, NULL },
	{ "0::/x\n", V1 PROC, NULL },
	{ "", V2, NULL },
	{ "0::x\n", V2, NULL },
	{ "10::/x\n", V2, NULL },
	{ "0::/a/b\n", "25 1 0:22 /a /cg rw - cgroup2 none rw\n", "/cg/b" },
	{ "0::/a\n", "25 1 0:22 /a /cg rw - cgroup2 none rw\n", "/cg" },
	{ "0::/ab\n", "25 1 0:22 /a /cg rw - cgroup2 none rw\n", NULL },
	{ "0::/c\n", "25 1 0:22 /a /cg rw - cgroup2 none rw\n", NULL },
	{ "0::/../x\n", V2, NULL },
	{ "0::/x\n", "25 1 0:22 / /a\\040b rw - cgroup2 none rw\n", NULL },
	{ "0::/x\n", "nonsense - cgroup2 \n", NULL },
};

START_TEST(the_folder_is_found)
{
	char path[LIMIT_PATH_BYTES + 1] = "";
	int rc = cgroups_find(cases[_i].own, cases[_i].mounts, path);

	ck_assert_int_eq(rc, cases[_i].path ? 0 : -1);
	if (cases[_i].path)
		ck_assert_str_eq(path, cases[_i].path);
}
END_TEST

START_TEST(long_paths_are_refused)
{
	char own[2 * LIMIT_PATH_BYTES], path[LIMIT_PATH_BYTES + 1];

	for (size_t n = LIMIT_PATH_BYTES - 20; n < LIMIT_PATH_BYTES + 10; n++) {
		(void)snprintf(own, sizeof own, "0::/%0*d\n", (int)n, 0);
		ck_assert_int_eq(cgroups_find(own, V2, path), n + 1 + strlen("/sys/fs/cgroup") <= LIMIT_PATH_BYTES ? 0 : -1);
	}
}
END_TEST

/* ---- a folder of plain files ---- */

static char top[64];

static void file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof path, "%s/%s", top, name);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

static void folder(const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof path, "%s/%s", top, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static bool there(const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof path, "%s/%s", top, name);
	return access(path, F_OK) == 0;
}

static const char *text_of(const char *name)
{
	static char text[128];
	char path[256];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", top, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ne(fd, -1);
	n = read(fd, text, sizeof text - 1);
	ck_assert_int_ge((int)n, 0);
	text[n] = '\0';
	(void)close(fd);
	return text;
}

static void setup(void)
{
	(void)snprintf(top, sizeof top, "/tmp/sbxcgXXXXXX");
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

static struct cgroups opened(void)
{
	struct cgroups g = CGROUPS_INIT;
	int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ck_assert_int_ne(fd, -1);
	cgroups_open_at(&g, fd, top);
	return g;
}

static void delegated(const char *controllers)
{
	file("cgroup.controllers", controllers);
	file("cgroup.subtree_control", "");
	folder("daemon");
	file("daemon/cgroup.procs", "");
}

START_TEST(it_enters_its_leaf_and_hands_on_what_there_is)
{
	struct cgroups g;
	char pid[16];

	delegated("cpuset pids memory_recursive\n");
	g = opened();
	(void)snprintf(pid, sizeof pid, "%d", (int)getpid());
	ck_assert_str_eq(text_of("daemon/cgroup.procs"), pid);
	ck_assert_uint_eq(g.has, PROTECTION_BIT(PROTECTION_TREE_PROCESSES));
	ck_assert_str_eq(text_of("cgroup.subtree_control"), "+pids");
	ck_assert_str_eq(g.path, top);
	cgroups_close(&g);
	ck_assert_int_eq(g.dir_fd, -1);
}
END_TEST

START_TEST(without_controllers_there_is_none)
{
	struct cgroups g;

	delegated("cpuset io\n");
	g = opened();
	ck_assert_int_eq(g.dir_fd, -1);
	ck_assert_uint_eq(g.has, 0);
	ck_assert_str_ne(g.why, "");
	ck_assert_int_eq(cgroup_make(&g, "web@1", &(struct cgroup_limits){ 1, 1, 1 }), -1);
	cgroups_close(&g);
}
END_TEST

START_TEST(a_folder_that_cannot_be_entered_is_none)
{
	struct cgroups g = opened(); /* no daemon/cgroup.procs */

	ck_assert_int_eq(g.dir_fd, -1);
	ck_assert_str_ne(g.why, "");
}
END_TEST

START_TEST(what_an_earlier_daemon_left_is_removed_and_nothing_else)
{
	static const char *const ours[] = { "web@3", "a.b-c_d@18446744073709551615" };
	static const char *const others[] = { "web", "@3", "web@", "web@x", "web@3x", "web@99999999999999999999", "init.scope",
		"a123456789012345678901234567890123456789012345678901234567890123@1" };
	struct cgroups g;

	delegated("memory pids cpu\n");
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		folder(ours[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		folder(others[i]);
	g = opened();
	ck_assert_uint_eq(g.has, CGROUPS_BITS);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		ck_assert_msg(!there(ours[i]), "%s", ours[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		ck_assert_msg(there(others[i]), "%s", others[i]);
	cgroups_close(&g);
}
END_TEST

START_TEST(what_cannot_be_removed_is_tried_again_later_and_later)
{
	struct cgroups g;
	int64_t now_ms = 1000, after_ms = 0;

	delegated("memory\n");
	g = opened();
	folder("web@1");
	folder("web@2");
	file("web@1/busy", ""); /* it can't be removed, as one with processes can't */
	file("web@1/cgroup.kill", "");
	cgroup_end(&g, "web@1", now_ms);
	cgroup_end(&g, "", now_ms);
	cgroup_end(&g, "never@1", now_ms);
	ck_assert_str_eq(text_of("web@1/cgroup.kill"), "1");
	for (int i = 0; i < 12; i++) {
		ck_assert_int_gt(g.retry_at_ms, now_ms);
		ck_assert_int_ge(g.retry_at_ms - now_ms, after_ms);
		ck_assert_int_le(g.retry_at_ms - now_ms, 10000);
		after_ms = g.retry_at_ms - now_ms;
		now_ms = g.retry_at_ms;
		cgroups_retry(&g, now_ms);
		ck_assert(there("web@2"));
	}
	ck_assert_int_eq(unlinkat(g.dir_fd, "web@1/busy", 0), 0);
	ck_assert_int_eq(unlinkat(g.dir_fd, "web@1/cgroup.kill", 0), 0);
	cgroups_retry(&g, now_ms);
	ck_assert(!there("web@1"));
	ck_assert(there("web@2"));
	ck_assert_ptr_null(g.left);
	ck_assert_int_eq(g.retry_at_ms, INT64_MAX);
	cgroups_close(&g);
}
END_TEST

START_TEST(a_freeze_that_takes_too_long_is_undone)
{
	struct cgroups g;

	delegated("memory\n");
	g = opened();
	folder("web@1");
	ck_assert_int_eq(cgroup_freeze(&g, "web@1", true), -1);
	file("web@1/cgroup.freeze", "");
	file("web@1/cgroup.events", "populated 1\nfrozen 0\n");
	ck_assert_int_eq(cgroup_freeze(&g, "web@1", true), -1);
	ck_assert_int_eq(errno, ETIMEDOUT);
	ck_assert_str_eq(text_of("web@1/cgroup.freeze"), "0");
	file("web@1/cgroup.events", "populated 1\nfrozen 1\n");
	file("web@1/cgroup.freeze", "");
	ck_assert_int_eq(cgroup_freeze(&g, "web@1", true), 0);
	ck_assert_str_eq(text_of("web@1/cgroup.freeze"), "1");
	file("web@1/cgroup.freeze", "");
	ck_assert_int_eq(cgroup_freeze(&g, "web@1", false), 0);
	ck_assert_str_eq(text_of("web@1/cgroup.freeze"), "0");
	cgroups_close(&g);
}
END_TEST

START_TEST(limits_and_events)
{
	struct cgroup_limits limits = { .memory_bytes = 1 << 20, .processes = 7, .cpu_percent = 150 };
	struct cgroup_events events;
	struct cgroups g;

	delegated("memory pids cpu\n");
	g = opened();
	folder("web@5");
	file("web@5/memory.max", "");
	file("web@5/memory.oom.group", "");
	file("web@5/pids.max", "");
	file("web@5/cpu.max", "");
	ck_assert_int_eq(cgroup_limit(&g, "web@5", &limits), 0);
	ck_assert_str_eq(text_of("web@5/memory.max"), "1048576");
	ck_assert_str_eq(text_of("web@5/memory.oom.group"), "1");
	ck_assert_str_eq(text_of("web@5/pids.max"), "7");
	ck_assert_str_eq(text_of("web@5/cpu.max"), "150000 100000");
	ck_assert_int_eq(cgroup_limit(&g, "web@6", &limits), -1);
	cgroup_events_read(&g, "web@5", &events);
	ck_assert(!events.oom && !events.processes);
	file("web@5/memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\n");
	file("web@5/pids.events", "max 0\n");
	cgroup_events_read(&g, "web@5", &events);
	ck_assert(!events.oom && !events.processes);
	file("web@5/memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n");
	file("web@5/pids.events", "max 3\n");
	cgroup_events_read(&g, "web@5", &events);
	ck_assert(events.oom && events.processes);
	cgroups_close(&g);
}
END_TEST

CHECK_MAIN("cgroups",
	tcase_add_loop_test(tc, the_folder_is_found, 0, (int)(sizeof cases / sizeof *cases)); tcase_add_test(tc, long_paths_are_refused);
	tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, it_enters_its_leaf_and_hands_on_what_there_is);
	tcase_add_test(tc, without_controllers_there_is_none); tcase_add_test(tc, a_folder_that_cannot_be_entered_is_none);
	tcase_add_test(tc, what_an_earlier_daemon_left_is_removed_and_nothing_else);
	tcase_add_test(tc, what_cannot_be_removed_is_tried_again_later_and_later);
	tcase_add_test(tc, a_freeze_that_takes_too_long_is_undone); tcase_add_test(tc, limits_and_events));
