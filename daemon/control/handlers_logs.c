/* SPDX-License-Identifier: MIT
 *
 * log.read: what the ring has, and in front of it what the files have, if more was asked for. With follow each line that comes then is a
 * notification; a client that doesn't read is overtaken by the log, and is told how many bytes it has missed. */
#include <stdlib.h>
#include <string.h>

#include "daemon/control/handlers.h"
#include "daemon/observe/log_readers.h"
#include "daemon/observe/log_writer.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/json_out.h"

struct log_page;

struct log_follow {
	struct log_reader reader;     /* first: found by it */
	struct rpc_stream *stream;
	struct log_page *page;        /* the answer isn't given yet */
	uint64_t dropped;
	bool is_gone;                 /* the sandbox is, while the answer isn't given */
};

/* An answer at work. */
struct log_page {
	struct rpc_request *request;
	struct log_follow *follow;    /* NULL: not asked for, or ended */
	struct buf lines;             /* of the ring */
	struct seq next;
	uint64_t dropped;
	struct log_older older;
};

/* ---- following ---- */

static struct log_follow *follow_of(struct log_reader *r)
{
	return (struct log_follow *)(void *)r;
}

static void follow_free(struct log_follow *f)
{
	log_reader_detach(&f->reader);
	if (f->stream)
		rpc_stream_close(f->stream);
	if (f->page)
		f->page->follow = NULL;
	free(f);
}

static void send_dropped(struct log_follow *f)
{
	struct buf b = BUF_INIT;

	if (f->dropped == 0)
		return;
	buf_printf(&b, "\"dropped_bytes\":%llu", (unsigned long long)f->dropped);
	rpc_stream_send(f->stream, b.data, b.size);
	buf_fini(&b);
	f->dropped = 0;
}

static bool follow_wants(struct log_reader *r)
{
	struct log_follow *f = follow_of(r);

	return !f->page && rpc_stream_has_room(f->stream);
}

static void follow_take(struct log_reader *r, const struct log_record *record, const char *text, struct seq seq, uint64_t raw)
{
	struct log_follow *f = follow_of(r);
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	char number[SEQ_ROOM];

	(void)raw;
	send_dropped(f);
	seq_write(number, seq);
	json_out_text(&o, "seq", number);
	log_line_json(record, text, false, &o);
	if (!b.failed)
		rpc_stream_send(f->stream, b.data, b.size);
	buf_fini(&b);
}

static void follow_lost(struct log_reader *r, uint64_t bytes)
{
	follow_of(r)->dropped += bytes;
}

static void follow_pumped(struct log_reader *r)
{
	if (follow_wants(r))
		send_dropped(follow_of(r));
}

static void send_ended(struct log_follow *f)
{
	static const char text[] = "\"ended\":\"destroyed\"";

	send_dropped(f);
	rpc_stream_send(f->stream, text, sizeof(text) - 1);
	follow_free(f);
}

static void follow_gone(struct log_reader *r)
{
	struct log_follow *f = follow_of(r);

	if (f->page)
		f->is_gone = true;
	else
		send_ended(f);
}

static const struct log_reader_type follow_type = { follow_wants, follow_take, follow_lost, follow_pumped, follow_gone };

static void writable(void *ctx)
{
	struct log_follow *f = ctx;

	if (!f->page && f->reader.log)
		log_reader_pump(&f->reader);
}

static void ended(void *ctx)
{
	struct log_follow *f = ctx;

	f->stream = NULL;
	follow_free(f);
}

static const struct rpc_stream_owner follow_owner = { writable, ended };

/* ---- the page ---- */

