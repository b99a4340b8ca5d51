/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "proto/exposure.h"
#include "tests/support/check_main.h"

static struct json_span span(const char *text)
{
	return (struct json_span){ text, strlen(text) };
}

START_TEST(its_ends)
{
	ck_assert_double_eq_tol(exposure_of(~UINT64_C(0)), 0, 1e-9);
	ck_assert_double_eq_tol(exposure_of(0), 10, 1e-9);
	ck_assert_str_eq(exposure_rating(0), "good");
	ck_assert_str_eq(exposure_rating(2), "medium");
	ck_assert_str_eq(exposure_rating(5), "exposed");
	ck_assert_str_eq(exposure_rating(10), "unsafe");
}
END_TEST

/* No protection can be lost without a worse number, but for the one that is a means to others. */
START_TEST(each_counts)
{
	for (int p = 0; p < PROTECTION__N; p++) {
		double without = exposure_of(~PROTECTION_BIT(p));

		ck_assert_uint_le(exposure_weight((enum protection)p), 10);
		if (p == PROTECTION_USER_NAMESPACE)
			ck_assert_double_eq_tol(without, 0, 1e-9);
		else
			ck_assert_double_gt(without, 0.01);
	}
}
END_TEST

START_TEST(reports)
{
	ck_assert_uint_eq(exposure_standing(span("[{\"protection\":\"own uid\",\"got\":\"1000\"},{\"protection\":\"groups\",\"got\":\"none\"}]")),
		PROTECTION_BIT(PROTECTION_OWN_UID));
	ck_assert_uint_eq(exposure_standing(span("[{\"protection\":\"nothing known\",\"got\":\"yes\"}, 7, {\"got\":\"yes\"},"
						 "{\"protection\":\"own uid\"},{\"protection\":\"own uid\",\"got\":5},{\"protection\":\"own uid\",\"got\":\"\"}]")),
		0);
	ck_assert_uint_eq(exposure_standing(span("{}")), 0);
	ck_assert_uint_eq(exposure_standing(span("[]")), 0);
	ck_assert_uint_eq(exposure_standing((struct json_span){ 0 }), 0);
}
END_TEST

CHECK_MAIN("exposure", tcase_add_test(tc, its_ends); tcase_add_test(tc, each_counts); tcase_add_test(tc, reports));
