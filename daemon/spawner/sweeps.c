/* SPDX-License-Identifier: MIT */
#include "daemon/spawner/sweeps.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/log.h"

#ifndef sweep_fork
#define sweep_fork fork /* its test puts failures in */
#endif

/* As the user itself: that reaches each of its processes at once, whatever session they moved to. Till then its uid is
 * nobody's. */
static pid_t sweep_start(uid_t uid)
{
	pid_t pid = sweep_fork();

	if (pid != 0)
		return pid;
	if (syscall(SYS_setresuid, uid, uid, uid) != 0)
		_exit(1);
	_exit(kill(-1, SIGKILL) == 0 || errno == ESRCH ? 0 : 1);
}

void sweeps_fini(struct sweeps *s)
{
	free(s->waiting);
	*s = (struct sweeps)SWEEPS_INIT;
}

static struct sweep *place(struct sweeps *s)
{
	for (size_t i = 0; i < SWEEPS_AT_ONCE; i++)
		if (s->at_work[i].pid == 0)
			return &s->at_work[i];
	return NULL;
}

static void go_on(struct sweeps *s, int64_t now_ms)
{
	struct sweep *at;

	while (s->n_waiting > 0 && (at = place(s))) {
		pid_t pid = sweep_start(s->waiting[s->n_waiting - 1]);

		if (pid == -1) {
			s->retry_at_ms = now_ms + SWEEP_RETRY_MS;
			return;
		}
		*at = (struct sweep){ pid, s->waiting[--s->n_waiting] };
	}
	if (s->n_waiting == 0)
		s->retry_at_ms = INT64_MAX;
}

static void wait_again(struct sweeps *s, uid_t uid)
{
	if (s->n_waiting == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		uid_t *more = realloc(s->waiting, room * sizeof *more);

		if (!more) {
			log_warning("uid %lu is not used again: no memory to sweep it", (unsigned long)uid);
			return;
		}
		s->waiting = more;
		s->room = room;
	}
	s->waiting[s->n_waiting++] = uid;
}

void sweeps_add(struct sweeps *s, uid_t uid, int64_t now_ms)
{
	if (uid == 0 || uid == (uid_t)-1)
		return; /* kill(-1) of root's would be everybody */
	wait_again(s, uid);
	go_on(s, now_ms);
}

bool sweeps_rest(const struct sweeps *s)
{
	for (size_t i = 0; i < SWEEPS_AT_ONCE; i++)
		if (s->at_work[i].pid != 0)
			return false;
	return true;
}

bool sweeps_reaped(struct sweeps *s, struct uids *free_uids, pid_t pid, int status, int64_t now_ms)
{
	for (size_t i = 0; i < SWEEPS_AT_ONCE; i++) {
		struct sweep *at = &s->at_work[i];

		if (at->pid != pid)
			continue;
		at->pid = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			uids_give(free_uids, at->uid);
			go_on(s, now_ms);
		} else {
			wait_again(s, at->uid);
			if (WIFSIGNALED(status)) /* by one of them: the next one is another process */
				go_on(s, now_ms);
			else
				s->retry_at_ms = now_ms + SWEEP_RETRY_MS;
		}
		return true;
	}
	return false;
}

void sweeps_timer(struct sweeps *s, int64_t now_ms)
{
	if (now_ms >= s->retry_at_ms)
		go_on(s, now_ms);
}
