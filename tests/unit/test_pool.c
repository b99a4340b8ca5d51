/* SPDX-License-Identifier: MIT
 *
 * The pool of spare hosts: when they are made, how many, how slowly those that end are replaced; random schedules beside what must always
 * hold, and bugs put in that these must find. */
#include <stdlib.h>

static int seeded;
#define SEEDED(bug) (seeded == (bug))
#include "daemon/spawner/pool.c"

#include "tests/support/check_main.h"

#define TARGET 4

START_TEST(none_before_the_first_start)
{
	struct pool p;

	pool_init(&p, TARGET);
	ck_assert_int_eq(pool_due_ms(&p), POOL_NOT_ASKED);
	ck_assert_uint_eq(pool_ask(&p, INT64_MAX - 1), 0);
	ck_assert(!pool_take(&p));
	pool_started(&p, 1000);
	ck_assert_int_eq(pool_due_ms(&p), 1000 + POOL_REFILL_MS);
	ck_assert_uint_eq(pool_ask(&p, 1000 + POOL_REFILL_MS - 1), 0);
	ck_assert_uint_eq(pool_ask(&p, 1000 + POOL_REFILL_MS), POOL_AT_ONCE);
}
END_TEST

START_TEST(no_pool_is_no_pool)
{
	struct pool p;

	pool_init(&p, 0);
	for (int i = 0; i < 10; i++)
		pool_started(&p, i);
	ck_assert_int_eq(pool_due_ms(&p), POOL_NOT_ASKED);
	ck_assert_uint_eq(pool_ask(&p, 1000000), 0);
	pool_emptied(&p, 1000000);
	ck_assert_int_eq(pool_due_ms(&p), POOL_NOT_ASKED);
}
END_TEST

static void fill(struct pool *p, int64_t now_ms)
{
	while (pool_due_ms(p) != POOL_NOT_ASKED)
		for (uint32_t n = pool_ask(p, now_ms); n > 0; n--)
			pool_came(p);
}

/* A crowd that takes its time doesn't keep the pool empty: it waits for a pause, but not for long. */
START_TEST(starts_without_a_pause)
{
	struct pool p;
	int64_t now_ms = 0;

	pool_init(&p, TARGET);
	pool_started(&p, now_ms);
	fill(&p, 100);
	ck_assert_uint_eq(p.waiting, TARGET);
	ck_assert(pool_take(&p));
	for (now_ms = 1000; pool_ask(&p, now_ms) == 0; now_ms++) {
		ck_assert_int_le(now_ms, 1000 + POOL_LATEST_MS);
		pool_started(&p, now_ms);
	}
	ck_assert_int_eq(now_ms, 1000 + POOL_LATEST_MS);
}
END_TEST

/* Whatever kills them: ever more slowly, and a start in between changes nothing about it; one that was used does. */
START_TEST(losses_are_replaced_ever_more_slowly)
{
	struct pool p;
	int64_t now_ms = 0, before = 0;

	pool_init(&p, 1);
	pool_started(&p, now_ms);
	fill(&p, POOL_REFILL_MS);
	for (int i = 0; i < 20; i++) {
		int64_t delay_ms;

		pool_lost(&p, true, now_ms);
		delay_ms = pool_due_ms(&p) - now_ms;
		ck_assert_int_ge(delay_ms, before);
		ck_assert(delay_ms > before || before >= LOSS_FIRST_MS << LOSS_DOUBLED || before == LOSS_MAX_MS);
		ck_assert_int_le(delay_ms, LOSS_MAX_MS);
		before = delay_ms;
		pool_started(&p, now_ms);
		ck_assert_int_eq(pool_due_ms(&p), now_ms + delay_ms);
		now_ms += delay_ms;
		ck_assert_uint_eq(pool_ask(&p, now_ms), 1);
		pool_came(&p);
	}
	ck_assert_int_gt(before, 10000);
	ck_assert(pool_take(&p));
	pool_started(&p, now_ms);
	ck_assert_int_eq(pool_due_ms(&p), now_ms + POOL_REFILL_MS);
}
END_TEST

