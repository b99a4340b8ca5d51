/* SPDX-License-Identifier: MIT
 *
 * The decision log: which decisions a life's steps contain, how they read, that any bytes are safe to read. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/supervise/decision.h"
#include "tests/support/check_main.h"

struct run {
	struct life l;
	struct life_policy p;
	struct decisions ds;
	struct decision_facts facts;
	int64_t now_ms;
};

static void step(struct run *r, enum life_event_type t, enum life_exit exit, bool keep)
{
	struct life_event ev = { .type = t, .now_ms = r->now_ms, .exit = exit, .keep_state = keep, .random = 0xffffffffu };
	struct life before = r->l;
	struct life_actions out;

	ck_assert_int_eq(life_step(&r->l, &r->p, &ev, &out), LIFE_TAKEN);
	decisions_step(&r->ds, &before, &r->l, &r->p, &ev, &out, &r->facts);
}

static void begin(struct run *r, enum life_restart restart)
{
	memset(r, 0, sizeof *r);
	r->p = life_policy_default();
	r->p.restart = restart;
	r->p.budget.intensity = 2;
	r->now_ms = 1000;
	r->facts = (struct decision_facts){ .wall_ms = 5, .generation = 7, .version = 3, .uptime_ms = 40, .what = "signal SIGSEGV" };
	life_init(&r->l);
	step(r, LIFE_CREATE_START, LIFE_EXIT_NORMAL, false);
	step(r, LIFE_BORN, LIFE_EXIT_NORMAL, false);
	step(r, LIFE_READY, LIFE_EXIT_NORMAL, false);
}

static void up(struct run *r)
{
	step(r, LIFE_BORN, LIFE_EXIT_NORMAL, false);
	step(r, LIFE_READY, LIFE_EXIT_NORMAL, false);
}

static void newest_is(const struct run *r, size_t back, enum decision_kind kind, const char *says)
{
	const struct decision *d = decisions_get(&r->ds, decisions_count(&r->ds) - 1 - back);
	char text[400];

	decision_text(d, text, sizeof text);
	ck_assert_msg(d->kind == kind, "%zu back: %s, not %s: %s", back, decision_kind_text((enum decision_kind)d->kind), decision_kind_text(kind), text);
	ck_assert_msg(strstr(text, says) != NULL, "'%s' doesn't say '%s'", text, says);
}

START_TEST(a_crash_and_its_restarts)
{
	static struct run r;

	begin(&r, LIFE_PERMANENT);
	newest_is(&r, 0, DECISION_READY, "Generation 7 is ready with version 3");
	newest_is(&r, 1, DECISION_BEGIN, "a fresh state");
	newest_is(&r, 2, DECISION_ASKED, "create");
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	newest_is(&r, 0, DECISION_BEGIN, "fresh");
	newest_is(&r, 1, DECISION_RESTART, "1 of 2 restarts within 60000 ms used");
	newest_is(&r, 1, DECISION_RESTART, "at once");
	newest_is(&r, 2, DECISION_ENDED, "signal SIGSEGV; class error");
	up(&r);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	newest_is(&r, 0, DECISION_RESTART, "back-off of 124 ms (24 ms of them by chance), restart 2 in a row. 2 of 2");
	step(&r, LIFE_TIMER, LIFE_EXIT_NORMAL, false);
	up(&r);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	newest_is(&r, 0, DECISION_GAVE_UP, "Restart 3 within 60000 ms is more than the 2 allowed (cause of the last: crashed)");
	step(&r, LIFE_RESET, LIFE_EXIT_NORMAL, false);
	newest_is(&r, 0, DECISION_RESET, "as new");
}
END_TEST

START_TEST(an_end_that_is_not_restarted)
{
	static struct run r;

	begin(&r, LIFE_TRANSIENT);
	step(&r, LIFE_EXITED, LIFE_EXIT_NORMAL, false);
	newest_is(&r, 0, DECISION_STAYS_DOWN, "transient, and the end was clean (normal): it stays down, stopped");
	decisions_fini(&r.ds);
	begin(&r, LIFE_TEMPORARY);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	newest_is(&r, 0, DECISION_STAYS_DOWN, "temporary, and the end was not clean (error): it stays down, failed");
}
END_TEST

START_TEST(starts_that_fail)
{
	static struct run r;

	begin(&r, LIFE_PERMANENT);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	step(&r, LIFE_BORN, LIFE_EXIT_NORMAL, false);
	step(&r, LIFE_TIMER, LIFE_EXIT_NORMAL, false);
	newest_is(&r, 0, DECISION_KILLED, "start_timeout of 10000 ms");
	step(&r, LIFE_EXITED, LIFE_EXIT_KILLED, false);
	newest_is(&r, 0, DECISION_RESTART, "2 of 2");
	newest_is(&r, 1, DECISION_START_FAILED, "start_timeout");
}
END_TEST

START_TEST(stops_that_take_too_long)
{
	static struct run r;
	char next[160];

	begin(&r, LIFE_PERMANENT);
	step(&r, LIFE_STOP, LIFE_EXIT_NORMAL, false);
	newest_is(&r, 0, DECISION_ASKED, "stop was asked for; its state is dropped");
	decision_next_text(&r.l, &r.p, r.now_ms + 1000, next, sizeof next);
	ck_assert_str_eq(next, "in 4000 ms it is killed unless it ends");
	step(&r, LIFE_TIMER, LIFE_EXIT_NORMAL, false);
	newest_is(&r, 0, DECISION_KILLED, "shutdown_deadline of 5000 ms");
	step(&r, LIFE_EXITED, LIFE_EXIT_KILLED, false);
	newest_is(&r, 0, DECISION_ENDED_ASKED, "while it was being stopped");
	decision_next_text(&r.l, &r.p, r.now_ms, next, sizeof next);
	ck_assert_str_eq(next, "");
}
END_TEST

/* A kept state that no start by policy gets over: after the second one it is set aside. */
START_TEST(a_state_that_nothing_starts_from)
{
	struct life_actions out;
	static struct run r;

	begin(&r, LIFE_PERMANENT);
	life_init(&r.l);
	life_boot(&r.l, &r.p, true, true, 0, r.now_ms, &out);
	ck_assert_int_eq(r.l.from, LIFE_FROM_KEPT);
	step(&r, LIFE_BORN, LIFE_EXIT_NORMAL, false);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	ck_assert_int_eq(r.l.from, LIFE_FROM_KEPT);
	step(&r, LIFE_BORN, LIFE_EXIT_NORMAL, false);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	ck_assert(!r.l.kept);
	newest_is(&r, 2, DECISION_SET_ASIDE, "ended 2 times");
	step(&r, LIFE_TIMER, LIFE_EXIT_NORMAL, false);
	ck_assert_int_eq(r.l.from, LIFE_FROM_FRESH);
	step(&r, LIFE_BORN, LIFE_EXIT_NORMAL, false);
	step(&r, LIFE_READY, LIFE_EXIT_NORMAL, false);
	ck_assert_int_eq(r.l.state, LIFE_RUNNING);
}
END_TEST

