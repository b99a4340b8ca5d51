/* SPDX-License-Identifier: MIT
 *
 * JSON text to CBOR and back. Bytes are {"$bytes": "<base64>"} in JSON; integers beyond 2^53 are decimal strings there (the
 * other way such a string stays text: only a signature knows that a number was meant). Pure; runs in sandbox-host. */
#ifndef SANDBOXD_HOST_JSON_CBOR_H
#define SANDBOXD_HOST_JSON_CBOR_H

#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_out.h"

/* Appends one CBOR item. Errors: json_walk's; ERR_BAD_PARAM for an ill-formed $bytes; ERR_LIMIT_EXCEEDED when `to` is full.
 * After an error `to` holds a part. */
int json_to_cbor(const char *json, size_t n, struct buf *to, struct err *e);

/* Writes one CBOR item (the whole of p[0..n)) as a JSON value. ERR_BAD_PARAM: not CBOR of ours, a key that isn't text.
 * Doesn't look for equal keys: run json_check over the text where that matters. A full o->to is the caller's to check. */
int cbor_to_json(const void *p, uint64_t n, struct json_out *o, const char *key, struct err *e);

#endif
