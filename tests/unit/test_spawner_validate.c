/* SPDX-License-Identifier: MIT
 *
 * What control may ask the spawner for: frames, names, kinds, descriptors, ceilings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/spawner/validate.h"
#include "proto/fd.h"
#include "proto/mirror.h"
#include "tests/support/check_main.h"

static struct spawner_message good(uint16_t op)
{
	struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = op, .sandbox = "web", .name = "web.c" };

	return m;
}

START_TEST(frames)
{
	struct spawner_message m = good(SPAWNER_START);
	struct err e = ERR_INIT;

	ck_assert_int_eq(validate_frame(&m, sizeof m, &e), 0);
	ck_assert_int_eq(validate_frame(&m, sizeof m - 1, &e), -1);
	ck_assert_int_eq(validate_frame(&m, sizeof m + 1, &e), -1);
	ck_assert_int_eq(validate_frame(&m, 1, &e), -1);
	m.version = 2;
	ck_assert_int_eq(validate_frame(&m, sizeof m, &e), -1);
	ck_assert_int_eq(e.sys_errno, EPROTO);
}
END_TEST

START_TEST(ops)
{
	struct err e = ERR_INIT;

	for (unsigned op = 0; op <= UINT16_MAX; op++) {
		struct spawner_message m = good((uint16_t)op);
		bool known = op >= SPAWNER_READY && op < SPAWNER_REQUEST__N;

		ck_assert_int_eq(validate_frame(&m, sizeof m, &e), known ? 0 : -1);
		if (!known)
			ck_assert(!validate_op_replies((uint16_t)op));
	}
	ck_assert(validate_op_replies(SPAWNER_HOLD));
	ck_assert(!validate_op_replies(SPAWNER_ACK_EXIT));
}
END_TEST

START_TEST(unterminated_texts)
{
	struct err e = ERR_INIT;
	struct spawner_message m = good(SPAWNER_START);

	memset(m.sandbox, 'a', sizeof m.sandbox);
	ck_assert_int_eq(validate_frame(&m, sizeof m, &e), -1);
	m = good(SPAWNER_START);
	memset(m.name, 'a', sizeof m.name);
	ck_assert_int_eq(validate_frame(&m, sizeof m, &e), -1);
	m = good(SPAWNER_START);
	memset(m.text, 'a', sizeof m.text);
	ck_assert_int_eq(validate_frame(&m, sizeof m, &e), -1);
}
END_TEST

START_TEST(names_of_sandboxes)
{
	static const char *const bad[] = { "", "..", ".", "../x", "a/b", "-a", ".a", "a\n", "a b", "\xc3\xa4" };
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct spawner_message m = good(SPAWNER_START);

		(void)snprintf(m.sandbox, sizeof m.sandbox, "%s", bad[i]);
		ck_assert_msg(validate_request(&m, 0, &e) == -1, "'%s' passed", bad[i]);
		ck_assert_int_eq(e.sys_errno, EINVAL);
	}
}
END_TEST

static const struct {
	uint16_t op, kind;
	size_t n_fds;
	bool passes;
} rows[] = {
	{ SPAWNER_READY, 0, 0, true }, { SPAWNER_READY, 0, 1, false },
	{ SPAWNER_TABLE, 0, 0, true }, { SPAWNER_TABLE, 1, 0, false },
	{ SPAWNER_HOLD, 0, 1, true }, { SPAWNER_HOLD, 0, 0, false }, { SPAWNER_HOLD, 0, 2, false },
	{ SPAWNER_KEEP, SPAWNER_KEEP_SPEC, 1, true }, { SPAWNER_KEEP, SPAWNER_KEEP_RING, 0, true },
	{ SPAWNER_KEEP, 0, 1, false }, { SPAWNER_KEEP, SPAWNER_KEEP_CHECKPOINT, 0, true }, { SPAWNER_KEEP, SPAWNER_KEEP_MIRROR + 1, 1, false }, { SPAWNER_KEEP, SPAWNER_KEEP_STATE, 2, false },
	{ SPAWNER_FORGET, 0, 0, true }, { SPAWNER_FORGET, 0, 1, false },
	{ SPAWNER_START, 0, 0, true }, { SPAWNER_START, 7, 0, false }, { SPAWNER_START, 0, 6, false },
	{ SPAWNER_SIGNAL, SPAWNER_SIGNAL_KILL, 0, true }, { SPAWNER_SIGNAL, SPAWNER_SIGNAL_ATTENTION, 0, true },
	{ SPAWNER_SIGNAL, SPAWNER_SIGNAL_FREEZE, 0, true }, { SPAWNER_SIGNAL, SPAWNER_SIGNAL_THAW, 0, true }, { SPAWNER_STOPPING, 0, 0, true }, { SPAWNER_ALIVE, 0, 0, true },
	{ SPAWNER_SIGNAL, SPAWNER_SIGNAL_TIME, 0, true }, { SPAWNER_SIGNAL, SPAWNER_SIGNAL_TIME + 1, 0, false }, { SPAWNER_STOPPING, 1, 0, false },
	{ SPAWNER_PROMOTE, 0, 1, true }, { SPAWNER_PROMOTE, 0, 0, false }, { SPAWNER_PROMOTE, 0, 2, true }, { SPAWNER_PROMOTE, 0, 3, false }, { SPAWNER_PROMOTE, 1, 1, false },
	{ SPAWNER_DISCARD, 0, 0, true }, { SPAWNER_DISCARD, 0, 1, false }, { SPAWNER_DISCARD, 1, 0, false },
	{ SPAWNER_ALIVE, 1, 0, false }, { SPAWNER_STOPPING, 0, 1, false },
	{ SPAWNER_SIGNAL, 0, 0, false }, { SPAWNER_SIGNAL, 9, 0, false },
	{ SPAWNER_ACK_EXIT, 0, 0, true }, { SPAWNER_ACK_EXIT, 0, 1, false },
	{ SPAWNER_JOB, SPAWNER_JOB_COMPILE_C, 1, true }, { SPAWNER_JOB, SPAWNER_JOB_COMPILE_C, 0, false },
	{ SPAWNER_JOB, 2, 1, false }, { SPAWNER_JOB_KILL, 0, 0, true }, { SPAWNER_FINISHED, 0, 0, true },
};

START_TEST(kinds_and_descriptors)
{
	struct spawner_message m = good(rows[_i].op);
	struct err e = ERR_INIT;

	m.kind = rows[_i].kind;
	ck_assert_int_eq(validate_request(&m, rows[_i].n_fds, &e), rows[_i].passes ? 0 : -1);
	if (!rows[_i].passes)
		ck_assert_int_eq(e.sys_errno, EINVAL);
}
END_TEST

static int sized(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ne(fd, -1);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	if (seals)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static const int all_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

static void keep_expect(uint16_t kind, int fd_taken, int status)
{
	struct err e = ERR_INIT;
	int result = validate_keep(kind, fd_taken, &e);

	ck_assert_int_eq(result, status ? -1 : 0);
	if (status)
		ck_assert_int_eq(e.sys_errno, status);
	fd_close(&fd_taken);
}

START_TEST(what_may_be_kept)
{
	int ends[2];

	keep_expect(SPAWNER_KEEP_SPEC, sized(LIMIT_SPEC_BYTES, all_seals), 0);
	keep_expect(SPAWNER_KEEP_SPEC, sized(LIMIT_SPEC_BYTES + 1, all_seals), EFBIG);
	keep_expect(SPAWNER_KEEP_SPEC, sized(10, F_SEAL_SHRINK | F_SEAL_GROW), EINVAL);
	keep_expect(SPAWNER_KEEP_SPEC, sized(10, 0), EINVAL);
	keep_expect(SPAWNER_KEEP_SPEC, -1, EINVAL);
	keep_expect(SPAWNER_KEEP_STATE, sized(1 << 20, all_seals), 0);
	keep_expect(SPAWNER_KEEP_STATE, -1, 0);
	keep_expect(SPAWNER_KEEP_STATE, sized(LIMIT_STATE_BYTES + 1, all_seals), EFBIG);
	keep_expect(SPAWNER_KEEP_STATE, sized(4, F_SEAL_WRITE), EINVAL);
	keep_expect(SPAWNER_KEEP_RING, sized(LIMIT_LOG_RING_BYTES, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	keep_expect(SPAWNER_KEEP_RING, sized(LIMIT_LOG_RING_BYTES - 1, F_SEAL_SHRINK | F_SEAL_GROW), EFBIG);
	keep_expect(SPAWNER_KEEP_RING, sized(LIMIT_LOG_RING_BYTES, F_SEAL_SHRINK), EINVAL);
	keep_expect(SPAWNER_KEEP_RING, -1, 0);
	keep_expect(SPAWNER_KEEP_CHECKPOINT, sized(1 << 20, all_seals), 0);
	keep_expect(SPAWNER_KEEP_CHECKPOINT, sized(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW), EINVAL);
	keep_expect(SPAWNER_KEEP_CHECKPOINT, sized(LIMIT_STATE_BYTES + 1, all_seals), EFBIG);
	keep_expect(SPAWNER_KEEP_CHECKPOINT, -1, 0);
	keep_expect(SPAWNER_KEEP_MIRROR, sized(MIRROR_BYTES, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	keep_expect(SPAWNER_KEEP_MIRROR, sized(MIRROR_BYTES, F_SEAL_SHRINK), EINVAL);
	keep_expect(SPAWNER_KEEP_MIRROR, sized(MIRROR_BYTES - 1, F_SEAL_SHRINK | F_SEAL_GROW), EFBIG);
	keep_expect(SPAWNER_KEEP_MIRROR, -1, 0);
	keep_expect(99, sized(1, all_seals), EINVAL);
	keep_expect(SPAWNER_KEEP_SPEC, open("/dev/null", O_RDONLY | O_CLOEXEC), EINVAL);
	keep_expect(SPAWNER_KEEP_STATE, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), EINVAL);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	keep_expect(SPAWNER_KEEP_STATE, ends[0], EINVAL);
	(void)close(ends[1]);
}
END_TEST

START_TEST(limits_have_defaults)
{
	struct config c = { 0 };
	struct host_limits none = { 0 }, l;
	struct err e = ERR_INIT;

	ck_assert_int_eq(validate_limits(&none, &c, &l, &e), 0);
	ck_assert_uint_eq(l.max_memory_bytes, DEFAULT_MAX_MEMORY_BYTES);
	ck_assert_uint_eq(l.max_file_size_bytes, DEFAULT_MAX_FILE_SIZE_BYTES);
	ck_assert_uint_eq(l.max_stack_bytes, DEFAULT_MAX_STACK_BYTES);
	ck_assert_uint_eq(l.max_processes, DEFAULT_MAX_PROCESSES);
	ck_assert_uint_eq(l.max_open_files, DEFAULT_MAX_OPEN_FILES);
	c.max_memory_bytes = 64u << 20; /* a ceiling below the default lowers the default */
	c.max_open_files = 16;
	ck_assert_int_eq(validate_limits(&none, &c, &l, &e), 0);
	ck_assert_uint_eq(l.max_memory_bytes, 64u << 20);
	ck_assert_uint_eq(l.max_open_files, 16);
}
END_TEST

