/* SPDX-License-Identifier: MIT
 *
 * Signatures: which are taken, which arguments they take, and what the refusals say. */
#include "tests/support/check_main.h"

#include <string.h>

#include "daemon/host/codec/json_cbor.h"
#include "daemon/host/module/signature.h"
#include "tests/support/module_make.h"

static void args_become(const char *signature, const char *args, const char *want)
{
	struct buf cbor = BUF_INIT, json = BUF_INIT;
	struct json_out o = json_out_to(&json);
	struct signature s;
	struct err e;

	ck_ok(signature_read(signature, &s, &e));
	ck_ok(signature_check(&s, args, strlen(args), &cbor, &e));
	ck_ok(cbor_to_json(cbor.data, cbor.size, &o, NULL, &e));
	ck_assert_str_eq(buf_text(&json), want);
	buf_fini(&cbor);
	buf_fini(&json);
	signature_fini(&s);
}

static struct err args_fail(const char *signature, const char *args, enum err_code code, const char *part)
{
	struct buf cbor = BUF_INIT;
	struct signature s;
	struct err e;

	ck_ok(signature_read(signature, &s, &e));
	ck_fails(signature_check(&s, args, strlen(args), &cbor, &e), code, part);
	buf_fini(&cbor);
	signature_fini(&s);
	return e;
}

START_TEST(defaults_are_filled_in)
{
	args_become("", "", "{}");
	args_become("  ", "{}", "{}");
	args_become("by: i64 = 1", "", "{\"by\":1}");
	args_become("by: i64 = 1", "{\"by\":5}", "{\"by\":5}");
	args_become("a: str = \"x, y\", b: list = [1,{\"c\":\",\"}] , c: dict={}", "{}", "{\"a\":\"x, y\",\"b\":[1,{\"c\":\",\"}],\"c\":{}}");
	args_become("a: bytes = {\"$bytes\":\"aGk=\"}", "{}", "{\"a\":{\"$bytes\":\"aGk=\"}}");
	args_become("a: f64 = 1, b: bool = true, c: any = null", "{}", "{\"a\":1,\"b\":true,\"c\":null}");
	args_become("a:i64?,b:str?", "{\"b\":null}", "{}");
	args_become("a:any?", "{\"a\":null}", "{\"a\":null}");
}
END_TEST

START_TEST(arguments_come_in_declared_order)
{
	args_become("a: i64, b: i64", "{\"b\":2,\"a\":1}", "{\"a\":1,\"b\":2}");
}
END_TEST

START_TEST(numbers_are_converted)
{
	args_become("a: i64", "{\"a\":\"9223372036854775807\"}", "{\"a\":\"9223372036854775807\"}");
	args_become("a: i64", "{\"a\":\"-9223372036854775808\"}", "{\"a\":\"-9223372036854775808\"}");
	args_become("a: i64", "{\"a\":\"5\"}", "{\"a\":5}");
	args_become("a: u64", "{\"a\":\"18446744073709551615\"}", "{\"a\":\"18446744073709551615\"}");
	args_become("a: f64", "{\"a\":-3}", "{\"a\":-3}");
	args_become("a: f64", "{\"a\":\"NaN\"}", "{\"a\":\"NaN\"}");
	args_become("a: f64", "{\"a\":\"-Infinity\"}", "{\"a\":\"-Infinity\"}");
}
END_TEST

