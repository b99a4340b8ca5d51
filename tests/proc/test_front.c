/* SPDX-License-Identifier: MIT
 *
 * The front with its I/O: a real loop, a real listening socket in a temporary folder, clients in the same process that take
 * turns with the loop. The handlers are ours: some answer at once, some keep the request, one answers with a megabyte. */
#include <errno.h>
#include <poll.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/front/listener.h"
#include "daemon/front/rpc.h"
#include "daemon/front/rpc_peer.h"
#include "daemon/store/blob.h"
#include "daemon/store/storage.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "tests/support/check_main.h"

#define BIG_BYTES (1u << 20)

static uv_loop_t loop;
static struct control control;
static char folder[64], path[80];
static struct rpc_request *kept[256];
static size_t n_kept;
static int n_run;
static bool is_closed;   /* the listener */
static bool is_stopped;  /* the storage thread */

/* ---- handlers ---- */

static const struct rpc_done *handle_at_once(struct control *c, struct rpc_request *r)
{
	(void)c;
	n_run++;
	ck_assert_uint_eq(rpc_uid(r), getuid());
	return rpc_result_raw(r, "{}", 2);
}

static const struct rpc_done *handle_keep(struct control *c, struct rpc_request *r)
{
	(void)c;
	n_run++;
	kept[n_kept++] = r;
	return rpc_pending(r);
}

static const struct rpc_done *handle_big(struct control *c, struct rpc_request *r)
{
	static char big[BIG_BYTES];

	(void)c;
	n_run++;
	memset(big, 'x', sizeof(big));
	big[0] = big[sizeof(big) - 1] = '"';
	return rpc_result_raw(r, big, sizeof(big));
}

static void on_closed(void *ctx)
{
	ck_assert_ptr_eq(ctx, &control);
	is_closed = true;
}

static const struct rpc_done *handle_shutdown(struct control *c, struct rpc_request *r)
{
	c->shutting_down = true;
	listener_close(c->listener, on_closed, c);
	c->listener = NULL;
	return rpc_result_raw(r, "{\"stopping\":true}", 17);
}

/* How many bytes were uploaded under the hash `object`? */
static const struct rpc_done *handle_upload_size(struct control *c, struct rpc_request *r)
{
	struct blob *b = rpc_upload(r, rpc_text(r, "object"));
	char text[32];

	(void)c;
	(void)snprintf(text, sizeof(text), "%ld", b ? (long)b->size : -1);
	blob_unref(b);
	return rpc_result_raw(r, text, strlen(text));
}

/* As if this user had uploaded all that a user may, or no more. */
static const struct rpc_done *handle_fill_up(struct control *c, struct rpc_request *r)
{
	uint64_t *bytes = &r->peer->user->upload_bytes;

	(void)c;
	*bytes = *bytes == 0 ? LIMIT_UPLOAD_BYTES_PER_UID : 0;
	return rpc_result_raw(r, "1", 1);
}

rpc_handler *const rpc_handlers[METHOD__N] = {
	[METHOD_DAEMON_PING] = handle_at_once,
	[METHOD_DAEMON_INFO] = handle_at_once,
	[METHOD_DAEMON_SHUTDOWN] = handle_shutdown,
	[METHOD_OBJECT_PUT] = uploads_put,
	[METHOD_SANDBOX_CREATE] = handle_upload_size,
	[METHOD_SANDBOX_DESTROY] = handle_at_once,
	[METHOD_SANDBOX_START] = handle_at_once,
	[METHOD_SANDBOX_STOP] = handle_at_once,
	[METHOD_SANDBOX_RESTART] = handle_at_once,
	[METHOD_SANDBOX_LIST] = handle_at_once,
	[METHOD_SANDBOX_INFO] = handle_at_once,
	[METHOD_SANDBOX_CALL] = handle_keep,
	[METHOD_SANDBOX_RELOAD] = handle_at_once,
	[METHOD_SANDBOX_ROLLBACK] = handle_at_once,
	[METHOD_VERSION_LIST] = handle_fill_up,
	[METHOD_VERSION_COMMIT] = handle_at_once,
	[METHOD_LOG_READ] = handle_big,
	[METHOD_EVENT_READ] = handle_at_once,
	[METHOD_AUDIT_READ] = handle_at_once,
	[METHOD_DAEMON_DOCTOR] = handle_at_once,
	[METHOD_SANDBOX_USAGE] = handle_at_once,
};

/* ---- the daemon's side ---- */

static bool pump(void)
{
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	return true;
}

#define soon(cond) eventually(pump() && (cond))

static int listen_at(const char *at)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", at);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(listen(fd, 128), 0);
	return fd;
}

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");
	struct err e;

	(void)snprintf(folder, sizeof(folder), "%.40s/front-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	control = (struct control){ .loop = &loop, .begin = { .daemon_uid = getuid() } };
	ck_assert_msg(storage_start(&loop, folder, &control.storage, &e) == 0, "%s", e.text);
	ck_assert_msg(listener_start(&control, listen_at(path), &control.listener, &e) == 0, "%s", e.text);
}

static void on_stopped(void *ctx)
{
	(void)ctx;
	is_stopped = true;
}

