/* SPDX-License-Identifier: MIT
 *
 * Cuts streams into lines and shows them. A line that is complete in what was read goes straight into the ring; the
 * beginning of one waits in the ring's room for unfinished lines, which outlives this process. A full piece waits there
 * too until one more byte shows whether it was a whole line of just that length. */
#include "daemon/observe/logs.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/observe/log_inside.h"
#include "proto/clock.h"
#include "proto/fd.h"

#define LEVEL_NOTICE 5 /* of what sandboxd says */
#define LEVEL_INFO   6 /* of lines that don't say */
#define JOINT        " | "


/* ---- life ---- */

static bool has_ring(struct sandbox_log *l)
{
	if (l->ring.fd != -1)
		return true;
	if (log_ring_make(&l->ring, NULL) == -1)
		return false;
	l->is_untold = true;
	return true;
}

struct sandbox_log *sandbox_log_new(int ring_fd_take)
{
	struct sandbox_log *l = calloc(1, sizeof(*l));
	struct err e = ERR_INIT;

	if (!l) {
		fd_close(&ring_fd_take);
		return NULL;
	}
	TAILQ_INIT(&l->readers);
	log_ring_init(&l->ring);
	if (ring_fd_take != -1 && log_ring_adopt(&l->ring, ring_fd_take, &e) == -1)
		sandbox_log_say(l, clock_wall_ms(), "the log kept from before is damaged and was left out: %s", e.text);
	return l;
}

struct sandbox_log *sandbox_log_free(struct sandbox_log *l)
{
	if (!l)
		return NULL;
	log_readers_gone(l);
	log_ring_fini(&l->ring);
	free(l);
	return NULL;
}

int sandbox_log_ring_fd(const struct sandbox_log *l)
{
	return l->ring.fd;
}

void sandbox_log_begin(struct sandbox_log *l)
{
	l->begin = l->ring.end;
}

/* ---- cutting ---- */

static bool has_prefix(unsigned pipe, const char *text, size_t n)
{
	return pipe == LOG_STREAM_STDERR && n >= LOG_PREFIX_BYTES && text[0] == '<' && text[1] >= '0' && text[1] <= '7' &&
		text[2] == '>';
}

/* How much of the n bytes to take so that no character is cut in two: n, or up to three bytes less. */
static size_t whole_characters(const char *text, size_t n)
{
	for (size_t back = 1; back <= 3 && back < n; back++) {
		unsigned char c = (unsigned char)text[n - back];

		if ((c & 0xc0) == 0x80)
			continue;
		if (c < 0xc0)
			break;
		return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? n - back : n;
	}
	return n;
}

enum line_end { END_NEWLINE, END_CUT /* more of the line follows */, END_LAST /* nothing follows any more */ };

/* One record; `text` is all of the stream's bytes since the record before it. */
static void put_piece(struct sandbox_log *l, unsigned pipe, const char *text, size_t n, enum line_end end, int64_t wall_ms)
{
	const struct log_open *o = &l->ring.open[pipe];
	struct log_record record = { .wall_ms = wall_ms, .stream = pipe, .level = LEVEL_INFO };

	if (o->is_continued) {
		record.level = o->level;
		record.partial = end == END_CUT ? LOG_MIDDLE : LOG_LAST;
	} else {
		record.partial = end == END_CUT ? LOG_FIRST : LOG_WHOLE;
		if (has_prefix(pipe, text, n)) {
			record.level = (unsigned)(text[1] - '0');
			record.flags |= LOG_F_PREFIX;
			text += LOG_PREFIX_BYTES;
			n -= LOG_PREFIX_BYTES;
		}
	}
	if (end == END_NEWLINE)
		record.flags |= LOG_F_NEWLINE;
	record.size = (unsigned)n;
	log_ring_add(&l->ring, &record, text);
	l->ring.open[pipe].level = (uint8_t)record.level; /* goes into the ring with the next log_ring_open_take */
}

