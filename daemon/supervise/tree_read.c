/* SPDX-License-Identifier: MIT
 *
 * What a tree looks like from outside. Control process; pure. */
#include <string.h>

#include "daemon/supervise/tree_inner.h"

enum tree_root tree_root_state(const struct tree *t)
{
	return t->root;
}

enum tree_why tree_root_why(const struct tree *t)
{
	return t->root_why;
}

int64_t tree_due_ms(const struct tree *t)
{
	return t->due_first ? t->due_first->due_ms : 0;
}

const struct tree_node *tree_top(const struct tree *t)
{
	return t->top;
}

/* The next node in depth-first start order; children of a group that isn't open are not there. */
static const struct tree_node *walk(const struct tree_node *n)
{
	if (n->group && n->group->phase != PHASE_CLOSED && n->group->first)
		return n->group->first;
	while (!n->next && n->parent)
		n = n->parent->node;
	return n->next;
}

const struct tree_node *tree_find_group(const struct tree *t, const char *id)
{
	for (const struct tree_node *n = t->top; n; n = walk(n))
		if (n->group && n->group->phase != PHASE_CLOSED && strcmp(n->id, id) == 0)
			return n;
	return NULL;
}

static enum tree_state state_of(const struct tree_node *n)
{
	if (n->parent && n->parent->waited == n)
		return n->parent->wait == WAIT_READY ? TREE_STARTING : TREE_STOPPING;
	switch (n->state) {
	case CHILD_UNDEFINED:
		return n->failed ? TREE_STATE_FAILED : TREE_UNDEFINED;
	case CHILD_RUNNING:
		return TREE_RUNNING;
	case CHILD_RESTARTING:
		break;
	}
	return n->due_ms > 0 ? TREE_BACKOFF : TREE_RESTARTING;
}

/* In a restart of several: all of the set are down first, then started in order from the cursor. */
static bool is_to_start(const struct tree_node *n)
{
	const struct tree_group *g = n->parent;
	const struct tree_node *at;

	if (!g || n->state != CHILD_UNDEFINED || n == g->waited || (g->phase != PHASE_SET_DOWN && g->phase != PHASE_SET_UP))
		return false;
	for (at = g->phase == PHASE_SET_UP ? g->cursor : g->set_from ? g->set_from : g->first; at; at = at->next)
		if (at == n)
			return true;
	return false;
}

struct tree_view tree_view(const struct tree_node *n)
{
	return (struct tree_view){ .id = n->id, .user = n->user, .type = n->type, .restart = n->restart, .significant = n->significant,
		.alive = n->alive, .state = state_of(n), .to_start = is_to_start(n), .ref = { n->slot, n->instance }, .due_ms = n->due_ms, .restarts = n->restarts, .streak = n->streak,
		.exit = n->exit, .ended = n->ended };
}

const struct tree_node *tree_child_first(const struct tree_node *group)
{
	return group->group ? group->group->first : NULL;
}

const struct tree_node *tree_child_next(const struct tree_node *child)
{
	return child->next;
}

const struct tree_node *tree_child_last(const struct tree_node *group)
{
	return group->group ? group->group->last : NULL;
}

const struct tree_node *tree_child_prev(const struct tree_node *child)
{
	return child->prev;
}

/* `active` asks the process: one that has died is not, even if its exit still waits in the inbox. */
struct tree_counts tree_count(const struct tree_node *group)
{
	struct tree_counts c = { 0 };

	for (const struct tree_node *n = tree_child_first(group); n; n = n->next) {
		c.specs++;
		c.active += n->state == CHILD_RUNNING && (n->alive || SEEDED(3));
		c.groups += n->type == TREE_GROUP;
		c.leaves += n->type == TREE_LEAF;
	}
	return c;
}