static void end(void)
{
	if (control.listener)
		listener_close(control.listener, on_closed, &control);
	soon(is_closed);
	ck_assert_int_eq(access(path, F_OK), 0); /* the socket is the spawner's: nobody else unlinks it */
	storage_stop(control.storage, on_stopped, NULL);
	soon(is_stopped);
	pump();
	ck_assert_int_eq(uv_loop_close(&loop), 0); /* no handle is left */
	(void)unlink(path);
	ck_assert_int_eq(rmdir(folder), 0);
}

static unsigned n_connections(void)
{
	struct listener_counters n;

	listener_count(control.listener, &n);
	return n.connections;
}

static uint64_t listener_partial_bytes(void)
{
	struct listener_counters n;

	listener_count(control.listener, &n);
	return n.partial_bytes;
}

static uint64_t n_refused(void)
{
	struct listener_counters n;

	listener_count(control.listener, &n);
	return n.refused;
}

/* ---- clients ---- */

struct client {
	int fd;
	struct buf in;
	size_t taken;
	bool is_eof;
};

static void client_open(struct client *c)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	*c = (struct client){ .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	ck_assert_int_ge(c->fd, 0);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	ck_assert_int_eq(connect(c->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(fd_set_nonblocking(c->fd, true), 0);
}

static void client_close(struct client *c)
{
	fd_close(&c->fd);
	buf_fini(&c->in);
}

/* Sends as far as it goes while the loop runs. */
static void client_send_n(struct client *c, const char *data, size_t n)
{
	long until = test_now_ms() + 10000 * test_multiplier();

	while (n > 0) {
		ssize_t sent = send(c->fd, data, n, MSG_NOSIGNAL);

		if (sent > 0) {
			data += sent;
			n -= (size_t)sent;
			continue;
		}
		ck_assert_msg(sent < 0 && errno == EAGAIN, "send: %s", strerror(errno));
		ck_assert_msg(test_now_ms() < until, "never sent");
		pump();
	}
}

static void client_send(struct client *c, const char *text)
{
	client_send_n(c, text, strlen(text));
}

static void client_receive(struct client *c)
{
	char bytes[65536];
	ssize_t n;

	while ((n = recv(c->fd, bytes, sizeof(bytes), 0)) > 0)
		buf_add(&c->in, bytes, (size_t)n);
	if (n == 0 || errno == ECONNRESET)
		c->is_eof = true;
	else
		ck_assert_int_eq(errno, EAGAIN);
}

static char *line_end(struct client *c)
{
	client_receive(c);
	return c->in.size > c->taken ? memchr(c->in.data + c->taken, '\n', c->in.size - c->taken) : NULL;
}

/* The next line, NUL in place of its newline. */
static const char *client_line(struct client *c)
{
	char *line, *newline = NULL;

	soon((newline = line_end(c)) || c->is_eof);
	ck_assert_msg(newline != NULL, "the connection ended without a line");
	line = c->in.data + c->taken;
	*newline = '\0';
	c->taken = (size_t)(newline - c->in.data) + 1;
	return line;
}

static void client_eof(struct client *c)
{
	soon((client_receive(c), c->is_eof));
	ck_assert_uint_eq(c->in.size, c->taken);
}

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"daemon.ping\"}\n"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define CALL(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"sandbox.call\",\"params\":{\"id\":\"a\",\"function\":\"f\"}}\n"
#define BIG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"log.read\",\"params\":{\"id\":\"a\"}}\n"

static void expect_pong(struct client *c)
{
	client_send(c, PING("77"));
	ck_assert_str_eq(client_line(c), PONG("77"));
}

static void expect_code(const char *line, const char *code)
{
	char wanted[64];

	(void)snprintf(wanted, sizeof(wanted), "\"data\":{\"code\":\"%s\"", code);
	ck_assert_msg(strstr(line, wanted), "not %s: %s", code, line);
}

/* ---- lines ---- */

START_TEST(one_byte_at_a_time)
{
	static const char text[] = "\n" PING("1") "\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"daemon.ping\"}\r\n";
	struct client c;

	begin();
	client_open(&c);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		client_send_n(&c, text + i, 1);
		pump();
	}
	ck_assert_str_eq(client_line(&c), PONG("1"));
	ck_assert_str_eq(client_line(&c), PONG("2"));
	client_close(&c);
	end();
}
END_TEST

START_TEST(answers_come_out_of_order)
{
	struct client c;

	begin();
	client_open(&c);
	client_send(&c, CALL("1") CALL("2") PING("3") "[" "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"daemon.ping\"}]\n");
	ck_assert_str_eq(client_line(&c), PONG("3"));
	ck_assert_str_eq(client_line(&c), "[" PONG("4") "]");
	ck_assert_uint_eq(n_kept, 2);
	(void)rpc_result_raw(kept[1], "2", 1);
	ck_assert_str_eq(client_line(&c), "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":2}");
	(void)rpc_result_raw(kept[0], "1", 1);
	ck_assert_str_eq(client_line(&c), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}");
	client_close(&c);
	end();
}
END_TEST

/* A ping of exactly so many bytes, and its newline. */
static char *padded_ping(size_t size)
{
	static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\"}";
	char *text = malloc(size + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, ' ', size);
	memcpy(text, ping, sizeof(ping) - 2);
	text[size - 1] = '}';
	text[size] = '\n';
	return text;
}

START_TEST(a_mebibyte_and_no_more)
{
	struct client c;
	char *exact = padded_ping(LIMIT_REQUEST_BYTES), *more = padded_ping(LIMIT_REQUEST_BYTES + 1);

	begin();
	client_open(&c);
	client_send_n(&c, exact, LIMIT_REQUEST_BYTES + 1);
	ck_assert_str_eq(client_line(&c), PONG("1"));
	client_send_n(&c, more, LIMIT_REQUEST_BYTES + 2);
	for (int i = 0; i < 4; i++) /* the client isn't stopped in the middle, so that it comes to read why */
		client_send_n(&c, exact, LIMIT_REQUEST_BYTES + 1);
	expect_code(client_line(&c), "request_too_large");
	client_eof(&c);
	client_close(&c);
	soon(n_connections() == 0);
	ck_assert_int_eq(n_run, 1);
	free(exact);
	free(more);
	end();
}
END_TEST

START_TEST(pending_answers_come_before_the_end)
{
	struct client c;
	char *more = padded_ping(LIMIT_REQUEST_BYTES + 1);

	begin();
	client_open(&c);
	client_send(&c, CALL("1"));
	client_send_n(&c, more, LIMIT_REQUEST_BYTES + 2);
	expect_code(client_line(&c), "request_too_large");
	(void)rpc_result_raw(kept[0], "1", 1);
	ck_assert_str_eq(client_line(&c), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}");
	client_eof(&c);
	client_close(&c);
	free(more);
	end();
}
END_TEST

START_TEST(refused_clients_may_linger_only_so_long)
{
	struct client c;
	char *more = padded_ping(LIMIT_REQUEST_BYTES + 1);

	begin();
	listener_set_caps(control.listener, &(struct listener_caps){ .linger_ms = 20 });
	client_open(&c);
	client_send_n(&c, more, LIMIT_REQUEST_BYTES + 2);
	expect_code(client_line(&c), "request_too_large");
	soon(n_connections() == 0); /* although the client keeps its end open */
	client_close(&c);
	free(more);
	end();
}
END_TEST

START_TEST(half_a_line_then_silence)
{
	struct client half, quiet, busy;

	begin();
	listener_set_caps(control.listener, &(struct listener_caps){ .idle_partial_line_ms = 30 });
	client_open(&half);
	client_open(&quiet);
	client_open(&busy);
	expect_pong(&quiet);
	client_send(&busy, CALL("1"));
	soon(n_kept == 1);
	client_send(&half, "{\"jsonrpc\":");
	expect_code(client_line(&half), "timeout");
	client_eof(&half);
	client_close(&half);
	/* a trickle is silence too: it doesn't end before the line does */
	client_open(&half);
	client_send(&half, "{");
	for (int i = 0; i < 400; i++) {
		struct pollfd answered = { half.fd, POLLIN, 0 };

		if (poll(&answered, 1, 2) > 0 || send(half.fd, " ", 1, MSG_NOSIGNAL) != 1)
			break;
		ck_assert_int_lt(i, 399);
	}
	expect_code(client_line(&half), "timeout");
	client_eof(&half);
	expect_pong(&quiet); /* silence between lines is no fault */
	(void)rpc_result_raw(kept[0], "1", 1);
	ck_assert_str_eq(client_line(&busy), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}");
	client_close(&half);
	client_close(&quiet);
	client_close(&busy);
	end();
}
END_TEST

/* ---- ends ---- */

START_TEST(close_in_mid_reply)
{
	struct client c;
	char some[100];

	begin();
	client_open(&c);
	client_send(&c, BIG("1") BIG("2") CALL("3"));
	soon(recv(c.fd, some, sizeof(some), 0) == (ssize_t)sizeof(some));
	client_close(&c);
	soon(n_connections() == 0);
	ck_assert_uint_eq(n_kept, 1);
	ck_assert(rpc_is_gone(kept[0]));
	(void)rpc_result_raw(kept[0], "1", 1);
	client_open(&c);
	expect_pong(&c);
	client_close(&c);
	end();
}
END_TEST

START_TEST(a_client_that_is_gone_is_noticed)
{
	struct client c;

	begin();
	client_open(&c);
	client_send(&c, CALL("1") "[{},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sandbox.call\",\"params\":{\"id\":\"a\",\"function\":\"f\"}}]\n");
	soon(n_kept == 2);
	client_close(&c);
	soon(n_connections() == 0); /* not only when an answer can't be written */
	ck_assert(rpc_is_gone(kept[0]) && rpc_is_gone(kept[1]));
	(void)rpc_result_raw(kept[0], "1", 1);
	(void)rpc_result_raw(kept[1], "1", 1);
	end();
}
END_TEST

static size_t n_told;

static void told_gone(void *ctx, struct rpc_request *r)
{
	ck_assert_ptr_eq(ctx, &n_told);
	ck_assert(rpc_is_gone(r));
	n_told++;
	(void)rpc_result_raw(r, "1", 1);
}

/* With as many open as may be nothing is read, so not its end either. */
START_TEST(a_hangup_is_noticed_while_nothing_is_read)
{
	struct client c;

	begin();
	for (int half = 0; half < 2; half++) {
		n_kept = n_told = 0;
		client_open(&c);
		for (int i = 0; i < 2 * LIMIT_IN_FLIGHT; i++)
			client_send(&c, CALL("1"));
		soon(n_kept == LIMIT_IN_FLIGHT);
		(void)rpc_result_raw(kept[0], "1", 1); /* watched once, read again, watched again */
		soon(n_kept == LIMIT_IN_FLIGHT + 1);
		for (size_t i = 1; i < n_kept; i++)
			rpc_on_gone(kept[i], told_gone, &n_told);
		if (half) {
			ck_assert_int_eq(shutdown(c.fd, SHUT_WR), 0);
			for (int i = 0; i < 10; i++)
				pump();
			ck_assert_uint_eq(n_connections(), 1); /* it reads still */
		}
		client_close(&c);
		soon(n_connections() == 0);
		ck_assert_uint_eq(n_told, LIMIT_IN_FLIGHT);
	}
	end();
}
END_TEST

START_TEST(half_closed_clients_get_their_answers)
{
	struct client c;

	begin();
	client_open(&c);
	client_send(&c, CALL("1") PING("2"));
	ck_assert_int_eq(shutdown(c.fd, SHUT_WR), 0);
	ck_assert_str_eq(client_line(&c), PONG("2"));
	ck_assert_uint_eq(n_connections(), 1);
	(void)rpc_result_raw(kept[0], "1", 1);
	ck_assert_str_eq(client_line(&c), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}");
	client_eof(&c);
	client_close(&c);
	end();
}
END_TEST

START_TEST(half_closed_after_many)
{
	struct client c;

	begin();
	client_open(&c);
	for (int i = 0; i < 500; i++)
		client_send(&c, PING("1"));
	ck_assert_int_eq(shutdown(c.fd, SHUT_WR), 0);
	for (int i = 0; i < 500; i++)
		ck_assert_str_eq(client_line(&c), PONG("1"));
	client_eof(&c);
	client_close(&c);
	end();
}
END_TEST

START_TEST(the_last_line_needs_its_newline)
{
	struct client c;

	begin();
	client_open(&c);
	client_send(&c, PING("1") "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"daemon.ping\"}");
	ck_assert_int_eq(shutdown(c.fd, SHUT_WR), 0);
	ck_assert_str_eq(client_line(&c), PONG("1"));
	expect_code(client_line(&c), "parse_error");
	client_eof(&c);
	ck_assert_int_eq(n_run, 1);
	client_close(&c);
	end();
}
END_TEST

/* ---- limits ---- */

START_TEST(only_so_many_unanswered)
{
	struct client c, other;
	size_t answered = 0;

	begin();
	client_open(&c);
	client_open(&other);
	for (int i = 0; i < 100; i++)
		client_send(&c, CALL("1"));
	soon(n_kept == LIMIT_IN_FLIGHT);
	expect_pong(&other);
	ck_assert_uint_eq(n_kept, LIMIT_IN_FLIGHT);
	while (answered < 100) {
		(void)rpc_result_raw(kept[answered++], "1", 1);
		ck_assert_str_eq(client_line(&c), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}");
		soon(n_kept == (answered + LIMIT_IN_FLIGHT < 100 ? answered + LIMIT_IN_FLIGHT : 100));
	}
	client_close(&c);
	client_close(&other);
	end();
}
END_TEST

START_TEST(only_so_many_lines_in_a_turn)
{
	struct buf all = BUF_INIT;
	struct client c;
	int before = 0;

	begin();
	client_open(&c);
	for (int i = 0; i < 300; i++)
		buf_add_text(&all, PING("1"));
	client_send_n(&c, all.data, all.size); /* at once: the loop doesn't run yet */
	ck_assert_int_eq(n_run, 0);
	buf_fini(&all);
	for (int turns = 0; n_run < 300; turns++) {
		pump();
		ck_assert_int_le(n_run - before, LIMIT_REQUESTS_PER_TURN);
		ck_assert_int_lt(turns, 1000);
		before = n_run;
	}
	for (int i = 0; i < 300; i++)
		ck_assert_str_eq(client_line(&c), PONG("1"));
	client_close(&c);
	end();
}
END_TEST

#define BIG_REPLY (BIG_BYTES + strlen("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":}"))

START_TEST(who_does_not_read_is_not_read)
{
	struct client c;

	begin();
	client_open(&c);
	for (int i = 0; i < 60; i++)
		client_send(&c, BIG("1"));
	for (int i = 0; i < 20; i++)
		pump();
	ck_assert_int_ge(n_run, 1);
	ck_assert_uint_le((uint64_t)n_run * BIG_BYTES, LIMIT_CONNECTION_BACKLOG_BYTES + BIG_BYTES); /* the rest waits with its sender */
	ck_assert_uint_eq(n_connections(), 1);
	for (int i = 0; i < 60; i++)
		ck_assert_uint_eq(strlen(client_line(&c)), BIG_REPLY);
	ck_assert_int_eq(n_run, 60);
	expect_pong(&c);
	client_close(&c);
	end();
}
END_TEST

static void answer_big(struct rpc_request *r)
{
	struct control *c = &control;

	(void)handle_big(c, r);
}

/* All that a connection may have open is answered in one turn, with the largest replies of a module. */
START_TEST(who_reads_gets_all_that_came_due_at_once)
{
	struct client c;

	begin();
	client_open(&c);
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		client_send(&c, CALL("1"));
	soon(n_kept == LIMIT_IN_FLIGHT);
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		answer_big(kept[i]);
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		ck_assert_uint_eq(strlen(client_line(&c)), BIG_REPLY);
	expect_pong(&c);
	client_close(&c);
	end();
}
END_TEST

START_TEST(unread_replies_of_a_user_are_limited)
{
	struct client c[7], reads;
	size_t n = 0;
	unsigned open = 0;

	begin();
	client_open(&reads);
	expect_pong(&reads);
	for (int i = 0; i < 7; i++) {
		client_open(&c[i]);
		for (int j = 0; j < LIMIT_IN_FLIGHT; j++)
			client_send(&c[i], CALL("1"));
		soon(n_kept == (size_t)(i + 1) * LIMIT_IN_FLIGHT);
		while (n < n_kept)
			answer_big(kept[n++]);
		pump();
		expect_pong(&reads);
	}
	ck_assert_uint_le((uint64_t)(n_connections() - 1) * LIMIT_IN_FLIGHT * BIG_BYTES, LIMIT_REPLY_BYTES_PER_UID);
	ck_assert_uint_eq(n_connections() - 1, 3);
	for (int i = 0; i < 3; i++) /* nothing of theirs is lost */
		for (int j = 0; j < LIMIT_IN_FLIGHT; j++)
			ck_assert_uint_eq(strlen(client_line(&c[i])), BIG_REPLY);
	for (int i = 0; i < 7; i++) {
		soon((client_receive(&c[i]), c[i].is_eof || i < 3));
		open += !c[i].is_eof;
		client_close(&c[i]);
	}
	ck_assert_uint_eq(open, 3);
	soon(n_connections() == 1);
	client_open(&c[0]); /* there is room again */
	for (int i = 0; i < 4; i++)
		client_send(&c[0], BIG("1"));
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(strlen(client_line(&c[0])), BIG_REPLY);
	client_close(&c[0]);
	client_close(&reads);
	end();
}
END_TEST

/* Replies to a batch that isn't whole count as well. */
START_TEST(replies_in_batches_count)
{
	static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.call\",\"params\":{\"id\":\"a\",\"function\":\"f\"}}";
	struct client c[20];
	struct buf batch = BUF_INIT;

	begin();
	buf_add_char(&batch, '[');
	for (int i = 0; i < 9; i++) {
		buf_add_text(&batch, i ? "," : "");
		buf_add_text(&batch, call);
	}
	buf_add_text(&batch, "]\n");
	for (size_t i = 0; i < 20; i++) {
		client_open(&c[i]);
		client_send_n(&c[i], batch.data, batch.size);
		soon(n_kept == 9 * (i + 1));
		for (size_t j = 0; j < 7; j++)
			answer_big(kept[9 * i + j]);
		pump();
	}
	ck_assert_uint_le((uint64_t)n_connections() * 7 * BIG_BYTES, LIMIT_REPLY_BYTES_PER_UID);
	ck_assert_uint_ge(n_connections(), 17);
	for (size_t i = 0; i < 20; i++) {
		answer_big(kept[9 * i + 7]);
		answer_big(kept[9 * i + 8]);
		client_close(&c[i]);
	}
	buf_fini(&batch);
	end();
}
END_TEST

static void send_call_of(struct client *c, size_t size)
{
	static char pad[1000000];

	memset(pad, 'x', size);
	client_send(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.call\",\"params\":{\"id\":\"a\",\"function\":\"f\",\"args\":{\"p\":\"");
	client_send_n(c, pad, size);
	client_send(c, "\"}}}\n");
}

static void send_large_call(struct client *c)
{
	send_call_of(c, 1000000);
}

START_TEST(requests_of_a_user_are_limited)
{
	struct client c[3], later;
	size_t most = LIMIT_REQUEST_BYTES_PER_UID / 1000000;

	begin();
	for (int i = 0; i < 2; i++) {
		client_open(&c[i]);
		for (int j = 0; j < 30; j++)
			send_large_call(&c[i]);
		expect_pong(&c[i]);
	}
	ck_assert_uint_eq(n_kept, 60);
	client_open(&c[2]);
	for (size_t i = 60; i < 70; i++)
		send_large_call(&c[2]);
	for (size_t i = most; i < 70; i++)
		expect_code(client_line(&c[2]), "busy");
	ck_assert_uint_le(n_kept, most);
	expect_pong(&c[2]); /* small ones go on */
	client_send(&c[2], CALL("2"));
	soon(n_kept == most + 1);
	for (int i = 0; i < 3; i++)
		client_close(&c[i]);
	soon(n_connections() == 0);
	client_open(&later); /* those are unanswered still: they count */
	send_large_call(&later);
	expect_code(client_line(&later), "busy");
	client_close(&later);
	soon(n_connections() == 0);
	for (size_t i = 0; i < n_kept; i++)
		(void)rpc_result_raw(kept[i], "1", 1);
	n_kept = 0;
	client_open(&later);
	send_large_call(&later);
	soon(n_kept == 1);
	client_close(&later);
	soon(n_connections() == 0);
	end();
	(void)rpc_result_raw(kept[0], "1", 1); /* its user was kept for it beyond the listener */
}
END_TEST

/* Half lines of many connections: the one that makes it too much ends, the others are as they were, and so are small requests. */
START_TEST(half_lines_of_a_user_are_limited)
{
	static char half[LIMIT_REQUEST_BYTES];
	struct client c[LIMIT_REQUEST_BYTES_PER_UID / sizeof(half)], last, other;
	const size_t n = sizeof(c) / sizeof(c[0]);

	begin();
	memset(half, ' ', sizeof(half));
	client_open(&other);
	expect_pong(&other);
	for (size_t i = 0; i < n; i++) {
		client_open(&c[i]);
		client_send_n(&c[i], half, sizeof(half));
	}
	soon(listener_partial_bytes() == LIMIT_REQUEST_BYTES_PER_UID);
	send_call_of(&other, LIMIT_SMALL_REQUEST_BYTES); /* they count as requests do */
	expect_code(client_line(&other), "busy");
	client_open(&last);
	client_send_n(&last, half, LIMIT_PARTIAL_BYTES_FREE); /* so much is everybody's */
	soon(listener_partial_bytes() == LIMIT_REQUEST_BYTES_PER_UID + LIMIT_PARTIAL_BYTES_FREE);
	client_send(&last, " ");
	expect_code(client_line(&last), "busy");
	client_eof(&last);
	client_close(&last);
	soon(listener_partial_bytes() == LIMIT_REQUEST_BYTES_PER_UID);
	expect_pong(&other);
	for (size_t i = 0; i < n; i++)
		client_close(&c[i]);
	soon(n_connections() == 1 && listener_partial_bytes() == 0);
	send_large_call(&other);
	soon(n_kept == 1);
	(void)rpc_result_raw(kept[0], "1", 1);
	n_kept = 0;
	client_close(&other);
	end();
}
END_TEST

static void expect_turned_away(void)
{
	struct client c;

	client_open(&c);
	expect_code(client_line(&c), "limit_exceeded");
	client_eof(&c);
	client_close(&c);
}

START_TEST(connections_are_capped)
{
	struct client c[3];

	begin();
	listener_set_caps(control.listener, &(struct listener_caps){ .connections_per_uid = 3 });
	for (int i = 0; i < 3; i++) {
		client_open(&c[i]);
		expect_pong(&c[i]);
	}
	expect_turned_away();
	expect_turned_away();
	client_close(&c[0]);
	soon(n_connections() == 2);
	client_open(&c[0]);
	expect_pong(&c[0]);
	listener_set_caps(control.listener, &(struct listener_caps){ .connections_per_uid = 10, .connections = 3 });
	expect_turned_away();
	ck_assert_uint_eq(n_refused(), 3);
	for (int i = 0; i < 3; i++) {
		expect_pong(&c[i]);
		client_close(&c[i]);
	}
	soon(n_connections() == 0);
	end();
}
END_TEST

START_TEST(without_descriptors_clients_are_turned_away)
{
	struct rlimit limit;
	struct client inside, outside[3];
	int fill[512], n = 0;

	begin();
	client_open(&inside);
	expect_pong(&inside);
	for (int i = 0; i < 3; i++)
		client_open(&outside[i]); /* in the backlog */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 128;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (n < 512 && (fill[n] = dup(inside.fd)) != -1)
		n++;
	ck_assert_int_eq(errno, EMFILE);
	for (int i = 0; i < 3; i++) {
		expect_code(client_line(&outside[i]), "limit_exceeded");
		client_eof(&outside[i]);
	}
	expect_pong(&inside);
	while (n > 0)
		(void)close(fill[--n]);
	for (int i = 0; i < 3; i++) {
		client_close(&outside[i]);
		client_open(&outside[i]);
		expect_pong(&outside[i]);
		client_close(&outside[i]);
	}
	client_close(&inside);
	end();
}
END_TEST

/* ---- uploads ---- */

static void put(struct client *c, const char *upload, long offset, const void *bytes, size_t n, bool last)
{
	struct buf text = BUF_INIT;

	buf_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"object.put\",\"params\":{\"upload\":\"%s\",\"offset\":%ld,\"last\":%s,"
			  "\"data\":\"", upload, offset, last ? "true" : "false");
	base64_encode(&text, bytes, n);
	buf_add_text(&text, "\"}}\n");
	client_send_n(c, text.data, text.size);
	buf_fini(&text);
}

static void expect_received(struct client *c, const char *upload, unsigned long received, const char *sha256)
{
	char wanted[256];
	int n = snprintf(wanted, sizeof(wanted), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"upload\":\"%s\",\"received\":%lu", upload,
		received);

	if (sha256)
		n += snprintf(wanted + n, sizeof(wanted) - (size_t)n, ",\"sha256\":\"%s\"", sha256);
	(void)snprintf(wanted + n, sizeof(wanted) - (size_t)n, "}}");
	ck_assert_str_eq(client_line(c), wanted);
}

static void expect_size(struct client *c, const char *sha256, long size)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.create\",\"params\":{\"id\":\"a\",\"object\":\"%s\"}}\n", sha256);
	client_send(c, text);
	(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%ld}", size);
	ck_assert_str_eq(client_line(c), text);
}

