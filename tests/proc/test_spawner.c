/* SPDX-License-Identifier: MIT
 *
 * The daemon itself: instance, socket, control's birth, death and succession, the table over it, the end. */
#include <poll.h>

#include "tests/support/spawner_fixture.h"

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int result;

	memcpy(address.sun_path, path, strlen(path));
	result = connect(fd, (const struct sockaddr *)&address, sizeof address);
	(void)close(fd);
	return result;
}

static bool exists(const struct fixture *f, const char *tail)
{
	char path[FIXTURE_PATH];
	struct stat st;

	fixture_path(f, tail, path);
	return lstat(path, &st) == 0;
}

START_TEST(control_is_clean)
{
	struct fixture f;
	char want[64];
	uid_t uid;

	daemon_start(&f);
	ck_assert_ptr_nonnull(strstr(f.report, "fds=0:/dev/null 1:"));
	ck_assert_ptr_nonnull(strstr(f.report, " 3:socket: 4:socket: 5:/memfd:outcomes (deleted) \n"));
	ck_assert(report_has(f.report, "SigBlk=0000000000000000"));
	ck_assert(report_has(f.report, "SigIgn=0000000000000000"));
	ck_assert(report_has(f.report, "CapEff=0000000000000000"));
	ck_assert(report_has(f.report, "CapPrm=0000000000000000"));
	ck_assert(report_has(f.report, "NoNewPrivs=1"));
	ck_assert(report_has(f.report, "session=own"));
	ck_assert(report_has(f.report, "pdeathsig=9"));
	ck_assert(report_has(f.report, "cwd=/"));
	ck_assert(report_has(f.report, "argv=sandboxd-control "));
	uid = geteuid();
	if (uid == 0) {
		ck_assert(report_has(f.report, "CapBnd=0000000000000000"));
		ck_assert(report_has(f.report, "Groups="));
		uid = (uid_t)report_number(f.report, "uids");
		ck_assert_uint_ne(uid, 0);
	}
	(void)snprintf(want, sizeof want, "uids=%u,%u,%u", uid, uid, uid);
	ck_assert(report_has(f.report, want));
	ck_assert_int_eq(report_number(f.report, "ppid"), f.daemon);

	ck_assert_uint_eq(f.begin.wire_version, SPAWNER_WIRE_VERSION);
	ck_assert_uint_eq(f.begin.epoch, 1);
	ck_assert_int_eq(f.begin.spawner_pid, f.daemon);
	ck_assert_uint_eq(f.begin.daemon_uid, geteuid());
	ck_assert_int_eq(f.begin.is_root, geteuid() == 0);
	ck_assert_int_eq(strncmp(f.begin.objects_dir, f.top, strlen(f.top)), 0);
	daemon_finish(&f);
}
END_TEST

START_TEST(launchers_pipe_ends)
{
	struct fixture f;
	char c;

	daemon_start(&f);
	wait_readable(f.launcher_fd, "the end of the launcher's pipe");
	ck_assert_int_eq(read(f.launcher_fd, &c, 1), 0);
	daemon_finish(&f);
}
END_TEST

START_TEST(shutdown_leaves_nothing)
{
	struct fixture f;
	struct started s;
	pid_t child, control;
	char word[64], word_report[8192];
	char c;

	daemon_start(&f);
	control = f.control_pid;
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, word_report, sizeof word_report);
	tell(&s, "child");
	hear(&s, word, sizeof word);
	child = (pid_t)atoi(word);
	tell(&s, "escape"); /* a session of its own, and an orphan */
	hear(&s, word, sizeof word);
	wait_readable(s.error, "the escaped one");
	ck_assert(exists(&f, "run/sandboxd.sock") && exists(&f, "run/lock") && exists(&f, "run/objects/web"));
	daemon_finish(&f);
	ck_assert(process_gone(s.pid));
	ck_assert(process_gone(child));
	ck_assert(process_gone(control));
	/* Nobody holds the log pipe's write end any more, the escaped one neither. */
	for (;;) {
		ssize_t n = read(s.error, &c, 1);

		if (n == 0)
			break;
		ck_assert_msg(n == 1, "a writer of the log pipe is left");
	}
	ck_assert(!exists(&f, "run/sandboxd.sock") && !exists(&f, "run/lock"));
	ck_assert(!exists(&f, "run/objects") && !exists(&f, "run/jobs"));
	started_close(&s);
}
END_TEST

