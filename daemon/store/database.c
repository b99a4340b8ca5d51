/* SPDX-License-Identifier: MIT
 *
 * What SQLite is trusted with and what not: it finds structural damage (quick_check), tears of power failures (WAL, FULL) and full disks. A
 * byte flipped inside a text it doesn't: each row carries a SHA-256 of its columns. The format stands in two places (meta, user_version),
 * so that a flipped bit in one is damage and not a newer daemon's registry. The table has no index beside its own tree, so that there is
 * nothing that could disagree with it. */
#include "daemon/store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/aside.h"
#include "daemon/store/blob.h"
#include "daemon/store/database_inner.h"
#include "daemon/store/database_sql.h"
#include "daemon/store/folder.h"
#include "proto/buf.h"
#include "proto/fault.h"
#include "proto/fd.h"

#define BUSY_MS        5000       /* a daemon that was killed just now is let go first */
#define CACHE_KIB      256 /* each row is written once and not looked at again: SQLite's own 2 MiB would only fill */
#define URI_BYTES      (3 * PATH_MAX + 64)

/* ---- small things ---- */

static void problem(struct database_found *found, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void problem(struct database_found *found, const char *format, ...)
{
	va_list args;

	if (found->n_problems == sizeof found->problems / sizeof found->problems[0])
		return;
	va_start(args, format);
	(void)vsnprintf(found->problems[found->n_problems++], sizeof found->problems[0], format, args);
	va_end(args);
}

static int one_integer(sqlite3 *db, const char *sql, int64_t *ret)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	if (rc == SQLITE_ROW) {
		*ret = sqlite3_column_int64(s, 0);
		rc = sqlite3_column_type(s, 0) == SQLITE_INTEGER ? SQLITE_OK : SQLITE_CORRUPT;
	} else if (rc == SQLITE_DONE) {
		rc = SQLITE_CORRUPT; /* what must be there isn't */
	}
	(void)sqlite3_finalize(s);
	return rc;
}

/* ---- reading rows ---- */

bool database_column_text(sqlite3_stmt *s, int column, char *to, size_t room)
{
	const unsigned char *text = sqlite3_column_text(s, column);
	size_t size = (size_t)sqlite3_column_bytes(s, column);

	if (!text || size >= room || strlen((const char *)text) != size)
		return false;
	memcpy(to, text, size + 1);
	return true;
}

static bool row_read(sqlite3_stmt *s, struct database_row *r)
{
	char sum[SHA256_HEX_BYTES + 1] = "", is[SHA256_HEX_BYTES + 1] = "";
	const unsigned char *spec = sqlite3_column_text(s, 6);

	*r = (struct database_row){ .created_at_ms = sqlite3_column_int64(s, 1), .wanted = sqlite3_column_int64(s, 2) == 1,
		.state_bytes = (uint64_t)sqlite3_column_int64(s, 4) };
	if (sqlite3_column_type(s, 1) != SQLITE_INTEGER || sqlite3_column_type(s, 2) != SQLITE_INTEGER || sqlite3_column_type(s, 4) != SQLITE_INTEGER ||
		!database_column_text(s, 0, r->id, sizeof r->id) || !name_is_id(r->id, strlen(r->id)) || !spec ||
		(sqlite3_column_type(s, 3) != SQLITE_NULL &&
			(!database_column_text(s, 3, r->state_sha256, sizeof r->state_sha256) || !folder_is_hash(r->state_sha256))) ||
		!database_column_text(s, 5, sum, sizeof sum))
		return false;
	r->spec_size = (size_t)sqlite3_column_bytes(s, 6);
	r->spec = malloc(r->spec_size + 1);
	if (!r->spec)
		return false;
	memcpy(r->spec, spec, r->spec_size);
	r->spec[r->spec_size] = '\0';
	database_row_sum(r, is);
	if (is[0] && strcmp(is, sum) == 0)
		return true;
	free(r->spec);
	r->spec = NULL;
	return false;
}

/* The list of a table in what was found. */
static struct database_row **found_rows(struct database_found *found, enum table t, size_t **ret_n)
{
	*ret_n = t == SANDBOXES ? &found->n : &found->n_groups;
	return t == SANDBOXES ? &found->rows : &found->groups;
}

