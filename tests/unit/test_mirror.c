/* SPDX-License-Identifier: MIT
 *
 * The two halves: what a reader finds at every instant of a writer's work, and of what a hostile one may leave. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/mirror.h"
#include "tests/support/check_main.h"

static int fd;
static struct mirror m;

static void begin(void)
{
	struct err e = ERR_INIT;

	fd = mirror_make(&e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	ck_assert_int_eq(mirror_open(&m, fd, &e), 0);
}

static void end(void)
{
	(void)munmap(m.map, MIRROR_BYTES);
	fd_close(&fd);
}

static void put(const char *text)
{
	memcpy(mirror_begin(&m), text, strlen(text));
	mirror_publish(&m, strlen(text));
}

/* text NULL: there is none. */
static void expect(const char *text, uint64_t sequence)
{
	uint64_t bytes = 0, found = 0;
	struct err e = ERR_INIT;
	int state = mirror_newest(fd, &bytes, &found, &e);
	char *is;

	if (!text) {
		ck_assert_int_eq(state, -1);
		ck_assert_int_eq(e.code, ERR_STATE_NOT_FOUND);
		return;
	}
	ck_assert_msg(state >= 0, "%s", e.text);
	ck_assert(fd_is_memfd_sealed(state));
	is = fd_read_all(state, LIMIT_MIRROR_STATE_BYTES, NULL, &e);
	ck_assert_ptr_nonnull(is);
	ck_assert_str_eq(is, text);
	ck_assert_uint_eq(bytes, strlen(text));
	ck_assert_uint_eq(found, sequence);
	free(is);
	fd_close(&state);
}

START_TEST(one_half_is_whole_at_every_instant)
{
	begin();
	expect(NULL, 0);
	memcpy(mirror_begin(&m), "on", 2); /* killed in the first one */
	expect(NULL, 0);
	put("one");
	expect("one", 1);
	put("the second");
	expect("the second", 2);
	memcpy(mirror_begin(&m), "thi", 3); /* killed in the third */
	expect("the second", 2);
	put("third");
	expect("third", 3);
	end();
}
END_TEST

START_TEST(the_largest_fits)
{
	struct err e = ERR_INIT;
	uint64_t bytes = 0, sequence = 0;
	int state;

	begin();
	for (int i = 0; i < 2; i++) {
		memset(mirror_begin(&m), 'x' + i, LIMIT_MIRROR_STATE_BYTES);
		mirror_publish(&m, LIMIT_MIRROR_STATE_BYTES);
	}
	state = mirror_newest(fd, &bytes, &sequence, &e);
	ck_assert(state >= 0 && bytes == LIMIT_MIRROR_STATE_BYTES && sequence == 2);
	fd_close(&state);
	end();
}
END_TEST

/* Words of a head: sequence, bytes, sum. The heads are a cache line apart. */
static uint64_t *head(unsigned i)
{
	return (uint64_t *)(void *)(m.map + (size_t)i * 64);
}

START_TEST(what_a_hostile_host_leaves)
{
	static const struct { unsigned word; uint64_t value; } lies[] = { { 0, UINT64_MAX }, { 0, 1ull << 53 }, { 1, 0 },
		{ 1, LIMIT_MIRROR_STATE_BYTES + 1 }, { 1, UINT64_MAX }, { 1, 1 }, { 2, 0 } };

	begin();
	put("one");
	put("two");
	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		uint64_t was = head(0)[lies[i].word];

		head(0)[lies[i].word] = lies[i].value;
		expect("one", 1); /* the other half */
		head(0)[lies[i].word] = was;
		expect("two", 2);
	}
	m.map[MIRROR_HEAD_BYTES] ^= 1; /* a byte of the newest */
	expect("one", 1);
	m.map[MIRROR_HEAD_BYTES + LIMIT_MIRROR_STATE_BYTES] ^= 1; /* and of the other */
	expect(NULL, 0);
	memset(m.map, 0xff, MIRROR_BYTES);
	expect(NULL, 0);
	end();
}
END_TEST

START_TEST(what_is_no_mirror)
{
	struct err e = ERR_INIT;
	struct mirror other;
	uint64_t bytes, sequence;
	int small = fd_memfd("small", "abc", 3, false);

	ck_assert_int_eq(mirror_open(&other, small, &e), -1);
	ck_assert_int_eq(mirror_newest(small, &bytes, &sequence, &e), -1);
	fd_close(&small);
	begin();
	ck_assert_int_eq(ftruncate(fd, 0), -1); /* sealed: nobody can take it away under who reads it */
	end();
}
END_TEST

CHECK_MAIN("mirror", tcase_add_test(tc, one_half_is_whole_at_every_instant); tcase_add_test(tc, the_largest_fits);
	   tcase_add_test(tc, what_a_hostile_host_leaves); tcase_add_test(tc, what_is_no_mirror);)
