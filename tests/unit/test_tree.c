/* SPDX-License-Identifier: MIT
 *
 * Supervision trees in their asynchronous form: directed cases, each difference from OTP by itself, limits; and small trees through
 * every order of what can happen, beside an engine that notes broken rules (tests/support/tree_world.h). Whether the rules are OTP's is
 * asked of OTP itself: make check-otp. */
#include <stddef.h>

#include "tests/support/tree_world.h"

#include "tests/support/check_main.h"

#define SPEC_LEAF_MS(name, ms, ...) { .id = name, .type = TREE_LEAF, .shutdown_ms = ms, __VA_ARGS__ }
#define SPEC_LEAF(name, ...)        SPEC_LEAF_MS(name, 5000, __VA_ARGS__)
#define SPEC_GROUP(name, kids, most, ...)                                                                          \
	{ .id = name, .type = TREE_GROUP, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .intensity = most, .period_ms = 5000, .children = kids, \
		.n_children = sizeof(kids) / sizeof *(kids), __VA_ARGS__ }
#define RIGHT(w) ck_assert_str_eq((w)->wrong, "")
#define HAPPENED(w, text) ck_assert_str_eq((w)->log, text)

static const struct tree_rules otp;
static const struct tree_rules ours = { .keep_failed = true, .exact_ms = true, .cut = true, .answer_at_once = true, .backoff_first_ms = 100,
	.backoff_max_ms = 30000 };

static struct world *world_new(const struct tree_spec *top, const struct tree_rules *rules)
{
	static struct world w;
	struct err e = ERR_INIT;

	memset(w.rows, 0, w.n_rows * sizeof *w.rows);
	memset(&w, 0, offsetof(struct world, rows));
	w.now_ms = 1000000;
	ck_assert_msg(tree_new(top, rules, &w.tree, &e) == 0, "%s", e.text);
	return &w;
}

static void come_up(struct world *w, const char *const *ids, size_t n)
{
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_START }), TREE_TAKEN);
	for (size_t i = 0; i < n; i++)
		world_ready(w, ids[i]);
	ck_assert(w->up);
	RIGHT(w);
}

static enum tree_state state_of(const struct world *w, const char *group, const char *id)
{
	for (const struct tree_node *n = tree_child_first(tree_find_group(w->tree, group)); n; n = tree_child_next(n))
		if (strcmp(tree_view(n).id, id) == 0)
			return tree_view(n).state;
	return TREE_STATE__N;
}

static const char *const abc[] = { "a", "b", "c" };
static const struct tree_spec three[] = { SPEC_LEAF("a"), SPEC_LEAF("b"), SPEC_LEAF("c") };

/* ---- the asynchronous form ---- */

START_TEST(test_crash_and_restart)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 3, .strategy = TREE_REST_FOR_ONE);
	struct world *w = world_new(&top, &otp);

	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_START }), TREE_TAKEN);
	HAPPENED(w, "start top;start a;"); /* b waits until a is ready */
	world_ready(w, "a");
	HAPPENED(w, "started a;start b;");
	world_ready(w, "b");
	world_ready(w, "c");
	HAPPENED(w, "started c;started top;up top;");
	world_exit(w, "b", TREE_EXIT_ERROR);
	HAPPENED(w, "exited b;counted b;stop c;timer;");
	ck_assert_int_eq(w->timer_ms, w->now_ms + 5000);
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	HAPPENED(w, "stopped c;start b;timer;");
	ck_assert_int_eq(w->timer_ms, 0);
	world_ready(w, "b");
	world_ready(w, "c");
	HAPPENED(w, "started c;");
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_deadline)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 3, .strategy = TREE_ONE_FOR_ALL);
	struct world *w = world_new(&top, &otp);

	come_up(w, abc, 3);
	world_exit(w, "a", TREE_EXIT_KILLED);
	w->now_ms += 4999;
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_TIMER }), TREE_TAKEN); /* too early */
	HAPPENED(w, "timer;");
	world_timer(w);
	HAPPENED(w, "kill c;");
	world_exit(w, "c", TREE_EXIT_KILLED);
	HAPPENED(w, "stopped c;stop_error c;stop b;timer;");
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	HAPPENED(w, "stopped b;start a;timer;");
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_what_isnt_the_present_instance)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 3);
	struct world *w = world_new(&top, &otp);
	struct tree_ref old, none = { 0 };

	come_up(w, abc, 3);
	old = world_row(w, "b")->ref;
	world_exit(w, "b", TREE_EXIT_ERROR);
	for (int type = TREE_BEGUN; type <= TREE_EXITED; type++) {
		ck_assert_int_eq(world_step(w, (struct tree_event){ .type = (enum tree_event_type)type, .ref = old }), TREE_IGNORED_EVENT);
		HAPPENED(w, "");
		ck_assert_int_eq(world_step(w, (struct tree_event){ .type = (enum tree_event_type)type, .ref = none }), TREE_IGNORED_EVENT);
		ck_assert_int_eq(world_step(w, (struct tree_event){ .type = (enum tree_event_type)type, .ref = { 1u << 30, 1 } }), TREE_IGNORED_EVENT);
	}
	world_ready(w, "b");
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_READY, .ref = world_row(w, "b")->ref }), TREE_IGNORED_EVENT);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_FAILED, .ref = world_row(w, "b")->ref }), TREE_IGNORED_EVENT);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_BEGUN, .ref = world_row(w, "b")->ref }), TREE_IGNORED_EVENT);
	HAPPENED(w, "");
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_exit_before_ready_is_a_failed_start)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 3);
	struct world *w = world_new(&top, &otp);

	come_up(w, abc, 3);
	world_exit(w, "b", TREE_EXIT_ERROR);
	world_exit(w, "b", TREE_EXIT_ERROR);
	HAPPENED(w, "start_failed b;retry b;counted b;start b;");
	world_failed(w, "b");
	HAPPENED(w, "start_failed b;retry b;counted b;start b;");
	world_failed(w, "b"); /* the fourth within the period */
	HAPPENED(w, "start_failed b;retry b;counted b;gave_up top;ending top;stop c;timer;");
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	world_exit(w, "a", TREE_EXIT_SHUTDOWN);
	HAPPENED(w, "stopped a;down top;timer;");
	ck_assert(w->down && !w->failed);
	ck_assert_int_eq(tree_root_state(w->tree), TREE_ROOT_DOWN);
	world_end(w);
	RIGHT(w);
}
END_TEST

