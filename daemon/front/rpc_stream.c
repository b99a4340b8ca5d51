/* SPDX-License-Identifier: MIT
 *
 * Notifications of a connection. The bound is the connection's: while LIMIT_STREAM_QUEUE_BYTES of it are unsent none of its streams
 * has room, however many there are; so a client that doesn't read costs that much and no more. */
#include "daemon/front/rpc_stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/front/rpc_peer.h"
#include "proto/json_out.h"
#include "proto/limits.h"

#define STREAM_MAGIC 0x7374726du

struct rpc_stream {
	uint32_t magic;
	struct rpc_peer *peer;
	uint64_t number;
	const char *method;
	const struct rpc_stream_owner *owner;
	void *ctx;
	bool is_blocked; /* its owner was told that there is no room */
	TAILQ_ENTRY(rpc_stream) link;
};

static void check(const struct rpc_stream *s)
{
	assert(s && s->magic == STREAM_MAGIC);
}

struct rpc_stream *rpc_stream_open(struct rpc_request *r, const char *method, const struct rpc_stream_owner *owner, void *ctx,
	struct err *e)
{
	struct rpc_peer *p = r->peer;
	struct rpc_stream *s = NULL;

	rpc_request_check(r);
	if (!p || !r->id.at || r->batch)
		err_set(e, ERR_BAD_PARAM, "follow needs a request of its own: not one of a batch, nor one without an id");
	else if (p->n_streams >= LIMIT_STREAMS_PER_CONNECTION)
		err_set(e, ERR_LIMIT_EXCEEDED, "this connection has %d subscriptions already; stream.end ends one",
			LIMIT_STREAMS_PER_CONNECTION);
	else if (!(s = calloc(1, sizeof(*s))))
		err_set(e, ERR_INTERNAL, "no memory for a subscription");
	if (!s)
		return NULL;
	*s = (struct rpc_stream){ .magic = STREAM_MAGIC, .peer = p, .number = ++p->last_stream, .method = method,
		.owner = owner, .ctx = ctx };
	p->n_streams++;
	TAILQ_INSERT_TAIL(&p->streams, s, link);
	return s;
}

uint64_t rpc_stream_number(const struct rpc_stream *s)
{
	check(s);
	return s->number;
}

bool rpc_stream_has_room(struct rpc_stream *s)
{
	check(s);
	if (s->peer->out.size + s->peer->unsent < LIMIT_STREAM_QUEUE_BYTES)
		return true;
	s->is_blocked = true;
	return false;
}

void rpc_stream_send(struct rpc_stream *s, const char *members, size_t size)
{
	struct buf *to = &s->peer->out;

	check(s);
	buf_printf(to, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{\"subscription\":%llu", s->method,
		(unsigned long long)s->number);
	if (size > 0)
		buf_add_char(to, ',');
	buf_add(to, members, size);
	buf_add(to, "}}\n", 3);
	if (s->peer->answered)
		s->peer->answered(s->peer);
}

void rpc_stream_close(struct rpc_stream *s)
{
	check(s);
	TAILQ_REMOVE(&s->peer->streams, s, link);
	s->peer->n_streams--;
	s->magic = 0;
	free(s);
}

/* The owner is told last: it may free what it has. */
static void end(struct rpc_stream *s)
{
	const struct rpc_stream_owner *owner = s->owner;
	void *ctx = s->ctx;

	rpc_stream_close(s);
	owner->ended(ctx);
}

bool rpc_streams_pump(struct rpc_peer *p)
{
	struct rpc_stream *s = TAILQ_FIRST(&p->streams), *next;

	if (s) { /* another one goes first each time */
		TAILQ_REMOVE(&p->streams, s, link);
		TAILQ_INSERT_TAIL(&p->streams, s, link);
	}
	for (s = TAILQ_FIRST(&p->streams); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!s->is_blocked)
			continue;
		s->is_blocked = false;
		s->owner->writable(s->ctx);
	}
	return p->out.size > 0;
}

void rpc_streams_end(struct rpc_peer *p)
{
	struct rpc_stream *s;

	while ((s = TAILQ_FIRST(&p->streams)))
		end(s); /* NOLINT(clang-analyzer-unix.Malloc): takes it out of the list, which the analyser doesn't see */
}

const struct rpc_done *rpc_stream_end(struct control *c, struct rpc_request *r)
{
	uint64_t number = (uint64_t)rpc_integer(r, "subscription", 0);
	struct rpc_stream *s = NULL;
	struct err e = ERR_INIT;
	char text[64];
	int n;

	(void)c;
	if (r->peer)
		TAILQ_FOREACH(s, &r->peer->streams, link)
			if (s->number == number)
				break;
	if (!s) {
		err_set(&e, ERR_NOT_FOUND, "this connection has no subscription %llu", (unsigned long long)number);
		return rpc_error(r, &e, NULL);
	}
	end(s);
	n = snprintf(text, sizeof(text), "{\"subscription\":%llu,\"ended\":true}", (unsigned long long)number);
	return rpc_result_raw(r, text, (size_t)n);
}
