/* SPDX-License-Identifier: MIT
 *
 * A top-level group's tree: built from the members, stepped, its orders carried out. What its sandboxes tell meanwhile is told to it from the
 * loop, one step later, so that no step is entered twice. See group.h, daemon/supervise/tree.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/shutdown.h"
#include "daemon/group/group.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/log.h"

/* ---- the tree ---- */

static void release(void *user)
{
	if (user)
		member_released(user);
}

static void pending_drop(struct group *top, struct pending *p, enum tree_reply reply)
{
	for (struct pending **at = &top->pending; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			pending_done(top, p, reply);
			return;
		}
}

/* Requests that nobody has told it yet are answered: for the next tree they are no requests, and with that one a destroyed member may have gone. */
void group_tree_end(struct group *top)
{
	struct tree *t = top->tree;

	uv_timer_stop(&top->due);
	top->tree = NULL;
	while (top->n_facts > 0) {
		struct pending *asked = top->facts[0].asked;

		memmove(&top->facts[0], &top->facts[1], --top->n_facts * sizeof top->facts[0]);
		if (asked)
			pending_drop(top, asked, TREE_REPLY_DOWN);
	}
	if (t)
		tree_free(t, release);
}

int group_start_tree(struct group *top, bool goes_on, struct err *e)
{
	const struct tree_rules rules = { .keep_failed = true, .exact_ms = true, .cut = true, .answer_at_once = true,
		.backoff_first_ms = DEFAULT_BACKOFF_FIRST_MS, .backoff_max_ms = DEFAULT_BACKOFF_MAX_MS };
	const struct tree_event start = { .type = TREE_START };
	struct tree_spec spec = { .id = top->id, .type = TREE_GROUP, .shutdown_ms = TREE_SHUTDOWN_INFINITY, .strategy = top->strategy,
		.auto_shutdown = top->auto_shutdown, .intensity = top->intensity, .period_ms = top->period_ms };
	struct tree_spec *children = NULL;
	struct budget *window = NULL;
	size_t n = 0;
	int made;

	group_tree_end(top);
	if (group_specs_of(top, goes_on, &children, &n, &window) < 0)
		return err_set(e, ERR_INTERNAL, "no memory for the tree of group %s", top->id);
	spec.children = children;
	spec.n_children = n;
	spec.budget = window;
	made = tree_new(&spec, &rules, &top->tree, e);
	free(window);
	if (made < 0) {
		group_specs_free(children, n);
		top->tree = NULL;
		return err_prefix(e, "group %s", top->id);
	}
	group_specs_mark(children, n);
	group_specs_free(children, n);
	top->failed = false;
	top->why[0] = '\0';
	group_fact(top, &start);
	return 0;
}

/* ---- orders ---- */

void member_fact(struct group *top, enum tree_event_type type, struct tree_ref ref, enum tree_exit exit)
{
	const struct tree_event ev = { .type = type, .ref = ref, .exit = exit };

	group_fact(top, &ev);
}

bool member_is_up(const struct sandbox *sb)
{
	return sb->life.state == LIFE_RUNNING || sb->life.state == LIFE_RELOADING || sb->life.state == LIFE_FROZEN;
}

bool member_is_down(const struct sandbox *sb)
{
	return sb->life.state == LIFE_STOPPED || sb->life.state == LIFE_FAILED || sb->life.state == LIFE_BACKOFF;
}

/* What was down by somebody's wish, or had finished, stays so over a restart of the daemon. */
static bool stays_down(const struct sandbox *sb, enum tree_why why)
{
	return sb->resting && why == TREE_WHY_INITIAL && member_is_down(sb);
}

