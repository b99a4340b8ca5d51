/* SPDX-License-Identifier: MIT
 *
 * Nothing that comes from a host is trusted: sizes are checked by host_receive, type and generation and JSON here. One receive
 * buffer serves all links, since a message is handled before the next is read. */
#include "daemon/sandbox/host_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/json_scan.h"

#define ACK_AFTER_REPLIES 32 /* without a call to carry the acknowledgement; the host keeps at most LIMIT_REPLIES_UNACKED */
#define ACK_AFTER_BYTES   (LIMIT_REPLIES_UNACKED_BYTES / 8) /* of bodies: a host that is full begins no call, and no stop behind one */
#define DRAIN_BYTES       (4u << 20) /* of each pipe of an ended host: more than a pipe holds, also when enlarged */

static struct host_incoming incoming; /* of the loop thread */

static void link_poll(struct host_link *l);

static void link_break(struct host_link *l, const char *why)
{
	if (l->broken)
		return;
	l->broken = true;
	l->watched = 0;
	uv_poll_stop(&l->channel);
	l->owner->broken(l, why);
}

static bool body_is_json(enum host_message_type type, const struct host_message *head)
{
	return type != HOST_DEATH && head->body_bytes > 0;
}

/* 1: a message was handled */
static int link_receive(struct host_link *l)
{
	struct err e = ERR_INIT;
	int rc;

	if (!incoming.buffer && host_incoming_init(&incoming, &e) < 0)
		return 0;
	rc = host_receive(l->channel_fd, &incoming, &e);
	if (rc == 0)
		return 0;
	if (rc < 0) {
		link_break(l, strcmp(e.name, "eof") == 0 ? NULL : e.text);
		return 0;
	}
	if (incoming.head.generation != l->generation)
		return 1; /* an older incarnation's words, or a forgery */
	if (incoming.head.type < HOST_REPORT || incoming.head.type >= HOST_TO_CONTROL__N || incoming.state_fd >= 0) {
		link_break(l, "a message of a type that hosts don't send");
		return 0;
	}
	/* Before its body costs anything: nobody may keep this loop busy with answers that nobody asked for. */
	if (incoming.head.type == HOST_REPLY && (!l->owner->awaits(l, incoming.head.number) ||
							(l->seen != 0 && incoming.head.sequence > l->seen + 1))) {
		link_break(l, "a reply that nobody asked for");
		return 0;
	}
	l->turn_bytes += incoming.head.body_bytes;
	if (body_is_json(incoming.head.type, &incoming.head) && json_check_within(incoming.body, incoming.head.body_bytes, LIMIT_REPLY_DEPTH, &e) < 0) {
		link_break(l, "a message whose body is not strict JSON");
		return 0;
	}
	if (body_is_json(incoming.head.type, &incoming.head) && memchr(incoming.body, '\n', incoming.head.body_bytes)) {
		link_break(l, "a message with a raw newline");
		return 0;
	}
	if (incoming.head.type == HOST_REPLY) {
		if (incoming.head.sequence > l->seen)
			l->seen = incoming.head.sequence;
		l->unacked_bytes += incoming.head.body_bytes;
	}
	l->owner->message(l, &incoming.head, incoming.body);
	return 1;
}

static void out_flush(struct host_link *l)
{
	while (l->out) {
		struct host_out *o = l->out;

		if (fd_message_send(l->channel_fd, o->data, o->size, &o->fd, o->fd >= 0) < 0 && errno == EAGAIN)
			return;
		l->out = o->next;
		l->n_out--;
		fd_close(&o->fd);
		free(o->data);
		free(o);
	}
	l->out_end = &l->out;
}

