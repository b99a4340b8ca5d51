/* SPDX-License-Identifier: MIT
 *
 * From specs to nodes and back: all checks, all memory. A spec is checked whole before a node of it is used; a node that
 * leaves the tree is released first and freed by the next step. Control process; pure. */
#include <stdlib.h>
#include <string.h>

#include "daemon/supervise/tree_inner.h"
#include "proto/names.h"

static int check_group(const struct tree *t, const struct tree_spec *s, uint32_t depth, struct err *e)
{
	if (s->shutdown_ms != TREE_SHUTDOWN_INFINITY)
		return err_set(e, ERR_BAD_PARAM, "group '%s': a group is always given the time that its children need: shutdown must be infinity", s->id);
	if ((unsigned)s->strategy >= TREE_STRATEGY__N || (unsigned)s->auto_shutdown >= TREE_AUTO__N)
		return err_set(e, ERR_BAD_PARAM, "group '%s': no such strategy or auto_shutdown", s->id);
	if (s->intensity > BUDGET_INTENSITY_MAX)
		return err_set(e, ERR_BAD_PARAM, "group '%s': intensity is at most %d", s->id, BUDGET_INTENSITY_MAX);
	if (s->period_ms == 0)
		return err_set(e, ERR_BAD_PARAM, "group '%s': period is at least 1", s->id);
	if (!t->rules.exact_ms && s->period_ms % 1000 != 0)
		return err_set(e, ERR_BAD_PARAM, "group '%s': by OTP's rules a period is whole seconds", s->id);
	if (depth > LIMIT_TREE_DEPTH)
		return err_set(e, ERR_LIMIT_EXCEEDED, "group '%s': at most %d groups in each other", s->id, LIMIT_TREE_DEPTH);
	if (s->n_children > LIMIT_GROUP_CHILDREN)
		return err_set(e, ERR_LIMIT_EXCEEDED, "group '%s': at most %d children", s->id, LIMIT_GROUP_CHILDREN);
	return 0;
}

static int check(const struct tree *t, const struct tree_spec *s, const struct tree_spec *parent, uint32_t depth, struct err *e)
{
	if (!s->id || !name_is_id(s->id, strlen(s->id)))
		return err_set(e, ERR_INVALID_ID, "'%.80s' is no id of a child or group", s->id ? s->id : "");
	if ((unsigned)s->type >= TREE_TYPE__N || (unsigned)s->restart >= TREE_RESTART__N || s->shutdown_ms < TREE_SHUTDOWN_BRUTAL)
		return err_set(e, ERR_BAD_PARAM, "child '%s': no such type, restart type or shutdown", s->id);
	if (s->shutdown_ms > LIMIT_TIMER_MS)
		return err_set(e, ERR_BAD_PARAM, "child '%s': shutdown is too long", s->id);
	if (parent && s->significant && (parent->auto_shutdown == TREE_AUTO_NEVER || s->restart == TREE_PERMANENT))
		return err_set(e, ERR_BAD_PARAM, "child '%s': significant, but %s", s->id,
			parent->auto_shutdown == TREE_AUTO_NEVER ? "its group has auto_shutdown never" : "permanent: it never ends for good");
	if (s->type == TREE_LEAF && s->n_children > 0)
		return err_set(e, ERR_BAD_PARAM, "child '%s' isn't a group and has children", s->id);
	return s->type == TREE_GROUP ? check_group(t, s, depth, e) : 0;
}

static int slot_take(struct tree *t, struct tree_node *n, struct err *e)
{
	struct tree_node **slots;
	uint32_t i, room;

	if (t->n_nodes >= LIMIT_TREE_NODES)
		return err_set(e, ERR_LIMIT_EXCEEDED, "a tree has at most %d groups and children", LIMIT_TREE_NODES);
	if (t->n_nodes == t->n_slots) {
		room = t->n_slots ? t->n_slots * 2 : 16;
		slots = realloc(t->slots, room * sizeof *slots);
		if (!slots)
			return err_set(e, ERR_INTERNAL, "no memory");
		memset(slots + t->n_slots, 0, (room - t->n_slots) * sizeof *slots);
		t->slots = slots;
		t->free_hint = t->n_slots;
		t->n_slots = room;
	}
	for (i = t->free_hint; t->slots[i]; i = i + 1 < t->n_slots ? i + 1 : 0)
		;
	n->slot = i;
	t->slots[i] = n;
	t->free_hint = i;
	t->n_nodes++;
	return 0;
}

static struct tree_node *node_new(struct tree *t, const struct tree_spec *s, struct err *e)
{
	struct tree_node *n = calloc(1, sizeof *n);

