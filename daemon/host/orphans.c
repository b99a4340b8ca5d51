/* SPDX-License-Identifier: MIT
 *
 * Whether there is anybody is known from libc's fork: a host without children has no descendants at all, since those would have come to it.
 * (One that a module made by a bare clone is found with the next that it forks.) */
#include "daemon/host/orphans.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAPS_PER_TURN 64
#define SOON_US        10000  /* some have just ended: more may follow */
#define LATER_US       200000

static volatile bool forked;
static int64_t next_us;

static void on_fork(void)
{
	forked = true;
}

void orphans_watch(void)
{
	(void)pthread_atfork(NULL, on_fork, NULL);
}

int64_t orphans_due_us(void)
{
	return forked ? next_us : INT64_MAX;
}

void orphans_reap(pid_t copy, pid_t other_copy, int64_t now_us)
{
	int n = 0;

	if (!forked || now_us < next_us)
		return;
	if (getpid() != 1) {
		forked = false; /* its children are the module's to wait for, and nobody else's come */
		return;
	}
	for (; n < REAPS_PER_TURN; n++) {
		siginfo_t info = { .si_pid = 0 };

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD) < 0) {
			forked = false; /* ECHILD */
			return;
		}
		if (info.si_pid == 0 || info.si_pid == copy || info.si_pid == other_copy ||
			waitpid(info.si_pid, NULL, WNOHANG | __WNOTHREAD) != info.si_pid)
			break;
	}
	next_us = n == REAPS_PER_TURN ? now_us : now_us + (n > 0 ? SOON_US : LATER_US);
}
