/* SPDX-License-Identifier: MIT
 *
 * Lines to requests to handlers, and what handlers ask a request. A line is judged where it lies in the connection's
 * buffer; only a request that is good and allowed is copied, in one allocation: the struct, its line, its decoded
 * texts. The bytes are never parsed into a tree: parameters are spans. */
#include "daemon/front/rpc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/front/rpc_envelope.h"
#include "daemon/front/rpc_key.h"
#include "daemon/front/rpc_peer.h"
#include "daemon/front/rpc_stream.h"
#include "daemon/front/uploads.h"
#include "proto/limits.h"

#define REQUEST_MAGIC      0x72657131u
#define BATCH_ERRORS_BYTES (2u << 20) /* beyond LIMIT_REPLY_BYTES: errors without extra members, whose ids came in one line */

/* ---- peers ---- */

void rpc_peer_init(struct rpc_peer *p, uint64_t number, struct rpc_user *user, enum rights_level rights,
	void (*answered)(struct rpc_peer *p))
{
	*p = (struct rpc_peer){ .number = number, .user = user, .rights = rights, .answered = answered };
	LIST_INIT(&p->requests);
	TAILQ_INIT(&p->streams);
	buf_init(&p->out, LIMIT_CONNECTION_OUT_BYTES);
}

void rpc_peer_fini(struct rpc_peer *p)
{
	struct rpc_request *r;

	while ((r = LIST_FIRST(&p->requests))) {
		rpc_request_leave(r);
		if (r->batch) {
			r->batch->peer = NULL;
			buf_fini(&r->batch->replies);
		}
		if (r->gone && !r->outcome)
			r->gone(r->gone_ctx, r); /* may free it */
	}
	p->batch_bytes = 0;
	rpc_streams_end(p);
	uploads_drop(&p->uploads);
	buf_fini(&p->out);
}

/* ---- refusals ---- */

static void refuse(struct rpc_peer *p, struct rpc_batch *b, struct json_span id, const struct err *e)
{
	struct buf *to = rpc_reply_begin(p, b);

	rpc_write_error(to, id, e, NULL);
	rpc_reply_end(p, b);
}

void rpc_refuse(struct rpc_peer *p, const struct err *e)
{
	refuse(p, NULL, rpc_null, e);
}

static int refuse_method(struct json_span method, int64_t offset, const char *nearest, struct err *e)
{
	char name[64];

	if (json_string(method, name, sizeof(name)) < 0)
		(void)snprintf(name, sizeof(name), "?"); /* too long to be one, or to be shown */
	if (nearest)
		err_set(e, ERR_UNKNOWN_METHOD, "there is no method '%s'; did you mean '%s'?", name, nearest);
	else
		err_set(e, ERR_UNKNOWN_METHOD, "there is no method '%s'", name);
	err_about(e, name, offset);
	if (nearest)
		(void)snprintf(e->nearest, sizeof(e->nearest), "%s", nearest);
	return -1;
}

/* ---- the way in ---- */

static int find_method(struct json_span name, int64_t offset, const struct method **ret, struct err *e)
{
	const char *nearest = NULL;
	char copy[64];
	int64_t size = (int64_t)name.size - 2;

	if (!memchr(name.at, '\\', name.size)) {
		*ret = method_find(name.at + 1, (size_t)size, NULL);
	} else {
		size = json_string(name, copy, sizeof(copy));
		*ret = size >= 0 ? method_find(copy, (size_t)size, NULL) : NULL;
	}
	if (*ret)
		return 0;
	size = json_string(name, copy, sizeof(copy));
	if (size >= 0)
		(void)method_find(copy, (size_t)size, &nearest);
	return refuse_method(name, offset, nearest, e);
}

static bool runs_at_shutdown(enum method_id id)
{
	return id == METHOD_DAEMON_PING || id == METHOD_DAEMON_INFO || id == METHOD_DAEMON_SHUTDOWN;
}

/* May this peer run it, now? */
static int check_allowed(const struct control *c, const struct rpc_peer *p, const struct method *m, struct err *e)
{
	if (!rights_allow(p->rights, m->right)) {
		err_set(e, ERR_DENIED, "%s needs the right '%s'; uid %lu has '%s'", m->name, rights_needed_text(m->right),
			(unsigned long)p->user->uid, rights_text(p->rights));
		return err_about(e, rights_needed_text(m->right), -1);
	}
	if (c->shutting_down && !runs_at_shutdown(method_id_of(m)))
		return err_set(e, ERR_SHUTTING_DOWN, "%s: the daemon is shutting down", m->name);
	return 0;
}

static struct json_span moved(struct json_span s, const char *from, const char *to)
{
	return s.at ? (struct json_span){ to + (s.at - from), s.size } : s;
}

