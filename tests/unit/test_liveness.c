/* SPDX-License-Identifier: MIT
 *
 * When control is asked whether it serves, and when it is given up. */
#include "daemon/spawner/liveness.h"
#include "tests/support/check_main.h"

#define NEVER INT64_MAX

START_TEST(it_is_asked_now_and_then_and_answers)
{
	struct liveness l;

	liveness_init(&l, 0);
	ck_assert_int_eq(liveness_deadline(&l), NEVER);
	ck_assert_int_eq(liveness_timer(&l, 1000000), LIVENESS_NOTHING); /* nobody is there */
	liveness_serves(&l, 1000);
	ck_assert_int_eq(liveness_deadline(&l), 1000 + LIVENESS_ASK_MS);
	for (int64_t now_ms = 1000; now_ms < 1000000;) {
		ck_assert_int_eq(liveness_timer(&l, now_ms + LIVENESS_ASK_MS - 1), LIVENESS_NOTHING);
		now_ms += LIVENESS_ASK_MS;
		ck_assert_int_eq(liveness_timer(&l, now_ms), LIVENESS_ASK);
		ck_assert_int_eq(liveness_timer(&l, now_ms), LIVENESS_NOTHING); /* once */
		now_ms += LIVENESS_MOST_MS - 1; /* just in time */
		ck_assert_int_eq(liveness_timer(&l, now_ms), LIVENESS_NOTHING);
		ck_assert(liveness_answered(&l, now_ms));
		ck_assert(!liveness_answered(&l, now_ms)); /* nobody had asked */
	}
}
END_TEST

START_TEST(who_does_not_answer_is_replaced_once)
{
	struct liveness l;

	liveness_init(&l, 0);
	liveness_serves(&l, 0);
	ck_assert_int_eq(liveness_timer(&l, LIVENESS_ASK_MS), LIVENESS_ASK);
	ck_assert_int_eq(liveness_deadline(&l), LIVENESS_ASK_MS + LIVENESS_MOST_MS);
	ck_assert_int_eq(liveness_timer(&l, LIVENESS_ASK_MS + LIVENESS_MOST_MS), LIVENESS_REPLACE);
	ck_assert_int_eq(liveness_timer(&l, LIVENESS_ASK_MS + LIVENESS_MOST_MS), LIVENESS_NOTHING);
	ck_assert_int_eq(liveness_deadline(&l), NEVER);
	ck_assert(!liveness_answered(&l, LIVENESS_ASK_MS + LIVENESS_MOST_MS)); /* too late */
}
END_TEST

START_TEST(an_end_closes_the_question)
{
	struct liveness l;

	liveness_init(&l, 0);
	liveness_serves(&l, 0);
	(void)liveness_timer(&l, LIVENESS_ASK_MS);
	liveness_gone(&l);
	ck_assert_int_eq(liveness_deadline(&l), NEVER);
	ck_assert_int_eq(liveness_timer(&l, 10 * LIVENESS_MOST_MS), LIVENESS_NOTHING);
	liveness_serves(&l, 500000);
	ck_assert_int_eq(liveness_deadline(&l), 500000 + LIVENESS_ASK_MS);
}
END_TEST

/* Fed while it goes on, no more often than when it serves; one that says nothing isn't fed for. */
START_TEST(a_take_over_that_goes_on_feeds)
{
	struct liveness l;
	int fed = 0;

	liveness_init(&l, 40000);
	ck_assert(!liveness_goes_on(&l, 50000)); /* nobody has served yet */
	liveness_serves(&l, 60000);
	liveness_gone(&l);
	ck_assert(!liveness_goes_on(&l, 60000 + 9999));
	for (int64_t now_ms = 70000; now_ms <= 110000; now_ms += 100)
		fed += liveness_goes_on(&l, now_ms);
	ck_assert_int_eq(fed, 5);
	ck_assert_int_eq(liveness_deadline(&l), NEVER); /* nobody is asked meanwhile */
	liveness_serves(&l, 111000);
	ck_assert(!liveness_goes_on(&l, 112000));
}
END_TEST

/* However short the watchdog's time is, a control that doesn't answer is given up before it is over. */
START_TEST(a_watchdog_makes_it_quicker)
{
	for (int64_t watchdog_ms = 1; watchdog_ms < 400000; watchdog_ms = watchdog_ms * 3 / 2 + 1) {
		struct liveness l;
		int64_t asked_ms;

		liveness_init(&l, watchdog_ms);
		liveness_serves(&l, 0);
		asked_ms = liveness_deadline(&l);
		ck_assert_int_ge(asked_ms, 1);
		ck_assert_int_le(asked_ms, LIVENESS_ASK_MS);
		ck_assert_int_eq(liveness_timer(&l, asked_ms), LIVENESS_ASK);
		ck_assert_int_eq(liveness_timer(&l, liveness_deadline(&l) - 1), LIVENESS_NOTHING);
		if (watchdog_ms >= 4)
			ck_assert_int_lt(liveness_deadline(&l), watchdog_ms);
		ck_assert_int_eq(liveness_timer(&l, liveness_deadline(&l)), LIVENESS_REPLACE);
	}
}
END_TEST

CHECK_MAIN("liveness", tcase_add_test(tc, it_is_asked_now_and_then_and_answers); tcase_add_test(tc, who_does_not_answer_is_replaced_once);
	tcase_add_test(tc, an_end_closes_the_question); tcase_add_test(tc, a_take_over_that_goes_on_feeds); tcase_add_test(tc, a_watchdog_makes_it_quicker));
