/* SPDX-License-Identifier: MIT
 *
 * Facts about the machine that a report of protections doesn't have. Pure reading, no change; a fact that can't be had is left out or
 * "unknown", never guessed. Control process. */
#ifndef SANDBOXD_MACHINE_H
#define SANDBOXD_MACHINE_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/json_out.h"
#include "proto/protection.h"

/* Members kernel, architecture, landlock_abi, cgroup. */
void machine_json(struct json_out *o);

/* How many sandboxes `descriptors` of one process suffice for. */
uint64_t machine_sandboxes_for(uint64_t descriptors);
/* The soft limit of open descriptors of a process; 0: unknown. */
uint64_t machine_descriptors_of(pid_t pid);

/* What is lost without a protection, and how to get it; both static, never NULL. */
struct machine_remedy {
	const char *lost, *get;
};
const struct machine_remedy *machine_remedy(enum protection p);

#endif
