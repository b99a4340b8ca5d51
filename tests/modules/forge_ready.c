/* SPDX-License-Identifier: MIT
 *
 * tally, and while it is loaded it says everything to control that a candidate's process may say, and what it may not, of any generation and number. */
#include <sys/socket.h>
#include <sys/uio.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

struct head { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; };

static void say(uint16_t type, uint64_t generation, uint64_t number)
{
	char body[] = "{\"module\":{\"name\":\"tally\"},\"load_us\":1,\"restore_us\":1,\"check_us\":1,\"report\":{}}";
	struct head head = { .magic = 1213743699, .type = type, .generation = generation, .number = number, .sequence = 1,
		.body_bytes = sizeof body - 1 };
	struct iovec parts[2] = { { &head, sizeof head }, { body, sizeof body - 1 } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };

	(void)sendmsg(3, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Before the host can say anything itself. 65 READY, 69 REHEARSED, 72 LOADED, 73 COMMITTED, 74 UNLOADED, 75 ABORTED, 76 STOPPED, 82 STAGED. */
__attribute__((constructor)) static void forge(void)
{
	static const uint16_t types[] = { 65, 69, 72, 73, 74, 75, 76, 82 };

	for (uint64_t generation = 1; generation < 8; generation++)
		for (uint64_t number = 1; number < 5; number++)
			for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++)
				say(types[i], generation, number);
}

static int get(struct sbx *x, void *self)
{
	return sbx_put_i64(x, "count", ((struct tally *)self)->count);
}

static int check(struct sbx *x, void *self)
{
	(void)self;
	return sbx_fail(x, "no", "it never is");
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_CHECK(check));
