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
	tcase_add_test(tc, the_life_of_an_entry))
