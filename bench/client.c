/* SPDX-License-Identifier: MIT
 *
 * The daemon's side of the benchmark: a caller in C, so that what is measured is sandboxd and not a script.
 *
 *   client SOCKET V1.so V2.so ...    two objects for each subject of a reload; uploads those of the first (subject 0),
 *                       creates the sandboxes `bench` and `phoenix` of it, says "ready"
 *
 * A command per line on stdin; each answer is numbers, one per line, in microseconds; "error ..." ends the program.
 *   create PERSIST      4 lines, with persist false (0) or true (1): request of create -> its reply; the call after it; both together (the row "create -> first call
 *                       answered"); then destroy. One connection, the object is uploaded already, the call follows the reply.
 *   call N              N lines: one caller, one call at a time, from the request to its reply
 *   calls CALLERS DEPTH N    1 line: per call, when CALLERS connections with DEPTH requests in flight each make N calls in all;
 *                       the module's count must have grown by N
 *   begin SUBJECT N BYTES    creates the sandbox of a later subject with BYTES of max_memory and gives it a state of N; 1 line: N as
 *                       the module counts it
 *   end SUBJECT         destroys it; 1 line: SUBJECT
 *   reload SUBJECT LOAD 4 lines: pause_us and held_us as the daemon reports them, request -> reply, and calls answered meanwhile;
 *                       from one version to the other and back, while another connection keeps LOAD calls in flight
 *   replace SUBJECT LOAD    the same, by a second process that takes over
 *   restart             1 line: SIGKILL of the host -> its successor has answered a call
 *   list N              1 line: request of sandbox.list -> its reply, a page that must have N rows
 *   fill FIRST N        N lines: creates the idle sandboxes idle-FIRST and on, and prints their pids
 *   crowd FIRST N       the same, with persist false
 *   empty FIRST N       destroys them; 1 line: N
 *   control             1 line: control's pid
 *   sizes               2 lines: bytes of one call's request and of its reply, newlines included */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "bench/drive.h"
#include "proto/buf.h"
#include "proto/frame.h"
#include "proto/json_scan.h"
#include "proto/limits.h"

#define CALL "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.call\",\"params\":{\"id\":\"%s\",\"function\":\"%s\",\"args\":{}}}\n"
#define SHA256_TEXT 65
#define SUBJECTS_MAX 3
#define SETTLE_MS   3 /* phoenix's budget forgets a restart after 1 ms of uptime */

struct link {
	int fd;
	struct frame in;
};

static const char *path;
static struct link main_link, load_link;
static const struct subject_kind {
	const char *id, *load; /* the sandbox, and the function that is called while it is reloaded */
	const char *fill;      /* the function that makes a state of n */
} kinds[SUBJECTS_MAX] = {
	{ "bench", "increment", NULL },
	{ "map", "count", "load" },
	{ "bytes", "count", "fill" },
};
static struct subject {
	char **files;
	char object[2][SHA256_TEXT];
	int version; /* which of the two it runs */
} subjects[SUBJECTS_MAX];
static char (*const object)[SHA256_TEXT] = subjects[0].object;
static int n_subjects;

static noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...)
{
	va_list a;

	va_start(a, format);
	printf("error ");
	vprintf(format, a);
	printf("\n");
	va_end(a);
	exit(1);
}

static void say(double us)
{
	printf("%.2f\n", us);
}

/* ---- the connection ---- */

static int socket_connect(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof a.sun_path)
		fail("the socket's path is too long");
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (fd == -1 || connect(fd, (const struct sockaddr *)&a, sizeof a) == -1)
		fail("cannot connect to %s: %s", path, strerror(errno));
	return fd;
}

static void link_open(struct link *l)
{
	l->fd = socket_connect();
	frame_init(&l->in, LIMIT_CONNECTION_OUT_BYTES);
}

static void link_send(struct link *l, const char *line, size_t size)
{
	if (send_whole(l->fd, line, size) == -1)
		fail("cannot send: %s", strerror(errno));
}

/* The next reply, valid until the next one. */
static struct json_span link_reply(struct link *l)
{
	char *line;
	size_t size;

