/* SPDX-License-Identifier: MIT
 *
 * A hash by id that keeps the order of insertion (uthash does both). */
#include "daemon/sandbox/registry.h"

#include <stdlib.h>

#include "daemon/sandbox/sandbox.h"

struct registry {
	struct sandbox *by_id;
	int64_t newest_ms;
};

struct registry *registry_new(void)
{
	return calloc(1, sizeof(struct registry));
}

struct registry *registry_free(struct registry *r)
{
	free(r);
	return NULL;
}

struct sandbox *registry_get(const struct registry *r, const char *id)
{
	struct sandbox *sb = NULL;

	HASH_FIND_STR(r->by_id, id, sb);
	return sb;
}

void registry_add(struct registry *r, struct sandbox *sb)
{
	HASH_ADD_STR(r->by_id, spec.id, sb);
	if (sb->spec.created_at_ms > r->newest_ms)
		r->newest_ms = sb->spec.created_at_ms;
	owned_registered(sb, true);
}

int64_t registry_created_at(struct registry *r, int64_t wall_ms)
{
	r->newest_ms = wall_ms > r->newest_ms ? wall_ms : r->newest_ms + 1;
	return r->newest_ms;
}

static int by_creation(const struct sandbox *a, const struct sandbox *b)
{
	return a->spec.created_at_ms < b->spec.created_at_ms ? -1 : a->spec.created_at_ms > b->spec.created_at_ms;
}

void registry_sort(struct registry *r)
{
	HASH_SORT(r->by_id, by_creation);
}

void registry_remove(struct registry *r, struct sandbox *sb)
{
	HASH_DEL(r->by_id, sb);
	owned_registered(sb, false);
}

size_t registry_count(const struct registry *r)
{
	return HASH_COUNT(r->by_id);
}

struct sandbox *registry_first(const struct registry *r)
{
	return r->by_id;
}

struct sandbox *registry_next(const struct sandbox *sb)
{
	return sb->hh.next;
}
