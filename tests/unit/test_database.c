/* SPDX-License-Identifier: MIT
 *
 * The registry on disk: rows, commits that go together, damage of every kind, a newer format, a full disk. */
#include "tests/support/check_main.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/store/aside.h"
#include "daemon/store/database.h"
#include "daemon/store/states.h"
#include "daemon/store/storage.h"
#include "proto/fd.h"

static char dir[64];
static int dir_fd = -1;

static void begin(void)
{
	(void)snprintf(dir, sizeof(dir), "%s/database-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
}

/* Removes everything; returns how many files' names begin so. */
static int sweep_of(int fd, const char *prefix, bool remove)
{
	DIR *d = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while ((entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
		if (remove && unlinkat(fd, entry->d_name, 0) == -1) {
			int sub = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			ck_assert_int_ge(sub, 0);
			(void)sweep_of(sub, "", true);
			(void)close(sub);
			ck_assert_int_eq(unlinkat(fd, entry->d_name, AT_REMOVEDIR), 0);
		}
	}
	(void)closedir(d);
	return n;
}

static int files(const char *prefix)
{
	return sweep_of(dir_fd, prefix, false);
}

static void end(void)
{
	(void)sweep_of(dir_fd, "", true);
	fd_close(&dir_fd);
	ck_assert_int_eq(rmdir(dir), 0);
}

static struct database_row row_of(int number, size_t spec_size)
{
	struct database_row r = { .created_at_ms = 1000 + number, .wanted = number % 2 == 0, .state_bytes = (uint64_t)number };

	(void)snprintf(r.id, sizeof r.id, "s%05d", 99999 - number); /* the order of ids is not that of creation */
	r.spec = malloc(spec_size + 64);
	ck_assert_ptr_nonnull(r.spec);
	r.spec_size = (size_t)snprintf(r.spec, 64, "{\"format\":1,\"id\":\"%s\",\"fill\":\"", r.id);
	memset(r.spec + r.spec_size, 'a' + number % 26, spec_size);
	memcpy(r.spec + r.spec_size + spec_size, "\"}", 3);
	r.spec_size += spec_size + 2;
	if (number % 3 == 0)
		memset(r.state_sha256, "0123456789abcdef"[number % 16], SHA256_HEX_BYTES);
	return r;
}

static bool row_is(const struct database_row *r, int number, size_t spec_size)
{
	struct database_row want = row_of(number, spec_size);
	bool same = strcmp(r->id, want.id) == 0 && r->created_at_ms == want.created_at_ms && r->wanted == want.wanted &&
		strcmp(r->state_sha256, want.state_sha256) == 0 && r->state_bytes == want.state_bytes && r->spec_size == want.spec_size &&
		memcmp(r->spec, want.spec, want.spec_size) == 0;

	free(want.spec);
	return same;
}

static void put(struct database *d, int number, size_t spec_size)
{
	struct database_row r = row_of(number, spec_size);
	struct err e = ERR_INIT;

	ck_assert_msg(database_put(d, &r, &e) == 0, "%s", e.text);
	free(r.spec);
}

static struct database *opened(struct database_found *found, bool check)
{
	struct database *d = NULL;
	struct err e = ERR_INIT;

	ck_assert_msg(database_open(dir_fd, check, &d, found, &e) == 0, "%s", e.text);
	ck_assert_ptr_nonnull(d);
	return d;
}

/* Opens, writes rows [0, n), closes. */
static void fill(int n, size_t spec_size)
{
	struct database_found found;
	struct database *d = opened(&found, true);
	struct err e = ERR_INIT;

	ck_assert_uint_eq(found.n_problems, 0);
	ck_assert_int_eq(database_begin(d, &e), 0);
	for (int i = 0; i < n; i++)
		put(d, i, spec_size);
	ck_assert_msg(database_commit(d, &e) == 0, "%s", e.text);
	database_found_fini(&found);
	(void)database_close(d);
}

START_TEST(rows_come_back_in_the_order_of_creation)
{
	struct database_found found;
	struct database *d;
	struct err e = ERR_INIT;

	begin();
	fill(50, 3000);
	for (int round = 0; round < 2; round++) {
		d = opened(&found, round == 0);
		ck_assert_uint_eq(found.n_problems, 0);
		ck_assert(found.may_collect);
		ck_assert_uint_eq(found.n, 50);
		for (int i = 0; i < 50; i++)
			ck_assert(row_is(&found.rows[i], i, 3000));
		database_found_fini(&found);
		(void)database_close(d);
	}
	/* in place of the old, and deleted */
	d = opened(&found, true);
	database_found_fini(&found);
	ck_assert_int_eq(database_begin(d, &e), 0);
	put(d, 7, 10);
	ck_assert_int_eq(database_delete(d, "s99999", &e), 0);
	ck_assert_int_eq(database_delete(d, "never-there", &e), 0);
	ck_assert_int_eq(database_commit(d, &e), 0);
	/* rolled back: nothing of it */
	ck_assert_int_eq(database_begin(d, &e), 0);
	ck_assert_int_eq(database_delete(d, "s99998", &e), 0);
	database_rollback(d);
	(void)database_close(d);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n, 49);
	ck_assert(row_is(&found.rows[0], 1, 3000));
	ck_assert(row_is(&found.rows[6], 7, 10));
	database_found_fini(&found);
	(void)database_close(d);
	ck_assert_int_eq(files("registry.sqlite"), 1); /* a clean end leaves no WAL */
	end();
}
END_TEST

/* A process that is killed at any point leaves each transaction whole or not at all. */
START_TEST(kill_9_keeps_what_was_committed)
{
	begin();
	for (int round = 0; round < 20; round++) {
		struct database_found found;
		struct database *d;
		int report[2], status, committed = 0, number;
		pid_t pid;

		ck_assert_int_eq(pipe(report), 0);
		pid = fork();
		if (pid == 0) {
			struct err e = ERR_INIT;

			d = opened(&found, false);
			for (int i = 0;; i++) {
				if (database_begin(d, &e) == -1)
					_exit(1);
				put(d, round * 1000 + i, 500);
				if (database_commit(d, &e) == -1 || write(report[1], &i, sizeof i) != (ssize_t)sizeof i)
					_exit(1);
			}
		}
		(void)close(report[1]);
		while (committed < 1 + round % 7 && read(report[0], &number, sizeof number) == (ssize_t)sizeof number)
			committed++;
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		while (read(report[0], &number, sizeof number) == (ssize_t)sizeof number)
			committed++;
		(void)close(report[0]);
		d = opened(&found, true);
		ck_assert_uint_eq(found.n_problems, 0);
		number = 0;
		for (size_t i = 0; i < found.n; i++)
			number += found.rows[i].created_at_ms >= 1000 + round * 1000;
		ck_assert_int_ge(number, committed);
		ck_assert_int_le(number, committed + 1);
		database_found_fini(&found);
		(void)database_close(d);
	}
	end();
}
END_TEST

/* ---- damage ---- */

static size_t slurp(const char *name, char **ret)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd == -1)
		return 0;
	ck_assert_int_eq(fstat(fd, &st), 0);
	*ret = malloc((size_t)st.st_size + 1);
	ck_assert_int_eq(read(fd, *ret, (size_t)st.st_size), st.st_size);
	(void)close(fd);
	return (size_t)st.st_size;
}

