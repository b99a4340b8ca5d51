/* SPDX-License-Identifier: MIT
 *
 * The ordered stream of all that happened: numbered INCARNATION-N, kept in a bounded ring (files come with the registry's
 * durability). One event is one JSON object {"seq","at","type","sandbox","owner",...}. Control process, loop thread. */
#ifndef SANDBOXD_EVENTS_H
#define SANDBOXD_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_out.h"

struct events;

struct events *events_new(uint64_t incarnation);       /* NULL: no memory */
struct events *events_free(struct events *ev);         /* NULL ok; returns NULL */

/* Begins an event and returns a writer that stands inside its object, after seq, at, type and sandbox (NULL: the daemon's own, seen
 * by administrators only); add members, then events_end. Between the two no other call here. Never fails: what doesn't fit
 * (LIMIT: 8 KiB an event) is replaced by {"truncated": true}. */
struct json_out *events_begin(struct events *ev, const char *type, const char *sandbox, uid_t owner);
void events_end(struct events *ev);
/* The common case: one text member, or none (key NULL). */
void events_add(struct events *ev, const char *type, const char *sandbox, uid_t owner, const char *key, const char *text);

struct events_query {
	const char *since_seq;     /* NULL: from the oldest kept */
	const char *sandbox;       /* NULL: all that the caller may see */
	bool is_admin;
	uid_t uid;                 /* sees events of its own sandboxes */
	unsigned limit;
};
/* Writes {"events":[...],"next":"SEQ","gap":bool}: gap when since_seq is older than what is kept, or of another incarnation.
 * -1 with BAD_PARAM for a since_seq that isn't a sequence number. */
int events_read(const struct events *ev, const struct events_query *q, struct buf *to, struct err *e);

#endif
