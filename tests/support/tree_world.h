/* SPDX-License-Identifier: MIT
 *
 * The smallest engine of a supervision tree, for tests: it carries out the actions on processes that are only rows, and notes
 * the first rule of daemon/supervise/tree.h that the tree breaks. */
#ifndef SANDBOXD_TREE_WORLD_H
#define SANDBOXD_TREE_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/supervise/tree.h"

#define WORLD_ROWS 4096

enum row_state { ROW_NONE, ROW_STARTING, ROW_RUNNING };

struct row {
	char id[LIMIT_ID_BYTES + 1];
	struct tree_ref ref;
	enum row_state state;
	bool asked, killed, cancelled;
};

struct world {
	struct tree *tree;
	struct tree_actions out;
	int64_t now_ms, timer_ms;
	uint32_t random;
	unsigned asked_for, answered, released, steps;
	enum tree_reply last_reply;
	bool up, down, failed;
	char wrong[160]; /* "": nothing */
	char log[2048];  /* what happened in the last step, in short: "start a;" */
	size_t n_rows;
	struct row rows[WORLD_ROWS]; /* by slot; leaves only; the last field */
};

static inline void world_wrong(struct world *w, const char *what, const char *who)
{
	if (!w->wrong[0])
		(void)snprintf(w->wrong, sizeof w->wrong, "%s: %.63s", what, who);
}

static inline void world_log(struct world *w, const struct tree_action *a)
{
	size_t used = strlen(w->log);

	(void)snprintf(w->log + used, sizeof w->log - used, "%s%s%s;", tree_what_text(a->what), a->id[0] ? " " : "", a->id);
}

static inline void world_order(struct world *w, struct row *row, const struct tree_action *a)
{
	if (row->ref.instance != a->ref.instance || row->state == ROW_NONE)
		world_wrong(w, "an order to one that isn't there", a->id);
	if (row->killed)
		world_wrong(w, "an order after the kill", a->id);
	if (a->what == TREE_DO_CANCEL ? row->state != ROW_STARTING : row->state != ROW_RUNNING)
		world_wrong(w, "an order that doesn't fit", a->id);
	if (a->what == TREE_DO_ASK && row->asked)
		world_wrong(w, "asked twice", a->id);
	row->asked |= a->what == TREE_DO_ASK;
	row->cancelled |= a->what == TREE_DO_CANCEL;
	row->killed |= a->what != TREE_DO_ASK;
}

static inline void world_leaf(struct world *w, const struct tree_action *a)
{
	struct row *row = &w->rows[a->ref.slot];

	if (a->what != TREE_DO_START) {
		world_order(w, row, a);
		return;
	}
	if (a->ref.slot >= w->n_rows)
		w->n_rows = a->ref.slot + 1u;
	if (row->state != ROW_NONE)
		world_wrong(w, "a start while a process lives", a->id);
	*row = (struct row){ .ref = a->ref, .state = ROW_STARTING };
	(void)snprintf(row->id, sizeof row->id, "%s", a->id);
}

static inline unsigned world_alive(const struct world *w)
{
	unsigned n = 0;

	for (size_t i = 0; i < w->n_rows; i++)
		n += w->rows[i].state != ROW_NONE;
	return n;
}

static inline void world_do(struct world *w, const struct tree_action *a)
{
	world_log(w, a);
	switch (a->what) {
	case TREE_DO_START:
	case TREE_DO_CANCEL:
	case TREE_DO_ASK:
	case TREE_DO_KILL:
		if (a->type == TREE_LEAF)
			world_leaf(w, a);
		break;
	case TREE_DO_REPLY:
		w->answered++;
		w->last_reply = a->reply;
		if ((a->reply == TREE_REPLY_WHICH || a->reply == TREE_REPLY_COUNT) && a != &w->out.at[w->out.n - 1])
			world_wrong(w, "a list goes on behind an answer that is to be read", "");
		break;
	case TREE_DO_RELEASE:
		w->released++;
		break;
	case TREE_DO_TIMER:
		w->timer_ms = a->at_ms;
		break;
	case TREE_DO_UP:
		w->up = true;
		w->down = w->failed = false;
		break;
	case TREE_DO_DOWN:
		w->up = false;
		w->down = true;
		w->failed = a->failed;
		if (world_alive(w) > 0)
			world_wrong(w, "down, and processes live", a->id);
		break;
	default: /* notes */
		break;
	}
}

static inline enum tree_result world_step(struct world *w, struct tree_event ev)
{
	enum tree_result first = TREE_TAKEN, result;
	bool is_first = true;

	w->log[0] = '\0';
	ev.now_ms = w->now_ms;
	ev.random = w->random;
	do {
		result = tree_step(w->tree, &ev, &w->out);
		if (is_first)
			first = result;
		is_first = false;
		ev.type = TREE_TURN;
		w->steps++;
		if (w->out.n > TREE_ACTIONS_MAX - 2)
			world_wrong(w, "a list is full", "");
		for (uint32_t i = 0; i < w->out.n; i++)
			world_do(w, &w->out.at[i]);
	} while (w->out.more);
	if (w->timer_ms != tree_due_ms(w->tree))
		world_wrong(w, "the timer isn't what the tree says", "");
	return first;
}

static inline struct row *world_row(struct world *w, const char *id)
{
	for (size_t i = 0; i < w->n_rows; i++)
		if (w->rows[i].state != ROW_NONE && strcmp(w->rows[i].id, id) == 0)
			return &w->rows[i];
	return NULL;
}

static inline enum tree_result world_fact(struct world *w, struct row *row, enum tree_event_type type, enum tree_exit exit)
{
	struct tree_ref ref = row->ref;

	row->state = type == TREE_READY ? ROW_RUNNING : ROW_NONE;
	return world_step(w, (struct tree_event){ .type = type, .ref = ref, .exit = exit });
}

static inline void world_ready(struct world *w, const char *id)
{
	struct row *row = world_row(w, id);

	if (!row || row->state != ROW_STARTING)
		world_wrong(w, "isn't being started", id);
	else if (world_fact(w, row, TREE_READY, TREE_EXIT_NORMAL) != TREE_TAKEN)
		world_wrong(w, "READY isn't taken", id);
}

static inline void world_exit(struct world *w, const char *id, enum tree_exit exit)
{
	struct row *row = world_row(w, id);

	if (!row)
		world_wrong(w, "isn't there", id);
	else if (world_fact(w, row, TREE_EXITED, exit) != TREE_TAKEN)
		world_wrong(w, "EXITED isn't taken", id);
}

static inline void world_failed(struct world *w, const char *id)
{
	struct row *row = world_row(w, id);

	if (!row || world_fact(w, row, TREE_FAILED, TREE_EXIT_ERROR) != TREE_TAKEN)
		world_wrong(w, "FAILED isn't taken", id);
}

static inline void world_ask(struct world *w, enum tree_ask ask, const char *group, const char *child, const struct tree_spec *spec)
{
	w->asked_for++;
	(void)world_step(w, (struct tree_event){ .type = TREE_REQUEST, .ask = ask, .request = w->asked_for, .group = group, .child = child, .spec = spec });
}

static inline void world_timer(struct world *w)
{
	w->now_ms = w->timer_ms;
	w->timer_ms = 0;
	(void)world_step(w, (struct tree_event){ .type = TREE_TIMER });
}

static inline void world_end(struct world *w)
{
	tree_free(w->tree, NULL);
	w->tree = NULL;
}

#endif
