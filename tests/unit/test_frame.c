/* SPDX-License-Identifier: MIT
 *
 * Line framing: the same lines come out however the bytes come in, and the limit holds to the byte. */
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

#define LIMIT 10

/* Feeds in pieces of at most `step` bytes, writes each line as "<line>" to out; stops at what isn't a line or
 * FRAME_MORE. */
static enum frame_result feed(struct frame *f, const char *bytes, size_t size, size_t step, struct buf *out)
{
	enum frame_result r = FRAME_MORE;

	for (size_t at = 0; at < size;) {
		size_t room = 0, n, line_size;
		char *to = frame_room(f, &room), *line;

		ck_assert_ptr_nonnull(to);
		ck_assert_uint_ge(room, 1);
		ck_assert_uint_le(room, f->limit + 1);
		n = size - at < step ? size - at : step;
		n = n < room ? n : room;
		memcpy(to, bytes + at, n);
		frame_fed(f, n);
		at += n;
		while ((r = frame_next(f, &line, &line_size)) == FRAME_LINE) {
			ck_assert_uint_le(line_size, f->limit);
			buf_add_char(out, '<');
			buf_add(out, line, line_size);
			buf_add_char(out, '>');
		}
		if (r != FRAME_MORE)
			break;
	}
	return r;
}

static void expect(const char *bytes, size_t size, const char *lines, enum frame_result result, bool partial)
{
	for (size_t step = 1; step <= 64; step++) {
		struct buf out = BUF_INIT;
		struct frame f;
		char *line;
		size_t n;

		frame_init(&f, LIMIT);
		ck_assert_int_eq(feed(&f, bytes, size, step, &out), result);
		ck_assert_str_eq(buf_text(&out), lines);
		if (result == FRAME_MORE)
			ck_assert_int_eq(frame_has_partial(&f), partial);
		else
			for (int i = 0; i < 3; i++) /* final */
				ck_assert_int_eq(frame_next(&f, &line, &n), result);
		frame_fini(&f);
		buf_fini(&out);
	}
}

#define EXPECT(bytes, lines, result, partial) expect(bytes, sizeof(bytes) - 1, lines, result, partial)

START_TEST(lines)
{
	EXPECT("", "", FRAME_MORE, false);
	EXPECT("a", "", FRAME_MORE, true);
	EXPECT("a\n", "<a>", FRAME_MORE, false);
	EXPECT("a\nbc\n\nd\n", "<a><bc><><d>", FRAME_MORE, false);
	EXPECT("a\nbc", "<a>", FRAME_MORE, true);
	EXPECT("\n\n\n", "<><><>", FRAME_MORE, false);
}
END_TEST

START_TEST(carriage_returns)
{
	EXPECT("a\r\nb\r\n", "<a><b>", FRAME_MORE, false);
	EXPECT("\r\n\r\n", "<><>", FRAME_MORE, false);
	EXPECT("a\rb\n", "<a\rb>", FRAME_MORE, false);
	EXPECT("a\r\r\n", "<a\r>", FRAME_MORE, false);
	EXPECT("a\r", "", FRAME_MORE, true);
}
END_TEST

START_TEST(the_limit_is_exact)
{
	EXPECT("1234567890\n", "<1234567890>", FRAME_MORE, false);
	EXPECT("1234567890\r\n", "<1234567890>", FRAME_MORE, false);
	EXPECT("1234567890", "", FRAME_MORE, true);
	EXPECT("1234567890\r", "", FRAME_MORE, true);
	EXPECT("12345678901", "", FRAME_TOO_LARGE, true);
	EXPECT("1234567890\rx", "", FRAME_TOO_LARGE, true);
	EXPECT("12345678901\n", "", FRAME_TOO_LARGE, true);
	EXPECT("12345678901\r\n", "", FRAME_TOO_LARGE, true);
	EXPECT("1234567890\r\r\n", "", FRAME_TOO_LARGE, true);
	EXPECT("a\n12345678901\nb\n", "<a>", FRAME_TOO_LARGE, true);
	EXPECT("1234567890\n1234567890\n123", "<1234567890><1234567890>", FRAME_MORE, true);
}
END_TEST

START_TEST(nul_is_a_byte_like_others)
{
	struct buf out = BUF_INIT;
	struct frame f;

	frame_init(&f, LIMIT);
	ck_assert_int_eq(feed(&f, "a\0b\n", 4, 64, &out), FRAME_MORE);
	ck_assert_uint_eq(out.size, 5);
	ck_assert_mem_eq(out.data, "<a\0b>", 5);
	frame_fini(&f);
	buf_fini(&out);
}
END_TEST

/* A long line between short ones: it arrives whole, and the large buffer doesn't stay. */
START_TEST(long_lines)
{
	size_t limit = 1 << 20;
	char *bytes = malloc(limit + 5);
	struct buf out = BUF_INIT;
	struct frame f;

	ck_assert_ptr_nonnull(bytes);
	memset(bytes, 'x', limit + 5);
	memcpy(bytes, "a\n", 2);
	memcpy(bytes + 2 + limit, "\nb\n", 3);
	frame_init(&f, limit);
	ck_assert_int_eq(feed(&f, bytes, limit + 5, SIZE_MAX, &out), FRAME_MORE);
	ck_assert_uint_eq(out.size, 3 + limit + 2 + 3);
	ck_assert_mem_eq(out.data, "<a><xx", 6);
	ck_assert_mem_eq(out.data + out.size - 5, "x><b>", 5);
	ck_assert_uint_le(f.in.room, 64 << 10);
	bytes[2 + limit] = 'x'; /* one byte too many */
	buf_clear(&out);
	ck_assert_int_eq(feed(&f, bytes, limit + 5, SIZE_MAX, &out), FRAME_TOO_LARGE);
	ck_assert_uint_le(f.in.size, 2 * (limit + 1));
	frame_fini(&f);
	buf_fini(&out);
	free(bytes);
}
END_TEST

START_TEST(no_memory_is_said)
{
	struct frame f;
	size_t room, size;
	char *line;

	frame_init(&f, LIMIT);
	f.in.ceiling = 5;
	ck_assert_ptr_null(frame_room(&f, &room));
	ck_assert_int_eq(frame_next(&f, &line, &size), FRAME_NO_MEMORY);
	frame_fini(&f);
}
END_TEST

CHECK_MAIN("frame", tcase_add_test(tc, lines); tcase_add_test(tc, carriage_returns);
	tcase_add_test(tc, the_limit_is_exact); tcase_add_test(tc, nul_is_a_byte_like_others);
	tcase_add_test(tc, long_lines); tcase_add_test(tc, no_memory_is_said))
