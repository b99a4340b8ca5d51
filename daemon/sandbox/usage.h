/* SPDX-License-Identifier: MIT
 *
 * What the processes of a sandbox use, as the kernel tells everybody in /proc. Reading is all that is done: no privilege, nothing kept.
 * Control process; the folder is an argument for tests. */
#ifndef SANDBOXD_USAGE_H
#define SANDBOXD_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct usage {
	uint64_t anon_bytes;    /* memory of their own */
	uint64_t file_bytes;    /* of mapped files; shared with others, costs nothing when they go */
	uint64_t shared_bytes;  /* shared memory, and files in scratch that are mapped */
	uint64_t peak_bytes;    /* the host's own largest resident size so far */
	uint32_t processes, threads;
	uint64_t cpu_us;        /* user and system, also of children that were waited for */
	int64_t open_files;     /* -1: this kernel doesn't say (before Linux 6.2) */
	int64_t most_open_files; /* of any one of them: the limit is a process's */
	/* of a cgroup, since it was made */
	uint64_t pids_refused, cpu_periods, cpu_throttled;
	bool is_partial;        /* there were more than LIMIT_USAGE_PROCESSES, or threads of one */
};

/* The host `pid` and what descends from it; with orphans_of > 0 also children of that process which run as the host's user. false: there is
 * no such process. `proc`: "/proc". */
bool usage_read_one(const char *proc, pid_t pid, struct usage *ret); /* of the process alone, without its children; false: it has ended */
bool usage_read(const char *proc, pid_t pid, pid_t orphans_of, struct usage *ret);

/* What moves with all that one process can do, from one small file. */
struct usage_host {
	uint64_t faults, cpu, threads, pages; /* page faults, ticks, and the present number of threads, of pages */
};
bool usage_read_host(const char *proc, pid_t pid, struct usage_host *ret);

/* The same from a cgroup of its own, exactly and for all that is in it; threads and open files are left as they are in ret. false: it can't be read. */
bool usage_read_cgroup(const char *dir, const char *leaf, struct usage *ret);

/* Processor time in percent of one processor between two looks; -1: no time has passed. */
double usage_percent(uint64_t cpu_us_before, int64_t at_us_before, uint64_t cpu_us, int64_t at_us);

#endif
