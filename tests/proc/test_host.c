/* SPDX-License-Identifier: MIT
 *
 * The real sandbox-host over a socketpair at descriptor 3; this test plays control and spawner. Modules come from tests/modules. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/host_channel.h"
#include "proto/json_scan.h"
#include "tests/support/check_main.h"

#define GENERATION 77u

struct rig {
	int channel, out_fd, err_fd, pidfd;
	pid_t pid;
	uint64_t acked;            /* goes into every message sent */
	struct host_incoming in;   /* the last message received */
	char output[2][1 << 16];   /* what stdout and stderr held so far */
	size_t output_bytes[2];
	char folder[64];           /* copies of objects, each under a name of its own */
	unsigned copies;
};

static struct rig r;

static char base_folder[] = "/tmp/test-host-XXXXXX"; /* of the whole run: removed also when a test fails */

static void make_base(void)
{
	if (!mkdtemp(base_folder))
		abort();
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st, (void)type, (void)walk;
	return remove(path);
}

static void remove_base(void)
{
	(void)nftw(base_folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *build_folder(void)
{
	const char *folder = getenv("SANDBOXD_BUILD");

	return folder ? folder : "build";
}

static int64_t deadline_ms(void)
{
	return test_now_ms() + 20000 * test_multiplier();
}

/* ---- starting and ending hosts ---- */

static void in_child(const char *program, int channel, int out, int err, bool surplus)
{
	static char name[] = "sandbox-host", *const argv[] = { name, NULL };
	static char *const environment[] = { NULL };
	struct rlimit files = { 64, 64 }, core = { 0, 0 };
	int null = open("/dev/null", O_RDONLY), high[4] = { null, out, err, channel };

	for (int i = 0; i < 4; i++)
		high[i] = fcntl(high[i], F_DUPFD, 20);
	for (int i = 0; i < 4; i++)
		dup2(high[i], i);
	syscall(SYS_close_range, 4, ~0u, 0);
	if (surplus)
		dup2(0, 7);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_CORE, &core);
	execve(program, argv, environment);
	_exit(127);
}

static void spawn(bool surplus)
{
	int pair[2], out[2], err[2];
	char program[512];

	snprintf(program, sizeof program, "%s/sandbox-host", build_folder());
	ck_assert_int_eq(access(program, X_OK), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
	r = (struct rig){ .channel = pair[0], .out_fd = out[0], .err_fd = err[0], .pidfd = -1 };
	snprintf(r.folder, sizeof r.folder, "%s/XXXXXX", base_folder);
	ck_assert_ptr_nonnull(mkdtemp(r.folder));
	r.pid = fork();
	ck_assert_int_ge(r.pid, 0);
	if (r.pid == 0)
		in_child(program, pair[1], out[1], err[1], surplus);
	close(pair[1]);
	close(out[1]);
	close(err[1]);
	r.pidfd = (int)syscall(SYS_pidfd_open, r.pid, 0);
	ck_assert_int_ge(r.pidfd, 0);
	fd_set_nonblocking(r.channel, true);
	fd_set_nonblocking(r.out_fd, true);
	fd_set_nonblocking(r.err_fd, true);
	ck_assert_int_eq(host_incoming_init(&r.in, NULL), 0);
}

static void drain(int which)
{
	int fd = which ? r.err_fd : r.out_fd;
	size_t *n = &r.output_bytes[which];
	ssize_t got;

	while (*n + 1 < sizeof r.output[0] && (got = read(fd, r.output[which] + *n, sizeof r.output[0] - 1 - *n)) > 0)
		*n += (size_t)got;
	r.output[which][*n] = '\0';
}

static bool printed(int which, const char *text)
{
	drain(which);
	return strstr(r.output[which], text) != NULL;
}

/* The wait status; the host has to end by itself. */
static int ended(void)
{
	struct pollfd p = { .fd = r.pidfd, .events = POLLIN };
	int status = 0;

	ck_assert_msg(poll(&p, 1, (int)(20000 * test_multiplier())) == 1, "the host doesn't end");
	kill(-r.pid, SIGKILL); /* what its module has left behind; the number is taken until it is reaped */
	ck_assert_int_eq(waitpid(r.pid, &status, 0), r.pid);
	r.pid = 0;
	return status;
}

static void clean(void)
{
	char path[128];

	if (r.pid > 0) {
		kill(-r.pid, SIGKILL);
		kill(r.pid, SIGKILL);
		waitpid(r.pid, NULL, 0);
	}
	for (unsigned i = 1; i <= r.copies; i++) {
		snprintf(path, sizeof path, "%s/%u.so", r.folder, i);
		unlink(path);
	}
	ck_assert_int_eq(rmdir(r.folder), 0);
	host_incoming_fini(&r.in);
	close(r.channel);
	close(r.out_fd);
	close(r.err_fd);
	close(r.pidfd);
}

/* ---- messages ---- */

static void send_flagged(enum host_message_type type, unsigned flags, uint64_t number, const void *body, size_t size, int fd, int64_t value)
{
	struct host_message head = { .type = (uint16_t)type, .flags = (uint16_t)flags, .generation = GENERATION, .number = number,
		.sequence = r.acked, .value = { value, 0 } };
	struct err e = ERR_INIT;
	int rc;

	ck_assert_msg((rc = host_send(r.channel, &head, body, size, fd, &e)) == 0, "send %d: %d %s", type, rc, e.text);
}

static void send_bytes(enum host_message_type type, uint64_t number, const void *body, size_t size, int fd, int64_t value)
{
	send_flagged(type, 0, number, body, size, fd, value);
}

static void send_json(enum host_message_type type, uint64_t number, const char *json)
{
	send_bytes(type, number, json, json ? strlen(json) : 0, -1, 0);
}

static void call_flagged(unsigned flags, uint64_t number, const char *function, const char *args)
{
	size_t n = strlen(function), m = strlen(args);
	char *body = malloc(1 + n + m);

	body[0] = (char)n;
	memcpy(body + 1, function, n);
	memcpy(body + 1 + n, args, m);
	send_flagged(HOST_CALL, flags, number, body, 1 + n + m, -1, 0);
	free(body);
}

static void call(uint64_t number, const char *function, const char *args)
{
	call_flagged(0, number, function, args);
}

static void cast(uint64_t number, const char *function, const char *args)
{
	call_flagged(HOST_F_CAST, number, function, args);
}

/* The next message, or the end: 0. */
static int receive(struct err *e)
{
	int64_t until = deadline_ms();

	for (;;) {
		struct pollfd p = { .fd = r.channel, .events = POLLIN };
		int64_t left = until - test_now_ms();
		int rc = host_receive(r.channel, &r.in, e);

		if (rc != 0)
			return rc > 0;
		ck_assert_msg(left > 0, "no message comes");
		poll(&p, 1, (int)left);
	}
}

static void expect(enum host_message_type type)
{
	struct err e = ERR_INIT;
	int more = receive(&e);
	const struct host_death *death = (const struct host_death *)r.in.body;

	drain(1);
	ck_assert_msg(more, "expected %d, the channel ended: %s; stderr: %s", type, e.text, r.output[1]);
	ck_assert_uint_eq(r.in.head.generation, GENERATION);
	if (r.in.head.type == type)
		return;
	if (r.in.head.type == HOST_DEATH)
		ck_abort_msg("expected %d, got a death: signal %d in %s at %s+%llx: %s", type, death->signal, death->function,
			death->object, (unsigned long long)death->pc_offset, death->text);
	ck_abort_msg("expected %d, got %d: %s", type, r.in.head.type, r.in.body);
}

static void expect_body(enum host_message_type type, uint32_t status, const char *part)
{
	struct err e = ERR_INIT;

	expect(type);
	ck_assert_msg(r.in.head.status == status, "message %d, status %u: %s", type, r.in.head.status, r.in.body);
	if (r.in.head.body_bytes > 0)
		ck_assert_msg(json_check(r.in.body, r.in.head.body_bytes, &e) == 0, "%s in %s", e.text, r.in.body);
	ck_assert_msg(strstr(r.in.body, part), "%s isn't in %s", part, r.in.body);
}

static void expect_reply(uint64_t number, uint32_t status, const char *part)
{
	expect_body(HOST_REPLY, status, part);
	ck_assert_uint_eq(r.in.head.number, number);
}

/* A copy: the note stands in the buffer of the next message otherwise. */
static struct host_death expect_death(void)
{
	struct host_death death;
	struct err e = ERR_INIT;

	do
		ck_assert_msg(receive(&e), "the channel ended without a death note: %s", e.text);
	while (r.in.head.type != HOST_DEATH);
	ck_assert_uint_eq(r.in.head.body_bytes, sizeof death);
	memcpy(&death, r.in.body, sizeof death);
	return death;
}

static bool readable(void)
{
	struct pollfd p = { .fd = r.channel, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* ---- objects ---- */

/* A fresh copy of a module, as control makes one for each load. */
static const char *object(const char *module)
{
	static char path[128];
	char from[512];
	struct stat st;
	int in, out;

	snprintf(from, sizeof from, "%s/tests/modules/%s.so", build_folder(), module);
	snprintf(path, sizeof path, "%s/%u.so", r.folder, ++r.copies);
	in = open(from, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(in >= 0, "%s: %s", from, strerror(errno));
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	ck_assert_int_ge(out, 0);
	ck_assert_int_eq(fstat(in, &st), 0);
	for (off_t left = st.st_size; left > 0;) {
		char piece[65536];
		ssize_t n = read(in, piece, sizeof piece);

		ck_assert_int_gt(n, 0);
		ck_assert_int_eq(write(out, piece, (size_t)n), n);
		left -= n;
	}
	close(in);
	close(out);
	return path;
}

static void begin(void)
{
	spawn(false);
	send_json(HOST_BEGIN, 0, "{\"profile\":\"medium\",\"limits\":{\"max_memory_bytes\":33554432}}");
	expect_body(HOST_REPORT, 0, "\"protection\":");
}

static void send_start(const char *module, const char *config, int state_fd)
{
	char body[1024];

	snprintf(body, sizeof body, "{\"path\":\"%s\",\"config\":%s}", object(module), config);
	send_bytes(HOST_START, 1, body, strlen(body), state_fd, 0);
}

static void start(const char *module)
{
	begin();
	send_start(module, "null", -1);
	expect_body(HOST_READY, 0, "\"module\":{");
}

static void send_candidate(enum host_message_type type, uint64_t serial, const char *module, const char *more, int fd)
{
	char body[1024];

	snprintf(body, sizeof body, "{\"path\":\"%s\"%s}", object(module), more);
	send_bytes(type, serial, body, strlen(body), fd, 0);
}

static void stop(void)
{
	send_json(HOST_STOP, 0, NULL);
	expect(HOST_STOPPED);
	ck_assert_int_eq(ended(), 0);
	clean();
}

/* Serving still, with this count. */
static void expect_count(const char *count)
{
	call(900, "get", "{}");
	expect_reply(900, 0, count);
}

static int sized_memfd(int64_t bytes)
{
	int fd = fd_memfd("state", NULL, 0, false);

	ck_assert_int_eq(ftruncate(fd, bytes), 0);
	return fd;
}

/* As control sends them: one behind the other. */
static void quiesce_save(uint64_t serial, int fd, int64_t size)
{
	send_json(HOST_QUIESCE, serial, NULL);
	send_bytes(HOST_SAVE, serial, NULL, 0, fd, size);
	expect(HOST_QUIESCED);
	ck_assert_uint_eq(r.in.head.number, serial);
}

/* QUIESCE and SAVE into a memfd of the right size; sealed. */
static int quiesce_and_save(uint64_t serial)
{
	int fd, size;

	fd = sized_memfd(4096);
	quiesce_save(serial, fd, 4096);
	expect_body(HOST_SAVED, 0, "");
	ck_assert_uint_eq(r.in.head.number, serial);
	size = (int)r.in.head.value[0];
	ck_assert_int_gt(size, 0);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

/* ---- begin ---- */

START_TEST(report_comes_before_module_code)
{
	begin();
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"no new privileges\",\"asked\":\"yes\",\"got\":\"yes\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"not dumpable\",\"asked\":\"yes\",\"got\":\"yes\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"own session\",\"asked\":\"yes\",\"got\":\"yes\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"ends with its spawner\",\"asked\":\"yes\",\"got\":\"yes\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"core file bytes\",\"asked\":\"0\",\"got\":\"0\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"open files\",\"asked\":\"64\",\"got\":\"64\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"memory bytes\",\"asked\":\"33554432\",\"got\":\"none\""));
	/* the test's own uid: not the sandbox's */
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"own uid\",\"asked\":\"own uid\",\"got\":\"none\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"by\":\"seccomp\",\"why\":\"this process was not made by a zygote\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "{\"protection\":\"cgroup namespace\",\"asked\":\"none\",\"got\":\"none\""));
	ck_assert(!printed(1, "constructor"));
	send_start("tally", "{\"from\":40}", -1);
	expect_body(HOST_READY, 0, "\"name\":\"tally\"");
	ck_assert_uint_eq(r.in.head.number, 1);
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"init_us\":"));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"load_us\":"));
	ck_assert(printed(1, "tally: constructor\n"));
	ck_assert(printed(1, "<6>starts at 40\n"));
	expect_count("{\"count\":40}");
	stop();
}
END_TEST

