/* SPDX-License-Identifier: MIT
 *
 * Names: the one pattern of ids, nearest known names for errors, hexadecimal, base64. Pure; runs in every process. */
#ifndef SANDBOXD_NAMES_H
#define SANDBOXD_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"

#define SHA256_BYTES     32
#define SHA256_HEX_BYTES 64

bool name_is_id(const char *text, size_t size);          /* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
#define NAME_PROBE "sandboxd-probe." /* begins the ids of what daemon.doctor starts; no client may choose such a one */
bool name_is_function(const char *text, size_t size);    /* a C identifier of at most 63 bytes */
bool name_is_source_file(const char *text, size_t size); /* an id that ends in .c */
/* Patterns of ids: * stands for any text, ? for a character, [abc], [a-z] and [!a-z] for one of these, or none of them. */
bool name_is_pattern(const char *text);                  /* nothing else that no id can have, and each [ is closed */
bool name_matches(const char *pattern, const char *name); /* name_is_pattern; at most strlen(pattern) * strlen(name) steps */
bool name_is_sha256(const char *text, size_t size);      /* 64 lower-case hexadecimal digits */

/* Index of the nearest candidate by edit distance, if near enough to be what was meant (distance <= 1 + length/4); else -1. */
int name_nearest(const char *text, const char *const *candidates, size_t n);

void hex_encode(char *to /* 2n + 1 bytes */, const uint8_t *from, size_t n);
bool hex_decode(uint8_t *to, const char *from, size_t n_bytes);

void base64_encode(struct buf *to, const void *from, size_t n);
/* Strict RFC 4648 with padding and no white space. Returns decoded bytes or -1. `to` has room for n / 4 * 3. */
int64_t base64_decode(uint8_t *to, const char *from, size_t n);

#endif
