/* SPDX-License-Identifier: MIT
 *
 * Carries out what daemon/supervise/life.c decides: one small function per action, in the order of the bits. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/waits.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"

const struct life_policy *sandbox_policy(struct sandbox *sb)
{
	if (!sb->spec.group[0])
		return &sb->spec.policy;
	sb->as_member = sb->spec.policy;
	sb->as_member.restart = LIFE_TEMPORARY;
	return &sb->as_member;
}

static void life_timer_cb(uv_timer_t *timer)
{
	sandbox_fact(sandbox_of(timer->data), LIFE_TIMER, LIFE_EXIT_NORMAL);
}

/* ---- answers ---- */

/* The error that tells why a start, stop or restart did not end as asked. */
static void life_error(const struct sandbox *sb, const struct life_actions *a, struct err *e)
{
	const char *id = sb->spec.id, *what = life_request_text(a->request);

	*e = (struct err)ERR_INIT;
	switch (a->reason) {
	case LIFE_REASON_BEGIN_FAILED:
	case LIFE_REASON_HOST_FAILED:
		*e = *sandbox_error_told(sb, SANDBOX_ERROR_START);
		if (e->code == ERR_OK)
			err_set(e, ERR_START_FAILED, "no reason was given");
		if (e->code == ERR_MODULE_ERROR || e->code == ERR_INTERNAL || e->code == ERR_LIMIT_EXCEEDED)
			e->code = ERR_START_FAILED;
		err_prefix(e, "cannot %s sandbox %s%s%s", what, id, sb->failure_step[0] ? ": " : "", sb->failure_step);
		break;
	case LIFE_REASON_EXITED_EARLY:
		err_set(e, ERR_START_FAILED, "cannot %s sandbox %s: it ended before it was ready: %s%s%s", what, id, sb->last_exit.reason,
			sb->last_exit.text[0] ? ": " : "", sb->last_exit.text);
		break;
	case LIFE_REASON_START_TIMEOUT:
		err_set(e, ERR_START_TIMEOUT, "cannot %s sandbox %s: it was not ready within %u ms and was killed", what, id,
			sb->spec.policy.start_timeout_ms);
		break;
	case LIFE_REASON_CANCELLED:
		err_set(e, ERR_WRONG_STATE, "%s of sandbox %s: a later request took its place", what, id);
		break;
	case LIFE_REASON_SAVE_FAILED:
		*e = *sandbox_error_told(sb, SANDBOX_ERROR_START);
		e->code = ERR_RELOAD_FAILED;
		err_prefix(e, "sandbox %s was not restarted, since its state could not be saved", id);
		break;
	case LIFE_REASON_NONE:
	case LIFE_REASON_CRASHED:
	case LIFE_REASON_GAVE_UP:
	case LIFE_REASON__N:
		err_set(e, ERR_START_FAILED, "cannot %s sandbox %s: %s", what, id, life_reason_text(a->reason));
		break;
	}
}

static void life_answer(struct sandbox *sb, const struct life_actions *a)
{
	struct rpc_request *r = sb->request;
	struct err e;
	cJSON *extra;

	sb->request = NULL;
	if (!r)
		return;
	if (a->request == LIFE_REQUEST_DESTROY || (a->request == LIFE_REQUEST_CREATE && !a->ok)) {
		/* Answered when nothing is left of it (sandbox_gone). */
		sb->gone_request = r;
		sb->gone_ok = a->ok;
		if (!a->ok)
			life_error(sb, a, sandbox_error(sb, SANDBOX_ERROR_GONE));
		return;
	}
	if (a->ok) {
		answer_info_durable(r, sb);
		free(sb->create_warnings);
		sb->create_warnings = NULL;
		return;
	}
	life_error(sb, a, &e);
	extra = cJSON_CreateObject();
	if (sb->failure_step[0])
		cJSON_AddStringToObject(extra, "stage", sb->failure_step);
	if (sb->last_exit.words[0])
		cJSON_AddStringToObject(extra, "output", sb->last_exit.words);
	cJSON_AddStringToObject(extra, "status", sandbox_status_text(sb));
	durable_answer_error(sb, r, &e, extra);
}

static void answer_cancelled(struct sandbox *sb, struct rpc_request *r, enum life_request request)
{
	struct life_actions a = { .request = request, .reason = LIFE_REASON_CANCELLED };
	struct err e;

	life_error(sb, &a, &e);
	(void)rpc_error(r, &e, NULL);
}

/* ---- actions ---- */

static void host_signal(struct sandbox *sb, enum spawner_signal kind)
{
	struct spawner_message m;

	if (!sb->host)
		return;
	spawner_message_init(&m, SPAWNER_SIGNAL, sb->spec.id);
	m.kind = (uint16_t)kind;
	m.generation = sb->host->link.generation;
	spawner_send(sb->control->spawner, &m, NULL, 0);
}

