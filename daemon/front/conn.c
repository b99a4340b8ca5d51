/* SPDX-License-Identifier: MIT
 *
 * A connection's turn: take lines while there are some and it may, run them, send what was answered, then decide
 * whether to read on, to wait, or to end. Whatever happens (bytes, an answer, the end of a write) only leads to the
 * next turn, so the order of things is decided in one place. Answers only put the connection on the list of those
 * that are due; the list is worked off in the prepare phase, right before the loop would wait. */
#include "daemon/front/conn.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/front/rpc_peer.h"
#include "daemon/front/rpc_stream.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/log.h"

#define CONN_MAGIC     0x636f6e6eu
#define SET_MAGIC      0x73657421u
#define READ_BYTES     (64u << 10)  /* at most, per read */
#define KEEP_BYTES     (64u << 10)  /* a larger buffer for replies isn't kept */
#define OFFER_BYTES    (1u << 20)   /* so much isn't kept until the next turn */
#define LINGER_MS      2000

struct conn {
	uint32_t magic;
	struct conn_set *set;
	struct rpc_peer peer;
	TAILQ_ENTRY(conn) link, due_link;
	bool is_due;
	bool is_eof;       /* the client sends no more */
	bool is_refused;   /* it can't be understood any more: reply, then close */
	bool is_draining;  /* the daemon ends */
	bool is_lingering; /* all is said; what still comes in is thrown away */
	bool is_closed;
	bool is_reading;
	bool is_waiting;   /* no whole line is there */
	bool is_writing;
	bool is_broken;    /* found in the middle of a handler: closes in the next turn */
	bool is_watched, was_watched; /* for a hang-up; has ever been */
	size_t charged;    /* to its user: replies that the client hasn't read */
	size_t held;       /* likewise: what came in and isn't taken yet */
	int n_handles;
	uint64_t turn;     /* the turn that n_lines counts */
	unsigned n_lines;
	uint64_t since_ms, since_bytes, bytes; /* half a line has been waited for since then; what had been read then, and is now */
	struct frame frame;
	struct buf writing; /* what uv_write has */
	uv_pipe_t pipe;
	uv_timer_t timer;
	uv_write_t write;
};

static void conn_turn(struct conn *c);
static void conn_close(struct conn *c);

static struct conn *conn_of(void *data)
{
	struct conn *c = data;

	assert(c && c->magic == CONN_MAGIC);
	return c;
}

static struct conn_set *set_of(void *data)
{
	struct conn_set *s = data;

	assert(s && s->magic == SET_MAGIC);
	return s;
}

/* ---- turns ---- */

static void due(struct conn *c)
{
	if (c->is_due || c->is_closed)
		return;
	c->is_due = true;
	TAILQ_INSERT_TAIL(&c->set->due, c, due_link);
}

static void not_due(struct conn *c)
{
	if (!c->is_due)
		return;
	c->is_due = false;
	TAILQ_REMOVE(&c->set->due, c, due_link);
}

static void on_idle(uv_idle_t *idle)
{
	(void)set_of(idle->data); /* its being active is all: the loop doesn't wait */
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct conn_set *s = set_of(prepare->data);
	struct conn *first;
	unsigned n = 0;

	s->turn++;
	TAILQ_FOREACH(first, &s->due, due_link)
		n++;
	while (n-- > 0 && (first = TAILQ_FIRST(&s->due))) {
		not_due(first);
		conn_turn(first);
	}
	if (TAILQ_EMPTY(&s->due))
		(void)uv_idle_stop(&s->idle);
	else
		(void)uv_idle_start(&s->idle, on_idle);
}

/* ---- unread replies ---- */

/* What its user has to answer for. */
static void charge(struct conn *c)
{
	struct rpc_user *user = c->peer.user;
	size_t now = c->peer.out.size + c->peer.batch_bytes + (c->is_writing ? c->writing.size : 0);

	user->reply_bytes = user->reply_bytes - c->charged + now;
	c->charged = now;
}

/* The same for what came in: a half line, above all. */
static void charge_held(struct conn *c)
{
	struct rpc_user *user = c->peer.user;
	size_t now = frame_held(&c->frame);

	user->partial_bytes = user->partial_bytes - c->held + now;
	c->held = now;
}

