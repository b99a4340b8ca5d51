/* SPDX-License-Identifier: MIT
 *
 * What clients ask of groups, and of sandboxes that are in one: a request to the tree, whose reply is the answer. A request that needs more
 * than one of them (restart, remove, destroy) goes on in pending_done. */
#include <stdlib.h>
#include <string.h>

#include "daemon/group/group.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/registry.h"
#include "proto/clock.h"
#include "proto/log.h"

static struct group *group_seen(const struct rpc_request *r, const char *id, struct err *e)
{
	struct group *g = group_find(id);

	if (g && rpc_may_see(r, g->owner))
		return g;
	err_set(e, ERR_NOT_FOUND, "there is no group %s", id);
	return NULL;
}

static bool is_up(struct group *g)
{
	struct group *top = group_top(g);

	if (!top->tree || tree_root_state(top->tree) != TREE_ROOT_UP)
		return false;
	return g == top || tree_find_group(top->tree, g->id);
}

static const struct rpc_done *no_memory(struct rpc_request *r)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_INTERNAL, "no memory for the request");
	return rpc_error(r, &e, NULL);
}

/* ---- answers ---- */

static void reply_error(enum tree_reply reply, const char *what, struct err *e)
{
	switch (reply) {
	case TREE_REPLY_NOT_FOUND:
		err_set(e, ERR_NOT_FOUND, "%s: it is in the group no more", what);
		return;
	case TREE_REPLY_RUNNING:
	case TREE_REPLY_RESTARTING:
	case TREE_REPLY_ALREADY_STARTED:
	case TREE_REPLY_ALREADY_PRESENT:
		err_set(e, ERR_WRONG_STATE, "%s: it is %s", what, reply == TREE_REPLY_RESTARTING ? "being restarted by its group" : "running");
		return;
	case TREE_REPLY_BAD_COMBINATION:
		err_set(e, ERR_BAD_PARAM, "%s: significant needs a group with auto_shutdown, and restart transient or temporary", what);
		return;
	case TREE_REPLY_START_FAILED:
		err_set(e, ERR_START_FAILED, "%s: the start failed", what);
		return;
	case TREE_REPLY_DOWN:
		err_set(e, ERR_WRONG_STATE, "%s: its group is down", what);
		return;
	case TREE_REPLY_BUSY:
		err_set(e, ERR_BUSY, "%s: %d requests wait in its group already", what, LIMIT_GROUP_REQUESTS);
		return;
	case TREE_REPLY_LIMIT:
		err_set(e, ERR_LIMIT_EXCEEDED, "%s: a group has at most %d members, groups nest %d deep", what, LIMIT_GROUP_CHILDREN, LIMIT_TREE_DEPTH);
		return;
	case TREE_REPLY_NO_MEMORY:
		err_set(e, ERR_INTERNAL, "%s: no memory", what);
		return;
	case TREE_REPLY_OK:
	case TREE_REPLY_OK_IGNORED:
	case TREE_REPLY_WHICH:
	case TREE_REPLY_COUNT:
	case TREE_REPLY_BAD_SPEC:
	case TREE_REPLY__N:
		err_set(e, ERR_BAD_PARAM, "%s: %s", what, tree_reply_text(reply));
		return;
	}
}

static bool is_ok(enum tree_reply reply)
{
	return reply == TREE_REPLY_OK || reply == TREE_REPLY_OK_IGNORED;
}

