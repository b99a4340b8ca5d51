/* SPDX-License-Identifier: MIT
 *
 * What a tree is built of: the specs of a group's members, and, where it takes the place of an earlier control's, what that had come to.
 * See group.h. */
#include "daemon/group/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"

static enum tree_restart restart_of(enum life_restart r)
{
	return r == LIFE_PERMANENT ? TREE_PERMANENT : r == LIFE_TRANSIENT ? TREE_TRANSIENT : TREE_TEMPORARY;
}

/* Requests are refused that would make another one significant; a row may say so, and its whole tree would be refused for it. */
static bool may_be_significant(const struct member *m, enum tree_restart restart)
{
	return m->in->auto_shutdown != TREE_AUTO_NEVER && restart != TREE_PERMANENT;
}

struct tree_spec member_spec(struct member *m)
{
	const struct sandbox *sb = m->sandbox;
	const struct group *g = m->group;

	assert(sb || g);
	if (sb) /* the life has a deadline for each step of a stop: the tree needs none */
		return (struct tree_spec){ .id = sb->spec.id, .type = TREE_LEAF, .restart = restart_of(sb->spec.policy.restart),
			.significant = sb->spec.significant && may_be_significant(m, restart_of(sb->spec.policy.restart)),
			.shutdown_ms = TREE_SHUTDOWN_INFINITY, .user = m };
	return (struct tree_spec){ .id = g->id, .type = TREE_GROUP, .restart = g->restart,
		.significant = g->significant && may_be_significant(m, g->restart),
		.shutdown_ms = TREE_SHUTDOWN_INFINITY, .user = m, .strategy = g->strategy, .auto_shutdown = g->auto_shutdown,
		.intensity = g->intensity, .period_ms = g->period_ms };
}

void group_specs_free(struct tree_spec *specs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		group_specs_free((struct tree_spec *)(uintptr_t)specs[i].children, specs[i].n_children);
		free((struct budget *)(uintptr_t)specs[i].budget);
	}
	free(specs);
}

bool member_is_finished(const struct member *m)
{
	return m->sandbox && m->sandbox->spec.policy.restart == LIFE_TEMPORARY && m->sandbox->resting;
}

/* ---- what the tree of an earlier control had come to, as the specs of the members tell ---- */

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* The window of a group: what was counted of its sandboxes, the newest that there is room for. What was counted of groups in it isn't known. */
static struct budget *window_of(struct member *const *members, size_t n)
{
	struct budget *b = calloc(1, sizeof *b);
	int64_t *all = calloc(n + 1, sizeof b->at_ms);
	size_t sum = 0, kept;

	for (size_t i = 0; b && all && i < n; i++) {
		const struct budget *each = members[i]->sandbox ? &members[i]->sandbox->counted.budget : NULL;

		if (!each)
			continue;
		memcpy(all + sum, each->at_ms, each->n * sizeof *all);
		sum += each->n;
	}
	if (b && all) {
		qsort(all, sum, sizeof *all, by_time);
		kept = sum < BUDGET_INTENSITY_MAX + 1 ? sum : BUDGET_INTENSITY_MAX + 1;
		memcpy(b->at_ms, all + sum - kept, kept * sizeof *all);
		b->n = (uint32_t)kept;
	}
	free(all);
	return b;
}

static void spec_goes_on(struct tree_spec *s, const struct sandbox *sb)
{
	int64_t latest_ms = clock_monotonic_ms() + DEFAULT_BACKOFF_MAX_MS + DEFAULT_BACKOFF_MAX_MS / 4;

	s->streak = sb->counted.budget.streak;
	s->ready_ms = member_is_up(sb) ? sb->life.ready_ms : 0;
	s->due_ms = !member_is_down(sb) || sb->resting ? 0 : sb->counted.due_ms < latest_ms ? sb->counted.due_ms : latest_ms;
}

int group_specs_of(const struct group *g, bool goes_on, struct tree_spec **ret, size_t *ret_n, struct budget **ret_window)
{
	size_t n, kept = 0;
	struct member **members = group_members(g, &n);
	struct tree_spec *specs = members ? calloc(n + 1, sizeof *specs) : NULL;
	int result = specs ? 0 : -1;

	for (size_t i = 0; specs && i < n; i++) {
		struct tree_spec *children = NULL;
		struct budget *window = NULL;
		size_t n_children = 0;

		if (member_is_finished(members[i]))
			continue;
		specs[kept] = member_spec(members[i]);
		if (members[i]->group && group_specs_of(members[i]->group, goes_on, &children, &n_children, &window) < 0) {
			result = -1;
			break;
		}
		if (goes_on && members[i]->sandbox)
			spec_goes_on(&specs[kept], members[i]->sandbox);
		specs[kept].budget = window;
		specs[kept].children = children;
		specs[kept++].n_children = n_children;
	}
	*ret_window = goes_on && result == 0 ? window_of(members, n) : NULL;
	free(members);
	if (result < 0) {
		group_specs_free(specs, kept);
		return -1;
	}
	*ret = specs;
	*ret_n = kept;
	return 0;
}

void group_specs_mark(const struct tree_spec *specs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct member *m = specs[i].user;

		m->nodes++;
		m->listed = true;
		group_specs_mark(specs[i].children, specs[i].n_children);
	}
}
