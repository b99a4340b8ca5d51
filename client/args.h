/* SPDX-License-Identifier: MIT
 *
 * The command line, taken apart: which verb, its operands, its options with their texts. What the texts mean is argjson.h's
 * business. Texts are argv's own and live as long as it. Pure. */
#ifndef SANDBOXD_ARGS_H
#define SANDBOXD_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/option.h"
#include "client/verb.h"
#include "proto/err.h"

#define ARGS_MAX       256 /* operands, and options: more than any verb can use */
#define ARGS_NO_TIMEOUT (-1)

struct arg_option {
	struct option option;
	const char *text; /* NULL: a flag without a value */
};

struct args {
	const struct verb *verb; /* NULL: none named */
	bool json, quiet, version, help;
	const char *socket;      /* NULL: not given */
	int64_t timeout_ms;      /* ARGS_NO_TIMEOUT: not given */
	const char *operands[ARGS_MAX];
	size_t n_operands;
	struct arg_option options[ARGS_MAX]; /* of the verb */
	size_t n_options;
};

/* Fills *a as far as it gets even on failure: verb and json then say how the error is to be shown.
 * Global options stand anywhere; those of a verb behind it; "--" ends options. */
int args_parse(struct args *a, int argc, char *const *argv, struct err *e);
bool args_flag(const struct args *a, const char *name);                 /* was this flag of the verb given? */
const char *args_text(const struct args *a, const char *name, const char *otherwise); /* the value of one that has a value */
const struct arg_option *args_param(const struct args *a, const char *param); /* the first option for it, or NULL */
const char *args_operand(const struct args *a, const char *param);      /* the operand that gives it, or NULL */

/* Decimal digits alone, with an optional '-'. */
bool args_integer(const char *text, int64_t *ret);

#endif
