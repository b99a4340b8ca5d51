/* SPDX-License-Identifier: MIT
 *
 * What a host says, and the calls that go to it. A table maps message types to functions; whatever doesn't fit (a second READY, a
 * reply nobody waits for, a report after the first) is ignored or ends the host, never trusted. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/shared_text.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"
#include "proto/protection.h"

#define MODULE_JSON_BYTES   (64u << 10) /* functions and state of a module, for info */
#define SECURITY_JSON_BYTES (16u << 10)

void sandbox_kill_host(struct sandbox *sb, const char *why)
{
	struct spawner_message m;

	if (!sb->host)
		return;
	if (!sb->host->kill_text[0]) {
		text_clean(sb->host->kill_text, sizeof sb->host->kill_text, why, strlen(why));
		events_add(sb->control->events, "sandbox.killed", sb->spec.id, sb->spec.owner, "why", sb->host->kill_text);
		log_warning("sandbox=%s generation=%llu killed: %s", sb->spec.id, (unsigned long long)sb->host->link.generation,
			sb->host->kill_text);
	}
	spawner_message_init(&m, SPAWNER_SIGNAL, sb->spec.id);
	m.kind = SPAWNER_SIGNAL_KILL;
	m.generation = sb->host->link.generation;
	spawner_send(sb->control->spawner, &m, NULL, 0);
}

/* ---- errors that a host reports: its code is taken only if it is one of those that hosts have ---- */

static bool host_may_say(enum err_code code)
{
	switch ((int)code) {
	case ERR_BAD_MODULE:
	case ERR_BAD_IMAGE:
	case ERR_BAD_ARGUMENT:
	case ERR_UNKNOWN_FUNCTION:
	case ERR_MODULE_ERROR:
	case ERR_REPLY_TOO_LARGE:
	case ERR_STATE_MISMATCH:
	case ERR_TOO_DEEP:
	case ERR_LIMIT_EXCEEDED:
	case ERR_TIMEOUT:
	case ERR_BUSY:
		return true;
	}
	return false;
}

void error_from_host(struct err *e, char step[32], const struct host_message *head, const char *body, enum err_code otherwise)
{
	struct json_span top = { body, head->body_bytes };
	char code[32] = "", name[64] = "", nearest[64] = "", text[400] = "", clean[400];

	if (step)
		step[0] = '\0';
	if (head->body_bytes > 0 && json_type(top) == '{') {
		char raw[2048];
		int64_t n = json_string(json_get(top, "message"), raw, sizeof raw);

		if (n < 0)
			n = 0;
		text_clean(text, sizeof text, raw, (uint64_t)n);
		if (json_string(json_get(top, "code"), code, sizeof code) < 0)
			code[0] = '\0';
		if (json_string(json_get(top, "name"), name, sizeof name) < 0)
			name[0] = '\0';
		if (json_string(json_get(top, "nearest"), nearest, sizeof nearest) < 0)
			nearest[0] = '\0';
		if (step && json_string(json_get(top, "step"), clean, sizeof clean) > 0)
			text_clean(step, 32, clean, strlen(clean));
	}
	err_set(e, otherwise, "%s", text[0] ? text : "the host gave no reason");
	if (host_may_say(err_code_from_text(code)))
		e->code = err_code_from_text(code);
	if (name[0])
		err_about(e, name, -1);
	text_clean(e->nearest, sizeof e->nearest, nearest, strlen(nearest));
}

/* ---- messages ---- */

static char *span_keep(struct json_span v, size_t most)
{
	return v.at && v.size <= most ? strndup(v.at, v.size) : NULL;
}

