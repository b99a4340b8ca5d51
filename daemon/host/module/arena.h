/* SPDX-License-Identifier: MIT
 *
 * The memory of one module instance: one reserved range of addresses, made writable as it fills, so that "is this ours?" is
 * two comparisons, accounting is exact, and the end of an instance is one munmap. Nothing in it is trusted: the module
 * can write everywhere. The allocator itself never runs module code and never aborts. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_ARENA_H
#define SANDBOXD_HOST_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/err.h"

struct arena;

struct arena *arena_new(uint64_t limit_bytes, struct err *e); /* NULL with ERR_LIMIT_EXCEEDED */
struct arena *arena_free(struct arena *a);                    /* everything at once; NULL ok; returns NULL */

/* Zeroed, 16-aligned, n = 0 counts as 1. NULL: the limit (or the kernel's) is reached. */
void *arena_alloc(struct arena *a, uint64_t n);
/* p: ours, or NULL. What is new is zeroed. NULL: no room, p is as before. */
void *arena_resize(struct arena *a, void *p, uint64_t n);
void arena_release(struct arena *a, void *p);                 /* p: ours, or NULL */

/* Bytes usable at p, if p is the address of a living block of this arena; else 0. Takes any pointer. */
uint64_t arena_usable(const struct arena *a, const void *p);
bool arena_owns(const struct arena *a, const void *p);

uint64_t arena_used(const struct arena *a);   /* bytes of living blocks with their heads */
uint64_t arena_blocks(const struct arena *a); /* living blocks */
uint64_t arena_limit(const struct arena *a);

#endif