/* Takes a good request over: from here on its bytes are its own. */
static struct rpc_request *request_new(struct rpc_peer *p, struct rpc_batch *b, const struct method *m,
	struct json_span id, const struct rpc_params *params, const char *text, size_t size)
{
	size_t bytes = sizeof(struct rpc_request) + size + params->text_bytes;
	struct rpc_request *r = malloc(bytes);
	char *texts;

	if (!r)
		return NULL;
	*r = (struct rpc_request){ .magic = REQUEST_MAGIC, .peer = p, .batch = b, .method = m, .connection = p->number,
		.uid = p->user->uid, .rights = p->rights, .user = p->user, .bytes = bytes };
	p->user->request_bytes += bytes;
	memcpy(r->line, text, size);
	r->id = moved(id, text, r->line);
	texts = r->line + size;
	for (size_t i = 0; i < METHOD_MAX_PARAMS && m->params[i].name; i++) {
		struct json_span v = moved(params->values[i], text, r->line);

		r->params.values[i] = v;
		if (!v.at || !rpc_params_is_text(m->params[i].kind))
			continue;
		r->texts[i] = texts;
		if (!memchr(v.at, '\\', v.size)) {
			memcpy(texts, v.at + 1, v.size - 2);
			texts[v.size - 2] = '\0';
		} else if (json_string(v, texts, v.size) < 0) {
			*texts = '\0'; /* can't be: decoding makes nothing longer */
		}
		texts += v.size;
	}
	LIST_INSERT_HEAD(&p->requests, r, link);
	p->in_flight++;
	if (b)
		b->n_open++;
	return r;
}

void rpc_request_check(const struct rpc_request *r)
{
	assert(r && r->magic == REQUEST_MAGIC);
}

void rpc_request_leave(struct rpc_request *r)
{
	if (!r->peer)
		return;
	LIST_REMOVE(r, link);
	r->peer->in_flight--;
	r->peer = NULL;
}

struct rpc_request *rpc_request_bare(const struct method *m, uid_t uid, const char *text)
{
	size_t size = strlen(text) + 1;
	struct rpc_request *r = calloc(1, sizeof(*r) + size);

	if (!r)
		return NULL;
	r->magic = REQUEST_MAGIC;
	r->method = m;
	r->uid = uid;
	memcpy(r->line, text, size);
	return r;
}

void rpc_request_free(struct rpc_request *r)
{
	struct rpc_user *user = r->user;

	rpc_request_leave(r);
	if (user)
		user->request_bytes -= r->bytes;
	r->magic = 0;
	free(r);
	if (user && user->left)
		user->left(user);
}

void rpc_run(struct control *c, struct rpc_request *r)
{
	const struct rpc_done *done;

	r->control = c;
	done = rpc_key_enter(c, r);
	if (!done)
		done = rpc_handlers[method_id_of(r->method)](c, r);
	assert(done);
	(void)done;
}

/* Large ones of a user who has too much unanswered wait with their sender, not here. */
static int check_memory(const struct rpc_peer *p, const struct method *m, size_t size, struct err *e)
{
	uint64_t held = p->user->request_bytes + p->user->partial_bytes;

	if (size <= LIMIT_SMALL_REQUEST_BYTES || held + size <= LIMIT_REQUEST_BYTES_PER_UID)
		return 0;
	return err_set(e, ERR_BUSY, "%s: uid %lu has %llu bytes of unanswered requests and half lines, and at most %u", m->name,
		(unsigned long)p->user->uid, (unsigned long long)held, LIMIT_REQUEST_BYTES_PER_UID);
}

/* One request, alone or of a batch. Offsets count from the start of its line. */
static void run(struct control *c, struct rpc_peer *p, struct rpc_batch *b, const char *line, struct json_span text)
{
	struct rpc_envelope envelope;
	struct rpc_params params;
	struct rpc_request *r;
	const struct method *m;
	struct err e;

	if (rpc_envelope_read(text.at, text.size, &envelope, &e) == -1) {
		if (e.offset >= 0)
			e.offset += text.at - line;
		refuse(p, b, envelope.id, &e);
		return;
	}
	if (find_method(envelope.method, envelope.method.at - line, &m, &e) == -1 || check_allowed(c, p, m, &e) == -1 ||
		rpc_params_check(m, &envelope, line, &params, &e) == -1 ||
		check_memory(p, m, text.size + params.text_bytes, &e) == -1) {
		if (e.code == ERR_DENIED && c->acted)
			c->acted(c, &(struct rpc_act){ .method = m, .uid = p->user->uid, .e = &e });
		if (envelope.id.at)
			refuse(p, b, envelope.id, &e);
		return;
	}
	r = request_new(p, b, m, envelope.id, &params, text.at, text.size);
	if (!r) {
		err_set(&e, ERR_INTERNAL, "%s: no memory for the request", m->name);
		if (envelope.id.at)
			refuse(p, b, envelope.id, &e);
		return;
	}
	rpc_run(c, r);
}

