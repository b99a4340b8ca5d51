/* SPDX-License-Identifier: MIT
 *
 * A tree as a whole: one event in, then the pump over the groups that have something to do, bounded per step; the life of
 * the top. root_set alone writes `root`. Rules and lifetime are in tree.h. Control process; pure. */
#include <stdlib.h>
#include <string.h>

#include "daemon/supervise/tree_inner.h"

#define ACTIONS_OF_A_PIECE 48 /* an order to stop that passes through LIMIT_TREE_DEPTH groups, and some */

_Static_assert(ACTIONS_OF_A_PIECE >= 4 * LIMIT_TREE_DEPTH + 8 && TREE_ACTIONS_MAX >= 2 * ACTIONS_OF_A_PIECE, "a piece always fits");

struct tree_action *tree_emit(struct tree *t, enum tree_what what, const struct tree_node *n, enum tree_why why)
{
	static struct tree_action nowhere;
	struct tree_action *a = t->out->n < TREE_ACTIONS_MAX ? &t->out->at[t->out->n++] : &nowhere;

	*a = (struct tree_action){ .what = what, .why = why, .id = "", .group = "" };
	if (!n)
		return a;
	a->id = n->id;
	a->type = n->type;
	a->user = n->user;
	a->exit = n->exit;
	a->ref = (struct tree_ref){ n->slot, n->instance };
	if (n->parent)
		a->group = n->parent->node->id;
	return a;
}

/* ---- groups that may have something to do, in order ---- */

void tree_work(struct tree *t, struct tree_group *g)
{
	if (g->in_work)
		return;
	g->in_work = true;
	g->work_next = NULL;
	*(t->work_last ? &t->work_last->work_next : &t->work) = g;
	t->work_last = g;
}

static void work_remove(struct tree *t, struct tree_group *g)
{
	struct tree_group **at = &t->work, *before = NULL;

	while (*at != g) {
		before = *at;
		at = &before->work_next;
	}
	*at = g->work_next;
	if (t->work_last == g)
		t->work_last = before;
	g->in_work = false;
}

void tree_work_first(struct tree *t, struct tree_group *g)
{
	if (g->in_work)
		work_remove(t, g);
	g->in_work = true;
	g->work_next = t->work;
	t->work = g;
	if (!t->work_last)
		t->work_last = g;
}

void tree_work_forget(struct tree *t, struct tree_group *g)
{
	if (g->in_work)
		work_remove(t, g);
	if (t->current == g)
		t->current = NULL;
}

/* ---- the top ---- */

static void root_set(struct tree *t, enum tree_root root, enum tree_why why)
{
	t->root = root;
	t->root_why = why;
}

void tree_root_up(struct tree *t)
{
	root_set(t, TREE_ROOT_UP, TREE_WHY_NONE);
	(void)tree_emit(t, TREE_DO_UP, t->top, TREE_WHY_NONE);
}

void tree_root_ending(struct tree *t, enum tree_why why)
{
	root_set(t, TREE_ROOT_ENDING, why);
}

/* keep_failed: nobody is above to decide about it, and the daemon is not to end with it. */
void tree_root_gone(struct tree *t, enum tree_exit exit)
{
	struct tree_group *g = t->top->group;
	enum tree_why why = g->failing ? TREE_WHY_START_FAILED : g->why_ending;
	bool bad = (g->failing || t->top->gave_up) && !t->stop_asked;
	struct tree_action *a;

	if (g->failing)
		(void)tree_emit(t, TREE_NOTE_START_FAILED, t->top, TREE_WHY_NONE);
	root_set(t, bad && t->rules.keep_failed ? TREE_ROOT_FAILED : TREE_ROOT_DOWN, why);
	a = tree_emit(t, TREE_DO_DOWN, t->top, why);
	a->exit = exit;
	a->failed = t->root == TREE_ROOT_FAILED;
	t->stop_asked = t->hurry = false;
}

static enum tree_result on_start(struct tree *t)
{
	if (t->root != TREE_ROOT_DOWN && t->root != TREE_ROOT_FAILED)
		return TREE_REFUSED;
	t->stop_asked = t->hurry = false;
	root_set(t, TREE_ROOT_STARTING, TREE_WHY_NONE);
	child_start(t, t->top, TREE_WHY_INITIAL);
	return TREE_TAKEN;
}

static enum tree_result on_stop(struct tree *t)
{
	if (t->root == TREE_ROOT_DOWN || t->root == TREE_ROOT_FAILED)
		return TREE_REFUSED;
	t->stop_asked = true;
	group_ask(t, t->top->group);
	return TREE_TAKEN;
}

/* Deadlines of what is being stopped come due at once: the timers do the rest, a piece at a time. */
static enum tree_result on_hurry(struct tree *t)
{
	struct tree_node *n;

	if (!t->stop_asked && t->root != TREE_ROOT_ENDING)
		return TREE_REFUSED;
	t->hurry = true;
	for (uint32_t i = 0; i < t->n_slots; i++) {
		n = t->slots[i] && t->slots[i]->group ? t->slots[i]->group->waited : NULL;
		if (n && !n->group && !n->cancelled && !n->killed && t->slots[i]->group->wait == WAIT_GONE)
			timer_arm(t, n, t->now_ms);
	}
	t->timers_until_ms = t->now_ms;
	return TREE_TAKEN;
}