static void channel_cb(uv_poll_t *poll, int status, int events)
{
	struct host_link *l = poll->data;

	if (status < 0)
		l->watched = 0; /* libuv has stopped it */
	if (events & UV_WRITABLE) {
		out_flush(l);
		if (!l->out && l->full) {
			l->full = false;
			l->owner->writable(l);
		}
	}
	l->turn_bytes = 0;
	/* A lone call's answer is one message: to find nothing behind it would cost a system call before its caller is answered. */
	for (int i = 0; i < LIMIT_HOST_MESSAGES_PER_TURN && l->turn_bytes < LIMIT_HOST_BYTES_PER_TURN && !l->broken && !l->closing; i++)
		if (!link_receive(l) || l->broken || l->closing || !l->owner->expects(l))
			break;
	/* While something waits to be sent, that carries the acknowledgement: a host that doesn't read can't make the queue grow. */
	if (!l->broken && !l->closing && !l->out && (l->seen - l->acked >= ACK_AFTER_REPLIES || l->unacked_bytes >= ACK_AFTER_BYTES))
		(void)host_link_send(l, HOST_ACK, 0, 0, NULL, 0, -1);
	if (!l->broken && !l->closing)
		link_poll(l);
}

/* libuv makes system calls at each uv_poll_start, also when nothing changes. */
static void link_poll(struct host_link *l)
{
	int events = UV_READABLE | (l->full || l->out ? UV_WRITABLE : 0);

	if (l->closing || l->watched == events)
		return;
	l->watched = events;
	uv_poll_start(&l->channel, events, channel_cb);
}

/* Reads at most `most` bytes of a pipe; false: at its end, or nothing more now. */
static void stream_read(struct host_link *l, int which, size_t most)
{
	static char bytes[65536]; /* as much as a pipe holds: small reads cost more per line */
	size_t sum = 0;

	while (sum < most) {
		ssize_t n = read(l->stream_fds[which], bytes, sizeof bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 && l->streams[which].data)
			uv_poll_stop(&l->streams[which]);
		if (n <= 0)
			return;
		l->owner->output(l, which == 0 ? LOG_STREAM_STDOUT : LOG_STREAM_STDERR, bytes, (size_t)n);
		sum += (size_t)n;
	}
}

static void stream_cb(uv_poll_t *poll, int status, int events)
{
	struct host_link *l = poll->data;

	(void)events;
	if (status < 0)
		uv_poll_stop(poll);
	else
		stream_read(l, poll == &l->streams[0] ? 0 : 1, LIMIT_LOG_READ_BYTES_PER_TURN);
}

int host_link_open(struct host_link *l, uv_loop_t *loop, uint64_t generation, int channel_fd, int stdout_fd, int stderr_fd,
	const struct host_link_owner *owner, void *ctx, struct err *e)
{
	*l = (struct host_link){ .channel_fd = channel_fd, .stream_fds = { stdout_fd, stderr_fd }, .generation = generation,
		.owner = owner, .ctx = ctx };
	l->out_end = &l->out;
	if (fd_set_nonblocking(channel_fd, true) < 0 || fd_set_nonblocking(stdout_fd, true) < 0 ||
		fd_set_nonblocking(stderr_fd, true) < 0 || uv_poll_init(loop, &l->channel, channel_fd) < 0) {
		err_set(e, ERR_INTERNAL, "cannot watch the channel of a host");
		goto fail;
	}
	l->open_handles = 1;
	l->channel.data = l;
	link_poll(l);
	return 0;
fail:
	fd_close(&l->channel_fd);
	fd_close(&l->stream_fds[0]);
	fd_close(&l->stream_fds[1]);
	return -1;
}

void host_link_read_output(struct host_link *l)
{
	if (l->closing)
		return;
	for (int i = 0; i < 2; i++) {
		if (uv_poll_init(l->channel.loop, &l->streams[i], l->stream_fds[i]) < 0)
			continue; /* its output is lost, the sandbox is not */
		l->open_handles++;
		l->streams[i].data = l;
		uv_poll_start(&l->streams[i], UV_READABLE, stream_cb);
	}
}

bool host_link_is_open(const struct host_link *l)
{
	return l->open_handles > 0 && !l->closing;
}

