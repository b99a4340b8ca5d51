/* SPDX-License-Identifier: MIT
 *
 * The steps of an upgrade in the program that is to be replaced. */
#include "daemon/spawner/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/handover.h"
#include "daemon/spawner/spawner.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/log.h"

#define CHECK_MS     10000 /* three programs are run: 30 ms, and the patience for a loaded machine */
#define CHECK_CPU_S  10
#define LEAVE_MS     5000  /* control's own limits for it are shorter; then it is killed, which it is made for */
#define DRAIN_ALL_MS 15000 /* a birth has its own deadlines, below this */
#define OUTPUT_BYTES 4096
#define ARGUMENTS    256   /* of the command line; options are few */

void upgrade_init(struct upgrade *u)
{
	memset(u, 0, sizeof *u);
	u->program_fd = u->output_fd = -1;
	u->deadline_ms = NEVER;
}

/* The name that it was started by, where that is a path to it: a link that is changed later is meant to be followed. */
void upgrade_begin_at(struct upgrade *u, char *const *argv)
{
	static const char deleted[] = " (deleted)"; /* replaced since: what lies there now is meant */
	struct stat named, own;
	ssize_t n;

	u->argv = argv;
	if (argv[0] && argv[0][0] == '/' && strlen(argv[0]) < sizeof u->path && stat(argv[0], &named) == 0 && stat("/proc/self/exe", &own) == 0 &&
		named.st_ino == own.st_ino && named.st_dev == own.st_dev) {
		(void)snprintf(u->path, sizeof u->path, "%s", argv[0]);
		return;
	}
	n = readlink("/proc/self/exe", u->path, sizeof u->path);
	if (n < 0 || n == (ssize_t)sizeof u->path)
		n = 0;
	u->path[n] = '\0';
	if (n > (ssize_t)sizeof deleted && strcmp(u->path + n - (sizeof deleted - 1), deleted) == 0)
		u->path[n - (ssize_t)(sizeof deleted - 1)] = '\0';
}

static void step(struct spawner *sp, int state, int64_t deadline_ms)
{
	sp->upgrade.state = state;
	sp->upgrade.deadline_ms = deadline_ms;
}

void upgrade_close(struct upgrade *u)
{
	fd_close(&u->program_fd);
	fd_close(&u->output_fd);
}

/* The old program goes on. Control that lives is told; where none lives, the next one is. */
static void refuse(struct spawner *sp, const struct err *e, int64_t now_ms)
{
	struct upgrade *u = &sp->upgrade;

	log_warning("upgrade refused: %s", e->text);
	text_clean(u->reason, sizeof u->reason, e->text, strlen(e->text));
	u->says = UPGRADE_SAYS_REFUSED;
	step(sp, UPGRADE_NONE, NEVER);
	upgrade_close(u);
	if (sp->control.pid == 0 && sp->control.start_at_ms == NEVER)
		sp->control.start_at_ms = now_ms;
	notify_send(&sp->notify, "READY=1\nSTATUS=upgrade refused: %.200s\n", u->reason);
}

/* ---- the check ---- */

static int program_open(struct upgrade *u, struct err *e)
{
	struct stat st;

	if (!u->path[0])
		return err_set(e, ERR_UPGRADE_REFUSED, "where sandboxd was started can't be told");
	u->program_fd = open(u->path, O_PATH | O_CLOEXEC);
	if (u->program_fd == -1 || fstat(u->program_fd, &st) == -1)
		return err_sys(e, ERR_UPGRADE_REFUSED, "cannot open the new program %s", u->path);
	if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return err_set(e, ERR_UPGRADE_REFUSED, "the new program %s is no executable file", u->path);
	return 0;
}

