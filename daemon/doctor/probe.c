/* SPDX-License-Identifier: MIT
 *
 * HOLD -> START -> the report -> KILL -> EXITED -> FORGET; a failure at any step goes on with those that clean up. One deadline
 * is over all of them: a zygote that doesn't answer is the spawner's to kill, and the probe is told by an exit. */
#include "daemon/doctor/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/spawner_link.h"
#include "daemon/sandbox/host_link.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/json_text.h"
#include "proto/names.h"
#include "proto/utf8.h"

#define DEADLINE_MS (2 * DEFAULT_START_TIMEOUT_MS) /* the first host of a profile waits for its zygote */

struct probe {
	struct host_link link; /* first: it is freed by its address */
	struct control *control;
	uv_timer_t timer;
	enum { PROBE_HOLDS, PROBE_STARTS, PROBE_LIVES, PROBE_ENDS, PROBE_FORGETS, PROBE_DONE } state;
	bool linked, timer_closed;
	uint64_t generation;
	int64_t began_us;
	probe_done_fn *done;
	void *ctx;
	char *report;          /* owned */
	struct probe_result result;
	char profile[LIMIT_ID_BYTES + 1], id[LIMIT_ID_BYTES + 1], step[LIMIT_ID_BYTES + 1];
};

static void probe_free_when_done(struct probe *p)
{
	if (p->state != PROBE_DONE || p->linked || !p->timer_closed)
		return;
	p->result.report = p->report;
	p->result.step = p->step;
	p->done(p->ctx, &p->result);
	free(p->report);
	free(p);
}

static void link_closed(struct host_link *l)
{
	struct probe *p = (struct probe *)l;

	p->linked = false;
	probe_free_when_done(p);
}

static void timer_closed(uv_handle_t *handle)
{
	struct probe *p = handle->data;

	p->timer_closed = true;
	probe_free_when_done(p);
}

static void probe_finish(struct probe *p)
{
	p->state = PROBE_DONE;
	if (p->linked)
		host_link_close(&p->link, link_closed);
	uv_close((uv_handle_t *)&p->timer, timer_closed);
}

/* The first failure is the one that is told. */
static void probe_failed(struct probe *p, const char *step, const struct err *e)
{
	if (p->report || p->result.err.code != ERR_OK)
		return;
	p->result.err = *e;
	(void)snprintf(p->step, sizeof p->step, "%s", step);
}

static void forgotten(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	(void)m;
	(void)fds;
	(void)n_fds;
	probe_finish(ctx);
}

static void probe_forget(struct probe *p)
{
	struct spawner_message m;
	struct err e = ERR_INIT;

	p->state = PROBE_FORGETS;
	spawner_message_init(&m, SPAWNER_FORGET, p->id);
	if (spawner_request(p->control->spawner, &m, NULL, 0, forgotten, p, &e) == 0)
		probe_finish(p);
}

static void probe_kill(struct probe *p)
{
	struct spawner_message m;

	if (p->state != PROBE_LIVES)
		return;
	p->state = PROBE_ENDS;
	spawner_message_init(&m, SPAWNER_SIGNAL, p->id);
	m.generation = p->generation;
	m.kind = SPAWNER_SIGNAL_KILL;
	spawner_send(p->control->spawner, &m, NULL, 0);
}

/* ---- the host's channel ---- */

static bool on_awaits(struct host_link *l, uint64_t number)
{
	(void)l;
	(void)number;
	return false;
}

static void on_message(struct host_link *l, const struct host_message *head, const char *body)
{
	struct probe *p = (struct probe *)l;
	struct json_span report = { body, head->body_bytes };
	struct err e = ERR_INIT;

	if (p->state != PROBE_LIVES || head->type != HOST_REPORT)
		return;
	p->result.took_us = clock_monotonic_us() - p->began_us;
	if (json_type(report) == '[' && report.size <= PROBE_REPORT_BYTES)
		p->report = strndup(body, head->body_bytes);
	if (!p->report) {
		err_set(&e, ERR_INTERNAL, "the host's report can't be kept");
		probe_failed(p, "report", &e);
	}
	probe_kill(p);
}

static void on_output(struct host_link *l, enum log_stream stream, const char *data, size_t size)
{
	(void)l;
	(void)stream;
	(void)data;
	(void)size;
}

static void on_writable(struct host_link *l)
{
	(void)l;
}

static void on_broken(struct host_link *l, const char *why)
{
	struct probe *p = (struct probe *)l;
	struct err e = ERR_INIT;

	if (!why)
		return; /* it has ended: EXITED follows, and knows more */
	err_set(&e, ERR_INTERNAL, "the host sent %s", why);
	probe_failed(p, "report", &e);
	probe_kill(p);
}

static bool on_expects(struct host_link *l)
{
	(void)l;
	return true;
}

static const struct host_link_owner owner = { on_awaits, on_expects, on_message, on_output, on_writable, on_broken };

