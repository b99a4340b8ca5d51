/* SPDX-License-Identifier: MIT
 *
 * Writing a reply, or own state into the blob: a dict that is open from the start, and whatever is opened in it. A put in the wrong place fails the
 * callback, so that a reply is either what was meant or an error. */
#include <string.h>

#include "daemon/host/module/context.h"

/* Is a value welcome here, with this key? Then the key is written and the item counted. */
static int begin_item(struct context *c, const char *key)
{
	if (c->failed)
		return -1;
	if (!c->may_reply && !c->saves) {
		context_fail(c, "bad_reply", "only functions reply, not %s", c->name);
		return -1;
	}
	if (c->saves && c->w.size > LIMIT_STATE_BYTES) {
		context_fail(c, "too_large", "the state is larger than %llu bytes", (unsigned long long)LIMIT_STATE_BYTES);
		return -1;
	}
	if (c->levels[c->depth - 1].is_map != (key != NULL)) {
		context_fail(c, "bad_reply", key != NULL ? "key %.64s inside a list" : "a value of a dict needs a key%.0s",
			key != NULL ? key : "");
		return -1;
	}
	if (c->levels[c->depth - 1].items == UINT32_MAX) {
		context_fail(c, "bad_reply", "too many items");
		return -1;
	}
	c->levels[c->depth - 1].items++;
	if (key != NULL)
		cbor_put_string(&c->w, key, strlen(key));
	return 0;
}

#define PUT(...)                                             \
	do {                                                 \
		struct context *c = (struct context *)x;     \
                                                             \
		if (begin_item(c, key) != 0)                 \
			return -1;                           \
		__VA_ARGS__;                                 \
		return 0;                                    \
	} while (0)

int service_put_i64(struct sbx *x, const char *key, int64_t v)
{
	PUT(cbor_put_i64(&c->w, v));
}

int service_put_u64(struct sbx *x, const char *key, uint64_t v)
{
	PUT(cbor_put_u64(&c->w, v));
}

int service_put_f64(struct sbx *x, const char *key, double v)
{
	PUT(cbor_put_f64(&c->w, v));
}

int service_put_bool(struct sbx *x, const char *key, bool v)
{
	PUT(cbor_put_bool(&c->w, v));
}

int service_put_null(struct sbx *x, const char *key)
{
	PUT(cbor_put_null(&c->w));
}

int service_put_text(struct sbx *x, const char *key, const char *s, uint64_t n)
{
	PUT(cbor_put_string(&c->w, s, n));
}

int service_put_blob(struct sbx *x, const char *key, const void *p, uint64_t n)
{
	PUT(cbor_put_bytes(&c->w, p, n));
}

int service_put_val(struct sbx *x, const char *key, struct sbx_val v)
{
	struct context *c = (struct context *)x;

	if (begin_item(c, key) != 0)
		return -1;
	if (val_write(v, &c->w, c->depth) == 0)
		return 0;
	context_fail(c, "bad_value", "%.80s: there is no value to put", key != NULL ? key : "an item");
	return -1;
}

int service_open(struct sbx *x, const char *key, enum sbx_type list_or_dict)
{
	struct context *c = (struct context *)x;
	bool is_map = list_or_dict == SBX_DICT;

	if (begin_item(c, key) != 0)
		return -1;
	if (!is_map && list_or_dict != SBX_LIST) {
		context_fail(c, "bad_reply", "only a list or a dict can be opened");
		return -1;
	}
	if (c->depth > LIMIT_VALUE_DEPTH) {
		c->too_deep = !c->failed;
		context_fail(c, "too_deep", "lists and dicts nest at most %d deep", LIMIT_VALUE_DEPTH);
		return -1;
	}
	c->levels[c->depth].mark = cbor_put_open(&c->w, is_map ? CBOR_MAP : CBOR_ARRAY);
	c->levels[c->depth].items = 0;
	c->levels[c->depth++].is_map = is_map;
	return 0;
}

int service_close(struct sbx *x)
{
	struct context *c = (struct context *)x;

	if (c->failed)
		return -1;
	if (c->depth <= 1) {
		context_fail(c, "bad_reply", "sbx_close without an open list or dict");
		return -1;
	}
	c->depth--;
	cbor_set_length(&c->w, c->levels[c->depth].mark, c->levels[c->depth].items);
	return 0;
}
