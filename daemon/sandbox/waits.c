/* SPDX-License-Identifier: MIT */
#include "daemon/sandbox/waits.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"

#define WAIT_LOOK_MS 5000

struct wait {
	uv_timer_t timer;            /* first: a handle's address is its wait's */
	struct sandbox *sandbox;
	struct rpc_request *request;
	int64_t began_ms, deadline_ms;
	struct wait *next;
};

static const char gone_text[] = "gone";

static bool waits_for(const struct rpc_request *r, const char *status)
{
	return strcmp(rpc_text(r, "for"), status) == 0;
}

static const struct rpc_done *answer(struct rpc_request *r, const char *status, int64_t waited_ms)
{
	cJSON *result = cJSON_CreateObject();

	cJSON_AddStringToObject(result, "id", rpc_text(r, "id"));
	cJSON_AddStringToObject(result, "status", status);
	cJSON_AddNumberToObject(result, "waited_ms", (double)waited_ms);
	return rpc_result(r, result);
}

static void wait_free(uv_handle_t *handle)
{
	free((struct wait *)handle);
}

/* Takes the wait at *at out of its sandbox's list; its request is the caller's, who has to answer it. */
static struct rpc_request *wait_end(struct wait **at)
{
	struct wait *w = *at;
	struct rpc_request *r = w->request;

	*at = w->next;
	uv_close((uv_handle_t *)&w->timer, wait_free);
	return r;
}

static struct wait **wait_at(struct wait *w)
{
	struct wait **at = &w->sandbox->waits;

	while (*at != w)
		at = &(*at)->next;
	return at;
}

static void wait_arm(struct wait *w, int64_t now_ms);

static void wait_timer(uv_timer_t *timer)
{
	struct wait *w = (struct wait *)timer;
	const struct sandbox *sb = w->sandbox;
	int64_t now_ms = clock_monotonic_ms();
	struct err e = ERR_INIT;
	cJSON *extra;

	if (!rpc_is_gone(w->request) && now_ms < w->deadline_ms) {
		wait_arm(w, now_ms);
		return;
	}
	err_set(&e, ERR_TIMEOUT, "sandbox %s is %s, not %s", sb->spec.id, sandbox_status_text(sb), rpc_text(w->request, "for"));
	extra = cJSON_CreateObject();
	cJSON_AddStringToObject(extra, "status", sandbox_status_text(sb));
	(void)rpc_error(wait_end(wait_at(w)), &e, extra);
}

static void wait_arm(struct wait *w, int64_t now_ms)
{
	int64_t left = w->deadline_ms - now_ms;

	uv_timer_start(&w->timer, wait_timer, left < 1 ? 1 : left < WAIT_LOOK_MS ? (uint64_t)left : WAIT_LOOK_MS, 0);
}

/* Frees those whose clients have left; returns how many remain. */
static unsigned waits_sweep(struct sandbox *sb)
{
	unsigned n = 0;

	for (struct wait **at = &sb->waits; *at;) {
		struct err e = ERR_INIT;

		if (!rpc_is_gone((*at)->request)) {
			at = &(*at)->next;
			n++;
			continue;
		}
		err_set(&e, ERR_TIMEOUT, "the client has gone");
		(void)rpc_error(wait_end(at), &e, NULL);
	}
	return n;
}

const struct rpc_done *wait_begin(struct sandbox *sb, struct rpc_request *r, const struct err *e)
{
	struct err busy = ERR_INIT;
	struct wait *w;

	if (!sb)
		return waits_for(r, gone_text) ? answer(r, gone_text, 0) : rpc_error(r, e, NULL);
	if (waits_for(r, sandbox_status_text(sb)) && !(sb->keeper && sb->keeper->undecided(sb)))
		return answer(r, sandbox_status_text(sb), 0);
	w = waits_sweep(sb) < LIMIT_WAITS ? calloc(1, sizeof *w) : NULL;
	if (!w) {
		err_set(&busy, ERR_BUSY, "sandbox %s: %u requests wait for a state of it already", sb->spec.id, LIMIT_WAITS);
		return rpc_error(r, &busy, NULL);
	}
	w->sandbox = sb;
	w->request = r;
	w->began_ms = clock_monotonic_ms();
	w->deadline_ms = w->began_ms + rpc_integer(r, "timeout_ms", DEFAULT_WAIT_TIMEOUT_MS);
	w->next = sb->waits;
	sb->waits = w;
	uv_timer_init(sb->control->loop, &w->timer);
	wait_arm(w, w->began_ms);
	return rpc_pending(r);
}

void waits_state(struct sandbox *sb)
{
	const char *status = life_state_text(sb->told);
	int64_t now_ms = clock_monotonic_ms();

	if (sb->life.gone)
		return; /* on its way out: whatever it is called for that moment, nobody can use it */
	for (struct wait **at = &sb->waits; *at;) {
		int64_t began_ms = (*at)->began_ms;

		if (waits_for((*at)->request, status))
			(void)answer(wait_end(at), status, now_ms - began_ms);
		else
			at = &(*at)->next;
	}
}

void waits_gone(struct sandbox *sb)
{
	int64_t now_ms = clock_monotonic_ms();

	while (sb->waits) {
		int64_t began_ms = sb->waits->began_ms;
		struct rpc_request *r = wait_end(&sb->waits);
		struct err e = ERR_INIT;

		if (waits_for(r, gone_text)) {
			(void)answer(r, gone_text, now_ms - began_ms);
			continue;
		}
		err_set(&e, ERR_NOT_FOUND, "sandbox %s was destroyed before it was %s", sb->spec.id, rpc_text(r, "for"));
		(void)rpc_error(r, &e, NULL);
	}
}
