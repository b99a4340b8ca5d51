/* SPDX-License-Identifier: MIT
 *
 * A daemon that says what a test tells it to: a thread that serves one connection after another on a Unix
 * socket in a folder of its own, answers each line with the next text of a script, and keeps the lines. And a
 * runner for the real sandboxctl. */
#ifndef SANDBOXD_FAKE_DAEMON_H
#define SANDBOXD_FAKE_DAEMON_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/json_scan.h"
#include "tests/support/check_main.h"

#define FAKE_LINES      16
#define FAKE_LINE_BYTES (2u << 20)
#define FAKE_ARGS       24

/* Answers that are no text. */
static const char FAKE_CLOSE[] = "(close)", FAKE_HANG[] = "(hang)";

struct fake {
	char folder[64], socket[96];
	int listener;
	pthread_t thread;
	bool running;
	const char *const *script; /* NULL ends it: further connections are closed at once */
	size_t n_answered;
	bool one_by_one;         /* send each byte by itself */
	bool close_after;        /* close behind each answer */
	char *lines[FAKE_LINES]; /* what came in */
	size_t n_lines;
	/* the last run */
	char out[1u << 18], err[1u << 18];
};

static inline void fake_send(struct fake *f, int fd, const char *text)
{
	size_t size = strlen(text), piece = f->one_by_one ? 1 : size;

	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, text + at, piece < size - at ? piece : size - at, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

/* One line into fresh memory, NULL at the end. */
static inline char *fake_read_line(FILE *in)
{
	char *line = malloc(FAKE_LINE_BYTES);

	ck_assert_ptr_nonnull(line);
	if (!fgets(line, FAKE_LINE_BYTES, in)) {
		free(line);
		return NULL;
	}
	return line;
}

static inline void fake_serve_connection(struct fake *f, int fd)
{
	FILE *in = fdopen(dup(fd), "r");
	char *line;

	while (in && f->script[f->n_answered] && (line = fake_read_line(in))) {
		const char *answer = f->script[f->n_answered++];

		if (f->n_lines < FAKE_LINES)
			f->lines[f->n_lines++] = line;
		else
			free(line);
		if (answer == FAKE_CLOSE)
			break;
		if (answer == FAKE_HANG) {
			free(fake_read_line(in)); /* until the client gives up */
			break;
		}
		fake_send(f, fd, answer);
		if (f->close_after)
			break;
	}
	if (in)
		(void)fclose(in);
	close(fd);
}

static inline void *fake_serve(void *arg)
{
	struct fake *f = arg;
	int fd;

	while ((fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		fake_serve_connection(f, fd);
	return NULL;
}

/* The folder and a bound, listening socket; nobody serves it yet. */
static inline struct fake *fake_new(int backlog)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	ck_assert_ptr_nonnull(f);
	(void)snprintf(f->folder, sizeof(f->folder), "/tmp/sandboxctl_test_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(f->folder));
	(void)snprintf(f->socket, sizeof(f->socket), "%s/socket", f->folder);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(f->listener, 0);
	ck_assert_int_eq(bind(f->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(f->listener, backlog), 0);
	return f;
}

static inline struct fake *fake_start(const char *const *script)
{
	struct fake *f = fake_new(16);

	f->script = script;
	ck_assert_int_eq(pthread_create(&f->thread, NULL, fake_serve, f), 0);
	f->running = true;
	return f;
}

/* After it, n_lines and lines are the test's to look at. */
static inline void fake_stop(struct fake *f)
{
	if (f->running) {
		(void)shutdown(f->listener, SHUT_RDWR);
		ck_assert_int_eq(pthread_join(f->thread, NULL), 0);
		f->running = false;
	}
	if (f->listener >= 0)
		close(f->listener);
	f->listener = -1;
}

static inline void fake_path(const struct fake *f, const char *name, char to[160])
{
	(void)snprintf(to, 160, "%s/%s", f->folder, name);
}

static inline void fake_free(struct fake *f)
{
	static const char *const names[] = { "socket", "out", "err", "in", "x.so", "x.c", "x.txt",
		"odd name.c", "fifo.so", "folder.so" };
	char path[160];

	fake_stop(f);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		fake_path(f, names[i], path);
		(void)remove(path);
	}
	ck_assert_msg(rmdir(f->folder) == 0, "%s isn't empty", f->folder);
	for (size_t i = 0; i < f->n_lines; i++)
		free(f->lines[i]);
	free(f);
}

static inline void fake_write_file(const struct fake *f, const char *name, const void *data, size_t size)
{
	char path[160];
	FILE *file;

	fake_path(f, name, path);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(data, 1, size, file), size);
	ck_assert_int_eq(fclose(file), 0);
}

static inline void fake_read_file(const struct fake *f, const char *name, char *to, size_t room)
{
	char path[160];
	FILE *file;

	fake_path(f, name, path);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	to[fread(to, 1, room - 1, file)] = '\0';
	(void)fclose(file);
}

/* ---- running sandboxctl ---- */

struct fake_run {
	const char *standard_in;  /* NULL: nothing */
	const char *standard_out; /* a path; NULL: a file whose content is in f->out afterwards */
	bool as_nobody;           /* gives root's rights up */
	bool no_socket;           /* no --socket in front */
	const char *env[4];       /* NAME=VALUE, in a clean environment */
};

static inline int fake_open(const struct fake *f, const char *name, const char *path, int flags)
{
	char made[160];

	fake_path(f, name, made);
	return open(path ? path : made, flags | O_CLOEXEC | O_NOCTTY, 0666);
}

static inline _Noreturn void fake_exec(const struct fake *f, const struct fake_run *how, char **argv)
{
	const char *build = getenv("SANDBOXD_BUILD");
	char program[512];
	int in = fake_open(f, "in", how->standard_in ? NULL : "/dev/null", O_RDONLY);
	int out = fake_open(f, "out", how->standard_out, O_WRONLY | O_CREAT | O_TRUNC);
	int err = fake_open(f, "err", NULL, O_WRONLY | O_CREAT | O_TRUNC);
	char *env[8] = { NULL };
	int binary;

	(void)snprintf(program, sizeof(program), "%s/sandboxctl", build ? build : "build");
	binary = open(program, O_PATH | O_CLOEXEC); /* nobody may not be able to reach it by name */
	if (binary == -1 || in == -1 || out == -1 || err == -1)
		_exit(126);
	if (how->as_nobody && geteuid() == 0 && (setgid(65534) == -1 || setuid(65534) == -1))
		_exit(126);
	if (dup2(in, 0) == -1 || dup2(out, 1) == -1 || dup2(err, 2) == -1)
		_exit(126);
	for (size_t i = 0; i < 4 && how->env[i]; i++)
		env[i] = strdup(how->env[i]);
	fexecve(binary, argv, env);
	_exit(127);
}

/* Runs `sandboxctl --socket SOCKET <args>`; the exit status, or 1000 + the signal. */
static inline int fake_run_with(struct fake *f, const struct fake_run *how, const char *const *args)
{
	char *argv[FAKE_ARGS];
	size_t n = 0;
	int status;
	pid_t pid;

	argv[n++] = strdup("sandboxctl");
	if (!how->no_socket) {
		argv[n++] = strdup("--socket");
		argv[n++] = strdup(f->socket);
	}
	for (size_t i = 0; args[i]; i++) {
		ck_assert_uint_lt(n, FAKE_ARGS - 1);
		argv[n++] = strdup(args[i]);
	}
	argv[n] = NULL;
	if (how->standard_in)
		fake_write_file(f, "in", how->standard_in, strlen(how->standard_in));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		fake_exec(f, how, argv);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	while (n > 0)
		free(argv[--n]);
	f->out[0] = '\0';
	if (!how->standard_out)
		fake_read_file(f, "out", f->out, sizeof(f->out));
	fake_read_file(f, "err", f->err, sizeof(f->err));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define fake_run(f, ...)                                                                                     \
	fake_run_with(f, &(const struct fake_run){ 0 }, (const char *const[]){ __VA_ARGS__, NULL })

/* Starts a fake daemon with this script, runs, stops it: then what came in can be looked at. */
#define fake_once(ret_f, script_, ...)                                                                       \
	(*(ret_f) = fake_start(script_), fake_once_done(*(ret_f), fake_run(*(ret_f), __VA_ARGS__)))

static inline int fake_once_done(struct fake *f, int status)
{
	fake_stop(f);
	return status;
}

/* ---- scripts, and looking at what came ---- */

#define RESULT(json)       "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" json "}\n"
#define RESULT_TO(n, json) "{\"jsonrpc\":\"2.0\",\"id\":" #n ",\"result\":" json "}\n"
#define ERROR(json)        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":" json "}\n"
#define SHA                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SCRIPT(...)        ((const char *const[]){ __VA_ARGS__, NULL })

#define has(text, part)   ck_assert_msg(strstr(text, part) != NULL, "no '%s' in: %s", part, text)
#define hasnt(text, part) ck_assert_msg(strstr(text, part) == NULL, "'%s' in: %s", part, text)

/* Nothing that a terminal would obey; of control characters only newlines and tabs. */
static inline void is_clean(const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		ck_assert_msg(
			*c >= 0x20 || *c == '\n' || *c == '\t', "control character %#x in: %s", *c, text);
		ck_assert_msg(*c != 0x7f, "DEL in: %s", text);
		ck_assert_msg(!(c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0), "C1 control in: %s", text);
	}
}

static inline struct json_span line_of(const char *text)
{
	struct err e;
	size_t size = strcspn(text, "\n");

	ck_assert_msg(text[size] == '\n' && text[size + 1] == '\0', "not one line: %s", text);
	ck_assert_msg(json_check(text, size, &e) == 0, "%s: %s", e.text, text);
	return (struct json_span){ text, size };
}

/* The params of request i, as text without its newline. */
static inline const char *params_of(const struct fake *f, size_t i, const char *method)
{
	static char text[4096];
	struct json_span whole, params;
	struct err e;

	ck_assert_uint_lt(i, f->n_lines);
	whole = (struct json_span){ f->lines[i], strlen(f->lines[i]) };
	ck_assert_msg(json_check(whole.at, whole.size, &e) == 0, "%s", e.text);
	ck_assert(json_string_is(json_get(whole, "jsonrpc"), "2.0"));
	ck_assert_msg(json_string_is(json_get(whole, "method"), method), "%s: %.200s", method, whole.at);
	params = json_get(whole, "params");
	(void)snprintf(text, sizeof(text), "%.*s", (int)params.size, params.at);
	return text;
}

#endif
