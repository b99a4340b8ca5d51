/* SPDX-License-Identifier: MIT
 *
 * Hosts: how they are born, what they may use, how their ends are told. */
#include <poll.h>
#include <sys/ioctl.h>

#include "tests/support/spawner_fixture.h"

static struct spawner_message signal_host(struct fixture *f, const char *sandbox, uint64_t generation, uint16_t kind)
{
	struct spawner_message m = message_of(SPAWNER_SIGNAL, sandbox);

	m.generation = generation;
	m.kind = kind;
	return ask(f, m, NULL, 0, NULL, NULL);
}

static void acknowledge(struct fixture *f, const char *sandbox, uint64_t generation)
{
	struct spawner_message m = message_of(SPAWNER_ACK_EXIT, sandbox);

	m.generation = generation;
	message_send(f, &m, NULL, 0);
}

static bool limit_is(const char *report, const char *name, uint64_t value)
{
	char line[64];

	(void)snprintf(line, sizeof line, "%s=%llu/%llu", name, (unsigned long long)value, (unsigned long long)value);
	return report_has(report, line);
}

START_TEST(host_is_clean)
{
	struct fixture f;
	struct started s;
	char r[8192], want[64];
	uid_t uid, held;

	daemon_start(&f);
	held = hold(&f, "web");
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	ck_assert(report_has(r, "fds=0:/dev/null 1:pipe: 2:pipe: 3:socket: "));
	ck_assert(report_has(r, "SigBlk=0000000000000000"));
	ck_assert(report_has(r, "SigIgn=0000000000000000"));
	ck_assert(report_has(r, "SigCgt=0000000000000000"));
	ck_assert(report_has(r, "CapInh=0000000000000000"));
	ck_assert(report_has(r, "CapPrm=0000000000000000"));
	ck_assert(report_has(r, "CapEff=0000000000000000"));
	ck_assert(report_has(r, "CapAmb=0000000000000000"));
	ck_assert(report_has(r, "NoNewPrivs=1"));
	ck_assert(report_has(r, "session=own"));
	ck_assert(report_has(r, "pdeathsig=9"));
	ck_assert(report_has(r, "umask=077"));
	ck_assert(report_has(r, "cwd=/"));
	ck_assert(report_has(r, "argv=sandbox-host zygote "));
	ck_assert(report_has(r, "env=PATH=/usr/bin:/bin LANG=C.UTF-8 "));
	ck_assert_int_eq(report_number(r, "ppid"), f.daemon);
	ck_assert_int_eq(report_number(r, "pid"), s.pid);
	ck_assert(limit_is(r, "data", DEFAULT_MAX_MEMORY_BYTES));
	ck_assert(limit_is(r, "fsize", DEFAULT_MAX_FILE_SIZE_BYTES));
	ck_assert(limit_is(r, "stack", DEFAULT_MAX_STACK_BYTES));
	ck_assert(limit_is(r, "nofile", DEFAULT_MAX_OPEN_FILES));
	ck_assert(limit_is(r, "core", 0));
	uid = geteuid();
	if (uid == 0) {
		ck_assert(report_has(r, "CapBnd=0000000000000000"));
		ck_assert(report_has(r, "Groups="));
		ck_assert(limit_is(r, "nproc", DEFAULT_MAX_PROCESSES));
		ck_assert_uint_ne(held, 0);
		ck_assert_uint_ne(held, (uid_t)report_number(f.report, "uids")); /* not control's */
		uid = held;
	}
	ck_assert_uint_eq(held, uid);
	(void)snprintf(want, sizeof want, "uids=%u,%u,%u", uid, uid, uid);
	ck_assert(report_has(r, want));
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

START_TEST(limits_are_set_and_ceilings_kept)
{
	struct fixture f;
	char path[FIXTURE_PATH], r[8192];
	const char *const arguments[] = { "--config", path, NULL };
	struct host_limits l = { .max_memory_bytes = 50000000, .max_file_size_bytes = 4096, .max_stack_bytes = 1 << 20,
		.max_processes = 7, .max_open_files = 9 };
	struct spawner_message m = message_of(SPAWNER_START, "web"), reply;
	struct started s;

	fixture_init(&f);
	fixture_path(&f, "conf", path);
	file_write(&f, "conf", "max_memory_bytes = 100000000\nmax_open_files = 9\n");
	f.daemon = daemon_spawn(&f, "log", arguments);
	control_accept(&f);
	control_ready(&f);
	hold(&f, "web");
	m.limits.max_open_files = 10;
	(void)snprintf(m.name, sizeof m.name, "low");
	reply = ask(&f, m, NULL, 0, NULL, NULL);
	ck_assert_uint_eq(reply.op, SPAWNER_ERROR);
	ck_assert_int_eq(reply.status, EPERM);
	ck_assert_ptr_nonnull(strstr(reply.text, "max_open_files"));
	s = start_limited(&f, "web", l);
	hear(&s, r, sizeof r);
	ck_assert(limit_is(r, "data", 50000000));
	ck_assert(limit_is(r, "fsize", 4096));
	ck_assert(limit_is(r, "stack", 1 << 20));
	ck_assert(limit_is(r, "nofile", 9));
	if (geteuid() == 0)
		ck_assert(limit_is(r, "nproc", 7));
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

static const struct {
	const char *word;
	int status; /* as wait says it */
} deaths[] = {
	{ "exit 0", 0 }, { "exit 1", 1 << 8 }, { "exit 42", 42 << 8 }, { "exit 127", 127 << 8 }, { "exit 255", 255 << 8 },
	{ "signal 6", SIGABRT }, { "signal 9", SIGKILL }, { "signal 11", SIGSEGV }, { "signal 15", SIGTERM }, { "signal 7", SIGBUS },
	{ "signal 31", SIGSYS }, { "signal 13", SIGPIPE },
};

START_TEST(exact_exit_statuses)
{
	struct fixture f;
	uint64_t before = 0;

	daemon_start(&f);
	hold(&f, "web");
	for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
		struct started s = start(&f, "web");
		struct spawner_message m;
		char r[8192];

		ck_assert_uint_gt(s.generation, before);
		before = s.generation;
		hear(&s, r, sizeof r);
		tell(&s, deaths[i].word);
		m = notice_wait(&f, SPAWNER_EXITED);
		ck_assert_str_eq(m.sandbox, "web");
		ck_assert_uint_eq(m.generation, s.generation);
		ck_assert_int_eq(m.status & ~0x80, deaths[i].status); /* 0x80: a core, of which there is none to be */
		ck_assert_str_eq(m.name, "");
		ck_assert_int_ge(m.ended_ms, m.started_ms);
		acknowledge(&f, "web", s.generation);
		started_close(&s);
	}
	daemon_finish(&f);
}
END_TEST

START_TEST(generations)
{
	struct fixture f;
	struct started s, next;
	struct spawner_message m;
	char r[8192];

	daemon_start(&f);
	ck_assert_int_eq(ask(&f, message_of(SPAWNER_START, "web"), NULL, 0, NULL, NULL).status, ENOENT);
	ck_assert_int_eq(ask(&f, message_of(SPAWNER_FORGET, "web"), NULL, 0, NULL, NULL).status, ENOENT);
	hold(&f, "web");
	ck_assert_int_eq(signal_host(&f, "web", 0, SPAWNER_SIGNAL_KILL).status, ESRCH); /* never started */
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	m = message_of(SPAWNER_START, "web");
	ck_assert_int_eq(ask(&f, m, NULL, 0, NULL, NULL).status, EINVAL); /* under no profile */
	(void)snprintf(m.name, sizeof m.name, "low");
	ck_assert_int_eq(ask(&f, m, NULL, 0, NULL, NULL).status, EBUSY);
	ck_assert_int_eq(ask(&f, message_of(SPAWNER_FORGET, "web"), NULL, 0, NULL, NULL).status, EBUSY);
	ck_assert_int_eq(signal_host(&f, "web", s.generation + 1, SPAWNER_SIGNAL_KILL).status, ESRCH);
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_ATTENTION).op, SPAWNER_OK);
	hear(&s, r, sizeof r);
	ck_assert_str_eq(r, "attention");
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_KILL).op, SPAWNER_OK);
	m = notice_wait(&f, SPAWNER_EXITED);
	ck_assert_int_eq(m.status, SIGKILL);
	ck_assert_int_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_KILL).status, ESRCH);
	next = start(&f, "web"); /* without an acknowledgement: starting again is one */
	ck_assert_uint_gt(next.generation, s.generation);
	acknowledge(&f, "web", s.generation); /* of the old one: must not touch the new one */
	hear(&next, r, sizeof r);
	m = ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL);
	ck_assert_int_eq(m.pid, next.pid);
	ck_assert(m.flags & SPAWNER_F_CHANNEL);
	started_close(&s);
	started_close(&next);
	daemon_finish(&f);
}
END_TEST

