/* SPDX-License-Identifier: MIT
 *
 * Runs a plan over a blob's data: in the order of the old fields, each into its place in the new struct. All lengths come
 * from hostile bytes: items cost at least a byte each, and the memory for them comes from the arena, whose limit refuses. */
#include "daemon/host/state/restore_value.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/map.h"
#include "proto/utf8.h"

/* One field on its way. */
struct move {
	const struct schema_field *from, *to;
	struct plan_op *op;
};

static int restore_struct(struct restoring *r, uint32_t pair, uint8_t *base, struct cbor_reader *in, const struct path *path);

static int damaged(struct restoring *r, const struct path *path)
{
	return path_fail(path, r->e, "the saved value isn't what its schema says");
}

/* What the old schema says a number is, the bytes must be. */
static bool head_is_kind(const struct cbor_head *h, unsigned kind)
{
	if (kind == SBX_K_BOOL)
		return h->major == CBOR_SIMPLE && (h->info == CBOR_TRUE || h->info == CBOR_FALSE);
	if (kind_is_float(kind))
		return h->major == CBOR_SIMPLE && h->info == (kind == SBX_K_F32 ? CBOR_F32 : CBOR_F64);
	return h->major == CBOR_UINT || h->major == CBOR_NEGATIVE;
}

/* A value that isn't a sequence: old kind `from` into `to` at `at`. */
static int restore_simple(struct restoring *r, const struct move *m, unsigned from, unsigned to, uint8_t *at, uint64_t room,
	struct cbor_reader *in, const struct path *path)
{
	struct cbor_head h;

	if (to == SBX_K_STRUCT)
		return restore_struct(r, m->op->sub, at, in, path);
	if (from == SBX_K_STR || from == SBX_K_CHARS || from == SBX_K_BYTES)
		return restore_content(r, from, to, at, room, in, path);
	if (cbor_get_head(in, &h) != 0 || !head_is_kind(&h, from))
		return damaged(r, path);
	return restore_number(r, to, at, &h, path);
}

/* ---- sequences ---- */

/* The items of a saved sequence: packed numbers, or one CBOR item each. */
struct items {
	uint64_t n;
	const uint8_t *packed;   /* NULL: in r */
	unsigned packed_kind;
};

static int open_items(struct restoring *r, const struct schema_field *from, struct cbor_reader *in, struct items *ret,
	const struct path *path)
{
	struct cbor_typed t;
	struct cbor_head h;
	uint32_t size = kind_size(from->elem);

	if (cbor_get_head(in, &h) != 0)
		return damaged(r, path);
	if (!kind_is_number(from->elem)) {
		if (h.major != CBOR_ARRAY || !cbor_length_possible(in, &h))
			return damaged(r, path);
		*ret = (struct items){ h.value, NULL, 0 };
		return 0;
	}
	if (h.major != CBOR_TAG || !cbor_typed_from_tag(h.value, &t) || t.size != size || t.is_float != kind_is_float(from->elem) ||
		t.is_signed != (kind_is_signed(from->elem) || kind_is_float(from->elem)))
		return damaged(r, path);
	if (cbor_get_head(in, &h) != 0 || h.major != CBOR_BYTES || h.value % size != 0)
		return damaged(r, path);
	*ret = (struct items){ h.value / size, cbor_get_content(in, &h), from->elem };
	return ret->packed != NULL ? 0 : damaged(r, path);
}

static void packed_head(const struct items *items, uint64_t index, struct cbor_head *h)
{
	unsigned size = kind_size(items->packed_kind);
	uint64_t u = 0;

	assert(size > 0 && size <= sizeof u); /* only numbers are packed */
	memcpy(&u, items->packed + index * size, size);
	*h = (struct cbor_head){ CBOR_UINT, 0, u };
	if (kind_is_float(items->packed_kind)) {
		h->major = CBOR_SIMPLE;
		h->info = size == 4 ? CBOR_F32 : CBOR_F64;
	} else if (kind_is_signed(items->packed_kind) && u >> (8 * size - 1) != 0) {
		h->major = CBOR_NEGATIVE;
		h->value = ~u & (UINT64_MAX >> (64 - 8 * size));
	}
}

