/* SPDX-License-Identifier: MIT
 *
 * The strict scanner, row by row: what is accepted, what is refused, with which code and at which byte; then
 * the readers. */
#include "proto/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/limits.h"
#include "tests/support/check_main.h"

#define DIGITS_60 "123456789012345678901234567890123456789012345678901234567890"

static struct json_span span(const char *text)
{
	return (struct json_span){ text, strlen(text) };
}

/* The text is copied to its exact size, so that a sanitizer sees each byte read beyond it. */
static int check(const char *text, size_t size, struct err *e)
{
	char *copy = malloc(size ? size : 1);
	int r;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, text, size);
	r = json_check(copy, size, e);
	free(copy);
	return r;
}

static const char *const accepted[] = {
	"{}", "[]", " \t\r\n{ }\n", "null", "true", "false", "\"\"", "0", "-0", "1", "-1", "10", "0.5",
	"-0.0", "1e5", "1E+5", "1e-5", "9007199254740992", "-9007199254740992", "9007199254740993.0", "1e308",
	"1e-400", "0.1234567890123456789", DIGITS_60 ".5e1", "[1,2,3]", "[ 1 , 2 ]", "[[],{}]",
	"{\"a\":1,\"b\":[{\"a\":1}]}", "{\"a\":{\"a\":1},\"A\":1}", "{\"\":1}",
	"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\uABCD\\uabcd\"", "\"\\ud83d\\ude00\"", "\"\\uFFFF\\u0001\"",
	"\"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80\"",
	"\"\xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf\"",
	"\"\x7f\"", "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1}",
};

START_TEST(accepts)
{
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		struct err e = ERR_INIT;

		ck_assert_msg(
			check(accepted[i], strlen(accepted[i]), &e) == 0, "'%s': %s", accepted[i], e.text);
		ck_assert_int_eq(e.code, ERR_OK);
	}
}
END_TEST

/* No text that is good stays good when its end is cut off (but for numbers and outer space). */
START_TEST(refuses_every_beginning)
{
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		size_t size = strlen(accepted[i]);

		if (strchr("-0123456789", accepted[i][0]) || strchr(" \n", accepted[i][size - 1]))
			continue;
		for (size_t n = 0; n < size; n++) {
			struct err e = ERR_INIT;

			ck_assert_msg(check(accepted[i], n, &e) == -1, "%zu bytes of '%s' accepted", n,
				accepted[i]);
			ck_assert_int_le(e.offset, (int64_t)n);
			ck_assert_int_ge(e.offset, 0);
		}
	}
}
END_TEST

