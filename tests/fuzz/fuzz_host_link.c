/* SPDX-License-Identifier: MIT
 *
 * What a hostile host sends on its channel: control's end, with an owner that checks what is promised to it. The input is a
 * row of messages, some with a proper header, some of plain bytes, some with descriptors that may be what they should or not. */
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/fd.h"

#define GENERATION 7u

static unsigned n_messages, n_broken;

static void on_message(struct host_link *l, const struct host_message *head, const char *body)
{
	struct err e = ERR_INIT;
	char step[32];

	FUZZ_MUST(!l->broken && head->generation == GENERATION);
	FUZZ_MUST(head->type >= HOST_REPORT && head->type < HOST_TO_CONTROL__N && head->body_bytes <= LIMIT_BODY_BYTES);
	FUZZ_MUST(body[head->body_bytes] == '\0');
	if (head->type != HOST_DEATH && head->body_bytes > 0)
		fuzz_is_json(body, head->body_bytes);
	if (head->type != HOST_DEATH) {
		error_from_host(&e, step, head, body, ERR_MODULE_ERROR);
		fuzz_refused(&e);
		FUZZ_MUST(strnlen(step, sizeof step) < sizeof step);
	}
	n_messages++;
}

static void on_output(struct host_link *l, enum log_stream stream, const char *data, size_t size)
{
	(void)l, (void)stream, (void)data;
	FUZZ_MUST(size > 0);
}

static void on_writable(struct host_link *l)
{
	(void)l;
}

static void on_broken(struct host_link *l, const char *why)
{
	FUZZ_MUST(l->broken && (why == NULL || why[0] != '\0'));
	n_broken++;
}

static bool on_awaits(struct host_link *l, uint64_t number)
{
	(void)l;
	return (number & 7) != 7;
}

static bool on_expects(struct host_link *l)
{
	(void)l;
	return true;
}

static const struct host_link_owner owner = { on_awaits, on_expects, on_message, on_output, on_writable, on_broken };
static bool is_closed;

static void closed(struct host_link *l)
{
	(void)l;
	is_closed = true;
}

/* One message of the input. */
static void send_one(int fd, struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in), type = fuzz_u8(in);
	size_t n = fuzz_u16(in) % 600, used;
	char data[sizeof(struct host_message) + 600];
	struct host_message head = { .magic = HOST_MESSAGE_MAGIC, .generation = GENERATION, .number = type >> 4 };
	int fds[2];
	size_t n_fds = 0;

	n = n < in->left ? n : in->left;
	head.type = how & 8 ? type : (uint16_t)(HOST_REPORT + type % (HOST_TO_CONTROL__N - HOST_REPORT));
	head.status = how >> 7;
	head.sequence = n;
	head.body_bytes = (uint32_t)n;
	if ((how & 7) == 1)
		head.generation++;
	if ((how & 7) == 2)
		head.body_bytes = fuzz_u32(in);
	if ((how & 7) == 3) { /* the body by memfd, sealed or not */
		head.flags |= HOST_F_BODY_FD;
		fds[n_fds++] = fd_memfd("body", in->at, n < in->left ? n : in->left, type & 0x10);
		n = type & 0x20 ? n : 0;
	}
	if ((how & 7) == 4)
		fds[n_fds++] = dup(STDERR_FILENO);
	if ((how & 7) == 5)
		head.flags = fuzz_u16(in);
	n = n < in->left ? n : in->left;
	used = sizeof head;
	memcpy(data, &head, sizeof head);
	if ((how & 7) == 6) /* plain bytes, shorter than a header too */
		used = 0;
	if (n > 0)
		memcpy(data + used, in->at, n);
	in->at += n;
	in->left -= n;
	(void)fd_message_send(fd, data, used + n, fds, n_fds);
	while (n_fds > 0)
		fd_close(&fds[--n_fds]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uv_loop_t loop;
	static bool is_ready;
	struct fuzz_in in = { data, size };
	struct err e = ERR_INIT;
	struct host_link l;
	int channel[2], out[2], error[2];

	if (!is_ready)
		FUZZ_MUST(uv_loop_init(&loop) == 0);
	is_ready = true;
	FUZZ_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, channel) == 0);
	FUZZ_MUST(pipe(out) == 0 && pipe(error) == 0);
	FUZZ_MUST(host_link_open(&l, &loop, GENERATION, channel[0], out[0], error[0], &owner, NULL, &e) == 0);
	host_link_read_output(&l);
	n_messages = n_broken = 0;
	while (in.left > 0) {
		send_one(channel[1], &in);
		if (in.left > 0 && (in.at[0] & 0x40)) {
			(void)!write(out[1], data, size < 100 ? size : 100);
			(void)uv_run(&loop, UV_RUN_NOWAIT);
			(void)host_link_send(&l, HOST_QUERY, n_messages, 0, NULL, 0, -1);
			(void)host_link_call(&l, n_messages, false, "f", "{}", 2);
		}
	}
	if (size % 7 == 0) { /* more calls than the channel takes, then room again */
		char waste[64];

		for (int i = 0; i < 400 && host_link_call(&l, 1, true, "f", "{}", 2) == 0; i++)
			;
		(void)host_link_send(&l, HOST_STOP, 0, 0, "{}", 2, STDERR_FILENO);
		while (recv(channel[1], waste, sizeof waste, 0) > 0)
			;
	}
	if (size % 3 == 0)
		close(out[1]);
	if (size % 2 == 0)
		close(channel[1]);
	for (int i = 0; i < 3; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	(void)host_link_drain(&l);
	FUZZ_MUST(n_broken <= 1 && (n_broken == 1) == l.broken);
	is_closed = false;
	host_link_close(&l, closed);
	while (!is_closed)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	if (size % 2 != 0)
		close(channel[1]);
	if (size % 3 != 0)
		close(out[1]);
	close(error[1]);
	return 0;
}
