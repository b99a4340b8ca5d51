/* SPDX-License-Identifier: MIT
 *
 * event.read and audit.read. With follow the first page is the answer; what has happened since the page's end is read page by page, as fast as the
 * client reads; from there on each event is told when it happens, or counted as dropped while the client doesn't read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/control/handlers.h"
#include "daemon/observe/audit.h"
#include "daemon/observe/events.h"
#include "proto/json_out.h"
#include "proto/log.h"

#define CATCH_UP_PAGE 64 /* events; less than LIMIT_STREAM_QUEUE_BYTES, mostly */

struct event_follow {
	struct event_followers *of;
	struct rpc_request *request;  /* the first page isn't read yet */
	struct rpc_stream *stream;    /* NULL: not asked for, or ended */
	struct events_read page;
	bool is_reading, is_live;
	uint64_t dropped;
	LIST_ENTRY(event_follow) link; /* while it is live */
};

/* Those of one stream. */
struct event_followers {
	struct events *events;
	LIST_HEAD(, event_follow) live;
};

static void catch_up(struct event_follow *f);

static void follow_free(struct event_follow *f)
{
	if (f->is_live)
		LIST_REMOVE(f, link);
	if (f->stream)
		rpc_stream_close(f->stream);
	free(f);
}

/* ---- notifications ---- */

static void send_number(struct event_follow *f, const char *key, uint64_t n)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "\"%s\":%llu", key, (unsigned long long)n);
	rpc_stream_send(f->stream, text, strlen(text));
}

static void send_dropped(struct event_follow *f)
{
	if (f->dropped > 0)
		send_number(f, "dropped", f->dropped);
	f->dropped = 0;
}

/* An event is an object with members: its braces go. */
static void send_event(struct event_follow *f, const char *json, size_t size)
{
	rpc_stream_send(f->stream, json + 1, size - 2);
}

static void heard(void *ctx, const struct event_head *head, const char *json, size_t size)
{
	struct event_followers *of = ctx;
	struct event_follow *f;

	LIST_FOREACH(f, &of->live, link) {
		if (!event_filter_takes(&f->page.filter, head))
			continue;
		if (!rpc_stream_has_room(f->stream)) {
			f->dropped++;
			continue;
		}
		send_dropped(f);
		send_event(f, json, size);
	}
}

static void writable(void *ctx)
{
	struct event_follow *f = ctx;

	if (f->is_live)
		send_dropped(f);
	else if (!f->is_reading)
		catch_up(f);
}

static void ended(void *ctx)
{
	struct event_follow *f = ctx;

	f->stream = NULL;
	if (!f->is_reading)
		follow_free(f);
}

static const struct rpc_stream_owner follow_owner = { writable, ended };

/* ---- pages ---- */

static void answer(struct event_follow *f)
{
	struct rpc_request *r = f->request;
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	f->request = NULL;
	json_out_object(&o, NULL);
	events_read_json(&f->page, &o);
	if (f->stream)
		json_out_u64(&o, "subscription", rpc_stream_number(f->stream));
	json_out_object_end(&o);
	if (b.failed) {
		err_set(&e, ERR_INTERNAL, "no memory for the result");
		(void)rpc_error(r, &e, NULL);
	} else {
		(void)rpc_result_raw(r, b.data, b.size);
	}
	buf_fini(&b);
}

static void send_page(struct event_follow *f)
{
	struct buf b = BUF_INIT;
	struct json_span key, event;
	struct json_iter it;

	if (f->page.gap)
		rpc_stream_send(f->stream, "\"gap\":true", strlen("\"gap\":true"));
	buf_add_char(&b, '[');
	buf_add(&b, f->page.items.data, f->page.items.size);
	buf_add_char(&b, ']');
	it = json_iter_begin((struct json_span){ buf_text(&b), b.size });
	while (!b.failed && json_iter_next(&it, &key, &event))
		send_event(f, event.at, event.size);
	buf_fini(&b);
}

static void page_done(struct events_read *page)
{
	struct event_follow *f = (struct event_follow *)(void *)((char *)page - offsetof(struct event_follow, page));

	f->is_reading = false;
	if (f->request)
		answer(f);
	else if (f->stream)
		send_page(f);
	buf_fini(&f->page.items);
	if (f->stream)
		catch_up(f);
	else
		follow_free(f);
}

/* Behind the page: live, or the next page, now or when there is room. */
static void catch_up(struct event_follow *f)
{
	char seq[SEQ_ROOM];

	if (seq_compare(f->page.next, events_last(f->of->events)) >= 0) {
		f->is_live = true;
		LIST_INSERT_HEAD(&f->of->live, f, link);
		return;
	}
	if (!rpc_stream_has_room(f->stream))
		return;
	seq_write(seq, f->page.next);
	f->page.is_newest = false;
	f->page.limit = CATCH_UP_PAGE;
	f->is_reading = true;
	(void)events_read_begin(f->of->events, &f->page, seq, NULL); /* a number that we wrote */
}

static struct event_followers *followers_of(struct event_followers **place, struct events *events)
{
	if (*place)
		return *place;
	*place = calloc(1, sizeof **place);
	if (*place) {
		(*place)->events = events;
		events_listen(events, heard, *place);
	}
	return *place;
}

static const struct rpc_done *stream_read(struct event_followers *of, const char *notification, struct rpc_request *r)
{
	struct event_follow *f = of ? calloc(1, sizeof(*f)) : NULL;
	const struct rpc_done *taken;
	struct err e = ERR_INIT;

	if (!f) {
		err_set(&e, ERR_INTERNAL, "no memory to read a stream");
		return rpc_error(r, &e, NULL);
	}
	f->of = of;
	f->page.filter = (struct event_filter){ .since_ms = rpc_integer(r, "since_ms", 0), .is_admin = rpc_is_admin(r), .uid = rpc_uid(r) };
	(void)snprintf(f->page.filter.sandbox, sizeof(f->page.filter.sandbox), "%s", rpc_text(r, "sandbox") ? rpc_text(r, "sandbox") : "");
	(void)snprintf(f->page.filter.type, sizeof(f->page.filter.type), "%s", rpc_text(r, "type") ? rpc_text(r, "type") : "");
	f->page.is_newest = rpc_bool(r, "newest", false);
	f->page.limit = (unsigned)rpc_integer(r, "limit", 100);
	f->page.done = page_done;
	if (rpc_bool(r, "follow", false) &&
		!(f->stream = rpc_stream_open(r, notification, &follow_owner, f, &e))) {
		free(f);
		return rpc_error(r, &e, NULL);
	}
	f->request = r;
	f->is_reading = true;
	taken = rpc_pending(r); /* before: a page of the ring is answered at once */
	if (events_read_begin(of->events, &f->page, rpc_text(r, "since_seq"), &e) == 0)
		return taken;
	f->is_reading = false;
	follow_free(f);
	return rpc_error(r, &e, NULL);
}

const struct rpc_done *event_read(struct control *c, struct rpc_request *r)
{
	return stream_read(followers_of(&c->followers, c->events), "event", r);
}

const struct rpc_done *audit_read(struct control *c, struct rpc_request *r)
{
	return stream_read(followers_of(&c->audit_followers, c->audit->events), "audit", r);
}
