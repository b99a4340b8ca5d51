/* SPDX-License-Identifier: MIT
 *
 * The keys that the scanner has seen in the large objects of one text. Private to proto/json_*.c. */
#ifndef SANDBOXD_JSON_KEYS_H
#define SANDBOXD_JSON_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/json_scan.h"

struct json_keys_entry {
	const char *at;  /* between the quotes; NULL: free */
	uint64_t hash;
	uint32_t size, object;
};

struct json_keys {
	struct json_keys_entry *entries;
	size_t n, room;  /* room: a power of two */
	uint64_t secret[2];
};

void json_keys_init(struct json_keys *k);
void json_keys_fini(struct json_keys *k);
/* Spans with quotes; compares what they decode to. */
bool json_keys_equal(struct json_span a, struct json_span b);
/* 1: was new, 0: is there already, -1: no memory. The key must stay where it is. */
int json_keys_add(struct json_keys *k, uint32_t object, struct json_span key);

#endif
