/* SPDX-License-Identifier: MIT
 *
 * The mark is counted down from a number that nobody would choose as a limit. */
#include "proto/host_mark.h"

#include <limits.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#define MARK_TOP (UINT64_C(1) << 52)

void host_mark_set(void)
{
	rlim_t mark = (rlim_t)(MARK_TOP - (uint64_t)getpid());
	struct rlimit limit = { .rlim_cur = mark, .rlim_max = mark };

	(void)setrlimit(RLIMIT_LOCKS, &limit);
}

pid_t host_mark_of(pid_t pid)
{
	struct rlimit ours, its;

	if (getrlimit(RLIMIT_LOCKS, &ours) == -1 || (uint64_t)ours.rlim_max < MARK_TOP || prlimit(pid, RLIMIT_LOCKS, NULL, &its) == -1 ||
		(uint64_t)its.rlim_max >= MARK_TOP)
		return 0;
	return (uint64_t)its.rlim_max < MARK_TOP - INT_MAX ? -1 : (pid_t)(MARK_TOP - (uint64_t)its.rlim_max);
}