/* A child that wasn't started has its reason in the sandbox. */
static void answer_failed(struct rpc_request *r, struct member *m, enum tree_reply reply)
{
	struct err e = ERR_INIT;
	char what[100];

	(void)snprintf(what, sizeof what, "%s %s", m && m->group ? "group" : "sandbox", m && m->sandbox ? m->sandbox->spec.id : m && m->group ? m->group->id : "?");
	reply_error(reply, what, &e);
	if (reply == TREE_REPLY_START_FAILED && m && m->sandbox && sandbox_error_told(m->sandbox, SANDBOX_ERROR_START)->code != ERR_OK)
		err_set(&e, ERR_START_FAILED, "cannot start sandbox %s: %s", m->sandbox->spec.id, sandbox_error_told(m->sandbox, SANDBOX_ERROR_START)->text);
	else if (reply == TREE_REPLY_START_FAILED && m && m->sandbox && m->sandbox->last_exit.happened)
		err_set(&e, ERR_START_FAILED, "cannot start sandbox %s: it ended before it was ready: %s", m->sandbox->spec.id, m->sandbox->last_exit.reason);
	if (reply != TREE_REPLY_START_FAILED)
		rpc_key_not_begun(r);
	(void)rpc_error(r, &e, NULL);
}

static void leave(struct member *m)
{
	struct sandbox *sb = m->sandbox;

	member_detach(m);
	if (!sb)
		return;
	sb->spec.group[0] = '\0';
	sb->spec.significant = sb->resting = false;
	sandbox_counted_clear(sb);
	sandbox_keep_spec(sb);
	durable_write(sb);
	sandbox_status_changed(sb);
}

static void answer_member(struct rpc_request *r, struct member *m)
{
	if (m->sandbox)
		answer_info_durable(r, m->sandbox);
	else if (m->group)
		(void)group_answer(r, m->group);
}

/* The first half went well: it is stopped, and where that was asked for, out of the list. is_listed: it isn't yet. */
static void go_on(struct pending *p, bool is_listed)
{
	struct member *m = p->member;
	struct sandbox *sb = m->sandbox;
	struct group *g = m->group;
	struct rpc_request *r = p->request;

	if (p->kind == PENDING_RESTART_CHILD) {
		if (sb)
			sb->asked_restarts++;
		member_ask(PENDING_START_CHILD, m->listed ? TREE_ASK_RESTART : TREE_ASK_START_CHILD, m, false, r);
	} else if (is_listed) {
		member_ask(p->kind, TREE_ASK_DELETE, m, p->then_start, r);
	} else if (g) {
		group_delete(g, r);
		group_gone(g);
	} else if (sb) {
		leave(m);
		if (!r || (p->kind == PENDING_DESTROY && sandbox_request(sb, LIFE_DESTROY, false, r)))
			return;
		if (p->kind == PENDING_REMOVE && p->then_start && sandbox_request(sb, LIFE_START, true, r))
			return;
		answer_info_durable(r, sb);
	}
}

static bool is_first_half(const struct pending *p, enum tree_reply reply)
{
	if (p->kind == PENDING_RESTART_CHILD)
		return is_ok(reply) || reply == TREE_REPLY_NOT_FOUND;
	return (p->kind == PENDING_REMOVE || p->kind == PENDING_DESTROY) && (is_ok(reply) || reply == TREE_REPLY_NOT_FOUND || reply == TREE_REPLY_DOWN);
}

void pending_done(struct group *top, struct pending *p, enum tree_reply reply)
{
	struct member *m = p->member && !p->member->is_dead ? p->member : NULL;
	struct rpc_request *r = p->request;
	struct err e = ERR_INIT;

	(void)top;
	if (m && m->sandbox)
		sandbox_status_changed(m->sandbox);
	if (m && m->sandbox && p->kind == PENDING_STOP_CHILD && is_ok(reply)) {
		m->sandbox->resting = true;
		sandbox_keep_spec(m->sandbox);
		durable_life(m->sandbox);
	}
	if (m && p->ask == TREE_ASK_START_CHILD && !is_ok(reply) && reply != TREE_REPLY_ALREADY_STARTED && reply != TREE_REPLY_ALREADY_PRESENT)
		m->listed = false;
	if (!m && r) {
		err_set(&e, ERR_NOT_FOUND, "it was destroyed meanwhile");
		(void)rpc_error(r, &e, NULL);
	} else if (m && is_first_half(p, reply)) {
		go_on(p, m->listed && is_ok(reply) && p->ask == TREE_ASK_TERMINATE);
	} else if (m && r && is_ok(reply)) {
		answer_member(r, m);
	} else if (r) {
		answer_failed(r, m, reply);
	} else if (m && m->sandbox && !is_ok(reply) && reply != TREE_REPLY_ALREADY_PRESENT) {
		log_warning("group=%s sandbox %s could not be started with it: %s", m->in->id, m->sandbox->spec.id, tree_reply_text(reply));
	}
	free(p);
}

