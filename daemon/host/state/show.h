/* SPDX-License-Identifier: MIT
 *
 * A blob for people: its state by field names, as JSON, or only what it is made of. Needs no module. Pure; in sandbox-host. */
#ifndef SANDBOXD_HOST_STATE_SHOW_H
#define SANDBOXD_HOST_STATE_SHOW_H

#include <stdint.h>

#include "proto/err.h"
#include "proto/json_out.h"

/* Into an open object: "state_version", "state_bytes", "state": {by name}, "timers": {name: [ms left, period or 0]}, "own": what `save` wrote,
 * or null. ERR_STATE_MISMATCH: the blob is damaged; ERR_REPLY_TOO_LARGE; ERR_BAD_PARAM: JSON can't say it (a map's key that isn't UTF-8). */
int state_show(const void *blob, uint64_t n, struct json_out *o, struct err *e);
/* "state_version", "state": [fields], "structs": [...]. */
int state_show_schema(const void *blob, uint64_t n, struct json_out *o, struct err *e);

#endif