static const char *const bad_begins[] = { "", "[]", "{}", "{\"profile\":\"none\"}", "{\"profile\":1}", "{\"profile\":\"low\",\"x\":1}",
	"{\"profile\":\"low\",\"limits\":[]}", "{\"profile\":\"low\",\"limits\":{\"max_memory_bytes\":-1}}",
	"{\"profile\":\"low\",\"limits\":{\"max_open_files\":4294967296}}", "{\"profile\":\"low\",\"limits\":{\"cheese\":1}}",
	"{\"profile\":\"low\",\"profile\":\"low\"}", "{\"profile\":\"low\"" };

START_TEST(bad_begin_ends_the_host)
{
	struct host_death death;

	spawn(false);
	send_json(HOST_BEGIN, 0, bad_begins[_i]);
	death = expect_death();
	ck_assert_int_eq(death.signal, 0);
	ck_assert_ptr_nonnull(strstr(death.text, "HOST_BEGIN"));
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	clean();
}
END_TEST

START_TEST(surplus_descriptor_is_refused)
{
	struct host_death death;
	struct err e = ERR_INIT;

	spawn(true);
	ck_assert(receive(&e)); /* generation 0: no message has come yet */
	ck_assert_int_eq(r.in.head.type, HOST_DEATH);
	memcpy(&death, r.in.body, sizeof death);
	ck_assert_str_eq(death.text, "descriptor 7 is open at the start");
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	clean();
}
END_TEST

