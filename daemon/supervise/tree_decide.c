/* SPDX-License-Identifier: MIT
 *
 * What a group decides: whether an end is restarted, counted, too much; what is stopped and started with it; how long it
 * waits; whether the group ends with it. Control process; pure. */
#include "daemon/supervise/tree_inner.h"

/* In OTP's arithmetic both times are whole seconds, rounded down. */
static int64_t window_now(const struct tree *t)
{
	int64_t now_ms = t->now_ms;

	if (t->rules.exact_ms)
		return now_ms;
	return now_ms >= 0 ? now_ms / 1000 : -((-now_ms + 999) / 1000);
}

struct budget_view tree_budget(const struct tree *t, const struct tree_node *group, int64_t now_ms)
{
	struct budget_view v = { 0 };
	int64_t scale = t->rules.exact_ms ? 1 : 1000;
	struct budget_policy p;

	if (!group->group)
		return v;
	p = group->group->policy;
	p.period_ms /= (uint32_t)scale;
	v = budget_view(&group->group->budget, &p, now_ms / scale);
	v.frees_ms *= scale;
	v.resets_ms *= scale;
	return v;
}

/* false: too many. Counting comes before anything is stopped. */
bool decide_count(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_why why)
{
	struct budget_policy p = g->policy;
	struct tree_action *a;
	uint32_t delay_ms;
	bool allowed;

	if (!t->rules.exact_ms)
		p.period_ms /= 1000;
	if (SEEDED(14))
		p.period_ms--;
	allowed = budget_charge(&g->budget, &p, window_now(t), &delay_ms);
	n->restarts++;
	a = tree_emit(t, TREE_NOTE_COUNTED, n, why);
	a->used = g->budget.n;
	a->allowed = p.intensity;
	a->period_ms = g->policy.period_ms;
	return allowed;
}

static enum phase give_up(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	struct tree_action *a = tree_emit(t, TREE_NOTE_GAVE_UP, g->node, TREE_WHY_INTENSITY);

	a->used = g->budget.n;
	a->allowed = g->policy.intensity;
	a->period_ms = g->policy.period_ms;
	g->node->gave_up = true;
	child_forget(t, n);
	return group_finish(t, g, TREE_WHY_INTENSITY);
}

/* 0 for the first restart after a stable uptime, then doubling, and up to a quarter on top by the caller's random number. */
static uint32_t backoff_ms(const struct tree *t, struct tree_node *n)
{
	uint64_t ms = t->rules.backoff_first_ms, most = t->rules.backoff_max_ms;

	if (n->streak++ == 0)
		return 0;
	for (uint32_t i = 2; i < n->streak && ms < most; i++)
		ms *= 2;
	ms = ms < most ? ms : most;
	return (uint32_t)ms + budget_jitter_ms((uint32_t)ms, t->random);
}

static void retry_later(struct tree *t, struct tree_group *g, struct tree_node *n, bool counted)
{
	for (size_t i = 0; i < RETRIES; i++) {
		struct message *m = &n->retries[i];

		if (m->queued && SEEDED(2))
			return;
		if (m->queued)
			continue;
		*m = (struct message){ .node = n, .kind = MESSAGE_RETRY, .counted = counted };
		(SEEDED(8) ? inbox_put_first : inbox_put)(g, m);
		return;
	}
	(void)t;
}

/* A restart that has to wait: the child stays `restarting`, the group is free meanwhile. */
static void wait_before(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_what note, uint32_t delay_ms)
{
	for (size_t i = 0; i < RETRIES; i++)
		inbox_remove(g, &n->retries[i]);
	child_restarting(t, n);
	tree_emit(t, note, n, TREE_WHY_NONE)->delay_ms = delay_ms;
	if (delay_ms > 0)
		timer_arm(t, n, t->now_ms + delay_ms);
	else
		retry_later(t, g, n, true);
}