	while (frame_next(&l->in, &line, &size) != FRAME_LINE) {
		size_t room;
		char *at = frame_room(&l->in, &room);
		ssize_t n = at ? recv(l->fd, at, room, 0) : -1;

		if (n <= 0)
			fail("the daemon closed the connection");
		frame_fed(&l->in, (size_t)n);
	}
	return (struct json_span){ line, size };
}

/* The result of a reply; a reply that is an error ends the run. */
static struct json_span result_of(struct json_span reply, const char *what)
{
	struct json_span result;

	if (json_check(reply.at, reply.size, NULL) == -1)
		fail("%s: the reply is not JSON", what);
	result = json_get(reply, "result");
	if (!result.at)
		fail("%s: %.*s", what, (int)reply.size, reply.at);
	return result;
}

static __attribute__((format(printf, 3, 4))) struct json_span request(
	struct link *l, const char *method, const char *params, ...)
{
	char line[1024];
	va_list a;
	int n = snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":", method);

	va_start(a, params);
	n += vsnprintf(line + n, sizeof line - (size_t)n, params, a);
	va_end(a);
	n += snprintf(line + n, sizeof line - (size_t)n, "}\n");
	link_send(l, line, (size_t)n);
	return result_of(link_reply(l), method);
}

static int64_t number_of(struct json_span object_or_result, const char *name)
{
	int64_t v;

	if (!json_i64(json_get(object_or_result, name), &v))
		fail("the reply has no number '%s'", name);
	return v;
}

/* ---- setting up ---- */

static void base64(struct buf *b, const unsigned char *p, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
		char four[4] = { digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=',
			i + 2 < n ? digit[v & 63] : '=' };

		buf_add(b, four, sizeof four);
	}
}

/* A small object, in one chunk. */
static void upload(const char *file, const char *name, char sha256[SHA256_TEXT])
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct buf line = BUF_INIT;
	unsigned char *data;
	char head[256];
	struct json_span result;

	if (fd == -1 || fstat(fd, &st) == -1 || st.st_size > LIMIT_UPLOAD_CHUNK_BYTES)
		fail("cannot use %s", file);
	data = malloc((size_t)st.st_size);
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		fail("cannot read %s", file);
	snprintf(head, sizeof head,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"object.put\",\"params\":{\"upload\":\"%s\",\"offset\":0,\"last\":true,\"data\":\"",
		name);
	buf_add(&line, head, strlen(head));
	base64(&line, data, (size_t)st.st_size);
	buf_add(&line, "\"}}\n", 4);
	if (line.failed)
		fail("no memory");
	link_send(&main_link, buf_text(&line), line.size);
	result = result_of(link_reply(&main_link), "object.put");
	if (json_string(json_get(result, "sha256"), sha256, SHA256_TEXT) != SHA256_TEXT - 1)
		fail("object.put gave no sha256");
	buf_fini(&line);
	free(data);
	close(fd);
}

/* ---- commands ---- */

static void create(bool persist)
{
	char call[256];
	int n = snprintf(call, sizeof call, CALL, "fresh", "get");
	double began = now_us(), created, called;

	request(&main_link, "sandbox.create", "{\"id\":\"fresh\",\"object\":\"%s\",\"persist\":%s}", object[0],
		persist ? "true" : "false");
	created = now_us();
	link_send(&main_link, call, (size_t)n);
	result_of(link_reply(&main_link), "the first call");
	called = now_us();
	request(&main_link, "sandbox.destroy", "{\"id\":\"fresh\"}");
	say(created - began);
	say(called - created);
	say(called - began);
	say(now_us() - called);
}

static void call(long n)
{
	char line[256];
	int size = snprintf(line, sizeof line, CALL, "bench", "increment");

	for (long i = 0; i < n; i++) {
		double began = now_us(), took;
		struct json_span reply;

		link_send(&main_link, line, (size_t)size);
		reply = link_reply(&main_link);
		took = now_us() - began;
		result_of(reply, "sandbox.call");
		say(took);
	}
}

static int64_t count_get(void)
{
	struct json_span result = request(&main_link, "sandbox.call", "{\"id\":\"bench\",\"function\":\"get\"}");

	return number_of(json_get(result, "result"), "count");
}

