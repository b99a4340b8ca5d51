/* SPDX-License-Identifier: MIT
 *
 * Changes of the registry, and what is looked up in it while it is open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/store/aside.h"
#include "daemon/store/database_inner.h"
#include "proto/buf.h"
#include "proto/fault.h"

int database_error(struct database *d, const char *what, struct err *e)
{
	int sys = d->db ? sqlite3_system_errno(d->db) : 0;

	if (!d->db)
		return err_set(e, ERR_IO, "%s", d->why);
	err_set(e, ERR_IO, "cannot %s the registry " DATABASE_NAME ": %s%s%s", what, sqlite3_errmsg(d->db), sys ? ": " : "", sys ? strerror(sys) : "");
	if (e)
		e->sys_errno = sys;
	return -1;
}

static int planted(struct err *e)
{
	return err_sys(e, ERR_IO, "cannot write the registry " DATABASE_NAME);
}

void database_row_sum(const struct database_row *r, char ret[SHA256_HEX_BYTES + 1])
{
	struct buf b = BUF_INIT;

	buf_printf(&b, "%s %lld %d %s %llu ", r->id, (long long)r->created_at_ms, r->wanted, r->state_sha256,
		(unsigned long long)r->state_bytes);
	buf_add(&b, r->spec, r->spec_size);
	if (b.failed)
		ret[0] = '\0';
	else
		sha256_hex(b.data, b.size, ret);
	buf_fini(&b);
}

int database_begin(struct database *d, struct err *e)
{
	struct stat st;

	if (!d->db)
		return database_error(d, "write", e);
	/* SQLite would go on writing into a file that nobody can find any more. */
	if (d->inode != 0 && (fstatat(d->dir_fd, DATABASE_NAME, &st, AT_SYMLINK_NOFOLLOW) == -1 || st.st_ino != d->inode || st.st_dev != d->device))
		return err_set(e, ERR_IO, "the registry " DATABASE_NAME " is gone from the state folder, or another file stands in its place: restart sandboxd");
	if (FAULT(REGISTRY_BEGIN))
		return planted(e);
	if (sqlite3_exec(d->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return database_error(d, "write", e);
	return 0;
}

static int run(struct database *d, sqlite3_stmt *s, struct err *e)
{
	bool fails = FAULT(REGISTRY_WRITE);
	int result = fails ? planted(e) : sqlite3_step(s) == SQLITE_DONE ? 0 : database_error(d, "write", e);

	(void)sqlite3_reset(s);
	(void)sqlite3_clear_bindings(s);
	return result;
}

int database_row_put(struct database *d, enum table t, const struct database_row *row, struct err *e)
{
	char sum[SHA256_HEX_BYTES + 1];
	sqlite3_stmt *put = d->put[t];

	database_row_sum(row, sum);
	if (!sum[0])
		return err_set(e, ERR_INTERNAL, "no memory for a row of the registry");
	(void)sqlite3_bind_text(put, 1, row->id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(put, 2, row->created_at_ms);
	(void)sqlite3_bind_int(put, 3, row->wanted);
	if (row->state_sha256[0])
		(void)sqlite3_bind_text(put, 4, row->state_sha256, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(put, 5, (sqlite3_int64)row->state_bytes);
	(void)sqlite3_bind_text(put, 6, sum, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(put, 7, row->spec, (int)row->spec_size, SQLITE_STATIC);
	return run(d, put, e);
}

int database_row_delete(struct database *d, enum table t, const char *id, struct err *e)
{
	(void)sqlite3_bind_text(d->delete_[t], 1, id, -1, SQLITE_STATIC);
	return run(d, d->delete_[t], e);
}

int database_put(struct database *d, const struct database_row *row, struct err *e)
{
	return database_row_put(d, SANDBOXES, row, e);
}

int database_delete(struct database *d, const char *id, struct err *e)
{
	return database_row_delete(d, SANDBOXES, id, e);
}

int database_put_group(struct database *d, const struct database_row *row, struct err *e)
{
	return database_row_put(d, GROUPS, row, e);
}

int database_delete_group(struct database *d, const char *id, struct err *e)
{
	return database_row_delete(d, GROUPS, id, e);
}

int database_commit(struct database *d, struct err *e)
{
	if (FAULT(REGISTRY_COMMIT))
		return planted(e);
	if (sqlite3_exec(d->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		return database_error(d, "write", e);
	(void)FAULT(REGISTRY_COMMITTED);
	return 0;
}

void database_rollback(struct database *d)
{
	if (d->db && !sqlite3_get_autocommit(d->db))
		(void)sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
}

int database_put_aside(struct database *d, const char *id, const char *why, char ret_name[128], struct err *e)
{
	sqlite3_stmt *s = NULL;
	int result = -1;

	if (!d->db)
		return database_error(d, "read", e);
	if (sqlite3_prepare_v2(d->db, "SELECT spec FROM sandboxes WHERE id = ?", -1, &s, NULL) == SQLITE_OK &&
		sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
		result = aside_row(d->dir_fd, id, why, sqlite3_column_text(s, 0), (size_t)sqlite3_column_bytes(s, 0), ret_name, e);
	else
		(void)database_error(d, "read", e);
	(void)sqlite3_finalize(s);
	if (result == -1 || database_begin(d, e) == -1)
		return -1;
	if (database_delete(d, id, e) == 0 && database_commit(d, e) == 0)
		return 0;
	database_rollback(d);
	return -1;
}

int database_states(struct database *d, void (*each)(void *ctx, const char *sha256), void *ctx, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc;

	if (!d->db)
		return database_error(d, "read", e);
	rc = sqlite3_prepare_v2(d->db, "SELECT state_sha256 FROM sandboxes WHERE state_sha256 IS NOT NULL", -1, &s, NULL);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		char sha256[SHA256_HEX_BYTES + 1];

		rc = sqlite3_step(s);
		if (rc == SQLITE_ROW && database_column_text(s, 0, sha256, sizeof sha256))
			each(ctx, sha256);
	}
	(void)sqlite3_finalize(s);
	return rc == SQLITE_DONE ? 0 : database_error(d, "read", e);
}

bool database_is_usable(const struct database *d)
{
	return d && d->db;
}

void database_limit_pages(struct database *d, unsigned pages)
{
	char sql[64];

	(void)snprintf(sql, sizeof sql, "PRAGMA max_page_count=%u", pages);
	(void)sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}