START_TEST(wrong_arguments_are_named)
{
	static const struct { const char *signature, *args, *name, *part; } rows[] = {
		{ "by: i64", "{}", "by", "by (i64) is missing" },
		{ "by: i64", "{\"by\":\"x\"}", "by", "must be i64, not a text" },
		{ "by: i64", "{\"by\":\"9223372036854775808\"}", "by", "i64" },
		{ "by: i64", "{\"by\":\"05\"}", "by", "i64" },
		{ "by: i64", "{\"by\":\"\"}", "by", "i64" },
		{ "by: i64", "{\"by\":\"- 5\"}", "by", "i64" },
		{ "by: i64", "{\"by\":1.5}", "by", "not a number with a fraction" },
		{ "by: i64", "{\"by\":null}", "by", "not null" },
		{ "by: i64", "{\"by\":true}", "by", "not true or false" },
		{ "by: u64", "{\"by\":-1}", "by", "beyond its range" },
		{ "by: u64", "{\"by\":\"-1\"}", "by", "u64" },
		{ "by: u64", "{\"by\":\"18446744073709551616\"}", "by", "u64" },
		{ "by: f64", "{\"by\":\"1\"}", "by", "f64" },
		{ "by: bool", "{\"by\":1}", "by", "bool, not an integer" },
		{ "by: str", "{\"by\":1}", "by", "str" },
		{ "by: str", "{\"by\":{\"$bytes\":\"aGk=\"}}", "by", "not bytes" },
		{ "by: bytes", "{\"by\":\"aGk=\"}", "by", "bytes" },
		{ "by: list", "{\"by\":{}}", "by", "list, not a dict" },
		{ "by: dict", "{\"by\":[]}", "by", "dict, not a list" },
		{ "by: i64 = 1", "{\"by\":null}", "by", "null" },
		{ "by: i64 = 1", "{\"bye\":1}", "bye", "perhaps by is meant" },
		{ "by: i64 = 1", "{\"elephant\":1}", "elephant", "no argument elephant" },
		{ "", "{\"x\":1}", "x", "no argument x" },
		{ "", "[]", "", "JSON object" },
		{ "", "1", "", "JSON object" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_str_eq(args_fail(rows[i].signature, rows[i].args, ERR_BAD_ARGUMENT, rows[i].part).name, rows[i].name);
	ck_assert_str_eq(args_fail("step: i64", "{\"stap\":1}", ERR_BAD_ARGUMENT, "").nearest, "step");
	args_fail("a: i64", "{\"a\":1,\"a\":2}", ERR_DUPLICATE_KEY, "");
	args_fail("a: i64", "{\"a\":", ERR_PARSE, "");
}
END_TEST

START_TEST(bad_signatures_are_refused)
{
	static const struct { const char *signature, *part; } rows[] = {
		{ "a", "name: type" }, { "a:", "none of" }, { "a: int", "none of" }, { ": i64", "identifier" }, { "1a: i64", "identifier" },
		{ "a b: i64", "name: type" }, { "a: i64 b: i64", "comma" }, { "a: i64,", "another one" }, { ", a: i64", "identifier" },
		{ "a: i64, a: str", "there already" }, { "a: i64 =", "missing" }, { "a: i64 = , b: i64", "missing" }, { "a: i64 = \"x\"", "of its type" },
		{ "a: i64 = 1.5", "of its type" }, { "a: str = x", "JSON literal" }, { "a: list = [1", "JSON literal" }, { "a: str = \"x", "JSON literal" },
		{ "a: i64? = 1", "either optional" }, { "a: i64 = 1 2", "JSON literal" }, { "a: i64 = null", "of its type" }, { "a: i64 # x", "comma" },
		{ "a_name_that_is_far_too_long_to_be_taken_as_a_name_of_a_parameter: i64", "identifier" },
	};
	char many[LIMIT_PARAMETERS * 12 + 32] = "";
	struct signature s;
	struct err e;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_fails(signature_read(rows[i].signature, &s, &e), ERR_BAD_MODULE, rows[i].part);
	for (int i = 0; i < LIMIT_PARAMETERS; i++)
		snprintf(many + strlen(many), 16, "%sp%d: i64", i > 0 ? ", " : "", i);
	ck_ok(signature_read(many, &s, &e));
	ck_assert_uint_eq(s.n, LIMIT_PARAMETERS);
	signature_fini(&s);
	memcpy(many + strlen(many), ", q: i64", 9);
	ck_fails(signature_read(many, &s, &e), ERR_BAD_MODULE, "too many");
}
END_TEST

START_TEST(described_in_json)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct signature s;
	struct err e;

	ck_ok(signature_read("a: i64, b: str?, c: list = [ 1 ]", &s, &e));
	signature_json(&s, &o, NULL);
	ck_assert_str_eq(buf_text(&b), "[{\"name\":\"a\",\"type\":\"i64\",\"optional\":false},{\"name\":\"b\",\"type\":\"str\",\"optional\":true},"
		"{\"name\":\"c\",\"type\":\"list\",\"optional\":true,\"default\":[ 1 ]}]");
	buf_fini(&b);
	signature_fini(&s);
}
END_TEST

CHECK_MAIN("signature", tcase_add_test(tc, defaults_are_filled_in); tcase_add_test(tc, arguments_come_in_declared_order);
	   tcase_add_test(tc, numbers_are_converted); tcase_add_test(tc, wrong_arguments_are_named);
	   tcase_add_test(tc, bad_signatures_are_refused); tcase_add_test(tc, described_in_json))
