/* SPDX-License-Identifier: MIT
 *
 * The objects folder. A file under its hash is either whole or damaged, never half-written: a writer fills HASH.tmp
 * and renames it. What is found damaged, or isn't a regular file at all, is renamed to HASH.damaged and stays for the
 * administrator. Left-over HASH.tmp files are a killed predecessor's: the next put of that object or objects_collect
 * removes them. No path of a client comes here; names are checked hashes, links are never followed. */
#include "daemon/store/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/limits.h"

#define FOLDER "objects"

struct object_name {
	char text[SHA256_HEX_BYTES + sizeof(".damaged")];
};

static struct object_name name_with(const char *sha256, const char *suffix)
{
	struct object_name n;

	(void)snprintf(n.text, sizeof(n.text), "%.*s%s", SHA256_HEX_BYTES, sha256, suffix);
	return n;
}

static bool is_sha256(const char *text)
{
	return name_is_sha256(text, strlen(text));
}

/* ---- the folder ---- */

/* -1 with errno. */
static int folder_open(int state_dir_fd)
{
	return openat(state_dir_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int folder_error(struct err *e)
{
	if (errno == ENOTDIR || errno == ELOOP)
		return err_sys(e, ERR_IO, "cannot use the folder " FOLDER " in the state folder: it is a link or a file");
	return err_sys(e, ERR_IO, "cannot open the folder " FOLDER " in the state folder");
}

static int folder_make(int state_dir_fd, int *ret_fd, struct err *e)
{
	int fd = folder_open(state_dir_fd);

	if (fd == -1 && errno == ENOENT) {
		if (mkdirat(state_dir_fd, FOLDER, 0700) == -1 && errno != EEXIST)
			return err_sys(e, ERR_IO, "cannot make the folder " FOLDER " in the state folder");
		if (fsync(state_dir_fd) == -1)
			return err_sys(e, ERR_IO, "cannot make the new folder " FOLDER " durable");
		fd = folder_open(state_dir_fd);
	}
	if (fd == -1)
		return folder_error(e);
	*ret_fd = fd;
	return 0;
}

/* ---- reading ---- */

enum found { FOUND_GOOD, FOUND_NONE, FOUND_DAMAGED /* err says how */, FOUND_UNREADABLE /* err set */ };

static enum found open_object(int folder_fd, const char *sha256, int *ret_fd, struct err *e)
{
	struct stat st;
	/* NONBLOCK: a FIFO put there must not hold the thread */
	autoclose int fd = openat(folder_fd, sha256, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd == -1 && errno == ENOENT)
		return FOUND_NONE;
	if (fd == -1 && (errno == ELOOP || errno == ENXIO)) {
		(void)err_set(e, ERR_IO, "it isn't a regular file");
		return FOUND_DAMAGED;
	}
	if (fd == -1 || fstat(fd, &st) == -1) {
		(void)err_sys(e, ERR_IO, "cannot open object %s", sha256);
		return FOUND_UNREADABLE;
	}
	if (!S_ISREG(st.st_mode)) {
		(void)err_set(e, ERR_IO, "it isn't a regular file");
		return FOUND_DAMAGED;
	}
	if ((uint64_t)st.st_size > LIMIT_OBJECT_BYTES) {
		(void)err_set(e, ERR_IO, "it has %lld bytes, an object at most %u", (long long)st.st_size,
			LIMIT_OBJECT_BYTES);
		return FOUND_DAMAGED;
	}
	*ret_fd = fd_take(&fd);
	return FOUND_GOOD;
}

/* `ret` and `ret_fd` are set only when it is good; the caller closes and unrefs. */
static enum found load_object(int folder_fd, const char *sha256, struct blob **ret, int *ret_fd, struct err *e)
{
	autoclose int fd = -1;
	enum found found = open_object(folder_fd, sha256, &fd, e);
	struct blob *b;
	size_t size;
	char *data;

	if (found != FOUND_GOOD)
		return found;
	data = fd_read_all(fd, LIMIT_OBJECT_BYTES, &size, e);
	if (!data) {
		(void)err_prefix(e, "object %s", sha256);
		return FOUND_UNREADABLE;
	}
	b = blob_new(data, size);
	if (b)
		blob_hash(b);
	if (!b || !b->sha256[0]) {
		(void)err_set(e, ERR_INTERNAL, "no memory to check object %s", sha256);
		blob_unref(b);
		return FOUND_UNREADABLE;
	}
	if (strcmp(b->sha256, sha256) != 0) {
		(void)err_set(e, ERR_IO, "its %zu bytes have the hash %s", size, b->sha256);
		blob_unref(b);
		return FOUND_DAMAGED;
	}
	*ret = b;
	*ret_fd = fd_take(&fd);
	return FOUND_GOOD;
}

static int put_aside(int folder_fd, const char *sha256, struct err *e)
{
	struct object_name aside = name_with(sha256, ".damaged");

	if (renameat(folder_fd, sha256, folder_fd, aside.text) == -1 || fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot put damaged object %s aside", sha256);
	return 0;
}

bool objects_has(int state_dir_fd, const char *sha256)
{
	autoclose int folder_fd = is_sha256(sha256) ? folder_open(state_dir_fd) : -1;
	struct stat st;

	return folder_fd != -1 && fstatat(folder_fd, sha256, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static int not_found(const char *sha256, struct err *e)
{
	return err_set(e, ERR_OBJECT_NOT_FOUND, "there is no object %s", sha256);
}

int objects_get(int state_dir_fd, const char *sha256, struct blob **ret, struct err *e)
{
	autoclose int folder_fd = -1;
	autoclose int fd = -1;
	struct err aside = ERR_INIT;

	if (!is_sha256(sha256))
		return not_found(sha256, e);
	folder_fd = folder_open(state_dir_fd);
	if (folder_fd == -1)
		return errno == ENOENT ? not_found(sha256, e) : folder_error(e);
	switch (load_object(folder_fd, sha256, ret, &fd, e)) {
	case FOUND_GOOD:
		return 0;
	case FOUND_NONE:
		return not_found(sha256, e);
	case FOUND_UNREADABLE:
		return -1;
	case FOUND_DAMAGED:
		break;
	}
	if (put_aside(folder_fd, sha256, &aside) == -1)
		return err_prefix(e, "object %s is damaged (%s)", sha256, aside.text);
	return err_prefix(e, "object %s was damaged and has been renamed to .damaged", sha256);
}

/* ---- writing ---- */

/* -1 with errno. */
static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int fill_file(int folder_fd, const char *name, const struct blob *object)
{
	autoclose int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);

	if (fd == -1 || write_all(fd, object->data, object->size) == -1 || fsync(fd) == -1)
		return -1;
	return close(fd_take(&fd)); /* some file systems tell of a full disk only here */
}

static int write_object(int folder_fd, const struct blob *object, struct err *e)
{
	struct object_name temporary = name_with(object->sha256, ".tmp");

	if (unlinkat(folder_fd, temporary.text, 0) == -1 && errno != ENOENT)
		return err_sys(e, ERR_IO, "cannot remove the left-over file %s", temporary.text);
	if (fill_file(folder_fd, temporary.text, object) == -1 ||
		renameat(folder_fd, temporary.text, folder_fd, object->sha256) == -1) {
		(void)err_sys(e, ERR_IO, "cannot write object %s of %zu bytes", object->sha256, object->size);
		(void)unlinkat(folder_fd, temporary.text, 0);
		return -1;
	}
	if (fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot make object %s durable", object->sha256);
	return 0;
}

/* Whoever wrote it may have been killed before it was durable. */
static int keep_object(int folder_fd, int fd, const char *sha256, struct err *e)
{
	if (fsync(fd) == -1 || fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot make object %s durable", sha256);
	return 0;
}

int objects_put(int state_dir_fd, const struct blob *object, struct err *e)
{
	autoclose int folder_fd = -1;
	autoclose int fd = -1;
	struct blob *old = NULL;

	if (!is_sha256(object->sha256))
		return err_set(e, ERR_INTERNAL, "an object of %zu bytes has no hash", object->size);
	if (folder_make(state_dir_fd, &folder_fd, e) == -1)
		return -1;
	switch (load_object(folder_fd, object->sha256, &old, &fd, e)) {
	case FOUND_GOOD:
		blob_unref(old);
		return keep_object(folder_fd, fd, object->sha256, e);
	case FOUND_DAMAGED:
		if (put_aside(folder_fd, object->sha256, e) == -1)
			return -1;
		break;
	case FOUND_NONE:
		break;
	case FOUND_UNREADABLE:
		return -1;
	}
	return write_object(folder_fd, object, e);
}

int objects_place(const struct blob *object, const char *path, struct err *e)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0440);

	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot make %s", path);
	if (write_all(fd, object->data, object->size) == -1 || fchmod(fd, 0440) == -1 || close(fd_take(&fd)) == -1) {
		(void)err_sys(e, ERR_IO, "cannot write %s of %zu bytes", path, object->size);
		(void)unlink(path);
		return -1;
	}
	return 0;
}

/* ---- collecting ---- */

static bool is_left_over(const char *name)
{
	return name_is_sha256(name, strnlen(name, SHA256_HEX_BYTES)) && strcmp(name + SHA256_HEX_BYTES, ".tmp") == 0;
}

/* The first failure is told; the others are tried all the same. */
static int collect_from(DIR *dir, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e)
{
	bool failed = false;
	int removed = 0;

	for (;;) {
		struct dirent *entry;
		bool is_object;

		errno = 0;
		entry = readdir(dir);
		if (!entry)
			break;
		is_object = is_sha256(entry->d_name);
		if (is_object ? keep(ctx, entry->d_name) : !is_left_over(entry->d_name))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
			removed += is_object;
		else if (!failed)
			failed = err_sys(e, ERR_IO, "cannot remove %s", entry->d_name) == -1;
	}
	if (errno != 0 && !failed)
		return err_sys(e, ERR_IO, "cannot read the folder " FOLDER);
	if (fsync(dirfd(dir)) == -1 && !failed)
		return err_sys(e, ERR_IO, "cannot make the removal of objects durable");
	return failed ? -1 : removed;
}

int objects_collect(int state_dir_fd, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e)
{
	autoclose int folder_fd = folder_open(state_dir_fd);
	DIR *dir;
	int removed;

	if (folder_fd == -1)
		return errno == ENOENT ? 0 : folder_error(e);
	dir = fdopendir(folder_fd);
	if (!dir)
		return err_sys(e, ERR_IO, "cannot read the folder " FOLDER);
	(void)fd_take(&folder_fd); /* closedir closes it */
	removed = collect_from(dir, keep, ctx, e);
	(void)closedir(dir);
	return removed;
}