/* Room for its words and no more: what is written beyond is refused. */
static int output_make(struct upgrade *u, struct err *e)
{
	u->output_fd = memfd_create("upgrade", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (u->output_fd == -1 || ftruncate(u->output_fd, OUTPUT_BYTES) == -1 || fcntl(u->output_fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == -1)
		return err_sys(e, ERR_UPGRADE_REFUSED, "cannot make memory for the check");
	return 0;
}

static int table_memfd(const struct spawner *sp, struct err *e)
{
	size_t size;
	void *bytes = upgrade_pack(sp, &size, e);
	int fd;

	if (!bytes)
		return -1;
	fd = fd_memfd("handover", bytes, size, true);
	free(bytes);
	return fd == -1 ? err_sys(e, ERR_UPGRADE_REFUSED, "cannot make memory for the table") : fd;
}

/* The command line, without what an earlier upgrade has added, and with this. -1: it is too long. */
static int arguments(const struct upgrade *u, char *option, char *number, char *to[ARGUMENTS + 3])
{
	size_t n = 0;

	for (char *const *from = u->argv; *from; from++) {
		if (n == ARGUMENTS)
			return -1;
		if (strcmp(*from, "--take-over") == 0 && from[1])
			from++;
		else
			to[n++] = *from;
	}
	to[n++] = option;
	to[n++] = number;
	to[n] = NULL;
	return 0;
}

static int check_start(struct spawner *sp, struct err *e)
{
	static char option[] = "--can-take-over", number[8];
	struct upgrade *u = &sp->upgrade;
	char *argv[ARGUMENTS + 3];
	struct child_plan plan;
	autoclose int table_fd = -1;

	if (program_open(u, e) == -1 || output_make(u, e) == -1 || (table_fd = table_memfd(sp, e)) == -1)
		return -1;
	(void)snprintf(number, sizeof number, "%d", UPGRADE_CHECK_FD);
	if (arguments(u, option, number, argv) == -1)
		return err_set(e, ERR_UPGRADE_REFUSED, "the command line has more than %d words", ARGUMENTS);
	child_plan_init(&plan, CHILD_CHECK);
	plan.fds[0] = sp->null_fd;
	plan.fds[1] = plan.fds[2] = u->output_fd;
	plan.fds[UPGRADE_CHECK_FD] = table_fd;
	plan.n_fds = UPGRADE_CHECK_FD + 1;
	plan.extra[CHILD_FD_PROGRAM] = u->program_fd;
	plan.change_ids = sp->is_root;
	plan.stays_here = true;
	plan.argv = argv;
	plan.envp = environ;
	child_plan_limit(&plan, RLIMIT_CPU, CHECK_CPU_S);
	child_plan_limit(&plan, RLIMIT_CORE, 0);
	u->pid = spawn_child(sp, &plan, e);
	if (u->pid == -1)
		u->pid = 0;
	return u->pid > 0 ? 0 : -1;
}

void upgrade_asked(struct spawner *sp, const char *by, int64_t now_ms)
{
	struct upgrade *u = &sp->upgrade;
	struct err e = ERR_INIT;

	if (u->state != UPGRADE_NONE) {
		log_info("an upgrade is under way already (%s)", by);
		return;
	}
	log_info("upgrade asked for by %s: %s is checked", by, u->path);
	u->says = UPGRADE_SAYS_NOTHING;
	u->overdue = false;
	if (sp->ending || sp->stop_asked > 0) {
		err_set(&e, ERR_UPGRADE_REFUSED, "the daemon is stopping");
		refuse(sp, &e, now_ms);
		return;
	}
	notify_send(&sp->notify, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=upgrade: the new program is checked\n", (long long)clock_monotonic_us());
	step(sp, UPGRADE_CHECKS, now_ms + CHECK_MS);
	if (check_start(sp, &e) == -1)
		refuse(sp, &e, now_ms);
}

/* The first line that it wrote. */
static void words_read(struct upgrade *u, char to[sizeof((struct err *)0)->text])
{
	char bytes[400];
	ssize_t n = pread(u->output_fd, bytes, sizeof bytes - 1, 0);

	bytes[n > 0 ? n : 0] = '\0';
	text_clean(to, sizeof((struct err *)0)->text, bytes, strcspn(bytes, "\n"));
}

static int verdict(struct upgrade *u, int status, struct err *e)
{
	char words[sizeof e->text];
	char whole[sizeof UPGRADE_GOOD + 1] = "";

	words_read(u, words);
	if (u->overdue)
		return err_set(e, ERR_UPGRADE_REFUSED, "the new program %s gave no answer within %d s", u->path, CHECK_MS / 1000);
	if (WIFSIGNALED(status))
		return err_set(e, ERR_UPGRADE_REFUSED, "the new program %s was killed by signal %d while it was checked", u->path, WTERMSIG(status));
	if (WEXITSTATUS(status) == CHILD_STATUS_FAILED && !words[0])
		return err_set(e, ERR_UPGRADE_REFUSED, "the new program %s can't be executed: %s", u->path, u->reason[0] ? u->reason : "see the log");
	if (WEXITSTATUS(status) != 0)
		return err_set(e, ERR_UPGRADE_REFUSED, "the new program %s says: %s", u->path, words[0] ? words : "nothing");
	(void)!pread(u->output_fd, whole, sizeof whole - 1, 0);
	if (strcmp(whole, UPGRADE_GOOD) != 0)
		return err_set(e, ERR_UPGRADE_REFUSED, "the new program %s is no sandboxd that can take over", u->path);
	return 0;
}

bool upgrade_reaped(struct spawner *sp, pid_t pid, int status, int64_t now_ms)
{
	struct upgrade *u = &sp->upgrade;
	struct err e = ERR_INIT;

	if (u->pid == 0 || pid != u->pid)
		return false;
	u->pid = 0;
	if (u->state != UPGRADE_CHECKS)
		return true;
	if (sp->ending || sp->stop_asked > 0)
		err_set(&e, ERR_UPGRADE_REFUSED, "the daemon is stopping");
	else
		(void)verdict(u, status, &e);
	u->reason[0] = '\0';
	fd_close(&u->output_fd);
	if (e.code != ERR_OK) {
		refuse(sp, &e, now_ms);
		return true;
	}
	log_info("upgrade: %s can take over: control ends", u->path);
	step(sp, UPGRADE_LEAVES, now_ms + LEAVE_MS);
	u->says = UPGRADE_SAYS_GO;
	if (sp->control.pid > 0 && !sp->control.ready) /* it serves nobody yet, and what it is doing its successor does */
		(void)kill(sp->control.pid, SIGKILL);
	return true;
}

/* ---- the way out ---- */

bool upgrade_drains(const struct spawner *sp)
{
	return sp->upgrade.state == UPGRADE_DRAINS;
}

bool upgrade_control_left(struct spawner *sp, int64_t now_ms)
{
	if (sp->upgrade.state != UPGRADE_LEAVES)
		return false;
	sp->upgrade.says = UPGRADE_SAYS_NOTHING;
	step(sp, UPGRADE_DRAINS, now_ms + DRAIN_ALL_MS);
	return true;
}

static bool all_has_ended(struct spawner *sp)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state != JOB_FREE)
			return false;
	return sp->table.n_unwanted == 0 && sweeps_rest(&sp->sweeps) && zygotes_drained(sp); /* second processes have a user each, which the new program would lose */
}

static int crossing_set(const int *fds, size_t n, bool crosses)
{
	for (size_t i = 0; i < n; i++)
		if (fcntl(fds[i], F_SETFD, crosses ? 0 : FD_CLOEXEC) == -1)
			return -1;
	return 0;
}

/* Returns only if it fails. */
static void replace(struct spawner *sp, struct err *e)
{
	static char option[] = "--take-over";
	struct upgrade *u = &sp->upgrade;
	char number[16], *argv[ARGUMENTS + 3];
	size_t size, n = 0;
	struct handover h;
	void *bytes = upgrade_pack(sp, &size, e);
	autoclose int fd = bytes ? fd_memfd("handover", bytes, size, true) : -1;
	int *fds = bytes && handover_read(bytes, size, &h, e) == 0 ? handover_fds(&h, &n) : NULL;

	if (fd != -1 && fds) {
		(void)snprintf(number, sizeof number, "%d", fd);
		(void)arguments(u, option, number, argv); /* it fitted before */
		if (crossing_set(fds, n, true) == 0 && fcntl(fd, F_SETFD, 0) == 0 && !FAULT(SPAWNER_EXEC))
			(void)execveat(u->program_fd, "", argv, environ, AT_EMPTY_PATH);
		err_sys(e, ERR_UPGRADE_REFUSED, "cannot execute the new program %s", u->path);
		(void)crossing_set(fds, n, false);
	} else if (e->code == ERR_OK) {
		err_sys(e, ERR_UPGRADE_REFUSED, "cannot make the table for the new program");
	}
	free(fds);
	free(bytes);
}

void upgrade_timer(struct spawner *sp, int64_t now_ms)
{
	struct upgrade *u = &sp->upgrade;
	bool late = now_ms >= u->deadline_ms;
	struct err e = ERR_INIT;

	switch (u->state) {
	case UPGRADE_NONE:
		return;
	case UPGRADE_CHECKS:
		if (!late)
			return;
		u->overdue = true;
		u->deadline_ms = NEVER;
		(void)kill(-u->pid, SIGKILL);
		(void)kill(u->pid, SIGKILL);
		return;
	case UPGRADE_LEAVES:
		if (sp->control.pid == 0) { /* it was dead when the answer came */
			sp->control.start_at_ms = NEVER;
			(void)upgrade_control_left(sp, now_ms);
		} else if (late) {
			log_warning("control doesn't leave in time: it is killed");
			u->deadline_ms = NEVER;
			(void)kill(sp->control.pid, SIGKILL);
		}
		return;
	case UPGRADE_DRAINS:
		break;
	}
	if (sp->ending)
		return;
	zygotes_drain(sp);
	if (all_has_ended(sp))
		replace(sp, &e);
	else if (late)
		err_set(&e, ERR_UPGRADE_REFUSED, "processes of the old program don't end");
	else
		return;
	refuse(sp, &e, now_ms);
}

int64_t upgrade_deadline(const struct spawner *sp)
{
	return sp->upgrade.deadline_ms;
}
