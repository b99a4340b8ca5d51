/* SPDX-License-Identifier: MIT
 *
 * The scanner's events of one request, sorted: members of the envelope, members of params, everything deeper only passes.
 * Judged is after the scan, so that text that isn't JSON is always called so. */
#include "daemon/front/rpc_envelope.h"

#include <stdio.h>
#include <string.h>

#include "proto/names.h"

const struct json_span rpc_null = { "null", 4 };

enum member { MEMBER_JSONRPC, MEMBER_METHOD, MEMBER_ID, MEMBER_PARAMS, MEMBER__N };

static const char *const member_names[MEMBER__N] = { "jsonrpc", "method", "id", "params" };

struct reading {
	struct rpc_envelope *to;
	struct json_span members[MEMBER__N];
	struct json_span unknown;        /* the first key that isn't a member's */
	enum member member;              /* whose value is being scanned; MEMBER__N: an unknown one's */
	bool is_object, params_is_object;
	int depth;
	const char *member_from, *param_from;
};

static void note_member(struct reading *r, struct json_span key)
{
	for (r->member = MEMBER_JSONRPC; r->member < MEMBER__N; r->member++)
		if (json_string_is(key, member_names[r->member]))
			return;
	if (!r->unknown.at)
		r->unknown = key;
}

static void note_member_value(struct reading *r, struct json_span value)
{
	if (r->member < MEMBER__N)
		r->members[r->member] = value;
}

static void note_param_value(struct reading *r, struct json_span value)
{
	if (r->to->n_params < RPC_ENVELOPE_PARAMS)
		r->to->values[r->to->n_params++] = value;
}

static bool in_params(const struct reading *r)
{
	return r->depth == 2 && r->member == MEMBER_PARAMS && r->params_is_object;
}

static void note_begin(struct reading *r, bool is_object, const char *at)
{
	if (r->depth == 0) {
		r->is_object = is_object;
	} else if (r->depth == 1) {
		r->member_from = at;
		if (r->member == MEMBER_PARAMS)
			r->params_is_object = is_object;
	} else if (in_params(r)) {
		r->param_from = at;
	}
	r->depth++;
}

static void note_end(struct reading *r, const char *behind)
{
	r->depth--;
	if (r->depth == 1)
		note_member_value(r, (struct json_span){ r->member_from, (size_t)(behind - r->member_from) });
	else if (in_params(r))
		note_param_value(r, (struct json_span){ r->param_from, (size_t)(behind - r->param_from) });
}

static int note(void *ctx, enum json_event event, struct json_span span)
{
	struct reading *r = ctx;

	switch (event) {
	case JSON_OBJECT_BEGIN:
	case JSON_ARRAY_BEGIN:
		note_begin(r, event == JSON_OBJECT_BEGIN, span.at);
		return 0;
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		note_end(r, span.at + span.size);
		return 0;
	case JSON_KEY:
		if (r->depth == 1 && r->is_object)
			note_member(r, span);
		else if (in_params(r) && r->to->n_params < RPC_ENVELOPE_PARAMS)
			r->to->names[r->to->n_params] = span;
		return 0;
	case JSON_STRING:
	case JSON_INTEGER:
	case JSON_NUMBER:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		if (r->depth == 1)
			note_member_value(r, span);
		else if (in_params(r))
			note_param_value(r, span);
		return 0;
	}
	return 0;
}

static int refuse(struct err *e, const char *name, int64_t offset, const char *text)
{
	err_set(e, ERR_INVALID_REQUEST, "%s", text);
	return err_about(e, name, offset);
}

static int refuse_unknown(struct err *e, struct json_span key, int64_t offset)
{
	char name[64] = "?";
	int near;

	if (json_string(key, name, sizeof(name)) < 0)
		(void)snprintf(name, sizeof(name), "?"); /* too long to be shown */
	near = name_nearest(name, member_names, MEMBER__N);
	err_set(e, ERR_INVALID_REQUEST, "'%s' isn't a member of a request", name);
	err_about(e, name, offset);
	if (near >= 0)
		(void)snprintf(e->nearest, sizeof(e->nearest), "%s", member_names[near]);
	return -1;
}

/* What the scan has found, judged. */
static int judge(const struct reading *r, const char *text, struct err *e)
{
	const struct json_span *m = r->members;
	char id_type = json_type(m[MEMBER_ID]);

	if (!r->is_object)
		return refuse(e, "", 0, "a request is an object (or a batch, an array of them)");
	if (id_type != 0 && id_type != '"' && id_type != 'i' && id_type != '0')
		return refuse(e, "id", m[MEMBER_ID].at - text, "the id must be a string, an integer or null");
	r->to->id = m[MEMBER_ID];
	if (r->unknown.at)
		return refuse_unknown(e, r->unknown, r->unknown.at - text);
	if (!json_string_is(m[MEMBER_JSONRPC], "2.0"))
		return refuse(e, "jsonrpc", m[MEMBER_JSONRPC].at ? m[MEMBER_JSONRPC].at - text : -1,
			"a request has \"jsonrpc\": \"2.0\"");
	if (json_type(m[MEMBER_METHOD]) != '"')
		return refuse(e, "method", m[MEMBER_METHOD].at ? m[MEMBER_METHOD].at - text : -1,
			"a request has a method, a string");
	if (m[MEMBER_PARAMS].at && !r->params_is_object) {
		err_set(e, ERR_BAD_PARAM, "params must be an object: parameters go by name");
		return err_about(e, "params", m[MEMBER_PARAMS].at - text);
	}
	r->to->method = m[MEMBER_METHOD];
	r->to->params = m[MEMBER_PARAMS];
	return 0;
}

int rpc_envelope_read(const char *text, size_t size, struct rpc_envelope *ret, struct err *e)
{
	struct reading r = { .to = ret, .member = MEMBER__N };

	ret->n_params = 0;
	ret->id = rpc_null;
	if (json_walk(text, size, note, &r, e) != 0)
		return -1;
	if (judge(&r, text, e) == -1) {
		if (!ret->id.at) /* refused requests are answered, even if they meant to be notifications */
			ret->id = rpc_null;
		return -1;
	}
	return 0;
}