/* ---- start ---- */

static const struct {
	const char *module, *step, *part;
} failing[] = {
	{ "fail_init", "\"step\":\"init\"", "\"name\":\"cheese\"" },
	{ "no_descriptor", "\"step\":\"open\"", "\"code\":\"bad_module\"" },
	{ "wrong_abi", "\"step\":\"descriptor\"", "\"code\":\"bad_module\"" },
};

START_TEST(failed_starts_say_the_step)
{
	begin();
	send_start(failing[_i].module, "{}", -1);
	expect_body(HOST_FAILED, 1, failing[_i].step);
	ck_assert_ptr_nonnull(strstr(r.in.body, failing[_i].part));
	ck_assert_int_eq(ended(), 1 << 8);
	if (_i == 0)
		ck_assert(printed(1, "<3>init: the disk is made of cheese\n"));
	clean();
}
END_TEST

START_TEST(missing_object_fails)
{
	begin();
	send_json(HOST_START, 1, "{\"path\":\"/nowhere/1.so\",\"config\":{}}");
	expect_body(HOST_FAILED, 1, "\"step\":\"open\"");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"code\":\"bad_image\""));
	ck_assert_int_eq(ended(), 1 << 8);
	clean();
}
END_TEST

START_TEST(start_that_crashes)
{
	static const char *const modules[] = { "crash_init", "crash_load" }, *const steps[] = { "init", "open" };
	struct host_death death;

	begin();
	send_start(modules[_i], "{}", -1);
	death = expect_death();
	ck_assert_int_eq(death.signal, SIGSEGV);
	ck_assert_uint_eq(death.address, _i ? 48 : 32);
	ck_assert_str_eq(death.function, steps[_i]);
	if (_i == 0) /* a constructor runs before the table of objects is made anew */
		ck_assert_str_eq(death.object, "1.so");
	ck_assert_int_eq(WTERMSIG(ended()), SIGSEGV);
	clean();
}
END_TEST

START_TEST(start_that_hangs_is_killable)
{
	begin();
	send_start("hang_init", "{}", -1);
	close(r.channel);
	r.channel = -1;
	ck_assert_int_eq(kill(r.pid, SIGKILL), 0);
	ck_assert_int_eq(WTERMSIG(ended()), SIGKILL);
	clean();
}
END_TEST

/* ---- calls ---- */

START_TEST(calls_are_answered_in_order)
{
	start("tally");
	for (uint64_t i = 1; i <= 20; i++)
		call(100 + i, "increment", i % 2 ? "{}" : "{\"by\":1}");
	for (uint64_t i = 1; i <= 20; i++) {
		char count[32];

		snprintf(count, sizeof count, "{\"count\":%d}", (int)i);
		expect_reply(100 + i, 0, count);
		ck_assert_uint_eq(r.in.head.sequence, i);
	}
	stop();
}
END_TEST

static void expect_cast_ended(uint64_t number, uint32_t status, const char *part)
{
	expect_body(HOST_CAST_ENDED, status, part);
	ck_assert_uint_eq(r.in.head.number, number);
}

START_TEST(casts_are_answered_when_they_begin)
{
	start("tally");
	cast(1, "increment", "{\"by\":4}");
	call(2, "increment", "{}");
	cast(3, "refuse", "{}");
	expect_reply(1, 0, "{}");
	ck_assert_uint_eq(r.in.head.body_bytes, 2);
	expect_cast_ended(1, 0, "");
	ck_assert_uint_eq(r.in.head.body_bytes, 0);
	expect_reply(2, 0, "{\"count\":5}");
	ck_assert_uint_eq(r.in.head.sequence, 2); /* what ends a cast is no reply: none is kept of it */
	expect_reply(3, 0, "{}");
	expect_cast_ended(3, 1, "\"code\":\"module_error\"");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"step\":\"refuse\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"name\":\"not_today\""));
	stop();
}
END_TEST

START_TEST(casts_that_never_begin_are_refused)
{
	start("tally");
	cast(1, "increment", "{\"by\":\"x\"}");
	expect_reply(1, 1, "\"code\":\"bad_argument\"");
	cast(2, "incremet", "{}");
	expect_reply(2, 1, "\"code\":\"unknown_function\"");
	cast(3, "get", "{}"); /* nothing of theirs came behind: this is the next message */
	expect_reply(3, 0, "{}");
	expect_cast_ended(3, 0, "");
	stop();
}
END_TEST

START_TEST(wrong_calls_get_errors)
{
	start("tally");
	call(1, "increment", "{\"by\":\"x\"}");
	expect_reply(1, 1, "\"code\":\"bad_argument\"");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"name\":\"by\""));
	call(2, "increment", "{\"bye\":1}");
	expect_reply(2, 1, "\"code\":\"bad_argument\"");
	call(3, "incremet", "{}");
	expect_reply(3, 1, "\"code\":\"unknown_function\"");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"nearest\":\"increment\""));
	call(4, "increment", "[1]");
	expect_reply(4, 1, "\"code\":\"");
	call(5, "increment", "{\"by\":");
	expect_reply(5, 1, "\"code\":\"");
	call(6, "refuse", "{}");
	expect_reply(6, 1, "\"code\":\"module_error\"");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"name\":\"not_today\""));
	ck_assert_ptr_nonnull(strstr(r.in.body, "tally refuses"));
	call(7, "in\ncre\"ment", "{}");
	expect_reply(7, 1, "\"code\":\"unknown_function\"");
	expect_count("{\"count\":0}");
	stop();
}
END_TEST

START_TEST(module_logs_become_lines)
{
	start("tally");
	call(1, "say", "{\"text\":\"one\\ntwo\\tthree\"}");
	expect_reply(1, 0, "{}");
	ck_assert(printed(1, "<4>one\n<4>two?three\n"));
	send_json(HOST_STOP, 0, NULL);
	expect(HOST_STOPPED);
	ck_assert_int_eq(ended(), 0);
	ck_assert(printed(1, "<6>stops at 0\n<6>unmade version 1\n"));
	clean();
}
END_TEST

