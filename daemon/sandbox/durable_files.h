/* SPDX-License-Identifier: MIT
 *
 * Inner header of durable.c and durable_files.c; nobody else includes it. The daemon's part: which objects are referred to and how often,
 * what is to be removed, rows that could not be deleted. */
#ifndef SANDBOXD_DURABLE_FILES_H
#define SANDBOXD_DURABLE_FILES_H

#include "daemon/sandbox/durable.h"

struct tombstones;

void files_writes(struct control *c, int change);     /* one more write is under way, or one less */
bool files_may_write(const struct control *c);
void files_object_add(struct sandbox *sb, const char *sha256);
/* It refers to these and no others; what nobody refers to any more is removed. */
void files_objects_set(struct sandbox *sb, const char *const *sha256, unsigned n);
void files_states_set(struct sandbox *sb); /* it refers to the states that disk.state_sha256 and disk.older name, and to no others */

/* A row that could not be deleted: the next write of any sandbox tries it again. Its objects stay until then. */
void files_tombstone_add(struct sandbox *sb);
struct tombstones *files_tombstones(struct control *c, const char *but_not); /* copies of all ids, but of few with a history; but_not is written anew. NULL: none */
void files_tombstones_done(struct control *c, const struct tombstones *t);   /* these are deleted */
size_t tombstones_count(const struct tombstones *t); /* NULL ok */
const char *tombstones_id(const struct tombstones *t, size_t i);
/* In the thread: a row whose history of versions can't be kept either stays for another time. */
void tombstones_keep_histories(struct tombstones *t, struct histories *h);
bool tombstones_is_due(const struct tombstones *t, size_t i);
void tombstones_free(struct tombstones *t); /* NULL ok */

#endif
