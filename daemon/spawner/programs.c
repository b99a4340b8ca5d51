/* SPDX-License-Identifier: MIT
 *
 * Where programs and the module header are found. */
#include "daemon/spawner/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"

static int own_folder(char folder[PATH_MAX], struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	if (n == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot read /proc/self/exe");
	folder[n] = '\0';
	slash = strrchr(folder, '/');
	if (!slash)
		return err_set(e, ERR_UNAVAILABLE, "cannot tell in which folder sandboxd is");
	*slash = '\0';
	return 0;
}

/* Opens <first>/<name>, else <second>/<name>; a regular file in any case. -1 with err that names both. */
static int open_beside(const char *first, const char *second, const char *name, int flags, struct err *e)
{
	const char *const folders[] = { first, second };

	for (size_t i = 0; i < 2; i++) {
		char path[PATH_MAX + 64];
		autoclose int fd = -1;
		struct stat st;

		(void)snprintf(path, sizeof path, "%s/%s", folders[i], name);
		fd = open(path, flags | O_CLOEXEC);
		if (fd == -1 && errno == ENOENT)
			continue;
		if (fd == -1 || fstat(fd, &st) == -1)
			return err_sys(e, ERR_UNAVAILABLE, "cannot open %s", path);
		if (!S_ISREG(st.st_mode))
			return err_set(e, ERR_UNAVAILABLE, "%s is not a regular file", path);
		return fd_take(&fd);
	}
	return err_set(e, ERR_UNAVAILABLE, "%s is neither in %s nor in %s: install sandboxd completely", name, first, second);
}

int programs_open_control(struct err *e)
{
	char folder[PATH_MAX];

	return own_folder(folder, e) == -1 ? -1 : open_beside(folder, SANDBOXD_LIBEXECDIR, "sandboxd-control", O_PATH, e);
}

static uint32_t build_of(int program_fd)
{
	char path[40];
	autoclose int fd = -1;
	static uint8_t bytes[64 << 10];
	uint32_t sum = 2166136261u;
	ssize_t n;

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", program_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return 0;
	while ((n = read(fd, bytes, sizeof bytes)) > 0)
		for (ssize_t i = 0; i < n; i++)
			sum = (sum ^ bytes[i]) * 16777619u;
	return sum ? sum : 1;
}

int programs_open(struct programs *p, struct err *e)
{
	char folder[PATH_MAX], include[PATH_MAX + 16];

	if (own_folder(folder, e) == -1)
		return -1;
	(void)snprintf(include, sizeof include, "%s/include", folder);
	p->control = open_beside(folder, SANDBOXD_LIBEXECDIR, "sandboxd-control", O_PATH, e);
	if (p->control == -1)
		return -1;
	p->host = open_beside(folder, SANDBOXD_LIBEXECDIR, "sandbox-host", O_PATH, e);
	if (p->host == -1)
		return -1;
	p->host_build = build_of(p->host);
	p->header = open_beside(include, SANDBOXD_INCLUDEDIR, "sandbox_module.h", O_RDONLY, e);
	return p->header == -1 ? -1 : 0;
}

void programs_close(struct programs *p)
{
	fd_close(&p->control);
	fd_close(&p->host);
	fd_close(&p->header);
}
