/* SPDX-License-Identifier: MIT
 *
 * A version of tally that ends while it is loaded, having said more than is read at once: messages that mean nothing, and FAILED. */
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

#define MESSAGES_AT_ONCE 64
#define FAILED 66

struct head { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; };

static void say(uint64_t generation)
{
	struct head head = { .magic = 1213743699, .type = FAILED, .generation = generation, .sequence = 1, .status = 1 };

	(void)send(3, &head, sizeof head, MSG_NOSIGNAL);
}

__attribute__((constructor)) static void go(void)
{
	const struct timespec while_control_is_stopped = { 1, 0 };

	(void)nanosleep(&while_control_is_stopped, NULL);
	for (int i = 0; i < 2 * MESSAGES_AT_ONCE; i++)
		say(UINT64_MAX);
	for (uint64_t generation = 1; generation < MESSAGES_AT_ONCE; generation++) /* one of these is its own */
		say(generation);
	_exit(1);
}

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return sbx_put_i64(x, "count", t->count);
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""));
