/* SPDX-License-Identifier: MIT
 *
 * Maps: against a model over random steps, their memory, what the state does with them (save, restore, carry-over of values, wild
 * contents, hostile blobs). */
#define SBX_WANT_MINOR 1
#include "tests/support/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/context.h"
#include "daemon/host/module/map.h"
#include "tests/support/module_make.h"

/* ---- the structure itself ---- */

enum { KEYS = 700, STEPS = 100000 };

static uint64_t seed = 11;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((seed >> 33) % n);
}

static int key_text(char to[64], unsigned k)
{
	return snprintf(to, 64, "%s%u", k % 7 == 0 ? "a key that is longer than the others and " : "k", k);
}

START_TEST(agrees_with_a_model)
{
	struct arena *a = arena_new(64u << 20, NULL);
	struct sbx_map *m = map_new(a, 8, 8, SBX_K_I64, 0);
	static uint64_t value[KEYS], came[KEYS]; /* came: when; 0: isn't there */
	uint64_t clock = 0, live = 0, most = 0;

	for (int step = 0; step < STEPS; step++) {
		unsigned k = pick(KEYS);
		char key[64];
		int n = key_text(key, k);
		bool is_new = false;
		uint64_t *v;

		if (pick(2) == 0 || step % 20000 > 15000) {
			bool was = map_remove(m, key, (uint64_t)n);

			if (was != (came[k] != 0))
				ck_abort_msg("step %d: removal of %s", step, key);
			live -= was;
			came[k] = 0;
		} else {
			v = map_put(a, m, key, (uint64_t)n, &is_new);
			if (v == NULL || is_new != (came[k] == 0) || *v != (is_new ? 0 : value[k]))
				ck_abort_msg("step %d: put of %s", step, key);
			if (is_new)
				came[k] = ++clock, live++;
			*v = value[k] = seed;
		}
		v = map_find(m, key, (uint64_t)n);
		if ((v != NULL) != (came[k] != 0) || (v != NULL && *v != value[k]) || m->live != live)
			ck_abort_msg("step %d: %s isn't what the model says", step, key);
		if (arena_used(a) > most)
			most = arena_used(a);
		if (step % 5000 == 0) { /* the order of insertion */
			uint64_t at = 0, last = 0, seen = 0, bytes;
			const char *text;

			while (map_next(m, &at, &text, &bytes) != NULL) {
				unsigned i = (unsigned)strtoul(strrchr(text, text[0] == 'k' ? 'k' : ' ') + 1, NULL, 10);

				ck_assert_uint_eq(strlen(text), bytes);
				ck_assert_uint_gt(came[i], last);
				last = came[i];
				seen++;
			}
			ck_assert_uint_eq(seen, live);
			ck_assert(map_is_sane(a, m));
		}
	}
	ck_assert_uint_lt(most, 200u << 10); /* holes are used again */
	map_free(a, m);
	ck_assert_uint_eq(arena_used(a), 0);
	ck_assert(!map_is(a, m));
	arena_free(a);
}
END_TEST

START_TEST(many_at_once_and_twice_the_same)
{
	struct arena *a = arena_new(64u << 20, NULL);
	struct sbx_map *m = map_new(a, 24, 8, SBX_K_STRUCT, 0);
	char key[64];

	ck_assert(map_reserve(a, m, 1000, 100));
	for (unsigned i = 0; i < 1000; i += MAP_LOOK_AHEAD) {
		uint32_t first = m->n;

		for (unsigned k = i; k < i + MAP_LOOK_AHEAD && k < 1000; k++)
			ck_assert_ptr_nonnull(map_append(a, m, key, (uint64_t)key_text(key, k)));
		ck_assert_int_eq(map_enter(m, first), -1);
	}
	for (unsigned i = 0; i < 1000; i++)
		ck_assert_ptr_nonnull(map_find(m, key, (uint64_t)key_text(key, i)));
	ck_assert_ptr_null(map_find(m, "no", 2));
	ck_assert_ptr_null(map_find(m, "", 0));
	ck_assert_ptr_null(map_append(a, m, "x", 1)); /* no room was asked for */
	ck_assert(map_reserve(a, m, 1003, 0));
	ck_assert_ptr_nonnull(map_append(a, m, "", 0));
	ck_assert_ptr_nonnull(map_append(a, m, "k5", 2));
	ck_assert_int_eq(map_enter(m, 1000), 1001);
	ck_assert(!map_reserve(a, m, UINT64_MAX, 0));
	ck_assert(!map_reserve(a, m, 1u << 30, 0));
	arena_free(a);
}
END_TEST

