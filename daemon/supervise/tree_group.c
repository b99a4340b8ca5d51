/* SPDX-License-Identifier: MIT
 *
 * One group as a table of phase x happening. A handler names the next phase and acts through tree_child.c and
 * tree_decide.c; group_happens and group_open alone write `phase`. Control process; pure. */
#include "daemon/supervise/tree_inner.h"

typedef enum phase handler(struct tree *t, struct tree_group *g, struct tree_node *n);

#define NOT_TAKEN PHASE__N

bool group_has_work(const struct tree_group *g)
{
	return g->wait == WAIT_NONE && g->phase != PHASE_CLOSED && (g->phase != PHASE_IDLE || g->inbox);
}

/* ---- its own start ---- */

static enum phase init_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	n = g->cursor;
	if (!n) {
		child_started(t, g->node, ON_READY);
		return PHASE_IDLE;
	}
	g->cursor = n->next;
	if (!child_waits_on(t, n))
		child_start(t, n, TREE_WHY_INITIAL);
	return PHASE_INIT;
}

static enum phase init_ready(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)t, (void)g, (void)n;
	return PHASE_INIT;
}

static enum phase init_ignored(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)g;
	child_forget(t, n);
	return PHASE_INIT;
}

static enum phase init_failed(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)t, (void)n;
	g->failing = true;
	g->cursor = g->last;
	return PHASE_UNDO;
}

/* ---- stopping backwards ---- */

static void stop_next(struct tree *t, struct tree_group *g, enum tree_why why)
{
	struct tree_node *n = g->cursor;

	g->cursor = n == g->set_from ? NULL : n->prev;
	if (g->phase == PHASE_SET_DOWN)
		n->dormant = n->state == CHILD_UNDEFINED && n != g->crasher;
	child_stop(t, n, why);
	if (g->wait == WAIT_NONE)
		child_forget(t, n);
}

static enum phase undo_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)n;
	if (!g->cursor)
		return PHASE_CLOSING;
	stop_next(t, g, TREE_WHY_UNDO);
	return PHASE_UNDO;
}

static enum phase undo_gone(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)g;
	child_stopped(t, n);
	child_forget(t, n);
	return PHASE_UNDO;
}

/* ---- one thing at a time ---- */

static enum phase idle_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)n;
	return decide_message(t, g, inbox_take(g));
}

static enum phase one_ready(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)t, (void)g, (void)n;
	return PHASE_IDLE;
}

static enum phase set_down_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)n;
	if (!g->cursor) {
		g->cursor = g->set_from ? g->set_from : g->first;
		return PHASE_SET_UP;
	}
	stop_next(t, g, TREE_WHY_STRATEGY);
	return PHASE_SET_DOWN;
}

static enum phase set_down_gone(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)g;
	child_stopped(t, n);
	child_forget(t, n);
	return PHASE_SET_DOWN;
}

static enum phase set_up_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	n = g->cursor;
	if (!n)
		return PHASE_IDLE;
	g->cursor = n->next;
	if (SEEDED(15) && n->dormant)
		return PHASE_SET_UP;
	child_start(t, n, n == g->crasher ? g->why_restart : n->dormant ? TREE_WHY_REVIVED : TREE_WHY_STRATEGY);
	return PHASE_SET_UP;
}

static enum phase set_up_ready(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)t, (void)g, (void)n;
	return PHASE_SET_UP;
}

static enum phase set_up_ignored(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)g;
	child_forget(t, n);
	return PHASE_SET_UP;
}

/* ---- requests that take time ---- */

static enum phase req_answer(struct tree *t, struct tree_group *g, enum tree_reply reply)
{
	request_reply(t, g, g->request, reply);
	return PHASE_IDLE;
}

static void req_keep(struct tree_group *g, struct tree_node *n)
{
	if (n != g->request->added)
		return;
	g->request->added = NULL;
	list_append(g, n);
}

static enum phase req_ready(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	req_keep(g, n);
	return req_answer(t, g, TREE_REPLY_OK);
}

static enum phase req_ignored(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	if (n->restart != TREE_TEMPORARY)
		req_keep(g, n);
	return req_answer(t, g, TREE_REPLY_OK_IGNORED);
}

static enum phase req_failed(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	if (SEEDED(6))
		req_keep(g, n);
	return req_answer(t, g, TREE_REPLY_START_FAILED);
}

static enum phase req_stopped(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	child_stopped(t, n);
	child_forget(t, n);
	(void)req_answer(t, g, TREE_REPLY_OK);
	return SEEDED(11) ? decide_ended(t, g, n, TREE_WHY_REQUEST) : PHASE_IDLE;
}

/* ---- its end ---- */

enum phase group_finish(struct tree *t, struct tree_group *g, enum tree_why why)
{
	(void)tree_emit(t, TREE_NOTE_ENDING, g->node, why);
	g->why_ending = why;
	g->set_from = NULL;
	g->cursor = g->last;
	if (!g->node->parent)
		tree_root_ending(t, why);
	return PHASE_ENDING;
}

/* Whatever it is doing. A child that is being started is not needed any more; one that is being stopped goes on. */
static enum phase any_cut(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	enum phase next = group_finish(t, g, TREE_WHY_ABOVE);

	(void)n;
	if (g->wait == WAIT_READY)
		child_cancel(t, g->waited);
	return next;
}

