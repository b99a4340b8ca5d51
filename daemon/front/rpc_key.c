/* SPDX-License-Identifier: MIT
 *
 * Keys bound to requests. Of a row at work, either a request of this process answers for it, or it is an orphan of an earlier
 * control. Requests that wait for a row hang in one list; one whose turn it is to run is run from a timer, never from inside the
 * answer of another. */
#include "daemon/front/rpc_key.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "daemon/front/rpc_peer.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/json_out.h"

#define ORPHAN_LOOK_MS 20 /* between two looks at whether an orphan that somebody waits for can be decided */

struct rpc_keys {
	struct control *control;
	struct outcomes *outcomes;
	const struct rpc_key_owner *owner;
	bool is_orphan[LIMIT_OUTCOMES];
	TAILQ_HEAD(rpc_waiting, rpc_request) waiting;
	uv_timer_t timer;
	bool has_timer;
};

static const char key_name[] = "request_key";

/* ---- what was asked ---- */

static bool is_key(const struct method_param *p)
{
	return p->kind == PARAM_TEXT && strcmp(p->name, key_name) == 0;
}

static const char *key_of(const struct rpc_request *r)
{
	for (size_t i = 0; i < METHOD_MAX_PARAMS && r->method->params[i].name; i++)
		if (is_key(&r->method->params[i]))
			return r->texts[i];
	return NULL;
}

static const char *text_of(const struct rpc_request *r, const char *name)
{
	for (size_t i = 0; i < METHOD_MAX_PARAMS && r->method->params[i].name; i++)
		if (strcmp(r->method->params[i].name, name) == 0)
			return r->texts[i] ? r->texts[i] : "";
	return "";
}

static uint64_t digest_add(uint64_t h, const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)at[i]) * 1099511628211ull;
	return (h ^ size) * 1099511628211ull;
}

/* Method and parameters, but for the key itself and how long to wait. It catches mistakes of the one user whose key it is. */
static uint64_t digest(const struct rpc_request *r)
{
	uint64_t h = digest_add(14695981039346656037ull, r->method->name, strlen(r->method->name));

	for (size_t i = 0; i < METHOD_MAX_PARAMS && r->method->params[i].name; i++) {
		struct json_span v = r->params.values[i];

		if (!v.at || is_key(&r->method->params[i]) || strcmp(r->method->params[i].name, "timeout_ms") == 0)
			continue;
		h = digest_add(h, r->method->params[i].name, strlen(r->method->params[i].name));
		h = digest_add(h, v.at, v.size);
	}
	return h;
}

/* ---- waiting ---- */

static void timer_cb(uv_timer_t *timer)
{
	rpc_keys_tick(timer->data, clock_monotonic_ms());
}

static bool waits_for_orphan(const struct rpc_keys *k, const struct rpc_request *r)
{
	return r->waits_for && k->is_orphan[outcomes_index(k->outcomes, r->waits_for)];
}

/* The next tick: at once when one may run, else at the earliest deadline. Nobody tells of an orphan's end: it is looked for. */
static void arm(struct rpc_keys *k)
{
	int64_t first = INT64_MAX, now = clock_monotonic_ms();
	struct rpc_request *r;

	if (!k->has_timer)
		return;
	TAILQ_FOREACH(r, &k->waiting, wait_link) {
		int64_t at = r->waits_for ? r->wait_until_ms : now;

		if (waits_for_orphan(k, r) && at > now + ORPHAN_LOOK_MS)
			at = now + ORPHAN_LOOK_MS;
		first = at < first ? at : first;
	}
	if (first == INT64_MAX)
		(void)uv_timer_stop(&k->timer);
	else
		(void)uv_timer_start(&k->timer, timer_cb, first > now ? (uint64_t)(first - now) : 0, 0);
}

