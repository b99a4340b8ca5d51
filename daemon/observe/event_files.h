/* SPDX-License-Identifier: MIT
 *
 * Events on disk: <state>/<folder>/<first seq>.events, one JSON line an event, only ever appended to; bounded by bytes and age.
 * Whatever is read is checked: a line without its end is cut off at the start of the daemon, a file that can't be right is
 * renamed to .damaged and its events are gone. Blocks: after event_files_open it belongs to the storage jobs. */
#ifndef SANDBOXD_EVENT_FILES_H
#define SANDBOXD_EVENT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/observe/seq.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/limits.h"

#define EVENT_TYPE_BYTES 64

/* Who wants to see what; "" and 0: anything. */
struct event_filter {
	char sandbox[LIMIT_ID_BYTES + 1];
	char type[EVENT_TYPE_BYTES + 1]; /* one that ends with a dot stands for all that begin so */
	int64_t since_ms;
	bool is_admin;
	uid_t uid;                       /* sees events of its own sandboxes and groups */
};

struct event_head {
	struct seq seq;
	int64_t at_ms;
	const char *sandbox;             /* "": none */
	const char *type;
	bool is_owned;                   /* by a user; else it is the daemon's own, for administrators */
	uid_t owner;
};

bool event_filter_takes(const struct event_filter *f, const struct event_head *h);
/* Does `next` follow right behind `before`, with nothing between them? is_known: whatever followed `before` wasn't removed. */
bool event_follows(struct seq before, struct seq next, bool is_known);

struct event_files;

struct event_files_found {
	struct seq last;         /* the newest event that is there; 0-0: none */
	uint64_t cut_bytes;      /* of a line that was torn */
	unsigned n_damaged;      /* files put aside */
};

int event_files_open(int state_dir_fd, const char *folder, struct event_files **ret, struct event_files_found *found, struct err *e);
struct event_files *event_files_free(struct event_files *f); /* NULL ok; returns NULL */
int event_files_dir_fd(const struct event_files *f);         /* borrowed: the folder of events */

/* Whole lines, of the events first..last, all newer than what is there. On failure none of them is there. */
int event_files_append(struct event_files *f, const char *lines, size_t size, struct seq first, struct seq last,
	int64_t now_ms, struct err *e);
int event_files_sync(struct event_files *f);                 /* -1 with errno */

/* One file's part of a page. The caller fills `at` to `left`, and calls until `more` is false. */
struct event_files_read {
	struct event_filter filter;
	bool is_back;            /* the newest before `until`, else those behind `at` */
	bool is_begin;           /* forward: from the oldest; what is missing before it isn't a gap */
	struct seq at;           /* forward: the last one passed */
	bool is_known;           /* forward: it, or one before it, is there: nothing behind it has been removed */
	struct seq until;        /* the first one that isn't wanted any more */
	unsigned left;           /* events still wanted */
	struct buf to;           /* events with commas between them */
	bool gap;                /* some between them are gone */
	bool more;
	/* its own */
	struct seq file;         /* forward: the next file begins here or later; back: all from here on are done */
	bool has_file;
};

void event_files_read(struct event_files *f, struct event_files_read *r);

/* The head of an event's JSON, which is checked; texts go into room. false: it is none. */
struct event_head_room {
	char sandbox[LIMIT_ID_BYTES + 1], type[EVENT_TYPE_BYTES + 1];
};
bool event_head_read(const char *line, size_t size, struct event_head_room *room, struct event_head *ret);

#endif
