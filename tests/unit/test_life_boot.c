/* SPDX-License-Identifier: MIT
 *
 * A life after a restart of the machine: what is wanted starts, uncounted; what is down stays down as it was; any bytes will do. */
#include "tests/support/check_main.h"

#include <string.h>

#include "daemon/supervise/life.h"

static struct life life_in(enum life_state state)
{
	struct life l;

	life_init(&l);
	l.state = state;
	l.restarts = 3;
	return l;
}

static void step(struct life *l, const struct life_policy *p, enum life_event_type type, struct life_actions *a)
{
	const struct life_event ev = { .type = type, .now_ms = 5000, .keep_state = true };

	ck_assert_int_eq(life_step(l, p, &ev, a), LIFE_TAKEN);
}

START_TEST(wanted_starts_uncounted)
{
	struct life_policy p = life_policy_default();

	for (int state = 0; state < LIFE__N; state++) {
		for (int has_state = 0; has_state < 2; has_state++) {
			struct life l = life_in((enum life_state)state);
			struct life_actions a;

			l.budget.n = 2;
			l.budget.at_ms[0] = l.budget.at_ms[1] = 900;
			l.pending = LIFE_REQUEST_STOP;
			l.creating = 1;
			life_boot(&l, &p, true, has_state, 0, 1000, &a);
			ck_assert_int_eq(l.state, LIFE_STARTING);
			ck_assert_uint_eq(a.set & (LIFE_DO_BEGIN_START | LIFE_DO_SET_TIMER), LIFE_DO_BEGIN_START | LIFE_DO_SET_TIMER);
			ck_assert_uint_eq(a.set & (LIFE_DO_ANSWER | LIFE_DO_NOTE_RESTART | LIFE_DO_GONE), 0);
			ck_assert_int_eq(a.from, has_state ? LIFE_FROM_KEPT : LIFE_FROM_FRESH);
			ck_assert_uint_eq(l.restarts, 3);
			ck_assert_uint_eq(l.budget.n, 0);
			ck_assert_uint_eq(l.creating, 0);
			step(&l, &p, LIFE_BORN, &a);
			step(&l, &p, LIFE_READY, &a);
			ck_assert_int_eq(l.state, LIFE_RUNNING);
			ck_assert_uint_eq(!!(a.set & LIFE_DO_DROP_STATE), has_state);
			ck_assert_uint_eq(a.set & LIFE_DO_ANSWER, 0);
		}
	}
}
END_TEST

START_TEST(its_turn_comes_later)
{
	struct life_policy p = life_policy_default();
	struct life l = life_in(LIFE_RUNNING);
	struct life_actions a;

	life_boot(&l, &p, true, true, 250, 1000, &a);
	ck_assert_int_eq(l.state, LIFE_BACKOFF);
	ck_assert_uint_eq(a.set, LIFE_DO_SET_TIMER);
	ck_assert_uint_eq(a.timer_ms, 250);
	ck_assert(life_takes_calls(&l));
	step(&l, &p, LIFE_TIMER, &a);
	ck_assert_int_eq(l.state, LIFE_STARTING);
	ck_assert_int_eq(a.from, LIFE_FROM_KEPT);
	ck_assert_uint_eq(l.restarts, 3);
	/* a stop takes its turn away, and keeps the state */
	l = life_in(LIFE_RUNNING);
	life_boot(&l, &p, true, true, 250, 1000, &a);
	step(&l, &p, LIFE_STOP, &a);
	ck_assert_int_eq(l.state, LIFE_STOPPED);
	ck_assert_uint_eq(l.kept, 1);
	ck_assert(a.ok);
}
END_TEST

START_TEST(down_stays_down)
{
	struct life_policy p = life_policy_default();
	struct life_actions a;

	for (int kept = 0; kept < 2; kept++) {
		struct life l = life_in(LIFE_STOPPED);

		l.kept = (uint8_t)kept;
		life_boot(&l, &p, false, true, 0, 1000, &a);
		ck_assert_int_eq(l.state, LIFE_STOPPED);
		ck_assert_uint_eq(a.set, 0);
		ck_assert_uint_eq(l.kept, (unsigned)kept); /* an older stop's state isn't what it would have now */
		step(&l, &p, LIFE_START, &a);
		ck_assert_int_eq(a.from, kept ? LIFE_FROM_KEPT : LIFE_FROM_FRESH);
		l = life_in(LIFE_FAILED);
		l.reason = LIFE_REASON_GAVE_UP;
		life_boot(&l, &p, false, false, 0, 1000, &a);
		ck_assert_int_eq(l.state, LIFE_FAILED);
		ck_assert_int_eq(l.reason, LIFE_REASON_GAVE_UP);
		ck_assert_uint_eq(a.set, 0);
	}
	/* its bytes could not be read: the row says that there is a state */
	for (int state = 0; state < LIFE__N; state++) {
		struct life l = life_in((enum life_state)state);

		if (state == LIFE_STOPPED || state == LIFE_FAILED)
			continue;
		life_boot(&l, &p, false, true, 0, 1000, &a);
		ck_assert_int_eq(l.state, LIFE_STOPPED);
		ck_assert_uint_eq(l.kept, 1);
	}
}
END_TEST

START_TEST(any_bytes)
{
	struct life_policy p = life_policy_default();
	unsigned seed = 12345;

	for (int i = 0; i < 20000; i++) {
		struct life l;
		struct life_actions a;
		unsigned char *bytes = (unsigned char *)&l;

		for (size_t j = 0; j < sizeof l; j++)
			bytes[j] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
		life_boot(&l, &p, i % 2, i % 3 == 0, i % 5 ? 0 : 100, 1000, &a);
		ck_assert_int_eq(l.state == LIFE_STARTING || l.state == LIFE_BACKOFF, i % 2);
		ck_assert(l.kept <= 1 && (!l.kept || i % 3 == 0));
		ck_assert_int_eq(l.pending, LIFE_NO_REQUEST);
	}
}
END_TEST

CHECK_MAIN("life_boot", tcase_add_test(tc, wanted_starts_uncounted); tcase_add_test(tc, its_turn_comes_later);
	tcase_add_test(tc, down_stays_down); tcase_add_test(tc, any_bytes);)