static bool found_has(struct database_found *found, enum table t, const char *id)
{
	size_t *n;
	struct database_row **rows = found_rows(found, t, &n);

	for (size_t i = 0; i < *n; i++)
		if (strcmp((*rows)[i].id, id) == 0)
			return true;
	return false;
}

static int found_add(struct database_found *found, enum table t, const struct database_row *r)
{
	size_t *n;
	struct database_row **rows = found_rows(found, t, &n);

	if ((*n & (*n - 1)) == 0) { /* 0, 1, 2, 4 ...: full */
		struct database_row *more = realloc(*rows, (*n ? *n * 2 : 1) * sizeof *more);

		if (!more)
			return -1;
		*rows = more;
	}
	(*rows)[(*n)++] = *r;
	return 0;
}

/* Rows that can't be read are put into files, and their ids (as SQLite has them) into `bad`, each followed by NUL. One of which no file could
 * be made stays as it is, for the next who opens the registry. */
static int rows_read(struct database *d, enum table t, bool backwards, bool salvage, struct database_found *found, struct buf *bad)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(d->db, selects[t][backwards], -1, &s, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		struct database_row r;
		char name[128], id[80];
		struct err e = ERR_INIT;
		const unsigned char *text;

		rc = sqlite3_step(s);
		if (rc != SQLITE_ROW)
			break;
		if (row_read(s, &r)) {
			if ((salvage && found_has(found, t, r.id)) || found_add(found, t, &r) == -1)
				free(r.spec);
			continue;
		}
		if (salvage)
			continue; /* the whole file goes aside */
		text = sqlite3_column_text(s, 0);
		text_clean(id, sizeof id, text ? (const char *)text : "?", text ? strlen((const char *)text) : 1);
		if (aside_row(d->dir_fd, id, "it doesn't match its check sum", sqlite3_column_text(s, 6),
			    sqlite3_column_text(s, 6) ? (size_t)sqlite3_column_bytes(s, 6) : 0, name, &e) == -1) {
			problem(found, "registry: the row of '%s' is damaged: %s", id, e.text);
			found->has_damage = true;
			continue;
		}
		problem(found, "registry: the row of '%s' was damaged and has been put aside as %s", id, name);
		if (text)
			buf_add(bad, text, strlen((const char *)text) + 1);
	}
	(void)sqlite3_finalize(s);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int by_creation(const void *a, const void *b)
{
	const struct database_row *x = a, *y = b;

	if (x->created_at_ms != y->created_at_ms)
		return x->created_at_ms < y->created_at_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

static void found_sort(struct database_found *found)
{
	if (found->n > 0)
		qsort(found->rows, found->n, sizeof found->rows[0], by_creation);
	if (found->n_groups > 0)
		qsort(found->groups, found->n_groups, sizeof found->groups[0], by_creation);
}

/* ---- opening ---- */


enum opened { OPENED, DAMAGED, NEWER, IN_USE, UNAVAILABLE };

static enum opened opened_as(int rc)
{
	if (rc == SQLITE_IOERR_SHORT_READ)
		return DAMAGED;
	switch (rc & 0xff) {
	case SQLITE_OK:
		return OPENED;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return IN_USE;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_FULL:
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_NOMEM:
	case SQLITE_NOLFS:
		return UNAVAILABLE;
	}
	return DAMAGED; /* CORRUPT, NOTADB, and everything that our own tables can't give */
}

static void shut(struct database *d)
{
	for (int t = 0; t < TABLE__N; t++) {
		(void)sqlite3_finalize(d->put[t]);
		(void)sqlite3_finalize(d->delete_[t]);
		d->put[t] = d->delete_[t] = NULL;
	}
	(void)sqlite3_close(d->db);
	d->db = NULL;
}

static int registry_path(const struct database *d, char ret[PATH_MAX + 32])
{
	char link[40], folder[PATH_MAX];
	ssize_t n;

	/* SQLite opens by path; the folder's real one, so that no link can be in it. */
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", d->dir_fd);
	n = readlink(link, folder, sizeof folder - 1);
	if (n <= 0)
		return -1;
	folder[n] = '\0';
	(void)snprintf(ret, PATH_MAX + 32, "%s/" DATABASE_NAME, folder);
	return 0;
}

static int formats(sqlite3 *db, int64_t *ret_meta, int64_t *ret_header)
{
	int rc = one_integer(db, "PRAGMA user_version", ret_header);

	return rc == SQLITE_OK ? one_integer(db, "SELECT value FROM meta WHERE key = 'format'", ret_meta) : rc;
}

/* A URI that reads the file as it is: no lock, no WAL, nothing is written. */
static void uri_of(const char *path, char uri[URI_BYTES])
{
	char *to = uri + snprintf(uri, URI_BYTES, "file:");

	for (const char *p = path; *p && to < uri + URI_BYTES - 32; p++)
		to += snprintf(to, 4, strchr("%?#", *p) ? "%%%02x" : "%c", (unsigned char)*p);
	(void)snprintf(to, 32, "?immutable=1");
}

/* A newer format that stands in the file itself is seen without a single byte or file being written. */
static bool is_newer_untouched(const char *path)
{
	char uri[URI_BYTES];
	int64_t meta = 0, header = 0;
	sqlite3 *db = NULL;
	bool newer;

	uri_of(path, uri);
	newer = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) == SQLITE_OK && formats(db, &meta, &header) == SQLITE_OK &&
		meta > DATABASE_FORMAT && header > DATABASE_FORMAT;
	(void)sqlite3_close(db);
	return newer;
}

