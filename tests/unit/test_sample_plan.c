/* SPDX-License-Identifier: MIT
 *
 * When sandboxes are looked at, and which crossings are told: by hand, and random schedules beside what must always hold. */
#include <stdlib.h>

#include "daemon/sandbox/sample_plan.h"

#include "tests/support/check_main.h"

#define ITEMS 200

START_TEST(each_crossing_is_told_once)
{
	static const struct {
		uint64_t percent;
		enum sample_tell told;
	} steps[] = { { 0, SAMPLE_TELL_NOTHING }, { 79, SAMPLE_TELL_NOTHING }, { 80, SAMPLE_TELL_WARNING }, { 85, SAMPLE_TELL_NOTHING }, { 99, SAMPLE_TELL_NOTHING },
		{ 75, SAMPLE_TELL_NOTHING }, { 81, SAMPLE_TELL_NOTHING }, { 70, SAMPLE_TELL_NOTHING }, { 90, SAMPLE_TELL_NOTHING }, { 100, SAMPLE_TELL_EXCEEDED },
		{ 250, SAMPLE_TELL_NOTHING }, { 90, SAMPLE_TELL_NOTHING }, { 100, SAMPLE_TELL_NOTHING }, { 69, SAMPLE_TELL_NOTHING }, { 100, SAMPLE_TELL_EXCEEDED },
		{ 80, SAMPLE_TELL_NOTHING }, { 0, SAMPLE_TELL_NOTHING }, { 80, SAMPLE_TELL_WARNING }, { UINT64_MAX, SAMPLE_TELL_EXCEEDED } };
	struct sample_told t = { 0 };

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		ck_assert_int_eq(sample_cross(&t, SAMPLE_QUEUE, steps[i].percent), steps[i].told);
	/* The others are apart. */
	for (int of = 0; of < SAMPLE_OF__N; of++)
		ck_assert_int_eq(sample_cross(&t, (enum sample_of)of, 80), of == SAMPLE_QUEUE ? SAMPLE_TELL_NOTHING : SAMPLE_TELL_WARNING);
}
END_TEST

START_TEST(percents)
{
	ck_assert_uint_eq(sample_percent(0, 5), 0);
	ck_assert_uint_eq(sample_percent(4, 5), 80);
	ck_assert_uint_eq(sample_percent(799, 1000), 79);
	ck_assert_uint_eq(sample_percent(5, 0), 0);
	ck_assert_uint_eq(sample_percent(UINT64_MAX, UINT64_MAX), 100);
	ck_assert_uint_eq(sample_percent(1ull << 62, 1ull << 61), 200);
}
END_TEST

START_TEST(idle_ones_are_looked_at_rarely)
{
	uint32_t ms = 0, n = 0;

	ms = sample_next_ms(ms, false);
	ck_assert_uint_eq(ms, SAMPLE_SOON_MS);
	for (; ms < SAMPLE_RARE_MS; n++) {
		uint32_t next = sample_next_ms(ms, false);

		ck_assert_uint_gt(next, ms);
		ms = next;
	}
	ck_assert_uint_le(n, 5);
	ck_assert_uint_eq(sample_next_ms(ms, false), SAMPLE_RARE_MS);
	ck_assert_uint_eq(sample_next_ms(ms, true), SAMPLE_SOON_MS);
	ck_assert_uint_eq(sample_next_ms(UINT32_MAX, false), SAMPLE_RARE_MS);
}
END_TEST

/* Each comes out at its tick or, where nobody took it then, later; never before, never twice, and none is lost. */
START_TEST(random_schedules)
{
	static struct sample_item items[ITEMS];
	static uint64_t due[ITEMS];
	struct sample_wheel w = { .n = 0 };
	uint64_t tick = 0;
	uint32_t n = 0;

	for (int step = 0; step < 200000; step++) {
		size_t i = (size_t)rand() % ITEMS;
		struct sample_item *out;
		uint32_t ticks;

		switch (rand() % 4) {
		case 0:
			ticks = (uint32_t)rand() % (SAMPLE_SLOTS - 1) + 1;
			n += !sample_waits(&items[i]);
			sample_put(&w, &items[i], ticks * SAMPLE_TICK_MS - (uint32_t)rand() % SAMPLE_TICK_MS);
			due[i] = tick + ticks;
			break;
		case 1:
			n -= sample_waits(&items[i]);
			sample_remove(&w, &items[i]);
			ck_assert(!sample_waits(&items[i]));
			break;
		case 2:
			if (w.n > 0) {
				uint64_t first = UINT64_MAX;

				for (size_t k = 0; k < ITEMS; k++)
					if (sample_waits(&items[k]) && due[k] < first)
						first = due[k];
				ck_assert_uint_eq(sample_idle_ticks(&w), first > tick ? first - tick : 0);
			}
			sample_advance(&w);
			tick++;
			break;
		default:
			out = sample_take(&w);
			if (!out) {
				for (size_t k = 0; k < ITEMS; k++)
					ck_assert(!sample_waits(&items[k]) || due[k] > tick);
				break;
			}
			n--;
			ck_assert_uint_le(due[out - items], tick);
			ck_assert(!sample_waits(out));
		}
		ck_assert_uint_eq(w.n, n);
	}
}
END_TEST

START_TEST(what_is_too_far_is_looked_at_before)
{
	struct sample_item i = { 0 };
	struct sample_wheel w = { .n = 0 };

	sample_put(&w, &i, UINT32_MAX - SAMPLE_TICK_MS);
	ck_assert_uint_eq(sample_idle_ticks(&w), SAMPLE_SLOTS - 1);
	sample_put(&w, &i, 0);
	ck_assert_uint_eq(sample_idle_ticks(&w), 1);
	ck_assert_ptr_null(sample_take(&w));
	sample_advance(&w);
	ck_assert_ptr_eq(sample_take(&w), &i);
	sample_remove(&w, &i);
	ck_assert_uint_eq(w.n, 0);
}
END_TEST

CHECK_MAIN("sample_plan", tcase_add_test(tc, each_crossing_is_told_once); tcase_add_test(tc, percents); tcase_add_test(tc, idle_ones_are_looked_at_rarely);
	tcase_add_test(tc, random_schedules); tcase_add_test(tc, what_is_too_far_is_looked_at_before))
