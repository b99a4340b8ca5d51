/* SPDX-License-Identifier: MIT
 *
 * A group shown: itself, its members, and all below them. */
#include <stdlib.h>

#include "daemon/group/group.h"
#include "proto/clock.h"

static const struct tree_node *node_in(struct group *g)
{
	struct group *top = group_top(g);

	return !top->tree ? NULL : g == top ? tree_top(top->tree) : tree_find_group(top->tree, g->id);
}

static const struct tree_node *child_of(const struct tree_node *group, const struct member *m)
{
	for (const struct tree_node *n = group ? tree_child_first(group) : NULL; n; n = tree_child_next(n))
		if (tree_view(n).user == m)
			return n;
	return NULL;
}

const char *group_status(struct group *g)
{
	const struct tree_node *n;

	if (!g->parent && group_begins(g))
		return tree_root_text(TREE_ROOT_STARTING);
	if (!g->parent)
		return g->tree ? tree_root_text(tree_root_state(g->tree)) : g->failed ? "failed" : "down";
	n = child_of(node_in(g->parent), g->member);
	return n ? tree_state_text(tree_view(n).state) : "down";
}

struct budget_view group_budget(struct group *g)
{
	const struct tree_node *n = node_in(g);

	return n ? tree_budget(group_top(g)->tree, n, clock_monotonic_ms()) : (struct budget_view){ .allowed = g->intensity };
}

static void budget_json(struct group *g, struct json_out *o)
{
	struct budget_view b = group_budget(g);

	json_out_object(o, "budget");
	json_out_u64(o, "used", b.used);
	json_out_u64(o, "allowed", b.allowed);
	json_out_u64(o, "period_ms", g->period_ms);
	json_out_i64(o, "resets_in_ms", b.resets_ms);
	json_out_object_end(o);
}

static void sandbox_json(struct member *m, const struct tree_node *group, struct json_out *o)
{
	const struct sandbox *sb = m->sandbox;
	const struct tree_node *n = child_of(group, m);
	struct tree_view v = { 0 };
	int64_t now_ms = clock_monotonic_ms();

	if (n)
		v = tree_view(n);
	json_out_object(o, NULL);
	json_out_text(o, "id", sb->spec.id);
	json_out_text(o, "type", "sandbox");
	json_out_text(o, "status", sandbox_status_text(sb));
	json_out_text(o, "restart", life_restart_text(sb->spec.policy.restart));
	json_out_bool(o, "significant", sb->spec.significant);
	json_out_text(o, "in_group", n ? tree_state_text(v.state) : "down");
	json_out_u64(o, "restart_count", sandbox_restarts(sb));
	if (n && v.due_ms > 0)
		json_out_i64(o, "due_in_ms", v.due_ms > now_ms ? v.due_ms - now_ms : 0);
	if (sb->host)
		json_out_i64(o, "pid", sb->host->pid);
	else
		json_out_null(o, "pid");
	json_out_object_end(o);
}

void group_json(struct group *g, struct json_out *o, const char *key, bool deep)
{
	const struct tree_node *node = node_in(g);
	struct member **members;
	size_t n;

	json_out_object(o, key);
	json_out_text(o, "id", g->id);
	json_out_text(o, "type", "group");
	json_out_text(o, "status", group_status(g));
	json_out_text(o, "status_reason", g->why[0] ? g->why : NULL);
	json_out_u64(o, "owner", g->owner);
	json_out_text(o, "parent", g->parent ? g->parent->id : NULL);
	json_out_text(o, "strategy", tree_strategy_text(g->strategy));
	json_out_text(o, "auto_shutdown", tree_auto_text(g->auto_shutdown));
	json_out_text(o, "restart", tree_restart_text(g->restart));
	json_out_bool(o, "significant", g->significant);
	json_out_bool(o, "wanted", group_top(g)->wanted);
	budget_json(g, o);
	json_out_u64(o, "restart_count", g->restarts);
	json_out_i64(o, "created_at", g->created_at_ms);
	members = group_members(g, &n);
	json_out_array(o, "members");
	for (size_t i = 0; members && i < n; i++) {
		if (members[i]->sandbox)
			sandbox_json(members[i], node, o);
		else if (deep)
			group_json(members[i]->group, o, NULL, true);
		else {
			json_out_object(o, NULL);
			json_out_text(o, "id", members[i]->group->id);
			json_out_text(o, "type", "group");
			json_out_text(o, "status", group_status(members[i]->group));
			json_out_object_end(o);
		}
	}
	json_out_array_end(o);
	free(members);
	json_out_object_end(o);
}

const struct rpc_done *group_answer(struct rpc_request *r, struct group *g)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;

	group_json(g, &o, NULL, false);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}
