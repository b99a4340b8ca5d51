/* SPDX-License-Identifier: MIT
 *
 * The zygote as the spawner sees it: what happens to a start when it fails, dies, stops or says nothing, and to hosts that live. */
#include "tests/support/spawner_fixture.h"

#define CROWD 40
#define THRONG 80 /* more than are made at once on the largest machine */
#define KILLS 10 /* in a row: fewer than the spawner takes before it says that no zygote comes up */

/* The zygote's pid, found among the daemon's children by its name, which a host that was just cloned has as well, but not a session. */
static pid_t zygote_of(const struct fixture *f)
{
	char path[64], text[4096], *at = text;
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)f->daemon, (int)f->daemon);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	n = fread(text, 1, sizeof text - 1, file);
	text[n] = '\0';
	(void)fclose(file);
	for (char *end;; at = end) {
		long pid = strtol(at, &end, 10);
		char name[32] = "";

		if (end == at)
			return 0;
		(void)snprintf(path, sizeof path, "/proc/%ld/comm", pid);
		file = fopen(path, "re");
		if (file && fgets(name, sizeof name, file) && strncmp(name, "sandbox-zygote", 14) == 0 &&
			getsid((pid_t)pid) == (pid_t)pid) {
			(void)fclose(file);
			return (pid_t)pid;
		}
		if (file)
			(void)fclose(file);
	}
}

static void check_answers(struct started *s)
{
	char r[8192];

	tell(s, "ping");
	hear(s, r, sizeof r);
	ck_assert_str_eq(r, "pong");
}

static const struct {
	const char *word, *step;
	int sys_errno;
} failures[] = { { "fail", "a step", EDOM }, { "exit", "get ready", ECHILD } };

/* A zygote that can't get ready is tried a few times; the starts that wait are told the step. The next start tries again. */
START_TEST(failed_steps_are_named)
{
	struct fixture f;
	struct spawner_message m;
	struct started s[2];
	char r[8192], path[FIXTURE_PATH];

	daemon_start(&f);
	hold(&f, "a");
	hold(&f, "b");
	file_write(&f, "run/zygote", failures[_i].word);
	s[0] = start_asked(&f, "a", "low", (struct host_limits){ 0 });
	s[1] = start_asked(&f, "b", "low", (struct host_limits){ 0 });
	for (int i = 0; i < 2; i++) {
		m = notice_wait(&f, SPAWNER_EXITED);
		ck_assert_uint_eq(m.generation, s[m.sandbox[0] - 'a'].generation);
		ck_assert_int_eq(m.status, 127 << 8);
		ck_assert_str_eq(m.name, failures[_i].step);
		ck_assert_ptr_nonnull(strstr(m.text, strerror(failures[_i].sys_errno)));
		started_close(&s[m.sandbox[0] - 'a']);
	}
	fixture_path(&f, "run/zygote", path);
	ck_assert_int_eq(unlink(path), 0);
	s[0] = start(&f, "a");
	hear(&s[0], r, sizeof r);
	check_answers(&s[0]);
	started_close(&s[0]);
	daemon_finish(&f);
}
END_TEST

static const char *const faults[] = { "die", "stop", "mute" };

/* One that has taken a request and never answers it: the next one is asked, and the host is made once. */
START_TEST(unanswered_starts_are_asked_again)
{
	struct fixture f;
	struct started s, other;
	char r[8192];

	daemon_start(&f);
	hold(&f, "a");
	hold(&f, "b");
	file_write(&f, "run/zygote", faults[_i]);
	s = start_asked(&f, "a", "low", (struct host_limits){ 0 });
	other = start(&f, "b");
	hear(&other, r, sizeof r);
	hear(&s, r, sizeof r);
	ck_assert(report_has(r, "argv=sandbox-host zygote "));
	check_answers(&s);
	check_answers(&other);
	started_close(&s);
	started_close(&other);
	daemon_finish(&f);
}
END_TEST

static int living(struct fixture *f)
{
	struct spawner_message ask_for = message_of(SPAWNER_TABLE, NULL), m;
	int n = 0;

	while ((m = ask(f, ask_for, NULL, 0, NULL, NULL)).op == SPAWNER_ENTRY) {
		n += m.pid > 0;
		ask_for.value = m.value;
	}
	return n;
}

/* Killed again and again while hosts are being made: each start is answered by one host, and those that live don't notice. */
START_TEST(killed_zygotes_lose_no_start)
{
	struct fixture f;
	struct started first, s[CROWD];
	char r[8192], name[16];
	int killed = 0;

	daemon_start(&f);
	hold(&f, "first");
	first = start(&f, "first");
	hear(&first, r, sizeof r);
	for (int i = 0; i < CROWD; i++) {
		pid_t zygote = zygote_of(&f);

		(void)snprintf(name, sizeof name, "s%d", i);
		hold(&f, name);
		s[i] = start_asked(&f, name, "low", (struct host_limits){ 0 });
		if (zygote > 0 && i % 2 == 0 && killed < KILLS)
			killed += kill(zygote, SIGKILL) == 0;
	}
	ck_assert_int_gt(killed, 0);
	for (int i = 0; i < CROWD; i++) {
		hear(&s[i], r, sizeof r);
		check_answers(&s[i]);
	}
	ck_assert_int_eq(living(&f), CROWD + 1);
	check_answers(&first);
	for (int i = 0; i < CROWD; i++)
		started_close(&s[i]);
	started_close(&first);
	daemon_finish(&f);
}
END_TEST

