/* SPDX-License-Identifier: MIT
 *
 * The engine of a simulation: virtual processes and virtual time around a tree. What is due lies in a heap: at the same
 * time first what follows at once (a process that needs no time to start or end), then the tree's own timer, then the rest in
 * the order in which it was planned. Control's program. */
#include <stdlib.h>
#include <string.h>

#include "daemon/simulate/simulate.h"
#include "proto/json_out.h"
#include "proto/limits.h"

enum due_kind { DUE_BORN, DUE_DEAD, DUE_EVENT };

struct due {
	int64_t at_ms;
	uint64_t order; /* what follows at once has the highest bit clear */
	enum due_kind kind;
	struct tree_ref ref;
	enum tree_exit exit;
	const struct scenario_event *event;
};

struct process {
	uint64_t instance;
	struct scenario_child *child;
	bool alive, group, stopping, cancelled;
};

struct reply {
	int64_t number;
	size_t at, size; /* in texts */
};

struct run {
	struct scenario *s;
	const struct simulate_options *o;
	struct tree *tree;
	struct tree_actions out;
	int64_t now_ms;
	uint64_t order;
	struct due *heap;
	size_t n_heap, room_heap;
	struct process *processes;
	size_t n_processes;
	struct buf actions, texts, explain;
	struct json_out actions_out, explain_out;
	struct reply *replies;
	size_t n_replies, room_replies, n_actions;
	int64_t timer_ms;
	bool stop_wanted, stopped, no_memory;
};

#define LATER (1ull << 63)

/* ---- what is due ---- */

static void *grown(struct run *r, void *array, size_t n, size_t *room, size_t size)
{
	size_t want = *room ? *room * 2 : 64;
	void *more;

	if (n < *room)
		return array;
	more = realloc(array, want * size);
	if (!more) {
		r->no_memory = true;
		return NULL;
	}
	*room = want;
	return more;
}

