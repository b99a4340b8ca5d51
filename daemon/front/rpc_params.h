/* SPDX-License-Identifier: MIT
 *
 * Parameters checked by the rows of the method table: names, presence, kinds, ranges. The values stay spans into the
 * request's bytes. Pure; control process only. */
#ifndef SANDBOXD_RPC_PARAMS_H
#define SANDBOXD_RPC_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/front/rpc_envelope.h"
#include "proto/err.h"
#include "proto/json_scan.h"
#include "proto/methods.h"

struct rpc_params {
	struct json_span values[METHOD_MAX_PARAMS]; /* by the method's row; absent: at == NULL */
	size_t text_bytes;                          /* room that the decoded texts need at most, with their NULs */
};

/* 0, or -1 with err: UNKNOWN_PARAM, MISSING_PARAM, BAD_PARAM, INVALID_ID; name and offset (from text) set. */
int rpc_params_check(const struct method *m, const struct rpc_envelope *from, const char *text, struct rpc_params *ret,
	struct err *e);
/* Is it a kind that rpc_text gives out decoded? */
bool rpc_params_is_text(enum param_kind kind);

#endif
