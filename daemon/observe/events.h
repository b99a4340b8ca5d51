/* SPDX-License-Identifier: MIT
 *
 * The ordered stream of all that happened: numbered INCARNATION-N, the newest in a ring in memory, all of them in files
 * (event_files.h), written in batches by storage jobs. One event is one JSON object {"seq","at","type","sandbox","owner",...}.
 * Events of sandboxes with persist:false are written like all others: they are the daemon's record, and a sequence
 * without holes is what shows that nothing is missing. Control process, loop thread. */
#ifndef SANDBOXD_EVENTS_H
#define SANDBOXD_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/observe/event_files.h"
#include "daemon/observe/seq.h"
#include "daemon/store/storage.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_out.h"

struct events;

struct events *events_new(uint64_t incarnation);       /* in memory only, until events_open; NULL: no memory */
/* Before the first event: opens the files in `folder` (a literal) of the state folder, takes over what an earlier process left. Blocks. The incarnation becomes a later one than
 * any in the files. What was found damaged or torn becomes an event. -1: in memory only, as before. */
int events_open(struct events *ev, int state_dir_fd, const char *folder, struct storage *storage, struct err *e);
void events_close(struct events *ev);                  /* hands all to the storage jobs; files are used no more */
/* NULL ok; returns NULL. With files: after storage has stopped. */
struct events *events_free(struct events *ev);

/* Begins an event and returns a writer that stands inside its object, after seq, at, type and sandbox (NULL: the daemon's own, seen
 * by administrators only); add members, then events_end. Between the two no other call here. Never fails: what doesn't fit
 * (LIMIT: 8 KiB an event) is replaced by {"truncated": true}. */
struct json_out *events_begin(struct events *ev, const char *type, const char *sandbox, uid_t owner);
/* The same, but its owner sees it also where it is about no sandbox, or about another user's: a group's. */
struct json_out *events_begin_owned(struct events *ev, const char *type, const char *sandbox, uid_t owner);
void events_end(struct events *ev);
/* The common case: one text member, or none (key NULL). */
void events_add(struct events *ev, const char *type, const char *sandbox, uid_t owner, const char *key, const char *text);

/* ---- reading: a page, from the ring at once or from the files later ---- */

struct events_read {
	/* the caller's */
	struct event_filter filter;
	bool is_newest;            /* the newest `limit`, else the first ones */
	unsigned limit;
	void (*done)(struct events_read *rd);
	/* the answer */
	struct buf items;          /* events with commas between them; `failed`: no memory */
	struct seq next;           /* the last one looked at */
	bool gap;                  /* some behind since_seq are gone */
	/* its own */
	struct events *ev;
	struct storage_job job;
	struct event_files_read files;
	struct buf ring;           /* newest: what the ring had */
	unsigned n_tries;
};

/* rd lives until `done`, which is called once, perhaps before this returns. The caller frees items. since_seq: NULL: from the oldest.
 * -1 with BAD_PARAM for a since_seq that isn't a sequence number: then `done` isn't called. */
int events_read_begin(struct events *ev, struct events_read *rd, const char *since_seq, struct err *e);
/* {"events":[...],"next":"SEQ","gap":bool as members of the open object. */
void events_read_json(const struct events_read *rd, struct json_out *o);

/* ---- following ---- */

/* Called for every event when it ends; may not add events. */
void events_listen(struct events *ev, void (*heard)(void *ctx, const struct event_head *head, const char *json, size_t size), void *ctx);
struct seq events_last(const struct events *ev); /* the last one that has happened; N is 0 before the first */

#endif
