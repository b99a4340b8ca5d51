/* SPDX-License-Identifier: MIT
 *
 * The steps and their three tables. Only async-signal-safe calls between child_run's first line and exec: no heap, no
 * stdio, no locks. The walls of hosts are rows of the zygote's tables (daemon/host/zygote). */
#include "daemon/spawner/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/fd.h"

#define SIGNALS        64
#define CAPABILITIES   64
#define FIRST_EXTRA_FD 16 /* extras are placed at FIRST_EXTRA_FD + enum child_extra */
#define PARKED_FD      64 /* sources wait here and above while they are placed */
#define COPY_BYTES     (32u << 10)
#define CONTROL_NICE   -10 /* it serves everybody, also while hundreds of hosts are made, or run wild */
#define TEXT_OF(n)     TEXT_OF_(n)
#define TEXT_OF_(n)    #n

_Static_assert(CHILD_FDS_MAX <= FIRST_EXTRA_FD && FIRST_EXTRA_FD + (int)CHILD_EXTRA__N <= PARKED_FD, "numbers overlap");

/* An ignored signal and a blocked mask are inherited over exec. The raw call, since libc hides signals 32 and 33; an
 * all-zero action is the default one on every architecture. */
static int step_signals(struct child_plan *p)
{
	static const char standard[256];
	sigset_t none;

	(void)p;
	for (int number = 1; number <= SIGNALS; number++)
		if (number != SIGKILL && number != SIGSTOP)
			(void)syscall(SYS_rt_sigaction, number, standard, NULL, SIGNALS / 8);
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

static int step_session(struct child_plan *p)
{
	(void)p;
	return setsid() == -1 ? -1 : 0;
}

/* Where the kernel shares processors out by session (sched_autogroup), each host, a session of its own, would weigh as much as control, and
 * nice counts inside the session only: so both are set. What can't be had, as an ordinary user, is done without. */
static int step_priority(struct child_plan *p)
{
	static const char value[] = TEXT_OF(CONTROL_NICE);
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);

	(void)p;
	if (fd != -1) {
		(void)!write(fd, value, sizeof value - 1);
		(void)close(fd);
	}
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + CONTROL_NICE);
	return 0;
}

static int fd_park(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, PARKED_FD);
}

/* Sources are moved away first, so that no placement overwrites one that is still to be placed. */
static int step_descriptors(struct child_plan *p)
{
	for (size_t i = 0; i < p->n_fds; i++)
		if ((p->fds[i] = fd_park(p->fds[i])) == -1)
			return -1;
	for (size_t i = 0; i < CHILD_EXTRA__N; i++)
		if (p->extra[i] != -1 && (p->extra[i] = fd_park(p->extra[i])) == -1)
			return -1;
	for (size_t i = 0; i < p->n_fds; i++)
		if (dup2(p->fds[i], (int)i) == -1)
			return -1;
	for (int i = 0; i < (int)CHILD_EXTRA__N; i++) {
		if (p->extra[i] == -1) {
			(void)close(FIRST_EXTRA_FD + i);
			continue;
		}
		if (dup3(p->extra[i], FIRST_EXTRA_FD + i, O_CLOEXEC) == -1)
			return -1;
		p->extra[i] = FIRST_EXTRA_FD + i;
	}
	if (close_range((unsigned)p->n_fds, FIRST_EXTRA_FD - 1, 0) == -1)
		return -1;
	return close_range(FIRST_EXTRA_FD + (unsigned)CHILD_EXTRA__N, ~0u, 0);
}

static int step_limits(struct child_plan *p)
{
	for (size_t i = 0; i < p->n_limits; i++) {
		struct rlimit limit = { p->limits[i].value, p->limits[i].value };

		if (setrlimit((__rlimit_resource_t)p->limits[i].resource, &limit) == -1)
			return -1;
	}
	return 0;
}

static int bounding_set_drop(void)
{
	for (unsigned long cap = 0; cap < CAPABILITIES; cap++) {
		int has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

		if (has == -1)
			break; /* beyond the last that this kernel knows */
		if (has == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1)
			return -1;
	}
	return 0;
}

static int step_user(struct child_plan *p)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return -1;
	if (p->change_ids) {
		/* Raw calls: this process has one thread, and libc's wrappers would lock to tell the others. */
		if (bounding_set_drop() == -1 || syscall(SYS_setgroups, 0, NULL) == -1 ||
			syscall(SYS_setresgid, p->gid, p->gid, p->gid) == -1 ||
			syscall(SYS_setresuid, p->uid, p->uid, p->uid) == -1)
			return -1;
	}
	return (int)syscall(SYS_capset, &head, none);
}

/* It stays the user that owns the configuration, which nobody else may be able to read, and keeps no power of root's beside. */
static int step_powerless(struct child_plan *p)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return -1;
	if (p->change_ids && bounding_set_drop() == -1)
		return -1;
	return (int)syscall(SYS_capset, &head, none);
}

static int step_no_new_privileges(struct child_plan *p)
{
	(void)p;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* After the change of user, which forgets it. The parent may have died before: then the signal will never come. */
static int step_parent_death(struct child_plan *p)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1)
		return -1;
	if (getppid() != p->parent) {
		errno = ESRCH;
		return -1;
	}
	return 0;
}

