/* SPDX-License-Identifier: MIT
 *
 * Patterns of names, nearest names, hexadecimal and base64. */
#include "proto/names.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static char letters[65]; /* 64 times 'a' */

static void fill_letters(void)
{
	memset(letters, 'a', sizeof(letters) - 1);
}

START_TEST(ids)
{
	static const char *const good[] = { "a", "0", "Web-1.2_x", "9..", "a-" };
	static const char *const bad[] = {
		"", ".", "..", ".a", "-a", "_a", "a/b", "a b", "a\n", "\xc3\xa4", "a\xc3\xa4", "a:b", "a\x7f",
		"../x",
	};

	fill_letters();
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(name_is_id(good[i], strlen(good[i])), "'%s' refused", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!name_is_id(bad[i], strlen(bad[i])), "'%s' accepted", bad[i]);
	ck_assert(!name_is_id("a\0b", 3));
	ck_assert(name_is_id(letters, 63));
	ck_assert(!name_is_id(letters, 64));
}
END_TEST

START_TEST(functions_and_files)
{
	fill_letters();
	ck_assert(name_is_function("_x9", 3));
	ck_assert(name_is_function("x", 1));
	ck_assert(name_is_function(letters, 63));
	ck_assert(!name_is_function(letters, 64));
	ck_assert(!name_is_function("", 0));
	ck_assert(!name_is_function("9x", 2));
	ck_assert(!name_is_function("a-b", 3));
	ck_assert(!name_is_function("a.b", 3));
	ck_assert(!name_is_function("\xc3\xa4", 2));
	ck_assert(name_is_source_file("a.c", 3));
	ck_assert(name_is_source_file("9-x.y.c", 7));
	ck_assert(!name_is_source_file(".c", 2));
	ck_assert(!name_is_source_file("c", 1));
	ck_assert(!name_is_source_file("a.h", 3));
	ck_assert(!name_is_source_file("a.C", 3));
	ck_assert(!name_is_source_file("ac", 2));
	ck_assert(!name_is_source_file("../a.c", 6));
}
END_TEST

START_TEST(sums)
{
	fill_letters();
	ck_assert(name_is_sha256(letters, 64));
	ck_assert(!name_is_sha256(letters, 63));
	letters[63] = 'g';
	ck_assert(!name_is_sha256(letters, 64));
	letters[63] = 'A';
	ck_assert(!name_is_sha256(letters, 64));
}
END_TEST

START_TEST(nearest)
{
	static const char *const names[] = { "create", "destroy", "id", "timeout_ms", "labels" };

	fill_letters();
	ck_assert_int_eq(name_nearest("create", names, 5), 0);
	ck_assert_int_eq(name_nearest("craete", names, 5), 0);
	ck_assert_int_eq(name_nearest("destory", names, 5), 1);
	ck_assert_int_eq(name_nearest("timeout", names, 5), -1);
	ck_assert_int_eq(name_nearest("timeoutms", names, 5), 3);
	ck_assert_int_eq(name_nearest("label", names, 5), 4);
	ck_assert_int_eq(name_nearest("i", names, 5), 2);
	ck_assert_int_eq(name_nearest("x", names, 5), -1);
	ck_assert_int_eq(name_nearest("", names, 5), -1);
	ck_assert_int_eq(name_nearest("anything", names, 0), -1);
	ck_assert_int_eq(name_nearest(letters, names, 5), -1);
	letters[63] = '\0';
	ck_assert_int_eq(name_nearest(letters, names, 5), -1);
	ck_assert_int_eq(name_nearest("x", (const char *const[]){ "a", "b" }, 2), -1); /* nothing in common */
}
END_TEST