static const struct rpc_done *wait_for(struct rpc_keys *k, struct rpc_request *r, const struct outcome *row)
{
	int64_t timeout_ms = INT64_MAX / 2;
	const struct rpc_done *done = rpc_pending(r);

	for (size_t i = 0; i < METHOD_MAX_PARAMS && r->method->params[i].name; i++)
		if (strcmp(r->method->params[i].name, "timeout_ms") == 0) {
			timeout_ms = DEFAULT_CALL_TIMEOUT_MS;
			if (r->params.values[i].at)
				(void)json_i64(r->params.values[i], &timeout_ms);
		}
	r->is_begun = false;
	r->waits_for = row;
	r->wait_until_ms = clock_monotonic_ms() + timeout_ms;
	TAILQ_INSERT_TAIL(&k->waiting, r, wait_link);
	arm(k);
	return done;
}

/* ---- answers that are kept ---- */

/* What a row says, checked again: it lay in memory that an earlier process wrote. */
static int kept_read(const struct rpc_keys *k, const struct outcome *row, struct buf *to, struct err *e)
{
	outcomes_read(k->outcomes, row, to);
	if (to->failed)
		return err_set(e, ERR_INTERNAL, "no memory for the kept answer");
	if (json_check(to->data, to->size, e) == -1 || memchr(to->data, '\n', to->size))
		return err_set(e, ERR_INTERNAL, "the kept answer is damaged");
	return 0;
}

static const struct rpc_done *answer_kept(struct rpc_keys *k, struct rpc_request *r, const struct outcome *row)
{
	const struct rpc_done *done;
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;

	if (kept_read(k, row, &b, &e) == -1)
		done = rpc_error(r, &e, NULL);
	else
		done = row->is_error ? rpc_error_raw(r, b.data, b.size) : rpc_result_raw(r, b.data, b.size);
	buf_fini(&b);
	return done;
}

/* The row is done (its answer is for all who wait for it) or free again (they may try themselves). */
static void row_ended(struct rpc_keys *k, const struct outcome *row)
{
	struct rpc_request *r, *next;

	k->is_orphan[outcomes_index(k->outcomes, row)] = false;
	for (r = TAILQ_FIRST(&k->waiting); r; r = next) {
		next = TAILQ_NEXT(r, wait_link);
		if (r->waits_for != row)
			continue;
		r->waits_for = NULL;
		if (row->state == OUTCOME_DONE) {
			TAILQ_REMOVE(&k->waiting, r, wait_link);
			(void)answer_kept(k, r, row);
		}
	}
	arm(k);
}

static void row_free(struct rpc_keys *k, struct outcome *row)
{
	outcomes_release(k->outcomes, row);
	row_ended(k, row);
}

static void row_done(struct rpc_keys *k, struct outcome *row, bool is_error, const char *json, size_t size)
{
	static const char large[] = "{\"code\":-32043,\"message\":\"it was carried out; its answer was too large to be kept\","
				    "\"data\":{\"code\":\"reply_too_large\"}}";

	if (!outcomes_done(k->outcomes, row, is_error, json, size) && !outcomes_done(k->outcomes, row, true, large, sizeof large - 1))
		row_free(k, row); /* can't be: such a short one always fits */
	else
		row_ended(k, row);
}

void rpc_key_answered(struct rpc_request *r, bool is_error, const char *json, size_t size)
{
	struct outcome *row = r->outcome;

	if (!row)
		return;
	r->outcome = NULL;
	/* An error before anything began is no outcome: nobody has to remember it. */
	if (is_error && (!r->is_begun || (row->method == METHOD_SANDBOX_CALL && row->number == 0)))
		row_free(r->keys, row);
	else
		row_done(r->keys, row, is_error, json, size);
}

void rpc_key_not_begun(struct rpc_request *r)
{
	r->is_begun = false;
}

void rpc_key_sent(struct rpc_request *r, uint64_t number)
{
	if (r->outcome)
		outcomes_number(r->outcome, number);
}

/* ---- what earlier controls left ---- */

/* Decides an orphan if that is possible. The row may be free afterwards. */
static void orphan_settle(struct rpc_keys *k, struct outcome *row)
{
	struct buf to = BUF_INIT;
	enum rpc_key_fate fate = k->owner->resolve(k->control, row, &to);

	switch (fate) {
	case RPC_KEY_UNDECIDED:
		break;
	case RPC_KEY_NOT_BEGUN:
		row_free(k, row);
		break;
	case RPC_KEY_RESULT:
	case RPC_KEY_ERROR:
		if (!to.failed) /* else it is asked again */
			row_done(k, row, fate == RPC_KEY_ERROR, buf_text(&to), to.size);
		break;
	}
	buf_fini(&to);
}