static void do_ask_stop(struct sandbox *sb)
{
	if (!sb->host)
		return;
	sb->host->asked = true;
	(void)host_link_send(&sb->host->link, HOST_STOP, 0, 0, NULL, 0, -1);
	host_signal(sb, SPAWNER_SIGNAL_ATTENTION);
}

static void do_kill(struct sandbox *sb, enum life_kill why)
{
	if (!sb->host || !sb->host->killed)
		events_add(sb->control->events, "sandbox.killed", sb->spec.id, sb->spec.owner, "why", life_kill_text(why));
	if (sb->host)
		sb->host->killed = true;
	host_signal(sb, SPAWNER_SIGNAL_KILL);
}

/* Behind the drop of the state. The event says which it was, where it has a name, and what the next start begins with. */
static void do_set_aside(struct sandbox *sb, const struct life_actions *a)
{
	bool has_older = a->set & LIFE_DO_TAKE_OLDER, is_newer = a->set & LIFE_DO_TAKE_CHECKPOINT;
	char bad[SHA256_HEX_BYTES + 1] = "";
	struct json_out *o;

	if (sb->disk.kept_is_row)
		memcpy(bad, sb->disk.state_sha256, sizeof bad);
	if (has_older)
		durable_state_older(sb);
	o = events_begin(sb->control->events, "sandbox.state_set_aside", sb->spec.id, sb->spec.owner);
	json_out_text(o, "why", "starts from it failed twice");
	json_out_text(o, "sha256", bad[0] ? bad : NULL);
	json_out_text(o, "next", is_newer ? "checkpoint" : has_older ? "older" : "fresh");
	json_out_text(o, "next_sha256", has_older ? sb->disk.state_sha256 : NULL);
	events_end(sb->control->events);
	log_warning("sandbox=%s starts from the kept state failed twice: the next one is %s", sb->spec.id,
		is_newer ? "from the newest checkpoint" : has_older ? "from the one before it" : "fresh");
}

static void do_notes(struct sandbox *sb, const struct life_actions *a)
{
	struct events *ev = sb->control->events;
	struct json_out *o;

	if (a->set & LIFE_DO_NOTE_STARTED) {
		o = events_begin(ev, "sandbox.running", sb->spec.id, sb->spec.owner);
		json_out_u64(o, "generation", sb->host ? sb->host->link.generation : 0);
		json_out_i64(o, "pid", sb->host ? sb->host->pid : 0);
		json_out_u64(o, "version", sb->versions.current);
		json_out_text(o, "state_from", sb->state_from);
		events_end(ev);
	}
	if (a->set & LIFE_DO_NOTE_CRASHED)
		events_add(ev, "sandbox.crashed", sb->spec.id, sb->spec.owner, "reason", life_reason_text(a->reason));
	if (a->set & LIFE_DO_NOTE_RESTART) {
		o = events_begin(ev, "sandbox.restarting", sb->spec.id, sb->spec.owner);
		json_out_u64(o, "delay_ms", a->delay_ms);
		json_out_u64(o, "jitter_ms", a->jitter_ms);
		json_out_u64(o, "restarts", sb->life.restarts);
		begun_from_json(&sb->last_exit.next, o);
		events_end(ev);
	}
	if (a->set & LIFE_DO_NOTE_GAVE_UP) {
		events_add(ev, "sandbox.gave_up", sb->spec.id, sb->spec.owner, "reason", life_reason_text(sb->life.gave_up_reason));
		log_warning("sandbox=%s gave up: %u restarts within %u ms are not enough", sb->spec.id, sb->spec.policy.budget.intensity,
			sb->spec.policy.budget.period_ms);
	}
}

/* Calls that wait can't be served any more when no process is coming. */
static void refuse_calls(struct sandbox *sb)
{
	struct err e = ERR_INIT;

	if (sandbox_takes_calls(sb) || !sb->calls.waiting.first)
		return;
	if (sb->life.gone && sandbox_error_told(sb, SANDBOX_ERROR_GONE)->code != ERR_OK) /* sent behind a create that failed: the same reason */
		err_set(&e, ERR_START_FAILED, "sandbox %s was not created, so the call didn't begin: %s", sb->spec.id,
			sandbox_error_told(sb, SANDBOX_ERROR_GONE)->text);
	else
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
	calls_refuse(&sb->calls, &e);
}