static bool is_restarted(const struct group *top)
{
	for (const struct pending *p = top->pending; p; p = p->next)
		if (p->number == 0 && p->then_start)
			return true;
	return false;
}

void pending_whole(struct group *top, bool up)
{
	struct pending *list = top->pending, **keep = &top->pending;
	bool comes_up = !up && is_restarted(top);

	for (struct pending *p = list, *next; p; p = next) {
		struct err e = ERR_INIT;

		next = p->next;
		if (p->number != 0 || (p->wants_up && !up && !top->failed && comes_up) || (!p->wants_up && up)) {
			*keep = p;
			keep = &p->next;
			continue;
		}
		if (p->then_start && !up) { /* a restart: down now */
			top->start_again = true;
			p->then_start = false;
			p->wants_up = true;
			*keep = p;
			keep = &p->next;
			continue;
		}
		if (p->request && p->wants_up && top->failed) {
			err_set(&e, ERR_START_FAILED, "group %s is failed: %s", top->id, top->why);
			(void)rpc_error(p->request, &e, NULL);
		} else if (p->request && p->wants_up && !up) {
			err_set(&e, ERR_WRONG_STATE, "group %s was stopped before it was up", top->id);
			(void)rpc_error(p->request, &e, NULL);
		} else if (p->request) {
			group_write(top, p->request);
		}
		free(p);
	}
	*keep = NULL;
}

/* ---- sandboxes in groups ---- */

const struct rpc_done *group_sandbox_request(struct sandbox *sb, struct rpc_request *r, enum life_event_type type, bool keep)
{
	struct member *m = sb->member;
	struct group *top = group_top(m->in);
	const struct rpc_done *taken;
	enum pending_kind kind;
	enum tree_ask ask = TREE_ASK_TERMINATE;
	struct err e = ERR_INIT;

	sb->keep_at_stop = keep;
	if (type == LIFE_START || type == LIFE_RESTART || (type == LIFE_STOP && m->listed))
		if (!is_up(m->in)) {
			err_set(&e, ERR_WRONG_STATE, "sandbox %s: its group %s is %s; start that", sb->spec.id, m->in->id, group_status(m->in));
			return rpc_error(r, &e, NULL);
		}
	taken = rpc_pending(r);
	if ((type == LIFE_DESTROY || type == LIFE_STOP) && (!m->listed || !top->tree)) {
		if (type == LIFE_DESTROY)
			leave(m);
		if (!sandbox_request(sb, type, keep, r)) {
			err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
			(void)rpc_error(r, &e, NULL);
		}
		return taken;
	}
	if (!keep && type != LIFE_DESTROY)
		durable_state_dropped(sb);
	kind = type == LIFE_STOP ? PENDING_STOP_CHILD : type == LIFE_DESTROY ? PENDING_DESTROY : PENDING_RESTART_CHILD;
	if (type == LIFE_START || (type == LIFE_RESTART && !m->listed)) {
		kind = PENDING_START_CHILD;
		ask = m->listed ? TREE_ASK_RESTART : TREE_ASK_START_CHILD;
		sb->asked_restarts += type == LIFE_RESTART;
	}
	member_ask(kind, ask, m, false, r);
	return taken;
}

