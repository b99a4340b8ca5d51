/* SPDX-License-Identifier: MIT
 *
 * Events to files and back. While one batch is being written the next gathers. A page comes from the files as long as the
 * ring doesn't reach back far enough, one storage job per file; what still gathers is handed over first, so that the
 * thread, which works in order, finds it. */
#include <stdlib.h>
#include <string.h>

#include "daemon/observe/events_ring.h"
#include "proto/clock.h"
#include "proto/log.h"

#define TRIES 64 /* of reading what isn't written yet */

/* ---- writing ---- */

static void batch_done(struct storage_job *job);

static void batch_work(struct storage_job *job)
{
	struct event_batch *b = (struct event_batch *)(void *)job;

	job->status = event_files_append(b->ev->files, b->lines.data, b->lines.size, b->first, b->last, clock_wall_ms(), &job->err);
}

static void submit(struct events *ev, void (*how)(struct storage *, struct storage_job *))
{
	struct event_batch *b = ev->batch;

	if (!b)
		return;
	ev->batch = NULL;
	ev->n_batches++;
	b->job.work = batch_work;
	b->job.done = batch_done;
	how(ev->storage, &b->job);
}

static void batch_done(struct storage_job *job)
{
	struct event_batch *b = (struct event_batch *)(void *)job;
	struct events *ev = b->ev;
	bool is_at_end = job->status == -1 && job->err.code == ERR_SHUTTING_DOWN; /* the next process takes them over */

	ev->n_batches--;
	ev->settled = b->last.n;
	if (job->status == -1 && !ev->is_failing)
		log_error("%s aren't written: %s", ev->folder, job->err.text);
	else if (job->status == 0 && ev->is_failing)
		log_info("%s are written again", ev->folder);
	ev->is_failing = job->status == -1;
	buf_fini(&b->lines);
	free(b);
	if (ev->n_batches > 0)
		return;
	if (ev->batch && ev->storage)
		submit(ev, storage_submit_lazily);
	else if (ev->pending && !ev->batch && !is_at_end)
		event_pending_written(ev->pending);
}

static bool gather(struct events *ev, const struct event *x, struct seq seq)
{
	struct event_batch *b = ev->batch;

	if (!x->json)
		return false;
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return false;
		b->ev = ev;
		b->first = seq;
		buf_init(&b->lines, LIMIT_EVENT_BATCH_BYTES);
		ev->batch = b;
	}
	if (b->lines.size + x->size + 1 > LIMIT_EVENT_BATCH_BYTES)
		return false;
	buf_add(&b->lines, x->json, x->size);
	buf_add_char(&b->lines, '\n');
	b->last = seq;
	b->n++;
	return true;
}

/* One that isn't gathered is missing in the files, and its number shows it. */
void events_disk_add(struct events *ev, const struct event *x)
{
	struct seq seq = { ev->incarnation, ev->next - 1 };
	bool is_gathered = gather(ev, x, seq);

	if (ev->pending && is_gathered) {
		const struct buf *lines = &ev->batch->lines;

		event_pending_add(ev->pending, seq, lines->data + lines->size - x->size - 1, x->size + 1u);
	}
	if (ev->n_batches == 0)
		submit(ev, storage_submit_lazily); /* a control that is killed meanwhile has left them in `pending` */
}

void events_close(struct events *ev)
{
	if (ev->storage)
		submit(ev, storage_submit);
	ev->storage = NULL;
}

void events_disk_free(struct events *ev)
{
	if (ev->batch) {
		buf_fini(&ev->batch->lines);
		free(ev->batch);
	}
	ev->pending = event_pending_free(ev->pending);
	ev->files = event_files_free(ev->files);
}

/* ---- taking over ---- */

/* What was pending and isn't in the files goes there. Returns the last event that is there now. */
static struct seq recover(struct events *ev, struct seq last, struct err *e)
{
	struct event_head_room room;
	struct event_head h;
	struct seq ever, newest = last, first = { 0, 0 };
	size_t size, at = 0, from = 0;
	const char *text = event_pending_text(ev->pending, &size, &ever);

