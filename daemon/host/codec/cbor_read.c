/* SPDX-License-Identifier: MIT
 *
 * The CBOR reader. Takes any bytes: each step checks that what it reads is there. Indefinite lengths and reserved forms are
 * refused; integers and lengths needn't be in their shortest form (the writer patches lengths later). */
#include "daemon/host/codec/cbor.h"

#include <math.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/utf8.h"

struct cbor_reader cbor_reader_over(const void *p, uint64_t n)
{
	static const uint8_t nothing[1];
	const uint8_t *at = p != NULL ? p : nothing;

	return (struct cbor_reader){ at, p != NULL ? at + n : at };
}

int cbor_peek_head(const struct cbor_reader *r, struct cbor_head *h)
{
	struct cbor_reader copy = *r;

	return cbor_get_head(&copy, h);
}

/* n big-endian bytes, 1 to 8. */
static uint64_t load_big_endian(const uint8_t *p, unsigned n, uint64_t left)
{
	uint64_t v = 0;

	if (left >= sizeof v) {
		memcpy(&v, p, sizeof v);
		return __builtin_bswap64(v) >> 8 * (8 - n);
	}
	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

int cbor_get_head(struct cbor_reader *r, struct cbor_head *h)
{
	uint64_t left = cbor_left(r);
	uint8_t info;
	unsigned n;

	if (left == 0)
		return -1;
	info = *r->at & 31;
	h->major = (uint8_t)(*r->at >> 5);
	h->info = info;
	h->value = info;
	if (h->major == CBOR_SIMPLE && (info < CBOR_FALSE || info == 24))
		return -1;
	if (info < 24) {
		r->at++;
		return 0;
	}
	if (info > 27)
		return -1;
	n = 1u << (info - 24);
	if (left < 1u + n)
		return -1;
	h->value = load_big_endian(r->at + 1, n, left - 1);
	r->at += 1 + n;
	return 0;
}

const uint8_t *cbor_get_content(struct cbor_reader *r, const struct cbor_head *h)
{
	const uint8_t *p = r->at;

	if (h->value > cbor_left(r))
		return NULL;
	r->at += h->value;
	return p;
}

/* strict: texts must be UTF-8 too. */
static int walk(struct cbor_reader *r, bool strict)
{
	uint64_t left[LIMIT_VALUE_DEPTH + 2];
	unsigned depth = 0;
	const uint8_t *content;
	struct cbor_head h;

	left[0] = 1;
	for (;;) {
		while (left[depth] == 0) {
			if (depth == 0)
				return 0;
			depth--;
		}
		left[depth]--;
		if (cbor_get_head(r, &h) != 0)
			return -1;
		switch ((enum cbor_major)h.major) {
		case CBOR_UINT:
		case CBOR_NEGATIVE:
		case CBOR_SIMPLE:
			break;
		case CBOR_BYTES:
		case CBOR_TEXT:
			content = cbor_get_content(r, &h);
			if (content == NULL || (strict && h.major == CBOR_TEXT && !utf8_is_good((const char *)content, (size_t)h.value)))
				return -1;
			break;
		case CBOR_ARRAY:
		case CBOR_MAP:
		case CBOR_TAG:
			if (h.major != CBOR_TAG && !cbor_length_possible(r, &h))
				return -1;
			if (depth > LIMIT_VALUE_DEPTH)
				return CBOR_TOO_DEEP;
			left[++depth] = h.major == CBOR_TAG ? 1 : h.major == CBOR_MAP ? h.value * 2 : h.value;
			break;
		}
	}
}

static int skip(struct cbor_reader *r, bool strict)
{
	struct cbor_reader copy = *r;
	int rc = walk(&copy, strict);

	if (rc == 0)
		r->at = copy.at;
	return rc;
}

int cbor_skip(struct cbor_reader *r)
{
	return skip(r, false);
}

int cbor_skip_checked(struct cbor_reader *r)
{
	return skip(r, true);
}

int cbor_check(const void *p, uint64_t n, struct err *e)
{
	struct cbor_reader r = cbor_reader_over(p, n);
	const uint8_t *begin = r.at;

	if (walk(&r, true) != 0) {
		err_set(e, ERR_STATE_MISMATCH, "the CBOR is cut, too deep, or not of this codec at byte %llu",
			(unsigned long long)(r.at - begin));
		return err_about(e, "", r.at - begin);
	}
	if (r.at != r.end) {
		err_set(e, ERR_STATE_MISMATCH, "%llu bytes follow the value", (unsigned long long)cbor_left(&r));
		return err_about(e, "", r.at - begin);
	}
	return 0;
}

double cbor_float(const struct cbor_head *h)
{
	uint32_t bits32 = (uint32_t)h->value;
	uint64_t bits64 = h->value;
	double f64;
	float f32;

	if (h->info == CBOR_F64) {
		memcpy(&f64, &bits64, sizeof f64);
		return f64;
	}
	if (h->info == CBOR_F32) {
		memcpy(&f32, &bits32, sizeof f32);
		return (double)f32;
	}
	f64 = (bits32 >> 10 & 31) == 31 ? ((bits32 & 0x3ff) != 0 ? (double)NAN : (double)INFINITY)
	    : (bits32 >> 10 & 31) == 0 ? ldexp(bits32 & 0x3ff, -24)
				       : ldexp((bits32 & 0x3ff) | 0x400, (int)(bits32 >> 10 & 31) - 25);
	return (bits32 & 0x8000) != 0 ? -f64 : f64;
}

/* RFC 8746: 0b010_f_s_e_ll. Little endian has e set, except for single bytes, where there is no order. */
bool cbor_typed_from_tag(uint64_t tag, struct cbor_typed *ret)
{
	static const struct { uint8_t tag; struct cbor_typed typed; } known[] = {
		{ 64, { 1, false, false } }, { 69, { 2, false, false } }, { 70, { 4, false, false } }, { 71, { 8, false, false } },
		{ 72, { 1, true, false } }, { 77, { 2, true, false } }, { 78, { 4, true, false } }, { 79, { 8, true, false } },
		{ 85, { 4, true, true } }, { 86, { 8, true, true } },
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].tag == tag) {
			*ret = known[i].typed;
			return true;
		}
	return false;
}

uint64_t cbor_typed_tag(struct cbor_typed t)
{
	unsigned log = t.size == 1 ? 0 : t.size == 2 ? 1 : t.size == 4 ? 2 : 3;

	if (t.is_float)
		return 83 + log;
	return (t.is_signed ? 72 : 64) + (log == 0 ? 0 : 4 + log);
}
