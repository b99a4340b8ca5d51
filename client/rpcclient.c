/* SPDX-License-Identifier: MIT
 *
 * The connection. Unix sockets only. When sending fails, what the daemon said before it closed is still read:
 * it often says why. */
#include "client/rpcclient.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/json_out.h"
#include "proto/limits.h"

void rpcclient_init(struct rpcclient *c)
{
	*c = (struct rpcclient){ .fd = -1, .deadline_ms = RPCCLIENT_NO_DEADLINE };
	frame_init(&c->in, LIMIT_CONNECTION_OUT_BYTES); /* the daemon keeps no more for one connection */
}

void rpcclient_fini(struct rpcclient *c)
{
	fd_close(&c->fd);
	frame_fini(&c->in);
}

void rpcclient_reply_fini(struct rpcclient_reply *r)
{
	free(r->line);
	*r = (struct rpcclient_reply){ 0 };
}

/* ---- connecting ---- */

/* A connect that waits for room in the backlog can't be polled for; the send timeout ends it. */
static int limit_connect(int fd, int64_t deadline_ms)
{
	int64_t left = deadline_ms - clock_monotonic_ms();
	struct timeval t;

	if (deadline_ms == RPCCLIENT_NO_DEADLINE)
		return 0;
	if (left < 1)
		left = 1;
	t = (struct timeval){ .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };
	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

static int connect_failed(const char *path, struct err *e)
{
	switch (errno) {
	case EACCES:
	case EPERM:
		return err_sys(e, ERR_DENIED, "cannot connect to %s", path);
	case EAGAIN:
		return err_set(e, ERR_TIMEOUT, "the daemon at %s takes no connection", path);
	default:
		return err_sys(e, ERR_UNREACHABLE, "no daemon at %s", path);
	}
}

int rpcclient_connect(struct rpcclient *c, const char *path, int64_t deadline_ms, struct err *e)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	autoclose int fd = -1;
	int r;

	if (*path == '\0' || strlen(path) >= sizeof(address.sun_path))
		return err_set(e, ERR_BAD_PARAM, "a socket's path has 1 to %zu bytes: '%s'",
			sizeof(address.sun_path) - 1, path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || limit_connect(fd, deadline_ms) == -1)
		return err_sys(e, ERR_UNREACHABLE, "cannot make a socket");
	do
		r = connect(fd, (const struct sockaddr *)&address, sizeof(address));
	while (r == -1 && errno == EINTR);
	if (r == -1)
		return connect_failed(path, e);
	if (fd_set_nonblocking(fd, true) == -1)
		return err_sys(e, ERR_UNREACHABLE, "cannot use the socket %s", path);
	c->fd = fd_take(&fd);
	c->path = path;
	c->deadline_ms = deadline_ms;
	return 0;
}

/* ---- bytes ---- */

/* 0: ready, -1 with err: the deadline has come. */
static int wait_for(struct rpcclient *c, short events, const char *doing, struct err *e)
{
	struct pollfd p = { .fd = c->fd, .events = events };

	for (;;) {
		int64_t left = c->deadline_ms - clock_monotonic_ms();
		int r;

		if (c->deadline_ms == RPCCLIENT_NO_DEADLINE)
			left = -1;
		else if (left <= 0)
			return err_set(e, ERR_TIMEOUT,
				"the daemon %s in time; whether the request is done is not known", doing);
		r = poll(&p, 1, left > INT32_MAX ? INT32_MAX : (int)left);
		if (r > 0)
			return 0;
		if (r == -1 && errno != EINTR)
			return err_sys(e, ERR_UNREACHABLE, "cannot wait for the daemon");
	}
}

/* 0: sent, or the daemon has closed: then the reading says what is to be said. */
static int send_all(struct rpcclient *c, const char *data, size_t size, struct err *e)
{
	while (size > 0) {
		ssize_t n = send(c->fd, data, size, MSG_NOSIGNAL);

		if (n >= 0) {
			data += n;
			size -= (size_t)n;
		} else if (errno == EAGAIN) {
			if (wait_for(c, POLLOUT, "didn't take the request", e) == -1)
				return -1;
		} else if (errno == EPIPE || errno == ECONNRESET) {
			return 0;
		} else if (errno != EINTR) {
			return err_sys(e, ERR_UNREACHABLE, "cannot send to the daemon");
		}
	}
	return 0;
}