/* ---- batches ---- */

static struct rpc_batch *batch_new(struct rpc_peer *p)
{
	struct rpc_batch *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct rpc_batch){ .n_open = 1, .peer = p };
	buf_init(&b->replies, LIMIT_REPLY_BYTES + BATCH_ERRORS_BYTES);
	return b;
}

void rpc_batch_release(struct rpc_batch *b)
{
	struct buf *to;

	if (--b->n_open > 0)
		return;
	if (b->peer && (b->replies.size > 0 || b->replies.failed)) {
		to = rpc_reply_begin(b->peer, NULL);
		buf_add_char(to, '[');
		buf_add(to, b->replies.data, b->replies.size);
		buf_add_char(to, ']');
		if (b->replies.failed)
			to->failed = true;
		b->peer->batch_bytes -= b->counted;
		rpc_reply_end(b->peer, NULL);
	}
	buf_fini(&b->replies);
	free(b);
}

static int batch_check(const char *line, size_t size, struct err *e)
{
	struct json_iter it = json_iter_begin((struct json_span){ line, size });
	struct json_span key, item;
	size_t n = 0;

	if (json_check(line, size, e) != 0)
		return -1;
	while (n <= LIMIT_IN_FLIGHT && json_iter_next(&it, &key, &item))
		n++;
	if (n == 0)
		return err_set(e, ERR_INVALID_REQUEST, "a batch has at least one request");
	if (n > LIMIT_IN_FLIGHT)
		return err_set(e, ERR_INVALID_REQUEST, "a batch has at most %d requests", LIMIT_IN_FLIGHT);
	return 0;
}

static void run_batch(struct control *c, struct rpc_peer *p, const char *line, size_t size)
{
	struct json_iter it = json_iter_begin((struct json_span){ line, size });
	struct json_span key, item;
	struct rpc_batch *b;
	struct err e;

	if (batch_check(line, size, &e) == -1) {
		rpc_refuse(p, &e);
		return;
	}
	b = batch_new(p);
	if (!b) {
		err_set(&e, ERR_INTERNAL, "no memory for a batch");
		rpc_refuse(p, &e);
		return;
	}
	while (json_iter_next(&it, &key, &item))
		run(c, p, b, line, item);
	rpc_batch_release(b);
}

void rpc_line(struct control *c, struct rpc_peer *p, const char *line, size_t size)
{
	size_t at = 0;

	while (at < size && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r'))
		at++;
	if (at < size && line[at] == '[')
		run_batch(c, p, line, size);
	else
		run(c, p, NULL, line, (struct json_span){ line, size });
}

/* ---- what handlers ask ---- */

uid_t rpc_uid(const struct rpc_request *r)
{
	return r->uid;
}

bool rpc_is_admin(const struct rpc_request *r)
{
	return r->rights == RIGHTS_ADMIN;
}

bool rpc_may_see(const struct rpc_request *r, uid_t owner)
{
	return r->rights == RIGHTS_ADMIN || r->uid == owner;
}

const char *rpc_right(const struct rpc_request *r)
{
	return rights_text(r->rights);
}

const struct method *rpc_method(const struct rpc_request *r)
{
	return r->method;
}

/* A name that the method doesn't have is a bug of its handler. */
static size_t row_of(const struct rpc_request *r, const char *name)
{
	size_t i = 0;

	rpc_request_check(r);
	while (i < METHOD_MAX_PARAMS && r->method->params[i].name && strcmp(r->method->params[i].name, name) != 0)
		i++;
	assert(i < METHOD_MAX_PARAMS && r->method->params[i].name);
	return i;
}

struct json_span rpc_param(const struct rpc_request *r, const char *name)
{
	return r->params.values[row_of(r, name)];
}

const char *rpc_text(const struct rpc_request *r, const char *name)
{
	return r->texts[row_of(r, name)];
}

int64_t rpc_integer(const struct rpc_request *r, const char *name, int64_t otherwise)
{
	int64_t value = otherwise;

	(void)json_i64(rpc_param(r, name), &value); /* absent: stays */
	return value;
}

bool rpc_bool(const struct rpc_request *r, const char *name, bool otherwise)
{
	bool value = otherwise;

	(void)json_bool(rpc_param(r, name), &value);
	return value;
}

struct blob *rpc_upload(const struct rpc_request *r, const char *sha256)
{
	return r->peer ? uploads_find(&r->peer->uploads, sha256) : NULL;
}

uint64_t rpc_connection(const struct rpc_request *r)
{
	return r->connection;
}

bool rpc_is_gone(const struct rpc_request *r)
{
	return !r->peer;
}

void rpc_on_gone(struct rpc_request *r, void (*gone)(void *ctx, struct rpc_request *r), void *ctx)
{
	rpc_request_check(r);
	r->gone = gone;
	r->gone_ctx = ctx;
}
