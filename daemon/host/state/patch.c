/* SPDX-License-Identifier: MIT
 *
 * The values are written as a save writes them, by the blob's own schema; whether the code takes them (ranges, check) is for the restore to
 * say. Values that aren't replaced are copied as bytes. */
#include "daemon/host/state/patch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/codec/json_cbor.h"
#include "daemon/host/state/path.h"
#include "daemon/host/state/state.h"
#include "daemon/host/state/value.h"
#include "proto/names.h"

struct patching {
	const struct schema *s;
	struct cbor_writer w;
	struct err *e;
};

static int put_struct(struct patching *p, uint32_t index, struct sbx_val v, struct cbor_reader *old, const struct path *path);

static int misfit(struct patching *p, const struct schema_field *f, unsigned kind, const struct path *path)
{
	struct schema_field one = *f;
	char text[LIMIT_FUNCTION_BYTES + 40];

	one.kind = (uint8_t)kind;
	field_kind_text(p->s, &one, text, sizeof text);
	return path_fail(path, p->e, "this value is no %s", text);
}

static void put_undefined(struct patching *p)
{
	static const uint8_t undefined = CBOR_SIMPLE << 5 | CBOR_UNDEFINED;

	cbor_put_raw(&p->w, &undefined, 1);
}

/* ---- numbers: also as texts, where JSON can't say them ---- */

static bool text_of(struct sbx_val v, char to[32])
{
	const uint8_t *content;
	uint64_t n;

	if (val_type(v) != SBX_TEXT || val_content(v, &content, &n) != 0 || n == 0 || n >= 32)
		return false;
	memcpy(to, content, (size_t)n);
	to[n] = '\0';
	return strlen(to) == n;
}

/* The two's complement bits of an integer that fits this kind. */
static bool int_of(struct sbx_val v, unsigned kind, uint64_t *ret)
{
	uint64_t most = kind_most(kind);
	char text[32], *end;
	int64_t i = 0;
	bool negative;

	if (text_of(v, text)) {
		negative = text[0] == '-';
		if (strspn(text + negative, "0123456789") != strlen(text + negative) || !text[negative])
			return false;
		errno = 0;
		if (negative)
			i = strtoll(text, &end, 10);
		else
			*ret = strtoull(text, &end, 10);
		if (errno != 0)
			return false;
		if (negative)
			*ret = (uint64_t)i;
	} else if (val_u64(v, ret) == 0) {
		negative = false;
	} else if (val_i64(v, &i) == 0) {
		negative = i < 0;
		*ret = (uint64_t)i;
	} else {
		return false;
	}
	return negative ? kind_is_signed(kind) && ~*ret <= most : *ret <= most;
}

static bool float_of(struct sbx_val v, double *ret)
{
	char text[32];

	if (val_f64(v, ret) == 0)
		return true;
	if (!text_of(v, text))
		return false;
	if (strcmp(text, "NaN") != 0 && strcmp(text, "Infinity") != 0 && strcmp(text, "-Infinity") != 0)
		return false;
	*ret = strtod(text, NULL);
	return true;
}

/* The bits that a packed array holds, and a CBOR number is made of. */
static bool number_of(struct sbx_val v, unsigned kind, uint64_t *ret)
{
	double f64 = 0;
	float f32;
	uint32_t bits;

	if (!kind_is_float(kind))
		return int_of(v, kind, ret);
	if (!float_of(v, &f64))
		return false;
	f32 = (float)f64;
	memcpy(&bits, &f32, sizeof bits);
	memcpy(ret, &f64, sizeof f64);
	if (kind == SBX_K_F32)
		*ret = bits;
	return true;
}

static int put_number(struct patching *p, const struct schema_field *f, unsigned kind, struct sbx_val v, const struct path *path)
{
	uint64_t bits = 0;

	if (!number_of(v, kind, &bits))
		return misfit(p, f, kind, path);
	if (kind == SBX_K_F32)
		cbor_put_f32_bits(&p->w, (uint32_t)bits);
	else if (kind == SBX_K_F64)
		cbor_put_f64_bits(&p->w, bits);
	else if (kind_is_signed(kind))
		cbor_put_i64(&p->w, (int64_t)bits);
	else
		cbor_put_u64(&p->w, bits);
	return 0;
}

/* ---- texts and bytes ---- */

