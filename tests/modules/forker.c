/* SPDX-License-Identifier: MIT
 *
 * A module that leaves processes and threads behind. All of them end by themselves after 30 s. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_module.h"

struct forker { int64_t children; };
SBX_STATE(forker, struct forker, SBX_FIELD(children));

static void wait_for_the_end(void)
{
	alarm(30);
	for (;;)
		pause();
}

/* A child in the host's session and group. */
static int child(struct sbx *x, void *self)
{
	struct forker *f = self;
	pid_t pid = fork();

	if (pid == 0)
		wait_for_the_end();
	f->children++;
	return sbx_put_i64(x, "pid", pid);
}

/* A grandchild that has a session of its own and whose parent is gone. */
static int daemon_made(struct sbx *x, void *self, bool unmark)
{
	struct forker *f = self;
	int ends[2];
	pid_t pid = -1;

	if (pipe(ends) < 0)
		return sbx_fail(x, "pipe", "no pipe");
	if (fork() == 0) {
		if (fork() == 0) {
			struct rlimit none = { 0, 0 };

			setsid();
			if (unmark)
				(void)setrlimit(RLIMIT_LOCKS, &none);
			pid = getpid();
			(void)!write(ends[1], &pid, sizeof pid);
			wait_for_the_end();
		}
		_exit(0);
	}
	(void)!read(ends[0], &pid, sizeof pid);
	close(ends[0]);
	close(ends[1]);
	f->children++;
	return sbx_put_i64(x, "pid", pid);
}

static int daemon_child(struct sbx *x, void *self)
{
	return daemon_made(x, self, false);
}

static int unmarked(struct sbx *x, void *self)
{
	return daemon_made(x, self, true);
}

/* Children that end at once, in every way, also by coming back into the host. */
static int brood(struct sbx *x, void *self)
{
	pid_t pid = 0;

	(void)self;
	for (int i = 0; i < 3; i++) {
		pid = fork();
		if (pid == 0 && i == 0)
			abort();
		if (pid == 0 && i == 1)
			exit(5);
		if (pid == 0)
			break;
		if (waitpid(pid, NULL, 0) != pid)
			return sbx_fail(x, "lost", "a child got lost");
	}
	return sbx_put_bool(x, "ok", true);
}

/* Orphans, each in a session of its own, that end by themselves within so many milliseconds, one here, one there, in every way. */
static int litter(struct sbx *x, void *self)
{
	int64_t n = sbx_arg_i64(x, "n"), ms = sbx_arg_i64(x, "ms");

	(void)self;
	for (int64_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0 && fork() == 0) {
			setsid();
			(void)poll(NULL, 0, (int)(i * 7919 % ms));
			if (i % 3 == 0)
				(void)raise(SIGKILL);
			_exit((int)(i % 100));
		}
		if (pid == 0)
			_exit(0);
		if (pid == -1 || waitpid(pid, NULL, 0) != pid)
			return sbx_fail(x, "fork", "child %lld can't be made", (long long)i);
	}
	return 0;
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static int thread(struct sbx *x, void *self)
{
	pthread_t id;

	(void)self;
	if (pthread_create(&id, NULL, idle, NULL) != 0)
		return sbx_fail(x, "thread", "no thread");
	return 0;
}

SBX_MODULE(forker, 1, SBX_USES(forker), SBX_FN(child, ""), SBX_FN_AS("daemon", daemon_child, ""), SBX_FN(unmarked, ""), SBX_FN(thread, ""),
	SBX_FN(brood, ""), SBX_FN(litter, "n: i64, ms: i64"));
