/* SPDX-License-Identifier: MIT
 *
 * One sandbox's log: what its processes write to stdout and stderr, cut into lines, in a 64 KiB ring in a memfd that the spawner
 * holds too, so that a new control process finds it. The ring's bytes are written only by control, but are read back with every
 * field checked. Lines are any bytes: cleaned to UTF-8 when read. A line of stderr may begin with "<N>" (sd-daemon's prefix),
 * which is its level and is taken off. Lines longer than LIMIT_LOG_LINE_BYTES
 * (with their prefix) are split and say so (partial: first, middle, last).
 * Control process, loop thread; the caller does the I/O of the pipes. */
#ifndef SANDBOXD_LOGS_H
#define SANDBOXD_LOGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/observe/seq.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_out.h"

enum log_stream { LOG_STREAM_STDOUT, LOG_STREAM_STDERR, LOG_STREAM_DAEMON /* what sandboxd has to say in between */, LOG_STREAM__N };

struct sandbox_log;

/* ring_fd_take: -1 for a new one (made at the first byte), or one handed over by the spawner: a damaged one is replaced and said so in the log. */
struct sandbox_log *sandbox_log_new(int ring_fd_take);         /* NULL: no memory (the descriptor is closed) */
struct sandbox_log *sandbox_log_free(struct sandbox_log *l);   /* NULL ok; returns NULL */
int sandbox_log_ring_fd(const struct sandbox_log *l);          /* borrowed; -1 before the first byte */
/* Any bytes of stdout or stderr, as read from the pipe. *ret_new_ring is 1 when the ring was made by this call, or before by
 * sandbox_log_say or for a damaged one: give it to the spawner (KEEP_RING); else 0. Without memory for a ring: counted as dropped. */
void sandbox_log_feed(struct sandbox_log *l, enum log_stream stream, const void *data, size_t size, int64_t wall_ms, int *ret_new_ring);
void sandbox_log_begin(struct sandbox_log *l);                   /* a process starts: last words are what comes from here on */
void sandbox_log_flush(struct sandbox_log *l, int64_t wall_ms);  /* a process has ended: unfinished lines end here */
void sandbox_log_say(struct sandbox_log *l, int64_t wall_ms, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sandbox_log_dropped(struct sandbox_log *l, uint64_t bytes); /* lost while no control was there; ends unfinished lines */
/* Writes "lines":[...], "dropped_bytes":n as members of the open object: the newest `lines` lines, oldest first, each
 * {"at": ms since 1970, "stream": "stdout"|"stderr"|"daemon", "level": "error", ..., "text", "partial": absent when whole}.
 * Lines that haven't ended yet come last, with partial "unfinished". bytes written = kept + dropped_bytes, exactly, where
 * kept is text, newlines and "<N>" of all lines that are there. */
void sandbox_log_json(const struct sandbox_log *l, unsigned lines, struct json_out *o);

/* ---- a page ---- */
struct log_query {
	unsigned lines;        /* the newest so many */
	int64_t since_ms;
	struct seq since;      /* only those behind it */
	bool no_unfinished;    /* lines that haven't ended are left out */
};
/* Lines of the ring as items of the open array; returns how many. */
unsigned sandbox_log_lines(const struct sandbox_log *l, const struct log_query *q, struct json_out *o);
struct seq sandbox_log_first(const struct sandbox_log *l); /* all behind it is in the ring */
struct seq sandbox_log_last(const struct sandbox_log *l);  /* what is to come is behind it */
/* Bytes written that can't be read any more. */
uint64_t sandbox_log_lost(const struct sandbox_log *l);

/* The newest that the processes said (since sandbox_log_begin) as one cleaned text for an obituary: at most `room` bytes with
 * its NUL, whole lines where possible, joined by " | ". */
void sandbox_log_last_words(const struct sandbox_log *l, char *to, size_t room);

#endif
