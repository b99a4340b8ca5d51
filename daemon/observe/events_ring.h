/* SPDX-License-Identifier: MIT
 *
 * What events.c (the ring) and events_disk.c (files) share. Private to the two. */
#ifndef SANDBOXD_EVENTS_RING_H
#define SANDBOXD_EVENTS_RING_H

#include "daemon/observe/event_pending.h"
#include "daemon/observe/events.h"
#include "proto/limits.h"

struct event {
	char *json;        /* NULL: there was no memory for it */
	uint32_t size;
	bool is_owned;     /* else it is the daemon's, for administrators */
	uid_t owner;
	int64_t at_ms;
	char sandbox[LIMIT_ID_BYTES + 1]; /* "": none */
	char type[EVENT_TYPE_BYTES];
};

/* Events on their way to a file. */
struct event_batch {
	struct storage_job job;
	struct events *ev;
	struct buf lines;
	struct seq first, last;
	unsigned n;
};

struct events {
	const char *folder;  /* a literal, once there are files */
	uint64_t incarnation;
	uint64_t first, next;          /* numbers first .. next-1 are kept; the first event ever is 1 */
	size_t bytes;                  /* of all their JSON */
	bool is_open;                  /* between events_begin and events_end */
	struct event begun;
	size_t head_size;
	struct buf text;
	struct json_out out;
	void (*heard)(void *ctx, const struct event_head *head, const char *json, size_t size);
	void *heard_ctx;
	/* events_disk.c */
	struct storage *storage;       /* NULL: in memory only */
	struct event_files *files;     /* of the storage jobs, once there are some */
	struct event_pending *pending; /* NULL: it couldn't be made */
	struct event_batch *batch;     /* that gathers; NULL: none */
	unsigned n_batches;            /* handed to the storage thread */
	uint64_t settled;              /* up to this number all are in the files, or never will be */
	bool is_failing;               /* the last batch couldn't be written */
	struct event ring[LIMIT_EVENTS];
};

/* ---- events.c ---- */
void events_ring_forward(const struct events *ev, struct events_read *rd);
void events_ring_newest(const struct events *ev, struct events_read *rd);

/* ---- events_disk.c ---- */
void events_disk_add(struct events *ev, const struct event *x); /* the newest one */
void events_disk_free(struct events *ev);

#endif
