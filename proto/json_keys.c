/* SPDX-License-Identifier: MIT
 *
 * One open-addressing table for a whole text: (object, key) pairs, hashed with SipHash-1-3 over the decoded
 * key. Its secret is the 16 random bytes that the kernel puts into every process at exec: no system call, no
 * state, and no client can choose keys that collide, which would make the scan quadratic. Nothing is ever
 * removed: the table lives for one scan. */
#include "proto/json_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "proto/json_text.h"

#define FIRST_ROOM 64

/* ---- SipHash-1-3, fed byte by byte ---- */

struct sip {
	uint64_t v[4], word;
	uint64_t n; /* bytes fed */
};

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
	s->v[3] ^= word;
	sip_round(s->v);
	s->v[0] ^= word;
}

static void sip_byte(struct sip *s, unsigned char byte)
{
	s->word |= (uint64_t)byte << (s->n % 8 * 8);
	if (++s->n % 8 == 0) {
		sip_word(s, s->word);
		s->word = 0;
	}
}

static uint64_t sip_end(struct sip *s)
{
	sip_word(s, s->word | s->n << 56);
	s->v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(s->v);
	return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

static uint64_t hash(const struct json_keys *k, uint32_t object, struct json_span inside)
{
	struct sip s = { .v = {
		k->secret[0] ^ 0x736f6d6570736575ull, k->secret[1] ^ 0x646f72616e646f6dull,
		k->secret[0] ^ 0x6c7967656e657261ull, k->secret[1] ^ 0x7465646279746573ull,
	} };
	const char *at = inside.at, *end = inside.at + inside.size;
	char out[4];
	size_t n;

	for (int i = 0; i < 4; i++)
		sip_byte(&s, (unsigned char)(object >> (8 * i)));
	while ((n = json_text_next(&at, end, out)) > 0)
		for (size_t i = 0; i < n; i++)
			sip_byte(&s, (unsigned char)out[i]);
	return sip_end(&s);
}

/* ---- the table ---- */

void json_keys_init(struct json_keys *k)
{
	unsigned long at = getauxval(AT_RANDOM);

	*k = (struct json_keys){ 0 };
	if (at) {
		const void *bytes = (const void *)at;

		memcpy(k->secret, bytes, sizeof(k->secret));
	}
}

void json_keys_fini(struct json_keys *k)
{
	free(k->entries);
	k->entries = NULL;
}

static bool equal_inside(struct json_span a, struct json_span b)
{
	const char *at_a = a.at, *at_b = b.at;
	char out_a[4], out_b[4];
	size_t n_a = 0, n_b = 0, i_a = 0, i_b = 0;

	if (json_text_is_plain(a) && json_text_is_plain(b))
		return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
	for (;;) { /* byte by byte: a character may be one escape here and several raw bytes there */
		if (i_a == n_a) {
			n_a = json_text_next(&at_a, a.at + a.size, out_a);
			i_a = 0;
		}
		if (i_b == n_b) {
			n_b = json_text_next(&at_b, b.at + b.size, out_b);
			i_b = 0;
		}
		if (n_a == 0 || n_b == 0)
			return n_a == n_b;
		if (out_a[i_a++] != out_b[i_b++])
			return false;
	}
}

bool json_keys_equal(struct json_span a, struct json_span b)
{
	return equal_inside(json_text_inside(a), json_text_inside(b));
}

static struct json_keys_entry *free_slot(struct json_keys_entry *entries, size_t room, uint64_t h)
{
	size_t i = h & (room - 1);

	while (entries[i].at)
		i = (i + 1) & (room - 1);
	return &entries[i];
}

static bool grow(struct json_keys *k)
{
	size_t room = k->room ? k->room * 2 : FIRST_ROOM;
	struct json_keys_entry *entries = calloc(room, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < k->room; i++)
		if (k->entries[i].at)
			*free_slot(entries, room, k->entries[i].hash) = k->entries[i];
	free(k->entries);
	k->entries = entries;
	k->room = room;
	return true;
}

int json_keys_add(struct json_keys *k, uint32_t object, struct json_span key)
{
	struct json_span inside = json_text_inside(key);
	uint64_t h = hash(k, object, inside);
	size_t i;

	if (k->n >= k->room / 4 * 3 && !grow(k))
		return -1;
	for (i = h & (k->room - 1); k->entries[i].at; i = (i + 1) & (k->room - 1)) {
		const struct json_keys_entry *other = &k->entries[i];

		if (other->hash == h && other->object == object &&
		    equal_inside((struct json_span){ other->at, other->size }, inside))
			return 0;
	}
	k->entries[i] = (struct json_keys_entry){ inside.at, h, (uint32_t)inside.size, object };
	k->n++;
	return 1;
}
