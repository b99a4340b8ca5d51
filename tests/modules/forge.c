/* SPDX-License-Identifier: MIT
 *
 * A module that has read host_wire.h: it writes any message, or none at all, to the host's channel on descriptor 3. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sandbox_module.h"

struct forge { int64_t sent; };
SBX_STATE(forge, struct forge, SBX_FIELD(sent));

struct head { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; };

/* body_bytes -1: what the body has. n_fds: so many descriptors of /dev/null ride along. */
static int message(struct sbx *x, void *self)
{
	struct forge *f = self;
	const char *body = sbx_arg_str(x, "body");
	int64_t n = sbx_arg_i64(x, "body_bytes"), n_fds = sbx_arg_i64(x, "n_fds");
	struct head head = { .magic = (uint32_t)sbx_arg_u64(x, "magic"), .type = (uint16_t)sbx_arg_u64(x, "type"),
		.flags = (uint16_t)sbx_arg_u64(x, "flags"), .generation = sbx_arg_u64(x, "generation"), .number = sbx_arg_u64(x, "number"),
		.sequence = sbx_arg_u64(x, "sequence"), .value = { sbx_arg_i64(x, "value0"), sbx_arg_i64(x, "value1") },
		.status = (uint32_t)sbx_arg_u64(x, "status"), .body_bytes = (uint32_t)(n < 0 ? (int64_t)strlen(body) : n) };
	struct iovec parts[2] = { { &head, sizeof head }, { NULL, strlen(body) } };
	union { char room[CMSG_SPACE(8 * sizeof(int))]; struct cmsghdr align; } control = { .room = { 0 } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
	int fds[8], k;

	memcpy(&parts[1].iov_base, &body, sizeof body);
	if (n_fds > 0 && n_fds <= 8) {
		struct cmsghdr *c = &control.align;

		for (k = 0; k < n_fds; k++)
			fds[k] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 4); /* /dev/null, which has no name in here */
		m.msg_control = control.room;
		m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)n_fds * sizeof(int));
	}
	for (int64_t i = sbx_arg_i64(x, "times"); i > 0; i--)
		f->sent += sendmsg(3, &m, MSG_NOSIGNAL) > 0;
	for (k = 0; k < n_fds && n_fds <= 8; k++)
		close(fds[k]);
	return sbx_put_i64(x, "sent", f->sent);
}

/* Bytes that are no message: shorter than a header, or as long as a message may be and longer. */
static int garbage(struct sbx *x, void *self)
{
	static char bytes[100000];
	uint64_t n = sbx_arg_u64(x, "bytes");

	(void)self;
	memset(bytes, 'g', sizeof bytes);
	return sbx_put_i64(x, "sent", send(3, bytes, n < sizeof bytes ? n : sizeof bytes, MSG_NOSIGNAL));
}

static int ping(struct sbx *x, void *self)
{
	const struct forge *f = self;

	return sbx_put_i64(x, "sent", f->sent);
}

SBX_MODULE(forge, 1, SBX_USES(forge),
	SBX_FN(message, "magic: u64 = 1213743699, type: u64 = 67, flags: u64 = 0, generation: u64, number: u64 = 1, sequence: u64 = 1, "
		"status: u64 = 0, value0: i64 = 0, value1: i64 = 0, body: str = \"{}\", body_bytes: i64 = -1, n_fds: i64 = 0, times: i64 = 1"),
	SBX_FN(garbage, "bytes: u64"), SBX_FN(ping, ""));
