/* SPDX-License-Identifier: MIT
 *
 * Writes JSON into a buf; commas are its business. i64/u64 beyond 2^53 become decimal strings, NaN and infinities
 * the strings "NaN", "Infinity", "-Infinity", doubles the shortest text that reads back equal; text that isn't UTF-8
 * is cleaned ('?'). One line: never a raw newline. Pure; runs in every process. */
#ifndef SANDBOXD_JSON_OUT_H
#define SANDBOXD_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/json_scan.h"

struct json_out {
	struct buf *to;
	bool comma;      /* the next item of the open container needs one */
};

static inline struct json_out json_out_to(struct buf *b)
{
	return (struct json_out){ b, false };
}

/* key: NULL inside an array or at the top */
void json_out_object(struct json_out *o, const char *key);
void json_out_object_end(struct json_out *o);
void json_out_array(struct json_out *o, const char *key);
void json_out_array_end(struct json_out *o);
void json_out_text(struct json_out *o, const char *key, const char *s);                /* NULL: null */
void json_out_text_n(struct json_out *o, const char *key, const char *s, size_t n);
void json_out_i64(struct json_out *o, const char *key, int64_t v);
void json_out_u64(struct json_out *o, const char *key, uint64_t v);
void json_out_f64(struct json_out *o, const char *key, double v);
void json_out_bool(struct json_out *o, const char *key, bool v);
void json_out_null(struct json_out *o, const char *key);
void json_out_raw(struct json_out *o, const char *key, const char *json, size_t n);    /* already checked JSON */
void json_out_key_n(struct json_out *o, const char *key, size_t n);                    /* then a value with key NULL */

#endif
