/* SPDX-License-Identifier: MIT
 *
 * Functions that take long, with and without a heartbeat; and processes of its own, beside the host, that write how far they are. */
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct beats { int64_t n; };
SBX_STATE(beats, struct beats, SBX_FIELD(n));

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int spin(struct sbx *x, void *self)
{
	int64_t end = now_ms() + sbx_arg_i64(x, "ms");

	(void)self;
	while (now_ms() < end)
		continue;
	return sbx_put_i64(x, "done", 1);
}

static int beat(struct sbx *x, void *self)
{
	int64_t end = now_ms() + sbx_arg_i64(x, "ms");

	(void)self;
	while (now_ms() < end)
		sbx_heartbeat(x);
	return sbx_put_i64(x, "done", 1);
}

static int increment(struct sbx *x, void *self)
{
	struct beats *b = self;

	return sbx_put_i64(x, "n", ++b->n);
}

static void write_steps(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);

	for (;;) {
		struct timespec t = { 0, 2000000 };

		if (write(fd, ".", 1) < 0)
			_exit(1);
		(void)nanosleep(&t, NULL);
	}
}

/* A child in the host's session, and one that left it and whose parent has ended. Both write to the path without end. */
static int children(struct sbx *x, void *self)
{
	const char *path = sbx_arg_str(x, "path");
	bool leave = sbx_arg_bool(x, "leave");
	pid_t pid;

	(void)self;
	(void)signal(SIGCHLD, SIG_IGN);
	pid = fork();
	if (pid == 0 && leave) {
		(void)setsid();
		if (fork() != 0)
			_exit(0);
	}
	if (pid == 0)
		write_steps(path);
	return sbx_put_i64(x, "pid", pid);
}

SBX_MODULE(beats, 1, SBX_USES(beats), SBX_FN(spin, "ms: i64"), SBX_FN(beat, "ms: i64"), SBX_FN(increment, ""),
	SBX_FN(children, "path: str, leave: bool"));
