/* SPDX-License-Identifier: MIT
 *
 * One user's flood of records: what is written, what is counted, and that others' are untouched. */
#include "daemon/observe/audit.h"
#include "tests/support/check_main.h"

static struct audit_allowance a;

static void setup(void)
{
	a = (struct audit_allowance){ 0 };
}

START_TEST(a_flood_ends_at_the_limit_and_is_told_afterwards)
{
	uint64_t suppressed = 7;

	for (int i = 0; i < LIMIT_AUDIT_RECORDS; i++) {
		ck_assert(audit_allowed(&a, 1000, 5000, &suppressed));
		ck_assert_uint_eq(suppressed, 0);
	}
	for (int i = 0; i < 12345; i++)
		ck_assert(!audit_allowed(&a, 1000, 5000 + LIMIT_AUDIT_PERIOD_MS - 1, &suppressed));
	ck_assert(audit_allowed(&a, 1000, 5000 + LIMIT_AUDIT_PERIOD_MS, &suppressed));
	ck_assert_uint_eq(suppressed, 12345);
	ck_assert(audit_allowed(&a, 1000, 5000 + LIMIT_AUDIT_PERIOD_MS, &suppressed));
	ck_assert_uint_eq(suppressed, 0);
}
END_TEST

START_TEST(others_have_their_own)
{
	uint64_t suppressed;

	for (int i = 0; i < LIMIT_AUDIT_RECORDS + 10; i++)
		(void)audit_allowed(&a, 1000, 100, &suppressed);
	ck_assert(!audit_allowed(&a, 1000, 100, &suppressed));
	for (uid_t uid = 0; uid < LIMIT_AUDIT_USERS - 1; uid++)
		ck_assert(audit_allowed(&a, 2000 + uid, 101, &suppressed));
	ck_assert(!audit_allowed(&a, 1000, 102, &suppressed));
}
END_TEST

/* More users than there are places: the longest quiet one begins anew, nobody is refused for it. */
START_TEST(many_users)
{
	uint64_t suppressed;

	for (int64_t i = 0; i < 10 * LIMIT_AUDIT_USERS; i++)
		ck_assert(audit_allowed(&a, (uid_t)i, 1 + i, &suppressed));
}
END_TEST

START_TEST(at_the_beginning_of_time)
{
	uint64_t suppressed;

	for (int i = 0; i < LIMIT_AUDIT_RECORDS; i++)
		ck_assert(audit_allowed(&a, 0, 0, &suppressed));
	ck_assert(!audit_allowed(&a, 0, 0, &suppressed));
}
END_TEST

START_TEST(without_a_trail_nothing_is_begun)
{
	ck_assert_ptr_null(audit_begin(NULL, "denied.right", NULL, 0, 1000, 0));
}
END_TEST

CHECK_MAIN("audit", tcase_add_checked_fixture(tc, setup, NULL); tcase_add_test(tc, a_flood_ends_at_the_limit_and_is_told_afterwards);
	tcase_add_test(tc, others_have_their_own); tcase_add_test(tc, many_users); tcase_add_test(tc, at_the_beginning_of_time);
	tcase_add_test(tc, without_a_trail_nothing_is_begun));