static const struct {
	const char *text;
	enum err_code code;
	int64_t offset;
	const char *name;
} refused[] = {
	/* the form */
	{ "", ERR_PARSE, 0, "" },
	{ "  ", ERR_PARSE, 2, "" },
	{ "{}x", ERR_PARSE, 2, "" },
	{ "{} {}", ERR_PARSE, 3, "" },
	{ "\xef\xbb\xbf{}", ERR_PARSE, 0, "" },
	{ "\f{}", ERR_PARSE, 0, "" },
	{ "[1,]", ERR_PARSE, 3, "" },
	{ "[,1]", ERR_PARSE, 1, "" },
	{ "[1 2]", ERR_PARSE, 3, "" },
	{ "[1}", ERR_PARSE, 2, "" },
	{ "{\"a\":1]", ERR_PARSE, 6, "a" },
	{ "{\"a\":1,}", ERR_PARSE, 7, "" },
	{ "{a:1}", ERR_PARSE, 1, "" },
	{ "{'a':1}", ERR_PARSE, 1, "" },
	{ "{1:1}", ERR_PARSE, 1, "" },
	{ "{\"a\" 1}", ERR_PARSE, 5, "a" },
	{ "{\"a\":}", ERR_PARSE, 5, "a" },
	{ "{\"a\"}", ERR_PARSE, 4, "a" },
	{ "{,}", ERR_PARSE, 1, "" },
	{ "]", ERR_PARSE, 0, "" },
	{ "nul", ERR_PARSE, 0, "" },
	{ "nulL", ERR_PARSE, 0, "" },
	{ "True", ERR_PARSE, 0, "" },
	{ "truefalse", ERR_PARSE, 4, "" },
	{ "NaN", ERR_PARSE, 0, "" },
	{ "Infinity", ERR_PARSE, 0, "" },
	{ "-Infinity", ERR_PARSE, 1, "" },
	{ "/* */1", ERR_PARSE, 0, "" },
	{ "[1]//", ERR_PARSE, 3, "" },
	/* numbers */
	{ "0123", ERR_PARSE, 1, "" },
	{ "-01", ERR_PARSE, 2, "" },
	{ "00", ERR_PARSE, 1, "" },
	{ "+1", ERR_PARSE, 0, "" },
	{ ".5", ERR_PARSE, 0, "" },
	{ "1.", ERR_PARSE, 2, "" },
	{ "1.e5", ERR_PARSE, 2, "" },
	{ "-", ERR_PARSE, 1, "" },
	{ "1e", ERR_PARSE, 2, "" },
	{ "1e+", ERR_PARSE, 3, "" },
	{ "0x10", ERR_PARSE, 1, "" },
	{ "1_000", ERR_PARSE, 1, "" },
	{ "9007199254740993", ERR_BAD_NUMBER, 0, "" },
	{ "{\"n\":-9007199254740993}", ERR_BAD_NUMBER, 5, "n" },
	{ "[10000000000000000]", ERR_BAD_NUMBER, 1, "" },
	{ "18446744073709551616", ERR_BAD_NUMBER, 0, "" },
	{ "{\"p\":{\"n\":1e309}}", ERR_BAD_NUMBER, 10, "n" },
	{ "-1e999999999999", ERR_BAD_NUMBER, 0, "" },
	{ DIGITS_60 ".1234", ERR_BAD_NUMBER, 0, "" },
	{ DIGITS_60 DIGITS_60, ERR_BAD_NUMBER, 0, "" },
	/* strings */
	{ "\"a", ERR_PARSE, 2, "" },
	{ "\"\\", ERR_PARSE, 2, "" },
	{ "\"\\\"", ERR_PARSE, 3, "" },
	{ "\"\\x41\"", ERR_PARSE, 1, "" },
	{ "\"\\u00\"", ERR_PARSE, 1, "" },
	{ "\"\\u12g4\"", ERR_PARSE, 1, "" },
	{ "\"a\\u0000\"", ERR_PARSE, 2, "" },
	{ "\"a\nb\"", ERR_PARSE, 2, "" },
	{ "\"a\tb\"", ERR_PARSE, 2, "" },
	{ "\"\x1f\"", ERR_PARSE, 1, "" },
	{ "\"\\ud800\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\\udc00\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\\ud800\\ud800\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\\ud800x\\udc00\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\\ud800\\u0041\"", ERR_BAD_UTF8, 1, "" },
	{ "\"a\xff\"", ERR_BAD_UTF8, 2, "" },
	{ "\"\x80\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xc0\x80\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xc1\xbf\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xe0\x9f\xbf\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xed\xa0\x80\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xf0\x8f\xbf\xbf\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xf4\x90\x80\x80\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xf8\x88\x80\x80\x80\"", ERR_BAD_UTF8, 1, "" },
	{ "\"\xe2\x82\"", ERR_BAD_UTF8, 1, "" },
	{ "{\"k\":\"\xff\"}", ERR_BAD_UTF8, 6, "k" },
	{ "{\"k\xff\":1}", ERR_BAD_UTF8, 3, "" },
	/* keys twice */
	{ "{\"a\":1,\"a\":2}", ERR_DUPLICATE_KEY, 7, "a" },
	{ "{\"a\":1,\"\\u0061\":2}", ERR_DUPLICATE_KEY, 7, "a" },
	{ "{\"\\u00e4\":1,\"\xc3\xa4\":2}", ERR_DUPLICATE_KEY, 12, "\xc3\xa4" },
	{ "{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}", ERR_DUPLICATE_KEY, 18, "\xf0\x9f\x98\x80" },
	{ "{\"/\":1,\"\\/\":2}", ERR_DUPLICATE_KEY, 7, "/" },
	{ "{\"\":1,\"\":2}", ERR_DUPLICATE_KEY, 6, "" },
	{ "[{\"x\":{\"a\":1,\"b\":[],\"a\":2}}]", ERR_DUPLICATE_KEY, 20, "a" },
	{ "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"8\":2}", ERR_DUPLICATE_KEY, 49,
		"8" },
	{ "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"\\u0031\":2}",
		ERR_DUPLICATE_KEY, 55, "1" },
	{ "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"9\":2}",
		ERR_DUPLICATE_KEY, 55, "9" },
};

