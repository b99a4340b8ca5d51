/* SPDX-License-Identifier: MIT
 *
 * host_receive, which both ends use: a header of any bytes, a body, and descriptors of every sort. What is accepted agrees with
 * itself, and is received again as the same when it is sent on. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/host_channel.h"

static void send_on(int pair[2], struct host_incoming *in)
{
	struct host_message head = in->head;
	size_t size = head.body_bytes;
	char *body = fuzz_text(in->body, size);
	bool has_state = in->state_fd >= 0;
	struct err e = ERR_INIT;

	FUZZ_MUST(host_send(pair[0], &head, body, size, in->state_fd, &e) == 0);
	FUZZ_MUST(host_receive(pair[1], in, &e) == 1);
	FUZZ_MUST(in->head.body_bytes == size && memcmp(in->body, body, size) == 0 && (in->state_fd >= 0) == has_state);
	FUZZ_MUST(in->head.type == head.type && in->head.number == head.number && in->head.generation == head.generation);
	free(body);
}

static int make_fd(uint8_t kind, const uint8_t *data, size_t size)
{
	int ends[2];

	switch (kind % 6) {
	case 0:
		return fd_memfd("sealed", data, size, true);
	case 1:
		return fd_memfd("open", data, size, false);
	case 2:
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	case 3:
		return fd_pipe_filled(data, size);
	case 4: /* nothing in it, a reader would wait */
		FUZZ_MUST(pipe2(ends, O_CLOEXEC) == 0);
		(void)close(ends[1]);
		return ends[0];
	}
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in), kinds = fuzz_u8(&in);
	struct host_incoming incoming;
	struct host_message head;
	struct err e = ERR_INIT;
	int pair[2], fds[4], rc;
	size_t n_fds = how % 4;

	if (how & 0x10) { /* a header that is nearly right */
		head = (struct host_message){ .magic = HOST_MESSAGE_MAGIC, .type = fuzz_u8(&in), .generation = 1 };
		head.flags = fuzz_u8(&in) % 4;
		head.number = fuzz_u8(&in);
		head.body_bytes = (uint32_t)in.left + (how & 0x20 ? (uint32_t)fuzz_u8(&in) : 0);
	} else {
		fuzz_take(&in, &head, sizeof head);
	}
	FUZZ_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	FUZZ_MUST(host_incoming_init(&incoming, &e) == 0);
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = make_fd((uint8_t)(kinds >> 2 * i), in.at, in.left);
	if (how & 0x40)
		(void)fd_message_send(pair[0], data, size, fds, n_fds);
	else
		(void)fd_message_send2(pair[0], &head, sizeof head, in.at, how & 0x80 ? 0 : in.left, fds, n_fds);
	if (size % 5 == 0)
		FUZZ_MUST(shutdown(pair[0], SHUT_WR) == 0);
	rc = host_receive(pair[1], &incoming, &e);
	if (rc == 1) {
		FUZZ_MUST(incoming.head.body_bytes <= LIMIT_BODY_BYTES && incoming.body[incoming.head.body_bytes] == '\0');
		FUZZ_MUST((incoming.state_fd >= 0) == !!(incoming.head.flags & HOST_F_STATE));
		if (size % 5 != 0)
			send_on(pair, &incoming);
	} else if (rc == -1) {
		fuzz_refused(&e);
	}
	while (n_fds > 0)
		fd_close(&fds[--n_fds]);
	host_incoming_fini(&incoming);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