static void spit(const char *name, const char *data, size_t size)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
	(void)close(fd);
}

/* Whatever was done to the file: the daemon gets a registry that works, every row that it is given is a true one, and a row
 * that is missing was reported. Returns how many rows came back. */
static size_t survives(int n, size_t spec_size, const char *what, size_t at)
{
	struct database_found found;
	struct database *d = opened(&found, true);
	struct err e = ERR_INIT;
	size_t rows = found.n;

	ck_assert_msg(database_is_usable(d), "%s at %zu: %s", what, at, found.n_problems ? found.problems[0] : "?");
	for (size_t i = 0; i < found.n; i++) {
		int number = (int)(found.rows[i].created_at_ms - 1000);

		ck_assert_msg(number >= 0 && number < n && row_is(&found.rows[i], number, spec_size), "%s at %zu: a wrong row", what, at);
	}
	ck_assert_msg(found.n == (size_t)n || found.n_problems > 0, "%s at %zu: %d rows, %zu came back, and nothing was said", what, at, n, found.n);
	ck_assert(found.n_problems == 0 || files("registry.damaged-") > 0);
	ck_assert_int_eq(found.may_collect, files("registry.damaged-") == 0);
	ck_assert_int_eq(database_begin(d, &e), 0);
	put(d, 700, 20);
	ck_assert_msg(database_commit(d, &e) == 0, "%s at %zu: %s", what, at, e.text);
	database_found_fini(&found);
	(void)database_close(d);
	/* and it is good from then on */
	d = opened(&found, true);
	ck_assert_msg(found.n == rows + 1 && found.n_problems == 0, "%s at %zu: afterwards %zu rows, %zu problems", what, at, found.n, found.n_problems);
	database_found_fini(&found);
	(void)database_close(d);
	return rows;
}

