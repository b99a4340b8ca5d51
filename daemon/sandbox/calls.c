/* SPDX-License-Identifier: MIT */
#include "daemon/sandbox/calls.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

static void list_init(struct call_list *l)
{
	*l = (struct call_list){ .end = &l->first };
}

static void list_add(struct call_list *l, struct call *c)
{
	c->next = NULL;
	*l->end = c;
	l->end = &c->next;
	l->n++;
}

static struct call *list_remove(struct call_list *l, struct call **at)
{
	struct call *c = *at;

	*at = c->next;
	if (!*at)
		l->end = at;
	l->n--;
	return c;
}

void calls_init(struct calls *q, uint32_t epoch, unsigned max_waiting, calls_cast_failed *cast_failed, void *ctx)
{
	*q = (struct calls){ .next_number = (uint64_t)epoch << 32 | 1, .max_waiting = max_waiting, .first_deadline_ms = INT64_MAX,
		.cast_failed = cast_failed, .ctx = ctx };
	list_init(&q->waiting);
	list_init(&q->running);
}

/* Its client has gone: one that was not sent is withdrawn, and its arguments with it. */
static void call_gone(void *ctx, struct rpc_request *r)
{
	struct calls *q = ctx;
	struct call **at = &q->waiting.first;
	struct err e = ERR_INIT;

	while (*at && (*at)->request != r)
		at = &(*at)->next;
	if (!*at)
		return;
	free(list_remove(&q->waiting, at));
	err_set(&e, ERR_TIMEOUT, "the client has gone");
	(void)rpc_error(r, &e, NULL);
}

int calls_add(struct calls *q, struct rpc_request *r, int64_t now_ms, struct err *e)
{
	struct json_span args = rpc_param(r, "args");
	struct call *c;

	if (q->waiting.n >= q->max_waiting)
		return err_set(e, ERR_BUSY, "%u calls wait already", q->waiting.n);
	c = malloc(sizeof *c);
	if (!c)
		return err_set(e, ERR_BUSY, "no memory for another call");
	*c = (struct call){ .request = r, .function = rpc_text(r, "function"), .args = args.at ? args.at : "{}",
		.args_size = args.at ? args.size : 2,
		.deadline_ms = now_ms + rpc_integer(r, "timeout_ms", DEFAULT_CALL_TIMEOUT_MS) };
	c->is_cast = rpc_method(r) == &methods[METHOD_SANDBOX_CAST];
	if (c->is_cast)
		(void)snprintf(c->cast_function, sizeof c->cast_function, "%s", c->function);
	list_add(&q->waiting, c);
	rpc_on_gone(r, call_gone, q);
	if (c->deadline_ms < q->first_deadline_ms)
		q->first_deadline_ms = c->deadline_ms;
	return 0;
}

void calls_send(struct calls *q, int (*send)(void *ctx, const struct call *c), void *ctx)
{
	while (q->waiting.first && q->running.n < LIMIT_CALLS_IN_HOST) {
		struct call *c = q->waiting.first;

		if (rpc_is_gone(c->request)) {
			/* Nobody waits for it and it hasn't begun: withdrawn. Only one with a key, the others went with their client. */
			struct err e = ERR_INIT;

			err_set(&e, ERR_TIMEOUT, "the client has gone");
			(void)rpc_error(c->request, &e, NULL);
			free(list_remove(&q->waiting, &q->waiting.first));
			continue;
		}
		c->number = q->next_number;
		rpc_key_sent(c->request, c->number); /* before: who finds it noted asks the host whether it came */
		if (send(ctx, c) != 0) {
			rpc_key_sent(c->request, 0);
			return;
		}
		q->next_number++;
		rpc_on_gone(c->request, NULL, NULL);
		(void)list_remove(&q->waiting, &q->waiting.first);
		list_add(&q->running, c);
	}
}

int calls_adopt(struct calls *q, struct rpc_request *r, uint64_t number, const char *function, struct err *e)
{
	struct call *c = malloc(sizeof *c);

	if (!c)
		return err_set(e, ERR_BUSY, "no memory for another call");
	*c = (struct call){ .request = r, .number = number, .deadline_ms = INT64_MAX, .function = function, .is_old = true };
	list_add(&q->running, c);
	return 0;
}