START_TEST(ceilings_are_named)
{
	const struct config c = { .max_memory_bytes = 1u << 30, .max_file_size_bytes = 1000, .max_processes = 10,
		.max_open_files = 20 };
	const struct {
		struct host_limits asked;
		const char *name; /* NULL: passes */
	} cases[] = {
		{ { .max_memory_bytes = 1u << 30, .max_file_size_bytes = 1000, .max_processes = 10, .max_open_files = 20 }, NULL },
		{ { .max_memory_bytes = (1u << 30) + 1u }, "max_memory_bytes" },
		{ { .max_memory_bytes = UINT64_MAX }, "max_memory_bytes" },
		{ { .max_file_size_bytes = 1001 }, "max_file_size_bytes" },
		{ { .max_processes = 11 }, "max_processes" },
		{ { .max_open_files = UINT32_MAX }, "max_open_files" },
		{ { .max_stack_bytes = (1u << 30) + 1u }, "max_stack_bytes" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct host_limits l = { .max_processes = 12345 };
		struct err e = ERR_INIT;
		int result = validate_limits(&cases[i].asked, &c, &l, &e);

		ck_assert_int_eq(result, cases[i].name ? -1 : 0);
		if (!cases[i].name)
			continue;
		ck_assert_int_eq(e.sys_errno, EPERM);
		ck_assert_ptr_nonnull(strstr(e.text, cases[i].name));
		ck_assert_uint_eq(l.max_processes, 12345); /* untouched */
	}
}
END_TEST

START_TEST(jobs)
{
	static const char *const bad[] = { "", "x", "x.h", "-x.c", "../x.c", "a/b.c", ".c", "a b.c", "a.c\n" };
	const struct config c = { .compile_timeout_ms = 30000, .compile_memory_bytes = 1u << 30 };
	struct spawner_message m = good(SPAWNER_JOB);
	int source = sized(100, all_seals), large = sized(LIMIT_SOURCE_BYTES + 1, all_seals), open_one = sized(100, 0);
	struct err e = ERR_INIT;
	uint64_t memory = 0;
	uint32_t timeout = 0;

	ck_assert_int_eq(validate_job(&m, source, &c, &timeout, &memory, &e), 0);
	ck_assert_uint_eq(timeout, 30000);
	ck_assert_uint_eq(memory, 1u << 30);
	m.timeout_ms = 500;
	m.limits.max_memory_bytes = 1u << 28;
	ck_assert_int_eq(validate_job(&m, source, &c, &timeout, &memory, &e), 0);
	ck_assert_uint_eq(timeout, 500);
	ck_assert_uint_eq(memory, 1u << 28);
	ck_assert_int_eq(validate_job(&m, large, &c, &timeout, &memory, &e), -1);
	ck_assert_int_eq(e.sys_errno, EFBIG);
	ck_assert_int_eq(validate_job(&m, open_one, &c, &timeout, &memory, &e), -1);
	m.timeout_ms = 30001;
	ck_assert_int_eq(validate_job(&m, source, &c, &timeout, &memory, &e), -1);
	ck_assert_int_eq(e.sys_errno, EPERM);
	m.timeout_ms = 0;
	m.limits.max_memory_bytes = (1u << 30) + 1u;
	ck_assert_int_eq(validate_job(&m, source, &c, &timeout, &memory, &e), -1);
	ck_assert_int_eq(e.sys_errno, EPERM);
	m.limits.max_memory_bytes = 0;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		(void)snprintf(m.name, sizeof m.name, "%s", bad[i]);
		ck_assert_msg(validate_job(&m, source, &c, &timeout, &memory, &e) == -1, "'%s' passed", bad[i]);
	}
	fd_close(&source);
	fd_close(&large);
	fd_close(&open_one);
}
END_TEST

CHECK_MAIN("spawner_validate", tcase_add_test(tc, frames); tcase_add_test(tc, ops); tcase_add_test(tc, unterminated_texts);
	tcase_add_test(tc, names_of_sandboxes);
	tcase_add_loop_test(tc, kinds_and_descriptors, 0, sizeof rows / sizeof *rows); tcase_add_test(tc, what_may_be_kept);
	tcase_add_test(tc, limits_have_defaults); tcase_add_test(tc, ceilings_are_named); tcase_add_test(tc, jobs))