START_TEST(a_zygote_that_is_gone_takes_them_along)
{
	struct pool p;

	pool_init(&p, TARGET);
	pool_started(&p, 0);
	fill(&p, 100);
	pool_emptied(&p, 200);
	ck_assert_uint_eq(p.waiting + p.coming, 0);
	ck_assert(!pool_take(&p));
	ck_assert_int_eq(pool_due_ms(&p), 200 + POOL_REFILL_MS);
	fill(&p, 300);
	ck_assert_uint_eq(p.waiting, TARGET);
}
END_TEST

/* NULL, or what doesn't hold. */
static const char *schedule(unsigned seed)
{
	uint32_t target = seed % 6, alive = 0, coming = 0;
	int64_t now_ms = 0;
	struct pool p;

	srand(seed);
	pool_init(&p, target);
	for (int i = 0; i < 2000; i++) {
		uint32_t n = 0;

		now_ms += rand() % 8;
		switch (rand() % 6) {
		case 0:
			if (pool_take(&p) != (alive > 0))
				return "taken though there is none, or the other way round";
			alive -= alive > 0;
			pool_started(&p, now_ms);
			break;
		case 1:
			n = pool_ask(&p, now_ms);
			if (n > POOL_AT_ONCE)
				return "too many at once";
			coming += n;
			break;
		case 2:
			if (coming > 0) {
				coming--;
				alive++;
				pool_came(&p);
			}
			break;
		case 3:
			if (rand() % 8 == 0 && alive > 0) {
				alive--;
				pool_lost(&p, true, now_ms);
			} else if (rand() % 8 == 0 && coming > 0) {
				coming--;
				pool_lost(&p, false, now_ms);
			}
			break;
		case 4:
			if (rand() % 20 == 0) {
				alive = coming = 0;
				pool_emptied(&p, now_ms);
			}
			break;
		default:
			pool_started(&p, now_ms);
			break;
		}
		if (p.waiting != alive || p.coming != coming)
			return "its counts are wrong";
		if (alive + coming > target)
			return "more than the target";
		if (target > 0 && p.used && alive + coming < target && pool_due_ms(&p) == POOL_NOT_ASKED)
			return "one lacks, and none is ever made";
		if (alive + coming == target && pool_ask(&p, INT64_MAX - 1) > 0)
			return "one too many";
	}
	return NULL;
}

START_TEST(random_schedules)
{
	for (unsigned seed = 1; seed < 400; seed++) {
		const char *wrong = schedule(seed);

		ck_assert_msg(!wrong, "seed %u: %s", seed, wrong);
	}
}
END_TEST

START_TEST(planted_bugs_are_found)
{
	const char *wrong = NULL;

	seeded = _i;
	for (unsigned seed = 1; seed < 400 && !wrong; seed++)
		wrong = schedule(seed);
	seeded = 0;
	ck_assert_msg(wrong, "bug %d is not found", _i);
}
END_TEST

START_TEST(a_pool_that_can_have_none_is_never_due)
{
	struct pool p;

	pool_init(&p, 4);
	pool_started(&p, 1000);
	ck_assert_int_ne(pool_due_ms(&p), POOL_NOT_ASKED);
	pool_retarget(&p, 0, 1001); /* its zygote has come, and can't make any */
	ck_assert_int_eq(pool_due_ms(&p), POOL_NOT_ASKED);
	pool_started(&p, 2000);
	ck_assert_int_eq(pool_due_ms(&p), POOL_NOT_ASKED);
	ck_assert_uint_eq(pool_ask(&p, 3000), 0);
	pool_retarget(&p, 2, 4000); /* the next one can */
	ck_assert_int_ne(pool_due_ms(&p), POOL_NOT_ASKED);
	ck_assert_uint_eq(pool_ask(&p, pool_due_ms(&p)), 2);
}
END_TEST

CHECK_MAIN("pool", tcase_add_test(tc, none_before_the_first_start); tcase_add_test(tc, a_pool_that_can_have_none_is_never_due); tcase_add_test(tc, no_pool_is_no_pool);
	tcase_add_test(tc, starts_without_a_pause); tcase_add_test(tc, losses_are_replaced_ever_more_slowly);
	tcase_add_test(tc, a_zygote_that_is_gone_takes_them_along); tcase_add_test(tc, random_schedules);
	tcase_add_loop_test(tc, planted_bugs_are_found, 1, 4))
