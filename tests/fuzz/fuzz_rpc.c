/* SPDX-License-Identifier: MIT
 *
 * Any line of a client: envelope, batches, parameters, replies. Its first byte says who the client is. */
#include "tests/fuzz/front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t who = fuzz_u8(&in);
	struct rpc_envelope envelope;
	struct err e = ERR_INIT;
	char *text = fuzz_exact(in.at, in.left);

	front_line(text, in.left, who % 3 == 0 ? RIGHTS_NONE : who % 3 == 1 ? RIGHTS_OPERATOR : RIGHTS_ADMIN, who & 0x80);
	if (rpc_envelope_read(text, in.left, &envelope, &e) != 0)
		fuzz_refused(&e);
	else
		FUZZ_MUST(json_type(envelope.method) == '"' && envelope.n_params <= RPC_ENVELOPE_PARAMS);
	free(text);
	return 0;
}