static struct spawner_message limit_host(struct fixture *f, const char *sandbox, uint64_t generation, const struct host_limits *l, int spec)
{
	struct spawner_message m = message_of(SPAWNER_LIMIT, sandbox);

	m.generation = generation;
	m.limits = *l;
	return ask(f, m, &spec, 1, NULL, NULL);
}

/* The hard one, as the kernel tells everybody. */
static unsigned long long limit_now(pid_t pid, const char *name)
{
	char path[32], line[128];
	unsigned long long hard = 0;
	FILE *file;

	(void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line, name, strlen(name)) == 0)
			ck_assert_int_eq(sscanf(line + strlen(name), "%*s %llu", &hard), 1);
	(void)fclose(file);
	return hard;
}

START_TEST(limits_are_changed)
{
	const struct host_limits l = { .max_open_files = 40, .max_file_size_bytes = 123456 }, more = { .max_open_files = 101 };
	char path[FIXTURE_PATH], r[8192];
	const char *const arguments[] = { "--config", path, NULL };
	struct spawner_message m;
	struct fixture f;
	struct started s;
	int spec = spec_of("{}"), bare = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	fixture_init(&f);
	fixture_path(&f, "conf", path);
	file_write(&f, "conf", "max_open_files = 100\n");
	f.daemon = daemon_spawn(&f, "log", arguments);
	control_accept(&f);
	control_ready(&f);
	ck_assert_int_eq(limit_host(&f, "web", 1, &l, spec).status, ENOENT);
	hold(&f, "web");
	ck_assert_int_eq(limit_host(&f, "web", 0, &l, spec).status, ESRCH); /* no process */
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	m = message_of(SPAWNER_LIMIT, "web");
	m.generation = s.generation;
	ck_assert_int_eq(ask(&f, m, NULL, 0, NULL, NULL).status, EINVAL); /* without a spec */
	ck_assert_int_eq(limit_host(&f, "web", s.generation + 1, &l, spec).status, ESRCH);
	ck_assert_int_eq(limit_host(&f, "web", s.generation, &more, spec).status, EPERM);
	ck_assert_int_eq(limit_host(&f, "web", s.generation, &l, bare).status, EINVAL);
	ck_assert_uint_ne(limit_now(s.pid, "Max open files"), 40);
	m = limit_host(&f, "web", s.generation, &l, spec);
	ck_assert_uint_eq(m.op, SPAWNER_OK);
	ck_assert_uint_eq(m.value, 0);
	ck_assert_uint_eq(limit_now(s.pid, "Max open files"), 40);
	ck_assert_uint_eq(limit_now(s.pid, "Max file size"), 123456);
	m = ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL);
	ck_assert_uint_eq(m.limits.max_open_files, 40);
	(void)close(spec);
	(void)close(bare);
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

