/* SPDX-License-Identifier: MIT
 *
 * The method table: one row per method, and with it the parameter check, sandboxctl's help and the reference page.
 * Control's dispatcher adds a handler per enum value. Pure data; used by control and sandboxctl. */
#ifndef SANDBOXD_METHODS_H
#define SANDBOXD_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum method_id {
#define X(NAME, text) METHOD_##NAME,
#include "proto/methods.def"
#undef X
	METHOD__N
};

enum param_kind {
	PARAM_ID,          /* name_is_id */
	PARAM_TEXT,        /* a string of `min` to `max` bytes */
	PARAM_INTEGER,     /* min..max; a JSON integer, or a decimal string */
	PARAM_BOOL,
	PARAM_CHOICE,      /* one of `choices`, separated by | */
	PARAM_OBJECT,      /* a JSON object, passed on as bytes */
	PARAM_ANY,         /* any JSON value, passed on as bytes */
	PARAM_SHA256,
	PARAM_SOURCE_NAME, /* name_is_source_file */
	PARAM_FUNCTION,    /* name_is_function */
	PARAM_BASE64       /* at most `max` decoded bytes */
};

struct method_param {
	const char *name;
	enum param_kind kind;
	bool required;
	int64_t min, max;
	const char *choices;
	const char *help;  /* one line; the default in words where there is one */
};

/* ANY: whoever may connect. OPERATOR: administrators, and operators for what they own. ADMIN: administrators. */
enum method_right { RIGHT_ANY, RIGHT_OPERATOR, RIGHT_ADMIN };

#define METHOD_MAX_PARAMS 30

struct method {
	const char *name;
	enum method_right right;
	const char *help;     /* one sentence */
	const char *result;   /* the result's shape, in words */
	struct method_param params[METHOD_MAX_PARAMS]; /* ends with name == NULL */
};

extern const struct method methods[METHOD__N];

/* NULL: unknown; then *ret_nearest (may be NULL) is the nearest known name or NULL. */
const struct method *method_find(const char *name, size_t size, const char **ret_nearest);
enum method_id method_id_of(const struct method *m);
bool method_has_param(const struct method *m, const char *name);
/* Does it change what there is (and so takes a request_key)? Calls are the module's business. */
bool method_is_change(const struct method *m);
size_t method_n_params(const struct method *m);
const char *param_kind_text(enum param_kind kind);

#endif
