/* SPDX-License-Identifier: MIT */
#include "daemon/store/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/folder.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/limits.h"

/* ---- reading ---- */

/* `ret` and `ret_fd` are set only when it is good; the caller closes and unrefs. */
static enum folder_found load_object(int folder_fd, const char *name, const char *sha256, struct blob **ret, int *ret_fd, struct err *e)
{
	autoclose int fd = -1;
	size_t size = 0;
	enum folder_found found = folder_file(folder_fd, name, "object", LIMIT_OBJECT_BYTES, &fd, &size, e);
	struct blob *b;
	char *data;

	if (found != FOLDER_GOOD)
		return found;
	data = fd_read_all(fd, LIMIT_OBJECT_BYTES, &size, e);
	if (!data) {
		(void)err_prefix(e, "object %s", sha256);
		return FOLDER_UNREADABLE;
	}
	b = blob_new(data, size);
	if (b)
		blob_hash(b);
	if (!b || !b->sha256[0]) {
		(void)err_set(e, ERR_INTERNAL, "no memory to check object %s", sha256);
		blob_unref(b);
		return FOLDER_UNREADABLE;
	}
	if (strcmp(b->sha256, sha256) != 0) {
		(void)err_set(e, ERR_IO, "its %zu bytes have the hash %s", size, b->sha256);
		blob_unref(b);
		return FOLDER_DAMAGED;
	}
	*ret = b;
	*ret_fd = fd_take(&fd);
	return FOLDER_GOOD;
}

bool objects_has(int state_dir_fd, const char *sha256)
{
	autoclose int folder_fd = folder_is_hash(sha256) ? folder_open(state_dir_fd, FOLDER_OBJECTS) : -1;
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

	if (!folder_is_hash(sha256))
		return not_found(sha256, e);
	folder_fd = folder_open(state_dir_fd, FOLDER_OBJECTS);
	if (folder_fd == -1)
		return errno == ENOENT ? not_found(sha256, e) : folder_open_error(FOLDER_OBJECTS, e);
	switch (load_object(folder_fd, sha256, sha256, ret, &fd, e)) {
	case FOLDER_GOOD:
		return 0;
	case FOLDER_NONE:
		return not_found(sha256, e);
	case FOLDER_UNREADABLE:
		return -1;
	case FOLDER_DAMAGED:
		break;
	}
	if (folder_put_aside(folder_fd, sha256, "object", &aside) == -1)
		return err_prefix(e, "object %s is damaged (%s)", sha256, aside.text);
	return err_prefix(e, "object %s was damaged and has been renamed to .damaged", sha256);
}

/* ---- writing ---- */

int objects_put(int state_dir_fd, const struct blob *object, struct err *e)
{
	autoclose int folder_fd = -1;
	autoclose int fd = -1;
	struct blob *old = NULL;

	if (!folder_is_hash(object->sha256))
		return err_set(e, ERR_INTERNAL, "an object of %zu bytes has no hash", object->size);
	if (folder_make(state_dir_fd, FOLDER_OBJECTS, &folder_fd, e) == -1)
		return -1;
	switch (load_object(folder_fd, object->sha256, object->sha256, &old, &fd, e)) {
	case FOLDER_GOOD:
		/* Whoever wrote it may have been killed before it was durable. */
		blob_unref(old);
		return folder_sync(folder_fd, fd, object->sha256, "object", e);
	case FOLDER_DAMAGED:
		if (folder_put_aside(folder_fd, object->sha256, "object", e) == -1)
			return -1;
		break;
	case FOLDER_NONE:
		break;
	case FOLDER_UNREADABLE:
		return -1;
	}
	return folder_write(folder_fd, object->sha256, "object", object->data, object->size, e);
}

#define PLACED_MODE 0444 /* read by the host; its folder lets nobody else in, and the next host of the sandbox may be another user */
#define CURRENT     "current.object"

static int write_new(const struct blob *object, const char *path, mode_t mode, struct err *e)
{
	autoclose int fd = FAULT(PLACE_OPEN) ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot make %s", path);
	if (FAULT(PLACE_WRITE) || folder_write_all(fd, object->data, object->size) == -1 || fchmod(fd, mode) == -1 || close(fd_take(&fd)) == -1) {
		(void)err_sys(e, ERR_IO, "cannot write %s of %zu bytes", path, object->size);
		(void)unlink(path);
		return -1;
	}
	return 0;
}

int objects_place(const struct blob *object, const char *path, struct err *e)
{
	return write_new(object, path, PLACED_MODE, e);
}