START_TEST(refuses)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct err e = ERR_INIT;

		ck_assert_msg(check(refused[i].text, strlen(refused[i].text), &e) == -1, "'%s' accepted",
			refused[i].text);
		ck_assert_msg(e.code == refused[i].code, "'%s': %s", refused[i].text, err_code_text(e.code));
		ck_assert_msg(
			e.offset == refused[i].offset, "'%s': at %lld", refused[i].text, (long long)e.offset);
		ck_assert_msg(
			strcmp(e.name, refused[i].name) == 0, "'%s': name '%s'", refused[i].text, e.name);
		ck_assert_msg(strstr(e.text, "at byte"), "'%s': %s", refused[i].text, e.text);
		ck_assert_int_eq(json_check(refused[i].text, strlen(refused[i].text), NULL), -1);
	}
}
END_TEST

START_TEST(refuses_nul_bytes)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(check("1\0", 2, &e), -1);
	ck_assert_int_eq(e.offset, 1);
	ck_assert_int_eq(check("\"a\0b\"", 5, &e), -1);
	ck_assert_int_eq(e.offset, 2);
	ck_assert_int_eq(check("\"\\\0\"", 4, &e), -1);
	ck_assert_int_eq(check("[1\0]", 4, &e), -1);
	ck_assert_int_eq(check("\0", 1, &e), -1);
}
END_TEST

START_TEST(texts_say_what_and_where)
{
	struct err e = ERR_INIT;

	json_check("{\"x\":1,\"x\":2}", 13, &e);
	ck_assert_str_eq(e.text, "duplicate key \"x\" at byte 7");
	json_check("[9007199254740993]", 18, &e);
	ck_assert_ptr_nonnull(strstr(e.text, "decimal string"));
	json_check("[1;2]", 5, &e);
	ck_assert_str_eq(e.text, "';' at byte 2 where ',' or ']' is due");
	json_check("[1\x01", 3, &e);
	ck_assert_str_eq(e.text, "byte 0x01 at byte 2 where ',' or ']' is due");
}
END_TEST

/* n arrays and objects in turn, closed or not */
static void nest(struct buf *b, size_t n, bool closed)
{
	for (size_t i = 0; i < n; i++)
		buf_add_text(b, i % 2 ? "{\"k\":" : "[");
	buf_add_text(b, n % 2 ? "" : "null");
	for (size_t i = n; closed && i-- > 0;)
		buf_add_text(b, i % 2 ? "}" : "]");
	ck_assert(!b->failed);
}

START_TEST(nesting)
{
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;

	nest(&b, LIMIT_JSON_DEPTH, true);
	ck_assert_msg(check(b.data, b.size, &e) == 0, "%s", e.text);
	buf_clear(&b);
	nest(&b, LIMIT_JSON_DEPTH + 1, true);
	ck_assert_int_eq(check(b.data, b.size, &e), -1);
	ck_assert_int_eq(e.code, ERR_TOO_DEEP);
	ck_assert_int_eq(e.offset, 32 * 1 + 32 * 5);
	buf_clear(&b);
	nest(&b, 1000000, false);
	ck_assert_int_eq(check(b.data, b.size, &e), -1);
	ck_assert_int_eq(e.code, ERR_TOO_DEEP);
	buf_clear(&b);
	nest(&b, LIMIT_REPLY_DEPTH, true);
	ck_assert_int_eq(json_check_within(b.data, b.size, LIMIT_REPLY_DEPTH, &e), 0);
	buf_clear(&b);
	nest(&b, LIMIT_REPLY_DEPTH + 1, true);
	ck_assert_int_eq(check(b.data, b.size, &e), 0);
	ck_assert_int_eq(json_check_within(b.data, b.size, LIMIT_REPLY_DEPTH, &e), -1);
	ck_assert_int_eq(e.code, ERR_TOO_DEEP);
	ck_assert_ptr_nonnull(strstr(e.text, "more than 62 levels"));
	buf_fini(&b);
}
END_TEST

