/* SPDX-License-Identifier: MIT
 *
 * The bodies of control's messages as the host reads them: BEGIN, START, REHEARSE, LOAD, STAGE. */
#include "tests/fuzz/fuzz.h"

#include <sys/socket.h>

#include "daemon/host/confine.h"
#include "daemon/host/order.h"

#define BEGIN 0xff

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	static const uint8_t kinds[] = { ORDER_START, ORDER_REHEARSE, ORDER_LOAD, BEGIN, ORDER_STAGE };
	uint8_t first = fuzz_u8(&in), kind = kinds[first < 0xf0 ? first % 4 : 4]; /* inputs that are kept mean what they meant */
	char *text = fuzz_exact(in.at, in.left);
	struct err e = ERR_INIT;
	struct order o;
	struct confine c;

	if (kind == BEGIN) {
		static int channel[2];

		if (channel[1] == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) != 0)
			abort();
		if (confine_parse(&c, text, in.left, channel[0], &e) != 0)
			fuzz_refused(&e);
		else
			FUZZ_MUST((unsigned)c.profile < PROFILE_NONE);
	} else if (order_parse(&o, (enum order_kind)kind, text, in.left, &e) != 0) {
		fuzz_refused(&e);
	} else {
		FUZZ_MUST(o.path[0] == '/' && strnlen(o.path, sizeof o.path) < sizeof o.path);
		FUZZ_MUST(o.timeout_ms > 0 && o.timeout_ms <= ORDER_TIMEOUT_MOST_MS);
		FUZZ_MUST(o.config.at == NULL || (o.config.at >= text && o.config.at + o.config.size <= text + in.left));
		FUZZ_MUST(o.config.at == NULL || kind == ORDER_START);
		FUZZ_MUST(!o.backwards || kind != ORDER_STAGE);
		FUZZ_MUST(o.patch.at == NULL || (kind != ORDER_STAGE && json_type(o.patch) == '{'));
	}
	free(text);
	return 0;
}
