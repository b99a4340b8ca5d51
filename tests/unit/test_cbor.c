/* SPDX-License-Identifier: MIT
 *
 * The CBOR writer and reader: RFC 8949's own examples, every way to be cut, and bytes that are nothing. */
#include "tests/support/check_main.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "daemon/host/codec/cbor.h"
#include "proto/limits.h"
#include "proto/names.h"

static void expect(const struct buf *b, const char *hex)
{
	char is[2 * 64 + 1];

	ck_assert_uint_le(b->size, 64);
	hex_encode(is, (const uint8_t *)b->data, b->size);
	ck_assert_str_eq(is, hex);
}

#define WRITES(hex, ...)                             \
	do {                                         \
		struct buf b = BUF_INIT;             \
		struct cbor_writer w = cbor_writer_buf(&b); \
		__VA_ARGS__;                         \
		expect(&b, hex);                     \
		buf_fini(&b);                        \
	} while (0)

START_TEST(writes_the_examples_of_the_standard)
{
	WRITES("00", cbor_put_u64(&w, 0));
	WRITES("17", cbor_put_u64(&w, 23));
	WRITES("1818", cbor_put_u64(&w, 24));
	WRITES("1903e8", cbor_put_u64(&w, 1000));
	WRITES("1a000f4240", cbor_put_i64(&w, 1000000));
	WRITES("1bffffffffffffffff", cbor_put_u64(&w, UINT64_MAX));
	WRITES("20", cbor_put_i64(&w, -1));
	WRITES("3903e7", cbor_put_i64(&w, -1000));
	WRITES("3b7fffffffffffffff", cbor_put_i64(&w, INT64_MIN));
	WRITES("fb3ff199999999999a", cbor_put_f64(&w, 1.1));
	WRITES("fa47c35000", cbor_put_f32_bits(&w, 0x47c35000));
	WRITES("f4f5f6", cbor_put_bool(&w, false); cbor_put_bool(&w, true); cbor_put_null(&w));
	WRITES("4401020304", cbor_put_bytes(&w, "\1\2\3\4", 4));
	WRITES("62c3bc", cbor_put_string(&w, "\xc3\xbc", 2));
	WRITES("41ff", cbor_put_string(&w, "\xff", 1)); /* not UTF-8: bytes */
	WRITES("83010203", cbor_put_head(&w, CBOR_ARRAY, 3); cbor_put_u64(&w, 1); cbor_put_u64(&w, 2); cbor_put_u64(&w, 3));
}
END_TEST

START_TEST(counts_fills_and_grows_alike)
{
	uint8_t room[64];
	struct buf b = BUF_INIT;
	struct cbor_writer ws[3] = { cbor_writer_count(), cbor_writer_room(room, sizeof room), cbor_writer_buf(&b) };

	for (int i = 0; i < 3; i++) {
		uint64_t mark = cbor_put_open(&ws[i], CBOR_MAP);

		cbor_put_string(&ws[i], "a", 1);
		cbor_put_f64(&ws[i], 0.5);
		cbor_set_length(&ws[i], mark, 1);
		ck_assert_uint_eq(ws[i].size, 5 + 2 + 9);
	}
	ck_assert(!cbor_writer_fits(&ws[0]));
	ck_assert(cbor_writer_fits(&ws[1]));
	ck_assert_mem_eq(room, b.data, b.size);
	buf_fini(&b);
}
END_TEST

START_TEST(never_writes_beyond_its_room)
{
	for (uint64_t capacity = 0; capacity < 40; capacity++) {
		uint8_t room[48];
		struct cbor_writer w;

		memset(room, 0xee, sizeof room);
		w = cbor_writer_room(room, capacity);
		for (int i = 0; i < 4; i++)
			cbor_put_string(&w, "012345678", 9);
		cbor_set_length(&w, 38, 7); /* a mark that isn't all there */
		ck_assert_uint_eq(w.size, 40);
		ck_assert(!cbor_writer_fits(&w));
		for (uint64_t at = capacity; at < sizeof room; at++)
			ck_assert_uint_eq(room[at], 0xee);
	}
}
END_TEST

START_TEST(reads_what_it_writes)
{
	static const int64_t values[] = { 0, 1, -1, 23, 24, -24, -25, 255, 256, 65535, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		struct buf b = BUF_INIT;
		struct cbor_writer w = cbor_writer_buf(&b);
		struct cbor_reader r;
		struct cbor_head h;

		cbor_put_i64(&w, values[i]);
		r = cbor_reader_over(b.data, b.size);
		ck_assert_int_eq(cbor_get_head(&r, &h), 0);
		ck_assert_int_eq(h.major == CBOR_UINT ? (int64_t)h.value : -1 - (int64_t)h.value, values[i]);
		ck_assert_uint_eq(cbor_left(&r), 0);
		buf_fini(&b);
	}
}
END_TEST

START_TEST(reads_half_floats)
{
	static const struct { uint16_t bits; double value; } halves[] = {
		{ 0x0000, 0.0 }, { 0x3c00, 1.0 }, { 0x7bff, 65504.0 }, { 0x0001, 5.960464477539063e-8 }, { 0xc400, -4.0 }, { 0x7c00, INFINITY },
	};

	for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
		struct cbor_head h = { CBOR_SIMPLE, CBOR_F16, halves[i].bits };

		ck_assert(cbor_float(&h) == halves[i].value);
	}
	ck_assert(isnan(cbor_float(&(struct cbor_head){ CBOR_SIMPLE, CBOR_F16, 0x7e00 })));
}
END_TEST

