/* SPDX-License-Identifier: MIT
 *
 * Gives back what a value points to when the value goes: texts, bytes, items of arrays, maps. The value is the module's memory
 * and may hold anything; only living blocks of the arena are freed, and depth is bounded by the schema's. */
#include <string.h>

#include "daemon/host/module/map.h"
#include "daemon/host/state/schema.h"

static void release_pointer(const void *at, struct arena *a)
{
	void *p;

	memcpy(&p, at, sizeof p); /* the first member of struct sbx_bytes too */
	arena_release(a, p);
}

static void release_array(const struct schema *s, const struct schema_field *f, uint8_t *base, struct arena *a)
{
	uint64_t n = 0;
	uint8_t *items;

	memcpy(&items, base + f->offset, sizeof items);
	memcpy(&n, base + f->count_offset, kind_size(f->count_kind));
	if (n > arena_usable(a, items) / f->elem_size)
		n = 0;
	for (uint64_t i = 0; i < n; i++)
		schema_release_item(s, f, items + i * f->elem_size, a);
	arena_release(a, items);
}

static void release_map(const struct schema *s, const struct schema_field *f, const uint8_t *at, struct arena *a)
{
	struct sbx_map *m;
	uint64_t next = 0;
	void *value;

	memcpy(&m, at, sizeof m);
	if (!map_is_sane(a, m) || m->value_size != f->elem_size)
		return;
	while ((value = map_next(m, &next, NULL, NULL)) != NULL)
		schema_release_item(s, f, value, a);
	map_free(a, m);
}

void schema_release_item(const struct schema *s, const struct schema_field *f, void *at, struct arena *a)
{
	if (f->elem == SBX_K_STR || f->elem == SBX_K_BYTES)
		release_pointer(at, a);
	else if (f->elem == SBX_K_STRUCT)
		schema_release_struct(s, f->type, at, a);
}

void schema_release_struct(const struct schema *s, uint32_t index, void *at, struct arena *a)
{
	const struct schema_struct *st = &s->structs[index];
	uint8_t *base = at;

	for (uint32_t i = 0; i < st->n_fields; i++) {
		const struct schema_field *f = &st->fields[i];

		if (f->kind == SBX_K_STR || f->kind == SBX_K_BYTES)
			release_pointer(base + f->offset, a);
		else if (f->kind == SBX_K_STRUCT)
			schema_release_struct(s, f->type, base + f->offset, a);
		else if (f->kind == SBX_K_ARRAY)
			release_array(s, f, base, a);
		else if (f->kind == SBX_K_MAP)
			release_map(s, f, base + f->offset, a);
		for (uint64_t k = 0; f->kind == SBX_K_FIXED && k < f->n; k++)
			schema_release_item(s, f, base + f->offset + k * f->elem_size, a);
	}
}
