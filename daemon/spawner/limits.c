/* SPDX-License-Identifier: MIT
 *
 * Limits of a process that runs. Its cgroup's, where it has one, hold for all of it at once. A resource limit is the process's own: what it
 * forks later inherits it, what it has forked keeps the old one. To raise a hard limit takes CAP_SYS_RESOURCE, which ordinary users and root of
 * most containers lack: their hosts keep a lower one until the next start, and it is told which. To lower it, it is enough to be the host's
 * user; root becomes that in a child, since for as long as it is, the host may send it signals. */
#include <errno.h>
#include <stddef.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/spawner.h"

static const struct rlimit_row {
	uint32_t bit;
	int resource;
	size_t offset;
	bool wide; /* uint64_t, else uint32_t */
} rlimit_rows[] = {
	{ SPAWNER_LIMIT_MEMORY, RLIMIT_DATA, offsetof(struct host_limits, max_memory_bytes), true },
	{ SPAWNER_LIMIT_FILE_SIZE, RLIMIT_FSIZE, offsetof(struct host_limits, max_file_size_bytes), true },
	{ SPAWNER_LIMIT_PROCESSES, RLIMIT_NPROC, offsetof(struct host_limits, max_processes), false },
	{ SPAWNER_LIMIT_OPEN_FILES, RLIMIT_NOFILE, offsetof(struct host_limits, max_open_files), false },
};

static uint64_t row_value(const struct host_limits *l, const struct rlimit_row *row)
{
	const char *at = (const char *)l + row->offset;
	uint64_t wide;
	uint32_t narrow;

	if (row->wide)
		return memcpy(&wide, at, sizeof wide), wide;
	return memcpy(&narrow, at, sizeof narrow), narrow;
}

struct cgroup_limits limits_of_cgroup(const struct host_limits *l)
{
	return (struct cgroup_limits){ l->max_memory_bytes + LIMIT_HOST_OWN_BYTES, l->max_processes, l->max_cpu_percentage };
}

#define AS_USER_MS 100 /* for the child, which the host may stop: then it is killed, and nothing was changed */

/* The rows that differ; those that could not be set. The pid is a child of the spawner that it has not reaped: it can't be anybody else's by now. */
static uint32_t rlimits_set(const struct entry *entry, const struct host_limits *limits, int *ret_errno)
{
	uint32_t failed = 0;

	for (size_t i = 0; i < sizeof rlimit_rows / sizeof *rlimit_rows; i++) {
		const struct rlimit_row *row = &rlimit_rows[i];
		struct rlimit to = { row_value(limits, row), row_value(limits, row) }, now;

		if (row_value(&entry->limits, row) == row_value(limits, row))
			continue;
		/* One that its birth left out would count what isn't the sandbox's: all processes of a user, say. */
		if (prlimit(entry->pid, row->resource, NULL, &now) == 0 && now.rlim_cur > row_value(&entry->limits, row))
			errno = EOPNOTSUPP;
		else if (prlimit(entry->pid, row->resource, &to, NULL) == 0)
			continue;
		failed |= row->bit;
		*ret_errno = errno;
	}
	return failed;
}

/* The same as its user. Rows that were set already are set to the same again. */
static uint32_t rlimits_set_as_user(const struct entry *entry, const struct host_limits *limits, uint32_t failed)
{
	pid_t pid = fork();
	autoclose int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd ended = { fd, POLLIN, 0 };
	int ignored, status;

	if (pid == 0) {
		if (syscall(SYS_setresgid, entry->uid, entry->uid, entry->uid) != 0 || syscall(SYS_setresuid, entry->uid, entry->uid, entry->uid) != 0)
			_exit((int)failed);
		_exit((int)rlimits_set(entry, limits, &ignored));
	}
	if (pid == -1)
		return failed;
	if (fd == -1 || poll(&ended, 1, AS_USER_MS) <= 0)
		(void)kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : failed;
}

int entry_limit(struct spawner *sp, struct entry *entry, const struct host_limits *limits, struct spawner_message *answer, struct err *e)
{
	const struct cgroup_limits to = limits_of_cgroup(limits), before = limits_of_cgroup(&entry->limits);
	uint32_t failed;
	int status = 0;

	answer->value = 0;
	if (entry_has_leaf(sp, entry) && cgroup_limit(&sp->cgroups, entry->leaf, &to) == -1) {
		err_sys(e, ERR_UNAVAILABLE, "cannot change the limits of the cgroup of '%s'", entry->sandbox);
		(void)cgroup_limit(&sp->cgroups, entry->leaf, &before);
		return -1;
	}
	if (!entry_has_leaf(sp, entry) || !(sp->cgroups.has & PROTECTION_BIT(PROTECTION_TREE_CPU)))
		answer->value |= limits->max_cpu_percentage != entry->limits.max_cpu_percentage ? SPAWNER_LIMIT_CPU : 0;
	failed = rlimits_set(entry, limits, &status);
	if (failed && status == EPERM && sp->is_root && entry->uid != (uid_t)-1)
		failed = rlimits_set_as_user(entry, limits, failed);
	answer->value |= failed;
	answer->status = failed ? status : 0;
	entry->limits = *limits;
	return 0;
}