START_TEST(uploads_come_in_order_and_get_their_hash)
{
	char bytes[1000], sha256[SHA256_HEX_BYTES + 1], nothing[SHA256_HEX_BYTES + 1];
	struct client c, other;

	begin();
	client_open(&c);
	client_open(&other);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7);
	sha256_hex(bytes, sizeof(bytes), sha256);
	sha256_hex(NULL, 0, nothing);
	put(&c, "u", 5, bytes, 5, false);
	expect_code(client_line(&c), "bad_param");
	put(&c, "u", 0, bytes, 400, false);
	expect_received(&c, "u", 400, NULL);
	put(&c, "u", 0, bytes, 400, false);
	expect_code(client_line(&c), "bad_param");
	put(&c, "u", 399, bytes, 400, false);
	expect_code(client_line(&c), "bad_param");
	client_send(&c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"object.put\",\"params\":{\"upload\":\"u\",\"offset\":400,\"data\":\"QUJ=\"}}\n");
	expect_code(client_line(&c), "bad_param"); /* surplus bits */
	expect_size(&c, sha256, -1);
	put(&c, "u", 400, bytes + 400, 600, true);
	expect_received(&c, "u", 1000, sha256);
	expect_size(&c, sha256, 1000);
	expect_size(&other, sha256, -1); /* it belongs to its connection */
	put(&c, "empty", 0, "", 0, true);
	expect_received(&c, "empty", 0, nothing);
	expect_size(&c, nothing, 0);
	put(&c, "u", 0, "x", 1, false); /* the name anew: the old one gives way */
	expect_received(&c, "u", 1, NULL);
	expect_size(&c, sha256, -1);
	client_send(&c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"object.put\",\"params\":{\"upload\":\"u\",\"offset\":1,\"data\":\"\\/\\/\\/\\/\"}}\n");
	expect_received(&c, "u", 4, NULL);
	client_close(&c);
	client_close(&other);
	end();
}
END_TEST