/* An instant failure must not hold the loop: the retry follows in the same step as its start only as an action. */
START_TEST(test_many_children_take_turns)
{
	static struct tree_spec kids[LIMIT_GROUP_CHILDREN];
	static char ids[LIMIT_GROUP_CHILDREN][8];
	struct tree_spec top = SPEC_GROUP("top", kids, 1);
	struct world *w;

	for (unsigned i = 0; i < LIMIT_GROUP_CHILDREN; i++) {
		(void)snprintf(ids[i], sizeof ids[i], "k%u", i);
		kids[i] = (struct tree_spec){ .id = ids[i], .shutdown_ms = 0 };
	}
	w = world_new(&top, &otp);
	(void)world_step(w, (struct tree_event){ .type = TREE_START });
	for (unsigned i = 0; i < LIMIT_GROUP_CHILDREN; i++)
		world_ready(w, ids[i]);
	ck_assert(w->up);
	world_ask(w, TREE_ASK_COUNT, NULL, NULL, NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_COUNT);
	ck_assert_uint_eq(tree_count(tree_top(w->tree)).active, LIMIT_GROUP_CHILDREN);
	for (unsigned i = 0; i < LIMIT_GROUP_CHILDREN; i++) /* all have died before the first is looked at */
		world_exit(w, ids[i], i == 0 ? TREE_EXIT_ERROR : TREE_EXIT_SHUTDOWN);
	RIGHT(w);
	world_end(w);
}
END_TEST

START_TEST(test_work_of_a_step_is_bounded)
{
	static struct tree_spec kids[LIMIT_GROUP_CHILDREN];
	static char ids[LIMIT_GROUP_CHILDREN][8];
	struct tree_spec top = SPEC_GROUP("top", kids, 3, .strategy = TREE_ONE_FOR_ALL);
	struct tree_event ev = { .type = TREE_START, .now_ms = 1 };
	static struct tree_actions out;
	struct tree *t = NULL;
	unsigned steps = 0;

	for (unsigned i = 0; i < LIMIT_GROUP_CHILDREN; i++) {
		(void)snprintf(ids[i], sizeof ids[i], "g%u", i);
		kids[i] = (struct tree_spec){ .id = ids[i], .type = TREE_GROUP, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .period_ms = 1000 };
	}
	ck_assert_int_eq(tree_new(&top, &otp, &t, NULL), 0); /* groups without children come up by themselves */
	do {
		(void)tree_step(t, &ev, &out);
		ck_assert_uint_lt(out.n, TREE_ACTIONS_MAX);
		ev.type = TREE_TURN;
		steps++;
	} while (out.more);
	ck_assert_int_eq(tree_root_state(t), TREE_ROOT_UP);
	ck_assert_uint_gt(steps, 2 * LIMIT_GROUP_CHILDREN / LIMIT_TREE_TURN);
	tree_free(t, NULL);
}
END_TEST

/* ---- the differences, each by itself ---- */

START_TEST(test_keep_failed)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 0);
	struct tree_rules r = { .keep_failed = true };
	struct world *w = world_new(&top, &r);

	come_up(w, abc, 3);
	world_exit(w, "a", TREE_EXIT_ERROR);
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	ck_assert(w->failed);
	ck_assert_int_eq(tree_root_state(w->tree), TREE_ROOT_FAILED);
	ck_assert_int_eq(tree_root_why(w->tree), TREE_WHY_INTENSITY);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_STOP }), TREE_REFUSED);
	world_ask(w, TREE_ASK_WHICH, "top", NULL, NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_DOWN);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_RESET }), TREE_TAKEN);
	ck_assert_int_eq(tree_root_state(w->tree), TREE_ROOT_DOWN);
	come_up(w, abc, 3);
	ck_assert_uint_eq(tree_budget(w->tree, tree_top(w->tree), w->now_ms).used, 0);
	(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	world_exit(w, "a", TREE_EXIT_SHUTDOWN);
	ck_assert(w->down && !w->failed);
	(void)world_step(w, (struct tree_event){ .type = TREE_START });
	world_ready(w, "a");
	world_failed(w, "b"); /* the first start fails: failed, too */
	world_exit(w, "a", TREE_EXIT_SHUTDOWN);
	ck_assert(w->failed);
	ck_assert_int_eq(tree_root_why(w->tree), TREE_WHY_START_FAILED);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_START }), TREE_TAKEN);
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_a_transient_group_that_gave_up_is_shown)
{
	const struct tree_spec leaf[] = { SPEC_LEAF("x") };
	const struct tree_spec kids[] = { SPEC_GROUP("g", leaf, 0, .restart = TREE_TRANSIENT) };
	const struct tree_spec top = SPEC_GROUP("top", kids, 3);
	static const char *const x[] = { "x" };
	struct tree_rules r = { 0 };
	struct world *w;

	for (int keep = 0; keep < 2; keep++) {
		r.keep_failed = keep;
		w = world_new(&top, &r);
		come_up(w, x, 1);
		world_exit(w, "x", TREE_EXIT_ERROR);
		ck_assert_int_eq(state_of(w, "top", "g"), keep ? TREE_STATE_FAILED : TREE_UNDEFINED);
		world_ask(w, TREE_ASK_RESTART, "top", "g", NULL);
		world_ready(w, "x");
		ck_assert_int_eq(w->last_reply, TREE_REPLY_OK);
		ck_assert_int_eq(state_of(w, "top", "g"), TREE_RUNNING);
		world_end(w);
		RIGHT(w);
	}
}
END_TEST

