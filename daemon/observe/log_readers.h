/* SPDX-License-Identifier: MIT
 *
 * Whoever reads a sandbox's log on as it grows: followers, and the writer of its files. Each has a place in the ring, and takes
 * lines while it wants them; one that doesn't is overtaken, and is told how many bytes of the processes' output it has
 * missed, exactly. Loop thread. */
#ifndef SANDBOXD_LOG_READERS_H
#define SANDBOXD_LOG_READERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/observe/logs.h"
#include "daemon/observe/seq.h"
#include "proto/json_out.h"

struct log_record;
struct log_reader;

struct log_reader_type {
	bool (*wants)(struct log_reader *r);                    /* would it take a line now? */
	/* raw: the bytes of the stream that it stands for; the sum of all `raw` and `lost` is all that was written */
	void (*take)(struct log_reader *r, const struct log_record *record, const char *text, struct seq seq, uint64_t raw);
	void (*lost)(struct log_reader *r, uint64_t bytes);
	void (*pumped)(struct log_reader *r);                   /* nothing more is there now, or it wants no more; may be NULL */
	void (*gone)(struct log_reader *r);                     /* the log ends; it is detached */
};

struct log_reader {
	const struct log_reader_type *type;
	struct sandbox_log *log;  /* NULL: detached */
	uint64_t at;              /* its place */
	uint64_t accounted;       /* bytes of the stream before it: taken or lost */
	TAILQ_ENTRY(log_reader) link;
};

/* Behind all that is there now. */
void log_reader_attach_last(struct log_reader *r, const struct log_reader_type *type, struct sandbox_log *l);
/* Behind `after`, which it had reached with `accounted`; from the oldest when that isn't of this ring. */
void log_reader_attach(struct log_reader *r, const struct log_reader_type *type, struct sandbox_log *l, struct seq after, uint64_t accounted);
void log_reader_detach(struct log_reader *r); /* NULL log ok */
void log_reader_pump(struct log_reader *r);

/* at, stream, level, text, partial: members of the open object. */
void log_line_json(const struct log_record *record, const char *text, bool is_unfinished, struct json_out *o);

#define LOG_KEEP_FAILED 16 /* while small lines still find room on a full disk, failures alternate with successes */

/* What lies outside of the ring, as the writer of the files tells it: for sandbox_log_lost. */
struct log_keep {
	uint64_t ring;            /* the ring that it is about */
	uint64_t bytes;           /* of the stream, in files or on their way */
	uint64_t accounted;       /* bytes of the stream before the writer's place */
	struct {
		uint64_t from, to;
	} failed[LOG_KEEP_FAILED]; /* what it couldn't write, in order; only what the ring still has matters */
	unsigned n_failed;
};
void log_keep_set(struct sandbox_log *l, const struct log_keep *k);
void log_keep_failed(struct log_keep *k, uint64_t from, uint64_t to);

#endif
