/* SPDX-License-Identifier: MIT
 *
 * The groups by id, their members, their rows in the registry. See group.h. */
#include "daemon/group/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/observe/events.h"
#include "daemon/sandbox/registry.h"
#include "daemon/store/storage.h"
#include "proto/clock.h"
#include "proto/log.h"

static struct group *all; /* of this control process */

struct group *group_find(const char *id)
{
	struct group *g = NULL;

	if (id)
		HASH_FIND_STR(all, id, g);
	return g;
}

struct group *group_first(void)
{
	return all;
}

size_t group_count(void)
{
	return HASH_COUNT(all);
}

struct group *group_top(struct group *g)
{
	while (g->parent)
		g = g->parent;
	return g;
}

struct group *group_new(struct control *c, const char *id, int64_t created_at_ms)
{
	struct group *g = calloc(1, sizeof *g);

	if (!g)
		return NULL;
	(void)snprintf(g->id, sizeof g->id, "%s", id);
	g->control = c;
	g->created_at_ms = created_at_ms;
	g->intensity = DEFAULT_RESTART_INTENSITY;
	g->period_ms = DEFAULT_RESTART_PERIOD_MS;
	uv_timer_init(c->loop, &g->due);
	uv_timer_init(c->loop, &g->pump);
	g->due.data = g->pump.data = g;
	g->open_handles = 2;
	HASH_ADD_STR(all, id, g);
	return g;
}

static void group_free_when_done(struct group *g)
{
	if (!g->is_gone || g->open_handles > 0 || g->writes > 0)
		return;
	free(g->facts);
	free(g->decisions);
	free(g);
}

static void handle_closed(uv_handle_t *handle)
{
	struct group *g = handle->data;

	g->open_handles--;
	group_free_when_done(g);
}

void group_gone(struct group *g)
{
	group_tree_end(g);
	if (g->member) {
		struct member *m = g->member;

		g->member = NULL;
		m->group = NULL;
		member_detach(m);
	}
	HASH_DEL(all, g);
	g->is_gone = true;
	uv_close((uv_handle_t *)&g->due, handle_closed);
	uv_close((uv_handle_t *)&g->pump, handle_closed);
}

/* ---- members ---- */

struct member *member_new(struct group *in, struct sandbox *sandbox, struct group *group)
{
	struct member *m = calloc(1, sizeof *m);

	if (!m)
		return NULL;
	m->in = in;
	m->sandbox = sandbox;
	m->group = group;
	if (group)
		group->member = m;
	if (sandbox) {
		sandbox->member = m;
		sandbox->keeper = &group_keeper;
	}
	return m;
}

void member_detach(struct member *m)
{
	if (m->sandbox) {
		m->sandbox->member = NULL;
		m->sandbox->keeper = NULL;
		m->sandbox = NULL;
	}
	for (struct pending *p = group_top(m->in)->pending; p; p = p->next)
		if (p->member == m)
			p->member = NULL;
	m->in = group_top(m->in); /* lives as long as its tree */
	m->is_dead = true;
	if (m->nodes == 0)
		free(m);
}

void member_released(struct member *m)
{
	if (--m->nodes > 0)
		return;
	m->listed = false;
	m->ref.instance = 0;
	if (m->is_dead)
		free(m);
}

static int64_t order_of(const struct member *m)
{
	return m->group ? m->group->created_at_ms : m->sandbox->spec.joined_at_ms;
}

static int by_order(const void *a, const void *b)
{
	int64_t x = order_of(*(struct member *const *)a), y = order_of(*(struct member *const *)b);

	return x < y ? -1 : x > y;
}

static struct member *of_sandbox(const struct sandbox *sb, const struct group *g)
{
	struct member *m = sb->member;

	return m && m->in == g && !sb->forgetting ? m : NULL;
}

struct member **group_members(const struct group *g, size_t *ret_n)
{
	size_t n = 0, room = 16;
	struct member **list = malloc(room * sizeof(struct member *)), **more;

	*ret_n = 0;
	if (!list)
		return NULL;
	for (struct group *each = all; each; each = each->hh.next) {
		if (each->parent != g || !each->member)
			continue;
		if (n == room) {
			more = realloc(list, (room *= 2) * sizeof(struct member *));
			if (!more)
				break;
			list = more;
		}
		list[n++] = each->member;
	}
	for (struct sandbox *sb = registry_first(g->control->registry); sb; sb = registry_next(sb)) {
		struct member *m = of_sandbox(sb, g);

		if (!m)
			continue;
		if (n == room) {
			more = realloc(list, (room *= 2) * sizeof(struct member *));
			if (!more)
				break;
			list = more;
		}
		list[n++] = m;
	}
	qsort(list, n, sizeof(struct member *), by_order);
	*ret_n = n;
	return list;
}

