/* SPDX-License-Identifier: MIT
 *
 * One batch gathers while another is being written. The writer's place in the ring stands in the files with each line, so the
 * next control process goes on behind the last one that was written. */
#include "daemon/observe/log_writer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"
#include "proto/log.h"

#define SAY_AGAIN_MS 60000

struct batch {
	struct storage_job job;
	struct log_writer *w;
	struct buf lines;
	uint64_t ring, raw, from, to;  /* bytes of the stream: in it; before and behind it */
	uint64_t kept;                 /* in all files afterwards */
	uint64_t n_lost;               /* of raw, that couldn't be written */
	size_t size;                   /* as counted in store->waiting */
	struct log_files_gone gone;
};

struct log_writer {
	struct log_reader reader;
	struct log_store *store;
	struct log_files *files;       /* of the storage jobs */
	struct storage_job open, removal;
	struct log_files_found found;
	char sandbox[LIMIT_ID_BYTES + 1];
	struct sandbox_log *log;       /* NULL: ended */
	struct batch *batch;           /* that gathers */
	unsigned n_jobs;
	struct log_keep keep;
	uint64_t kept;                 /* in files, as the last job said */
	uint64_t waiting;              /* raw of batches that aren't written */
	bool is_fresh, is_ended;
	int64_t said_ms;
};

static void free_when_done(struct log_writer *w)
{
	if (!w->is_ended || w->n_jobs > 0)
		return;
	log_files_free(w->files);
	free(w);
}

/* ---- batches ---- */

static void tell(struct log_writer *w)
{
	w->keep.accounted = w->reader.accounted;
	w->keep.bytes = w->kept + w->waiting;
	if (w->log)
		log_keep_set(w->log, &w->keep);
}

/* What is in no file any more; the ring may still have it. */
static void take_gone(struct log_writer *w, const struct log_files_gone *gone)
{
	if (gone->to > 0 && gone->ring == w->keep.ring)
		log_keep_failed(&w->keep, gone->from, gone->to);
}

static void batch_work(struct storage_job *job)
{
	struct batch *b = (struct batch *)(void *)job;
	size_t done = 0, at, rest;
	uint64_t raw, n;
	struct seq seq;
	const char *end;

	job->status = log_files_append(b->w->files, b->lines.data, b->lines.size, &done, &job->err);
	for (at = done; at < b->lines.size && (end = memchr(b->lines.data + at, '\n', b->lines.size - at));
		at = (size_t)(end - b->lines.data) + 1)
		if (log_file_line(b->lines.data + at, (size_t)(end - b->lines.data) - at, &seq, &raw, &n, &rest))
			b->n_lost += n;
	b->kept = log_files_kept(b->w->files, b->ring);
	b->gone = log_files_gone(b->w->files);
}

static void submit(struct log_writer *w);

static void batch_done(struct storage_job *job)
{
	struct batch *b = (struct batch *)(void *)job;
	struct log_writer *w = b->w;
	bool failed = job->status == -1;

	if (failed && b->n_lost == 0) /* it never ran */
		b->n_lost = b->raw;
	else
		w->kept = b->ring == w->keep.ring ? b->kept : w->kept;
	if (failed && clock_monotonic_ms() - w->said_ms > SAY_AGAIN_MS) { /* on a full disk small batches succeed now and then */
		log_error("sandbox=%s log lines aren't written: %s", w->sandbox, job->err.text);
		w->said_ms = clock_monotonic_ms();
	}
	take_gone(w, &b->gone);
	if (b->n_lost > 0 && b->ring == w->keep.ring)
		log_keep_failed(&w->keep, b->to - b->n_lost, b->to);
	w->waiting -= b->raw;
	w->store->waiting -= b->size;
	w->n_jobs--;
	buf_fini(&b->lines);
	free(b);
	tell(w);
	if (w->log && w->n_jobs == 0)
		submit(w);
	if (w->log && w->reader.log)
		log_reader_pump(&w->reader); /* what had no room */
	free_when_done(w);
}

static void submit(struct log_writer *w)
{
	struct batch *b = w->batch;

	if (!b)
		return;
	w->batch = NULL;
	w->n_jobs++;
	b->job.work = batch_work;
	b->job.done = batch_done;
	storage_submit(w->store->storage, &b->job);
}

/* ---- as a reader ---- */

static struct log_writer *writer_of(struct log_reader *r)
{
	return (struct log_writer *)(void *)r; /* its first member */
}

static bool wants(struct log_reader *r)
{
	struct log_writer *w = writer_of(r);
	size_t line = 8 * LIMIT_LOG_LINE_BYTES; /* every byte escaped, and more */

	return w->store->waiting + line < LIMIT_LOG_BATCH_ALL_BYTES && (!w->batch || w->batch->lines.size + line < LIMIT_LOG_BATCH_BYTES);
}

static struct batch *batch_of(struct log_writer *w, uint64_t ring)
{
	struct batch *b = w->batch;

	if (!b) {
		b = w->batch = calloc(1, sizeof(*b));
		if (!b)
			return NULL;
		b->w = w;
		buf_init(&b->lines, LIMIT_LOG_BATCH_BYTES);
	}
	if (w->keep.ring != ring) {
		w->keep = (struct log_keep){ .ring = ring };
		w->kept = 0;
	}
	b->ring = ring;
	return b;
}

