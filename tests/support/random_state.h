/* SPDX-License-Identifier: MIT
 *
 * Random state schemas as a module's tables, and random states of them: for tests that save and restore. */
#ifndef SANDBOXD_RANDOM_STATE_H
#define SANDBOXD_RANDOM_STATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/context.h"
#include "daemon/host/module/map.h"
#include "tests/support/module_make.h"

enum { STRUCTS = 4, FIELDS = 6, LAST_WITH_MAPS = 1 };

struct field {
	unsigned kind, elem, n, type;   /* n: of CHARS and FIXED; type: struct of STRUCT and items */
	bool optional, dropped, has_default;
	int id;                         /* the same in both versions */
	char name[24], was[24];
	uint32_t offset, size, elem_size, count_offset, present_offset;
	unsigned count_kind;
};
struct shape { unsigned n; uint32_t size, align; struct field f[2 * FIELDS]; };
static struct set { struct shape s[STRUCTS]; } sets[2];
static unsigned long kinds[32], elems[32], optionals;

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((seed >> 33) % n);
}

/* ---- making a schema ---- */

static unsigned random_simple(unsigned index)
{
	static const unsigned simple[] = { SBX_K_BOOL, SBX_K_I8, SBX_K_I16, SBX_K_I32, SBX_K_I64, SBX_K_U8, SBX_K_U16, SBX_K_U32, SBX_K_U64,
		SBX_K_F32, SBX_K_F64, SBX_K_CHARS, SBX_K_STR, SBX_K_BYTES, SBX_K_STRUCT };

	return simple[pick(index + 1 < STRUCTS ? 15 : 14)];
}

static struct field random_field(unsigned index, int id)
{
	struct field f = { .id = id, .n = 1 + pick(9), .optional = pick(6) == 0, .count_kind = SBX_K_I8 + pick(8) };

	bool nest = index + 1 < STRUCTS && pick(4) == 0; /* else most structs would never be reached */

	f.kind = pick(3) == 0 ? (pick(2) == 0 ? SBX_K_FIXED : SBX_K_ARRAY) : nest ? SBX_K_STRUCT : random_simple(index);
	if (index <= LAST_WITH_MAPS && pick(5) == 0)
		f.kind = SBX_K_MAP;
	if (kind_has_elem(f.kind))
		f.elem = nest ? SBX_K_STRUCT : random_simple(index);
	f.type = index + 1 + (index + 1 < STRUCTS ? pick(STRUCTS - index - 1) : 0);
	if ((f.kind == SBX_K_ARRAY || f.kind == SBX_K_FIXED) && f.type <= LAST_WITH_MAPS) /* its items can't contain maps */
		f.type = LAST_WITH_MAPS + 1;
	f.has_default = !f.optional && f.kind <= SBX_K_U64 && f.kind >= SBX_K_I8 && pick(3) == 0;
	snprintf(f.name, sizeof f.name, "f%d", id);
	return f;
}

static uint32_t simple_size(const struct set *s, const struct field *f, unsigned kind, uint32_t *ret_align)
{
	if (kind == SBX_K_CHARS) {
		*ret_align = 1;
		return f->elem == SBX_K_CHARS ? 5 : f->n;
	}
	if (kind == SBX_K_STRUCT) {
		*ret_align = s->s[f->type].align;
		return s->s[f->type].size;
	}
	*ret_align = kind == SBX_K_BYTES ? 8 : kind_size(kind);
	return kind_size(kind);
}

static uint32_t place(struct shape *s, uint32_t size, uint32_t align)
{
	uint32_t at = (s->size + align - 1) / align * align;

	s->size = at + size;
	if (align > s->align)
		s->align = align;
	return at;
}

