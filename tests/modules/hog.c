/* SPDX-License-Identifier: MIT
 *
 * A module that uses what no limit of a single process counts: memory that it shares with itself, children, all processors; and that keeps
 * what it took until it is told to give it back. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct hog { int64_t calls; };
SBX_STATE(hog, struct hog, SBX_FIELD(calls));

#define CHILDREN_MAX 512

/* RLIMIT_DATA doesn't count shared memory; a cgroup does. */
static int memory(struct sbx *x, void *self)
{
	size_t size = (size_t)sbx_arg_i64(x, "mib") << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)self;
	if (p == MAP_FAILED)
		return sbx_fail(x, "mmap", "no memory");
	memset(p, 1, size);
	return sbx_put_i64(x, "touched", (int64_t)size);
}

/* What is kept, newest first; only its addresses are here. */
static struct kept { char *at; size_t size; } kept[64];
static size_t n_kept;
static pid_t crowd_pids[CHILDREN_MAX];
static int64_t n_crowd;

static char *touched(size_t size, int flags)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : memset(p, 1, size);
}

/* Private memory, which RLIMIT_DATA counts; or shared. */
static int keep(struct sbx *x, void *self)
{
	size_t size = (size_t)sbx_arg_i64(x, "mib") << 20;

	(void)self;
	if (n_kept == sizeof kept / sizeof *kept)
		return sbx_fail(x, "full", "too many pieces");
	kept[n_kept].at = touched(size, sbx_arg_bool(x, "shared") ? MAP_SHARED : MAP_PRIVATE);
	if (!kept[n_kept].at)
		return sbx_fail(x, "mmap", "no memory");
	kept[n_kept++].size = size;
	return sbx_put_i64(x, "pieces", (int64_t)n_kept);
}

/* Children that each keep private memory of their own, or none of it, and live until they are told. */
static int crowd(struct sbx *x, void *self)
{
	size_t size = (size_t)sbx_arg_i64(x, "mib") << 20;
	int64_t most = sbx_arg_i64(x, "n");

	(void)self;
	while (most-- > 0 && n_crowd < CHILDREN_MAX) {
		pid_t pid = fork();

		if (pid == 0) {
			if (size > 0 && !touched(size, MAP_PRIVATE))
				_exit(1);
			for (;;)
				(void)pause();
		}
		if (pid == -1)
			break;
		crowd_pids[n_crowd++] = pid;
	}
	return sbx_put_i64(x, "children", n_crowd);
}

static int give_back(struct sbx *x, void *self)
{
	(void)self;
	for (; n_kept > 0; n_kept--)
		(void)munmap(kept[n_kept - 1].at, kept[n_kept - 1].size);
	for (; n_crowd > 0; n_crowd--) {
		(void)kill(crowd_pids[n_crowd - 1], SIGKILL);
		(void)waitpid(crowd_pids[n_crowd - 1], NULL, 0);
	}
	return sbx_put_bool(x, "done", true);
}

/* How many descriptors could be had; they stay open, until there are none asked for. */
static int files(struct sbx *x, void *self)
{
	static int fds[512];
	static int64_t n;
	int64_t most = sbx_arg_i64(x, "n");

	(void)self;
	while (n < most && n < 512 && (fds[n] = dup(2)) != -1)
		n++;
	while (n > most)
		(void)close(fds[--n]);
	return sbx_put_i64(x, "open", n);
}

/* Children that do nothing, until there may be no more; how many there were. They are ended again. */
static int children(struct sbx *x, void *self)
{
	pid_t pids[CHILDREN_MAX];
	int64_t n = 0, most = sbx_arg_i64(x, "n");

	(void)self;
	while (n < most && n < CHILDREN_MAX) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				(void)pause();
		if (pid == -1)
			break;
		pids[n++] = pid;
	}
	for (int64_t i = 0; i < n; i++)
		(void)kill(pids[i], SIGKILL);
	return sbx_put_i64(x, "children", n);
}

/* Wall clock, whatever of it the processor is given. */
static int spin(struct sbx *x, void *self)
{
	int64_t until_ms = sbx_arg_i64(x, "ms");
	struct timespec t;

	(void)self;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	until_ms += t.tv_sec * 1000 + t.tv_nsec / 1000000;
	do
		(void)clock_gettime(CLOCK_MONOTONIC, &t);
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < until_ms);
	return sbx_put_bool(x, "done", true);
}

SBX_MODULE(hog, 1, SBX_USES(hog), SBX_FN(memory, "mib: i64"), SBX_FN(children, "n: i64"), SBX_FN(spin, "ms: i64"), SBX_FN(keep, "mib: i64, shared: bool = false"),
	SBX_FN(crowd, "n: i64, mib: i64"), SBX_FN(give_back, ""), SBX_FN(files, "n: i64"));