/* Quadratic comparing would take minutes here. The time is the test's own (60 s); it needs some ten
 * milliseconds. */
START_TEST(very_many_keys)
{
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	size_t n = 0, last;

	buf_add_char(&b, '{');
	for (; b.size < LIMIT_REQUEST_BYTES - 20; n++)
		buf_printf(&b, "%s\"%zx\":0", n ? "," : "", n);
	last = b.size + 1;
	buf_add_char(&b, '}');
	ck_assert_uint_gt(n, 90000);
	ck_assert_msg(check(b.data, b.size, &e) == 0, "%s", e.text);
	b.data[b.size - 1] = ',';
	buf_printf(&b, "\"%zx\":1}", n / 2);
	ck_assert_int_eq(check(b.data, b.size, &e), -1);
	ck_assert_int_eq(e.code, ERR_DUPLICATE_KEY);
	ck_assert_int_eq(e.offset, (int64_t)last);
	buf_fini(&b);
}
END_TEST

/* Many objects of many keys: the same keys in each are no duplicates of each other. */
START_TEST(many_large_objects)
{
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;

	buf_add_char(&b, '[');
	for (int i = 0; i < 500; i++) {
		buf_add_text(&b, i ? ",{" : "{");
		for (int j = 0; j < 20; j++)
			buf_printf(&b, "%s\"key%d\":{\"key1\":1}", j ? "," : "", j);
		buf_add_char(&b, '}');
	}
	buf_add_char(&b, ']');
	ck_assert_msg(check(b.data, b.size, &e) == 0, "%s", e.text);
	buf_fini(&b);
}
END_TEST

/* ---- walking ---- */

static int note(void *ctx, enum json_event event, struct json_span s)
{
	static const char letters[] = "{}[]ksintf0";

	buf_printf(ctx, "%c%.*s ", letters[event], (int)s.size, s.at);
	return 0;
}

static int stop_at_key(void *ctx, enum json_event event, struct json_span s)
{
	(void)s;
	++*(int *)ctx;
	return event == JSON_KEY ? 7 : 0;
}

START_TEST(walk_tells_all)
{
	static const char text[] = " {\"a\" : [1, -2.5, \"x\\n\"],\"b\":{},\"c\":[true,false,null]} ";
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	int n = 0;

	ck_assert_int_eq(json_walk(text, strlen(text), note, &b, &e), 0);
	ck_assert_str_eq(buf_text(&b),
		"{{ k\"a\" [[ i1 n-2.5 s\"x\\n\" ]] k\"b\" {{ }} k\"c\" [[ ttrue ffalse 0null ]] }} ");
	buf_fini(&b);
	ck_assert_int_eq(json_walk(text, strlen(text), stop_at_key, &n, &e), 7);
	ck_assert_int_eq(n, 2);
	ck_assert_int_eq(e.code, ERR_OK);
}
END_TEST

/* ---- reading ---- */

START_TEST(types)
{
	ck_assert_int_eq(json_type((struct json_span){ 0 }), 0);
	ck_assert_int_eq(json_type(span(" {} ")), '{');
	ck_assert_int_eq(json_type(span("[]")), '[');
	ck_assert_int_eq(json_type(span("\"1\"")), '"');
	ck_assert_int_eq(json_type(span("-12")), 'i');
	ck_assert_int_eq(json_type(span("1.0")), 'n');
	ck_assert_int_eq(json_type(span("1E2")), 'n');
	ck_assert_int_eq(json_type(span("true")), 't');
	ck_assert_int_eq(json_type(span("false")), 'f');
	ck_assert_int_eq(json_type(span("null")), '0');
}
END_TEST