static enum phase undo_cut(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)t, (void)g, (void)n;
	return PHASE_UNDO; /* it is on its way */
}

static enum phase ending_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)n;
	if (!g->cursor)
		return PHASE_CLOSING;
	stop_next(t, g, TREE_WHY_ENDING);
	return PHASE_ENDING;
}

static enum phase ending_gone(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	child_stopped(t, n);
	child_forget(t, n);
	if (g->request && g->request->ask == TREE_ASK_TERMINATE)
		request_reply(t, g, g->request, TREE_REPLY_OK);
	return PHASE_ENDING;
}

static void group_close(struct tree *t, struct tree_group *g)
{
	struct tree_node *self = g->node;
	bool failing = g->failing && !(self->parent && self->parent->wait == WAIT_GONE);

	if (self->parent && failing)
		child_started(t, self, ON_FAILED);
	else
		child_gone(t, self, SEEDED(18) && self->gave_up ? TREE_EXIT_ERROR : TREE_EXIT_SHUTDOWN);
}

static enum phase closing_turn(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	struct message *m;

	(void)n;
	if (g->request) {
		request_reply(t, g, g->request, TREE_REPLY_DOWN);
		return PHASE_CLOSING;
	}
	while ((m = inbox_take(g)) && m->kind != MESSAGE_REQUEST)
		;
	if (m) {
		request_reply(t, g, (struct request *)(void *)m, TREE_REPLY_DOWN);
		return PHASE_CLOSING;
	}
	if (g->last && !g->last->original && !SEEDED(10)) { /* what was added is behind them, and lost with this incarnation */
		child_remove(t, g->last);
		return PHASE_CLOSING;
	}
	group_close(t, g);
	return PHASE_CLOSED;
}

static enum phase closing_cut(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	(void)t, (void)n;
	return g->phase;
}

/* What a step of a phase may meet. decide_restart_failed is the failed start of a restart. */
static handler *const table[PHASE__N][ON__N] = {
	[PHASE_INIT] = { [ON_TURN] = init_turn, [ON_READY] = init_ready, [ON_FAILED] = init_failed, [ON_IGNORED] = init_ignored,
		[ON_CUT] = any_cut },
	[PHASE_UNDO] = { [ON_TURN] = undo_turn, [ON_GONE] = undo_gone, [ON_CUT] = undo_cut },
	[PHASE_IDLE] = { [ON_TURN] = idle_turn, [ON_CUT] = any_cut },
	[PHASE_ONE] = { [ON_READY] = one_ready, [ON_FAILED] = decide_restart_failed, [ON_IGNORED] = one_ready, [ON_CUT] = any_cut },
	[PHASE_SET_DOWN] = { [ON_TURN] = set_down_turn, [ON_GONE] = set_down_gone, [ON_CUT] = any_cut },
	[PHASE_SET_UP] = { [ON_TURN] = set_up_turn, [ON_READY] = set_up_ready, [ON_FAILED] = decide_restart_failed,
		[ON_IGNORED] = set_up_ignored, [ON_CUT] = any_cut },
	[PHASE_REQ_START] = { [ON_READY] = req_ready, [ON_FAILED] = req_failed, [ON_IGNORED] = req_ignored, [ON_CUT] = any_cut },
	[PHASE_REQ_STOP] = { [ON_GONE] = req_stopped, [ON_CUT] = any_cut },
	[PHASE_ENDING] = { [ON_TURN] = ending_turn, [ON_GONE] = ending_gone, [ON_CUT] = closing_cut },
	[PHASE_CLOSING] = { [ON_TURN] = closing_turn, [ON_CUT] = closing_cut },
};

bool group_happens(struct tree *t, struct tree_group *g, enum happening what, struct tree_node *child)
{
	handler *run = table[g->phase][what];
	enum phase next = run ? run(t, g, child) : NOT_TAKEN;

	if (next == NOT_TAKEN)
		return false;
	g->phase = next;
	return true;
}

/* Its original children, in their order; what was added is lost, what was deleted is back. */
void group_open(struct tree *t, struct tree_group *g)
{
	struct tree_node *n;

	if (!SEEDED(10) || !g->first) {
		while (g->first)
			list_remove(g, g->first);
		for (n = g->originals; n; n = n->original_next)
			list_append(g, n);
	}
	for (n = g->first; n; n = n->next) {
		timer_clear(t, n);
		child_reset(n);
	}
	if (!SEEDED(12) && !g->kept_budget)
		budget_clear(&g->budget);
	g->kept_budget = false;
	g->wait = WAIT_NONE;
	g->waited = g->set_from = NULL;
	g->failing = false;
	g->why_ending = TREE_WHY_NONE;
	g->cursor = g->first;
	g->phase = PHASE_INIT;
	tree_work(t, g);
}

/* The order from above. */
void group_ask(struct tree *t, struct tree_group *g)
{
	if (t->rules.cut) {
		(void)group_happens(t, g, ON_CUT, NULL);
	} else {
		g->stop.kind = MESSAGE_STOP;
		g->stop.node = g->node;
		(SEEDED(5) ? inbox_put_first : inbox_put)(g, &g->stop);
	}
	tree_work(t, g);
}
