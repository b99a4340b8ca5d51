/* SPDX-License-Identifier: MIT
 *
 * The growable buffer: appending, its ceiling, failure that sticks, taking. */
#include "proto/buf.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

START_TEST(appends)
{
	struct buf b = BUF_INIT;

	ck_assert_str_eq(buf_text(&b), "");
	buf_add_text(&b, "ab");
	buf_add_char(&b, 'c');
	buf_add(&b, "de", 2);
	buf_add(&b, NULL, 0);
	buf_printf(&b, "%d-%s", 42, "x");
	ck_assert_str_eq(buf_text(&b), "abcde42-x");
	ck_assert_uint_eq(b.size, 9);
	buf_clear(&b);
	ck_assert_uint_eq(b.size, 0);
	ck_assert_str_eq(buf_text(&b), "");
	buf_fini(&b);
	buf_add_text(&b, "again");
	ck_assert_str_eq(buf_text(&b), "again");
	buf_fini(&b);
}
END_TEST

START_TEST(numbers)
{
	struct buf b = BUF_INIT;

	buf_add_u64(&b, 0);
	buf_add_char(&b, ' ');
	buf_add_u64(&b, 10);
	buf_add_char(&b, ' ');
	buf_add_u64(&b, UINT64_MAX);
	ck_assert_str_eq(buf_text(&b), "0 10 18446744073709551615");
	buf_fini(&b);
}
END_TEST

/* printf must give the same whether the text fits, just fits, or needs room. */
START_TEST(printf_at_every_fill)
{
	for (size_t fill = 0; fill < 200; fill++) {
		struct buf b = BUF_INIT;

		for (size_t i = 0; i < fill; i++)
			buf_add_char(&b, 'x');
		buf_printf(&b, "[%s]", "0123456789");
		ck_assert(!b.failed);
		ck_assert_uint_eq(b.size, fill + 12);
		ck_assert_str_eq(buf_text(&b) + fill, "[0123456789]");
		buf_fini(&b);
	}
}
END_TEST

START_TEST(the_ceiling_holds)
{
	struct buf b;

	buf_init(&b, 5);
	buf_add(&b, "12345", 5);
	ck_assert(!b.failed);
	ck_assert_str_eq(buf_text(&b), "12345");
	ck_assert_uint_le(b.room, 6);
	buf_add_char(&b, '6');
	ck_assert(b.failed);
	ck_assert_str_eq(buf_text(&b), "");
	ck_assert_ptr_null(buf_extend(&b, 0)); /* failure sticks */
	buf_clear(&b);
	buf_printf(&b, "%s", "12345");
	ck_assert(!b.failed);
	buf_printf(&b, "%s", "6");
	ck_assert(b.failed);
	ck_assert_uint_eq(b.size, 5);
	buf_fini(&b);
	ck_assert(!b.failed);
	ck_assert_uint_eq(b.ceiling, 5);
	buf_add(&b, "123456", 6);
	ck_assert(b.failed);
	buf_fini(&b);
}
END_TEST

START_TEST(sizes_do_not_wrap)
{
	struct buf b = BUF_INIT;

	buf_add_char(&b, 'x');
	ck_assert_ptr_null(buf_extend(&b, SIZE_MAX));
	ck_assert(b.failed);
	buf_clear(&b);
	ck_assert_ptr_null(buf_extend(&b, PTRDIFF_MAX));
	ck_assert_ptr_null(buf_take(&b, NULL));
	ck_assert(!b.failed);
	ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(front_is_dropped)
{
	struct buf b = BUF_INIT;

	buf_drop_front(&b, 0);
	buf_add_text(&b, "abcdef");
	buf_drop_front(&b, 2);
	ck_assert_str_eq(buf_text(&b), "cdef");
	buf_drop_front(&b, 4);
	ck_assert_str_eq(buf_text(&b), "");
	buf_fini(&b);
}
END_TEST

START_TEST(takes)
{
	struct buf b = BUF_INIT;
	size_t size = 99;
	char *text = buf_take(&b, &size);

	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(size, 0);
	free(text);
	buf_add(&b, "a\0b", 3);
	text = buf_take(&b, &size);
	ck_assert_uint_eq(size, 3);
	ck_assert_mem_eq(text, "a\0b\0", 4);
	ck_assert_ptr_null(b.data);
	ck_assert_uint_eq(b.size, 0);
	free(text);
}
END_TEST

CHECK_MAIN("buf", tcase_add_test(tc, appends); tcase_add_test(tc, numbers); tcase_add_test(tc, printf_at_every_fill);
	tcase_add_test(tc, the_ceiling_holds); tcase_add_test(tc, sizes_do_not_wrap);
	tcase_add_test(tc, front_is_dropped); tcase_add_test(tc, takes))