START_TEST(test_windows)
{
	static const struct {
		bool exact;
		int64_t from_ms, distance_ms;
		bool together;
	} rows[] = { { true, 1000, 5000, true }, { true, 1000, 5001, false }, { true, 1999, 5001, false }, { false, 1000, 5001, true },
		{ false, 1000, 5999, true }, { false, 1000, 6000, false }, { false, 1999, 5000, true }, { false, 1999, 5001, false }, { false, 1500, 5500, false } };
	const struct tree_spec top = SPEC_GROUP("top", three, 1);
	struct tree_rules r = { 0 };
	struct world *w;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		r.exact_ms = rows[i].exact;
		w = world_new(&top, &r);
		come_up(w, abc, 3);
		w->now_ms = rows[i].from_ms + 2000000;
		world_exit(w, "a", TREE_EXIT_ERROR);
		world_ready(w, "a");
		ck_assert_uint_eq(tree_budget(w->tree, tree_top(w->tree), w->now_ms).used, 1);
		w->now_ms += rows[i].distance_ms;
		world_exit(w, "a", TREE_EXIT_ERROR);
		ck_assert_msg((strstr(w->log, "gave_up") != NULL) == rows[i].together, "row %zu: %s", i, w->log);
		world_end(w);
		RIGHT(w);
	}
}
END_TEST

START_TEST(test_backoff)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 20, .strategy = TREE_ONE_FOR_ALL);
	struct tree_rules r = { .backoff_first_ms = 100, .backoff_max_ms = 500 };
	static const int64_t delays[] = { 0, 100, 200, 400, 500, 500 };
	struct world *w = world_new(&top, &r);

	come_up(w, abc, 3);
	for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
		world_exit(w, "a", TREE_EXIT_ERROR);
		if (delays[i] > 0) { /* nobody is touched until then */
			HAPPENED(w, "exited a;counted a;backoff a;timer;");
			ck_assert_int_eq(w->timer_ms, w->now_ms + delays[i]);
			ck_assert_int_eq(state_of(w, "top", "a"), TREE_BACKOFF);
			world_timer(w);
		}
		ck_assert_msg(strstr(w->log, "stop c") != NULL, "%s", w->log);
		world_exit(w, "c", TREE_EXIT_SHUTDOWN);
		world_exit(w, "b", TREE_EXIT_SHUTDOWN);
		for (int k = 0; k < 3; k++)
			world_ready(w, abc[k]);
	}
	ck_assert_uint_eq(tree_budget(w->tree, tree_top(w->tree), w->now_ms).used, 6); /* a restart is counted once, before its delay */
	w->now_ms += 5000; /* a stable uptime */
	world_exit(w, "a", TREE_EXIT_ERROR);
	HAPPENED(w, "exited a;counted a;stop c;timer;");
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	world_failed(w, "a"); /* counted at once, and waits */
	HAPPENED(w, "start_failed a;counted a;retry a;timer;");
	ck_assert_int_eq(w->timer_ms, w->now_ms + 100);
	w->random = UINT32_MAX;
	world_timer(w);
	HAPPENED(w, "start a;");
	world_failed(w, "a");
	ck_assert_int_eq(w->timer_ms, w->now_ms + 200 + 49); /* and up to a quarter by chance */
	world_end(w);
	RIGHT(w);
}
END_TEST

