/* SPDX-License-Identifier: MIT
 *
 * A scenario of `sandboxd --simulate` from any bytes, and what comes of it: refused with a reason, or one line of JSON, the same
 * each time. The first byte chooses the rules. Seeds are in corpus/scenario. */
#include "tests/fuzz/fuzz.h"

#include "daemon/simulate/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct simulate_options o = { 0 };
	struct buf once = BUF_INIT, twice = BUF_INIT;
	struct err e = ERR_INIT;
	char *text;

	if (size == 0)
		return 0;
	o.otp = data[0] & 1;
	o.explain = data[0] & 2;
	text = fuzz_exact(data + 1, size - 1);
	if (simulate_line(text, size - 1, &o, &once, &e) == -1) {
		fuzz_refused(&e);
		FUZZ_MUST(once.size == 0);
	} else {
		FUZZ_MUST(once.size > 1 && once.data[once.size - 1] == '\n');
		fuzz_is_json(once.data, once.size - 1);
		FUZZ_MUST(simulate_line(text, size - 1, &o, &twice, &e) == 0);
		FUZZ_MUST(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
	}
	buf_fini(&once);
	buf_fini(&twice);
	free(text);
	return 0;
}