int group_of_create(struct control *c, const struct rpc_request *r, struct group **ret, struct err *e)
{
	const char *id = rpc_text(r, "group"), *restart = rpc_text(r, "restart");
	bool significant = rpc_bool(r, "significant", false);
	struct group *g;

	(void)c;
	*ret = NULL;
	if (group_find(rpc_text(r, "id")))
		return err_set(e, ERR_ALREADY_EXISTS, "there is a group %s already", rpc_text(r, "id"));
	if (!id)
		return significant ? err_set(e, ERR_BAD_PARAM, "significant is for sandboxes in a group") : 0;
	g = group_seen(r, id, e);
	if (!g)
		return -1;
	if (significant && (g->auto_shutdown == TREE_AUTO_NEVER || !restart || strcmp(restart, "permanent") == 0))
		return err_set(e, ERR_BAD_PARAM, "significant needs a group with auto_shutdown, and restart transient or temporary");
	if (!is_up(g))
		return err_set(e, ERR_WRONG_STATE, "group %s is %s: start it first", g->id, group_status(g));
	*ret = g;
	return 0;
}

void group_join(struct group *g, struct sandbox *sb)
{
	(void)g;
	member_ask(PENDING_SILENT, TREE_ASK_START_CHILD, sb->member, false, NULL);
}

/* ---- methods ---- */

static int choice(const char *text, const char *const *names, int n, int otherwise)
{
	for (int i = 0; text && i < n; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	return otherwise;
}

static int create_check(const struct rpc_request *r, struct control *c, struct group **ret_parent, struct err *e)
{
	const char *id = rpc_text(r, "id"), *parent = rpc_text(r, "parent");
	unsigned depth = 1;

	*ret_parent = NULL;
	if (group_find(id) || registry_get(c->registry, id))
		return err_set(e, ERR_ALREADY_EXISTS, "there is a group or sandbox %s already", id);
	if (group_count() >= c->begin.max_sandboxes)
		return err_set(e, ERR_LIMIT_EXCEEDED, "there are %zu groups already", group_count());
	if (!parent)
		return rpc_bool(r, "significant", false) ? err_set(e, ERR_BAD_PARAM, "significant is for groups in a group") : 0;
	*ret_parent = group_seen(r, parent, e);
	if (!*ret_parent)
		return -1;
	for (const struct group *g = *ret_parent; g; g = g->parent)
		depth++;
	if (depth > LIMIT_TREE_DEPTH)
		return err_set(e, ERR_LIMIT_EXCEEDED, "groups nest %d deep at most", LIMIT_TREE_DEPTH);
	if (rpc_bool(r, "significant", false) && ((*ret_parent)->auto_shutdown == TREE_AUTO_NEVER || !rpc_text(r, "restart") ||
							 strcmp(rpc_text(r, "restart"), "permanent") == 0))
		return err_set(e, ERR_BAD_PARAM, "significant needs a parent with auto_shutdown, and restart transient or temporary");
	if (!is_up(*ret_parent))
		return err_set(e, ERR_WRONG_STATE, "group %s is %s: start it first", parent, group_status(*ret_parent));
	return 0;
}

const struct rpc_done *group_create(struct control *c, struct rpc_request *r)
{
	static const char *const strategies[] = { "one_for_one", "one_for_all", "rest_for_one" }, *const autos[] = { "never", "any_significant", "all_significant" },
		*const restarts[] = { "permanent", "transient", "temporary" };
	const struct rpc_done *taken;
	struct group *parent, *g;
	struct err e = ERR_INIT;

	if (create_check(r, c, &parent, &e) < 0)
		return rpc_error(r, &e, NULL);
	g = group_new(c, rpc_text(r, "id"), registry_created_at(c->registry, clock_wall_ms()));
	if (!g || (parent && !member_new(parent, NULL, g))) {
		if (g)
			group_gone(g);
		return no_memory(r);
	}
	g->owner = rpc_uid(r);
	g->strategy = (enum tree_strategy)choice(rpc_text(r, "strategy"), strategies, 3, TREE_ONE_FOR_ONE);
	g->auto_shutdown = (enum tree_auto)choice(rpc_text(r, "auto_shutdown"), autos, 3, TREE_AUTO_NEVER);
	g->restart = (enum tree_restart)choice(rpc_text(r, "restart"), restarts, 3, TREE_PERMANENT);
	g->significant = rpc_bool(r, "significant", false);
	g->intensity = (uint32_t)rpc_integer(r, "intensity", DEFAULT_RESTART_INTENSITY);
	g->period_ms = (uint32_t)rpc_integer(r, "period_ms", DEFAULT_RESTART_PERIOD_MS);
	g->wanted = true;
	taken = rpc_pending(r);
	group_event(g, "group.created", NULL, NULL);
	group_decided(g, "created", "It was created: strategy %s, %u restarts of members within %u ms.", tree_strategy_text(g->strategy), g->intensity, g->period_ms);
	if (parent) {
		g->parent = parent;
		(void)snprintf(g->parent_id, sizeof g->parent_id, "%s", parent->id);
		group_write(g, r);
		member_ask(PENDING_SILENT, TREE_ASK_START_CHILD, g->member, false, NULL);
	} else if (group_start_tree(g, false, &e) < 0) {
		rpc_key_not_begun(r);
		(void)rpc_error(r, &e, NULL);
		group_gone(g);
	} else {
		struct pending *p = calloc(1, sizeof *p);

		if (!p) {
			group_write(g, r);
			return taken;
		}
		*p = (struct pending){ .kind = PENDING_GROUP, .wants_up = true, .request = r, .group = g, .next = g->pending };
		g->pending = p;
	}
	return taken;
}

const struct rpc_done *group_list(struct control *c, struct rpc_request *r)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;

	(void)c;
	json_out_object(&o, NULL);
	json_out_array(&o, "groups");
	for (struct group *g = group_first(); g; g = g->hh.next)
		if (rpc_may_see(r, g->owner))
			group_json(g, &o, NULL, false);
	json_out_array_end(&o);
	json_out_object_end(&o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}

const struct rpc_done *group_info(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);

	(void)c;
	return g ? group_answer(r, g) : rpc_error(r, &e, NULL);
}