/* A tree that takes another one's place: the window goes on, a back-off waits on, a stable time has its beginning. Once. */
START_TEST(test_what_an_earlier_tree_had_come_to)
{
	const struct budget counted = { .n = 2, .at_ms = { 996000, 999000 } };
	const struct tree_spec two[] = { SPEC_LEAF("a", .streak = 3, .ready_ms = 990000), SPEC_LEAF("b", .streak = 4, .due_ms = 1000700) };
	const struct tree_spec top = SPEC_GROUP("top", two, 3, .budget = &counted);
	struct world *w = world_new(&top, &ours);

	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_START }), TREE_TAKEN);
	HAPPENED(w, "start top;start a;");
	world_ready(w, "a");
	HAPPENED(w, "started a;started top;up top;timer;"); /* b isn't started, and nobody waits for it */
	ck_assert_int_eq(w->timer_ms, 1000700);
	ck_assert_int_eq(state_of(w, "top", "b"), TREE_BACKOFF);
	ck_assert_uint_eq(tree_budget(w->tree, tree_top(w->tree), w->now_ms).used, 2);
	w->now_ms = 1000699;
	(void)world_step(w, (struct tree_event){ .type = TREE_TIMER });
	ck_assert_int_eq(state_of(w, "top", "b"), TREE_BACKOFF);
	world_timer(w);
	ck_assert_int_eq(w->now_ms, 1000700);
	HAPPENED(w, "start b;"); /* counted before: not again */
	world_ready(w, "b");
	world_exit(w, "b", TREE_EXIT_ERROR);
	HAPPENED(w, "exited b;counted b;backoff b;timer;"); /* the fifth in a row: 100 << 3 */
	ck_assert_int_eq(w->timer_ms, w->now_ms + 800);
	world_exit(w, "a", TREE_EXIT_ERROR); /* it was ready for longer than the period: its streak ends, but the window is full */
	HAPPENED(w, "exited a;counted a;gave_up top;ending top;down top;timer;");
	ck_assert(w->failed);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_START }), TREE_TAKEN);
	world_ready(w, "a");
	world_ready(w, "b"); /* nothing is left of it in the next start */
	ck_assert(w->up);
	ck_assert_uint_eq(tree_budget(w->tree, tree_top(w->tree), w->now_ms).used, 0);
	world_exit(w, "b", TREE_EXIT_ERROR);
	HAPPENED(w, "exited b;counted b;start b;");
	RIGHT(w);
	tree_free(w->tree, NULL);
}
END_TEST

START_TEST(test_backoff_ends_otherwise)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 9, .strategy = TREE_ONE_FOR_ALL);
	struct tree_rules r = { .backoff_first_ms = 100, .backoff_max_ms = 500, .cut = true };
	struct world *w = world_new(&top, &r);

	come_up(w, abc, 3);
	world_ask(w, TREE_ASK_TERMINATE, NULL, "b", NULL);
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	world_exit(w, "a", TREE_EXIT_ERROR);
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	for (int i = 0; i < 3; i++)
		world_ready(w, abc[i]);
	world_exit(w, "a", TREE_EXIT_ERROR); /* waits */
	ck_assert_int_eq(state_of(w, "top", "a"), TREE_BACKOFF);
	world_exit(w, "c", TREE_EXIT_ERROR); /* takes it along */
	ck_assert_msg(strncmp(w->log, "exited c;counted c;stop b;", 26) == 0, "%s", w->log);
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	for (int i = 0; i < 3; i++)
		world_ready(w, abc[i]);
	ck_assert_int_eq(w->timer_ms, 0);
	world_exit(w, "a", TREE_EXIT_ERROR);
	world_ask(w, TREE_ASK_RESTART, NULL, "a", NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_RESTARTING);
	world_ask(w, TREE_ASK_TERMINATE, NULL, "a", NULL); /* by hand */
	ck_assert_int_eq(w->last_reply, TREE_REPLY_OK);
	ck_assert_int_eq(w->timer_ms, 0);
	world_ask(w, TREE_ASK_RESTART, NULL, "a", NULL);
	world_ready(w, "a");
	world_exit(w, "a", TREE_EXIT_ERROR);
	ck_assert_int_eq(state_of(w, "top", "a"), TREE_BACKOFF);
	(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
	world_exit(w, "c", TREE_EXIT_SHUTDOWN);
	world_exit(w, "b", TREE_EXIT_SHUTDOWN);
	ck_assert(w->down && w->timer_ms == 0);
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_a_stop_cuts_a_restart)
{
	const struct tree_spec inner[] = { SPEC_LEAF("x"), SPEC_LEAF("y") };
	const struct tree_spec kids[] = { SPEC_LEAF("a"), SPEC_GROUP("g", inner, 3, .strategy = TREE_ONE_FOR_ALL) };
	const struct tree_spec top = SPEC_GROUP("top", kids, 3);
	static const char *const all[] = { "a", "x", "y" };
	struct tree_rules r = { 0 };
	struct world *w = world_new(&top, &r);

	come_up(w, all, 3); /* OTP: starts what it then stops */
	world_exit(w, "x", TREE_EXIT_ERROR);
	world_exit(w, "y", TREE_EXIT_SHUTDOWN);
	(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
	HAPPENED(w, "ending top;stop g;");
	world_ready(w, "x");
	HAPPENED(w, "started x;start y;");
	world_ready(w, "y");
	HAPPENED(w, "started y;ending g;stop y;timer;");
	world_end(w);

	r.cut = true;
	w = world_new(&top, &r);
	come_up(w, all, 3);
	world_exit(w, "x", TREE_EXIT_ERROR);
	world_exit(w, "y", TREE_EXIT_SHUTDOWN);
	(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
	HAPPENED(w, "ending top;stop g;ending g;cancel x;");
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_READY, .ref = world_row(w, "x")->ref }), TREE_IGNORED_EVENT); /* it crossed */
	world_exit(w, "x", TREE_EXIT_KILLED);
	HAPPENED(w, "stopped x;stopped g;stop a;timer;");
	world_exit(w, "a", TREE_EXIT_SHUTDOWN);
	ck_assert(w->down);
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_a_stop_cuts_the_first_start)
{
	const struct tree_spec inner[] = { SPEC_LEAF("x"), SPEC_LEAF("y") };
	const struct tree_spec kids[] = { SPEC_LEAF("a"), SPEC_GROUP("g", inner, 3) };
	const struct tree_spec top = SPEC_GROUP("top", kids, 3);
	struct world *w = world_new(&top, &ours);

	(void)world_step(w, (struct tree_event){ .type = TREE_START });
	world_ready(w, "a");
	world_ready(w, "x");
	world_ask(w, TREE_ASK_START_CHILD, "g", NULL, &three[2]);
	(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
	HAPPENED(w, "ending top;stop g;ending g;cancel y;");
	world_failed(w, "y"); /* will do */
	HAPPENED(w, "stopped y;stop x;timer;");
	world_exit(w, "x", TREE_EXIT_SHUTDOWN);
	HAPPENED(w, "stopped x;reply g;release c;stopped g;stop a;");
	ck_assert_int_eq(w->last_reply, TREE_REPLY_DOWN);
	world_exit(w, "a", TREE_EXIT_SHUTDOWN);
	ck_assert(w->down && !w->failed);
	ck_assert_uint_eq(w->asked_for, w->answered);
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_hurry)
{
	const struct tree_spec kids[] = { SPEC_LEAF("a"), SPEC_LEAF_MS("b", TREE_SHUTDOWN_INFINITY), SPEC_LEAF("c") };
	const struct tree_spec top = { .id = "top", .type = TREE_GROUP, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .period_ms = 1000, .children = kids, .n_children = 3 };
	struct world *w = world_new(&top, &ours);

	come_up(w, abc, 3);
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_HURRY }), TREE_REFUSED); /* nothing ends */
	(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
	HAPPENED(w, "ending top;stop c;timer;");
	ck_assert_int_eq(world_step(w, (struct tree_event){ .type = TREE_HURRY }), TREE_TAKEN);
	HAPPENED(w, "kill c;timer;");
	world_exit(w, "c", TREE_EXIT_KILLED);
	HAPPENED(w, "stopped c;stop_error c;kill b;");
	world_exit(w, "b", TREE_EXIT_KILLED);
	world_exit(w, "a", TREE_EXIT_KILLED);
	ck_assert(w->down);
	world_end(w);
	RIGHT(w);
}
END_TEST