void rpc_keys_settle(struct rpc_keys *k)
{
	for (struct outcome *row = outcomes_running(k->outcomes, NULL), *next; row; row = next) {
		next = outcomes_running(k->outcomes, row);
		if (k->is_orphan[outcomes_index(k->outcomes, row)])
			orphan_settle(k, row);
	}
}

/* A request that nobody waits for, for a row that is at work. */
static struct rpc_request *request_of(struct rpc_keys *k, struct outcome *row)
{
	struct rpc_request *r = rpc_request_bare(&methods[row->method], row->uid, row->function);

	if (!r)
		return NULL;
	r->keys = k;
	r->outcome = row;
	r->is_begun = true;
	k->is_orphan[outcomes_index(k->outcomes, row)] = false;
	return r;
}

struct rpc_request *rpc_key_adopt(struct control *c, const char *sandbox, uint64_t *ret_number, const char **ret_function)
{
	struct rpc_keys *k = c->keys;

	for (struct outcome *row = k ? outcomes_running(k->outcomes, NULL) : NULL; row; row = outcomes_running(k->outcomes, row)) {
		struct rpc_request *r;

		if (!k->is_orphan[outcomes_index(k->outcomes, row)] || row->method != METHOD_SANDBOX_CALL || row->number == 0 ||
			strcmp(row->sandbox, sandbox) != 0)
			continue;
		r = request_of(k, row);
		if (!r)
			return NULL; /* it stays an orphan */
		*ret_number = row->number;
		*ret_function = r->line;
		return r;
	}
	return NULL;
}

/* ---- the way in ---- */

static bool has_control_characters(const char *key)
{
	for (; *key; key++)
		if ((unsigned char)*key < 0x20)
			return true;
	return false;
}

static const struct rpc_done *enter(struct rpc_keys *k, struct rpc_request *r, const char *key)
{
	struct outcome *row = outcomes_find(k->outcomes, r->uid, key), fresh;
	struct err e = ERR_INIT;

	if (has_control_characters(key)) {
		err_set(&e, ERR_BAD_PARAM, "%s: %s has control characters", r->method->name, key_name);
		(void)err_about(&e, key_name, -1);
		return rpc_error(r, &e, NULL);
	}
	if (row && row->state == OUTCOME_RUNNING && k->is_orphan[outcomes_index(k->outcomes, row)]) {
		orphan_settle(k, row);
		row = outcomes_find(k->outcomes, r->uid, key);
	}
	if (row && row->params != digest(r)) {
		err_set(&e, ERR_BAD_PARAM, "%s: %s '%s' was used for another request (%s%s%s)", r->method->name, key_name, key,
			methods[row->method].name, row->sandbox[0] ? " of " : "", row->sandbox);
		(void)err_about(&e, key_name, -1);
		return rpc_error(r, &e, NULL);
	}
	if (row)
		return row->state == OUTCOME_DONE ? answer_kept(k, r, row) : wait_for(k, r, row);
	fresh = (struct outcome){ .uid = r->uid, .method = method_id_of(r->method), .params = digest(r) };
	(void)snprintf(fresh.key, sizeof fresh.key, "%s", key);
	(void)snprintf(fresh.sandbox, sizeof fresh.sandbox, "%s", text_of(r, "id"));
	(void)snprintf(fresh.function, sizeof fresh.function, "%s", text_of(r, text_of(r, "function")[0] ? "function" : "sandbox"));
	fresh.before = k->owner->before(k->control, &fresh);
	if (outcomes_begin(k->outcomes, &fresh, &row, &e) == -1)
		return rpc_error(r, &e, NULL);
	r->keys = k;
	r->outcome = row;
	return NULL;
}

const struct rpc_done *rpc_key_enter(struct control *c, struct rpc_request *r)
{
	const char *key = key_of(r);
	struct err e = ERR_INIT;

	if (!key || r->method == &methods[METHOD_REQUEST_OUTCOME])
		return NULL;
	if (c->keys)
		return enter(c->keys, r, key);
	err_set(&e, ERR_UNAVAILABLE, "%s: this daemon keeps no outcomes", r->method->name);
	return rpc_error(r, &e, NULL);
}