/* ---- in a module ---- */

struct item { char *text; int32_t n; struct sbx_map *tags; };
SBX_STATE(item, struct item, SBX_FIELD(text), SBX_DEFAULT_S("new"), SBX_FIELD(n), SBX_DEFAULT(5), SBX_MAP(tags, bool));
struct store { struct sbx_map *items; struct sbx_map *counts; struct sbx_bytes salt; uint64_t large; };
SBX_STATE(store, struct store, SBX_MAP_OF(items, item), SBX_MAP(counts, int32_t), SBX_FIELD(salt), SBX_DEFAULT_B("\x01\x00\x02"),
	SBX_FIELD(large), SBX_DEFAULT_U(UINT64_MAX));

static int fill(struct sbx *x, void *self)
{
	struct store *s = self;
	struct item *it;
	const char *key;
	int32_t *v;
	char text[32];

	it = SBX_PUT(x, s->items, struct item, "bolt");
	ck_assert_str_eq(it->text, "new");
	ck_assert_int_eq(it->n, 5);
	*SBX_PUT(x, it->tags, bool, "red") = true;
	sbx_set_str(x, &it->text, "a bolt");
	ck_assert_ptr_eq(SBX_PUT(x, s->items, struct item, "bolt"), it);
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof text, "count %d", i);
		*SBX_PUT(x, s->counts, int32_t, text) = i;
	}
	for (uint64_t at = 0; (v = SBX_NEXT(x, s->counts, int32_t, &at, &key)) != NULL;)
		if (*v >= 3)
			ck_assert(sbx_map_remove(x, s->counts, key));
	ck_assert(!sbx_map_remove(x, s->counts, "count 3"));
	ck_assert_uint_eq(sbx_map_count(x, s->counts), 3);
	ck_assert_ptr_null(SBX_FIND(x, s->counts, int32_t, "count 3"));
	ck_assert_ptr_null(sbx_extension(x, "none"));
	return 0;
}
static int drop(struct sbx *x, void *self)
{
	struct store *s = self;

	return sbx_map_remove(x, s->items, "bolt") ? 0 : -1;
}
static int dump(struct sbx *x, void *self)
{
	struct store *s = self;
	struct item *it;
	const char *key;
	int32_t *v;

	for (uint64_t at = 0; (v = SBX_NEXT(x, s->counts, int32_t, &at, &key)) != NULL;)
		sbx_put_i64(x, key, *v);
	for (uint64_t at = 0; (it = SBX_NEXT(x, s->items, struct item, &at, &key)) != NULL;) {
		sbx_open_dict(x, key);
		sbx_put_str(x, "text", it->text);
		sbx_put_i64(x, "n", it->n);
		sbx_put_bool(x, "red", *SBX_FIND(x, it->tags, bool, "red"));
		sbx_close(x);
	}
	sbx_put_bytes(x, "salt", s->salt.data, s->salt.size);
	return sbx_put_u64(x, "large", s->large);
}
TEST_MODULE(store_v1, 1, SBX_USES(store), SBX_ON_INIT(fill), SBX_FN(dump, ""), SBX_FN(drop, ""));

/* v2: values widened, a member of the values renamed, another added */
struct item2 { int64_t amount; char *text; bool fresh; struct sbx_map *tags; };
SBX_STATE(item2, struct item2, SBX_FIELD(amount), SBX_WAS("n"), SBX_FIELD(text), SBX_FIELD(fresh), SBX_DEFAULT(1), SBX_MAP(tags, bool));
struct store2 { struct sbx_map *counts; struct sbx_map *items; };
SBX_STATE(store2, struct store2, SBX_MAP(counts, double), SBX_MAP_OF(items, item2));

static int migrate(struct sbx *x, void *self)
{
	struct store2 *s = self;
	struct sbx_val at = { 0 }, key, v;
	int seen = 0;

	ck_assert_int_eq(sbx_i64(x, sbx_get(x, sbx_get(x, sbx_old(x, "items"), "bolt"), "n")), 5);
	ck_assert_int_eq(sbx_i64(x, sbx_get(x, sbx_old(x, "counts"), "count 2")), 2);
	while (sbx_has(v = sbx_next(x, sbx_old(x, "items"), &key, &at))) {
		ck_assert_str_eq(sbx_text(x, key), "bolt");
		ck_assert(sbx_bool(x, sbx_get(x, sbx_get(x, v, "tags"), "red")));
		seen++;
	}
	ck_assert_int_eq(seen, 1);
	ck_assert_uint_eq(sbx_map_count(x, s->counts), 3);
	return 0;
}
static int dump2(struct sbx *x, void *self)
{
	struct store2 *s = self;
	const struct item2 *it = SBX_FIND(x, s->items, struct item2, "bolt");

	sbx_put_f64(x, "two", *SBX_FIND(x, s->counts, double, "count 2"));
	sbx_put_str(x, "text", it->text);
	sbx_put_bool(x, "fresh", it->fresh);
	return sbx_put_i64(x, "amount", it->amount);
}
TEST_MODULE(store_v2, 2, SBX_USES(store2), SBX_ON_MIGRATE(migrate), SBX_FN_AS("dump", dump2, ""));

