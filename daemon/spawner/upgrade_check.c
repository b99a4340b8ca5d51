/* SPDX-License-Identifier: MIT
 *
 * The new program's side: its answer before anything is touched, and the table as it is handed over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/handover.h"
#include "daemon/spawner/programs.h"
#include "daemon/spawner/upgrade.h"
#include "proto/fd.h"

static int number_of(const char *text, struct err *e)
{
	char *end = NULL;
	long n = strtol(text, &end, 10);

	if (*end || end == text || n < HANDOVER_FIRST_FD || n > 1 << 24)
		return err_set(e, ERR_UPGRADE_REFUSED, "'%.20s' is no descriptor of a table", text);
	return (int)n;
}

static int table_read(int fd, struct handover *ret, struct err *e)
{
	size_t size;
	char *bytes;

	if (!fd_is_memfd_sealed(fd))
		return err_set(e, ERR_UPGRADE_REFUSED, "descriptor %d is no sealed table", fd);
	bytes = fd_read_all(fd, HANDOVER_BYTES_MAX, &size, e);
	if (!bytes)
		return err_prefix(e, "the table that is handed over");
	return handover_read(bytes, size, ret, e); /* the view points into it for good */
}

/* Runs another program of this build and reads what it was built with. */
static int build_ask(int program_fd, const char *name, struct build *ret, struct err *e)
{
	char text[BUILD_TEXT_BYTES] = "", argument[] = BUILD_ARGUMENT, *argv[] = { strdup(name), argument, NULL };
	int ends[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	if (!argv[0] || pipe2(ends, O_CLOEXEC) == -1)
		return err_sys(e, ERR_UPGRADE_REFUSED, "cannot ask %s", name);
	pid = fork();
	if (pid == 0) {
		if (dup2(ends[1], STDOUT_FILENO) != -1)
			(void)execveat(program_fd, "", argv, environ, AT_EMPTY_PATH);
		_exit(127);
	}
	(void)close(ends[1]);
	while (pid > 0 && n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
		n += (size_t)got;
	(void)close(ends[0]);
	free(argv[0]);
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return err_sys(e, ERR_UPGRADE_REFUSED, "cannot ask %s", name);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || build_parse(text, ret) == -1)
		return err_set(e, ERR_UPGRADE_REFUSED, "%s beside the new sandboxd doesn't say what it was built with: install sandboxd completely", name);
	return 0;
}

static int programs_check(struct err *e)
{
	struct programs p = PROGRAMS_INIT;
	const struct build own = build_own();
	struct build control, host;
	int result = programs_open(&p, e);

	if (result == 0)
		result = build_ask(p.control, "sandboxd-control", &control, e);
	if (result == 0)
		result = build_ask(p.host, "sandbox-host", &host, e);
	if (result == 0)
		result = build_is_same(&own, &control, "sandboxd-control", e);
	if (result == 0)
		result = build_is_same(&own, &host, "sandbox-host", e);
	programs_close(&p);
	return result;
}

int upgrade_can_take_over(const char *fd_text, const struct config *c)
{
	const struct build own = build_own();
	struct handover h;
	struct err e = ERR_INIT;
	int fd = number_of(fd_text, &e);

	if (fd == -1 || fcntl(fd, F_SETFD, FD_CLOEXEC) == -1 || table_read(fd, &h, &e) == -1 || build_follows(&own, &h.head->build, &e) == -1 ||
		upgrade_config_check(c, &h, &e) == -1 || programs_check(&e) == -1) {
		(void)printf("%s\n", e.text[0] ? e.text : "there is no table");
		(void)fflush(stdout);
		return 1;
	}
	return fputs(UPGRADE_GOOD, stdout) == EOF || fflush(stdout) == EOF;
}

/* Of all others nobody knows, so nobody would ever close them. */
static int others_close(const struct handover *h, struct err *e)
{
	size_t n;
	int *fds = handover_fds(h, &n);
	unsigned from = HANDOVER_FIRST_FD;
	int result = 0;

	if (!fds)
		return err_set(e, ERR_UPGRADE_REFUSED, "no memory for the descriptors of a table");
	for (size_t i = 0; i < n && result == 0; i++) {
		unsigned fd = (unsigned)fds[i];

		if (fd > from)
			result = close_range(from, fd - 1, 0);
		from = fd + 1;
		if (result == 0 && fcntl(fds[i], F_SETFD, FD_CLOEXEC) == -1)
			result = -1;
	}
	if (result == 0)
		result = close_range(from, ~0u, 0);
	free(fds);
	return result == 0 ? 0 : err_sys(e, ERR_UPGRADE_REFUSED, "the descriptors that were handed over can't be used");
}

int upgrade_table_open(const char *fd_text, struct handover *ret, struct err *e)
{
	const struct build own = build_own();
	int fd = number_of(fd_text, e);

	if (fd == -1 || table_read(fd, ret, e) == -1 || build_follows(&own, &ret->head->build, e) == -1)
		return -1;
	return others_close(ret, e);
}
