/* SPDX-License-Identifier: MIT
 *
 * One SEQPACKET socket, a queue for what it doesn't take at once, and a list of who waits for which tag. The list is short: a
 * request is answered within one turn of the spawner's loop, but for compile jobs (LIMIT_JOBS). */
#include "daemon/control/spawner_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "proto/log.h"

#define MESSAGES_PER_TURN 64

struct waiting {
	struct waiting *next;
	uint64_t tag;
	spawner_reply_fn *reply;
	void *ctx;
};

struct outgoing {
	struct outgoing *next;
	struct spawner_message message;
	int fds[FD_MESSAGE_MAX]; /* duplicates, ours */
	size_t n_fds;
};

struct spawner_link {
	uv_poll_t poll;
	int fd;
	int watched;             /* what the loop waits for */
	uint64_t last_tag;
	struct waiting *waiting;
	struct outgoing *out, **out_end;
	spawner_notice_fn *notice;
	void *ctx;
};

int spawner_receive_begin(int fd, struct control_begin *ret, struct err *e)
{
	int fds[FD_MESSAGE_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_message_receive(fd, ret, sizeof *ret, fds, &n_fds);

	while (n_fds > 0)
		fd_close(&fds[--n_fds]);
	if (n != (ssize_t)sizeof *ret)
		return err_set(e, ERR_INTERNAL, "the spawner's first message has %zd bytes instead of %zu", n, sizeof *ret);
	if (ret->wire_version != SPAWNER_WIRE_VERSION)
		return err_set(e, ERR_INTERNAL, "the spawner speaks version %u, this program %u: install them together",
			ret->wire_version, SPAWNER_WIRE_VERSION);
	for (uint32_t i = 0; i < ret->n_profiles; i++) {
		if (i >= LIMIT_PROFILES || policy_check(&ret->profiles[i], e) < 0)
			return err_set(e, ERR_INTERNAL, "the spawner's first message has a bad profile");
		profile_own_put((enum profile)(PROFILE__N + i), &ret->profiles[i]);
	}
	return 0;
}

void spawner_message_init(struct spawner_message *m, enum spawner_op op, const char *sandbox)
{
	*m = (struct spawner_message){ .version = SPAWNER_WIRE_VERSION, .op = (uint16_t)op };
	if (sandbox) {
		size_t n = strnlen(sandbox, LIMIT_ID_BYTES);

		memcpy(m->sandbox, sandbox, n);
	}
}

static void link_poll(struct spawner_link *s);

static void waiting_answer(struct spawner_link *s, const struct spawner_message *m, int *fds, size_t n_fds)
{
	for (struct waiting **at = &s->waiting; *at; at = &(*at)->next) {
		struct waiting *w = *at;

		if (w->tag != m->tag)
			continue;
		*at = w->next;
		w->reply(w->ctx, m, fds, n_fds);
		free(w);
		return;
	}
}

/* 1: a message was handled; 0: none there */
static int link_receive(struct spawner_link *s)
{
	struct spawner_message m;
	int fds[FD_MESSAGE_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_message_receive(s->fd, &m, sizeof m, fds, &n_fds);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != (ssize_t)sizeof m || m.version != SPAWNER_WIRE_VERSION) {
		/* Nothing can be done without it, and hosts end by themselves. */
		log_info("the spawner is gone (%s): ending", n == 0 ? "end of file" : n < 0 ? strerror(errno) : "bad message");
		_exit(n == 0 ? 0 : 1);
	}
	if (m.op >= SPAWNER_EXITED)
		s->notice(s->ctx, &m, fds, n_fds);
	else
		waiting_answer(s, &m, fds, n_fds);
	while (n_fds > 0)
		fd_close(&fds[--n_fds]);
	return 1;
}

static void link_flush(struct spawner_link *s)
{
	while (s->out) {
		struct outgoing *o = s->out;

		if (fd_message_send(s->fd, &o->message, sizeof o->message, o->fds, o->n_fds) < 0) {
			if (errno == EAGAIN)
				break;
			log_error("cannot send to the spawner: %s", strerror(errno));
		}
		s->out = o->next;
		if (!s->out)
			s->out_end = &s->out;
		while (o->n_fds > 0)
			fd_close(&o->fds[--o->n_fds]);
		free(o);
	}
}

static void link_ready_cb(uv_poll_t *poll, int status, int events)
{
	struct spawner_link *s = poll->data;
	int64_t began_us = clock_monotonic_us();

	if (status < 0)
		s->watched = 0; /* libuv has stopped it */
	if (events & UV_WRITABLE)
		link_flush(s);
	for (int i = 0; i < MESSAGES_PER_TURN && link_receive(s) && clock_monotonic_us() - began_us < LIMIT_TURN_US; i++)
		; /* hundreds may have died at once; calls to the others come in between */
	if (!uv_is_closing((uv_handle_t *)poll))
		link_poll(s);
}

/* libuv makes system calls at each uv_poll_start, also when nothing changes. */
static void link_poll(struct spawner_link *s)
{
	int events = UV_READABLE | (s->out ? UV_WRITABLE : 0);

	if (s->watched == events)
		return;
	s->watched = events;
	uv_poll_start(&s->poll, events, link_ready_cb);
}

int spawner_link_new(uv_loop_t *loop, int fd_take, spawner_notice_fn *notice, void *ctx, struct spawner_link **ret, struct err *e)
{
	struct spawner_link *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_set(e, ERR_INTERNAL, "no memory for the link to the spawner");
	s->fd = fd_take;
	s->out_end = &s->out;
	s->notice = notice;
	s->ctx = ctx;
	s->poll.data = s;
	rc = uv_poll_init(loop, &s->poll, s->fd);
	if (rc < 0) {
		free(s);
		return err_set(e, ERR_INTERNAL, "cannot watch the spawner's socket: %s", uv_strerror(rc));
	}
	link_poll(s);
	*ret = s;
	return 0;
}

static void link_closed_cb(uv_handle_t *handle)
{
	struct spawner_link *s = handle->data;

	while (s->waiting) {
		struct waiting *w = s->waiting;

		s->waiting = w->next;
		free(w);
	}
	while (s->out) {
		struct outgoing *o = s->out;

		s->out = o->next;
		while (o->n_fds > 0)
			fd_close(&o->fds[--o->n_fds]);
		free(o);
	}
	fd_close(&s->fd);
	free(s);
}

void spawner_link_close(struct spawner_link *s)
{
	if (s)
		uv_close((uv_handle_t *)&s->poll, link_closed_cb);
}

void spawner_send(struct spawner_link *s, struct spawner_message *m, const int *fds, size_t n_fds)
{
	struct outgoing *o;

	if (!s->out && fd_message_send(s->fd, m, sizeof *m, fds, n_fds) == 0)
		return;
	o = calloc(1, sizeof *o);
	if (!o) {
		log_error("no memory for a message to the spawner");
		return;
	}
	o->message = *m;
	for (o->n_fds = 0; o->n_fds < n_fds; o->n_fds++)
		o->fds[o->n_fds] = fcntl(fds[o->n_fds], F_DUPFD_CLOEXEC, 3);
	*s->out_end = o;
	s->out_end = &o->next;
	link_poll(s);
}

uint64_t spawner_request(struct spawner_link *s, struct spawner_message *m, const int *fds, size_t n_fds, spawner_reply_fn *reply,
	void *ctx, struct err *e)
{
	struct waiting *w = malloc(sizeof *w);

	if (!w) {
		err_set(e, ERR_INTERNAL, "no memory for a request to the spawner");
		return 0;
	}
	m->tag = ++s->last_tag;
	*w = (struct waiting){ s->waiting, m->tag, reply, ctx };
	s->waiting = w;
	spawner_send(s, m, fds, n_fds);
	return m->tag;
}

int spawner_ask(struct spawner_link *s, struct spawner_message *m, struct spawner_message *ret_reply, int fds[], size_t *n_fds, struct err *e)
{
	m->tag = ++s->last_tag;
	if (fd_message_send(s->fd, m, sizeof *m, NULL, 0) < 0)
		return err_sys(e, ERR_INTERNAL, "cannot ask the spawner");
	for (;;) {
		struct pollfd p = { s->fd, POLLIN, 0 };
		ssize_t n;

		if (poll(&p, 1, 10000) <= 0)
			return err_set(e, ERR_INTERNAL, "the spawner doesn't answer within 10 s");
		n = fd_message_receive(s->fd, ret_reply, sizeof *ret_reply, fds, n_fds);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n != (ssize_t)sizeof *ret_reply)
			return err_set(e, ERR_INTERNAL, "the spawner's answer has %zd bytes", n);
		if (ret_reply->tag == m->tag)
			return 0;
		/* Between the table's pages: a notice (an exit stands in the table too, the rest is for the loop), or the answer to
		 * what an entry made control ask for. */
		if (ret_reply->op >= SPAWNER_EXITED)
			s->notice(s->ctx, ret_reply, fds, *n_fds);
		else
			waiting_answer(s, ret_reply, fds, *n_fds);
		while (*n_fds > 0)
			fd_close(&fds[--*n_fds]);
	}
}
