/* SPDX-License-Identifier: MIT
 *
 * Folders. Root walks here through files that unprivileged users own: every step is by descriptor and refuses links. */
#include "daemon/spawner/folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/log.h"

#define REMOVE_DEPTH    16 /* nobody nests deeper; beyond it the rest stays, with an error */
#define HAND_OVER_DEPTH 3

int folder_make(const char *path, mode_t mode, struct err *e)
{
	char part[PATH_MAX];
	struct stat st;

	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return err_set(e, ERR_IO, "the path %.40s... is too long", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, geteuid() == 0 ? 0755 : 0700) == -1 && errno != EEXIST)
			return err_sys(e, ERR_IO, "cannot make the folder %s", part);
		*slash = '/';
	}
	if (mkdir(part, mode) == 0) {
		if (chmod(part, mode) == -1) /* whatever the umask */
			return err_sys(e, ERR_IO, "cannot set the mode of %s", part);
	} else if (errno != EEXIST) {
		return err_sys(e, ERR_IO, "cannot make the folder %s", part);
	}
	if (lstat(part, &st) == -1)
		return err_sys(e, ERR_IO, "cannot look at %s", part);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_IO, "%s is %s, not a folder", part, S_ISLNK(st.st_mode) ? "a symbolic link" : "a file");
	return 0;
}

int folder_open_own(const char *path, uid_t uid, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, parent;

	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot open the folder %s", path);
	if (fstat(fd, &st) == -1 || fstatat(fd, "..", &parent, 0) == -1)
		return err_sys(e, ERR_IO, "cannot look at the folder %s", path);
	if (st.st_uid != uid)
		return err_set(e, ERR_IO, "the folder %s belongs to uid %u instead of %u: remove it or name another", path,
			(unsigned)st.st_uid, (unsigned)uid);
	if (st.st_mode & 022)
		return err_set(e, ERR_IO, "the folder %s can be written by others: chmod go-w it", path);
	if ((parent.st_mode & S_IWOTH) && uid != 0 && (st.st_mode & 077))
		return err_set(e, ERR_IO, "the folder %s lies where anyone writes and is not 0700", path);
	return fd_take(&fd);
}

int folder_check_reachable(const char *path, struct err *e)
{
	char part[PATH_MAX];
	struct stat st;

	(void)snprintf(part, sizeof part, "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (stat(part, &st) == -1)
			return err_sys(e, ERR_IO, "cannot look at %s", part);
		if (!(st.st_mode & S_IXOTH))
			return err_set(e, ERR_IO,
				"%s can't be reached by the users that sandboxd runs its processes under: chmod o+x %s", path,
				part);
		*slash = '/';
	}
	return 0;
}

static int remove_level(int parent_fd, const char *name, int depth, struct err *e);

/* Takes fd. */
static int empty_level(int fd, int depth, struct err *e)
{
	DIR *dir = fdopendir(fd);
	struct dirent *d;
	int result = 0;

	if (!dir) {
		(void)close(fd);
		return err_sys(e, ERR_IO, "cannot read a folder");
	}
	rewinddir(dir);
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), d->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM)
			result = err_sys(e, ERR_IO, "cannot remove %s", d->d_name);
		else if (remove_level(dirfd(dir), d->d_name, depth + 1, e) == -1)
			result = -1;
	}
	(void)closedir(dir);
	return result;
}

static int remove_level(int parent_fd, const char *name, int depth, struct err *e)
{
	int fd;

	if (depth > REMOVE_DEPTH)
		return err_set(e, ERR_IO, "cannot remove %s: folders nested too deep", name);
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1 && (errno == ENOTDIR || errno == ELOOP)) /* a link or a file in its place: that goes, not what it points to */
		return unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT ? 0 : err_sys(e, ERR_IO, "cannot remove %s", name);
	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot open the folder %s", name);
	if (empty_level(fd, depth, e) == -1)
		return -1;
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) == -1 && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove the folder %s", name);
	return 0;
}

int folder_remove_at(int parent_fd, const char *name, struct err *e)
{
	return remove_level(parent_fd, name, 0, e);
}

int folder_empty(int fd, struct err *e)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (copy == -1)
		return err_sys(e, ERR_IO, "cannot open a folder");
	return empty_level(copy, 0, e);
}

