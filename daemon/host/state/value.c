/* SPDX-License-Identifier: MIT
 *
 * Where a value's bytes lie is in p; how they are to be read is in type, which points to one of the source's few view
 * objects: plain CBOR, a struct of the schema, a list of such structs, a raw number, a name of the schema. */
#include "daemon/host/state/value.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/host/state/schema.h"

enum view_kind { VIEW_PLAIN, VIEW_STRUCT, VIEW_STRUCTS, VIEW_RAW, VIEW_NAME };

struct view {
	const struct val_source *source;
	enum view_kind kind;
	uint32_t index;           /* of the struct */
	struct cbor_typed raw;
};

#define N_RAW 10

#define N_FOUND 8
struct found { char key[LIMIT_FUNCTION_BYTES + 1]; const void *p; };

struct val_source {
	const uint8_t *begin, *end;
	struct found *found;      /* N_FOUND: what was asked for before in the root map */
	const struct schema *schema;
	struct view plain, name, raw[N_RAW];
	const uint8_t **members;  /* where the root struct's fields lie: a module asks for them in loops */
	uint32_t n_members;
	struct view structs[];    /* 2 * n_structs: struct, list of it */
};

static bool find_members(struct val_source *s)
{
	struct cbor_reader r = { s->begin, s->end };
	uint32_t most = s->schema->structs[0].n_fields;
	struct cbor_head h;

	s->members = calloc(most + 1u, sizeof *s->members);
	if (s->members == NULL)
		return false;
	if (cbor_get_head(&r, &h) != 0 || h.major != CBOR_ARRAY)
		return true;
	while (s->n_members < most && s->n_members < h.value) {
		s->members[s->n_members] = r.at;
		if (cbor_skip(&r) != 0)
			break;
		s->n_members++;
	}
	return true;
}

struct val_source *val_source_new(const void *p, uint64_t n, const struct schema *schema)
{
	static const uint8_t tags[N_RAW] = { 64, 69, 70, 71, 72, 77, 78, 79, 85, 86 };
	uint32_t n_structs = schema != NULL ? schema->n_structs : 0;
	struct val_source *s = calloc(1, sizeof *s + 2 * n_structs * sizeof s->structs[0]);

	if (s == NULL)
		return NULL;
	s->found = calloc(N_FOUND, sizeof *s->found);
	if (s->found == NULL)
		return val_source_free(s);
	s->begin = p;
	s->end = s->begin + n;
	s->schema = schema;
	s->plain = (struct view){ .source = s, .kind = VIEW_PLAIN };
	s->name = (struct view){ .source = s, .kind = VIEW_NAME };
	for (unsigned i = 0; i < N_RAW; i++) {
		s->raw[i] = (struct view){ .source = s, .kind = VIEW_RAW };
		cbor_typed_from_tag(tags[i], &s->raw[i].raw);
	}
	for (uint32_t i = 0; i < n_structs; i++) {
		s->structs[2 * i] = (struct view){ .source = s, .kind = VIEW_STRUCT, .index = i };
		s->structs[2 * i + 1] = (struct view){ .source = s, .kind = VIEW_STRUCTS, .index = i };
	}
	if (schema != NULL && !find_members(s))
		return val_source_free(s);
	return s;
}

struct val_source *val_source_free(struct val_source *s)
{
	if (s != NULL) {
		free(s->members);
		free(s->found);
	}
	free(s);
	return NULL;
}

static struct sbx_val absent(void)
{
	return (struct sbx_val){ NULL, NULL };
}

struct sbx_val val_root(const struct val_source *s)
{
	if (s == NULL || s->begin == s->end)
		return absent();
	return (struct sbx_val){ s->begin, s->schema != NULL ? &s->structs[0] : &s->plain };
}

/* Reads the head; for typed arrays, the tag's and the bytes'. */
struct opened {
	const struct view *view;
	struct cbor_reader r;     /* behind the head */
	struct cbor_head h;
	bool typed;
	struct cbor_typed item;
};

static int open_val(struct sbx_val v, struct opened *o)
{
	const struct view *view = v.type;

	if (v.p == NULL || view == NULL || view->kind == VIEW_RAW || view->kind == VIEW_NAME)
		return -1;
	*o = (struct opened){ .view = view, .r = { v.p, view->source->end } };
	if (cbor_get_head(&o->r, &o->h) != 0)
		return -1;
	if (o->h.major != CBOR_TAG)
		return 0;
	o->typed = cbor_typed_from_tag(o->h.value, &o->item);
	if (!o->typed || cbor_get_head(&o->r, &o->h) != 0 || o->h.major != CBOR_BYTES || o->h.value > cbor_left(&o->r) ||
		o->h.value % o->item.size != 0)
		return -1;
	return 0;
}

