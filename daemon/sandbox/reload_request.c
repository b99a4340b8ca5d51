/* SPDX-License-Identifier: MIT
 *
 * A reload or rollback as its client sees it: the request, the candidate that it brings, the answer that says what happened. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/observe/events.h"
#include "proto/fd.h"
#include "proto/clock.h"

static void answer_error(struct sandbox *sb, const struct err *e, cJSON *extra_take)
{
	struct rpc_request *r = sb->reload.request;

	sb->reload.request = NULL;
	if (r)
		durable_answer_error(sb, r, e, extra_take);
	else
		cJSON_Delete(extra_take);
	reload_fini(&sb->reload);
}

static void refuse(struct sandbox *sb, const struct err *e)
{
	cJSON *extra = cJSON_CreateObject();
	struct err copy = *e;

	err_prefix(&copy, "reload of %s", sb->spec.id);
	if (sb->reload.code && sb->reload.code->diagnostics)
		cJSON_AddStringToObject(extra, "output", sb->reload.code->diagnostics);
	events_add(sb->control->events, "reload.refused", sb->spec.id, sb->spec.owner, "why", copy.text);
	answer_error(sb, &copy, extra);
}

/* The identical object: nothing to do, and it says so. */
static void answer_no_change(struct sandbox *sb)
{
	struct rpc_request *r = sb->reload.request;
	cJSON *result = cJSON_CreateObject();

	sb->reload.request = NULL;
	cJSON_AddStringToObject(result, "outcome", "no_change");
	cJSON_AddNumberToObject(result, "from", sb->versions.current);
	cJSON_AddNumberToObject(result, "to", sb->versions.current);
	cJSON_AddStringToObject(result, "sha256", sb->reload.code ? sb->reload.code->sha256 : "");
	if (r)
		durable_answer(sb, r, result);
	else
		cJSON_Delete(result);
	reload_fini(&sb->reload);
}

static void set_timeouts(struct sandbox *sb)
{
	const struct rpc_request *r = sb->reload.request;

	sb->txn_policy = txn_policy_default();
	if (!r)
		return;
	if (!sb->reload.is_check)
		sb->txn_policy.timeout_ms[TXN_QUIESCE] = (uint32_t)rpc_integer(r, "quiesce_timeout_ms", DEFAULT_QUIESCE_TIMEOUT_MS);
	sb->txn_policy.timeout_ms[TXN_REHEARSE] = (uint32_t)rpc_integer(r, "rehearse_timeout_ms", DEFAULT_REHEARSE_TIMEOUT_MS);
	sb->txn_policy.timeout_ms[TXN_LOAD] = sb->txn_policy.timeout_ms[TXN_STAGE] = sb->txn_policy.timeout_ms[TXN_REHEARSE];
}

static void candidate_set(struct sandbox *sb)
{
	const struct code *k = sb->reload.code;
	const struct version *known = versions_find_object(&sb->versions, k->sha256);

	sb->candidate = known ? *known : (struct version){ .bytes = k->object->size, .author = rpc_uid(sb->reload.request),
						 .from_source = k->source != NULL };
	(void)snprintf(sb->candidate.sha256, sizeof sb->candidate.sha256, "%s", k->sha256);
	if (!known)
		(void)snprintf(sb->candidate.source_name, sizeof sb->candidate.source_name, "%s", k->source_name);
	sb->has_candidate = true;
	durable_object(sb, sb->candidate.sha256);
	/* Going back to code that is older than what runs: it can't know newer fields, so nothing may be reset silently. */
	sb->reload.backwards = known && known->number < sb->versions.current && !sb->reload.from_saved;
	sb->reload.number = known ? known->number : 0;
}

/* It has faulted here before. */
static bool is_refused(const struct sandbox *sb, const char *sha256, struct err *e)
{
	const struct version *known = versions_find_object(&sb->versions, sha256);

	if (!known || !known->quarantined || sb->reload.force || sb->reload.is_check)
		return false;
	err_set(e, ERR_QUARANTINED, "this is version %u, which is quarantined: %s", known->number, known->quarantined_why);
	return true;
}