START_TEST(flipped_bytes_are_put_aside)
{
	char *good, *bad;
	size_t size, salvaged = 0, aside = 0, tries = 0;

	begin();
	fill(12, 1500);
	size = slurp("registry.sqlite", &good);
	ck_assert_uint_gt(size, 10000);
	bad = malloc(size);
	/* all of the first 128 bytes, then every 397th, with three patterns in turn */
	for (size_t at = 0; at < size; at += at < 128 ? 1 : 397) {
		(void)sweep_of(dir_fd, "", true);
		memcpy(bad, good, size);
		bad[at] = (char)(bad[at] ^ (at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x01 : 0x80));
		spit("registry.sqlite", bad, size);
		salvaged += survives(12, 1500, "a flipped byte", at);
		aside += files("registry.damaged-") > 0;
		tries++;
	}
	ck_assert_uint_gt(aside, tries / 6);          /* most of the file is rows */
	ck_assert_uint_gt(salvaged, tries * 12 / 2);  /* one damaged row doesn't take the others along */
	free(good);
	free(bad);
	end();
}
END_TEST

START_TEST(truncated_and_foreign_files_are_put_aside)
{
	static const char text[] = "this is not a database, but a text that somebody has put in its place: long enough for a header of SQLite's..";
	char *good;
	size_t size;
	struct database_found found;
	struct database *d;
	sqlite3 *foreign;

	begin();
	fill(12, 1500);
	size = slurp("registry.sqlite", &good);
	for (size_t at = 1; at < size; at += at < 4096 ? 409 : 2048) {
		(void)sweep_of(dir_fd, "", true);
		spit("registry.sqlite", good, at);
		(void)survives(12, 1500, "truncation", at);
	}
	(void)sweep_of(dir_fd, "", true);
	spit("registry.sqlite", text, sizeof text);
	ck_assert_uint_eq(survives(12, 1500, "text", 0), 0);
	(void)sweep_of(dir_fd, "", true);
	ck_assert_int_eq(mkdirat(dir_fd, "registry.sqlite", 0700), 0);
	ck_assert_uint_eq(survives(12, 1500, "folder", 0), 0);
	(void)sweep_of(dir_fd, "", true);
	ck_assert_int_eq(symlinkat("/etc/passwd", dir_fd, "registry.sqlite"), 0);
	ck_assert_uint_eq(survives(12, 1500, "link", 0), 0);
	(void)sweep_of(dir_fd, "", true);
	{
		char path[128];

		(void)snprintf(path, sizeof path, "%s/registry.sqlite", dir);
		ck_assert_int_eq(sqlite3_open(path, &foreign), SQLITE_OK);
		ck_assert_int_eq(sqlite3_exec(foreign, "CREATE TABLE other(a); INSERT INTO other VALUES(1)", NULL, NULL, NULL), SQLITE_OK);
		(void)sqlite3_close(foreign);
	}
	ck_assert_uint_eq(survives(12, 1500, "another program's database", 0), 0);
	/* an empty file is what a killed daemon leaves: no damage */
	(void)sweep_of(dir_fd, "", true);
	spit("registry.sqlite", "", 0);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n_problems, 0);
	database_found_fini(&found);
	(void)database_close(d);
	free(good);
	end();
}
END_TEST

static void sql(const char *text)
{
	char path[128];
	sqlite3 *db;

	(void)snprintf(path, sizeof path, "%s/registry.sqlite", dir);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(db);
}

START_TEST(one_damaged_row_leaves_the_others)
{
	struct database_found found;
	struct database *d;
	char name[128] = "";
	struct err e = ERR_INIT;

	begin();
	fill(5, 100);
	sql("UPDATE sandboxes SET wanted = 1 - wanted WHERE id = 's99997'; UPDATE sandboxes SET spec = 'x' WHERE id = 's99996'");
	d = opened(&found, true);
	ck_assert_uint_eq(found.n, 3);
	ck_assert_uint_eq(found.n_problems, 2);
	ck_assert_ptr_nonnull(strstr(found.problems[0], "s99996"));
	ck_assert_int_eq(files("registry.damaged-"), 2);
	ck_assert(!found.may_collect);
	database_found_fini(&found);
	ck_assert_msg(database_put_aside(d, "s99999", "its spec lacks a member", name, &e) == 0, "%s", e.text);
	ck_assert_int_eq(faccessat(dir_fd, name, R_OK, 0), 0);
	(void)database_close(d);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n, 2);
	ck_assert_uint_eq(found.n_problems, 0);
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

