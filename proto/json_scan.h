/* SPDX-License-Identifier: MIT
 *
 * The strict JSON scanner that stands in front of everything that parses JSON: clients' lines, hosts' replies,
 * arguments inside the host. RFC 8259 and stricter: UTF-8 checked (no overlong forms, no surrogates), \u0000 refused,
 * lone surrogate escapes refused, raw control characters refused, duplicate keys refused at every level (compared decoded),
 * depth <= LIMIT_JSON_DEPTH, integers beyond +-2^53 refused, numbers that overflow a double refused, nothing after the value.
 * Pure: no I/O, no state kept between calls; recursion-free. Allocates only for objects of more than a few keys. */
#ifndef SANDBOXD_JSON_SCAN_H
#define SANDBOXD_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

struct json_span {
	const char *at;  /* NULL: absent */
	size_t size;     /* strings include their quotes */
};

enum json_event {
	JSON_OBJECT_BEGIN, JSON_OBJECT_END, JSON_ARRAY_BEGIN, JSON_ARRAY_END,
	JSON_KEY,     /* span with quotes, still escaped */
	JSON_STRING,  /* span with quotes, still escaped */
	JSON_INTEGER, /* no fraction, no exponent, within +-2^53 */
	JSON_NUMBER,  /* any other number */
	JSON_TRUE, JSON_FALSE, JSON_NULL
};

/* Called once per event in order, before the text as a whole is known to be good. Non-zero stops the scan, which returns it. */
typedef int json_visit_fn(void *ctx, enum json_event event, struct json_span span);

/* 0; or -1 with err (PARSE, BAD_UTF8, BAD_NUMBER, TOO_DEEP, DUPLICATE_KEY; offset set; name = the key where there is one); or what visit returned. */
int json_walk(const char *text, size_t size, json_visit_fn *visit, void *ctx, struct err *e);
int json_check(const char *text, size_t size, struct err *e);
int json_check_within(const char *text, size_t size, size_t most_levels, struct err *e); /* fewer levels than LIMIT_JSON_DEPTH */

/* ---- reading text that json_check has accepted ---- */

char json_type(struct json_span v); /* '{' '[' '"' 'i' (integer) 'n' (other number) 't' 'f' '0' (null) or 0 (absent) */
struct json_iter { const char *at, *end; };
struct json_iter json_iter_begin(struct json_span object_or_array);
/* The next member (key with quotes) or item (key absent). false at the end. */
bool json_iter_next(struct json_iter *it, struct json_span *key, struct json_span *value);
struct json_span json_get(struct json_span object, const char *key); /* exact, case-sensitive, compares decoded */
/* Decodes a string value, NUL-terminated; returns its bytes without NUL, or -1 if it isn't a string or needs more room. */
int64_t json_string(struct json_span v, char *to, size_t room);
char *json_string_dup(struct json_span v, size_t *ret_size); /* caller frees; NULL: not a string, or no memory */
bool json_string_is(struct json_span v, const char *text);
bool json_i64(struct json_span v, int64_t *ret);  /* an integer, or a decimal string of an int64 */
bool json_u64(struct json_span v, uint64_t *ret);
bool json_f64(struct json_span v, double *ret);   /* any number; "NaN", "Infinity", "-Infinity" */
bool json_bool(struct json_span v, bool *ret);

#endif