static void take(struct log_reader *r, const struct log_record *record, const char *text, struct seq seq, uint64_t raw)
{
	struct log_writer *w = writer_of(r);
	struct batch *b = batch_of(w, seq.major);
	size_t before = b ? b->lines.size : 0;
	char number[SEQ_ROOM];
	struct json_out o;

	if (!b)
		return; /* lost: accounted for, and not kept */
	o = json_out_to(&b->lines);
	seq_write(number, seq);
	json_out_object(&o, NULL);
	json_out_text(&o, "seq", number);
	buf_printf(&b->lines, ",\"raw\":%llu", (unsigned long long)r->accounted);
	json_out_u64(&o, "n", raw);
	log_line_json(record, text, false, &o);
	json_out_object_end(&o);
	buf_add_char(&b->lines, '\n');
	if (b->lines.failed) {
		b->lines.failed = false;
		b->lines.size = before;
		return;
	}
	b->raw += raw;
	b->to = r->accounted;
	b->size += b->lines.size - before;
	w->waiting += raw;
	w->store->waiting += b->lines.size - before;
}

static void lost(struct log_reader *r, uint64_t bytes)
{
	(void)r;
	(void)bytes; /* neither kept nor in the ring: sandbox_log_lost sees it */
}

static void pumped(struct log_reader *r)
{
	struct log_writer *w = writer_of(r);

	tell(w);
	if (w->n_jobs == 0)
		submit(w);
}

static void gone(struct log_reader *r)
{
	writer_of(r)->log = NULL;
}

static const struct log_reader_type writer_type = { wants, take, lost, pumped, gone };

/* ---- begin and end ---- */

static void open_work(struct storage_job *job)
{
	struct log_writer *w = (struct log_writer *)(void *)((char *)job - offsetof(struct log_writer, open));

	if (w->is_fresh && log_files_remove(storage_dir_fd(w->store->storage), w->sandbox, &job->err) == -1)
		log_warning("%s", job->err.text);
	job->status = log_files_open(w->files, &w->found, &job->err);
	w->kept = log_files_kept(w->files, w->found.last.major);
}

static void open_done(struct storage_job *job)
{
	struct log_writer *w = (struct log_writer *)(void *)((char *)job - offsetof(struct log_writer, open));

	w->n_jobs--;
	if (job->status == -1)
		log_error("sandbox=%s its log isn't written to files: %s", w->sandbox, job->err.text);
	if (w->found.cut_bytes > 0)
		log_warning("sandbox=%s %llu bytes of a torn line were cut off its log", w->sandbox, (unsigned long long)w->found.cut_bytes);
	if (w->log && job->status == 0) {
		w->keep.ring = w->found.last.major;
		log_reader_attach(&w->reader, &writer_type, w->log, w->found.last, w->found.accounted);
		log_reader_pump(&w->reader);
	}
	free_when_done(w);
}

struct log_writer *log_writer_new(struct log_store *store, struct sandbox_log *l, const char *sandbox, bool is_fresh)
{
	struct log_writer *w = calloc(1, sizeof(*w));

	if (w)
		w->files = log_files_new(storage_dir_fd(store->storage), sandbox);
	if (!w || !w->files) {
		free(w);
		return NULL;
	}
	w->store = store;
	w->said_ms = clock_monotonic_ms() - 2 * SAY_AGAIN_MS;
	w->log = l;
	w->is_fresh = is_fresh;
	(void)snprintf(w->sandbox, sizeof(w->sandbox), "%s", sandbox);
	w->open.work = open_work;
	w->open.done = open_done;
	w->n_jobs = 1;
	storage_submit(store->storage, &w->open);
	return w;
}

static struct log_writer *writer_of_removal(struct storage_job *job)
{
	return (struct log_writer *)(void *)((char *)job - offsetof(struct log_writer, removal));
}

static void removal_work(struct storage_job *job)
{
	struct log_writer *w = writer_of_removal(job);

	job->status = log_files_remove(storage_dir_fd(w->store->storage), w->sandbox, &job->err);
}

static void removal_done(struct storage_job *job)
{
	struct log_writer *w = writer_of_removal(job);

	w->n_jobs--;
	if (job->status == -1)
		log_warning("%s", job->err.text);
	free_when_done(w);
}

struct log_writer *log_writer_end(struct log_writer *w, bool remove)
{
	if (!w)
		return NULL;
	log_reader_detach(&w->reader);
	w->log = NULL;
	w->is_ended = true;
	submit(w);
	if (remove) {
		w->n_jobs++;
		w->removal.work = removal_work;
		w->removal.done = removal_done;
		storage_submit(w->store->storage, &w->removal);
	}
	free_when_done(w);
	return NULL;
}

/* ---- reading ---- */

struct seq log_writer_found(const struct log_writer *w)
{
	return w->found.last;
}

static struct log_older *older_of(struct storage_job *job)
{
	return (struct log_older *)(void *)((char *)job - offsetof(struct log_older, job));
}

static void older_work(struct storage_job *job)
{
	struct log_older *o = older_of(job);

	log_files_read(o->writer->files, &o->read);
	o->kept = log_files_kept(o->writer->files, o->ring);
	o->gone = log_files_gone(o->writer->files);
}

static void older_done(struct storage_job *job)
{
	struct log_older *o = older_of(job);
	struct log_writer *w = o->writer;

	if (o->gone.to > 0 && w->log && o->ring == w->keep.ring) {
		take_gone(w, &o->gone);
		w->kept = o->kept;
		tell(w);
		o->has_lost = true;
		o->lost = sandbox_log_lost(w->log);
	}
	o->done(o);
	w->n_jobs--;
	if (w->log && w->n_jobs == 0)
		submit(w);
	free_when_done(w);
}

void log_writer_older(struct log_writer *w, struct log_older *o)
{
	submit(w); /* so that it is there */
	w->n_jobs++;
	o->writer = w;
	o->ring = w->keep.ring;
	o->job.work = older_work;
	o->job.done = older_done;
	storage_submit(w->store->storage, &o->job);
}
