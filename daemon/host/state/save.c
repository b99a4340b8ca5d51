/* SPDX-License-Identifier: MIT
 *
 * Writes state from memory. The memory is the module's and may hold anything: counters are compared with the block that
 * they count, texts end within theirs, and a pointer that isn't the arena's (a string literal) is refused by name. */
#include <string.h>

#include "daemon/host/codec/cbor_out.h"
#include "daemon/host/module/map.h"
#include "daemon/host/state/path.h"
#include "daemon/host/state/state.h"

struct saving {
	const struct schema *s;
	const struct arena *a;
	struct cbor_out out;
	struct err *e;
};

static int save_struct(struct saving *v, uint32_t index, const uint8_t *at, const struct path *path);

CBOR_INLINE uint64_t load_uint(const uint8_t *at, unsigned size)
{
	uint64_t u = 0;

	switch (size) { /* little endian */
	case 1:
		return *at;
	case 2:
		memcpy(&u, at, 2);
		return u;
	case 4:
		memcpy(&u, at, 4);
		return u;
	default:
		memcpy(&u, at, 8);
		return u;
	}
}

CBOR_INLINE void save_signed(struct saving *v, int64_t i)
{
	cbor_out_head(&v->out, i < 0 ? CBOR_NEGATIVE : CBOR_UINT, i < 0 ? ~(uint64_t)i : (uint64_t)i);
}

static int not_owned(struct saving *v, const struct path *path, const char *use)
{
	return path_fail(path, v->e, "it points to memory that isn't the host's (a string literal, a global, freed?): use %s", use);
}

CBOR_INLINE int save_str(struct saving *v, const uint8_t *at, const struct path *path)
{
	const char *s;
	uint64_t room, n;

	memcpy(&s, at, sizeof s);
	if (s == NULL) {
		cbor_out_byte(&v->out, CBOR_SIMPLE << 5 | CBOR_NULL);
		return 0;
	}
	room = arena_usable(v->a, s);
	if (room == 0)
		return not_owned(v, path, "sbx_set_str");
	n = strnlen(s, (size_t)room);
	if (n == room)
		return path_fail(path, v->e, "the text doesn't end within its memory");
	cbor_out_string(&v->out, s, n);
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
	cbor_out_bytes(&v->out, b.data, b.size);
	return 0;
}

static int save_chars(struct saving *v, const uint8_t *at, uint64_t size, const struct path *path)
{
	const uint8_t *end = memchr(at, '\0', (size_t)size);

	if (end == NULL)
		return path_fail(path, v->e, "the text doesn't end within its %llu bytes", (unsigned long long)size);
	cbor_out_string(&v->out, (const char *)at, (uint64_t)(end - at));
	return 0;
}

/* One value that isn't a sequence. size: of CHARS. */
CBOR_INLINE int save_simple(struct saving *v, unsigned kind, uint64_t size, uint32_t type, const uint8_t *at, const struct path *path)
{
	switch (kind) {
	case SBX_K_BOOL: /* the byte, whatever it is */
		cbor_out_byte(&v->out, CBOR_SIMPLE << 5 | (*at != 0 ? CBOR_TRUE : CBOR_FALSE));
		return 0;
	case SBX_K_I8:
		save_signed(v, (int8_t)*at);
		return 0;
	case SBX_K_I16:
		save_signed(v, (int16_t)load_uint(at, 2));
		return 0;
	case SBX_K_I32:
		save_signed(v, (int32_t)load_uint(at, 4));
		return 0;
	case SBX_K_I64:
		save_signed(v, (int64_t)load_uint(at, 8));
		return 0;
	case SBX_K_U8:
		cbor_out_head(&v->out, CBOR_UINT, *at);
		return 0;
	case SBX_K_U16:
		cbor_out_head(&v->out, CBOR_UINT, load_uint(at, 2));
		return 0;
	case SBX_K_U32:
		cbor_out_head(&v->out, CBOR_UINT, load_uint(at, 4));
		return 0;
	case SBX_K_U64:
		cbor_out_head(&v->out, CBOR_UINT, load_uint(at, 8));
		return 0;
	case SBX_K_F32:
		cbor_out_fixed(&v->out, CBOR_SIMPLE << 5 | CBOR_F32, load_uint(at, 4), 4);
		return 0;
	case SBX_K_F64:
		cbor_out_fixed(&v->out, CBOR_SIMPLE << 5 | CBOR_F64, load_uint(at, 8), 8);
		return 0;
	case SBX_K_STR:
		return save_str(v, at, path);
	case SBX_K_BYTES:
		return save_bytes(v, at, path);
	case SBX_K_STRUCT:
		return save_struct(v, type, at, path);
	default: /* SBX_K_CHARS: the schema was checked */
		return save_chars(v, at, size, path);
	}
}