const struct rpc_done *group_tree_request(struct control *c, struct rpc_request *r)
{
	const char *id = rpc_text(r, "id");
	struct err e = ERR_INIT;
	struct group *only = id ? group_seen(r, id, &e) : NULL;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;

	if (id && !only)
		return rpc_error(r, &e, NULL);
	json_out_object(&o, NULL);
	json_out_array(&o, "groups");
	for (struct group *g = group_first(); g; g = g->hh.next)
		if (only ? g == only : !g->parent && rpc_may_see(r, g->owner))
			group_json(g, &o, NULL, true);
	json_out_array_end(&o);
	json_out_array(&o, "sandboxes");
	for (struct sandbox *sb = registry_first(c->registry); sb && !only; sb = registry_next(sb))
		if (!sb->member && !sb->forgetting && rpc_may_see(r, sb->spec.owner))
			sandbox_tree_row_json(sb, &o);
	json_out_array_end(&o);
	json_out_object_end(&o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}

/* A whole tree is started or stopped: the answer comes with UP or DOWN. */
static const struct rpc_done *whole(struct group *g, struct rpc_request *r, bool wants_up, bool then_start)
{
	const struct tree_event stop = { .type = TREE_STOP };
	struct pending *p = calloc(1, sizeof *p);
	const struct rpc_done *taken;
	struct err e = ERR_INIT;

	if (!p)
		return no_memory(r);
	taken = rpc_pending(r);
	group_decided(g, "request", "A %s was asked for.", wants_up ? "start" : then_start ? "restart" : "stop");
	*p = (struct pending){ .kind = PENDING_GROUP, .wants_up = wants_up, .then_start = then_start, .request = r, .group = g, .next = g->pending };
	g->pending = p;
	if (!wants_up) {
		g->wanted = then_start;
		g->stop_asked = true;
		group_fact(g, &stop);
	} else if (group_start_tree(g, false, &e) < 0) {
		g->pending = p->next;
		free(p);
		rpc_key_not_begun(r);
		(void)rpc_error(r, &e, NULL);
	}
	return taken;
}

static const struct rpc_done *child_group(struct group *g, struct rpc_request *r, enum pending_kind kind, enum tree_ask ask)
{
	const struct rpc_done *taken;
	struct err e = ERR_INIT;

	if (!is_up(g->parent)) {
		err_set(&e, ERR_WRONG_STATE, "group %s: its parent %s is %s; start that", g->id, g->parent->id, group_status(g->parent));
		return rpc_error(r, &e, NULL);
	}
	taken = rpc_pending(r);
	g->stop_asked = g->stop_asked || ask == TREE_ASK_TERMINATE;
	group_decided(g, "request", "A %s was asked for.", kind == PENDING_RESTART_CHILD ? "restart" : ask == TREE_ASK_TERMINATE ? "stop" : "start");
	member_ask(kind, g->member->listed ? ask : TREE_ASK_START_CHILD, g->member, false, r);
	return taken;
}

static bool is_at_rest(const struct group *g)
{
	if (group_begins(g))
		return false;
	return !g->tree || tree_root_state(g->tree) == TREE_ROOT_DOWN || tree_root_state(g->tree) == TREE_ROOT_FAILED;
}

/* What a start of all that is down in it would add to the totals of whoever asks. */
static void start_adds(const struct group *g, uid_t owner, struct owner_share *more)
{
	size_t n;
	struct member **list = group_members(g, &n);

	for (size_t i = 0; list && i < n; i++) {
		if (list[i]->group)
			start_adds(list[i]->group, owner, more);
		else
			owned_add_start(list[i]->sandbox, owner, more);
	}
	free(list);
}

static int start_check(const struct control *c, const struct group *g, const struct rpc_request *r, struct err *e)
{
	struct owner_share more = { 0 };

	start_adds(g, rpc_uid(r), &more);
	return owned_check(c, rpc_uid(r), &more, r, e);
}

const struct rpc_done *group_start(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);

	if (!g || start_check(c, g, r, &e) < 0)
		return rpc_error(r, &e, NULL);
	if (g->parent)
		return child_group(g, r, PENDING_GROUP, TREE_ASK_RESTART);
	if (is_at_rest(g))
		return whole(g, r, true, false);
	err_set(&e, ERR_WRONG_STATE, "group %s is %s", g->id, group_status(g));
	return rpc_error(r, &e, NULL);
}