static bool before(const struct due *a, const struct due *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void plan(struct run *r, struct due d, int64_t in_ms)
{
	struct due *heap = grown(r, r->heap, r->n_heap, &r->room_heap, sizeof *heap);
	size_t i;

	if (!heap)
		return;
	r->heap = heap;
	d.at_ms = r->now_ms + in_ms;
	d.order = ++r->order | (in_ms == 0 && d.kind != DUE_EVENT ? 0 : LATER);
	for (i = r->n_heap++; i > 0 && before(&d, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = d;
}

static struct due due_take(struct run *r)
{
	struct due first = r->heap[0], last = r->heap[--r->n_heap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < r->n_heap) {
		if (child + 1 < r->n_heap && before(&r->heap[child + 1], &r->heap[child]))
			child++;
		if (!before(&r->heap[child], &last))
			break;
		r->heap[i] = r->heap[child];
		i = child;
	}
	r->heap[i] = last;
	return first;
}

/* ---- results ---- */

static void note(struct run *r, const char *what, const char *who)
{
	json_out_array(&r->actions_out, NULL);
	json_out_i64(&r->actions_out, NULL, r->now_ms);
	json_out_text(&r->actions_out, NULL, what);
	json_out_text(&r->actions_out, NULL, who);
	json_out_array_end(&r->actions_out);
	r->n_actions++;
}

static void reply_which(struct json_out *o, const struct tree_node *group)
{
	json_out_array(o, NULL);
	for (const struct tree_node *n = tree_child_last(group); n; n = tree_child_prev(n)) {
		json_out_array(o, NULL);
		json_out_text(o, NULL, tree_view(n).id);
		json_out_text(o, NULL, tree_state_text(tree_view(n).state));
		json_out_array_end(o);
	}
	json_out_array_end(o);
}

static void reply_text(struct run *r, const struct tree_action *a, struct json_out *o)
{
	const struct tree_node *group = tree_find_group(r->tree, a->id);
	struct tree_counts c;

	if (a->reply == TREE_REPLY_WHICH && group) {
		reply_which(o, group);
	} else if (a->reply == TREE_REPLY_COUNT && group) {
		c = tree_count(group);
		json_out_array(o, NULL);
		json_out_u64(o, NULL, c.specs);
		json_out_u64(o, NULL, c.active);
		json_out_u64(o, NULL, c.groups);
		json_out_u64(o, NULL, c.leaves);
		json_out_array_end(o);
	} else {
		json_out_text(o, NULL, tree_reply_text(a->reply));
	}
}

static void reply(struct run *r, const struct tree_action *a)
{
	struct reply *replies = grown(r, r->replies, r->n_replies, &r->room_replies, sizeof *replies);
	struct json_out o = json_out_to(&r->texts);
	size_t at = r->texts.size;

	if (!replies)
		return;
	r->replies = replies;
	reply_text(r, a, &o);
	replies[r->n_replies++] = (struct reply){ (int64_t)a->request, at, r->texts.size - at };
}

/* ---- actions ---- */

static struct process *process_of(struct run *r, struct tree_ref ref)
{
	struct process *p = ref.slot < r->n_processes ? &r->processes[ref.slot] : NULL;

	return p && p->instance == ref.instance ? p : NULL;
}

static int64_t configured(int64_t by_set, int64_t by_child)
{
	return by_set == SCENARIO_UNSET ? by_child : by_set;
}

static void start(struct run *r, const struct tree_action *a)
{
	struct scenario_child *c = a->user;
	struct process *more;
	size_t room = (size_t)a->ref.slot * 2 + 16;

	note(r, "start", a->id);
	if (a->group[0] == '\0')
		return; /* the top starts by itself */
	if (a->ref.slot >= r->n_processes) {
		more = realloc(r->processes, room * sizeof *more);
		if (!more) {
			r->no_memory = true;
			return;
		}
		memset(more + r->n_processes, 0, (room - r->n_processes) * sizeof *more);
		r->processes = more;
		r->n_processes = room;
	}
	r->processes[a->ref.slot] = (struct process){ .instance = a->ref.instance, .child = c, .group = a->type == TREE_GROUP };
	plan(r, (struct due){ .kind = DUE_BORN, .ref = a->ref }, configured(c->name->start_ms, c->start_ms));
}

static void ask(struct run *r, const struct tree_action *a)
{
	struct process *p = process_of(r, a->ref);
	int64_t ms;

	note(r, "stop", a->id);
	if (!p || p->group || p->stopping)
		return;
	p->stopping = true;
	ms = configured(p->child->name->stop_ms, p->child->stop_ms);
	if (ms != SCENARIO_NEVER)
		plan(r, (struct due){ .kind = DUE_DEAD, .ref = a->ref, .exit = TREE_EXIT_SHUTDOWN }, ms);
}

static void kill_it(struct run *r, const struct tree_action *a)
{
	struct process *p = process_of(r, a->ref);

	note(r, a->what == TREE_DO_CANCEL ? "cancel" : "kill", a->id);
	if (!p)
		return;
	p->cancelled = a->what == TREE_DO_CANCEL;
	plan(r, (struct due){ .kind = DUE_DEAD, .ref = a->ref, .exit = TREE_EXIT_KILLED }, 0);
}

static void explain(struct run *r, const struct tree_action *a)
{
	char text[256];

	(void)tree_action_text(a, text, sizeof text);
	json_out_array(&r->explain_out, NULL);
	json_out_i64(&r->explain_out, NULL, r->now_ms);
	json_out_text(&r->explain_out, NULL, text);
	json_out_array_end(&r->explain_out);
}

static void step(struct run *r, struct tree_event ev);

static void stop_root(struct run *r)
{
	enum tree_root state = tree_root_state(r->tree);

	if (state == TREE_ROOT_STARTING && r->o->otp)
		r->stop_wanted = true; /* its keeper is still waiting for it */
	if (r->stopped || state == TREE_ROOT_DOWN || state == TREE_ROOT_FAILED || (state == TREE_ROOT_STARTING && r->o->otp))
		return;
	r->stopped = true;
	note(r, "stop_root", "");
	step(r, (struct tree_event){ .type = TREE_STOP });
}

static void carry_out(struct run *r, const struct tree_action *a)
{
	r->n_actions++;
	if (r->o->explain && a->what != TREE_DO_TIMER && a->what != TREE_DO_RELEASE)
		explain(r, a);
	switch (a->what) {
	case TREE_DO_START:
		start(r, a);
		break;
	case TREE_DO_ASK:
		ask(r, a);
		break;
	case TREE_DO_KILL:
	case TREE_DO_CANCEL:
		kill_it(r, a);
		break;
	case TREE_DO_REPLY:
		reply(r, a);
		break;
	case TREE_DO_TIMER:
		r->timer_ms = a->at_ms;
		break;
	case TREE_DO_DOWN:
		if (a->failed)
			note(r, "failed", a->id);
		else if (a->why != TREE_WHY_START_FAILED)
			note(r, "ended", tree_exit_text(a->exit));
		break;
	case TREE_NOTE_ASKED_DEAD:
		note(r, a->why == TREE_WHY_BRUTAL ? "kill" : "stop", a->id);
		break;
	case TREE_NOTE_STARTED:
	case TREE_NOTE_START_FAILED:
	case TREE_NOTE_IGNORED:
	case TREE_NOTE_STOPPED:
	case TREE_NOTE_STOP_ERROR:
	case TREE_NOTE_GAVE_UP:
	case TREE_NOTE_BACKOFF:
	case TREE_NOTE_ENDING:
		note(r, tree_what_text(a->what), a->id);
		break;
	case TREE_DO_UP:
	case TREE_DO_RELEASE:
	case TREE_NOTE_EXITED:
	case TREE_NOTE_COUNTED:
	case TREE_NOTE_RETRY:
	case TREE_NOTE_RETRY_VOID:
	case TREE_NOTE_REMOVED:
	case TREE_WHAT__N:
		break;
	}
}

static void step(struct run *r, struct tree_event ev)
{
	ev.now_ms = r->s->phase_ms + r->now_ms;
	ev.random = 0; /* no jitter */
	do {
		(void)tree_step(r->tree, &ev, &r->out);
		for (uint32_t i = 0; i < r->out.n; i++)
			carry_out(r, &r->out.at[i]);
		ev.type = TREE_TURN;
	} while (r->out.more && r->n_actions < LIMIT_SIMULATE_ACTIONS);
	if (r->stop_wanted && tree_root_state(r->tree) == TREE_ROOT_UP) {
		r->stop_wanted = false;
		stop_root(r);
	}
}

/* ---- what comes true ---- */

static void born(struct run *r, const struct due *d)
{
	struct process *p = process_of(r, d->ref);
	struct tree_event ev = { .type = TREE_READY, .ref = d->ref };
	struct scenario_name *name;

	if (!p || p->cancelled)
		return;
	name = p->child->name;
	if (name->fail > 0) {
		name->fail--;
		ev.type = TREE_FAILED;
	} else if (name->ignore > 0) {
		name->ignore--;
		ev.type = TREE_IGNORED;
	} else if (p->group) {
		ev.type = TREE_BEGUN;
	} else {
		p->alive = true;
		name->newest = d->ref;
	}
	step(r, ev);
}

static void dead(struct run *r, struct tree_ref ref, enum tree_exit exit)
{
	struct process *p = process_of(r, ref);

	if (!p || (!p->alive && !p->cancelled))
		return;
	p->alive = p->cancelled = false;
	step(r, (struct tree_event){ .type = TREE_EXITED, .ref = ref, .exit = exit });
}

static void set(const struct scenario_event *e)
{
	*(e->key == SCENARIO_FAIL     ? &e->name->fail
	  : e->key == SCENARIO_IGNORE ? &e->name->ignore
	  : e->key == SCENARIO_START_MS ? &e->name->start_ms
					: &e->name->stop_ms) = e->value;
}

static void happen(struct run *r, const struct scenario_event *e)
{
	switch (e->what) {
	case SCENARIO_EXIT:
		if (process_of(r, e->name->newest))
			dead(r, e->name->newest, e->exit);
		break;
	case SCENARIO_SET:
		set(e);
		break;
	case SCENARIO_STOP_ROOT:
		stop_root(r);
		break;
	case SCENARIO_REQUEST:
		step(r, (struct tree_event){ .type = TREE_REQUEST, .group = e->name->id, .ask = e->ask, .request = (uint64_t)e->number,
						   .child = e->child, .spec = e->spec });
		break;
	}
}

/* The next thing that is due until `until_ms`; false: nothing. */
static bool advance(struct run *r, int64_t until_ms)
{
	int64_t timer_ms = r->timer_ms == 0 ? INT64_MAX : r->timer_ms - r->s->phase_ms;
	struct due d = r->n_heap ? r->heap[0] : (struct due){ .at_ms = INT64_MAX, .order = LATER };

	if (d.at_ms > until_ms && timer_ms > until_ms)
		return false;
	if (timer_ms < d.at_ms || (timer_ms == d.at_ms && d.order >= LATER)) {
		r->now_ms = timer_ms > r->now_ms ? timer_ms : r->now_ms;
		r->timer_ms = 0;
		step(r, (struct tree_event){ .type = TREE_TIMER });
		return true;
	}
	d = due_take(r);
	r->now_ms = d.at_ms;
	switch (d.kind) {
	case DUE_BORN:
		born(r, &d);
		break;
	case DUE_DEAD:
		dead(r, d.ref, d.exit);
		break;
	case DUE_EVENT:
		happen(r, d.event);
		break;
	}
	return true;
}

/* ---- the whole ---- */

static void final_of(struct json_out *o, const struct tree_node *group)
{
	const struct tree_node *n;

	json_out_array(o, NULL);
	json_out_text(o, NULL, tree_view(group).id);
	json_out_array(o, NULL);
	for (n = tree_child_first(group); n; n = tree_child_next(n)) {
		json_out_array(o, NULL);
		json_out_text(o, NULL, tree_view(n).id);
		json_out_text(o, NULL, tree_state_text(tree_view(n).state));
		json_out_array_end(o);
	}
	json_out_array_end(o);
	json_out_array_end(o);
	for (n = tree_child_first(group); n; n = tree_child_next(n))
		if (tree_view(n).type == TREE_GROUP && tree_view(n).alive)
			final_of(o, n);
}

static int by_number(const void *a, const void *b)
{
	const struct reply *x = a, *y = b;

	return x->number != y->number ? (x->number < y->number ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static void result_write(struct run *r, const struct buf *final, struct buf *to)
{
	struct json_out o = json_out_to(to);

	if (r->n_replies > 0)
		qsort(r->replies, r->n_replies, sizeof *r->replies, by_number);
	json_out_object(&o, NULL);
	json_out_i64(&o, "id", r->s->id);
	json_out_raw(&o, "actions", r->actions.data, r->actions.size);
	json_out_array(&o, "replies");
	for (size_t i = 0; i < r->n_replies; i++) {
		json_out_array(&o, NULL);
		json_out_i64(&o, NULL, r->replies[i].number);
		json_out_raw(&o, NULL, r->texts.data + r->replies[i].at, r->replies[i].size);
		json_out_array_end(&o);
	}
	json_out_array_end(&o);
	json_out_raw(&o, "final", final->data, final->size);
	if (r->o->explain)
		json_out_raw(&o, "explain", r->explain.data, r->explain.size);
	json_out_object_end(&o);
	buf_add_char(to, '\n');
}

static void run_through(struct run *r, struct buf *final)
{
	struct json_out o = json_out_to(final);
	const struct scenario *s = r->s;

	for (size_t i = 0; i < s->n_events; i++)
		if (s->events[i].t_ms < 0)
			happen(r, &s->events[i]);
	step(r, (struct tree_event){ .type = TREE_START });
	for (size_t i = 0; i < s->n_events; i++)
		if (s->events[i].t_ms >= 0)
			plan(r, (struct due){ .kind = DUE_EVENT, .event = &s->events[i] }, s->events[i].t_ms);
	while (r->n_actions < LIMIT_SIMULATE_ACTIONS && !r->no_memory && advance(r, s->end_ms))
		;
	r->now_ms = s->end_ms;
	json_out_array(&o, NULL);
	if (tree_root_state(r->tree) == TREE_ROOT_UP || tree_root_state(r->tree) == TREE_ROOT_ENDING)
		final_of(&o, tree_top(r->tree));
	json_out_array_end(&o);
	stop_root(r);
	while (r->n_actions < LIMIT_SIMULATE_ACTIONS && !r->no_memory && advance(r, INT64_MAX - 1))
		;
}

static int outcome(const struct run *r, const struct buf *to, struct err *e)
{
	if (r->no_memory)
		return err_set(e, ERR_INTERNAL, "no memory");
	if (r->n_actions >= LIMIT_SIMULATE_ACTIONS)
		return err_set(e, ERR_LIMIT_EXCEEDED, "more than %d actions: does something restart for ever?", LIMIT_SIMULATE_ACTIONS);
	if (to->failed || r->actions.failed || r->texts.failed || r->explain.failed)
		return err_set(e, ERR_LIMIT_EXCEEDED, "the result has more than %u bytes", LIMIT_SIMULATE_RESULT_BYTES);
	return 0;
}

int simulate_run(struct scenario *s, const struct simulate_options *o, struct buf *to, struct err *e)
{
	static const struct tree_rules ours = { .keep_failed = true, .exact_ms = true, .cut = true, .answer_at_once = true,
		.backoff_first_ms = DEFAULT_BACKOFF_FIRST_MS, .backoff_max_ms = DEFAULT_BACKOFF_MAX_MS, .groups_wait = true };
	static const struct tree_rules otp = { .groups_wait = true };
	struct run *r = calloc(1, sizeof *r);
	struct buf final = BUF_INIT;
	int status;

	if (!r)
		return err_set(e, ERR_INTERNAL, "no memory");
	r->s = s;
	r->o = o;
	if (tree_new(&s->root, o->otp ? &otp : &ours, &r->tree, e) == -1) {
		free(r);
		return -1;
	}
	buf_init(&r->actions, LIMIT_SIMULATE_RESULT_BYTES);
	buf_init(&r->texts, LIMIT_SIMULATE_RESULT_BYTES);
	buf_init(&r->explain, LIMIT_SIMULATE_RESULT_BYTES);
	r->actions_out = json_out_to(&r->actions);
	r->explain_out = json_out_to(&r->explain);
	json_out_array(&r->actions_out, NULL);
	json_out_array(&r->explain_out, NULL);
	run_through(r, &final);
	json_out_array_end(&r->actions_out);
	json_out_array_end(&r->explain_out);
	status = outcome(r, to, e);
	if (status == 0) {
		result_write(r, &final, to);
		status = outcome(r, to, e);
	}
	tree_free(r->tree, NULL);
	buf_fini(&r->actions);
	buf_fini(&r->texts);
	buf_fini(&r->explain);
	buf_fini(&final);
	free(r->heap);
	free(r->processes);
	free(r->replies);
	free(r);
	return status;
}