static bool packed_is_zero(const struct items *items, uint64_t index)
{
	struct cbor_head h;

	if (items->packed == NULL)
		return false;
	packed_head(items, index, &h);
	return h.major != CBOR_NEGATIVE && h.value == 0;
}

static int restore_item(struct restoring *r, const struct move *m, const struct items *items, uint64_t index, uint8_t *at,
	struct cbor_reader *in, const struct path *path)
{
	struct path item = { .up = path, .index = index };
	struct cbor_head h;

	if (items->packed == NULL && m->from->elem == m->to->elem && restore_quickly(r, m->to->elem, at, in))
		return 0;
	if (items->packed == NULL)
		return restore_simple(r, m, m->from->elem, m->to->elem, at, m->to->elem_size, in, &item);
	packed_head(items, index, &h);
	return restore_number(r, m->to->elem, at, &h, &item);
}

static int restore_items(struct restoring *r, const struct move *m, const struct items *items, uint64_t n, uint8_t *at,
	bool fresh, struct cbor_reader *in, const struct path *path)
{
	const struct schema *s = r->plan->to;
	uint32_t size = m->to->elem_size;

	if (items->packed != NULL && items->packed_kind == m->to->elem) {
		if (n > 0)
			memcpy(at, items->packed, (size_t)(n * size));
		return 0;
	}
	for (uint64_t i = 0; i < n; i++) {
		if (fresh && m->to->elem == SBX_K_STRUCT && schema_set_defaults(s, m->to->type, at + i * size, r->arena, r->e) != 0)
			return -1;
		if (restore_item(r, m, items, i, at + i * size, in, path) != 0)
			return -1;
	}
	return 0;
}

/* An item that has no place in a shorter array: it must be equal to a new item's default, or something would be lost. */
static int check_cut_item(struct restoring *r, const struct move *m, const struct items *items, uint64_t index,
	struct cbor_reader *in, const struct path *path)
{
	const struct schema *s = r->plan->to;
	struct path item = { .up = path, .index = index };
	struct buf is = BUF_INIT, would_be = BUF_INIT;
	struct cbor_writer w[2] = { cbor_writer_buf(&is), cbor_writer_buf(&would_be) };
	uint8_t *at[2] = { arena_alloc(r->arena, m->to->elem_size), arena_alloc(r->arena, m->to->elem_size) };
	int result = at[0] != NULL && at[1] != NULL ? 0 : restore_no_memory(r, &item, m->to->elem_size);

	for (int i = 0; result == 0 && i < 2 && m->to->elem == SBX_K_STRUCT; i++)
		result = schema_set_defaults(s, m->to->type, at[i], r->arena, r->e);
	if (result == 0)
		result = restore_item(r, m, items, index, at[0], in, path);
	for (int i = 0; result == 0 && i < 2; i++)
		result = state_save_item(s, m->to, at[i], r->arena, &w[i], r->e);
	if (result == 0 && (is.failed || would_be.failed))
		result = restore_no_memory(r, &item, is.size);
	else if (result == 0 && (is.size != would_be.size || memcmp(is.data, would_be.data, is.size) != 0))
		result = path_fail(&item, r->e, "the array has room for %llu only, and this item isn't empty",
			(unsigned long long)m->to->n);
	buf_fini(&is);
	buf_fini(&would_be);
	arena_release(r->arena, at[0]);
	arena_release(r->arena, at[1]);
	return result;
}

static int restore_fixed(struct restoring *r, const struct move *m, uint8_t *base, struct cbor_reader *in, const struct path *path)
{
	struct items items = { 0 };
	uint64_t n;

	if (open_items(r, m->from, in, &items, path) != 0)
		return -1;
	n = items.n < m->to->n ? items.n : m->to->n;
	if (restore_items(r, m, &items, n, base + m->to->offset, false, in, path) != 0)
		return -1;
	for (; n < items.n; n++)
		if (!packed_is_zero(&items, n) && check_cut_item(r, m, &items, n, in, path) != 0)
			return -1;
	return 0;
}

