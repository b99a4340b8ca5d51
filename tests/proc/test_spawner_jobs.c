/* SPDX-License-Identifier: MIT
 *
 * Compile jobs: results, diagnostics, time limits, kills, confinement, nothing left behind. */
#include <elf.h>

#include "tests/support/spawner_fixture.h"

static const char good[] = "#include \"sandbox_module.h\"\nint answer(void);\n__attribute__((visibility(\"default\"))) int answer(void)"
			   "\n{\n\treturn FROM_THE_HEADER;\n}\n";

/* Reads itself twice, each time: the preprocessor is busy for as long as one likes. */
static const char endless[] = "#if __INCLUDE_LEVEL__ < 150\n#include __FILE__\n#include __FILE__\n#endif\n";

static struct spawner_message job_message(const char *name, uint32_t timeout_ms)
{
	struct spawner_message m = message_of(SPAWNER_JOB, NULL);

	m.kind = SPAWNER_JOB_COMPILE_C;
	m.timeout_ms = timeout_ms;
	(void)snprintf(m.name, sizeof m.name, "%s", name);
	return m;
}

struct result {
	struct spawner_message m;
	char *diagnostics, *object;
	size_t object_size;
};

static struct result compile(struct fixture *f, const char *name, const char *text, uint32_t timeout_ms)
{
	int source = spec_of(text), fds[FD_MESSAGE_MAX];
	struct result r = { .object = NULL };
	struct err e = ERR_INIT;
	size_t n = 0;

	r.m = ask(f, job_message(name, timeout_ms), &source, 1, fds, &n);
	(void)close(source);
	if (r.m.op != SPAWNER_JOB_DONE)
		return r;
	ck_assert_uint_eq(n, r.m.status == 0 ? 2 : 1);
	ck_assert(fd_is_memfd_sealed(fds[0]));
	r.diagnostics = fd_read_all(fds[0], LIMIT_DIAGNOSTICS_BYTES, NULL, &e);
	ck_assert_msg(r.diagnostics != NULL, "%s", e.text);
	(void)close(fds[0]);
	if (n == 2) {
		r.object = fd_read_all(fds[1], LIMIT_OBJECT_BYTES, &r.object_size, &e);
		ck_assert_msg(r.object != NULL, "%s", e.text);
		(void)close(fds[1]);
	}
	return r;
}

static void result_free(struct result *r)
{
	free(r->diagnostics);
	free(r->object);
}

static bool jobs_empty(const struct fixture *f)
{
	char path[FIXTURE_PATH];
	int n = 0;
	DIR *dir;

	fixture_path(f, "run/jobs", path);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n == 2;
}

START_TEST(good_source)
{
	struct fixture f;
	struct result r, again;

	daemon_start(&f);
	r = compile(&f, "answer.c", good, 0);
	ck_assert_msg(r.m.op == SPAWNER_JOB_DONE, "%s", r.m.text);
	ck_assert_msg(r.m.status == 0, "%d %s %s: %s", r.m.status, r.m.name, r.m.text, r.diagnostics);
	ck_assert_uint_gt(r.object_size, sizeof(Elf64_Ehdr));
	ck_assert_int_eq(memcmp(r.object, ELFMAG, SELFMAG), 0);
	ck_assert_str_eq(r.diagnostics, "");
	ck_assert(jobs_empty(&f));
	again = compile(&f, "answer.c", good, 0); /* the same source is the same object, byte for byte */
	ck_assert_uint_eq(again.object_size, r.object_size);
	ck_assert_int_eq(memcmp(again.object, r.object, r.object_size), 0);
	result_free(&r);
	result_free(&again);
	daemon_finish(&f);
}
END_TEST

START_TEST(failing_sources)
{
	struct fixture f;
	struct result r;

	daemon_start(&f);
	r = compile(&f, "bad.c", "int f(void)\n{\n\treturn x;\n}\n", 0);
	ck_assert_int_eq(r.m.status, 1 << 8);
	ck_assert_ptr_nonnull(strstr(r.diagnostics, "bad.c:3:16: error: "));
	ck_assert_ptr_null(strstr(r.diagnostics, "\033"));
	result_free(&r);
	r = compile(&f, "undefined.c", "extern int nowhere(void);\nint f(void);\nint f(void)\n{\n\treturn nowhere();\n}\n", 0);
	ck_assert_int_eq(r.m.status, 1 << 8); /* told now, not when the object is loaded */
	ck_assert_ptr_nonnull(strstr(r.diagnostics, "nowhere"));
	result_free(&r);
	daemon_finish(&f);
}
END_TEST

