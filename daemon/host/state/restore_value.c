/* SPDX-License-Identifier: MIT
 *
 * One saved value into one place in memory. Numbers are looked at as what they are, not as what the schema said; each
 * conversion is exact or refused, only f64 to f32 may round, and says so. NaNs are moved as bits. */
#include "daemon/host/state/restore_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

int restore_no_memory(struct restoring *r, const struct path *path, uint64_t bytes)
{
	path_fail(path, r->e, "no memory for %llu bytes", (unsigned long long)bytes);
	if (r->e != NULL)
		r->e->code = ERR_LIMIT_EXCEEDED;
	return -1;
}

static void number_text(const struct cbor_head *h, char to[40])
{
	if (h->major == CBOR_UINT)
		snprintf(to, 40, "%llu", (unsigned long long)h->value);
	else if (h->major == CBOR_NEGATIVE && h->value <= INT64_MAX)
		snprintf(to, 40, "-%llu", (unsigned long long)h->value + 1);
	else if (h->major == CBOR_NEGATIVE)
		snprintf(to, 40, "a number below -2^63");
	else if (cbor_is_float(h))
		snprintf(to, 40, "%.17g", cbor_float(h));
	else
		snprintf(to, 40, "%s", h->info == CBOR_TRUE ? "true" : h->info == CBOR_FALSE ? "false" : "something else");
}

static int misfit(struct restoring *r, unsigned kind, const struct cbor_head *h, const struct path *path)
{
	struct schema_field f = { .kind = (uint8_t)kind, .type = SCHEMA_NO_STRUCT };
	char value[40], text[32];

	number_text(h, value);
	field_kind_text(r->plan->to, &f, text, sizeof text);
	return path_fail(path, r->e, "%s doesn't fit %s", value, text);
}

/* ---- to integers ---- */

static bool int_from_float(struct cbor_head *h)
{
	double f = cbor_float(h);

	if (!(f >= -9223372036854775808.0 && f < 18446744073709551616.0) || trunc(f) != f) /* also NaN */
		return false;
	if (f >= 0)
		*h = (struct cbor_head){ CBOR_UINT, 0, (uint64_t)f };
	else
		*h = (struct cbor_head){ CBOR_NEGATIVE, 0, (uint64_t)(-1 - (int64_t)f) };
	return true;
}

static int store_int(struct restoring *r, unsigned kind, void *at, const struct cbor_head *h, const struct path *path)
{
	struct cbor_head v = *h;
	uint64_t stored;

	if (cbor_is_float(h) && !int_from_float(&v))
		return misfit(r, kind, h, path);
	if (h->major == CBOR_SIMPLE && (h->info == CBOR_TRUE || h->info == CBOR_FALSE))
		v = (struct cbor_head){ CBOR_UINT, 0, h->info == CBOR_TRUE };
	if (v.major > CBOR_NEGATIVE || v.value > kind_most(kind) || (v.major == CBOR_NEGATIVE && !kind_is_signed(kind)))
		return misfit(r, kind, h, path);
	stored = v.major == CBOR_NEGATIVE ? ~v.value : v.value;
	memcpy(at, &stored, kind_size(kind)); /* little endian */
	return 0;
}

static int store_bool(struct restoring *r, void *at, const struct cbor_head *h, const struct path *path)
{
	bool v = h->major == CBOR_SIMPLE ? h->info == CBOR_TRUE : h->value == 1;

	if (h->major == CBOR_SIMPLE ? h->info != CBOR_TRUE && h->info != CBOR_FALSE : h->major != CBOR_UINT || h->value > 1)
		return misfit(r, SBX_K_BOOL, h, path);
	memcpy(at, &v, sizeof v);
	return 0;
}

/* ---- to floats ---- */

/* Exact: the integer has no more significant bits than the mantissa. (Casting back is undefined near 2^64.) */
static bool int_is_exact(uint64_t magnitude, unsigned mantissa)
{
	if (magnitude == 0)
		return true;
	return 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= (int)mantissa;
}

static int store_int_as_float(struct restoring *r, unsigned kind, void *at, const struct cbor_head *h, const struct path *path)
{
	bool negative = h->major == CBOR_NEGATIVE;
	uint64_t magnitude = negative ? h->value + 1 : h->value;
	double f64 = negative ? -(double)magnitude : (double)magnitude;
	float f32 = (float)f64;

	if ((negative && h->value == UINT64_MAX) || !int_is_exact(magnitude, kind == SBX_K_F32 ? 24 : 53))
		return misfit(r, kind, h, path);
	if (kind == SBX_K_F32)
		memcpy(at, &f32, sizeof f32);
	else
		memcpy(at, &f64, sizeof f64);
	return 0;
}

static void widen_float(void *at, const struct cbor_head *h)
{
	uint32_t bits = (uint32_t)h->value;
	uint64_t wide;
	double f64 = cbor_float(h);

	memcpy(&wide, &f64, sizeof wide);
	if (h->info == CBOR_F32 && isnan(f64)) /* the same NaN, not a quieted one */
		wide = (uint64_t)(bits >> 31) << 63 | 0x7ffull << 52 | (uint64_t)(bits & 0x7fffff) << 29;
	memcpy(at, &wide, sizeof wide);
}