START_TEST(second_instance_is_refused)
{
	struct fixture f;
	char want[64], path[FIXTURE_PATH];
	int status;
	pid_t second;

	daemon_start(&f);
	hold(&f, "web");
	second = daemon_spawn(&f, "log2", NULL);
	status = daemon_wait(second);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 4);
	(void)snprintf(want, sizeof want, "already running, pid %d", (int)f.daemon);
	ck_assert(log_has(&f, "log2", want));
	fixture_path(&f, "run/sandboxd.sock", path);
	ck_assert_int_eq(connect_to(path), 0);
	ck_assert(exists(&f, "run/objects/web"));
	daemon_finish(&f);
}
END_TEST

START_TEST(start_after_kill_9)
{
	struct fixture f;
	char path[FIXTURE_PATH];
	struct started s;

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	ck_assert_int_eq(kill(f.daemon, SIGKILL), 0);
	ck_assert_int_eq(daemon_wait(f.daemon), SIGKILL);
	f.daemon = daemon_spawn(&f, "log", NULL);
	control_accept(&f);
	control_ready(&f);
	fixture_path(&f, "run/sandboxd.sock", path);
	ck_assert_int_eq(connect_to(path), 0);
	ck_assert(!exists(&f, "run/objects/web"));
	{
		struct pollfd host = { .fd = s.out, .events = POLLIN };

		eventually(poll(&host, 1, 0) == 1 && (host.revents & POLLHUP)); /* the host died with its spawner */
	}
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).op, SPAWNER_TABLE_END);
	daemon_finish(&f);
	started_close(&s);
}
END_TEST

