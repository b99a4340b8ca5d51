/* SPDX-License-Identifier: MIT
 *
 * Its host loses the answer of one call: the channel is another's until a timer gives it back. */
#define SBX_WANT_MINOR 1
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox_module.h"

#define CHANNEL_FD 3

struct mute { int64_t calls; };
SBX_STATE(mute, struct mute, SBX_FIELD(calls));

static int channel_fd = -1, other_fd = -1;

static int back(struct sbx *x, void *self)
{
	(void)x, (void)self;
	(void)dup2(channel_fd, CHANNEL_FD);
	close(channel_fd);
	close(other_fd);
	return 0;
}

static int swallow(struct sbx *x, void *self)
{
	int pair[2];

	(void)self;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		return sbx_fail(x, "socketpair", "no pair of sockets");
	channel_fd = dup(CHANNEL_FD);
	other_fd = pair[1];
	(void)dup2(pair[0], CHANNEL_FD);
	close(pair[0]);
	return sbx_after(x, "back", 20);
}

static int ping(struct sbx *x, void *self)
{
	struct mute *m = self;

	return sbx_put_i64(x, "calls", ++m->calls);
}

SBX_MODULE(mute, 1, SBX_USES(mute), SBX_TIMER(back), SBX_FN(swallow, ""), SBX_FN(ping, ""));
