/* SPDX-License-Identifier: MIT
 *
 * The queue of free user ids, and ranges beside the accounts of a machine. */
#include <string.h>

#include "daemon/spawner/uids.h"
#include "tests/support/check_main.h"

START_TEST(freed_goes_to_the_end)
{
	struct uids u = UIDS_INIT;
	struct err e = ERR_INIT;
	uid_t uid;

	ck_assert(!uids_take(&u, &uid));
	ck_assert_int_eq(uids_add(&u, 100, 3, &e), 0);
	ck_assert(uids_take(&u, &uid));
	ck_assert_uint_eq(uid, 100);
	uids_give(&u, 100);
	for (uid_t want = 101; want <= 102; want++) {
		ck_assert(uids_take(&u, &uid));
		ck_assert_uint_eq(uid, want);
	}
	ck_assert(uids_take(&u, &uid));
	ck_assert_uint_eq(uid, 100);
	ck_assert(!uids_take(&u, &uid));
	uids_fini(&u);
}
END_TEST

START_TEST(slices_add_up_in_the_middle_of_use)
{
	struct uids u = UIDS_INIT;
	struct err e = ERR_INIT;
	bool seen[512] = { false };
	uid_t uid;

	ck_assert_int_eq(uids_add(&u, 1000, 256, &e), 0);
	for (int i = 0; i < 200; i++) /* the head stands in the middle of the ring */
		ck_assert(uids_take(&u, &uid));
	uids_give(&u, 1005);
	uids_give(&u, 1003);
	ck_assert_int_eq(uids_add(&u, 1256, 256, &e), 0);
	for (int i = 0; i < 56 + 2 + 256; i++) {
		ck_assert(uids_take(&u, &uid));
		ck_assert_uint_ge(uid, 1000);
		ck_assert_uint_lt(uid, 1512);
		ck_assert(!seen[uid - 1000]);
		seen[uid - 1000] = true;
		if (i == 56)
			ck_assert_uint_eq(uid, 1005);
		if (i == 57)
			ck_assert_uint_eq(uid, 1003);
	}
	ck_assert(!uids_take(&u, &uid));
	uids_fini(&u);
}
END_TEST

static bool meets(const char *text, enum uids_file kind, char name[64])
{
	return uids_text_meets(text, strlen(text), kind, 1000, 256, name);
}

static const struct {
	const char *text;
	enum uids_file kind;
	const char *name; /* NULL: doesn't meet */
} texts[] = {
	{ "", UIDS_FILE_ACCOUNTS, NULL },
	{ "root:x:0:0::/root:/bin/sh\n", UIDS_FILE_ACCOUNTS, NULL },
	{ "a:x:999:0::/:\nb:x:1000:0::/:\n", UIDS_FILE_ACCOUNTS, "b" },
	{ "a:x:1255:0", UIDS_FILE_ACCOUNTS, "a" },
	{ "a:x:1256:0", UIDS_FILE_ACCOUNTS, NULL },
	{ "group:x:1100:", UIDS_FILE_ACCOUNTS, "group" },
	{ "last:x:1100", UIDS_FILE_ACCOUNTS, "last" },
	{ "a:1100:1:1", UIDS_FILE_ACCOUNTS, NULL },
	{ "a:x:-1:0\n:::\n\n:\na\nb:x::\nc:x:11x0:0\nd:x:99999999999999999999:0\n", UIDS_FILE_ACCOUNTS, NULL },
	{ "u:500:501", UIDS_FILE_RANGES, "u" },
	{ "u:500:500", UIDS_FILE_RANGES, NULL },
	{ "u:1255:65536\n", UIDS_FILE_RANGES, "u" },
	{ "u:1256:65536\n", UIDS_FILE_RANGES, NULL },
	{ "u:0:4294967295\n", UIDS_FILE_RANGES, "u" },
	{ "u:1100:0\n", UIDS_FILE_RANGES, NULL },
	{ "u:1100\n", UIDS_FILE_RANGES, NULL },
	{ "one:100000:65536\ntwo:1001:1", UIDS_FILE_RANGES, "two" },
	{ "\x01\xff:1001:1", UIDS_FILE_RANGES, "??" },
};

START_TEST(ranges_meet_accounts)
{
	char name[64] = "";
	bool does = meets(texts[_i].text, texts[_i].kind, name);

	ck_assert_int_eq(does, texts[_i].name != NULL);
	if (texts[_i].name)
		ck_assert_str_eq(name, texts[_i].name);
}
END_TEST

START_TEST(the_end_of_all_ids_does_not_wrap)
{
	char name[64];
	const char *text = "u:4294967295:1\n";

	ck_assert(uids_text_meets(text, strlen(text), UIDS_FILE_RANGES, 4294967040u, 256, name));
	text = "u:1:1\n";
	ck_assert(!uids_text_meets(text, strlen(text), UIDS_FILE_RANGES, 4294967040u, 256, name));
}
END_TEST

CHECK_MAIN("uids", tcase_add_test(tc, freed_goes_to_the_end); tcase_add_test(tc, slices_add_up_in_the_middle_of_use);
	tcase_add_loop_test(tc, ranges_meet_accounts, 0, sizeof texts / sizeof *texts);
	tcase_add_test(tc, the_end_of_all_ids_does_not_wrap))
