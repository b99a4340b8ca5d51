/* SPDX-License-Identifier: MIT
 *
 * What database.c (opening, reading) and database_write.c share. Storage thread. */
#ifndef SANDBOXD_DATABASE_INNER_H
#define SANDBOXD_DATABASE_INNER_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/store/blob.h"
#include "daemon/store/database.h"
#include "daemon/store/database_sql.h"

#define DATABASE_NAME "registry.sqlite"

struct database {
	sqlite3 *db;            /* NULL: unusable, `why` says so */
	sqlite3_stmt *put[TABLE__N], *delete_[TABLE__N];
	int dir_fd;             /* the storage thread's */
	dev_t device;
	ino_t inode;
	char why[320];
};

/* -1, with what SQLite says of its last failure: "cannot `what` the registry ...". */
int database_error(struct database *d, const char *what, struct err *e);
/* The SHA-256 of a row's columns; "" without memory. */
void database_row_sum(const struct database_row *r, char ret[SHA256_HEX_BYTES + 1]);
/* False: not a text, or longer than the room. */
bool database_column_text(sqlite3_stmt *s, int column, char *to, size_t room);
int database_row_put(struct database *d, enum table t, const struct database_row *row, struct err *e);
int database_row_delete(struct database *d, enum table t, const char *id, struct err *e);

#endif