START_TEST(members_and_items)
{
	struct json_span text =
		span("\n{ \"a\" : \"}]\\\"\", \"b\":[1, {\"x\":[]} ,\"s\"] ,\"\\u0063\":null,\"A\":2 } ");
	struct json_iter it = json_iter_begin(text);
	struct json_span k, v;
	size_t n = 0;

	while (json_iter_next(&it, &k, &v)) {
		ck_assert_ptr_nonnull(k.at);
		ck_assert_int_eq(k.at[0], '"');
		n++;
	}
	ck_assert_uint_eq(n, 4);
	ck_assert(json_string_is(json_get(text, "a"), "}]\""));
	ck_assert_int_eq(json_type(json_get(text, "c")), '0');
	ck_assert_int_eq(json_type(json_get(text, "A")), 'i');
	ck_assert_ptr_null(json_get(text, "B").at);
	ck_assert_ptr_null(json_get(text, "").at);
	ck_assert_ptr_null(json_get(span("[1]"), "a").at);
	ck_assert_ptr_null(json_get((struct json_span){ 0 }, "a").at);

	it = json_iter_begin(json_get(text, "b"));
	ck_assert(json_iter_next(&it, &k, &v));
	ck_assert(!k.at && v.size == 1);
	ck_assert(json_iter_next(&it, &k, &v));
	ck_assert_int_eq(v.size, strlen("{\"x\":[]}"));
	ck_assert(json_iter_next(&it, &k, &v));
	ck_assert(!k.at && json_string_is(v, "s"));
	ck_assert(!json_iter_next(&it, &k, &v));
	ck_assert(!json_iter_next(&it, &k, &v));
	it = json_iter_begin(span("{}"));
	ck_assert(!json_iter_next(&it, &k, &v));
	it = json_iter_begin(span("12"));
	ck_assert(!json_iter_next(&it, &k, &v));
}
END_TEST

START_TEST(strings)
{
	struct json_span text = span("\"a\\u00e4\\ud83d\\ude00\\n\\\"\\/\"");
	static const char decoded[] = "a\xc3\xa4\xf0\x9f\x98\x80\n\"/";
	char to[32], *copy;
	size_t size = 0;

	ck_assert_int_eq(json_string(text, to, sizeof(to)), (int64_t)strlen(decoded));
	ck_assert_str_eq(to, decoded);
	ck_assert_int_eq(json_string(text, to, strlen(decoded) + 1), (int64_t)strlen(decoded));
	for (size_t room = 0; room <= strlen(decoded); room++)
		ck_assert_int_eq(json_string(text, to, room), -1);
	copy = json_string_dup(text, &size);
	ck_assert_str_eq(copy, decoded);
	ck_assert_uint_eq(size, strlen(decoded));
	free(copy);
	copy = json_string_dup(span("\"\""), NULL);
	ck_assert_str_eq(copy, "");
	free(copy);
	ck_assert_ptr_null(json_string_dup(span("1"), &size));
	ck_assert_int_eq(json_string(span("null"), to, sizeof(to)), -1);
	ck_assert_int_eq(json_string((struct json_span){ 0 }, to, sizeof(to)), -1);
	ck_assert(json_string_is(text, decoded));
	ck_assert(!json_string_is(text, "a"));
	ck_assert(!json_string_is(span("\"a\""), "ab"));
	ck_assert(json_string_is(span("\"\""), ""));
	ck_assert(!json_string_is(span("1"), "1"));
	ck_assert(!json_string_is((struct json_span){ 0 }, ""));
}
END_TEST

