/* SPDX-License-Identifier: MIT
 *
 * tally, whose host says before its own READY that the module's name has 40000 letters. */
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sandbox_module.h"

#define BEFORE "{\"module\":{\"name\":\""
#define BEHIND "\"}}"
#define NAME_BYTES 40000

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

struct head { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; };

/* Of any generation that it may have; others' are ignored. */
__attribute__((constructor)) static void forge(void)
{
	static char name[NAME_BYTES], before[] = BEFORE, behind[] = BEHIND;
	struct head head = { .magic = 1213743699, .type = 65, .number = 1, .sequence = 1,
		.body_bytes = sizeof BEFORE - 1 + NAME_BYTES + sizeof BEHIND - 1 };
	struct iovec parts[] = { { &head, sizeof head }, { before, sizeof BEFORE - 1 }, { name, NAME_BYTES }, { behind, sizeof BEHIND - 1 } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 4 };

	memset(name, 'A', sizeof name);
	for (head.generation = 1; head.generation < 50; head.generation++)
		(void)sendmsg(3, &m, MSG_NOSIGNAL);
}

static int get(struct sbx *x, void *self)
{
	return sbx_put_i64(x, "count", ((struct tally *)self)->count);
}

SBX_MODULE(tally, 1, SBX_USES(tally), SBX_FN(get, ""));
