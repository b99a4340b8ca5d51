/* SPDX-License-Identifier: MIT
 *
 * Both directions are one pass with a stack of open containers in place of recursion. Reading JSON, each container's head
 * is patched when it ends; an object that turns out to be {"$bytes": "..."} is replaced then. */
#include "daemon/host/codec/json_cbor.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/host/codec/cbor.h"
#include "proto/limits.h"
#include "proto/names.h"

/* ---- JSON to CBOR ---- */

struct level {
	uint64_t mark;
	uint32_t items;
	bool is_map, bytes_key;
	struct json_span only;   /* the value of bytes_key when it is a string */
};

struct converter {
	struct cbor_writer w;
	struct level levels[LIMIT_JSON_DEPTH + 1];
	unsigned depth;
	struct err *e;
};

static int put_json_string(struct converter *c, struct json_span span)
{
	size_t n;
	char *text;

	if (memchr(span.at, '\\', span.size) == NULL) {
		cbor_put_string(&c->w, span.at + 1, span.size - 2);
		return 0;
	}
	text = json_string_dup(span, &n);
	if (text == NULL)
		return err_set(c->e, ERR_LIMIT_EXCEEDED, "no memory for a string of %zu bytes", span.size);
	cbor_put_string(&c->w, text, n);
	free(text);
	return 0;
}

static int replace_by_bytes(struct converter *c, const struct level *l)
{
	size_t n = 0;
	char *text = json_string_dup(l->only, &n);
	uint8_t *raw = malloc(n / 4 * 3 + 1);
	int64_t size = -1;
	int r = 0;

	if (text == NULL || raw == NULL)
		r = err_set(c->e, ERR_LIMIT_EXCEEDED, "no memory for bytes");
	else if ((size = base64_decode(raw, text, n)) < 0)
		r = err_set(c->e, ERR_BAD_PARAM, "the text of \"$bytes\" isn't base64 (RFC 4648 with padding)");
	if (r == 0 && !c->w.grow->failed) {
		c->w.grow->size = (size_t)l->mark;
		cbor_put_bytes(&c->w, raw, (uint64_t)size);
	}
	free(text);
	free(raw);
	return r;
}

static int end_container(struct converter *c)
{
	struct level *l = &c->levels[--c->depth];

	if (l->is_map && l->items == 1 && l->only.at != NULL)
		return replace_by_bytes(c, l);
	cbor_set_length(&c->w, l->mark, l->items);
	return 0;
}

static void begin_container(struct converter *c, bool is_map)
{
	c->levels[c->depth++] = (struct level){ .mark = cbor_put_open(&c->w, is_map ? CBOR_MAP : CBOR_ARRAY), .is_map = is_map };
}

static int put_number(struct converter *c, enum json_event event, struct json_span span)
{
	int64_t i;
	double f;

	if (event == JSON_INTEGER && json_i64(span, &i)) {
		cbor_put_i64(&c->w, i);
		return 0;
	}
	if (!json_f64(span, &f))
		return err_set(c->e, ERR_BAD_NUMBER, "a number that isn't one");
	cbor_put_f64(&c->w, f);
	return 0;
}

static int visit(void *ctx, enum json_event event, struct json_span span)
{
	struct converter *c = ctx;
	struct level *up = c->depth > 0 ? &c->levels[c->depth - 1] : NULL;

	if (c->w.grow->failed)
		return err_set(c->e, ERR_LIMIT_EXCEEDED, "the value needs more than %zu bytes", c->w.grow->ceiling);
	if (up != NULL && (up->is_map ? event == JSON_KEY : event != JSON_ARRAY_END))
		up->items++;
	switch (event) {
	case JSON_OBJECT_BEGIN:
	case JSON_ARRAY_BEGIN:
		begin_container(c, event == JSON_OBJECT_BEGIN);
		return 0;
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		return end_container(c);
	case JSON_KEY:
		if (up != NULL) /* a key is always in an object */
			up->bytes_key = json_string_is(span, "$bytes");
		return put_json_string(c, span);
	case JSON_STRING:
		if (up != NULL && up->is_map && up->bytes_key)
			up->only = span;
		return put_json_string(c, span);
	case JSON_INTEGER:
	case JSON_NUMBER:
		return put_number(c, event, span);
	case JSON_TRUE:
	case JSON_FALSE:
		cbor_put_bool(&c->w, event == JSON_TRUE);
		return 0;
	case JSON_NULL:
		cbor_put_null(&c->w);
		return 0;
	}
	return 0;
}

int json_to_cbor(const char *json, size_t n, struct buf *to, struct err *e)
{
	struct converter c = { .w = cbor_writer_buf(to), .e = e };

	if (json_walk(json, n, visit, &c, e) != 0)
		return -1;
	if (to->failed)
		return err_set(e, ERR_LIMIT_EXCEEDED, "the value needs more than %zu bytes", to->ceiling);
	return 0;
}

/* ---- CBOR to JSON ---- */

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_BAD_PARAM, "not a value that JSON can say: %s", what);
}