bool sandbox_strict_accepts(struct json_span report, struct err *e)
{
	struct json_span key, row;
	struct buf lacks = BUF_INIT;
	bool ok;

	for (struct json_iter it = json_iter_begin(report); json_iter_next(&it, &key, &row);) {
		char name[64], asked[PROTECTION_TEXT_BYTES], got[PROTECTION_TEXT_BYTES];

		if (json_string(json_get(row, "protection"), name, sizeof name) < 0 ||
			json_string(json_get(row, "asked"), asked, sizeof asked) < 0 ||
			json_string(json_get(row, "got"), got, sizeof got) < 0) {
			buf_printf(&lacks, "%sa row that can't be read", lacks.size ? ", " : "");
			continue;
		}
		if (strcmp(asked, "none") != 0 && strcmp(got, "none") == 0 && lacks.size < 300)
			buf_printf(&lacks, "%s%s", lacks.size ? ", " : "", name);
	}
	ok = lacks.size == 0;
	if (!ok)
		err_set(e, ERR_STRICT_REFUSED, "strict asks for protections that aren't enforced here: %s", buf_text(&lacks));
	buf_fini(&lacks);
	return ok;
}

static void on_report(struct sandbox *sb, const struct host_message *head, const char *body)
{
	struct json_span report = { body, head->body_bytes };
	struct err e = ERR_INIT;

	if (sb->host->reported)
		return; /* module code may run by now */
	sb->host->reported = true;
	if (json_type(report) != '[' || head->body_bytes > SECURITY_JSON_BYTES) {
		sandbox_kill_host(sb, "protocol violation: a confinement report that isn't one");
		return;
	}
	(void)shared_text_free(sb->security);
	sb->security = shared_text(report.at, report.size);
	if (!sb->spec.strict)
		return;
	if (sandbox_strict_accepts(report, &e)) {
		sandbox_tell_host(sb);
		return;
	}
	*sandbox_error(sb, SANDBOX_ERROR_START) = e;
	(void)snprintf(sb->failure_step, sizeof sb->failure_step, "confine");
	events_add(sb->control->events, "sandbox.refused", sb->spec.id, sb->spec.owner, "why", e.text);
	sandbox_kill_host(sb, "strict: protections are missing");
	sandbox_fact(sb, LIFE_HOST_FAILED, LIFE_EXIT_NORMAL);
}

void sandbox_module_keep(const char **to, struct json_span body)
{
	struct json_span module = json_type(body) == '{' ? json_get(body, "module") : (struct json_span){ 0 };
	char name[LIMIT_ID_BYTES + 1];
	int64_t n;

	if (json_type(module) != '{')
		return;
	n = json_type(json_get(module, "name")) == '"' ? json_string(json_get(module, "name"), name, sizeof name) : -1;
	(void)shared_text_free(*to);
	*to = n > 0 && name_is_id(name, (size_t)n) && module.size <= MODULE_JSON_BYTES ? shared_text(module.at, module.size) : NULL;
}

uint32_t sandbox_module_state_version(const char *module)
{
	uint64_t n = 0;

	if (module)
		(void)json_u64(json_get((struct json_span){ module, strlen(module) }, "state_version"), &n);
	return n > UINT32_MAX ? 0 : (uint32_t)n;
}

void sandbox_ready(struct sandbox *sb)
{
	struct host *h = sb->host;

	if (!h || !h->ready || sb->put_pending)
		return;
	if (h->pid == 0) { /* the spawner's word is on its way */
		h->ready_waits = true;
		return;
	}
	if (sb->put_failed) {
		sandbox_kill_host(sb, "its object could not be stored");
		sandbox_fact(sb, LIFE_HOST_FAILED, LIFE_EXIT_NORMAL);
		return;
	}
	if (sb->has_candidate && sb->versions.current == 0) {
		sb->candidate.state_version = sandbox_module_state_version(sb->module);
		(void)versions_commit(&sb->versions, &sb->candidate, clock_wall_ms());
		sb->has_candidate = false;
	}
	sandbox_fact(sb, LIFE_READY, LIFE_EXIT_NORMAL);
}

/* Said to an earlier control, and never read: what the host is doing is what its STATUS says, which follows; how it ended, its exit. Until
 * then the life is as the spec told it, and takes no facts. */
static bool is_for_another(const struct sandbox *sb)
{
	return sb->host->found && !sb->host->adopted;
}

