/* SPDX-License-Identifier: MIT
 *
 * Writes state from memory. The memory is the module's and may hold anything: counters are compared with the block that
 * they count, texts end within theirs, and a pointer that isn't the arena's (a string literal) is refused by name. */
#include <string.h>

#include "daemon/host/state/path.h"
#include "daemon/host/state/state.h"

struct saving {
	const struct schema *s;
	const struct arena *a;
	struct cbor_writer *w;
	struct err *e;
};

static int save_struct(struct saving *v, uint32_t index, const uint8_t *at, const struct path *path);

static uint64_t load_uint(const uint8_t *at, unsigned size)
{
	uint64_t u = 0;

	memcpy(&u, at, size); /* little endian */
	return u;
}

static void save_int(struct saving *v, unsigned kind, const uint8_t *at)
{
	unsigned size = kind_size(kind);
	uint64_t u = load_uint(at, size);

	if (kind_is_signed(kind))
		cbor_put_i64(v->w, (int64_t)(u << (64 - 8 * size)) >> (64 - 8 * size));
	else
		cbor_put_u64(v->w, u);
}

static int not_owned(struct saving *v, const struct path *path, const char *use)
{
	return path_fail(path, v->e, "it points to memory that isn't the host's (a string literal, a global, freed?): use %s", use);
}

static int save_str(struct saving *v, const uint8_t *at, const struct path *path)
{
	const char *s;
	uint64_t room, n;

	memcpy(&s, at, sizeof s);
	if (s == NULL) {
		cbor_put_null(v->w);
		return 0;
	}
	room = arena_usable(v->a, s);
	if (room == 0)
		return not_owned(v, path, "sbx_set_str");
	n = strnlen(s, (size_t)room);
	if (n == room)
		return path_fail(path, v->e, "the text doesn't end within its memory");
	cbor_put_string(v->w, s, n);
	return 0;
}

static int save_bytes(struct saving *v, const uint8_t *at, const struct path *path)
{
	struct sbx_bytes b;

	memcpy(&b, at, sizeof b);
	if (b.size > 0 && !arena_owns(v->a, b.data))
		return not_owned(v, path, "sbx_set_bytes");
	if (b.size > 0 && b.size > arena_usable(v->a, b.data))
		return path_fail(path, v->e, "its size is %llu, more than its memory holds", (unsigned long long)b.size);
	cbor_put_bytes(v->w, b.data, b.size);
	return 0;
}

/* One value that isn't a sequence. size: of CHARS. */
static int save_simple(struct saving *v, unsigned kind, uint64_t size, uint32_t type, const uint8_t *at, const struct path *path)
{
	if (kind_is_int(kind))
		save_int(v, kind, at);
	else if (kind == SBX_K_BOOL)
		cbor_put_bool(v->w, *at != 0); /* the byte, whatever it is */
	else if (kind == SBX_K_F32)
		cbor_put_f32_bits(v->w, (uint32_t)load_uint(at, 4));
	else if (kind == SBX_K_F64)
		cbor_put_f64_bits(v->w, load_uint(at, 8));
	else if (kind == SBX_K_STR)
		return save_str(v, at, path);
	else if (kind == SBX_K_BYTES)
		return save_bytes(v, at, path);
	else if (kind == SBX_K_STRUCT)
		return save_struct(v, type, at, path);
	else if (memchr(at, '\0', (size_t)size) == NULL)
		return path_fail(path, v->e, "the text doesn't end within its %llu bytes", (unsigned long long)size);
	else
		cbor_put_string(v->w, (const char *)at, strlen((const char *)at));
	return 0;
}

static int save_items(struct saving *v, const struct schema_field *f, const uint8_t *at, uint64_t n, const struct path *path)
{
	struct cbor_typed t = { (uint8_t)kind_size(f->elem), kind_is_signed(f->elem) || kind_is_float(f->elem), kind_is_float(f->elem) };
	struct path item = { path, NULL, 0 };

	if (kind_is_number(f->elem)) {
		cbor_put_head(v->w, CBOR_TAG, cbor_typed_tag(t));
		cbor_put_bytes(v->w, at, n * f->elem_size);
		return 0;
	}
	cbor_put_head(v->w, CBOR_ARRAY, n);
	for (; item.index < n; item.index++) {
		if (save_simple(v, f->elem, f->elem_size, f->type, at + item.index * f->elem_size, &item) != 0)
			return -1;
		if (v->w->size > LIMIT_STATE_BYTES)
			return err_set(v->e, ERR_LIMIT_EXCEEDED, "the state is larger than %llu bytes", LIMIT_STATE_BYTES);
	}
	return 0;
}

static int save_array(struct saving *v, const struct schema_field *f, const uint8_t *base, const struct path *path)
{
	uint64_t n = load_uint(base + f->count_offset, kind_size(f->count_kind));
	const uint8_t *items;

	memcpy(&items, base + f->offset, sizeof items);
	if (n > 0 && !arena_owns(v->a, items))
		return not_owned(v, path, "SBX_ADD");
	if (n > 0 && n > arena_usable(v->a, items) / f->elem_size)
		return path_fail(path, v->e, "its counter says %llu, more than its memory holds", (unsigned long long)n);
	return save_items(v, f, items, n, path);
}

static int save_field(struct saving *v, const struct schema_field *f, const uint8_t *base, const struct path *path)
{
	if (f->optional && base[f->present_offset] == 0) {
		cbor_put_raw(v->w, (const uint8_t[]){ CBOR_SIMPLE << 5 | CBOR_UNDEFINED }, 1);
		return 0;
	}
	if (f->kind == SBX_K_FIXED)
		return save_items(v, f, base + f->offset, f->n, path);
	if (f->kind == SBX_K_ARRAY)
		return save_array(v, f, base, path);
	return save_simple(v, f->kind, f->size, f->type, base + f->offset, path);
}

static int save_struct(struct saving *v, uint32_t index, const uint8_t *at, const struct path *path)
{
	const struct schema_struct *st = &v->s->structs[index];
	struct path field = { path, NULL, 0 };

	cbor_put_head(v->w, CBOR_ARRAY, st->n_fields);
	for (uint32_t i = 0; i < st->n_fields; i++) {
		field.name = st->fields[i].name.text;
		if (save_field(v, &st->fields[i], at, &field) != 0)
			return -1;
	}
	return 0;
}

int state_save_item(const struct schema *s, const struct schema_field *f, const void *at, const struct arena *a,
	struct cbor_writer *w, struct err *e)
{
	struct saving v = { s, a, w, e };

	return save_simple(&v, f->elem, f->elem_size, f->type, at, NULL);
}

int state_save(const struct schema *s, uint32_t version, const void *self, const struct arena *a, struct cbor_writer *w,
	struct err *e)
{
	struct saving v = { s, a, w, e };

	cbor_put_head(w, CBOR_ARRAY, 4);
	cbor_put_u64(w, STATE_MAGIC);
	cbor_put_u64(w, version);
	schema_write(s, w);
	if (save_struct(&v, 0, self, NULL) != 0)
		return -1;
	if (w->size > LIMIT_STATE_BYTES)
		return err_set(e, ERR_LIMIT_EXCEEDED, "the state is larger than %llu bytes", LIMIT_STATE_BYTES);
	return 0;
}
