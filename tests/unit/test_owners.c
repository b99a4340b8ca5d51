/* SPDX-License-Identifier: MIT
 *
 * Totals per owner: against a recount after each of many changes, at their limits, with shares that are too large to add up. */
#include "daemon/sandbox/owners.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "tests/support/check_main.h"

#define N_OWNERS    7
#define N_SANDBOXES 40

static void each_add(void *ctx, uid_t uid, const struct owner_share *totals)
{
	struct owner_share *by_uid = ctx;

	by_uid[uid] = *totals;
}

/* Any order of changes: the totals are always those of a recount, and who has nothing is in no record. */
START_TEST(totals_are_those_of_a_recount)
{
	struct owners *o = owners_new();
	struct {
		uid_t uid;
		struct owner_share counted, is;
	} boxes[N_SANDBOXES] = { 0 };
	unsigned seed = 4711;

	for (size_t i = 0; i < N_SANDBOXES; i++)
		boxes[i].uid = (uid_t)(i % N_OWNERS);
	for (int step = 0; step < 20000; step++) {
		size_t i = (size_t)rand_r(&seed) % N_SANDBOXES, owners = 0;
		struct owner_share seen[N_OWNERS] = { 0 }, truth[N_OWNERS] = { 0 };

		for (int t = 0; t < OWNER_TOTAL__N; t++)
			boxes[i].is.of[t] = rand_r(&seed) % 3 == 0 ? 0 : (uint64_t)rand_r(&seed) << (rand_r(&seed) % 17);
		if (rand_r(&seed) % 4 == 0)
			memset(&boxes[i].is, 0, sizeof boxes[i].is);
		owners_set(o, boxes[i].uid, &boxes[i].counted, &boxes[i].is);
		owners_set(o, boxes[i].uid, &boxes[i].counted, &boxes[i].is); /* once too often */
		for (size_t j = 0; j < N_SANDBOXES; j++)
			for (int t = 0; t < OWNER_TOTAL__N; t++)
				truth[boxes[j].uid].of[t] += boxes[j].is.of[t];
		owners_each(o, each_add, seen, N_OWNERS);
		for (uid_t u = 0; u < N_OWNERS; u++) {
			struct owner_share got = owners_get(o, u), none = { 0 };

			ck_assert_mem_eq(&got, &truth[u], sizeof got);
			ck_assert_mem_eq(&seen[u], &truth[u], sizeof got);
			owners += memcmp(&got, &none, sizeof got) != 0;
		}
		ck_assert_uint_eq(owners_count(o), owners);
	}
	ck_assert_ptr_null(owners_free(o));
}
END_TEST

/* At the limit is within it; one more is refused, with the key's name; what doesn't grow never is. */
START_TEST(at_its_limit)
{
	static const char *const keys[OWNER_TOTAL__N] = { "max_sandboxes_per_owner", "max_memory_per_owner", "max_store_bytes_per_owner",
		"max_jobs_per_owner" };
	struct owners *o = owners_new();
	struct owner_share counted = { { 0 } }, has = { { 3, 3, 3, 3 } }, limits = { { 0 } }, more = { { 0 } };
	struct err e = ERR_INIT;

	owners_set(o, 5, &counted, &has);
	for (int t = 0; t < OWNER_TOTAL__N; t++) {
		limits.of[t] = 4;
		more.of[t] = 1;
		ck_assert_int_eq(owners_check(o, 5, &limits, &more, &e), 0);
		more.of[t] = 2;
		e = (struct err)ERR_INIT;
		ck_assert_int_eq(owners_check(o, 5, &limits, &more, &e), -1);
		ck_assert_int_eq(e.code, ERR_LIMIT_EXCEEDED);
		ck_assert_str_eq(e.name, keys[t]);
		ck_assert_ptr_nonnull(strstr(e.text, keys[t]));
		ck_assert_ptr_nonnull(strstr(e.text, "user 5 has 3 "));
		ck_assert_ptr_nonnull(strstr(e.text, "the 4 that"));
		ck_assert_int_eq(owners_check(o, 6, &limits, &more, &e), 0); /* another user */
		ck_assert_int_eq(owners_check(NULL, 5, &limits, &more, &e), 0);
		limits.of[t] = 1; /* lowered beneath what there is */
		more.of[t] = 0;
		ck_assert_int_eq(owners_check(o, 5, &limits, &more, &e), 0);
		more.of[t] = 1;
		ck_assert_int_eq(owners_check(o, 5, &limits, &more, &e), -1);
		limits.of[t] = 0; /* none */
		more.of[t] = UINT64_MAX;
		ck_assert_int_eq(owners_check(o, 5, &limits, &more, &e), 0);
		more.of[t] = 0;
	}
	(void)owners_free(o);
}
END_TEST

/* As many sandboxes as there may be, each with a max_memory that is no number to add: nothing wraps, and all of it goes again. */
START_TEST(no_sum_wraps)
{
	static struct owner_share counted[LIMIT_SANDBOXES];
	struct owners *o = owners_new();
	struct owner_share all = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } }, none = { { 0 } }, limits = { { 1, 1, 1, 1 } },
			   one = { { 1, 1, 1, 1 } };
	struct err e = ERR_INIT;

	for (size_t i = 0; i < LIMIT_SANDBOXES; i++) {
		owners_set(o, 1, &counted[i], &all);
		ck_assert_uint_eq(owners_get(o, 1).of[OWNER_MEMORY], (i + 1) * OWNER_SHARE_MAX);
	}
	ck_assert_int_eq(owners_check(o, 1, &limits, &one, &e), -1);
	ck_assert_int_eq(owners_check(o, 1, &limits, &all, &e), -1);
	for (size_t i = 0; i < LIMIT_SANDBOXES; i++)
		owners_set(o, 1, &counted[i], &none);
	ck_assert_uint_eq(owners_count(o), 0);
	ck_assert_int_eq(owners_check(o, 1, &limits, &one, &e), 0);
	(void)owners_free(o);
}
END_TEST

/* A list of at most so many. */
START_TEST(the_list_is_bounded)
{
	struct owners *o = owners_new();
	struct owner_share counted[N_OWNERS] = { 0 }, one = { { 1, 0, 0, 0 } }, seen[N_OWNERS] = { 0 };

	for (uid_t u = 0; u < N_OWNERS; u++)
		owners_set(o, u, &counted[u], &one);
	owners_each(o, each_add, seen, 2);
	ck_assert_uint_eq(seen[0].of[0] + seen[1].of[0], 2);
	ck_assert_uint_eq(seen[2].of[0], 0);
	owners_each(o, each_add, seen, 0);
	owners_each(NULL, each_add, seen, 1);
	ck_assert_uint_eq(seen[2].of[0], 0);
	ck_assert_uint_eq(owners_count(NULL), 0);
	ck_assert_ptr_null(owners_free(NULL));
	(void)owners_free(o);
}
END_TEST

CHECK_MAIN("owners", tcase_add_test(tc, totals_are_those_of_a_recount); tcase_add_test(tc, at_its_limit); tcase_add_test(tc, no_sum_wraps);
	tcase_add_test(tc, the_list_is_bounded))