int objects_keep_placed(const char *folder, const char *path)
{
	char kept[LIMIT_PATH_BYTES + sizeof "/" CURRENT];

	(void)snprintf(kept, sizeof kept, "%.*s/" CURRENT, LIMIT_PATH_BYTES, folder);
	if (link(path, kept) == 0)
		return 0;
	(void)unlink(kept); /* of an earlier start */
	return link(path, kept);
}

int objects_place_again(const char *folder, const char *path)
{
	char kept[LIMIT_PATH_BYTES + sizeof "/" CURRENT];

	(void)snprintf(kept, sizeof kept, "%.*s/" CURRENT, LIMIT_PATH_BYTES, folder);
	return link(kept, path);
}

void objects_drop_placed(const char *folder)
{
	char kept[LIMIT_PATH_BYTES + sizeof "/" CURRENT];

	(void)snprintf(kept, sizeof kept, "%.*s/" CURRENT, LIMIT_PATH_BYTES, folder);
	(void)unlink(kept);
}

int objects_collect(int state_dir_fd, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e)
{
	return folder_collect(state_dir_fd, FOLDER_OBJECTS, keep, ctx, e);
}

/* ---- volatile ones ---- */

struct volatile_path {
	char text[LIMIT_PATH_BYTES + SHA256_HEX_BYTES + sizeof("/.object.tmp")];
};

static struct volatile_path volatile_path(const char *folder, const char *sha256, const char *suffix)
{
	struct volatile_path p;

	(void)snprintf(p.text, sizeof(p.text), "%.*s/%.*s%s", LIMIT_PATH_BYTES, folder, SHA256_HEX_BYTES, sha256, suffix);
	return p;
}

int objects_put_volatile(const char *folder, const struct blob *object, struct err *e)
{
	struct volatile_path path = volatile_path(folder, object->sha256, ".object");
	struct volatile_path temporary = volatile_path(folder, object->sha256, ".object.tmp");

	if (!folder_is_hash(object->sha256))
		return err_set(e, ERR_INTERNAL, "an object of %zu bytes has no hash", object->size);
	if (access(path.text, F_OK) == 0)
		return 0; /* ours alone, and renamed when it was whole */
	(void)unlink(temporary.text);
	if (write_new(object, temporary.text, 0600, e) == -1)
		return -1;
	if (rename(temporary.text, path.text) == -1) {
		(void)err_sys(e, ERR_IO, "cannot write %s", path.text);
		(void)unlink(temporary.text);
		return -1;
	}
	return 0;
}

int objects_place_volatile(const char *folder, const struct blob *object, const char *path, struct err *e)
{
	struct volatile_path stored = volatile_path(folder, object->sha256, ".object");

	if (!folder_is_hash(object->sha256))
		return err_set(e, ERR_INTERNAL, "an object of %zu bytes has no hash", object->size);
	if (write_new(object, path, PLACED_MODE, e) == -1)
		return -1;
	if (link(path, stored.text) == 0)
		return 0;
	(void)err_sys(e, ERR_IO, "cannot link %s to %s", path, stored.text);
	(void)unlink(path);
	return -1;
}

int objects_get_volatile(const char *folder, const char *sha256, struct blob **ret, struct err *e)
{
	struct volatile_path path = volatile_path(folder, sha256, ".object");
	autoclose int fd = -1;

	if (!folder_is_hash(sha256))
		return not_found(sha256, e);
	switch (load_object(AT_FDCWD, path.text, sha256, ret, &fd, e)) {
	case FOLDER_GOOD:
		return 0;
	case FOLDER_NONE:
		return not_found(sha256, e);
	case FOLDER_UNREADABLE:
		return -1;
	case FOLDER_DAMAGED:
		break;
	}
	return err_prefix(e, "object %s in the runtime folder is damaged", sha256);
}

void objects_remove_volatile(const char *folder, const char *sha256)
{
	(void)unlink(volatile_path(folder, sha256, ".object").text);
}

void objects_collect_volatile(const char *folder, bool (*keep)(void *ctx, const char *sha256), void *ctx)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char sha256[SHA256_HEX_BYTES + 1];
		const char *suffix;

		if (!name_is_sha256(entry->d_name, strnlen(entry->d_name, SHA256_HEX_BYTES)))
			continue;
		suffix = entry->d_name + SHA256_HEX_BYTES;
		(void)snprintf(sha256, sizeof(sha256), "%.*s", SHA256_HEX_BYTES, entry->d_name);
		if (strcmp(suffix, ".object.tmp") == 0 || (strcmp(suffix, ".object") == 0 && !keep(ctx, sha256)))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		(void)closedir(dir);
}
