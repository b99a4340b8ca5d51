/* SPDX-License-Identifier: MIT
 *
 * The host's ring of unacknowledged replies. */
#include <stdlib.h>
#include <string.h>

#include "daemon/host/replies.h"
#include "tests/support/check_main.h"

static struct replies ring;

static void add(uint64_t number, size_t size)
{
	char *body = malloc(size + 1);

	memset(body, 'x', size);
	body[size] = '\0';
	ck_assert_uint_eq(replies_add(&ring, number, 0, body, size)->number, number);
}

START_TEST(sequence_grows_and_acks_forget)
{
	replies_init(&ring);
	for (uint64_t i = 1; i <= 5; i++)
		add(100 + i, 10);
	ck_assert_int_eq(replies_ack(&ring, 0), 0);
	ck_assert_uint_eq(ring.n, 5);
	ck_assert_int_eq(replies_ack(&ring, 3), 0);
	ck_assert_uint_eq(replies_at(&ring, 0)->number, 104);
	ck_assert_uint_eq(replies_at(&ring, 1)->sequence, 5);
	ck_assert_ptr_null(replies_at(&ring, 2));
	ck_assert_int_eq(replies_ack(&ring, 2), 0); /* an older one changes nothing */
	ck_assert_uint_eq(ring.n, 2);
	ck_assert_int_eq(replies_ack(&ring, 6), -1); /* never sent */
	ck_assert_int_eq(replies_ack(&ring, UINT64_MAX), -1);
	ck_assert_uint_eq(ring.n, 2);
	ck_assert_int_eq(replies_ack(&ring, 5), 0);
	ck_assert_uint_eq(ring.n, 0);
	ck_assert_uint_eq(ring.bytes, 0);
	replies_fini(&ring);
}
END_TEST

START_TEST(full_by_number_and_around_the_ring)
{
	replies_init(&ring);
	for (uint64_t i = 1; i <= 3 * LIMIT_REPLIES_UNACKED; i++) {
		if (replies_full(&ring))
			ck_assert_int_eq(replies_ack(&ring, replies_at(&ring, 0)->sequence), 0);
		add(i, 1);
	}
	ck_assert(replies_full(&ring));
	ck_assert_uint_eq(ring.n, LIMIT_REPLIES_UNACKED);
	for (size_t i = 0; i < LIMIT_REPLIES_UNACKED; i++)
		ck_assert_uint_eq(replies_at(&ring, i)->sequence, 2 * LIMIT_REPLIES_UNACKED + 1 + i);
	replies_fini(&ring);
}
END_TEST

START_TEST(full_by_bytes)
{
	replies_init(&ring);
	add(1, LIMIT_REPLIES_UNACKED_BYTES - 1);
	ck_assert(!replies_full(&ring));
	add(2, 1);
	ck_assert(replies_full(&ring));
	ck_assert_int_eq(replies_ack(&ring, 1), 0);
	ck_assert(!replies_full(&ring));
	ck_assert_uint_eq(ring.bytes, 1);
	replies_fini(&ring);
}
END_TEST

START_TEST(replaced_in_place)
{
	replies_init(&ring);
	add(1, 100);
	add(2, 100);
	replies_replace(&ring, 0, 1, strdup("{}"), 2);
	ck_assert_uint_eq(ring.bytes, 102);
	ck_assert_uint_eq(replies_at(&ring, 0)->status, 1);
	ck_assert_str_eq(replies_at(&ring, 0)->body, "{}");
	ck_assert_uint_eq(replies_at(&ring, 0)->sequence, 1);
	replies_fini(&ring);
}
END_TEST

CHECK_MAIN("replies",
	tcase_add_test(tc, sequence_grows_and_acks_forget);
	tcase_add_test(tc, full_by_number_and_around_the_ring);
	tcase_add_test(tc, full_by_bytes);
	tcase_add_test(tc, replaced_in_place))
