/* SPDX-License-Identifier: MIT
 *
 * A probe: one host that is given no module. It is born by the spawner's own steps with all that a sandbox of its profile gets, says
 * what stands around it, and is killed. Nothing of it is in the registry; what a killed control leaves of one is refused at
 * take-over, as any entry without a spec. Control process, loop thread. */
#ifndef SANDBOXD_PROBE_H
#define SANDBOXD_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/control/control.h"
#include "proto/err.h"

#define PROBE_REPORT_BYTES 16384 /* a report is 29 rows of about 120 bytes */

struct probe;

struct probe_result {
	const char *report; /* JSON array, checked; NULL: there is none, and err says why */
	int64_t took_us;    /* from the request for a process to its report */
	const char *step;   /* that failed; "" */
	struct err err;
};

/* Called once, later, when nothing is left of the process. The result's texts live as long as the call. */
typedef void probe_done_fn(void *ctx, const struct probe_result *result);

/* Starts one. NULL with err: nothing will be called. */
struct probe *probe_start(struct control *c, const char *profile, probe_done_fn *done, void *ctx, struct err *e);
/* The spawner's notice of an exit: true when it was this probe's, which then goes on by itself. NULL-safe. */
bool probe_exited(struct probe *p, const struct spawner_message *m);

#endif
