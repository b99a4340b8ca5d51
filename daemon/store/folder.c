/* SPDX-License-Identifier: MIT */
#include "daemon/store/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fault.h"
#include "proto/fd.h"

struct file_name {
	char text[SHA256_HEX_BYTES + sizeof(".damaged")];
};

static struct file_name name_with(const char *sha256, const char *suffix)
{
	struct file_name n;

	(void)snprintf(n.text, sizeof(n.text), "%.*s%s", SHA256_HEX_BYTES, sha256, suffix);
	return n;
}

/* Which of the three points of a step: `what` names the kind. */
static enum fault_point point_of(const char *what, enum fault_point object, enum fault_point state, enum fault_point history)
{
	return strcmp(what, "state") == 0 ? state : strcmp(what, "history") == 0 ? history : object;
}

#define FAULT_OF(what, step) \
	(__builtin_expect(fault_on, 0) && fault_pass(point_of(what, FAULT_OBJECT_##step, FAULT_STATE_##step, FAULT_HISTORY_##step)))

bool folder_is_hash(const char *name)
{
	return name_is_sha256(name, strlen(name));
}

/* ---- the folder ---- */

int folder_open(int state_dir_fd, const char *folder)
{
	return openat(state_dir_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int folder_open_error(const char *folder, struct err *e)
{
	if (errno == ENOTDIR || errno == ELOOP)
		return err_sys(e, ERR_IO, "cannot use the folder %s in the state folder: it is a link or a file", folder);
	return err_sys(e, ERR_IO, "cannot open the folder %s in the state folder", folder);
}

int folder_make(int state_dir_fd, const char *folder, int *ret_fd, struct err *e)
{
	int fd = folder_open(state_dir_fd, folder);

	if (fd == -1 && errno == ENOENT) {
		if (mkdirat(state_dir_fd, folder, 0700) == -1 && errno != EEXIST)
			return err_sys(e, ERR_IO, "cannot make the folder %s in the state folder", folder);
		if (fsync(state_dir_fd) == -1)
			return err_sys(e, ERR_IO, "cannot make the new folder %s durable", folder);
		fd = folder_open(state_dir_fd, folder);
	}
	if (fd == -1)
		return folder_open_error(folder, e);
	*ret_fd = fd;
	return 0;
}

/* ---- one file ---- */

enum folder_found folder_file(int folder_fd, const char *sha256, const char *what, size_t limit, int *ret_fd, size_t *ret_size, struct err *e)
{
	struct stat st;
	/* NONBLOCK: a FIFO put there must not hold the thread */
	autoclose int fd = openat(folder_fd, sha256, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd == -1 && errno == ENOENT)
		return FOLDER_NONE;
	if (fd == -1 && (errno == ELOOP || errno == ENXIO)) {
		(void)err_set(e, ERR_IO, "it isn't a regular file");
		return FOLDER_DAMAGED;
	}
	if (fd == -1 || FAULT_OF(what, READ) || fstat(fd, &st) == -1) {
		(void)err_sys(e, ERR_IO, "cannot open %s %s", what, sha256);
		return FOLDER_UNREADABLE;
	}
	if (!S_ISREG(st.st_mode)) {
		(void)err_set(e, ERR_IO, "it isn't a regular file");
		return FOLDER_DAMAGED;
	}
	if ((uint64_t)st.st_size > limit) {
		(void)err_set(e, ERR_IO, "it has %lld bytes, more than %zu", (long long)st.st_size, limit);
		return FOLDER_DAMAGED;
	}
	*ret_size = (size_t)st.st_size;
	*ret_fd = fd_take(&fd);
	return FOLDER_GOOD;
}

int folder_put_aside(int folder_fd, const char *sha256, const char *what, struct err *e)
{
	struct file_name aside = name_with(sha256, ".damaged");

	if (FAULT(FILE_ASIDE) || renameat(folder_fd, sha256, folder_fd, aside.text) == -1 || fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot put damaged %s %s aside", what, sha256);
	return 0;
}

int folder_write_all(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0) {
		ssize_t n = write(fd, at, size);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return -1;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

static int fill_file(int folder_fd, const char *name, const char *what, const void *data, size_t size)
{
	autoclose int fd = FAULT_OF(what, OPEN) ? -1 : openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);

	if (fd == -1 || FAULT_OF(what, WRITE) || folder_write_all(fd, data, size) == -1 || FAULT_OF(what, FSYNC) || fsync(fd) == -1)
		return -1;
	return close(fd_take(&fd)); /* some file systems tell of a full disk only here */
}

int folder_write(int folder_fd, const char *sha256, const char *what, const void *data, size_t size, struct err *e)
{
	struct file_name temporary = name_with(sha256, ".tmp");

	if (unlinkat(folder_fd, temporary.text, 0) == -1 && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove the left-over file %s", temporary.text);
	if (fill_file(folder_fd, temporary.text, what, data, size) == -1 || FAULT_OF(what, RENAME) ||
		renameat(folder_fd, temporary.text, folder_fd, sha256) == -1) {
		(void)err_sys(e, ERR_IO, "cannot write %s %s of %zu bytes", what, sha256, size);
		(void)unlinkat(folder_fd, temporary.text, 0);
		return -1;
	}
	if (FAULT_OF(what, DIRSYNC) || fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot make %s %s durable", what, sha256);
	return 0;
}

int folder_sync(int folder_fd, int file_fd, const char *sha256, const char *what, struct err *e)
{
	if (FAULT_OF(what, FSYNC) || fsync(file_fd) == -1 || FAULT_OF(what, DIRSYNC) || fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot make %s %s durable", what, sha256);
	return 0;
}

int folder_remove(int state_dir_fd, const char *folder, const char *sha256, struct err *e)
{
	autoclose int fd = folder_open(state_dir_fd, folder);

	if (fd == -1)
		return errno == ENOENT ? 0 : folder_open_error(folder, e);
	if ((FAULT(FILE_UNLINK) || unlinkat(fd, sha256, 0) == -1) && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove %s/%s", folder, sha256);
	return 0; /* not made durable: what comes back after a crash is collected then */
}

/* ---- collecting ---- */

static bool is_left_over(const char *name)
{
	return name_is_sha256(name, strnlen(name, SHA256_HEX_BYTES)) && strcmp(name + SHA256_HEX_BYTES, ".tmp") == 0;
}

/* The first failure is told; the others are tried all the same. */
static int collect_from(DIR *dir, const char *folder, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e)
{
	bool failed = false;
	int removed = 0;

	for (;;) {
		struct dirent *entry;
		bool is_file;

		errno = 0;
		entry = readdir(dir);
		if (!entry)
			break;
		is_file = folder_is_hash(entry->d_name);
		if (is_file ? keep(ctx, entry->d_name) : !is_left_over(entry->d_name))
			continue;
		if (!FAULT(FILE_UNLINK) && unlinkat(dirfd(dir), entry->d_name, 0) == 0)
			removed += is_file;
		else if (!failed)
			failed = err_sys(e, ERR_IO, "cannot remove %s", entry->d_name) == -1;
	}
	if (errno != 0 && !failed)
		return err_sys(e, ERR_IO, "cannot read the folder %s", folder);
	if (fsync(dirfd(dir)) == -1 && !failed)
		return err_sys(e, ERR_IO, "cannot make the removal of files durable");
	return failed ? -1 : removed;
}

int folder_collect(int state_dir_fd, const char *folder, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e)
{
	autoclose int fd = folder_open(state_dir_fd, folder);
	DIR *dir;
	int removed;

	if (fd == -1)
		return errno == ENOENT ? 0 : folder_open_error(folder, e);
	dir = fdopendir(fd);
	if (!dir)
		return err_sys(e, ERR_IO, "cannot read the folder %s", folder);
	(void)fd_take(&fd); /* closedir closes it */
	removed = collect_from(dir, folder, keep, ctx, e);
	(void)closedir(dir);
	return removed;
}
