/* SPDX-License-Identifier: MIT
 *
 * Accepting. The descriptor is watched with uv_poll and accepted from here, so that credentials, caps and the lack of
 * descriptors are dealt with before anything is allocated. A descriptor is kept in reserve: when there are no more, it is
 * given up for a moment to accept and turn away, for a client that isn't accepted would wake the loop for ever. */
#include "daemon/front/listener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/front/conn.h"
#include "daemon/front/rpc_envelope.h"
#include "daemon/front/rpc_peer.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "proto/log.h"

#define LISTENER_MAGIC    0x6c697374u
#define DOOR_MAGIC        0x646f6f72u
#define ACCEPTS_PER_TURN  16
#define DRAIN_MS          2000
#define PAUSE_MS          100  /* after an accept that failed for want of memory and the like */
#define REFUSALS_LOG_MS   1000 /* one line a second tells enough */

/* One listening descriptor. A replaced one lives until its handle is closed. */
struct door {
	uint32_t magic;
	struct listener *listener;
	int fd;
	uv_poll_t poll;
};

struct listener {
	uint32_t magic;
	struct control *control;
	struct conn_set conns;
	struct door *door;            /* NULL: closing */
	LIST_HEAD(, rpc_user) users;  /* with connections */
	int reserve_fd;
	unsigned max_connections, max_connections_per_uid, reserved_connections;
	uint64_t drain_ms;
	uint64_t n_refused;
	uint64_t refusal_logged_ms;
	uv_timer_t timer;             /* the end of a pause, or of draining */
	bool is_closing, are_handles_closing;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

static struct listener *listener_of(void *data)
{
	struct listener *l = data;

	assert(l && l->magic == LISTENER_MAGIC);
	return l;
}

static struct door *door_of(void *data)
{
	struct door *d = data;

	assert(d && d->magic == DOOR_MAGIC);
	return d;
}

static struct listener *listener_of_set(struct conn_set *s)
{
	return listener_of((char *)s - offsetof(struct listener, conns));
}

/* ---- users ---- */

static void user_release(struct rpc_user *user)
{
	if (user->n_connections > 0 || user->request_bytes > 0)
		return;
	assert(user->upload_bytes == 0 && user->reply_bytes == 0);
	LIST_REMOVE(user, link);
	free(user);
}

/* The listener ends before requests whose clients have gone: the last of them frees their user. */
static void user_release_late(struct rpc_user *user)
{
	if (user->request_bytes == 0)
		free(user);
}

static void users_leave(struct listener *l)
{
	struct rpc_user *user;

	while ((user = LIST_FIRST(&l->users))) {
		assert(user->n_connections == 0);
		LIST_REMOVE(user, link);
		user->left = user_release_late;
	}
}

static struct rpc_user *user_get(struct listener *l, uid_t uid)
{
	struct rpc_user *user;

	LIST_FOREACH(user, &l->users, link)
		if (user->uid == uid)
			return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	user->left = user_release;
	LIST_INSERT_HEAD(&l->users, user, link);
	return user;
}

/* ---- turning away ---- */

static void log_refusal(struct listener *l, const struct err *e)
{
	uint64_t now = uv_now(l->control->loop);

	if (l->n_refused > 1 && now - l->refusal_logged_ms < REFUSALS_LOG_MS)
		return;
	l->refusal_logged_ms = now;
	log_warning("a client is turned away: %s (%llu so far)", e->text, (unsigned long long)l->n_refused);
}

/* One line that says why, if it fits into the socket at once, then the end. */
static void turn_away(struct listener *l, int fd_take, const struct err *e)
{
	struct buf text = BUF_INIT;
	char waste[4096];

	l->n_refused++;
	log_refusal(l, e);
	rpc_write_error(&text, rpc_null, e, NULL);
	buf_add_char(&text, '\n');
	if (!text.failed)
		(void)send(fd_take, text.data, text.size, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(fd_take, SHUT_WR);
	(void)recv(fd_take, waste, sizeof(waste), MSG_DONTWAIT); /* unread input would reset the connection */
	(void)close(fd_take);
	buf_fini(&text);
}

/* The last slots and descriptors are the administrators'. */
static int check_caps(const struct listener *l, const struct rpc_user *user, enum rights_level rights, struct err *e)
{
	unsigned kept = rights == RIGHTS_ADMIN ? 0 : l->reserved_connections;
	unsigned per_uid = l->max_connections_per_uid;

	if (rights == RIGHTS_NONE && per_uid > LIMIT_CONNECTIONS_PER_UID_NONE)
		per_uid = LIMIT_CONNECTIONS_PER_UID_NONE;
	if (!fd_room_beside(LIMIT_RESERVED_FDS + kept))
		return err_set(e, ERR_LIMIT_EXCEEDED, "the daemon has no descriptor left for a connection");
	if (l->conns.n + kept >= l->max_connections)
		return err_set(e, ERR_LIMIT_EXCEEDED, "the daemon has %u connections", l->conns.n);
	if (user->n_connections >= per_uid)
		return err_set(e, ERR_LIMIT_EXCEEDED, "uid %lu has %u connections", (unsigned long)user->uid,
			user->n_connections);
	return 0;
}

/* The level of whoever connects: by its uid, or by any of the groups that it had then. */
static enum rights_level peer_rights(const struct listener *l, int fd, const struct ucred *who)
{
	const struct control_begin *b = &l->control->begin;
	gid_t few[64] = { 0 }, *groups = few;
	socklen_t size = sizeof(few);
	enum rights_level level;
	int r;

	if (b->n_administrator_groups == 0 && b->n_operator_groups == 0)
		return rights_of(b, who->uid, NULL, 0);
	r = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
	if (r == -1 && errno == ERANGE && size <= LIMIT_PEER_GROUPS * sizeof(gid_t)) { /* size is what it takes */
		groups = malloc(size);
		r = groups ? getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) : -1;
	}
	if (r == -1)
		log_warning("cannot tell the groups of uid %lu: only its uid counts", (unsigned long)who->uid);
	level = rights_of(b, who->uid, groups, r == -1 ? 0 : size / sizeof(gid_t));
	if (groups != few)
		free(groups);
	if (level != RIGHTS_ADMIN) { /* the primary group isn't among the supplementary ones */
		enum rights_level primary = rights_of(b, who->uid, &who->gid, 1);

		level = primary > level ? primary : level;
	}
	return level;
}

static void admit(struct listener *l, int fd_take)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	struct rpc_user *user;
	enum rights_level rights;
	struct err e;

