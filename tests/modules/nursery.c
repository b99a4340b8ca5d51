/* SPDX-License-Identifier: MIT
 *
 * A process beside the host that makes orphans which end at once, as many as it may have at a time, without end of its own accord; children that
 * nobody waits for; a thread that waits for its own. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct nursery { int64_t n; };
SBX_STATE(nursery, struct nursery, SBX_FIELD(n));

static struct shared { _Atomic int64_t made, lost; } *shared;

static void a_moment(void)
{
	struct timespec t = { 0, 1000000 };

	(void)nanosleep(&t, NULL);
}

static pid_t fork_at_last(void)
{
	pid_t pid;

	while ((pid = fork()) < 0 && errno == EAGAIN)
		a_moment();
	return pid;
}

static void orphan(void)
{
	pid_t pid = fork_at_last();

	if (pid == 0) {
		if (fork_at_last() == 0)
			_exit(0);
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
	shared->made++;
}

static int orphans(struct sbx *x, void *self)
{
	int64_t n = sbx_arg_i64(x, "n");
	bool slowly = sbx_arg_bool(x, "slowly");
	pid_t pid;

	(void)self;
	if (!shared)
		shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0) {
		while (shared->made < n) {
			orphan();
			if (slowly)
				a_moment();
		}
		_exit(0);
	}
	return sbx_put_i64(x, "pid", pid);
}

static int made(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_i64(x, "made", shared ? shared->made : 0);
}

/* Children of the host that nobody waits for. */
static int leave(struct sbx *x, void *self)
{
	int64_t done = 0;

	(void)self;
	for (int64_t i = 0; i < sbx_arg_i64(x, "n"); i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		done += pid > 0;
	}
	return sbx_put_i64(x, "made", done);
}

static void *wait_for_own(void *shared_void)
{
	struct shared *s = shared_void;

	for (int i = 0; i < 50; i++) {
		pid_t pid = fork_at_last();

		if (pid == 0)
			_exit(0);
		for (int k = 0; k < 20; k++)
			a_moment(); /* it is a zombie for a while */
		s->lost += waitpid(pid, NULL, 0) != pid;
		s->made++;
	}
	return NULL;
}

/* A thread whose children are its own business. */
static int thread(struct sbx *x, void *self)
{
	pthread_t id;

	(void)self;
	if (!shared)
		shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return pthread_create(&id, NULL, wait_for_own, shared) == 0 ? 0 : sbx_fail(x, "thread", "no thread");
}

static int lost(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_i64(x, "lost", shared->lost);
}

SBX_MODULE(nursery, 1, SBX_USES(nursery), SBX_FN(orphans, "n: i64, slowly: bool = false"), SBX_FN(made, ""), SBX_FN(leave, "n: i64"), SBX_FN(thread, ""), SBX_FN(lost, ""));
