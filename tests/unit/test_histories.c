/* SPDX-License-Identifier: MIT
 *
 * Kept histories of versions: what was kept is found again, the bounds, damage put aside, foreign files left alone. */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/blob.h"
#include "daemon/store/histories.h"

static char dir[64], problem[HISTORY_PROBLEM_BYTES];
static int state_fd = -1;
static struct histories *histories;

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void begin(struct histories_limits limits)
{
	histories = histories_free(histories);
	histories = histories_new(state_fd, &limits);
	ck_assert_ptr_nonnull(histories);
}

static void setup(void)
{
	(void)snprintf(dir, sizeof dir, "%s/histories-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	state_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(state_fd, 0);
	begin(histories_limits);
}

static void teardown(void)
{
	histories = histories_free(histories);
	(void)close(state_fd);
	(void)nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *text_of(const char *id, unsigned owner, long long at)
{
	static char text[400];

	(void)snprintf(text, sizeof text, "{\"id\":\"%s\",\"owner\":%u,\"destroyed_at\":%lld,\"list\":{\"l\":1},\"history\":{\"h\":2}}", id, owner, at);
	return text;
}

static void keep(const char *id, unsigned owner, long long at)
{
	const char *text = text_of(id, owner, at);
	struct err e = ERR_INIT;

	ck_assert_msg(histories_keep(histories, text, strlen(text), problem, &e) == 0, "%s", e.text);
}

static bool is_kept(const char *id)
{
	struct history k;
	struct err e = ERR_INIT;
	bool found = histories_get(histories, id, &k, problem, &e) == 0;

	if (found)
		ck_assert_str_eq(k.id, id);
	else
		ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	history_fini(&k);
	return found;
}

static const char *path_of(const char *id, const char *suffix)
{
	static char path[300];
	char name[SHA256_HEX_BYTES + 1];

	sha256_hex(id, strlen(id), name);
	(void)snprintf(path, sizeof path, "%s/histories/%s%s", dir, name, suffix);
	return path;
}

static void write_file(const char *path, const char *data, size_t size)
{
	FILE *f;

	(void)unlink(path);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(data, 1, size, f), size);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(what_was_kept_is_found)
{
	struct history k;
	struct err e = ERR_INIT;

	ck_assert(!is_kept("a")); /* there is no folder */
	ck_assert_int_eq(histories_drop(histories, "a", &e), 0);
	keep("a", 4294967295u, 77);
	for (int again = 0; again < 2; again++) {
		ck_assert_msg(histories_get(histories, "a", &k, problem, &e) == 0, "%s", e.text);
		ck_assert_str_eq(problem, "");
		ck_assert_uint_eq(k.owner, 4294967295u);
		ck_assert_int_eq(k.destroyed_at_ms, 77);
		ck_assert_mem_eq(k.list.at, "{\"l\":1}", k.list.size);
		ck_assert_mem_eq(k.history.at, "{\"h\":2}", k.history.size);
		history_fini(&k);
		begin(histories_limits); /* as after a restart */
	}
	ck_assert(!is_kept("b"));
	ck_assert_int_eq(histories_drop(histories, "b", &e), 0);
	ck_assert_int_eq(histories_drop(histories, "a", &e), 0);
	ck_assert(!is_kept("a"));
}
END_TEST

START_TEST(ids_that_look_like_other_files)
{
	keep("x", 1, 1);
	keep("x.tmp", 1, 2);
	keep("x.damaged", 1, 3);
	keep("x", 1, 4);
	ck_assert(is_kept("x") && is_kept("x.tmp") && is_kept("x.damaged"));
}
END_TEST

START_TEST(the_oldest_goes_first)
{
	begin((struct histories_limits){ .kept = 4, .per_owner = 3, .bytes = 1 << 20 });
	keep("a", 1, 30);
	keep("b", 1, 10);
	keep("c", 1, 20);
	keep("d", 1, 5); /* the newest written stays, whatever its clock said */
	ck_assert(is_kept("a") && !is_kept("b") && is_kept("c") && is_kept("d"));
	keep("e", 2, 1);
	ck_assert(is_kept("a") && is_kept("c") && is_kept("d") && is_kept("e"));
	keep("f", 3, 100); /* of all */
	ck_assert(!is_kept("e") && is_kept("a") && is_kept("c") && is_kept("d") && is_kept("f"));
	keep("f", 3, 101); /* in place of the one before */
	ck_assert(is_kept("a") && is_kept("c") && is_kept("d") && is_kept("f"));
	begin((struct histories_limits){ .kept = 2, .per_owner = 3, .bytes = 1 << 20 }); /* there are more than may be */
	keep("g", 4, 50);
	ck_assert(is_kept("f") && is_kept("g") && !is_kept("a") && !is_kept("c") && !is_kept("d"));
}
END_TEST

START_TEST(bytes_are_bounded)
{
	struct stat st;

	keep("a", 1, 1);
	ck_assert_int_eq(stat(path_of("a", ""), &st), 0);
	begin((struct histories_limits){ .kept = 100, .per_owner = 100, .bytes = (uint64_t)st.st_size * 2 });
	keep("b", 2, 2);
	ck_assert(is_kept("a") && is_kept("b"));
	keep("c", 3, 3);
	ck_assert(!is_kept("a") && is_kept("b") && is_kept("c"));
	begin((struct histories_limits){ .kept = 100, .per_owner = 100, .bytes = 1 });
	keep("d", 4, 4);
	ck_assert(!is_kept("b") && !is_kept("c") && is_kept("d"));
}
END_TEST

START_TEST(what_is_no_history_is_not_kept)
{
	static const char *const bad[] = { "", "{}", "[]", "{\"id\":\"a\",\"owner\":1,\"destroyed_at\":1,\"list\":{}}",
		"{\"id\":\"../a\",\"owner\":1,\"destroyed_at\":1,\"list\":{},\"history\":{}}",
		"{\"id\":\"a\",\"owner\":1,\"destroyed_at\":1,\"list\":{},\n\"history\":{}}",
		"{\"id\":\"a\",\"owner\":4294967296,\"destroyed_at\":1,\"list\":{},\"history\":{}}",
		"{\"id\":\"a\",\"owner\":1,\"owner\":2,\"destroyed_at\":1,\"list\":{},\"history\":{}}" };
	struct err e = ERR_INIT;
	char *large = calloc(1, LIMIT_HISTORY_BYTES + 200);

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		e = (struct err)ERR_INIT;
		ck_assert_int_eq(histories_keep(histories, bad[i], strlen(bad[i]), problem, &e), -1);
		ck_assert(histories_is_final(&e));
	}
	(void)snprintf(large, LIMIT_HISTORY_BYTES + 200, "{\"id\":\"a\",\"owner\":1,\"destroyed_at\":1,\"list\":{},\"history\":{\"x\":\"%0*d\"}}",
		LIMIT_HISTORY_BYTES, 1);
	e = (struct err)ERR_INIT;
	ck_assert_int_eq(histories_keep(histories, large, strlen(large), problem, &e), -1);
	ck_assert(e.code == ERR_LIMIT_EXCEEDED && histories_is_final(&e));
	free(large);
	ck_assert(!is_kept("a"));
}
END_TEST

START_TEST(every_flipped_byte_and_every_cut_is_found)
{
	char data[600];
	size_t size;
	FILE *f;

	keep("a", 1, 1);
	f = fopen(path_of("a", ""), "r");
	ck_assert_ptr_nonnull(f);
	size = fread(data, 1, sizeof data, f);
	ck_assert(fclose(f) == 0 && size > 100 && size < sizeof data);
	for (size_t i = 0; i < 2 * size; i++) {
		char copy[sizeof data];

		memcpy(copy, data, size);
		if (i < size)
			copy[i] ^= 4;
		if (i == strlen("sandboxd-history "))
			continue; /* of another format, then: the next test */
		write_file(path_of("a", ""), copy, i < size ? size : i - size);
		ck_assert(!is_kept("a"));
		ck_assert_msg(strstr(problem, "has been renamed to .damaged") != NULL, "at %zu: %s", i, problem);
		ck_assert_int_eq(access(path_of("a", ".damaged"), F_OK), 0);
	}
	ck_assert(!is_kept("a"));
	ck_assert_str_eq(problem, "");
	write_file(path_of("b", ""), data, size); /* whole, and of another id */
	ck_assert(!is_kept("b"));
	ck_assert_ptr_nonnull(strstr(problem, "of another sandbox"));
}
END_TEST

START_TEST(foreign_and_newer_files_are_left_alone)
{
	static const char newer[] = "sandboxd-history 12 whatever\n", mine[] = "mine";
	char foreign[300];
	struct history k;
	struct err e = ERR_INIT;

	keep("a", 1, 1);
	(void)snprintf(foreign, sizeof foreign, "%s/histories/README", dir);
	write_file(foreign, mine, strlen(mine));
	write_file(path_of("newer", ""), newer, strlen(newer));
	write_file(path_of("left", ".tmp"), mine, strlen(mine));
	write_file(path_of("bad", ""), mine, strlen(mine));
	begin((struct histories_limits){ .kept = 1, .per_owner = 1, .bytes = 1 });
	keep("b", 1, 2);
	ck_assert_ptr_nonnull(strstr(problem, "has been renamed to .damaged"));
	ck_assert_int_eq(access(foreign, F_OK), 0);
	ck_assert_int_eq(access(path_of("newer", ""), F_OK), 0);
	ck_assert_int_eq(access(path_of("bad", ".damaged"), F_OK), 0);
	ck_assert_int_eq(access(path_of("left", ".tmp"), F_OK), -1);
	ck_assert(!is_kept("a") && is_kept("b"));
	ck_assert_int_eq(histories_get(histories, "newer", &k, problem, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "newer sandboxd"));
}
END_TEST

START_TEST(a_folder_that_is_none)
{
	char path[100];
	struct err e = ERR_INIT;
	struct history k;
	const char *text = text_of("a", 1, 1);

	(void)snprintf(path, sizeof path, "%s/histories", dir);
	ck_assert_int_eq(symlink("/tmp", path), 0);
	ck_assert_int_eq(histories_keep(histories, text, strlen(text), problem, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(histories_get(histories, "a", &k, problem, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(histories_drop(histories, "a", &e), -1);
	ck_assert_int_eq(unlink(path), 0);
	keep("a", 1, 1); /* good again */
	ck_assert(is_kept("a"));
}
END_TEST

CHECK_MAIN("histories", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, what_was_kept_is_found);
	tcase_add_test(tc, ids_that_look_like_other_files); tcase_add_test(tc, the_oldest_goes_first); tcase_add_test(tc, bytes_are_bounded);
	tcase_add_test(tc, what_is_no_history_is_not_kept); tcase_add_test(tc, every_flipped_byte_and_every_cut_is_found);
	tcase_add_test(tc, foreign_and_newer_files_are_left_alone); tcase_add_test(tc, a_folder_that_is_none))