START_TEST(uploads_are_few)
{
	char sha256[3][SHA256_HEX_BYTES + 1];
	struct client c;

	begin();
	client_open(&c);
	for (int i = 0; i < 3; i++)
		sha256_hex(&"abc"[i], 1, sha256[i]);
	put(&c, "open1", 0, "1", 1, false);
	expect_received(&c, "open1", 1, NULL);
	for (int i = 0; i < 3; i++) {
		char name[8] = { (char)('a' + i) };

		put(&c, name, 0, &"abc"[i], 1, true);
		expect_received(&c, name, 1, sha256[i]);
	}
	put(&c, "open2", 0, "2", 1, false); /* the oldest finished one gives way */
	expect_received(&c, "open2", 1, NULL);
	expect_size(&c, sha256[0], -1);
	expect_size(&c, sha256[1], 1);
	put(&c, "open3", 0, "3", 1, false);
	expect_received(&c, "open3", 1, NULL);
	put(&c, "open4", 0, "4", 1, false);
	expect_received(&c, "open4", 1, NULL);
	expect_size(&c, sha256[2], -1);
	put(&c, "open5", 0, "5", 1, false);
	expect_code(client_line(&c), "limit_exceeded");
	put(&c, "open4", 1, "4", 1, false); /* those that are open go on */
	expect_received(&c, "open4", 2, NULL);
	client_close(&c);
	end();
}
END_TEST

