/* SPDX-License-Identifier: MIT
 *
 * A request's parameters: the texts of the command line checked against the method table's rows and written as JSON. */
#ifndef SANDBOXD_ARGJSON_H
#define SANDBOXD_ARGJSON_H

#include <stddef.h>
#include <stdint.h>

#include "client/args.h"
#include "proto/err.h"
#include "proto/json_out.h"

/* Writes the members of params that operands and options give, into an open object. Reads the files that options name, and
 * standard input for "-". without: a parameter that the verb gives itself, or NULL. -1 with err; what was written then is of no use. */
int argjson_write(struct json_out *o, const struct args *a, const char *without, struct err *e);

/* The sum of all times (parameters that end in _ms) that the request itself allows the daemon; 0 where none is given. */
int64_t argjson_time_ms(const struct args *a);

/* ---- the single forms, for the object that `o` has open ---- */

/* "name=text": a number, true, false or null where the text is one by JSON's grammar, else a string; "name:=json": as it is.
 * Integers beyond 2^53 go as strings, which is how the protocol has them. */
int argjson_argument(struct json_out *o, const char *text, struct err *e);
/* 64M, 64MiB, 1g, 1024: K, M, G and T are powers of 1024. */
int argjson_size(const char *text, uint64_t *ret, struct err *e);

#endif