static void calls(int callers, int depth, long n)
{
	static int fds[DRIVE_CALLERS_MAX], open_fds;
	char line[256];
	int size = snprintf(line, sizeof line, CALL, "bench", "increment");
	int64_t before = count_get();
	double us;

	for (; open_fds < callers; open_fds++)
		fds[open_fds] = socket_connect();
	us = drive_run(&(struct drive){ fds, callers, depth, n, line, (size_t)size });
	if (us < 0)
		fail("the daemon closed a connection or was silent for 30 s");
	if (count_get() - before != n)
		fail("%ld calls were answered, but the count grew by %lld", n, (long long)(count_get() - before));
	say(us / (double)n);
}

/* Reads what the load's socket has and replaces each answered call by another; the number of answers. */
static long load_refill(const char *line, size_t size, bool more)
{
	long n = drive_read(load_link.fd);

	if (n < 0)
		fail("the daemon closed the load's connection");
	for (long i = 0; more && i < n; i++)
		link_send(&load_link, line, size);
	return n;
}

/* When it begins: a connection may have but few uploads that nobody runs. */
static void subject_upload(struct subject *s)
{
	for (int i = 0; i < 2; i++)
		upload(s->files[i], i == 0 ? "first" : "second", s->object[i]);
	s->version = 0;
}

static void subject_begin(const struct subject_kind *k, struct subject *s, long n, long bytes)
{
	struct json_span result;

	subject_upload(s);
	request(&main_link, "sandbox.create", "{\"id\":\"%s\",\"object\":\"%s\",\"persist\":false,\"limits\":{\"max_memory\":%ld}}",
		k->id, s->object[s->version], bytes);
	result = request(&main_link, "sandbox.call", "{\"id\":\"%s\",\"function\":\"%s\",\"args\":{\"n\":%ld}}", k->id, k->fill, n);
	say((double)number_of(json_get(result, "result"), "count"));
}

static void reload(const struct subject_kind *k, struct subject *s, int load, const char *mode)
{
	char line[256], ask[256];
	int size = snprintf(line, sizeof line, CALL, k->id, k->load);
	int ask_size = snprintf(ask, sizeof ask,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.reload\",\"params\":{\"id\":\"%s\",\"object\":\"%s\",\"mode\":\"%s\"}}\n", k->id,
		s->object[!s->version], mode);
	struct pollfd p[2] = { { .fd = main_link.fd, .events = POLLIN }, { .fd = load_link.fd, .events = POLLIN } };
	struct json_span result;
	long answered = 0;
	double began, took;

	for (int i = 0; i < load; i++)
		link_send(&load_link, line, (size_t)size);
	began = now_us();
	link_send(&main_link, ask, (size_t)ask_size);
	while (!(p[0].revents & POLLIN)) {
		if (poll(p, 2, 30000) <= 0)
			fail("sandbox.reload: silence");
		if (p[1].revents)
			answered += load_refill(line, (size_t)size, true);
	}
	result = result_of(link_reply(&main_link), "sandbox.reload");
	took = now_us() - began;
	if (!json_string_is(json_get(result, "outcome"), "reloaded"))
		fail("sandbox.reload: %.*s", (int)result.size, result.at);
	s->version = !s->version;
	say((double)number_of(result, "pause_us"));
	say((double)number_of(result, "held_us"));
	say(took);
	say((double)answered);
	for (long left = load; left > 0;)
		left -= load_refill(line, (size_t)size, false);
}

static void restart(void)
{
	char call_line[256];
	int size = snprintf(call_line, sizeof call_line, CALL, "phoenix", "get");
	struct json_span reply;
	double began;
	pid_t pid;

	poll(NULL, 0, SETTLE_MS);
	pid = (pid_t)number_of(request(&main_link, "sandbox.info", "{\"id\":\"phoenix\"}"), "pid");
	began = now_us();
	if (pid <= 1 || kill(pid, SIGKILL) == -1)
		fail("cannot kill phoenix's process: %s", strerror(errno));
	do {
		link_send(&main_link, call_line, (size_t)size);
		reply = link_reply(&main_link);
		/* what was sent to the process that died is answered so */
	} while (json_check(reply.at, reply.size, NULL) == 0 &&
		json_string_is(json_get(json_get(json_get(reply, "error"), "data"), "code"), "crashed"));
	result_of(reply, "the call after SIGKILL");
	say(now_us() - began);
	if (number_of(request(&main_link, "sandbox.info", "{\"id\":\"phoenix\"}"), "pid") == pid)
		fail("phoenix was not restarted");
}

