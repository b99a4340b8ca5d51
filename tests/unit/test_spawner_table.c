/* SPDX-License-Identifier: MIT
 *
 * The spawner's table: names, pids, slots and cursors over additions and removals, the life of a host's entry. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/spawner/spawner.h"
#include "daemon/spawner/table.h"
#include "tests/support/check_main.h"

static struct table table;

static void fresh(uint32_t max)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(table_init(&table, max, &e), 0);
}

static struct entry *add(const char *name)
{
	struct err e = ERR_INIT;

	return table_add(&table, name, &e);
}

static uint32_t exits_unsent(void)
{
	uint32_t n = 0;

	for (const struct entry *entry = table.facts; entry; entry = entry->next_fact)
		n += entry->exit_unsent;
	return n;
}

static void started(struct entry *entry, pid_t pid, uint64_t generation, int64_t now_ms)
{
	entry_started(&table, entry, generation, now_ms);
	ck_assert(entry_lives(entry));
	entry_has_pid(&table, entry, pid);
	ck_assert(entry->birth_unsent);
	entry_birth_sent(entry);
	entry_born(entry);
}

START_TEST(names_and_slots)
{
	fresh(3);
	ck_assert_ptr_nonnull(add("a"));
	ck_assert_ptr_nonnull(add("b"));
	ck_assert_ptr_nonnull(add("c"));
	ck_assert_ptr_null(add("d")); /* full */
	ck_assert_ptr_eq(table_find(&table, "b"), table_from(&table, 1));
	ck_assert_ptr_null(table_find(&table, "d"));
	table_remove(&table, table_find(&table, "b"));
	ck_assert_ptr_null(table_find(&table, "b"));
	ck_assert_str_eq(table_from(&table, 1)->sandbox, "c"); /* a cursor goes on behind the gap */
	ck_assert_ptr_null(table_from(&table, 3));
	ck_assert_ptr_null(table_from(&table, UINT64_MAX));
	ck_assert_uint_eq(add("d")->slot, 1);
	table_fini(&table);
}
END_TEST

START_TEST(thousands_are_found_by_name_and_pid)
{
	const uint32_t n = 10000;
	char name[32];

	fresh(n);
	for (uint32_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof name, "s%u", i);
		started(add(name), (pid_t)(i + 1), i + 1, 5);
	}
	ck_assert_uint_eq(table.n_living, n);
	for (uint32_t i = 0; i < n; i += 2)
		entry_exited(&table, table_find_pid(&table, (pid_t)(i + 1)), 256, 6);
	ck_assert_uint_eq(table.n_living, n / 2);
	ck_assert_uint_eq(exits_unsent(), n / 2);
	for (uint32_t i = 0; i < n; i++) {
		struct entry *entry = table_find_pid(&table, (pid_t)(i + 1));

		(void)snprintf(name, sizeof name, "s%u", i);
		ck_assert_ptr_eq(entry, i % 2 ? table_find(&table, name) : NULL);
	}
	table_fini(&table);
}
END_TEST

START_TEST(the_life_of_an_entry)
{
	struct spawner_message m = { 0 };
	struct entry *entry;
	int fds[ENTRY_FD__N];

	fresh(1);
	entry = add("web");
	entry->uid = 77;
	entry->fds[ENTRY_SPEC] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	entry->fds[ENTRY_CHANNEL] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	started(entry, 4711, 9, 100);
	entry_describe(entry, &m);
	ck_assert_uint_eq(entry_borrow_fds(entry, &m, fds), 2);
	ck_assert_uint_eq(m.flags, SPAWNER_F_SPEC | SPAWNER_F_CHANNEL);
	ck_assert_int_eq(m.pid, 4711);
	ck_assert_uint_eq(m.generation, 9);
	ck_assert_int_eq(m.started_ms, 100);

	entry_exited(&table, entry, 11, 200);
	memset(&m, 0, sizeof m);
	entry_describe(entry, &m);
	ck_assert_uint_eq(m.flags, SPAWNER_F_EXITED);
	ck_assert_int_eq(m.status, 11);
	ck_assert_int_eq(m.pid, 0);
	ck_assert_ptr_eq(table_fact(&table), entry);
	ck_assert(entry->exit_unsent);
	entry_exit_sent(entry);
	ck_assert_ptr_null(table_fact(&table));
	ck_assert(entry->exited); /* until it is acknowledged */
	entry_acknowledged(&table, entry);
	ck_assert(!entry->exited);
	ck_assert_int_eq(entry->fds[ENTRY_CHANNEL], -1);
	ck_assert_int_ne(entry->fds[ENTRY_SPEC], -1);
	started(entry, 4711, 10, 300); /* the same pid again */
	ck_assert_ptr_eq(table_find_pid(&table, 4711), entry);
	entry_exited(&table, entry, 0, 400);
	table_remove(&table, entry); /* with an exit that was never sent */
	ck_assert_ptr_null(table_fact(&table));
	ck_assert_uint_eq(table.n, 0);
	table_fini(&table);
}
END_TEST

static int null_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* A sandbox with a process and a candidate's, which is born. */
static struct entry *with_candidate(void)
{
	struct err e = ERR_INIT;
	struct entry *entry = add("web"), *next;

	entry->fds[ENTRY_SPEC] = null_fd();
	entry->fds[ENTRY_STATE] = null_fd();
	entry->fds[ENTRY_RING] = null_fd();
	started(entry, 100, 1, 5);
	next = entry_other_add(entry, &e);
	ck_assert_ptr_nonnull(next);
	started(next, 200, 2, 6);
	return entry;
}

