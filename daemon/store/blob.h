/* SPDX-License-Identifier: MIT
 *
 * Immutable bytes with their SHA-256, counted references. Made anywhere; the count is changed on the loop's thread only
 * (a storage job holds one reference while it runs). */
#ifndef SANDBOXD_BLOB_H
#define SANDBOXD_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/names.h"

struct blob {
	unsigned references;
	size_t size;
	char sha256[SHA256_HEX_BYTES + 1]; /* "" until blob_hash has run */
	bool is_checked;                   /* by elf_check, which found nothing */
	char *data;                        /* malloc'ed, owned */
};

struct blob *blob_new(char *data_take, size_t size); /* one reference; NULL: no memory (data is freed) */
struct blob *blob_ref(struct blob *b);
struct blob *blob_unref(struct blob *b);             /* NULL ok; returns NULL */
void blob_hash(struct blob *b);                      /* SHA-256; any thread, before the blob is shared */
void sha256_hex(const void *data, size_t size, char ret[SHA256_HEX_BYTES + 1]);

#endif
