/* SPDX-License-Identifier: MIT
 *
 * 10,000 random schemas with random states. Each is saved, restored and saved again: byte-equal. Then the schema evolves
 * (fields widened, renamed, reordered, added, dropped), the state goes there and back: equal but for what was dropped,
 * which is as new. Prints how often each kind and change occurred. */
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/context.h"
#include "tests/support/module_make.h"

enum { ROUNDS = 10000, STRUCTS = 4, FIELDS = 6 };

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

static uint64_t seed;
static unsigned long kinds[32], elems[32], changes[6];
enum { KEPT, WIDENED, RENAMED, ADDED, DROPPED, OPTIONAL };

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
	if (f.kind == SBX_K_FIXED || f.kind == SBX_K_ARRAY)
		f.elem = nest ? SBX_K_STRUCT : random_simple(index);
	f.type = index + 1 + (index + 1 < STRUCTS ? pick(STRUCTS - index - 1) : 0);
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
			bool sequence = f->kind == SBX_K_FIXED || f->kind == SBX_K_ARRAY;
			uint32_t align, size = simple_size(set, f, sequence ? f->elem : f->kind, &align);

			f->elem_size = sequence ? size : 0;
			f->size = f->kind == SBX_K_FIXED ? size * f->n : f->kind == SBX_K_ARRAY ? 8 : size;
			f->offset = place(s, f->size, f->kind == SBX_K_ARRAY ? 8 : align);
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
		if (f->kind != SBX_K_FIXED && f->kind != SBX_K_ARRAY)
			fill_simple(set, f, f->kind, at + f->offset, f->size, a);
		for (uint64_t i = 0; (f->kind == SBX_K_FIXED || f->kind == SBX_K_ARRAY) && i < n; i++)
			fill_simple(set, f, f->elem, items + i * f->elem_size, f->elem_size, a);
	}
}

/* ---- evolving ---- */

static unsigned wider(unsigned kind)
{
	if (kind >= SBX_K_I8 && kind < SBX_K_I64)
		return kind + 1 + pick(SBX_K_I64 - kind);
	if (kind >= SBX_K_U8 && kind < SBX_K_U64)
		return pick(2) == 0 ? kind + 1 + pick(SBX_K_U64 - kind) : SBX_K_I64 - pick(SBX_K_U64 - kind); /* u8 fits i16, u32 only i64 */
	return kind == SBX_K_F32 ? SBX_K_F64 : kind;
}

static bool widen(struct field *f)
{
	unsigned kind = f->kind, elem = f->elem, n = f->n;

	if (f->kind == SBX_K_CHARS && pick(2) == 0)
		f->kind = SBX_K_STR;
	else if (f->kind == SBX_K_CHARS)
		f->n += 1 + pick(5);
	else if (f->kind == SBX_K_FIXED && pick(3) == 0)
		f->kind = SBX_K_ARRAY;
	else if (f->kind == SBX_K_FIXED && pick(2) == 0)
		f->n += 1 + pick(3);
	else if (f->kind == SBX_K_FIXED || f->kind == SBX_K_ARRAY)
		f->elem = wider(f->elem);
	else
		f->kind = wider(f->kind);
	return kind != f->kind || elem != f->elem || n != f->n;
}

static void evolve_shape(unsigned index, int *next_id)
{
	struct shape *from = &sets[0].s[index], *to = &sets[1].s[index];

	to->n = 0;
	for (unsigned k = 0; k < from->n; k++) {
		struct field f = from->f[k];

		from->f[k].dropped = pick(6) == 0;
		if (from->f[k].dropped) {
			changes[DROPPED]++;
			continue;
		}
		if (pick(2) == 0 && widen(&f))
			changes[WIDENED]++;
		else
			changes[KEPT]++;
		if (pick(5) == 0) {
			changes[RENAMED]++;
			snprintf(f.was, sizeof f.was, "%s", from->f[k].name);
			snprintf(f.name, sizeof f.name, "renamed%d", f.id);
		}
		to->f[to->n++] = f;
	}
	for (unsigned k = pick(3); k > 0 || to->n == 0; k -= k > 0) {
		to->f[to->n++] = random_field(index, (*next_id)++);
		changes[ADDED]++;
	}
	for (unsigned k = to->n; k > 1; k--) {
		unsigned other = pick(k);
		struct field swap = to->f[k - 1];

		to->f[k - 1] = to->f[other];
		to->f[other] = swap;
	}
}

static void make_new(unsigned index, uint8_t *at);

static void make_field_new(const struct field *f, uint8_t *at)
{
	uint64_t fresh = (uint64_t)(f->id % 100);
	bool by_value = f->kind == SBX_K_STRUCT || (f->kind == SBX_K_FIXED && f->elem == SBX_K_STRUCT);
	unsigned n = f->kind == SBX_K_STRUCT ? 1 : f->n;

	memset(at + f->offset, 0, f->size);
	if (f->kind == SBX_K_ARRAY)
		memset(at + f->count_offset, 0, kind_size(f->count_kind));
	if (f->optional)
		at[f->present_offset] = 0;
	if (f->has_default)
		memcpy(at + f->offset, &fresh, f->size);
	for (unsigned i = 0; by_value && i < n; i++)
		make_new(f->type, at + f->offset + i * (f->size / n));
}