START_TEST(uploads_are_limited_in_size)
{
	char *chunk = calloc(1, LIMIT_UPLOAD_CHUNK_BYTES);
	long n = LIMIT_OBJECT_BYTES / LIMIT_UPLOAD_CHUNK_BYTES;
	struct client c;

	ck_assert_ptr_nonnull(chunk);
	begin();
	client_open(&c);
	for (long i = 0; i < n; i++) {
		put(&c, "u", i * (long)LIMIT_UPLOAD_CHUNK_BYTES, chunk, LIMIT_UPLOAD_CHUNK_BYTES, false);
		expect_received(&c, "u", (unsigned long)(i + 1) * LIMIT_UPLOAD_CHUNK_BYTES, NULL);
		c.taken = c.in.size = 0;
	}
	put(&c, "u", LIMIT_OBJECT_BYTES, chunk, 1, false);
	expect_code(client_line(&c), "limit_exceeded");
	put(&c, "u", LIMIT_OBJECT_BYTES, chunk, 0, true);
	client_close(&c); /* while it is being hashed, perhaps */
	soon(n_connections() == 0);
	free(chunk);
	end();
}
END_TEST

START_TEST(uploads_of_a_user_are_limited)
{
	struct client c;

	begin();
	client_open(&c);
	client_send(&c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version.list\",\"params\":{\"id\":\"a\"}}\n");
	(void)client_line(&c);
	put(&c, "u", 0, "1", 1, false);
	expect_code(client_line(&c), "limit_exceeded");
	client_send(&c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version.list\",\"params\":{\"id\":\"a\"}}\n");
	(void)client_line(&c);
	put(&c, "u", 0, "1", 1, false);
	expect_received(&c, "u", 1, NULL);
	client_close(&c);
	end();
}
END_TEST

