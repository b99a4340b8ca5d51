/* SPDX-License-Identifier: MIT
 *
 * JSON to CBOR and back, until the text is the one that we would write ourselves: then it stays so. */
#include "tests/fuzz/fuzz.h"

#include "daemon/host/codec/cbor.h"
#include "daemon/host/codec/json_cbor.h"

/* What the JSON text becomes as CBOR and then as JSON again. */
static void there_and_back(const char *text, size_t n, struct buf *json)
{
	struct buf cbor = BUF_INIT;
	struct json_out o = json_out_to(json);
	struct err e = ERR_INIT;

	FUZZ_MUST(json_to_cbor(text, n, &cbor, &e) == 0 && cbor_check(cbor.data, cbor.size, &e) == 0);
	FUZZ_MUST(cbor_to_json(cbor.data, cbor.size, &o, NULL, &e) == 0 && !json->failed);
	fuzz_is_json(json->data, json->size);
	buf_fini(&cbor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_exact(data, size);
	struct buf cbor = BUF_INIT, small = BUF_INIT, json[3] = { BUF_INIT, BUF_INIT, BUF_INIT };
	struct err e = ERR_INIT;

	buf_init(&small, size / 2 + 1);
	if (json_to_cbor(text, size, &cbor, &e) != 0) {
		fuzz_refused(&e);
	} else {
		FUZZ_MUST(json_check(text, size, &e) == 0);
		there_and_back(text, size, &json[0]);
		there_and_back(json[0].data, json[0].size, &json[1]); /* 1e3 is 1000 now, and so an integer */
		there_and_back(json[1].data, json[1].size, &json[2]);
		FUZZ_MUST(json[1].size == json[2].size && memcmp(json[1].data, json[2].data, json[1].size) == 0);
		if (json_to_cbor(text, size, &small, &e) != 0)
			FUZZ_MUST(e.code == ERR_LIMIT_EXCEEDED);
	}
	buf_fini(&cbor);
	buf_fini(&small);
	for (int i = 0; i < 3; i++)
		buf_fini(&json[i]);
	free(text);
	return 0;
}