void member_start(struct group *top, struct member *m, enum tree_why why)
{
	struct sandbox *sb = m->sandbox;

	m->start_when_down = m->is_asked = false;
	if (sb) {
		if (why == TREE_WHY_INITIAL && !sb->counted.found)
			sandbox_counted_clear(sb); /* its group begins a new window */
		sb->counted.found = false;
		sb->counted.due_ms = 0;
	}
	if (!sb || sb->forgetting || stays_down(sb, why)) {
		member_fact(top, TREE_IGNORED, m->ref, TREE_EXIT_NORMAL);
		return;
	}
	sb->resting = false;
	if (member_is_up(sb)) {
		sb->member_ready = true;
		member_fact(top, TREE_READY, m->ref, TREE_EXIT_NORMAL);
	} else if (sb->life.state == LIFE_STOPPING) {
		m->start_when_down = true;
	} else if (member_is_down(sb)) {
		if (why != TREE_WHY_INITIAL && why != TREE_WHY_REQUEST)
			sb->group_restarts++;
		if (sb->control->shutting_down || !sandbox_request(sb, LIFE_START, true, NULL))
			member_fact(top, TREE_FAILED, m->ref, TREE_EXIT_ERROR);
	}
}

static bool is_stop_asked(const struct group *g)
{
	for (; g; g = g->parent)
		if (g->stop_asked)
			return true;
	return false;
}

static void member_stop(struct group *top, struct member *m, enum tree_why why)
{
	struct sandbox *sb = m->sandbox;
	/* A sibling's end, or its own group's, costs it its state, as in OTP; a stop that somebody wants does not. */
	bool keep = why == TREE_WHY_REQUEST ? sb && sb->keep_at_stop : (why == TREE_WHY_ABOVE || why == TREE_WHY_ENDING) && is_stop_asked(m->in);

	m->is_asked = true;
	if (!sb || member_is_down(sb))
		return; /* its end is on its way */
	if (top->for_daemon)
		shutdown_stop(sb);
	else if (sb->life.state != LIFE_STOPPING)
		(void)sandbox_request(sb, LIFE_STOP, keep, NULL);
}

static void member_kill(struct group *top, struct member *m)
{
	member_stop(top, m, TREE_WHY_HURRY);
	if (m->sandbox && m->sandbox->life.state == LIFE_STOPPING)
		(void)sandbox_request(m->sandbox, LIFE_HURRY, false, NULL);
}

/* ---- what is told to people ---- */

static void explain(struct member *m, const struct tree_action *a, const char *what)
{
	char text[64];

	if (!m || !m->sandbox)
		return;
	if (a->allowed > 0 || a->used > 0)
		(void)snprintf(text, sizeof text, "%s; %u of %u restarts used", what, a->used, a->allowed);
	else if (a->delay_ms > 0)
		(void)snprintf(text, sizeof text, "%s in %u ms", what, a->delay_ms);
	else
		(void)snprintf(text, sizeof text, "%s", what);
	explain_note(m->sandbox, DECISION_GROUP, text);
}

void group_event(struct group *g, const char *type, struct member *m, const struct tree_action *a)
{
	struct events *ev = g->control->events;
	struct json_out *o = events_begin_owned(ev, type, m && m->sandbox ? m->sandbox->spec.id : NULL, g->owner);

	json_out_text(o, "group", g->id);
	if (a) {
		json_out_text(o, "child", a->id);
		json_out_text(o, "why", tree_why_text(a->why));
		if (a->allowed > 0 || a->used > 0) {
			json_out_u64(o, "used", a->used);
			json_out_u64(o, "allowed", a->allowed);
			json_out_u64(o, "period_ms", a->period_ms);
		}
		if (a->delay_ms > 0)
			json_out_u64(o, "delay_ms", a->delay_ms);
	}
	events_end(ev);
}

/* Kept with the sandbox, as the budget of one on its own is. */
static void count(struct member *m, const struct tree_action *a)
{
	const struct budget_policy all = { .intensity = BUDGET_INTENSITY_MAX, .period_ms = a->period_ms };
	uint32_t delay_ms;

	if (m && m->sandbox)
		(void)budget_charge(&m->sandbox->counted.budget, &all, clock_monotonic_ms(), &delay_ms);
}