/* gcc prints lines of files that it can read: those of root and of other jobs are not among them. */
START_TEST(secrets_are_not_printed)
{
	struct fixture f;
	struct result r;

	daemon_start(&f);
	r = compile(&f, "thief.c", "#include \"/etc/shadow\"\n", 0);
	ck_assert_int_ne(r.m.status, 0);
	ck_assert_ptr_nonnull(strstr(r.diagnostics, "/etc/shadow: Permission denied"));
	result_free(&r);
	daemon_finish(&f);
}
END_TEST

START_TEST(time_limit)
{
	struct fixture f;
	struct result r;
	long before;

	daemon_start(&f);
	before = test_now_ms();
	r = compile(&f, "endless.c", endless, 300);
	ck_assert_int_eq(r.m.status, SIGKILL);
	ck_assert(r.m.flags & SPAWNER_F_TIMED_OUT);
	ck_assert_int_ge(test_now_ms() - before, 300);
	eventually(jobs_empty(&f));
	result_free(&r);
	daemon_finish(&f);
}
END_TEST

START_TEST(kill_and_limits_of_jobs)
{
	struct fixture f;
	int source = spec_of(endless);
	struct spawner_message m = job_message("endless.c", 0), kill_m = message_of(SPAWNER_JOB_KILL, NULL), reply;

	daemon_start(&f);
	for (uint64_t tag = 101; tag <= 102; tag++) { /* max_jobs is 2 */
		m.tag = tag;
		message_send(&f, &m, &source, 1);
	}
	m.tag = 103;
	reply = ask(&f, m, &source, 1, NULL, NULL);
	ck_assert_uint_eq(reply.op, SPAWNER_ERROR);
	ck_assert_int_eq(reply.status, EAGAIN);
	kill_m.value = 999; /* nobody's */
	message_send(&f, &kill_m, NULL, 0);
	kill_m.value = 102;
	message_send(&f, &kill_m, NULL, 0);
	ck_assert(message_next(&f, &reply, NULL, NULL));
	ck_assert_uint_eq(reply.op, SPAWNER_JOB_DONE);
	ck_assert_uint_eq(reply.tag, 102);
	ck_assert_int_eq(reply.status, SIGKILL);
	ck_assert_uint_eq(reply.flags & SPAWNER_F_TIMED_OUT, 0);
	(void)close(source);
	daemon_finish(&f); /* with one that runs */
}
END_TEST

START_TEST(bad_requests)
{
	static const char *const names[] = { "", "a", "a.h", "../a.c", "-a.c", "a/b.c" };
	struct fixture f;
	struct result r;
	int unsealed = memfd_create("source", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	daemon_start(&f);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		r = compile(&f, names[i], good, 0);
		ck_assert_uint_eq(r.m.op, SPAWNER_ERROR);
		ck_assert_int_eq(r.m.status, EINVAL);
	}
	r = compile(&f, "a.c", good, DEFAULT_COMPILE_TIMEOUT_MS + 1);
	ck_assert_int_eq(r.m.status, EPERM);
	ck_assert_int_eq(ask(&f, job_message("a.c", 0), &unsealed, 1, NULL, NULL).status, EINVAL);
	ck_assert_int_eq(ask(&f, job_message("a.c", 0), NULL, 0, NULL, NULL).status, EINVAL);
	(void)close(unsealed);
	daemon_finish(&f);
}
END_TEST

START_TEST(jobs_end_with_their_control)
{
	struct fixture f;
	int source = spec_of(endless);
	struct spawner_message m = job_message("endless.c", 0);
	struct result r;

	daemon_start(&f);
	m.tag = 77;
	message_send(&f, &m, &source, 1);
	eventually(!jobs_empty(&f));
	ck_assert_int_eq(kill(f.control_pid, SIGKILL), 0);
	control_accept(&f);
	eventually(jobs_empty(&f));
	r = compile(&f, "answer.c", good, 0); /* and its successor hears nothing of them */
	ck_assert_int_eq(r.m.status, 0);
	result_free(&r);
	(void)close(source);
	daemon_finish(&f);
}
END_TEST

/* The header's name is taken; a source of that name can't be (it ends in .h), nor can one climb out of its folder. */
START_TEST(source_names_are_kept)
{
	struct fixture f;
	struct result r;

	daemon_start(&f);
	r = compile(&f, "a..b.c", "#error here\n", 0);
	ck_assert_ptr_nonnull(strstr(r.diagnostics, "a..b.c:1:2: error: #error here"));
	result_free(&r);
	daemon_finish(&f);
}
END_TEST

CHECK_MAIN("spawner_jobs", tcase_add_unchecked_fixture(tc, fixture_root_make, fixture_root_remove);
	tcase_add_test(tc, good_source); tcase_add_test(tc, failing_sources); tcase_add_test(tc, secrets_are_not_printed);
	tcase_add_test(tc, time_limit); tcase_add_test(tc, kill_and_limits_of_jobs); tcase_add_test(tc, bad_requests);
	tcase_add_test(tc, jobs_end_with_their_control); tcase_add_test(tc, source_names_are_kept))