static void on_ready(struct sandbox *sb, const struct host_message *head, const char *body)
{
	struct json_span top = { body, head->body_bytes };
	char path[LIMIT_PATH_BYTES + 1];

	if (sb->host->ready)
		return;
	if (sb->host->found) { /* the serial that it loaded is in its STATUS */
		sandbox_module_keep(&sb->module, top);
		versions_note_state_version(&sb->versions, sandbox_module_state_version(sb->module));
		return;
	}
	sb->host->ready = true;
	sb->host->calls_done = sb->calls.done;
	checkpoint_ready(sb);
	sandbox_account(sb);
	sb->account.since_ms = clock_monotonic_ms();
	sb->serial = sb->host->serial;
	sandbox_path(sb, sb->serial, path);
	(void)unlink(path);
	sandbox_module_keep(&sb->module, top);
	versions_note_state_version(&sb->versions, sandbox_module_state_version(sb->module));
	sandbox_ready(sb);
}

static void on_failed(struct sandbox *sb, const struct host_message *head, const char *body)
{
	if (sb->host->ready || sandbox_error_told(sb, SANDBOX_ERROR_START)->code == ERR_STRICT_REFUSED)
		return;
	error_from_host(sandbox_error(sb, SANDBOX_ERROR_START), sb->failure_step, head, body, ERR_START_FAILED);
	if (!is_for_another(sb))
		sandbox_fact(sb, LIFE_HOST_FAILED, LIFE_EXIT_NORMAL);
}

static void answer_call(struct sandbox *sb, struct rpc_request *r, const struct host_message *head, const char *body)
{
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;

	if (head->status != 0) {
		cJSON *extra = cJSON_CreateObject();

		error_from_host(&e, NULL, head, body, ERR_MODULE_ERROR);
		if (e.code == ERR_MODULE_ERROR && e.name[0]) {
			cJSON_AddStringToObject(extra, "module_code", e.name);
			e.name[0] = '\0';
		}
		cJSON_AddNumberToObject(extra, "version", sb->versions.current);
		(void)rpc_error(r, &e, extra);
		return;
	}
	buf_add(&b, "{\"result\":", 10);
	buf_add(&b, head->body_bytes ? body : "null", head->body_bytes ? head->body_bytes : 4);
	buf_add(&b, ",\"version\":", 11);
	buf_add_u64(&b, sb->versions.current);
	buf_add_char(&b, '}');
	if (b.failed) {
		err_set(&e, ERR_INTERNAL, "no memory for the result");
		(void)rpc_error(r, &e, NULL);
	} else {
		(void)rpc_result_raw(r, b.data, b.size);
	}
	buf_fini(&b);
}

static void answer_cast(struct sandbox *sb, struct rpc_request *r)
{
	cJSON *result = cJSON_CreateObject();

	cJSON_AddBoolToObject(result, "taken", true);
	cJSON_AddNumberToObject(result, "version", sb->versions.current);
	(void)rpc_result(r, result);
}

static void on_reply(struct sandbox *sb, const struct host_message *head, const char *body)
{
	struct rpc_request *r = NULL;
	struct err e = ERR_INIT;

	if (!calls_replied(&sb->calls, head->number, head->status == 0, &r)) {
		/* A taken-over host repeats what an earlier control's clients asked: nobody waits. Or a cast, late, and then refused. */
		if (head->status != 0) {
			error_from_host(&e, NULL, head, body, ERR_MODULE_ERROR);
			(void)calls_cast_ended(&sb->calls, head->number, &e);
		}
	} else if (!r) {
		(void)0;
	} else if (rpc_method(r) == &methods[METHOD_SANDBOX_CAST] && head->status == 0) {
		answer_cast(sb, r);
	} else {
		answer_call(sb, r, head, body);
	}
	checkpoint_replied(sb);
	sandbox_pump(sb);
}

void sandbox_cast_failed(void *ctx, const char *function, const struct err *e)
{
	struct sandbox *sb = ctx;
	struct json_out *o = events_begin(sb->control->events, "call.failed", sb->spec.id, sb->spec.owner);

	json_out_text(o, "function", function);
	json_out_text(o, "code", err_code_text(e->code));
	if (e->code == ERR_MODULE_ERROR && e->name[0])
		json_out_text(o, "module_code", e->name);
	json_out_text(o, "message", e->text);
	events_end(sb->control->events);
}

