/* SPDX-License-Identifier: MIT
 *
 * The ring of events. Event N lies in slot N % LIMIT_EVENTS as finished JSON; the oldest go when there are too many or
 * when they are too large together. An event for which there was no memory keeps its number and leaves an empty slot,
 * which readers are told of as a gap. */
#include "daemon/observe/events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"
#include "proto/limits.h"
#include "proto/names.h"

#define SEQ_ROOM 48 /* two 64-bit numbers and a '-' */
#define TYPE_BYTES 63

struct event {
	char *json;        /* NULL: there was no memory for it */
	uint32_t size;
	uid_t owner;
	bool is_daemons;   /* of no sandbox: for administrators */
	char sandbox[LIMIT_ID_BYTES + 1];
};

struct events {
	uint64_t incarnation;
	uint64_t first, next;          /* numbers first .. next-1 are kept; the first event ever is 1 */
	size_t bytes;                  /* of all their JSON */
	bool is_open;                  /* between events_begin and events_end */
	struct event begun;
	size_t head_size;
	struct buf text;
	struct json_out out;
	struct event ring[LIMIT_EVENTS];
};

static void write_seq(char to[SEQ_ROOM], uint64_t incarnation, uint64_t n)
{
	(void)snprintf(to, SEQ_ROOM, "%" PRIu64 "-%" PRIu64, incarnation, n);
}

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
	for (size_t i = 0; i < LIMIT_EVENTS; i++)
		free(ev->ring[i].json);
	buf_fini(&ev->text);
	free(ev);
	return NULL;
}

/* ---- adding ---- */

struct json_out *events_begin(struct events *ev, const char *type, const char *sandbox, uid_t owner)
{
	char seq[SEQ_ROOM];

	assert(!ev->is_open);
	ev->is_open = true;
	ev->begun = (struct event){ .owner = owner, .is_daemons = !sandbox };
	if (sandbox)
		(void)snprintf(ev->begun.sandbox, sizeof(ev->begun.sandbox), "%s", sandbox);
	write_seq(seq, ev->incarnation, ev->next);
	buf_clear(&ev->text);
	ev->out = json_out_to(&ev->text);
	json_out_object(&ev->out, NULL);
	json_out_text(&ev->out, "seq", seq);
	json_out_i64(&ev->out, "at", clock_wall_ms());
	json_out_text_n(&ev->out, "type", type, strnlen(type, TYPE_BYTES));
	json_out_text(&ev->out, "sandbox", sandbox ? ev->begun.sandbox : NULL);
	if (sandbox)
		json_out_u64(&ev->out, "owner", owner);
	else
		json_out_null(&ev->out, "owner");
	ev->head_size = ev->text.failed ? 0 : ev->text.size;
	return &ev->out;
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
}

void events_add(struct events *ev, const char *type, const char *sandbox, uid_t owner, const char *key, const char *text)
{
	struct json_out *o = events_begin(ev, type, sandbox, owner);

	if (key)
		json_out_text(o, key, text);
	events_end(ev);
}

/* ---- reading ---- */

/* Decimal digits without a sign or a leading zero, and `stop` behind them. Returns what follows; NULL: it isn't that. */
static const char *read_number(const char *from, char stop, uint64_t *ret)
{
	const char *at = from;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (unsigned)(*at - '0'), &n))
			return NULL;
	if (at == from || (*from == '0' && at > from + 1) || *at != stop)
		return NULL;
	*ret = n;
	return at + 1;
}

/* Where to begin: at the event behind the one named, if that can be. */
static int find_begin(const struct events *ev, const char *since, uint64_t *ret_n, bool *ret_gap, struct err *e)
{
	uint64_t incarnation, n;
	const char *rest;

	if (!since) {
		*ret_n = ev->first;
		*ret_gap = false;
		return 0;
	}
	rest = read_number(since, '-', &incarnation);
	if (!rest || !read_number(rest, '\0', &n)) {
		(void)err_set(e, ERR_BAD_PARAM, "since_seq '%.80s' isn't the number of an event (INCARNATION-N)", since);
		return err_about(e, "since_seq", -1);
	}
	/* Also one that hasn't happened yet: whoever has it, has it from elsewhere. */
	*ret_gap = incarnation != ev->incarnation || n >= ev->next || n + 1 < ev->first;
	*ret_n = *ret_gap ? ev->first : n + 1;
	return 0;
}

static bool may_see(const struct event *x, const struct events_query *q)
{
	if (!q->is_admin && (x->is_daemons || x->owner != q->uid))
		return false;
	return !q->sandbox || (!x->is_daemons && strcmp(x->sandbox, q->sandbox) == 0);
}

int events_read(const struct events *ev, const struct events_query *q, struct buf *to, struct err *e)
{
	struct json_out o = json_out_to(to);
	size_t begin = to->size;
	char seq[SEQ_ROOM];
	unsigned given = 0;
	uint64_t n = 0;
	bool gap = false;

	if (find_begin(ev, q->since_seq, &n, &gap, e) == -1)
		return -1;
	json_out_object(&o, NULL);
	json_out_array(&o, "events");
	for (; n < ev->next; n++) {
		const struct event *x = &ev->ring[n % LIMIT_EVENTS];

		if (!x->json) {
			gap = true;
			continue;
		}
		if (!may_see(x, q))
			continue;
		if (given == q->limit || (given > 0 && to->size - begin + x->size > LIMIT_EVENTS_PAGE_BYTES))
			break;
		json_out_raw(&o, NULL, x->json, x->size);
		given++;
	}
	json_out_array_end(&o);
	write_seq(seq, ev->incarnation, n - 1);
	json_out_text(&o, "next", seq);
	json_out_bool(&o, "gap", gap);
	json_out_object_end(&o);
	return 0;
}