START_TEST(socket_is_made_again)
{
	struct fixture f;
	char path[FIXTURE_PATH];
	struct spawner_message m;

	daemon_start(&f);
	fixture_path(&f, "run/sandboxd.sock", path);
	ck_assert_int_eq(unlink(path), 0);
	m = notice_wait(&f, SPAWNER_LISTENER);
	ck_assert_uint_eq(m.tag, 0);
	ck_assert_int_eq(connect_to(path), 0);
	wait_readable(f.notice_fd, "a client on the new socket");
	ck_assert_int_eq(fcntl(f.notice_fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	daemon_finish(&f);
	ck_assert(!exists(&f, "run/sandboxd.sock"));
}
END_TEST

static void expect_refusal(const char *make, const char *text)
{
	struct fixture f;
	char path[FIXTURE_PATH], before[32] = "", after[32] = "";
	struct stat st;
	int status;

	fixture_init(&f);
	fixture_path(&f, "run", path);
	ck_assert_int_eq(mkdir(path, geteuid() == 0 ? 0755 : 0700), 0);
	fixture_path(&f, "run/sandboxd.sock", path);
	if (strcmp(make, "link") == 0)
		ck_assert_int_eq(symlink("/nowhere", path), 0);
	else
		file_write(&f, "run/sandboxd.sock", "precious");
	ck_assert_int_eq(lstat(path, &st), 0);
	(void)snprintf(before, sizeof before, "%lu", (unsigned long)st.st_ino);
	status = daemon_wait(daemon_spawn(&f, "log", NULL));
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	ck_assert(log_has(&f, "log", text));
	ck_assert_int_eq(lstat(path, &st), 0);
	(void)snprintf(after, sizeof after, "%lu", (unsigned long)st.st_ino);
	ck_assert_str_eq(before, after);
}

START_TEST(a_file_in_the_sockets_place_is_left_alone)
{
	expect_refusal("file", "not a socket");
	expect_refusal("link", "symbolic link");
}
END_TEST

START_TEST(socket_mode_is_never_wider)
{
	struct fixture f;
	char path[FIXTURE_PATH];
	struct stat st;

	(void)umask(0);
	daemon_start(&f);
	fixture_path(&f, "run/sandboxd.sock", path);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	fixture_path(&f, "state", path);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_uint_eq(st.st_uid, (uid_t)report_number(f.report, "uids"));
	daemon_finish(&f);
}
END_TEST

START_TEST(runtime_folder_must_be_private)
{
	struct fixture f;
	char path[FIXTURE_PATH];
	int status;

	fixture_init(&f);
	fixture_path(&f, "run", path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chmod(path, 0777), 0);
	status = daemon_wait(daemon_spawn(&f, "log", NULL));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	ck_assert(log_has(&f, "log", "written by others"));
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(symlink("/tmp", path), 0);
	status = daemon_wait(daemon_spawn(&f, "log2", NULL));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	ck_assert(log_has(&f, "log2", "symbolic link"));
}
END_TEST

static struct spawner_message keep(struct fixture *f, const char *sandbox, uint16_t kind, int fd)
{
	struct spawner_message m = message_of(SPAWNER_KEEP, sandbox);

	m.kind = kind;
	return ask(f, m, fd == -1 ? NULL : &fd, fd != -1, NULL, NULL);
}

static void memfd_expect(int fd, const char *text)
{
	struct err e = ERR_INIT;
	char *is = fd_read_all(fd, 1 << 20, NULL, &e);

	ck_assert_ptr_nonnull(is);
	ck_assert_str_eq(is, text);
	free(is);
	(void)close(fd);
}

START_TEST(successor_takes_the_table)
{
	struct fixture f;
	int fds[FD_MESSAGE_MAX], state = spec_of("the state"), checkpoint = spec_of("an older one"), ring = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct spawner_message m = message_of(SPAWNER_TABLE, NULL), entry;
	struct started s, found;
	char report[8192], word[64];
	size_t n;
	uid_t uid;

	daemon_start(&f);
	uid = hold(&f, "web");
	ck_assert_uint_eq(keep(&f, "web", SPAWNER_KEEP_STATE, state).op, SPAWNER_OK);
	ck_assert_uint_eq(keep(&f, "web", SPAWNER_KEEP_CHECKPOINT, checkpoint).op, SPAWNER_OK);
	ck_assert_int_eq(ftruncate(ring, LIMIT_LOG_RING_BYTES), 0);
	ck_assert_uint_eq(keep(&f, "web", SPAWNER_KEEP_RING, ring).op, SPAWNER_ERROR); /* not sealed */
	ck_assert_int_eq(fcntl(ring, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	ck_assert_uint_eq(keep(&f, "web", SPAWNER_KEEP_RING, ring).op, SPAWNER_OK);
	s = start(&f, "web");
	hear(&s, report, sizeof report);
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	control_accept(&f);
	ck_assert_uint_eq(f.begin.epoch, 2);
	entry = ask(&f, m, NULL, 0, fds, &n);
	ck_assert_uint_eq(entry.op, SPAWNER_ENTRY);
	ck_assert_str_eq(entry.sandbox, "web");
	ck_assert_uint_eq(entry.uid, uid);
	ck_assert_uint_eq(entry.generation, s.generation);
	ck_assert_int_eq(entry.pid, s.pid);
	ck_assert_uint_eq(entry.limits.max_memory_bytes, DEFAULT_MAX_MEMORY_BYTES);
	ck_assert_uint_eq(entry.flags, SPAWNER_F_SPEC | SPAWNER_F_STATE | SPAWNER_F_RING | SPAWNER_F_CHANNEL |
		SPAWNER_F_STDOUT | SPAWNER_F_STDERR | SPAWNER_F_CHECKPOINT);
	ck_assert_uint_eq(n, 7);
	memfd_expect(fds[6], "an older one");
	memfd_expect(fds[0], "spec");
	memfd_expect(fds[1], "the state");
	found = (struct started){ entry.generation, entry.pid, fds[3], fds[4], fds[5] };
	tell(&found, "ping");
	hear(&found, word, sizeof word);
	ck_assert_str_eq(word, "pong");
	(void)close(fds[2]);
	m.value = entry.value;
	ck_assert_uint_eq(ask(&f, m, NULL, 0, NULL, NULL).op, SPAWNER_TABLE_END);
	m.value = UINT64_MAX;
	ck_assert_uint_eq(ask(&f, m, NULL, 0, NULL, NULL).op, SPAWNER_TABLE_END);
	ck_assert_uint_eq(keep(&f, "web", SPAWNER_KEEP_STATE, -1).op, SPAWNER_OK); /* dropped */
	m.value = 0;
	ck_assert_uint_eq(ask(&f, m, NULL, 0, NULL, NULL).flags & (SPAWNER_F_STATE | SPAWNER_F_CHECKPOINT), SPAWNER_F_CHECKPOINT);
	started_close(&s);
	started_close(&found);
	daemon_finish(&f);
	(void)close(state);
	(void)close(checkpoint);
	(void)close(ring);
}
END_TEST

/* While the spawner is stopped, control sends a hundred requests and is killed. All of them hold for its successor. */
START_TEST(what_a_dead_control_had_sent_holds)
{
	struct fixture f;
	struct spawner_message m, entry;
	int state, fds[FD_MESSAGE_MAX];
	char text[32], c;
	size_t n;

	daemon_start(&f);
	hold(&f, "web");
	ck_assert_int_eq(kill(f.daemon, SIGSTOP), 0);
	for (int i = 1; i <= 100; i++) {
		(void)snprintf(text, sizeof text, "state %d", i);
		state = spec_of(text);
		m = message_of(SPAWNER_KEEP, "web");
		m.kind = SPAWNER_KEEP_STATE;
		m.tag = 1000 + (uint64_t)i;
		message_send(&f, &m, &state, 1);
		(void)close(state);
	}
	m = message_of(SPAWNER_HOLD, "late");
	m.tag = 5000;
	state = spec_of("late spec");
	message_send(&f, &m, &state, 1);
	(void)close(state);
	/* One byte ends the helper, after all that came before has been handed on. */
	ck_assert_int_eq(fd_message_send(f.control_fd, "\7", 1, NULL, 0), 0);
	wait_readable(f.control_fd, "the end of control");
	ck_assert_int_eq(read(f.control_fd, &c, 1), 0);
	ck_assert_int_eq(kill(f.daemon, SIGCONT), 0);
	control_accept(&f);
	entry = ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, fds, &n);
	ck_assert_str_eq(entry.sandbox, "web");
	ck_assert_uint_eq(n, 2);
	(void)close(fds[0]);
	memfd_expect(fds[1], "state 100");
	m = message_of(SPAWNER_TABLE, NULL);
	m.value = entry.value;
	entry = ask(&f, m, NULL, 0, NULL, NULL);
	ck_assert_str_eq(entry.sandbox, "late");
	ck_assert(log_has(&f, "log", "exited with 7"));
	daemon_finish(&f);
}
END_TEST

START_TEST(broken_contract_is_a_new_control)
{
	static const char *const said[] = { "bytes instead of", "wire version", "unknown op", "unterminated", "too large" };
	struct fixture f;
	struct spawner_message m;
	static char large[sizeof m + 100];

	daemon_start(&f);
	hold(&f, "web");
	for (unsigned i = 0; i < 5; i++) {
		uint32_t epoch = f.begin.epoch;

		m = message_of(SPAWNER_READY, NULL);
		if (i == 1)
			m.version = 9;
		if (i == 2)
			m.op = 4000;
		if (i == 3)
			memset(m.sandbox, 'x', sizeof m.sandbox);
		if (i == 4)
			ck_assert_int_eq(fd_message_send(f.control_fd, large, sizeof large, NULL, 0), 0);
		else
			ck_assert_int_eq(fd_message_send(f.control_fd, &m, i == 0 ? 17 : sizeof m, NULL, 0), 0);
		control_accept(&f);
		ck_assert_uint_eq(f.begin.epoch, epoch + 1);
		control_ready(&f);
		ck_assert(log_has(&f, "log", said[i]));
	}
	ck_assert_str_eq(ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).sandbox, "web");
	daemon_finish(&f);
}
END_TEST

START_TEST(a_control_that_never_gets_ready)
{
	struct fixture f;
	int status;

	fixture_init(&f);
	file_write(&f, "control-exits", "");
	status = daemon_wait(daemon_spawn(&f, "log", NULL));
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	ck_assert(log_has(&f, "log", "control died 3 times before it was ready"));
	ck_assert(!exists(&f, "run/sandboxd.sock") && !exists(&f, "run/lock"));
}
END_TEST

START_TEST(a_control_that_cannot_be_executed)
{
	struct fixture f;
	int status;

	fixture_init(&f);
	{
		char path[FIXTURE_PATH];

		fixture_path(&f, "exe/sandboxd-control", path);
		ck_assert_int_eq(chmod(path, 0644), 0);
	}
	status = daemon_wait(daemon_spawn(&f, "log", NULL));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	ck_assert(log_has(&f, "log", "'exec sandboxd-control' failed: Permission denied"));
}
END_TEST

START_TEST(missing_programs_are_named)
{
	struct fixture f;
	char path[FIXTURE_PATH];
	int status;

	fixture_init(&f);
	fixture_path(&f, "exe/sandbox-host", path);
	ck_assert_int_eq(unlink(path), 0);
	status = daemon_wait(daemon_spawn(&f, "log", NULL));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	ck_assert(log_has(&f, "log", "sandbox-host is neither in"));
}
END_TEST

START_TEST(sigterm_asks_control)
{
	struct fixture f;

	daemon_start(&f);
	ck_assert_int_eq(kill(f.daemon, SIGTERM), 0);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_STOP_ASKED).value, 1);
	ck_assert_int_eq(kill(f.daemon, SIGINT), 0);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_STOP_ASKED).value, 2);
	daemon_finish(&f);
}
END_TEST

