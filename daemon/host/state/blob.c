/* SPDX-License-Identifier: MIT
 *
 * Opens a blob: our magic, a version, a schema that holds together, timers and own state that are well-formed, and data after it.
 * The data, most of it, is read only once: by the restore. */
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

/* One map, or null. */
static int get_map(struct cbor_reader *r, const uint8_t **ret, uint64_t *ret_n, struct err *e)
{
	const uint8_t *begin = r->at;
	struct cbor_head h;

	int rc = cbor_peek_head(r, &h) != 0 || (h.major != CBOR_MAP && !cbor_is_null(&h)) ? -1 : cbor_skip_checked(r);

	if (rc == CBOR_TOO_DEEP) {
		err_set(e, ERR_STATE_MISMATCH, "the saved state is damaged: its timers or its own part nest deeper than %d levels", LIMIT_VALUE_DEPTH);
		return err_about(e, "too_deep", -1);
	}
	if (rc != 0)
		return err_set(e, ERR_STATE_MISMATCH, "the saved state is damaged: its timers or its own part aren't well-formed");
	if (h.major == CBOR_MAP) {
		*ret = begin;
		*ret_n = (uint64_t)(r->at - begin);
	}
	return 0;
}

static int open_extra(struct cbor_reader *r, struct state_blob *b, struct err *e)
{
	return get_map(r, &b->timers, &b->timers_bytes, e) == 0 ? get_map(r, &b->own, &b->own_bytes, e) : -1;
}

int state_blob_open(const void *blob, uint64_t n, struct state_blob *ret, struct err *e)
{
	struct cbor_reader r = cbor_reader_over(blob, n);
	struct state_blob b = { 0 };
	struct cbor_head h;
	uint32_t magic;

	if (n > LIMIT_STATE_BYTES)
		return err_set(e, ERR_STATE_MISMATCH, "the saved state is larger than %llu bytes", LIMIT_STATE_BYTES);
	if (cbor_get_head(&r, &h) != 0 || h.major != CBOR_ARRAY || (h.value != STATE_MEMBERS && h.value != STATE_MEMBERS_EXTRA) ||
		get_u32(&r, &magic) != 0 || magic != STATE_MAGIC)
		return err_set(e, ERR_STATE_MISMATCH, "these bytes are no saved state");
	if (get_u32(&r, &b.version) != 0)
		return err_set(e, ERR_STATE_MISMATCH, "the saved state doesn't say its version");
	if (schema_parse(&r, &b.schema, e) != 0)
		return -1;
	if (h.value == STATE_MEMBERS_EXTRA && open_extra(&r, &b, e) != 0) {
		schema_free(b.schema);
		return -1;
	}
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
