/* SPDX-License-Identifier: MIT
 *
 * Deaths. Every child, and every orphan of one (this process is their subreaper), is waited for here. A pid is looked at
 * before it is reaped, so that its group can be killed while the number can't be anybody else's. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/spawner.h"
#include "proto/clock.h"
#include "proto/log.h"

#define REAPS_PER_TURN 32 /* control hears of them before the next ones, and is answered in between */

static void failure_note(struct spawner *sp, const struct child_report *r)
{
	struct entry *entry = table_find_pid(&sp->table, r->pid);
	struct job *job = job_find_pid(sp, r->pid);
	struct zygote *zygote = zygote_find_pid(sp, r->pid);
	struct upgrade *upgrade = &sp->upgrade;
	const char *why = strerror(r->sys_errno);

	if (entry) {
		return; /* a host never executes anything */
	} else if (zygote) {
		zygote_step_failed(zygote, child_step_name(CHILD_ZYGOTE, r->step), r->sys_errno);
	} else if (job) {
		(void)snprintf(job->step, sizeof job->step, "%s", child_step_name(CHILD_COMPILE, r->step));
		(void)snprintf(job->text, sizeof job->text, "%.50s: %.40s", job->step, why);
	} else if (r->pid == sp->control.pid) {
		(void)snprintf(sp->control.failure, sizeof sp->control.failure, "set-up step '%s' failed: %s",
			child_step_name(CHILD_CONTROL, r->step), why);
	} else if (r->pid == upgrade->pid) {
		(void)snprintf(upgrade->reason, sizeof upgrade->reason, "step '%s' failed: %s", child_step_name(CHILD_CHECK, r->step), why);
	}
}

void reap_reports(struct spawner *sp)
{
	struct child_report report;

	while (read(sp->report_read_fd, &report, sizeof report) == (ssize_t)sizeof report)
		failure_note(sp, &report);
}

void reap_sweep(struct spawner *sp, uid_t uid)
{
	if (sp->is_root)
		sweeps_add(&sp->sweeps, uid, clock_monotonic_ms());
}

void reap_uid_free(struct spawner *sp, uid_t uid)
{
	if (sp->is_root)
		uids_give(&sp->uids, uid);
}

static void child_reaped(struct spawner *sp, pid_t pid, int status, int64_t now_ms)
{
	struct entry *entry = table_find_pid(&sp->table, pid);
	struct job *job = job_find_pid(sp, pid);
	struct zygote *zygote = zygote_find_pid(sp, pid);

	if (entry) {
		birth_drop(sp, entry);
		entry_leaf_end(sp, entry);
		entry_exited(&sp->table, entry, status, now_ms);
		log_debug("sandbox=%s generation=%llu ended with status %d", entry->sandbox,
			(unsigned long long)entry->generation, status);
	} else if (job) {
		job_reaped(sp, job, status);
	} else if (zygote) {
		zygote_reaped(sp, zygote, status);
	} else if (pid == sp->control.pid) {
		control_reaped(sp, status, now_ms);
	} else if (!upgrade_reaped(sp, pid, status, now_ms) && !sweeps_reaped(&sp->sweeps, &sp->uids, pid, status, now_ms) && !spare_reaped(sp, pid)) {
		(void)zygotes_early_exit(sp, pid, status); /* else an orphan */
	}
}

static bool is_leader(struct spawner *sp, pid_t pid)
{
	return table_find_pid(&sp->table, pid) || job_find_pid(sp, pid) || pid == sp->control.pid || pid == sp->upgrade.pid;
}

/* A host that was stopped answers nobody: where that wasn't a FREEZE, its module has done it (or somebody who may). It is killed and followed
 * by its policy; a job is killed too. Control is left to whoever stopped it: a debugger, an administrator. */
static void stopped(struct spawner *sp, pid_t pid, uid_t uid)
{
	siginfo_t info;

	(void)waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG);
	if (freeze_covers(sp, pid, uid))
		return;
	if (pid == sp->control.pid) {
		log_warning("control %d was stopped by a signal: nobody is served until it goes on", (int)pid);
		return;
	}
	log_warning("process %d was stopped by a signal: it is killed", (int)pid);
	(void)kill(pid, SIGKILL);
}

/* false: nobody has. */
static bool reap_one(struct spawner *sp, int64_t now_ms, bool *strays)
{
	siginfo_t info = { .si_pid = 0 };
	struct entry *entry;
	int status;

	if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == -1 || info.si_pid == 0)
		return false;
	if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
		stopped(sp, info.si_pid, info.si_uid);
		return true;
	}
	reap_reports(sp);
	zygotes_read(sp); /* whose it is may be said there */
	if (is_leader(sp, info.si_pid))
		(void)kill(-info.si_pid, SIGKILL);
	entry = table_find_pid(&sp->table, info.si_pid);
	if (entry && !entry->own_pids)
		entry_orphans_kill(sp, entry);
	/* One that wasn't killed with the others may have made more of them before it ended. */
	if (!entry && !(info.si_code == CLD_KILLED && info.si_status == SIGKILL) && orphan_is_stray(sp, info.si_pid))
		*strays = true;
	if (waitpid(info.si_pid, &status, WNOHANG) == info.si_pid)
		child_reaped(sp, info.si_pid, status, now_ms);
	return true;
}

/* How many are left for the next turn is seen by the caller's poll: SIGCHLD is raised again by hand. */
void reap_children(struct spawner *sp, int64_t now_ms)
{
	bool strays = false;
	int n = 0;

	while (n < REAPS_PER_TURN && reap_one(sp, now_ms, &strays))
		n++;
	if (strays)
		orphans_stray_kill(sp);
	if (n == REAPS_PER_TURN)
		(void)raise(SIGCHLD); /* blocked: it makes the signal descriptor readable */
}

/* What the kernel says that our children are; orphans that left their host's session are among them. */
static void orphans_kill(void)
{
	autoclose int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	char text[16384], *at = text;
	ssize_t n = fd == -1 ? 0 : read(fd, text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	for (;;) {
		char *end;
		long pid = strtol(at, &end, 10);

		if (end == at)
			return;
		if (*end == ' ' && pid > 0) /* else the text was cut in the number */
			(void)kill((pid_t)pid, SIGKILL);
		at = end;
	}
}

void reap_kill_all(struct spawner *sp)
{
	for (uint64_t cursor = 0;;) {
		struct entry *entry = table_from(&sp->table, cursor);

		if (!entry)
			break;
		if (entry->other)
			second_drop(sp, entry);
		if (entry->pid > 0) {
			(void)kill(-entry->pid, SIGKILL);
			(void)kill(entry->pid, SIGKILL);
		}
		cursor = entry->slot + 1ull;
	}
	jobs_kill_all(sp);
	zygotes_kill(sp);
	if (sp->control.pid > 0)
		(void)kill(sp->control.pid, SIGKILL);
	if (sp->upgrade.pid > 0)
		(void)kill(-sp->upgrade.pid, SIGKILL);
	orphans_kill();
}

bool reap_done(const struct spawner *sp)
{
	siginfo_t info = { .si_pid = 0 };

	if (sp->table.n_living > 0 || sp->control.pid > 0)
		return false;
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD;
}
