/* SPDX-License-Identifier: MIT
 *
 * The ring of events. Event N lies in slot N % LIMIT_EVENTS as finished JSON; the oldest go when there are too many or
 * when they are too large together. An event for which there was no memory keeps its number and leaves an empty slot,
 * which readers are told of as a gap. events_disk.c writes what is added here, and reads what the ring has no more. */
#include "daemon/observe/events.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/observe/events_ring.h"
#include "proto/clock.h"
#include "proto/limits.h"
#include "proto/names.h"

struct events *events_new(uint64_t incarnation)
{
	struct events *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return NULL;
	ev->incarnation = incarnation;
	ev->first = ev->next = 1;
	buf_init(&ev->text, LIMIT_EVENT_BYTES);
	return ev;
}

struct events *events_free(struct events *ev)
{
	if (!ev)
		return NULL;
	events_disk_free(ev);
	for (size_t i = 0; i < LIMIT_EVENTS; i++)
		free(ev->ring[i].json);
	buf_fini(&ev->text);
	free(ev);
	return NULL;
}

/* ---- adding ---- */

static struct json_out *begin(struct events *ev, const char *type, const char *sandbox, bool is_owned, uid_t owner)
{
	char seq[SEQ_ROOM];

	assert(!ev->is_open);
	ev->is_open = true;
	ev->begun = (struct event){ .is_owned = is_owned, .owner = is_owned ? owner : 0, .at_ms = clock_wall_ms() };
	if (sandbox)
		(void)snprintf(ev->begun.sandbox, sizeof(ev->begun.sandbox), "%s", sandbox);
	(void)snprintf(ev->begun.type, sizeof(ev->begun.type), "%s", type);
	seq_write(seq, (struct seq){ ev->incarnation, ev->next });
	buf_clear(&ev->text);
	ev->out = json_out_to(&ev->text);
	json_out_object(&ev->out, NULL);
	json_out_text(&ev->out, "seq", seq);
	json_out_i64(&ev->out, "at", ev->begun.at_ms);
	json_out_text(&ev->out, "type", ev->begun.type);
	json_out_text(&ev->out, "sandbox", sandbox ? ev->begun.sandbox : NULL);
	if (is_owned)
		json_out_u64(&ev->out, "owner", owner);
	else
		json_out_null(&ev->out, "owner");
	ev->head_size = ev->text.failed ? 0 : ev->text.size;
	return &ev->out;
}

struct json_out *events_begin(struct events *ev, const char *type, const char *sandbox, uid_t owner)
{
	return begin(ev, type, sandbox, sandbox != NULL, owner);
}

struct json_out *events_begin_owned(struct events *ev, const char *type, const char *sandbox, uid_t owner)
{
	return begin(ev, type, sandbox, true, owner);
}

static struct event *slot_of(struct events *ev, uint64_t n)
{
	return &ev->ring[n % LIMIT_EVENTS];
}

static void forget_oldest(struct events *ev)
{
	struct event *old = slot_of(ev, ev->first++);

	ev->bytes -= old->size;
	free(old->json);
	old->json = NULL;
	old->size = 0;
}

static void tell(struct events *ev, const struct event *x)
{
	struct event_head h = { .seq = { ev->incarnation, ev->next - 1 }, .at_ms = x->at_ms, .sandbox = x->sandbox,
		.type = x->type, .is_owned = x->is_owned, .owner = x->owner };

	if (ev->heard && x->json)
		ev->heard(ev->heard_ctx, &h, x->json, x->size);
}

void events_end(struct events *ev)
{
	static const char truncated[] = ",\"truncated\":true";
	struct event *to = &ev->begun;
	size_t size = 0;

	assert(ev->is_open);
	ev->is_open = false;
	json_out_object_end(&ev->out);
	if (ev->text.failed) { /* back to the head, which was whole before the rest didn't fit */
		ev->text.failed = false;
		ev->text.size = ev->head_size;
		buf_add(&ev->text, truncated, sizeof(truncated) - 1);
		buf_add_char(&ev->text, '}');
	}
	if (!ev->text.failed && ev->head_size > 0) {
		to->json = malloc(ev->text.size);
		size = to->json ? ev->text.size : 0;
	}
	if (to->json)
		memcpy(to->json, ev->text.data, size);
	to->size = (uint32_t)size;
	while (ev->next > ev->first && (ev->next - ev->first >= LIMIT_EVENTS || ev->bytes + size > LIMIT_EVENTS_BYTES))
		forget_oldest(ev);
	*slot_of(ev, ev->next++) = *to;
	ev->bytes += size;
	if (ev->storage)
		events_disk_add(ev, to);
	tell(ev, to);
}

void events_add(struct events *ev, const char *type, const char *sandbox, uid_t owner, const char *key, const char *text)
{
	struct json_out *o = events_begin(ev, type, sandbox, owner);

	if (key)
		json_out_text(o, key, text);
	events_end(ev);
}

void events_listen(struct events *ev, void (*heard)(void *ctx, const struct event_head *head, const char *json, size_t size), void *ctx)
{
	ev->heard = heard;
	ev->heard_ctx = ctx;
}

struct seq events_last(const struct events *ev)
{
	return (struct seq){ ev->incarnation, ev->next - 1 };
}

/* ---- reading the ring ---- */

static bool takes(const struct event_filter *f, const struct event *x)
{
	struct event_head h = { .at_ms = x->at_ms, .sandbox = x->sandbox, .type = x->type, .is_owned = x->is_owned, .owner = x->owner };

	return event_filter_takes(f, &h);
}

static void give(struct buf *to, const struct event *x)
{
	if (to->size > 0)
		buf_add_char(to, ',');
	buf_add(to, x->json, x->size);
}

/* From rd->next on, which lies in the ring or right before it. */
void events_ring_forward(const struct events *ev, struct events_read *rd)
{
	while (rd->files.left > 0 && rd->items.size < LIMIT_EVENTS_PAGE_BYTES - LIMIT_EVENT_BYTES && rd->next.n + 1 < ev->next) {
		const struct event *x = &ev->ring[++rd->next.n % LIMIT_EVENTS];

		if (!x->json) {
			rd->gap = true;
		} else if (takes(&rd->filter, x)) {
			give(&rd->items, x);
			rd->files.left--;
		}
	}
}

void events_ring_newest(const struct events *ev, struct events_read *rd)
{
	uint64_t n = ev->next;
	size_t bytes = 0;

	while (n > ev->first && rd->files.left > 0 && bytes < LIMIT_EVENTS_PAGE_BYTES - LIMIT_EVENT_BYTES) {
		const struct event *x = &ev->ring[--n % LIMIT_EVENTS];

		if (x->json && takes(&rd->filter, x)) {
			rd->files.left--;
			bytes += x->size + 1;
		}
	}
	for (; n < ev->next; n++) {
		const struct event *x = &ev->ring[n % LIMIT_EVENTS];

		if (x->json && takes(&rd->filter, x))
			give(&rd->ring, x);
	}
	rd->next = events_last(ev);
}

void events_read_json(const struct events_read *rd, struct json_out *o)
{
	char seq[SEQ_ROOM];

	json_out_array(o, "events");
	if (rd->items.size > 0)
		json_out_raw(o, NULL, rd->items.data, rd->items.size);
	json_out_array_end(o);
	seq_write(seq, rd->next);
	json_out_text(o, "next", seq);
	json_out_bool(o, "gap", rd->gap);
	if (rd->items.failed)
		o->to->failed = true;
}