const struct rpc_done *group_stop(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);

	(void)c;
	if (!g)
		return rpc_error(r, &e, NULL);
	if (g->parent)
		return is_up(g->parent) ? child_group(g, r, PENDING_GROUP, TREE_ASK_TERMINATE) : group_answer(r, g);
	return is_at_rest(g) ? group_answer(r, g) : whole(g, r, false, false);
}

const struct rpc_done *group_restart(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);

	if (!g || start_check(c, g, r, &e) < 0)
		return rpc_error(r, &e, NULL);
	if (g->parent)
		return child_group(g, r, PENDING_RESTART_CHILD, TREE_ASK_TERMINATE);
	return is_at_rest(g) ? whole(g, r, true, false) : whole(g, r, false, true);
}

static void counted_reset(const struct group *g)
{
	size_t n;
	struct member **list = group_members(g, &n);

	for (size_t i = 0; list && i < n; i++) {
		if (list[i]->group) {
			counted_reset(list[i]->group);
			continue;
		}
		budget_clear(&list[i]->sandbox->counted.budget);
		sandbox_keep_spec(list[i]->sandbox);
	}
	free(list);
}

const struct rpc_done *group_reset(struct control *c, struct rpc_request *r)
{
	const struct tree_event reset = { .type = TREE_RESET };
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e), *top;
	const struct rpc_done *taken;

	(void)c;
	if (!g)
		return rpc_error(r, &e, NULL);
	top = group_top(g);
	taken = rpc_pending(r);
	counted_reset(top);
	if (is_at_rest(top)) {
		group_tree_end(top);
		top->failed = false;
		top->why[0] = '\0';
	} else {
		group_fact(top, &reset);
	}
	group_event(g, "group.reset", NULL, NULL);
	group_decided(g, "reset", "A reset was asked for: the restart budgets of the whole tree are as new.");
	group_write(g, r);
	return taken;
}

