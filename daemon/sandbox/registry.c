/* SPDX-License-Identifier: MIT
 *
 * A hash by id that keeps the order of insertion (uthash does both). */
#include "daemon/sandbox/registry.h"

#include <stdlib.h>

#include "daemon/sandbox/sandbox.h"

struct registry {
	struct sandbox *by_id;
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
}

void registry_remove(struct registry *r, struct sandbox *sb)
{
	HASH_DEL(r->by_id, sb);
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