static int put_content(struct patching *p, const struct schema_field *f, unsigned kind, struct sbx_val v, const struct path *path)
{
	enum sbx_type type = val_type(v);
	const uint8_t *content = NULL;
	uint64_t n = 0;

	if (kind == SBX_K_STR && type == SBX_NULL) {
		cbor_put_null(&p->w);
		return 0;
	}
	if ((type != SBX_TEXT && type != SBX_BLOB) || (kind == SBX_K_BYTES && type != SBX_BLOB) || val_content(v, &content, &n) != 0)
		return misfit(p, f, kind, path);
	if (kind == SBX_K_BYTES)
		cbor_put_bytes(&p->w, content, n);
	else
		cbor_put_string(&p->w, (const char *)content, n); /* its length and a NUL in it are the restore's */
	return 0;
}

static int put_one(struct patching *p, const struct schema_field *f, unsigned kind, struct sbx_val v, struct cbor_reader *old,
	const struct path *path)
{
	bool truth;

	if (kind_is_number(kind))
		return put_number(p, f, kind, v, path);
	if (kind == SBX_K_STRUCT)
		return put_struct(p, f->type, v, old, path);
	if (kind != SBX_K_BOOL)
		return put_content(p, f, kind, v, path);
	if (val_bool(v, &truth) != 0)
		return misfit(p, f, kind, path);
	cbor_put_bool(&p->w, truth);
	return 0;
}

/* ---- sequences ---- */

static int put_list(struct patching *p, const struct schema_field *f, struct sbx_val v, const struct path *path)
{
	uint32_t size = kind_size(f->elem);
	bool packed = kind_is_number(f->elem);
	struct sbx_val at = { NULL, NULL }, item;
	struct path each = { .up = path };
	uint64_t n = val_length(v), bits = 0;

	if (val_type(v) != SBX_LIST)
		return misfit(p, f, f->kind, path);
	if (f->kind == SBX_K_FIXED && n != f->n)
		return path_fail(path, p->e, "it has %llu items, not %llu", (unsigned long long)f->n, (unsigned long long)n);
	if (packed) {
		cbor_put_head(&p->w, CBOR_TAG, cbor_typed_tag((struct cbor_typed){ .size = (uint8_t)size, .is_float = kind_is_float(f->elem),
							      .is_signed = kind_is_signed(f->elem) || kind_is_float(f->elem) }));
		cbor_put_head(&p->w, CBOR_BYTES, n * size);
	} else {
		cbor_put_head(&p->w, CBOR_ARRAY, n);
	}
	while ((item = val_next(v, NULL, &at)).p != NULL) {
		if (packed && !number_of(item, f->elem, &bits))
			return misfit(p, f, f->elem, &each);
		if (packed)
			cbor_put_raw(&p->w, &bits, size); /* little endian */
		else if (put_one(p, f, f->elem, item, NULL, &each) != 0)
			return -1;
		each.index++;
	}
	return 0;
}

static int put_map(struct patching *p, const struct schema_field *f, struct sbx_val v, const struct path *path)
{
	struct sbx_val at = { NULL, NULL }, key = { NULL, NULL }, item;
	const uint8_t *name = NULL;

	if (val_type(v) != SBX_DICT)
		return misfit(p, f, f->kind, path);
	cbor_put_head(&p->w, CBOR_MAP, val_length(v));
	while ((item = val_next(v, &key, &at)).p != NULL) {
		struct path each = { .up = path };

		if (val_content(key, &name, &each.key_bytes) != 0)
			return misfit(p, f, f->kind, path);
		each.key = (const char *)name;
		cbor_put_string(&p->w, each.key, each.key_bytes);
		if (put_one(p, f, f->elem, item, NULL, &each) != 0)
			return -1;
	}
	return 0;
}

/* ---- structs ---- */

static int put_field(struct patching *p, const struct schema_field *f, struct sbx_val v, struct cbor_reader *old, const struct path *path)
{
	struct cbor_head h;

	if (f->optional && val_type(v) == SBX_NULL) {
		put_undefined(p);
		return 0;
	}
	if (f->kind == SBX_K_MAP)
		return put_map(p, f, v, path);
	if (kind_has_elem(f->kind))
		return put_list(p, f, v, path);
	if (old && (cbor_peek_head(old, &h) != 0 || h.major != CBOR_ARRAY))
		old = NULL; /* it was absent: all of it must be given */
	return put_one(p, f, f->kind, v, old, path);
}