START_TEST(hexadecimal)
{
	const uint8_t bytes[] = { 0x00, 0x1f, 0xa0, 0xff };
	uint8_t back[4];
	char text[9];

	hex_encode(text, bytes, 4);
	ck_assert_str_eq(text, "001fa0ff");
	ck_assert(hex_decode(back, text, 4));
	ck_assert_mem_eq(back, bytes, 4);
	ck_assert(hex_decode(back, "001FA0FF", 4));
	ck_assert_mem_eq(back, bytes, 4);
	ck_assert(!hex_decode(back, "001fa0fg", 4));
	ck_assert(!hex_decode(back, "001fa0 f", 4));
	ck_assert(!hex_decode(back, "0", 1)); /* its NUL isn't a digit, and nothing behind it is read */
	ck_assert(!hex_decode(back, "", 1));
	hex_encode(text, bytes, 0);
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(base64_examples)
{
	static const char *const rows[][2] = { /* RFC 4648, section 10 */
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xbf", "+/+/" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf b = BUF_INIT;
		uint8_t back[16];
		size_t n = strlen(rows[i][0]);

		base64_encode(&b, rows[i][0], n);
		ck_assert(!b.failed);
		ck_assert_str_eq(buf_text(&b), rows[i][1]);
		ck_assert_int_eq(base64_decode(back, rows[i][1], strlen(rows[i][1])), (int64_t)n);
		ck_assert_mem_eq(back, rows[i][0], n);
		buf_fini(&b);
	}
}
END_TEST

START_TEST(base64_refusals)
{
	static const char *const bad[] = {
		"Z", "Zg", "Zg=", "Zm9vY", "====", "Z===", "Zg==Zg==", "Zm8=Zm8=", "Zh==", "Zm9=", "Zm 9",
		"Zm9\n", "Zm9v\n", "Zm9-", "Zm9_", "=m9v", "Z=9v", "Zg=v", "Zm\xc3\xa4",
	};
	uint8_t to[16];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(base64_decode(to, bad[i], strlen(bad[i])) == -1, "'%s' accepted", bad[i]);
	ck_assert_int_eq(base64_decode(to, "AA\0A", 4), -1);
}
END_TEST

START_TEST(base64_round_trip)
{
	uint8_t bytes[300], back[300];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + i / 7);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		struct buf b = BUF_INIT;

		base64_encode(&b, bytes, n);
		ck_assert_uint_eq(b.size, (n + 2) / 3 * 4);
		ck_assert_int_eq(base64_decode(back, b.data, b.size), (int64_t)n);
		ck_assert_mem_eq(back, bytes, n);
		buf_fini(&b);
	}
}
END_TEST

START_TEST(patterns)
{
	static const struct {
		const char *pattern, *name;
		bool want;
	} rows[] = { { "web", "web", true }, { "web", "web1", false }, { "web1", "web", false }, { "*", "x", true }, { "*", "", true },
		{ "w*b", "wb", true }, { "w*b", "web-b", true }, { "w*b", "web-c", false }, { "w?b", "web", true }, { "w?b", "wb", false },
		{ "**", "x", true }, { "*a*b*c", "xxaxxbxxc", true }, { "*a*b*c", "xxaxxbxx", false }, { "*ab", "aab", true }, { "*abac", "ababac", true },
		{ "[ab]x", "bx", true }, { "[ab]x", "cx", false }, { "[a-c]", "b", true }, { "[a-c]", "d", false }, { "[!a-c]", "d", true },
		{ "[!a-c]", "b", false }, { "[a-]", "-", true }, { "[a-]", "b", false }, { "*[0-9]", "ab7", true }, { "*[0-9]", "ab", false },
		{ "x[0-9]*[!z]", "x1zy", true }, { "x[0-9]*[!z]", "x1yz", false }, { "a.b", "axb", false }, { "A", "a", false } };
	static const char *const bad[] = { "", "a/b", "a b", "[", "[a", "[]", "[!]", "a]", "[a/]", "[[a]", "\\*", "\xc3\xa4", "{a,b}", "a\n" };

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		ck_assert_msg(name_is_pattern(rows[i].pattern), "%s", rows[i].pattern);
		ck_assert_msg(name_matches(rows[i].pattern, rows[i].name) == rows[i].want, "%s %s", rows[i].pattern, rows[i].name);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(!name_is_pattern(bad[i]), "'%s' accepted", bad[i]);
}
END_TEST

CHECK_MAIN("names", tcase_add_test(tc, patterns); tcase_add_test(tc, ids); tcase_add_test(tc, functions_and_files);
	tcase_add_test(tc, sums); tcase_add_test(tc, nearest); tcase_add_test(tc, hexadecimal);
	tcase_add_test(tc, base64_examples); tcase_add_test(tc, base64_refusals);
	tcase_add_test(tc, base64_round_trip))