START_TEST(test_questions_at_once)
{
	const struct tree_spec top = SPEC_GROUP("top", three, 3, .strategy = TREE_ONE_FOR_ALL);
	struct tree_rules r = { 0 };
	struct world *w;

	for (int at_once = 0; at_once < 2; at_once++) {
		r.answer_at_once = at_once;
		w = world_new(&top, &r);
		come_up(w, abc, 3);
		world_exit(w, "a", TREE_EXIT_ERROR);
		world_ask(w, TREE_ASK_WHICH, "top", NULL, NULL);
		world_ask(w, TREE_ASK_COUNT, "top", NULL, NULL);
		ck_assert_uint_eq(w->answered, at_once ? 2 : 0);
		ck_assert_int_eq(state_of(w, "top", "c"), TREE_STOPPING);
		world_exit(w, "c", TREE_EXIT_SHUTDOWN);
		world_exit(w, "b", TREE_EXIT_SHUTDOWN);
		ck_assert_int_eq(state_of(w, "top", "a"), TREE_STARTING);
		for (int i = 0; i < 3; i++)
			world_ready(w, abc[i]);
		ck_assert_uint_eq(w->answered, 2);
		world_end(w);
		RIGHT(w);
	}
}
END_TEST

/* ---- limits ---- */

static enum err_code refused(const struct tree_spec *top, const struct tree_rules *rules)
{
	struct tree *t = NULL;
	struct err e = ERR_INIT;

	ck_assert_int_eq(tree_new(top, rules, &t, &e), -1);
	ck_assert_ptr_null(t);
	ck_assert_str_ne(e.text, "");
	return e.code;
}

START_TEST(test_specs_that_are_refused)
{
	static struct tree_spec many[LIMIT_GROUP_CHILDREN + 1], nest[LIMIT_TREE_DEPTH + 1], wide[LIMIT_TREE_NODES / LIMIT_GROUP_CHILDREN + 1];
	struct tree_spec kids[2] = { SPEC_LEAF("a"), SPEC_LEAF("b") };
	struct tree_spec top = SPEC_GROUP("top", kids, 3), bad = top;
	struct tree_rules r = otp;
	static char ids[LIMIT_GROUP_CHILDREN + 1][8];

	kids[1].id = "a";
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	kids[1].id = "-";
	ck_assert_int_eq(refused(&top, &r), ERR_INVALID_ID);
	kids[1].id = NULL;
	ck_assert_int_eq(refused(&top, &r), ERR_INVALID_ID);
	kids[1].id = "b";
	kids[1].significant = true;
	kids[1].restart = TREE_TRANSIENT;
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	top.auto_shutdown = TREE_AUTO_ANY;
	kids[1].restart = TREE_PERMANENT;
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	kids[1].significant = false;
	kids[1].shutdown_ms = -3;
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	kids[1].shutdown_ms = LIMIT_TIMER_MS + 1;
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	kids[1].shutdown_ms = 0;
	kids[1].n_children = 1;
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	kids[1].n_children = 0;
	bad.shutdown_ms = 5000;
	ck_assert_int_eq(refused(&bad, &r), ERR_BAD_PARAM);
	bad = top;
	bad.intensity = BUDGET_INTENSITY_MAX + 1;
	ck_assert_int_eq(refused(&bad, &r), ERR_BAD_PARAM);
	bad = top;
	bad.period_ms = 0;
	ck_assert_int_eq(refused(&bad, &r), ERR_BAD_PARAM);
	bad.period_ms = 1500;
	ck_assert_int_eq(refused(&bad, &r), ERR_BAD_PARAM);
	ck_assert_int_eq(refused(&kids[0], &r), ERR_BAD_PARAM);
	r.backoff_first_ms = 1;
	ck_assert_int_eq(refused(&top, &r), ERR_BAD_PARAM);
	for (size_t i = 0; i <= LIMIT_GROUP_CHILDREN; i++) {
		(void)snprintf(ids[i], sizeof ids[i], "k%zu", i);
		many[i] = (struct tree_spec){ .id = ids[i], .shutdown_ms = 0 };
	}
	bad = (struct tree_spec)SPEC_GROUP("top", many, 3);
	ck_assert_int_eq(refused(&bad, &otp), ERR_LIMIT_EXCEEDED);
	for (size_t i = 0; i <= LIMIT_TREE_DEPTH; i++)
		nest[i] = (struct tree_spec){ .id = ids[i], .type = TREE_GROUP, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .period_ms = 1000,
			.children = i < LIMIT_TREE_DEPTH ? &nest[i + 1] : NULL, .n_children = i < LIMIT_TREE_DEPTH };
	ck_assert_int_eq(refused(&nest[0], &otp), ERR_LIMIT_EXCEEDED);
	for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
		wide[i] = (struct tree_spec){ .id = ids[i], .type = TREE_GROUP, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .period_ms = 1000,
			.children = many, .n_children = LIMIT_GROUP_CHILDREN };
	bad = (struct tree_spec)SPEC_GROUP("top", wide, 3);
	ck_assert_int_eq(refused(&bad, &otp), ERR_LIMIT_EXCEEDED);
}
END_TEST

