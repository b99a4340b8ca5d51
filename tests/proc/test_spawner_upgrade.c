/* SPDX-License-Identifier: MIT
 *
 * The spawner's half of an upgrade, against a control that the test is: what crosses the exec, in which order, and what is refused. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/spawner_fixture.h"

/* Asked for by SIGHUP; the control that lives leaves when it is told, and the next one connects. */
static void upgrade(struct fixture *f)
{
	const uint32_t epoch = f->begin.epoch, upgrades = f->begin.upgrades;
	const uint64_t incarnation = f->begin.incarnation;
	const char status = 0;

	ck_assert_int_eq(kill(f->daemon, SIGHUP), 0);
	(void)notice_wait(f, SPAWNER_UPGRADE_GOES);
	ck_assert_int_eq(fd_message_send(f->control_fd, &status, 1, NULL, 0), 0);
	control_accept(f);
	ck_assert_int_eq(f->begin.spawner_pid, f->daemon);
	ck_assert_uint_eq(f->begin.epoch, epoch + 1);
	ck_assert_uint_eq(f->begin.upgrades, upgrades + 1);
	ck_assert(f->begin.is_upgraded && f->begin.incarnation > incarnation);
	control_ready(f);
}

static struct spawner_message entry_next(struct fixture *f, uint64_t cursor, int fds[FD_MESSAGE_MAX], size_t *n)
{
	struct spawner_message m = message_of(SPAWNER_TABLE, NULL);

	m.value = cursor;
	return ask(f, m, NULL, 0, fds, n);
}

static void fds_close(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fd_close(&fds[i]);
}

static ino_t inode_of(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

START_TEST(the_table_crosses)
{
	struct spawner_message before[3], after, m;
	int fds[FD_MESSAGE_MAX];
	ino_t inodes[3][FD_MESSAGE_MAX];
	size_t n[3], n_after;
	struct started web, gone;
	char word[8192];
	struct fixture f;
	struct stat socket_before, socket_after;
	char path[FIXTURE_PATH];

	daemon_start(&f);
	fixture_path(&f, "run/sandboxd.sock", path);
	ck_assert_int_eq(stat(path, &socket_before), 0);
	hold(&f, "idle");
	hold(&f, "web");
	hold(&f, "gone");
	web = start(&f, "web");
	hear(&web, word, sizeof word);
	gone = start(&f, "gone");
	hear(&gone, word, sizeof word);
	m = message_of(SPAWNER_SIGNAL, "gone");
	m.generation = gone.generation;
	m.kind = SPAWNER_SIGNAL_KILL;
	ck_assert_uint_eq(ask(&f, m, NULL, 0, NULL, NULL).op, SPAWNER_OK);
	(void)notice_wait(&f, SPAWNER_EXITED); /* told, and not acknowledged */
	for (size_t i = 0; i < 3; i++) {
		before[i] = entry_next(&f, i ? before[i - 1].value : 0, fds, &n[i]);
		ck_assert_uint_eq(before[i].op, SPAWNER_ENTRY);
		for (size_t k = 0; k < n[i]; k++)
			inodes[i][k] = inode_of(fds[k]);
		fds_close(fds, n[i]);
	}
	upgrade(&f);
	upgrade(&f);
	for (size_t i = 0; i < 3; i++) {
		after = entry_next(&f, i ? after.value : 0, fds, &n_after);
		ck_assert_uint_eq(after.op, SPAWNER_ENTRY);
		ck_assert_str_eq(after.sandbox, before[i].sandbox);
		ck_assert_str_eq(after.text, before[i].text);
		ck_assert_uint_eq(after.generation, before[i].generation);
		ck_assert_int_eq(after.pid, before[i].pid);
		ck_assert_int_eq(after.status, before[i].status);
		ck_assert_uint_eq(after.flags, before[i].flags);
		ck_assert_uint_eq(after.uid, before[i].uid);
		ck_assert_int_eq(after.started_ms, before[i].started_ms);
		ck_assert_int_eq(after.ended_ms, before[i].ended_ms);
		ck_assert_uint_eq(after.host_build, before[i].host_build);
		ck_assert_int_eq(memcmp(&after.limits, &before[i].limits, sizeof after.limits), 0);
		ck_assert_uint_eq(n_after, n[i]);
		for (size_t k = 0; k < n_after; k++)
			ck_assert_uint_eq(inode_of(fds[k]), inodes[i][k]);
		fds_close(fds, n_after);
	}
	ck_assert_uint_eq(entry_next(&f, after.value, fds, &n_after).op, SPAWNER_TABLE_END);
	ck_assert_int_eq(stat(path, &socket_after), 0);
	ck_assert_uint_eq(socket_after.st_ino, socket_before.st_ino);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_EXITED).generation, gone.generation); /* until it is acknowledged */
	/* It is the daemon's child as before: its end is seen, and generations go on. */
	ck_assert_int_eq(kill(web.pid, SIGKILL), 0);
	m = notice_wait(&f, SPAWNER_EXITED);
	ck_assert_uint_eq(m.generation, web.generation);
	ck_assert_int_eq(m.status, SIGKILL);
	started_close(&web);
	started_close(&gone);
	gone = start(&f, "gone");
	ck_assert_uint_gt(gone.generation, web.generation);
	started_close(&gone);
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "idle"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
	daemon_finish(&f);
	ck_assert_int_eq(stat(path, &socket_after), -1);
}
END_TEST

