/* SPDX-License-Identifier: MIT
 *
 * Owner and mode are looked at by descriptor: what is read is what was looked at. */
#include "daemon/spawner/trusted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/profile_file.h"

static int look(int fd, mode_t type, const char *what, const char *shown, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return err_sys(e, ERR_IO, "cannot look at the %s %s", what, shown);
	if ((st.st_mode & S_IFMT) != type)
		return err_set(e, ERR_BAD_PARAM, "the %s %s is no %s", what, shown, type == S_IFDIR ? "folder" : "regular file");
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(e, ERR_DENIED, "the %s %s belongs to uid %u: give it to root", what, shown, (unsigned)st.st_uid);
	if (st.st_mode & 022)
		return err_set(e, ERR_DENIED, "the %s %s can be written by others: chmod go-w it", what, shown);
	return 0;
}

char *trusted_read(int folder_fd, const char *name, const char *what, const char *shown, size_t most, size_t *ret_size, struct err *e)
{
	autoclose int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char *text;

	if (fd == -1) {
		err_sys(e, ERR_IO, "cannot open the %s %s", what, shown);
		return NULL;
	}
	if (look(fd, S_IFREG, what, shown, e) == -1)
		return NULL;
	text = fd_read_all(fd, most, ret_size, e);
	if (!text)
		err_prefix(e, "%s %s", what, shown);
	return text;
}

int trusted_folder(const char *path, const char *what, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -1)
		return err_sys(e, ERR_IO, "cannot open the %s %s", what, path);
	return look(fd, S_IFDIR, what, path, e) == -1 ? -1 : fd_take(&fd);
}

/* ---- profiles ---- */

struct names {
	char of[LIMIT_PROFILES][NAME_MAX + 1];
	size_t n;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* "web.profile": of "web". Other files, and hidden ones, are nobody's business: editors leave some. */
static bool is_profile(const char *file)
{
	size_t size = strlen(file), suffix = sizeof PROFILE_FILE_SUFFIX - 1;

	return file[0] != '.' && size >= suffix && strcmp(file + size - suffix, PROFILE_FILE_SUFFIX) == 0;
}

static int names_read(int folder_fd, const char *shown, struct names *names, struct err *e)
{
	int own_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 0);
	DIR *folder = own_fd == -1 ? NULL : fdopendir(own_fd);
	struct dirent *entry;
	int result = 0;

	if (!folder) {
		fd_close(&own_fd);
		return err_sys(e, ERR_IO, "cannot read the folder %s", shown);
	}
	for (size_t seen = 0; result == 0 && (entry = readdir(folder)); seen++) {
		if (seen >= LIMIT_PROFILE_FILES)
			result = err_set(e, ERR_LIMIT_EXCEEDED, "%s has more than %d entries: take out what isn't a profile", shown, LIMIT_PROFILE_FILES);
		else if (is_profile(entry->d_name) && names->n == LIMIT_PROFILES)
			result = err_set(e, ERR_LIMIT_EXCEEDED, "%s has more than %d profiles: take some out", shown, LIMIT_PROFILES);
		else if (is_profile(entry->d_name))
			(void)snprintf(names->of[names->n++], sizeof names->of[0], "%s", entry->d_name);
	}
	(void)closedir(folder);
	qsort(names->of, names->n, sizeof names->of[0], by_name);
	return result;
}

/* What is granted is there, is no link, and isn't the daemon's own. */
/* The same path without links; of what isn't there yet, the part that is. */
static void path_real(char *path, size_t room)
{
	char there[PATH_MAX], real[PATH_MAX];
	size_t length = strlen(path);

	(void)snprintf(there, sizeof there, "%s", path);
	while (length > 1 && !realpath(there, real)) {
		while (length > 1 && there[length - 1] != '/')
			length--;
		while (length > 1 && there[length - 1] == '/')
			length--;
		there[length] = '\0';
	}
	if (length <= 1 || strlen(real) + strlen(path + length) >= room)
		return;
	(void)snprintf(there, sizeof there, "%s", path + length);
	memcpy(path, real, strlen(real) + 1);
	memcpy(path + strlen(real), there, strlen(there) + 1);
}

/* The daemon's own folders may be named by links; a granted path has none. */
static const struct config *real_folders(const struct config *c)
{
	static struct config real;

	real = *c;
	path_real(real.state_dir, sizeof real.state_dir);
	path_real(real.runtime_dir, sizeof real.runtime_dir);
	path_real(real.socket_path, sizeof real.socket_path);
	return &real;
}

static int path_check(void *ctx, const char *path, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	const char *met = config_meets(ctx, path);
	autoclose int fd = -1;
	struct stat st;

	if (!met)
		met = config_meets(real_folders(ctx), path);
	if (met)
		return err_set(e, ERR_BAD_PARAM, "it meets %s of the daemon itself", met);
	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	if (fd == -1 && errno == ELOOP)
		return err_set(e, ERR_BAD_PARAM, "a part of it is a symbolic link: name where it leads to");
	if (fd == -1 || fstat(fd, &st) == -1)
		return err_sys(e, ERR_BAD_PARAM, "it can't be looked at");
	return S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) ? 0 : err_set(e, ERR_BAD_PARAM, "it is neither a folder nor a regular file");
}

static int profile_load(const struct config *c, int folder_fd, const char *folder, const char *file, enum profile id, struct err *e)
{
	char shown[LIMIT_PATH_BYTES + sizeof "/" + NAME_MAX + 1], name[NAME_MAX + 1];
	const struct profile_paths paths = { path_check, (void *)(uintptr_t)c };
	struct policy p;
	size_t size;
	char *text;
	int result;

	(void)snprintf(shown, sizeof shown, "%.*s/%s", LIMIT_PATH_BYTES, folder, file);
	(void)snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - (sizeof PROFILE_FILE_SUFFIX - 1)), file);
	text = trusted_read(folder_fd, file, "profile", shown, LIMIT_PROFILE_BYTES, &size, e);
	if (!text)
		return -1;
	result = profile_parse(&p, name, text, size, shown, &paths, e);
	if (result == 0)
		profile_own_put(id, &p);
	free(text);
	return result;
}

int profiles_load(const char *folder, const struct config *c, struct err *e)
{
	char path[LIMIT_PATH_BYTES + sizeof "/profiles.d"];
	struct names names = { .n = 0 };
	struct err why = ERR_INIT;
	autoclose int fd = -1;

	if (snprintf(path, sizeof path, "%s/profiles.d", folder) >= (int)sizeof path)
		return err_set(e, ERR_BAD_PARAM, "the folder of the configuration has a path of more than %d bytes", LIMIT_PATH_BYTES);
	fd = trusted_folder(path, "folder of profiles", &why);
	if (fd == -1) {
		if (why.sys_errno == ENOENT)
			return 0;
		if (e)
			*e = why;
		return -1;
	}
	if (names_read(fd, path, &names, e) == -1)
		return -1;
	for (size_t i = 0; i < names.n; i++)
		if (profile_load(c, fd, path, names.of[i], (enum profile)(PROFILE__N + i), e) == -1)
			return -1;
	return 0;
}
