/* SPDX-License-Identifier: MIT
 *
 * Which message is handled in which phase is the table below; the handlers that make a process live or change
 * live in life.c and txn.c. A message that breaks the contract ends the process: its sender is control, and a
 * control that can't keep its own contract may not go on with this host. Merely untimely requests that have
 * an answer are refused by it. */
#include "daemon/host/serve.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/host/attention.h"
#include "daemon/host/death.h"
#include "daemon/host/lines.h"
#include "daemon/host/mirror.h"
#include "daemon/host/orphans.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/sandbox_module.h"

#define TRIM_AFTER_MS    200
#define TRIM_STACK_BYTES (128u << 10) /* below the loop; more than a start uses */
#define TRIM_FRAMES_BYTES 1024        /* of what trim calls */

/* Calls that control may have sent, and a transaction behind them. */
#define WAITING_MOST (LIMIT_CALLS_IN_HOST + 16)

/* ---- calls and replies ---- */

/* Sends the answer and keeps it; one that can't be sent is replaced by an error that says so. */
static void reply(struct host *h, uint64_t number, uint32_t status, struct buf *body)
{
	struct host_message head = {
		.type = HOST_REPLY, .number = number, .sequence = h->replies.next, .status = status
	};
	struct err e = ERR_INIT;
	size_t size = 0;
	char *kept;

	if (host_post_raw(h, &head, body->data, body->size, &e) < 0) {
		buf_clear(body);
		host_error_body(body, &e, NULL);
		head.status = status = 1;
		if (body->failed || host_post_raw(h, &head, body->data, body->size, &e) < 0)
			death_end(HOST_EXIT_RESOURCE, e.text);
	}
	kept = buf_take(body, &size);
	if (!kept)
		death_end(HOST_EXIT_RESOURCE, "no memory to keep a reply");
	(void)replies_add(&h->replies, number, status, kept, size);
}

static void reply_error(struct host *h, uint64_t number, const struct err *e)
{
	struct buf body = BUF_INIT;

	host_error_body(&body, e, NULL);
	if (body.failed)
		death_end(HOST_EXIT_RESOURCE, "no memory for a reply");
	reply(h, number, 1, &body);
	buf_fini(&body);
}

/* What a module prints belongs to the call that it printed it in. */
static void flush_output(void)
{
	if (__fpending(stdout) > 0)
		(void)fflush(stdout);
}

static void call_ended(void)
{
	death_running("");
	attention_call_ended();
	flush_output();
}

/* A cast's caller is answered when its function begins; how it ends is told by a message of its own. */
struct cast {
	struct host *h;
	uint64_t number;
	bool began;
};

static void cast_began(void *ctx)
{
	struct cast *c = ctx;
	struct buf body = BUF_INIT;

	buf_add(&body, "{}", 2);
	if (body.failed)
		death_end(HOST_EXIT_RESOURCE, "no memory for a reply");
	c->began = true;
	reply(c->h, c->number, 0, &body);
	buf_fini(&body);
}

static void run_cast(struct host *h, uint64_t number, const char *function, const char *args, size_t n)
{
	struct cast c = { h, number, false };
	struct buf body = BUF_INIT;
	struct err e = ERR_INIT, ignored = ERR_INIT;
	int rc = instance_cast(h->now.instance, function, args, n, cast_began, &c, &e);

	call_ended();
	if (!c.began) {
		reply_error(h, number, &e);
		return;
	}
	if (rc == 0)
		rc = mirror_save(h, h->now.instance, &e);
	else
		(void)mirror_save(h, h->now.instance, &ignored); /* what it had changed by then */
	if (rc < 0)
		host_error_body(&body, &e, function);
	host_post(h, HOST_CAST_ENDED, number, rc < 0, 0, &body);
	buf_fini(&body);
}