static int narrow_float(struct restoring *r, void *at, const struct cbor_head *h, const struct path *path)
{
	double f64 = cbor_float(h);
	uint64_t wide = h->value;
	uint32_t bits;
	float f32;

	if (isnan(f64) && h->info == CBOR_F64) {
		bits = (uint32_t)(wide >> 63) << 31 | 0xffu << 23 | (uint32_t)(wide >> 29 & 0x7fffff);
		if ((wide & 0x1fffffff) != 0)
			r->rounded = true;
		if ((bits & 0x7fffff) == 0)
			bits |= 1u << 22;
		memcpy(at, &bits, sizeof bits);
		return 0;
	}
	if (isfinite(f64) && (f64 >= 0x1.ffffffp127 || f64 <= -0x1.ffffffp127)) /* would round to infinity */
		return misfit(r, SBX_K_F32, h, path);
	f32 = (float)f64;
	if (!isnan(f64) && (double)f32 != f64)
		r->rounded = true;
	memcpy(at, &f32, sizeof f32);
	return 0;
}

static int store_float(struct restoring *r, unsigned kind, void *at, const struct cbor_head *h, const struct path *path)
{
	uint32_t bits = (uint32_t)h->value;

	if (h->major <= CBOR_NEGATIVE)
		return store_int_as_float(r, kind, at, h, path);
	if (!cbor_is_float(h))
		return misfit(r, kind, h, path);
	if (kind == SBX_K_F32 && h->info == CBOR_F32)
		memcpy(at, &bits, sizeof bits);
	else if (kind == SBX_K_F32)
		return narrow_float(r, at, h, path);
	else if (h->info == CBOR_F64)
		memcpy(at, &h->value, sizeof h->value);
	else
		widen_float(at, h);
	return 0;
}

int restore_number(struct restoring *r, unsigned kind, void *at, const struct cbor_head *h, const struct path *path)
{
	if (kind == SBX_K_BOOL)
		return store_bool(r, at, h, path);
	return kind_is_float(kind) ? store_float(r, kind, at, h, path) : store_int(r, kind, at, h, path);
}

int restore_check_range(struct restoring *r, const struct schema_field *f, const void *at, const struct path *path)
{
	unsigned shift = (64 - 8 * kind_size(f->kind)) & 63;
	uint64_t u = 0;
	int64_t i;
	double f64;
	float f32;
	bool good;
	char text[40];

	if (kind_is_float(f->kind)) {
		if (f->kind == SBX_K_F32) {
			memcpy(&f32, at, sizeof f32);
			f64 = (double)f32;
		} else {
			memcpy(&f64, at, sizeof f64);
		}
		if (f64 >= (double)f->lo && f64 <= (double)f->hi)
			return 0;
		snprintf(text, sizeof text, "%.17g", f64);
	} else {
		memcpy(&u, at, kind_size(f->kind));
		i = (int64_t)(u << shift) >> shift;
		if (kind_is_signed(f->kind))
			good = i >= f->lo && i <= f->hi;
		else
			good = f->hi >= 0 && u <= (uint64_t)f->hi && (f->lo < 0 || u >= (uint64_t)f->lo);
		if (good)
			return 0;
		if (kind_is_signed(f->kind))
			snprintf(text, sizeof text, "%lld", (long long)i);
		else
			snprintf(text, sizeof text, "%llu", (unsigned long long)u);
	}
	return path_fail(path, r->e, "%s isn't in its range %lld to %lld", text, (long long)f->lo, (long long)f->hi);
}

/* ---- texts and bytes ---- */

static int store_chars(struct restoring *r, char *at, uint64_t room, const uint8_t *p, uint64_t n, const struct path *path)
{
	if (n >= room)
		return path_fail(path, r->e, "a text of %llu bytes doesn't fit char[%llu]", (unsigned long long)n, (unsigned long long)room);
	memset(at, 0, (size_t)room);
	if (n > 0)
		memcpy(at, p, (size_t)n);
	return 0;
}

/* p: NULL stores a NULL text. */
static int store_str(struct restoring *r, void *at, const uint8_t *p, uint64_t n, const struct path *path)
{
	char *old, *copy = NULL;

	if (p != NULL) {
		copy = arena_alloc(r->arena, n + 1);
		if (copy == NULL)
			return restore_no_memory(r, path, n);
		memcpy(copy, p, (size_t)n);
	}
	memcpy(&old, at, sizeof old);
	arena_release(r->arena, old);
	memcpy(at, &copy, sizeof copy);
	return 0;
}

static int store_bytes(struct restoring *r, void *at, const uint8_t *p, uint64_t n, const struct path *path)
{
	struct sbx_bytes old, b = { NULL, n };

	if (n > 0) {
		b.data = arena_alloc(r->arena, n);
		if (b.data == NULL)
			return restore_no_memory(r, path, n);
		memcpy(b.data, p, (size_t)n);
	}
	memcpy(&old, at, sizeof old);
	arena_release(r->arena, old.data);
	memcpy(at, &b, sizeof b);
	return 0;
}

