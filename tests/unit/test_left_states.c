/* SPDX-License-Identifier: MIT
 *
 * States that versions were left with: what comes back is what went in, and number and bytes stay within their limits. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/sandbox/left_states.h"
#include "proto/fd.h"
#include "tests/support/check_main.h"

static int memfd_of(uint64_t bytes, int fill)
{
	char *data = malloc(bytes);
	int fd;

	ck_assert_ptr_nonnull(data);
	memset(data, fill, bytes);
	fd = fd_memfd("state", data, bytes, true);
	ck_assert_int_ge(fd, 0);
	free(data);
	return fd;
}

static bool add(struct left_states *l, uint32_t version, uint64_t bytes, int fill)
{
	struct left_state what = { .version = version, .bytes = bytes, .at_ms = 1000 + version, .calls_done = version * 10u };
	int fd = memfd_of(bytes, fill);
	bool kept = left_states_add(l, &what, fd);

	(void)close(fd);
	return kept;
}

static void holds(const struct left_states *l, uint32_t version, uint64_t bytes, int fill)
{
	struct left_state got;
	struct err e = ERR_INIT;
	unsigned char *data;

	ck_assert_msg(left_states_get(l, version, &got, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(got.bytes, bytes);
	ck_assert_int_eq(got.at_ms, 1000 + version);
	ck_assert_uint_eq(got.calls_done, version * 10u);
	ck_assert(fd_is_memfd_sealed(got.fd));
	data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, got.fd, 0);
	ck_assert_ptr_ne(data, MAP_FAILED);
	for (uint64_t i = 0; i < bytes; i++)
		ck_assert_int_eq(data[i], fill);
	(void)munmap(data, bytes);
	(void)close(got.fd);
}

START_TEST(small_and_large)
{
	struct left_states l = { 0 };

	ck_assert(add(&l, 1, 100, 'a'));
	ck_assert(add(&l, 2, 65536, 'b'));
	ck_assert(add(&l, 3, 65537, 'c'));
	holds(&l, 1, 100, 'a');
	holds(&l, 2, 65536, 'b');
	holds(&l, 3, 65537, 'c');
	ck_assert(add(&l, 1, 200000, 'd')); /* in place of the one before */
	holds(&l, 1, 200000, 'd');
	ck_assert_uint_eq(l.n, 3);
	left_states_drop(&l, 2);
	ck_assert_ptr_null(left_states_find(&l, 2));
	holds(&l, 3, 65537, 'c');
	left_states_fini(&l);
	ck_assert_uint_eq(l.n, 0);
}
END_TEST

START_TEST(limits)
{
	struct left_states l = { 0 };
	struct left_state got;
	struct err e = ERR_INIT;

	for (uint32_t v = 1; v <= LIMIT_LEFT_STATES + 2; v++)
		ck_assert(add(&l, v, 10, 'x'));
	ck_assert_uint_eq(l.n, LIMIT_LEFT_STATES);
	ck_assert_ptr_null(left_states_find(&l, 2));
	holds(&l, 3, 10, 'x');
	ck_assert(add(&l, 20, LIMIT_LEFT_STATES_BYTES - 5, 'y')); /* there is no room beside it */
	ck_assert_uint_eq(l.n, 1);
	ck_assert(!add(&l, 20, LIMIT_LEFT_STATES_BYTES + 1, 'z')); /* and what was kept of it is out of date */
	ck_assert_int_eq(left_states_get(&l, 20, &got, &e), -1);
	ck_assert_int_eq(e.code, ERR_STATE_NOT_FOUND);
	left_states_fini(&l);
}
END_TEST

START_TEST(what_is_not_taken)
{
	struct left_states l = { 0 };
	struct left_state what = { .version = 1, .bytes = 10 };
	int fd = memfd_of(5, 'x');

	ck_assert(!left_states_add(&l, &what, -1));
	ck_assert(!left_states_add(&l, &what, fd)); /* shorter than it says */
	what.bytes = 0;
	ck_assert(!left_states_add(&l, &what, fd));
	what.bytes = 5;
	what.version = 0;
	ck_assert(!left_states_add(&l, &what, fd)); /* the first start leaves nothing */
	ck_assert_uint_eq(l.n, 0);
	(void)close(fd);
}
END_TEST

CHECK_MAIN("left_states", tcase_add_test(tc, small_and_large); tcase_add_test(tc, limits); tcase_add_test(tc, what_is_not_taken);)