static int restore_array(struct restoring *r, const struct move *m, uint8_t *base, struct cbor_reader *in, const struct path *path)
{
	uint8_t *at = NULL, *old;
	struct items items = { 0 };

	if (open_items(r, m->from, in, &items, path) != 0)
		return -1;
	if (items.n > kind_most(m->to->count_kind))
		return path_fail(path, r->e, "%llu items are more than its counter can say", (unsigned long long)items.n);
	if (items.n > arena_limit(r->arena) / m->to->elem_size)
		return restore_no_memory(r, path, items.n);
	if (items.n > 0 && (at = arena_alloc(r->arena, items.n * m->to->elem_size)) == NULL)
		return restore_no_memory(r, path, items.n * m->to->elem_size);
	memcpy(&old, base + m->to->offset, sizeof old);
	arena_release(r->arena, old);
	memcpy(base + m->to->offset, &at, sizeof at);
	memcpy(base + m->to->count_offset, &items.n, kind_size(m->to->count_kind));
	return restore_items(r, m, &items, items.n, at, true, in, path);
}

/* ---- maps ---- */

/* The map that the new code's instance was given, emptied. */
static struct sbx_map *fresh_map(struct restoring *r, const struct move *m, uint8_t *base)
{
	const struct schema *s = r->plan->to;
	uint32_t align = m->to->elem == SBX_K_STRUCT ? s->structs[m->to->type].align : 8;
	struct sbx_map *map = map_new(r->arena, m->to->elem_size, align, m->to->elem, m->to->type), *old;

	memcpy(&old, base + m->to->offset, sizeof old);
	map_free(r->arena, old); /* what `make` put into it stays until the instance goes */
	memcpy(base + m->to->offset, &map, sizeof map);
	return map;
}

/* Room for n > 0 pairs: their keys are taken to be as long as the first one is, and a little more. */
static int make_room(struct restoring *r, struct sbx_map *map, uint64_t n, const struct cbor_reader *in, const struct path *path)
{
	struct cbor_head h = { 0 };
	uint64_t most = cbor_left(in) + n; /* keys and their NULs can't be more */
	uint64_t keys;

	(void)cbor_peek_head(in, &h);
	keys = h.value < most / n ? (h.value + 2 + h.value / 8) * n : most;
	if (!map_reserve(r->arena, map, n, keys < most ? keys : most))
		return restore_no_memory(r, path, n);
	return 0;
}

static bool is_key(const uint8_t *p, const struct cbor_head *h)
{
	return memchr(p, '\0', (size_t)h->value) == NULL && (h->major == CBOR_BYTES || utf8_is_good((const char *)p, (size_t)h->value));
}

static int restore_pair(struct restoring *r, const struct move *m, struct sbx_map *map, struct cbor_reader *in, const struct path *path)
{
	struct path item = { .up = path };
	struct cbor_head h;
	const uint8_t *key;
	void *value;

	if (cbor_get_head(in, &h) != 0 || (h.major != CBOR_TEXT && h.major != CBOR_BYTES) || (key = cbor_get_content(in, &h)) == NULL ||
		!(utf8_is_plain(key, (size_t)h.value) || is_key(key, &h)))
		return damaged(r, path);
	value = map_append(r->arena, map, (const char *)key, h.value);
	if (value == NULL)
		return restore_no_memory(r, path, h.value);
	item.key = (const char *)key;
	item.key_bytes = h.value;
	if (m->from->elem == m->to->elem && restore_quickly(r, m->to->elem, value, in))
		return 0;
	if (m->to->elem == SBX_K_STRUCT && schema_set_defaults(r->plan->to, m->to->type, value, r->arena, r->e) != 0)
		return -1;
	return restore_simple(r, m, m->from->elem, m->to->elem, value, m->to->elem_size, in, &item);
}

static int restore_map(struct restoring *r, const struct move *m, uint8_t *base, struct cbor_reader *in, const struct path *path)
{
	struct sbx_map *map;
	struct cbor_head h;
	uint32_t first;

	if (cbor_get_head(in, &h) != 0 || h.major != CBOR_MAP || !cbor_length_possible(in, &h))
		return damaged(r, path);
	map = fresh_map(r, m, base);
	if (map == NULL || (h.value > 0 && make_room(r, map, h.value, in, path) != 0))
		return map == NULL ? restore_no_memory(r, path, sizeof *map) : -1;
	while (h.value > 0) {
		first = map->n;
		for (unsigned i = 0; i < MAP_LOOK_AHEAD && h.value > 0; i++, h.value--)
			if (restore_pair(r, m, map, in, path) != 0)
				return -1;
		if (map_enter(map, first) >= 0)
			return path_fail(path, r->e, "a key is there twice");
	}
	return 0;
}