START_TEST(exit_is_kept_until_acknowledged)
{
	struct fixture f;
	struct started s;
	struct spawner_message m;
	char r[8192];

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	ck_assert_int_eq(kill(f.control_pid, SIGSTOP), 0); /* it shall not hear of it */
	tell(&s, "exit 5");
	wait_readable(s.out, "the host's end");
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	control_accept(&f);
	for (int i = 0; i < 2; i++) {
		m = ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL);
		ck_assert_uint_eq(m.op, SPAWNER_ENTRY);
		ck_assert(m.flags & SPAWNER_F_EXITED);
		ck_assert_int_eq(m.status, 5 << 8);
		ck_assert_int_eq(m.pid, 0);
		ck_assert_uint_eq(m.generation, s.generation);
		ck_assert(m.flags & SPAWNER_F_STDOUT); /* its last words can still be read */
	}
	acknowledge(&f, "web", s.generation + 7); /* not this one */
	ck_assert(ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).flags & SPAWNER_F_EXITED);
	acknowledge(&f, "web", s.generation);
	m = ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL);
	ck_assert_uint_eq(m.flags, SPAWNER_F_SPEC);
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "web"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, NULL, NULL).op, SPAWNER_TABLE_END);
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

START_TEST(failed_exec_is_named)
{
	struct fixture f;
	struct started s;
	struct spawner_message m;
	char path[FIXTURE_PATH];

	fixture_init(&f);
	fixture_path(&f, "exe/sandbox-host", path);
	ck_assert_int_eq(chmod(path, 0644), 0);
	f.daemon = daemon_spawn(&f, "log", NULL);
	control_accept(&f);
	control_ready(&f);
	hold(&f, "web");
	s = start_asked(&f, "web", "low", (struct host_limits){ 0 });
	m = notice_wait(&f, SPAWNER_EXITED);
	ck_assert_uint_eq(m.generation, s.generation);
	ck_assert_int_eq(m.status, 127 << 8);
	ck_assert_str_eq(m.name, "exec sandbox-host");
	ck_assert_str_eq(m.text, "Permission denied"); /* its reader puts the name in front */
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

START_TEST(group_dies_with_its_host)
{
	struct fixture f;
	struct started s;
	char r[8192];
	pid_t child;

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	tell(&s, "child");
	hear(&s, r, sizeof r);
	child = (pid_t)atoi(r);
	ck_assert_int_gt(child, 1);
	tell(&s, "exit 0");
	ck_assert_int_eq(notice_wait(&f, SPAWNER_EXITED).status, 0);
	eventually(process_gone(child)); /* reaped too: the spawner adopts orphans */
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

/* Only where a sandbox has a uid of its own can its escaped processes be told from others'; without, they end with the daemon. */
START_TEST(what_escaped_ends_with_its_host)
{
	struct fixture f;
	struct started s;
	struct pollfd end;
	char r[8192];

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	tell(&s, "escape");
	hear(&s, r, sizeof r);
	wait_readable(s.error, "the escaped one");
	tell(&s, "exit 0");
	(void)notice_wait(&f, SPAWNER_EXITED);
	end = (struct pollfd){ .fd = s.error };
	if (geteuid() == 0)
		eventually(poll(&end, 1, 0) == 1 && (end.revents & POLLHUP));
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "web"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
	daemon_finish(&f);
	eventually(poll(&end, 1, 0) == 1 && (end.revents & POLLHUP));
	started_close(&s);
}
END_TEST

static char process_state(pid_t pid)
{
	char path[40], text[256] = "", *at;
	FILE *file;

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return '-';
	(void)!fgets(text, sizeof text, file);
	(void)fclose(file);
	at = strrchr(text, ')');
	return at ? at[2] : '?';
}

/* The host and its child stand, and aren't killed for it; they go on; a generation that is gone can't be frozen. */
START_TEST(freeze_and_thaw)
{
	struct fixture f;
	struct started s;
	char r[8192];
	pid_t child;

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	tell(&s, "child");
	hear(&s, r, sizeof r);
	child = (pid_t)atoi(r);
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_FREEZE).op, SPAWNER_OK);
	eventually(process_state(s.pid) == 'T' && process_state(child) == 'T');
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_FREEZE).op, SPAWNER_OK);
	ck_assert_int_eq(signal_host(&f, "web", s.generation + 1, SPAWNER_SIGNAL_THAW).status, ESRCH);
	ck_assert_int_eq(process_state(s.pid), 'T');
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_THAW).op, SPAWNER_OK);
	eventually(process_state(s.pid) != 'T' && process_state(child) != 'T');
	tell(&s, "child"); /* it lives and answers */
	hear(&s, r, sizeof r);
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_FREEZE).op, SPAWNER_OK);
	ck_assert_uint_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_KILL).op, SPAWNER_OK);
	(void)notice_wait(&f, SPAWNER_EXITED);
	ck_assert_int_eq(signal_host(&f, "web", s.generation, SPAWNER_SIGNAL_FREEZE).status, ESRCH);
	eventually(process_gone(child));
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