static int too_large(struct saving *v)
{
	return err_set(v->e, ERR_LIMIT_EXCEEDED, "the state is larger than %llu bytes", LIMIT_STATE_BYTES);
}

static int save_items(struct saving *v, const struct schema_field *f, const uint8_t *at, uint64_t n, const struct path *path)
{
	struct cbor_typed t = { (uint8_t)kind_size(f->elem), kind_is_signed(f->elem) || kind_is_float(f->elem), kind_is_float(f->elem) };
	struct path item = { .up = path };

	if (kind_is_number(f->elem)) {
		cbor_out_head(&v->out, CBOR_TAG, cbor_typed_tag(t));
		cbor_out_bytes(&v->out, at, n * f->elem_size);
		return 0;
	}
	cbor_out_head(&v->out, CBOR_ARRAY, n);
	for (; item.index < n; item.index++) {
		if (save_simple(v, f->elem, f->elem_size, f->type, at + item.index * f->elem_size, &item) != 0)
			return -1;
		if (cbor_out_size(&v->out) > LIMIT_STATE_BYTES)
			return too_large(v);
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

static int save_map(struct saving *v, const struct schema_field *f, const uint8_t *at, const struct path *path)
{
	struct path item = { .up = path };
	const struct sbx_map *m;
	const char *key = NULL;
	uint64_t next = 0, n_key = 0, n = 0, begins;
	const uint8_t *value;

	memcpy(&m, at, sizeof m);
	if (!map_is_sane(v->a, m) || m->value_size != f->elem_size)
		return path_fail(path, v->e, "it isn't the map that the host made");
	cbor_out_head(&v->out, CBOR_MAP, m->live);
	while ((value = map_next(m, &next, &key, &n_key)) != NULL && n < m->live) {
		begins = (uint64_t)((uintptr_t)key - (uintptr_t)m->keys);
		if (begins > m->keys_used || n_key > m->keys_used - begins)
			return path_fail(path, v->e, "a key lies outside the map's memory");
		item.index = n++;
		item.key = key;
		item.key_bytes = n_key;
		cbor_out_string(&v->out, key, n_key);
		if (save_simple(v, f->elem, f->elem_size, f->type, value, &item) != 0)
			return -1;
		if (cbor_out_size(&v->out) > LIMIT_STATE_BYTES)
			return too_large(v);
	}
	return n == m->live && value == NULL ? 0 : path_fail(path, v->e, "the map's count of pairs is wrong");
}

static int save_field(struct saving *v, const struct schema_field *f, const uint8_t *base, const struct path *path)
{
	if (f->optional && base[f->present_offset] == 0) {
		cbor_out_byte(&v->out, CBOR_SIMPLE << 5 | CBOR_UNDEFINED);
		return 0;
	}
	if (f->kind == SBX_K_FIXED)
		return save_items(v, f, base + f->offset, f->n, path);
	if (f->kind == SBX_K_ARRAY)
		return save_array(v, f, base, path);
	if (f->kind == SBX_K_MAP)
		return save_map(v, f, base + f->offset, path);
	return save_simple(v, f->kind, f->size, f->type, base + f->offset, path);
}

static int save_struct(struct saving *v, uint32_t index, const uint8_t *at, const struct path *path)
{
	const struct schema_struct *st = &v->s->structs[index];
	struct path field = { .up = path };

	cbor_out_head(&v->out, CBOR_ARRAY, st->n_fields);
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
	struct saving v = { .s = s, .a = a, .e = e };
	int r;

	cbor_out_begin(&v.out, w);
	r = save_simple(&v, f->elem, f->elem_size, f->type, at, NULL);
	cbor_out_flush(&v.out);
	return r;
}

void state_save_head(const struct schema *s, uint32_t version, bool extra, struct cbor_writer *w)
{
	cbor_put_head(w, CBOR_ARRAY, extra ? STATE_MEMBERS_EXTRA : STATE_MEMBERS);
	cbor_put_u64(w, STATE_MAGIC);
	cbor_put_u64(w, version);
	schema_write(s, w);
}

int state_save(const struct schema *s, const void *self, const struct arena *a, struct cbor_writer *w, struct err *e)
{
	struct saving v = { .s = s, .a = a, .e = e };
	int r;

	cbor_out_begin(&v.out, w);
	r = save_struct(&v, 0, self, NULL);
	cbor_out_flush(&v.out);
	return r == 0 && w->size > LIMIT_STATE_BYTES ? too_large(&v) : r;
}
