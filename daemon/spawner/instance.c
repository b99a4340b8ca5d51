/* SPDX-License-Identifier: MIT
 *
 * In order: runtime folder, lock (from here on we are alone), uids, state folder, objects folder, jobs folder, limits. */
#include "daemon/spawner/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/spawner/folders.h"
#include "daemon/spawner/spawner.h"
#include "proto/log.h"

#define LOCK_NAME       "lock"
#define LOCK_TRIES      200
#define LOCK_TRY_MS     10
#define FIRST_HOST_UID  2  /* of the first slice: 0 is control's, 1 stays free for helpers of the daemon */

static pid_t holder_of(int fd)
{
	char text[24] = "";

	return pread(fd, text, sizeof text - 1, 0) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* A child that a killed daemon had just forked holds its lock for a moment; a daemon that just starts hasn't written its pid. */
static bool holder_goes(pid_t pid)
{
	return pid <= 0 || (kill(pid, 0) == -1 && errno == ESRCH);
}

static int already_running(pid_t pid, const char *folder, struct err *e)
{
	return err_set(e, ERR_ALREADY_EXISTS, "sandboxd is already running, pid %ld (it holds %s/%s)", (long)pid, folder, LOCK_NAME);
}

/* What stands in its place isn't ours to remove. */
static int lock_refused(const struct spawner *sp, struct err *e)
{
	const char *folder = sp->config.runtime_dir, *what = "a device or a socket";
	int kept = errno;
	struct stat st;

	if (fstatat(sp->runtime_fd, LOCK_NAME, &st, AT_SYMLINK_NOFOLLOW) == -1 || S_ISREG(st.st_mode)) {
		errno = kept;
		return err_sys(e, ERR_IO, "cannot open %s/%s", folder, LOCK_NAME);
	}
	if (S_ISLNK(st.st_mode))
		what = "a symbolic link";
	else if (S_ISDIR(st.st_mode))
		what = "a folder";
	else if (S_ISFIFO(st.st_mode))
		what = "a FIFO";
	return err_set(e, ERR_IO, "cannot lock %s/%s: it is %s, not a file of sandboxd's: remove it, or name another runtime folder", folder, LOCK_NAME,
		what);
}

static int lock_open(struct spawner *sp, struct err *e)
{
	const char *folder = sp->config.runtime_dir;
	char text[24];
	int size;

	for (int tries = 1;; tries++) {
		autoclose int fd = openat(sp->runtime_fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
		struct stat mine, named;

		if (fd == -1 || fstat(fd, &mine) == -1 || !S_ISREG(mine.st_mode))
			return lock_refused(sp, e);
		if (flock(fd, LOCK_EX | LOCK_NB) == -1) {
			pid_t holder;

			if (errno != EWOULDBLOCK)
				return err_sys(e, ERR_IO, "cannot lock %s/%s", folder, LOCK_NAME);
			holder = holder_of(fd);
			if (!holder_goes(holder) || tries == LOCK_TRIES)
				return already_running(holder, folder, e);
			(void)poll(NULL, 0, LOCK_TRY_MS);
			continue;
		}
		/* A daemon that ends unlinks it: the one that we locked may not be the one that others will find. */
		if (fstat(fd, &mine) == 0 && fstatat(sp->runtime_fd, LOCK_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
			mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) {
			sp->lock_fd = fd_take(&fd);
			break;
		}
	}
	size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (ftruncate(sp->lock_fd, 0) == -1 || pwrite(sp->lock_fd, text, (size_t)size, 0) != size)
		return err_sys(e, ERR_IO, "cannot write %s/%s", folder, LOCK_NAME);
	return 0;
}

static int runtime_open(struct spawner *sp, struct err *e)
{
	const char *path = sp->config.runtime_dir;

	if (folder_make(path, sp->is_root ? 0755 : 0700, e) == -1)
		return err_prefix(e, "runtime folder");
	sp->runtime_fd = folder_open_own(path, geteuid(), e);
	if (sp->runtime_fd == -1)
		return err_prefix(e, "runtime folder");
	return 0;
}

static int uids_open(struct spawner *sp, struct err *e)
{
	uid_t first;

	if (!sp->is_root)
		return 0;
	if (slices_open(&sp->slices, &sp->config, e) == -1 || slices_lock(&sp->slices, &first, e) == -1)
		return -1;
	sp->control_uid = first;
	return uids_add(&sp->uids, first + FIRST_HOST_UID, LIMIT_UIDS_PER_SLICE - FIRST_HOST_UID, e);
}

/* Another daemon's registry must not be handed over under it: the runtime folder's lock says nothing about this one. */
static int state_lock(struct spawner *sp, struct err *e)
{
	const char *path = sp->config.state_dir;

	sp->state_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sp->state_fd == -1)
		return err_sys(e, ERR_IO, "cannot open the state folder %s", path);
	for (int tries = 1; flock(sp->state_fd, LOCK_EX | LOCK_NB) == -1; tries++) {
		if (errno != EWOULDBLOCK)
			return err_sys(e, ERR_IO, "cannot lock the state folder %s", path);
		if (tries == LOCK_TRIES)
			return err_set(e, ERR_ALREADY_EXISTS, "the state folder %s is in use by another sandboxd: stop it, or name another", path);
		(void)poll(NULL, 0, LOCK_TRY_MS); /* what a killed daemon had just forked holds it for a moment */
	}
	return 0;
}

static int state_open(struct spawner *sp, struct err *e)
{
	const char *path = sp->config.state_dir;

	if (folder_make(path, 0700, e) == -1)
		return err_prefix(e, "state folder");
	if (state_lock(sp, e) == -1)
		return -1;
	if (sp->is_root)
		return folder_hand_over(path, sp->control_uid, sp->config.uid_first, sp->config.uid_count, e);
	{
		autoclose int fd = folder_open_own(path, geteuid(), e);

		if (fd == -1)
			return err_prefix(e, "state folder");
		if (fchmod(fd, 0700) == -1)
			return err_sys(e, ERR_IO, "cannot set the mode of %s", path);
	}
	return 0;
}

static void dirs_name(struct spawner *sp)
{
	(void)snprintf(sp->objects_dir, sizeof sp->objects_dir, "%.*s/objects", LIMIT_PATH_BYTES - 8, sp->config.runtime_dir);
	(void)snprintf(sp->jobs_dir, sizeof sp->jobs_dir, "%.*s/jobs", LIMIT_PATH_BYTES - 8, sp->config.runtime_dir);
}

static int folders_open(struct spawner *sp, struct err *e)
{
	const struct config *c = &sp->config;

	dirs_name(sp);
	if (sp->is_root && (folder_check_reachable(sp->objects_dir, e) == -1 || folder_check_reachable(c->state_dir, e) == -1))
		return -1;
	sp->objects_fd = folder_open_objects(sp->objects_dir, sp->is_root, &sp->objects_mounted, e);
	if (sp->objects_fd == -1 || folder_make(sp->jobs_dir, 0711, e) == -1)
		return -1;
	sp->jobs_fd = folder_open_own(sp->jobs_dir, geteuid(), e);
	return sp->jobs_fd == -1 ? -1 : folder_empty(sp->jobs_fd, e);
}

/* Memfds fall under it too: with a small one no state could be saved and no sandbox be held. Processes below inherit it. */
static int file_size_raise(struct err *e)
{
	struct rlimit size, most = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_FSIZE, &most) == 0)
		return 0;
	if (getrlimit(RLIMIT_FSIZE, &size) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot read the limit of file sizes");
	size.rlim_cur = size.rlim_max;
	if (setrlimit(RLIMIT_FSIZE, &size) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot raise the limit of file sizes");
	if (size.rlim_max < LIMIT_FSIZE_BYTES)
		return err_set(e, ERR_UNAVAILABLE, "files of at most %llu bytes may be made here, and sandboxd needs %llu for objects, states and its "
			"registry: raise the hard limit (LimitFSIZE=, ulimit -Hf)", (unsigned long long)size.rlim_max, LIMIT_FSIZE_BYTES);
	return 0;
}

static int limits_raise(const struct spawner *sp, struct err *e)
{
	struct rlimit files;
	uint64_t fit;

	if (file_size_raise(e) == -1)
		return -1;

	if (getrlimit(RLIMIT_NOFILE, &files) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot read the limit of descriptors");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot raise the limit of descriptors");
	if (files.rlim_max < LIMIT_SPAWNER_FDS_HEADROOM + LIMIT_FDS_PER_SANDBOX)
		return err_set(e, ERR_UNAVAILABLE, "%llu descriptors are too few: raise the hard limit (LimitNOFILE=, ulimit -Hn)",
			(unsigned long long)files.rlim_max);
	fit = (files.rlim_max - LIMIT_SPAWNER_FDS_HEADROOM) / LIMIT_FDS_PER_SANDBOX;
	if (fit < sp->config.max_sandboxes)
		log_debug("descriptors suffice for %llu sandboxes, max_sandboxes is %u: raise the hard limit for more",
			(unsigned long long)fit, sp->config.max_sandboxes);
	return 0;
}

static int process_prepare(struct err *e)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot become the reaper of orphans");
#ifndef __SANITIZE_ADDRESS__
	/* Hosts of a rootless daemon run as its own user: they may not attach to it. (The leak check of a sanitizer has to.) */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot refuse to be traced");
#endif
	return 0;
}

int instance_take_over(struct spawner *sp, struct err *e)
{
	sp->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (sp->null_fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot open /dev/null");
	dirs_name(sp);
	return limits_raise(sp, e) == -1 || process_prepare(e) == -1 ? -1 : 0;
}

int instance_open(struct spawner *sp, struct err *e)
{
	sp->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (sp->null_fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot open /dev/null");
	if (runtime_open(sp, e) == -1 || lock_open(sp, e) == -1 || uids_open(sp, e) == -1 || state_open(sp, e) == -1 ||
		folders_open(sp, e) == -1 || limits_raise(sp, e) == -1)
		return -1;
	return process_prepare(e);
}

void instance_close(struct spawner *sp)
{
	struct err e = ERR_INIT;

	if (sp->objects_fd != -1 && folder_empty(sp->objects_fd, &e) == -1)
		log_warning("objects stay behind: %s", e.text);
	fd_close(&sp->objects_fd);
	if (sp->objects_mounted && umount2(sp->objects_dir, MNT_DETACH | UMOUNT_NOFOLLOW) == -1)
		log_warning("cannot unmount %s: %s", sp->objects_dir, strerror(errno));
	if (sp->jobs_fd != -1 && folder_empty(sp->jobs_fd, &e) == -1)
		log_warning("files of compile jobs stay behind: %s", e.text);
	fd_close(&sp->jobs_fd);
	if (sp->lock_fd != -1) { /* only then the folders are ours */
		(void)unlinkat(sp->runtime_fd, "objects", AT_REMOVEDIR);
		(void)unlinkat(sp->runtime_fd, "jobs", AT_REMOVEDIR);
		(void)unlinkat(sp->runtime_fd, LOCK_NAME, 0);
	}
	fd_close(&sp->state_fd);
	fd_close(&sp->lock_fd);
	fd_close(&sp->runtime_fd);
	fd_close(&sp->null_fd);
}