static void page_answer(struct log_page *p)
{
	struct rpc_request *r = p->request;
	struct log_follow *f = p->follow;
	struct buf b = BUF_INIT, *older = &p->older.read.to;
	struct json_out o = json_out_to(&b);
	struct err e = ERR_INIT;
	char next[SEQ_ROOM];

	json_out_object(&o, NULL);
	json_out_array(&o, "lines");
	if (older->size > 0)
		json_out_raw(&o, NULL, older->data, older->size);
	if (p->lines.size > 0)
		json_out_raw(&o, NULL, p->lines.data, p->lines.size);
	json_out_array_end(&o);
	json_out_u64(&o, "dropped_bytes", p->older.has_lost ? p->older.lost : p->dropped);
	seq_write(next, p->next);
	json_out_text(&o, "next", next);
	if (f)
		json_out_u64(&o, "subscription", rpc_stream_number(f->stream));
	json_out_object_end(&o);
	if (b.failed || older->failed || p->lines.failed) {
		err_set(&e, ERR_INTERNAL, "no memory for the result");
		(void)rpc_error(r, &e, NULL);
	} else {
		(void)rpc_result_raw(r, b.data, b.size);
	}
	buf_fini(&b);
	buf_fini(older);
	buf_fini(&p->lines);
	free(p);
	if (!f)
		return;
	f->page = NULL;
	if (f->is_gone)
		send_ended(f);
	else
		log_reader_pump(&f->reader);
}

static void older_done(struct log_older *o)
{
	page_answer((struct log_page *)(void *)((char *)o - offsetof(struct log_page, older)));
}

static int follow_begin(struct log_page *p, struct sandbox *sb, struct err *e)
{
	struct log_follow *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_INTERNAL, "no memory for a subscription");
	f->stream = rpc_stream_open(p->request, "log", &follow_owner, f, e);
	if (!f->stream) {
		free(f);
		return -1;
	}
	f->page = p;
	p->follow = f;
	log_reader_attach_last(&f->reader, &follow_type, sb->log);
	return 0;
}

static int query_read(const struct rpc_request *r, struct log_query *q, struct err *e)
{
	const char *since = rpc_text(r, "since_seq");

	*q = (struct log_query){ .lines = (unsigned)rpc_integer(r, "lines", 100), .since_ms = rpc_integer(r, "since_ms", 0),
		.no_unfinished = rpc_bool(r, "follow", false) };
	if (!since || seq_read(since, &q->since))
		return 0;
	(void)err_set(e, ERR_BAD_PARAM, "since_seq '%.80s' isn't the number of a line", since);
	return err_about(e, "since_seq", -1);
}

static void page_fill(struct log_page *p, const struct sandbox *sb, const struct log_query *q)
{
	struct json_out o = json_out_to(&p->lines);
	struct log_files_read *older = &p->older.read;
	struct seq first = sandbox_log_first(sb->log), found = { 0, 0 };
	unsigned n = sandbox_log_lines(sb->log, q, &o);

	if (sb->log_writer)
		found = log_writer_found(sb->log_writer);
	if (first.major == 0) /* there is no ring yet: all is in the files */
		first = found;
	p->next = sandbox_log_last(sb->log).major ? sandbox_log_last(sb->log) : found;
	p->dropped = sandbox_log_lost(sb->log);
	*older = (struct log_files_read){ .since = q->since, .until = first, .since_ms = q->since_ms, .lines = q->lines - n };
	if (n >= q->lines || !sb->log_writer || (first.n == 0 && found.major == 0) || seq_compare(q->since, first) >= 0)
		older->lines = 0;
}

const struct rpc_done *log_read(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);
	const struct rpc_done *taken;
	struct log_page *p;
	struct log_query q;

	if (!sb || query_read(r, &q, &e) == -1)
		return rpc_error(r, &e, NULL);
	p = calloc(1, sizeof(*p));
	if (!p) {
		err_set(&e, ERR_INTERNAL, "no memory to read the log");
		return rpc_error(r, &e, NULL);
	}
	p->request = r;
	p->older.done = older_done;
	if (rpc_bool(r, "follow", false) && follow_begin(p, sb, &e) == -1) {
		free(p);
		return rpc_error(r, &e, NULL);
	}
	page_fill(p, sb, &q);
	taken = rpc_pending(r); /* before: what needs no file is answered at once */
	if (p->older.read.lines > 0)
		log_writer_older(sb->log_writer, &p->older);
	else
		page_answer(p);
	return taken;
}
