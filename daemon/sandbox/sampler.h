/* SPDX-License-Identifier: MIT
 *
 * Looks at the processes of all sandboxes that run, again and again (sample_plan.h: when). What comes near a limit is the event
 * sandbox.limit_warning, what reaches one sandbox.limit_exceeded. Where a sandbox has no cgroup, one whose processes together have more than
 * max_memory, or more tasks than max_processes where no resource limit counts them, is killed; a cgroup does that itself. Reading /proc is
 * all that is done, no privilege. Control process, loop thread. */
#ifndef SANDBOXD_SAMPLER_H
#define SANDBOXD_SAMPLER_H

#include "daemon/sandbox/sample_plan.h"

struct control;
struct sampler;
struct sandbox;

/* A part of struct sandbox: what the look before has found. */
struct sample {
	struct sample_item item;        /* first */
	uint64_t generation;            /* of the process looked at; 0: none */
	uint32_t interval_ms;
	struct sample_told told;
	struct {
		uint64_t faults, cpu, threads, pages; /* of its host: as long as none of them moves, it has done nothing */
	} host;
	uint32_t tasks;
	uint64_t cpu_us, bytes;         /* of all of it */
	bool over;                      /* it had too much: killed, if that is so the next time too */
	bool tasks_counted;             /* by a resource limit */
	uint64_t pids_refused, periods, throttled; /* counters of its cgroup */
};

struct sampler *sampler_new(struct control *c);      /* NULL: no memory */
struct sampler *sampler_free(struct sampler *s);     /* NULL ok, returns NULL; when the loop has ended */
void sample_update(struct sandbox *sb);              /* its process may have come or gone */
void sample_poke(struct sandbox *sb);                /* it has something to do */
void sample_queue(struct sandbox *sb);               /* calls wait, or fewer do */
void sample_forget(struct sandbox *sb);              /* it will be freed */

#endif
