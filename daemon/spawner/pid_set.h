/* SPDX-License-Identifier: MIT
 *
 * A set of process ids that keeps their order: asked for thousands of times while the processes of a sandbox are walked. Pure. */
#ifndef SANDBOXD_PID_SET_H
#define SANDBOXD_PID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PID_SET_MAX 65536u /* more is a failure: no sandbox has so many */

struct pid_set {
	pid_t *pids;       /* in the order in which they were added */
	size_t n, room;
	uint32_t *slots;   /* open addressing: index + 1 in pids; 0: free. Twice as many as there is room for pids */
};
#define PID_SET_INIT { 0 }

bool pid_set_has(const struct pid_set *s, pid_t pid);
bool pid_set_add(struct pid_set *s, pid_t pid); /* pid > 0, not in it. false: no memory, or PID_SET_MAX are in it */
void pid_set_fini(struct pid_set *s);

#endif
