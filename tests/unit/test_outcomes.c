/* SPDX-License-Identifier: MIT
 *
 * The table of outcomes: what is kept, what goes first, and that a successor reads it whole wherever its predecessor stopped. */
#include "daemon/front/outcomes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/buf.h"
#include "proto/fd.h"
#include "tests/support/check_main.h"

static int memory(void)
{
	int fd = memfd_create("outcomes", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, LIMIT_OUTCOMES_BYTES), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static struct outcomes *open_on(int fd)
{
	struct outcomes *o = NULL;
	struct err e = ERR_INIT;

	ck_assert_msg(outcomes_open(dup(fd), &o, &e) == 0, "%s", e.text);
	return o;
}

static struct outcome *begin(struct outcomes *o, uid_t uid, const char *key)
{
	struct outcome from = { .uid = uid, .method = METHOD_SANDBOX_CALL, .params = 7, .sandbox = "box", .function = "f" }, *row = NULL;
	struct err e = ERR_INIT;

	(void)snprintf(from.key, sizeof from.key, "%s", key);
	ck_assert_msg(outcomes_begin(o, &from, &row, &e) == 0, "%s", e.text);
	return row;
}

static void done(struct outcomes *o, struct outcome *row, const char *text)
{
	ck_assert(outcomes_done(o, row, false, text, strlen(text)));
}

static void expect(struct outcomes *o, uid_t uid, const char *key, const char *text)
{
	const struct outcome *row = outcomes_find(o, uid, key);
	struct buf b = BUF_INIT;

	ck_assert_msg(row && row->state == OUTCOME_DONE, "%s", key);
	outcomes_read(o, row, &b);
	ck_assert_str_eq(buf_text(&b), text);
	buf_fini(&b);
}

START_TEST(one_row)
{
	int fd = memory();
	struct outcomes *o = open_on(fd);
	struct outcome *row = begin(o, 1000, "k");

	ck_assert_ptr_eq(outcomes_find(o, 1000, "k"), row);
	ck_assert_ptr_null(outcomes_find(o, 1001, "k")); /* another's */
	ck_assert_ptr_null(outcomes_find(o, 1000, "K"));
	ck_assert_ptr_eq(outcomes_running(o, NULL), row);
	done(o, row, "{\"a\":1}");
	ck_assert_ptr_null(outcomes_running(o, NULL));
	expect(o, 1000, "k", "{\"a\":1}");
	outcomes_release(o, row);
	ck_assert_ptr_null(outcomes_find(o, 1000, "k"));
	(void)begin(o, 1000, "k");
	outcomes_close(o);
	close(fd);
}
END_TEST

START_TEST(a_successor_finds_all)
{
	int fd = memory();
	struct outcomes *o = open_on(fd);
	char large[3 * 4096 + 5], key[16];
	struct outcome *row;

	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	for (int i = 0; i < 300; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		row = begin(o, 1000u + (unsigned)i % 3, key);
		if (i % 3 == 0)
			done(o, row, i % 2 ? large : "1");
		else if (i % 3 == 1)
			outcomes_number(row, 100 + (uint64_t)i);
		else
			outcomes_release(o, row);
	}
	outcomes_close(o);
	o = open_on(fd);
	for (int i = 0; i < 300; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		row = outcomes_find(o, 1000u + (unsigned)i % 3, key);
		if (i % 3 == 0)
			expect(o, 1000, key, i % 2 ? large : "1");
		else if (i % 3 == 1)
			ck_assert(row && row->state == OUTCOME_RUNNING && row->number == 100 + (uint64_t)i && strcmp(row->function, "f") == 0);
		else
			ck_assert_ptr_null(row);
	}
	/* and goes on with it: what is new doesn't disturb what was */
	for (int i = 0; i < 200; i++) {
		(void)snprintf(key, sizeof key, "n%d", i);
		done(o, begin(o, 7, key), large);
	}
	expect(o, 1000, "k3", large);
	expect(o, 7, "n199", large);
	outcomes_close(o);
	close(fd);
}
END_TEST

START_TEST(a_users_oldest_go_first)
{
	int fd = memory();
	struct outcomes *o = open_on(fd);
	struct outcome *first = begin(o, 1, "running");
	struct outcome more = { .uid = 1, .key = "more" }, *row = NULL;
	struct err e = ERR_INIT;
	char key[16];

	done(o, begin(o, 2, "other"), "2");
	for (int i = 0; i < LIMIT_OUTCOMES_PER_UID + 10; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		done(o, begin(o, 1, key), "1");
	}
	ck_assert_ptr_eq(outcomes_find(o, 1, "running"), first); /* never one at work */
	ck_assert_ptr_null(outcomes_find(o, 1, "k0"));
	ck_assert_ptr_null(outcomes_find(o, 1, "k10"));
	ck_assert_ptr_nonnull(outcomes_find(o, 1, "k11")); /* LIMIT - 1, and the one at work */
	expect(o, 2, "other", "2");
	for (int i = LIMIT_OUTCOMES_PER_UID + 10; outcomes_find(o, 1, "k11") || i < 2 * LIMIT_OUTCOMES_PER_UID + 20; i++) {
		(void)snprintf(key, sizeof key, "r%d", i);
		if (outcomes_begin(o, &(struct outcome){ .uid = 1, .method = METHOD_SANDBOX_CALL, .key = "x" }, &row, &e) == -1)
			break;
		outcomes_release(o, row);
		(void)begin(o, 1, key);
	}
	ck_assert_int_eq(outcomes_begin(o, &more, &row, &e), -1); /* all are at work */
	ck_assert_int_eq(e.code, ERR_BUSY);
	(void)begin(o, 2, "another user may");
	outcomes_close(o);
	close(fd);
}
END_TEST

START_TEST(many_users_share)
{
	int fd = memory();
	struct outcomes *o = open_on(fd);
	char key[16];

	for (int i = 0; i < 2 * LIMIT_OUTCOMES; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		done(o, begin(o, (uid_t)i / 3, key), "1");
	}
	ck_assert_ptr_null(outcomes_find(o, 0, "k0"));
	expect(o, (2 * LIMIT_OUTCOMES - 1) / 3, "k8191", "1");
	outcomes_close(o);
	o = open_on(fd);
	expect(o, (2 * LIMIT_OUTCOMES - 1) / 3, "k8191", "1");
	outcomes_close(o);
	close(fd);
}
END_TEST

START_TEST(bytes_are_bounded)
{
	int fd = memory();
	struct outcomes *o = open_on(fd);
	char *large = malloc(LIMIT_OUTCOME_BYTES + 1), key[16];

	ck_assert_ptr_nonnull(large);
	memset(large, 'y', LIMIT_OUTCOME_BYTES + 1);
	ck_assert(!outcomes_done(o, begin(o, 1, "too large"), false, large, LIMIT_OUTCOME_BYTES + 1));
	ck_assert_int_eq(outcomes_find(o, 1, "too large")->state, OUTCOME_RUNNING);
	ck_assert(!outcomes_done(o, outcomes_find(o, 1, "too large"), false, "", 0));
	done(o, begin(o, 2, "other"), "2");
	for (int i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof key, "k%d", i);
		ck_assert(outcomes_done(o, begin(o, (uid_t)(10 + i % 20), key), false, large, LIMIT_OUTCOME_BYTES));
	}
	ck_assert_ptr_null(outcomes_find(o, 2, "other")); /* 20 users of 3 MiB each: the oldest of all went */
	ck_assert_ptr_nonnull(outcomes_find(o, 29, "k99"));
	free(large);
	outcomes_close(o);
	close(fd);
}
END_TEST