/* restart_state checkpoint: the state that it began with is what a restart by policy begins with. */
START_TEST(a_checkpoint_is_what_a_restart_begins_with)
{
	static struct run r;

	begin(&r, LIFE_PERMANENT);
	r.p.from_checkpoint = true;
	step(&r, LIFE_STOP, LIFE_EXIT_NORMAL, true);
	step(&r, LIFE_SAVE_DONE, LIFE_EXIT_NORMAL, false);
	step(&r, LIFE_EXITED, LIFE_EXIT_SHUTDOWN, false);
	step(&r, LIFE_START, LIFE_EXIT_NORMAL, true);
	up(&r);
	ck_assert(r.l.checkpoint && !r.l.kept);
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	ck_assert_int_eq(r.l.from, LIFE_FROM_KEPT);
	up(&r);
	step(&r, LIFE_RELOAD_BEGIN, LIFE_EXIT_NORMAL, false);
	step(&r, LIFE_RELOAD_END, LIFE_EXIT_NORMAL, false);
	ck_assert(r.l.checkpoint && !r.l.kept); /* a reload, well or not, doesn't take it away */
	step(&r, LIFE_EXITED, LIFE_EXIT_ERROR, false);
	step(&r, LIFE_TIMER, LIFE_EXIT_NORMAL, false);
	ck_assert_int_eq(r.l.from, LIFE_FROM_KEPT);
}
END_TEST