static enum phase restart_now(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_why why)
{
	g->crasher = n;
	g->why_restart = why;
	if (g->strategy == TREE_ONE_FOR_ONE) {
		child_start(t, n, why);
		return PHASE_ONE;
	}
	if (g->strategy == TREE_REST_FOR_ONE || (SEEDED(13) && why == TREE_WHY_RETRY))
		g->set_from = SEEDED(4) && why == TREE_WHY_RETRY && g->set_from && g->set_from->listed ? g->set_from : n;
	else
		g->set_from = NULL;
	child_forget(t, n);
	g->cursor = g->last;
	return PHASE_SET_DOWN;
}

static enum phase restart(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_why why, bool counted)
{
	uint32_t delay_ms;

	if (!counted && !(SEEDED(17) && why == TREE_WHY_RETRY) && !decide_count(t, g, n, why))
		return give_up(t, g, n);
	if (restart_delayed(t) && why != TREE_WHY_RETRY) {
		delay_ms = backoff_ms(t, n);
		if (delay_ms > 0) {
			wait_before(t, g, n, TREE_NOTE_BACKOFF, delay_ms);
			return PHASE_IDLE;
		}
	}
	return restart_now(t, g, n, why);
}

/* The start of a child failed in a restart: those before it run on, those behind it stay down, it is tried again behind all that
 * waits in the inbox. OTP counts the retry when it comes; with a back-off there is no sense in waiting for that. */
enum phase decide_restart_failed(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	if (restart_delayed(t)) {
		if (!decide_count(t, g, n, TREE_WHY_START_FAILED))
			return give_up(t, g, n);
		wait_before(t, g, n, TREE_NOTE_RETRY, backoff_ms(t, n));
		return PHASE_IDLE;
	}
	child_restarting(t, n);
	(void)tree_emit(t, TREE_NOTE_RETRY, n, TREE_WHY_START_FAILED);
	retry_later(t, g, n, false);
	return PHASE_IDLE;
}

static bool others_hold(const struct tree_group *g, const struct tree_node *but)
{
	for (const struct tree_node *n = g->first; n; n = n->next)
		if (n != but && n->significant && (SEEDED(1) ? n->state == CHILD_RUNNING : n->state != CHILD_UNDEFINED))
			return true;
	return false;
}

/* A child has ended by itself and isn't restarted. */
enum phase decide_ended(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_why why)
{
	(void)why;
	if (!n->significant || g->auto_shutdown == TREE_AUTO_NEVER)
		return PHASE_IDLE;
	if (g->auto_shutdown == TREE_AUTO_ANY)
		return group_finish(t, g, TREE_WHY_SIGNIFICANT);
	return others_hold(g, n) ? PHASE_IDLE : group_finish(t, g, TREE_WHY_ALL_SIGNIFICANT);
}

static enum phase decide_exit(struct tree *t, struct tree_group *g, struct tree_node *n)
{
	bool clean = tree_exit_is_clean(n->exit), gave_up = n->gave_up;
	enum tree_why why = n->restart == TREE_PERMANENT ? TREE_WHY_PERMANENT
			    : n->restart == TREE_TEMPORARY ? TREE_WHY_TEMPORARY
			    : clean ? TREE_WHY_CLEAN
				    : TREE_WHY_TRANSIENT;

	tree_emit(t, TREE_NOTE_EXITED, n, why)->exit = n->exit;
	if (why == TREE_WHY_PERMANENT || why == TREE_WHY_TRANSIENT)
		return restart(t, g, n, why, false);
	child_forget(t, n);
	n->failed = gave_up && t->rules.keep_failed;
	return decide_ended(t, g, n, why);
}

enum phase decide_message(struct tree *t, struct tree_group *g, struct message *m)
{
	switch (m->kind) {
	case MESSAGE_EXIT:
		return decide_exit(t, g, m->node);
	case MESSAGE_RETRY:
		if (m->node->state == CHILD_RESTARTING)
			return restart(t, g, m->node, TREE_WHY_RETRY, m->counted);
		(void)tree_emit(t, TREE_NOTE_RETRY_VOID, m->node, TREE_WHY_NONE);
		return PHASE_IDLE;
	case MESSAGE_STOP:
		return group_finish(t, g, TREE_WHY_ABOVE);
	case MESSAGE_REQUEST:
		return request_take(t, g, (struct request *)(void *)m);
	}
	return PHASE_IDLE;
}