START_TEST(a_candidate_changes_places)
{
	struct entry *entry, *next;
	struct spawner_message m = { 0 };
	int ring, checkpoint, spec = null_fd(), fds[ENTRY_FD__N];

	fresh(3);
	ck_assert_ptr_nonnull(add("a"));
	entry = with_candidate();
	next = entry->other;
	ring = entry->fds[ENTRY_RING];
	checkpoint = entry->fds[ENTRY_CHECKPOINT] = null_fd();
	ck_assert_str_eq(entry->folder, "web");
	ck_assert_str_eq(next->folder, "web+");
	ck_assert_uint_eq(table.n, 2);       /* it is no sandbox */
	ck_assert_uint_eq(table.n_living, 2);
	ck_assert_ptr_eq(table_find(&table, "web"), entry);
	ck_assert_ptr_eq(table_find_pid(&table, 200), next);
	ck_assert_ptr_eq(entry_of_generation(entry, 1), entry);
	ck_assert_ptr_eq(entry_of_generation(entry, 2), next);
	ck_assert_ptr_null(entry_of_generation(entry, 3));
	ck_assert_ptr_null(table_from(&table, 2));

	ck_assert_ptr_eq(entry_promote(&table, entry, spec, -1), next);
	ck_assert_ptr_eq(table_find(&table, "web"), next);
	ck_assert_ptr_eq(table_from(&table, 1), next);
	ck_assert(next->other == entry && !entry->other && !next->is_candidate);
	entry_describe(next, &m);
	ck_assert(m.generation == 2 && m.pid == 200 && (m.flags & SPAWNER_F_SECOND));
	ck_assert_uint_eq(entry_borrow_fds(next, &m, fds), 3);
	ck_assert(next->fds[ENTRY_CHECKPOINT] == checkpoint && entry->fds[ENTRY_CHECKPOINT] == -1);
	ck_assert(next->fds[ENTRY_SPEC] == spec && next->fds[ENTRY_RING] == ring && next->fds[ENTRY_STATE] == -1);
	ck_assert(entry->fds[ENTRY_SPEC] == -1 && entry->fds[ENTRY_STATE] == -1 && entry->fds[ENTRY_RING] == -1);

	entry_exited(&table, entry, 0, 9); /* the one before: it is told like any exit */
	ck_assert_ptr_eq(table_fact(&table), entry);
	entry_other_drop(&table, next);
	ck_assert_ptr_null(table_fact(&table));
	ck_assert_ptr_eq(table_gone(&table), entry);
	ck_assert_ptr_null(table_gone(&table));
	entry_free(entry);
	ck_assert_ptr_eq(table_find_pid(&table, 200), next);
	ck_assert_str_eq(entry_other_add(next, &(struct err)ERR_INIT)->folder, "web"); /* they take turns */
	table_fini(&table);
}
END_TEST

/* Nobody hears of it: not of its end, and not of its birth, which comes after that it was dropped. */
START_TEST(what_is_dropped_is_told_to_nobody)
{
	struct err e = ERR_INIT;
	struct entry *entry, *next;

	fresh(2);
	entry = with_candidate();
	next = entry->other;
	entry_other_drop(&table, entry);
	ck_assert_ptr_null(table_gone(&table)); /* it lives */
	ck_assert_uint_eq(table.n_living, 2);
	entry_exited(&table, next, 9, 7);
	ck_assert_ptr_null(table_fact(&table));
	ck_assert_ptr_eq(table_gone(&table), next);
	entry_free(next);

	next = entry_other_add(entry, &e);
	entry_started(&table, next, 3, 8);
	entry_other_drop(&table, entry);
	entry_has_pid(&table, next, 300);
	entry_exited(&table, entry, 0, 9); /* behind it in the list of facts */
	ck_assert_ptr_eq(table_fact(&table), entry);
	entry_exited(&table, next, 9, 9);
	ck_assert_ptr_eq(table_gone(&table), next);
	entry_free(next);
	ck_assert_ptr_eq(table_fact(&table), entry);
	ck_assert_uint_eq(table.n_living, 0);

	next = entry_other_add(entry, &e);
	entry_other_drop(&table, entry); /* it was never asked for */
	table_fini(&table);
}
END_TEST

/* A child that the spawner is just making holds all that it has. What is watched of an entry goes with the entry all the same. */
START_TEST(a_listener_that_somebody_else_holds_too)
{
	static struct spawner sp;
	struct epoll_event event;
	struct err e = ERR_INIT;
	struct entry *entry;
	int listener = eventfd(1, EFD_CLOEXEC), child = dup(listener);

	fresh(2);
	ck_assert_int_eq(denials_open(&sp.denials, &e), 0);
	for (int ends_by = 0; ends_by < 2; ends_by++) {
		entry = add("a");
		started(entry, 4711, 9, 100);
		denials_watch(&sp, entry, fcntl(child, F_DUPFD_CLOEXEC, 3));
		ck_assert_int_eq(epoll_wait(sp.denials.epoll_fd, &event, 1, 0), 1); /* the test can fail */
		if (ends_by == 0)
			denials_unwatch(entry);
		entry_exited(&table, entry, 0, 200);
		ck_assert_int_eq(entry->listener_fd, -1);
		table_remove(&table, entry);
		ck_assert_int_eq(epoll_wait(sp.denials.epoll_fd, &event, 1, 0), 0);
		denials_ready(&sp);
	}
	denials_close(&sp.denials);
	(void)close(child);
	(void)close(listener);
	table_fini(&table);
}
END_TEST

CHECK_MAIN("spawner_table", tcase_add_test(tc, a_listener_that_somebody_else_holds_too);
	tcase_add_test(tc, names_and_slots); tcase_add_test(tc, thousands_are_found_by_name_and_pid);
	tcase_add_test(tc, the_life_of_an_entry); tcase_add_test(tc, a_candidate_changes_places);
	tcase_add_test(tc, what_is_dropped_is_told_to_nobody))