START_TEST(nasty_text_stays_on_its_line)
{
	start("raw_newline");
	call(1, "text", "{}");
	expect_reply(1, 0, "{\"");
	ck_assert_ptr_null(strchr(r.in.body, '\n'));
	call(2, "key", "{}");
	expect(HOST_REPLY);
	ck_assert_ptr_null(strchr(r.in.body, '\n'));
	call(3, "fail", "{}");
	expect_reply(3, 1, "\"code\":\"module_error\"");
	ck_assert_ptr_null(strchr(r.in.body, '\n'));
	call(4, "log", "{}");
	expect(HOST_REPLY);
	ck_assert(printed(1, "<6>one\n<6>two"));
	ck_assert(printed(1, "\n<6><3>forged\n"));
	stop();
}
END_TEST

START_TEST(prints_arrive_with_their_call)
{
	start("prints");
	call(1, "partial", "{\"text\":\"no end\"}");
	expect_reply(1, 0, "");
	ck_assert(printed(0, "no end"));
	call(2, "line", "{\"text\":\"to stderr\",\"to\":\"stderr\"}");
	expect_reply(2, 0, "");
	ck_assert(printed(1, "to stderr\n"));
	stop();
}
END_TEST

START_TEST(large_bodies_travel_by_memfd)
{
	size_t size = 300000;
	char *args = malloc(size + 64);

	start("big_reply");
	call(1, "reply", "{\"bytes\":200000}");
	expect_reply(1, 0, "{\"text\":\"xxx");
	ck_assert_uint_eq(r.in.head.body_bytes, 200000 + 11);
	ck_assert(r.in.head.flags & HOST_F_BODY_FD);
	memcpy(args, "{\"text\":\"", 9);
	memset(args + 9, 'y', size);
	memcpy(args + 9 + size, "\"}", 3);
	call(2, "length", args);
	expect_reply(2, 0, "{\"bytes\":300000}");
	call(3, "reply", "{\"bytes\":2000000}");
	expect_reply(3, 1, "\"code\":\"reply_too_large\"");
	call(4, "reply", "{\"bytes\":3}");
	expect_reply(4, 0, "{\"text\":\"xxx\"}");
	free(args);
	stop();
}
END_TEST

START_TEST(attention_reaches_a_running_call)
{
	start("sleeper");
	call(1, "doze", "{\"ms\":60000}");
	/* The signal may come before the call has begun: then the word stays set until the call has seen it or it is idle. */
	for (int64_t until = deadline_ms();;) {
		struct pollfd p = { .fd = r.channel, .events = POLLIN };

		kill(r.pid, HOST_ATTENTION_SIGNAL);
		if (poll(&p, 1, 5) == 1)
			break;
		ck_assert(test_now_ms() < until);
	}
	expect_reply(1, 1, "\"name\":\"cancelled\"");
	/* A signal too many may hit the next calls, but not for ever. */
	for (uint64_t i = 2; i < 2 + 2 * LIMIT_CALLS_IN_HOST; i++) {
		call(i, "doze", "{\"ms\":1}");
		expect(HOST_REPLY);
		if (r.in.head.status == 0)
			break;
	}
	ck_assert_uint_eq(r.in.head.status, 0);
	stop();
}
END_TEST

/* ---- acknowledgements ---- */

START_TEST(unacknowledged_replies_come_again)
{
	start("tally");
	for (uint64_t i = 1; i <= 3; i++) {
		call(i, "increment", "{}");
		expect_reply(i, 0, "");
	}
	r.acked = 1;
	send_json(HOST_QUERY, 0, NULL);
	expect(HOST_STATUS);
	ck_assert_int_eq(r.in.head.value[0], 1);
	ck_assert_int_eq(r.in.head.value[1], HOST_PHASE_SERVING);
	ck_assert_uint_eq(r.in.head.number, 0);
	expect_reply(2, 0, "{\"count\":2}");
	ck_assert_uint_eq(r.in.head.sequence, 2);
	expect_reply(3, 0, "{\"count\":3}");
	r.acked = 3;
	send_json(HOST_ACK, 0, NULL);
	send_json(HOST_QUERY, 0, NULL);
	expect(HOST_STATUS);
	expect_count("{\"count\":3}"); /* nothing in between */
	stop();
}
END_TEST

START_TEST(calls_wait_for_acknowledgements)
{
	start("tally");
	for (uint64_t i = 1; i <= LIMIT_REPLIES_UNACKED; i++) {
		call(i, "increment", "{}");
		expect_reply(i, 0, "");
	}
	call(1000, "increment", "{}");
	call(1001, "increment", "{}");
	send_json(HOST_QUIESCE, 5, NULL); /* after the calls before it */
	send_json(HOST_QUERY, 0, NULL);   /* at once */
	expect(HOST_STATUS);
	ck_assert_int_eq(r.in.head.value[1], HOST_PHASE_SERVING);
	for (uint64_t i = 1; i <= LIMIT_REPLIES_UNACKED; i++)
		expect_reply(i, 0, "");
	r.acked = 1;
	send_json(HOST_ACK, 0, NULL);
	expect_reply(1000, 0, "{\"count\":257}");
	r.acked = 300 - 43;
	send_json(HOST_ACK, 0, NULL);
	expect_reply(1001, 0, "{\"count\":258}");
	expect(HOST_QUIESCED);
	send_json(HOST_ABORT, 0, NULL);
	expect(HOST_ABORTED);
	stop();
}
END_TEST

/* Too many calls without any acknowledgement: control's own limit is broken. */
START_TEST(too_many_waiting_calls_end_the_host)
{
	struct host_death death;

	start("tally");
	for (uint64_t i = 1; i <= LIMIT_REPLIES_UNACKED; i++) {
		call(i, "increment", "{}");
		expect_reply(i, 0, "");
	}
	for (int i = 0; i <= LIMIT_CALLS_IN_HOST + 16; i++)
		call(1000, "increment", "{}");
	death = expect_death();
	ck_assert_ptr_nonnull(strstr(death.text, "more calls"));
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	clean();
}
END_TEST

/* Nobody reads for a while: the host waits, and loses nothing. */
START_TEST(full_channel_is_waited_for)
{
	unsigned sent = 0, got = 0;

	start("big_reply");
	for (; sent < 30; sent++)
		call(sent, "reply", "{\"bytes\":40000}");
	for (; got < sent; got++)
		expect_reply(got, 0, "{\"text\":\"");
	stop();
}
END_TEST

/* ---- rehearsal ---- */

static void rehearse(uint64_t serial, const char *module, const char *more)
{
	send_candidate(HOST_REHEARSE, serial, module, more, -1);
}

START_TEST(rehearsal_reports_and_changes_nothing)
{
	start("tally");
	call(1, "increment", "{\"by\":5}");
	expect_reply(1, 0, "");
	rehearse(2, "tally_v2", ",\"timeout_ms\":20000,\"backwards\":false");
	expect_body(HOST_REHEARSED, 0, "\"state_bytes\":");
	ck_assert_uint_eq(r.in.head.number, 2);
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"renamed\":"));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"load_us\":"));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"restore_us\":"));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"check_us\":"));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"save_us\":"));
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"state_version\":2"));
	expect_count("{\"count\":5}");
	stop();
}
END_TEST

