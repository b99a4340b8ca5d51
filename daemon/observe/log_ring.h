/* SPDX-License-Identifier: MIT
 *
 * The bytes of one sandbox's log: records in a ring, and one unfinished line per stream, in a memfd of fixed size.
 * Positions count from the first byte ever and never go back; a record is at least LOG_RECORD_BYTES and a multiple of 8.
 * A control process that is killed at any instant leaves a ring that its successor can read: the start moves before bytes
 * are overwritten, the end after they are written. At worst the line being finished at that instant is there twice.
 *
 * One writer, the control process. Positions are kept outside of the shared bytes; records are checked whenever they
 * are read, so whoever else writes into the memfd can spoil lines, but nothing more. */
#ifndef SANDBOXD_LOG_RING_H
#define SANDBOXD_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/observe/logs.h"
#include "proto/err.h"
#include "proto/limits.h"

#define LOG_PIPES         2 /* streams that processes write: LOG_STREAM_STDOUT, LOG_STREAM_STDERR */
#define LOG_RECORD_BYTES  16
#define LOG_PREFIX_BYTES  3 /* "<N>" */
#define LOG_RING_HEADER   128
#define LOG_RING_CAPACITY (LIMIT_LOG_RING_BYTES - LOG_RING_HEADER - LOG_PIPES * LIMIT_LOG_LINE_BYTES)

enum log_partial { LOG_WHOLE, LOG_FIRST, LOG_MIDDLE, LOG_LAST, LOG_PARTIAL__N };

#define LOG_F_NEWLINE 1u /* a newline stood behind it */
#define LOG_F_PREFIX  2u /* "<N>" stood in front of it */

struct log_record {
	int64_t wall_ms;
	unsigned size;       /* of the text that follows, at most LIMIT_LOG_LINE_BYTES */
	unsigned stream, level, partial, flags;
};

struct log_open {            /* a line that hasn't ended yet */
	int64_t wall_ms;     /* of its newest bytes */
	uint32_t size;
	uint8_t is_continued; /* pieces of the same line are in the ring already */
	uint8_t level;       /* of these */
	uint16_t zero;
};

struct log_ring {
	int fd;              /* -1: there is none yet, only `dropped` counts */
	unsigned char *map;
	uint64_t id;         /* a later ring has a greater one; 0: there is none yet */
	uint64_t start, end, dropped;
	uint64_t kept;       /* log_record_raw of all records */
	struct log_open open[LOG_PIPES];
};

struct log_line {
	struct log_record record;
	char text[LIMIT_LOG_LINE_BYTES];
};

void log_ring_init(struct log_ring *r);
void log_ring_fini(struct log_ring *r);
int log_ring_make(struct log_ring *r, struct err *e);                /* an empty one; keeps `dropped` */
int log_ring_adopt(struct log_ring *r, int fd_take, struct err *e);  /* checked; -1 leaves r as it was */

/* Room is made by dropping the oldest. The text may lie in the ring's own unfinished lines. */
void log_ring_add(struct log_ring *r, const struct log_record *record, const char *text);
void log_ring_drop(struct log_ring *r, uint64_t bytes);              /* counts bytes that were not kept; also without a ring */
void log_ring_empty(struct log_ring *r);                             /* drops all records */
/* The record at *at (r->start first), then *at is behind it. false: the end, or what can't be a record. */
bool log_ring_next(const struct log_ring *r, uint64_t *at, struct log_line *ret);

const char *log_ring_open_text(const struct log_ring *r, unsigned pipe);
void log_ring_open_append(struct log_ring *r, unsigned pipe, const char *data, size_t n, int64_t wall_ms); /* must fit */
/* Takes the first n bytes away; what stays is (is_continued) the rest of a line whose pieces have that level. */
void log_ring_open_take(struct log_ring *r, unsigned pipe, size_t n, bool is_continued, uint8_t level);

/* Bytes of its stream that a record stands for: text, prefix and newline. What sandboxd said counts 0. */
uint64_t log_record_raw(const struct log_record *record);
/* What a record takes in the ring. */
static inline uint64_t log_record_room(uint64_t text_bytes)
{
	return LOG_RECORD_BYTES + ((text_bytes + 7) & ~(uint64_t)7);
}

#endif