static void plant(const char *name, off_t size)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	(void)close(fd);
}

static bool there(const char *name)
{
	return faccessat(dir_fd, name, F_OK, 0) == 0;
}

START_TEST(what_is_aside_is_bounded_by_number)
{
	char name[128], first[128] = "";
	struct err e = ERR_INIT;

	begin();
	for (int i = 0; i < LIMIT_ASIDE_FILES + 50; i++) {
		(void)snprintf(name, sizeof name, "registry.damaged-%d-row", 1000 + i);
		plant(name, 10);
	}
	plant("registry.damaged-mine", 10); /* nobody's but the administrator's, all four */
	plant("registry.damaged-999.bak", 10);
	plant("registry.damaged-99999999999999999999999", 10);
	ck_assert_int_eq(mkdirat(dir_fd, "registry.damaged-7", 0700), 0);
	ck_assert_int_eq(aside_row(dir_fd, "s", "why", "spec", 4, name, &e), 0);
	ck_assert_int_eq(files("registry.damaged-"), LIMIT_ASIDE_FILES + 4);
	ck_assert(there(name) && there("registry.damaged-1000-row") && !there("registry.damaged-1001-row") && !there("registry.damaged-1051-row"));
	ck_assert(there("registry.damaged-1052-row") && there("registry.damaged-mine") && there("registry.damaged-999.bak"));
	for (int i = 0; i < 3; i++) { /* each sends one away */
		ck_assert_int_eq(aside_row(dir_fd, "s", "why", "spec", 4, name, &e), 0);
		ck_assert_int_eq(files("registry.damaged-"), LIMIT_ASIDE_FILES + 4);
		ck_assert_str_ne(name, first);
		memcpy(first, name, sizeof first);
	}
	ck_assert(there("registry.damaged-1000-row") && !there("registry.damaged-1054-row") && there("registry.damaged-1055-row"));
	ck_assert(aside_any(dir_fd));
	end();
}
END_TEST

START_TEST(what_is_aside_is_bounded_by_bytes)
{
	char name[128], row[128];
	struct err e = ERR_INIT;

	begin();
	plant("registry.damaged-10", LIMIT_ASIDE_BYTES); /* the first, and too large alone */
	plant("registry.damaged-10-wal", 1 << 20);
	plant("registry.damaged-20", 1000);
	plant("registry.damaged-20-wal", 1000);
	plant("registry.damaged-30-row", 1000);
	plant("registry.damaged-99999999999999", 1000); /* the clock went back since then */
	plant("broken", 2 * (off_t)LIMIT_ASIDE_BYTES);
	plant("broken-wal", 5000);
	ck_assert_int_eq(aside_row(dir_fd, "s", "why", "spec", 4, row, &e), 0);
	ck_assert_int_eq(files("registry.damaged-"), 3);
	ck_assert(there("registry.damaged-10") && there("registry.damaged-10-wal") && there(row));
	ck_assert_int_eq(aside_file(dir_fd, "broken", name, &e), 0);
	ck_assert(there(name) && there("registry.damaged-10") && there("registry.damaged-10-wal") && !there(row));
	ck_assert_int_eq(files("registry.damaged-"), 4); /* its own -wal too */
	end();
}
END_TEST

/* What the program before wrote: no table of groups. */
START_TEST(format_1_becomes_format_2)
{
	struct database_found found;
	struct database_row group = row_of(7, 20);
	struct database *d;
	struct err e = ERR_INIT;

	begin();
	fill(5, 100);
	sql("DROP TABLE groups; UPDATE meta SET value = 1; PRAGMA user_version = 1");
	for (int check = 0; check < 2; check++) {
		d = opened(&found, check);
		ck_assert_uint_eq(found.n_problems, 0);
		ck_assert_uint_eq(found.n, 5);
		for (int i = 0; i < 5; i++)
			ck_assert(row_is(&found.rows[i], i, 100));
		ck_assert_uint_eq(found.n_groups, (unsigned)check);
		database_found_fini(&found);
		group.state_sha256[0] = '\0';
		ck_assert(database_begin(d, &e) == 0 && database_put_group(d, &group, &e) == 0 && database_commit(d, &e) == 0);
		d = database_close(d);
	}
	d = opened(&found, true);
	ck_assert_uint_eq(found.n_groups, 1);
	ck_assert_str_eq(found.groups[0].id, group.id);
	ck_assert(found.groups[0].spec_size == group.spec_size && memcmp(found.groups[0].spec, group.spec, group.spec_size) == 0);
	database_found_fini(&found);
	ck_assert(database_begin(d, &e) == 0 && database_delete_group(d, group.id, &e) == 0 && database_commit(d, &e) == 0);
	d = database_close(d);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n_groups, 0);
	ck_assert_uint_eq(found.n, 5);
	database_found_fini(&found);
	(void)database_close(d);
	free(group.spec);
	end();
}
END_TEST