/* The hash takes longer than the client stays: the job finds its upload, and frees it. */
START_TEST(uploads_are_dropped_at_close)
{
	struct client c;

	begin();
	for (int i = 0; i < 20; i++) {
		client_open(&c);
		put(&c, "open", 0, "1", 1, false);
		put(&c, "done", 0, "1", 1, true);
		put(&c, "done", 1, "1", 1, true); /* hashing or finished: refused either way */
		if (i % 2)
			pump();
		client_close(&c);
	}
	soon(n_connections() == 0);
	end();
}
END_TEST

/* ---- the listener ---- */

START_TEST(a_successor_socket_takes_over)
{
	struct client before, after;

	begin();
	client_open(&before);
	expect_pong(&before);
	ck_assert_int_eq(unlink(path), 0);
	listener_replace(control.listener, listen_at(path));
	expect_pong(&before);
	client_open(&after);
	expect_pong(&after);
	client_close(&before);
	client_close(&after);
	end();
}
END_TEST

START_TEST(shutdown_answers_what_is_pending)
{
	struct client asks, waits, idle;

	begin();
	client_open(&asks);
	client_open(&waits);
	client_open(&idle);
	expect_pong(&idle);
	client_send(&waits, CALL("1") BIG("2"));
	soon(n_kept == 1);
	client_send(&asks, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.shutdown\"}\n" PING("2"));
	ck_assert_str_eq(client_line(&asks), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"stopping\":true}}");
	client_eof(&asks);
	client_eof(&idle);
	(void)client_line(&waits);
	ck_assert(!is_closed);
	(void)rpc_result_raw(kept[0], "1", 1);
	ck_assert_str_eq(client_line(&waits), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}");
	client_eof(&waits);
	soon(is_closed);
	client_close(&asks);
	client_close(&waits);
	client_close(&idle);
	end();
}
END_TEST