/* A cast that an earlier control's client made, in a host that was taken over: at most as many as can have been sent. */
static void old_cast_failed(struct sandbox *sb, const struct host_message *head, const char *body, const struct err *e)
{
	char raw[LIMIT_FUNCTION_BYTES + 1], function[LIMIT_FUNCTION_BYTES + 1];
	int64_t n = json_string(json_get((struct json_span){ body, head->body_bytes }, "step"), raw, sizeof raw);

	if (sb->host->old_casts == 0 || head->number >> 32 >= sb->control->begin.epoch)
		return;
	sb->host->old_casts--;
	text_clean(function, sizeof function, raw, n > 0 ? (size_t)n : 0);
	sandbox_cast_failed(sb, function, e);
}

static void on_cast_ended(struct sandbox *sb, const struct host_message *head, const char *body)
{
	struct err e = ERR_INIT;

	if (head->status != 0)
		error_from_host(&e, NULL, head, body, ERR_MODULE_ERROR);
	if (!calls_cast_ended(&sb->calls, head->number, head->status != 0 ? &e : NULL) && head->status != 0)
		old_cast_failed(sb, head, body, &e);
	checkpoint_replied(sb);
	sandbox_pump(sb);
}

void host_death_keep(struct host *h, const struct host_message *head, const char *body)
{
	if (head->body_bytes != sizeof *h->death)
		return;
	if (!h->death)
		h->death = malloc(sizeof *h->death);
	if (h->death)
		memcpy(h->death, body, sizeof *h->death);
}

static void on_death(struct sandbox *sb, const struct host_message *head, const char *body)
{
	host_death_keep(sb->host, head, body);
}

/* ---- a reload's steps: taken only for the candidate that was asked ---- */

void sandbox_report_keep(struct sandbox *sb, struct json_span body)
{
	struct json_span report = json_get(body, "report");

	if (report.at && report.size < MODULE_JSON_BYTES) {
		free(sb->reload.report);
		sb->reload.report = strndup(report.at, report.size);
	}
	sandbox_module_keep(&sb->reload.module, body);
	sb->candidate.state_version = sandbox_module_state_version(sb->reload.module);
}

/* In a replacement the steps from LOAD on are the second process's: the one that serves, before and after, has no word in them. What ends
 * UNLOAD is the old one's exit, so that nobody's lie keeps it alive. */
static bool is_replacing(const struct sandbox *sb)
{
	return sb->txn.mode == TXN_REPLACE;
}

static void txn_result(struct sandbox *sb, const struct host_message *head, const char *body, enum txn_event_type good,
	enum txn_event_type bad)
{
	struct json_span top = { body, head->body_bytes };
	uint64_t bytes = 0;

	if (head->number != sb->candidate_serial || is_replacing(sb))
		return;
	if (head->status != 0) {
		error_from_host(sandbox_error(sb, SANDBOX_ERROR_RELOAD), NULL, head, body, ERR_RELOAD_FAILED);
		sandbox_txn_event(sb, bad, 0);
		return;
	}
	if (json_type(top) == '{') {
		(void)json_u64(json_get(top, "state_bytes"), &bytes);
		sandbox_report_keep(sb, top);
	}
	sandbox_txn_event(sb, good, bytes);
}

static void on_rehearsed(struct sandbox *sb, const struct host_message *head, const char *body)
{
	txn_result(sb, head, body, TXN_EV_REHEARSED, TXN_EV_REHEARSE_FAILED);
}

static void on_loaded(struct sandbox *sb, const struct host_message *head, const char *body)
{
	txn_result(sb, head, body, TXN_EV_LOADED, TXN_EV_LOAD_FAILED);
}

/* What was said to a transaction that is over mustn't end a step of the next: a SAVED that is taken for another's would seal
 * memory that nobody has written. */
static void on_quiesced(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)body;
	if (head->number == sb->candidate_serial)
		sandbox_txn_event(sb, TXN_EV_QUIESCED, 0);
}

static void on_prepared(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)body;
	if (head->number == sb->candidate_serial)
		sandbox_txn_event(sb, TXN_EV_PREPARED, 0);
}

