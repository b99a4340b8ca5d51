/* SPDX-License-Identifier: MIT
 *
 * The memory of one module instance: one reserved range of addresses, made writable as it fills, so that "is this ours?" is
 * two comparisons, accounting is exact, and the end of an instance is one munmap. Nothing in it is trusted: the module
 * can write everywhere. The allocator itself never runs module code and never aborts. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_ARENA_H
#define SANDBOXD_HOST_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

/* Every block's head: its size with the head, and a mark that depends on its address: it tells living blocks from freed ones and
 * from foreign bytes. Here, with what looks at it, because a save asks once per text. */
struct arena_head { uint64_t size, mark; };
_Static_assert(sizeof(struct arena_head) == 16, "blocks are 16-aligned");

#define ARENA_CLASSES   64
#define ARENA_LEAST     32u
#define ARENA_SMALL     32768u
#define ARENA_LIVING    0x6c697665u
#define ARENA_FREE      0x66726565u

struct arena_free_block;
struct arena {                       /* arena.c's own, but for the functions below */
	uint8_t *base, *top, *committed, *end;
	uint64_t used, blocks;
	struct arena_free_block *small[ARENA_CLASSES];
	struct arena_free_block *large;
};

struct arena *arena_new(uint64_t limit_bytes, struct err *e); /* NULL with ERR_LIMIT_EXCEEDED */
struct arena *arena_free(struct arena *a);                    /* everything at once; NULL ok; returns NULL */

/* Zeroed, 16-aligned, n = 0 counts as 1. NULL: the limit (or the kernel's) is reached. */
void *arena_alloc(struct arena *a, uint64_t n);
/* p: ours, or NULL. What is new is zeroed. NULL: no room, p is as before. */
void *arena_resize(struct arena *a, void *p, uint64_t n);
void arena_release(struct arena *a, void *p);                 /* p: ours, or NULL */

/* Bytes usable at p, if p is the address of a living block of this arena; else 0. Takes any pointer. */
static inline uint64_t arena_usable(const struct arena *a, const void *p);
static inline bool arena_owns(const struct arena *a, const void *p);

/* Before its first block: makes the first `bytes` writable and gives them pages. false: not all, and nothing is worse for it. */
bool arena_populate(struct arena *a, uint64_t bytes);

uint64_t arena_used(const struct arena *a);   /* bytes of living blocks with their heads */
uint64_t arena_blocks(const struct arena *a); /* living blocks */
uint64_t arena_limit(const struct arena *a);
uint64_t arena_limit_of(uint64_t limit_bytes); /* what arena_limit says of one made with that */
uint64_t arena_extent(const struct arena *a); /* from its begin to the end of the last block ever used */

static inline uint64_t arena_mark(const void *head, uint64_t what)
{
	return ((uint64_t)(uintptr_t)head * 0x9e3779b97f4a7c15u) ^ what;
}

static inline struct arena_head *arena_head_of(const struct arena *a, const void *p)
{
	uintptr_t at = (uintptr_t)p;
	struct arena_head *h;

	if (at < (uintptr_t)a->base + sizeof *h || at >= (uintptr_t)a->top || at % 16 != 0)
		return NULL;
	h = (struct arena_head *)at - 1;
	if (h->mark != arena_mark(h, ARENA_LIVING) || h->size < ARENA_LEAST ||
		h->size > (uint64_t)((uintptr_t)a->top - (uintptr_t)h))
		return NULL;
	return h;
}

static inline uint64_t arena_usable(const struct arena *a, const void *p)
{
	const struct arena_head *h = arena_head_of(a, p);

	return h != NULL ? h->size - sizeof *h : 0;
}

static inline bool arena_owns(const struct arena *a, const void *p)
{
	return arena_head_of(a, p) != NULL;
}

/* Rounds up to the size class, four per doubling; *ret_class: its index. Needs n <= ARENA_SMALL. */
static inline uint64_t arena_class(uint64_t n, unsigned *ret_class)
{
	unsigned log, part;
	uint64_t step;

	if (n <= 128) { /* 32, 48, 64 ... 128 */
		n = n <= ARENA_LEAST ? ARENA_LEAST : (n + 15) / 16 * 16;
		*ret_class = (unsigned)(n - ARENA_LEAST) / 16;
		return n;
	}
	log = 63 - (unsigned)__builtin_clzll(n - 1); /* 2^log < n <= 2^(log+1) */
	step = (uint64_t)1 << (log - 2);
	part = (unsigned)((n - 1 - ((uint64_t)1 << log)) / step); /* 0 to 3 */
	*ret_class = 7 + (log - 7) * 4 + part;
	return ((uint64_t)1 << log) + (part + 1) * step;
}

/* arena_alloc for what a restore makes a million of. */
static inline void *arena_alloc_small(struct arena *a, uint64_t n)
{
	struct arena_head *h = (struct arena_head *)(void *)a->top;
	unsigned class;
	uint64_t size;

	if (n > ARENA_SMALL - sizeof *h)
		return arena_alloc(a, n);
	size = arena_class(n + sizeof *h, &class);
	if (a->small[class] != NULL || size > (uint64_t)(a->committed - a->top))
		return arena_alloc(a, n);
	a->top += size;
	h->size = size;
	h->mark = arena_mark(h, ARENA_LIVING);
	a->used += size;
	a->blocks++;
	return h + 1;
}

#endif