static void note(struct group *top, struct member *m, const struct tree_action *a)
{
	struct group *in = m ? m->in : top, *self = m && m->group ? m->group : top;

	switch ((int)a->what) {
	case TREE_NOTE_COUNTED:
		in->restarts++;
		count(m, a);
		explain(m, a, "a restart is counted");
		group_event(in, "group.restart", m, a);
		group_decision(in, GROUP_DECIDED_RESTART, m, a);
		break;
	case TREE_NOTE_BACKOFF:
	case TREE_NOTE_RETRY:
		explain(m, a, a->what == TREE_NOTE_RETRY ? "the start failed, it is tried again" : "it is started");
		group_event(in, "group.backoff", m, a);
		group_decision(in, GROUP_DECIDED_BACKOFF, m, a);
		break;
	case TREE_NOTE_GAVE_UP:
		log_warning("group=%s gave up: more than %u restarts within %u ms", self->id, a->allowed, a->period_ms);
		group_event(self, "group.gave_up", NULL, a);
		group_decision(self, GROUP_DECIDED_GAVE_UP, NULL, a);
		break;
	case TREE_NOTE_ENDING:
		group_event(self, "group.ending", NULL, a);
		group_decision(self, GROUP_DECIDED_ENDING, NULL, a);
		break;
	case TREE_NOTE_REMOVED:
		if (m)
			m->listed = false;
		break;
	case TREE_NOTE_STARTED:
		if (m && m->group) {
			group_event(m->group, "group.up", NULL, a);
			group_decision(m->group, GROUP_DECIDED_UP, NULL, NULL);
		}
		break;
	case TREE_NOTE_EXITED:
		explain(m, a, a->why == TREE_WHY_CLEAN ? "a clean end, it stays down" : a->why == TREE_WHY_TEMPORARY ? "temporary, it stays down" : "its end is handled");
		if (m && m->sandbox && (a->why == TREE_WHY_CLEAN || a->why == TREE_WHY_TEMPORARY)) {
			group_decision(in, GROUP_DECIDED_STAYS, m, a);
			m->sandbox->resting = true;
			sandbox_keep_spec(m->sandbox);
			durable_life(m->sandbox);
		}
		break;
	}
}

/* Members that were added while it ran aren't in the list that a group is restarted with: they are added again. */
static void readd(const struct group *g)
{
	size_t n;
	struct member **list = group_members(g, &n);

	for (size_t i = 0; list && i < n; i++) {
		if (!list[i]->listed && !member_is_finished(list[i]))
			member_ask(PENDING_SILENT, TREE_ASK_START_CHILD, list[i], false, NULL);
	}
	free(list);
}

/* A group has ended: who waited in it to be restarted isn't going to be. */
static void members_told(const struct group *g)
{
	size_t n;
	struct member **list = group_members(g, &n);

	for (size_t i = 0; list && i < n; i++) {
		if (list[i]->sandbox)
			sandbox_status_changed(list[i]->sandbox);
		else
			members_told(list[i]->group);
	}
	free(list);
}

static void whole_is_down(struct group *top, const struct tree_action *a)
{
	members_told(top);
	top->failed = a->failed;
	(void)snprintf(top->why, sizeof top->why, "%s", a->failed ? tree_why_text(a->why) : "");
	group_event(top, a->failed ? "group.failed" : "group.down", NULL, NULL);
	group_decision(top, a->failed ? GROUP_DECIDED_FAILED : GROUP_DECIDED_DOWN, NULL, NULL);
	if (top->for_daemon)
		return;
	if (a->failed)
		log_warning("group=%s is failed: %s", top->id, top->why);
	top->wanted = false;
	group_write(top, NULL);
	pending_whole(top, false);
}

/* ---- a step ---- */

static void due_cb(uv_timer_t *timer)
{
	const struct tree_event ev = { .type = TREE_TIMER };

	group_fact(timer->data, &ev);
}

