/* SPDX-License-Identifier: MIT
 *
 * Differences of JSON values, told in order. */
#include <stdio.h>
#include <string.h>

#include "client/json_diff.h"
#include "tests/support/check_main.h"

static char told[4096];

static void tell(void *ctx, const char *path, struct json_span left, struct json_span right)
{
	size_t n = strlen(told);

	(void)ctx;
	(void)snprintf(told + n, sizeof told - n, "%s:%.*s|%.*s;", path, (int)left.size, left.at ? left.at : "", (int)right.size,
		right.at ? right.at : "");
}

static const char *diff(const char *left, const char *right)
{
	told[0] = '\0';
	ck_assert_int_eq(json_check(left, strlen(left), NULL), 0);
	ck_assert_int_eq(json_check(right, strlen(right), NULL), 0);
	(void)json_diff((struct json_span){ left, strlen(left) }, (struct json_span){ right, strlen(right) }, tell, NULL);
	return told;
}

START_TEST(what_differs)
{
	ck_assert_str_eq(diff("{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}"), "");
	ck_assert_str_eq(diff("{\"a\":1}", "{\"a\":2}"), "a:1|2;");
	ck_assert_str_eq(diff("{\"a\":1}", "{\"b\":1}"), "a:1|;b:|1;");
	ck_assert_str_eq(diff("{\"a\":[1,{\"x\":true},3]}", "{\"a\":[1,{\"x\":false}]}"), "a[1].x:true|false;a[2]:3|;");
	ck_assert_str_eq(diff("{\"a\":[]}", "{\"a\":[0]}"), "a[0]:|0;");
	ck_assert_str_eq(diff("{\"a\":{}}", "{\"a\":[]}"), "a:{}|[];");
	ck_assert_str_eq(diff("1", "null"), ":1|null;");
	ck_assert_str_eq(diff("{\"t\":\"\\u0061b\"}", "{\"t\":\"ab\"}"), "");
	ck_assert_str_eq(diff("{\"\\u0061\":1}", "{\"a\":1}"), "");
	ck_assert_str_eq(diff("{\"t\":\"1\"}", "{\"t\":1}"), "t:\"1\"|1;");
}
END_TEST

START_TEST(long_paths_are_cut)
{
	char left[8192] = "", right[8192];
	size_t n = 0;

	for (int i = 0; i < 60; i++)
		n += (size_t)snprintf(left + n, sizeof left - n, "{\"%0100d\":", i);
	memcpy(right, left, n + 1);
	(void)snprintf(left + n, sizeof left - n, "1%.60s", "}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}");
	(void)snprintf(right + n, sizeof right - n, "2%.60s", "}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}");
	ck_assert_uint_lt(strlen(diff(left, right)), 600);
	ck_assert_ptr_nonnull(strstr(told, ":1|2;"));
}
END_TEST

CHECK_MAIN("json_diff", tcase_add_test(tc, what_differs); tcase_add_test(tc, long_paths_are_cut);)