/* Not yet taken by the kernel. */
static size_t unread(const struct conn *c)
{
	return c->peer.out.size + (c->is_writing ? uv_stream_get_write_queue_size((const uv_stream_t *)&c->pipe) : 0);
}

/* ---- writing ---- */

static void on_written(uv_write_t *write, int status)
{
	struct conn *c = conn_of(write->data);

	c->is_writing = false;
	c->peer.unsent = 0;
	if (c->writing.room > KEEP_BYTES)
		buf_fini(&c->writing);
	buf_clear(&c->writing);
	if (c->is_closed)
		return;
	charge(c);
	if (status < 0)
		conn_close(c);
	else
		conn_turn(c);
}

/* Gives the rest to libuv, which sends it as the client reads. */
static int write_rest(struct conn *c, size_t sent)
{
	struct buf *out = &c->peer.out, swap = c->writing;
	uv_buf_t rest;

	c->writing = *out;
	*out = swap;
	out->ceiling = LIMIT_CONNECTION_OUT_BYTES;
	rest = uv_buf_init(c->writing.data + sent, (unsigned)(c->writing.size - sent));
	c->write.data = c;
	if (uv_write(&c->write, (uv_stream_t *)&c->pipe, &rest, 1, on_written) < 0)
		return -1;
	c->is_writing = true;
	c->peer.unsent = rest.len;
	return 0;
}

static int too_much_unread(const struct conn *c)
{
	log_warning("connection %llu of uid %lu is closed: more than %u bytes of replies are unread",
		(unsigned long long)c->peer.number, (unsigned long)c->peer.user->uid, LIMIT_CONNECTION_OUT_BYTES);
	return -1;
}

/* Offers what there is to the kernel; -1: the connection must be closed. */
static int offer(struct conn *c)
{
	struct buf *out = &c->peer.out;
	uv_buf_t all;
	int sent;

	if (c->is_writing || out->size == 0)
		return 0;
	all = uv_buf_init(out->data, (unsigned)out->size);
	sent = uv_try_write((uv_stream_t *)&c->pipe, &all, 1);
	if (sent == UV_EAGAIN)
		sent = 0;
	if (sent < 0)
		return -1;
	if ((size_t)sent < out->size)
		return write_rest(c, (size_t)sent);
	if (out->room > KEEP_BYTES)
		buf_fini(out);
	buf_clear(out);
	return 0;
}

/* Sends what there is; -1: the connection must be closed. */
static int flush(struct conn *c)
{
	if (c->is_broken)
		return -1;
	if (c->peer.out.failed || unread(c) > LIMIT_CONNECTION_OUT_BYTES)
		return too_much_unread(c);
	if (offer(c) == -1)
		return -1;
	charge(c);
	return 0;
}

/* Its user's connections hold all that they may, and this one has its part in it. What it has is freed at once: more may come
 * before its turn. */
static void give_up(struct conn *c)
{
	log_warning("connection %llu of uid %lu is closed: more than %u bytes of replies to this user are unread",
		(unsigned long long)c->peer.number, (unsigned long)c->peer.user->uid, LIMIT_REPLY_BYTES_PER_UID);
	c->is_broken = true;
	buf_fini(&c->peer.out);
	c->peer.out.failed = true;
	charge(c);
}

/* Replies that come due in one turn don't pile up here while the client reads. */
static void on_answered(struct rpc_peer *p)
{
	struct conn *c = (struct conn *)((char *)p - offsetof(struct conn, peer));
	bool is_over;

	due(c);
	if (c->is_closed || c->is_broken || p->out.failed)
		return;
	charge(c);
	is_over = p->user->reply_bytes > LIMIT_REPLY_BYTES_PER_UID;
	if (!is_over && p->out.size < OFFER_BYTES)
		return;
	c->is_broken = offer(c) == -1;
	charge(c);
	if (is_over && p->user->reply_bytes > LIMIT_REPLY_BYTES_PER_UID && c->charged > LIMIT_REPLY_BYTES_FREE)
		give_up(c);
}

/* ---- reading ---- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
	static char waste[4096]; /* what a lingering client sends is never looked at */
	struct conn *c = conn_of(handle->data);
	size_t room = sizeof(waste);
	char *at = c->is_lingering ? waste : frame_room(&c->frame, &room);

	(void)suggested;
	*ret = at ? uv_buf_init(at, (unsigned)(room < READ_BYTES ? room : READ_BYTES)) : uv_buf_init(NULL, 0);
}