static void run_call(struct host *h, uint64_t number, const char *function, const char *args, size_t n)
{
	struct buf result = BUF_INIT;
	struct err e = ERR_INIT, unsaved = ERR_INIT;
	int rc;

	buf_init(&result, LIMIT_BODY_BYTES);
	rc = instance_call(h->now.instance, function, args, n, &result, &e);
	call_ended();
	if (rc == 0 && (result.failed || result.size > LIMIT_BODY_BYTES))
		rc = err_set(&e, ERR_REPLY_TOO_LARGE, "the reply of %s exceeds %u bytes", function,
			LIMIT_BODY_BYTES);
	if (mirror_save(h, h->now.instance, &unsaved) < 0 && e.code != ERR_UNKNOWN_FUNCTION && e.code != ERR_BAD_ARGUMENT) {
		rc = -1; /* it ran, and what it did would be lost with this process: that is no acknowledgement */
		e = unsaved;
		(void)err_prefix(&e, "%s has run, but", function);
	}
	if (rc == 0)
		reply(h, number, 0, &result);
	else
		reply_error(h, number, &e);
	buf_fini(&result);
}

static void serve_call(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	char function[LIMIT_FUNCTION_BYTES + 1] = "";
	size_t n = head->body_bytes > 0 ? (unsigned char)body[0] : 0;

	(void)state_fd;
	if (n == 0 || n > LIMIT_FUNCTION_BYTES || n + 1 > head->body_bytes || memchr(body + 1, 0, n))
		death_end(HOST_EXIT_CONTRACT, "a CALL without a proper function name");
	memcpy(function, body + 1, n);
	death_running(function);
	(head->flags & HOST_F_CAST ? run_cast : run_call)(h, head->number, function, body + 1 + n, head->body_bytes - 1 - n);
}