static void probe_begin(struct probe *p)
{
	char body[160];
	int n = snprintf(body, sizeof body, "{\"profile\":\"%s\",\"limits\":{\"max_memory_bytes\":%llu,\"max_file_size_bytes\":%llu,"
					    "\"max_processes\":%d,\"max_open_files\":%d}}",
		p->profile, DEFAULT_MAX_MEMORY_BYTES, DEFAULT_MAX_FILE_SIZE_BYTES, DEFAULT_MAX_PROCESSES, DEFAULT_MAX_OPEN_FILES);

	(void)host_link_send(&p->link, HOST_BEGIN, 0, 0, body, (size_t)n, -1);
}

/* ---- what the spawner answers ---- */

static void started(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct probe *p = ctx;
	char text[sizeof m->text];
	struct err e = ERR_INIT;

	if (m->op != SPAWNER_STARTED || n_fds < 3) {
		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		err_set(&e, ERR_UNAVAILABLE, "the spawner can't make a process: %s", text);
		probe_failed(p, "spawn", &e);
		probe_forget(p);
		return;
	}
	p->generation = m->generation;
	p->state = PROBE_LIVES;
	if (host_link_open(&p->link, p->control->loop, m->generation, fd_take(&fds[0]), fd_take(&fds[1]), fd_take(&fds[2]), &owner, p, &e) == -1) {
		probe_failed(p, "spawn", &e);
		probe_kill(p);
		return;
	}
	p->linked = true;
	probe_begin(p);
}

static void held(void *ctx, const struct spawner_message *reply, int *fds, size_t n_fds)
{
	struct probe *p = ctx;
	struct spawner_message m;
	char text[sizeof reply->text];
	struct err e = ERR_INIT;

	(void)fds;
	(void)n_fds;
	if (reply->op != SPAWNER_OK) {
		text_clean(text, sizeof text, reply->text, strnlen(reply->text, sizeof reply->text));
		err_set(&e, ERR_UNAVAILABLE, "the spawner can't hold a probe: %s", text);
		probe_failed(p, "hold", &e);
		probe_finish(p);
		return;
	}
	p->state = PROBE_STARTS;
	spawner_message_init(&m, SPAWNER_START, p->id);
	(void)snprintf(m.name, sizeof m.name, "%s", p->profile);
	if (spawner_request(p->control->spawner, &m, NULL, 0, started, p, &e) == 0) {
		probe_failed(p, "spawn", &e);
		probe_forget(p);
	}
}

bool probe_exited(struct probe *p, const struct spawner_message *m)
{
	struct spawner_message ack;
	char step[LIMIT_ID_BYTES + 1];
	struct err e = ERR_INIT;

	if (!p || strcmp(m->sandbox, p->id) != 0 || p->state > PROBE_ENDS)
		return false;
	if (p->linked)
		(void)host_link_drain(&p->link); /* its report may be the last that it said */
	text_clean(step, sizeof step, m->name, strnlen(m->name, sizeof m->name));
	err_set(&e, ERR_UNAVAILABLE, "no host of profile %s can be made here: %s", p->profile, step[0] ? step : "it ended before its report");
	probe_failed(p, step[0] ? step : "report", &e);
	spawner_message_init(&ack, SPAWNER_ACK_EXIT, p->id);
	ack.generation = m->generation;
	spawner_send(p->control->spawner, &ack, NULL, 0);
	probe_forget(p);
	return true;
}

static void overdue(uv_timer_t *timer)
{
	struct probe *p = timer->data;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "no report of a host of profile %s within %d ms", p->profile, DEADLINE_MS);
	probe_failed(p, "report", &e);
	probe_kill(p);
}

struct probe *probe_start(struct control *c, const char *profile, probe_done_fn *done, void *ctx, struct err *e)
{
	static uint64_t serial;
	struct probe *p = calloc(1, sizeof *p);
	int spec = fd_memfd("probe", NULL, 0, true);
	struct spawner_message m;

	if (!p || spec == -1) {
		err_set(e, ERR_INTERNAL, "no memory for a probe");
		goto fail;
	}
	p->control = c;
	p->done = done;
	p->ctx = ctx;
	p->result.err = (struct err)ERR_INIT;
	p->began_us = clock_monotonic_us();
	(void)snprintf(p->profile, sizeof p->profile, "%s", profile);
	/* Nobody's sandbox may be called so, and it is never the same twice. */
	(void)snprintf(p->id, sizeof p->id, NAME_PROBE "%s.%016" PRIx64 ".%08" PRIx64, profile, c->begin.incarnation, ++serial);
	spawner_message_init(&m, SPAWNER_HOLD, p->id);
	if (spawner_request(c->spawner, &m, &spec, 1, held, p, e) == 0)
		goto fail;
	fd_close(&spec);
	(void)uv_timer_init(c->loop, &p->timer);
	p->timer.data = p;
	(void)uv_timer_start(&p->timer, overdue, DEADLINE_MS, 0);
	return p;
fail:
	if (spec != -1)
		fd_close(&spec);
	free(p);
	return NULL;
}
