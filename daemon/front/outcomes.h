/* SPDX-License-Identifier: MIT
 *
 * What keyed requests came to: one row per (user, key), at work or done, and the answers of those that are done. It all lies
 * in memory that the spawner holds and that every control maps: each step is one store after the bytes that it speaks of,
 * so a control that is killed anywhere leaves a table that its successor can read. Bounded by limits.h: when a user has
 * too many, or too large ones, that user's oldest outcomes go first; a row at work never goes. Nothing in it is believed before it
 * is checked. Pure, but for the mapping; control process, loop thread only. */
#ifndef SANDBOXD_OUTCOMES_H
#define SANDBOXD_OUTCOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/buf.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/methods.h"

enum outcome_state { OUTCOME_NONE, OUTCOME_RUNNING, OUTCOME_DONE };

/* Of the shared memory: fixed layout. Others read it; outcomes.c alone writes it. */
struct outcome {
	uint32_t state;              /* enum outcome_state */
	uint32_t uid;
	uint64_t order;              /* grows: older ones have less */
	uint64_t params;             /* a digest of what was asked */
	uint64_t number;             /* of the call, from before it is sent; 0: not sent */
	uint64_t before;             /* what there was when it began: the owner's business */
	uint32_t method;             /* enum method_id */
	uint32_t is_error;           /* DONE: the bytes are an error object */
	uint32_t first_block, size;  /* DONE */
	char key[LIMIT_REQUEST_KEY_BYTES + 1];
	char sandbox[LIMIT_ID_BYTES + 1];        /* the id that it is about, a group's too */
	char function[LIMIT_FUNCTION_BYTES + 1]; /* what else it is about: the call's function, the sandbox that a group gets */
};

struct outcomes;

/* fd_take: of LIMIT_OUTCOMES_BYTES, sealed against change of size; closed here. What is in it and isn't ours is forgotten. */
int outcomes_open(int fd_take, struct outcomes **ret, struct err *e);
struct outcomes *outcomes_close(struct outcomes *o); /* NULL ok, returns NULL; what was written stays */

struct outcome *outcomes_find(struct outcomes *o, uid_t uid, const char *key); /* NULL: unknown */
/* A new row, RUNNING. The key must be unknown. -1: BUSY, all rows (of this user) are at work. */
int outcomes_begin(struct outcomes *o, const struct outcome *row, struct outcome **ret, struct err *e);
/* The call is about to be sent under this number (0: it wasn't after all). */
void outcomes_number(struct outcome *row, uint64_t number);
/* Its answer, kept before anybody is told. false: it couldn't be kept (too large): the row isn't done. */
bool outcomes_done(struct outcomes *o, struct outcome *row, bool is_error, const char *json, size_t size);
void outcomes_release(struct outcomes *o, struct outcome *row); /* the key is unknown again */
void outcomes_read(const struct outcomes *o, const struct outcome *row, struct buf *to); /* appends the answer of a DONE one */
/* Rows that are at work, in no order: NULL first, NULL at the end. The row returned may be released before the next step. */
struct outcome *outcomes_running(struct outcomes *o, const struct outcome *after);
size_t outcomes_index(const struct outcomes *o, const struct outcome *row); /* below LIMIT_OUTCOMES */

#endif
