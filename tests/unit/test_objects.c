/* SPDX-License-Identifier: MIT
 *
 * Objects on disk: written whole or not at all, damage found and put aside, links never followed. */
#include "tests/support/check_main.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/objects.h"
#include "proto/limits.h"

static const char abc_hash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static char dir[64];
static int state_fd = -1;

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void setup(void)
{
	(void)snprintf(dir, sizeof(dir), "%s/objects-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	state_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(state_fd, 0);
}

static void teardown(void)
{
	(void)close(state_fd);
	(void)nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static struct blob *blob_of(const char *data, size_t n)
{
	char *copy = malloc(n ? n : 1);
	struct blob *b;

	memcpy(copy, data, n);
	b = blob_new(copy, n);
	ck_assert_ptr_nonnull(b);
	ck_assert_str_eq(b->sha256, "");
	blob_hash(b);
	return b;
}

static char *path_of(const char *name)
{
	static char path[300];

	(void)snprintf(path, sizeof(path), "%s/objects/%s", dir, name);
	return path;
}

static void write_file(const char *path, const char *text)
{
	FILE *f;

	(void)unlink(path);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

static unsigned count_files(void)
{
	DIR *d = opendir(path_of(""));
	struct dirent *entry;
	unsigned n = 0;

	while (d && (entry = readdir(d)))
		n += entry->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void put(const struct blob *b)
{
	struct err e = ERR_INIT;

	ck_assert_msg(objects_put(state_fd, b, &e) == 0, "%s", e.text);
}

START_TEST(hashes_are_sha256)
{
	char hex[SHA256_HEX_BYTES + 1];
	struct blob *b = blob_of("abc", 3);

	ck_assert_str_eq(b->sha256, abc_hash);
	sha256_hex(NULL, 0, hex);
	ck_assert_str_eq(hex, empty_hash);
	ck_assert_ptr_eq(blob_ref(b), b);
	ck_assert_ptr_null(blob_unref(b));
	ck_assert_str_eq(b->sha256, abc_hash); /* one reference is left */
	ck_assert_ptr_null(blob_unref(b));
	ck_assert_ptr_null(blob_unref(NULL));
}
END_TEST

START_TEST(what_is_put_can_be_got)
{
	struct blob *b = blob_of("abc", 3), *none = blob_of("", 0), *got = NULL;
	struct err e = ERR_INIT;
	struct stat st;

	ck_assert(!objects_has(state_fd, abc_hash));
	put(b);
	put(none);
	ck_assert(objects_has(state_fd, abc_hash));
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), 0);
	ck_assert_uint_eq(got->size, 3);
	ck_assert_mem_eq(got->data, "abc", 3);
	ck_assert_str_eq(got->sha256, abc_hash);
	ck_assert_uint_eq(got->references, 1);
	blob_unref(got);
	ck_assert_int_eq(objects_get(state_fd, empty_hash, &got, &e), 0);
	ck_assert_uint_eq(got->size, 0);
	blob_unref(got);
	ck_assert_int_eq(stat(path_of(abc_hash), &st), 0);
	ck_assert_int_eq((int)(st.st_mode & 07777), 0400);
	ck_assert_int_eq(stat(path_of(""), &st), 0);
	ck_assert_int_eq((int)(st.st_mode & 07777), 0700);
	ck_assert_uint_eq(count_files(), 2);
	blob_unref(b);
	blob_unref(none);
}
END_TEST

START_TEST(what_is_there_is_kept)
{
	struct blob *b = blob_of("abc", 3);
	struct stat before, after;

	put(b);
	ck_assert_int_eq(stat(path_of(abc_hash), &before), 0);
	put(b);
	ck_assert_int_eq(stat(path_of(abc_hash), &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	ck_assert_uint_eq(count_files(), 1);
	blob_unref(b);
}
END_TEST

static const char *const bad_names[] = { "", "..", "../objects", "abc", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
	"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a/",
	"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ae" /* a good name that isn't there */ };

START_TEST(what_is_not_there_is_not_found)
{
	struct blob *b = blob_of("abc", 3), *got = NULL;
	struct err e = ERR_INIT;

	for (int with_folder = 0; with_folder < 2; with_folder++) {
		ck_assert_int_eq(objects_get(state_fd, bad_names[_i], &got, &e), -1);
		ck_assert_int_eq(e.code, ERR_OBJECT_NOT_FOUND);
		ck_assert(!objects_has(state_fd, bad_names[_i]));
		put(b);
	}
	ck_assert_ptr_null(got);
	blob_unref(b);
}
END_TEST

static void damage_by_text(const char *path)
{
	write_file(path, "abd");
}

static void damage_by_cutting(const char *path)
{
	write_file(path, "ab");
}

static void damage_by_emptying(const char *path)
{
	write_file(path, "");
}

static void damage_by_size(const char *path)
{
	write_file(path, "abc");
	ck_assert_int_eq(truncate(path, LIMIT_OBJECT_BYTES + 1), 0); /* sparse */
}

static void damage_by_link(const char *path)
{
	char target[400];

	(void)snprintf(target, sizeof(target), "%s/target", dir);
	write_file(target, "abc"); /* the right bytes, but not ours */
	(void)unlink(path);
	ck_assert_int_eq(symlink(target, path), 0);
}

static void damage_by_fifo(const char *path)
{
	(void)unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void damage_by_folder(const char *path)
{
	(void)unlink(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void (*const damages[])(const char *path) = { damage_by_text, damage_by_cutting, damage_by_emptying, damage_by_size,
	damage_by_link, damage_by_fifo, damage_by_folder };

START_TEST(damage_is_reported_and_put_aside)
{
	struct blob *b = blob_of("abc", 3), *got = NULL;
	struct err e = ERR_INIT;
	char aside[100];

	(void)snprintf(aside, sizeof(aside), "%s.damaged", abc_hash);
	put(b);
	damages[_i](path_of(abc_hash));
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_msg(strstr(e.text, "damaged") && strstr(e.text, abc_hash), "%s", e.text);
	ck_assert_ptr_null(got);
	ck_assert(exists(path_of(aside)));
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), -1);
	ck_assert_int_eq(e.code, ERR_OBJECT_NOT_FOUND);
	put(b); /* uploaded again: good again */
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), 0);
	blob_unref(got);
	blob_unref(b);
}
END_TEST

START_TEST(a_damaged_object_is_replaced_by_put)
{
	struct blob *b = blob_of("abc", 3), *got = NULL;
	struct err e = ERR_INIT;
	char name[100];

	put(b);
	(void)snprintf(name, sizeof(name), "%s.tmp", abc_hash);
	write_file(path_of(name), "a killed predecessor's half");
	damages[_i](path_of(abc_hash));
	put(b);
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), 0);
	ck_assert_mem_eq(got->data, "abc", 3);
	ck_assert(!exists(path_of(name)));
	(void)snprintf(name, sizeof(name), "%s.damaged", abc_hash);
	ck_assert(exists(path_of(name)));
	ck_assert_uint_eq(count_files(), 2);
	blob_unref(got);
	blob_unref(b);
}
END_TEST

START_TEST(a_full_disk_leaves_nothing_behind)
{
	struct rlimit small = { 100000, 100000 };
	char *data = calloc(1, 200000), path[200];
	struct blob *large = blob_of(data, 200000), *b = blob_of("abc", 3);
	struct err e = ERR_INIT;

	put(b);
	(void)signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(objects_put(state_fd, large, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(e.sys_errno, EFBIG);
	ck_assert_uint_eq(count_files(), 1);
	ck_assert(!objects_has(state_fd, large->sha256));
	(void)snprintf(path, sizeof(path), "%s/1.so", dir);
	ck_assert_int_eq(objects_place(large, path, &e), -1);
	ck_assert_int_eq(e.sys_errno, EFBIG);
	ck_assert(!exists(path));
	put(b); /* what is there stays usable */
	free(data);
	blob_unref(large);
	blob_unref(b);
}
END_TEST

/* As root this changes to a user who may not write; groups go with it. */
START_TEST(a_folder_that_cannot_be_written_is_an_error)
{
	struct blob *b = blob_of("abc", 3), *other = blob_of("def", 3), *got = NULL;
	struct err e = ERR_INIT;

	put(b);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(dir, 65534, 65534), 0);
		ck_assert_int_eq(chown(path_of(""), 65534, 65534), 0);
		ck_assert_int_eq(chown(path_of(abc_hash), 65534, 65534), 0);
	}
	ck_assert_int_eq(chmod(path_of(""), 0500), 0);
	if (geteuid() == 0)
		ck_assert(setgroups(0, NULL) == 0 && setegid(65534) == 0 && seteuid(65534) == 0);
	ck_assert_int_eq(objects_put(state_fd, other, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(e.sys_errno, EACCES);
	put(b); /* is there, durable, and needs no writing */
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), 0);
	if (geteuid() != getuid())
		ck_assert(seteuid(0) == 0 && setegid(0) == 0);
	ck_assert_int_eq(chmod(path_of(""), 0700), 0);
	blob_unref(got);
	blob_unref(b);
	blob_unref(other);
}
END_TEST

static bool keep_none(void *ctx, const char *sha256)
{
	(void)sha256;
	++*(unsigned *)ctx;
	return false;
}

START_TEST(a_link_in_place_of_the_folder_is_refused)
{
	struct blob *b = blob_of("abc", 3), *got = NULL;
	struct err e = ERR_INIT;
	char elsewhere[100], link[100];
	unsigned n = 0;

	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
	(void)snprintf(link, sizeof(link), "%s/objects", dir);
	ck_assert_int_eq(mkdir(elsewhere, 0700), 0);
	if (_i == 0)
		ck_assert_int_eq(symlink("elsewhere", link), 0);
	else
		write_file(link, "a file");
	ck_assert_int_eq(objects_put(state_fd, b, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "link or a file"));
	ck_assert_int_eq(objects_get(state_fd, abc_hash, &got, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(objects_collect(state_fd, keep_none, &n, &e), -1);
	ck_assert(!objects_has(state_fd, abc_hash));
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(rmdir(elsewhere), 0); /* nothing was written through it */
	blob_unref(b);
}
END_TEST

START_TEST(a_blob_without_hash_is_refused)
{
	struct blob *b = blob_new(calloc(1, 1), 1);
	struct err e = ERR_INIT;

	ck_assert_int_eq(objects_put(state_fd, b, &e), -1);
	ck_assert_int_eq(e.code, ERR_INTERNAL);
	blob_unref(b);
}
END_TEST

/* A start's file by other names: the store of what touches no disk, and the next start. */
START_TEST(a_start_shares_its_file)
{
	struct blob *b = blob_of("abc", 3), *got = NULL;
	struct err e = ERR_INIT;
	char folder[100], first[150], next[150], stored[200];
	struct stat st, other;

	(void)snprintf(folder, sizeof(folder), "%s/shared", dir);
	(void)snprintf(first, sizeof(first), "%s/1.so", folder);
	(void)snprintf(next, sizeof(next), "%s/2.so", folder);
	(void)snprintf(stored, sizeof(stored), "%s/%s.object", folder, b->sha256);
	ck_assert_int_eq(objects_place_volatile(folder, b, first, &e), -1); /* no such folder */
	ck_assert_int_eq(e.sys_errno, ENOENT);
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	ck_assert_int_eq(objects_place_again(folder, next), -1); /* nothing was placed */
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_msg(objects_place_volatile(folder, b, first, &e) == 0, "%s", e.text);
	ck_assert_int_eq(stat(first, &st), 0);
	ck_assert_int_eq(stat(stored, &other), 0);
	ck_assert_uint_eq(st.st_ino, other.st_ino);
	ck_assert_int_eq((int)(st.st_mode & 07777), 0444);
	ck_assert_int_eq(objects_place_volatile(folder, b, first, &e), -1); /* never over something */
	ck_assert_int_eq(objects_keep_placed(folder, first), 0);
	ck_assert_int_eq(objects_keep_placed(folder, first), 0);
	ck_assert_int_eq(unlink(first), 0); /* loaded */
	ck_assert_int_eq(objects_place_again(folder, next), 0);
	ck_assert_int_eq(stat(next, &other), 0);
	ck_assert_uint_eq(st.st_ino, other.st_ino);
	ck_assert_int_eq(objects_place_again(folder, next), -1);
	objects_drop_placed(folder);
	ck_assert_int_eq(unlink(next), 0);
	ck_assert_int_eq(objects_place_again(folder, next), -1); /* there is none any more */
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(objects_get_volatile(folder, b->sha256, &got, &e), 0);
	ck_assert_mem_eq(got->data, "abc", 3);
	blob_unref(got);
	blob_unref(b);
}
END_TEST

START_TEST(a_copy_is_placed_once)
{
	struct blob *b = blob_of("abc", 3);
	struct err e = ERR_INIT;
	char folder[100], path[150], target[150], bytes[8];
	struct stat st, parent;
	FILE *f;

	(void)snprintf(folder, sizeof(folder), "%s/web", dir);
	(void)snprintf(path, sizeof(path), "%s/1.so", folder);
	(void)snprintf(target, sizeof(target), "%s/target", dir);
	ck_assert_int_eq(objects_place(b, path, &e), -1); /* no such folder */
	ck_assert_int_eq(e.sys_errno, ENOENT);
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(chown(folder, 0, 4711), 0);
	ck_assert_int_eq(chmod(folder, 02710), 0);
	(void)umask(077);
	ck_assert_msg(objects_place(b, path, &e) == 0, "%s", e.text);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(stat(folder, &parent), 0);
	ck_assert_int_eq((int)(st.st_mode & 07777), 0444);
	ck_assert_uint_eq(st.st_gid, parent.st_gid);
	f = fopen(path, "r");
	ck_assert_uint_eq(fread(bytes, 1, sizeof(bytes), f), 3);
	(void)fclose(f);
	ck_assert_mem_eq(bytes, "abc", 3);
	ck_assert_int_eq(objects_place(b, path, &e), -1); /* never over something */
	ck_assert_int_eq(e.sys_errno, EEXIST);
	ck_assert(exists(path));
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(symlink(target, path), 0);
	ck_assert_int_eq(objects_place(b, path, &e), -1);
	ck_assert(!exists(target));
	blob_unref(b);
}
END_TEST

static bool keep_abc(void *ctx, const char *sha256)
{
	++*(unsigned *)ctx;
	return strcmp(sha256, abc_hash) == 0;
}

START_TEST(collecting_removes_what_nobody_refers_to)
{
	struct err e = ERR_INIT;
	struct blob *kept = blob_of("abc", 3);
	unsigned asked = 0;
	char name[100];

	ck_assert_int_eq(objects_collect(state_fd, keep_abc, &asked, &e), 0); /* no folder yet */
	put(kept);
	for (char c = '0'; c <= '9'; c++) {
		struct blob *b = blob_of(&c, 1);

		put(b);
		blob_unref(b);
	}
	(void)snprintf(name, sizeof(name), "%s.damaged", empty_hash);
	write_file(path_of(name), "evidence");
	write_file(path_of("README"), "not ours");
	(void)snprintf(name, sizeof(name), "%s.tmp", empty_hash);
	write_file(path_of(name), "left over");
	ck_assert_int_eq(objects_collect(state_fd, keep_abc, &asked, &e), 10);
	ck_assert_uint_eq(asked, 11);
	ck_assert(!exists(path_of(name)));
	ck_assert_uint_eq(count_files(), 3);
	ck_assert(objects_has(state_fd, abc_hash));
	ck_assert_int_eq(objects_collect(state_fd, keep_abc, &asked, &e), 0);
	ck_assert_int_eq(mkdir(path_of(empty_hash), 0700), 0); /* can't be removed: told, and the rest is done */
	ck_assert_int_eq(objects_collect(state_fd, keep_none, &asked, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert(!objects_has(state_fd, abc_hash));
	blob_unref(kept);
}
END_TEST

#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

CHECK_MAIN("objects",
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, hashes_are_sha256);
	tcase_add_test(tc, what_is_put_can_be_got);
	tcase_add_test(tc, what_is_there_is_kept);
	tcase_add_loop_test(tc, what_is_not_there_is_not_found, 0, COUNT(bad_names));
	tcase_add_loop_test(tc, damage_is_reported_and_put_aside, 0, COUNT(damages));
	tcase_add_loop_test(tc, a_damaged_object_is_replaced_by_put, 0, COUNT(damages));
	tcase_add_test(tc, a_full_disk_leaves_nothing_behind);
	tcase_add_test(tc, a_folder_that_cannot_be_written_is_an_error);
	tcase_add_loop_test(tc, a_link_in_place_of_the_folder_is_refused, 0, 2);
	tcase_add_test(tc, a_blob_without_hash_is_refused);
	tcase_add_test(tc, a_start_shares_its_file); tcase_add_test(tc, a_copy_is_placed_once);
	tcase_add_test(tc, collecting_removes_what_nobody_refers_to))