static const struct {
	const char *module, *code, *part;
} candidates[] = {
	{ "mismatch", "\"code\":\"state_mismatch\"", "\"step\":\"restore\"" },
	{ "no_descriptor", "\"code\":\"bad_module\"", "\"step\":\"open\"" },
	{ "wrong_abi", "\"code\":\"bad_module\"", "\"step\":\"descriptor\"" },
	{ "fail_migrate", "\"code\":\"module_error\"", "\"name\":\"no_way\"" },
	{ "fail_migrate", "\"code\":\"module_error\"", "\"step\":\"migrate\"" },
	{ "fail_check", "\"code\":\"module_error\"", "\"step\":\"check\"" },
	{ "crash_restore", "\"code\":\"crashed\"", "the rehearsal died with SIGSEGV at 2.so+0x" },
	{ "crash_restore", "\"code\":\"crashed\"", "\"step\":\"migrate\"" },
	{ "crash_load", "\"code\":\"crashed\"", "\"step\":\"open\"" },
	{ "exit_migrate", "\"code\":\"crashed\"", "exit(0) was called by the module" },
	{ "fork_migrate", "\"code\":\"crashed\"", "SIGABRT" },
};

START_TEST(failing_candidates_are_rehearsed_away)
{
	start("tally");
	call(1, "increment", "{}");
	expect_reply(1, 0, "");
	rehearse(2, candidates[_i].module, ",\"timeout_ms\":20000");
	expect_body(HOST_REHEARSED, 1, candidates[_i].code);
	ck_assert_uint_eq(r.in.head.number, 2);
	ck_assert_msg(strstr(r.in.body, candidates[_i].part), "%s not in %s", candidates[_i].part, r.in.body);
	ck_assert(!printed(1, "cheese"));
	expect_count("{\"count\":1}");
	stop();
}
END_TEST

START_TEST(hanging_rehearsal_meets_its_deadline_and_calls_go_on)
{
	start("tally");
	rehearse(2, "hang_migrate", ",\"timeout_ms\":300");
	call(1, "increment", "{}");
	expect_reply(1, 0, "{\"count\":1}"); /* while the rehearsal hangs */
	send_json(HOST_QUERY, 0, NULL);
	expect(HOST_STATUS);
	ck_assert_uint_eq(r.in.head.number, 2);
	expect_reply(1, 0, "");
	rehearse(3, "tally_v2", "");
	expect_body(HOST_REHEARSED, 1, "\"code\":\"busy\"");
	ck_assert_uint_eq(r.in.head.number, 3);
	expect_body(HOST_REHEARSED, 1, "the rehearsal took longer than 300 ms");
	ck_assert_uint_eq(r.in.head.number, 2);
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"step\":\"migrate\""));
	expect_count("{\"count\":1}");
	stop();
}
END_TEST

START_TEST(abort_kills_a_rehearsal)
{
	start("tally");
	rehearse(2, "hang_migrate", ",\"timeout_ms\":3600000");
	send_json(HOST_ABORT, 0, NULL);
	expect(HOST_ABORTED);
	rehearse(3, "tally_v2", "");
	expect_body(HOST_REHEARSED, 0, "");
	ck_assert_uint_eq(r.in.head.number, 3);
	stop();
}
END_TEST

START_TEST(rehearsals_print_nothing)
{
	start("tally_v2");
	rehearse(2, "tally", ""); /* its constructor prints, its unmake logs */
	expect(HOST_REHEARSED);
	ck_assert(!printed(1, "constructor"));
	stop();
}
END_TEST

/* What a module's own children do on the way out is no word of the host. */
START_TEST(children_of_modules_have_no_voice)
{
	start("forker");
	call(1, "brood", "{}");
	expect_reply(1, 0, "{\"ok\":true}");
	call(2, "brood", "{}");
	expect_reply(2, 0, "{\"ok\":true}");
	call(3, "child", "{}");
	expect_reply(3, 0, "{\"pid\":");
	stop();
}
END_TEST

START_TEST(threads_forbid_copies)
{
	start("forker");
	call(1, "thread", "{}");
	expect_reply(1, 0, "");
	rehearse(2, "forker", "");
	expect_body(HOST_REHEARSED, 1, "threads: 2");
	stop();
}
END_TEST

/* ---- the transaction ---- */

static void reload(uint64_t serial, const char *module, int fd)
{
	send_candidate(HOST_LOAD, serial, module, ",\"backwards\":false", fd);
}

START_TEST(reload_carries_the_state)
{
	int fd;

	start("tally");
	call(1, "increment", "{\"by\":7}");
	send_json(HOST_QUIESCE, 2, NULL);
	expect_reply(1, 0, "{\"count\":7}"); /* the call before it first */
	expect(HOST_QUIESCED);
	fd = quiesce_and_save(2);
	call(2, "increment", "{}");
	expect_reply(2, 1, "\"code\":\"wrong_state\"");
	reload(2, "tally_v2", fd);
	expect_body(HOST_LOADED, 0, "\"renamed\":");
	ck_assert_uint_eq(r.in.head.number, 2);
	send_json(HOST_QUERY, 0, NULL);
	expect(HOST_STATUS);
	ck_assert_int_eq(r.in.head.value[0], 1);
	ck_assert_int_eq(r.in.head.value[1], HOST_PHASE_LOADED);
	ck_assert_uint_eq(r.in.head.number, 2);
	expect_reply(1, 0, "");
	expect_reply(2, 1, "");
	r.acked = r.in.head.sequence;
	send_json(HOST_COMMIT, 2, NULL);
	call(3, "increment", "{}");
	expect(HOST_COMMITTED);
	ck_assert_uint_eq(r.in.head.number, 2);
	expect_body(HOST_UNLOADED, 0, "{\"pinned\":null}");
	ck_assert_uint_eq(r.in.head.number, 1);
	expect_reply(3, 0, "{\"count\":17}");
	ck_assert(printed(1, "<6>unmade version 1\n"));
	call(4, "get", "{}");
	expect_reply(4, 0, "\"migrated_from\":1");
	send_json(HOST_COMMIT, 2, NULL); /* a new control may say it again */
	expect(HOST_COMMITTED);
	close(fd);
	stop();
}
END_TEST

START_TEST(many_reloads_leave_nothing_behind)
{
	char path[64], line[512];
	int maps[2] = { 0, 0 };

	start("tally");
	for (uint64_t serial = 2; serial < 42; serial++) {
		int fd = quiesce_and_save(serial);
		FILE *f;

		reload(serial, serial % 2 ? "tally" : "tally_v2", fd);
		expect_body(HOST_LOADED, 0, "");
		send_json(HOST_COMMIT, serial, NULL);
		expect(HOST_COMMITTED);
		expect_body(HOST_UNLOADED, 0, "{\"pinned\":null}");
		close(fd);
		if (serial != 11 && serial != 41)
			continue;
		snprintf(path, sizeof path, "/proc/%d/maps", r.pid);
		f = fopen(path, "r");
		if (!f && errno == EACCES)
			continue; /* only root looks into a non-dumpable process; `pinned` above says the same */
		ck_assert_ptr_nonnull(f);
		while (fgets(line, sizeof line, f))
			maps[serial == 41] += strstr(line, ".so") != NULL;
		fclose(f);
	}
	ck_assert_int_eq(maps[0], maps[1]);
	expect_count("{\"count\":0}");
	stop();
}
END_TEST

