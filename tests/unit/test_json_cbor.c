/* SPDX-License-Identifier: MIT
 *
 * JSON to CBOR and back: what is equal afterwards, what is refused. */
#include "tests/support/check_main.h"

#include <string.h>

#include "daemon/host/codec/cbor.h"
#include "daemon/host/codec/json_cbor.h"
#include "tests/support/module_make.h"

static void comes_back_as(const char *json, const char *want)
{
	struct buf cbor = BUF_INIT, back = BUF_INIT;
	struct json_out o = json_out_to(&back);
	struct err e = ERR_INIT;

	ck_ok(json_to_cbor(json, strlen(json), &cbor, &e));
	ck_ok(cbor_check(cbor.data, cbor.size, &e));
	ck_ok(cbor_to_json(cbor.data, cbor.size, &o, NULL, &e));
	ck_assert_str_eq(buf_text(&back), want);
	buf_fini(&cbor);
	buf_fini(&back);
}

START_TEST(values_come_back)
{
	static const char *const same[] = {
		"{}", "[]", "null", "true", "false", "0", "-1", "9007199254740992", "-9007199254740992", "1.5", "\"\"", "\"a\"",
		"{\"a\":{\"b\":[1,[2,[3]],{}]},\"c\":[]}", "[[],[[]],{\"x\":[]}]", "{\"$bytes\":\"AAH/\"}", "{\"$bytes\":\"\"}",
		"{\"a\":{\"$bytes\":\"aGk=\"},\"b\":[{\"$bytes\":\"aGk=\"}]}", "{\"$bytes\":1}", "{\"$bytes\":\"!\",\"b\":1}", "{\"b\":1,\"$bytes\":\"!\"}",
		"{\"$bytes\":[\"x\"]}", "\"9007199254740993\"",
	};

	for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
		comes_back_as(same[i], same[i]);
	comes_back_as("\"\\u00fc\\n\"", "\"\xc3\xbc\\n\"");
	comes_back_as("{\"\\u0024bytes\":\"aGk=\"}", "{\"$bytes\":\"aGk=\"}");
	comes_back_as("1e3", "1000");
}
END_TEST

START_TEST(large_integers_become_texts)
{
	struct buf cbor = BUF_INIT, json = BUF_INIT;
	struct cbor_writer w = cbor_writer_buf(&cbor);
	struct json_out o = json_out_to(&json);
	struct err e = ERR_INIT;

	cbor_put_head(&w, CBOR_ARRAY, 3);
	cbor_put_u64(&w, UINT64_MAX);
	cbor_put_i64(&w, INT64_MIN);
	cbor_put_i64(&w, 5);
	ck_ok(cbor_to_json(cbor.data, cbor.size, &o, NULL, &e));
	ck_assert_str_eq(buf_text(&json), "[\"18446744073709551615\",\"-9223372036854775808\",5]");
	buf_fini(&cbor);
	buf_fini(&json);
}
END_TEST

START_TEST(typed_arrays_become_lists)
{
	static const int16_t numbers[] = { 1, -2, 300 };
	static const float floats[] = { 0.5f, -1.0f };
	struct buf cbor = BUF_INIT, json = BUF_INIT;
	struct cbor_writer w = cbor_writer_buf(&cbor);
	struct json_out o = json_out_to(&json);
	struct err e = ERR_INIT;

	cbor_put_head(&w, CBOR_MAP, 2);
	cbor_put_string(&w, "a", 1);
	cbor_put_head(&w, CBOR_TAG, 77);
	cbor_put_bytes(&w, numbers, sizeof numbers);
	cbor_put_string(&w, "b", 1);
	cbor_put_head(&w, CBOR_TAG, 85);
	cbor_put_bytes(&w, floats, sizeof floats);
	ck_ok(cbor_to_json(cbor.data, cbor.size, &o, NULL, &e));
	ck_assert_str_eq(buf_text(&json), "{\"a\":[1,-2,300],\"b\":[0.5,-1]}");
	buf_fini(&cbor);
	buf_fini(&json);
}
END_TEST

START_TEST(bad_json_is_refused)
{
	static const struct { const char *json; enum err_code code; } rows[] = {
		{ "", ERR_PARSE }, { "{", ERR_PARSE }, { "{\"a\":1,\"a\":2}", ERR_DUPLICATE_KEY }, { "9007199254740993", ERR_BAD_NUMBER },
		{ "\"\xff\"", ERR_BAD_UTF8 }, { "{\"$bytes\":\"!\"}", ERR_BAD_PARAM }, { "[{\"$bytes\":\"aGk\"}]", ERR_BAD_PARAM }, { "1 2", ERR_PARSE },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct buf cbor = BUF_INIT;
		struct err e;

		ck_fails(json_to_cbor(rows[i].json, strlen(rows[i].json), &cbor, &e), rows[i].code, "");
		buf_fini(&cbor);
	}
}
END_TEST

START_TEST(bad_cbor_is_refused)
{
	static const struct { const char *bytes; size_t n; } rows[] = {
		{ "\xa1\x01\x02", 3 },     /* a key that is a number */
		{ "\xa1\x41x\x02", 4 },    /* a key that isn't UTF-8 text */
		{ "\xc1\x01", 2 },         /* a tag that we don't know */
		{ "\xd8\x4d\x43" "abc", 6 }, /* i16 array of three bytes */
		{ "\x82\x01", 2 }, { "\x01\x01", 2 }, { "", 0 }, { "\x3b\xff\xff\xff\xff\xff\xff\xff\xff", 9 }, { "\x63" "ab", 3 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct buf json = BUF_INIT;
		struct json_out o = json_out_to(&json);
		struct err e;

		ck_fails(cbor_to_json(rows[i].bytes, rows[i].n, &o, NULL, &e), ERR_BAD_PARAM, "");
		buf_fini(&json);
	}
}
END_TEST

START_TEST(a_ceiling_is_an_error)
{
	struct buf small;
	struct err e;

	buf_init(&small, 16);
	ck_fails(json_to_cbor("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", 39, &small, &e), ERR_LIMIT_EXCEEDED, "16");
	buf_fini(&small);
}
END_TEST

START_TEST(depth_of_json_is_depth_of_cbor)
{
	char text[2 * LIMIT_JSON_DEPTH + 1];

	memset(text, '[', LIMIT_JSON_DEPTH);
	memset(text + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
	text[2 * LIMIT_JSON_DEPTH] = '\0';
	comes_back_as(text, text);
}
END_TEST

CHECK_MAIN("json_cbor", tcase_add_test(tc, values_come_back); tcase_add_test(tc, large_integers_become_texts);
	   tcase_add_test(tc, typed_arrays_become_lists); tcase_add_test(tc, bad_json_is_refused);
	   tcase_add_test(tc, bad_cbor_is_refused); tcase_add_test(tc, a_ceiling_is_an_error);
	   tcase_add_test(tc, depth_of_json_is_depth_of_cbor))