static void serve_query(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct host_message status = { .type = HOST_STATUS, .value = { (int64_t)h->now.serial, h->phase },
		.sequence = h->last_call };
	const struct reply *kept;
	struct err e = ERR_INIT;

	(void)head, (void)body, (void)state_fd;
	status.number = h->candidate_serial;
	if (status.number == 0 && copy_running(&h->rehearsal))
		status.number = h->rehearsal_serial;
	if (host_post_raw(h, &status, NULL, 0, &e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);
	for (size_t i = 0; (kept = replies_at(&h->replies, i)); i++) {
		struct host_message again = { .type = HOST_REPLY,
			.number = kept->number,
			.sequence = kept->sequence,
			.status = kept->status };
		struct buf error = BUF_INIT;
		size_t size = 0;
		char *text;

		if (host_post_raw(h, &again, kept->body, kept->size, &e) == 0)
			continue;
		/* No descriptor left for a large body: better an error than no answer. */
		host_error_body(&error, &e, NULL);
		again.status = 1;
		text = buf_take(&error, &size);
		if (!text || host_post_raw(h, &again, text, size, &e) < 0)
			death_end(HOST_EXIT_RESOURCE, e.text);
		replies_replace(&h->replies, i, 1, text, size);
	}
}

static void serve_ack(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	(void)h, (void)head, (void)body, (void)state_fd; /* every message's sequence was looked at already */
}

static void serve_ping(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	(void)body, (void)state_fd;
	host_post(h, HOST_ALIVE, head->number, 0, 0, NULL);
}

/* ---- the table ---- */

enum verdict { END, REFUSE, DO }; /* END: the contract is broken */

/* clang-format off */
static const struct serve_row {
	serve_fn *run;
	enum host_message_type answer;     /* of a refusal */
	enum verdict in[HOST_PHASE_LOADED + 1];
	enum { NO_FD, MAY_FD, MUST_FD } state;
	bool at_once;                      /* doesn't wait behind calls that wait for acknowledgements */
} rows[HOST_TO_HOST__N] = {
	/*                                                 EMPTY   SERVING QUIESCED LOADED */
	[HOST_BEGIN]    = { life_begin,   HOST_REPORT,    { DO,     END,    END,     END }, MAY_FD, false },
	[HOST_STAGE]    = { life_stage,   HOST_FAILED,    { DO,     END,    END,     END }, NO_FD, false },
	[HOST_START]    = { life_start,   HOST_FAILED,    { DO,     END,    END,     END }, MAY_FD, false },
	[HOST_CALL]     = { serve_call,   HOST_REPLY,     { REFUSE, DO,     REFUSE,  REFUSE }, NO_FD, false },
	[HOST_ACK]      = { serve_ack,    HOST_STATUS,    { DO,     DO,     DO,      DO }, NO_FD, true },
	[HOST_QUERY]    = { serve_query,  HOST_STATUS,    { DO,     DO,     DO,      DO }, NO_FD, true },
	[HOST_REHEARSE] = { txn_rehearse, HOST_REHEARSED, { REFUSE, DO,     DO,      REFUSE }, MAY_FD, false },
	[HOST_QUIESCE]  = { txn_quiesce,  HOST_QUIESCED,  { END,    DO,     DO,      END }, NO_FD, false },
	[HOST_SAVE]     = { txn_save,     HOST_SAVED,     { REFUSE, DO,     DO,      REFUSE }, MUST_FD, false },
	[HOST_LOAD]     = { txn_load,     HOST_LOADED,    { REFUSE, REFUSE, DO,      REFUSE }, MUST_FD, false },
	[HOST_COMMIT]   = { txn_commit,   HOST_COMMITTED, { END,    DO,     END,     DO }, NO_FD, false },
	[HOST_ABORT]    = { txn_abort,    HOST_ABORTED,   { DO,     DO,     DO,      DO }, NO_FD, false },
	[HOST_PING]     = { serve_ping,   HOST_ALIVE,     { DO,     DO,     DO,      DO }, NO_FD, true },
	[HOST_PREPARE]  = { txn_prepare,  HOST_PREPARED,  { REFUSE, DO,     REFUSE,  REFUSE }, MUST_FD, false },
	[HOST_SHOW]     = { show_serve,   HOST_SHOWN,     { REFUSE, DO,     REFUSE,  REFUSE }, MAY_FD, false },
	[HOST_MIRROR]   = { mirror_serve, HOST_FAILED,    { DO,     END,    END,     END }, MUST_FD, false },
	[HOST_STOP]     = { life_stop,    HOST_STOPPED,   { DO,     DO,     DO,      DO }, NO_FD, false },
};
/* clang-format on */

static const char *const phase_names[] = {
	[HOST_PHASE_EMPTY] = "empty",
	[HOST_PHASE_SERVING] = "serving",
	[HOST_PHASE_QUIESCED] = "quiesced",
	[HOST_PHASE_LOADED] = "loaded",
};

static void refuse(struct host *h, const struct host_message *head, enum host_message_type answer)
{
	struct buf body = BUF_INIT;
	struct err e = ERR_INIT;

	err_set(&e, ERR_WRONG_STATE, "the host is %s and can't take this request (message %u)",
		phase_names[h->phase], head->type);
	if (head->type == HOST_CALL) {
		reply_error(h, head->number, &e);
		return;
	}
	host_error_body(&body, &e, "begin");
	host_post(h, answer, head->number, 1, 0, &body);
	buf_fini(&body);
}

static void dispatch(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	const struct serve_row *row = &rows[head->type];

	switch (row->in[h->phase]) {
	case DO:
		row->run(h, head, body, state_fd);
		return;
	case REFUSE:
		refuse(h, head, row->answer);
		return;
	case END:
		break;
	}
	death_end(HOST_EXIT_CONTRACT, "a message of control doesn't fit the phase of the host");
}

/* ---- waiting messages ---- */

static void keep_waiting(struct host *h, struct host_incoming *in)
{
	struct host_waiting *w = malloc(sizeof *w);
	char *body = malloc((size_t)in->head.body_bytes + 1);

	if (h->n_waiting == WAITING_MOST)
		death_end(HOST_EXIT_CONTRACT, "control sent more calls than a host takes");
	if (!w || !body)
		death_end(HOST_EXIT_RESOURCE, "no memory for a waiting call");
	memcpy(body, in->body, (size_t)in->head.body_bytes + 1);
	*w = (struct host_waiting){ in->head, fd_take(&in->state_fd), body, NULL };
	*h->last = w;
	h->last = &w->next;
	h->n_waiting++;
}

static void drop_first(struct host *h)
{
	struct host_waiting *w = h->first;

	h->first = w->next;
	if (!h->first)
		h->last = &h->first;
	h->n_waiting--;
	fd_close(&w->state_fd);
	free(w->body);
	free(w);
}

static void run_waiting(struct host *h)
{
	while (h->first && !h->stopped && !(h->first->head.type == HOST_CALL && replies_full(&h->replies))) {
		dispatch(h, &h->first->head, h->first->body, h->first->state_fd);
		drop_first(h);
	}
}

/* ---- the loop ---- */

static void check_message(struct host *h, const struct host_incoming *in)
{
	const struct host_message *head = &in->head;

	if (head->type >= HOST_TO_HOST__N || !rows[head->type].run)
		death_end(HOST_EXIT_CONTRACT, "a message of an unknown type");
	if (head->generation == 0 || (h->generation != 0 && head->generation != h->generation))
		death_end(HOST_EXIT_CONTRACT, "a message for another generation");
	if ((in->state_fd >= 0 && rows[head->type].state == NO_FD) ||
		(in->state_fd < 0 && rows[head->type].state == MUST_FD))
		death_end(HOST_EXIT_CONTRACT, "a message with a descriptor too many or too few");
	if (replies_ack(&h->replies, head->sequence) < 0)
		death_end(HOST_EXIT_CONTRACT, "an acknowledgement of a reply that was never sent");
	if (head->type == HOST_CALL)
		h->last_call = head->number;
	if (h->generation == 0) {
		h->generation = head->generation;
		death_generation(h->generation);
	}
}

static void take_message(struct host *h, struct host_incoming *in)
{
	struct err e = ERR_INIT;
	int rc = host_receive(h->channel_fd, in, &e);

	h->came_empty = rc == 0;
	if (rc == 0)
		return;
	if (rc < 0 && strcmp(e.name, "eof") == 0)
		death_orphan();
	if (rc < 0)
		death_end(HOST_EXIT_CONTRACT, e.text);
	check_message(h, in);
	if (!rows[in->head.type].at_once &&
		(h->first || (in->head.type == HOST_CALL && replies_full(&h->replies))))
		keep_waiting(h, in);
	else
		dispatch(h, &in->head, in->body, in->state_fd);
}

/* ---- timers ---- */

/* They run only while calls may: held while quiesced, and the one that is late then runs once. */
static int64_t timer_due_us(const struct host *h)
{
	if (h->phase != HOST_PHASE_SERVING || h->first || !h->now.instance)
		return INT64_MAX;
	return instance_timer_due_us(h->now.instance);
}

/* One at a time, so that calls and timers take turns. */
static void run_timer(struct host *h)
{
	char name[LIMIT_FUNCTION_BYTES + 1], line[LIMIT_LOG_TEXT_BYTES];
	struct err e = ERR_INIT;
	int64_t due_us = timer_due_us(h), now_us;
	int rc;

	if (due_us == INT64_MAX)
		return;
	now_us = clock_monotonic_us();
	if (due_us > now_us)
		return;
	(void)snprintf(name, sizeof name, "%s", instance_timer_name(h->now.instance));
	death_running(name);
	rc = instance_timer_run(h->now.instance, now_us, &e);
	death_running("");
	attention_call_ended();
	if (rc < 0) {
		(void)snprintf(line, sizeof line, "timer %s failed: %s (%s)", name, e.text, e.name);
		lines_log(NULL, SBX_WARNING, line, strlen(line));
	}
	rc = mirror_save(h, h->now.instance, &e);
	if (rc < 0 && !h->mirror_failing) { /* nobody waits for an answer; whoever calls next is told */
		(void)snprintf(line, sizeof line, "after timer %s: %s", name, e.text);
		lines_log(NULL, SBX_ERROR, line, strlen(line));
	}
	h->mirror_failing = rc < 0;
	flush_output();
}

/* ---- the loop ---- */

static int wait_ms(const struct host *h)
{
	int64_t until = timer_due_us(h), now_us;

	if (orphans_due_us() < until)
		until = orphans_due_us();
	if (h->prepare.running)
		return 0;
	if (copy_running(&h->rehearsal) && h->rehearsal.deadline_us < until)
		until = h->rehearsal.deadline_us;
	if (copy_running(&h->saving) && h->saving.deadline_us < until)
		until = h->saving.deadline_us;
	if (copy_running(&h->showing) && h->showing.deadline_us < until)
		until = h->showing.deadline_us;
	if (until == INT64_MAX)
		return -1;
	now_us = clock_monotonic_us();
	if (until - now_us > (int64_t)INT_MAX * 1000)
		return INT_MAX;
	return until <= now_us ? 0 : (int)((until - now_us + 999) / 1000);
}

/* Pages of heap and stack that the start has touched and nothing needs any more: half of what an idle sandbox would hold. */
static void trim(struct host *h)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t here = ((uintptr_t)__builtin_frame_address(0) - TRIM_FRAMES_BYTES) & ~(page - 1);
	uintptr_t begin = ((uintptr_t)h->incoming.buffer + page - 1) & ~(page - 1);
	uintptr_t end = ((uintptr_t)h->incoming.buffer + LIMIT_MESSAGE_BYTES) & ~(page - 1);

	h->trim_due = false;
	(void)malloc_trim(0);
	(void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* the next message is received into it anew */
	(void)madvise((void *)(here - TRIM_STACK_BYTES), TRIM_STACK_BYTES, MADV_DONTNEED);
}

/* true: the channel has something; or nothing else can come, and the receive itself waits, which spares a system call per message. */
static bool wait_for_work(struct host *h)
{
	struct pollfd fds[1 + 3 * COPY_POLLFDS] = { { .fd = h->channel_fd, .events = POLLIN } };
	nfds_t n = 1;
	int rc, ms = wait_ms(h);

	n += copy_pollfds(&h->rehearsal, fds + n);
	n += copy_pollfds(&h->saving, fds + n);
	n += copy_pollfds(&h->showing, fds + n);
	if (attention_word && poll(fds, n, 0) == 0)
		attention_clear(); /* whom it was meant for has ended; the next call may run in peace */
	if (n == 1 && ms == -1 && !h->came_empty && !h->trim_due)
		return true;
	if (h->trim_due && (ms == -1 || ms > TRIM_AFTER_MS)) {
		rc = poll(fds, n, TRIM_AFTER_MS);
		if (rc == 0)
			trim(h);
	} else {
		rc = poll(fds, n, ms);
	}
	if (rc < 0 && errno != EINTR)
		death_end(HOST_EXIT_RESOURCE, "cannot wait for messages");
	if (rc > 0 && (fds[0].revents & (POLLHUP | POLLNVAL)))
		death_orphan();
	return rc > 0 && fds[0].revents != 0;
}

void serve_init(struct host *h, int channel_fd)
{
	struct err e = ERR_INIT;

	memset(h, 0, offsetof(struct host, replies)); /* not those: pages that are never written to are shared with the zygote */
	h->channel_fd = channel_fd;
	h->phase = HOST_PHASE_EMPTY;
	if (host_incoming_init(&h->incoming, &e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);
	h->last = &h->first;
	copy_init(&h->rehearsal, "rehearsal");
	copy_init(&h->saving, "save");
	copy_init(&h->showing, "look at the state");
	replies_init(&h->replies);
}

void serve(struct host *h)
{
	while (!h->stopped) {
		death_if_forked();
		if (wait_for_work(h))
			take_message(h, &h->incoming);
		if (!h->stopped && (copy_running(&h->rehearsal) || copy_running(&h->saving) || h->prepare.running))
			txn_progress(h, clock_monotonic_us());
		if (!h->stopped && copy_running(&h->showing))
			show_progress(h, clock_monotonic_us());
		run_waiting(h);
		if (!h->stopped)
			run_timer(h);
		if (orphans_due_us() != INT64_MAX)
			orphans_reap(h->rehearsal.pid, h->saving.pid, clock_monotonic_us());
	}
}

void serve_fini(struct host *h)
{
	while (h->first)
		drop_first(h);
	replies_fini(&h->replies);
	host_incoming_fini(&h->incoming);
}
