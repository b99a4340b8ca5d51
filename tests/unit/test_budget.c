/* SPDX-License-Identifier: MIT
 *
 * The restart budget: the window's two inclusive bounds to the millisecond, the back-off, hostile bytes, a
 * comparison with a slow model on random schedules, and bugs put in that the tests must find. */
#include <stdlib.h>
#include <string.h>

static int seeded;
#define SEEDED(bug) (seeded == (bug))
#include "daemon/supervise/budget.c"

#include "tests/support/check_main.h"

static const struct budget_policy policy = {
	.intensity = 5, .period_ms = 60000, .backoff_first_ms = 100, .backoff_max_ms = 30000
};

static const char *window_is_exact(void)
{
	struct budget b;
	uint32_t delay_ms;
	int i;

	budget_clear(&b);
	for (i = 0; i < 5; i++)
		if (!budget_charge(&b, &policy, 1000 + i, &delay_ms))
			return "one of the first five is refused";
	if (budget_charge(&b, &policy, 1000 + 60000, &delay_ms))
		return "the sixth, just period_ms after the first, is allowed";
	budget_clear(&b);
	for (i = 0; i < 5; i++)
		(void)budget_charge(&b, &policy, 1000, &delay_ms);
	if (!budget_charge(&b, &policy, 1000 + 60001, &delay_ms))
		return "the sixth, period_ms + 1 after the others, is refused";
	return NULL;
}

static const char *backoff_is_right(void)
{
	static const uint32_t want_ms[] = { 0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000,
		30000 };
	struct budget_policy p = policy;
	struct budget b;
	uint32_t delay_ms, i;

	p.intensity = 100;
	budget_clear(&b);
	for (i = 0; i < sizeof want_ms / sizeof want_ms[0]; i++)
		if (!budget_charge(&b, &p, i, &delay_ms) || delay_ms != want_ms[i])
			return "a delay is wrong";
	budget_uptime(&b, &p, 59999);
	if (!budget_charge(&b, &p, 100, &delay_ms) || delay_ms != 30000)
		return "an uptime below the period ends the streak";
	budget_uptime(&b, &p, 60000);
	if (!budget_charge(&b, &p, 100, &delay_ms) || delay_ms != 0)
		return "a stable uptime doesn't end the streak";
	p.backoff_first_ms = 0;
	if (!budget_charge(&b, &p, 100, &delay_ms) || delay_ms != 0)
		return "no back-off was asked for";
	b.streak = UINT32_MAX;
	p.backoff_first_ms = 1;
	p.backoff_max_ms = UINT32_MAX;
	if (!budget_charge(&b, &p, 100, &delay_ms) || delay_ms != UINT32_MAX || b.streak != UINT32_MAX)
		return "the largest streak goes over";
	return NULL;
}

/* Random schedules beside the plainest model: all times in a list, count those in the window. */
static const char *model_agrees(unsigned seed)
{
	static int64_t all_ms[4000];
	struct budget_policy p = {
		.intensity = seed % 7, .period_ms = 1 + seed % 50, .backoff_first_ms = 1, .backoff_max_ms = 4
	};
	struct budget b;
	int64_t now_ms = seed;
	uint32_t delay_ms;
	int n = 0, i, in_window;

	budget_clear(&b);
	while (n < 4000) {
		now_ms += rand_r(&seed) % 12;
		all_ms[n++] = now_ms;
		for (in_window = 0, i = n - 1; i >= 0 && all_ms[i] >= now_ms - p.period_ms; i--)
			in_window++;
		if (budget_charge(&b, &p, now_ms, &delay_ms) != (in_window <= (int)p.intensity))
			return "the model says otherwise";
		if (budget_view(&b, &p, now_ms).used != (uint32_t)(in_window < 101 ? in_window : 101))
			return "the view says otherwise";
	}
	return NULL;
}

/* Beside a clock of its own that stops with the window. */
static const char *standing_is_no_time(unsigned seed)
{
	struct budget_policy p = { .intensity = 3, .period_ms = 40 };
	struct budget b, plain;
	int64_t now_ms = 1000, inner_ms = 1000;
	uint32_t delay_ms, plain_delay_ms;
	bool stands = false;

	budget_clear(&b);
	budget_clear(&plain);
	for (int i = 0; i < 500; i++) {
		int64_t by_ms = rand_r(&seed) % 30;

		now_ms += by_ms;
		inner_ms += stands ? 0 : by_ms;
		if (rand_r(&seed) % 2) {
			stands = rand_r(&seed) % 2;
			(stands ? budget_stand : budget_go_on)(&b, now_ms);
		}
		if (rand_r(&seed) % 3 == 0 && budget_charge(&b, &p, now_ms, &delay_ms) != budget_charge(&plain, &p, inner_ms, &plain_delay_ms))
			return "a charge, and the window stands at times";
		if (budget_view(&b, &p, now_ms).used != budget_view(&plain, &p, inner_ms).used ||
			budget_view(&b, &p, now_ms).frees_ms != budget_view(&plain, &p, inner_ms).frees_ms)
			return "the view, and the window stands at times";
	}
	return NULL;
}