	if (!n) {
		(void)err_set(e, ERR_INTERNAL, "no memory");
		return NULL;
	}
	memcpy(n->id, s->id, strlen(s->id));
	n->type = s->type;
	n->restart = s->restart;
	n->significant = s->significant;
	n->shutdown_ms = s->shutdown_ms;
	n->user = s->user;
	n->streak = s->streak;
	n->kept = s->streak > 0;
	n->kept_due_ms = s->due_ms;
	n->kept_ready_ms = s->ready_ms;
	if (s->type == TREE_GROUP) {
		n->group = calloc(1, sizeof *n->group);
		if (!n->group) {
			free(n);
			(void)err_set(e, ERR_INTERNAL, "no memory");
			return NULL;
		}
		n->group->node = n;
		n->group->strategy = s->strategy;
		n->group->auto_shutdown = s->auto_shutdown;
		n->group->policy = (struct budget_policy){ .intensity = s->intensity, .period_ms = s->period_ms };
		n->group->kept_budget = s->budget != NULL;
		if (s->budget)
			n->group->budget = *s->budget;
	}
	if (slot_take(t, n, e) == -1) {
		free(n->group);
		free(n);
		return NULL;
	}
	return n;
}

static bool doubled(const struct tree_group *g, const char *id)
{
	for (const struct tree_node *n = g->originals; n; n = n->original_next)
		if (strcmp(n->id, id) == 0)
			return true;
	return false;
}

struct tree_node *build_node(struct tree *t, const struct tree_spec *s, const struct tree_spec *parent, uint32_t depth, struct err *e)
{
	struct tree_node *n, **last, *child;

	if (check(t, s, parent, depth, e) == -1)
		return NULL;
	n = node_new(t, s, e);
	if (!n || !n->group)
		return n;
	last = &n->group->originals;
	for (size_t i = 0; i < s->n_children; i++) {
		if (s->children[i].id && doubled(n->group, s->children[i].id)) {
			(void)err_set(e, ERR_BAD_PARAM, "group '%s': two children '%s'", s->id, s->children[i].id);
			child = NULL;
		} else {
			child = build_node(t, &s->children[i], s, depth + 1, e);
		}
		if (!child) {
			build_free(t, n);
			return NULL;
		}
		child->parent = n->group;
		child->original = true;
		*last = child;
		last = &child->original_next;
	}
	return n;
}

uint32_t build_depth(const struct tree_group *g)
{
	uint32_t depth = 1;

	while (g->node->parent) {
		g = g->node->parent;
		depth++;
	}
	return depth;
}

/* It and all below it are to be released; nothing of it runs. Its slot is free for others: instances tell them apart. */
void build_bury(struct tree *t, struct tree_node *n)
{
	*(t->dead_last ? &t->dead_last->grave : &t->dead) = n;
	t->dead_last = n;
	n->grave = NULL;
	n->instance = 0;
	t->slots[n->slot] = NULL;
	t->free_hint = n->slot;
	t->n_nodes--;
	if (n->group)
		tree_work_forget(t, n->group);
	if (n->group)
		for (struct tree_node *child = n->group->originals; child; child = child->original_next)
			build_bury(t, child);
}

/* Of what was never used, or is released. */
void build_free(struct tree *t, struct tree_node *n)
{
	struct tree_node *child = n->group ? n->group->originals : NULL, *next;

	for (; child; child = next) {
		next = child->original_next;
		build_free(t, child);
	}
	if (t->slots[n->slot] == n) {
		t->slots[n->slot] = NULL;
		t->free_hint = n->slot;
		t->n_nodes--;
	}
	free(n->group);
	free(n);
}

int tree_new(const struct tree_spec *top, const struct tree_rules *rules, struct tree **ret, struct err *e)
{
	struct tree *t;

	if (top->type != TREE_GROUP || top->significant)
		return err_set(e, ERR_BAD_PARAM, "the top of a tree is a group, and not significant");
	if (rules->backoff_max_ms < rules->backoff_first_ms)
		return err_set(e, ERR_BAD_PARAM, "back-off: the longest is shorter than the first");
	t = calloc(1, sizeof *t);
	if (!t)
		return err_set(e, ERR_INTERNAL, "no memory");
	t->rules = *rules;
	t->timers_until_ms = INT64_MIN;
	t->top = build_node(t, top, NULL, 1, e);
	if (!t->top) {
		free(t->slots);
		free(t);
		return -1;
	}
	t->top->original = true;
	*ret = t;
	return 0;
}

/* What a waiting start_child has brought has slots too. */
static void requests_free(struct tree_group *g)
{
	struct message *m;

	free(g->request);
	while ((m = inbox_take(g)))
		if (m->kind == MESSAGE_REQUEST)
			free((struct request *)(void *)m);
}

void tree_free(struct tree *t, void (*release)(void *user))
{
	struct tree_node *n, *next;

	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_slots; i++) {
		n = t->slots[i];
		if (!n)
			continue;
		if (release)
			release(n->user);
		if (n->group)
			requests_free(n->group);
	}
	for (uint32_t i = 0; i < t->n_slots; i++) {
		if (t->slots[i])
			free(t->slots[i]->group);
		free(t->slots[i]);
	}
	for (n = t->dead; n; n = next) {
		next = n->grave;
		if (release)
			release(n->user);
		free(n->group);
		free(n);
	}
	for (n = t->buried; n; n = next) {
		next = n->grave;
		free(n->group);
		free(n);
	}
	free(t->slots);
	free(t);
}