START_TEST(a_deaf_control_does_not_hold_up_the_end)
{
	struct fixture f;
	struct started s;
	char report[8192];

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, report, sizeof report);
	ck_assert_int_eq(kill(f.daemon, SIGTERM), 0);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_STOP_ASKED).value, 1);
	ck_assert_int_eq(kill(f.daemon, SIGTERM), 0); /* hurry: 2 s */
	ck_assert_int_eq(daemon_wait(f.daemon), 0);
	ck_assert(process_gone(s.pid));
	ck_assert(log_has(&f, "log", "did not stop the sandboxes in time"));
	started_close(&s);
}
END_TEST

START_TEST(control_dead_while_stopping)
{
	struct fixture f;
	struct started s;
	char report[8192];

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, report, sizeof report);
	ck_assert_int_eq(kill(f.daemon, SIGTERM), 0);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_STOP_ASKED).value, 1);
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	ck_assert_int_eq(daemon_wait(f.daemon), 0);
	ck_assert(process_gone(s.pid));
	started_close(&s);
}
END_TEST

/* Control reads nothing while thousands of replies are due: the spawner neither blocks nor loses one. */
START_TEST(a_slow_control_loses_nothing)
{
	const int n = 10000;
	struct fixture f;
	struct spawner_message m = message_of(SPAWNER_SIGNAL, "nobody"), reply;
	struct pollfd out;
	int sent = 0, received = 0;

	daemon_start(&f);
	m.kind = SPAWNER_SIGNAL_KILL;
	out = (struct pollfd){ .fd = f.control_fd, .events = POLLOUT };
	ck_assert_int_eq(fd_set_nonblocking(f.control_fd, true), 0);
	while (sent < n) { /* until all queues between us are full, then read some and fill them again */
		m.tag = ++f.tag;
		if (fd_message_send(f.control_fd, &m, sizeof m, NULL, 0) == 0) {
			sent++;
			continue;
		}
		f.tag--;
		if (poll(&out, 1, 50) == 1)
			continue;
		for (int target = received + 500 < sent ? received + 500 : sent; received < target;) {
			ck_assert(message_next(&f, &reply, NULL, NULL));
			ck_assert_uint_eq(reply.tag, (uint64_t)++received);
		}
	}
	ck_assert_int_gt(received, 0); /* they were full */
	while (received < n) {
		ck_assert(message_next(&f, &reply, NULL, NULL));
		ck_assert_uint_eq(reply.tag, (uint64_t)++received); /* in order */
		ck_assert_int_eq(reply.status, ENOENT);
	}
	ck_assert_int_eq(fd_set_nonblocking(f.control_fd, false), 0);
	daemon_finish(&f);
}
END_TEST