enum sbx_type val_type(struct sbx_val v)
{
	const struct view *view = v.type;
	struct opened o;

	if (v.p == NULL || view == NULL)
		return SBX_ABSENT;
	if (view->kind == VIEW_RAW)
		return view->raw.is_float ? SBX_FLOAT : SBX_INT;
	if (view->kind == VIEW_NAME)
		return SBX_TEXT;
	if (open_val(v, &o) != 0)
		return SBX_ABSENT;
	switch ((enum cbor_major)o.h.major) {
	case CBOR_UINT:
	case CBOR_NEGATIVE:
		return SBX_INT;
	case CBOR_BYTES:
		return o.typed ? SBX_LIST : SBX_BLOB;
	case CBOR_TEXT:
		return SBX_TEXT;
	case CBOR_ARRAY:
		return view->kind == VIEW_STRUCT ? SBX_DICT : SBX_LIST;
	case CBOR_MAP:
		return SBX_DICT;
	case CBOR_SIMPLE:
		return cbor_is_float(&o.h) ? SBX_FLOAT : cbor_is_null(&o.h) ? SBX_NULL : SBX_TRUTH;
	case CBOR_TAG:
		break;
	}
	return SBX_ABSENT;
}

uint64_t val_length(struct sbx_val v)
{
	const struct view *view = v.type;
	struct opened o;

	if (v.p != NULL && view != NULL && view->kind == VIEW_NAME)
		return strlen(v.p);
	if (open_val(v, &o) != 0)
		return 0;
	switch ((enum cbor_major)o.h.major) {
	case CBOR_BYTES:
		return o.typed ? o.h.value / o.item.size : o.h.value;
	case CBOR_TEXT:
	case CBOR_ARRAY:
	case CBOR_MAP:
		return o.h.value;
	case CBOR_UINT:
	case CBOR_NEGATIVE:
	case CBOR_TAG:
	case CBOR_SIMPLE:
		break;
	}
	return 0;
}

/* An optional field that is absent was saved as `undefined`. */
static struct sbx_val made(const struct cbor_reader *at, const struct view *view)
{
	struct cbor_head h;

	if (cbor_peek_head(at, &h) != 0 || (h.major == CBOR_SIMPLE && h.info == CBOR_UNDEFINED))
		return absent();
	return (struct sbx_val){ at->at, view };
}

static const struct view *view_of_field(const struct val_source *s, const struct schema_field *f)
{
	if (f->type == SCHEMA_NO_STRUCT)
		return &s->plain;
	return &s->structs[2 * f->type + (f->kind == SBX_K_STRUCT ? 0 : 1)];
}

static struct sbx_val get_member(struct opened *o, const char *key, bool is_root)
{
	const struct val_source *s = o->view->source;
	const struct schema_struct *st = &s->schema->structs[o->view->index];
	uint32_t n = is_root ? s->n_members : st->n_fields;

	for (uint32_t i = 0; i < n && i < o->h.value; i++) {
		if (strcmp(st->fields[i].name.text, key) == 0) {
			if (is_root)
				o->r.at = s->members[i];
			return made(&o->r, view_of_field(s, &st->fields[i]));
		}
		if (!is_root && cbor_skip(&o->r) != 0)
			break;
	}
	return absent();
}

/* What a map's items are: structs, where it is an SBX_MAP_OF. */
static const struct view *item_view(const struct opened *o)
{
	const struct val_source *s = o->view->source;

	return o->view->kind == VIEW_STRUCTS ? &s->structs[2 * o->view->index] : &s->plain;
}

/* Own state is read by name in loops: sbx_next(x, sbx_saved(x, "items"), ...). */
static struct found *found_slot(const struct val_source *s, const char *key, size_t n)
{
	unsigned hash = (unsigned)n;

	for (size_t i = 0; i < n; i++)
		hash = hash * 31 + (unsigned char)key[i];
	return &s->found[hash % N_FOUND];
}

struct sbx_val val_get(struct sbx_val v, const char *key)
{
	struct opened o;
	struct cbor_head h;
	struct found *found;
	const uint8_t *p;
	size_t n;

