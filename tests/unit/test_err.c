/* SPDX-License-Identifier: MIT
 *
 * Error values: the table of codes is complete and unambiguous, texts are clean whatever goes into them. */
#include "proto/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"
#include "tests/support/check_main.h"

static bool is_clean(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n;) {
		size_t length = utf8_sequence(text + i, n - i);

		if (length == 0 || (unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
		i += length;
	}
	return true;
}

START_TEST(every_code_has_a_row_of_its_own)
{
	for (int i = 0; i < ERR__N; i++) {
		const char *text = err_code_text((enum err_code)i);

		ck_assert_msg(text && *text, "code %d has no text", i);
		ck_assert_int_eq(err_code_from_text(text), i);
		ck_assert_ptr_nonnull(err_code_hint((enum err_code)i));
		if (i != ERR_OK) {
			ck_assert_int_lt(err_code_number((enum err_code)i), 0);
			ck_assert_int_ge(err_code_exit((enum err_code)i), 1);
			ck_assert_int_le(err_code_exit((enum err_code)i), 9);
			ck_assert_msg(*err_code_hint((enum err_code)i), "%s has no hint", text);
		}
		for (int j = 0; j < i; j++)
			ck_assert_str_ne(text, err_code_text((enum err_code)j));
	}
	ck_assert_int_eq(err_code_exit(ERR_OK), 0);
}
END_TEST

START_TEST(codes_from_elsewhere_are_not_trusted)
{
	ck_assert_int_eq(err_code_from_text("no_such_code"), ERR_INTERNAL);
	ck_assert_int_eq(err_code_from_text(""), ERR_INTERNAL);
	ck_assert_str_eq(err_code_text((enum err_code)ERR__N), "internal_error");
	ck_assert_str_eq(err_code_text((enum err_code)12345), "internal_error");
	ck_assert_int_eq(err_code_number((enum err_code)-1), -32603);
}
END_TEST

START_TEST(set_fills_everything)
{
	struct err e;

	memset(&e, 0x55, sizeof(e));
	ck_assert_int_eq(err_set(&e, ERR_BUSY, "queue of '%s' holds %d", "web", 7), -1);
	ck_assert_int_eq(e.code, ERR_BUSY);
	ck_assert_int_eq(e.sys_errno, 0);
	ck_assert_int_eq(e.offset, -1);
	ck_assert_str_eq(e.name, "");
	ck_assert_str_eq(e.nearest, "");
	ck_assert_str_eq(e.text, "queue of 'web' holds 7");
}
END_TEST

START_TEST(sys_keeps_errno)
{
	struct err e = ERR_INIT;

	errno = ENOENT;
	ck_assert_int_eq(err_sys(&e, ERR_IO, "cannot open '%s'", "/x"), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(e.sys_errno, ENOENT);
	ck_assert_str_eq(e.text, "cannot open '/x': No such file or directory");
	err_prefix(&e, "reload of '%s'", "web");
	ck_assert_str_eq(e.text, "reload of 'web': cannot open '/x': No such file or directory");
	ck_assert_int_eq(e.sys_errno, ENOENT);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(null_is_no_error_value)
{
	ck_assert_int_eq(err_set(NULL, ERR_IO, "x"), -1);
	ck_assert_int_eq(err_sys(NULL, ERR_IO, "x"), -1);
	ck_assert_int_eq(err_prefix(NULL, "x"), -1);
	ck_assert_int_eq(err_about(NULL, "x", 1), -1);
}
END_TEST

START_TEST(a_text_may_come_from_its_own_error)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_IO, "inner");
	err_set(&e, ERR_BUSY, "outer (%s)", e.text);
	ck_assert_str_eq(e.text, "outer (inner)");
	err_prefix(&e, "%s", e.text);
	ck_assert_str_eq(e.text, "outer (inner): outer (inner)");
}
END_TEST

START_TEST(dirt_is_marked)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_IO,
		"a\nb\x1b[1m \xff \xc0\x80 \xed\xa0\x80 \xc2\x9b. \x7f \xc3\xa4 \xe2\x82\xac "
		"\xf0\x9f\x98\x80 \xe2\x82");
	ck_assert_str_eq(e.text, "a?b?[1m ? ?? ??? ?. ? \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 ??");
	err_about(&e, "na\nme\xff", 5);
	ck_assert_str_eq(e.name, "na?me?");
	ck_assert_int_eq(e.offset, 5);
}
END_TEST

/* Each length of prefix cuts the euro signs at another byte. */
START_TEST(cuts_are_between_characters)
{
	char euros[3 * 300 + 1] = "", prefix[400] = "";

	for (int i = 0; i < 300; i++)
		memcpy(euros + 3 * i, "\xe2\x82\xac", 4);
	for (size_t n = 0; n + 1 < sizeof(prefix); n++) {
		struct err e = ERR_INIT;

		err_set(&e, ERR_IO, "%s", euros);
		ck_assert(is_clean(e.text));
		ck_assert_uint_gt(strlen(e.text), sizeof(e.text) - 4);
		ck_assert_ptr_null(strchr(e.text, '?'));
		err_prefix(&e, "%s", prefix);
		ck_assert(is_clean(e.text));
		ck_assert_ptr_null(strchr(e.text, '?'));
		ck_assert_uint_gt(strlen(e.text), sizeof(e.text) - 4);
		err_about(&e, euros, -1);
		ck_assert_uint_eq(strlen(e.name), 63);
		prefix[n] = 'p';
		prefix[n + 1] = '\0';
	}
}
END_TEST

START_TEST(clean_fits_every_room)
{
	char to[8];

	for (size_t room = 1; room <= sizeof(to); room++) {
		memset(to, 'X', sizeof(to));
		text_clean(to, room, "a\xc3\xa4\xe2\x82\xac", 6);
		ck_assert_uint_lt(strlen(to), room);
		ck_assert(is_clean(to));
		for (size_t i = room; i < sizeof(to); i++)
			ck_assert_int_eq(to[i], 'X');
	}
	to[0] = 'X';
	text_clean(to, 0, "a", 1);
	ck_assert_int_eq(to[0], 'X');
	text_clean(to, sizeof(to), "a\0b", 3);
	ck_assert_str_eq(to, "a?b");
	text_clean(to, sizeof(to), NULL, 0);
	ck_assert_str_eq(to, "");
}
END_TEST

CHECK_MAIN("err", tcase_add_test(tc, every_code_has_a_row_of_its_own);
	tcase_add_test(tc, codes_from_elsewhere_are_not_trusted); tcase_add_test(tc, set_fills_everything);
	tcase_add_test(tc, sys_keeps_errno); tcase_add_test(tc, null_is_no_error_value);
	tcase_add_test(tc, a_text_may_come_from_its_own_error); tcase_add_test(tc, dirt_is_marked);
	tcase_add_test(tc, cuts_are_between_characters); tcase_add_test(tc, clean_fits_every_room))