static void options_expect(const char *const *arguments, int exit_status, const char *text)
{
	struct fixture f;
	int status;

	fixture_init(&f);
	status = daemon_wait(daemon_spawn(&f, "log", arguments));
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), exit_status);
	if (text)
		ck_assert_msg(log_has(&f, "log", text), "no '%s'", text);
	ck_assert(!exists(&f, "run"));
}

START_TEST(options)
{
	static const char *const unknown[] = { "--scoket", "x", NULL }, *const no_value[] = { "--config", NULL },
		*const no_file[] = { "--config", "/nonexistent/file", NULL }, *const help[] = { "--help", NULL },
		*const version[] = { "--version", NULL }, *const check[] = { "--check-config", NULL },
		*const word[] = { "word", NULL };

	options_expect(unknown, 2, "is '--socket' meant?");
	options_expect(no_value, 2, "--config has no value");
	options_expect(no_file, 2, "cannot open the configuration");
	options_expect(word, 2, "unknown option 'word'");
	options_expect(help, 0, NULL);
	options_expect(version, 0, NULL);
	options_expect(check, 0, NULL);
}
END_TEST

START_TEST(configuration_file)
{
	struct fixture f;
	char path[FIXTURE_PATH];
	const char *const arguments[] = { "--config", path, NULL };
	int status;

	fixture_init(&f);
	fixture_path(&f, "conf", path);
	file_write(&f, "conf", "max_sandboxes = 2\nmax_memory_bytes = 1000000\nnonsense = 1\n");
	status = daemon_wait(daemon_spawn(&f, "log", arguments));
	ck_assert_int_eq(WEXITSTATUS(status), 2);
	ck_assert(log_has(&f, "log", "conf:3"));
	file_write(&f, "conf", "max_sandboxes = 2\nmax_memory_bytes = 100000000\n");
	ck_assert_int_eq(chmod(path, 0666), 0);
	status = daemon_wait(daemon_spawn(&f, "log2", arguments));
	ck_assert_int_eq(WEXITSTATUS(status), 2);
	ck_assert(log_has(&f, "log2", "written by others"));
	ck_assert_int_eq(chmod(path, 0644), 0);
	f.daemon = daemon_spawn(&f, "log3", arguments);
	control_accept(&f);
	control_ready(&f);
	ck_assert_uint_eq(f.begin.max_sandboxes, 2);
	ck_assert_uint_eq(f.begin.max_memory_bytes, 100000000);
	hold(&f, "a");
	hold(&f, "b");
	{
		int spec = spec_of("spec");
		struct spawner_message reply = ask(&f, message_of(SPAWNER_HOLD, "c"), &spec, 1, NULL, NULL);

		ck_assert_uint_eq(reply.op, SPAWNER_ERROR);
		ck_assert_ptr_nonnull(strstr(reply.text, "max_sandboxes = 2"));
		(void)close(spec);
	}
	daemon_finish(&f);
}
END_TEST