static int quick_check(sqlite3 *db, char *ret_text, size_t room)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &s, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	if (rc == SQLITE_ROW) {
		const unsigned char *text = sqlite3_column_text(s, 0);

		rc = text && strcmp((const char *)text, "ok") == 0 ? SQLITE_OK : SQLITE_CORRUPT;
		if (rc != SQLITE_OK && text)
			text_clean(ret_text, room, (const char *)text, strlen((const char *)text));
	}
	(void)sqlite3_finalize(s);
	return rc;
}

static bool may_write(const struct database *d)
{
	return faccessat(d->dir_fd, ".", W_OK, AT_EACCESS) == 0 && faccessat(d->dir_fd, DATABASE_NAME, W_OK, AT_EACCESS) == 0;
}

/* Everything up to statements that are ready. why: what was found. */
static enum opened try_open(struct database *d, const char *path, bool existed, bool check, char why[200])
{
	int64_t tables = 0, meta = 0, header = 0;
	enum opened as;
	struct stat st;
	int failed = FAULT(REGISTRY_OPEN) ? errno : 0; /* as sqlite3_open_v2 tells of a file that can't be opened */
	int rc = failed ? SQLITE_CANTOPEN :
			  sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_extended_result_codes(d->db, 1);
		(void)sqlite3_busy_timeout(d->db, BUSY_MS);
		(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
		(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
		(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
		rc = sqlite3_exec(d->db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
					 "PRAGMA cell_size_check=ON; PRAGMA journal_size_limit=4194304; PRAGMA cache_size=-" TEXT(CACHE_KIB) ";", NULL, NULL, NULL);
	}
	if (rc == SQLITE_OK)
		rc = one_integer(d->db, "SELECT count(*) FROM sqlite_master", &tables);
	if (rc == SQLITE_OK && existed && tables > 0 && (rc = formats(d->db, &meta, &header)) == SQLITE_OK) {
		if (meta > DATABASE_FORMAT && header > DATABASE_FORMAT)
			return NEWER;
		if (meta != header || meta < 1 || meta > DATABASE_FORMAT)
			rc = SQLITE_CORRUPT;
	}
	/* A creation that was cut off has been rolled back by now, to no bytes at all. */
	if (rc == SQLITE_OK && existed && tables == 0 && fstatat(d->dir_fd, DATABASE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		rc = SQLITE_CORRUPT;
	if (rc == SQLITE_OK && sqlite3_db_readonly(d->db, "main") == 1)
		rc = SQLITE_READONLY; /* BEGIN IMMEDIATE doesn't tell */
	if (rc == SQLITE_OK && existed && check) {
		rc = quick_check(d->db, why, 200);
		if (rc != SQLITE_OK && why[0])
			return opened_as(rc);
	}
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(d->db, tables == 0 ? schema : meta == 1 ? from_format_1 : "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(d->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
	for (int t = 0; rc == SQLITE_OK && t < TABLE__N; t++) {
		rc = sqlite3_prepare_v3(d->db, puts_[t], -1, SQLITE_PREPARE_PERSISTENT, &d->put[t], NULL);
		if (rc == SQLITE_OK)
			rc = sqlite3_prepare_v3(d->db, deletes[t], -1, SQLITE_PREPARE_PERSISTENT, &d->delete_[t], NULL);
	}
	as = opened_as(rc);
	if ((rc & 0xff) == SQLITE_READONLY && may_write(d))
		as = DAMAGED; /* the file says of itself that it can't be written */
	if (as != OPENED) {
		int sys = d->db ? sqlite3_system_errno(d->db) : 0;

		(void)snprintf(why, 200, "%s%s%s", rc == SQLITE_CORRUPT ? "its contents don't fit together" : d->db ? sqlite3_errmsg(d->db) : failed ? strerror(failed) : "no memory",
			as == UNAVAILABLE && sys ? ": " : "", as == UNAVAILABLE && sys ? strerror(sys) : "");
	}
	return as;
}

/* The newest commits may stand in the WAL only: it is let in again when the registry is known to be ours. */
static enum opened open_and_read(struct database *d, const char *path, bool existed, bool check, struct database_found *found, char why[200])
{
	struct buf bad[TABLE__N] = { BUF_INIT, BUF_INIT };
	enum opened as = try_open(d, path, existed, check, why);
	struct err e = ERR_INIT;
	int rc = SQLITE_OK;

	for (int t = 0; as == OPENED && t < TABLE__N; t++) {
		rc = rows_read(d, (enum table)t, false, false, found, &bad[t]);
		as = opened_as(rc);
		if (as != OPENED)
			(void)snprintf(why, 200, "%s", sqlite3_errmsg(d->db));
	}
	if (as == OPENED && bad[SANDBOXES].size + bad[GROUPS].size > 0 && database_begin(d, &e) == 0) {
		for (int t = 0; t < TABLE__N; t++)
			for (const char *id = bad[t].data; id && id < bad[t].data + bad[t].size; id += strlen(id) + 1)
				(void)database_row_delete(d, (enum table)t, id, &e);
		if (database_commit(d, &e) == -1)
			database_rollback(d);
	}
	for (int t = 0; t < TABLE__N; t++)
		buf_fini(&bad[t]);
	return as;
}

static void salvage(struct database *d, struct database_found *found)
{
	struct buf none = BUF_INIT;

	if (!d->db)
		return;
	for (int t = 0; t < TABLE__N; t++)
		for (int backwards = 0; backwards <= 1; backwards++)
			(void)rows_read(d, (enum table)t, backwards, true, found, &none);
	buf_fini(&none);
}

static void rows_write(struct database *d, struct database_found *found)
{
	struct err e = ERR_INIT;
	int result = database_begin(d, &e);

	for (size_t i = 0; result == 0 && i < found->n; i++)
		result = database_put(d, &found->rows[i], &e);
	for (size_t i = 0; result == 0 && i < found->n_groups; i++)
		result = database_put_group(d, &found->groups[i], &e);
	if (result == 0)
		result = database_commit(d, &e);
	if (result == 0)
		return;
	database_rollback(d);
	problem(found, "registry: the rows that could be read are not written again yet: %s", e.text);
}

/* Its rows are worth having all the same, where they can be read without a WAL that would have to be replayed first. */
static void read_only(struct database *d, const char *path, struct database_found *found)
{
	struct buf none = BUF_INIT;
	char uri[URI_BYTES];
	struct stat st;

	shut(d);
	if (found->n > 0 || (fstatat(d->dir_fd, DATABASE_NAME "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0))
		return;
	uri_of(path, uri);
	if (sqlite3_open_v2(uri, &d->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) == SQLITE_OK)
		for (int t = 0; t < TABLE__N; t++)
			(void)rows_read(d, (enum table)t, false, true, found, &none);
	shut(d);
	buf_fini(&none);
	found_sort(found);
}

static int unavailable(struct database *d, struct database_found *found, const char *why)
{
	shut(d);
	(void)snprintf(d->why, sizeof d->why, "the registry " DATABASE_NAME " could not be opened for writing when sandboxd started (%.180s): restart it when that is repaired", why);
	problem(found, "the registry " DATABASE_NAME " can't be written: %.180s. No change is kept over a restart of the machine; %zu sandboxes could be read",
		why, found->n);
	return 0;
}

static int refused(struct database *d, enum opened as, struct err *e)
{
	(void)database_close(d);
	if (as == NEWER)
		return err_set(e, ERR_UNAVAILABLE, "the registry " DATABASE_NAME " in the state folder was written by a newer sandboxd (this one reads format %d): "
						   "install that one again, or name another state folder; nothing was touched", DATABASE_FORMAT);
	return err_set(e, ERR_UNAVAILABLE, "the registry " DATABASE_NAME " in the state folder is in use by another sandboxd: stop it, or name another state folder");
}

static int open_again(struct database *d, const char *path, struct database_found *found, const char *why)
{
	char name[128], why_not[200] = "";
	struct err e = ERR_INIT;

	salvage(d, found);
	shut(d);
	if (aside_file(d->dir_fd, DATABASE_NAME, name, &e) == -1)
		return unavailable(d, found, e.text);
	problem(found, "registry: it was damaged (%s) and has been put aside as %s; %zu rows could be read", why, name, found->n);
	if (try_open(d, path, false, false, why_not) != OPENED)
		return unavailable(d, found, why_not);
	return 0;
}

int database_open(int state_dir_fd, bool check, struct database **ret, struct database_found *found, struct err *e)
{
	struct database *d = calloc(1, sizeof *d);
	char path[PATH_MAX + 32], why[200] = "";
	struct stat st = { 0 };
	enum opened as;
	bool existed;

	*found = (struct database_found){ 0 };
	if (!d)
		return err_set(e, ERR_INTERNAL, "no memory for the registry");
	d->dir_fd = state_dir_fd;
	*ret = d;
	if (registry_path(d, path) == -1)
		return unavailable(d, found, "its folder has no name");
	existed = fstatat(state_dir_fd, DATABASE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && !(S_ISREG(st.st_mode) && st.st_size == 0);
	if (existed && !S_ISREG(st.st_mode)) {
		as = DAMAGED;
		(void)snprintf(why, sizeof why, "it isn't a regular file");
	} else if (existed && is_newer_untouched(path)) {
		as = NEWER;
	} else {
		as = open_and_read(d, path, existed, check, found, why);
	}
	if (as == NEWER || as == IN_USE) {
		*ret = NULL;
		return refused(d, as, e);
	}
	if (as == UNAVAILABLE) {
		read_only(d, path, found);
		return unavailable(d, found, why);
	}
	if (as == DAMAGED && (open_again(d, path, found, why) == -1 || !d->db))
		return 0;
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	if (fstatat(state_dir_fd, DATABASE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		d->device = st.st_dev;
		d->inode = st.st_ino;
	}
	if (as == DAMAGED)
		rows_write(d, found);
	found_sort(found);
	found->may_collect = !found->has_damage && !aside_any(state_dir_fd);
	return 0;
}

struct database *database_close(struct database *d)
{
	if (d && d->db && FAULT(REGISTRY_CHECKPOINT)) /* as one that fails: the log stays, and is read at the next start */
		(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (d)
		shut(d);
	free(d);
	return NULL;
}

void database_found_fini(struct database_found *found)
{
	for (size_t i = 0; i < found->n; i++)
		free(found->rows[i].spec);
	for (size_t i = 0; i < found->n_groups; i++)
		free(found->groups[i].spec);
	free(found->rows);
	free(found->groups);
	*found = (struct database_found){ 0 };
}
