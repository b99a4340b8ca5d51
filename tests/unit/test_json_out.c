/* SPDX-License-Identifier: MIT
 *
 * What the writer writes the scanner accepts, and it reads back as what went in. */
#include "proto/json_out.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static struct json_span done(struct buf *b)
{
	struct err e = ERR_INIT;

	ck_assert(!b->failed);
	ck_assert_msg(json_check(b->data, b->size, &e) == 0, "%s: %s", buf_text(b), e.text);
	ck_assert_ptr_null(memchr(b->data, '\n', b->size));
	return (struct json_span){ b->data, b->size };
}

START_TEST(commas_and_keys)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	json_out_text(&o, "a", "x");
	json_out_array(&o, "list");
	json_out_i64(&o, NULL, 1);
	json_out_array(&o, NULL);
	json_out_array_end(&o);
	json_out_object(&o, NULL);
	json_out_object_end(&o);
	json_out_bool(&o, NULL, true);
	json_out_array_end(&o);
	json_out_object(&o, "none");
	json_out_object_end(&o);
	json_out_key_n(&o, "k\"ey", 3);
	json_out_bool(&o, NULL, false);
	json_out_key_n(&o, "o", 1);
	json_out_object(&o, NULL);
	json_out_null(&o, "n");
	json_out_object_end(&o);
	json_out_text(&o, "t", NULL);
	json_out_raw(&o, "raw", "[1,\r\n2]", 7);
	json_out_u64(&o, "u", 5);
	json_out_f64(&o, "f", 0.5);
	json_out_object_end(&o);
	done(&b);
	ck_assert_str_eq(buf_text(&b), "{\"a\":\"x\",\"list\":[1,[],{},true],\"none\":{},\"k\\\"e\":false,"
				       "\"o\":{\"n\":null},\"t\":null,"
				       "\"raw\":[1,  2],\"u\":5,\"f\":0.5}");
	buf_fini(&b);
}
END_TEST

START_TEST(edges_of_integers)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_array(&o, NULL);
	json_out_i64(&o, NULL, 9007199254740992);
	json_out_i64(&o, NULL, 9007199254740993);
	json_out_i64(&o, NULL, -9007199254740992);
	json_out_i64(&o, NULL, -9007199254740993);
	json_out_i64(&o, NULL, INT64_MIN);
	json_out_u64(&o, NULL, 9007199254740992);
	json_out_u64(&o, NULL, 9007199254740993);
	json_out_u64(&o, NULL, UINT64_MAX);
	json_out_array_end(&o);
	done(&b);
	ck_assert_str_eq(buf_text(&b),
		"[9007199254740992,\"9007199254740993\",-9007199254740992,\"-9007199254740993\","
		"\"-9223372036854775808\",9007199254740992,\"9007199254740993\",\"18446744073709551615\"]");
	buf_fini(&b);
}
END_TEST

static void double_is(double v, const char *text)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	double back = 0;

	json_out_f64(&o, NULL, v);
	ck_assert(json_f64(done(&b), &back));
	if (isnan(v))
		ck_assert(isnan(back));
	else
		ck_assert_msg(memcmp(&back, &v, sizeof(v)) == 0, "%a became %a (%s)", v, back, buf_text(&b));
	if (text)
		ck_assert_str_eq(buf_text(&b), text);
	buf_fini(&b);
}

START_TEST(doubles)
{
	uint64_t bits = 88172645463325252ull;

	double_is(0, "0");
	double_is(-0.0, "-0");
	double_is(1, "1");
	double_is(0.1, "0.1");
	double_is(0.1 + 0.2, "0.30000000000000004");
	double_is(1.0 / 3, "0.3333333333333333");
	double_is(5e-324, "5e-324");
	double_is(1e23, "1e+23");
	double_is(9007199254740992.0, "9007199254740992");
	double_is(9007199254740994.0, "9007199254740994.0");
	double_is(-12345678901234567.0, NULL);
	double_is(DBL_MAX, "1.7976931348623157e+308");
	double_is(-DBL_MAX, NULL);
	double_is(DBL_MIN, "2.2250738585072014e-308");
	double_is((double)NAN, "\"NaN\"");
	double_is((double)INFINITY, "\"Infinity\"");
	double_is((double)-INFINITY, "\"-Infinity\"");
	for (int i = 0; i < 20000; i++) { /* xorshift over all bit patterns */
		double v;

		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		memcpy(&v, &bits, sizeof(v));
		double_is(v, NULL);
	}
}
END_TEST

START_TEST(every_byte_in_text)
{
	for (int c = 0; c < 256; c++) {
		char in[3] = { 'a', (char)c, 'b' }, back[16];
		struct buf b = BUF_INIT;
		struct json_out o = json_out_to(&b);

		json_out_text_n(&o, NULL, in, 3);
		ck_assert_int_eq(json_string(done(&b), back, sizeof(back)), 3);
		if (c == 0 || c >= 0x80)
			in[1] = '?';
		ck_assert_mem_eq(back, in, 3);
		buf_fini(&b);
	}
}
END_TEST

START_TEST(texts)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "", "\"\"" },
		{ "\"\\/\b\f\n\r\t\x01\x1f\x7f", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "a\xff" "b\xc3", "\"a?b?\"" },
		{ "\xc0\x80", "\"??\"" },
		{ "\xed\xa0\x80", "\"???\"" },
		{ "\xc3\xa4\xff\xc3\xa4", "\"\xc3\xa4?\xc3\xa4\"" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf b = BUF_INIT;
		struct json_out o = json_out_to(&b);

		json_out_text(&o, NULL, rows[i].in);
		done(&b);
		ck_assert_str_eq(buf_text(&b), rows[i].out);
		buf_fini(&b);
	}
}
END_TEST

START_TEST(keys_are_cleaned_too)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	json_out_i64(&o, "a\n\xff\"", 1);
	json_out_object_end(&o);
	done(&b);
	ck_assert_str_eq(buf_text(&b), "{\"a\\n?\\\"\":1}");
	buf_fini(&b);
}
END_TEST

START_TEST(a_full_buffer_only_fails)
{
	for (size_t ceiling = 1; ceiling < 30; ceiling++) {
		struct buf b;
		struct json_out o = json_out_to(&b);

		buf_init(&b, ceiling);
		json_out_object(&o, NULL);
		json_out_text(&o, "key", "\x01\xff text");
		json_out_raw(&o, "raw", "[1]", 3);
		json_out_f64(&o, "f", 0.1);
		json_out_object_end(&o);
		ck_assert(b.failed);
		ck_assert_uint_le(b.size, ceiling);
		buf_fini(&b);
	}
}
END_TEST

CHECK_MAIN("json_out", tcase_add_test(tc, commas_and_keys); tcase_add_test(tc, edges_of_integers);
	tcase_add_test(tc, doubles); tcase_add_test(tc, every_byte_in_text); tcase_add_test(tc, texts);
	tcase_add_test(tc, keys_are_cleaned_too); tcase_add_test(tc, a_full_buffer_only_fails))