/* Only so many hosts are made at once as there are processors, and two; the others come when those are born. */
START_TEST(few_are_made_at_once)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct fixture f;
	struct started s[THRONG];
	struct stat asked;
	char r[8192], name[16];

	daemon_start(&f);
	file_write(&f, "run/zygote", "count");
	for (int i = 0; i < THRONG; i++) {
		(void)snprintf(name, sizeof name, "s%d", i);
		hold(&f, name);
		s[i] = start_asked(&f, name, "low", (struct host_limits){ 0 });
	}
	for (int i = 0; i < THRONG; i++) { /* by the next zygote: this one is killed when it has been silent for too long */
		hear(&s[i], r, sizeof r);
		check_answers(&s[i]);
		started_close(&s[i]);
	}
	fixture_path(&f, "run/asked", r);
	ck_assert_int_eq(stat(r, &asked), 0);
	ck_assert_int_eq(asked.st_size, (cpus > 64 ? 64 : cpus) + 2);
	daemon_finish(&f);
}
END_TEST

/* It is killed before anybody knows its pid, and its end is told all the same. */
START_TEST(kill_before_birth)
{
	struct fixture f;
	struct spawner_message m;
	struct started s;

	daemon_start(&f);
	hold(&f, "a");
	s = start_asked(&f, "a", "low", (struct host_limits){ 0 });
	m = message_of(SPAWNER_SIGNAL, "a");
	m.generation = s.generation;
	m.kind = SPAWNER_SIGNAL_KILL;
	ck_assert_uint_eq(ask(&f, m, NULL, 0, NULL, NULL).op, SPAWNER_OK);
	m = notice_wait(&f, SPAWNER_EXITED);
	ck_assert_uint_eq(m.generation, s.generation);
	ck_assert_int_eq(m.status, SIGKILL);
	started_close(&s);
	daemon_finish(&f);
}
END_TEST

/* Mounts in the daemon's view that are of this test's folder, or of the kind that hosts make; other daemons come and go. */
static int mounts_of(const struct fixture *f)
{
	char path[64], line[1024];
	FILE *file;
	int n = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)f->daemon);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof line, file))
		n += strstr(line, f->top) || strstr(line, " - tmpfs scratch ");
	(void)fclose(file);
	return n;
}

static int descriptors_of(pid_t pid)
{
	char path[64];
	struct dirent *d;
	DIR *dir;
	int n = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((d = readdir(dir)))
		n++;
	(void)closedir(dir);
	return n;
}

/* Nothing of a hundred confined hosts is left in the daemon: no mount, no descriptor. */
/* Each process is made when it is asked for; tests/e2e/test_spares.py has those that are made in advance. */
START_TEST(hosts_leave_nothing)
{
	struct fixture f;
	struct spawner_message m;
	char path[FIXTURE_PATH];
	const char *const arguments[] = { "--config", path, NULL };
	int before, descriptors = 0;

	fixture_init(&f);
	fixture_path(&f, "conf", path);
	file_write(&f, "conf", "spare_hosts = 0\n");
	f.daemon = daemon_spawn(&f, "log", arguments);
	control_accept(&f);
	control_ready(&f);
	before = mounts_of(&f);
	for (int i = 0; i < 100; i++) {
		struct started s;

		hold(&f, "a");
		s = start_asked(&f, "a", i % 2 ? "high" : "medium", (struct host_limits){ 0 });
		m = notice_wait(&f, SPAWNER_BORN);
		ck_assert_uint_eq(m.generation, s.generation);
		m = message_of(SPAWNER_SIGNAL, "a");
		m.generation = s.generation;
		m.kind = SPAWNER_SIGNAL_KILL;
		ck_assert_uint_eq(ask(&f, m, NULL, 0, NULL, NULL).op, SPAWNER_OK);
		(void)notice_wait(&f, SPAWNER_EXITED);
		ck_assert_uint_eq(ask(&f, message_of(SPAWNER_FORGET, "a"), NULL, 0, NULL, NULL).op, SPAWNER_OK);
		started_close(&s);
		if (i == 1) /* both zygotes are there */
			descriptors = descriptors_of(f.daemon);
	}
	ck_assert_int_eq(descriptors_of(f.daemon), descriptors);
	ck_assert_int_eq(mounts_of(&f), before);
	daemon_finish(&f);
}
END_TEST

CHECK_MAIN("zygote", tcase_add_unchecked_fixture(tc, fixture_root_make, fixture_root_remove);
	tcase_add_loop_test(tc, failed_steps_are_named, 0, sizeof failures / sizeof *failures);
	tcase_add_loop_test(tc, unanswered_starts_are_asked_again, 0, sizeof faults / sizeof *faults);
	tcase_add_test(tc, killed_zygotes_lose_no_start); tcase_add_test(tc, kill_before_birth);
	tcase_add_test(tc, few_are_made_at_once); tcase_add_test(tc, hosts_leave_nothing))
