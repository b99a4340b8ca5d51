/* SPDX-License-Identifier: MIT
 *
 * The registry's SQL. Inner header of database.c; nobody else includes it. */
#ifndef SANDBOXD_DATABASE_SQL_H
#define SANDBOXD_DATABASE_SQL_H

#include "daemon/store/database.h"

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

enum table { SANDBOXES, GROUPS, TABLE__N };

/* The same columns as those of sandboxes, for the same code. */
#define GROUPS_TABLE \
	"CREATE TABLE IF NOT EXISTS groups(id TEXT PRIMARY KEY NOT NULL, created_at INTEGER NOT NULL, wanted INTEGER NOT NULL," \
	" state_sha256 TEXT, state_bytes INTEGER NOT NULL, check_sum TEXT NOT NULL, spec TEXT NOT NULL) WITHOUT ROWID;"

static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE sandboxes(id TEXT PRIMARY KEY NOT NULL, created_at INTEGER NOT NULL, wanted INTEGER NOT NULL,"
	" state_sha256 TEXT, state_bytes INTEGER NOT NULL, check_sum TEXT NOT NULL, spec TEXT NOT NULL) WITHOUT ROWID;"
	GROUPS_TABLE
	"INSERT INTO meta VALUES('format'," TEXT(DATABASE_FORMAT) ");"
	"PRAGMA user_version=" TEXT(DATABASE_FORMAT) ";"
	"PRAGMA application_id=" "1935830904;" /* "sbox" */
	"COMMIT;";

static const char from_format_1[] =
	"BEGIN IMMEDIATE;" GROUPS_TABLE "UPDATE meta SET value = 2 WHERE key = 'format'; PRAGMA user_version=2; COMMIT;";

#define SELECT(table) "SELECT id, created_at, wanted, state_sha256, state_bytes, check_sum, spec FROM " table " ORDER BY id"

static const char *const selects[TABLE__N][2] = { [SANDBOXES] = { SELECT("sandboxes"), SELECT("sandboxes") " DESC" },
	[GROUPS] = { SELECT("groups"), SELECT("groups") " DESC" } };
static const char *const puts_[TABLE__N] = {
	[SANDBOXES] = "INSERT OR REPLACE INTO sandboxes(id, created_at, wanted, state_sha256, state_bytes, check_sum, spec) VALUES(?,?,?,?,?,?,?)",
	[GROUPS] = "INSERT OR REPLACE INTO groups(id, created_at, wanted, state_sha256, state_bytes, check_sum, spec) VALUES(?,?,?,?,?,?,?)" };
static const char *const deletes[TABLE__N] = { [SANDBOXES] = "DELETE FROM sandboxes WHERE id = ?", [GROUPS] = "DELETE FROM groups WHERE id = ?" };

#endif