static int closed_early(struct rpcclient *c, struct err *e)
{
	if (frame_has_partial(&c->in))
		return err_set(
			e, ERR_UNREACHABLE, "the daemon closed the connection in the middle of its reply");
	return err_set(e, ERR_UNREACHABLE,
		"the daemon closed the connection before it replied; whether the request is done is not "
		"known");
}

static int read_more(struct rpcclient *c, struct err *e)
{
	size_t room;
	char *at = frame_room(&c->in, &room);

	if (!at)
		return err_set(e, ERR_INTERNAL, "no memory for the daemon's reply");
	for (;;) {
		ssize_t n = recv(c->fd, at, room, 0);

		if (n > 0) {
			frame_fed(&c->in, (size_t)n);
			return 0;
		}
		if (n == 0 || errno == ECONNRESET)
			return closed_early(c, e);
		if (errno == EAGAIN) {
			if (wait_for(c, POLLIN, "didn't reply", e) == -1)
				return -1;
		} else if (errno != EINTR) {
			return err_sys(e, ERR_UNREACHABLE, "cannot read from the daemon");
		}
	}
}

static int read_line(struct rpcclient *c, char **ret_line, size_t *ret_size, struct err *e)
{
	for (;;) {
		switch (frame_next(&c->in, ret_line, ret_size)) {
		case FRAME_LINE:
			return 0;
		case FRAME_TOO_LARGE:
			return err_set(e, ERR_UNREACHABLE, "the daemon's reply is longer than %u bytes",
				LIMIT_CONNECTION_OUT_BYTES);
		case FRAME_NO_MEMORY:
			return err_set(e, ERR_INTERNAL, "no memory for the daemon's reply");
		case FRAME_MORE:
			break;
		}
		if (read_more(c, e) == -1)
			return -1;
	}
}

/* ---- replies ---- */

static int not_a_reply(const char *why, struct err *e)
{
	return err_set(e, ERR_UNREACHABLE, "what answers is not sandboxd: %s", why);
}

/* What the daemon said, as our error value. */
static void error_from(struct json_span error, struct err *e)
{
	struct json_span data = json_get(error, "data");
	enum err_code code = ERR_INTERNAL;
	char word[64], *text;
	size_t size;
	int64_t number;

	if (!e)
		return;
	if (json_string(json_get(data, "code"), word, sizeof(word)) >= 0) {
		code = err_code_from_text(word);
	} else if (json_i64(json_get(error, "code"), &number)) {
		for (int i = ERR_OK + 1; i < ERR__N; i++)
			if (err_code_number((enum err_code)i) == number && code == ERR_INTERNAL)
				code = (enum err_code)i;
	}
	if (code == ERR_OK) /* an error that says "ok" is none of ours */
		code = ERR_INTERNAL;
	text = json_string_dup(json_get(error, "message"), &size);
	*e = (struct err)ERR_INIT;
	e->code = code;
	text_clean(e->text, sizeof(e->text), text ? text : "", text ? size : 0);
	free(text);
	if (json_string(json_get(data, "nearest"), word, sizeof(word)) >= 0)
		text_clean(e->nearest, sizeof(e->nearest), word, strlen(word));
}

/* 1: it is the reply; 0: a notification, or nothing; -1 with err. */
static int take_reply(
	struct rpcclient *c, char *line, size_t size, struct rpcclient_reply *ret, struct err *e)
{
	struct json_span whole = { line, size }, id;
	struct err why = ERR_INIT;
	int64_t number;

	if (size == 0)
		return 0;
	if (json_check(line, size, &why) == -1)
		return not_a_reply(why.text, e);
	if (json_type(whole) != '{' || !json_string_is(json_get(whole, "jsonrpc"), "2.0"))
		return not_a_reply("it doesn't speak JSON-RPC 2.0", e);
	id = json_get(whole, "id");
	if (json_get(whole, "method").at && !id.at)
		return 0;
	ret->result = json_get(whole, "result");
	ret->error = json_get(whole, "error");
	if (!ret->result.at == !ret->error.at || (ret->error.at && json_type(ret->error) != '{'))
		return not_a_reply("its reply has neither a result nor an error", e);
	/* A request that couldn't be read is answered without its id. */
	if (json_type(id) == '0' && ret->error.at)
		return 1;
	if (json_type(id) != 'i' || !json_i64(id, &number) || number != c->last_id)
		return not_a_reply("its reply is to another request", e);
	return 1;
}

