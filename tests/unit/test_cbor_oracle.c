/* SPDX-License-Identifier: MIT
 *
 * libcbor as oracle of our codec. 100,000 random states: a tree of libcbor items is built from the memory itself; what we save
 * must be that tree to libcbor's parser, and what libcbor writes of it must restore to the same state. Then random plain
 * values, both ways too. Prints how many values of each kind there were, and how deep. */
#include "tests/support/check_main.h"

/* Two names are ours as well; these two of libcbor's aren't used. */
#define cbor_is_null  libcbor_is_null
#define cbor_is_float libcbor_is_float
#include <cbor.h>
#undef cbor_is_null
#undef cbor_is_float
#include <math.h>

#include "daemon/host/state/state.h"
#include "daemon/host/state/value.h"
#include "proto/utf8.h"
#include "tests/support/random_state.h"

#ifdef __SANITIZE_ADDRESS__
enum { SCHEMAS = 1000, STATES = 5, PLAIN = 5000, DEPTHS = 72 };
#else
enum { SCHEMAS = 4000, STATES = 25, PLAIN = 20000, DEPTHS = 72 };
#endif

static unsigned long written[32], depths[DEPTHS], plain_depths[DEPTHS];

/* ck_assert writes to a file each time, which is most of what it costs. */
#define MUST(ok, ...)                            \
	do {                                     \
		if (!(ok))                       \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

/* ---- the oracle's tree of a state ---- */

static cbor_item_t *tree_of_uint(uint64_t v)
{
	unsigned width = v > UINT32_MAX ? 3 : v > UINT16_MAX ? 2 : v > UINT8_MAX ? 1 : 0;

	width += pick(4 - width); /* not always the shortest: a reader has to take that */
	return width == 0 ? cbor_build_uint8((uint8_t)v) : width == 1 ? cbor_build_uint16((uint16_t)v)
	     : width == 2 ? cbor_build_uint32((uint32_t)v) : cbor_build_uint64(v);
}

static cbor_item_t *tree_of_int(int64_t v)
{
	cbor_item_t *item;

	if (v >= 0)
		return tree_of_uint((uint64_t)v);
	item = tree_of_uint(~(uint64_t)v);
	cbor_mark_negint(item);
	return item;
}

static cbor_item_t *tree_of_text(const void *p, uint64_t n)
{
	return utf8_is_good(p, n) ? cbor_build_stringn(p, n) : cbor_build_bytestring(p, n);
}

static cbor_item_t *tree_of_struct(const struct schema *s, uint32_t index, const uint8_t *at, unsigned depth);

static cbor_item_t *tree_of_simple(const struct schema *s, unsigned kind, uint64_t size, uint32_t type, const uint8_t *at, unsigned depth)
{
	int64_t i = 0;
	struct sbx_bytes b;
	const char *text;
	double f64;
	float f32;

	written[kind]++;
	depths[depth]++;
	switch ((enum sbx_kind)kind) {
	case SBX_K_BOOL:
		return cbor_build_bool(*at != 0);
	case SBX_K_I8:
		return tree_of_int((int8_t)*at);
	case SBX_K_I16:
		memcpy(&i, at, 2);
		return tree_of_int((int16_t)i);
	case SBX_K_I32:
		memcpy(&i, at, 4);
		return tree_of_int((int32_t)i);
	case SBX_K_I64:
		memcpy(&i, at, 8);
		return tree_of_int(i);
	case SBX_K_U8:
	case SBX_K_U16:
	case SBX_K_U32:
	case SBX_K_U64:
		memcpy(&i, at, kind_size(kind));
		return tree_of_uint((uint64_t)i);
	case SBX_K_F32:
		memcpy(&f32, at, 4);
		return cbor_build_float4(f32);
	case SBX_K_F64:
		memcpy(&f64, at, 8);
		return cbor_build_float8(f64);
	case SBX_K_CHARS:
		return tree_of_text(at, strnlen((const char *)at, size));
	case SBX_K_STR:
		memcpy(&text, at, sizeof text);
		return text == NULL ? cbor_new_null() : tree_of_text(text, strlen(text));
	case SBX_K_BYTES:
		memcpy(&b, at, sizeof b);
		return cbor_build_bytestring(b.data != NULL ? b.data : (const void *)"", b.size);
	case SBX_K_STRUCT:
		return tree_of_struct(s, type, at, depth + 1);
	default:
		ck_abort_msg("kind %u", kind);
	}
	return NULL;
}

static cbor_item_t *tree_of_items(const struct schema *s, const struct schema_field *f, const uint8_t *at, uint64_t n, unsigned depth)
{
	static const uint8_t tags[32] = { [SBX_K_U8] = 64, [SBX_K_U16] = 69, [SBX_K_U32] = 70, [SBX_K_U64] = 71, [SBX_K_I8] = 72,
		[SBX_K_I16] = 77, [SBX_K_I32] = 78, [SBX_K_I64] = 79, [SBX_K_F32] = 85, [SBX_K_F64] = 86 }; /* RFC 8746 */
	cbor_item_t *list, *tag;

	if (tags[f->elem] != 0) {
		written[f->elem] += n;
		depths[depth + 1] += n;
		tag = cbor_new_tag(tags[f->elem]);
		cbor_tag_set_item(tag, cbor_move(cbor_build_bytestring(at != NULL ? at : (const uint8_t *)"", n * f->elem_size)));
		return tag;
	}
	list = cbor_new_definite_array(n);
	for (uint64_t i = 0; i < n; i++)
		MUST(cbor_array_push(list, cbor_move(tree_of_simple(s, f->elem, f->elem_size, f->type, at + i * f->elem_size, depth + 1))), "push");
	return list;
}

static cbor_item_t *tree_of_map(const struct schema *s, const struct schema_field *f, const uint8_t *at, unsigned depth)
{
	struct sbx_map *map;
	cbor_item_t *item;
	const char *key;
	const uint8_t *value;
	uint64_t next = 0, n;

	memcpy(&map, at, sizeof map);
	item = cbor_new_definite_map(map->live);
	while ((value = map_next(map, &next, &key, &n)) != NULL)
		MUST(cbor_map_add(item, (struct cbor_pair){ cbor_move(tree_of_text(key, n)),
			cbor_move(tree_of_simple(s, f->elem, f->elem_size, f->type, value, depth + 1)) }), "add");
	return item;
}

static cbor_item_t *tree_of_field(const struct schema *s, const struct schema_field *f, const uint8_t *base, unsigned depth)
{
	const uint8_t *items;
	uint64_t n = 0;

	if (f->optional && base[f->present_offset] == 0)
		return cbor_new_undef();
	if (!kind_has_elem(f->kind))
		return tree_of_simple(s, f->kind, f->size, f->type, base + f->offset, depth);
	written[f->kind]++;
	depths[depth]++;
	if (f->kind == SBX_K_MAP)
		return tree_of_map(s, f, base + f->offset, depth);
	if (f->kind == SBX_K_FIXED)
		return tree_of_items(s, f, base + f->offset, f->n, depth);
	memcpy(&items, base + f->offset, sizeof items);
	memcpy(&n, base + f->count_offset, kind_size(f->count_kind));
	return tree_of_items(s, f, items, n, depth);
}

static cbor_item_t *tree_of_struct(const struct schema *s, uint32_t index, const uint8_t *at, unsigned depth)
{
	const struct schema_struct *st = &s->structs[index];
	cbor_item_t *list = cbor_new_definite_array(st->n_fields);

	for (uint32_t i = 0; i < st->n_fields; i++)
		MUST(cbor_array_push(list, cbor_move(tree_of_field(s, &st->fields[i], at, depth))), "push");
	return list;
}

/* ---- equality of two trees, whatever the widths of integers ---- */

static bool float_equal(cbor_item_t *a, cbor_item_t *b)
{
	double x = cbor_float_get_float(a), y = cbor_float_get_float(b);

	if (cbor_float_get_width(a) != cbor_float_get_width(b))
		return false;
	return (isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0;
}

static bool tree_equal(cbor_item_t *a, cbor_item_t *b)
{
	if (cbor_typeof(a) != cbor_typeof(b))
		return false;
	switch (cbor_typeof(a)) {
	case CBOR_TYPE_UINT:
	case CBOR_TYPE_NEGINT:
		return cbor_get_int(a) == cbor_get_int(b);
	case CBOR_TYPE_BYTESTRING:
		return cbor_bytestring_length(a) == cbor_bytestring_length(b) &&
			memcmp(cbor_bytestring_handle(a), cbor_bytestring_handle(b), cbor_bytestring_length(a)) == 0;
	case CBOR_TYPE_STRING:
		return cbor_string_length(a) == cbor_string_length(b) &&
			memcmp(cbor_string_handle(a), cbor_string_handle(b), cbor_string_length(a)) == 0;
	case CBOR_TYPE_ARRAY:
		if (cbor_array_size(a) != cbor_array_size(b))
			return false;
		for (size_t i = 0; i < cbor_array_size(a); i++)
			if (!tree_equal(cbor_array_handle(a)[i], cbor_array_handle(b)[i]))
				return false;
		return true;
	case CBOR_TYPE_MAP:
		if (cbor_map_size(a) != cbor_map_size(b))
			return false;
		for (size_t i = 0; i < cbor_map_size(a); i++)
			if (!tree_equal(cbor_map_handle(a)[i].key, cbor_map_handle(b)[i].key) ||
				!tree_equal(cbor_map_handle(a)[i].value, cbor_map_handle(b)[i].value))
				return false;
		return true;
	case CBOR_TYPE_TAG: {
		cbor_item_t *x = cbor_tag_item(a), *y = cbor_tag_item(b);
		bool equal = cbor_tag_value(a) == cbor_tag_value(b) && tree_equal(x, y);

		cbor_decref(&x);
		cbor_decref(&y);
		return equal;
	}
	case CBOR_TYPE_FLOAT_CTRL:
		if (cbor_float_ctrl_is_ctrl(a) != cbor_float_ctrl_is_ctrl(b))
			return false;
		return cbor_float_ctrl_is_ctrl(a) ? cbor_ctrl_value(a) == cbor_ctrl_value(b) : float_equal(a, b);
	}
	return false;
}

/* All of p[0..n) is this tree to libcbor. */
static void expect_tree(const void *p, size_t n, cbor_item_t *want, int round)
{
	struct cbor_load_result result;
	cbor_item_t *got = cbor_load(p, n, &result);

	MUST(got != NULL && result.read == n, "round %d: libcbor reads %zu of %zu bytes, error %d", round, result.read, n, (int)result.error.code);
	MUST(tree_equal(got, want), "round %d: what we wrote isn't the tree", round);
	cbor_decref(&got);
}

/* ---- states ---- */

static void one_state(const struct module_desc *d, int round)
{
	struct module_instance *m = instance_of(d), *again;
	struct state_blob b = { 0 };
	unsigned char *theirs = NULL;
	size_t n_theirs, room = 0;
	uint64_t n = 0, n_again = 0, head;
	uint8_t *ours, *mixed, *saved;
	cbor_item_t *want;
	struct err e = ERR_INIT;

	random_fill(0, m);
	ours = save_of(m, &n);
	MUST(state_blob_open(ours, n, &b, &e) == 0, "round %d: %s", round, e.text);
	head = (uint64_t)(b.data - ours);
	want = tree_of_struct(d->schema, 0, m->self, 1);
	expect_tree(b.data, (size_t)b.data_bytes, want, round);
	n_theirs = cbor_serialize_alloc(want, &theirs, &room);
	mixed = malloc(head + n_theirs);
	MUST(mixed != NULL && n_theirs > 0, "memory");
	memcpy(mixed, ours, head);
	memcpy(mixed + head, theirs, n_theirs);
	again = instance_of(d);
	MUST(instance_restore(again, mixed, head + n_theirs, 0, NULL, &e) == 0, "round %d: we can't read what libcbor wrote: %s", round, e.text);
	saved = save_of(again, &n_again);
	MUST(n_again == n && memcmp(saved, ours, n) == 0, "round %d: what libcbor wrote restores to another state", round);
	cbor_decref(&want);
	free(theirs);
	free(mixed);
	free(saved);
	free(ours);
	state_blob_close(&b);
	instance_free(again);
	instance_free(m);
}

static void print_counts(const char *what, const unsigned long *counts, unsigned from, unsigned to, const char *const *names)
{
	printf("; %s:", what);
	for (unsigned i = from; i <= to; i++)
		if (names != NULL)
			printf(" %s %lu", names[i], counts[i]);
		else if (counts[i] > 0)
			printf(" %u: %lu", i, counts[i]);
}

START_TEST(states_are_what_libcbor_says)
{
	static const char *const names[] = { "end", "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "char[]", "str",
		"bytes", "struct", "fixed", "array", "map" };
	int next_id = 0;

	instance_set_host(&(struct instance_host){ .memory_bytes = 1u << 20 });
	for (int round = 0; round < SCHEMAS; round++) {
		struct module_desc *d;

		seed = (uint64_t)round * 104729 + 3;
		random_set(&next_id);
		d = describe(0);
		for (int i = 0; i < STATES; i++)
			one_state(d, round);
		module_desc_free(d);
	}
	printf("cbor_oracle: %d states of %d schemas", SCHEMAS * STATES, SCHEMAS);
	print_counts("values", written, SBX_K_BOOL, SBX_K_MAP, names);
	print_counts("at depth", depths, 1, DEPTHS - 1, NULL);
	printf("\n");
	for (unsigned k = SBX_K_BOOL; k <= SBX_K_MAP; k++)
		MUST(written[k] > 500, "hardly any %s", names[k]);
}
END_TEST

/* ---- plain values: what own state and arguments are made of ---- */

/* Writes a random value with our writer and returns the oracle's tree of it. */
static cbor_item_t *random_value(struct cbor_writer *w, unsigned depth, unsigned narrow)
{
	unsigned n = pick(narrow ? 2 : 5) + (narrow != 0), what = depth < LIMIT_VALUE_DEPTH && (narrow || pick(3) == 0) ? pick(2) : 2 + pick(8);
	uint64_t bits = ((uint64_t)pick(1u << 31) << 33 ^ (uint64_t)pick(1u << 31) << 7 ^ pick(128)) >> pick(64), mark;
	cbor_item_t *item, *child;
	char text[48];
	double f64;
	float f32;

	plain_depths[depth]++;
	for (unsigned i = 0; i < sizeof text; i++)
		text[i] = (char)(pick(12) == 0 ? pick(256) : 32 + pick(95));
	switch (what) {
	case 0:
		mark = cbor_put_open(w, CBOR_ARRAY);
		item = cbor_new_definite_array(n);
		for (unsigned i = 0; i < n; i++)
			MUST(cbor_array_push(item, cbor_move(random_value(w, depth + 1, narrow && i == 0))), "push");
		cbor_set_length(w, mark, n);
		return item;
	case 1:
		mark = cbor_put_open(w, CBOR_MAP);
		item = cbor_new_definite_map(n);
		for (unsigned i = 0; i < n; i++) {
			int bytes = snprintf(text, sizeof text, "key %u", i);

			cbor_put_string(w, text, (uint64_t)bytes);
			child = cbor_build_stringn(text, (size_t)bytes);
			MUST(cbor_map_add(item, (struct cbor_pair){ cbor_move(child), cbor_move(random_value(w, depth + 1, narrow && i == 0)) }), "add");
		}
		cbor_set_length(w, mark, n);
		return item;
	case 2:
		cbor_put_u64(w, bits);
		return tree_of_uint(bits);
	case 3:
		cbor_put_i64(w, -1 - (int64_t)(bits >> 1));
		return tree_of_int(-1 - (int64_t)(bits >> 1));
	case 4:
		cbor_put_string(w, text, bits % sizeof text);
		return tree_of_text(text, bits % sizeof text);
	case 5:
		cbor_put_bytes(w, text, bits % sizeof text);
		return cbor_build_bytestring((const uint8_t *)text, bits % sizeof text);
	case 6:
		memcpy(&f64, &bits, sizeof f64);
		cbor_put_f64(w, f64);
		return cbor_build_float8(f64);
	case 7:
		memcpy(&f32, &bits, sizeof f32);
		cbor_put_f32_bits(w, (uint32_t)bits);
		return cbor_build_float4(f32);
	case 8:
		cbor_put_null(w);
		return cbor_new_null();
	default:
		cbor_put_bool(w, bits % 2 == 0);
		return cbor_build_bool(bits % 2 == 0);
	}
}

START_TEST(plain_values_are_what_libcbor_says)
{
	struct buf ours = BUF_INIT, again = BUF_INIT;

	for (int round = 0; round < PLAIN; round++) {
		struct cbor_writer w = cbor_writer_buf(&ours), v = cbor_writer_buf(&again);
		unsigned char *theirs = NULL;
		struct val_source *source;
		size_t n, room = 0;
		cbor_item_t *want;
		struct err e = ERR_INIT;

		seed = (uint64_t)round * 15485863 + 7;
		want = random_value(&w, 0, round % 100 == 0); /* every hundredth goes to the bottom */
		MUST(cbor_check(ours.data, ours.size, &e) == 0, "round %d: %s", round, e.text);
		expect_tree(ours.data, ours.size, want, round);
		n = cbor_serialize_alloc(want, &theirs, &room);
		MUST(cbor_check(theirs, n, &e) == 0, "round %d: we can't read what libcbor wrote: %s", round, e.text);
		source = val_source_new(theirs, n, NULL);
		MUST(source != NULL && val_write(val_root(source), &v, 0) == 0, "round %d: its values can't be read", round);
		expect_tree(again.data, again.size, want, round);
		val_source_free(source);
		free(theirs);
		cbor_decref(&want);
		buf_clear(&ours);
		buf_clear(&again);
	}
	printf("cbor_oracle: %d plain values", PLAIN);
	print_counts("at depth", plain_depths, 0, DEPTHS - 1, NULL);
	printf("\n");
	MUST(plain_depths[LIMIT_VALUE_DEPTH] > 0, "none at the bottom");
	buf_fini(&ours);
	buf_fini(&again);
}
END_TEST

CHECK_MAIN("cbor_oracle", tcase_add_test(tc, states_are_what_libcbor_says); tcase_add_test(tc, plain_values_are_what_libcbor_says))