static const char *call(struct module_instance *m, const char *fn)
{
	static struct buf b;
	struct err e;

	buf_clear(&b);
	ck_ok(instance_call(m, fn, NULL, 0, &b, &e));
	return buf_text(&b);
}

#define DUMP                                                                                                        \
	"{\"count 0\":0,\"count 1\":1,\"count 2\":2,\"bolt\":{\"text\":\"a bolt\",\"n\":5,\"red\":true},"           \
	"\"salt\":{\"$bytes\":\"AQAC\"},\"large\":\"18446744073709551615\"}"

START_TEST(in_a_module)
{
	struct module_desc *d[2] = { desc_of(&store_v1), desc_of(&store_v2) };
	struct module_instance *m = instance_of(d[0]), *n = instance_of(d[0]), *v2 = instance_of(d[1]);
	static struct state_report report;
	uint64_t size = 0, again = 0, used;
	void *blob, *blob2;
	struct err e;

	ck_ok(instance_init(m, NULL, 0, &e));
	ck_assert_str_eq(call(m, "dump"), DUMP);
	blob = save_of(m, &size);
	ck_ok(instance_restore(n, blob, size, 0, &report, &e));
	ck_assert_str_eq(call(n, "dump"), DUMP);
	blob2 = save_of(n, &again);
	ck_assert(size == again && memcmp(blob, blob2, size) == 0);
	ck_ok(instance_restore(v2, blob, size, 0, &report, &e));
	ck_assert_str_eq(call(v2, "dump"), "{\"two\":2,\"text\":\"a bolt\",\"fresh\":true,\"amount\":5}");
	ck_assert_uint_eq(report.counts[STATE_CONVERTED], 1); /* counts: i32 to f64 */
	ck_assert_uint_eq(report.counts[STATE_RENAMED], 1);
	used = instance_memory_bytes(m);
	call(m, "drop"); /* its text, its tags and all that is in them go too */
	ck_assert_uint_le(instance_memory_bytes(m), used - 3 * 32 - sizeof(struct sbx_map));
	free(blob);
	free(blob2);
	instance_free(m);
	instance_free(n);
	instance_free(v2);
	module_desc_free(d[0]);
	module_desc_free(d[1]);
}
END_TEST

/* ---- what can't be ---- */

struct lone { int64_t a; struct sbx_map *m; };
SBX_STATE(lone, struct lone, SBX_FIELD(a), SBX_MAP(m, int64_t));
struct arrays { struct lone *items; uint32_t n; };
SBX_STATE(arrays, struct arrays, SBX_ARRAY_OF(items, n, lone));
TEST_MODULE(map_in_array, 1, SBX_USES(arrays));
struct was_array { int64_t *m; uint32_t n; int64_t a; };
SBX_STATE(was_array, struct was_array, SBX_ARRAY(m, n), SBX_FIELD(a));
TEST_MODULE(array_now, 1, SBX_USES(was_array));

static int spoil(struct sbx *x, void *self)
{
	struct lone *s = self;

	*SBX_PUT(x, s->m, int64_t, "k") = 1;
	*SBX_PUT(x, s->m, int64_t, "l") = 2;
	switch (sbx_arg_i64(x, "how")) {
	case 1:
		s->m = NULL;
		return 0;
	case 2:
		s->m->live = 7;
		return 0;
	case 3:
		s->m->room = s->m->n = 1u << 30;
		return 0;
	case 4:
		s->m->keys_used = 1;
		return 0;
	case 5:
		s->m->value_size = 4;
		return 0;
	case 6:
		s->m = (struct sbx_map *)(void *)&spoil;
		return 0;
	default:
		return 0;
	}
}
TEST_MODULE(lone_v1, 1, SBX_USES(lone), SBX_FN(spoil, "how: i64"));