static const char *jitter_is_bounded(void)
{
	static const uint32_t delays_ms[] = { 0, 1, 3, 4, 100, 30000, UINT32_MAX };

	for (size_t i = 0; i < sizeof delays_ms / sizeof delays_ms[0]; i++) {
		uint32_t quarter = delays_ms[i] / 4, half_way = budget_jitter_ms(delays_ms[i], 0x80000000u);

		if (budget_jitter_ms(delays_ms[i], 0) != 0 || budget_jitter_ms(delays_ms[i], UINT32_MAX) > quarter ||
			(quarter > 0 && budget_jitter_ms(delays_ms[i], UINT32_MAX) < quarter - 1) || half_way != quarter / 2)
			return "the jitter";
	}
	return NULL;
}

static const char *any_wrong(void)
{
	const char *wrong = window_is_exact();
	unsigned seed;

	if (wrong == NULL)
		wrong = backoff_is_right();
	if (wrong == NULL)
		wrong = jitter_is_bounded();
	for (seed = 1; seed < 200 && wrong == NULL; seed++)
		wrong = model_agrees(seed);
	for (seed = 1; seed < 200 && wrong == NULL; seed++)
		wrong = standing_is_no_time(seed);
	return wrong;
}

START_TEST(window_backoff_and_model)
{
	const char *wrong = any_wrong();

	ck_assert_msg(wrong == NULL, "%s", wrong);
}
END_TEST

START_TEST(seeded_bugs_are_found)
{
	for (seeded = 1; seeded <= 6; seeded++)
		ck_assert_msg(any_wrong() != NULL, "bug %d is not found", seeded);
	seeded = 0;
}
END_TEST

START_TEST(intensity_zero_allows_none)
{
	struct budget_policy p = policy;
	struct budget b;
	uint32_t delay_ms;

	p.intensity = 0;
	budget_clear(&b);
	ck_assert(!budget_charge(&b, &p, 5, &delay_ms));
}
END_TEST

START_TEST(view_says_what_is_used_and_when_it_resets)
{
	struct budget b;
	struct budget_view v;
	uint32_t delay_ms;

	budget_clear(&b);
	v = budget_view(&b, &policy, 7);
	ck_assert_uint_eq(v.used, 0);
	ck_assert_uint_eq(v.allowed, 5);
	ck_assert_int_eq(v.resets_ms, 0);
	ck_assert(budget_charge(&b, &policy, 1000, &delay_ms));
	ck_assert(budget_charge(&b, &policy, 20000, &delay_ms));
	v = budget_view(&b, &policy, 21000);
	ck_assert_uint_eq(v.used, 2);
	ck_assert_int_eq(v.frees_ms, 40001);
	ck_assert_int_eq(v.resets_ms, 59001);
	v = budget_view(&b, &policy, 21000 + 40001);
	ck_assert_uint_eq(v.used, 1);
	v = budget_view(&b, &policy, 21000 + 59000);
	ck_assert_uint_eq(v.used, 1);
	v = budget_view(&b, &policy, 21000 + 59001);
	ck_assert_uint_eq(v.used, 0);
}
END_TEST

START_TEST(bytes_from_a_spec_are_made_safe)
{
	struct budget b;
	uint32_t delay_ms, i, j;
	unsigned seed = 99;

	for (i = 0; i < 2000; i++) {
		for (j = 0; j < sizeof b; j++)
			((unsigned char *)&b)[j] = (unsigned char)rand_r(&seed);
		if (i % 2)
			b.n %= BUDGET_INTENSITY_MAX + 2;
		budget_sanitise(&b, 1000000);
		ck_assert(b.still_ms >= 0 && b.still_ms <= 1000000);
		ck_assert_uint_le(b.n, BUDGET_INTENSITY_MAX + 1);
		for (j = 0; j < b.n; j++)
			ck_assert(b.at_ms[j] <= 1000000 && b.at_ms[j] >= (j ? b.at_ms[j - 1] : 0));
		for (j = 0; j < 300; j++)
			(void)budget_charge(&b, &policy, 1000000 + j, &delay_ms);
	}
	budget_clear(&b);
	for (j = 0; j < 5; j++)
		ck_assert(budget_charge(&b, &policy, 10 + j, &delay_ms));
	budget_sanitise(&b, 14);
	ck_assert_uint_eq(b.n, 5); /* good bytes stay */
}
END_TEST

START_TEST(a_clock_that_goes_back_does_no_harm)
{
	struct budget b;
	uint32_t delay_ms;

	budget_clear(&b);
	ck_assert(budget_charge(&b, &policy, 1000, &delay_ms));
	ck_assert(budget_charge(&b, &policy, 10, &delay_ms));
	ck_assert_int_eq(b.at_ms[1], 1000);
}
END_TEST

CHECK_MAIN("budget", tcase_add_test(tc, window_backoff_and_model); tcase_add_test(tc, seeded_bugs_are_found);
	   tcase_add_test(tc, intensity_zero_allows_none);
	   tcase_add_test(tc, view_says_what_is_used_and_when_it_resets);
	   tcase_add_test(tc, bytes_from_a_spec_are_made_safe);
	   tcase_add_test(tc, a_clock_that_goes_back_does_no_harm);)