static void lay_out(struct set *set)
{
	for (unsigned i = STRUCTS; i-- > 0;) {
		struct shape *s = &set->s[i];

		s->size = 0;
		s->align = 1;
		for (unsigned k = 0; k < s->n; k++) {
			struct field *f = &s->f[k];
			bool sequence = kind_has_elem(f->kind), pointer = f->kind == SBX_K_ARRAY || f->kind == SBX_K_MAP;
			uint32_t align, size = simple_size(set, f, sequence ? f->elem : f->kind, &align);

			f->elem_size = sequence ? size : 0;
			f->size = f->kind == SBX_K_FIXED ? size * f->n : pointer ? 8 : size;
			f->offset = place(s, f->size, pointer ? 8 : align);
			if (f->kind == SBX_K_ARRAY)
				f->count_offset = place(s, kind_size(f->count_kind), kind_size(f->count_kind));
			if (f->optional)
				f->present_offset = place(s, 1, 1);
		}
		s->size = (s->size + s->align - 1) / s->align * s->align;
	}
}

/* ---- as a module's tables ---- */

static struct sbx_schema tables[2][STRUCTS];
static struct sbx_field rows[2][STRUCTS][8 * FIELDS];
#define TABLE_FN(side, i) static const struct sbx_schema *table_##side##i(void) { return &tables[side][i]; }
TABLE_FN(0, 0) TABLE_FN(0, 1) TABLE_FN(0, 2) TABLE_FN(0, 3) TABLE_FN(1, 0) TABLE_FN(1, 1) TABLE_FN(1, 2) TABLE_FN(1, 3)
static sbx_schema_fn *const table_fns[2][STRUCTS] = { { table_00, table_01, table_02, table_03 }, { table_10, table_11, table_12, table_13 } };

static void add_rows(int side, unsigned index, const struct field *f)
{
	struct sbx_schema *t = &tables[side][index];
	struct sbx_field *row = &rows[side][index][t->n_fields++];
	bool of_structs = f->kind == SBX_K_STRUCT || f->elem == SBX_K_STRUCT;

	*row = (struct sbx_field){ .kind = (uint16_t)f->kind, .elem = (uint16_t)f->elem, .offset = f->offset, .size = f->size,
		.elem_size = f->elem_size, .count_offset = f->count_offset, .count_kind = f->kind == SBX_K_ARRAY ? f->count_kind : 0,
		.name = f->name, .type = of_structs ? table_fns[side][f->type] : NULL };
	if (f->optional)
		rows[side][index][t->n_fields++] = (struct sbx_field){ .kind = SBX_M_PRESENT, .offset = f->present_offset, .size = 1 };
	if (f->has_default)
		rows[side][index][t->n_fields++] = (struct sbx_field){ .kind = SBX_M_DEFAULT_I, .lo = f->id % 100 };
	if (f->was[0] != '\0')
		rows[side][index][t->n_fields++] = (struct sbx_field){ .kind = SBX_M_WAS, .s = f->was };
}

static struct module_desc *describe(int side)
{
	struct sbx_item item = { SBX_T_STATE, 0, "state", NULL, NULL, table_fns[side][0] };
	struct sbx_module m = { SBX_MAGIC, SBX_ABI_MAJOR, 0, sizeof m, sizeof item, 1, (uint32_t)side + 1, "random", &item, "" };

	lay_out(&sets[side]);
	for (unsigned i = 0; i < STRUCTS; i++) {
		tables[side][i] = (struct sbx_schema){ sizeof tables[0][0], sizeof rows[0][0][0], 0, sets[side].s[i].size, "s", rows[side][i] };
		for (unsigned k = 0; k < sets[side].s[i].n; k++)
			add_rows(side, i, &sets[side].s[i].f[k]);
	}
	return desc_of(&m);
}

/* ---- filling a state ---- */

/* The instance whose state is being filled. */
static struct module_instance *filled;

static char *random_text(struct arena *a, unsigned most)
{
	unsigned n = pick(most);
	char *p = arena_alloc(a, n + 1);

	for (unsigned i = 0; i < n; i++)
		p[i] = (char)(pick(8) == 0 ? 1 + pick(255) : 'a' + pick(26)); /* sometimes not UTF-8 */
	return p;
}

static void fill_struct(const struct set *set, unsigned index, uint8_t *at, struct arena *a);

