/* SPDX-License-Identifier: MIT
 *
 * Binding, watching, unlinking the socket. */
#include "daemon/spawner/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/spawner/folders.h"
#include "proto/fd.h"
#include "proto/log.h"

#define RETRY_MS    1000 /* of a socket that was removed under a live daemon */
#define BIND_TRIES  50
#define BIND_TRY_MS 20

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memcpy(a.sun_path, path, strnlen(path, sizeof a.sun_path - 1));
	return a;
}

/* Removes a socket that nobody answers on. */
static int stale_remove(const char *path, struct err *e)
{
	struct sockaddr_un address = address_of(path);
	autoclose int fd = -1;
	struct stat st;

	if (lstat(path, &st) == -1)
		return errno == ENOENT ? 0 : err_sys(e, ERR_IO, "cannot look at %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_IO, "%s is %s, not a socket: it is left alone; remove it or name another with --socket", path,
			S_ISLNK(st.st_mode) ? "a symbolic link" : "something else");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot make a socket");
	if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN)
		return err_set(e, ERR_ALREADY_EXISTS, "another process answers on %s", path);
	if (errno != ECONNREFUSED && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot tell whether somebody answers on %s", path);
	if (unlink(path) == -1 && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove the left-over socket %s", path);
	return 0;
}

static int socket_bind(int fd, const struct listener *l, struct err *e)
{
	struct sockaddr_un address = address_of(l->path);
	bool own_group = l->group != (gid_t)-1;
	mode_t first = own_group ? l->mode & 0700 : l->mode; /* nothing for the wrong group, not for a moment */
	mode_t kept;
	int bound;

	if (fchmod(fd, first) == -1)
		return err_sys(e, ERR_IO, "cannot set the mode of a socket");
	kept = umask(0777 & ~first);
	bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
	(void)umask(kept);
	if (bound == -1)
		return err_sys(e, ERR_IO, "cannot bind %s", l->path);
	if (own_group && (lchown(l->path, (uid_t)-1, l->group) == -1 || chmod(l->path, l->mode) == -1)) {
		err_sys(e, ERR_IO, "cannot give %s to group %u", l->path, (unsigned)l->group);
		(void)unlink(l->path);
		return -1;
	}
	return 0;
}

static int listener_bind(struct listener *l, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;

	if (stale_remove(l->path, e) == -1)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot make a socket");
	if (socket_bind(fd, l, e) == -1)
		return -1;
	if (listen(fd, LISTENER_BACKLOG) == -1 || lstat(l->path, &st) == -1) {
		err_sys(e, ERR_IO, "cannot listen on %s", l->path);
		(void)unlink(l->path);
		return -1;
	}
	fd_close(&l->fd);
	l->fd = fd_take(&fd);
	l->device = st.st_dev;
	l->inode = st.st_ino;
	return 0;
}

static int listener_watch(struct listener *l, struct err *e)
{
	if (inotify_add_watch(l->inotify_fd, l->folder, IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
		IN_MOVE_SELF | IN_ONLYDIR) == -1)
		return err_sys(e, ERR_IO, "cannot watch the folder %s", l->folder);
	return 0;
}

/* The control of a daemon that was killed answers until its own death signal has been obeyed. */
static int listener_bind_patiently(struct listener *l, struct err *e)
{
	for (int tries = 1;; tries++) {
		struct err refused = ERR_INIT;

		if (listener_bind(l, &refused) == 0)
			return 0;
		if (refused.code != ERR_ALREADY_EXISTS || tries == BIND_TRIES) {
			*e = refused;
			return -1;
		}
		(void)poll(NULL, 0, BIND_TRY_MS);
	}
}

static int listener_prepare(struct listener *l, const struct config *c, struct err *e)
{
	char *slash;

	(void)snprintf(l->path, sizeof l->path, "%s", c->socket_path);
	(void)snprintf(l->folder, sizeof l->folder, "%s", c->socket_path);
	slash = strrchr(l->folder, '/');
	if (!slash)
		return err_set(e, ERR_BAD_PARAM, "the socket's path %s is not absolute", c->socket_path);
	slash[slash == l->folder] = '\0';
	l->mode = c->socket_mode;
	l->group = c->socket_group;
	if (folder_make(l->folder, geteuid() == 0 ? 0755 : 0700, e) == -1)
		return -1;
	l->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (l->inotify_fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot watch folders");
	return listener_watch(l, e);
}

int listener_open(struct listener *l, const struct config *c, struct err *e)
{
	return listener_prepare(l, c, e) == -1 ? -1 : listener_bind_patiently(l, e);
}

int listener_take_over(struct listener *l, const struct config *c, int fd, uint64_t device, uint64_t inode, struct err *e)
{
	l->fd = fd;
	l->device = device;
	l->inode = inode;
	return listener_prepare(l, c, e);
}

static bool still_ours(const struct listener *l)
{
	struct stat st;

	return lstat(l->path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode;
}

bool listener_check(struct listener *l, int64_t now_ms)
{
	char events[4096];
	struct err e = ERR_INIT;

	while (read(l->inotify_fd, events, sizeof events) > 0)
		;
	if (still_ours(l)) {
		l->retry_at_ms = INT64_MAX;
		return false;
	}
	/* The folder may have gone with it; its watch then went too, and adding one that stands is harmless. */
	if (folder_make(l->folder, geteuid() == 0 ? 0755 : 0700, &e) == -1 || listener_watch(l, &e) == -1 ||
		listener_bind(l, &e) == -1) {
		if (l->retry_at_ms == INT64_MAX)
			log_warning("the socket %s is gone and can't be made again yet: %s", l->path, e.text);
		l->retry_at_ms = now_ms + RETRY_MS;
		return false;
	}
	l->retry_at_ms = INT64_MAX;
	log_warning("the socket %s had been removed; it is there again", l->path);
	return true;
}

void listener_close(struct listener *l)
{
	if (l->fd != -1 && still_ours(l))
		(void)unlink(l->path);
	fd_close(&l->fd);
	fd_close(&l->inotify_fd);
}
