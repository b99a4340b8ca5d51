/* SPDX-License-Identifier: MIT
 *
 * Requests to a group: how one gets into the inbox, what it does in its turn, its one reply. None is ever counted in the
 * window. Control process; pure. */
#include <stdlib.h>
#include <string.h>

#include "daemon/supervise/tree_inner.h"

static struct tree_action *reply_emit(struct tree *t, enum tree_ask ask, uint64_t number, enum tree_reply reply, const struct tree_node *group)
{
	struct tree_action *a = tree_emit(t, TREE_DO_REPLY, group, TREE_WHY_NONE);

	a->ask = ask;
	a->request = number;
	a->reply = reply;
	t->hold = reply == TREE_REPLY_WHICH || reply == TREE_REPLY_COUNT; /* what is read now is what it was then */
	return a;
}

/* Ends the request: whatever it brought and wasn't kept is released. */
void request_reply(struct tree *t, struct tree_group *g, struct request *r, enum tree_reply reply)
{
	if (g->request == r)
		g->request = NULL;
	(void)reply_emit(t, r->ask, r->number, reply, g->node);
	if (r->added)
		build_bury(t, r->added);
	free(r);
}

static enum tree_result refuse(struct tree *t, const struct tree_event *ev, enum tree_reply reply)
{
	(void)reply_emit(t, ev->ask, ev->request, reply, NULL);
	return TREE_REFUSED;
}

static enum tree_reply reply_of(const struct err *e)
{
	return e->code == ERR_LIMIT_EXCEEDED ? TREE_REPLY_LIMIT : e->code == ERR_INTERNAL ? TREE_REPLY_NO_MEMORY : TREE_REPLY_BAD_SPEC;
}

enum tree_result request_come(struct tree *t, const struct tree_event *ev)
{
	const struct tree_node *n = ev->group ? tree_find_group(t, ev->group) : t->top;
	struct tree_group *g = n ? n->group : NULL;
	struct err e = ERR_INIT;
	struct request *r;

	if (!g || g->phase == PHASE_CLOSED)
		return refuse(t, ev, TREE_REPLY_DOWN);
	if (t->rules.answer_at_once && (ev->ask == TREE_ASK_WHICH || ev->ask == TREE_ASK_COUNT)) {
		(void)reply_emit(t, ev->ask, ev->request, ev->ask == TREE_ASK_WHICH ? TREE_REPLY_WHICH : TREE_REPLY_COUNT, n);
		return TREE_TAKEN;
	}
	if (g->n_requests >= LIMIT_GROUP_REQUESTS)
		return refuse(t, ev, TREE_REPLY_BUSY);
	r = calloc(1, sizeof *r);
	if (!r)
		return refuse(t, ev, TREE_REPLY_NO_MEMORY);
	r->message.kind = MESSAGE_REQUEST;
	r->number = ev->request;
	r->ask = ev->ask;
	if (ev->ask == TREE_ASK_START_CHILD) {
		r->added = ev->spec ? build_node(t, ev->spec, NULL, build_depth(g) + 1, &e) : NULL;
		if (!r->added) {
			free(r);
			return refuse(t, ev, ev->spec ? reply_of(&e) : TREE_REPLY_BAD_SPEC);
		}
		r->added->parent = g;
	} else if (ev->child) {
		memcpy(r->child, ev->child, strnlen(ev->child, sizeof r->child - 1));
	}
	inbox_put(g, &r->message);
	tree_work(t, g);
	return TREE_TAKEN;
}

static struct tree_node *find(const struct tree_group *g, const char *id)
{
	struct tree_node *n = g->first;

	while (n && strcmp(n->id, id) != 0)
		n = n->next;
	return n;
}

static enum phase start_child(struct tree *t, struct tree_group *g, struct request *r)
{
	const struct tree_node *there = find(g, r->added->id);
	enum tree_reply reply = TREE_REPLY_OK;

	if (r->added->significant && (g->auto_shutdown == TREE_AUTO_NEVER || r->added->restart == TREE_PERMANENT))
		reply = TREE_REPLY_BAD_COMBINATION;
	else if (there)
		reply = there->state == CHILD_RUNNING ? TREE_REPLY_ALREADY_STARTED : TREE_REPLY_ALREADY_PRESENT;
	else if (g->n_children >= LIMIT_GROUP_CHILDREN)
		reply = TREE_REPLY_LIMIT;
	if (reply != TREE_REPLY_OK) {
		request_reply(t, g, r, reply);
		return PHASE_IDLE;
	}
	g->request = r;
	child_start(t, r->added, TREE_WHY_REQUEST);
	return PHASE_REQ_START;
}

static enum phase terminate(struct tree *t, struct tree_group *g, struct request *r, struct tree_node *n)
{
	if (SEEDED(7) && n->state == CHILD_RESTARTING) {
		request_reply(t, g, r, TREE_REPLY_RESTARTING);
		return PHASE_IDLE;
	}
	g->request = r;
	child_stop(t, n, TREE_WHY_REQUEST);
	if (g->wait == WAIT_GONE)
		return PHASE_REQ_STOP;
	child_forget(t, n);
	request_reply(t, g, r, TREE_REPLY_OK);
	return PHASE_IDLE;
}

static enum phase of_child(struct tree *t, struct tree_group *g, struct request *r, struct tree_node *n)
{
	enum tree_reply reply = TREE_REPLY_OK;

	if (n->state == CHILD_RUNNING)
		reply = TREE_REPLY_RUNNING;
	else if (n->state == CHILD_RESTARTING)
		reply = TREE_REPLY_RESTARTING;
	else if (r->ask == TREE_ASK_DELETE)
		child_remove(t, n);
	if (reply != TREE_REPLY_OK || r->ask == TREE_ASK_DELETE) {
		request_reply(t, g, r, reply);
		return PHASE_IDLE;
	}
	g->request = r;
	if (SEEDED(9) && !decide_count(t, g, n, TREE_WHY_REQUEST)) {
		request_reply(t, g, r, TREE_REPLY_OK);
		return group_finish(t, g, TREE_WHY_INTENSITY);
	}
	child_start(t, n, TREE_WHY_REQUEST);
	return PHASE_REQ_START;
}

enum phase request_take(struct tree *t, struct tree_group *g, struct request *r)
{
	struct tree_node *n = r->ask == TREE_ASK_START_CHILD ? NULL : find(g, r->child);

	switch (r->ask) {
	case TREE_ASK_START_CHILD:
		return start_child(t, g, r);
	case TREE_ASK_WHICH:
		request_reply(t, g, r, TREE_REPLY_WHICH);
		return PHASE_IDLE;
	case TREE_ASK_COUNT:
		request_reply(t, g, r, TREE_REPLY_COUNT);
		return PHASE_IDLE;
	case TREE_ASK_TERMINATE:
	case TREE_ASK_RESTART:
	case TREE_ASK_DELETE:
	case TREE_ASK__N:
		break;
	}
	if (!n) {
		request_reply(t, g, r, TREE_REPLY_NOT_FOUND);
		return PHASE_IDLE;
	}
	return r->ask == TREE_ASK_TERMINATE ? terminate(t, g, r, n) : of_child(t, g, r, n);
}
