/* SPDX-License-Identifier: MIT
 *
 * A function's declared parameters: "sku: str, qty: i64 = 1, note: str?". Arguments are checked against them before
 * any module code runs. Pure; runs in sandbox-host. */
#ifndef SANDBOXD_HOST_SIGNATURE_H
#define SANDBOXD_HOST_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_out.h"
#include "proto/limits.h"

enum param_type {
	PARAM_I64, PARAM_U64, PARAM_F64, PARAM_BOOL, PARAM_STR, PARAM_BYTES, PARAM_LIST, PARAM_DICT, PARAM_ANY, PARAM__N
};

struct parameter {
	char name[LIMIT_FUNCTION_BYTES + 1];
	enum param_type type;
	bool optional;           /* `type?`: may be absent or null */
	struct buf default_json; /* empty: no default */
	struct buf default_cbor; /* checked and converted */
};

struct signature {
	uint32_t n;
	struct parameter *parameters;
};

/* ERR_BAD_MODULE. After an error there is nothing to free. */
int signature_read(const char *text, struct signature *ret, struct err *e);
void signature_fini(struct signature *s);

/* args_json: an object, or n = 0. Appends a CBOR map with every parameter that is given or has a default, in the declared order.
 * ERR_BAD_ARGUMENT with the name (and the nearest, for an unknown one); json_walk's errors. */
int signature_check(const struct signature *s, const char *args_json, size_t n, struct buf *ret_cbor, struct err *e);

/* [{"name", "type", "optional", "default"}] */
void signature_json(const struct signature *s, struct json_out *o, const char *key);

#endif
