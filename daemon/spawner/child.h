/* SPDX-License-Identifier: MIT
 *
 * The way of a child from fork to exec: a const table of steps per kind of child, each async-signal-safe, each input prepared
 * in a plan before the fork. A step that fails is reported as {pid, step, errno} through the report pipe, which all
 * children share and exec closes; then the child exits with CHILD_STATUS_FAILED. Runs in children of the spawner only. */
#ifndef SANDBOXD_CHILD_H
#define SANDBOXD_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/types.h>

#define CHILD_STATUS_FAILED 127
#define CHILD_FDS_MAX       7  /* descriptors that a program is started with, 0 to n - 1 */
#define CHILD_LIMITS_MAX    8

enum child_kind { CHILD_CONTROL, CHILD_ZYGOTE, CHILD_COMPILE, CHILD_CHECK, CHILD_KIND__N };

/* Descriptors that steps need beside those that the program gets; all close at exec. */
enum child_extra { CHILD_FD_REPORT, CHILD_FD_PROGRAM, CHILD_FD_FOLDER, CHILD_FD_SOURCE, CHILD_FD_HEADER, CHILD_EXTRA__N };

struct child_limit {
	int resource;
	uint64_t value;
};

struct child_plan {
	enum child_kind kind;
	pid_t parent;
	int fds[CHILD_FDS_MAX];     /* sources of descriptors 0 .. n_fds - 1 */
	size_t n_fds;
	int extra[CHILD_EXTRA__N];  /* -1: none. The steps after "place descriptors" find them at fixed numbers */
	struct child_limit limits[CHILD_LIMITS_MAX];
	size_t n_limits;
	bool change_ids;            /* root: become uid and gid, drop groups and the bounding set */
	bool stays_here;            /* the folder is the parent's: relative paths of its command line mean the same */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	const char *source_name;    /* CHILD_COMPILE */
	const char *const *programs; /* CHILD_COMPILE: paths tried in this order, NULL at the end */
	char *const *argv, *const *envp;
};

/* One write, so that records of several children don't mix. */
struct child_report {
	int32_t pid;
	uint32_t step;
	int32_t sys_errno;
};

/* Prepares: everything -1, zero. */
void child_plan_init(struct child_plan *p, enum child_kind kind);
/* Adds a limit, lowered to what this process may set at all. */
void child_plan_limit(struct child_plan *p, int resource, uint64_t value);

noreturn void child_run(struct child_plan *p); /* in the forked child */
const char *child_step_name(enum child_kind kind, uint32_t step); /* "" for an unknown one */

#endif