/* The first n bytes of the unfinished line become a record. */
static void put_open(struct sandbox_log *l, unsigned pipe, size_t n, enum line_end end, int64_t wall_ms)
{
	put_piece(l, pipe, log_ring_open_text(&l->ring, pipe), n, end, wall_ms);
	log_ring_open_take(&l->ring, pipe, n, end == END_CUT, l->ring.open[pipe].level);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Nothing unfinished is there. Returns how many bytes it took. */
static size_t feed_fresh(struct sandbox_log *l, unsigned pipe, const char *data, size_t size, int64_t wall_ms)
{
	const char *newline = memchr(data, '\n', least(size, LIMIT_LOG_LINE_BYTES + 1));
	bool is_cut = !newline && size > LIMIT_LOG_LINE_BYTES;
	size_t n;

	if (!newline && !is_cut) {
		log_ring_open_append(&l->ring, pipe, data, size, wall_ms);
		return size;
	}
	n = newline ? (size_t)(newline - data) : whole_characters(data, LIMIT_LOG_LINE_BYTES);
	put_piece(l, pipe, data, n, newline ? END_NEWLINE : END_CUT, wall_ms);
	if (is_cut || l->ring.open[pipe].is_continued)
		log_ring_open_take(&l->ring, pipe, 0, is_cut, l->ring.open[pipe].level);
	return newline ? n + 1 : n;
}

/* Behind an unfinished line. Returns how many bytes it took. */
static size_t feed_open(struct sandbox_log *l, unsigned pipe, const char *data, size_t size, int64_t wall_ms)
{
	size_t room = LIMIT_LOG_LINE_BYTES - l->ring.open[pipe].size;
	const char *newline = memchr(data, '\n', least(size, room + 1));
	size_t n = newline ? (size_t)(newline - data) : least(size, room);

	log_ring_open_append(&l->ring, pipe, data, n, wall_ms);
	if (newline)
		put_open(l, pipe, l->ring.open[pipe].size, END_NEWLINE, wall_ms);
	else if (size > room)
		put_open(l, pipe, whole_characters(log_ring_open_text(&l->ring, pipe), LIMIT_LOG_LINE_BYTES), END_CUT, wall_ms);
	return newline ? n + 1 : n;
}

/* What the ring needs at least for a line of n bytes. */
static uint64_t room_of_line(unsigned pipe, const char *text, size_t n)
{
	size_t prefix = has_prefix(pipe, text, n) ? LOG_PREFIX_BYTES : 0;

	return n <= LIMIT_LOG_LINE_BYTES ? log_record_room(n - prefix) : LOG_RECORD_BYTES + n - prefix;
}

/* A flood of short lines: so many bytes at the front would be pushed out of the ring by the complete lines behind them.
 * They needn't be put into it first; the result is the same. */
static size_t surplus(unsigned pipe, const char *data, size_t size)
{
	const char *end, *before;
	uint64_t room = 0;

	if (size <= LOG_RING_CAPACITY / LOG_RECORD_BYTES) /* even empty lines fit */
		return 0;
	end = memrchr(data, '\n', size);
	while (end && room < LOG_RING_CAPACITY) {
		before = memrchr(data, '\n', (size_t)(end - data));
		if (before)
			room += room_of_line(pipe, before + 1, (size_t)(end - before - 1));
		end = before;
	}
	return end ? (size_t)(end + 1 - data) : 0;
}

void sandbox_log_feed(struct sandbox_log *l, enum log_stream stream, const void *data, size_t size, int64_t wall_ms,
	int *ret_new_ring)
{
	const char *at = data;
	unsigned pipe = stream;
	size_t n;

	assert(pipe < LOG_PIPES);
	*ret_new_ring = 0;
	if (size == 0)
		return;
	if (!has_ring(l)) {
		log_ring_drop(&l->ring, size);
		return;
	}
	*ret_new_ring = l->is_untold;
	l->is_untold = false;
	n = log_readers_want(l) ? 0 : surplus(pipe, at, size);
	if (n > 0) {
		log_ring_empty(&l->ring); /* at once, not record by record */
		log_ring_drop(&l->ring, n + l->ring.open[pipe].size);
		log_ring_open_take(&l->ring, pipe, l->ring.open[pipe].size, false, 0);
	}
	at += n;
	size -= n;
	while (size > 0) {
		n = l->ring.open[pipe].size ? feed_open(l, pipe, at, size, wall_ms) : feed_fresh(l, pipe, at, size, wall_ms);
		at += n;
		size -= n;
		if (l->ring.end - l->pumped > LOG_RING_CAPACITY / 4) /* before the ring overtakes its readers */
			log_readers_pump(l);
	}
	log_readers_pump(l);
}

static void end_open(struct sandbox_log *l, unsigned pipe, int64_t wall_ms)
{
	if (l->ring.open[pipe].size > 0)
		put_open(l, pipe, l->ring.open[pipe].size, END_LAST, wall_ms);
}

void sandbox_log_flush(struct sandbox_log *l, int64_t wall_ms)
{
	for (unsigned pipe = 0; pipe < LOG_PIPES; pipe++)
		end_open(l, pipe, wall_ms);
	log_readers_pump(l);
}

void sandbox_log_say(struct sandbox_log *l, int64_t wall_ms, const char *format, ...)
{
	struct log_record record = { .wall_ms = wall_ms, .stream = LOG_STREAM_DAEMON, .level = LEVEL_NOTICE };
	char text[LIMIT_LOG_TEXT_BYTES] = "";
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	record.size = (unsigned)strlen(text);
	if (has_ring(l))
		log_ring_add(&l->ring, &record, text);
	log_readers_pump(l);
}

/* What was lost lies behind the unfinished lines: what comes next isn't their rest. */
void sandbox_log_dropped(struct sandbox_log *l, uint64_t bytes)
{
	if (bytes == 0)
		return;
	for (unsigned pipe = 0; pipe < LOG_PIPES; pipe++)
		end_open(l, pipe, l->ring.open[pipe].wall_ms);
	log_ring_drop(&l->ring, bytes);
	log_readers_pump(l);
}

/* ---- showing ---- */

static const char *const stream_names[] = {
	[LOG_STREAM_STDOUT] = "stdout", [LOG_STREAM_STDERR] = "stderr", [LOG_STREAM_DAEMON] = "daemon",
};
static const char *const level_names[] = { "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug" };
static const char *const partial_names[] = {
	[LOG_WHOLE] = NULL, [LOG_FIRST] = "first", [LOG_MIDDLE] = "middle", [LOG_LAST] = "last",
};

_Static_assert(sizeof(stream_names) / sizeof(stream_names[0]) == LOG_STREAM__N, "name every stream");
_Static_assert(sizeof(partial_names) / sizeof(partial_names[0]) == LOG_PARTIAL__N, "name every part");

struct walk {
	const struct log_ring *ring;
	uint64_t at;
	unsigned pipe;       /* whose unfinished line comes next, when the records are through */
	bool is_unfinished;  /* the line is one */
	struct log_line line;
};

static void walk_begin(struct walk *w, const struct sandbox_log *l, uint64_t from)
{
	w->ring = &l->ring;
	w->at = from > l->ring.start ? from : l->ring.start;
	w->pipe = 0;
	w->is_unfinished = false;
}

/* All that is there, in order; unfinished lines as if they had ended now. */
static bool walk_next(struct walk *w)
{
	if (log_ring_next(w->ring, &w->at, &w->line))
		return true;
	for (w->is_unfinished = true; w->pipe < LOG_PIPES; w->pipe++) {
		const struct log_open *o = &w->ring->open[w->pipe];
		const char *text;
		size_t n = o->size;

		if (n == 0)
			continue;
		text = log_ring_open_text(w->ring, w->pipe);
		w->line.record = (struct log_record){ .wall_ms = o->wall_ms, .stream = w->pipe,
			.level = o->is_continued ? o->level : LEVEL_INFO, .partial = o->is_continued ? LOG_LAST : LOG_WHOLE };
		if (!o->is_continued && has_prefix(w->pipe, text, n)) {
			w->line.record.level = (unsigned)(text[1] - '0');
			text += LOG_PREFIX_BYTES;
			n -= LOG_PREFIX_BYTES;
		}
		w->line.record.size = (unsigned)n;
		memcpy(w->line.text, text, n);
		w->pipe++;
		return true;
	}
	return false;
}

void log_line_json(const struct log_record *record, const char *text, bool is_unfinished, struct json_out *o)
{
	const char *partial = is_unfinished ? "unfinished" : partial_names[record->partial];

	json_out_i64(o, "at", record->wall_ms);
	json_out_text(o, "stream", stream_names[record->stream]);
	json_out_text(o, "level", level_names[record->level]);
	json_out_text_n(o, "text", text, record->size);
	if (partial)
		json_out_text(o, "partial", partial);
}

static bool is_wanted(const struct walk *w, const struct log_query *q, uint64_t ring)
{
	struct seq seq = { ring, w->at };

	return w->line.record.wall_ms >= q->since_ms && (w->is_unfinished ? !q->no_unfinished : seq_compare(seq, q->since) > 0);
}

unsigned sandbox_log_lines(const struct sandbox_log *l, const struct log_query *q, struct json_out *o)
{
	struct walk w;
	unsigned n = 0, given = 0;

	for (walk_begin(&w, l, 0); walk_next(&w);)
		n += is_wanted(&w, q, l->ring.id);
	for (walk_begin(&w, l, 0); walk_next(&w);) {
		if (!is_wanted(&w, q, l->ring.id) || n-- > q->lines)
			continue;
		json_out_object(o, NULL);
		log_line_json(&w.line.record, w.line.text, w.is_unfinished, o);
		json_out_object_end(o);
		given++;
	}
	return given;
}

void sandbox_log_json(const struct sandbox_log *l, unsigned lines, struct json_out *o)
{
	struct log_query q = { .lines = lines };

	json_out_array(o, "lines");
	(void)sandbox_log_lines(l, &q, o);
	json_out_array_end(o);
	json_out_u64(o, "dropped_bytes", l->ring.dropped);
}

/* What the daemon says is nobody's last word, and empty lines say nothing. */
static bool is_a_word(const struct log_record *record)
{
	return record->stream < LOG_PIPES && record->size > 0;
}

/* Cleaning never makes a text longer, so sizes before it are a bound. */
void sandbox_log_last_words(const struct sandbox_log *l, char *to, size_t room)
{
	const size_t joint = sizeof(JOINT) - 1;
	size_t total = 0, put = 0;
	struct walk w;

	assert(room > 0);
	to[0] = '\0';
	for (walk_begin(&w, l, l->begin); walk_next(&w);)
		if (is_a_word(&w.line.record))
			total += w.line.record.size + joint;
	for (walk_begin(&w, l, l->begin); walk_next(&w);) {
		const char *text = w.line.text;
		size_t n = w.line.record.size;

		if (!is_a_word(&w.line.record))
			continue;
		total -= n + joint; /* what comes behind this line */
		if (n + total >= room && total > 0)
			continue;
		for (; n >= room || (n > 0 && text != w.line.text && ((unsigned char)*text & 0xc0) == 0x80); n--)
			text++; /* only the end of the last line fits */
		if (put > 0 && w.line.record.partial != LOG_MIDDLE && w.line.record.partial != LOG_LAST) {
			memcpy(to + put, JOINT, joint);
			put += joint;
		}
		text_clean(to + put, room - put, text, n);
		put += strlen(to + put);
	}
}