int restore_content(struct restoring *r, unsigned old_kind, unsigned kind, void *at, uint64_t room, struct cbor_reader *in,
	const struct path *path)
{
	const uint8_t *p = NULL;
	struct cbor_head h;
	bool null;

	if (cbor_get_head(in, &h) != 0)
		return path_fail(path, r->e, "the saved state ends here");
	null = old_kind == SBX_K_STR && h.major == CBOR_SIMPLE && h.info == CBOR_NULL;
	if (!null && ((h.major != CBOR_TEXT && h.major != CBOR_BYTES) || (p = cbor_get_content(in, &h)) == NULL))
		return path_fail(path, r->e, "the saved value isn't what its schema says");
	if (p != NULL && h.major == CBOR_TEXT && !utf8_is_good((const char *)p, (size_t)h.value))
		return path_fail(path, r->e, "the saved text isn't UTF-8");
	if (null)
		h.value = 0;
	if (kind == SBX_K_BYTES)
		return store_bytes(r, at, p, h.value, path);
	if (p != NULL && h.value > 0 && memchr(p, '\0', (size_t)h.value) != NULL)
		return path_fail(path, r->e, "the bytes contain a NUL, which a text can't");
	return kind == SBX_K_CHARS ? store_chars(r, at, room, p, h.value, path) : store_str(r, at, p, h.value, path);
}

/* ---- the short way ---- */

/* A head; 9 bytes are there. Returns its length, or 0. */
static inline unsigned quick_head(const uint8_t *p, uint64_t *ret)
{
	unsigned info = *p & 31, n;
	uint64_t v;

	if (info < 24) {
		*ret = info;
		return 1;
	}
	if (info > 27)
		return 0;
	n = 1u << (info - 24);
	memcpy(&v, p + 1, sizeof v);
	*ret = __builtin_bswap64(v) >> 8 * (8 - n);
	return 1 + n;
}

static inline bool quick_int(unsigned kind, uint8_t *at, struct cbor_reader *in)
{
	bool negative = *in->at >> 5 == CBOR_NEGATIVE;
	uint64_t v = 0;
	unsigned n = quick_head(in->at, &v);

	if (n == 0 || *in->at >> 5 > CBOR_NEGATIVE || (negative && !kind_is_signed(kind)) || v > kind_most(kind))
		return false;
	in->at += n;
	v = negative ? ~v : v;
	switch (kind_size(kind)) {
	case 1:
		*at = (uint8_t)v;
		return true;
	case 2:
		memcpy(at, &v, 2);
		return true;
	case 4:
		memcpy(at, &v, 4);
		return true;
	default:
		memcpy(at, &v, 8);
		return true;
	}
}

static inline bool quick_str(struct restoring *r, uint8_t *at, struct cbor_reader *in)
{
	uint64_t n = 0;
	unsigned head = quick_head(in->at, &n);
	char *old, *copy;

	memcpy(&old, at, sizeof old);
	if (old != NULL || head == 0 || *in->at >> 5 != CBOR_TEXT || n > cbor_left(in) - head || !utf8_is_plain(in->at + head, (size_t)n))
		return false;
	copy = arena_alloc_small(r->arena, n + 1);
	if (copy == NULL)
		return false;
	memcpy(copy, in->at + head, (size_t)n);
	memcpy(at, &copy, sizeof copy);
	in->at += head + n;
	return true;
}

bool restore_quickly(struct restoring *r, unsigned kind, uint8_t *at, struct cbor_reader *in)
{
	uint64_t eight;
	uint32_t four;

	if (cbor_left(in) < 9)
		return false;
	switch (kind) {
	case SBX_K_BOOL:
		if (*in->at != (CBOR_SIMPLE << 5 | CBOR_TRUE) && *in->at != (CBOR_SIMPLE << 5 | CBOR_FALSE))
			return false;
		*at = *in->at++ == (CBOR_SIMPLE << 5 | CBOR_TRUE);
		return true;
	case SBX_K_F64:
		if (*in->at != (CBOR_SIMPLE << 5 | CBOR_F64))
			return false;
		memcpy(&eight, in->at + 1, sizeof eight);
		eight = __builtin_bswap64(eight);
		memcpy(at, &eight, sizeof eight);
		in->at += 9;
		return true;
	case SBX_K_F32:
		if (*in->at != (CBOR_SIMPLE << 5 | CBOR_F32))
			return false;
		memcpy(&four, in->at + 1, sizeof four);
		four = __builtin_bswap32(four);
		memcpy(at, &four, sizeof four);
		in->at += 5;
		return true;
	case SBX_K_STR:
		return quick_str(r, at, in);
	case SBX_K_I8: case SBX_K_I16: case SBX_K_I32: case SBX_K_I64:
	case SBX_K_U8: case SBX_K_U16: case SBX_K_U32: case SBX_K_U64:
		return quick_int(kind, at, in);
	default: /* the long way */
		return false;
	}
}