/* ---- fields ---- */

/* An optional field that was absent: absent again, or, where it must be there now, its default. */
static int restore_absent(struct restoring *r, const struct move *m, uint8_t *base, const struct path *path)
{
	if (!m->from->optional)
		return damaged(r, path);
	if (m->to->optional)
		base[m->to->present_offset] = 0;
	else if (r->plan->backwards)
		return path_fail(path, r->e, "the newer state doesn't have it: a rollback would reset it");
	return 0;
}

/* Once per field of the schema, not once per value. */
static void tell_lossy(struct restoring *r, const struct move *m, const struct path *path)
{
	bool sequence = kind_has_elem(m->to->kind);
	char text[STATE_REPORT_PATH];

	if (m->op->lossy_told || r->report == NULL || !kind_is_float(sequence ? m->to->elem : m->to->kind))
		return;
	m->op->lossy_told = true;
	state_report_add(r->report, STATE_LOSSY, path_text(path, text), "f64", "f32");
}

static int restore_field(struct restoring *r, const struct move *m, uint8_t *base, struct cbor_reader *in, const struct path *path)
{
	struct cbor_head h;
	int result;

	if (cbor_peek_head(in, &h) != 0)
		return damaged(r, path);
	if (h.major == CBOR_SIMPLE && h.info == CBOR_UNDEFINED)
		return cbor_get_head(in, &h) == 0 ? restore_absent(r, m, base, path) : -1;
	if (m->to->optional)
		base[m->to->present_offset] = 1;
	r->rounded = false;
	if (m->to->kind == SBX_K_FIXED)
		result = restore_fixed(r, m, base, in, path);
	else if (m->to->kind == SBX_K_ARRAY)
		result = restore_array(r, m, base, in, path);
	else if (m->to->kind == SBX_K_MAP)
		result = restore_map(r, m, base, in, path);
	else
		result = restore_simple(r, m, m->from->kind, m->to->kind, base + m->to->offset, m->to->size, in, path);
	if (result == 0 && m->to->has_range)
		result = restore_check_range(r, m->to, base + m->to->offset, path);
	if (result == 0 && r->rounded)
		tell_lossy(r, m, path);
	return result;
}

static int restore_struct(struct restoring *r, uint32_t pair, uint8_t *base, struct cbor_reader *in, const struct path *path)
{
	const struct plan_pair *p = &r->plan->pairs[pair];
	const struct schema_struct *from = &r->plan->from->structs[p->old_struct], *to = &r->plan->to->structs[p->new_struct];
	struct path field = { .up = path };
	struct cbor_head h;

	if (cbor_get_head(in, &h) != 0 || h.major != CBOR_ARRAY || h.value != from->n_fields)
		return damaged(r, path);
	for (uint32_t i = 0; i < from->n_fields; i++) {
		struct plan_op *op = &p->ops[i];

		if (op->is_plain && restore_quickly(r, op->kind, base + op->offset, in))
			continue;
		if (op->field == PLAN_DROPPED) {
			if (cbor_skip_checked(in) != 0)
				return damaged(r, path);
			continue;
		}
		field.name = to->fields[op->field].name.text;
		if (restore_field(r, &(struct move){ &from->fields[i], &to->fields[op->field], op }, base, in, &field) != 0)
			return -1;
	}
	return 0;
}

int state_restore(struct plan *p, const struct state_blob *b, void *self, struct arena *a, struct state_report *report,
	struct err *e)
{
	struct restoring r = { .plan = p, .arena = a, .report = report, .e = e };
	struct cbor_reader in = cbor_reader_over(b->data, b->data_bytes);

	if (restore_struct(&r, 0, self, &in, NULL) != 0)
		return -1;
	return in.at == in.end ? 0 : damaged(&r, NULL);
}
