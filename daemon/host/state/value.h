/* SPDX-License-Identifier: MIT
 *
 * struct sbx_val, read lazily: nothing is decoded before it is asked for. Three sources look alike to a module: plain CBOR
 * (arguments, configuration), saved state (structs are arrays whose names are in the schema), items of typed arrays.
 * The bytes must have passed cbor_check and stay where they are. Every step is bounded all the same. In sandbox-host. */
#ifndef SANDBOXD_HOST_VALUE_H
#define SANDBOXD_HOST_VALUE_H

#include "daemon/host/codec/cbor.h"
#include "proto/sandbox_module.h"

struct schema;
struct val_source;

/* schema: NULL for plain CBOR; else p holds the state of schema->structs[0]. NULL: no memory. The values live as long. */
struct val_source *val_source_new(const void *p, uint64_t n, const struct schema *schema);
struct val_source *val_source_free(struct val_source *s); /* NULL ok; returns NULL */
struct sbx_val val_root(const struct val_source *s);      /* s: NULL: absent */

enum sbx_type val_type(struct sbx_val v);
uint64_t val_length(struct sbx_val v);
struct sbx_val val_get(struct sbx_val v, const char *key);
struct sbx_val val_next(struct sbx_val container, struct sbx_val *key, struct sbx_val *at);

/* -1: of another type, or doesn't fit. as_f64 takes whole numbers too. */
int val_i64(struct sbx_val v, int64_t *ret);
int val_u64(struct sbx_val v, uint64_t *ret);
int val_f64(struct sbx_val v, double *ret);
int val_bool(struct sbx_val v, bool *ret);
int val_content(struct sbx_val v, const uint8_t **ret, uint64_t *ret_n); /* of text or bytes */
/* Writes it as plain CBOR: structs become maps, typed arrays lists. depth: how many containers are open around it; -1 also when
 * it would nest deeper than LIMIT_VALUE_DEPTH in all. */
int val_write(struct sbx_val v, struct cbor_writer *w, unsigned depth);

#endif