	if (key == NULL || open_val(v, &o) != 0)
		return absent();
	if (o.view->kind == VIEW_STRUCT && o.h.major == CBOR_ARRAY)
		return get_member(&o, key, v.p == o.view->source->begin && o.view->index == 0);
	if (o.h.major != CBOR_MAP)
		return absent();
	n = strlen(key);
	found = v.p == o.view->source->begin && n <= LIMIT_FUNCTION_BYTES ? found_slot(o.view->source, key, n) : NULL;
	if (found != NULL && found->p != NULL && strcmp(found->key, key) == 0)
		return (struct sbx_val){ found->p, item_view(&o) };
	for (uint64_t i = 0; i < o.h.value; i++) {
		if (cbor_get_head(&o.r, &h) != 0 || (h.major != CBOR_TEXT && h.major != CBOR_BYTES) ||
			(p = cbor_get_content(&o.r, &h)) == NULL)
			break;
		if (h.value == n && memcmp(p, key, n) == 0) {
			struct sbx_val item = made(&o.r, item_view(&o));

			if (found != NULL) {
				memcpy(found->key, key, n + 1);
				found->p = item.p;
			}
			return item;
		}
		if (cbor_skip(&o.r) != 0)
			break;
	}
	return absent();
}

/* at->p: the next item's bytes; at->type: how many came before, as a number. */
static struct sbx_val next_typed(struct opened *o, uint64_t index, struct sbx_val *at)
{
	const struct val_source *s = o->view->source;

	if (index >= o->h.value / o->item.size)
		return absent();
	at->p = o->r.at + index * o->item.size;
	at->type = (const void *)(uintptr_t)(index + 1);
	for (unsigned i = 0; i < N_RAW; i++)
		if (cbor_typed_tag(s->raw[i].raw) == cbor_typed_tag(o->item))
			return (struct sbx_val){ at->p, &s->raw[i] };
	return absent();
}

static struct sbx_val next_key(struct opened *o, uint64_t index, struct cbor_reader *r)
{
	const struct val_source *s = o->view->source;
	struct sbx_val key;

	if (o->view->kind == VIEW_STRUCT)
		return (struct sbx_val){ s->schema->structs[o->view->index].fields[index].name.text, &s->name };
	if (o->h.major != CBOR_MAP)
		return absent();
	key = (struct sbx_val){ r->at, &s->plain };
	return cbor_skip(r) == 0 ? key : absent();
}

struct sbx_val val_next(struct sbx_val container, struct sbx_val *key, struct sbx_val *at)
{
	const struct view *view;
	struct opened o;
	struct cbor_reader r;
	struct sbx_val item, name;
	uint64_t index = (uint64_t)(uintptr_t)at->type;

	if (open_val(container, &o) != 0)
		return absent();
	if (o.typed)
		return next_typed(&o, index, at);
	if ((o.h.major != CBOR_ARRAY && o.h.major != CBOR_MAP) || index >= o.h.value)
		return absent();
	view = &o.view->source->plain;
	if (o.view->kind == VIEW_STRUCT && index >= o.view->source->schema->structs[o.view->index].n_fields)
		return absent();
	if (o.view->kind == VIEW_STRUCT)
		view = view_of_field(o.view->source, &o.view->source->schema->structs[o.view->index].fields[index]);
	else if (o.view->kind == VIEW_STRUCTS)
		view = &o.view->source->structs[2 * o.view->index];
	r = o.r;
	if (at->p != NULL && (const uint8_t *)at->p >= r.at && (const uint8_t *)at->p <= r.end)
		r.at = at->p;
	name = next_key(&o, index, &r);
	if (key != NULL)
		*key = name;
	item = (struct sbx_val){ r.at, view };
	if (cbor_skip(&r) != 0)
		return absent();
	at->p = r.at;
	at->type = (const void *)(uintptr_t)(index + 1);
	return item;
}

/* ---- numbers and texts ---- */

static void raw_head(struct sbx_val v, struct cbor_typed t, struct cbor_head *h)
{
	uint64_t bits = 0;

	memcpy(&bits, v.p, t.size);
	*h = (struct cbor_head){ CBOR_UINT, 0, bits };
	if (t.is_float) {
		h->major = CBOR_SIMPLE;
		h->info = t.size == 4 ? CBOR_F32 : CBOR_F64;
	} else if (t.is_signed && bits >> (8 * t.size - 1) != 0) {
		h->major = CBOR_NEGATIVE;
		h->value = ~bits & (UINT64_MAX >> (64 - 8 * t.size));
	}
}

