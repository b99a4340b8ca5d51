/* SPDX-License-Identifier: MIT
 *
 * What the life of a member tells its group, and what the group answers when the sandbox asks: is it going to be started, is that decided?
 * See group.h. */
#include "daemon/group/group.h"

static enum tree_exit exit_of(enum life_exit e)
{
	static const enum tree_exit of[LIFE_EXIT__N] = { [LIFE_EXIT_NORMAL] = TREE_EXIT_NORMAL, [LIFE_EXIT_SHUTDOWN] = TREE_EXIT_SHUTDOWN,
		[LIFE_EXIT_ERROR] = TREE_EXIT_ERROR, [LIFE_EXIT_KILLED] = TREE_EXIT_KILLED };

	return of[e];
}

static void keeper_changed(struct sandbox *sb, enum life_state before)
{
	struct member *m = sb->member;
	struct group *top = group_top(m->in);
	struct tree_ref ref = m->ref;

	if (sb->life.gone)
		return;
	if (before == LIFE_STARTING && sb->life.state == LIFE_RUNNING) {
		sb->member_ready = true;
		if (ref.instance != 0)
			member_fact(top, TREE_READY, ref, TREE_EXIT_NORMAL);
		else if (!m->listed && top->tree && !sb->control->shutting_down) /* its first start, by create */
			group_join(m->in, sb);
		return;
	}
	if (!member_is_down(sb) || ref.instance == 0)
		return;
	if (m->start_when_down) { /* it was still on its way down from before */
		member_start(top, m, TREE_WHY_REQUEST);
		return;
	}
	member_fact(top, sb->member_ready ? TREE_EXITED : TREE_FAILED, ref, sb->last_exit.happened ? exit_of(sb->last_exit.exit) : TREE_EXIT_ERROR);
	sb->member_ready = false;
	m->ref.instance = 0;
}

static void keeper_gone(struct sandbox *sb)
{
	struct member *m = sb->member;
	struct group *top = group_top(m->in);

	if (m->ref.instance != 0)
		member_fact(top, sb->member_ready ? TREE_EXITED : TREE_FAILED, m->ref, TREE_EXIT_SHUTDOWN);
	m->ref.instance = 0;
	member_detach(m);
}

static const struct tree_node *node_of(const struct tree_node *group, const struct member *m)
{
	for (const struct tree_node *n = tree_child_first(group); n; n = tree_child_next(n)) {
		struct tree_view v = tree_view(n);
		const struct tree_node *found;

		if (v.user == m)
			return n;
		if (v.type == TREE_GROUP && (found = node_of(n, m)))
			return found;
	}
	return NULL;
}

bool member_view(const struct sandbox *sb, struct tree_view *ret)
{
	const struct member *m = sb->member;
	struct group *top = group_top(m->in);
	const struct tree_node *g = top->tree ? m->in == top ? tree_top(top->tree) : tree_find_group(top->tree, m->in->id) : NULL;
	const struct tree_node *n = g ? node_of(g, m) : NULL;

	if (n)
		*ret = tree_view(n);
	return n;
}

static bool view_of_down(const struct sandbox *sb, struct tree_view *ret)
{
	return member_is_down(sb) && member_view(sb, ret);
}

/* Its end is on the way, or waits in the group's inbox. */
static bool is_undecided(const struct tree_view *v)
{
	return v->state == TREE_RUNNING || v->state == TREE_STARTING || v->state == TREE_STOPPING;
}

static bool keeper_undecided(const struct sandbox *sb)
{
	struct tree_view v;

	return view_of_down(sb, &v) && is_undecided(&v);
}

/* What follows by its restart type, if nothing comes in between. */
static bool is_likely_restarted(const struct sandbox *sb)
{
	const struct member *m = sb->member;
	enum life_restart restart = sb->spec.policy.restart;

	if (m->is_asked || tree_root_state(group_top(m->in)->tree) != TREE_ROOT_UP)
		return false;
	return restart == LIFE_PERMANENT || (restart == LIFE_TRANSIENT && sb->last_exit.happened && !life_exit_is_clean(sb->last_exit.exit));
}

static bool keeper_waits(const struct sandbox *sb, int64_t *ret_due_ms)
{
	struct tree_view v;

	if (!view_of_down(sb, &v))
		return false;
	*ret_due_ms = v.due_ms;
	if (is_undecided(&v))
		return is_likely_restarted(sb);
	return v.state == TREE_BACKOFF || v.state == TREE_RESTARTING || v.to_start;
}

static bool keeper_budget(const struct sandbox *sb, struct budget_view *ret, uint32_t *ret_period_ms)
{
	const struct member *m = sb->member;

	if (!m || !m->in)
		return false;
	*ret = group_budget(m->in);
	*ret_period_ms = m->in->period_ms;
	return true;
}

const struct sandbox_keeper group_keeper = { .changed = keeper_changed, .gone = keeper_gone, .waits = keeper_waits, .budget = keeper_budget,
	.undecided = keeper_undecided };