static void on_saved(struct sandbox *sb, const struct host_message *head, const char *body)
{
	uint64_t bytes = head->value[0] > 0 ? (uint64_t)head->value[0] : 0;

	if (head->number != sb->candidate_serial)
		return;
	if (head->status == 0) {
		sb->checkpoint.timers = head->value[1] > 0;
		sandbox_txn_event(sb, TXN_EV_SAVED, bytes);
		return;
	}
	if (bytes > 0) {
		sandbox_txn_event(sb, TXN_EV_SAVE_TOO_SMALL, bytes);
		return;
	}
	error_from_host(sandbox_error(sb, SANDBOX_ERROR_RELOAD), NULL, head, body, ERR_RELOAD_FAILED);
	sandbox_txn_event(sb, TXN_EV_SAVE_FAILED, 0);
}

static void on_committed(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)body;
	if (head->number == sb->candidate_serial && !is_replacing(sb))
		sandbox_txn_event(sb, TXN_EV_COMMITTED, 0);
}

static void pinned_note(struct host *h, struct json_span cause)
{
	char raw[1024];
	int64_t n = json_type(cause) == '"' ? json_string(cause, raw, sizeof raw) : -1;

	if (n <= 0)
		return;
	h->n_pinned++;
	text_clean(h->pinned_why, sizeof h->pinned_why, raw, (uint64_t)n);
}

static void on_unloaded(struct sandbox *sb, const struct host_message *head, const char *body)
{
	struct json_span top = { body, head->body_bytes };

	if (is_replacing(sb))
		return;
	if (json_type(top) == '{') {
		free(sb->reload.pinned);
		sb->reload.pinned = span_keep(json_get(top, "pinned"), 1024);
		pinned_note(sb->host, json_get(top, "pinned"));
	}
	sandbox_txn_event(sb, TXN_EV_UNLOADED, 0);
}

static void on_aborted(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)head;
	(void)body;
	if (!sandbox_found_aborted(sb))
		sandbox_txn_event(sb, TXN_EV_ABORTED, 0);
}

static void on_status(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)body;
	sandbox_found(sb, head);
}

static void on_alive(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)body;
	watch_heard(sb, head->number);
}

static void on_shown(struct sandbox *sb, const struct host_message *head, const char *body)
{
	look_shown(sb, head, body);
}

static void on_stopped(struct sandbox *sb, const struct host_message *head, const char *body)
{
	(void)sb;
	(void)head;
	(void)body;
}

typedef void on_message(struct sandbox *sb, const struct host_message *head, const char *body);

static on_message *const on_messages[HOST_TO_CONTROL__N] = {
	[HOST_REPORT] = on_report,
	[HOST_READY] = on_ready,
	[HOST_FAILED] = on_failed,
	[HOST_REPLY] = on_reply,
	[HOST_STATUS] = on_status,
	[HOST_REHEARSED] = on_rehearsed,
	[HOST_PREPARED] = on_prepared,
	[HOST_QUIESCED] = on_quiesced,
	[HOST_SAVED] = on_saved,
	[HOST_LOADED] = on_loaded,
	[HOST_COMMITTED] = on_committed,
	[HOST_UNLOADED] = on_unloaded,
	[HOST_ABORTED] = on_aborted,
	[HOST_STOPPED] = on_stopped,
	[HOST_DEATH] = on_death,
	[HOST_CAST_ENDED] = on_cast_ended,
	[HOST_ALIVE] = on_alive,
	[HOST_SHOWN] = on_shown,
};

/* Replies to an earlier control's calls come once, after a take-over, and no more than a host keeps. */
static bool link_awaits(struct host_link *l, uint64_t number)
{
	struct host *h = l->ctx;

	if (!h->sandbox)
		return true; /* abandoned: nothing is looked at any more */
	if (h != h->sandbox->host)
		return false; /* none of its calls is unanswered */
	if (calls_awaits(&h->sandbox->calls, number))
		return true;
	return number >> 32 < h->sandbox->control->begin.epoch && h->old_replies++ < LIMIT_REPLIES_UNACKED + 2 * LIMIT_CALLS_IN_HOST;
}

/* Others' answers come one behind the other. */
static bool link_expects(struct host_link *l)
{
	const struct host *h = l->ctx;

	return !h->sandbox || h->sandbox->calls.running.n > 0;
}