START_TEST(integers)
{
	static const char *const not_signed[] = {
		"1.0", "1e3", "\"\"", "\"-\"", "\"+1\"", "\"01\"", "\" 1\"", "\"1 \"", "\"1a\"", "\"1\\n\"",
		"\"9223372036854775808\"", "\"-9223372036854775809\"", "\"99999999999999999999999\"", "null",
		"true", "{}", "[]", "\"0x1\"", "\"1.0\"",
	};
	int64_t i = 0;
	uint64_t u = 0;

	ck_assert(json_i64(span("-9007199254740992"), &i) && i == -9007199254740992);
	ck_assert(json_i64(span("\"-9223372036854775808\""), &i) && i == INT64_MIN);
	ck_assert(json_i64(span("\"9223372036854775807\""), &i) && i == INT64_MAX);
	ck_assert(json_i64(span("-0"), &i) && i == 0);
	ck_assert(json_u64(span("\"18446744073709551615\""), &u) && u == UINT64_MAX);
	ck_assert(json_u64(span("7"), &u) && u == 7);
	ck_assert(json_u64(span("-0"), &u) && u == 0);
	i = 99;
	for (size_t n = 0; n < sizeof(not_signed) / sizeof(not_signed[0]); n++)
		ck_assert_msg(!json_i64(span(not_signed[n]), &i) && i == 99, "%s accepted", not_signed[n]);
	ck_assert(!json_i64((struct json_span){ 0 }, &i));
	ck_assert(!json_u64(span("-1"), &u));
	ck_assert(!json_u64(span("\"-1\""), &u));
	ck_assert(!json_u64(span("\"-\""), &u));
	ck_assert(!json_u64(span("\"18446744073709551616\""), &u));
}
END_TEST

START_TEST(doubles_and_booleans)
{
	double d = 0;
	bool b = false;

	ck_assert(json_f64(span("0.1"), &d) && d == 0.1);
	ck_assert(json_f64(span("-3"), &d) && d == -3);
	ck_assert(json_f64(span("-0"), &d) && d == 0 && signbit(d));
	ck_assert(json_f64(span("1e-400"), &d) && d == 0);
	ck_assert(json_f64(span("\"NaN\""), &d) && isnan(d));
	ck_assert(json_f64(span("\"Infinity\""), &d) && isinf(d) && d > 0);
	ck_assert(json_f64(span("\"-Infinity\""), &d) && isinf(d) && d < 0);
	ck_assert(!json_f64(span("\"1.5\""), &d));
	ck_assert(!json_f64(span("\"nan\""), &d));
	ck_assert(!json_f64(span("null"), &d));
	ck_assert(json_bool(span("true"), &b) && b);
	ck_assert(json_bool(span("false"), &b) && !b);
	ck_assert(!json_bool(span("null"), &b));
	ck_assert(!json_bool(span("\"true\""), &b));
	ck_assert(!json_bool(span("1"), &b));
}
END_TEST

/* The readers promise to stay inside of text that nobody checked. */
static void read_everything(struct json_span text, int depth)
{
	struct json_iter it = json_iter_begin(text);
	struct json_span k, v;
	char to[16];
	int64_t i;
	double d;

	(void)json_type(text);
	(void)json_get(text, "a");
	(void)json_string(text, to, sizeof(to));
	(void)json_string_is(text, "a");
	(void)json_i64(text, &i);
	(void)json_f64(text, &d);
	while (depth > 0 && json_iter_next(&it, &k, &v)) {
		read_everything(k, depth - 1);
		read_everything(v, depth - 1);
	}
}

START_TEST(readers_survive_unchecked_text)
{
	static const char bytes[] = "{}[]\":,\\u0041d8a1-.e tn\x80\xc3";
	uint32_t seed = 12345;

	for (int round = 0; round < 20000; round++) {
		size_t size = 1 + (seed >> 8) % 24;
		char *text = malloc(size);

		ck_assert_ptr_nonnull(text);
		for (size_t i = 0; i < size; i++) {
			seed = seed * 1664525 + 1013904223;
			text[i] = bytes[(seed >> 16) % sizeof(bytes)]; /* its NUL too */
		}
		(void)json_check(text, size, NULL);
		read_everything((struct json_span){ text, size }, 4);
		free(text);
	}
}
END_TEST

CHECK_MAIN("json_scan", tcase_add_test(tc, accepts); tcase_add_test(tc, refuses_every_beginning);
	tcase_add_test(tc, refuses); tcase_add_test(tc, refuses_nul_bytes);
	tcase_add_test(tc, texts_say_what_and_where); tcase_add_test(tc, nesting);
	tcase_add_test(tc, very_many_keys); tcase_add_test(tc, many_large_objects);
	tcase_add_test(tc, walk_tells_all); tcase_add_test(tc, types);
	tcase_add_test(tc, members_and_items); tcase_add_test(tc, strings); tcase_add_test(tc, integers);
	tcase_add_test(tc, doubles_and_booleans); tcase_add_test(tc, readers_survive_unchecked_text))
