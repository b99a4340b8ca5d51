/* SPDX-License-Identifier: MIT
 *
 * Answers: written into the peer's (or the batch's) buffer, dropped in one place when nobody will read them.
 * The only file of the front that knows cJSON; its trees are written by our own printer, so that an integer within 2^53
 * leaves as one (cJSON would write 1e+15). */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "daemon/front/rpc.h"
#include "daemon/front/rpc_key.h"
#include "daemon/front/rpc_peer.h"
#include "proto/json_out.h"
#include "proto/limits.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53 */

/* The proof handed out is an address; it has no content. */
struct rpc_done {
	char nothing;
};

static const struct rpc_done done;

/* ---- trees ---- */

static void write_tree(struct json_out *o, const char *key, const cJSON *v, int depth);

static void write_members(struct json_out *o, const cJSON *container, int depth)
{
	for (const cJSON *v = container->child; v; v = v->next)
		write_tree(o, cJSON_IsObject(container) ? v->string : NULL, v, depth);
}

static void write_number(struct json_out *o, const char *key, double v)
{
	if (v == floor(v) && fabs(v) <= EXACT_MAX)
		json_out_i64(o, key, (int64_t)v);
	else
		json_out_f64(o, key, v);
}

static void write_tree(struct json_out *o, const char *key, const cJSON *v, int depth)
{
	if (depth > 2 * LIMIT_JSON_DEPTH) { /* no handler nests so deep: its bug must not become a stack overflow */
		o->to->failed = true;
		return;
	}
	if (cJSON_IsObject(v)) {
		json_out_object(o, key);
		write_members(o, v, depth + 1);
		json_out_object_end(o);
	} else if (cJSON_IsArray(v)) {
		json_out_array(o, key);
		write_members(o, v, depth + 1);
		json_out_array_end(o);
	} else if (cJSON_IsString(v)) {
		json_out_text(o, key, v->valuestring);
	} else if (cJSON_IsNumber(v)) {
		write_number(o, key, v->valuedouble);
	} else if (cJSON_IsBool(v)) {
		json_out_bool(o, key, cJSON_IsTrue(v));
	} else if (cJSON_IsRaw(v) && v->valuestring) {
		json_out_raw(o, key, v->valuestring, strlen(v->valuestring));
	} else {
		json_out_null(o, key);
	}
}

/* ---- replies ---- */

static struct json_out reply_begin(struct buf *to, struct json_span id)
{
	buf_add_text(to, "{\"jsonrpc\":\"2.0\",\"id\":");
	buf_add(to, id.at, id.size); /* byte for byte as it came */
	return (struct json_out){ to, true };
}

static void write_error_object(struct json_out *o, const char *key, const struct err *e, const cJSON *extra)
{
	const char *hint = err_code_hint(e->code);

	json_out_object(o, key);
	json_out_i64(o, "code", err_code_number(e->code));
	json_out_text(o, "message", e->text[0] ? e->text : err_code_text(e->code));
	json_out_object(o, "data");
	json_out_text(o, "code", err_code_text(e->code));
	if (hint[0])
		json_out_text(o, "hint", hint);
	if (e->name[0])
		json_out_text(o, "name", e->name);
	if (e->offset >= 0)
		json_out_i64(o, "offset", e->offset);
	if (e->nearest[0])
		json_out_text(o, "nearest", e->nearest);
	if (extra)
		write_members(o, extra, 0);
	json_out_object_end(o);
	json_out_object_end(o);
}

void rpc_write_error(struct buf *to, struct json_span id, const struct err *e, const cJSON *extra)
{
	struct json_out o = reply_begin(to, id);

	write_error_object(&o, "error", e, extra);
	json_out_object_end(&o);
}

struct buf *rpc_reply_begin(struct rpc_peer *p, struct rpc_batch *b)
{
	if (!b)
		return &p->out;
	if (b->replies.size > 0)
		buf_add_char(&b->replies, ',');
	return &b->replies;
}

void rpc_reply_end(struct rpc_peer *p, struct rpc_batch *b)
{
	if (b) {
		p->batch_bytes += b->replies.size - b->counted;
		b->counted = b->replies.size;
		return;
	}
	buf_add_char(&p->out, '\n');
	if (p->answered)
		p->answered(p);
}

/* Where the answer goes, and where it begins there. */
struct place {
	struct buf *to; /* NULL: nobody waits for one. This is where replies to closed connections end. */
	size_t at;
};

static struct place answer_begin(struct rpc_request *r)
{
	struct place w = { 0 };

	rpc_request_check(r);
	if (r->peer && r->id.at) {
		w.to = rpc_reply_begin(r->peer, r->batch);
		w.at = w.to->failed ? SIZE_MAX : w.to->size;
	}
	return w;
}

/* An answer that makes its line too long is taken back, and an error without extra members takes its place; for that there is
 * always room, as a connection takes no more requests long before. e: this error; NULL: reply_too_large. */
