/* SPDX-License-Identifier: MIT
 *
 * A function's signature, and arguments checked against it. The input is both, with a newline between them. */
#include "tests/fuzz/fuzz.h"

#include "daemon/host/codec/cbor.h"
#include "daemon/host/module/signature.h"
#include "proto/names.h"

static void look_at(const struct signature *s)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	FUZZ_MUST(s->n <= LIMIT_PARAMETERS);
	for (uint32_t i = 0; i < s->n; i++) {
		FUZZ_MUST(name_is_function(s->parameters[i].name, strlen(s->parameters[i].name)) && s->parameters[i].type < PARAM__N);
		if (s->parameters[i].default_json.size > 0)
			FUZZ_MUST(cbor_check(s->parameters[i].default_cbor.data, s->parameters[i].default_cbor.size, NULL) == 0);
	}
	json_out_object(&o, NULL);
	signature_json(s, &o, "parameters");
	json_out_object_end(&o);
	FUZZ_MUST(!b.failed);
	fuzz_is_json(b.data, b.size);
	buf_fini(&b);
}

static void check(const struct signature *s, const char *args, size_t n)
{
	struct buf cbor = BUF_INIT;
	struct err e = ERR_INIT;

	if (signature_check(s, args, n, &cbor, &e) != 0)
		fuzz_refused(&e);
	else
		FUZZ_MUST(!cbor.failed && cbor_check(cbor.data, cbor.size, &e) == 0);
	buf_fini(&cbor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t n = line ? (size_t)(line - data) : size;
	char *text = fuzz_text(data, n), *args = line ? fuzz_exact(line + 1, size - n - 1) : NULL;
	struct signature s;
	struct err e = ERR_INIT;

	if (signature_read(text, &s, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.code == ERR_BAD_MODULE || e.code == ERR_LIMIT_EXCEEDED);
	} else {
		look_at(&s);
		check(&s, NULL, 0);
		check(&s, "{}", 2);
		if (args)
			check(&s, args, size - n - 1);
		signature_fini(&s);
	}
	free(text);
	free(args);
	return 0;
}