bool group_has_members(const struct group *g)
{
	size_t n = 0;

	free(group_members(g, &n));
	return n > 0;
}

bool group_begins(const struct group *top)
{
	return top->tree && top->n_facts > 0 && top->facts[0].event.type == TREE_START;
}

bool group_is_settled(struct group *g)
{
	const struct group *top = group_top(g);
	enum tree_root root = top->tree ? tree_root_state(top->tree) : TREE_ROOT_DOWN;

	return (!top->tree || top->n_facts == 0) && root != TREE_ROOT_STARTING && root != TREE_ROOT_ENDING;
}

/* ---- on disk ---- */

struct group_job {
	struct storage_job job;
	struct group *group;
	struct database_row row;
	bool is_delete;
	struct rpc_request *request;
};

static int job_write(struct storage_job *job, struct database *d)
{
	struct group_job *w = (struct group_job *)job;

	return w->is_delete ? database_delete_group(d, w->row.id, &job->err) : database_put_group(d, &w->row, &job->err);
}

static void job_done(struct storage_job *job)
{
	struct group_job *w = (struct group_job *)job;
	struct group *g = w->group;
	struct err e = ERR_INIT;

	g->writes--;
	if (job->status != 0) {
		log_error("group=%s what is in force is not durable: %s", g->id, job->err.text);
		group_event(g, "group.not_durable", NULL, NULL);
	}
	if (w->request && job->status != 0) {
		err_set(&e, ERR_IO, "group %s: what was asked for is in force, but not durable: %s", g->id, job->err.text);
		(void)rpc_error(w->request, &e, NULL);
	} else if (w->request && w->is_delete) {
		struct buf b = BUF_INIT;
		struct json_out o = json_out_to(&b);

		json_out_object(&o, NULL);
		json_out_text(&o, "id", g->id);
		json_out_bool(&o, "destroyed", true);
		json_out_object_end(&o);
		(void)rpc_result_raw(w->request, buf_text(&b), b.size);
		buf_fini(&b);
	} else if (w->request) {
		(void)group_answer(w->request, g);
	}
	free(w->row.spec);
	free(w);
	group_free_when_done(g);
}

static char *spec_of(const struct group *g, size_t *ret_size)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	json_out_u64(&o, "format", 1);
	json_out_text(&o, "id", g->id);
	json_out_text(&o, "parent", g->parent_id);
	json_out_u64(&o, "owner", g->owner);
	json_out_text(&o, "strategy", tree_strategy_text(g->strategy));
	json_out_text(&o, "auto_shutdown", tree_auto_text(g->auto_shutdown));
	json_out_u64(&o, "intensity", g->intensity);
	json_out_u64(&o, "period_ms", g->period_ms);
	json_out_text(&o, "restart", tree_restart_text(g->restart));
	json_out_bool(&o, "significant", g->significant);
	json_out_bool(&o, "failed", g->failed);
	json_out_text(&o, "why", g->why);
	json_out_object_end(&o);
	*ret_size = b.size;
	return b.failed ? NULL : b.data;
}

static void job_submit(struct group *g, struct rpc_request *r, bool is_delete)
{
	struct group_job *w = calloc(1, sizeof *w);
	struct err e = ERR_INIT;

	if (w && !is_delete)
		w->row.spec = spec_of(g, &w->row.spec_size);
	if (!w || (!is_delete && !w->row.spec)) {
		free(w);
		err_set(&e, ERR_INTERNAL, "no memory to keep group %s", g->id);
		log_error("%s", e.text);
		if (r)
			(void)rpc_error(r, &e, NULL);
		return;
	}
	w->job = (struct storage_job){ .write = job_write, .done = job_done, .err = ERR_INIT };
	w->group = g;
	w->is_delete = is_delete;
	w->request = r;
	(void)snprintf(w->row.id, sizeof w->row.id, "%s", g->id);
	w->row.created_at_ms = g->created_at_ms;
	w->row.wanted = g->wanted;
	g->writes++;
	storage_submit(g->control->storage, &w->job);
}

void group_write(struct group *g, struct rpc_request *r)
{
	job_submit(g, r, false);
}

void group_delete(struct group *g, struct rpc_request *r)
{
	job_submit(g, r, true);
}

/* ---- after a restart ---- */

static int choice_of(struct json_span v, const char *(*text_of)(int), int n)
{
	for (int i = 0; i < n; i++)
		if (json_string_is(v, text_of(i)))
			return i;
	return -1;
}

static const char *strategy_at(int i)
{
	return tree_strategy_text((enum tree_strategy)i);
}

static const char *auto_at(int i)
{
	return tree_auto_text((enum tree_auto)i);
}

static const char *restart_at(int i)
{
	return tree_restart_text((enum tree_restart)i);
}