CHECK_MAIN("spawner", tcase_add_unchecked_fixture(tc, fixture_root_make, fixture_root_remove);
	tcase_add_test(tc, control_is_clean); tcase_add_test(tc, launchers_pipe_ends); tcase_add_test(tc, shutdown_leaves_nothing);
	tcase_add_test(tc, second_instance_is_refused); tcase_add_test(tc, start_after_kill_9);
	tcase_add_test(tc, socket_is_made_again); tcase_add_test(tc, a_file_in_the_sockets_place_is_left_alone);
	tcase_add_test(tc, socket_mode_is_never_wider); tcase_add_test(tc, runtime_folder_must_be_private);
	tcase_add_test(tc, successor_takes_the_table); tcase_add_test(tc, what_a_dead_control_had_sent_holds);
	tcase_add_test(tc, broken_contract_is_a_new_control); tcase_add_test(tc, a_control_that_never_gets_ready);
	tcase_add_test(tc, a_control_that_cannot_be_executed); tcase_add_test(tc, missing_programs_are_named);
	tcase_add_test(tc, sigterm_asks_control); tcase_add_test(tc, a_deaf_control_does_not_hold_up_the_end);
	tcase_add_test(tc, control_dead_while_stopping); tcase_add_test(tc, a_slow_control_loses_nothing);
	tcase_add_test(tc, options); tcase_add_test(tc, configuration_file))