static void fill(long first, long n, bool persist)
{
	for (long i = first; i < first + n; i++)
		say((double)number_of(request(&main_link, "sandbox.create", "{\"id\":\"idle-%ld\",\"object\":\"%s\",\"persist\":%s}", i, object[0],
			persist ? "true" : "false"), "pid"));
}

static void empty(long first, long n)
{
	for (long i = first; i < first + n; i++)
		request(&main_link, "sandbox.destroy", "{\"id\":\"idle-%ld\"}", i);
	say((double)n);
}

static void list(long n)
{
	double began = now_us(), took;
	struct json_span result = request(&main_link, "sandbox.list", "{}"), key, row;
	struct json_iter it = json_iter_begin(json_get(result, "sandboxes"));
	long rows = 0;

	took = now_us() - began;
	while (json_iter_next(&it, &key, &row))
		rows++;
	if (rows != n)
		fail("sandbox.list has %ld rows instead of %ld", rows, n);
	say(took);
}

static void sizes(void)
{
	char line[256];
	int size = snprintf(line, sizeof line, CALL, "bench", "increment");

	link_send(&main_link, line, (size_t)size);
	say((double)size);
	say((double)(link_reply(&main_link).size + 1));
}

static void command_run(const char *line)
{
	char name[32] = "";
	long a[3] = { 0 };
	int n = sscanf(line, "%31s %ld %ld %ld", name, &a[0], &a[1], &a[2]) - 1;

	if (!strcmp(name, "create") && n == 1)
		create(a[0] != 0);
	else if (!strcmp(name, "begin") && n == 3 && a[0] > 0 && a[0] < n_subjects)
		subject_begin(&kinds[a[0]], &subjects[a[0]], a[1], a[2]);
	else if (!strcmp(name, "end") && n == 1 && a[0] > 0 && a[0] < n_subjects) {
		request(&main_link, "sandbox.destroy", "{\"id\":\"%s\"}", kinds[a[0]].id);
		say((double)a[0]);
	} else if (!strcmp(name, "list") && n == 1)
		list(a[0]);
	else if (!strcmp(name, "restart") && n == 0)
		restart();
	else if (!strcmp(name, "control") && n == 0)
		say((double)number_of(request(&main_link, "daemon.info", "{}"), "control_pid"));
	else if (!strcmp(name, "sizes") && n == 0)
		sizes();
	else if (!strcmp(name, "call") && n == 1)
		call(a[0]);
	else if (!strcmp(name, "calls") && n == 3 && a[0] > 0 && a[0] <= DRIVE_CALLERS_MAX && a[1] > 0 && a[1] <= DRIVE_DEPTH_MAX && a[2] > 0)
		calls((int)a[0], (int)a[1], a[2]);
	else if ((!strcmp(name, "reload") || !strcmp(name, "replace")) && n == 2 && a[0] >= 0 && a[0] < n_subjects && a[1] >= 0 && a[1] <= LIMIT_IN_FLIGHT)
		reload(&kinds[a[0]], &subjects[a[0]], (int)a[1], !strcmp(name, "replace") ? name : "in_place");
	else if ((!strcmp(name, "fill") || !strcmp(name, "crowd")) && n == 2)
		fill(a[0], a[1], name[0] == 'f');
	else if (!strcmp(name, "empty") && n == 2)
		empty(a[0], a[1]);
	else
		fail("no such command: %s", line);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256];

	n_subjects = (argc - 2) / 2;
	if (argc < 4 || argc % 2 || n_subjects > SUBJECTS_MAX) {
		fprintf(stderr, "usage: client SOCKET V1.so V2.so ...   (the commands stand at the top of bench/client.c)\n");
		return 2;
	}
	path = argv[1];
	link_open(&main_link);
	link_open(&load_link);
	for (int i = 0; i < n_subjects; i++)
		subjects[i].files = argv + 2 + 2 * i;
	subject_upload(&subjects[0]);
	request(&main_link, "sandbox.create", "{\"id\":\"bench\",\"object\":\"%s\"}", object[0]);
	request(&main_link, "sandbox.create", "{\"id\":\"phoenix\",\"object\":\"%s\",\"intensity\":100,\"period_ms\":1}", object[0]);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin))
		command_run(line);
	return 0;
}