static void make_new(unsigned index, uint8_t *at)
{
	for (unsigned k = 0; k < sets[0].s[index].n; k++)
		make_field_new(&sets[0].s[index].f[k], at);
}

/* What the old state looks like when it comes back: dropped fields as new. */
static void reset_dropped(unsigned index, uint8_t *at)
{
	const struct shape *s = &sets[0].s[index];

	for (unsigned k = 0; k < s->n; k++) {
		const struct field *f = &s->f[k];
		uint64_t n = f->n;
		uint8_t *items = at + f->offset;

		if (f->dropped) {
			make_field_new(f, at);
			continue;
		}
		if (f->optional && at[f->present_offset] == 0)
			continue;
		if (f->kind == SBX_K_ARRAY) {
			n = 0;
			memcpy(&n, at + f->count_offset, kind_size(f->count_kind));
			memcpy(&items, at + f->offset, sizeof items);
		}
		if (f->kind == SBX_K_STRUCT)
			reset_dropped(f->type, at + f->offset);
		for (uint64_t i = 0; f->elem == SBX_K_STRUCT && i < n; i++)
			reset_dropped(f->type, items + i * f->elem_size);
	}
}

/* ---- the rounds ---- */

static void random_set(int *next_id)
{
	for (unsigned i = 0; i < STRUCTS; i++) {
		struct shape *s = &sets[0].s[i];

		s->n = 2 + pick(FIELDS - 1);
		for (unsigned k = 0; k < s->n; k++) {
			s->f[k] = random_field(i, (*next_id)++);
			kinds[s->f[k].kind]++;
			elems[s->f[k].elem]++;
			changes[OPTIONAL] += s->f[k].optional;
		}
	}
}

/* Restores the blob into a new instance of d and saves that. */
static void *pass(const struct module_desc *d, const void *blob, uint64_t n, uint64_t *ret_n)
{
	struct module_instance *m = instance_of(d);
	static struct state_report report;
	void *saved;
	struct err e;

	ck_ok(instance_restore(m, blob, n, 0, &report, &e));
	saved = save_of(m, ret_n);
	instance_free(m);
	return saved;
}

static void expect_equal(const void *a, uint64_t n, const void *b, uint64_t m, int round, const char *what)
{
	ck_assert_msg(n == m && memcmp(a, b, n) == 0, "round %d: %s isn't equal (%llu and %llu bytes)", round, what, (unsigned long long)n,
		(unsigned long long)m);
}

static uint64_t one_round(int round)
{
	struct module_desc *d[2];
	struct module_instance *m;
	uint64_t n[6];
	void *b[6];
	int next_id = 0;

	seed = (uint64_t)round * 7919 + 1;
	random_set(&next_id);
	d[0] = describe(0);
	m = instance_of(d[0]);
	fill_struct(&sets[0], 0, m->self, m->arena);
	b[0] = save_of(m, &n[0]);
	b[1] = pass(d[0], b[0], n[0], &n[1]);
	expect_equal(b[0], n[0], b[1], n[1], round, "save, restore, save");
	for (unsigned i = 0; i < STRUCTS; i++)
		evolve_shape(i, &next_id);
	d[1] = describe(1);
	b[2] = pass(d[1], b[0], n[0], &n[2]);
	b[3] = pass(d[1], b[2], n[2], &n[3]);
	expect_equal(b[2], n[2], b[3], n[3], round, "the new version's save, restore, save");
	b[4] = pass(d[0], b[2], n[2], &n[4]);
	reset_dropped(0, m->self);
	b[5] = save_of(m, &n[5]);
	expect_equal(b[4], n[4], b[5], n[5], round, "there and back");
	for (int i = 0; i < 6; i++)
		free(b[i]);
	instance_free(m);
	module_desc_free(d[0]);
	module_desc_free(d[1]);
	return n[0];
}

START_TEST(random_states_survive)
{
	static const char *const names[] = { "end", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "char[]", "str",
		"bytes", "struct", "fixed", "array" };
	uint64_t bytes = 0;

	instance_set_host(&(struct instance_host){ .memory_bytes = 4u << 20 });
	for (int round = 0; round < ROUNDS; round++)
		bytes += one_round(round);
	printf("state_random: %d rounds, %llu bytes of blobs; kept %lu, widened %lu, renamed %lu, added %lu, dropped %lu, optional %lu; fields:",
		ROUNDS, (unsigned long long)bytes, changes[KEPT], changes[WIDENED], changes[RENAMED], changes[ADDED], changes[DROPPED],
		changes[OPTIONAL]);
	for (unsigned k = SBX_K_BOOL; k <= SBX_K_ARRAY; k++) {
		printf(" %s %lu", names[k], kinds[k]);
		ck_assert_uint_gt(kinds[k], 0);
	}
	printf("; items:");
	for (unsigned k = SBX_K_BOOL; k <= SBX_K_STRUCT; k++) {
		printf(" %s %lu", names[k], elems[k]);
		ck_assert_uint_gt(elems[k], 0);
	}
	printf("\n");
}
END_TEST

CHECK_MAIN("state_random", tcase_add_test(tc, random_states_survive))
