/* SPDX-License-Identifier: MIT */
#include "daemon/store/aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/folder.h"
#include "proto/buf.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "proto/log.h"

#define ASIDE "registry.damaged-"

static int rename_part(int dir_fd, const char *name, const char *suffix, const char *aside)
{
	char from[160], to[160];

	(void)snprintf(from, sizeof from, "%s%s", name, suffix);
	(void)snprintf(to, sizeof to, "%s%s", aside, suffix);
	return renameat(dir_fd, from, dir_fd, to) == -1 && errno != ENOENT ? -1 : 0;
}

/* A name that isn't taken. */
static void aside_name(int dir_fd, char ret[128], const char *suffix)
{
	int64_t ms = clock_wall_ms();
	struct stat st;

	do
		(void)snprintf(ret, 128, ASIDE "%lld%s", (long long)ms++, suffix);
	while (fstatat(dir_fd, ret, &st, AT_SYMLINK_NOFOLLOW) == 0);
}

/* ---- the bound ---- */

struct aside_part {
	int64_t ms; /* of its name: parts of one whole file have the same */
	uint64_t bytes;
	char name[64];
};

struct aside_parts {
	struct aside_part *at;
	size_t n, room;
};

/* Names that aren't as they are given here belong to somebody else: an administrator's copy, say. */
static bool name_read(const char *name, int64_t *ret_ms)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal", "-row" };
	char *end;

	if (strncmp(name, ASIDE, sizeof ASIDE - 1) != 0 || name[sizeof ASIDE - 1] < '0' || name[sizeof ASIDE - 1] > '9')
		return false;
	errno = 0;
	*ret_ms = strtoll(name + sizeof ASIDE - 1, &end, 10);
	for (size_t i = 0; errno == 0 && i < sizeof ends / sizeof ends[0]; i++)
		if (strcmp(end, ends[i]) == 0)
			return true;
	return false;
}

static int parts_add(struct aside_parts *parts, const struct aside_part *part)
{
	if (parts->n == parts->room) {
		size_t room = parts->room * 2 + 16;
		struct aside_part *grown = reallocarray(parts->at, room, sizeof *grown);

		if (!grown)
			return -1;
		parts->at = grown;
		parts->room = room;
	}
	parts->at[parts->n++] = *part;
	return 0;
}

static int by_ms(const void *a, const void *b)
{
	const struct aside_part *x = a, *y = b;

	return x->ms < y->ms ? -1 : x->ms > y->ms;
}

/* All parts, oldest first. -1: they can't be told; then none goes. */
static int parts_find(int dir_fd, struct aside_parts *parts)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		fd_close(&fd);
		return -1;
	}
	while (result == 0 && (entry = readdir(dir))) {
		struct aside_part part = { 0 };
		struct stat st;

		if (strlen(entry->d_name) >= sizeof part.name || !name_read(entry->d_name, &part.ms) ||
			fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == -1 || S_ISDIR(st.st_mode))
			continue;
		(void)snprintf(part.name, sizeof part.name, "%s", entry->d_name);
		part.bytes = (uint64_t)st.st_blocks * 512 > (uint64_t)st.st_size ? (uint64_t)st.st_blocks * 512 : (uint64_t)st.st_size;
		result = parts_add(parts, &part);
	}
	(void)closedir(dir);
	if (parts->n > 0)
		qsort(parts->at, parts->n, sizeof parts->at[0], by_ms);
	return result;
}

/* The first says how it began, the newest how it is; those between go, oldest first, until the rest is within the limits. */
static void bound(int dir_fd, int64_t newest_ms)
{
	struct aside_parts parts = { 0 };
	uint64_t bytes = 0, gone_bytes = 0;
	size_t n_gone = 0, left;

	if (parts_find(dir_fd, &parts) == -1)
		parts.n = 0;
	for (size_t i = 0; i < parts.n; i++)
		bytes += parts.at[i].bytes;
	left = parts.n;
	for (size_t i = 0; i < parts.n && (left > LIMIT_ASIDE_FILES || bytes > LIMIT_ASIDE_BYTES); i++) {
		const struct aside_part *part = &parts.at[i];

		if (part->ms == parts.at[0].ms || part->ms == newest_ms || unlinkat(dir_fd, part->name, 0) == -1)
			continue;
		n_gone++;
		left--;
		bytes -= part->bytes;
		gone_bytes += part->bytes;
	}
	if (n_gone > 0)
		log_warning("%zu older files of damaged parts of the registry (%s*, %llu bytes) were removed: at most %d files of %d MiB stay, "
			    "the first one and the newest", n_gone, ASIDE, (unsigned long long)gone_bytes, LIMIT_ASIDE_FILES,
			LIMIT_ASIDE_BYTES >> 20);
	free(parts.at);
}

static void bound_behind(int dir_fd, const char *name)
{
	int64_t ms;

	if (name_read(name, &ms))
		bound(dir_fd, ms);
}

/* ---- putting aside ---- */

int aside_file(int dir_fd, const char *name, char ret_name[128], struct err *e)
{
	aside_name(dir_fd, ret_name, "");
	if (FAULT(REGISTRY_ASIDE) || rename_part(dir_fd, name, "", ret_name) == -1 || rename_part(dir_fd, name, "-wal", ret_name) == -1 ||
		rename_part(dir_fd, name, "-shm", ret_name) == -1 || rename_part(dir_fd, name, "-journal", ret_name) == -1 || fsync(dir_fd) == -1)
		return err_sys(e, ERR_IO, "cannot put the damaged registry %s aside", name);
	bound_behind(dir_fd, ret_name);
	return 0;
}

/* One row as a text file: what could be read of it. */
int aside_row(int dir_fd, const char *id, const char *why, const void *spec, size_t size, char ret_name[128], struct err *e)
{
	autoclose int fd = -1;
	struct buf b = BUF_INIT;
	int result = 0;

	aside_name(dir_fd, ret_name, "-row");
	buf_printf(&b, "%s\n%s\n", id, why);
	buf_add(&b, spec, size);
	buf_add(&b, "\n", 1);
	fd = openat(dir_fd, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (b.failed || fd == -1 || FAULT(REGISTRY_ASIDE) || folder_write_all(fd, b.data, b.size) == -1 || fsync(fd) == -1 || fsync(dir_fd) == -1)
		result = err_sys(e, ERR_IO, "cannot put a damaged row of the registry aside");
	if (result == -1 && fd != -1)
		(void)unlinkat(dir_fd, ret_name, 0); /* not whole */
	buf_fini(&b);
	if (result == 0)
		bound_behind(dir_fd, ret_name);
	return result;
}

bool aside_any(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = !dir;

	if (!dir)
		fd_close(&fd);
	while (dir && !found && (entry = readdir(dir)))
		found = strncmp(entry->d_name, ASIDE, sizeof ASIDE - 1) == 0;
	if (dir)
		(void)closedir(dir);
	return found;
}
