/* SPDX-License-Identifier: MIT
 *
 * Small blocks come from size classes (four per doubling) with a free list each; large ones are whole pages, best fit
 * among the few that were freed, the topmost ones grow in place and give their pages back. Every block has a 16 byte head with
 * its size and a mark that depends on its address; the mark tells living blocks from freed ones and from foreign bytes. */
#include "daemon/host/module/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE        4096u
#define SMALL_MAX   32768u
#define N_CLASSES   64
#define COMMIT_STEP (256u << 10)

struct head {
	uint64_t size;   /* with the head */
	uint64_t mark;
};
_Static_assert(sizeof(struct head) == 16, "blocks are 16-aligned");

struct free_block {
	struct head head;
	struct free_block *next;
};

struct arena {
	uint8_t *base, *top, *committed, *end;
	uint64_t used, blocks;
	struct free_block *small[N_CLASSES];
	struct free_block *large;
};

enum { MARK_LIVING = 0x6c697665, MARK_FREE = 0x66726565 };

static uint64_t mark_of(const void *head, uint64_t what)
{
	return ((uint64_t)(uintptr_t)head * 0x9e3779b97f4a7c15u) ^ what;
}

struct arena *arena_new(uint64_t limit_bytes, struct err *e)
{
	uint64_t bytes = (limit_bytes + PAGE - 1) / PAGE * PAGE;
	struct arena *a = calloc(1, sizeof *a);
	void *base;

	if (a == NULL || bytes < limit_bytes || bytes == 0) {
		free(a);
		err_set(e, ERR_LIMIT_EXCEEDED, "no memory for an instance of %llu bytes", (unsigned long long)limit_bytes);
		return NULL;
	}
	/* Inaccessible: doesn't count against RLIMIT_DATA until it is made writable. */
	base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) {
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

/* Rounds up to the class's size; *ret_class: its index. Needs n <= SMALL_MAX. */
static uint64_t class_size(uint64_t n, unsigned *ret_class)
{
	uint64_t size = 32, step = 16;
	unsigned index = 0;

	while (size < n) {
		size += step;
		index++;
		if (size % (step * 8) == 0)
			step *= 2;
	}
	*ret_class = index;
	return size;
}

static bool commit_up_to(struct arena *a, const uint8_t *to)
{
	uint64_t step = COMMIT_STEP;

	if (to <= a->committed)
		return true;
	if ((uint64_t)(a->committed - a->base) / 4 > step) /* fewer calls as it grows */
		step = (uint64_t)(a->committed - a->base) / 4 / PAGE * PAGE;
	if ((uint64_t)(to - a->committed) > step)
		step = ((uint64_t)(to - a->committed) + PAGE - 1) / PAGE * PAGE;
	if (step > (uint64_t)(a->end - a->committed))
		step = (uint64_t)(a->end - a->committed);
	if (mprotect(a->committed, step, PROT_READ | PROT_WRITE) != 0)
		return false;
	a->committed += step;
	return true;
}

static struct head *take_top(struct arena *a, uint64_t size)
{
	struct head *h = (struct head *)(void *)a->top;

	if (size > (uint64_t)(a->end - a->top) || !commit_up_to(a, a->top + size))
		return NULL;
	a->top += size;
	return h;
}

static struct head *take_large(struct arena *a, uint64_t size)
{
	struct free_block **best = NULL, *b;

	for (struct free_block **at = &a->large; *at != NULL; at = &(*at)->next)
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
	struct head *h;
	bool recycled = true;

	if (n >= (uint64_t)(a->end - a->base))
		return NULL;
	if (n + sizeof *h <= SMALL_MAX) {
		size = class_size(n + sizeof *h, &class);
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
	h->mark = mark_of(h, MARK_LIVING);
	a->used += size;
	a->blocks++;
	return h + 1;
}

static struct head *head_of(const struct arena *a, const void *p)
{
	uintptr_t at = (uintptr_t)p;
	struct head *h;

	if (at < (uintptr_t)a->base + sizeof *h || at >= (uintptr_t)a->top || at % 16 != 0)
		return NULL;
	h = (struct head *)at - 1;
	if (h->mark != mark_of(h, MARK_LIVING) || h->size < 32 || h->size > (uint64_t)((uintptr_t)a->top - (uintptr_t)h))
		return NULL;
	return h;
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
	struct head *h = p != NULL ? head_of(a, p) : NULL;
	struct free_block *b = (struct free_block *)(void *)h;
	unsigned class;

	if (h == NULL)
		return;
	a->used -= h->size;
	a->blocks--;
	h->mark = mark_of(h, MARK_FREE);
	if (h->size > SMALL_MAX && (uint8_t *)h + h->size == a->top) {
		lower_top(a, (uint8_t *)h);
	} else if (h->size > SMALL_MAX) {
		b->next = a->large;
		a->large = b;
	} else {
		class_size(h->size, &class);
		b->next = a->small[class];
		a->small[class] = b;
	}
}

void *arena_resize(struct arena *a, void *p, uint64_t n)
{
	struct head *h = p != NULL ? head_of(a, p) : NULL;
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
	if (h->size > SMALL_MAX && (uint8_t *)h + h->size == a->top && take_top(a, size - h->size) != NULL) {
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

uint64_t arena_usable(const struct arena *a, const void *p)
{
	const struct head *h = head_of(a, p);

	return h != NULL ? h->size - sizeof *h : 0;
}

bool arena_owns(const struct arena *a, const void *p)
{
	return head_of(a, p) != NULL;
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
