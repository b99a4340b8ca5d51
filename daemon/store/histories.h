/* SPDX-License-Identifier: MIT
 *
 * Histories of versions that stay when their sandbox is destroyed: <state>/histories/<SHA-256 of the id> (folder.h), a line with the check sum
 * of what follows, and that: one JSON object {id, owner, destroyed_at, list, history} without raw newlines, where list and history are
 * what version.list and version.history answer. Bounded by number, by number per owner and by bytes: the oldest go first.
 *
 * Names that are no hashes, and files of a newer format, are left alone; a damaged file is renamed to .damaged and told as a problem. What is
 * counted for the bounds is read when the first is kept. All functions block: they run in storage jobs (or in tests). */
#ifndef SANDBOXD_HISTORIES_H
#define SANDBOXD_HISTORIES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/json_scan.h"
#include "proto/limits.h"

#define HISTORY_PROBLEM_BYTES 320

struct histories;

struct histories_limits {
	size_t kept, per_owner;
	uint64_t bytes;
};
extern const struct histories_limits histories_limits; /* the daemon's */

struct history {
	char id[LIMIT_ID_BYTES + 1];
	uint32_t owner;
	int64_t destroyed_at_ms;
	char *text;                   /* owned */
	size_t size;
	struct json_span list, history; /* in text */
};

struct histories *histories_new(int state_dir_fd, const struct histories_limits *limits); /* NULL: no memory */
struct histories *histories_free(struct histories *h);                                    /* NULL ok; returns NULL */
/* Durable when it returns 0, in place of the one that the id had. problem: what was found damaged meanwhile, or "". -1 with BAD_PARAM or
 * LIMIT_EXCEEDED: it never can be kept. */
int histories_keep(struct histories *h, const char *text, size_t size, char problem[HISTORY_PROBLEM_BYTES], struct err *e);
bool histories_is_final(const struct err *e); /* of histories_keep: trying again is of no use */
int histories_drop(struct histories *h, const char *id, struct err *e); /* durable; one that isn't there: 0 */
/* -1: NOT_FOUND, also when it was damaged (problem says so, else it is ""), or IO. */
int histories_get(struct histories *h, const char *id, struct history *ret, char problem[HISTORY_PROBLEM_BYTES], struct err *e);
void history_fini(struct history *k);

#endif
