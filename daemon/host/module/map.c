/* SPDX-License-Identifier: MIT
 *
 * Open addressing with linear probing over 8 byte slots that hold the hash, so that a probe seldom leaves the index. Removed
 * pairs are holes until the room is used up; then pairs and keys move together. The hash is keyed per process: who chooses the
 * keys can't choose the collisions. */
#include "daemon/host/module/map.h"

#include <string.h>
#include <sys/auxv.h>

#define REMOVED   UINT32_MAX
#define PAIRS_MAX (UINT32_MAX - 2)

struct pair {
	uint64_t key_at;    /* in keys */
	uint32_t key_bytes; /* REMOVED: a hole */
	uint32_t hash;
};
_Static_assert(sizeof(struct pair) == 16, "values are 16-aligned where they need it");

/* ---- hashing ---- */

static uint64_t secrets[2];

static void make_secrets(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes that the kernel gave this process */

	if (secrets[0] != 0)
		return;
	if (random != NULL)
		memcpy(secrets, random, sizeof secrets);
	secrets[0] |= 1;
	secrets[1] = (secrets[1] ^ 0x9e3779b97f4a7c15u) | 1;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t hash_of(const char *p, uint64_t n)
{
	uint64_t h = secrets[0] ^ n, eight = 0;

	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&eight, p, 8);
		h = mix(h ^ eight, secrets[1]);
	}
	if (n >= 4) {
		uint32_t low, high;

		memcpy(&low, p, 4);
		memcpy(&high, p + n - 4, 4);
		eight = (uint64_t)high << 32 | low;
	} else {
		eight = n == 0 ? 0 : (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint8_t)p[n - 1];
	}
	h = mix(h ^ eight, secrets[1]);
	return (uint32_t)(h ^ h >> 32);
}

/* ---- its parts ---- */

static inline struct pair *pair_at(const struct sbx_map *m, uint64_t index)
{
	return (struct pair *)(void *)(m->pairs + index * m->stride);
}

static inline bool key_is(const struct sbx_map *m, const struct pair *p, const char *key, uint64_t n)
{
	return p->key_bytes == n && memcmp(m->keys + p->key_at, key, (size_t)n) == 0;
}

struct sbx_map *map_new(struct arena *a, uint32_t value_size, uint32_t align, uint32_t kind, uint32_t type)
{
	struct sbx_map *m = arena_alloc(a, sizeof *m);
	uint32_t to = align > 8 ? 16 : 8;

	if (m == NULL)
		return NULL;
	make_secrets();
	m->mark = arena_mark(m, 0x6d6170u);
	m->value_size = value_size;
	m->stride = (uint32_t)(sizeof(struct pair) + value_size + to - 1) / to * to;
	m->kind = kind;
	m->type = type;
	return m;
}

void map_free(struct arena *a, struct sbx_map *m)
{
	if (!map_is(a, m))
		return;
	arena_release(a, m->pairs);
	arena_release(a, m->keys);
	arena_release(a, m->slots);
	m->mark = 0;
	arena_release(a, m);
}

bool map_is_sane(const struct arena *a, const struct sbx_map *m)
{
	if (!map_is(a, m) || m->value_size == 0 || m->stride < sizeof(struct pair) + (uint64_t)m->value_size)
		return false;
	if (m->n > m->room || m->live > m->n || m->keys_used > m->keys_room || (m->n_slots & (m->n_slots - 1)) != 0)
		return false;
	if (m->n == 0)
		return true;
	if (m->room > arena_usable(a, m->pairs) / m->stride || m->keys_room > arena_usable(a, m->keys) ||
		m->n_slots > arena_usable(a, m->slots) / sizeof *m->slots)
		return false;
	return true;
}

/* ---- the index ---- */

static void enter(struct sbx_map *m, uint32_t index, uint32_t hash)
{
	uint64_t mask = m->n_slots - 1, at = hash & mask;

	while (m->slots[at] != 0)
		at = (at + 1) & mask;
	m->slots[at] = (uint64_t)hash << 32 | (index + 1u);
}

