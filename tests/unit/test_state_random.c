/* SPDX-License-Identifier: MIT
 *
 * 10,000 random schemas with random states. Each is saved, restored and saved again: byte-equal. Then the schema evolves
 * (fields widened, renamed, reordered, added, dropped), the state goes there and back: equal but for what was dropped,
 * which is as new. Prints how often each kind and change occurred. */
#include "tests/support/check_main.h"

#include "tests/support/random_state.h"

enum { ROUNDS = 10000 };
enum { KEPT, WIDENED, RENAMED, ADDED, DROPPED };
static unsigned long changes[5];

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
	else if (kind_has_elem(f->kind))
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

static struct arena *arena_now;

static void make_field_new(const struct field *f, uint8_t *at)
{
	struct sbx_map *map;

	uint64_t fresh = (uint64_t)(f->id % 100);
	bool by_value = f->kind == SBX_K_STRUCT || (f->kind == SBX_K_FIXED && f->elem == SBX_K_STRUCT);
	unsigned n = f->kind == SBX_K_STRUCT ? 1 : f->n;

	memset(at + f->offset, 0, f->size);
	if (f->kind == SBX_K_ARRAY)
		memset(at + f->count_offset, 0, kind_size(f->count_kind));
	if (f->kind == SBX_K_MAP) {
		map = map_new(arena_now, f->elem_size, 8, f->elem, f->type);
		memcpy(at + f->offset, &map, sizeof map);
	}
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

static void reset_dropped(unsigned index, uint8_t *at);

static void reset_map(const struct field *f, const uint8_t *at)
{
	struct sbx_map *map;
	uint64_t next = 0;
	uint8_t *value;

	memcpy(&map, at, sizeof map);
	while ((value = map_next(map, &next, NULL, NULL)) != NULL)
		reset_dropped(f->type, value);
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
		if (f->kind == SBX_K_MAP && f->elem == SBX_K_STRUCT)
			reset_map(f, at + f->offset);
		for (uint64_t i = 0; f->kind != SBX_K_MAP && f->elem == SBX_K_STRUCT && i < n; i++)
			reset_dropped(f->type, items + i * f->elem_size);
	}
}

/* ---- the rounds ---- */

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
	random_fill(0, m);
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
	arena_now = m->arena;
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
		"bytes", "struct", "fixed", "array", "map" };
	uint64_t bytes = 0;

	instance_set_host(&(struct instance_host){ .memory_bytes = 4u << 20 });
	for (int round = 0; round < ROUNDS; round++)
		bytes += one_round(round);
	printf("state_random: %d rounds, %llu bytes of blobs; kept %lu, widened %lu, renamed %lu, added %lu, dropped %lu, optional %lu; fields:",
		ROUNDS, (unsigned long long)bytes, changes[KEPT], changes[WIDENED], changes[RENAMED], changes[ADDED], changes[DROPPED],
		optionals);
	for (unsigned k = SBX_K_BOOL; k <= SBX_K_MAP; k++) {
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
