/* SPDX-License-Identifier: MIT
 *
 * The writer for millions of values: bytes go straight into the room that is there, or, where there is none (counting, growing, the
 * last bytes of a room), through a small window of its own. Everything is inline. Ends with cbor_out_flush. */
#ifndef SANDBOXD_HOST_CBOR_OUT_H
#define SANDBOXD_HOST_CBOR_OUT_H

#include <string.h>

#include "daemon/host/codec/cbor.h"
#include "proto/utf8.h"

enum { CBOR_HEAD_MOST = 9 };
#define CBOR_INLINE static inline __attribute__((always_inline))

struct cbor_out {
	uint8_t *begin, *at, *end;  /* what may be written now */
	struct cbor_writer *w;
	bool counts;                /* contents needn't be looked at */
	uint8_t window[256];
};

static inline void cbor_out_begin(struct cbor_out *o, struct cbor_writer *w)
{
	o->begin = o->at = o->end = NULL;
	o->w = w;
	o->counts = w->grow == NULL && w->room == NULL;
}

static inline void cbor_out_flush(struct cbor_out *o)
{
	uint64_t n = (uint64_t)(o->at - o->begin);

	if (o->begin == o->window)
		cbor_put_raw(o->w, o->window, n);
	else
		o->w->size += n;
	o->begin = o->at = o->end = NULL;
}

static inline uint64_t cbor_out_size(const struct cbor_out *o)
{
	return o->w->size + (uint64_t)(o->at - o->begin);
}

/* A new place to write into, when n bytes don't fit where we are. */
__attribute__((noinline)) static void cbor_out_more(struct cbor_out *o, uint64_t n)
{
	struct cbor_writer *w = o->w;

	cbor_out_flush(o);
	if (w->grow == NULL && w->room != NULL && w->size <= w->capacity && n <= w->capacity - w->size) {
		o->begin = o->at = w->room + w->size;
		o->end = w->room + w->capacity;
	} else {
		o->begin = o->at = o->window;
		o->end = o->window + sizeof o->window;
	}
}

/* n <= sizeof window. */
CBOR_INLINE void cbor_out_need(struct cbor_out *o, uint64_t n)
{
	if ((uint64_t)(o->end - o->at) < n)
		cbor_out_more(o, n);
}

CBOR_INLINE void cbor_out_byte(struct cbor_out *o, uint8_t byte)
{
	cbor_out_need(o, 1);
	*o->at++ = byte;
}

CBOR_INLINE void cbor_out_fixed(struct cbor_out *o, uint8_t first, uint64_t v, unsigned n) /* n: 1, 2, 4, 8 */
{
	uint64_t big = __builtin_bswap64(v) >> 8 * (8 - n);

	cbor_out_need(o, CBOR_HEAD_MOST);
	*o->at = first;
	memcpy(o->at + 1, &big, sizeof big);
	o->at += 1 + n;
}

CBOR_INLINE void cbor_out_head(struct cbor_out *o, enum cbor_major major, uint64_t v)
{
	uint8_t first = (uint8_t)(major << 5);

	if (v < 24)
		cbor_out_byte(o, (uint8_t)(first | v));
	else if (v <= UINT8_MAX)
		cbor_out_fixed(o, first | 24, v, 1);
	else if (v <= UINT16_MAX)
		cbor_out_fixed(o, first | 25, v, 2);
	else if (v <= UINT32_MAX)
		cbor_out_fixed(o, first | 26, v, 4);
	else
		cbor_out_fixed(o, first | 27, v, 8);
}

CBOR_INLINE void cbor_out_content(struct cbor_out *o, const void *p, uint64_t n)
{
	if (n == 0)
		return;
	if (o->counts) {
		o->w->size += n;
	} else if ((uint64_t)(o->end - o->at) >= n) {
		memcpy(o->at, p, (size_t)n);
		o->at += n;
	} else {
		cbor_out_flush(o);
		cbor_put_raw(o->w, p, n);
	}
}

CBOR_INLINE void cbor_out_bytes(struct cbor_out *o, const void *p, uint64_t n)
{
	cbor_out_head(o, CBOR_BYTES, n);
	cbor_out_content(o, p, n);
}

/* Text; bytes when it isn't UTF-8. */
CBOR_INLINE void cbor_out_string(struct cbor_out *o, const char *s, uint64_t n)
{
	bool good = o->counts || n == 0 || utf8_is_good(s, (size_t)n);

	cbor_out_head(o, good ? CBOR_TEXT : CBOR_BYTES, n);
	cbor_out_content(o, s, n);
}

#endif
