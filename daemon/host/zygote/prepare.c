/* SPDX-License-Identifier: MIT
 *
 * What a zygote does once: everything that hosts inherit. Order matters: capabilities are needed to the end, so only the
 * bounding set goes here; nothing may be mounted any more once a ruleset is in force, so it is only made here. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/host/zygote/zygote.h"
#include "proto/fd.h"

#define CAPABILITIES 64
#define ROOT_OPTIONS_SIZE   "64k" /* the template holds folders, links and empty files only */
#define ROOT_OPTIONS_INODES "600" /* its own few, and each part of the granted paths: at most half of LIMIT_PROFILE_PATHS_BYTES */

static int step_core(struct zygote *z)
{
	const struct rlimit none = { 0, 0 };

	(void)z;
	return setrlimit(RLIMIT_CORE, &none);
}

static int step_groups(struct zygote *z)
{
	(void)z;
	return (int)syscall(SYS_setgroups, 0, NULL);
}

static int step_bounding_set(struct zygote *z)
{
	(void)z;
	for (unsigned long cap = 0; cap < CAPABILITIES; cap++) {
		int has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

		if (has == -1)
			break; /* beyond the last that this kernel knows */
		if (has == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1)
			return -1;
	}
	return 0;
}

static int step_securebits(struct zygote *z)
{
	(void)z;
	return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0);
}

static int proc_write(const struct zygote *z, const char *name, const char *text)
{
	autoclose int fd = openat(z->proc_fd, name, O_WRONLY | O_CLOEXEC);
	size_t size = strlen(text);

	if (fd == -1)
		return -1;
	return write(fd, text, size) == (ssize_t)size ? 0 : -1;
}

/* Through the folder of /proc that was opened while there was one. Without maps nobody owns files in scratch. */
int zygote_map_user(struct zygote *z, uint32_t uid, uint32_t gid)
{
	char map[64];

	(void)snprintf(map, sizeof map, "%u %u 1", uid, uid);
	if (proc_write(z, "self/setgroups", "deny") == -1 || proc_write(z, "self/uid_map", map) == -1)
		return -1;
	(void)snprintf(map, sizeof map, "%u %u 1", gid, gid);
	return proc_write(z, "self/gid_map", map);
}

/* An ordinary user's way to the rights that walls need. Each host gets one of its own inside this one: its processes are
 * counted there. */
static int step_user_namespace(struct zygote *z)
{
	autoclose int low = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (low == -1 || (z->proc_fd = fcntl(low, F_DUPFD_CLOEXEC, ZYGOTE_FDS_FROM)) == -1)
		return -1;
	if (unshare(CLONE_NEWUSER) == -1)
		return -1;
	return zygote_map_user(z, z->uid, z->gid);
}

/* Private: what is mounted here is seen nowhere else, and the other way round. */
static int step_mounts(struct zygote *z)
{
	(void)z;
	if (unshare(CLONE_NEWNS) == -1)
		return -1;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* ---- the template root: made once, shared by all hosts of this zygote, read-only ---- */

static int root_mount(void)
{
	autoclose int config = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (config == -1 || syscall(SYS_fsconfig, config, FSCONFIG_SET_STRING, "mode", "0755", 0) == -1 ||
		syscall(SYS_fsconfig, config, FSCONFIG_SET_STRING, "size", ROOT_OPTIONS_SIZE, 0) == -1 ||
		syscall(SYS_fsconfig, config, FSCONFIG_SET_STRING, "nr_inodes", ROOT_OPTIONS_INODES, 0) == -1 ||
		syscall(SYS_fsconfig, config, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == -1)
		return -1;
	return (int)syscall(SYS_fsmount, config, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

int zygote_attach(int mount_fd, int folder_fd, const char *to)
{
	return (int)syscall(SYS_move_mount, mount_fd, "", folder_fd, to,
		MOVE_MOUNT_F_EMPTY_PATH | (*to ? 0 : MOVE_MOUNT_T_EMPTY_PATH));
}

/* A folder of libraries, as this machine has it: a link, or a folder bound read-only. Not there: not there. */
static int library_folder(int root_fd, const char *path)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	const char *name = path + 1;
	autoclose int tree = -1;
	char target[256];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) == -1)
		return errno == ENOENT ? 0 : -1;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof target - 1);
		if (n == -1)
			return -1;
		target[n] = '\0';
		return symlinkat(target, root_fd, name);
	}
	if (mkdirat(root_fd, name, 0755) == -1)
		return -1;
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree == -1 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) == -1)
		return -1;
	return zygote_attach(tree, root_fd, name);
}