/* No id is given twice, whatever crosses. */
START_TEST(user_ids_are_nobody_elses)
{
	struct fixture f;
	uid_t uids[24];

	daemon_start(&f);
	for (size_t i = 0; i < 24; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "s%zu", i);
		if (i % 8 == 7)
			upgrade(&f);
		uids[i] = hold(&f, name);
		for (size_t k = 0; geteuid() == 0 && k < i; k++)
			ck_assert_uint_ne(uids[i], uids[k]);
	}
	daemon_finish(&f);
}
END_TEST

START_TEST(a_control_that_does_not_leave_is_killed)
{
	struct fixture f;

	daemon_start(&f);
	hold(&f, "web");
	ck_assert_int_eq(kill(f.daemon, SIGHUP), 0);
	(void)notice_wait(&f, SPAWNER_UPGRADE_GOES);
	control_accept(&f);
	ck_assert_uint_eq(f.begin.upgrades, 1);
	control_ready(&f);
	ck_assert(log_has(&f, "log", "control doesn't leave in time"));
	ck_assert_str_eq(ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).sandbox, "web");
	daemon_finish(&f);
}
END_TEST

/* What it sends before it goes is carried out. */
START_TEST(the_last_words_of_a_control_that_leaves)
{
	const char status = 0;
	struct spawner_message m = message_of(SPAWNER_HOLD, "late");
	struct fixture f;
	int spec = spec_of("spec");

	daemon_start(&f);
	m.tag = 77;
	ck_assert_int_eq(kill(f.daemon, SIGHUP), 0);
	(void)notice_wait(&f, SPAWNER_UPGRADE_GOES);
	message_send(&f, &m, &spec, 1);
	ck_assert_int_eq(fd_message_send(f.control_fd, &status, 1, NULL, 0), 0);
	(void)close(spec);
	control_accept(&f);
	control_ready(&f);
	ck_assert_str_eq(ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).sandbox, "late");
	daemon_finish(&f);
}
END_TEST

START_TEST(asked_to_stop_on_the_way)
{
	const char status = 0;
	struct fixture f;

	daemon_start(&f);
	hold(&f, "web");
	ck_assert_int_eq(kill(f.daemon, SIGHUP), 0);
	(void)notice_wait(&f, SPAWNER_UPGRADE_GOES);
	ck_assert_int_eq(kill(f.daemon, SIGTERM), 0);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_STOP_ASKED).value, 1);
	ck_assert_int_eq(fd_message_send(f.control_fd, &status, 1, NULL, 0), 0);
	control_accept(&f);
	control_ready(&f);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_STOP_ASKED).value, 1);
	daemon_finish(&f);
}
END_TEST

static void refused(struct fixture *f, const char *words)
{
	const pid_t control = f->control_pid;
	char text[1024];
	ssize_t n;

	ck_assert_int_eq(kill(f->daemon, SIGHUP), 0);
	(void)notice_wait(f, SPAWNER_UPGRADE_REFUSED);
	n = pread(f->notice_fd, text, sizeof text - 1, 0);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	ck_assert_msg(strstr(text, words) != NULL, "'%s' lacks '%s'", text, words);
	ck_assert(fd_is_memfd_sealed(f->notice_fd));
	ck_assert_int_eq(kill(control, 0), 0);
	ck_assert_str_eq(ask(f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).sandbox, "web");
}

START_TEST(refusals_touch_nothing)
{
	char path[FIXTURE_PATH];
	struct fixture f;

	daemon_start(&f);
	hold(&f, "web");
	fixture_path(&f, "exe/sandbox-host", path);
	ck_assert_int_eq(unlink(path), 0);
	refused(&f, "install sandboxd completely");
	program_copy(&f, "tests/support/fake_host", "sandbox-host");
	fixture_path(&f, "exe/sandboxd", path);
	ck_assert_int_eq(unlink(path), 0);
	refused(&f, "cannot open the new program");
	ck_assert_int_eq(symlink("/bin/true", path), 0); /* runs, and says nothing */
	refused(&f, "is no sandboxd that can take over");
	ck_assert_int_eq(unlink(path), 0);
	program_copy(&f, "sandboxd", "sandboxd");
	upgrade(&f);
	daemon_finish(&f);
}
END_TEST

/* Many ask, one is carried out at a time, and each has an answer. */
START_TEST(asked_again_while_it_is_under_way)
{
	struct fixture f;

	daemon_start(&f);
	hold(&f, "web");
	for (int i = 0; i < 3; i++) {
		struct spawner_message m = message_of(SPAWNER_UPGRADE, NULL);

		message_send(&f, &m, NULL, 0);
	}
	upgrade(&f);
	ck_assert(log_has(&f, "log", "under way already"));
	daemon_finish(&f);
}
END_TEST

CHECK_MAIN("spawner_upgrade", tcase_add_unchecked_fixture(tc, fixture_root_make, fixture_root_remove);
	tcase_add_test(tc, the_table_crosses); tcase_add_test(tc, user_ids_are_nobody_elses);
	tcase_add_test(tc, a_control_that_does_not_leave_is_killed); tcase_add_test(tc, the_last_words_of_a_control_that_leaves);
	tcase_add_test(tc, asked_to_stop_on_the_way); tcase_add_test(tc, refusals_touch_nothing);
	tcase_add_test(tc, asked_again_while_it_is_under_way))