START_TEST(the_ring_is_bounded_and_in_order)
{
	struct decisions ds = { 0 };
	struct decision d = { .kind = DECISION_RESET };

	ck_assert_uint_eq(decisions_count(&ds), 0);
	for (int i = 0; i < LIMIT_DECISIONS * 3 + 5; i++) {
		d.at_ms = i;
		decisions_add(&ds, &d);
	}
	ck_assert_uint_eq(decisions_count(&ds), LIMIT_DECISIONS);
	for (size_t i = 0; i < LIMIT_DECISIONS; i++)
		ck_assert_int_eq(decisions_get(&ds, i)->at_ms, LIMIT_DECISIONS * 2 + 5 + (int)i);
	ds.n = 1999999999u;
	decisions_add(&ds, &d);
	ck_assert_ptr_eq(decisions_get(&ds, LIMIT_DECISIONS - 1), &ds.at[1999999999u % LIMIT_DECISIONS]);
	ck_assert_uint_lt(ds.n, 1000);
	decisions_fini(&ds);
}
END_TEST

START_TEST(any_bytes_can_be_read)
{
	struct decisions ds = { 0 };
	uint8_t bytes[DECISIONS_BYTES_MOST], again[DECISIONS_BYTES_MOST];
	char text[400];

	srand(7);
	for (int i = 0; i < 2000; i++) {
		size_t size = (size_t)rand() % (sizeof bytes + 1);

		for (size_t j = 0; j < sizeof bytes; j++)
			bytes[j] = (uint8_t)rand();
		bytes[1] = bytes[2] = bytes[3] = (uint8_t)(i % 4 ? 0 : rand());
		decisions_read(&ds, bytes, i % 2 ? size : sizeof bytes);
		ck_assert_uint_le(decisions_write(&ds, again), sizeof again);
		for (size_t j = 0; j < decisions_count(&ds); j++) {
			decision_text(decisions_get(&ds, j), text, sizeof text);
			ck_assert_uint_lt(strlen(text), sizeof text);
			for (const char *at = text; *at; at++)
				ck_assert_msg(*at >= ' ' && *at <= '~', "a byte %d", *at);
		}
	}
	decisions_fini(&ds);
}
END_TEST

START_TEST(every_kind_has_a_sentence)
{
	for (int k = DECISION_NONE + 1; k < DECISION__N; k++) {
		struct decision d = { .kind = (uint8_t)k };
		char text[400], small[8];

		decision_text(&d, text, sizeof text);
		ck_assert_msg(strlen(text) > 10, "kind %d", k);
		ck_assert_ptr_nonnull(decision_kind_text((enum decision_kind)k));
		decision_text(&d, small, sizeof small);
		ck_assert_uint_lt(strlen(small), sizeof small);
	}
	ck_assert_str_eq(decision_kind_text(DECISION__N), "unknown");
}
END_TEST

CHECK_MAIN("decision", tcase_add_test(tc, a_crash_and_its_restarts); tcase_add_test(tc, an_end_that_is_not_restarted);
	   tcase_add_test(tc, starts_that_fail); tcase_add_test(tc, stops_that_take_too_long); tcase_add_test(tc, a_state_that_nothing_starts_from);
	   tcase_add_test(tc, a_checkpoint_is_what_a_restart_begins_with); tcase_add_test(tc, the_ring_is_bounded_and_in_order);
	   tcase_add_test(tc, any_bytes_can_be_read); tcase_add_test(tc, every_kind_has_a_sentence);)