static void sandbox_apply(struct sandbox *sb, const struct life_actions *a)
{
	if ((a->set & LIFE_DO_ANSWER) && a->request == LIFE_REQUEST_RESTART && a->reason == LIFE_REASON_SAVE_FAILED && sb->asked_restarts > 0)
		sb->asked_restarts--; /* it runs on as it did */
	if (a->set & LIFE_DO_THAW)
		thaw_do(sb);
	if (a->set & LIFE_DO_CLEAR_TIMER)
		uv_timer_stop(&sb->life_timer);
	if (a->set & LIFE_DO_DROP_STATE)
		sandbox_drop_state(sb);
	if (a->set & LIFE_DO_SET_ASIDE)
		do_set_aside(sb, a);
	if (a->set & LIFE_DO_TAKE_CHECKPOINT)
		checkpoint_take(sb);
	if (a->set & LIFE_DO_SET_CHECKPOINT)
		checkpoint_set(sb);
	if (a->set & LIFE_DO_DROP_CHECKPOINT)
		checkpoint_drop(sb);
	if (a->set & LIFE_DO_CANCEL_TXN)
		sandbox_txn_event(sb, TXN_EV_CANCEL, 0);
	/* First: a successor must know that a host that doesn't answer was asked to stop, and who killed one. */
	if (a->set & (LIFE_DO_ASK_SAVE | LIFE_DO_ASK_STOP | LIFE_DO_KILL))
		sandbox_keep_spec(sb);
	if (a->set & (LIFE_DO_ASK_STOP | LIFE_DO_KILL | LIFE_DO_BEGIN_START))
		candidate_kill_old(sb); /* nothing of a version before lives on beside a stop or a start */
	if (a->set & LIFE_DO_ASK_SAVE)
		sandbox_txn_begin(sb, TXN_SAVE_ONLY);
	if (a->set & LIFE_DO_ASK_STOP)
		do_ask_stop(sb);
	if (a->set & LIFE_DO_KILL)
		do_kill(sb, a->kill_why);
	if (a->set & LIFE_DO_BEGIN_START)
		sandbox_start(sb, a->from);
	if (a->set & LIFE_DO_SET_TIMER)
		uv_timer_start(&sb->life_timer, life_timer_cb, a->timer_ms, 0);
	if (a->set & LIFE_DO_FREEZE)
		freeze_do(sb);
	if (a->set & LIFE_DO_NOTE_RESTART)
		checkpoint_begins(sb, sb->life.kept ? LIFE_FROM_KEPT : LIFE_FROM_FRESH);
	do_notes(sb, a);
	if (a->set & (LIFE_DO_NOTE_STARTED | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART | LIFE_DO_NOTE_GAVE_UP | LIFE_DO_ANSWER |
			     LIFE_DO_DROP_STATE | LIFE_DO_THAW | LIFE_DO_TAKE_CHECKPOINT | LIFE_DO_DROP_CHECKPOINT) &&
		!(a->set & LIFE_DO_GONE))
		sandbox_keep_spec(sb);
	durable_life(sb);
	owned_update(sb);
	if (a->set & LIFE_DO_ANSWER)
		life_answer(sb, a);
	if (a->set & LIFE_DO_GONE)
		sandbox_gone(sb);
	refuse_calls(sb);
	watch_update(sb);
	sample_update(sb);
	checkpoint_update(sb);
	sandbox_pump(sb);
}

static struct life_event event_of(const struct sandbox *sb, enum life_event_type type)
{
	return (struct life_event){ .type = type, .now_ms = clock_monotonic_ms(), .random = arc4random(), .has_older = durable_has_older(sb), .mirrored = sb->checkpoint.mirror_fd >= 0 };
}

enum life_state sandbox_status(const struct sandbox *sb)
{
	int64_t due_ms = 0;

	return sb->keeper && !sb->life.gone && sb->keeper->waits(sb, &due_ms) ? LIFE_BACKOFF : sb->life.state;
}

bool sandbox_takes_calls(const struct sandbox *sb)
{
	return life_takes_calls(&sb->life) || sandbox_status(sb) == LIFE_BACKOFF;
}

void sandbox_status_changed(struct sandbox *sb)
{
	enum life_state status = sandbox_status(sb);

	if (status == sb->told || (sb->keeper && !sb->life.gone && sb->keeper->undecided(sb)))
		return;
	sb->told = status;
	owned_update(sb);
	events_add(sb->control->events, "sandbox.status", sb->spec.id, sb->spec.owner, "status", life_state_text(status));
	waits_state(sb);
	if (!sb->life.gone) /* then the reason is told with the rest */
		refuse_calls(sb);
}

static void state_event(struct sandbox *sb, enum life_state before)
{
	if (sb->life.state == before)
		return;
	sandbox_status_changed(sb);
	if (sb->keeper)
		sb->keeper->changed(sb, before);
}

