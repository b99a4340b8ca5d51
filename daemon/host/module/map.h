/* SPDX-License-Identifier: MIT
 *
 * Maps from texts to values of one size: pairs stand densely in the order in which they came, an index of hashes leads to them.
 * All of it lies in an instance's arena, so nothing in it is trusted: the module can write there. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_MAP_H
#define SANDBOXD_HOST_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/host/module/arena.h"
#include "proto/sandbox_module.h"

#define MAP_LOOK_AHEAD 32 /* keys hashed, and their slots asked for, before the first of them is entered */

struct sbx_map {
	uint64_t mark;              /* it is a map, and at this address */
	uint32_t value_size, stride;
	uint32_t kind, type;        /* for whoever made it: what the values are */
	uint32_t n, live;           /* pairs, and those of them that weren't removed */
	uint32_t room;
	uint8_t *pairs;
	char *keys;                 /* all keys, each with a NUL, in the order of the pairs */
	uint64_t keys_used, keys_room;
	uint64_t *slots;            /* hash << 32 | pair + 1; 0: empty */
	uint64_t n_slots;           /* a power of two, or 0 */
};

/* NULL: no memory. align: of the values, at most 16. */
struct sbx_map *map_new(struct arena *a, uint32_t value_size, uint32_t align, uint32_t kind, uint32_t type);
/* Its memory; what the values point to is the caller's. */
void map_free(struct arena *a, struct sbx_map *m);
/* Is p a map of this arena, with memory that holds what it says (but for where its keys lie)? Takes any pointer. */
bool map_is_sane(const struct arena *a, const struct sbx_map *p);
/* The same, only that it is a map: for each call of a module. */
static inline bool map_is(const struct arena *a, const struct sbx_map *p)
{
	return arena_usable(a, p) >= sizeof *p && p->mark == arena_mark(p, 0x6d6170u);
}

void *map_find(const struct sbx_map *m, const char *key, uint64_t n);
/* *ret_new: it wasn't there and is zeroed. NULL: no memory, or too many. */
void *map_put(struct arena *a, struct sbx_map *m, const char *key, uint64_t n, bool *ret_new);
bool map_remove(struct sbx_map *m, const char *key, uint64_t n);
/* From *at (begin with 0) on; NULL: no more. key, n: NULL ok. */
void *map_next(const struct sbx_map *m, uint64_t *at, const char **key, uint64_t *n);

/* ---- filling an empty map with many: room first, then batches: append each pair, then enter the batch ---- */

bool map_reserve(struct arena *a, struct sbx_map *m, uint64_t pairs, uint64_t key_bytes);
/* The new pair's value, zeroed (the map must be new); it can't be found yet. NULL: no memory. */
void *map_append(struct arena *a, struct sbx_map *m, const char *key, uint64_t n);
/* Enters the pairs from `first` on, at most MAP_LOOK_AHEAD. -1, or the index of a pair whose key was there already. */
int64_t map_enter(struct sbx_map *m, uint32_t first);

#endif