static enum tree_result on_reset(struct tree *t)
{
	if (t->root == TREE_ROOT_FAILED)
		root_set(t, TREE_ROOT_DOWN, TREE_WHY_NONE);
	for (uint32_t i = 0; i < t->n_slots; i++) {
		if (!t->slots[i])
			continue;
		t->slots[i]->streak = 0;
		t->slots[i]->failed = false;
		if (t->slots[i]->group)
			budget_clear(&t->slots[i]->group->budget);
	}
	return TREE_TAKEN;
}

/* ---- facts ---- */

static struct tree_node *present(const struct tree *t, struct tree_ref ref)
{
	struct tree_node *n = ref.slot < t->n_slots ? t->slots[ref.slot] : NULL;

	return n && ref.instance != 0 && n->instance == ref.instance && n->parent ? n : NULL;
}

static enum tree_result on_fact(struct tree *t, const struct tree_event *ev)
{
	struct tree_node *n = present(t, ev->ref);
	bool starting, open;

	if (!n)
		return TREE_IGNORED_EVENT;
	starting = n->parent->waited == n && n->parent->wait == WAIT_READY;
	open = n->group && n->group->phase != PHASE_CLOSED;
	if (open)
		return TREE_IGNORED_EVENT; /* a group speaks for itself */
	if (n->cancelled) {
		if (ev->type != TREE_EXITED && ev->type != TREE_FAILED && ev->type != TREE_IGNORED)
			return TREE_IGNORED_EVENT;
		child_gone(t, n, ev->type == TREE_EXITED ? ev->exit : TREE_EXIT_KILLED);
		return TREE_TAKEN;
	}
	if (ev->type == TREE_EXITED && n->alive && !n->group) {
		child_gone(t, n, ev->exit);
		return TREE_TAKEN;
	}
	if (!starting || (ev->type == TREE_BEGUN) != (n->group && ev->type != TREE_FAILED && ev->type != TREE_IGNORED && ev->type != TREE_EXITED))
		return TREE_IGNORED_EVENT;
	if (ev->type == TREE_BEGUN)
		group_open(t, n->group);
	else
		child_started(t, n, ev->type == TREE_READY ? ON_READY : ev->type == TREE_IGNORED ? ON_IGNORED : ON_FAILED);
	return TREE_TAKEN;
}

static enum tree_result on_timer(struct tree *t)
{
	t->timers_until_ms = t->now_ms;
	t->told_due_ms = 0; /* it is used up */
	return TREE_TAKEN;
}

static enum tree_result happen(struct tree *t, const struct tree_event *ev)
{
	switch (ev->type) {
	case TREE_START:
		return on_start(t);
	case TREE_STOP:
		return on_stop(t);
	case TREE_HURRY:
		return on_hurry(t);
	case TREE_RESET:
		return on_reset(t);
	case TREE_REQUEST:
		return request_come(t, ev);
	case TREE_BEGUN:
	case TREE_READY:
	case TREE_FAILED:
	case TREE_IGNORED:
	case TREE_EXITED:
		return on_fact(t, ev);
	case TREE_TIMER:
		return on_timer(t);
	case TREE_TURN:
	case TREE_EVENT__N:
		break;
	}
	return TREE_TAKEN;
}

/* ---- the pump ---- */

static bool timer_is_due(const struct tree *t)
{
	return t->due_first && t->due_first->due_ms <= t->timers_until_ms;
}

static struct tree_group *next_group(struct tree *t)
{
	struct tree_group *g = t->current;

	while (!g || !group_has_work(g)) {
		g = t->work;
		if (!g) {
			t->current = NULL;
			return NULL;
		}
		work_remove(t, g);
	}
	t->current = g;
	return g;
}

/* One small piece of work; false: there is none. A group goes on until it waits, then comes the next. */
static bool piece(struct tree *t)
{
	struct tree_node *n = t->dead;
	struct tree_group *g;

	if (n) {
		t->dead = n->grave;
		if (!t->dead)
			t->dead_last = NULL;
		n->grave = t->buried;
		t->buried = n;
		(void)tree_emit(t, TREE_DO_RELEASE, n, TREE_WHY_NONE);
		return true;
	}
	if (timer_is_due(t)) {
		child_time_is_over(t, t->due_first);
		return true;
	}
	g = next_group(t);
	if (g)
		(void)group_happens(t, g, ON_TURN, NULL);
	return g != NULL;
}

static void timer_tell(struct tree *t)
{
	int64_t due_ms = tree_due_ms(t);

	if (due_ms == t->told_due_ms)
		return;
	t->told_due_ms = due_ms;
	tree_emit(t, TREE_DO_TIMER, NULL, TREE_WHY_NONE)->at_ms = due_ms;
}

static void buried_free(struct tree *t)
{
	struct tree_node *n, *next;

	for (n = t->buried; n; n = next) {
		next = n->grave;
		free(n->group);
		free(n);
	}
	t->buried = NULL;
}

enum tree_result tree_step(struct tree *t, const struct tree_event *ev, struct tree_actions *out)
{
	enum tree_result result;
	bool idle = false;

	out->n = 0;
	out->more = false;
	buried_free(t);
	t->out = out;
	t->hold = false;
	t->now_ms = ev->now_ms;
	t->random = ev->random;
	if (ev->type != TREE_TURN)
		t->timers_until_ms = INT64_MIN;
	result = happen(t, ev);
	for (int i = 0; i < LIMIT_TREE_TURN && !idle && !t->hold && out->n + ACTIONS_OF_A_PIECE < TREE_ACTIONS_MAX; i++)
		idle = !piece(t);
	out->more = !idle;
	if (idle)
		timer_tell(t);
	t->out = NULL;
	return result;
}