static int step_folder(struct child_plan *p)
{
	(void)umask(p->umask);
	if (p->stays_here)
		return 0;
	if (p->extra[CHILD_FD_FOLDER] != -1)
		return fchdir(p->extra[CHILD_FD_FOLDER]);
	return chdir("/");
}

static int write_whole(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int copy_here(int from, const char *name)
{
	int to = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	char part[COPY_BYTES];
	off_t at = 0;
	ssize_t n;

	if (to == -1)
		return -1;
	while ((n = pread(from, part, sizeof part, at)) > 0) {
		if (write_whole(to, part, (size_t)n) == -1)
			return -1;
		at += n;
	}
	return n == 0 ? close(to) : -1;
}

static int step_copy_header(struct child_plan *p)
{
	return copy_here(p->extra[CHILD_FD_HEADER], "sandbox_module.h");
}

static int step_copy_source(struct child_plan *p)
{
	return copy_here(p->extra[CHILD_FD_SOURCE], p->source_name);
}

static int step_exec(struct child_plan *p)
{
	return (int)syscall(SYS_execveat, p->extra[CHILD_FD_PROGRAM], "", p->argv, p->envp, AT_EMPTY_PATH);
}

static int step_exec_compiler(struct child_plan *p)
{
	errno = ENOENT;
	for (const char *const *path = p->programs; *path; path++) {
		(void)execve(*path, p->argv, p->envp);
		if (errno != ENOENT)
			break;
	}
	return -1;
}

struct child_step {
	const char *name;
	int (*run)(struct child_plan *p);
};

/* Order matters: limits of descriptors after their placement, the bounding set before the user, the death signal after it. */
#define STEPS_BEGIN { "reset signals", step_signals }, { "new session", step_session }
#define STEPS_COMMON                                                                                         \
	{ "place descriptors", step_descriptors }, { "resource limits", step_limits },                       \
		{ "change user", step_user }, { "no new privileges", step_no_new_privileges },               \
		{ "parent death signal", step_parent_death }, { "enter folder", step_folder }

static const struct child_step steps_control[] = {
	STEPS_BEGIN,
	{ "priority", step_priority },
	STEPS_COMMON,
	{ "exec sandboxd-control", step_exec },
};

/* It needs what it has to make walls of it; its hosts drop that. Its folder is where it puts their root over. */
static const struct child_step steps_zygote[] = {
	STEPS_BEGIN,
	{ "place descriptors", step_descriptors },
	{ "parent death signal", step_parent_death },
	{ "enter folder", step_folder },
	{ "exec sandbox-host", step_exec },
};

static const struct child_step steps_compile[] = {
	STEPS_BEGIN,
	STEPS_COMMON,
	{ "copy header", step_copy_header },
	{ "copy source", step_copy_source },
	{ "exec compiler", step_exec_compiler },
};

static const struct child_step steps_check[] = {
	STEPS_BEGIN,
	{ "place descriptors", step_descriptors },
	{ "resource limits", step_limits },
	{ "no capabilities", step_powerless },
	{ "no new privileges", step_no_new_privileges },
	{ "parent death signal", step_parent_death },
	{ "enter folder", step_folder },
	{ "exec sandboxd", step_exec },
};

static const struct {
	const struct child_step *steps;
	uint32_t n;
} tables[] = {
	[CHILD_CONTROL] = { steps_control, sizeof steps_control / sizeof *steps_control },
	[CHILD_ZYGOTE] = { steps_zygote, sizeof steps_zygote / sizeof *steps_zygote },
	[CHILD_COMPILE] = { steps_compile, sizeof steps_compile / sizeof *steps_compile },
	[CHILD_CHECK] = { steps_check, sizeof steps_check / sizeof *steps_check },
};
_Static_assert(sizeof tables / sizeof *tables == (size_t)CHILD_KIND__N, "a table for each kind");

void child_plan_init(struct child_plan *p, enum child_kind kind)
{
	memset(p, 0, sizeof *p);
	p->kind = kind;
	p->parent = getpid();
	p->umask = 077;
	for (size_t i = 0; i < CHILD_FDS_MAX; i++)
		p->fds[i] = -1;
	for (size_t i = 0; i < CHILD_EXTRA__N; i++)
		p->extra[i] = -1;
}

void child_plan_limit(struct child_plan *p, int resource, uint64_t value)
{
	struct rlimit now;

	assert(p->n_limits < CHILD_LIMITS_MAX);
	if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max < value)
		value = now.rlim_max;
	p->limits[p->n_limits++] = (struct child_limit){ resource, value };
}

noreturn void child_run(struct child_plan *p)
{
	struct child_report report = { .pid = (int32_t)getpid() };

	while (report.step < tables[p->kind].n && tables[p->kind].steps[report.step].run(p) == 0)
		report.step++;
	report.sys_errno = errno;
	(void)!write(p->extra[CHILD_FD_REPORT], &report, sizeof report);
	_exit(CHILD_STATUS_FAILED);
}

const char *child_step_name(enum child_kind kind, uint32_t step)
{
	return step < tables[kind].n ? tables[kind].steps[step].name : "";
}