/* Both objects are referred to until the reload is over, also where an old one goes then. */
static bool is_too_much(const struct sandbox *sb, const struct code *k, struct err *e)
{
	return !versions_find_object(&sb->versions, k->sha256) &&
		(spec_check_object(&sb->spec, k->object->size, e) < 0 || owned_check_object(sb, k->object->size, sb->reload.request, e) < 0);
}

static void begun_event(struct sandbox *sb)
{
	struct json_out *o = events_begin(sb->control->events, "reload.begun", sb->spec.id, sb->spec.owner);

	json_out_u64(o, "from", sb->versions.current);
	json_out_text(o, "sha256", sb->candidate.sha256);
	json_out_bool(o, "rollback", sb->reload.is_rollback);
	if (sb->reload.from_saved || sb->reload.patch)
		json_out_text(o, "state", sb->reload.patch ? "set" : "saved");
	json_out_bool(o, "check", sb->reload.is_check);
	json_out_text(o, "rung", rung_text(sb->reload.rung));
	json_out_text(o, "rung_reason", sb->reload.rung_reason);
	events_end(sb->control->events);
}

static void code_done(struct code *k, const struct err *e)
{
	struct sandbox *sb = sandbox_of(k->ctx);
	struct err wrong = ERR_INIT;

	owned_update(sb); /* its compile job is over */
	if (e) {
		refuse(sb, e);
	} else if (strcmp(k->sha256, versions_current(&sb->versions) ? versions_current(&sb->versions)->sha256 : "") == 0 &&
		   sb->life.state == LIFE_RUNNING && !sb->reload.from_saved && !sb->reload.patch) {
		answer_no_change(sb);
	} else if (is_refused(sb, k->sha256, &wrong) || is_too_much(sb, k, &wrong) || rung_choose(sb, &wrong) < 0) {
		refuse(sb, &wrong);
	} else if (!sandbox_request(sb, LIFE_RELOAD_BEGIN, false, NULL)) {
		err_set(&wrong, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
		refuse(sb, &wrong);
	} else {
		candidate_set(sb);
		set_timeouts(sb);
		sb->reload.from = sb->versions.current;
		sb->reload.began_us = clock_monotonic_us();
		begun_event(sb);
		sandbox_txn_begin(sb, sb->reload.is_check ? TXN_CHECK : sb->reload.rung == RUNG_REPLACE ? TXN_REPLACE : TXN_RELOAD);
	}
	sandbox_release(sb);
}

/* May a reload begin at all? */
static int reload_check(struct sandbox *sb, struct err *e)
{
	if (sb->reload.active)
		return err_set(e, ERR_BUSY, "a reload of sandbox %s is at work already", sb->spec.id);
	if (sb->update)
		return err_set(e, ERR_BUSY, "an update of sandbox %s is at work: ask again when that was answered", sb->spec.id);
	if (sb->life.state != LIFE_RUNNING || (sb->host && sb->host->found))
		return err_set(e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
	return 0;
}

static const struct rpc_done *refuse_memory(const struct sandbox *sb, struct rpc_request *r)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_INTERNAL, "no memory for a reload of %s", sb->spec.id);
	return rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_reload(struct sandbox *sb, struct rpc_request *r)
{
	struct code *code;
	char folder[LIMIT_PATH_BYTES + 1];
	struct err e = ERR_INIT;

	if (reload_check(sb, &e) < 0 || owned_check_job(sb->control, sb->spec.owner, r, &e) < 0)
		return rpc_error(r, &e, NULL);
	code = calloc(1, sizeof *code);
	if (!code)
		return refuse_memory(sb, r);
	sandbox_error_none(sb, SANDBOX_ERROR_RELOAD);
	sb->reload = (struct reload){ .active = true, .request = r, .code = code };
	sb->reload.is_check = rpc_method(r) == &methods[METHOD_STATE_CHECK] || rpc_bool(r, "check", false);
	sb->reload.force = !sb->reload.is_check && rpc_bool(r, "force", false);
	sandbox_hold(sb);
	sandbox_folder(sb, folder);
	code_begin(code, sb->control, r, sb->spec.persist ? NULL : folder, code_done, sb);
	owned_update(sb);
	return rpc_pending(r);
}

const struct rpc_done *sandbox_rollback(struct sandbox *sb, struct rpc_request *r)
{
	struct code *code;
	char folder[LIMIT_PATH_BYTES + 1];
	uint32_t number = (uint32_t)rpc_integer(r, "version", sb->versions.previous);
	const struct version *v = versions_find(&sb->versions, number);
	const char *state = rpc_text(r, "state");
	bool from_saved = state && strcmp(state, "saved") == 0;
	struct left_state left = { .fd = -1 };
	struct err e = ERR_INIT;

	if (reload_check(sb, &e) < 0)
		return rpc_error(r, &e, NULL);
	if (!v) {
		if (number == 0)
			err_set(&e, ERR_VERSION_NOT_FOUND, "sandbox %s has no earlier version", sb->spec.id);
		else
			err_set(&e, ERR_VERSION_NOT_FOUND, "sandbox %s has no version %u", sb->spec.id, number);
		return rpc_error(r, &e, NULL);
	}
	if (from_saved && left_states_get(&sb->left, number, &left, &e) < 0) {
		err_prefix(&e, "rollback of %s to version %u", sb->spec.id, number);
		return rpc_error(r, &e, NULL);
	}
	code = calloc(1, sizeof *code);
	if (!code) {
		fd_close(&left.fd);
		return refuse_memory(sb, r);
	}
	sandbox_error_none(sb, SANDBOX_ERROR_RELOAD);
	sb->reload = (struct reload){ .active = true, .request = r, .is_rollback = true, .force = rpc_bool(r, "force", false),
		.code = code, .from_saved = from_saved, .left = left };
	sandbox_hold(sb);
	sandbox_folder(sb, folder);
	code_begin_stored(code, sb->control, v->sha256, sb->spec.persist ? NULL : folder, code_done, sb);
	return rpc_pending(r);
}

const struct rpc_done *sandbox_state_set(struct sandbox *sb, struct rpc_request *r)
{
	const struct version *v = versions_current(&sb->versions);
	struct json_span patch = rpc_param(r, "state");
	char folder[LIMIT_PATH_BYTES + 1];
	struct err e = ERR_INIT;
	struct code *code;

	if (reload_check(sb, &e) < 0)
		return rpc_error(r, &e, NULL);
	if (!v || patch.size > LIMIT_PATCH_BYTES) {
		err_set(&e, ERR_LIMIT_EXCEEDED, "what is to be set has %zu bytes, more than %u", patch.size, LIMIT_PATCH_BYTES);
		return rpc_error(r, &e, NULL);
	}
	code = calloc(1, sizeof *code);
	if (!code)
		return refuse_memory(sb, r);
	sandbox_error_none(sb, SANDBOX_ERROR_RELOAD);
	sb->reload = (struct reload){ .active = true, .request = r, .code = code, .patch = strndup(patch.at, patch.size) };
	if (!sb->reload.patch) {
		sb->reload.active = false;
		sb->reload.code = NULL;
		free(code);
		err_set(&e, ERR_INTERNAL, "no memory for what is to be set");
		return rpc_error(r, &e, NULL);
	}
	sandbox_hold(sb);
	sandbox_folder(sb, folder);
	code_begin_stored(code, sb->control, v->sha256, sb->spec.persist ? NULL : folder, code_done, sb);
	return rpc_pending(r);
}

/* ---- the answer ---- */

static void add_raw(cJSON *to, const char *name, const char *json)
{
	if (json)
		cJSON_AddItemToObject(to, name, cJSON_CreateRaw(json));
	else
		cJSON_AddNullToObject(to, name);
}

static cJSON *steps_json(const struct reload *rl)
{
	cJSON *steps = cJSON_CreateObject();

	for (int i = TXN_SPAWN; i < TXN_DONE; i++)
		if (rl->took_us[i] > 0)
			cJSON_AddNumberToObject(steps, txn_step_text((enum txn_step)i), (double)rl->took_us[i]);
	return steps;
}

static void rung_json(const struct reload *rl, cJSON *result)
{
	cJSON_AddStringToObject(result, "rung", rung_text(rl->rung));
	cJSON_AddStringToObject(result, "rung_reason", rl->rung_reason);
}

/* What a rollback with the saved state gives up. */
static void saved_json(const struct sandbox *sb, cJSON *result)
{
	const struct left_state *l = &sb->reload.left;

	cJSON_AddStringToObject(result, "state_from", "saved");
	cJSON_AddNumberToObject(result, "saved_at", (double)l->at_ms);
	cJSON_AddNumberToObject(result, "acknowledged_since", (double)(sb->calls.done - l->calls_done));
}

/* Variables that begin afresh with each version: a warning, since few mean it. */
static void globals_json(const struct elf_info *elf, cJSON *result)
{
	cJSON *globals, *names;

	if (elf->globals_bytes == 0)
		return;
	globals = cJSON_AddObjectToObject(result, "globals");
	names = cJSON_AddArrayToObject(globals, "names");
	for (uint32_t i = 0; i < elf->n_globals && i < ELF_GLOBALS_NAMED; i++)
		cJSON_AddItemToArray(names, cJSON_CreateString(elf->globals[i]));
	cJSON_AddNumberToObject(globals, "count", elf->n_globals);
	cJSON_AddNumberToObject(globals, "bytes", (double)elf->globals_bytes);
}

static cJSON *success_json(const struct sandbox *sb, const struct txn_actions *a)
{
	const struct reload *rl = &sb->reload;
	cJSON *result = cJSON_CreateObject();

	cJSON_AddStringToObject(result, "outcome", rl->patch ? "set" : "reloaded");
	cJSON_AddNumberToObject(result, "from", rl->from);
	cJSON_AddNumberToObject(result, "to", rl->to_hint);
	rung_json(rl, result);
	cJSON_AddStringToObject(result, "sha256", sb->candidate.sha256);
	cJSON_AddItemToObject(result, "steps_us", steps_json(rl));
	cJSON_AddNumberToObject(result, "pause_us", (double)rl->pause_us);
	cJSON_AddNumberToObject(result, "held_us", (double)rl->held_us);
	cJSON_AddNumberToObject(result, "total_us", (double)(clock_monotonic_us() - rl->began_us));
	cJSON_AddNumberToObject(result, "state_bytes", (double)rl->state_bytes);
	add_raw(result, "report", rl->report);
	cJSON_AddNumberToObject(result, "calls_queued", rl->calls_queued);
	cJSON_AddNumberToObject(result, "calls_running", rl->calls_running);
	add_raw(result, "pinned", a->not_unloaded && rl->rung == RUNG_IN_PLACE ? "\"the old code did not end its unmake in time\"" : rl->pinned);
	if (a->not_unloaded && rl->rung == RUNG_REPLACE)
		cJSON_AddBoolToObject(result, "old_process_killed", true);
	if (rl->from_saved)
		saved_json(sb, result);
	if (probation_active(&sb->trial.probation) && !rl->patch)
		cJSON_AddNumberToObject(result, "probation_ms", sb->spec.probation_ms);
	if (a->host_gone)
		cJSON_AddBoolToObject(result, "ended_after_commit", true);
	if (rl->code)
		globals_json(&rl->code->elf, result);
	if (rl->code && rl->code->diagnostics)
		cJSON_AddStringToObject(cJSON_AddObjectToObject(result, "compiler"), "warnings", rl->code->diagnostics);
	return result;
}

/* A check that went well: what would become of the state. `to` is the version that it is in the history, or would be. */
static cJSON *checked_json(const struct sandbox *sb)
{
	const struct reload *rl = &sb->reload;
	cJSON *result = cJSON_CreateObject();

	cJSON_AddStringToObject(result, "outcome", "checked");
	cJSON_AddNumberToObject(result, "from", rl->from);
	cJSON_AddNumberToObject(result, "to", rl->number ? rl->number : sb->versions.last_number + 1);
	rung_json(rl, result);
	cJSON_AddStringToObject(result, "sha256", sb->candidate.sha256);
	cJSON_AddItemToObject(result, "steps_us", steps_json(rl));
	cJSON_AddNumberToObject(result, "total_us", (double)(clock_monotonic_us() - rl->began_us));
	cJSON_AddNumberToObject(result, "state_bytes", (double)rl->state_bytes);
	add_raw(result, "report", rl->report);
	if (rl->code)
		globals_json(&rl->code->elf, result);
	if (rl->code && rl->code->diagnostics)
		cJSON_AddStringToObject(cJSON_AddObjectToObject(result, "compiler"), "warnings", rl->code->diagnostics);
	return result;
}

/* What failed, in words: the step's own error, or what the transaction saw. */
static void failure_text(const struct sandbox *sb, const struct txn_actions *a, struct err *e)
{
	const struct reload *rl = &sb->reload;
	const char *step = txn_step_text(a->failed_step);

	*e = (struct err)ERR_INIT;
	if ((a->failure == TXN_FAILURE_SAID || a->failure == TXN_FAILURE_CANDIDATE_DIED) && sandbox_error_told(sb, SANDBOX_ERROR_RELOAD)->code != ERR_OK) {
		*e = *sandbox_error_told(sb, SANDBOX_ERROR_RELOAD);
		if (e->code != ERR_STRICT_REFUSED && e->code != ERR_BAD_MODULE && e->code != ERR_STATE_MISMATCH && e->code != ERR_BAD_IMAGE)
			e->code = ERR_RELOAD_FAILED;
	} else if (a->failure == TXN_FAILURE_TIMEOUT && a->failed_step == TXN_QUIESCE) {
		err_set(e, ERR_RELOAD_FAILED, "a running call did not end within %u ms", sb->txn_policy.timeout_ms[TXN_QUIESCE]);
	} else if (a->failure == TXN_FAILURE_TIMEOUT) {
		err_set(e, ERR_RELOAD_FAILED, "it did not end within %u ms", sb->txn_policy.timeout_ms[a->failed_step]);
	} else if (a->failure == TXN_FAILURE_HOST_DIED) {
		err_set(e, ERR_RELOAD_FAILED, "the process ended: %s%s%s", sb->last_exit.reason, sb->last_exit.text[0] ? ": " : "",
			sb->last_exit.text);
	} else {
		err_set(e, ERR_RELOAD_FAILED, "%s", txn_failure_text(a->failure));
	}
	if (a->outcome == TXN_STATE_LOST)
		e->code = ERR_STATE_LOST;
	err_prefix(e, "reload of %s from version %u: %s", sb->spec.id, rl->from, step);
}

/* It died before its state was saved: what the next process begins with, and how many acknowledged calls that one hasn't seen. A version on
 * probation gives way to the one before, with the state of its commit. */
static void lost_json(const struct sandbox *sb, cJSON *extra)
{
	bool returns = probation_active(&sb->trial.probation) && probation_is_fault(sb->last_exit.wait_status);
	struct begun_from b;

	if (!returns && checkpoint_next(sb, &b)) {
		cJSON_AddStringToObject(extra, "state_from", b.state_from);
		if (b.number > 0)
			cJSON_AddNumberToObject(extra, "checkpoint", (double)b.number);
		if (b.counts)
			cJSON_AddNumberToObject(extra, "acknowledged_since", (double)b.since);
		else
			cJSON_AddNullToObject(extra, "acknowledged_since");
		return;
	}
	cJSON_AddStringToObject(extra, "state_from", returns ? "commit" : "fresh");
	cJSON_AddNumberToObject(extra, "acknowledged_since",
		(double)(sb->calls.done - (returns ? sb->trial.calls_done : sb->last_exit.calls_done)));
}

static cJSON *failure_json(const struct sandbox *sb, const struct txn_actions *a)
{
	cJSON *extra = cJSON_CreateObject();

	cJSON_AddStringToObject(extra, "step", txn_step_text(a->failed_step));
	cJSON_AddStringToObject(extra, "outcome", txn_outcome_text(a->outcome));
	rung_json(&sb->reload, extra);
	cJSON_AddBoolToObject(extra, "nothing_changed", a->outcome != TXN_STATE_LOST);
	cJSON_AddNumberToObject(extra, "version", sb->versions.current);
	if (a->outcome == TXN_RECOVERED)
		cJSON_AddStringToObject(extra, "state_from", "sealed");
	if (a->outcome == TXN_STATE_LOST)
		lost_json(sb, extra);
	cJSON_AddItemToObject(extra, "steps_us", steps_json(&sb->reload));
	return extra;
}

void reload_answer(struct sandbox *sb, const struct txn_actions *a)
{
	struct rpc_request *r = sb->reload.request;
	struct json_out *o;

	sb->has_candidate = false;
	durable_versions(sb);
	if (a->ok && sb->reload.is_check) {
		events_add(sb->control->events, "reload.checked", sb->spec.id, sb->spec.owner, "sha256", sb->candidate.sha256);
		sb->reload.request = NULL;
		if (r)
			durable_answer(sb, r, checked_json(sb));
		reload_fini(&sb->reload);
	} else if (a->ok) {
		if (!sb->reload.patch)
			versions_note_reload(&sb->versions, sb->reload.is_rollback, (uint64_t)sb->reload.pause_us, sb->reload.state_bytes);
		o = events_begin(sb->control->events, sb->reload.patch ? "state.set" : "reload.committed", sb->spec.id, sb->spec.owner);
		json_out_u64(o, "from", sb->reload.from);
		json_out_u64(o, "to", sb->reload.to_hint);
		json_out_text(o, "rung", rung_text(sb->reload.rung));
		json_out_text(o, "rung_reason", sb->reload.rung_reason);
		json_out_i64(o, "pause_us", sb->reload.pause_us);
		json_out_u64(o, "state_bytes", sb->reload.state_bytes);
		if (sb->reload.from_saved) {
			json_out_text(o, "state_from", "saved");
			json_out_u64(o, "acknowledged_since", sb->calls.done - sb->reload.left.calls_done);
		}
		json_out_u64(o, "calls_queued", sb->reload.calls_queued);
		if (sb->reload.report)
			json_out_raw(o, "report", sb->reload.report, strlen(sb->reload.report));
		events_end(sb->control->events);
		sb->reload.request = NULL;
		if (r)
			durable_answer(sb, r, success_json(sb, a));
		reload_fini(&sb->reload);
	} else {
		struct err e;

		if (!sb->reload.is_check && !sb->reload.patch)
			versions_note_failed(&sb->versions, sb->reload.number);
		failure_text(sb, a, &e);
		o = events_begin(sb->control->events, "reload.failed", sb->spec.id, sb->spec.owner);
		json_out_text(o, "step", txn_step_text(a->failed_step));
		json_out_text(o, "outcome", txn_outcome_text(a->outcome));
		json_out_text(o, "why", e.text);
		events_end(sb->control->events);
		answer_error(sb, &e, failure_json(sb, a));
	}
}
