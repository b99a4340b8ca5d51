/* SPDX-License-Identifier: MIT
 *
 * Control groups, version 2: a leaf per process incarnation of a sandbox, below the folder that the service manager has delegated to
 * the daemon, whose own processes stand in a leaf too (a folder with processes of its own can't hand controllers on).
 *
 *   <delegated>/daemon                      spawner, control, zygotes, compile jobs
 *   <delegated>/<sandbox>@<generation>      a host and all that it forks; of one that was made in advance, +spare@<n>
 *
 * A folder that nobody has delegated is never written to. Spawner only; single-threaded. */
#ifndef SANDBOXD_CGROUPS_H
#define SANDBOXD_CGROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "proto/protection.h"

#define CGROUPS_BITS (PROTECTION_BIT(PROTECTION_TREE_MEMORY) | PROTECTION_BIT(PROTECTION_TREE_PROCESSES) | PROTECTION_BIT(PROTECTION_TREE_CPU))

#define CGROUP_LEAF_BYTES (LIMIT_ID_BYTES + 22) /* a name, '@', a number */

struct cgroups {
	int dir_fd;                       /* of the delegated folder; -1: there is none, and why says so */
	uint64_t has;                     /* which of CGROUPS_BITS its controllers give */
	char path[LIMIT_PATH_BYTES + 1];  /* as others can reach it; "" where dir_fd is -1 */
	char why[LIMIT_ID_BYTES + 1];
	struct cgroup_left *left;         /* leaves that could not be removed yet: tried again at retry_at_ms */
	int64_t retry_at_ms;              /* INT64_MAX while none is left */
	unsigned retries;                 /* in a row that left something */
};
#define CGROUPS_INIT { .dir_fd = -1, .retry_at_ms = INT64_MAX }

struct cgroup_limits {
	uint64_t memory_bytes;  /* memory.max; swap is 0 */
	uint32_t processes;     /* pids.max */
	uint32_t cpu_percent;   /* of one processor: cpu.max */
};

/* What the kernel counted for one incarnation. */
struct cgroup_events {
	bool oom;               /* it was killed for its memory */
	bool processes;         /* a fork was refused */
};

/* Finds the delegated folder, moves this process into the daemon's leaf, hands the controllers on, and ends what an earlier daemon has left.
 * That there is none is no error: then all other functions do nothing, and `why` tells a reader what to change. */
void cgroups_open(struct cgroups *g);
/* The same with a folder that is known to be delegated. For cgroups_open, and tests with a folder of plain files. Takes the descriptor. */
void cgroups_open_at(struct cgroups *g, int dir_fd, const char *path);
/* As another program left them. dir_fd -1: there are none, for this reason. */
void cgroups_take_over(struct cgroups *g, int dir_fd, uint64_t has, const char *path, const char *why);
/* Ends the leaves that is_held doesn't know; NULL: all. */
void cgroups_sweep(struct cgroups *g, bool (*is_held)(void *ctx, const char *leaf), void *ctx);
void cgroups_close(struct cgroups *g); /* removes the empty leaves; the daemon's own is left to the service manager */

static inline bool cgroups_there(const struct cgroups *g)
{
	return g->dir_fd != -1;
}

void cgroup_leaf_name(char to[CGROUP_LEAF_BYTES], const char *name, uint64_t number);

/* A leaf with these limits; one that is there already is taken. Returns a descriptor for CLONE_INTO_CGROUP, the caller's; -1 with errno. */
int cgroup_make(struct cgroups *g, const char *leaf, const struct cgroup_limits *limits);
/* Changes the limits of one whose processes live. -1 with errno: some may be set. */
int cgroup_limit(struct cgroups *g, const char *leaf, const struct cgroup_limits *limits);
int cgroup_kill(struct cgroups *g, const char *leaf);            /* all its processes at once. -1 with errno */
/* All its processes stand when it returns 0, or go on. -1 with errno; ETIMEDOUT: not all stand after CGROUP_FREEZE_MS, so all go on. */
int cgroup_freeze(struct cgroups *g, const char *leaf, bool frozen);
#define CGROUP_FREEZE_MS 250 /* the spawner waits so long; a process in the kernel for longer keeps the others from standing */
void cgroup_events_read(struct cgroups *g, const char *leaf, struct cgroup_events *ret);
/* Ends what is left in it and removes it, now or later. */
void cgroup_end(struct cgroups *g, const char *leaf, int64_t now_ms);
void cgroups_retry(struct cgroups *g, int64_t now_ms);           /* the leaves that could not be removed */

/* "/proc/self/cgroup" and "/proc/self/mountinfo" -> the folder of this process in the version 2 hierarchy. -1: there is none. Pure. */
int cgroups_find(const char *own, const char *mountinfo, char path[LIMIT_PATH_BYTES + 1]);

#endif