START_TEST(save_that_is_too_small_says_how_much)
{
	int fd = fd_memfd("state", NULL, 0, false);
	int64_t needed;

	start("big_reply");
	call(1, "fill", "{\"bytes\":100000}");
	expect_reply(1, 0, "{\"bytes\":100000}");
	send_json(HOST_QUIESCE, 2, NULL);
	expect(HOST_QUIESCED);
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	send_bytes(HOST_SAVE, 0, NULL, 0, fd, 4096);
	expect_body(HOST_SAVED, 1, "\"code\":\"limit_exceeded\"");
	needed = r.in.head.value[0];
	ck_assert_int_gt(needed, 100000);
	ck_assert_int_lt(needed, 101000);
	ck_assert_int_eq(ftruncate(fd, needed), 0);
	send_bytes(HOST_SAVE, 0, NULL, 0, fd, needed);
	expect_body(HOST_SAVED, 0, "");
	ck_assert_int_eq(r.in.head.value[0], needed);
	/* the copy has unmapped it and is gone */
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	close(fd);
	stop();
}
END_TEST

/* The host reads declared state itself; what faults there costs a copy, twice over, and not the sandbox. */
START_TEST(state_that_cannot_be_read_fails_the_save_alone)
{
	int fd = sized_memfd(65536);

	start("spoilt");
	call(1, "spoil", "{}");
	expect_reply(1, 0, "");
	for (uint64_t serial = 2; serial < 5; serial++) {
		quiesce_save(serial, fd, 65536);
		expect_body(HOST_SAVED, 1, "the save died with SIGSEGV");
		ck_assert_uint_eq(r.in.head.number, serial);
		send_json(HOST_ABORT, serial, NULL);
		expect(HOST_ABORTED);
		call(serial, "get", "{}");
		expect_reply(serial, 0, "{\"count\":7}");
	}
	close(fd);
	stop();
}
END_TEST

#include "tests/proc/host_show.h"
#include "tests/proc/host_stage.h"

/* Memory made ready beforehand is what SAVE and LOAD use, calls go on meanwhile; another memfd than the prepared one is as good. */
START_TEST(prepared_memory_is_used_or_not)
{
	static const int64_t bytes = 9000000;
	int prepared = sized_memfd(bytes + 65536), other = sized_memfd(bytes + 65536), fd = _i == 0 ? prepared : other;
	int64_t size;

	start("big_reply");
	call(1, "fill", "{\"bytes\":9000000}");
	expect_reply(1, 0, "{\"bytes\":9000000}");
	send_bytes(HOST_PREPARE, 2, NULL, 0, prepared, bytes);
	call(2, "length", "{\"text\":\"four\"}");
	expect_reply(2, 0, "{\"bytes\":4}"); /* between two pieces */
	expect(HOST_PREPARED);
	ck_assert_uint_eq(r.in.head.number, 2);
	quiesce_save(2, fd, bytes + 65536);
	expect_body(HOST_SAVED, 0, "");
	size = r.in.head.value[0];
	ck_assert_int_gt(size, bytes);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
	send_candidate(HOST_LOAD, 2, "big_reply", ",\"backwards\":false", fd);
	expect_body(HOST_LOADED, 0, "\"carried\":[\"data\"]");
	send_json(HOST_COMMIT, 2, NULL);
	expect(HOST_COMMITTED);
	expect(HOST_UNLOADED);
	close(fd);
	fd = sized_memfd(65536);
	quiesce_save(3, fd, 65536);
	expect_body(HOST_SAVED, 1, "");
	ck_assert_int_eq(r.in.head.value[0], size); /* all of it has come over */
	close(fd);
	close(_i == 0 ? other : prepared);
	stop();
}
END_TEST

START_TEST(saved_state_starts_another_host)
{
	int fd;

	start("tally");
	call(1, "increment", "{\"by\":41}");
	expect_reply(1, 0, "");
	fd = quiesce_and_save(2);
	stop();
	begin();
	send_start("tally", "{\"from\":1000}", fd); /* init doesn't run */
	expect_body(HOST_READY, 0, "\"restore_us\":");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"report\":"));
	expect_count("{\"count\":41}");
	close(fd);
	stop();
}
END_TEST

START_TEST(start_from_garbage_fails_in_restore)
{
	char garbage[200];
	int fd;

	memset(garbage, 0xa5, sizeof garbage);
	fd = fd_memfd("state", garbage, sizeof garbage, _i == 0);
	begin();
	send_start("tally", "null", fd);
	expect_body(HOST_FAILED, 1, "\"step\":\"restore\"");
	ck_assert_ptr_nonnull(strstr(r.in.body, "\"code\":\"state_mismatch\""));
	ck_assert_int_eq(ended(), 1 << 8);
	close(fd);
	clean();
}
END_TEST

static const struct {
	const char *module, *part;
} loads[] = { { "mismatch", "\"step\":\"restore\"" }, { "fail_migrate", "\"step\":\"migrate\"" }, { "fail_check", "\"step\":\"check\"" },
	{ "no_descriptor", "\"step\":\"open\"" }, { "wrong_abi", "\"step\":\"descriptor\"" } };

START_TEST(failing_load_leaves_the_old_code_serving)
{
	int fd;

	start("tally");
	call(1, "increment", "{\"by\":3}");
	expect_reply(1, 0, "");
	fd = quiesce_and_save(2);
	reload(2, loads[_i].module, fd);
	expect_body(HOST_LOADED, 1, loads[_i].part);
	send_json(HOST_QUERY, 0, NULL);
	expect(HOST_STATUS);
	ck_assert_int_eq(r.in.head.value[1], HOST_PHASE_QUIESCED);
	expect_reply(1, 0, "");
	send_json(HOST_ABORT, 0, NULL);
	expect(HOST_ABORTED);
	expect_count("{\"count\":3}");
	r.acked = r.in.head.sequence;
	/* and another transaction works */
	close(fd);
	fd = quiesce_and_save(3);
	reload(3, "tally_v2", fd);
	expect_body(HOST_LOADED, 0, "");
	send_json(HOST_COMMIT, 3, NULL);
	expect(HOST_COMMITTED);
	expect(HOST_UNLOADED);
	expect_count("\"count\":3");
	close(fd);
	stop();
}
END_TEST

START_TEST(abort_after_load_serves_on_with_the_old)
{
	int fd;

	start("tally");
	call(1, "increment", "{\"by\":3}");
	expect_reply(1, 0, "");
	fd = quiesce_and_save(2);
	reload(2, "tally_v2", fd);
	expect_body(HOST_LOADED, 0, "");
	send_json(HOST_ABORT, 0, NULL);
	expect(HOST_ABORTED);
	expect_count("{\"count\":3}");
	close(fd);
	stop();
}
END_TEST

START_TEST(crashing_load_dies_with_a_note)
{
	struct host_death death;
	int fd;

	start("tally");
	fd = quiesce_and_save(2);
	reload(2, "crash_restore", fd);
	death = expect_death();
	ck_assert_int_eq(death.signal, SIGSEGV);
	ck_assert_str_eq(death.function, "migrate");
	ck_assert_str_eq(death.object, "2.so");
	ck_assert_int_eq(WTERMSIG(ended()), SIGSEGV);
	close(fd);
	clean();
}
END_TEST