/* Carries actions out, then takes the facts that they brought up, until there are none. */
static void apply_and_drain(struct sandbox *sb, const struct life_actions *first)
{
	struct life_actions a = *first;

	sandbox_hold(sb);
	sb->applying = true;
	sandbox_apply(sb, &a);
	while (sb->n_facts > 0) {
		struct life_event ev = sb->facts[0];
		const struct life was = sb->life;
		enum life_state before = was.state;

		memmove(&sb->facts[0], &sb->facts[1], --sb->n_facts * sizeof sb->facts[0]);
		if (life_step(&sb->life, sandbox_policy(sb), &ev, &a) != LIFE_TAKEN) {
			log_debug("sandbox=%s %s is ignored while %s", sb->spec.id, life_event_text(ev.type), life_state_text(before));
			continue;
		}
		explain_step(sb, &was, &ev, &a);
		state_event(sb, before);
		sandbox_apply(sb, &a);
	}
	sb->applying = false;
	sandbox_release(sb);
}

void sandbox_fact(struct sandbox *sb, enum life_event_type type, enum life_exit exit)
{
	const struct life_actions none = { 0 };
	struct life_event ev = event_of(sb, type);

	ev.exit = exit;
	ev.hopeless = profile_from_name(sb->spec.profile, strlen(sb->spec.profile)) == PROFILE_NONE; /* none comes until the daemon starts again */
	ev.unbegun = sb->host && !sb->host->told;
	if (sb->n_facts == sizeof sb->facts / sizeof sb->facts[0]) {
		log_error("sandbox=%s too many facts at once: %s is lost", sb->spec.id, life_event_text(type));
		return;
	}
	sb->facts[sb->n_facts++] = ev;
	if (!sb->applying)
		apply_and_drain(sb, &none);
}

void sandbox_adopt(struct sandbox *sb, const struct life_finding *found)
{
	struct life_actions a;

	life_adopt(&sb->life, sandbox_policy(sb), found, clock_monotonic_ms(), &a);
	sb->told = sb->life.state;
	explain_note(sb, DECISION_TAKEN_OVER, life_state_text(sb->life.state));
	apply_and_drain(sb, &a);
}

void sandbox_counted_clear(struct sandbox *sb)
{
	memset(&sb->counted, 0, sizeof sb->counted);
}

void sandbox_boot(struct sandbox *sb, bool wanted, uint32_t delay_ms)
{
	struct life_actions a;

	sb->booting = false;
	sandbox_counted_clear(sb); /* of another start of the machine, or of the daemon */
	sb->disk.kept_there = sb->disk.state_sha256[0] != '\0';
	life_boot(&sb->life, sandbox_policy(sb), wanted, sb->disk.kept_there, delay_ms, clock_monotonic_ms(), &a);
	sb->disk.kept_there = sb->life.kept;
	sb->disk.state = sb->told = sb->life.state;
	apply_and_drain(sb, &a);
	sandbox_keep_spec(sb);
}

static bool request_take(struct sandbox *sb, enum life_event_type type, bool keep_state, struct rpc_request *r)
{
	struct life_event ev = event_of(sb, type);
	const struct life was = sb->life;
	enum life_state before = was.state;
	enum life_request pending = was.pending;
	struct rpc_request *overridden = sb->request;
	struct life_actions a;

	ev.keep_state = keep_state;
	ev.by_daemon = !r && type != LIFE_RESET;
	if (life_step(&sb->life, sandbox_policy(sb), &ev, &a) != LIFE_TAKEN)
		return false;
	explain_step(sb, &was, &ev, &a);
	sb->asked_restarts += type == LIFE_RESTART;
	if (type == LIFE_DESTROY)
		sb->keep_history = r && rpc_method(r) == &methods[METHOD_SANDBOX_DESTROY] && rpc_bool(r, "keep_history", false);
	if (type <= LIFE_DESTROY) {
		sandbox_error_none(sb, SANDBOX_ERROR_START);
		sb->failure_step[0] = '\0';
		if (overridden && overridden != r) {
			answer_cancelled(sb, overridden, pending == LIFE_NO_REQUEST ? LIFE_REQUEST_CREATE : pending);
			if ((a.set & LIFE_DO_ANSWER) && a.reason == LIFE_REASON_CANCELLED)
				a.set &= ~LIFE_DO_ANSWER;
		}
		sb->request = r;
		if (r)
			sb->disk.by_daemon = false;
	}
	if (!keep_state && (type == LIFE_START || type == LIFE_STOP || type == LIFE_RESTART))
		durable_state_dropped(sb);
	if (type == LIFE_STOP || type == LIFE_RESTART || type == LIFE_DESTROY)
		sandbox_probation_end(sb, PROBATION_EV_STOPPED);
	state_event(sb, before);
	apply_and_drain(sb, &a);
	return true;
}

bool sandbox_request(struct sandbox *sb, enum life_event_type type, bool keep_state, struct rpc_request *r)
{
	if (type == LIFE_STOP || type == LIFE_RESTART || type == LIFE_DESTROY || type == LIFE_FREEZE || type == LIFE_RELOAD_BEGIN)
		checkpoint_cancel(sb);
	return request_take(sb, type, keep_state, r);
}
