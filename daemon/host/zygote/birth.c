/* SPDX-License-Identifier: MIT
 *
 * What each host does between its clone and the first byte that it reads from its channel. Order matters: mounts before the
 * user is changed and before Landlock, limits of descriptors after those that set-up needs, the death signal after the change of
 * user, which forgets it, the filter last. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/host/zygote/zygote.h"
#include "proto/fd.h"
#include "proto/host_mark.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#define SCRATCH_INODES 4096 /* each is a page of kernel memory at most, which no limit of the sandbox counts */

enum { CHANNEL, OUT, ERROR, OBJECTS };

static int step_name(struct zygote *z)
{
	walls.spare = (z->request.flags & ZYGOTE_F_SPARE) != 0;
	return prctl(PR_SET_NAME, walls.spare ? SPARE_BIRTH_NAME : HOST_NAME, 0, 0, 0);
}

/* Nothing outlives the first process of a pid namespace: who is that needs none. */
static int step_mark(struct zygote *z)
{
	(void)z;
	if (getpid() != 1)
		host_mark_set();
	return 0;
}

/* Where clone3 couldn't do it: from here on what it uses is its own cgroup's. A namespace of cgroups has its root where its maker stood. */
static int step_cgroup(struct zygote *z)
{
	autoclose int fd = -1;

	walls.not_by_cgroup = z->request.lost;
	(void)snprintf(walls.no_cgroup, sizeof walls.no_cgroup, "%s", z->request.step);
	if (z->cgroup_fd == -1)
		return 0;
	if (!z->in_cgroup) {
		fd = openat(z->cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
		if (fd == -1 || write(fd, "0", 1) != 1)
			return -1;
	}
	fd_close(&z->cgroup_fd);
	walls.own_cgroup = true;
	return walls_want(PROTECTION_CGROUP_NAMESPACE) ? unshare(CLONE_NEWCGROUP) : 0;
}

static int step_map_user(struct zygote *z)
{
	return zygote_map_user(z, z->uid, z->gid);
}

/* On top of the folder with those of all sandboxes, which nobody can see from then on. */
static int objects_on_top(const char *real)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	const char *slash = strrchr(real, '/');
	autoclose int tree = -1;
	char path[LIMIT_PATH_BYTES + 1];

	(void)snprintf(path, sizeof path, "%s/%s", ZYGOTE_OBJECTS, slash ? slash + 1 : real);
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree == -1 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) == -1)
		return -1;
	return zygote_attach(tree, AT_FDCWD, ZYGOTE_OBJECTS);
}

static int step_objects(struct zygote *z)
{
	(void)snprintf(walls.objects, sizeof walls.objects, ZYGOTE_OBJECTS);
	if (z->rootless)
		return objects_on_top(z->request.objects);
	if (z->n_fds <= OBJECTS) {
		errno = EBADF;
		return -1;
	}
	return zygote_attach(z->fds[OBJECTS], AT_FDCWD, ZYGOTE_OBJECTS);
}

static int step_scratch(struct zygote *z)
{
	const struct zygote_message *r = &z->request;
	char options[128];

	(void)snprintf(options, sizeof options, "size=%llu,nr_inodes=%d,mode=0700,uid=%u,gid=%u", (unsigned long long)r->scratch_bytes,
		SCRATCH_INODES, z->rootless ? z->uid : r->uid, z->rootless ? z->gid : r->uid);
	if (mount("scratch", ZYGOTE_SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) == -1)
		return -1;
	walls.scratch_bytes = r->scratch_bytes;
	return 0;
}

static int step_folder(struct zygote *z)
{
	(void)z;
	(void)umask(077);
	return chdir(walls.scratch_bytes > 0 ? ZYGOTE_SCRATCH : "/");
}

/* What came lies below the link's number, in the lowest that were free: from 3 on, since 0 to 2 never are. */
static int step_descriptors(struct zygote *z)
{
	if (dup2(z->fds[OUT], HOST_FD_STDOUT) == -1 || dup2(z->fds[ERROR], HOST_FD_STDERR) == -1)
		return -1;
	fd_close(&z->fds[OUT]);
	fd_close(&z->fds[ERROR]);
	if (z->n_fds > OBJECTS)
		fd_close(&z->fds[OBJECTS]);
	if (z->fds[CHANNEL] == HOST_FD_CHANNEL)
		return 0;
	if (dup3(z->fds[CHANNEL], HOST_FD_CHANNEL, O_CLOEXEC) == -1)
		return -1;
	fd_close(&z->fds[CHANNEL]);
	return 0;
}

/* ---- limits: lowered to what this process may set at all ---- */

static int limit_set(int resource, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) == -1)
		return -1;
	if (limit.rlim_max < value)
		value = limit.rlim_max;
	limit.rlim_cur = limit.rlim_max = value;
	return setrlimit((__rlimit_resource_t)resource, &limit);
}