START_TEST(pinned_objects_are_reported)
{
	int fd;

	start("pinned");
	fd = quiesce_and_save(2);
	reload(2, "tally_v2", fd);
	expect_body(HOST_LOADED, 0, "");
	send_json(HOST_COMMIT, 2, NULL);
	expect(HOST_COMMITTED);
	expect_body(HOST_UNLOADED, 0, "STB_GNU_UNIQUE symbol pinned_thing");
	close(fd);
	stop();
}
END_TEST

START_TEST(the_same_file_twice_is_refused)
{
	char body[256];
	int fd;

	start("tally");
	fd = quiesce_and_save(2);
	snprintf(body, sizeof body, "{\"path\":\"%s/1.so\"}", r.folder);
	send_bytes(HOST_LOAD, 2, body, strlen(body), fd, 0);
	expect_body(HOST_LOADED, 1, "loaded already");
	close(fd);
	stop();
}
END_TEST

START_TEST(untimely_requests_are_refused)
{
	int fd = fd_memfd("state", "x", 1, true);

	begin();
	call(1, "get", "{}");
	expect_reply(1, 1, "\"code\":\"wrong_state\"");
	rehearse(2, "tally", "");
	expect_body(HOST_REHEARSED, 1, "\"code\":\"wrong_state\"");
	send_json(HOST_QUERY, 0, NULL);
	expect(HOST_STATUS);
	ck_assert_int_eq(r.in.head.value[1], HOST_PHASE_EMPTY);
	expect_reply(1, 1, "");
	send_start("tally", "{}", -1);
	expect(HOST_READY);
	reload(2, "tally_v2", fd);
	expect_body(HOST_LOADED, 1, "\"code\":\"wrong_state\"");
	close(fd);
	stop();
}
END_TEST

/* ---- death ---- */

static const struct {
	const char *function, *args;
	int signal;          /* of the note */
	bool by_signal;      /* the wait status */
	int status;
	const char *object, *text;
} deaths[] = {
	{ "segv", "{}", SIGSEGV, true, SIGSEGV, "1.so", "" },
	{ "abort", "{}", SIGABRT, true, SIGABRT, "libc.so.6", "" },
	{ "overflow", "{}", SIGSEGV, true, SIGSEGV, "1.so", "" },
	{ "fpe", "{}", SIGFPE, true, SIGFPE, "1.so", "" },
	{ "ill", "{}", SIGILL, true, SIGILL, "1.so", "" },
	{ "raise", "{\"signal\":11}", SIGSEGV, true, SIGSEGV, "libc.so.6", "" },
	{ "raise", "{\"signal\":5}", SIGTRAP, true, SIGTRAP, "libc.so.6", "" },
	{ "raise", "{\"signal\":31}", SIGSYS, true, SIGSYS, "libc.so.6", "" },
	{ "exit", "{\"status\":3}", 0, false, 3, "", "exit(3) was called by the module" },
	{ "exit", "{\"status\":0}", 0, false, 0, "", "exit(0) was called by the module" },
	{ "memory", "{}", SIGABRT, true, SIGABRT, NULL, "memory" },
};

START_TEST(every_death_leaves_a_note)
{
	struct host_death death;
	int status;

	start("crash_call");
	call(1, deaths[_i].function, deaths[_i].args);
	death = expect_death();
	status = ended();
	ck_assert_int_eq(death.signal, deaths[_i].signal);
	ck_assert_str_eq(death.function, deaths[_i].function);
	if (deaths[_i].object)
		ck_assert_str_eq(death.object, deaths[_i].object);
	ck_assert_msg(strstr(death.text, deaths[_i].text), "%s not in %s", deaths[_i].text, death.text);
	ck_assert_int_eq(WIFSIGNALED(status), deaths[_i].by_signal);
	ck_assert_int_eq(deaths[_i].by_signal ? WTERMSIG(status) : WEXITSTATUS(status), deaths[_i].status);
	if (_i == 0) {
		ck_assert_uint_eq(death.address, 0x1234);
		ck_assert_str_eq(death.symbol, "crash_visibly");
		ck_assert_uint_lt(death.symbol_offset, 200);
		ck_assert_uint_gt(death.pc_offset, 0);
	}
	clean();
}
END_TEST

/* _exit leaves no note: the wait status alone. */
START_TEST(exit_without_a_note)
{
	struct err e = ERR_INIT;

	start("crash_call");
	call(1, "exit_now", "{\"status\":7}");
	ck_assert_int_eq(receive(&e), 0);
	ck_assert_int_eq(ended(), 7 << 8);
	clean();
}
END_TEST

START_TEST(death_without_a_reader_comes_all_the_same)
{
	start("crash_call");
	call(1, "abort", "{}");
	ck_assert_int_eq(WTERMSIG(ended()), SIGABRT);
	clean();
}
END_TEST

START_TEST(eof_ends_the_host)
{
	start("tally");
	close(r.channel);
	r.channel = -1;
	ck_assert_int_eq(WEXITSTATUS(ended()), 90);
	clean();
}
END_TEST

START_TEST(eof_ends_a_host_that_waits_to_send)
{
	start("big_reply");
	for (uint64_t i = 0; i < 30; i++)
		call(i, "reply", "{\"bytes\":60000}");
	eventually(readable()); /* it has begun to answer; long before 30 the channel is full */
	close(r.channel);
	r.channel = -1;
	ck_assert_int_eq(WEXITSTATUS(ended()), 90);
	clean();
}
END_TEST

START_TEST(closed_channel_ends_the_host)
{
	start("crash_call");
	call(1, "close_channel", "{}");
	ck_assert_int_ne(ended(), 0);
	clean();
}
END_TEST

/* ---- a control that breaks the contract ---- */

static void bad_magic(struct host_message *m) { m->magic++; }
static void bad_type(struct host_message *m) { m->type = 63; }
static void zero_type(struct host_message *m) { m->type = 0; }
static void host_type(struct host_message *m) { m->type = HOST_REPLY; }
static void bad_size(struct host_message *m) { m->body_bytes = 5; }
static void huge_size(struct host_message *m) { m->body_bytes = UINT32_MAX; }
static void bad_generation(struct host_message *m) { m->generation++; }
static void no_generation(struct host_message *m) { m->generation = 0; }
static void bad_sequence(struct host_message *m) { m->sequence = 1; }
static void missing_fd(struct host_message *m) { m->flags = HOST_F_STATE; }
static void missing_body_fd(struct host_message *m) { m->flags = HOST_F_BODY_FD; m->body_bytes = 9; }
static void nameless_call(struct host_message *m) { m->type = HOST_CALL; }
static void second_begin(struct host_message *m) { m->type = HOST_BEGIN; }
static void second_start(struct host_message *m) { m->type = HOST_START; }
static void save_without_fd(struct host_message *m) { m->type = HOST_SAVE; m->value[0] = 1; }
static void commit_of_nothing(struct host_message *m) { m->type = HOST_COMMIT; m->number = 9; }
static void mirror_without_fd(struct host_message *m) { m->type = HOST_MIRROR; }
static void quiesce_of_nothing(struct host_message *m) { m->type = HOST_QUIESCE; }
static void empty_order(struct host_message *m) { m->type = HOST_REHEARSE; m->number = 9; }