	if (getsockopt(fd_take, SOL_SOCKET, SO_PEERCRED, &who, &size) == -1 || size != sizeof(who)) {
		err_sys(&e, ERR_DENIED, "cannot tell who connects");
		turn_away(l, fd_take, &e);
		return;
	}
	user = user_get(l, who.uid);
	if (!user) {
		err_set(&e, ERR_LIMIT_EXCEEDED, "no memory for a connection");
		turn_away(l, fd_take, &e);
		return;
	}
	rights = peer_rights(l, fd_take, &who);
	if (check_caps(l, user, rights, &e) == -1) {
		turn_away(l, fd_take, &e);
		user_release(user);
		return;
	}
	user->n_connections++; /* holds it here: the connection may be over already when conn_open returns */
	if (conn_open(&l->conns, fd_take, user, rights, &e) == -1)
		log_warning("%s", e.text);
	user->n_connections--;
	user_release(user);
}

/* ---- accepting ---- */

static void on_poll(uv_poll_t *poll, int status, int events);

static void on_pause_end(uv_timer_t *timer)
{
	struct listener *l = listener_of(timer->data);

	if (l->door)
		(void)uv_poll_start(&l->door->poll, UV_READABLE, on_poll);
}

static void pause_accepting(struct listener *l, const char *why)
{
	log_warning("cannot accept a connection: %s", why);
	(void)uv_poll_stop(&l->door->poll);
	(void)uv_timer_start(&l->timer, on_pause_end, PAUSE_MS, 0);
}

/* No descriptor is left: uses the one in reserve. false: there is nobody to turn away, or even that didn't help. */
static bool turn_away_with_reserve(struct listener *l)
{
	struct err e;
	int fd;

	if (l->reserve_fd == -1)
		l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (l->reserve_fd == -1)
		return false;
	fd_close(&l->reserve_fd);
	fd = accept4(l->door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd != -1) {
		err_set(&e, ERR_LIMIT_EXCEEDED, "the daemon has no descriptor left for a connection");
		turn_away(l, fd, &e);
	}
	l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd != -1 && l->reserve_fd != -1;
}

/* false: no more now. */
static bool accept_one(struct listener *l)
{
	int fd = accept4(l->door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd != -1) {
		admit(l, fd);
		return true;
	}
	if (errno == EINTR || errno == ECONNABORTED)
		return true;
	if (errno == EAGAIN)
		return false;
	if ((errno == EMFILE || errno == ENFILE) && turn_away_with_reserve(l))
		return true;
	if (errno != EAGAIN)
		pause_accepting(l, strerror(errno));
	return false;
}

static void accept_some(struct listener *l)
{
	for (int i = 0; i < ACCEPTS_PER_TURN && l->door; i++)
		if (!accept_one(l))
			return;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct door *d = door_of(poll->data);

	(void)events;
	if (d->listener->door != d)
		return;
	if (status < 0)
		pause_accepting(d->listener, uv_strerror(status));
	else
		accept_some(d->listener);
}

/* ---- doors ---- */

static void maybe_closed(struct listener *l)
{
	void (*closed)(void *ctx) = l->closed;
	void *ctx = l->closed_ctx;

	if (l->conns.n_open_handles > 0 || !l->are_handles_closing)
		return;
	users_leave(l);
	fd_close(&l->reserve_fd);
	l->magic = 0;
	free(l);
	if (closed)
		closed(ctx);
}

static void on_door_closed(uv_handle_t *handle)
{
	struct door *d = door_of(handle->data);
	struct listener *l = d->listener;

	d->magic = 0;
	free(d);
	l->conns.n_open_handles--;
	maybe_closed(l);
}