static int wait_reply(struct rpcclient *c, struct rpcclient_reply *ret, struct err *e)
{
	char *line;
	size_t size;
	int r;

	do {
		if (read_line(c, &line, &size, e) == -1)
			return -1;
		ret->line = malloc(size + 1);
		if (!ret->line)
			return err_set(e, ERR_INTERNAL, "no memory for the daemon's reply");
		memcpy(ret->line, line, size);
		ret->line[size] = '\0';
		r = take_reply(c, ret->line, size, ret, e);
		if (r != 1)
			rpcclient_reply_fini(ret);
	} while (r == 0);
	if (r == 1 && ret->error.at) {
		error_from(ret->error, e);
		return -1;
	}
	return r == 1 ? 0 : -1;
}

int rpcclient_call(struct rpcclient *c, const char *method, struct json_span params,
	struct rpcclient_reply *ret, struct err *e)
{
	struct buf line = BUF_INIT;
	struct json_out o = json_out_to(&line);
	int r;

	*ret = (struct rpcclient_reply){ 0 };
	c->last_id++;
	json_out_object(&o, NULL);
	json_out_text(&o, "jsonrpc", "2.0");
	json_out_i64(&o, "id", c->last_id);
	json_out_text(&o, "method", method);
	json_out_raw(&o, "params", params.at, params.size);
	json_out_object_end(&o);
	if (line.failed)
		r = err_set(e, ERR_INTERNAL, "no memory for the request");
	else if (line.size > LIMIT_REQUEST_BYTES)
		r = err_set(e, ERR_REQUEST_TOO_LARGE,
			"the request has %zu bytes, the daemon reads at most %u", line.size,
			LIMIT_REQUEST_BYTES);
	else
		r = 0;
	buf_add_char(&line, '\n');
	if (r == 0 && line.failed)
		r = err_set(e, ERR_INTERNAL, "no memory for the request");
	if (r == 0)
		r = send_all(c, line.data, line.size, e);
	buf_fini(&line);
	return r == 0 ? wait_reply(c, ret, e) : -1;
}

/* ---- notifications ---- */

/* 1: ret is one; 0: it is something else. */
static int take_note(char *line, size_t size, struct rpcclient_reply *ret, struct err *e)
{
	struct json_span whole;
	struct err why = ERR_INIT;

	*ret = (struct rpcclient_reply){ .line = malloc(size + 1) };
	if (!ret->line)
		return err_set(e, ERR_INTERNAL, "no memory for what the daemon tells");
	memcpy(ret->line, line, size);
	ret->line[size] = '\0';
	whole = (struct json_span){ ret->line, size };
	if (size > 0 && json_check(ret->line, size, &why) == -1) {
		rpcclient_reply_fini(ret);
		return not_a_reply(why.text, e);
	}
	ret->result = size > 0 && json_type(whole) == '{' ? json_get(whole, "params") : (struct json_span){ 0 };
	if (json_type(ret->result) == '{')
		return 1;
	rpcclient_reply_fini(ret);
	return 0;
}

/* 1: there is something to read, 0: nobody reads out_fd. */
static int wait_note(struct rpcclient *c, int out_fd, struct err *e)
{
	struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN }, { .fd = out_fd } };

	while (poll(p, 2, -1) == -1)
		if (errno != EINTR)
			return err_sys(e, ERR_UNREACHABLE, "cannot wait for the daemon");
	return p[0].revents || !(p[1].revents & (POLLERR | POLLNVAL));
}

int rpcclient_next(struct rpcclient *c, int out_fd, struct rpcclient_reply *ret, struct err *e)
{
	char *line;
	size_t size;
	int r;

	c->deadline_ms = RPCCLIENT_NO_DEADLINE;
	for (;;) {
		switch (frame_next(&c->in, &line, &size)) {
		case FRAME_LINE:
			r = take_note(line, size, ret, e);
			if (r != 0)
				return r;
			break;
		case FRAME_MORE:
			r = wait_note(c, out_fd, e);
			if (r != 1)
				return r;
			if (read_more(c, e) == -1)
				return -1;
			break;
		case FRAME_TOO_LARGE:
			return err_set(e, ERR_UNREACHABLE, "what the daemon tells is longer than %u bytes", LIMIT_CONNECTION_OUT_BYTES);
		case FRAME_NO_MEMORY:
			return err_set(e, ERR_INTERNAL, "no memory for what the daemon tells");
		}
	}
}