void rpc_keys_tick(struct rpc_keys *k, int64_t now_ms)
{
	struct rpc_waiting due = TAILQ_HEAD_INITIALIZER(due);
	struct rpc_request *r, *next;
	bool orphans = false;

	TAILQ_FOREACH(r, &k->waiting, wait_link)
		orphans = orphans || waits_for_orphan(k, r);
	if (orphans)
		rpc_keys_settle(k);
	for (r = TAILQ_FIRST(&k->waiting); r; r = next) {
		next = TAILQ_NEXT(r, wait_link);
		if (r->waits_for && r->wait_until_ms > now_ms)
			continue;
		TAILQ_REMOVE(&k->waiting, r, wait_link);
		TAILQ_INSERT_TAIL(&due, r, wait_link);
	}
	while ((r = TAILQ_FIRST(&due))) {
		struct err e = ERR_INIT;
		cJSON *extra;

		TAILQ_REMOVE(&due, r, wait_link);
		if (!r->waits_for) {
			rpc_run(k->control, r);
			continue;
		}
		extra = cJSON_CreateObject();
		(void)cJSON_AddStringToObject(extra, "call", "running");
		err_set(&e, ERR_TIMEOUT, "%s: the first request with this key is still at work", r->method->name);
		(void)rpc_error(r, &e, extra);
	}
	arm(k);
}

/* ---- request.outcome ---- */

const struct rpc_done *request_outcome(struct control *c, struct rpc_request *r)
{
	const char *key = key_of(r);
	const struct rpc_done *done;
	struct outcome *row = c->keys ? outcomes_find(c->keys->outcomes, r->uid, key) : NULL;
	struct buf b = BUF_INIT, kept = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct err e = ERR_INIT;

	if (row && row->state == OUTCOME_RUNNING && c->keys->is_orphan[outcomes_index(c->keys->outcomes, row)]) {
		orphan_settle(c->keys, row);
		row = outcomes_find(c->keys->outcomes, r->uid, key);
	}
	json_out_object(&o, NULL);
	json_out_text(&o, "state", !row ? "unknown" : row->state == OUTCOME_DONE ? "done" : "running");
	if (row) {
		json_out_text(&o, "method", methods[row->method].name);
		if (row->sandbox[0])
			json_out_text(&o, "id", row->sandbox);
	}
	if (row && row->state == OUTCOME_DONE && kept_read(c->keys, row, &kept, &e) == 0)
		json_out_raw(&o, row->is_error ? "error" : "result", kept.data, kept.size);
	json_out_object_end(&o);
	if (e.code == ERR_OK && b.failed)
		err_set(&e, ERR_INTERNAL, "no memory for the outcome");
	done = e.code != ERR_OK ? rpc_error(r, &e, NULL) : rpc_result_raw(r, b.data, b.size);
	buf_fini(&b);
	buf_fini(&kept);
	return done;
}

/* ---- begin ---- */

int rpc_keys_open(struct control *c, int fd_take, const struct rpc_key_owner *owner, struct rpc_keys **ret, struct err *e)
{
	struct rpc_keys *k = calloc(1, sizeof *k);

	if (!k) {
		fd_close(&fd_take);
		return err_set(e, ERR_INTERNAL, "no memory for keyed requests");
	}
	if (outcomes_open(fd_take, &k->outcomes, e) == -1) {
		free(k);
		return -1;
	}
	k->control = c;
	k->owner = owner;
	TAILQ_INIT(&k->waiting);
	if (c->loop) {
		(void)uv_timer_init(c->loop, &k->timer);
		k->timer.data = k;
		k->has_timer = true;
	}
	for (struct outcome *row = outcomes_running(k->outcomes, NULL), *next; row; row = next) {
		next = outcomes_running(k->outcomes, row);
		k->is_orphan[outcomes_index(k->outcomes, row)] = true;
		if (row->method == METHOD_SANDBOX_CALL && row->number == 0)
			row_free(k, row); /* it was never sent */
	}
	*ret = k;
	return 0;
}
