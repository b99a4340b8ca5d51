/* SPDX-License-Identifier: MIT
 *
 * One JSON-RPC 2.0 request as bytes: checked strictly and taken apart in the same pass. The spans point into the caller's
 * bytes; nothing is copied or allocated (but by the scanner, for large objects). Pure; control process only. */
#ifndef SANDBOXD_RPC_ENVELOPE_H
#define SANDBOXD_RPC_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/err.h"
#include "proto/json_scan.h"
#include "proto/methods.h"

/* One more than any method has: keys differ, so among so many there is an unknown one. */
#define RPC_ENVELOPE_PARAMS (METHOD_MAX_PARAMS + 1)

struct rpc_envelope {
	struct json_span id;      /* at == NULL: a notification, which gets no reply */
	struct json_span method;  /* a string */
	struct json_span params;  /* an object, or absent */
	size_t n_params;          /* of its members, at most RPC_ENVELOPE_PARAMS are kept */
	struct json_span names[RPC_ENVELOPE_PARAMS], values[RPC_ENVELOPE_PARAMS];
};

/* 0; or -1 with err (what json_walk says, INVALID_REQUEST, BAD_PARAM). ret->id is set in both cases: to `null` when the
 * request is refused before its id is known to be one. offset counts from text. */
int rpc_envelope_read(const char *text, size_t size, struct rpc_envelope *ret, struct err *e);

extern const struct json_span rpc_null; /* `null`, the id of replies to what had none */

#endif