/* At the end of its input: has the client gone altogether, or does it still read? */
static bool is_hung_up(const struct conn *c)
{
	struct pollfd p = { .fd = -1 };

	return uv_fileno((const uv_handle_t *)&c->pipe, &p.fd) == 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void read_end(struct conn *c)
{
	if (c->is_lingering || is_hung_up(c)) {
		conn_close(c);
		return;
	}
	c->is_eof = true;
	conn_turn(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
	struct conn *c = conn_of(stream->data);

	(void)bytes;
	if (n == 0 || c->is_closed || (n > 0 && c->is_lingering))
		return;
	if (n == UV_EOF) {
		read_end(c);
		return;
	}
	if (n < 0) {
		conn_close(c);
		return;
	}
	frame_fed(&c->frame, (size_t)n);
	c->bytes += (uint64_t)n;
	conn_turn(c);
}

static void wait_anew(struct conn *c)
{
	c->since_ms = uv_now(c->set->control->loop);
	c->since_bytes = c->bytes;
}

static void set_reading(struct conn *c, bool on)
{
	if (on == c->is_reading)
		return;
	c->is_reading = on;
	wait_anew(c); /* time in which nothing was read isn't the client's silence */
	if (on && uv_read_start((uv_stream_t *)&c->pipe, on_room, on_read) < 0)
		conn_close(c);
	else if (!on)
		(void)uv_read_stop((uv_stream_t *)&c->pipe);
}

/* ---- refusals ---- */

/* The reply is the last one: the stream can't be resumed. */
static void refuse(struct conn *c, const struct err *e)
{
	c->is_refused = true;
	rpc_refuse(&c->peer, e);
}

static void refuse_too_large(struct conn *c)
{
	struct err e;

	err_set(&e, ERR_REQUEST_TOO_LARGE, "a line has more than %u bytes", LIMIT_REQUEST_BYTES);
	refuse(c, &e);
}

static void refuse_silence(struct conn *c)
{
	struct err e;

	err_set(&e, ERR_TIMEOUT, "half a line, and nearly nothing for %llu ms",
		(unsigned long long)c->set->idle_partial_line_ms);
	refuse(c, &e);
}

/* Nothing of the line is known that could be answered: it can only end here. */
static void refuse_half_line(struct conn *c)
{
	struct err e;

	err_set(&e, ERR_BUSY, "half a line of %zu bytes; uid %lu has %llu bytes of half lines, and at most %u: send them one after the other", c->held,
		(unsigned long)c->peer.user->uid, (unsigned long long)c->peer.user->partial_bytes, LIMIT_REQUEST_BYTES_PER_UID);
	refuse(c, &e);
}

static void refuse_unfinished(struct conn *c)
{
	struct err e;

	err_set(&e, ERR_PARSE, "the input ends in the middle of a line: a request ends with a newline");
	refuse(c, &e);
}

/* ---- the timer: half a line, then silence, or a trickle that would last for ever; or the end of lingering ---- */

static void on_timer(uv_timer_t *timer)
{
	struct conn *c = conn_of(timer->data);
	uint64_t silent = uv_now(timer->loop) - c->since_ms;

	if (c->is_closed)
		return;
	if (c->is_lingering) {
		conn_close(c);
		return;
	}
	if (!c->is_reading || !c->is_waiting || !frame_has_partial(&c->frame))
		return; /* started again with the next half line */
	if (c->bytes - c->since_bytes >= LIMIT_PARTIAL_LINE_BYTES) {
		wait_anew(c);
		silent = 0;
	}
	if (silent < c->set->idle_partial_line_ms) {
		(void)uv_timer_start(timer, on_timer, c->set->idle_partial_line_ms - silent, 0);
		return;
	}
	refuse_silence(c);
	conn_turn(c);
}

/* The timer isn't stopped when a line is whole, nor started anew with each byte: it looks when it fires. */
static void watch_silence(struct conn *c)
{
	if (!c->is_reading || !frame_has_partial(&c->frame) || uv_is_active((uv_handle_t *)&c->timer))
		return;
	wait_anew(c);
	(void)uv_timer_start(&c->timer, on_timer, c->set->idle_partial_line_ms, 0);
}

/* ---- the turn ---- */

static void take_line(struct conn *c)
{
	char *line;
	size_t size;

	switch (frame_next(&c->frame, &line, &size)) {
	case FRAME_LINE:
		c->n_lines++;
		wait_anew(c);
		charge_held(c);
		if (size == 0)
			return;
		c->set->n_requests++;
		rpc_line(c->set->control, &c->peer, line, size);
		return;
	case FRAME_MORE:
		c->is_waiting = true;
		return;
	case FRAME_TOO_LARGE:
		refuse_too_large(c);
		return;
	case FRAME_NO_MEMORY:
		c->peer.out.failed = true; /* closes */
		return;
	}
}

static bool may_take(const struct conn *c)
{
	return !c->is_refused && !c->is_draining && !c->is_broken && !c->peer.out.failed && c->peer.in_flight < LIMIT_IN_FLIGHT &&
		unread(c) < LIMIT_CONNECTION_BACKLOG_BYTES;
}

static void take_lines(struct conn *c)
{
	if (c->turn != c->set->turn) {
		c->turn = c->set->turn;
		c->n_lines = 0;
	}
	c->is_waiting = false;
	while (may_take(c) && !c->is_waiting && c->n_lines < LIMIT_REQUESTS_PER_TURN)
		take_line(c);
	charge_held(c);
	if (!c->is_waiting || !may_take(c))
		return;
	if (c->is_eof && frame_has_partial(&c->frame))
		refuse_unfinished(c);
	else if (c->held > LIMIT_PARTIAL_BYTES_FREE && c->peer.user->partial_bytes > LIMIT_REQUEST_BYTES_PER_UID)
		refuse_half_line(c);
}

/* Closing a socket with unread input would reset it, and the client might lose the last reply. */
static void linger(struct conn *c)
{
	int fd;

	if (c->is_eof || uv_fileno((uv_handle_t *)&c->pipe, &fd) < 0 || shutdown(fd, SHUT_WR) == -1) {
		conn_close(c);
		return;
	}
	c->is_lingering = true;
	frame_fini(&c->frame);
	charge_held(c);
	(void)uv_timer_start(&c->timer, on_timer, c->set->linger_ms, 0);
	set_reading(c, true);
}

/* Its requests are as good as withdrawn, those that it has sent and that weren't read too. */
static void on_hangup(void *who)
{
	struct conn *c = conn_of(who);

	c->is_watched = false;
	if (!c->is_closed && !c->is_reading)
		conn_close(c);
}

/* While nothing is read, the end of the input can't tell. */
static void watch_hangup(struct conn *c)
{
	int fd;

	if (c->is_watched || c->is_reading || (may_take(c) && !c->is_eof))
		return;
	if (uv_fileno((uv_handle_t *)&c->pipe, &fd) < 0 || hangup_watch(&c->set->hangup, fd, !c->was_watched, c) == -1)
		return; /* then it is noticed when something is sent to it */
	c->is_watched = c->was_watched = true;
}

static bool is_at_end(const struct conn *c)
{
	bool ends = c->is_refused || c->is_draining || (c->is_eof && c->is_waiting);

	return ends && c->peer.in_flight == 0 && c->peer.out.size == 0 && !c->is_writing;
}

static void conn_turn(struct conn *c)
{
	if (c->is_closed || c->is_lingering)
		return;
	take_lines(c);
	if (flush(c) == -1) {
		conn_close(c);
		return;
	}
	not_due(c); /* what was answered just now is sent already */
	if (!c->is_writing && !c->is_eof && !c->is_refused && !c->is_draining && rpc_streams_pump(&c->peer))
		due(c);
	if (is_at_end(c)) {
		if (c->is_refused)
			linger(c);
		else
			conn_close(c);
		return;
	}
	if (may_take(c) && !c->is_waiting)
		due(c); /* the others first */
	set_reading(c, may_take(c) && c->is_waiting && !c->is_eof);
	if (c->is_closed)
		return;
	watch_silence(c);
	watch_hangup(c);
}

/* ---- begin and end ---- */

static void on_closed(uv_handle_t *handle)
{
	struct conn *c = conn_of(handle->data);
	struct conn_set *s = c->set;

	s->n_open_handles--;
	if (--c->n_handles == 0) {
		frame_fini(&c->frame);
		buf_fini(&c->writing);
		c->magic = 0;
		free(c);
	}
	if (s->n_open_handles == 0)
		s->handles_closed(s);
}

static void conn_close(struct conn *c)
{
	struct rpc_user *user = c->peer.user;

	if (c->is_closed)
		return;
	not_due(c);
	c->is_closed = true;
	TAILQ_REMOVE(&c->set->all, c, link);
	c->set->n--;
	rpc_peer_fini(&c->peer);
	user->reply_bytes -= c->charged;
	user->partial_bytes -= c->held;
	user->n_connections--;
	c->peer.user = NULL; /* from here on the listener may free it */
	uv_close((uv_handle_t *)&c->pipe, on_closed);
	uv_close((uv_handle_t *)&c->timer, on_closed);
	c->set->conn_closed(c->set, user);
}

/* Both handles exist; the pipe has no descriptor yet. */
static void conn_init(struct conn *c, struct conn_set *s, struct rpc_user *user, enum rights_level rights)
{
	c->magic = CONN_MAGIC;
	c->set = s;
	rpc_peer_init(&c->peer, ++s->n_ever, user, rights, on_answered);
	frame_init(&c->frame, LIMIT_REQUEST_BYTES);
	c->pipe.data = c->timer.data = c;
	c->n_handles = 2;
	s->n_open_handles += 2;
	s->n++;
	user->n_connections++;
	TAILQ_INSERT_TAIL(&s->all, c, link);
}

int conn_open(struct conn_set *s, int fd_take, struct rpc_user *user, enum rights_level rights, struct err *e)
{
	struct conn *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		(void)close(fd_take);
		return err_set(e, ERR_INTERNAL, "no memory for a connection");
	}
	(void)uv_pipe_init(s->control->loop, &c->pipe, 0); /* neither can fail */
	(void)uv_timer_init(s->control->loop, &c->timer);
	conn_init(c, s, user, rights);
	r = uv_pipe_open(&c->pipe, fd_take);
	if (r < 0) {
		(void)close(fd_take);
		conn_close(c);
		return err_set(e, ERR_IO, "cannot serve a connection: %s", uv_strerror(r));
	}
	conn_turn(c);
	return 0;
}

/* ---- the set ---- */

int conn_set_start(struct conn_set *s, struct control *control, struct err *e)
{
	int r;

	s->magic = SET_MAGIC;
	s->control = control;
	s->idle_partial_line_ms = LIMIT_IDLE_PARTIAL_LINE_MS;
	s->linger_ms = LINGER_MS;
	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->due);
	(void)uv_prepare_init(control->loop, &s->prepare);
	(void)uv_idle_init(control->loop, &s->idle);
	s->prepare.data = s->idle.data = s;
	s->n_open_handles += 2;
	if (hangup_open(&s->hangup, control->loop, on_hangup, e) == -1)
		return -1;
	s->hangup.poll.data = s;
	s->n_open_handles++;
	r = uv_prepare_start(&s->prepare, on_prepare);
	return r < 0 ? err_set(e, ERR_INTERNAL, "cannot serve connections: %s", uv_strerror(r)) : 0;
}

void conn_set_drain(struct conn_set *s)
{
	struct conn *c;

	TAILQ_FOREACH(c, &s->all, link) {
		c->is_draining = true;
		due(c);
	}
	(void)uv_idle_start(&s->idle, on_idle); /* called from anywhere: the turn comes at once */
}

void conn_set_close_all(struct conn_set *s)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&s->all)))
		conn_close(c);
}

static void on_set_closed(uv_handle_t *handle)
{
	struct conn_set *s = set_of(handle->data);

	if (--s->n_open_handles == 0)
		s->handles_closed(s);
}

void conn_set_close(struct conn_set *s)
{
	assert(s->n == 0);
	uv_close((uv_handle_t *)&s->prepare, on_set_closed);
	uv_close((uv_handle_t *)&s->idle, on_set_closed);
	if (s->hangup.fd != -1)
		hangup_close(&s->hangup, on_set_closed);
}
