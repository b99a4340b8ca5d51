/* SPDX-License-Identifier: MIT
 *
 * The CBOR reader on any bytes. What it accepts becomes JSON, and what that becomes again stays the same from there on. */
#include "tests/fuzz/fuzz.h"

#include "daemon/host/codec/cbor.h"
#include "daemon/host/codec/json_cbor.h"
#include "proto/limits.h"

/* Every head in turn, whatever it leads to. */
static void read_flat(const char *p, size_t n)
{
	struct cbor_reader r = cbor_reader_over(p, n);
	struct cbor_typed t;
	struct cbor_head h;

	for (;;) {
		const uint8_t *at = r.at;
		struct cbor_head peeked;
		int seen = cbor_peek_head(&r, &peeked);

		FUZZ_MUST(cbor_get_head(&r, &h) == seen);
		if (seen != 0) {
			FUZZ_MUST(r.at == at);
			break;
		}
		FUZZ_MUST(r.at > at && r.at <= r.end && peeked.major == h.major && peeked.value == h.value);
		if (h.major == CBOR_BYTES || h.major == CBOR_TEXT) {
			const uint8_t *content = cbor_get_content(&r, &h);

			FUZZ_MUST(content == NULL || r.at == content + h.value);
			if (!content)
				break;
		}
		if (cbor_is_float(&h))
			(void)cbor_float(&h);
		if (h.major == CBOR_TAG && cbor_typed_from_tag(h.value, &t))
			FUZZ_MUST(cbor_typed_tag(t) == h.value);
	}
}

static bool to_json(const void *p, uint64_t n, struct buf *to)
{
	struct json_out o = json_out_to(to);
	struct err e = ERR_INIT;

	buf_clear(to);
	if (cbor_to_json(p, n, &o, NULL, &e) != 0) {
		fuzz_refused(&e);
		return false;
	}
	FUZZ_MUST(!to->failed);
	return true;
}

/* A number that was a float may be an integer's text, which is then one; from the first text on nothing changes. */
static void round_trip(const char *p, size_t n)
{
	struct buf json = BUF_INIT, cbor = BUF_INIT, again = BUF_INIT;
	struct err e = ERR_INIT;

	for (int i = 0; i < 3 && to_json(p, n, &json) && json_check(json.data, json.size, &e) == 0; i++) {
		if (i == 2)
			FUZZ_MUST(json.size == again.size && memcmp(json.data, again.data, json.size) == 0);
		buf_clear(&again);
		buf_add(&again, json.data, json.size);
		buf_clear(&cbor);
		if (json_to_cbor(json.data, json.size, &cbor, &e) != 0) {
			FUZZ_MUST(i == 0 && e.code == ERR_BAD_PARAM); /* a $bytes that isn't base64 */
			break;
		}
		FUZZ_MUST(cbor_check(cbor.data, cbor.size, &e) == 0);
		p = cbor.data;
		n = cbor.size;
	}
	buf_fini(&json);
	buf_fini(&cbor);
	buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *p = fuzz_exact(data, size);
	struct cbor_reader r = cbor_reader_over(p, size);
	struct err e = ERR_INIT;
	struct buf json = BUF_INIT;
	int skipped = cbor_skip(&r);

	FUZZ_MUST(skipped == 0 ? r.at > (uint8_t *)p : r.at == (uint8_t *)p);
	if (cbor_check(p, size, &e) == 0) {
		FUZZ_MUST(skipped == 0 && r.at == r.end);
		round_trip(p, size);
	} else {
		fuzz_refused(&e);
		(void)to_json(p, size, &json);
		buf_fini(&json);
	}
	read_flat(p, size);
	free(p);
	return 0;
}