/* One of the two numbers alone is a flipped bit: the rows are saved, the file is put aside. */
START_TEST(half_a_format_is_damage)
{
	struct database_found found;
	struct database *d;

	begin();
	fill(3, 50);
	sql("UPDATE meta SET value = 1");
	d = opened(&found, true);
	ck_assert_uint_eq(found.n_problems, 1);
	ck_assert_uint_eq(found.n, 3);
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

START_TEST(a_damaged_group_leaves_the_others)
{
	struct database_found found;
	struct database *d;
	struct err e = ERR_INIT;

	begin();
	d = opened(&found, true);
	database_found_fini(&found);
	ck_assert_int_eq(database_begin(d, &e), 0);
	for (int i = 0; i < 3; i++) {
		struct database_row r = row_of(i, 30);

		ck_assert_int_eq(database_put_group(d, &r, &e), 0);
		free(r.spec);
	}
	ck_assert_int_eq(database_commit(d, &e), 0);
	(void)database_close(d);
	sql("UPDATE groups SET spec = 'x' || spec WHERE created_at = 1001");
	d = opened(&found, true);
	ck_assert_uint_eq(found.n_groups, 2);
	ck_assert_uint_eq(found.n_problems, 1);
	database_found_fini(&found);
	(void)database_close(d);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n_groups, 2);
	ck_assert_uint_eq(found.n_problems, 0);
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

START_TEST(a_newer_format_is_refused_untouched)
{
	struct database_found found;
	struct database *d = NULL;
	struct err e = ERR_INIT;
	char *before, *after;
	size_t size;

	begin();
	fill(5, 100);
	sql("UPDATE meta SET value = 3; PRAGMA user_version = 3");
	size = slurp("registry.sqlite", &before);
	for (int check = 0; check < 2; check++) {
		ck_assert_int_eq(database_open(dir_fd, check, &d, &found, &e), -1);
		ck_assert_ptr_null(d);
		ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
		ck_assert_ptr_nonnull(strstr(e.text, "newer"));
		ck_assert_uint_eq(slurp("registry.sqlite", &after), size);
		ck_assert_int_eq(memcmp(before, after, size), 0);
		ck_assert_int_eq(files(""), 1);
		free(after);
	}
	free(before);
	end();
}
END_TEST

/* A newer daemon that was killed: the format stands in the WAL only. */
START_TEST(a_newer_format_in_the_wal_is_refused_untouched)
{
	struct database_found found;
	struct database *d = NULL;
	struct err e = ERR_INIT;
	char *before, *after, *wal_before, *wal_after;
	size_t size, wal_size;
	pid_t pid;
	int status;

	begin();
	fill(5, 100);
	pid = fork();
	if (pid == 0) {
		char path[128];
		sqlite3 *db;

		(void)snprintf(path, sizeof path, "%s/registry.sqlite", dir);
		if (sqlite3_open(path, &db) != SQLITE_OK ||
			sqlite3_exec(db, "UPDATE meta SET value = 3; PRAGMA user_version = 3", NULL, NULL, NULL) != SQLITE_OK)
			_exit(1);
		_exit(0); /* not closed */
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	size = slurp("registry.sqlite", &before);
	wal_size = slurp("registry.sqlite-wal", &wal_before);
	ck_assert_uint_gt(wal_size, 0);
	ck_assert_int_eq(database_open(dir_fd, true, &d, &found, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "newer"));
	ck_assert_uint_eq(slurp("registry.sqlite", &after), size);
	ck_assert_int_eq(memcmp(before, after, size), 0);
	ck_assert_uint_eq(slurp("registry.sqlite-wal", &wal_after), wal_size);
	ck_assert_int_eq(memcmp(wal_before, wal_after, wal_size), 0);
	free(before);
	free(after);
	free(wal_before);
	free(wal_after);
	end();
}
END_TEST

START_TEST(a_second_daemon_is_refused)
{
	struct database_found found, other;
	struct database *d, *second = NULL;
	struct err e = ERR_INIT;

	begin();
	d = opened(&found, true);
	ck_assert_int_eq(database_open(dir_fd, true, &second, &other, &e), -1);
	ck_assert_ptr_null(second);
	ck_assert_ptr_nonnull(strstr(e.text, "in use"));
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

/* ---- disks that don't take it ---- */

START_TEST(a_full_disk_loses_nothing)
{
	struct database_found found;
	struct database *d;
	struct err e = ERR_INIT;
	int i;

	begin();
	fill(20, 3000);
	d = opened(&found, true);
	database_found_fini(&found);
	database_limit_pages(d, 40);
	for (i = 20; i < 200; i++) {
		struct database_row r = row_of(i, 3000);
		int result;

		ck_assert_int_eq(database_begin(d, &e), 0);
		result = database_put(d, &r, &e);
		free(r.spec);
		if (result == -1)
			break;
		ck_assert_int_eq(database_commit(d, &e), 0);
	}
	ck_assert_int_lt(i, 200);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "full"));
	database_rollback(d);
	database_limit_pages(d, 1000000);
	ck_assert_int_eq(database_begin(d, &e), 0);
	put(d, i, 3000);
	ck_assert_int_eq(database_commit(d, &e), 0);
	(void)database_close(d);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n, (size_t)i + 1);
	ck_assert_uint_eq(found.n_problems, 0);
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

/* RLIMIT_FSIZE is what a quota looks like to write(). In a child, since the limit stays. */
START_TEST(a_file_that_may_not_grow)
{
	struct database_found found;
	struct database *d;
	int status;
	pid_t pid;

	begin();
	fill(5, 1000);
	pid = fork();
	if (pid == 0) {
		struct rlimit small = { 60000, 60000 };
		struct sigaction ignore = { .sa_handler = SIG_IGN };
		struct err e = ERR_INIT;
		int i;

		(void)sigaction(SIGXFSZ, &ignore, NULL);
		d = opened(&found, false);
		(void)setrlimit(RLIMIT_FSIZE, &small);
		for (i = 5; i < 100; i++) {
			struct database_row r = row_of(i, 1000);

			if (database_begin(d, &e) == -1 || database_put(d, &r, &e) == -1 || database_commit(d, &e) == -1)
				break;
		}
		database_rollback(d);
		_exit(e.code == ERR_IO && i > 5 && i < 100 ? i : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) > 5, "status %d", status);
	d = opened(&found, true);
	ck_assert_uint_eq(found.n, (size_t)WEXITSTATUS(status));
	ck_assert_uint_eq(found.n_problems, 0);
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

START_TEST(a_registry_that_cant_be_opened_says_so_at_each_write)
{
	struct database_found found;
	struct database *d;
	struct database_row r = row_of(1, 10);
	struct err e = ERR_INIT;
	int proc;

	begin();
	proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* nobody can make a file there, not even root */
	ck_assert_int_eq(database_open(proc, true, &d, &found, &e), 0);
	ck_assert(!database_is_usable(d));
	ck_assert_uint_eq(found.n_problems, 1);
	ck_assert(!found.may_collect);
	ck_assert_int_eq(database_begin(d, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "could not be opened for writing"));
	free(r.spec);
	database_found_fini(&found);
	(void)database_close(d);
	(void)close(proc);
	end();
}
END_TEST

START_TEST(a_read_only_registry_gives_its_rows)
{
	struct database_found found;
	struct database *d;
	struct err e = ERR_INIT;
	int status;
	pid_t pid;

	begin();
	fill(5, 100);
	ck_assert_int_eq(fchmodat(dir_fd, "registry.sqlite", 0444, 0), 0);
	ck_assert_int_eq(fchmod(dir_fd, 0555), 0);
	pid = fork(); /* root may write anything: somebody else looks */
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(54321) == -1 || setuid(54321) == -1))
			_exit(1);
		d = opened(&found, true);
		ck_assert(!database_is_usable(d));
		ck_assert_uint_eq(found.n, 5);
		for (int i = 0; i < 5; i++)
			ck_assert(row_is(&found.rows[i], i, 100));
		ck_assert_uint_eq(found.n_problems, 1);
		ck_assert(!found.may_collect);
		ck_assert_int_eq(database_begin(d, &e), -1);
		_exit(42);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 42, "status %d", status);
	ck_assert_int_eq(fchmod(dir_fd, 0755), 0);
	ck_assert_int_eq(files(""), 1);
	end();
}
END_TEST