START_TEST(test_requests_that_are_refused)
{
	static struct tree_spec many[LIMIT_GROUP_CHILDREN];
	static char ids[LIMIT_GROUP_CHILDREN][8];
	struct tree_spec top = SPEC_GROUP("top", many, 3), late = SPEC_LEAF("late"), bad = SPEC_LEAF("-");
	static const char *const first[] = { "k0" };
	struct world *w;

	for (size_t i = 0; i < LIMIT_GROUP_CHILDREN; i++) {
		(void)snprintf(ids[i], sizeof ids[i], "k%zu", i);
		many[i] = (struct tree_spec){ .id = ids[i], .type = i ? TREE_GROUP : TREE_LEAF, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .period_ms = 1000 };
	}
	w = world_new(&top, &otp);
	world_ask(w, TREE_ASK_WHICH, "top", NULL, NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_DOWN);
	come_up(w, first, 1);
	world_ask(w, TREE_ASK_START_CHILD, "nowhere", NULL, &late);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_DOWN);
	world_ask(w, TREE_ASK_START_CHILD, "top", NULL, &bad);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_BAD_SPEC);
	world_ask(w, TREE_ASK_START_CHILD, "top", NULL, NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_BAD_SPEC);
	ck_assert_uint_eq(w->released, 0); /* nothing of them was taken */
	world_ask(w, TREE_ASK_START_CHILD, "top", NULL, &late);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_LIMIT);
	ck_assert_uint_eq(w->released, 1);
	world_ask(w, TREE_ASK_TERMINATE, "top", NULL, NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_NOT_FOUND);
	world_ask(w, TREE_ASK_TERMINATE, "top", "k0", NULL); /* it takes its time */
	for (unsigned i = 0; i < LIMIT_GROUP_REQUESTS; i++)
		world_ask(w, TREE_ASK_COUNT, "top", NULL, NULL);
	ck_assert_uint_eq(w->answered, 6);
	world_ask(w, TREE_ASK_COUNT, "top", NULL, NULL);
	ck_assert_int_eq(w->last_reply, TREE_REPLY_BUSY);
	world_exit(w, "k0", TREE_EXIT_SHUTDOWN);
	ck_assert_uint_eq(w->answered, w->asked_for);
	world_end(w);
	RIGHT(w);
}
END_TEST

static unsigned n_users;

static void user_free(void *user)
{
	(void)user;
	n_users++;
}

START_TEST(test_what_is_added_is_released_once)
{
	const struct tree_spec leaf[] = { SPEC_LEAF("x"), SPEC_LEAF("y") };
	const struct tree_spec kids[] = { SPEC_GROUP("g", three, 0) };
	const struct tree_spec top = SPEC_GROUP("top", kids, 3), added = SPEC_GROUP("n", leaf, 3);
	struct world *w = world_new(&top, &otp);

	come_up(w, abc, 3);
	for (int i = 0; i < 3; i++) {
		world_ask(w, TREE_ASK_START_CHILD, "g", NULL, &added);
		world_ready(w, "x");
		world_ready(w, "y");
		ck_assert_int_eq(w->last_reply, TREE_REPLY_OK);
		if (i == 0) { /* deleted by hand; else lost with its group */
			world_ask(w, TREE_ASK_TERMINATE, "g", "n", NULL);
			world_exit(w, "y", TREE_EXIT_SHUTDOWN);
			world_exit(w, "x", TREE_EXIT_SHUTDOWN);
			world_ask(w, TREE_ASK_DELETE, "g", "n", NULL);
		} else {
			world_exit(w, "b", TREE_EXIT_ERROR);
			world_exit(w, "y", TREE_EXIT_SHUTDOWN);
			world_exit(w, "x", TREE_EXIT_SHUTDOWN);
			world_exit(w, "c", TREE_EXIT_SHUTDOWN);
			world_exit(w, "a", TREE_EXIT_SHUTDOWN);
			for (int k = 0; k < 3; k++)
				world_ready(w, abc[k]);
		}
		ck_assert_uint_eq(w->released, 3u * (unsigned)(i + 1));
		ck_assert_int_eq(state_of(w, "g", "n"), TREE_STATE__N);
	}
	world_ask(w, TREE_ASK_START_CHILD, "g", NULL, &added);
	world_failed(w, "x");
	ck_assert_int_eq(w->last_reply, TREE_REPLY_START_FAILED);
	ck_assert_uint_eq(w->released, 12);
	world_ask(w, TREE_ASK_START_CHILD, "g", NULL, &added); /* waits, and so does the next one */
	world_ask(w, TREE_ASK_START_CHILD, "g", NULL, &leaf[0]);
	n_users = 0;
	tree_free(w->tree, user_free);
	ck_assert_uint_eq(n_users, 5 + 3 + 1);
	RIGHT(w);
}
END_TEST

