/* SPDX-License-Identifier: MIT
 *
 * Blobs and their hash. When libcrypto has no memory the hash stays "", which equals no name: whoever needs it
 * (objects_put) then refuses the blob. */
#include "daemon/store/blob.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>

_Static_assert(SHA256_BYTES * 2 == SHA256_HEX_BYTES, "two digits a byte");

struct blob *blob_new(char *data_take, size_t size)
{
	struct blob *b = malloc(sizeof(*b));

	if (!b) {
		free(data_take);
		return NULL;
	}
	*b = (struct blob){ .references = 1, .size = size, .data = data_take };
	return b;
}

struct blob *blob_ref(struct blob *b)
{
	assert(b->references > 0);
	b->references++;
	return b;
}

struct blob *blob_unref(struct blob *b)
{
	if (!b)
		return NULL;
	assert(b->references > 0);
	if (--b->references == 0) {
		free(b->data);
		free(b);
	}
	return NULL;
}

void blob_hash(struct blob *b)
{
	sha256_hex(b->data, b->size, b->sha256);
}

void sha256_hex(const void *data, size_t size, char ret[SHA256_HEX_BYTES + 1])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (EVP_Digest(size ? data : "", size, digest, &n, EVP_sha256(), NULL) == 1 && n == SHA256_BYTES)
		hex_encode(ret, digest, SHA256_BYTES);
	else
		ret[0] = '\0';
}
