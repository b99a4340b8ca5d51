/* SPDX-License-Identifier: MIT
 *
 * The books: what was ever written is ring.dropped + ring.kept (unfinished lines come later). A reader whose place has been
 * overtaken goes on at the ring's start, where ring.dropped bytes lie before; the difference is what it has lost. */
#include "daemon/observe/log_readers.h"

#include "daemon/observe/log_inside.h"

#include <string.h>

static void attach(struct log_reader *r, const struct log_reader_type *type, struct sandbox_log *l)
{
	r->type = type;
	r->log = l;
	TAILQ_INSERT_TAIL(&l->readers, r, link);
}

void log_reader_attach_last(struct log_reader *r, const struct log_reader_type *type, struct sandbox_log *l)
{
	attach(r, type, l);
	r->at = l->ring.end;
	r->accounted = l->ring.dropped + l->ring.kept;
}

void log_reader_attach(struct log_reader *r, const struct log_reader_type *type, struct sandbox_log *l, struct seq after, uint64_t accounted)
{
	bool is_here = l->ring.map && after.major == l->ring.id && after.n <= l->ring.end &&
		accounted <= l->ring.dropped + l->ring.kept;

	attach(r, type, l);
	r->at = is_here ? after.n : 0;
	r->accounted = is_here ? accounted : 0;
}

void log_reader_detach(struct log_reader *r)
{
	if (r->log)
		TAILQ_REMOVE(&r->log->readers, r, link);
	r->log = NULL;
}

static void lose(struct log_reader *r, uint64_t to)
{
	uint64_t bytes = to > r->accounted ? to - r->accounted : 0;

	r->accounted += bytes;
	if (bytes > 0)
		r->type->lost(r, bytes);
}

void log_reader_pump(struct log_reader *r)
{
	const struct log_ring *ring = &r->log->ring;
	struct log_line line;
	bool is_full = false;

	if (r->at < ring->start) {
		r->at = ring->start;
		lose(r, ring->dropped);
	}
	while (r->at < ring->end && !(is_full = !r->type->wants(r)) && log_ring_next(ring, &r->at, &line)) {
		uint64_t raw = log_record_raw(&line.record);

		r->accounted += raw;
		r->type->take(r, &line.record, line.text, (struct seq){ ring->id, r->at }, raw);
	}
	if (!is_full) { /* also when a record can't be one */
		r->at = ring->end;
		lose(r, ring->dropped + ring->kept);
	}
	if (r->type->pumped)
		r->type->pumped(r);
}

void log_readers_pump(struct sandbox_log *l)
{
	struct log_reader *r = TAILQ_FIRST(&l->readers), *next;

	for (; r; r = next) {
		next = TAILQ_NEXT(r, link);
		log_reader_pump(r);
	}
	l->pumped = l->ring.end;
}

void log_readers_gone(struct sandbox_log *l)
{
	struct log_reader *r;

	while ((r = TAILQ_FIRST(&l->readers))) {
		log_reader_detach(r);
		r->type->gone(r);
	}
}

bool log_readers_want(struct sandbox_log *l)
{
	struct log_reader *r;

	TAILQ_FOREACH(r, &l->readers, link)
		if (r->type->wants(r))
			return true;
	return false;
}

struct seq sandbox_log_first(const struct sandbox_log *l)
{
	return (struct seq){ l->ring.id, l->ring.start };
}

struct seq sandbox_log_last(const struct sandbox_log *l)
{
	return (struct seq){ l->ring.id, l->ring.end };
}

void log_keep_set(struct sandbox_log *l, const struct log_keep *k)
{
	l->keep = *k;
}

/* In order, and none touches another: what was not written may lie within a file that went later. */
void log_keep_failed(struct log_keep *k, uint64_t from, uint64_t to)
{
	unsigned n = 0, at;

	for (unsigned i = 0; i < k->n_failed; i++) {
		if (k->failed[i].to < from || k->failed[i].from > to) {
			k->failed[n++] = k->failed[i];
			continue;
		}
		from = k->failed[i].from < from ? k->failed[i].from : from;
		to = k->failed[i].to > to ? k->failed[i].to : to;
	}
	k->n_failed = n;
	if (n == LOG_KEEP_FAILED) { /* the oldest, which the ring will be through with first */
		memmove(&k->failed[0], &k->failed[1], (n - 1) * sizeof(k->failed[0]));
		k->n_failed--;
	}
	for (at = k->n_failed; at > 0 && k->failed[at - 1].from > from; at--)
		k->failed[at] = k->failed[at - 1];
	k->failed[at].from = from;
	k->failed[at].to = to;
	k->n_failed++;
}

/* Kept: what the files have, and what of the ring they don't have. */
uint64_t sandbox_log_lost(const struct sandbox_log *l)
{
	const struct log_ring *ring = &l->ring;
	const struct log_keep *k = &l->keep;
	uint64_t both = 0, failed = 0, kept;

	if (k->ring != ring->id || ring->id == 0)
		return ring->dropped;
	if (k->accounted > ring->dropped)
		both = k->accounted - ring->dropped;
	for (unsigned i = 0; i < k->n_failed; i++)
		if (k->failed[i].to > ring->dropped)
			failed += k->failed[i].to - (k->failed[i].from > ring->dropped ? k->failed[i].from : ring->dropped);
	both = both > failed ? both - failed : 0;
	kept = k->bytes > both ? k->bytes - both : 0;
	return ring->dropped > kept ? ring->dropped - kept : 0;
}