void calls_received(struct calls *q, uint64_t last_number)
{
	for (struct call **at = &q->running.first; *at;) {
		struct call *c = *at;
		struct err e = ERR_INIT;

		if (!c->is_old || c->number <= last_number) {
			c->is_old = false;
			at = &c->next;
			continue;
		}
		err_set(&e, ERR_BUSY, "%s had not been sent when the control process ended", c->function);
		rpc_key_not_begun(c->request);
		(void)rpc_error(c->request, &e, NULL);
		free(list_remove(&q->running, at));
	}
}

static struct call **find_running(struct calls *q, uint64_t number)
{
	struct call **at = &q->running.first;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

bool calls_awaits(const struct calls *q, uint64_t number)
{
	for (const struct call *c = q->running.first; c; c = c->next)
		if (c->number == number)
			return true;
	return false;
}

bool calls_replied(struct calls *q, uint64_t number, bool well, struct rpc_request **ret)
{
	struct call **at = find_running(q, number);
	struct call *c = *at;

	if (!c || c->began)
		return false;
	*ret = c->request;
	if (c->is_cast && well) {
		c->began = true;
		c->request = NULL;
		c->function = c->args = NULL;
		return true;
	}
	if (c->is_cast && !c->request) { /* its caller was told that it will run, so that it doesn't is an event, as if it had begun */
		c->began = true;
		return false;
	}
	free(list_remove(&q->running, at));
	q->done++;
	q->refused += !well;
	return true;
}

static void cast_end(struct calls *q, struct call *c, const struct err *e)
{
	if (e)
		q->failed++;
	else
		q->done++;
	q->refused += e != NULL;
	if (e)
		q->cast_failed(q->ctx, c->cast_function, e);
	free(c);
}

bool calls_cast_ended(struct calls *q, uint64_t number, const struct err *e)
{
	struct call **at = find_running(q, number);

	if (!*at || !(*at)->began)
		return false;
	cast_end(q, list_remove(&q->running, at), e);
	return true;
}

static void call_time_out(struct call *c, bool running)
{
	struct err e = ERR_INIT;
	cJSON *extra = cJSON_CreateObject();

	err_set(&e, ERR_TIMEOUT, !running ? "%s had not begun and is withdrawn" :
		c->is_cast ? "%s was sent and will run" : "%s is still running and will finish; its result is dropped", c->function);
	cJSON_AddStringToObject(extra, "call", running ? "running" : "queued");
	if (!running)
		(void)rpc_error(c->request, &e, extra);
	else
		c->request = rpc_error_early(c->request, &e, extra);
	if (running && c->request) { /* has a key: what it comes to is kept for whoever asks with it */
		c->deadline_ms = INT64_MAX;
		return;
	}
	c->request = NULL;
	c->function = c->args = NULL;
}

void calls_time(struct calls *q, int64_t now_ms)
{
	int64_t first = INT64_MAX;

	for (struct call **at = &q->waiting.first; *at;) {
		if ((*at)->deadline_ms <= now_ms) {
			call_time_out(*at, false);
			q->failed++;
			free(list_remove(&q->waiting, at));
			continue;
		}
		if ((*at)->deadline_ms < first)
			first = (*at)->deadline_ms;
		at = &(*at)->next;
	}
	for (struct call *c = q->running.first; c; c = c->next) {
		if (!c->request)
			continue;
		if (c->deadline_ms <= now_ms)
			call_time_out(c, true);
		else if (c->deadline_ms < first)
			first = c->deadline_ms;
	}
	q->first_deadline_ms = first;
}

void calls_crashed(struct calls *q, const char *id, const char *text)
{
	while (q->running.first) {
		struct call *c = list_remove(&q->running, &q->running.first);

		if (c->is_cast && !c->request) { /* began, or its caller was told that it will */
			struct err e = ERR_INIT;

			err_set(&e, ERR_CRASHED, "sandbox %s ended while %s %s: %s", id, c->cast_function,
				c->began ? "ran" : "was sent to it", text);
			cast_end(q, c, &e);
			continue;
		}
		q->failed++;
		if (c->request) {
			struct err e = ERR_INIT;
			cJSON *extra = cJSON_CreateObject();

			err_set(&e, ERR_CRASHED, "sandbox %s ended while %s was sent to it: %s", id, c->function, text);
			cJSON_AddBoolToObject(extra, "outcome_unknown", true);
			(void)rpc_error(c->request, &e, extra);
		}
		free(c);
	}
}

void calls_refuse(struct calls *q, const struct err *e)
{
	while (q->waiting.first) {
		struct call *c = list_remove(&q->waiting, &q->waiting.first);

		q->failed++;
		(void)rpc_error(c->request, e, NULL);
		free(c);
	}
}
