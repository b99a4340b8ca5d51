/* SPDX-License-Identifier: MIT
 *
 * Control's end of a host's channel against a host that doesn't read, or says too much: what one of them may hold and take, to the message.
 * The host is this test, at the other end of the pair. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/sandbox/host_link.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "tests/support/check_main.h"

#define GENERATION 7u

static uv_loop_t loop;
static struct host_link host_link;
static int host_fd, pipes[2][2];
static unsigned n_messages, n_writable;
static uint64_t n_bytes, n_output;
static bool is_closed;

static bool on_awaits(struct host_link *l, uint64_t number)
{
	(void)l, (void)number;
	return true;
}

static void on_message(struct host_link *l, const struct host_message *head, const char *body)
{
	(void)l, (void)body;
	ck_assert_uint_eq(head->number, ++n_messages);
	n_bytes += head->body_bytes;
}

static void on_output(struct host_link *l, enum log_stream stream, const char *data, size_t size)
{
	(void)l, (void)stream, (void)data;
	n_output += size;
}

static void on_writable(struct host_link *l)
{
	(void)l;
	n_writable++;
}

static void on_broken(struct host_link *l, const char *why)
{
	(void)l;
	if (host_fd == -1 && !why)
		return;
	ck_abort_msg("broken: %s", why ? why : "end of file");
}

static bool on_expects(struct host_link *l)
{
	(void)l;
	return true;
}

static const struct host_link_owner owner = { on_awaits, on_expects, on_message, on_output, on_writable, on_broken };

static void begin(void)
{
	struct err e = ERR_INIT;
	int channel[2];

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, channel), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pipe2(pipes[i], O_CLOEXEC), 0);
	host_fd = channel[1];
	ck_assert_int_eq(host_link_open(&host_link, &loop, GENERATION, channel[0], pipes[0][0], pipes[1][0], &owner, NULL, &e), 0);
}

static void on_closed(struct host_link *l)
{
	(void)l;
	is_closed = true;
}

static void end(void)
{
	host_link_close(&host_link, on_closed);
	while (!is_closed)
		(void)uv_run(&loop, UV_RUN_ONCE);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	fd_close(&host_fd);
	for (int i = 0; i < 2; i++)
		fd_close(&pipes[i][1]);
}

static void turn(void)
{
	(void)uv_run(&loop, UV_RUN_NOWAIT);
}

/* The next message that control has sent; false: there is none now. */
static bool host_takes(struct host_message *ret)
{
	char data[sizeof *ret + 64];
	ssize_t n = recv(host_fd, data, sizeof data, 0);

	if (n == -1)
		return false;
	ck_assert_int_ge(n, (ssize_t)sizeof *ret);
	memcpy(ret, data, sizeof *ret);
	ck_assert_uint_eq(ret->magic, HOST_MESSAGE_MAGIC);
	return true;
}

static void host_says(uint64_t number, size_t body_bytes)
{
	static char body[LIMIT_BODY_BYTES];
	struct host_message head = { .type = HOST_REPLY, .generation = GENERATION, .number = number, .sequence = number };
	struct err e = ERR_INIT;

	memset(body, ' ', sizeof body);
	body[0] = '1';
	ck_assert_msg(host_send(host_fd, &head, body, body_bytes, -1, &e) == 0, "message %lu: %s", (unsigned long)number, e.text);
}

START_TEST(messages_to_a_host_that_does_not_read)
{
	struct host_message m;
	uint64_t sent = 0, taken = 0;

	begin();
	while (host_link_send(&host_link, HOST_QUERY, sent + 1, 0, "{}", 2, -1) == 0)
		ck_assert_uint_lt(++sent, 100000);
	/* All that the socket takes, and so many more; then the sender is told, and nothing grows. */
	ck_assert_uint_eq(host_link.n_out, LIMIT_HOST_MESSAGES_WAITING);
	ck_assert_uint_gt(sent, LIMIT_HOST_MESSAGES_WAITING);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(host_link_send(&host_link, HOST_QUERY, 1, 0, NULL, 0, -1), -1);
	ck_assert_uint_eq(host_link.n_out, LIMIT_HOST_MESSAGES_WAITING);
	ck_assert_int_eq(host_link_call(&host_link, 1, false, "f", "{}", 2), 1); /* calls wait with their owner */
	ck_assert(!host_link.broken);
	/* It reads: each comes once, in order, and then there is room again. */
	eventually(({
		while (host_takes(&m))
			ck_assert_uint_eq(m.number, ++taken);
		turn();
		taken == sent;
	}));
	ck_assert_uint_eq(host_link.n_out, 0);
	ck_assert_uint_eq(n_writable, 1);
	ck_assert_int_eq(host_link_send(&host_link, HOST_QUERY, sent + 1, 0, NULL, 0, -1), 0);
	ck_assert(host_takes(&m));
	ck_assert_uint_eq(m.number, sent + 1);
	end();
}
END_TEST

/* Large bodies: a turn of the loop ends with the one that makes it as much as a turn may scan. */
START_TEST(bytes_of_one_turn)
{
	const size_t body = 200000;
	const unsigned per_turn = (LIMIT_HOST_BYTES_PER_TURN + body - 1) / body;

	begin();
	for (unsigned i = 1; i <= 3 * per_turn - 1; i++)
		host_says(i, body);
	for (unsigned i = 1; i <= 2; i++) {
		turn();
		ck_assert_uint_eq(n_messages, i * per_turn);
		ck_assert_uint_lt(n_bytes, i * (LIMIT_HOST_BYTES_PER_TURN + body));
	}
	turn();
	ck_assert_uint_eq(n_messages, 3 * per_turn - 1);
	end();
}
END_TEST

/* Of a host that has ended: what its pipes hold is read, and who else holds one is seen. */
START_TEST(pipes_that_somebody_else_holds)
{
	for (unsigned held = 0; held < 4; held++) {
		is_closed = false;
		n_output = 0;
		begin();
		host_link_read_output(&host_link);
		for (int i = 0; i < 2; i++) {
			ck_assert_int_eq(write(pipes[i][1], "words", 5), 5);
			if (!(held & (i == 0 ? HOST_LINK_STDOUT : HOST_LINK_STDERR)))
				fd_close(&pipes[i][1]);
		}
		fd_close(&host_fd);
		ck_assert_uint_eq(host_link_drain(&host_link), held);
		ck_assert_uint_eq(n_output, 10);
		ck_assert_uint_eq(host_link_drain(&host_link), held); /* nothing is taken from it by looking */
		end();
	}
}
END_TEST

START_TEST(messages_of_one_turn)
{
	begin();
	for (unsigned i = 1; i <= LIMIT_HOST_MESSAGES_PER_TURN + 10; i++)
		host_says(i, 1);
	turn();
	ck_assert_uint_eq(n_messages, LIMIT_HOST_MESSAGES_PER_TURN);
	turn();
	ck_assert_uint_eq(n_messages, LIMIT_HOST_MESSAGES_PER_TURN + 10);
	end();
}
END_TEST

CHECK_MAIN("host_link", tcase_add_test(tc, messages_to_a_host_that_does_not_read); tcase_add_test(tc, bytes_of_one_turn);
	tcase_add_test(tc, pipes_that_somebody_else_holds); tcase_add_test(tc, messages_of_one_turn))
