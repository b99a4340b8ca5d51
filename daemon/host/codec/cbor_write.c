/* SPDX-License-Identifier: MIT
 *
 * The CBOR writer. One function puts bytes; everything else is arithmetic. In a fixed room the bytes that don't fit are
 * only counted, so that one run tells the size needed. */
#include "daemon/host/codec/cbor.h"

#include <string.h>

#include "proto/utf8.h"

struct cbor_writer cbor_writer_count(void)
{
	return (struct cbor_writer){ 0 };
}

struct cbor_writer cbor_writer_room(void *room, uint64_t capacity)
{
	return (struct cbor_writer){ .room = room, .capacity = capacity };
}

struct cbor_writer cbor_writer_buf(struct buf *b)
{
	return (struct cbor_writer){ .grow = b };
}

bool cbor_writer_fits(const struct cbor_writer *w)
{
	return w->grow != NULL ? !w->grow->failed : w->size <= w->capacity;
}

void cbor_put_raw(struct cbor_writer *w, const void *p, uint64_t n)
{
	if (n == 0)
		return;
	if (w->grow != NULL)
		buf_add(w->grow, p, (size_t)n);
	else if (w->room != NULL && w->size <= w->capacity && n <= w->capacity - w->size)
		memcpy(w->room + w->size, p, (size_t)n);
	w->size += n;
}

static void put_big_endian(uint8_t *to, uint64_t v, unsigned n)
{
	v = __builtin_bswap64(v) >> 8 * (8 - n); /* n: 1 to 8; the host is little endian */
	memcpy(to, &v, sizeof v);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "state is written as it lies in memory");

/* first: major and info; then n bytes of v. */
static void put_head(struct cbor_writer *w, uint8_t first, uint64_t v, unsigned n)
{
	uint8_t head[1 + sizeof v] = { first };

	if (n > 0)
		put_big_endian(head + 1, v, n);
	if (w->grow == NULL && w->capacity >= sizeof head && w->size <= w->capacity - sizeof head && w->room != NULL) {
		memcpy(w->room + w->size, head, sizeof head); /* what is too much is overwritten by what follows, or beyond `size` */
		w->size += 1 + n;
	} else {
		cbor_put_raw(w, head, 1 + n);
	}
}

void cbor_put_head(struct cbor_writer *w, enum cbor_major major, uint64_t value)
{
	uint8_t first = (uint8_t)(major << 5);

	if (value < 24)
		put_head(w, (uint8_t)(first | value), 0, 0);
	else if (value <= UINT8_MAX)
		put_head(w, first | 24, value, 1);
	else if (value <= UINT16_MAX)
		put_head(w, first | 25, value, 2);
	else if (value <= UINT32_MAX)
		put_head(w, first | 26, value, 4);
	else
		put_head(w, first | 27, value, 8);
}

void cbor_put_u64(struct cbor_writer *w, uint64_t v)
{
	cbor_put_head(w, CBOR_UINT, v);
}

void cbor_put_u64_wide(struct cbor_writer *w, uint64_t v)
{
	put_head(w, CBOR_UINT << 5 | 27, v, 8);
}

void cbor_put_i64(struct cbor_writer *w, int64_t v)
{
	if (v < 0)
		cbor_put_head(w, CBOR_NEGATIVE, ~(uint64_t)v);
	else
		cbor_put_head(w, CBOR_UINT, (uint64_t)v);
}

static void put_simple(struct cbor_writer *w, uint8_t info, uint64_t bits, unsigned n)
{
	put_head(w, (uint8_t)(CBOR_SIMPLE << 5 | info), bits, n);
}

void cbor_put_f32_bits(struct cbor_writer *w, uint32_t bits)
{
	put_simple(w, CBOR_F32, bits, 4);
}

void cbor_put_f64_bits(struct cbor_writer *w, uint64_t bits)
{
	put_simple(w, CBOR_F64, bits, 8);
}

void cbor_put_f64(struct cbor_writer *w, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	cbor_put_f64_bits(w, bits);
}

void cbor_put_bool(struct cbor_writer *w, bool v)
{
	put_simple(w, v ? CBOR_TRUE : CBOR_FALSE, 0, 0);
}

void cbor_put_null(struct cbor_writer *w)
{
	put_simple(w, CBOR_NULL, 0, 0);
}

void cbor_put_bytes(struct cbor_writer *w, const void *p, uint64_t n)
{
	cbor_put_head(w, CBOR_BYTES, n);
	cbor_put_raw(w, p, n);
}

void cbor_put_string(struct cbor_writer *w, const char *s, uint64_t n)
{
	cbor_put_head(w, n == 0 || utf8_is_good(s, (size_t)n) ? CBOR_TEXT : CBOR_BYTES, n);
	cbor_put_raw(w, s, n);
}

uint64_t cbor_put_open(struct cbor_writer *w, enum cbor_major array_or_map)
{
	uint8_t head[5] = { (uint8_t)(array_or_map << 5 | 26) };
	uint64_t mark = w->grow != NULL ? w->grow->size : w->size;

	cbor_put_raw(w, head, sizeof head);
	return mark;
}

void cbor_set_length(struct cbor_writer *w, uint64_t mark, uint32_t n)
{
	uint8_t *at = w->grow != NULL ? (uint8_t *)w->grow->data : w->room;
	uint64_t room = w->grow != NULL ? w->grow->size : w->capacity;

	if (at == NULL || room < 5 || mark > room - 5 || (w->grow != NULL && w->grow->failed))
		return;
	for (unsigned i = 0; i < 4; i++)
		at[mark + 1 + i] = (uint8_t)(n >> 8 * (3 - i));
}