START_TEST(a_registry_that_vanished_is_noticed)
{
	struct database_found found;
	struct database *d;
	struct err e = ERR_INIT;

	begin();
	d = opened(&found, true);
	database_found_fini(&found);
	ck_assert_int_eq(unlinkat(dir_fd, "registry.sqlite", 0), 0);
	ck_assert_int_eq(database_begin(d, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "is gone"));
	(void)database_close(d);
	end();
}
END_TEST

/* ---- the storage thread: commits that go together ---- */

#define MANY 100

struct write_job {
	struct storage_job job;
	int number, writes, order;
	bool fails, is_gate, collects;
};

static uv_loop_t loop;
static struct storage *storage;
static struct database *seen;
static int done, stopped, order;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t at_gate;

static void open_work(struct storage_job *job)
{
	struct database_found found;
	struct database *d = NULL;

	job->status = database_open(storage_dir_fd(storage), true, &d, &found, &job->err);
	storage_set_database(storage, d);
	database_found_fini(&found);
	seen = d;
}

static void gate_work(struct storage_job *job)
{
	(void)job;
	sem_post(&at_gate);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void count_state(void *ctx, const char *sha256)
{
	(void)sha256;
	++*(int *)ctx;
}

static void barrier_work(struct storage_job *job)
{
	struct write_job *w = (struct write_job *)job;

	ck_assert_int_eq(database_states(storage_database(storage), count_state, &w->writes, &job->err), 0);
}

static int write_row(struct storage_job *job, struct database *d)
{
	struct write_job *w = (struct write_job *)job;
	struct database_row r = row_of(w->number, 50);
	int result;

	ck_assert_ptr_eq(d, seen);
	w->writes++;
	w->order = ++order;
	result = w->fails ? err_set(&job->err, ERR_IO, "number %d fails", w->number) : database_put(d, &r, &job->err);
	free(r.spec);
	return result;
}

static void on_stopped(void *ctx)
{
	(void)ctx;
	stopped++;
}

static void job_done(struct storage_job *job)
{
	(void)job;
	if (++done == MANY)
		storage_stop(storage, on_stopped, NULL);
}

static void submit(struct write_job *w, void (*work)(struct storage_job *), int (*write_)(struct storage_job *, struct database *))
{
	w->job = (struct storage_job){ .work = work, .write = write_, .done = job_done, .barrier = w->collects };
	storage_submit(storage, &w->job);
}

/* All that waited while the thread was held goes in one transaction. One that fails takes nobody with it; a barrier sees what was
 * submitted before it, and nothing later. */
START_TEST(commits_go_together)
{
	static struct write_job jobs[MANY];
	struct database_found found;
	struct database *d;
	struct err e = ERR_INIT;
	int n = 0;

	begin();
	ck_assert_int_eq(sem_init(&at_gate, 0, 0), 0);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(storage_start(&loop, dir, &storage, &e), 0);
	submit(&jobs[n++], open_work, NULL);
	pthread_mutex_lock(&gate);
	submit(&jobs[n++], gate_work, NULL);
	/* What the thread has taken along with the gate is a batch of its own: it must hold nothing of what follows. */
	ck_assert_int_eq(sem_wait(&at_gate), 0);
	for (; n < 40; n++) {
		jobs[n].number = n;
		submit(&jobs[n], NULL, write_row);
	}
	jobs[n].collects = true;
	submit(&jobs[n++], barrier_work, NULL); /* 40 */
	for (; n < MANY; n++) {
		jobs[n].number = n;
		jobs[n].fails = n == 60;
		submit(&jobs[n], NULL, write_row);
	}
	pthread_mutex_unlock(&gate);
	ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(stopped, 1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	for (int i = 2; i < 40; i++) {
		ck_assert_int_eq(jobs[i].writes, 1); /* the first group went well at once */
		ck_assert_int_eq(jobs[i].order, i - 1);
		ck_assert_int_eq(jobs[i].job.status, 0);
	}
	ck_assert_int_eq(jobs[40].writes, 13); /* numbers 2 to 39 that three divides: committed */
	for (int i = 41; i < MANY; i++) {
		ck_assert_int_eq(jobs[i].job.status, i == 60 ? -1 : 0);
		ck_assert_int_eq(jobs[i].writes, i <= 60 ? 2 : 1); /* together up to the one that failed, then each alone */
	}
	ck_assert_str_eq(jobs[60].job.err.text, "number 60 fails");
	d = opened(&found, true);
	ck_assert_uint_eq(found.n, 38 + 58);
	database_found_fini(&found);
	(void)database_close(d);
	end();
}
END_TEST

/* ---- states ---- */

START_TEST(states_are_checked)
{
	static const char text[] = "a state of some bytes";
	struct err e = ERR_INIT;
	char sha256[SHA256_HEX_BYTES + 1], again[SHA256_HEX_BYTES + 1], name[96], back[64];
	int memfd, fd = -1, plain;
	bool is_gone;

	begin();
	memfd = fd_memfd("state", text, sizeof text, true);
	ck_assert_msg(states_put(dir_fd, memfd, sizeof text, sha256, &e) == 0, "%s", e.text);
	ck_assert_int_eq(states_put(dir_fd, memfd, sizeof text, again, &e), 0);
	ck_assert_str_eq(sha256, again);
	ck_assert_int_eq(states_get(dir_fd, sha256, sizeof text, &fd, &is_gone, &e), 0);
	ck_assert(fd_is_memfd_sealed(fd));
	ck_assert_int_eq(pread(fd, back, sizeof back, 0), sizeof text);
	ck_assert_str_eq(back, text);
	fd_close(&fd);
	/* not sealed: somebody could truncate it under the mapping */
	plain = fd_memfd("state", text, sizeof text, false);
	ck_assert_int_eq(states_put(dir_fd, plain, sizeof text, again, &e), -1);
	(void)close(plain);
	/* another length, a flipped byte, none at all */
	(void)snprintf(name, sizeof name, "states/%s", sha256);
	spit(name, "a state of some bytez", sizeof text);
	ck_assert_int_eq(states_get(dir_fd, sha256, sizeof text, &fd, &is_gone, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "damaged"));
	ck_assert(is_gone);
	ck_assert_int_eq(states_get(dir_fd, sha256, sizeof text, &fd, &is_gone, &e), -1);
	ck_assert_int_eq(e.code, ERR_OBJECT_NOT_FOUND);
	spit(name, text, sizeof text - 1);
	ck_assert_int_eq(states_get(dir_fd, sha256, sizeof text, &fd, &is_gone, &e), -1);
	/* what is written again over a damaged one is good */
	spit(name, "?", 1);
	ck_assert_int_eq(states_put(dir_fd, memfd, sizeof text, again, &e), 0);
	ck_assert_int_eq(states_get(dir_fd, sha256, sizeof text, &fd, &is_gone, &e), 0);
	fd_close(&fd);
	(void)close(memfd);
	/* no bytes at all */
	memfd = fd_memfd("state", NULL, 0, true);
	ck_assert_int_eq(states_put(dir_fd, memfd, 0, sha256, &e), 0);
	ck_assert_int_eq(states_get(dir_fd, sha256, 0, &fd, &is_gone, &e), 0);
	fd_close(&fd);
	(void)close(memfd);
	end();
}
END_TEST

CHECK_MAIN("database", tcase_set_timeout(tc, 60); tcase_add_test(tc, rows_come_back_in_the_order_of_creation);
	tcase_add_test(tc, kill_9_keeps_what_was_committed); tcase_add_test(tc, flipped_bytes_are_put_aside);
	tcase_add_test(tc, truncated_and_foreign_files_are_put_aside); tcase_add_test(tc, one_damaged_row_leaves_the_others);
	tcase_add_test(tc, what_is_aside_is_bounded_by_number); tcase_add_test(tc, what_is_aside_is_bounded_by_bytes);
	tcase_add_test(tc, format_1_becomes_format_2); tcase_add_test(tc, half_a_format_is_damage); tcase_add_test(tc, a_damaged_group_leaves_the_others);
	tcase_add_test(tc, a_newer_format_is_refused_untouched); tcase_add_test(tc, a_newer_format_in_the_wal_is_refused_untouched);
	tcase_add_test(tc, a_second_daemon_is_refused); tcase_add_test(tc, a_full_disk_loses_nothing);
	tcase_add_test(tc, a_file_that_may_not_grow); tcase_add_test(tc, a_registry_that_cant_be_opened_says_so_at_each_write);
	tcase_add_test(tc, a_read_only_registry_gives_its_rows); tcase_add_test(tc, a_registry_that_vanished_is_noticed); tcase_add_test(tc, commits_go_together);
	tcase_add_test(tc, states_are_checked);)