static void (*const breakers[])(struct host_message *m) = { bad_magic, bad_type, zero_type, host_type, bad_size, huge_size,
	bad_generation, no_generation, bad_sequence, missing_fd, missing_body_fd, nameless_call, second_begin, second_start, save_without_fd,
	commit_of_nothing, mirror_without_fd, quiesce_of_nothing, show_of_nothing, empty_order };

START_TEST(malformed_messages_end_the_host)
{
	struct host_message m = { .magic = HOST_MESSAGE_MAGIC, .type = HOST_QUERY, .generation = GENERATION };
	struct host_death death;

	start("tally");
	breakers[_i](&m);
	ck_assert_int_eq(fd_message_send(r.channel, &m, sizeof m, NULL, 0), 0);
	death = expect_death();
	ck_assert_int_eq(death.signal, 0);
	ck_assert_str_ne(death.text, "");
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	ck_assert(printed(1, "<3>"));
	clean();
}
END_TEST

START_TEST(short_message_ends_the_host)
{
	start("tally");
	ck_assert_int_eq(fd_message_send(r.channel, "x", 1, NULL, 0), 0);
	ck_assert_int_eq(expect_death().signal, 0);
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	clean();
}
END_TEST

static const char *const bad_orders[] = { "[]", "{}", "{\"path\":\"relative.so\"}", "{\"path\":\"\"}", "{\"path\":3}", "{\"path\":\"/x\",\"y\":1}",
	"{\"path\":\"/x\",\"timeout_ms\":0}", "{\"path\":\"/x\",\"timeout_ms\":-5}", "{\"path\":\"/x\",\"backwards\":0}", "{\"path\":\"/x\"" };

START_TEST(malformed_orders_end_the_host)
{
	start("tally");
	send_json(HOST_REHEARSE, 2, bad_orders[_i]);
	ck_assert_str_ne(expect_death().text, "");
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	clean();
}
END_TEST

START_TEST(small_memfd_for_a_large_save_is_refused)
{
	int fd = fd_memfd("state", "x", 1, false);

	start("tally");
	send_bytes(HOST_SAVE, 0, NULL, 0, fd, 4096);
	ck_assert_ptr_nonnull(strstr(expect_death().text, "smaller"));
	ck_assert_int_eq(WEXITSTATUS(ended()), 91);
	close(fd);
	clean();
}
END_TEST

#define N(table) (int)(sizeof(table) / sizeof *(table))

CHECK_MAIN("host",
	tcase_add_unchecked_fixture(tc, make_base, remove_base);
	tcase_add_test(tc, report_comes_before_module_code);
	tcase_add_test(tc, mirror_that_comes_late_ends_the_host);
	tcase_add_loop_test(tc, bad_begin_ends_the_host, 0, N(bad_begins));
	tcase_add_test(tc, surplus_descriptor_is_refused);
	tcase_add_loop_test(tc, failed_starts_say_the_step, 0, N(failing));
	tcase_add_test(tc, missing_object_fails);
	tcase_add_loop_test(tc, start_that_crashes, 0, 2);
	tcase_add_test(tc, start_that_hangs_is_killable);
	tcase_add_test(tc, calls_are_answered_in_order);
	tcase_add_test(tc, wrong_calls_get_errors);
	tcase_add_test(tc, casts_are_answered_when_they_begin);
	tcase_add_test(tc, casts_that_never_begin_are_refused);
	tcase_add_test(tc, module_logs_become_lines);
	tcase_add_test(tc, nasty_text_stays_on_its_line);
	tcase_add_test(tc, prints_arrive_with_their_call);
	tcase_add_test(tc, large_bodies_travel_by_memfd);
	tcase_add_test(tc, attention_reaches_a_running_call);
	tcase_add_test(tc, unacknowledged_replies_come_again);
	tcase_add_test(tc, calls_wait_for_acknowledgements);
	tcase_add_test(tc, too_many_waiting_calls_end_the_host);
	tcase_add_test(tc, full_channel_is_waited_for);
	tcase_add_test(tc, rehearsal_reports_and_changes_nothing);
	tcase_add_loop_test(tc, failing_candidates_are_rehearsed_away, 0, N(candidates));
	tcase_add_test(tc, hanging_rehearsal_meets_its_deadline_and_calls_go_on);
	tcase_add_test(tc, abort_kills_a_rehearsal);
	tcase_add_test(tc, rehearsals_print_nothing);
	tcase_add_test(tc, children_of_modules_have_no_voice);
	tcase_add_test(tc, threads_forbid_copies);
	tcase_add_test(tc, reload_carries_the_state);
	tcase_add_test(tc, many_reloads_leave_nothing_behind);
	tcase_add_test(tc, save_that_is_too_small_says_how_much);
	tcase_add_test(tc, state_that_cannot_be_read_fails_the_save_alone);
	tcase_add_loop_test(tc, prepared_memory_is_used_or_not, 0, 2);
	tcase_add_test(tc, a_state_is_shown);
	tcase_add_test(tc, aborted_preparation_leaves_nothing);
	tcase_add_test(tc, saved_state_starts_another_host);
	tcase_add_test(tc, staged_then_started_from_a_state);
	tcase_add_test(tc, a_stage_that_fails_says_the_step);
	tcase_add_loop_test(tc, a_stage_out_of_turn_ends_the_host, 0, sizeof bad_stages / sizeof bad_stages[0]);
	tcase_add_test(tc, who_is_replaced_ends_without_its_stop_hook);
	tcase_add_loop_test(tc, start_from_garbage_fails_in_restore, 0, 2);
	tcase_add_loop_test(tc, failing_load_leaves_the_old_code_serving, 0, N(loads));
	tcase_add_test(tc, abort_after_load_serves_on_with_the_old);
	tcase_add_test(tc, crashing_load_dies_with_a_note);
	tcase_add_test(tc, pinned_objects_are_reported);
	tcase_add_test(tc, the_same_file_twice_is_refused);
	tcase_add_test(tc, untimely_requests_are_refused);
	tcase_add_loop_test(tc, every_death_leaves_a_note, 0, N(deaths));
	tcase_add_test(tc, exit_without_a_note);
	tcase_add_test(tc, death_without_a_reader_comes_all_the_same);
	tcase_add_test(tc, eof_ends_the_host);
	tcase_add_test(tc, eof_ends_a_host_that_waits_to_send);
	tcase_add_test(tc, closed_channel_ends_the_host);
	tcase_add_loop_test(tc, malformed_messages_end_the_host, 0, N(breakers));
	tcase_add_test(tc, short_message_ends_the_host);
	tcase_add_loop_test(tc, malformed_orders_end_the_host, 0, N(bad_orders));
	tcase_add_test(tc, small_memfd_for_a_large_save_is_refused))
