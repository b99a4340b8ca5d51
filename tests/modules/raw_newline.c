/* SPDX-License-Identifier: MIT
 *
 * A module that tries to break the lines of others: control characters in replies, errors and logs, bytes that aren't UTF-8,
 * and messages that it writes to the host's channel itself. */
#include <sys/socket.h>
#include <sys/uio.h>

#include "sandbox_module.h"

struct raw { int64_t unused; };
SBX_STATE(raw, struct raw, SBX_FIELD(unused));

static const char nasty[] = "one\ntwo\r\n\t\x1b[31mred\x7f\"quoted\"\\ \xff\xc0\xaf end";

static int text(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_str(x, "text", nasty);
}

static int key(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_i64(x, "a\nb\"c", 1);
}

static int fail(struct sbx *x, void *self)
{
	(void)self;
	return sbx_fail(x, "bad\ncode", "%s", nasty);
}

static int log_it(struct sbx *x, void *self)
{
	(void)self;
	sbx_log(x, SBX_INFO, "%s\n<3>forged", nasty);
	return 0;
}

/* A REPLY with a raw newline in its body, past the host, on descriptor 3. The layout is host_wire.h's. */
static int forge(struct sbx *x, void *self)
{
	struct { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; } head = {
		0x48584253u, 67, 0, sbx_arg_u64(x, "generation"), sbx_arg_u64(x, "number"), sbx_arg_u64(x, "sequence"), { 0, 0 }, 0, 0 };
	char body[] = "{\"a\":\n1}";
	struct iovec parts[2] = { { &head, sizeof head }, { body, sizeof body - 1 } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };

	(void)self;
	head.body_bytes = sizeof body - 1;
	return sbx_put_i64(x, "sent", sendmsg(3, &m, MSG_NOSIGNAL));
}

/* Bytes that are no message at all. */
static int garbage(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_i64(x, "sent", send(3, "garbage", 7, MSG_NOSIGNAL));
}

SBX_MODULE(raw, 1, SBX_USES(raw), SBX_FN(text, ""), SBX_FN(key, ""), SBX_FN(fail, ""), SBX_FN_AS("log", log_it, ""),
	SBX_FN(forge, "generation: u64, number: u64, sequence: u64 = 1"), SBX_FN(garbage, ""));