/* The slot of the key, or UINT64_MAX. */
static uint64_t slot_of(const struct sbx_map *m, const char *key, uint64_t n, uint32_t hash)
{
	uint64_t mask = m->n_slots - 1;

	if (m->n_slots == 0)
		return UINT64_MAX;
	for (uint64_t at = hash & mask; m->slots[at] != 0; at = (at + 1) & mask)
		if (m->slots[at] >> 32 == hash && key_is(m, pair_at(m, (uint32_t)m->slots[at] - 1), key, n))
			return at;
	return UINT64_MAX;
}

/* Room for `pairs` at a load of three quarters at most. */
static bool make_slots(struct arena *a, struct sbx_map *m, uint64_t pairs)
{
	uint64_t n = 8, *slots;

	while (n / 4 * 3 < pairs)
		n *= 2;
	if (n == m->n_slots) {
		memset(m->slots, 0, n * sizeof *slots);
		return true;
	}
	slots = arena_alloc(a, n * sizeof *slots);
	if (slots == NULL)
		return false;
	arena_release(a, m->slots);
	m->slots = slots;
	m->n_slots = n;
	return true;
}

static void enter_all(struct sbx_map *m)
{
	for (uint32_t i = 0; i < m->n; i++)
		enter(m, i, pair_at(m, i)->hash);
}

/* ---- room ---- */

/* Moves pairs and keys together over the holes; the index is void after it. */
static void close_holes(struct sbx_map *m)
{
	uint64_t keys_used = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		struct pair *p = pair_at(m, i);

		if (p->key_bytes == REMOVED)
			continue;
		memmove(m->keys + keys_used, m->keys + p->key_at, (size_t)p->key_bytes + 1);
		p->key_at = keys_used;
		keys_used += (uint64_t)p->key_bytes + 1;
		if (n != i)
			memcpy(pair_at(m, n), p, m->stride);
		n++;
	}
	m->n = n;
	m->keys_used = keys_used;
}

bool map_reserve(struct arena *a, struct sbx_map *m, uint64_t pairs, uint64_t key_bytes)
{
	uint8_t *grown;
	char *keys;

	if (pairs > PAIRS_MAX || pairs > arena_limit(a) / m->stride || key_bytes > arena_limit(a))
		return false;
	if (pairs > m->room) {
		grown = arena_resize(a, m->pairs, pairs * m->stride);
		if (grown == NULL)
			return false;
		m->pairs = grown;
		m->room = (uint32_t)pairs;
	}
	if (key_bytes > m->keys_room) {
		keys = arena_resize(a, m->keys, key_bytes);
		if (keys == NULL)
			return false;
		m->keys = keys;
		m->keys_room = key_bytes;
	}
	if (m->n_slots / 4 * 3 >= m->room && m->n_slots > 0)
		return true;
	if (!make_slots(a, m, m->room))
		return false;
	if (m->live != m->n)
		close_holes(m);
	enter_all(m);
	return true;
}

static bool make_room(struct arena *a, struct sbx_map *m, uint64_t n)
{
	uint64_t pairs = m->room, keys = m->keys_room;

	if (m->n < m->room && n < m->keys_room - m->keys_used)
		return true;
	if (m->n - m->live > m->n / 4) {
		close_holes(m);
		memset(m->slots, 0, m->n_slots * sizeof *m->slots);
		enter_all(m);
	}
	if (m->n >= m->room)
		pairs = m->room < 4 ? 4 : (uint64_t)m->room * 2;
	if (n >= m->keys_room - m->keys_used)
		keys = m->keys_room * 2 > m->keys_used + n + 1 ? m->keys_room * 2 : m->keys_used + n + 64;
	return map_reserve(a, m, pairs, keys);
}

/* ---- what modules do ---- */