static int step_limit_memory(struct zygote *z)
{
	return limit_set(RLIMIT_DATA, z->request.limits.max_memory_bytes);
}

static int step_limit_file_size(struct zygote *z)
{
	return limit_set(RLIMIT_FSIZE, z->request.limits.max_file_size_bytes);
}

static int step_limit_stack(struct zygote *z)
{
	return limit_set(RLIMIT_STACK, z->request.limits.max_stack_bytes);
}

static int step_limit_files(struct zygote *z)
{
	return limit_set(RLIMIT_NOFILE, z->request.limits.max_open_files);
}

static int step_limit_processes(struct zygote *z)
{
	return limit_set(RLIMIT_NPROC, z->request.limits.max_processes);
}

/* ---- user ---- */

static int step_session(struct zygote *z)
{
	(void)z;
	return setsid() == -1 ? -1 : 0;
}

/* Raw calls: this process has one thread, and libc's wrappers would lock to tell the others. */
static int step_user(struct zygote *z)
{
	uint32_t uid = z->request.uid;

	if (uid == 0) {
		errno = EINVAL;
		return -1;
	}
	if (syscall(SYS_setresgid, uid, uid, uid) == -1)
		return -1;
	return (int)syscall(SYS_setresuid, uid, uid, uid);
}

static int step_capabilities(struct zygote *z)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	(void)z;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return -1;
	return (int)syscall(SYS_capset, &head, none);
}

static int step_no_new_privileges(struct zygote *z)
{
	(void)z;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_not_dumpable(struct zygote *z)
{
	(void)z;
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static int step_parent_death(struct zygote *z)
{
	(void)z;
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* Twice: here, and by the filter. Before Linux 6.3 by the filter alone. */
static int step_new_code(struct zygote *z)
{
	(void)z;
	if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0)
		return 0;
	return errno == EINVAL && walls_want(PROTECTION_SYSTEM_CALLS) ? 0 : -1;
}

static int step_landlock(struct zygote *z)
{
	(void)z;
	if (landlock_restrict(walls_landlock.fd) == -1)
		return -1;
	fd_close(&walls_landlock.fd);
	return 0;
}

static int step_filter(struct zygote *z)
{
	struct sock_fprog program = { .len = z->n_filter, .filter = zygote_filter };
	unsigned flags = z->wants_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
	long result;

	if (z->n_filter == 0) {
		errno = ENOSYS;
		return -1;
	}
	result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (result == -1)
		return -1;
	if (flags)
		z->listener_fd = (int)result;
	return 0;
}

static const struct zygote_step steps[] = {
	{ "name", step_name, PROTECTION_NONE, false },
	{ "mark", step_mark, PROTECTION_TREE_END, false },
	{ "map user", step_map_user, PROTECTION_USER_NAMESPACE, false },
	{ "enter cgroup", step_cgroup, PROTECTION_NONE, true },
	{ "mount objects", step_objects, PROTECTION_OWN_ROOT, true },
	{ "mount scratch", step_scratch, PROTECTION_SCRATCH, false },
	{ "enter folder", step_folder, PROTECTION_NONE, false },
	{ "place descriptors", step_descriptors, PROTECTION_NONE, true },
	{ "limit memory", step_limit_memory, PROTECTION_LIMIT_MEMORY, true },
	{ "limit file size", step_limit_file_size, PROTECTION_LIMIT_FILE_SIZE, true },
	{ "limit stack", step_limit_stack, PROTECTION_LIMIT_STACK, true },
	{ "limit open files", step_limit_files, PROTECTION_LIMIT_OPEN_FILES, true },
	{ "limit processes", step_limit_processes, PROTECTION_LIMIT_PROCESSES, true },
	{ "new session", step_session, PROTECTION_OWN_SESSION, false },
	{ "change user", step_user, PROTECTION_OWN_UID, true },
	{ "drop capabilities", step_capabilities, PROTECTION_CAPABILITIES, false },
	{ "no new privileges", step_no_new_privileges, PROTECTION_NO_NEW_PRIVILEGES, false },
	{ "not dumpable", step_not_dumpable, PROTECTION_NOT_DUMPABLE, false },
	{ "parent death signal", step_parent_death, PROTECTION_PARENT_DEATH, false },
	{ "refuse new code", step_new_code, PROTECTION_NEW_CODE, false },
	{ "restrict files", step_landlock, PROTECTION_FILES, false },
	{ "install filter", step_filter, PROTECTION_SYSTEM_CALLS, false },
};

int zygote_birth(struct zygote *z, enum zygote_mode mode, const char **ret_step)
{
	if (!walls_want(PROTECTION_OWN_ROOT))
		(void)snprintf(walls.objects, sizeof walls.objects, "%s", z->request.objects);
	return zygote_steps(z, steps, sizeof steps / sizeof *steps, mode, ret_step);
}