START_TEST(full_log_pipes_are_drained_without_control)
{
	struct fixture f;
	struct started s, found;
	struct spawner_message m;
	int fds[FD_MESSAGE_MAX];
	char r[8192], marker[FIXTURE_PATH];
	size_t n;
	int waiting = -1;

	daemon_start(&f);
	hold(&f, "web");
	s = start(&f, "web");
	hear(&s, r, sizeof r);
	/* Controls that exit at once: each keeps the place empty for longer. */
	file_write(&f, "control-exits", "");
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	eventually(log_has(&f, "log", "exited with 3"));
	tell(&s, "write 1000000"); /* a pipe has room for 65,536 */
	hear(&s, r, sizeof r);
	ck_assert_str_eq(r, "written");
	fixture_path(&f, "control-exits", marker);
	ck_assert_int_eq(unlink(marker), 0);
	control_accept(&f);
	m = ask(&f, message_of(SPAWNER_TABLE, NULL), NULL, 0, fds, &n);
	ck_assert_uint_eq(n, 4);
	(void)close(fds[0]);
	found = (struct started){ m.generation, m.pid, fds[1], fds[2], fds[3] };
	ck_assert_int_eq(ioctl(found.out, FIONREAD, &waiting), 0);
	ck_assert_uint_eq(m.dropped_bytes + (uint64_t)waiting, 1000000);
	ck_assert_uint_gt(m.dropped_bytes, 900000);
	started_close(&s);
	started_close(&found);
	daemon_finish(&f);
}
END_TEST

