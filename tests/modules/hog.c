/* SPDX-License-Identifier: MIT
 *
 * A module that uses what no limit of a single process counts: memory that it shares with itself, children, all processors. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
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

SBX_MODULE(hog, 1, SBX_USES(hog), SBX_FN(memory, "mib: i64"), SBX_FN(children, "n: i64"), SBX_FN(spin, "ms: i64"));