START_TEST(test_texts)
{
	struct tree_action a = { .id = "a", .group = "g", .used = 2, .allowed = 5, .period_ms = 60000, .delay_ms = 200 };
	char text[256], small[8];

	for (int i = 0; i < TREE_WHAT__N; i++) {
		a.what = (enum tree_what)i;
		ck_assert_uint_gt(tree_action_text(&a, text, sizeof text), 0);
		ck_assert_ptr_nonnull(strstr(text, tree_what_text(a.what)));
		ck_assert_uint_eq(tree_action_text(&a, small, sizeof small), strlen(small));
	}
	a.what = TREE_NOTE_GAVE_UP;
	a.why = TREE_WHY_INTENSITY;
	(void)tree_action_text(&a, text, sizeof text);
	ck_assert_str_eq(text, "gave_up a (2 of 5 restarts within 60000 ms): too many restarts within the period");
	ck_assert_str_eq(tree_state_text(TREE_STATE__N), "unknown");
	ck_assert(tree_exit_is_clean(TREE_EXIT_SHUTDOWN_WHY) && !tree_exit_is_clean(TREE_EXIT_KILLED));
}
END_TEST

/* ---- every order ---- */

struct choice {
	struct tree_event ev;
	size_t row; /* of a fact */
	bool is_fact, is_timer;
};

static size_t choices_of_row(const struct row *row, size_t at, struct choice *to)
{
	static const enum tree_event_type starting[] = { TREE_READY, TREE_FAILED };
	size_t n = 0;

	if (row->state == ROW_STARTING && !row->cancelled) {
		for (; n < 2; n++)
			to[n] = (struct choice){ .ev = { .type = starting[n] }, .row = at, .is_fact = true };
		return n;
	}
	to[n++] = (struct choice){ .ev = { .type = TREE_EXITED, .exit = row->killed ? TREE_EXIT_KILLED : row->asked ? TREE_EXIT_SHUTDOWN : TREE_EXIT_ERROR },
		.row = at, .is_fact = true };
	if (row->state == ROW_RUNNING && !row->asked && !row->killed)
		to[n++] = (struct choice){ .ev = { .type = TREE_EXITED, .exit = TREE_EXIT_NORMAL }, .row = at, .is_fact = true };
	return n;
}

static size_t choices(const struct world *w, struct choice *to)
{
	static const enum tree_ask asks[] = { TREE_ASK_TERMINATE, TREE_ASK_RESTART };
	enum tree_root root = tree_root_state(w->tree);
	size_t n = 0;

	for (size_t i = 0; i < 8; i++)
		if (w->rows[i].state != ROW_NONE)
			n += choices_of_row(&w->rows[i], i, to + n);
	if (w->timer_ms != 0)
		to[n++] = (struct choice){ .is_timer = true };
	if (root == TREE_ROOT_DOWN || root == TREE_ROOT_FAILED)
		return n;
	to[n++] = (struct choice){ .ev = { .type = root == TREE_ROOT_ENDING ? TREE_HURRY : TREE_STOP } };
	for (size_t i = 0; i < 2 && w->asked_for < 2; i++)
		to[n++] = (struct choice){ .ev = { .type = TREE_REQUEST, .ask = asks[i], .child = "a" } };
	return n;
}

/* Nothing is on its way, so nothing may be left to do. */
static void quiet_check(struct world *w)
{
	bool moving = w->timer_ms != 0;

	for (size_t i = 0; i < 8; i++)
		moving |= w->rows[i].state != ROW_NONE && (w->rows[i].state == ROW_STARTING || w->rows[i].asked || w->rows[i].killed);
	if (moving)
		return;
	if (w->asked_for != w->answered)
		world_wrong(w, "nothing moves, and a request has no answer", "");
	if (tree_root_state(w->tree) == TREE_ROOT_STARTING || tree_root_state(w->tree) == TREE_ROOT_ENDING)
		world_wrong(w, "nothing moves, and the top isn't done", "");
	if (w->answered > w->asked_for)
		world_wrong(w, "more answers than requests", "");
}

static void choose(struct world *w, struct choice *c)
{
	enum tree_result result = TREE_TAKEN;

	if (c->is_timer) {
		world_timer(w);
	} else if (c->is_fact) {
		result = world_fact(w, &w->rows[c->row], c->ev.type, c->ev.exit);
	} else {
		w->asked_for += c->ev.type == TREE_REQUEST;
		(void)world_step(w, c->ev);
	}
	if (result != TREE_TAKEN)
		world_wrong(w, "a fact isn't taken", w->rows[c->row].id);
	w->now_ms += 7;
	quiet_check(w);
}

