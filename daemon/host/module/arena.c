/* SPDX-License-Identifier: MIT
 *
 * Small blocks come from size classes (four per doubling) with a free list each; large ones are whole pages, best fit
 * among the few that were freed, the topmost ones grow in place and give their pages back. */
#include "daemon/host/module/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE        4096u
#define HUGE_PAGE   (2u << 20)
#define COMMIT_STEP (256u << 10)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct arena_free_block {
	struct arena_head head;
	struct arena_free_block *next;
};

/* Inaccessible: doesn't count against RLIMIT_DATA until it is made writable. Aligned so that an arena that grows large gets
 * huge pages: a state of a million items costs tens of page faults in place of ten thousands. */
static uint8_t *reserve(uint64_t bytes)
{
	uint64_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0, front;
	uint8_t *at = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED && slack > 0) { /* the address space is limited tightly: small pages, then */
		slack = 0;
		at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (at == MAP_FAILED || slack == 0)
		return at == MAP_FAILED ? NULL : at;
	front = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
	if (front > 0)
		munmap(at, front);
	if (slack > front)
		munmap(at + front + bytes, slack - front);
	madvise(at + front, bytes, MADV_HUGEPAGE); /* a wish */
	return at + front;
}

uint64_t arena_limit_of(uint64_t limit_bytes)
{
	return (limit_bytes + PAGE - 1) / PAGE * PAGE;
}

struct arena *arena_new(uint64_t limit_bytes, struct err *e)
{
	uint64_t bytes = arena_limit_of(limit_bytes);
	struct arena *a = calloc(1, sizeof *a);
	uint8_t *base;

	if (a == NULL || bytes < limit_bytes || bytes == 0) {
		free(a);
		err_set(e, ERR_LIMIT_EXCEEDED, "no memory for an instance of %llu bytes", (unsigned long long)limit_bytes);
		return NULL;
	}
	base = reserve(bytes);
	if (base == NULL) {
		free(a);
		err_sys(e, ERR_LIMIT_EXCEEDED, "cannot reserve %llu bytes for an instance", (unsigned long long)bytes);
		return NULL;
	}
	a->base = a->top = a->committed = base;
	a->end = a->base + bytes;
	return a;
}

struct arena *arena_free(struct arena *a)
{
	if (a != NULL) {
		munmap(a->base, (size_t)(a->end - a->base));
		free(a);
	}
	return NULL;
}

static bool commit(struct arena *a, uint64_t bytes)
{
	if (mprotect(a->committed, bytes, PROT_READ | PROT_WRITE) != 0)
		return false;
	a->committed += bytes;
	return true;
}