	while (at < size) {
		const char *end = memchr(text + at, '\n', size - at);

		if (!end || !event_head_read(text + at, (size_t)(end - text) - at, &room, &h))
			break;
		if (seq_compare(h.seq, newest) > 0) {
			first = first.n == 0 ? h.seq : first;
			newest = h.seq;
		} else if (first.n > 0) {
			break;
		}
		at = (size_t)(end - text) + 1;
		from = first.n == 0 ? at : from;
	}
	if (first.n > 0 && event_files_append(ev->files, text + from, at - from, first, newest, clock_wall_ms(), e) == -1)
		return last;
	return newest;
}

/* Events of an earlier process that are lost: the last of them is replaced by one that says so. */
static void tell_lost(struct events *ev, struct seq last)
{
	struct buf line = BUF_INIT;
	struct json_out o = json_out_to(&line);
	char text[SEQ_ROOM];
	struct seq ever;
	size_t size;

	(void)event_pending_text(ev->pending, &size, &ever);
	if (seq_compare(ever, last) <= 0 || ever.major > UINT64_MAX / 2)
		return;
	seq_write(text, ever);
	json_out_object(&o, NULL);
	json_out_text(&o, "seq", text);
	json_out_i64(&o, "at", clock_wall_ms());
	json_out_text(&o, "type", "daemon.events_lost");
	json_out_null(&o, "sandbox");
	json_out_null(&o, "owner");
	json_out_u64(&o, "lost", ever.major == last.major ? ever.n - last.n : ever.n);
	json_out_object_end(&o);
	buf_add_char(&line, '\n');
	if (!line.failed)
		(void)event_files_append(ev->files, line.data, line.size, ever, ever, clock_wall_ms(), NULL);
	buf_fini(&line);
	if (ever.major >= ev->incarnation)
		ev->incarnation = ever.major + 1;
}

static void tell_found(struct events *ev, const struct event_files_found *found)
{
	struct json_out *o;

	if (found->cut_bytes == 0 && found->n_damaged == 0)
		return;
	log_warning("events: %llu bytes of a torn line were cut off, %u damaged files were put aside",
		(unsigned long long)found->cut_bytes, found->n_damaged);
	o = events_begin(ev, "daemon.events_damaged", NULL, 0);
	json_out_u64(o, "cut_bytes", found->cut_bytes);
	json_out_u64(o, "damaged_files", found->n_damaged);
	events_end(ev);
}

int events_open(struct events *ev, int state_dir_fd, const char *folder, struct storage *storage, struct err *e)
{
	struct event_files_found found = { 0 };
	struct err why = ERR_INIT;
	struct seq last;

	ev->folder = folder;
	if (event_files_open(state_dir_fd, folder, &ev->files, &found, e) == -1)
		return -1;
	last = found.last;
	if (event_pending_open(event_files_dir_fd(ev->files), &ev->pending, &why) == -1) {
		log_warning("events of this process are lost when it is killed before they are written: %s", why.text);
	} else {
		last = recover(ev, last, &why);
		if (why.code != ERR_OK)
			log_error("events of the process before are lost: %s", why.text);
	}
	if (last.major >= ev->incarnation)
		ev->incarnation = last.major + 1;
	if (ev->pending) {
		tell_lost(ev, last);
		event_pending_begin(ev->pending);
	}
	ev->storage = storage;
	tell_found(ev, &found);
	return 0;
}

/* ---- reading ---- */

static void go_on(struct events_read *rd);

static void finish(struct events_read *rd)
{
	if (rd->ring.size > 0) {
		if (rd->items.size > 0)
			buf_add_char(&rd->items, ',');
		buf_add(&rd->items, rd->ring.data, rd->ring.size);
	}
	rd->items.failed = rd->items.failed || rd->ring.failed;
	buf_fini(&rd->ring);
	rd->done(rd);
}

static void files_work(struct storage_job *job)
{
	struct events_read *rd = (struct events_read *)(void *)((char *)job - offsetof(struct events_read, job));

	event_files_read(rd->ev->files, &rd->files);
}