void *map_find(const struct sbx_map *m, const char *key, uint64_t n)
{
	uint64_t at = slot_of(m, key, n, hash_of(key, n));

	return at != UINT64_MAX ? pair_at(m, (uint32_t)m->slots[at] - 1) + 1 : NULL;
}

/* Its value holds whatever was there. */
static inline void *append(struct sbx_map *m, const char *key, uint64_t n, uint32_t hash)
{
	struct pair *p = pair_at(m, m->n);

	*p = (struct pair){ m->keys_used, (uint32_t)n, hash };
	memcpy(m->keys + m->keys_used, key, (size_t)n);
	m->keys[m->keys_used + n] = '\0';
	m->keys_used += n + 1;
	m->n++;
	m->live++;
	return p + 1;
}

void *map_put(struct arena *a, struct sbx_map *m, const char *key, uint64_t n, bool *ret_new)
{
	uint32_t hash = hash_of(key, n);
	uint64_t at = slot_of(m, key, n, hash);
	void *value;

	*ret_new = at == UINT64_MAX;
	if (at != UINT64_MAX)
		return pair_at(m, (uint32_t)m->slots[at] - 1) + 1;
	if (n >= REMOVED || !make_room(a, m, n))
		return NULL;
	value = append(m, key, n, hash);
	memset(value, 0, m->stride - sizeof(struct pair));
	enter(m, m->n - 1, hash);
	return value;
}

/* What stands behind a slot that becomes empty moves up, unless it is where it wants to be. */
static void empty_slot(struct sbx_map *m, uint64_t hole)
{
	uint64_t mask = m->n_slots - 1;

	for (uint64_t at = (hole + 1) & mask; m->slots[at] != 0; at = (at + 1) & mask) {
		uint64_t home = m->slots[at] >> 32 & mask;

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		m->slots[hole] = m->slots[at];
		hole = at;
	}
	m->slots[hole] = 0;
}

bool map_remove(struct sbx_map *m, const char *key, uint64_t n)
{
	uint64_t at = slot_of(m, key, n, hash_of(key, n));

	if (at == UINT64_MAX)
		return false;
	pair_at(m, (uint32_t)m->slots[at] - 1)->key_bytes = REMOVED;
	empty_slot(m, at);
	m->live--;
	return true;
}

void *map_next(const struct sbx_map *m, uint64_t *at, const char **key, uint64_t *n)
{
	while (*at < m->n) {
		struct pair *p = pair_at(m, (*at)++);

		if (p->key_bytes == REMOVED)
			continue;
		if (key != NULL)
			*key = m->keys + p->key_at;
		if (n != NULL)
			*n = p->key_bytes;
		return p + 1;
	}
	return NULL;
}

/* ---- many at once ---- */

void *map_append(struct arena *a, struct sbx_map *m, const char *key, uint64_t n)
{
	uint64_t keys = m->keys_room;
	uint32_t hash = hash_of(key, n);

	if (n >= REMOVED || m->n >= m->room)
		return NULL;
	if (n >= m->keys_room - m->keys_used) { /* more than was reserved */
		keys = keys / 2 + m->keys_used + n + 64;
		if (!map_reserve(a, m, m->room, keys))
			return NULL;
	}
	__builtin_prefetch(&m->slots[hash & (m->n_slots - 1)], 1);
	return append(m, key, n, hash); /* never used room is zero */
}

int64_t map_enter(struct sbx_map *m, uint32_t first)
{
	for (uint32_t i = first; i < m->n; i++) {
		const struct pair *p = pair_at(m, i);
		uint64_t mask = m->n_slots - 1, at = p->hash & mask;

		for (; m->slots[at] != 0; at = (at + 1) & mask)
			if (m->slots[at] >> 32 == p->hash &&
				key_is(m, pair_at(m, (uint32_t)m->slots[at] - 1), m->keys + p->key_at, p->key_bytes))
				return i;
		m->slots[at] = (uint64_t)p->hash << 32 | (i + 1u);
	}
	return -1;
}
