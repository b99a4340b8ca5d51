/* SPDX-License-Identifier: MIT
 *
 * The differences of two JSON values: objects by name whatever the order, arrays by place. Pure. */
#ifndef SANDBOXD_JSON_DIFF_H
#define SANDBOXD_JSON_DIFF_H

#include "proto/json_scan.h"

/* left or right absent (at == NULL): only the other has it. path: "items[3].qty"; "": the whole. */
typedef void json_diff_fn(void *ctx, const char *path, struct json_span left, struct json_span right);

/* Tells each difference, deepest parts only, in left's order and then what only right has. Returns how many. */
size_t json_diff(struct json_span left, struct json_span right, json_diff_fn *tell, void *ctx);

#endif
