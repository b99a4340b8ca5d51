/* SPDX-License-Identifier: MIT
 *
 * The front without I/O for the fuzz targets: a table of handlers that ask for every parameter of their method and check it
 * against its row, and a look at each reply. */
#ifndef SANDBOXD_FUZZ_FRONT_H
#define SANDBOXD_FUZZ_FRONT_H

#include <sys/queue.h>

#include "daemon/front/rpc.h"
#include "daemon/front/rpc_peer.h"
#include "proto/names.h"
#include "tests/fuzz/fuzz.h"

static struct control front_control;
static struct rpc_user front_user;
static struct rpc_peer front_peer;
static struct rpc_request *front_kept[64];
static size_t front_n_kept;

static void front_param(const struct rpc_request *r, const struct method_param *p)
{
	struct json_span v = rpc_param(r, p->name);
	const char *text = rpc_params_is_text(p->kind) ? rpc_text(r, p->name) : NULL;
	int64_t n;

	FUZZ_MUST(!p->required || v.at != NULL);
	FUZZ_MUST(!rpc_params_is_text(p->kind) || (text != NULL) == (v.at != NULL));
	if (v.at == NULL)
		return;
	switch (p->kind) {
	case PARAM_ID:
		FUZZ_MUST(name_is_id(text, strlen(text)));
		break;
	case PARAM_TEXT:
		FUZZ_MUST(strlen(text) <= (size_t)p->max);
		break;
	case PARAM_INTEGER:
		n = rpc_integer(r, p->name, INT64_MIN);
		FUZZ_MUST(n >= p->min && n <= p->max);
		break;
	case PARAM_BOOL:
		FUZZ_MUST(rpc_bool(r, p->name, true) == rpc_bool(r, p->name, false));
		break;
	case PARAM_CHOICE:
		FUZZ_MUST(strchr(text, '|') == NULL && strstr(p->choices, text) != NULL);
		break;
	case PARAM_OBJECT:
		FUZZ_MUST(json_type(v) == '{');
		break;
	case PARAM_ANY:
		FUZZ_MUST(json_type(v) != 0);
		break;
	case PARAM_SHA256:
		FUZZ_MUST(name_is_sha256(text, strlen(text)));
		break;
	case PARAM_SOURCE_NAME:
		FUZZ_MUST(name_is_source_file(text, strlen(text)));
		break;
	case PARAM_FUNCTION:
		FUZZ_MUST(name_is_function(text, strlen(text)));
		break;
	case PARAM_BASE64:
		FUZZ_MUST(json_type(v) == '"');
		break;
	}
}

static const struct rpc_done *front_handle(struct control *c, struct rpc_request *r)
{
	const struct method *m = rpc_method(r);

	FUZZ_MUST(c == &front_control);
	for (size_t i = 0; i < method_n_params(m); i++)
		front_param(r, &m->params[i]);
	if (m == &methods[METHOD_SANDBOX_CALL] && front_n_kept < sizeof front_kept / sizeof front_kept[0]) {
		front_kept[front_n_kept++] = r;
		return rpc_pending(r);
	}
	return rpc_result_raw(r, "{}", 2);
}

#define X(NAME, text) [METHOD_##NAME] = front_handle,
rpc_handler *const rpc_handlers[METHOD__N] = {
#include "proto/methods.def"
};
#undef X

static void front_reply(struct json_span v)
{
	struct json_span error = json_get(v, "error");

	FUZZ_MUST(json_type(v) == '{' && json_string_is(json_get(v, "jsonrpc"), "2.0") && json_get(v, "id").at != NULL);
	FUZZ_MUST((error.at != NULL) != (json_get(v, "result").at != NULL));
	if (error.at) {
		FUZZ_MUST(json_type(json_get(error, "code")) == 'i' && json_type(json_get(error, "message")) == '"');
		FUZZ_MUST(json_type(json_get(json_get(error, "data"), "code")) == '"');
	}
}

/* Each line is one reply, or one array of replies. */
static void front_replies(struct buf *out)
{
	char *at = buf_text(out), *end;

	FUZZ_MUST(!out->failed);
	for (; *at; at = end + 1) {
		struct json_span v = { at, 0 }, key, item;

		end = strchr(at, '\n');
		FUZZ_MUST(end != NULL);
		v.size = (size_t)(end - at);
		fuzz_is_json(v.at, v.size);
		if (json_type(v) != '[') {
			front_reply(v);
			continue;
		}
		for (struct json_iter it = json_iter_begin(v); json_iter_next(&it, &key, &item);)
			front_reply(item);
	}
	buf_clear(out);
}

/* One line from a client of these rights; what it left pending is answered, or its peer goes away first. */
static void front_line(const char *line, size_t size, enum rights_level rights, bool peer_goes)
{
	char *copy = fuzz_exact(line, size);

	front_control.begin.daemon_uid = 990;
	front_user.uid = 1000;
	front_n_kept = 0;
	rpc_peer_init(&front_peer, 7, &front_user, rights, NULL);
	rpc_line(&front_control, &front_peer, copy, size);
	free(copy);
	front_replies(&front_peer.out);
	if (peer_goes)
		rpc_peer_fini(&front_peer);
	for (size_t i = 0; i < front_n_kept; i++)
		(void)rpc_result_raw(front_kept[i], "{\"a\":[]}", 8);
	if (peer_goes)
		return;
	FUZZ_MUST(front_peer.in_flight == 0 && LIST_EMPTY(&front_peer.requests));
	front_replies(&front_peer.out);
	rpc_peer_fini(&front_peer);
}

#endif