static void carry_out(struct group *top, const struct tree_action *a)
{
	struct member *m = a->user;
	int64_t left_ms;

	switch (a->what) {
	case TREE_DO_START:
		if (m) {
			m->ref = a->ref;
			m->listed = true;
		}
		if (m && a->type == TREE_LEAF)
			member_start(top, m, a->why);
		return;
	case TREE_DO_CANCEL:
	case TREE_DO_ASK:
		if (m && a->type == TREE_LEAF)
			member_stop(top, m, a->why);
		return;
	case TREE_DO_KILL:
		if (m && a->type == TREE_LEAF)
			member_kill(top, m);
		return;
	case TREE_DO_REPLY:
		for (struct pending **at = &top->pending; *at; at = &(*at)->next) {
			struct pending *p = *at;

			if (p->number != a->request)
				continue;
			*at = p->next;
			pending_done(top, p, a->reply);
			return;
		}
		return;
	case TREE_DO_RELEASE:
		release(m);
		return;
	case TREE_DO_TIMER:
		left_ms = a->at_ms - clock_monotonic_ms();
		if (a->at_ms == 0)
			uv_timer_stop(&top->due);
		else
			uv_timer_start(&top->due, due_cb, left_ms > 0 ? (uint64_t)left_ms : 0, 0);
		return;
	case TREE_DO_UP:
		top->stop_asked = false;
		top->failed = false;
		group_event(top, "group.up", NULL, NULL);
		group_decision(top, GROUP_DECIDED_UP, NULL, NULL);
		if (!top->wanted) {
			top->wanted = true;
			group_write(top, NULL);
		}
		readd(top);
		members_told(top); /* some may have waited for their restart when an earlier control was lost */
		pending_whole(top, true);
		return;
	case TREE_DO_DOWN:
		whole_is_down(top, a);
		return;
	default:
		note(top, m, a);
		if ((a->what == TREE_NOTE_EXITED || a->what == TREE_NOTE_STOPPED || a->what == TREE_NOTE_START_FAILED) && m && m->group)
			members_told(m->group);
		if (a->what == TREE_NOTE_STARTED && m && m->group) {
			m->group->stop_asked = false;
			readd(m->group);
		}
		return;
	}
}

/* The sandboxes that a list is about: what they are told to be may be another thing when it is carried out. */
static size_t touched(const struct tree_actions *actions, struct sandbox *list[TREE_ACTIONS_MAX])
{
	size_t n = 0;

	for (uint32_t i = 0; i < actions->n; i++) {
		const struct member *m = actions->at[i].user;

		if (!m || actions->at[i].type != TREE_LEAF || !m->sandbox)
			continue;
		sandbox_hold(m->sandbox);
		list[n++] = m->sandbox;
	}
	return n;
}

/* What the tree says of its back-off is kept: a restart at once keeps the spec by itself. */
static void counted_note(struct sandbox *sb)
{
	int64_t due_ms;
	struct tree_view v;

	if (!sb->keeper || sb->life.gone || !member_view(sb, &v))
		return;
	due_ms = v.state == TREE_BACKOFF ? v.due_ms : 0;
	sb->counted.budget.streak = v.streak;
	if (due_ms == sb->counted.due_ms)
		return;
	sb->counted.due_ms = due_ms;
	sandbox_keep_spec(sb);
}

static void tell_touched(struct sandbox *list[TREE_ACTIONS_MAX], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		counted_note(list[i]);
		sandbox_status_changed(list[i]);
		sandbox_release(list[i]);
	}
}

static void step(struct group *top, struct tree_event *ev, struct member *added)
{
	static struct tree_actions actions; /* large; steps are never nested */
	static struct sandbox *about[TREE_ACTIONS_MAX];
	size_t n;

	do {
		ev->now_ms = clock_monotonic_ms();
		ev->random = arc4random();
		if (tree_step(top->tree, ev, &actions) == TREE_TAKEN && added) {
			added->nodes++;
			added->listed = true;
		}
		added = NULL;
		n = touched(&actions, about);
		for (uint32_t i = 0; i < actions.n && top->tree; i++)
			carry_out(top, &actions.at[i]);
		tell_touched(about, n);
		*ev = (struct tree_event){ .type = TREE_TURN };
	} while (top->tree && actions.more);
}

