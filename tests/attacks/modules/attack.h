/* SPDX-License-Identifier: MIT
 *
 * What all attack modules share. Every attack is a function with the same parameters; what it replies (`ret`, `errno`, `got`)
 * is what it *believes*: the runner prints it and never trusts it. Success is seen from outside (tests/attacks/judges.py),
 * or shown by a secret of the runner's that came back in `got`. */
#ifndef ATTACK_H
#define ATTACK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_module.h"

struct attacker { int64_t unused; };
SBX_STATE(attacker, struct attacker, SBX_FIELD(unused));

#define ATTACK(f) SBX_FN(f, "pid: i64 = 0, at: u64 = 0, path: str = \"\", text: str = \"\", n: i64 = 0, m: i64 = 0")
#define ATTACKS(name, ...) SBX_MODULE(name, 1, SBX_USES(attacker), __VA_ARGS__)

/* The end of every attack: what the last call gave, and errno by name. */
static inline int said(struct sbx *x, long ret)
{
	const char *name = ret < 0 ? strerrorname_np(errno) : "";

	if (sbx_put_i64(x, "ret", ret) < 0)
		return -1;
	return sbx_put_str(x, "errno", name ? name : "?");
}

/* The same, and bytes that were brought out. */
static inline int brought(struct sbx *x, long ret, const void *p, size_t n)
{
	int e = errno;

	if (sbx_put_bytes(x, "got", p, n) < 0)
		return -1;
	errno = e;
	return said(x, ret);
}

static inline const char *path_of(struct sbx *x) { return sbx_arg_str(x, "path"); }
static inline const char *text_of(struct sbx *x) { return sbx_arg_str(x, "text"); }
static inline pid_t pid_of(struct sbx *x) { return (pid_t)sbx_arg_i64(x, "pid"); }
static inline long n_of(struct sbx *x) { return (long)sbx_arg_i64(x, "n"); }
static inline long m_of(struct sbx *x) { return (long)sbx_arg_i64(x, "m"); }

/* A child that can be recognised from outside by its name, and waits to be killed; at most a minute, in case nobody does. */
static inline void stay(const char *name)
{
	prctl(PR_SET_NAME, name);
	signal(SIGALRM, SIG_DFL);
	alarm(60);
	for (;;)
		pause();
}

/* Reads all of a small file. */
static inline long slurp(const char *path, char *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, to, size);
	close(fd);
	return n;
}

#endif