static void door_close(struct listener *l)
{
	struct door *d = l->door;

	if (!d)
		return;
	l->door = NULL;
	(void)uv_poll_stop(&d->poll);
	fd_close(&d->fd); /* allowed once it isn't polled any more */
	uv_close((uv_handle_t *)&d->poll, on_door_closed);
}

static int door_open(struct listener *l, int fd_take, struct err *e)
{
	struct door *d = calloc(1, sizeof(*d));
	int r;

	if (!d) {
		(void)close(fd_take);
		return err_set(e, ERR_INTERNAL, "no memory for the listening socket");
	}
	*d = (struct door){ .magic = DOOR_MAGIC, .listener = l, .fd = fd_take };
	r = uv_poll_init(l->control->loop, &d->poll, fd_take);
	if (r < 0) {
		(void)close(fd_take);
		free(d);
		return err_set(e, ERR_IO, "cannot watch the listening socket: %s", uv_strerror(r));
	}
	d->poll.data = d;
	l->door = d;
	l->conns.n_open_handles++;
	r = uv_poll_start(&d->poll, UV_READABLE, on_poll);
	if (r < 0) {
		door_close(l);
		return err_set(e, ERR_IO, "cannot watch the listening socket: %s", uv_strerror(r));
	}
	return 0;
}

void listener_replace(struct listener *l, int listen_fd_take)
{
	struct err e;

	if (l->is_closing) {
		(void)close(listen_fd_take);
		return;
	}
	door_close(l);
	if (door_open(l, listen_fd_take, &e) == -1)
		log_error("%s", e.text);
}

/* ---- begin and end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct listener *l = listener_of(handle->data);

	l->conns.n_open_handles--;
	maybe_closed(l);
}

static void on_handles_closed(struct conn_set *s)
{
	maybe_closed(listener_of_set(s));
}

/* The last connection has gone, and no more will come: the handles follow. */
static void close_handles(struct listener *l)
{
	if (!l->is_closing || l->are_handles_closing || l->conns.n > 0)
		return;
	l->are_handles_closing = true;
	conn_set_close(&l->conns);
	uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

static void on_conn_closed(struct conn_set *s, struct rpc_user *user)
{
	user_release(user);
	close_handles(listener_of_set(s));
}

static void on_drain_end(uv_timer_t *timer)
{
	struct listener *l = listener_of(timer->data);

	log_warning("%u connections are closed with requests or replies pending", l->conns.n);
	conn_set_close_all(&l->conns);
}

void listener_close(struct listener *l, void (*closed)(void *ctx), void *ctx)
{
	assert(!l->is_closing);
	l->is_closing = true;
	l->closed = closed;
	l->closed_ctx = ctx;
	door_close(l);
	conn_set_drain(&l->conns);
	(void)uv_timer_start(&l->timer, on_drain_end, l->drain_ms, 0);
	close_handles(l);
}

int listener_start(struct control *c, int listen_fd_take, struct listener **ret, struct err *e)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l) {
		(void)close(listen_fd_take);
		return err_set(e, ERR_INTERNAL, "no memory for the listener");
	}
	l->magic = LISTENER_MAGIC;
	l->control = c;
	l->max_connections = LIMIT_CONNECTIONS;
	l->max_connections_per_uid = LIMIT_CONNECTIONS_PER_UID;
	l->reserved_connections = LIMIT_CONNECTIONS_RESERVED;
	l->drain_ms = DRAIN_MS;
	LIST_INIT(&l->users);
	(void)signal(SIGPIPE, SIG_IGN); /* libuv writes with write(2) */
	l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	l->conns.conn_closed = on_conn_closed;
	l->conns.handles_closed = on_handles_closed;
	(void)uv_timer_init(c->loop, &l->timer);
	l->timer.data = l;
	l->conns.n_open_handles = 1;
	if (conn_set_start(&l->conns, c, e) == -1) {
		(void)close(listen_fd_take);
		listener_close(l, NULL, NULL); /* freed by the loop */
		return -1;
	}
	if (door_open(l, listen_fd_take, e) == -1) {
		listener_close(l, NULL, NULL);
		return -1;
	}
	*ret = l;
	return 0;
}

void listener_count(const struct listener *l, struct listener_counters *ret)
{
	const struct rpc_user *user;

	*ret = (struct listener_counters){ .connections = l->conns.n, .connections_ever = l->conns.n_ever,
		.requests = l->conns.n_requests, .refused = l->n_refused };
	LIST_FOREACH(user, &l->users, link)
		ret->partial_bytes += user->partial_bytes;
}

void listener_set_caps(struct listener *l, const struct listener_caps *caps)
{
	if (caps->connections)
		l->max_connections = caps->connections;
	if (caps->connections_per_uid)
		l->max_connections_per_uid = caps->connections_per_uid;
	if (caps->idle_partial_line_ms)
		l->conns.idle_partial_line_ms = caps->idle_partial_line_ms;
	if (caps->linger_ms)
		l->conns.linger_ms = caps->linger_ms;
	if (caps->drain_ms)
		l->drain_ms = caps->drain_ms;
}