START_TEST(hosts_outlive_control)
{
	struct fixture f;
	struct started s[20];
	struct spawner_message m = message_of(SPAWNER_TABLE, NULL);
	char r[8192], name[16];
	int seen = 0;

	daemon_start(&f);
	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof name, "s%d", i);
		hold(&f, name);
		s[i] = start(&f, name);
		hear(&s[i], r, sizeof r);
	}
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	control_accept(&f);
	for (;;) {
		struct spawner_message entry = ask(&f, m, NULL, 0, NULL, NULL);
		int i;

		if (entry.op == SPAWNER_TABLE_END)
			break;
		i = atoi(entry.sandbox + 1);
		ck_assert_int_eq(entry.pid, s[i].pid);
		seen++;
		m.value = entry.value;
	}
	ck_assert_int_eq(seen, 20);
	for (int i = 0; i < 20; i++) { /* all at once: each status is told */
		(void)snprintf(name, sizeof name, "exit %d", i);
		tell(&s[i], name);
	}
	for (int i = 0; i < 20; i++) {
		m = notice_wait(&f, SPAWNER_EXITED);
		ck_assert_int_eq(m.status, atoi(m.sandbox + 1) << 8);
	}
	for (int i = 0; i < 20; i++)
		started_close(&s[i]);
	daemon_finish(&f);
}
END_TEST