/* A file of the former owner's is given over; anything else that lies there is left alone. A second link to a file of
 * root's might be a trap: skipped. */
static int give_file(int fd, const struct stat *st, uid_t former, uid_t uid, struct err *e)
{
	if (st->st_uid != former || (S_ISREG(st->st_mode) && st->st_nlink > 1 && former == 0))
		return 0;
	if (fchownat(fd, "", uid, uid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1)
		return err_sys(e, ERR_IO, "cannot hand over a file of the state folder");
	return 0;
}

static int give_level(int fd_take, uid_t former, uid_t uid, int depth, struct err *e)
{
	DIR *dir = fdopendir(fd_take);
	struct dirent *d;
	int result = 0;

	if (!dir) {
		(void)close(fd_take);
		return err_sys(e, ERR_IO, "cannot read the state folder");
	}
	while (result == 0 && (d = readdir(dir))) {
		autoclose int fd = -1;
		struct stat st;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		fd = openat(dirfd(dir), d->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd == -1 || fstat(fd, &st) == -1)
			continue;
		if (S_ISDIR(st.st_mode) && depth < HAND_OVER_DEPTH) {
			int below = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			if (below != -1)
				result = give_level(below, former, uid, depth + 1, e);
		}
		if (result == 0)
			result = give_file(fd, &st, former, uid, e);
	}
	(void)closedir(dir);
	return result;
}

int folder_hand_over(const char *path, uid_t uid, uid_t first, uint32_t count, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int below;

	if (fd == -1 || fstat(fd, &st) == -1)
		return err_sys(e, ERR_IO, "cannot open the state folder %s", path);
	if (st.st_uid != 0 && (st.st_uid < first || st.st_uid - first >= count))
		return err_set(e, ERR_IO, "the state folder %s belongs to uid %u, which is not sandboxd's: name another", path,
			(unsigned)st.st_uid);
	if (fchmod(fd, 0700) == -1)
		return err_sys(e, ERR_IO, "cannot set the mode of %s", path);
	if (st.st_uid == uid)
		return 0;
	below = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (below == -1)
		return err_sys(e, ERR_IO, "cannot open the state folder %s", path);
	if (give_level(below, st.st_uid, uid, 1, e) == -1)
		return -1;
	if (fchown(fd, uid, uid) == -1) /* last: an interrupted walk is done again */
		return err_sys(e, ERR_IO, "cannot hand over the state folder %s", path);
	return 0;
}

/* What a killed predecessor left mounted. The lock says that it is nobody's. */
static int unmount_left(const char *path, struct err *e)
{
	struct stat st, parent;
	char up[PATH_MAX];

	(void)snprintf(up, sizeof up, "%s/..", path);
	for (int i = 0; i < 8; i++) {
		if (lstat(path, &st) == -1 || stat(up, &parent) == -1)
			return err_sys(e, ERR_IO, "cannot look at %s", path);
		if (st.st_dev == parent.st_dev)
			return 0;
		if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == -1)
			return err_sys(e, ERR_IO, "cannot unmount %s", path);
	}
	return err_set(e, ERR_IO, "%s is mounted over and over", path);
}

int folder_open_objects(const char *path, bool is_root, bool *ret_mounted, struct err *e)
{
	autoclose int fd = -1;
	struct statvfs vfs;

	*ret_mounted = false;
	if (folder_make(path, 0711, e) == -1 || (is_root && unmount_left(path, e) == -1))
		return -1;
	if (is_root && mount("sandboxd-objects", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711") == 0) {
		*ret_mounted = true;
		(void)mount(NULL, path, NULL, MS_PRIVATE, NULL);
	} else if (is_root) {
		log_info("no tmpfs on %s (%s): objects lie in the folder itself", path, strerror(errno));
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot open %s", path);
	if (fstatvfs(fd, &vfs) == -1)
		return err_sys(e, ERR_IO, "cannot look at the file system of %s", path);
	if (vfs.f_flag & ST_NOEXEC)
		return err_set(e, ERR_UNAVAILABLE,
			"%s lies on a file system mounted noexec, which no module can be loaded from: name another folder with "
			"--runtime-dir", path);
	if (fchmod(fd, 0711) == -1)
		return err_sys(e, ERR_IO, "cannot set the mode of %s", path);
	return folder_empty(fd, e) == -1 ? -1 : fd_take(&fd);
}