/* The member may have gone since the request was made, and so may all of its spec. */
static void request_step(struct group *top, struct pending *p)
{
	struct tree_event ev = { .type = TREE_REQUEST, .ask = p->ask, .request = p->number };
	struct tree_spec spec, *children = NULL;
	struct budget *window;
	struct member *m = p->member;
	size_t n = 0;

	if (!m || m->is_dead || (m->group && group_specs_of(m->group, false, &children, &n, &window) < 0)) {
		pending_drop(top, p, TREE_REPLY_NOT_FOUND);
		return;
	}
	spec = member_spec(m);
	spec.children = children;
	spec.n_children = n;
	ev.group = m->in == top ? NULL : m->in->id;
	ev.child = spec.id;
	ev.spec = &spec;
	if (p->ask == TREE_ASK_START_CHILD) {
		if (m->listed) {
			pending_drop(top, p, TREE_REPLY_ALREADY_PRESENT);
			group_specs_free(children, n);
			return;
		}
		group_specs_mark(children, n);
	}
	step(top, &ev, p->ask == TREE_ASK_START_CHILD ? m : NULL);
	group_specs_free(children, n);
}

static void pump_cb(uv_timer_t *timer)
{
	struct group *top = timer->data;

	top->stepping = true;
	while (top->tree && top->n_facts > 0) {
		struct fact f = top->facts[0];

		memmove(&top->facts[0], &top->facts[1], --top->n_facts * sizeof top->facts[0]);
		if (f.asked)
			request_step(top, f.asked);
		else
			step(top, &f.event, NULL);
	}
	top->stepping = false;
	if (top->start_again && !top->control->shutting_down) {
		struct err e = ERR_INIT;

		top->start_again = false;
		if (group_start_tree(top, false, &e) < 0) {
			log_error("%s", e.text);
			pending_whole(top, false);
		}
	}
	shutdown_step(top->control);
}

static bool fact_add(struct group *top, const struct tree_event *ev, struct pending *asked)
{
	if (!top->tree)
		return false;
	if (top->n_facts == top->room_facts) {
		size_t room = top->room_facts ? top->room_facts * 2 : 32;
		struct fact *more = realloc(top->facts, room * sizeof *more);

		if (!more) {
			log_error("group=%s no memory: an event is lost", top->id);
			return false;
		}
		top->facts = more;
		top->room_facts = room;
	}
	top->facts[top->n_facts++] = (struct fact){ .event = *ev, .asked = asked };
	if (!uv_is_active((uv_handle_t *)&top->pump) && !top->stepping)
		uv_timer_start(&top->pump, pump_cb, 0, 0);
	return true;
}

void group_fact(struct group *top, const struct tree_event *ev)
{
	(void)fact_add(top, ev, NULL);
}

void member_ask(enum pending_kind kind, enum tree_ask ask, struct member *m, bool then_start, struct rpc_request *r)
{
	const struct tree_event ev = { .type = TREE_REQUEST };
	struct group *top = group_top(m->in);
	struct pending *p = calloc(1, sizeof *p);
	struct err e = ERR_INIT;

	if (!p) {
		err_set(&e, ERR_INTERNAL, "no memory for the request");
		if (r)
			(void)rpc_error(r, &e, NULL);
		return;
	}
	*p = (struct pending){ .number = ++top->last_number, .kind = kind, .ask = ask, .member = m, .group = m->in, .then_start = then_start,
		.request = r, .next = top->pending };
	top->pending = p;
	if (!fact_add(top, &ev, p))
		pending_drop(top, p, TREE_REPLY_DOWN);
}