static bool row_load(struct control *c, const struct database_row *row)
{
	struct json_span top = { row->spec, row->spec_size };
	uint64_t owner = 0, intensity = 0, period = 0;
	struct group *g;
	int strategy, automatic, restart;

	if (json_check(row->spec, row->spec_size, NULL) < 0 || json_type(top) != '{' || !json_string_is(json_get(top, "id"), row->id) ||
		!json_u64(json_get(top, "owner"), &owner) || owner > UINT32_MAX || !json_u64(json_get(top, "intensity"), &intensity) ||
		!json_u64(json_get(top, "period_ms"), &period) || intensity > BUDGET_INTENSITY_MAX || period < 1 || period > UINT32_MAX)
		return false;
	strategy = choice_of(json_get(top, "strategy"), strategy_at, TREE_STRATEGY__N);
	automatic = choice_of(json_get(top, "auto_shutdown"), auto_at, TREE_AUTO__N);
	restart = choice_of(json_get(top, "restart"), restart_at, TREE_RESTART__N);
	if (strategy < 0 || automatic < 0 || restart < 0 || group_find(row->id))
		return false;
	g = group_new(c, row->id, row->created_at_ms);
	if (!g)
		return false;
	if (json_string(json_get(top, "parent"), g->parent_id, sizeof g->parent_id) < 0)
		g->parent_id[0] = '\0';
	if (json_string(json_get(top, "why"), g->why, sizeof g->why) < 0)
		g->why[0] = '\0';
	g->owner = (uid_t)owner;
	g->strategy = (enum tree_strategy)strategy;
	g->auto_shutdown = (enum tree_auto)automatic;
	g->intensity = (uint32_t)intensity;
	g->period_ms = (uint32_t)period;
	g->restart = (enum tree_restart)restart;
	g->significant = json_type(json_get(top, "significant")) == 't';
	g->failed = json_type(json_get(top, "failed")) == 't';
	g->wanted = row->wanted;
	return true;
}

/* A parent that isn't there, or a circle (rows may be damaged): the group is top-level then. */
static void find_parents(void)
{
	for (struct group *g = all; g; g = g->hh.next) {
		struct group *parent = g->parent_id[0] ? group_find(g->parent_id) : NULL, *at = parent;
		unsigned depth = 0;

		while (at && at != g && ++depth < LIMIT_TREE_DEPTH)
			at = at->parent;
		if (parent && !at && member_new(parent, NULL, g)) {
			g->parent = parent;
			continue;
		}
		g->parent_id[0] = '\0';
	}
}

void groups_load(struct control *c, struct database_found *found)
{
	for (size_t i = 0; i < found->n_groups; i++) {
		char text[320];

		if (row_load(c, &found->groups[i]))
			continue;
		(void)snprintf(text, sizeof text, "registry: the group '%s' can't be read and is left out", found->groups[i].id);
		durable_problem(c, text);
	}
	find_parents();
}

/* Its group isn't there: the row was damaged. By its own row it is wanted, unless somebody had stopped it. */
static void left_alone(struct sandbox *sb)
{
	bool wanted = !sb->resting && member_is_down(sb);

	log_error("sandbox=%s its group %s isn't there: it is on its own now", sb->spec.id, sb->spec.group);
	sb->spec.group[0] = '\0';
	sb->spec.significant = sb->resting = false;
	sandbox_counted_clear(sb);
	sandbox_keep_spec(sb);
	durable_write(sb);
	if (wanted && !sb->control->shutting_down)
		(void)sandbox_request(sb, LIFE_START, true, NULL);
}

void groups_begin(struct control *c)
{
	struct err e = ERR_INIT;

	for (struct sandbox *sb = registry_first(c->registry); sb; sb = registry_next(sb)) {
		struct group *g = sb->spec.group[0] ? group_find(sb->spec.group) : NULL;

		if (!sb->spec.group[0] || sb->forgetting || (g && member_new(g, sb, NULL)))
			continue;
		left_alone(sb);
	}
	for (struct group *g = all; g; g = g->hh.next)
		if (!g->parent && g->wanted && !g->failed && group_start_tree(g, true, &e) < 0)
			log_error("group=%s can't be started: %s", g->id, e.text);
}

/* ---- the daemon's end ---- */

bool group_stops_by_itself(const struct sandbox *sb)
{
	const struct member *m = sb->member;

	return m && m->listed && group_top(m->in)->tree && tree_root_state(group_top(m->in)->tree) != TREE_ROOT_FAILED &&
		tree_root_state(group_top(m->in)->tree) != TREE_ROOT_DOWN && m->ref.instance != 0;
}

void groups_stop_for_end(struct control *c, bool hurry)
{
	(void)c;
	for (struct group *g = all; g; g = g->hh.next) {
		struct tree_event ev = { .type = hurry ? TREE_HURRY : TREE_STOP };

		if (g->parent || !g->tree)
			continue;
		g->for_daemon = true;
		group_fact(g, &ev);
	}
}
