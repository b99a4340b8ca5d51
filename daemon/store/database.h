/* SPDX-License-Identifier: MIT
 *
 * The registry on disk: <state>/registry.sqlite (WAL, synchronous FULL), one row per sandbox that is kept. The only file that knows
 * SQLite; opened and used by the storage thread alone (or by tests). The database is locked exclusively: a second daemon on
 * the same state folder is refused.
 *
 * What is damaged is put aside as <state>/registry.damaged-<ms>... and reported, and never stops the daemon; only a newer format and a
 * registry that another daemon uses do (UNAVAILABLE), untouched. A registry that can't be opened or written (a full disk, a read-only folder)
 * is there all the same: each write to it fails and says why. */
#ifndef SANDBOXD_DATABASE_H
#define SANDBOXD_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/build.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/names.h"

#define DATABASE_FORMAT REGISTRY_FORMAT

struct database;

struct database_row {
	char id[LIMIT_ID_BYTES + 1];
	int64_t created_at_ms;             /* wall clock; unique: the order of creation */
	bool wanted;                       /* up after a restart of the machine */
	char state_sha256[SHA256_HEX_BYTES + 1]; /* of the last orderly stop; "": none */
	uint64_t state_bytes;
	char *spec;                        /* JSON text, as the spawner keeps it; owned by whoever has the row */
	size_t spec_size;
};

/* What opening found. */
struct database_found {
	struct database_row *rows;         /* in the order of creation; owned */
	size_t n;
	struct database_row *groups;       /* likewise; without state */
	size_t n_groups;
	char problems[8][320];             /* one line each */
	size_t n_problems;
	bool has_damage;                   /* a row can't be read, and is still there */
	bool may_collect;                  /* nothing lies aside that may refer to objects or states */
};

/* check: the whole file is checked first (the daemon's start); else only what is read anyway (a restart of control).
 * -1 (UNAVAILABLE): a newer format, or another daemon uses it. */
int database_open(int state_dir_fd, bool check, struct database **ret, struct database_found *found, struct err *e);
struct database *database_close(struct database *d); /* NULL ok; returns NULL */
void database_found_fini(struct database_found *found);

/* ---- writing: between begin and commit (durable when it returns 0) or rollback ---- */
int database_begin(struct database *d, struct err *e);
int database_put(struct database *d, const struct database_row *row, struct err *e); /* new, or in place of the old */
int database_delete(struct database *d, const char *id, struct err *e);              /* one that isn't there: 0 */
int database_put_group(struct database *d, const struct database_row *row, struct err *e);
int database_delete_group(struct database *d, const char *id, struct err *e);
int database_commit(struct database *d, struct err *e);
void database_rollback(struct database *d);
/* Outside of a transaction: the row goes to a file of its own, whose name is told (why: a line for it). */
int database_put_aside(struct database *d, const char *id, const char *why, char ret_name[128], struct err *e);

/* The states that rows refer to. -1: it can't be told. */
int database_states(struct database *d, void (*each)(void *ctx, const char *sha256), void *ctx, struct err *e);
bool database_is_usable(const struct database *d);
/* For tests: no more pages than these (a full disk). */
void database_limit_pages(struct database *d, unsigned pages);

#endif