/* All sequences of `depth` choices: each is played again from the beginning, since a tree can't be copied. */
static unsigned long explore(const struct tree_spec *top, const struct tree_rules *rules, unsigned depth)
{
	size_t path[16] = { 0 }, width[16] = { 0 }, at;
	struct choice list[64];
	unsigned long played = 0;
	bool more = true;
	struct world *w;

	while (more) {
		w = world_new(top, rules);
		(void)world_step(w, (struct tree_event){ .type = TREE_START });
		for (at = 0; at < depth; at++) {
			width[at] = choices(w, list);
			if (width[at] == 0)
				break;
			choose(w, &list[path[at]]);
		}
		ck_assert_msg(!w->wrong[0], "%s (%zu %zu %zu %zu %zu %zu %zu): %s", w->wrong, path[0], path[1], path[2], path[3], path[4], path[5], path[6], w->log);
		world_end(w);
		played++;
		for (more = false; at > 0 && !more; at--) {
			more = ++path[at - 1] < width[at - 1];
			if (more)
				memset(path + at, 0, sizeof path - at * sizeof *path);
		}
	}
	return played;
}

static const struct tree_spec tiny[] = { SPEC_LEAF("a"), SPEC_LEAF_MS("b", TREE_SHUTDOWN_BRUTAL, .restart = TREE_TRANSIENT) };
static const struct tree_spec inside[] = { SPEC_LEAF("x", .restart = TREE_TEMPORARY, .significant = true), SPEC_LEAF("y") };
static const struct tree_spec nested[] = { SPEC_LEAF("a"), SPEC_GROUP("g", inside, 1, .auto_shutdown = TREE_AUTO_ALL, .strategy = TREE_ONE_FOR_ALL) };

START_TEST(test_every_order)
{
	const struct tree_rules backoff = { .backoff_first_ms = 10, .backoff_max_ms = 40, .exact_ms = true }, cut = { .cut = true, .keep_failed = true };
	const struct tree_rules *const rules[] = { &otp, &ours, &backoff, &cut };
	struct tree_spec flat = SPEC_GROUP("top", tiny, 1), deep = SPEC_GROUP("top", nested, 1);
	unsigned long played;

	flat.strategy = deep.strategy = (enum tree_strategy)(_i % TREE_STRATEGY__N);
	played = explore(&flat, rules[_i / TREE_STRATEGY__N], 6);
	ck_assert_uint_gt(played, 3000);
	played = explore(&deep, rules[_i / TREE_STRATEGY__N], 6);
	ck_assert_uint_gt(played, 2000);
}
END_TEST

/* Longer ways, by chance; at the end it is stopped, and all must be gone and answered. */
START_TEST(test_long_ways)
{
	const struct tree_rules *const rules[] = { &otp, &ours };
	struct tree_spec deep = SPEC_GROUP("top", nested, 3);
	uint64_t seed = 88172645463325252ull;
	struct choice list[64];
	struct world *w;
	size_t n;

	for (int round = 0; round < 3000; round++) {
		deep.strategy = (enum tree_strategy)(round % TREE_STRATEGY__N);
		w = world_new(&deep, rules[round & 1]);
		(void)world_step(w, (struct tree_event){ .type = TREE_START });
		for (int i = 0; i < 200 && (n = choices(w, list)) > 0; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			if (list[seed % n].ev.type == TREE_STOP && i < 100) /* not so soon */
				continue;
			choose(w, &list[seed % n]);
			if (w->answered == w->asked_for)
				w->answered = w->asked_for = 0;
			ck_assert_msg(!w->wrong[0], "round %d, step %d: %s: %s", round, i, w->wrong, w->log);
		}
		(void)world_step(w, (struct tree_event){ .type = TREE_STOP });
		for (int i = 0; i < 100 && world_alive(w) > 0; i++) {
			n = choices(w, list);
			choose(w, &list[0]);
		}
		ck_assert_msg(w->down && world_alive(w) == 0 && w->answered == w->asked_for && !w->wrong[0], "round %d: %s", round, w->wrong);
		world_end(w);
	}
}
END_TEST

CHECK_MAIN("tree", tcase_add_test(tc, test_crash_and_restart); tcase_add_test(tc, test_deadline); tcase_add_test(tc, test_what_isnt_the_present_instance);
	   tcase_add_test(tc, test_exit_before_ready_is_a_failed_start); tcase_add_test(tc, test_many_children_take_turns);
	   tcase_add_test(tc, test_work_of_a_step_is_bounded); tcase_add_test(tc, test_keep_failed);
	   tcase_add_test(tc, test_a_transient_group_that_gave_up_is_shown); tcase_add_test(tc, test_windows); tcase_add_test(tc, test_backoff);
	   tcase_add_test(tc, test_what_an_earlier_tree_had_come_to);
	tcase_add_test(tc, test_backoff_ends_otherwise); tcase_add_test(tc, test_a_stop_cuts_a_restart); tcase_add_test(tc, test_a_stop_cuts_the_first_start);
	   tcase_add_test(tc, test_hurry); tcase_add_test(tc, test_questions_at_once); tcase_add_test(tc, test_specs_that_are_refused);
	   tcase_add_test(tc, test_requests_that_are_refused); tcase_add_test(tc, test_what_is_added_is_released_once); tcase_add_test(tc, test_texts);
	   tcase_add_loop_test(tc, test_every_order, 0, 12); tcase_add_test(tc, test_long_ways))