static bool commit_up_to(struct arena *a, const uint8_t *to)
{
	uint64_t has = (uint64_t)(a->committed - a->base), room = (uint64_t)(a->end - a->committed), need, step;

	if (to <= a->committed)
		return true;
	need = ((uint64_t)(to - a->committed) + PAGE - 1) / PAGE * PAGE;
	step = has / 4 > COMMIT_STEP ? has / 4 / PAGE * PAGE : COMMIT_STEP; /* fewer calls as it grows */
	if (step < need)
		step = need;
	if (has + step > HUGE_PAGE) /* a huge page is made only where all of it may be written */
		step = (has + step + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE - has;
	if (step > room)
		step = room;
	return commit(a, step) || (need < step && commit(a, need)); /* near RLIMIT_DATA: what is needed, at least */
}

static struct arena_head *take_top(struct arena *a, uint64_t size)
{
	struct arena_head *h = (struct arena_head *)(void *)a->top;

	if (size > (uint64_t)(a->end - a->top) || !commit_up_to(a, a->top + size))
		return NULL;
	a->top += size;
	return h;
}

static struct arena_head *take_large(struct arena *a, uint64_t size)
{
	struct arena_free_block **best = NULL, *b;

	for (struct arena_free_block **at = &a->large; *at != NULL; at = &(*at)->next)
		if ((*at)->head.size >= size && (best == NULL || (*at)->head.size < (*best)->head.size))
			best = at;
	if (best == NULL || (*best)->head.size - size > size)
		return NULL;
	b = *best;
	*best = b->next;
	return &b->head;
}

void *arena_alloc(struct arena *a, uint64_t n)
{
	unsigned class = 0;
	uint64_t size;
	struct arena_head *h;
	bool recycled = true;

	if (n >= (uint64_t)(a->end - a->base))
		return NULL;
	if (n + sizeof *h <= ARENA_SMALL) {
		size = arena_class(n + sizeof *h, &class);
		h = a->small[class] != NULL ? &a->small[class]->head : NULL;
		if (h != NULL)
			a->small[class] = a->small[class]->next;
	} else {
		size = (n + sizeof *h + PAGE - 1) / PAGE * PAGE;
		h = take_large(a, size);
		if (h != NULL)
			size = h->size;
	}
	if (h == NULL) {
		h = take_top(a, size);
		recycled = false;
	}
	if (h == NULL)
		return NULL;
	if (recycled)
		memset(h, 0, size);
	h->size = size;
	h->mark = arena_mark(h, ARENA_LIVING);
	a->used += size;
	a->blocks++;
	return h + 1;
}

/* Gives the topmost block's pages back: they read as zero when they are taken again. */
static void lower_top(struct arena *a, uint8_t *to)
{
	uint8_t *page = a->base + ((uint64_t)(to - a->base) + PAGE - 1) / PAGE * PAGE;

	if (page > a->top)
		page = a->top;
	memset(to, 0, (size_t)(page - to));
	if (a->top > page)
		madvise(page, (size_t)(a->top - page), MADV_DONTNEED);
	a->top = to;
}

void arena_release(struct arena *a, void *p)
{
	struct arena_head *h = p != NULL ? arena_head_of(a, p) : NULL;
	struct arena_free_block *b = (struct arena_free_block *)(void *)h;
	unsigned class;

	if (h == NULL)
		return;
	a->used -= h->size;
	a->blocks--;
	h->mark = arena_mark(h, ARENA_FREE);
	if (h->size > ARENA_SMALL && (uint8_t *)h + h->size == a->top) {
		lower_top(a, (uint8_t *)h);
	} else if (h->size > ARENA_SMALL) {
		b->next = a->large;
		a->large = b;
	} else {
		arena_class(h->size, &class);
		b->next = a->small[class];
		a->small[class] = b;
	}
}

void *arena_resize(struct arena *a, void *p, uint64_t n)
{
	struct arena_head *h = p != NULL ? arena_head_of(a, p) : NULL;
	uint64_t usable, size;
	void *q;

	if (h == NULL)
		return arena_alloc(a, n);
	usable = h->size - sizeof *h;
	if (n <= usable) {
		memset((uint8_t *)p + n, 0, (size_t)(usable - n));
		return p;
	}
	if (n >= (uint64_t)(a->end - a->base))
		return NULL;
	size = (n + sizeof *h + PAGE - 1) / PAGE * PAGE;
	if (h->size > ARENA_SMALL && (uint8_t *)h + h->size == a->top && take_top(a, size - h->size) != NULL) {
		a->used += size - h->size;
		h->size = size;
		return p;
	}
	q = arena_alloc(a, n);
	if (q == NULL)
		return NULL;
	memcpy(q, p, (size_t)usable);
	arena_release(a, p);
	return q;
}

bool arena_populate(struct arena *a, uint64_t bytes)
{
	uint64_t has = (uint64_t)(a->committed - a->base), to = bytes;
	uint8_t *from = a->committed;

	if (bytes > arena_limit(a))
		return false;
	if (to > HUGE_PAGE && arena_limit(a) - to >= HUGE_PAGE)
		to = (to + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	to = (to + PAGE - 1) / PAGE * PAGE;
	if (to > has && !commit(a, to - has))
		return false;
	if (a->committed != from && madvise(from, (size_t)(a->committed - from), MADV_POPULATE_WRITE) != 0)
		return false;
	for (; from < a->committed; from += PAGE) /* see prepare.c */
		*(volatile uint8_t *)from = 0;
	return true;
}

uint64_t arena_used(const struct arena *a)
{
	return a->used;
}

uint64_t arena_blocks(const struct arena *a)
{
	return a->blocks;
}

uint64_t arena_limit(const struct arena *a)
{
	return (uint64_t)(a->end - a->base);
}

uint64_t arena_extent(const struct arena *a)
{
	return (uint64_t)(a->top - a->base);
}
