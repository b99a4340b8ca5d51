/* SPDX-License-Identifier: MIT
 *
 * Texts that are kept once, and when memory is given back. */
#include <stdio.h>
#include <string.h>

#include "daemon/sandbox/shared_text.h"
#include "proto/ebb.h"
#include "tests/support/check_main.h"

START_TEST(alike_is_the_same)
{
	const char *a = shared_text("abcd", 3), *b = shared_text("abc", 3), *c = shared_text("abcd", 4), *none = shared_text("", 0);

	ck_assert_ptr_eq(a, b);
	ck_assert_ptr_ne(a, c);
	ck_assert_str_eq(a, "abc");
	ck_assert_str_eq(c, "abcd");
	ck_assert_str_eq(none, "");
	ck_assert_ptr_null(shared_text_free(a));
	ck_assert_str_eq(b, "abc"); /* one is left that has it */
	ck_assert_ptr_null(shared_text_free(b));
	ck_assert_ptr_null(shared_text_free(NULL));
	(void)shared_text_free(c);
	(void)shared_text_free(none);
}
END_TEST

START_TEST(many_come_and_go)
{
	const char *texts[1000];
	char text[16];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 1000; i++)
			texts[i] = shared_text(text, (size_t)snprintf(text, sizeof text, "%d", i % 100));
		for (int i = 100; i < 1000; i++)
			ck_assert_ptr_eq(texts[i], texts[i % 100]);
		for (int i = 0; i < 1000; i++) {
			(void)snprintf(text, sizeof text, "%d", i % 100);
			ck_assert_str_eq(texts[i], text);
			(void)shared_text_free(texts[i]);
		}
	}
}
END_TEST

/* Once for each half that goes: never more often than there was something to look at. */
START_TEST(low_water)
{
	struct ebb b = { 0 };
	int times = 0;

	for (size_t n = 1; n <= 2000; n++)
		ebb_rises(&b, n);
	for (size_t n = 2000; n-- > 0;) {
		bool is_low = ebb_is_low(&b, n);

		ck_assert(!is_low || n <= 1000);
		times += is_low;
	}
	ck_assert_int_ge(times, 6);
	ck_assert_int_le(times, 9);
	for (int i = 0; i < 1000; i++) { /* one comes, one goes */
		ebb_rises(&b, 9);
		ck_assert(!ebb_is_low(&b, 8));
	}
}
END_TEST

CHECK_MAIN("shared_text", tcase_add_test(tc, alike_is_the_same); tcase_add_test(tc, many_come_and_go); tcase_add_test(tc, low_water))
