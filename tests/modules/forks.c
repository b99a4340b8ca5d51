/* SPDX-License-Identifier: MIT
 *
 * Processes that make processes without end, or for `seconds` at most: comets (each makes the next and ends) and trees (a parent that makes a
 * child, waits for its end, and makes the next). Each birth writes a byte to the path. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct forks { int64_t n; };
SBX_STATE(forks, struct forks, SBX_FIELD(n));

static int64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec;
}

static void born(int fd)
{
	if (write(fd, ".", 1) < 0)
		_exit(1);
}

static void comet(int fd, int64_t end)
{
	while (now_s() < end) {
		pid_t pid = fork();

		if (pid > 0)
			_exit(0);
		if (pid == 0)
			born(fd);
	}
	_exit(0);
}

static void tree(int fd, int64_t end)
{
	(void)signal(SIGCHLD, SIG_DFL);
	while (now_s() < end) {
		pid_t pid = fork();

		if (pid == 0) {
			born(fd);
			_exit(0);
		}
		if (pid > 0)
			(void)waitpid(pid, NULL, 0);
	}
	_exit(0);
}

static int storm(struct sbx *x, void *self)
{
	int64_t n_comets = sbx_arg_i64(x, "comets"), n_trees = sbx_arg_i64(x, "trees"), end = now_s() + sbx_arg_i64(x, "seconds");
	int fd = open(sbx_arg_str(x, "path"), O_WRONLY | O_CREAT | O_APPEND, 0666);

	(void)self;
	(void)signal(SIGCHLD, SIG_IGN);
	for (int64_t i = 0; i < n_comets + n_trees; i++) {
		if (fork() != 0)
			continue;
		if (i < n_comets)
			comet(fd, end);
		tree(fd, end);
	}
	(void)close(fd);
	return sbx_put_i64(x, "made", n_comets + n_trees);
}

SBX_MODULE(forks, 1, SBX_USES(forks), SBX_FN(storm, "path: str, comets: i64, trees: i64, seconds: i64"));