static bool has_writers(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd != -1 && poll(&p, 1, 0) != -1 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

unsigned host_link_drain(struct host_link *l)
{
	unsigned held = 0;

	for (int i = 0; i < 2 * LIMIT_REPLIES_UNACKED && !l->broken && !l->closing && link_receive(l); i++)
		;
	for (int i = 0; i < 2; i++)
		stream_read(l, i, DRAIN_BYTES);
	for (int i = 0; i < 2; i++)
		if (has_writers(l->stream_fds[i]))
			held |= i == 0 ? HOST_LINK_STDOUT : HOST_LINK_STDERR;
	return held;
}

static void handle_closed_cb(uv_handle_t *handle)
{
	struct host_link *l = handle->data;

	if (--l->open_handles > 0)
		return;
	fd_close(&l->channel_fd);
	fd_close(&l->stream_fds[0]);
	fd_close(&l->stream_fds[1]);
	while (l->out) {
		struct host_out *o = l->out;

		l->out = o->next;
		fd_close(&o->fd);
		free(o->data);
		free(o);
	}
	l->closed(l);
}

void host_link_close(struct host_link *l, void (*closed)(struct host_link *l))
{
	if (l->closing)
		return;
	l->closing = true;
	l->closed = closed;
	for (int i = 0; i < 2; i++)
		if (l->streams[i].data)
			uv_close((uv_handle_t *)&l->streams[i], handle_closed_cb);
	uv_close((uv_handle_t *)&l->channel, handle_closed_cb);
}

static struct host_message head_of(struct host_link *l, enum host_message_type type, uint64_t number)
{
	struct host_message head = { .type = (uint16_t)type, .generation = l->generation, .number = number, .sequence = l->seen };

	l->acked = l->seen;
	l->unacked_bytes = 0;
	return head;
}

/* Keeps a control message for later: few and small (calls aren't kept here). */
static int out_keep(struct host_link *l, const struct host_message *head, const void *body, size_t size, int state_fd)
{
	struct host_out *o = l->n_out < LIMIT_HOST_MESSAGES_WAITING ? calloc(1, sizeof *o) : NULL;

	if (o)
		o->data = malloc(sizeof *head + size);
	if (!o || !o->data) {
		free(o);
		return -1;
	}
	memcpy(o->data, head, sizeof *head);
	if (size > 0)
		memcpy(o->data + sizeof *head, body, size);
	o->size = sizeof *head + size;
	o->fd = state_fd < 0 ? -1 : fcntl(state_fd, F_DUPFD_CLOEXEC, 3);
	*l->out_end = o;
	l->out_end = &o->next;
	l->n_out++;
	link_poll(l);
	return 0;
}

int host_link_send(struct host_link *l, enum host_message_type type, uint64_t number, int64_t value, const void *body, size_t size,
	int state_fd)
{
	struct host_message head = head_of(l, type, number);
	struct err e = ERR_INIT;
	int rc = 1;

	if (l->broken || l->closing)
		return -1;
	head.value[0] = value;
	if (!l->out)
		rc = host_send(l->channel_fd, &head, body, size, state_fd, &e);
	if (rc == 1 && size <= HOST_INLINE_BYTES) {
		/* host_send has filled the header; when it wasn't called, this does */
		head.magic = HOST_MESSAGE_MAGIC;
		head.body_bytes = (uint32_t)size;
		if (state_fd >= 0)
			head.flags |= HOST_F_STATE;
		return out_keep(l, &head, body, size, state_fd);
	}
	return rc;
}

int host_link_call(struct host_link *l, uint64_t number, bool is_cast, const char *function, const char *args, size_t args_size)
{
	static char body[LIMIT_BODY_BYTES + LIMIT_FUNCTION_BYTES + 1];
	struct host_message head;
	struct err e = ERR_INIT;
	size_t n = strlen(function);
	int rc;

	if (l->broken || l->closing)
		return -1;
	if (l->out) {
		l->full = true;
		return 1;
	}
	head = head_of(l, HOST_CALL, number);
	if (is_cast)
		head.flags |= HOST_F_CAST;
	body[0] = (char)n;
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the name's length stands before it, no NUL after */
	memcpy(body + 1, function, n);
	memcpy(body + 1 + n, args, args_size);
	rc = host_send(l->channel_fd, &head, body, 1 + n + args_size, -1, &e);
	if (rc == 1) {
		l->full = true;
		link_poll(l);
	}
	return rc;
}
