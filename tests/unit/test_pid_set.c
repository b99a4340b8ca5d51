/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/spawner/pid_set.h"
#include "tests/support/check_main.h"

START_TEST(empty)
{
	struct pid_set s = PID_SET_INIT;

	ck_assert(!pid_set_has(&s, 1));
	pid_set_fini(&s);
}
END_TEST

/* Beside a plain table: random numbers, all that fit, in order. */
START_TEST(like_a_table)
{
	struct pid_set s = PID_SET_INIT;
	unsigned char *there = calloc(1, 1 << 22);
	pid_t *order = calloc(PID_SET_MAX, sizeof *order);

	ck_assert(there && order);
	srandom(5);
	while (s.n < PID_SET_MAX) {
		pid_t pid = 1 + (pid_t)(random() % ((1 << 22) - 1));

		ck_assert(pid_set_has(&s, pid) == (bool)there[pid]);
		if (there[pid])
			continue;
		order[s.n] = pid;
		ck_assert(pid_set_add(&s, pid));
		there[pid] = 1;
		ck_assert(pid_set_has(&s, pid));
	}
	ck_assert_mem_eq(order, s.pids, PID_SET_MAX * sizeof *order);
	for (pid_t pid = 1; pid < 1 << 22; pid++)
		ck_assert(pid_set_has(&s, pid) == (bool)there[pid]);
	pid_set_fini(&s);
	free(there);
	free(order);
}
END_TEST

START_TEST(one_too_many)
{
	struct pid_set s = PID_SET_INIT;

	for (pid_t pid = 1; pid <= (pid_t)PID_SET_MAX; pid++) /* one behind the other, as a fork storm has them */
		ck_assert(pid_set_add(&s, pid));
	ck_assert(!pid_set_add(&s, (pid_t)PID_SET_MAX + 1));
	ck_assert(pid_set_has(&s, 1) && pid_set_has(&s, (pid_t)PID_SET_MAX));
	ck_assert(!pid_set_has(&s, (pid_t)PID_SET_MAX + 1));
	pid_set_fini(&s);
}
END_TEST

CHECK_MAIN("pid_set", tcase_add_test(tc, empty); tcase_add_test(tc, like_a_table); tcase_add_test(tc, one_too_many));