START_TEST(shutdown_does_not_wait_for_ever)
{
	struct client waits, deaf;

	begin();
	listener_set_caps(control.listener, &(struct listener_caps){ .drain_ms = 30 });
	client_open(&waits);
	client_open(&deaf);
	client_send(&waits, CALL("1"));
	client_send(&deaf, BIG("1") BIG("2"));
	soon(n_kept == 1 && n_run == 3);
	listener_close(control.listener, on_closed, &control);
	control.listener = NULL;
	soon(is_closed);
	client_eof(&waits);
	ck_assert(rpc_is_gone(kept[0]));
	(void)rpc_result_raw(kept[0], "1", 1);
	client_close(&waits);
	client_close(&deaf);
	end();
}
END_TEST

CHECK_MAIN("front", tcase_add_test(tc, one_byte_at_a_time); tcase_add_test(tc, answers_come_out_of_order);
	tcase_add_test(tc, a_mebibyte_and_no_more); tcase_add_test(tc, pending_answers_come_before_the_end);
	tcase_add_test(tc, refused_clients_may_linger_only_so_long); tcase_add_test(tc, half_a_line_then_silence);
	tcase_add_test(tc, close_in_mid_reply); tcase_add_test(tc, a_client_that_is_gone_is_noticed);
	tcase_add_test(tc, half_closed_clients_get_their_answers); tcase_add_test(tc, half_closed_after_many);
	tcase_add_test(tc, the_last_line_needs_its_newline); tcase_add_test(tc, only_so_many_unanswered);
	tcase_add_test(tc, only_so_many_lines_in_a_turn); tcase_add_test(tc, who_does_not_read_is_not_read);
	tcase_add_test(tc, who_reads_gets_all_that_came_due_at_once); tcase_add_test(tc, unread_replies_of_a_user_are_limited);
	tcase_add_test(tc, replies_in_batches_count); tcase_add_test(tc, requests_of_a_user_are_limited);
	tcase_add_test(tc, half_lines_of_a_user_are_limited);
	tcase_add_test(tc, a_hangup_is_noticed_while_nothing_is_read);
	tcase_add_test(tc, connections_are_capped); tcase_add_test(tc, without_descriptors_clients_are_turned_away);
	tcase_add_test(tc, uploads_come_in_order_and_get_their_hash); tcase_add_test(tc, uploads_are_few);
	tcase_add_test(tc, uploads_are_limited_in_size); tcase_add_test(tc, uploads_of_a_user_are_limited);
	tcase_add_test(tc, uploads_are_dropped_at_close); tcase_add_test(tc, a_successor_socket_takes_over);
	tcase_add_test(tc, shutdown_answers_what_is_pending); tcase_add_test(tc, shutdown_does_not_wait_for_ever))
