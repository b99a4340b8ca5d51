/* SPDX-License-Identifier: MIT
 *
 * Saved state becomes plain CBOR, in which structs are maps, and that becomes JSON: two writers that are there for replies. */
#include "daemon/host/state/show.h"

#include "daemon/host/codec/json_cbor.h"
#include "daemon/host/state/state.h"
#include "daemon/host/state/value.h"

static int too_large(struct err *e)
{
	return err_set(e, ERR_REPLY_TOO_LARGE, "the state as JSON exceeds %u bytes", LIMIT_BODY_BYTES);
}

static int show_values(const struct state_blob *b, struct json_out *o, struct err *e)
{
	struct val_source *s;
	struct cbor_writer w;
	struct buf plain;
	int r;

	if (cbor_check(b->data, b->data_bytes, e) != 0) /* values are read without looking twice */
		return -1;
	s = val_source_new(b->data, b->data_bytes, b->schema);
	if (s == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory to show a state");
	buf_init(&plain, (size_t)LIMIT_BODY_BYTES * 4);
	w = cbor_writer_buf(&plain);
	r = val_write(val_root(s), &w, 0);
	if (r != 0)
		err_set(e, ERR_STATE_MISMATCH, "the saved state isn't what its schema says");
	else if (plain.failed)
		r = too_large(e);
	else
		r = cbor_to_json(plain.data, plain.size, o, "state", e);
	buf_fini(&plain);
	(void)val_source_free(s);
	return r;
}

static int show_map(const uint8_t *p, uint64_t n, struct json_out *o, const char *key, struct err *e)
{
	if (p != NULL)
		return cbor_to_json(p, n, o, key, e);
	json_out_null(o, key);
	return 0;
}

int state_show(const void *blob, uint64_t n, struct json_out *o, struct err *e)
{
	struct state_blob b = { 0 };
	int r;

	if (state_blob_open(blob, n, &b, e) != 0)
		return -1;
	json_out_u64(o, "state_version", b.version);
	json_out_u64(o, "state_bytes", n);
	r = show_values(&b, o, e);
	if (r == 0)
		r = show_map(b.timers, b.timers_bytes, o, "timers", e);
	if (r == 0)
		r = show_map(b.own, b.own_bytes, o, "own", e);
	if (r == 0 && o->to->failed)
		r = too_large(e);
	state_blob_close(&b);
	return r;
}

int state_show_schema(const void *blob, uint64_t n, struct json_out *o, struct err *e)
{
	struct state_blob b = { 0 };

	if (state_blob_open(blob, n, &b, e) != 0)
		return -1;
	json_out_u64(o, "state_version", b.version);
	schema_json(b.schema, o);
	state_blob_close(&b);
	return o->to->failed ? too_large(e) : 0;
}