/* Each name that is given is a field's. */
static int check_names(struct patching *p, const struct schema_struct *st, struct sbx_val v, const struct path *path)
{
	const char *names[LIMIT_FIELDS];
	struct sbx_val at = { NULL, NULL }, key = { NULL, NULL };
	char text[LIMIT_FUNCTION_BYTES + 1];
	const uint8_t *content;
	uint64_t n;
	int nearest;

	for (uint32_t i = 0; i < st->n_fields; i++)
		names[i] = st->fields[i].name.text;
	while (val_next(v, &key, &at).p != NULL) {
		uint32_t i = 0;

		if (val_content(key, &content, &n) != 0)
			return path_fail(path, p->e, "a name is no text");
		while (i < st->n_fields && (strlen(names[i]) != n || memcmp(names[i], content, (size_t)n) != 0))
			i++;
		if (i < st->n_fields)
			continue;
		(void)snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : (int)sizeof text - 1, (const char *)content);
		path_fail(path, p->e, "there is no field %s", text);
		nearest = name_nearest(text, names, st->n_fields);
		if (nearest >= 0 && p->e)
			text_clean(p->e->nearest, sizeof p->e->nearest, names[nearest], strlen(names[nearest]));
		return -1;
	}
	return 0;
}

static int put_struct(struct patching *p, uint32_t index, struct sbx_val v, struct cbor_reader *old, const struct path *path)
{
	const struct schema_struct *st = &p->s->structs[index];
	struct path field = { .up = path };
	struct cbor_head h;

	if (val_type(v) != SBX_DICT)
		return path_fail(path, p->e, "this value is no object");
	if (check_names(p, st, v, path) != 0)
		return -1;
	if (old && (cbor_get_head(old, &h) != 0 || h.major != CBOR_ARRAY || h.value != st->n_fields))
		return path_fail(path, p->e, "the saved value isn't what its schema says");
	cbor_put_head(&p->w, CBOR_ARRAY, st->n_fields);
	for (uint32_t i = 0; i < st->n_fields; i++) {
		struct sbx_val given = val_get(v, st->fields[i].name.text);
		struct cbor_reader before = old ? *old : (struct cbor_reader){ 0 };

		field.name = st->fields[i].name.text;
		if (old && cbor_skip_checked(old) != 0)
			return path_fail(&field, p->e, "the saved value isn't what its schema says");
		if (given.p == NULL && old)
			cbor_put_raw(&p->w, before.at, (uint64_t)(old->at - before.at));
		else if (given.p == NULL && st->fields[i].optional)
			put_undefined(p);
		else if (given.p == NULL)
			return path_fail(&field, p->e, "it is missing, and there is no old value");
		else if (put_field(p, &st->fields[i], given, old ? &before : NULL, &field) != 0)
			return -1;
	}
	return 0;
}

/* ---- the blob ---- */

static void put_map_or_null(struct cbor_writer *w, const uint8_t *at, uint64_t n)
{
	if (at)
		cbor_put_raw(w, at, n);
	else
		cbor_put_null(w);
}

static int put_blob(const struct state_blob *b, const struct buf *plain, struct buf *to, struct err *e)
{
	struct patching p = { .s = b->schema, .w = cbor_writer_buf(to), .e = e };
	struct cbor_reader old = cbor_reader_over(b->data, b->data_bytes);
	struct val_source *v = val_source_new(plain->data, plain->size, NULL);
	bool extra = b->timers || b->own;
	int r;

	if (!v)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory to change a state");
	state_save_head(b->schema, b->version, extra, &p.w);
	if (extra)
		put_map_or_null(&p.w, b->timers, b->timers_bytes);
	if (extra)
		put_map_or_null(&p.w, b->own, b->own_bytes);
	r = put_struct(&p, 0, val_root(v), &old, NULL);
	(void)val_source_free(v);
	if (r == 0 && to->failed)
		r = err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the changed state");
	return r;
}

int state_patch(const void *blob, uint64_t n, const char *patch, size_t patch_bytes, struct buf *to, struct err *e)
{
	struct state_blob b = { 0 };
	struct buf plain;
	int r;

	if (state_blob_open(blob, n, &b, e) != 0)
		return -1;
	buf_init(&plain, (size_t)LIMIT_BODY_BYTES * 4);
	r = json_to_cbor(patch, patch_bytes, &plain, e);
	if (r == 0)
		r = put_blob(&b, &plain, to, e);
	buf_fini(&plain);
	state_blob_close(&b);
	return r;
}