static void answer_fit(struct rpc_request *r, struct place w, const struct err *e)
{
	size_t line_at = r->batch ? 0 : w.at;
	struct err too_large;

	if (!w.to || w.at == SIZE_MAX || (!w.to->failed && w.to->size - line_at <= LIMIT_REPLY_BYTES))
		return;
	if (w.to->failed && !r->batch && w.to->ceiling - w.at < LIMIT_REPLY_BYTES)
		return; /* not the reply is too long, but too much is unread */
	w.to->size = w.at;
	w.to->failed = false;
	err_set(&too_large, ERR_REPLY_TOO_LARGE, "%s: %s more than %u bytes", r->method->name,
		r->batch ? "with its reply, that to the batch would have" : "its reply has", LIMIT_REPLY_BYTES);
	rpc_write_error(w.to, r->id, e ? e : &too_large, NULL);
}

static const struct rpc_done *answer_end(struct rpc_request *r, bool is_written)
{
	struct rpc_peer *p = r->peer;
	struct rpc_batch *b = r->batch;

	if (is_written)
		rpc_reply_end(p, b);
	rpc_request_free(r);
	if (b)
		rpc_batch_release(b);
	if (p && p->answered) /* in_flight has fallen: reading may go on */
		p->answered(p);
	return &done;
}

static void tell(const struct rpc_request *r, const struct err *e)
{
	struct control *c = r->control;

	if (!c || !c->acted || (!e && !method_is_change(r->method)))
		return;
	c->acted(c, &(struct rpc_act){ .method = r->method, .id = method_has_param(r->method, "id") ? rpc_text(r, "id") : NULL, .uid = r->uid,
		.is_admin = rpc_is_admin(r), .e = e });
}

const struct rpc_done *rpc_result(struct rpc_request *r, cJSON *result_take)
{
	struct place w;
	struct err e;

	if (!result_take) {
		err_set(&e, ERR_INTERNAL, "%s: no memory for the result", r->method->name);
		return rpc_error(r, &e, NULL);
	}
	tell(r, NULL);
	if (r->outcome) { /* its bytes are kept before anybody sees them */
		struct buf b = BUF_INIT;
		struct json_out o = json_out_to(&b);

		write_tree(&o, NULL, result_take, 0);
		rpc_key_answered(r, false, buf_text(&b), b.size);
		buf_fini(&b);
	}
	w = answer_begin(r);
	if (w.to) {
		struct json_out o = reply_begin(w.to, r->id);

		write_tree(&o, "result", result_take, 0);
		json_out_object_end(&o);
	}
	cJSON_Delete(result_take);
	answer_fit(r, w, NULL);
	return answer_end(r, w.to != NULL);
}

const struct rpc_done *rpc_result_raw(struct rpc_request *r, const char *json, size_t size)
{
	struct place w;

	tell(r, NULL);
	rpc_key_answered(r, false, json, size);
	w = answer_begin(r);
	if (w.to) {
		struct json_out o = reply_begin(w.to, r->id);

		json_out_raw(&o, "result", json, size);
		json_out_object_end(&o);
	}
	answer_fit(r, w, NULL);
	return answer_end(r, w.to != NULL);
}

const struct rpc_done *rpc_error_raw(struct rpc_request *r, const char *error, size_t size)
{
	struct place w = answer_begin(r);

	if (w.to) {
		struct json_out o = reply_begin(w.to, r->id);

		json_out_raw(&o, "error", error, size);
		json_out_object_end(&o);
	}
	answer_fit(r, w, NULL);
	return answer_end(r, w.to != NULL);
}

struct rpc_request *rpc_error_early(struct rpc_request *r, const struct err *e, cJSON *extra_take)
{
	struct rpc_peer *p = r->peer;
	struct rpc_batch *b = r->batch;
	struct place w;

	if (!r->outcome) {
		(void)rpc_error(r, e, extra_take);
		return NULL;
	}
	w = answer_begin(r);
	if (w.to) {
		rpc_write_error(w.to, r->id, e, extra_take);
		answer_fit(r, w, e);
		rpc_reply_end(p, b);
	}
	cJSON_Delete(extra_take);
	rpc_request_leave(r);
	r->batch = NULL;
	if (b)
		rpc_batch_release(b);
	if (p && p->answered)
		p->answered(p);
	return r;
}

const struct rpc_done *rpc_error(struct rpc_request *r, const struct err *e, cJSON *extra_take)
{
	struct place w;

	tell(r, e);
	if (r->outcome) {
		struct buf b = BUF_INIT;
		struct json_out o = json_out_to(&b);

		write_error_object(&o, NULL, e, extra_take);
		rpc_key_answered(r, true, buf_text(&b), b.size);
		buf_fini(&b);
	}
	w = answer_begin(r);
	if (w.to)
		rpc_write_error(w.to, r->id, e, extra_take);
	cJSON_Delete(extra_take);
	answer_fit(r, w, e);
	return answer_end(r, w.to != NULL);
}

const struct rpc_done *rpc_pending(struct rpc_request *r)
{
	rpc_request_check(r);
	r->is_begun = true;
	return &done;
}