static void fill_simple(const struct set *set, const struct field *f, unsigned kind, uint8_t *at, uint32_t size, struct arena *a)
{
	char *text;

	if (kind == SBX_K_STRUCT) {
		fill_struct(set, f->type, at, a);
	} else if (kind == SBX_K_STR) {
		text = pick(4) == 0 ? NULL : random_text(a, 30);
		memcpy(at, &text, sizeof text);
	} else if (kind == SBX_K_BYTES) {
		struct sbx_bytes b = { NULL, pick(3) == 0 ? 0 : 1 + pick(40) };

		b.data = b.size > 0 ? arena_alloc(a, b.size) : NULL;
		for (unsigned i = 0; i < b.size; i++)
			((uint8_t *)b.data)[i] = (uint8_t)pick(256);
		memcpy(at, &b, sizeof b);
	} else if (kind == SBX_K_CHARS) {
		memset(at, 0, size);
		for (unsigned i = 0, n = pick(size); i < n; i++)
			at[i] = (uint8_t)(1 + pick(255));
	} else if (kind == SBX_K_BOOL) {
		*at = (uint8_t)pick(2);
	} else {
		for (unsigned i = 0; i < size; i++)
			at[i] = (uint8_t)(pick(3) == 0 ? 0xff * pick(2) : pick(256)); /* NaNs, extremes, anything */
	}
}

/* As a module does it; some keys go again, so that there are holes. */
static void fill_map(const struct set *set, const struct field *f, uint8_t *at, struct arena *a)
{
	struct sbx_map *map;
	struct context c;
	char key[32];
	unsigned n = pick(8);

	memcpy(&map, at, sizeof map);
	context_begin(&c, filled, "fill", false);
	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof key, "%s%u%s", pick(9) == 0 ? "\xff" : "", pick(20), pick(5) == 0 ? "a longer key for a change" : "k");
		if (service_map_find(&c.x, map, key, strlen(key)) == NULL)
			fill_simple(set, f, f->elem, service_map_put(&c.x, map, key, strlen(key), f->elem_size), f->elem_size, a);
		if (pick(4) == 0)
			service_map_remove(&c.x, map, key, strlen(key));
	}
	context_end(&c);
}

static void fill_struct(const struct set *set, unsigned index, uint8_t *at, struct arena *a)
{
	for (unsigned k = 0; k < set->s[index].n; k++) {
		const struct field *f = &set->s[index].f[k];
		uint64_t n = f->kind == SBX_K_ARRAY ? pick(6) : f->n;
		uint8_t *items = at + f->offset;

		if (f->optional) {
			at[f->present_offset] = (uint8_t)pick(2);
			if (at[f->present_offset] == 0)
				continue;
		}
		if (f->kind == SBX_K_ARRAY) {
			items = n > 0 ? arena_alloc(a, n * f->elem_size) : NULL;
			memcpy(at + f->offset, &items, sizeof items);
			memcpy(at + f->count_offset, &n, kind_size(f->count_kind));
		}
		if (f->kind == SBX_K_MAP)
			fill_map(set, f, items, a);
		else if (f->kind != SBX_K_FIXED && f->kind != SBX_K_ARRAY)
			fill_simple(set, f, f->kind, at + f->offset, f->size, a);
		for (uint64_t i = 0; (f->kind == SBX_K_FIXED || f->kind == SBX_K_ARRAY) && i < n; i++)
			fill_simple(set, f, f->elem, items + i * f->elem_size, f->elem_size, a);
	}
}

static void random_set(int *next_id)
{
	for (unsigned i = 0; i < STRUCTS; i++) {
		struct shape *s = &sets[0].s[i];

		s->n = 2 + pick(FIELDS - 1);
		for (unsigned k = 0; k < s->n; k++) {
			s->f[k] = random_field(i, (*next_id)++);
			kinds[s->f[k].kind]++;
			elems[kind_has_elem(s->f[k].kind) ? s->f[k].elem : 0]++;
			optionals += s->f[k].optional;
		}
	}
}

/* Fills the state of an instance of sets[side]. */
static inline void random_fill(int side, struct module_instance *m)
{
	filled = m;
	fill_struct(&sets[side], 0, m->self, m->arena);
}

#endif