START_TEST(wild_maps_are_not_saved)
{
	struct module_desc *d = desc_of(&lone_v1);
	uint64_t size;
	struct err e;

	for (int how = 0; how <= 6; how++) {
		struct module_instance *m = instance_of(d);
		struct buf b = BUF_INIT;
		char args[32];

		ck_ok(instance_call(m, "spoil", args, (size_t)snprintf(args, sizeof args, "{\"how\":%d}", how), &b, &e));
		if (how == 0)
			ck_ok(instance_save(m, NULL, 0, &size, &e));
		else
			ck_fails(instance_save(m, NULL, 0, &size, &e), ERR_STATE_MISMATCH, "m");
		buf_fini(&b);
		instance_free(m);
	}
	module_desc_free(d);
}
END_TEST

START_TEST(refusals)
{
	struct module_desc *d = NULL, *to = desc_of(&array_now), *from = desc_of(&lone_v1);
	struct module_instance *m = instance_of(from), *n = instance_of(to);
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT;
	uint64_t size = 0;
	uint8_t *blob, *key;

	ck_fails(module_desc_read(&map_in_array, &d, &e), ERR_BAD_MODULE, "can't contain a map");
	ck_ok(instance_call(m, "spoil", "{\"how\":0}", 9, &b, &e));
	blob = save_of(m, &size);
	ck_fails(instance_restore(n, blob, size, 0, NULL, &e), ERR_STATE_MISMATCH, "m: map of i64 can't become i64[]");
	instance_free(n);
	key = blob + size - 3; /* 61 6c 02: "l": 2 */
	ck_assert_uint_eq(key[0], 0x61);
	key[1] = 'k';
	n = instance_of(from);
	ck_fails(instance_restore(n, blob, size, 0, NULL, &e), ERR_STATE_MISMATCH, "a key is there twice");
	instance_free(n);
	key[1] = '\0';
	n = instance_of(from);
	ck_fails(instance_restore(n, blob, size, 0, NULL, &e), ERR_STATE_MISMATCH, "isn't what its schema says");
	instance_free(n);
	key[1] = 'l';
	key[2] = 0x61;
	n = instance_of(from);
	ck_fails(instance_restore(n, blob, size, 0, NULL, &e), ERR_STATE_MISMATCH, "m[l]");
	free(blob);
	buf_fini(&b);
	instance_free(m);
	instance_free(n);
	module_desc_free(from);
	module_desc_free(to);
}
END_TEST

/* Any bytes: refused or restored, never a crash; what is restored can be saved, and runs. */
START_TEST(hostile_blobs)
{
	struct module_desc *d = desc_of(&store_v1);
	struct module_instance *m = instance_of(d), *n;
	uint64_t size = 0, again;
	unsigned good = 0;
	uint8_t *blob, *copy;
	struct err e;

	ck_ok(instance_init(m, NULL, 0, &e));
	blob = save_of(m, &size);
	copy = malloc(size);
	for (unsigned i = 0; i < size + 20000; i++) {
		uint64_t bytes = i < size ? i : size; /* cut at each byte, then changed in one to four */

		memcpy(copy, blob, size);
		for (unsigned k = i < size ? 0 : 1 + pick(4); k > 0; k--)
			copy[pick((unsigned)size)] = (uint8_t)(pick(3) == 0 ? pick(256) : copy[pick((unsigned)size)]);
		n = instance_of(d);
		e = (struct err)ERR_INIT;
		if (instance_restore(n, copy, bytes, 0, NULL, &e) == 0) {
			struct buf b = BUF_INIT;

			good++;
			if (instance_save(n, NULL, 0, &again, &e) != 0)
				ck_abort_msg("%u: restored, but not saved: %s", i, e.text);
			(void)instance_call(n, "drop", NULL, 0, &b, &e);
			buf_fini(&b);
		} else if (e.code != ERR_STATE_MISMATCH && e.code != ERR_LIMIT_EXCEEDED) {
			ck_abort_msg("%u: %s", i, e.text);
		}
		instance_free(n);
	}
	printf("map: %u hostile blobs, %u of them still good\n", (unsigned)size + 20000, good);
	ck_assert_uint_gt(good, 100);
	free(blob);
	free(copy);
	instance_free(m);
	module_desc_free(d);
}
END_TEST

CHECK_MAIN("map", tcase_add_test(tc, agrees_with_a_model); tcase_add_test(tc, many_at_once_and_twice_the_same);
	   tcase_add_test(tc, in_a_module); tcase_add_test(tc, wild_maps_are_not_saved); tcase_add_test(tc, refusals); tcase_add_test(tc, hostile_blobs))
