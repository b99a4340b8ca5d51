/* SPDX-License-Identifier: MIT
 *
 * Maps for a module. What it hands in as a map may be anything: a wrong pointer is a bug beyond repair, so it ends the sandbox
 * with a sentence in place of a crash in the host's code. */
#include <string.h>

#include "daemon/host/module/context.h"
#include "daemon/host/module/map.h"

static struct context *check(struct sbx *x, const struct sbx_map *map, const char *what)
{
	struct context *c = (struct context *)x;

	if (!map_is(c->m->arena, map))
		context_die(c, "%s: there is no map of the host's at this address", what);
	return c;
}

void *service_map_find(struct sbx *x, struct sbx_map *map, const char *key, uint64_t n)
{
	(void)check(x, map, "SBX_FIND");
	return map_find(map, key, n);
}

/* The key may lie in the map itself, whose memory moves. */
static const char *own_key(struct context *c, const struct sbx_map *map, const char *key, uint64_t n)
{
	uintptr_t at = (uintptr_t)key, keys = (uintptr_t)map->keys;
	char *copy;

	if (keys == 0 || at < keys || at >= keys + map->keys_room)
		return key;
	copy = service_alloc(&c->x, n + 1);
	memcpy(copy, key, (size_t)n);
	return copy;
}

void *service_map_put(struct sbx *x, struct sbx_map *map, const char *key, uint64_t n, uint64_t value_size)
{
	struct context *c = check(x, map, "SBX_PUT");
	const struct schema *s = c->m->desc->schema;
	const char *own = own_key(c, map, key, n);
	struct err e = ERR_INIT;
	bool is_new = false;
	void *value;

	if (value_size != map->value_size)
		context_die(c, "SBX_PUT: the map's values have %u bytes, the type given %llu", map->value_size, (unsigned long long)value_size);
	value = map_put(c->m->arena, map, own, n, &is_new);
	if (value == NULL)
		context_die(c, "memory exhausted by a map of %u keys", map->live);
	if (is_new && map->type < s->n_structs && s->structs[map->type].size == value_size &&
		schema_set_defaults(s, map->type, value, c->m->arena, &e) != 0)
		context_die(c, "memory exhausted by a map of %u keys", map->live);
	if (own != key)
		service_release(x, (void *)(uintptr_t)own);
	return value;
}

int service_map_remove(struct sbx *x, struct sbx_map *map, const char *key, uint64_t n)
{
	struct context *c = check(x, map, "sbx_map_remove");
	const struct schema *s = c->m->desc->schema;
	void *value = map_find(map, key, n);
	struct schema_field f = { .elem = (uint8_t)map->kind, .type = map->type };

	if (value == NULL)
		return 0;
	if (f.elem != SBX_K_STRUCT || (map->type < s->n_structs && s->structs[map->type].size == map->value_size))
		schema_release_item(s, &f, value, c->m->arena);
	return map_remove(map, key, n);
}

uint64_t service_map_count(struct sbx *x, const struct sbx_map *map)
{
	(void)check(x, map, "sbx_map_count");
	return map->live;
}

void *service_map_next(struct sbx *x, struct sbx_map *map, uint64_t *at, const char **key, uint64_t *n)
{
	(void)check(x, map, "SBX_NEXT");
	return map_next(map, at, key, n);
}
