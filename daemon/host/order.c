/* SPDX-License-Identifier: MIT
 *
 * Strict: control writes these bodies, so anything unexpected is a difference between two programs of one
 * build. */
#include "daemon/host/order.h"

#include <stdio.h>
#include <string.h>

#include "daemon/host/zygote/walls.h"

/* A name is one of this host's objects; where they lie its birth knows. dlopen would search a relative path. */
static int parse_path(struct order *o, struct json_span value, struct err *e)
{
	char text[LIMIT_PATH_BYTES + 1];
	int64_t n = json_string(value, text, sizeof text);
	int size;

	if (n <= 0 || (strchr(text, '/') && text[0] != '/') || (text[0] != '/' && walls.objects[0] == '\0'))
		return err_set(e, ERR_BAD_PARAM, "path: neither an absolute path of at most %d bytes nor the name of an object",
			LIMIT_PATH_BYTES);
	size = text[0] == '/' ? snprintf(o->path, sizeof o->path, "%s", text) :
				snprintf(o->path, sizeof o->path, "%s/%s", walls.objects, text);
	if (size < 0 || (size_t)size >= sizeof o->path)
		return err_set(e, ERR_BAD_PARAM, "path: longer than %d bytes with its folder", LIMIT_PATH_BYTES);
	return 0;
}

static int parse_member(
	struct order *o, enum order_kind kind, struct json_span key, struct json_span value, struct err *e)
{
	if (json_string_is(key, "path"))
		return parse_path(o, value, e);
	if (kind == ORDER_START && json_string_is(key, "config")) {
		if (json_type(value) != '0')
			o->config = value;
		return 0;
	}
	if (kind == ORDER_REHEARSE && json_string_is(key, "timeout_ms")) {
		uint64_t ms;

		if (!json_u64(value, &ms) || ms == 0 || ms > ORDER_TIMEOUT_MOST_MS)
			return err_set(e, ERR_BAD_PARAM, "timeout_ms: not 1 to %u", ORDER_TIMEOUT_MOST_MS);
		o->timeout_ms = (uint32_t)ms;
		return 0;
	}
	if (kind != ORDER_STAGE && json_string_is(key, "backwards")) {
		if (!json_bool(value, &o->backwards))
			return err_set(e, ERR_BAD_PARAM, "backwards: not true or false");
		return 0;
	}
	if (kind != ORDER_STAGE && json_string_is(key, "patch")) {
		if (json_type(value) != '{')
			return err_set(e, ERR_BAD_PARAM, "patch: not an object");
		o->patch = value;
		return 0;
	}
	return err_set(e, ERR_BAD_PARAM, "unknown key %.*s", (int)(key.size < 64 ? key.size : 64), key.at);
}

int order_parse(struct order *o, enum order_kind kind, const char *json, size_t size, struct err *e)
{
	struct json_span key, value, whole = { json, size };
	struct json_iter it;

	*o = (struct order){ .timeout_ms = DEFAULT_REHEARSE_TIMEOUT_MS };
	if (json_check(json, size, e) < 0)
		return err_prefix(e, "a message's body");
	if (json_type(whole) != '{')
		return err_set(e, ERR_BAD_PARAM, "a message's body isn't an object");
	for (it = json_iter_begin(whole); json_iter_next(&it, &key, &value);)
		if (parse_member(o, kind, key, value, e) < 0)
			return err_prefix(e, "a message's body");
	if (!o->path[0])
		return err_set(e, ERR_BAD_PARAM, "a message's body has no path");
	return 0;
}