#define REFUSES(...)                                                                      \
	do {                                                                              \
		static const uint8_t p[] = { __VA_ARGS__ };                               \
		struct err why = ERR_INIT;                                                \
		ck_assert_int_eq(cbor_check(p, sizeof p, &why), -1);                      \
		ck_assert_int_eq(why.code, ERR_STATE_MISMATCH);                           \
		ck_assert_int_ge(why.offset, 0);                                          \
	} while (0)

START_TEST(refuses_what_it_does_not_take)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(cbor_check(NULL, 0, &e), -1);
	REFUSES(0x18);                         /* cut head */
	REFUSES(0x1b, 0, 0, 0, 0, 0, 0, 0);    /* cut head */
	REFUSES(0x1c);                         /* reserved */
	REFUSES(0x9f, 0x01, 0xff);             /* indefinite */
	REFUSES(0x5f, 0x41, 0x01, 0xff);
	REFUSES(0x41);                         /* cut bytes */
	REFUSES(0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00);
	REFUSES(0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00); /* longer than its bytes */
	REFUSES(0xbb, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00); /* twice its length overflows */
	REFUSES(0x82, 0x01);                   /* cut array */
	REFUSES(0xc1);                         /* a tag of nothing */
	REFUSES(0x61, 0xff);                   /* text that isn't UTF-8 */
	REFUSES(0xf8, 0x20);                   /* simple value */
	REFUSES(0xe0);
	REFUSES(0x01, 0x02);                   /* two items */
}
END_TEST

START_TEST(depth_is_bounded)
{
	uint8_t deep[LIMIT_VALUE_DEPTH + 8];
	struct err e = ERR_INIT;

	memset(deep, 0x81, sizeof deep);
	deep[LIMIT_VALUE_DEPTH] = 0;
	ck_assert_int_eq(cbor_check(deep, LIMIT_VALUE_DEPTH + 1, &e), 0);
	memset(deep, 0x81, sizeof deep);
	deep[LIMIT_VALUE_DEPTH + 2] = 0;
	ck_assert_int_eq(cbor_check(deep, LIMIT_VALUE_DEPTH + 3, &e), -1);
	memset(deep, 0xc1, sizeof deep); /* tags nest too */
	ck_assert_int_eq(cbor_check(deep, sizeof deep, &e), -1);
}
END_TEST

START_TEST(any_cut_is_refused)
{
	struct buf b = BUF_INIT;
	struct cbor_writer w = cbor_writer_buf(&b);
	struct err e = ERR_INIT;

	cbor_put_head(&w, CBOR_ARRAY, 3);
	cbor_put_string(&w, "text", 4);
	cbor_put_head(&w, CBOR_MAP, 1);
	cbor_put_u64(&w, 70000);
	cbor_put_f64(&w, 2.5);
	cbor_put_head(&w, CBOR_TAG, 64);
	cbor_put_bytes(&w, "abc", 3);
	ck_assert_int_eq(cbor_check(b.data, b.size, &e), 0);
	for (size_t n = 0; n < b.size; n++) {
		struct cbor_reader r;
		uint8_t *exact = malloc(n + 1);

		memcpy(exact, b.data, n);
		ck_assert_int_eq(cbor_check(exact, n, &e), -1);
		r = cbor_reader_over(exact, n);
		ck_assert_int_eq(cbor_skip(&r), -1);
		ck_assert_ptr_eq(r.at, exact);
		free(exact);
	}
	buf_fini(&b);
}
END_TEST

START_TEST(typed_array_tags_agree_with_rfc_8746)
{
	static const struct { uint64_t tag; struct cbor_typed t; } rows[] = {
		{ 64, { 1, false, false } }, { 69, { 2, false, false } }, { 70, { 4, false, false } }, { 71, { 8, false, false } },
		{ 72, { 1, true, false } }, { 77, { 2, true, false } }, { 78, { 4, true, false } }, { 79, { 8, true, false } },
		{ 85, { 4, true, true } }, { 86, { 8, true, true } },
	};
	struct cbor_typed t;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		ck_assert(cbor_typed_from_tag(rows[i].tag, &t));
		ck_assert(t.size == rows[i].t.size && t.is_signed == rows[i].t.is_signed && t.is_float == rows[i].t.is_float);
		ck_assert_uint_eq(cbor_typed_tag(t), rows[i].tag);
	}
	ck_assert(!cbor_typed_from_tag(65, &t)); /* big endian */
	ck_assert(!cbor_typed_from_tag(84, &t));
}
END_TEST

CHECK_MAIN("cbor", tcase_add_test(tc, writes_the_examples_of_the_standard); tcase_add_test(tc, counts_fills_and_grows_alike);
	   tcase_add_test(tc, never_writes_beyond_its_room); tcase_add_test(tc, reads_what_it_writes);
	   tcase_add_test(tc, reads_half_floats); tcase_add_test(tc, refuses_what_it_does_not_take);
	   tcase_add_test(tc, depth_is_bounded); tcase_add_test(tc, any_cut_is_refused);
	   tcase_add_test(tc, typed_array_tags_agree_with_rfc_8746))
