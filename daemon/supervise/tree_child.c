/* SPDX-License-Identifier: MIT
 *
 * One child of a group: its start, its stop, its end. Alone writes `state`. What follows for the group is its own
 * table's business. Control process; pure. */
#include "daemon/supervise/tree_inner.h"

static void wait_for(struct tree_node *n, enum wait what)
{
	if (!n->parent)
		return;
	n->parent->wait = what;
	n->parent->waited = what == WAIT_NONE ? NULL : n;
}

static void child_down(struct tree_node *n, enum child_state state)
{
	n->state = state;
	n->alive = false;
	n->instance = 0;
}

void child_reset(struct tree_node *n)
{
	child_down(n, CHILD_UNDEFINED);
	n->cancelled = n->dormant = n->gave_up = n->failed = false;
	n->streak = n->kept ? n->streak : 0;
	n->kept = false;
}

void child_restarting(struct tree *t, struct tree_node *n)
{
	timer_clear(t, n);
	child_down(n, CHILD_RESTARTING);
}

void child_start(struct tree *t, struct tree_node *n, enum tree_why why)
{
	timer_clear(t, n);
	child_down(n, CHILD_UNDEFINED);
	n->cancelled = n->killed = n->dormant = n->gave_up = n->failed = false;
	n->instance = ++t->instances;
	wait_for(n, WAIT_READY);
	(void)tree_emit(t, TREE_DO_START, n, why);
	if (n->group && (!t->rules.groups_wait || !n->parent))
		group_open(t, n->group);
}

/* It was waiting for its restart when an earlier tree was lost: it waits on. false: it is to be started now. */
bool child_waits_on(struct tree *t, struct tree_node *n)
{
	int64_t due_ms = n->kept_due_ms;

	n->kept_due_ms = 0;
	if (due_ms <= t->now_ms)
		return false;
	child_restarting(t, n);
	timer_arm(t, n, due_ms);
	return true;
}

void child_started(struct tree *t, struct tree_node *n, enum happening how)
{
	struct tree_group *g = n->parent;
	bool own = how == ON_READY && n->group; /* a group that has come up lets its parent go on first */

	wait_for(n, WAIT_NONE);
	(void)tree_emit(t, how == ON_READY ? TREE_NOTE_STARTED : how == ON_FAILED ? TREE_NOTE_START_FAILED : TREE_NOTE_IGNORED, n, TREE_WHY_NONE);
	if (how == ON_READY) {
		n->state = CHILD_RUNNING;
		n->alive = true;
		n->ready_ms = n->kept_ready_ms > 0 && n->kept_ready_ms < t->now_ms ? n->kept_ready_ms : t->now_ms;
	} else {
		child_down(n, CHILD_UNDEFINED);
	}
	n->kept_ready_ms = 0;
	if (!g) {
		tree_root_up(t);
		return;
	}
	(void)group_happens(t, g, how, n);
	(own ? tree_work_first : tree_work)(t, g);
}

/* No process is left of a child that was ready, or whose start was cut. */
void child_gone(struct tree *t, struct tree_node *n, enum tree_exit exit)
{
	struct tree_group *g = n->parent;

	if (g && n->alive && t->now_ms - n->ready_ms >= g->policy.period_ms)
		n->streak = 0;
	n->alive = false;
	n->ended = true;
	n->exit = exit;
	if (!g) {
		n->state = CHILD_UNDEFINED;
		tree_root_gone(t, exit);
		return;
	}
	if (g->wait == WAIT_GONE && g->waited == n) {
		wait_for(n, WAIT_NONE);
		timer_clear(t, n);
		(void)group_happens(t, g, ON_GONE, n);
	} else {
		n->exited.kind = MESSAGE_EXIT;
		n->exited.node = n;
		inbox_put(g, &n->exited);
	}
	tree_work(t, g);
}

void child_stopped(struct tree *t, struct tree_node *n)
{
	enum tree_exit wanted = n->shutdown_ms == TREE_SHUTDOWN_BRUTAL ? TREE_EXIT_KILLED : TREE_EXIT_SHUTDOWN;

	(void)tree_emit(t, TREE_NOTE_STOPPED, n, TREE_WHY_NONE);
	inbox_remove(n->parent, &n->exited); /* it was asked for: neither counted nor restarted */
	if (!n->cancelled && n->exit != wanted && !(tree_exit_is_clean(n->exit) && n->restart != TREE_PERMANENT))
		(void)tree_emit(t, TREE_NOTE_STOP_ERROR, n, TREE_WHY_NONE);
}

static void child_kill(struct tree *t, struct tree_node *n, enum tree_why why)
{
	n->killed = true;
	(void)tree_emit(t, TREE_DO_KILL, n, t->hurry ? TREE_WHY_HURRY : why);
}

void child_stop(struct tree *t, struct tree_node *n, enum tree_why why)
{
	bool brutal = n->shutdown_ms == TREE_SHUTDOWN_BRUTAL || (t->hurry && !n->group);

	if (n->state != CHILD_RUNNING)
		return;
	if (!n->alive) {
		(void)tree_emit(t, TREE_NOTE_ASKED_DEAD, n, brutal ? TREE_WHY_BRUTAL : why);
		child_stopped(t, n);
		return;
	}
	wait_for(n, WAIT_GONE);
	if (brutal) {
		child_kill(t, n, TREE_WHY_BRUTAL);
		return;
	}
	(void)tree_emit(t, TREE_DO_ASK, n, why);
	if (n->group)
		group_ask(t, n->group);
	else if (n->shutdown_ms >= 0)
		timer_arm(t, n, t->now_ms + n->shutdown_ms);
}

/* The group that waits for it to be ready has to end. */
void child_cancel(struct tree *t, struct tree_node *n)
{
	wait_for(n, WAIT_GONE);
	n->cancelled = true;
	if (n->group && n->group->phase != PHASE_CLOSED) {
		(void)tree_emit(t, TREE_DO_ASK, n, TREE_WHY_CUT);
		group_ask(t, n->group);
	} else {
		(void)tree_emit(t, TREE_DO_CANCEL, n, TREE_WHY_CUT);
	}
}

void child_forget(struct tree *t, struct tree_node *n)
{
	timer_clear(t, n);
	child_down(n, CHILD_UNDEFINED);
	if (n->restart == TREE_TEMPORARY && n->listed && !(SEEDED(16) && n->parent->phase == PHASE_SET_DOWN))
		child_remove(t, n);
}

void child_remove(struct tree *t, struct tree_node *n)
{
	timer_clear(t, n);
	inbox_remove(n->parent, &n->exited);
	for (size_t i = 0; i < RETRIES; i++)
		inbox_remove(n->parent, &n->retries[i]);
	list_remove(n->parent, n);
	(void)tree_emit(t, TREE_NOTE_REMOVED, n, TREE_WHY_NONE);
	if (!n->original)
		build_bury(t, n);
}

void child_time_is_over(struct tree *t, struct tree_node *n)
{
	struct tree_group *g = n->parent;

	timer_clear(t, n);
	if (n->state == CHILD_RESTARTING) {
		n->retries[0].kind = MESSAGE_RETRY;
		n->retries[0].node = n;
		n->retries[0].counted = true;
		inbox_put(g, &n->retries[0]);
		tree_work(t, g);
	} else if (g->wait == WAIT_GONE && g->waited == n) {
		child_kill(t, n, TREE_WHY_TIME);
	}
}
