/* SPDX-License-Identifier: MIT
 *
 * A small writer and a small reader of CBOR (RFC 8949): definite lengths only, numeric arrays as typed arrays (RFC 8746, little
 * endian). The writer counts, fills a fixed room, or grows a buf; the reader checks every bound and never recurses.
 * Pure; runs in sandbox-host only. */
#ifndef SANDBOXD_HOST_CBOR_H
#define SANDBOXD_HOST_CBOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/err.h"

enum cbor_major {
	CBOR_UINT, CBOR_NEGATIVE, CBOR_BYTES, CBOR_TEXT, CBOR_ARRAY, CBOR_MAP, CBOR_TAG, CBOR_SIMPLE
};
enum { CBOR_FALSE = 20, CBOR_TRUE = 21, CBOR_NULL = 22, CBOR_UNDEFINED = 23, CBOR_F16 = 25, CBOR_F32 = 26, CBOR_F64 = 27 };

/* ---- writing ----
 * No call fails: `size` counts on when the room is full. Ask cbor_writer_fits at the end. */

struct cbor_writer {
	uint8_t *room;        /* NULL: counts only, unless grow */
	uint64_t capacity;
	uint64_t size;        /* bytes written, or that would have been */
	struct buf *grow;     /* instead of room; its ceiling is the limit */
};

struct cbor_writer cbor_writer_count(void);
struct cbor_writer cbor_writer_room(void *room, uint64_t capacity);
struct cbor_writer cbor_writer_buf(struct buf *b); /* appends */
bool cbor_writer_fits(const struct cbor_writer *w);

void cbor_put_head(struct cbor_writer *w, enum cbor_major major, uint64_t value); /* array, map, tag; shortest form */
void cbor_put_u64(struct cbor_writer *w, uint64_t v);
void cbor_put_u64_wide(struct cbor_writer *w, uint64_t v); /* always nine bytes */
void cbor_put_i64(struct cbor_writer *w, int64_t v);
void cbor_put_f32_bits(struct cbor_writer *w, uint32_t bits);
void cbor_put_f64_bits(struct cbor_writer *w, uint64_t bits); /* bits, not values: a signalling NaN stays one */
void cbor_put_f64(struct cbor_writer *w, double v);
void cbor_put_bool(struct cbor_writer *w, bool v);
void cbor_put_null(struct cbor_writer *w);
void cbor_put_bytes(struct cbor_writer *w, const void *p, uint64_t n);
void cbor_put_string(struct cbor_writer *w, const char *s, uint64_t n);  /* text; bytes when it isn't UTF-8 */
void cbor_put_raw(struct cbor_writer *w, const void *p, uint64_t n);     /* already CBOR */
/* A container whose length isn't known yet: its head has room for 32 bits. Returns the mark that cbor_set_length wants. */
uint64_t cbor_put_open(struct cbor_writer *w, enum cbor_major array_or_map);
void cbor_set_length(struct cbor_writer *w, uint64_t mark, uint32_t n);

/* ---- reading ---- */

struct cbor_reader { const uint8_t *at, *end; };
struct cbor_head {
	uint8_t major; /* enum cbor_major */
	uint8_t info;  /* of CBOR_SIMPLE: CBOR_FALSE ... */
	uint64_t value; /* integer (of CBOR_NEGATIVE: -1 - value), length, tag, or the float's bits */
};

struct cbor_reader cbor_reader_over(const void *p, uint64_t n);
static inline uint64_t cbor_left(const struct cbor_reader *r)
{
	return (uint64_t)(r->end - r->at);
}
/* All return 0, or -1 when the bytes end early or aren't what this codec takes; then r->at stays at the item's front. */
int cbor_get_head(struct cbor_reader *r, struct cbor_head *h);
int cbor_peek_head(const struct cbor_reader *r, struct cbor_head *h);
/* The content of a BYTES or TEXT head just read; also checks that it is there. NULL: it isn't. */
const uint8_t *cbor_get_content(struct cbor_reader *r, const struct cbor_head *h);
#define CBOR_TOO_DEEP (-2) /* of the next two: well-formed so far, and nested deeper than LIMIT_VALUE_DEPTH */
int cbor_skip(struct cbor_reader *r);  /* one item with all that is in it */
int cbor_skip_checked(struct cbor_reader *r); /* the same, and its texts must be UTF-8 */
double cbor_float(const struct cbor_head *h); /* of a CBOR_SIMPLE head with F16, F32 or F64 */
static inline bool cbor_is_null(const struct cbor_head *h)
{
	return h->major == CBOR_SIMPLE && (h->info == CBOR_NULL || h->info == CBOR_UNDEFINED);
}
static inline bool cbor_is_float(const struct cbor_head *h)
{
	return h->major == CBOR_SIMPLE && h->info >= CBOR_F16 && h->info <= CBOR_F64;
}
/* An array's and a map's length can't be more than the bytes that are left. */
static inline bool cbor_length_possible(const struct cbor_reader *r, const struct cbor_head *h)
{
	return h->value <= (h->major == CBOR_MAP ? cbor_left(r) / 2 : cbor_left(r));
}
/* One whole item and nothing after it: well-formed, text is UTF-8, within the depth. ERR_STATE_MISMATCH with the offset. */
int cbor_check(const void *p, uint64_t n, struct err *e);

/* ---- RFC 8746 ---- */

struct cbor_typed { uint8_t size; bool is_signed, is_float; };
bool cbor_typed_from_tag(uint64_t tag, struct cbor_typed *ret);  /* little endian 8 to 64 bits */
uint64_t cbor_typed_tag(struct cbor_typed t);

#endif