static void files_done(struct storage_job *job)
{
	struct events_read *rd = (struct events_read *)(void *)((char *)job - offsetof(struct events_read, job));

	if (job->status == -1) {
		rd->files.more = false;
		rd->gap = rd->gap || !rd->is_newest;
	}
	go_on(rd);
}

static void ask_files(struct events_read *rd)
{
	struct events *ev = rd->ev;

	submit(ev, storage_submit);
	rd->job.work = files_work;
	rd->job.done = files_done;
	storage_submit(ev->storage, &rd->job);
}

/* The files have no more: on with the ring, or once more when some have left the ring and weren't written then. */
static void to_ring(struct events_read *rd)
{
	struct events *ev = rd->ev;
	struct seq first = { ev->incarnation, ev->first };

	if (!rd->files.is_begin && !event_follows(rd->files.at, first, rd->files.is_known) && seq_compare(rd->files.at, first) < 0) {
		if (ev->storage && ev->settled + 1 < ev->first && rd->n_tries++ < TRIES) {
			rd->files.has_file = false;
			rd->files.until = first;
			rd->files.to = rd->items;
			rd->items = (struct buf)BUF_INIT;
			ask_files(rd);
			return;
		}
		rd->gap = true;
	}
	rd->next = rd->files.at;
	if (seq_compare(rd->next, (struct seq){ first.major, first.n - 1 }) < 0)
		rd->next = (struct seq){ first.major, first.n - 1 };
	events_ring_forward(ev, rd);
	finish(rd);
}

static void go_on(struct events_read *rd)
{
	struct events *ev = rd->ev;

	if (rd->files.more && ev->storage) {
		ask_files(rd);
		return;
	}
	rd->gap = rd->gap || (!rd->is_newest && rd->files.gap);
	if (rd->files.to.size > 0)
		rd->items = rd->files.to;
	rd->items.failed = rd->items.failed || rd->files.to.failed;
	rd->files.to = (struct buf)BUF_INIT;
	if (rd->is_newest) {
		finish(rd);
	} else if (rd->files.left == 0 || rd->items.size >= LIMIT_EVENTS_PAGE_BYTES - LIMIT_EVENT_BYTES) {
		rd->next = rd->files.at;
		finish(rd);
	} else {
		to_ring(rd);
	}
}

/* Where to begin: at the event behind the one named, if that can be. */
static int find_begin(struct events_read *rd, const char *since, struct err *e)
{
	const struct events *ev = rd->ev;

	rd->files.is_begin = !since;
	rd->files.at = (struct seq){ 0, 0 };
	if (!since)
		return 0;
	if (!seq_read(since, &rd->files.at)) {
		(void)err_set(e, ERR_BAD_PARAM, "since_seq '%.80s' isn't the number of an event (INCARNATION-N)", since);
		return err_about(e, "since_seq", -1);
	}
	/* One that hasn't happened yet: whoever has it, has it from elsewhere. */
	if (seq_compare(rd->files.at, events_last(ev)) > 0) {
		rd->gap = true;
		rd->files.at = (struct seq){ ev->incarnation, ev->first - 1 };
	}
	return 0;
}

int events_read_begin(struct events *ev, struct events_read *rd, const char *since_seq, struct err *e)
{
	bool needs_files;

	rd->ev = ev;
	rd->items = rd->ring = (struct buf)BUF_INIT;
	rd->gap = false;
	rd->n_tries = 0;
	rd->files = (struct event_files_read){ .filter = rd->filter, .left = rd->limit, .is_back = rd->is_newest,
		.until = { ev->incarnation, ev->first } };
	if (!rd->is_newest && find_begin(rd, since_seq, e) == -1)
		return -1;
	if (rd->is_newest) {
		events_ring_newest(ev, rd);
		needs_files = rd->files.left > 0;
	} else {
		needs_files = seq_compare(rd->files.at, (struct seq){ ev->incarnation, ev->first - 1 }) < 0;
	}
	rd->files.more = needs_files && rd->limit > 0 && ev->storage;
	if (rd->limit == 0) { /* only where one stands */
		rd->next = since_seq ? rd->files.at : events_last(ev);
		rd->gap = false;
		finish(rd);
		return 0;
	}
	go_on(rd);
	return 0;
}