static void link_message(struct host_link *l, const struct host_message *head, const char *body)
{
	struct host *h = l->ctx;

	if (h->sandbox && h != h->sandbox->host) {
		candidate_message(h->sandbox, h, head, body);
		return;
	}
	if (h->sandbox)
		watch_heard(h->sandbox, 0);
	if (h->sandbox && on_messages[head->type])
		on_messages[head->type](h->sandbox, head, body);
}

static void link_output(struct host_link *l, enum log_stream stream, const char *data, size_t size)
{
	struct host *h = l->ctx;
	struct sandbox *sb = h->sandbox;
	int ring = -1;

	if (!sb)
		return;
	sandbox_log_feed(sb->log, stream, data, size, clock_wall_ms(), &ring);
	sandbox_keep_ring(sb);
}

void sandbox_keep_ring(struct sandbox *sb)
{
	int ring = sandbox_log_ring_fd(sb->log);
	struct spawner_message m;

	if (ring < 0 || ring == sb->ring_kept)
		return;
	sb->ring_kept = ring;
	spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
	m.kind = SPAWNER_KEEP_RING;
	spawner_send(sb->control->spawner, &m, &ring, 1);
}

static void link_writable(struct host_link *l)
{
	struct host *h = l->ctx;

	if (h->sandbox && h == h->sandbox->host)
		sandbox_pump(h->sandbox);
}

static void link_broken(struct host_link *l, const char *why)
{
	struct host *h = l->ctx;
	char text[96];

	if (!h->sandbox || h->exited)
		return;
	if (h != h->sandbox->host) {
		candidate_broken(h->sandbox, h, why);
		return;
	}
	/* End of file: mostly its exit follows at once; a host that has closed its channel and lives on is of no use. The kill is harmless
	 * to one that has ended: the spawner signals only what it has not reaped, and a dead process keeps its status. */
	if (why) {
		(void)snprintf(text, sizeof text, "protocol violation: %s", why);
		sandbox_kill_host(h->sandbox, text);
	} else {
		struct spawner_message m;

		spawner_message_init(&m, SPAWNER_SIGNAL, h->sandbox->spec.id);
		m.kind = SPAWNER_SIGNAL_KILL;
		m.generation = l->generation;
		spawner_send(h->sandbox->control->spawner, &m, NULL, 0);
	}
}

const struct host_link_owner sandbox_host_owner = { link_awaits, link_expects, link_message, link_output, link_writable, link_broken };

/* ---- calls ---- */

static int send_call(void *ctx, const struct call *c)
{
	struct sandbox *sb = ctx;

	int rc = host_link_call(&sb->host->link, c->number, c->is_cast, c->function, c->args, c->args_size);

	if (rc == 0)
		checkpoint_touched(sb);
	return rc;
}

static void arm_call_timer(struct sandbox *sb)
{
	int64_t first = sb->calls.first_deadline_ms, now = clock_monotonic_ms();

	if (sb->gone || first == INT64_MAX)
		return;
	if (uv_is_active((uv_handle_t *)&sb->call_timer) && (int64_t)uv_timer_get_due_in(&sb->call_timer) <= first - now)
		return;
	uv_timer_start(&sb->call_timer, sb->call_timer.timer_cb, first > now ? (uint64_t)(first - now) : 1, 0);
}

void sandbox_pump(struct sandbox *sb)
{
	if (sb->host && sb->host->ready && !sb->host->found && !sb->calls_held && !sb->host->killed && !sb->host->asked &&
		(sb->life.state == LIFE_RUNNING || sb->life.state == LIFE_RELOADING))
		calls_send(&sb->calls, send_call, sb);
	if (sb->calls.running.first)
		sample_poke(sb);
	sample_queue(sb);
	overdue_update(sb);
	arm_call_timer(sb);
}

int sandbox_call(struct sandbox *sb, struct rpc_request *r, struct err *e)
{
	if (!sandbox_takes_calls(sb))
		return err_set(e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
	if (calls_add(&sb->calls, r, clock_monotonic_ms(), e) < 0)
		return err_prefix(e, "sandbox %s", sb->spec.id);
	if (sb->calls_held && sb->reload.active)
		sb->reload.calls_queued++;
	sandbox_pump(sb);
	return 0;
}