/* ---- what the profile grants of the machine ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Below the template root, where what was attached before may hold links that a module made: none is followed. */
static int place_open(int root_fd, const char *name)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, root_fd, name, &how, sizeof how);
}

/* Where it is to hang: the parts that aren't there yet are the template root's own. */
static int place_make(int root_fd, const char *path, bool is_folder)
{
	char name[LIMIT_PATH_BYTES + 1], *part = name;
	int parent = fcntl(root_fd, F_DUPFD_CLOEXEC, 3), next, result = -1, saved;

	(void)snprintf(name, sizeof name, "%s", path + 1);
	for (char *end; parent != -1 && (end = strchr(part, '/')); part = end + 1) {
		*end = '\0';
		next = mkdirat(parent, part, 0755) == 0 || errno == EEXIST ? place_open(parent, part) : -1;
		saved = errno;
		fd_close(&parent);
		errno = saved;
		parent = next;
	}
	if (parent == -1)
		return -1;
	if (is_folder) {
		result = mkdirat(parent, part, 0755);
	} else {
		next = openat(parent, part, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
		result = next == -1 ? -1 : 0;
		fd_close(&next);
	}
	if (result == -1 && errno == EEXIST)
		result = 0;
	saved = errno;
	fd_close(&parent);
	errno = saved;
	return result;
}

/* What lies there is mapped as code only where the profile allows new code. */
static int grant(const struct policy *p, int root_fd, const char *path, bool writes)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writes ? 0 : MOUNT_ATTR_RDONLY) |
		(p->refuse_new_code ? MOUNT_ATTR_NOEXEC : 0) };
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	autoclose int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how), tree = -1, place = -1;
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1)
		return -1;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	tree = (int)syscall(SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
	if (tree == -1 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) == -1 ||
		place_make(root_fd, path, S_ISDIR(st.st_mode)) == -1)
		return -1;
	place = place_open(root_fd, path + 1);
	return place == -1 ? -1 : zygote_attach(tree, place, "");
}

static bool is_written(const struct policy *p, const char *path)
{
	bool writes = false;

	for (size_t i = 0; policy_path(p, i, &writes); i++)
		if (policy_path(p, i, &writes) == path)
			return writes;
	return false;
}

/* A folder before what lies in it. */
static int grants(const struct policy *p, int root_fd)
{
	const char *paths[2 * LIMIT_PROFILE_PATHS];
	bool writes;
	size_t n = 0;

	for (const char *path; (path = policy_path(p, n, &writes)); n++)
		paths[n] = path;
	qsort(paths, n, sizeof *paths, by_path);
	for (size_t i = 0; i < n; i++)
		if (grant(p, root_fd, paths[i], is_written(p, paths[i])) == -1)
			return -1;
	return 0;
}

/* objects_fd -1: the spawner hands each host its folder as a mount. Else, having no right to, all are here, and each host puts
 * its own on top of them. */
static int root_fill(struct zygote *z, int root_fd, int objects_fd)
{
	static const char *const libraries[] = { "/usr/lib", "/usr/lib64", "/lib", "/lib64" };
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mkdirat(root_fd, "usr", 0755) == -1 || mkdirat(root_fd, &ZYGOTE_OBJECTS[1], 0755) == -1 ||
		mkdirat(root_fd, &ZYGOTE_WRITABLE[1], 0755) == -1 || mkdirat(root_fd, &ZYGOTE_SCRATCH[1], 0755) == -1)
		return -1;
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
		if (library_folder(root_fd, libraries[i]) == -1)
			return -1;
	if (objects_fd != -1 && zygote_attach(objects_fd, root_fd, &ZYGOTE_OBJECTS[1]) == -1)
		return -1;
	if (grants(profile_policy(z->profile), root_fd) == -1) {
		z->granted_errno = errno;
		return -1;
	}
	return (int)syscall(SYS_mount_setattr, root_fd, "", AT_EMPTY_PATH, &attributes, sizeof attributes);
}