static int descriptors_of(pid_t pid)
{
	char path[64];
	int n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* ---- second processes ---- */

static struct started start_candidate(struct fixture *f, const char *sandbox)
{
	struct started s = start_asked_as(f, sandbox, "low", (struct host_limits){ 0 }, SPAWNER_F_CANDIDATE);
	struct spawner_message m;

	do
		m = notice_wait(f, SPAWNER_BORN);
	while (m.generation != s.generation);
	s.pid = m.pid;
	return s;
}

static struct spawner_message second_ask(struct fixture *f, uint16_t op, const char *sandbox, uint64_t generation)
{
	struct spawner_message m = message_of(op, sandbox);
	int spec = spec_of("promoted");

	m.generation = generation;
	m = ask(f, m, &spec, op == SPAWNER_PROMOTE, NULL, NULL);
	(void)close(spec);
	return m;
}

static struct spawner_message only_entry(struct fixture *f, char spec[32])
{
	struct spawner_message m = message_of(SPAWNER_TABLE, NULL), entry;
	int fds[FD_MESSAGE_MAX];
	size_t n = 0;
	ssize_t size;

	entry = ask(f, m, NULL, 0, fds, &n);
	ck_assert_uint_eq(entry.op, SPAWNER_ENTRY);
	size = pread(fds[0], spec, 31, 0);
	spec[size > 0 ? size : 0] = '\0';
	while (n > 0)
		(void)close(fds[--n]);
	m.value = entry.value;
	ck_assert_uint_eq(ask(f, m, NULL, 0, NULL, NULL).op, SPAWNER_TABLE_END);
	return entry;
}

static void wait_gone(pid_t pid)
{
	for (int64_t until = test_now_ms() + 20000; !process_gone(pid); (void)poll(NULL, 0, 2))
		ck_assert_msg(test_now_ms() < until, "process %d doesn't end", (int)pid);
}

START_TEST(a_candidate_is_promoted)
{
	struct spawner_message m;
	struct fixture f;
	struct started old, next;
	char r[8192], spec[32], path[FIXTURE_PATH];
	struct stat st;

	daemon_start(&f);
	hold(&f, "web");
	old = start(&f, "web");
	hear(&old, r, sizeof r);
	file_write(&f, "run/objects/web/abc.object", "stored");
	next = start_candidate(&f, "web");
	hear(&next, r, sizeof r);
	ck_assert_uint_gt(next.generation, old.generation);
	if (geteuid() == 0)
		ck_assert_uint_ne((uid_t)report_number(r, "uids"), 0);
	m = only_entry(&f, spec); /* a sandbox has one process, as far as a successor is told */
	ck_assert(m.pid == old.pid && strcmp(spec, "spec") == 0 && !(m.flags & SPAWNER_F_SECOND));
	fixture_path(&f, "run/objects/web+", path);
	ck_assert_int_eq(stat(path, &st), 0);

	/* What is refused changes nothing. */
	m = message_of(SPAWNER_START, "web");
	m.flags = SPAWNER_F_CANDIDATE;
	(void)snprintf(m.name, sizeof m.name, "low");
	ck_assert_int_eq(ask(&f, m, NULL, 0, NULL, NULL).status, EBUSY);
	m.flags |= SPAWNER_F_HOLD;
	ck_assert_int_eq(ask(&f, m, NULL, 0, NULL, NULL).status, EINVAL);
	ck_assert_int_eq(second_ask(&f, SPAWNER_PROMOTE, "web", old.generation).status, ESRCH);
	ck_assert_int_eq(second_ask(&f, SPAWNER_DISCARD, "web", old.generation).status, ESRCH);
	ck_assert_int_eq(second_ask(&f, SPAWNER_PROMOTE, "nobody", next.generation).status, ENOENT);

	ck_assert_uint_eq(second_ask(&f, SPAWNER_PROMOTE, "web", next.generation).op, SPAWNER_OK);
	ck_assert_int_eq(second_ask(&f, SPAWNER_PROMOTE, "web", next.generation).status, ESRCH); /* it is no candidate any more */
	ck_assert_int_eq(second_ask(&f, SPAWNER_DISCARD, "web", 0).status, ESRCH);
	m = only_entry(&f, spec);
	ck_assert(m.pid == next.pid && m.generation == next.generation && strcmp(spec, "promoted") == 0 && (m.flags & SPAWNER_F_SECOND));
	fixture_path(&f, "run/objects/web+/abc.object", path);
	ck_assert_int_eq(stat(path, &st), 0);
	fixture_path(&f, "run/objects/web", path);
	ck_assert_int_eq(stat(path, &st), -1);

	tell(&old, "exit 7"); /* the end of the one before is told, with its generation */
	m = notice_wait(&f, SPAWNER_EXITED);
	ck_assert(m.generation == old.generation && m.status == 7 << 8);
	acknowledge(&f, "web", old.generation);
	ck_assert_uint_eq(signal_host(&f, "web", next.generation, SPAWNER_SIGNAL_KILL).op, SPAWNER_OK);
	ck_assert_uint_eq(notice_wait(&f, SPAWNER_EXITED).generation, next.generation);
	acknowledge(&f, "web", next.generation);
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "web"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
	fixture_path(&f, "run/objects/web+", path);
	ck_assert_int_eq(stat(path, &st), -1);
	started_close(&old);
	started_close(&next);
	daemon_finish(&f);
}
END_TEST

START_TEST(a_candidate_is_discarded)
{
	struct spawner_message m;
	struct fixture f;
	struct started old, next;
	char r[8192], spec[32];
	int first = 0;

	daemon_start(&f);
	hold(&f, "web");
	m = message_of(SPAWNER_START, "web");
	m.flags = SPAWNER_F_CANDIDATE;
	(void)snprintf(m.name, sizeof m.name, "low");
	ck_assert_int_eq(ask(&f, m, NULL, 0, NULL, NULL).status, ESRCH); /* there is nobody whom it could follow */
	old = start(&f, "web");
	hear(&old, r, sizeof r);
	for (int i = 0; i < 30; i++) {
		next = start_candidate(&f, "web");
		hear(&next, r, sizeof r);
		if (i % 3 == 0) { /* it has ended: there is nothing to be promoted */
			tell(&next, "exit 3");
			ck_assert_uint_eq(notice_wait(&f, SPAWNER_EXITED).generation, next.generation);
			ck_assert_int_eq(second_ask(&f, SPAWNER_PROMOTE, "web", next.generation).status, ESRCH);
		}
		ck_assert_uint_eq(second_ask(&f, SPAWNER_DISCARD, "web", i % 2 ? next.generation : 0).op, SPAWNER_OK);
		wait_gone(next.pid);
		started_close(&next);
		ck_assert_int_eq(only_entry(&f, spec).pid, old.pid);
		if (geteuid() == 0 && i == 2)
			first = descriptors_of(f.daemon);
	}
	if (geteuid() == 0)
		ck_assert_int_le(descriptors_of(f.daemon), first);
	next = start_asked_as(&f, "web", "low", (struct host_limits){ 0 }, SPAWNER_F_CANDIDATE); /* not born yet, maybe */
	ck_assert_uint_eq(second_ask(&f, SPAWNER_DISCARD, "web", 0).op, SPAWNER_OK);
	started_close(&next);
	started_close(&old);
	daemon_finish(&f);
}
END_TEST

/* Control dies with a candidate, or with one that was replaced and hasn't ended: its successor finds one process, and there is one. */
START_TEST(a_successor_finds_one_process)
{
	struct fixture f;
	struct started old, next;
	char r[8192], spec[32];

	daemon_start(&f);
	hold(&f, "web");
	old = start(&f, "web");
	hear(&old, r, sizeof r);
	next = start_candidate(&f, "web");
	hear(&next, r, sizeof r);
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	control_accept(&f);
	control_ready(&f);
	ck_assert_int_eq(only_entry(&f, spec).pid, old.pid);
	wait_gone(next.pid);
	started_close(&next);

	next = start_candidate(&f, "web");
	hear(&next, r, sizeof r);
	ck_assert_uint_eq(second_ask(&f, SPAWNER_PROMOTE, "web", next.generation).op, SPAWNER_OK);
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	control_accept(&f);
	control_ready(&f);
	ck_assert_int_eq(only_entry(&f, spec).pid, next.pid);
	wait_gone(old.pid);
	ck_assert(!process_gone(next.pid));
	started_close(&next);
	started_close(&old);
	daemon_finish(&f);
}
END_TEST

static void check_host_reads(struct started *s, const char *path, const char *want)
{
	char word[FIXTURE_PATH + 16], heard[128];

	(void)snprintf(word, sizeof word, "read %s", path);
	tell(s, word);
	hear(s, heard, sizeof heard);
	ck_assert_msg(strcmp(heard, want) == 0, "%s: %s", path, heard);
}

/* Control writes objects that this sandbox's host can read, and no other's. */
START_TEST(objects_folders_are_private)
{
	struct fixture f;
	struct started a, b;
	char path[FIXTURE_PATH], r[8192];
	struct stat st;
	uid_t uid;
	bool root = geteuid() == 0;

	daemon_start(&f);
	uid = hold(&f, "a");
	hold(&f, "b");
	a = start(&f, "a");
	hear(&a, r, sizeof r);
	b = start(&f, "b");
	hear(&b, r, sizeof r);
	fixture_path(&f, "run/objects/a", path);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, root ? 02750 : 0700);
	ck_assert_uint_eq(st.st_uid, (uid_t)report_number(f.report, "uids"));
	if (root) {
		pid_t pid = fork();
		int status;

		ck_assert_uint_eq(st.st_gid, uid);
		fixture_path(&f, "run/objects/a/1.so", path);
		if (pid == 0) { /* as control, with its umask */
			(void)umask((mode_t)strtol(strstr(f.report, "umask=") + 6, NULL, 8));
			if (setresgid(st.st_uid, st.st_uid, st.st_uid) == -1 || setresuid(st.st_uid, st.st_uid, st.st_uid) == -1)
				_exit(1);
			_exit(open(path, O_WRONLY | O_CREAT | O_EXCL, 0640) == -1 ? 2 : 0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		check_host_reads(&a, path, "readable");
		check_host_reads(&b, path, "Permission denied");
		fixture_path(&f, "state", path);
		check_host_reads(&a, path, "Permission denied");
	}
	started_close(&a);
	started_close(&b);
	daemon_finish(&f);
}
END_TEST

/* What lies in an objects folder is removed; what a link in it points to is not. */
START_TEST(forget_follows_no_link)
{
	struct fixture f;
	char path[FIXTURE_PATH], target[FIXTURE_PATH];
	struct stat st;

	daemon_start(&f);
	hold(&f, "a");
	fixture_path(&f, "precious", target);
	ck_assert_int_eq(mkdir(target, 0755), 0);
	file_write(&f, "precious/file", "x");
	fixture_path(&f, "run/objects/a/link", path);
	ck_assert_int_eq(symlink(target, path), 0);
	fixture_path(&f, "run/objects/a/folder", path);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	file_write(&f, "run/objects/a/folder/file", "y");
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "a"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
	fixture_path(&f, "run/objects/a", path);
	ck_assert_int_eq(lstat(path, &st), -1);
	fixture_path(&f, "precious/file", path);
	ck_assert_int_eq(lstat(path, &st), 0);
	daemon_finish(&f);
}
END_TEST

/* A freed uid is the last to be used again; more than one slice is locked when needed. */
START_TEST(uids_are_used_in_turn)
{
	struct fixture f;
	uid_t first, uid = 0;
	char name[16];

	daemon_start(&f);
	first = hold(&f, "first");
	ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "first"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
	for (int i = 0; i < 260; i++) {
		(void)snprintf(name, sizeof name, "s%d", i);
		uid = hold(&f, name);
		if (geteuid() == 0 && i < 253)
			ck_assert_uint_ne(uid, first);
	}
	if (geteuid() == 0)
		ck_assert_uint_ge(uid, first + 254); /* of another slice */
	else
		ck_assert_uint_eq(uid, geteuid());
	daemon_finish(&f);
}
END_TEST

/* Starts, failures, refusals, keeps: the spawner has as many descriptors after fifty rounds as after one. It may not be looked
 * at by its own user, so that here an ordinary user checks by its limit: 240 would be used up. */
START_TEST(no_descriptor_leaks)
{
	struct rlimit few = { 240, 240 };
	struct fixture f;
	int first = 0;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	daemon_start(&f);
	for (int i = 0; i < 50; i++) {
		int spec = spec_of("spec");
		struct spawner_message m = message_of(SPAWNER_KEEP, "web");
		struct started s;
		char r[8192];

		hold(&f, "web");
		ck_assert_uint_eq(ask(&f, message_of(SPAWNER_HOLD, "web"), &spec, 1, NULL, NULL).op, SPAWNER_ERROR);
		m.kind = SPAWNER_KEEP_STATE;
		ck_assert_uint_eq(ask(&f, m, &spec, 1, NULL, NULL).op, SPAWNER_OK);
		m.kind = 77;
		ck_assert_uint_eq(ask(&f, m, &spec, 1, NULL, NULL).op, SPAWNER_ERROR);
		s = start(&f, "web");
		hear(&s, r, sizeof r);
		tell(&s, "exit 0");
		(void)notice_wait(&f, SPAWNER_EXITED);
		acknowledge(&f, "web", s.generation);
		ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "web"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
		started_close(&s);
		(void)close(spec);
		if (geteuid() == 0 && i == 0)
			first = descriptors_of(f.daemon);
	}
	if (geteuid() == 0)
		ck_assert_int_eq(descriptors_of(f.daemon), first);
	daemon_finish(&f);
}
END_TEST

CHECK_MAIN("spawner_hosts", tcase_add_unchecked_fixture(tc, fixture_root_make, fixture_root_remove);
	tcase_add_test(tc, host_is_clean); tcase_add_test(tc, limits_are_set_and_ceilings_kept);
	tcase_add_test(tc, exact_exit_statuses); tcase_add_test(tc, generations); tcase_add_test(tc, limits_are_changed);
	tcase_add_test(tc, exit_is_kept_until_acknowledged); tcase_add_test(tc, failed_exec_is_named);
	tcase_add_test(tc, group_dies_with_its_host); tcase_add_test(tc, what_escaped_ends_with_its_host); tcase_add_test(tc, freeze_and_thaw);
	tcase_add_test(tc, full_log_pipes_are_drained_without_control); tcase_add_test(tc, hosts_outlive_control);
	tcase_add_test(tc, objects_folders_are_private); tcase_add_test(tc, forget_follows_no_link);
	tcase_add_test(tc, a_candidate_is_promoted); tcase_add_test(tc, a_candidate_is_discarded); tcase_add_test(tc, a_successor_finds_one_process);
	tcase_add_test(tc, uids_are_used_in_turn); tcase_add_test(tc, no_descriptor_leaks))