/* Whatever lies there: it is opened, and works. */
START_TEST(damage_is_forgotten)
{
	uint64_t dice = 88172645463325252ull;

	for (int round = 0; round < 60; round++) {
		int fd = memory();
		struct outcomes *o = open_on(fd);
		char *map = mmap(NULL, LIMIT_OUTCOMES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), key[16];
		char large[9000];

		ck_assert_ptr_ne(map, MAP_FAILED);
		memset(large, 'z', sizeof large - 1);
		large[sizeof large - 1] = '\0';
		for (int i = 0; i < 50; i++) {
			(void)snprintf(key, sizeof key, "k%d", i);
			done(o, begin(o, 5, key), large);
		}
		outcomes_close(o);
		for (int i = 0; i < (round < 50 ? 40 : 20000); i++) {
			size_t room = round % 2 ? 1500000 : 40000; /* table and chains; the rows in use lie at one end */

			dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
			map[(round % 4 < 2 ? 0 : 900000) + dice % room] = (char)(dice >> 40);
		}
		o = open_on(fd);
		for (int i = 0; i < 300; i++) {
			struct outcome *row;

			(void)snprintf(key, sizeof key, "n%d", i);
			row = outcomes_find(o, 6, key);
			if (row)
				outcomes_release(o, row);
			row = begin(o, 6, key);
			if (outcomes_done(o, row, false, large, sizeof large - 1))
				expect(o, 6, key, large);
		}
		outcomes_close(o);
		ck_assert_int_eq(munmap(map, LIMIT_OUTCOMES_BYTES), 0);
		close(fd);
	}
}
END_TEST

START_TEST(other_memory_is_refused)
{
	struct outcomes *o = NULL;
	struct err e = ERR_INIT;
	int fd = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, LIMIT_OUTCOMES_BYTES), 0);
	ck_assert_int_eq(outcomes_open(dup(fd), &o, &e), -1); /* not sealed: it could shrink under us */
	ck_assert_int_eq(ftruncate(fd, LIMIT_OUTCOMES_BYTES - 4096), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	ck_assert_int_eq(outcomes_open(fd, &o, &e), -1);
	ck_assert_int_eq(outcomes_open(-1, &o, &e), -1);
}
END_TEST

CHECK_MAIN("outcomes", tcase_add_test(tc, one_row); tcase_add_test(tc, a_successor_finds_all); tcase_add_test(tc, a_users_oldest_go_first);
	tcase_add_test(tc, many_users_share); tcase_add_test(tc, bytes_are_bounded); tcase_add_test(tc, damage_is_forgotten);
	tcase_add_test(tc, other_memory_is_refused));
