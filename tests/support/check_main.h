/* SPDX-License-Identifier: MIT
 *
 * The main() of a unit or proc test program: one suite, one case, libcheck forks per test.
 * SANDBOXD_TEST_MULTIPLIER stretches deadlines on slow machines and under sanitizers. */
#ifndef SANDBOXD_CHECK_MAIN_H
#define SANDBOXD_CHECK_MAIN_H

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

static inline long test_multiplier(void)
{
	const char *text = getenv("SANDBOXD_TEST_MULTIPLIER");
	long n = text ? strtol(text, NULL, 10) : 1;

	return n < 1 ? 1 : n;
}

static inline long test_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The condition is looked at again until it holds or 10 s (times the multiplier) have passed; it must be idempotent. */
#define eventually(cond)                                                                                     \
	do {                                                                                                 \
		long until_ = test_now_ms() + 10000 * test_multiplier();                                     \
		while (!(cond) && test_now_ms() < until_)                                                    \
			poll(NULL, 0, 2);                                                                    \
		ck_assert_msg((cond), "never became true: %s", #cond);                                       \
	} while (0)

#define CHECK_MAIN(name, ...)                                                                                \
	int main(void)                                                                                       \
	{                                                                                                    \
		Suite *suite = suite_create(name);                                                           \
		TCase *tc = tcase_create(name);                                                              \
		SRunner *runner;                                                                             \
		int failed;                                                                                  \
                                                                                                             \
		tcase_set_timeout(tc, (double)(180 * test_multiplier()));                                    \
		__VA_ARGS__;                                                                                 \
		suite_add_tcase(suite, tc);                                                                  \
		runner = srunner_create(suite);                                                              \
		srunner_run_all(runner, CK_ENV);                                                             \
		failed = srunner_ntests_failed(runner);                                                      \
		srunner_free(runner);                                                                        \
		return failed != 0;                                                                          \
	}

#endif
