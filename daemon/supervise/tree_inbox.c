/* SPDX-License-Identifier: MIT
 *
 * The lists of a tree: a group's inbox, its children in start order, and the timers by time. Everything is linked
 * through what it is about, so nothing here allocates or fails. Control process; pure. */
#include "daemon/supervise/tree_inner.h"

void inbox_put(struct tree_group *g, struct message *m)
{
	if (m->queued)
		return;
	m->queued = true;
	m->next = NULL;
	m->prev = g->inbox_last;
	if (g->inbox_last)
		g->inbox_last->next = m;
	else
		g->inbox = m;
	g->inbox_last = m;
	g->n_requests += m->kind == MESSAGE_REQUEST;
}

void inbox_put_first(struct tree_group *g, struct message *m)
{
	if (!g->inbox || m->queued) {
		inbox_put(g, m);
		return;
	}
	m->queued = true;
	m->prev = NULL;
	m->next = g->inbox;
	g->inbox->prev = m;
	g->inbox = m;
	g->n_requests += m->kind == MESSAGE_REQUEST;
}

void inbox_remove(struct tree_group *g, struct message *m)
{
	if (!m->queued)
		return;
	m->queued = false;
	*(m->prev ? &m->prev->next : &g->inbox) = m->next;
	*(m->next ? &m->next->prev : &g->inbox_last) = m->prev;
	m->prev = m->next = NULL;
	g->n_requests -= m->kind == MESSAGE_REQUEST;
}

struct message *inbox_take(struct tree_group *g)
{
	struct message *m = g->inbox;

	if (m)
		inbox_remove(g, m);
	return m;
}

/* ---- children in start order ---- */

void list_append(struct tree_group *g, struct tree_node *n)
{
	n->listed = true;
	n->next = NULL;
	n->prev = g->last;
	*(g->last ? &g->last->next : &g->first) = n;
	g->last = n;
	g->n_children++;
}

void list_remove(struct tree_group *g, struct tree_node *n)
{
	n->listed = false;
	if (g->cursor == n) /* only the end of a group finds its cursor on the child that it waits for: it goes backwards */
		g->cursor = n->prev;
	if (g->set_from == n)
		g->set_from = NULL;
	if (g->crasher == n)
		g->crasher = NULL;
	*(n->prev ? &n->prev->next : &g->first) = n->next;
	*(n->next ? &n->next->prev : &g->last) = n->prev;
	n->prev = n->next = NULL;
	g->n_children--;
}

/* ---- timers: a child has one at most ---- */

void timer_clear(struct tree *t, struct tree_node *n)
{
	if (n->due_ms == 0)
		return;
	*(n->due_prev ? &n->due_prev->due_next : &t->due_first) = n->due_next;
	*(n->due_next ? &n->due_next->due_prev : &t->due_last) = n->due_prev;
	n->due_prev = n->due_next = NULL;
	n->due_ms = 0;
}

void timer_arm(struct tree *t, struct tree_node *n, int64_t due_ms)
{
	struct tree_node *before;

	timer_clear(t, n);
	before = t->due_last;
	n->due_ms = due_ms > 0 ? due_ms : 1; /* 0 means none */
	while (before && before->due_ms > n->due_ms)
		before = before->due_prev;
	n->due_prev = before;
	n->due_next = before ? before->due_next : t->due_first;
	*(before ? &before->due_next : &t->due_first) = n;
	*(n->due_next ? &n->due_next->due_prev : &t->due_last) = n;
}
