/* SPDX-License-Identifier: MIT
 *
 * Control groups, version 2: a leaf per process incarnation of a sandbox, below the folder that the service manager has delegated to
 * the daemon, whose own processes stand in a leaf too (a folder with processes of its own can't hand controllers on).
 *
 *   <delegated>/daemon                      spawner, control, zygotes, compile jobs
 *   <delegated>/<sandbox>@<generation>      a host and all that it forks
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

struct cgroups {
	int dir_fd;                       /* of the delegated folder; -1: there is none, and why says so */
	uint64_t has;                     /* which of CGROUPS_BITS its controllers give */
	char path[LIMIT_PATH_BYTES + 1];  /* as others can reach it; "" where dir_fd is -1 */
	char why[96];
	bool has_left;                    /* some leaf could not be removed yet: it is tried again */
	int64_t sweep_at_ms;              /* INT64_MAX while nothing is left */
	unsigned sweeps;                  /* in a row that left something */
};
#define CGROUPS_INIT { .dir_fd = -1, .sweep_at_ms = INT64_MAX }

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
void cgroups_close(struct cgroups *g); /* removes the empty leaves; the daemon's own is left to the service manager */

/* A leaf with these limits. Returns a descriptor for CLONE_INTO_CGROUP, the caller's; -1 with errno. */
int cgroup_make(struct cgroups *g, const char *sandbox, uint64_t generation, const struct cgroup_limits *limits);
/* Changes the limits of one whose processes live. -1 with errno: some may be set. */
int cgroup_limit(struct cgroups *g, const char *sandbox, uint64_t generation, const struct cgroup_limits *limits);
/* Its processes: to be ended at once (cgroup.kill), to be frozen, to go on. -1 with errno. */
int cgroup_kill(struct cgroups *g, const char *sandbox, uint64_t generation);
int cgroup_freeze(struct cgroups *g, const char *sandbox, uint64_t generation, bool frozen);
void cgroup_events_read(struct cgroups *g, const char *sandbox, uint64_t generation, struct cgroup_events *ret);
/* Ends what is left in it and removes it, now or by a later sweep. */
void cgroup_end(struct cgroups *g, const char *sandbox, uint64_t generation, int64_t now_ms);

/* Removes the leaves that `lives` doesn't know. */
void cgroups_sweep(struct cgroups *g, bool (*lives)(void *ctx, const char *sandbox, uint64_t generation), void *ctx, int64_t now_ms);

/* "/proc/self/cgroup" and "/proc/self/mountinfo" -> the folder of this process in the version 2 hierarchy. -1: there is none. Pure. */
int cgroups_find(const char *own, const char *mountinfo, char path[LIMIT_PATH_BYTES + 1]);

#endif
