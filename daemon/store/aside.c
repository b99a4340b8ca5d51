/* SPDX-License-Identifier: MIT */
#include "daemon/store/aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/folder.h"
#include "proto/buf.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"

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

int aside_file(int dir_fd, const char *name, char ret_name[128], struct err *e)
{
	aside_name(dir_fd, ret_name, "");
	if (FAULT(REGISTRY_ASIDE) || rename_part(dir_fd, name, "", ret_name) == -1 || rename_part(dir_fd, name, "-wal", ret_name) == -1 ||
		rename_part(dir_fd, name, "-shm", ret_name) == -1 || rename_part(dir_fd, name, "-journal", ret_name) == -1 || fsync(dir_fd) == -1)
		return err_sys(e, ERR_IO, "cannot put the damaged registry %s aside", name);
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