/* Anything that is half done when a step of it fails lies in this process's own mount namespace. */
static int step_root(struct zygote *z)
{
	autoclose int root_fd = -1, objects_fd = -1;
	struct stat st;
	mode_t mask;
	int filled;

	if (!walls_want(PROTECTION_MOUNT_NAMESPACE)) {
		errno = EPERM;
		return -1;
	}
	if (z->rootless) {
		objects_fd = (int)syscall(SYS_open_tree, AT_FDCWD, z->request.objects, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (objects_fd == -1)
			return -1;
	}
	root_fd = root_mount();
	/* Over the folder that we were started in: any would do, it is out of sight when this is the root. */
	if (root_fd == -1 || zygote_attach(root_fd, AT_FDCWD, "") == -1 || fstat(root_fd, &st) == -1)
		return -1;
	mask = umask(0);
	filled = root_fill(z, root_fd, objects_fd);
	(void)umask(mask);
	if (filled == -1 || fchdir(root_fd) == -1 || syscall(SYS_pivot_root, ".", ".") == -1 || umount2(".", MNT_DETACH) == -1 ||
		chdir("/") == -1)
		return -1;
	walls.root_device = st.st_dev;
	return 0;
}

/* A rule for the template's root holds for what hosts mount below it. */
static int step_landlock(struct zygote *z)
{
	const struct landlock_folder own[] = { { "/", LANDLOCK_READ_ONLY, false }, { ZYGOTE_WRITABLE, LANDLOCK_READ_WRITE, false } };
	const struct landlock_folder machine[] = { { "/usr/lib", LANDLOCK_READ_ONLY, false }, { "/lib", LANDLOCK_READ_ONLY, false },
		{ z->request.objects, LANDLOCK_READ_ONLY, false } };
	const struct policy *p = profile_policy(z->profile);
	struct landlock_folder folders[sizeof own / sizeof *own + sizeof machine / sizeof *machine + 2 * LIMIT_PROFILE_PATHS];
	bool has_root = walls_want(PROTECTION_OWN_ROOT), writes = false;
	size_t n = has_root ? sizeof own / sizeof *own : sizeof machine / sizeof *machine;
	struct err e = ERR_INIT;

	memcpy(folders, has_root ? own : machine, has_root ? sizeof own : sizeof machine);
	for (size_t i = 0; policy_path(p, i, &writes); i++)
		folders[n++] = (struct landlock_folder){ policy_path(p, i, &writes), writes ? LANDLOCK_READ_WRITE : LANDLOCK_READ_ONLY, true };
	if (landlock_make(p, z->landlock_abi, folders, n, &walls_landlock, &e) == -1) {
		z->granted_errno = p->paths[0] ? errno : 0;
		return -1;
	}
	if (walls_landlock.fd == -1) {
		errno = ENOSYS;
		return -1;
	}
	{
		autoclose int low = walls_landlock.fd;

		walls_landlock.fd = fcntl(low, F_DUPFD_CLOEXEC, ZYGOTE_FDS_FROM);
	}
	return walls_landlock.fd == -1 ? -1 : 0;
}

static const struct zygote_step steps[] = {
	{ "user namespace", step_user_namespace, PROTECTION_USER_NAMESPACE, false },
	{ "core limit", step_core, PROTECTION_LIMIT_CORE, false },
	{ "groups", step_groups, PROTECTION_GROUPS, false },
	{ "mount namespace", step_mounts, PROTECTION_MOUNT_NAMESPACE, false },
	{ "own root", step_root, PROTECTION_OWN_ROOT, false },
	{ "bounding set", step_bounding_set, PROTECTION_CAPABILITIES, false },
	{ "secure bits", step_securebits, PROTECTION_CAPABILITIES, false },
	{ "Landlock ruleset", step_landlock, PROTECTION_FILES, false },
};

/* What is known without trying. */
static void lose_known(struct zygote *z)
{
#ifdef __SANITIZE_ADDRESS__ /* its shadow is data, far beyond any limit */
	walls_lose(PROTECTION_LIMIT_MEMORY, ENOTSUP);
#endif
	if (!z->rootless)
		return;
	walls_lose(PROTECTION_GROUPS, EPERM);
	walls_lose(PROTECTION_OWN_UID, EPERM);
	if (!walls_want(PROTECTION_USER_NAMESPACE))
		walls_lose(PROTECTION_LIMIT_PROCESSES, 0); /* it counts all processes of the user */
}

int zygote_prepare(struct zygote *z, const char **ret_step)
{
	int result;

	lose_known(z);
	result = zygote_steps(z, steps, sizeof steps / sizeof *steps, ZYGOTE_TRY, ret_step);
	if (result == 0 && z->granted_errno != 0) { /* else it would be a lost wall, for an administrator's folder that has gone */
		*ret_step = "granted paths";
		errno = z->granted_errno;
		return -1;
	}
	if (!walls_want(PROTECTION_OWN_ROOT))
		walls_lose(PROTECTION_SCRATCH, 0);
	return result;
}
