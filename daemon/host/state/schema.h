/* SPDX-License-Identifier: MIT
 *
 * Schemas: what a module's state is made of, normalised. Made from a module's tables (with offsets: the state in memory) or
 * from a blob (without: the state as some older or newer code saved it). Both sources are hostile. Pure; in sandbox-host. */
#ifndef SANDBOXD_HOST_SCHEMA_H
#define SANDBOXD_HOST_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/codec/cbor.h"
#include "daemon/host/module/arena.h"
#include "proto/err.h"
#include "proto/json_out.h"
#include "proto/limits.h"
#include "proto/sandbox_module.h"

#define SCHEMA_NO_STRUCT UINT32_MAX

struct schema_name { char text[LIMIT_FUNCTION_BYTES + 1]; };

enum schema_default {
	SCHEMA_DEFAULT_NONE, SCHEMA_DEFAULT_INT, SCHEMA_DEFAULT_UINT, SCHEMA_DEFAULT_FLOAT, SCHEMA_DEFAULT_TEXT, SCHEMA_DEFAULT_BYTES
};

struct schema_field {
	struct schema_name name;
	struct schema_name *was;   /* aliases: names that it had */
	uint32_t n_was;
	uint8_t kind, elem;        /* enum sbx_kind; elem: of FIXED, ARRAY and MAP, else 0 */
	uint8_t count_kind;        /* of ARRAY */
	bool optional, has_range;
	uint8_t default_kind;      /* enum schema_default */
	uint32_t type;             /* index of the struct of STRUCT and of elements; SCHEMA_NO_STRUCT */
	uint64_t n;                /* FIXED: items; CHARS: bytes */
	uint32_t offset, size, elem_size, count_offset, present_offset;
	int64_t lo, hi;
	int64_t default_i;         /* of UINT its bits; of BYTES their number */
	double default_f;
	char *default_s;
};

struct schema_struct {
	struct schema_name name;
	uint32_t size, align, n_fields;
	bool has_defaults;         /* in it or in what it contains by value: zeroed memory isn't enough; maps count */
	bool has_map;              /* in it or in what it contains by value */
	struct schema_field *fields;
};

struct schema {
	uint32_t n_structs;        /* at least 1 */
	struct schema_struct *structs; /* [0]: the state itself */
};

/* From a module's tables. root: NULL for a module without state (a schema of no fields). ERR_BAD_MODULE. */
int schema_read(sbx_schema_fn *root, struct schema **ret, struct err *e);
void schema_free(struct schema *s); /* NULL ok */

/* Part of schema_read: overlapping and undeclared bytes of one struct; fills its align. */
struct schema_skip { uint32_t offset, size; const char *name; };
int schema_check_layout(struct schema *s, uint32_t index, const struct schema_skip *skips, uint32_t n_skips, struct err *e);

/* Puts defaults into zeroed memory of a struct. -1 (ERR_LIMIT_EXCEEDED): the arena is full. */
int schema_set_defaults(const struct schema *s, uint32_t index, void *at, struct arena *a, struct err *e);
/* Frees what a field's items, or a map's value at `at`, point to. Takes any memory: what isn't the arena's is left alone. */
void schema_release_item(const struct schema *s, const struct schema_field *f, void *at, struct arena *a);
/* The same for a value of struct `index`. */
void schema_release_struct(const struct schema *s, uint32_t index, void *at, struct arena *a);

/* To and from a blob. ERR_STATE_MISMATCH. */
void schema_write(const struct schema *s, struct cbor_writer *w);
int schema_parse(struct cbor_reader *r, struct schema **ret, struct err *e);
/* Depth <= LIMIT_SCHEMA_DEPTH and no struct within itself. Returns the offending struct's index, or -1. */
int64_t schema_find_cycle(const struct schema *s);

/* "state": [fields of the root], "structs": [{"name", "fields"}] into the open object. */
void schema_json(const struct schema *s, struct json_out *o);

/* ---- kinds ---- */

#define KIND_ROWS 32 /* a power of two above all kinds */
struct kind_row {
	const char *text;
	uint8_t size;
	char family;  /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 's' str, 'c' chars, 'y' bytes, 'S' struct, 'a' sequence, 'm' map; 0: unknown */
};
extern const struct kind_row kind_rows[KIND_ROWS];

static inline char kind_family(unsigned kind)
{
	return kind < KIND_ROWS ? kind_rows[kind].family : '\0';
}
static inline bool kind_is_int(unsigned kind) /* I8 ... U64 */
{
	return kind_family(kind) == 'i' || kind_family(kind) == 'u';
}
static inline bool kind_is_signed(unsigned kind)
{
	return kind_family(kind) == 'i';
}
static inline bool kind_is_float(unsigned kind)
{
	return kind_family(kind) == 'f';
}
static inline bool kind_is_number(unsigned kind) /* int or float: what a typed array holds */
{
	return kind_is_int(kind) || kind_is_float(kind);
}
static inline bool kind_has_elem(unsigned kind) /* FIXED, ARRAY, MAP */
{
	return kind_family(kind) == 'a' || kind_family(kind) == 'm';
}
static inline bool kind_is_elem(unsigned kind) /* what those may hold */
{
	return kind_family(kind) != '\0' && !kind_has_elem(kind);
}
static inline uint32_t kind_size(unsigned kind) /* bytes in memory; 0: depends (CHARS, STRUCT, FIXED) or unknown */
{
	return kind < KIND_ROWS ? kind_rows[kind].size : 0;
}
/* The largest value of an integer kind; 0 for any other. */
static inline uint64_t kind_most(unsigned kind)
{
	unsigned bits = 8 * kind_size(kind);

	if (!kind_is_int(kind) || bits == 0 || bits > 64)
		return 0;
	return UINT64_MAX >> (64 - bits + (kind_is_signed(kind) ? 1 : 0));
}
/* "i64", "char[16]", "struct item", "i16[7]", "struct item[]", "map of struct item" */
void field_kind_text(const struct schema *s, const struct schema_field *f, char *to, uint32_t to_bytes);

#endif