static int number_head(struct sbx_val v, struct cbor_head *h)
{
	const struct view *view = v.type;
	struct opened o;

	if (v.p != NULL && view != NULL && view->kind == VIEW_RAW) {
		raw_head(v, view->raw, h);
		return 0;
	}
	if (open_val(v, &o) != 0 || o.typed)
		return -1;
	*h = o.h;
	return 0;
}

int val_i64(struct sbx_val v, int64_t *ret)
{
	struct cbor_head h;

	if (number_head(v, &h) != 0 || h.major > CBOR_NEGATIVE || h.value > INT64_MAX)
		return -1;
	*ret = h.major == CBOR_UINT ? (int64_t)h.value : -1 - (int64_t)h.value;
	return 0;
}

int val_u64(struct sbx_val v, uint64_t *ret)
{
	struct cbor_head h;

	if (number_head(v, &h) != 0 || h.major != CBOR_UINT)
		return -1;
	*ret = h.value;
	return 0;
}

int val_f64(struct sbx_val v, double *ret)
{
	struct cbor_head h;

	if (number_head(v, &h) != 0)
		return -1;
	if (cbor_is_float(&h))
		*ret = cbor_float(&h);
	else if (h.major == CBOR_UINT)
		*ret = (double)h.value;
	else if (h.major == CBOR_NEGATIVE)
		*ret = -1.0 - (double)h.value;
	else
		return -1;
	return 0;
}

int val_bool(struct sbx_val v, bool *ret)
{
	struct cbor_head h;

	if (number_head(v, &h) != 0 || h.major != CBOR_SIMPLE || (h.info != CBOR_TRUE && h.info != CBOR_FALSE))
		return -1;
	*ret = h.info == CBOR_TRUE;
	return 0;
}

int val_content(struct sbx_val v, const uint8_t **ret, uint64_t *ret_n)
{
	const struct view *view = v.type;
	struct opened o;

	if (v.p != NULL && view != NULL && view->kind == VIEW_NAME) {
		*ret = v.p;
		*ret_n = strlen(v.p);
		return 0;
	}
	if (open_val(v, &o) != 0 || o.typed || (o.h.major != CBOR_TEXT && o.h.major != CBOR_BYTES) || o.h.value > cbor_left(&o.r))
		return -1;
	*ret = o.r.at;
	*ret_n = o.h.value;
	return 0;
}

/* ---- writing ---- */

static int write_scalar(struct sbx_val v, struct cbor_writer *w)
{
	struct cbor_head h;
	const uint8_t *p;
	uint64_t n;

	if (val_content(v, &p, &n) == 0) {
		if (val_type(v) == SBX_TEXT)
			cbor_put_string(w, (const char *)p, n);
		else
			cbor_put_bytes(w, p, n);
		return 0;
	}
	if (number_head(v, &h) != 0)
		return -1;
	if (h.major <= CBOR_NEGATIVE)
		cbor_put_head(w, (enum cbor_major)h.major, h.value);
	else if (h.info == CBOR_F32)
		cbor_put_f32_bits(w, (uint32_t)h.value);
	else if (cbor_is_float(&h))
		cbor_put_f64(w, cbor_float(&h));
	else if (cbor_is_null(&h))
		cbor_put_null(w);
	else
		cbor_put_bool(w, h.info == CBOR_TRUE);
	return 0;
}

static int write_at(struct sbx_val v, struct cbor_writer *w, unsigned depth)
{
	enum sbx_type type = val_type(v);
	struct sbx_val at = absent(), key = absent(), item;
	uint64_t mark;
	uint32_t n = 0;

	if (type == SBX_ABSENT || depth > LIMIT_VALUE_DEPTH)
		return -1;
	if (type != SBX_LIST && type != SBX_DICT)
		return write_scalar(v, w);
	mark = cbor_put_open(w, type == SBX_DICT ? CBOR_MAP : CBOR_ARRAY);
	while ((item = val_next(v, &key, &at)).p != NULL) {
		struct cbor_head h;

		/* a struct's absent member is no member */
		if (type == SBX_DICT && number_head(item, &h) == 0 && h.major == CBOR_SIMPLE && h.info == CBOR_UNDEFINED)
			continue;
		if (n++ == UINT32_MAX || (type == SBX_DICT && write_scalar(key, w) != 0) || write_at(item, w, depth + 1) != 0)
			return -1;
	}
	cbor_set_length(w, mark, n);
	return 0;
}

int val_write(struct sbx_val v, struct cbor_writer *w, unsigned depth)
{
	return write_at(v, w, depth);
}
