/* SPDX-License-Identifier: MIT
 *
 * The arena: zeroed, aligned, exactly counted, bounded, and never fooled about what is its own. */
#include "tests/support/check_main.h"

#include <stdint.h>
#include <string.h>

#include "daemon/host/module/arena.h"

static bool is_zero(const uint8_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

START_TEST(blocks_are_zeroed_aligned_and_counted)
{
	static const uint64_t sizes[] = { 0, 1, 15, 16, 17, 100, 4000, 32752, 32753, 100000, 1000000 };
	struct arena *a = arena_new(16u << 20, NULL);
	void *p[11];

	ck_assert_ptr_nonnull(a);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 11; i++) {
			p[i] = arena_alloc(a, sizes[i]);
			ck_assert_ptr_nonnull(p[i]);
			ck_assert_uint_eq((uintptr_t)p[i] % 16, 0);
			ck_assert_uint_ge(arena_usable(a, p[i]), sizes[i]);
			ck_assert(is_zero(p[i], sizes[i]));
			memset(p[i], 0xee, sizes[i]);
		}
		ck_assert_uint_eq(arena_blocks(a), 11);
		for (size_t i = 0; i < 11; i++)
			arena_release(a, p[(i * 7 + 3) % 11]);
		ck_assert_uint_eq(arena_blocks(a), 0);
		ck_assert_uint_eq(arena_used(a), 0);
	}
	arena_free(a);
}
END_TEST

START_TEST(knows_its_own)
{
	struct arena *a = arena_new(1u << 20, NULL), *b = arena_new(1u << 20, NULL);
	char *p = arena_alloc(a, 100);
	char on_stack[64] __attribute__((aligned(16))) = "";

	ck_assert(arena_owns(a, p));
	ck_assert(!arena_owns(b, p));
	ck_assert(!arena_owns(a, NULL));
	ck_assert(!arena_owns(a, "a literal"));
	ck_assert(!arena_owns(a, on_stack));
	ck_assert(!arena_owns(a, p + 16));
	ck_assert(!arena_owns(a, p + 1));
	ck_assert(!arena_owns(a, (void *)UINTPTR_MAX));
	arena_release(a, p);
	ck_assert(!arena_owns(a, p));
	arena_release(a, p); /* twice, and foreign: no effect */
	arena_release(a, on_stack);
	ck_assert_uint_eq(arena_blocks(a), 0);
	arena_free(a);
	arena_free(b);
}
END_TEST

START_TEST(the_limit_refuses)
{
	struct err e = ERR_INIT;
	struct arena *a = arena_new(1u << 20, &e);
	uint64_t n = 0;

	ck_assert_ptr_null(arena_alloc(a, 2u << 20));
	ck_assert_ptr_null(arena_alloc(a, UINT64_MAX));
	ck_assert_ptr_null(arena_alloc(a, UINT64_MAX - 16));
	while (arena_alloc(a, 1000) != NULL)
		n++;
	ck_assert_uint_gt(n, 900);
	ck_assert_uint_le(arena_used(a), arena_limit(a));
	arena_free(a);
	ck_assert_ptr_null(arena_new(UINT64_MAX, &e));
	ck_assert_int_eq(e.code, ERR_LIMIT_EXCEEDED);
	ck_assert_ptr_null(arena_free(NULL));
}
END_TEST

START_TEST(resizing_keeps_and_zeroes)
{
	struct arena *a = arena_new(64u << 20, NULL);
	uint64_t size = 1;
	uint8_t *p = arena_resize(a, NULL, size);

	*p = 7;
	while (size < 8u << 20) {
		uint64_t next = size * 3 + 1;

		p = arena_resize(a, p, next);
		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq(p[0], 7);
		ck_assert(is_zero(p + size, next - size));
		memset(p + size, 9, next - size);
		size = next;
	}
	p = arena_resize(a, p, 10);
	p = arena_resize(a, p, 1000);
	ck_assert(is_zero(p + 10, 990));
	ck_assert_ptr_null(arena_resize(a, p, UINT64_MAX));
	ck_assert(arena_owns(a, p));
	arena_release(a, p);
	ck_assert_uint_eq(arena_used(a), 0);
	arena_free(a);
}
END_TEST

/* 200,000 random steps against a model: no block overlaps another, the counts are exact. */
START_TEST(random_steps_keep_contents)
{
	enum { N = 512 };
	struct { uint8_t *p; uint64_t n; uint8_t fill; } blocks[N] = { 0 };
	struct arena *a = arena_new(64u << 20, NULL);
	uint64_t seed = 42, living = 0;

	for (int step = 0; step < 200000; step++) {
		uint64_t r = seed = seed * 6364136223846793005u + 1442695040888963407u, k = (r >> 33) % N;
		uint64_t n = (r >> 20) % ((r >> 50) % 16 == 0 ? 60000 : 200);

		if (blocks[k].p != NULL)
			for (uint64_t i = 0; i < blocks[k].n; i += 37)
				if (blocks[k].p[i] != blocks[k].fill) /* ck_assert writes to a file, which is slow a million times */
					ck_abort_msg("step %d: block %d has changed", step, (int)k);
		if (blocks[k].p != NULL && (r >> 60) < 8) {
			arena_release(a, blocks[k].p);
			blocks[k].p = NULL;
			living--;
			continue;
		}
		living += blocks[k].p == NULL;
		blocks[k].p = arena_resize(a, blocks[k].p, n);
		if (blocks[k].p == NULL || arena_blocks(a) != living)
			ck_abort_msg("step %d: %d blocks", step, (int)arena_blocks(a));
		blocks[k].n = n;
		blocks[k].fill = (uint8_t)step;
		memset(blocks[k].p, blocks[k].fill, n);
	}
	for (int k = 0; k < N; k++)
		arena_release(a, blocks[k].p);
	ck_assert_uint_eq(arena_used(a), 0);
	arena_free(a);
}
END_TEST

/* Memory that was made ready is as zero as any, and more than there may be isn't made. */
START_TEST(populated_beforehand)
{
	struct err e = ERR_INIT;
	struct arena *a = arena_new(64u << 20, &e);
	uint8_t *p;

	ck_assert_ptr_nonnull(a);
	for (uint64_t bytes = 1; bytes <= 9u << 20; bytes += 1u << 20)
		ck_assert(arena_populate(a, bytes));
	ck_assert(!arena_populate(a, (64u << 20) + 1));
	ck_assert_uint_eq(arena_extent(a), 0);
	p = arena_alloc(a, 12u << 20);
	ck_assert_ptr_nonnull(p);
	for (uint64_t i = 0; i < 12u << 20; i++)
		ck_assert_msg(p[i] == 0, "byte %llu isn't zero", (unsigned long long)i);
	memset(p, 1, 12u << 20);
	ck_assert_uint_ge(arena_extent(a), 12u << 20);
	arena_free(a);
}
END_TEST

CHECK_MAIN("arena", tcase_add_test(tc, populated_beforehand); tcase_add_test(tc, blocks_are_zeroed_aligned_and_counted); tcase_add_test(tc, knows_its_own);
	   tcase_add_test(tc, the_limit_refuses); tcase_add_test(tc, resizing_keeps_and_zeroes);
	   tcase_add_test(tc, random_steps_keep_contents))