static void out_bytes(struct json_out *o, const char *key, const uint8_t *p, uint64_t n)
{
	struct buf b = BUF_INIT;

	base64_encode(&b, p, (size_t)n);
	if (b.failed)
		o->to->failed = true;
	json_out_object(o, key);
	json_out_text_n(o, "$bytes", b.data != NULL ? b.data : "", b.size);
	json_out_object_end(o);
	buf_fini(&b);
}

static void out_typed_item(struct json_out *o, struct cbor_typed t, const uint8_t *p)
{
	uint64_t u = 0;
	double f64;
	float f32;

	memcpy(&u, p, t.size);
	if (t.is_float && t.size == 4) {
		memcpy(&f32, p, sizeof f32);
		json_out_f64(o, NULL, (double)f32);
	} else if (t.is_float) {
		memcpy(&f64, p, sizeof f64);
		json_out_f64(o, NULL, f64);
	} else if (t.is_signed) {
		unsigned shift = 64 - 8 * t.size;

		json_out_i64(o, NULL, (int64_t)(u << shift) >> shift);
	} else {
		json_out_u64(o, NULL, u);
	}
}

static int out_typed(struct json_out *o, const char *key, uint64_t tag, struct cbor_reader *r, struct err *e)
{
	struct cbor_typed t;
	struct cbor_head h;
	const uint8_t *p;

	if (!cbor_typed_from_tag(tag, &t))
		return bad(e, "an unknown tag");
	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_BYTES || (p = cbor_get_content(r, &h)) == NULL || h.value % t.size != 0)
		return bad(e, "a typed array that is none");
	json_out_array(o, key);
	for (uint64_t at = 0; at < h.value && !o->to->failed; at += t.size)
		out_typed_item(o, t, p + at);
	json_out_array_end(o);
	return 0;
}

static int out_scalar(struct json_out *o, const char *key, const struct cbor_head *h, struct cbor_reader *r, struct err *e)
{
	const uint8_t *p = NULL;

	if ((h->major == CBOR_BYTES || h->major == CBOR_TEXT) && (p = cbor_get_content(r, h)) == NULL)
		return bad(e, "cut bytes");
	switch ((enum cbor_major)h->major) {
	case CBOR_UINT:
		json_out_u64(o, key, h->value);
		return 0;
	case CBOR_NEGATIVE:
		if (h->value > INT64_MAX)
			return bad(e, "an integer below -2^63");
		json_out_i64(o, key, -1 - (int64_t)h->value);
		return 0;
	case CBOR_BYTES:
		out_bytes(o, key, p, h->value);
		return 0;
	case CBOR_TEXT:
		json_out_text_n(o, key, (const char *)p, (size_t)h->value);
		return 0;
	case CBOR_TAG:
		return out_typed(o, key, h->value, r, e);
	case CBOR_SIMPLE:
		if (cbor_is_float(h))
			json_out_f64(o, key, cbor_float(h));
		else if (cbor_is_null(h))
			json_out_null(o, key);
		else
			json_out_bool(o, key, h->info == CBOR_TRUE);
		return 0;
	case CBOR_ARRAY:
	case CBOR_MAP:
		break;
	}
	return bad(e, "a container out of place");
}

static int out_key(struct json_out *o, struct cbor_reader *r, struct err *e)
{
	struct cbor_head h;
	const uint8_t *p;

	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_TEXT || (p = cbor_get_content(r, &h)) == NULL)
		return bad(e, "a key that isn't text");
	json_out_key_n(o, (const char *)p, (size_t)h.value);
	return 0;
}

int cbor_to_json(const void *p, uint64_t n, struct json_out *o, const char *key, struct err *e)
{
	struct { uint64_t left; bool is_map; } levels[LIMIT_VALUE_DEPTH + 2];
	struct cbor_reader r = cbor_reader_over(p, n);
	struct cbor_head h;
	unsigned depth = 0;

	do {
		if (depth > 0 && levels[depth - 1].left-- == 0) {
			if (levels[--depth].is_map)
				json_out_object_end(o);
			else
				json_out_array_end(o);
			continue;
		}
		if (depth > 0 && levels[depth - 1].is_map && out_key(o, &r, e) != 0)
			return -1;
		if (cbor_get_head(&r, &h) != 0)
			return bad(e, "cut or reserved bytes");
		if (h.major != CBOR_ARRAY && h.major != CBOR_MAP) {
			if (out_scalar(o, depth == 0 ? key : NULL, &h, &r, e) != 0)
				return -1;
			continue;
		}
		if (depth > LIMIT_VALUE_DEPTH || !cbor_length_possible(&r, &h))
			return bad(e, "too deep, or longer than its bytes");
		(h.major == CBOR_MAP ? json_out_object : json_out_array)(o, depth == 0 ? key : NULL);
		levels[depth].left = h.value;
		levels[depth++].is_map = h.major == CBOR_MAP;
	} while (depth > 0);
	return r.at == r.end ? 0 : bad(e, "more than one");
}
