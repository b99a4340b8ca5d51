/* SPDX-License-Identifier: MIT
 *
 * Opens a blob: well-formed as a whole, our magic, a version, a schema that holds together, and data after it. */
#include <string.h>

#include "daemon/host/state/state.h"

static int get_u32(struct cbor_reader *r, uint32_t *ret)
{
	struct cbor_head h;

	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_UINT || h.value > UINT32_MAX)
		return -1;
	*ret = (uint32_t)h.value;
	return 0;
}

int state_blob_open(const void *blob, uint64_t n, struct state_blob *ret, struct err *e)
{
	struct cbor_reader r = cbor_reader_over(blob, n);
	struct state_blob b = { 0 };
	struct cbor_head h;
	uint32_t magic;

	if (n > LIMIT_STATE_BYTES)
		return err_set(e, ERR_STATE_MISMATCH, "the saved state is larger than %llu bytes", LIMIT_STATE_BYTES);
	if (cbor_check(blob, n, e) != 0)
		return err_prefix(e, "the saved state is damaged");
	if (cbor_get_head(&r, &h) != 0 || h.major != CBOR_ARRAY || h.value != 4 || get_u32(&r, &magic) != 0 || magic != STATE_MAGIC)
		return err_set(e, ERR_STATE_MISMATCH, "these bytes are no saved state");
	if (get_u32(&r, &b.version) != 0)
		return err_set(e, ERR_STATE_MISMATCH, "the saved state doesn't say its version");
	if (schema_parse(&r, &b.schema, e) != 0)
		return -1;
	b.data = r.at;
	b.data_bytes = cbor_left(&r);
	*ret = b;
	return 0;
}

void state_blob_close(struct state_blob *b)
{
	schema_free(b->schema);
	memset(b, 0, sizeof *b);
}