const struct rpc_done *group_destroy(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);
	const struct rpc_done *taken;

	(void)c;
	if (!g)
		return rpc_error(r, &e, NULL);
	if (group_has_members(g) || g->pending) {
		err_set(&e, ERR_WRONG_STATE, "group %s has members: destroy or remove them first", g->id);
		return rpc_error(r, &e, NULL);
	}
	taken = rpc_pending(r);
	group_event(g, "group.destroyed", NULL, NULL);
	if (g->parent && g->member->listed) {
		member_ask(PENDING_REMOVE, TREE_ASK_TERMINATE, g->member, false, r);
		return taken;
	}
	group_delete(g, r);
	group_gone(g);
	return taken;
}

const struct rpc_done *group_add(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);
	struct sandbox *sb = registry_get(c->registry, rpc_text(r, "sandbox"));
	bool significant = rpc_bool(r, "significant", false);
	const struct rpc_done *taken;
	struct member *m;

	if (!g)
		return rpc_error(r, &e, NULL);
	if (!sb || sb->forgetting || !rpc_may_see(r, sb->spec.owner))
		err_set(&e, ERR_NOT_FOUND, "there is no sandbox %s", rpc_text(r, "sandbox"));
	else if (sb->member)
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is in the group %s: remove it there first", sb->spec.id, sb->spec.group);
	else if (sb->life.creating || sb->life.state == LIFE_INITIALIZING || sb->life.state == LIFE_COMPILING)
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
	else if (significant && (g->auto_shutdown == TREE_AUTO_NEVER || sb->spec.policy.restart == LIFE_PERMANENT))
		err_set(&e, ERR_BAD_PARAM, "significant needs a group with auto_shutdown, and restart transient or temporary");
	else if (!is_up(g))
		err_set(&e, ERR_WRONG_STATE, "group %s is %s: start it first", g->id, group_status(g));
	else
		(void)owned_check_start(sb, r, &e);
	if (!sb || e.code != ERR_OK)
		return rpc_error(r, &e, NULL);
	m = member_new(g, sb, NULL);
	if (!m)
		return no_memory(r);
	(void)snprintf(sb->spec.group, sizeof sb->spec.group, "%s", g->id);
	sb->spec.significant = significant;
	sb->spec.joined_at_ms = registry_created_at(c->registry, clock_wall_ms());
	sb->member_ready = sb->life.state == LIFE_RUNNING || sb->life.state == LIFE_RELOADING || sb->life.state == LIFE_FROZEN;
	sandbox_keep_spec(sb);
	durable_write(sb);
	taken = rpc_pending(r);
	member_ask(PENDING_START_CHILD, TREE_ASK_START_CHILD, m, false, r);
	return taken;
}

const struct rpc_done *group_remove(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct group *g = group_seen(r, rpc_text(r, "id"), &e);
	struct sandbox *sb = registry_get(c->registry, rpc_text(r, "sandbox"));
	const struct rpc_done *taken;
	struct member *m;

	if (!g)
		return rpc_error(r, &e, NULL);
	m = sb ? sb->member : NULL;
	if (!m || m->in != g || sb->forgetting || !rpc_may_see(r, sb->spec.owner)) {
		err_set(&e, ERR_NOT_FOUND, "there is no sandbox %s in group %s", rpc_text(r, "sandbox"), g->id);
		return rpc_error(r, &e, NULL);
	}
	if (!m->listed || !is_up(g)) {
		taken = rpc_pending(r);
		leave(m);
		answer_info_durable(r, sb);
		return taken;
	}
	taken = rpc_pending(r);
	sb->keep_at_stop = true;
	member_ask(PENDING_REMOVE, TREE_ASK_TERMINATE, m, sb->member_ready, r);
	return taken;
}
