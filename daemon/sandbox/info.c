/* SPDX-License-Identifier: MIT
 *
 * A sandbox shown: a row of a list, and all that is known. Written straight as JSON text: no tree per sandbox. */
#include <math.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/usage.h"
#include "proto/clock.h"
#include "proto/exposure.h"

static void out_member(struct json_out *o, const char *name, struct json_span object)
{
	struct json_span v = json_type(object) == '{' ? json_get(object, name) : (struct json_span){ 0 };

	if (v.at)
		json_out_raw(o, name, v.at, v.size);
	else
		json_out_null(o, name);
}

static struct json_span module_span(const struct sandbox *sb)
{
	return sb->module ? (struct json_span){ sb->module, strlen(sb->module) } : (struct json_span){ 0 };
}

const char *sandbox_status_text(const struct sandbox *sb)
{
	return life_state_text(sandbox_status(sb));
}

uint32_t sandbox_restarts(const struct sandbox *sb)
{
	return sb->life.restarts + sb->group_restarts + sb->asked_restarts;
}

static void identity_json(const struct sandbox *sb, struct json_out *o)
{
	json_out_text(o, "id", sb->spec.id);
	json_out_text(o, "status", sandbox_status_text(sb));
	struct err lost = ERR_INIT;

	if (sb->life.reason == LIFE_REASON_BEGIN_FAILED && spec_check_profile(&sb->spec, &lost) < 0)
		json_out_text(o, "status_reason", lost.text);
	else if (sb->life.reason != LIFE_REASON_NONE)
		json_out_text(o, "status_reason",
			sb->life.reason == LIFE_REASON_GAVE_UP ? "restart budget used up" : life_reason_text(sb->life.reason));
	else
		json_out_null(o, "status_reason");
	json_out_u64(o, "owner", sb->spec.owner);
}

/* The budget that its restarts are counted in: its own, or its group's. */
static void budget_json(const struct sandbox *sb, struct json_out *o)
{
	uint32_t period_ms = sb->spec.policy.budget.period_ms;
	struct budget_view b;

	if (!sb->spec.group[0]) {
		b = budget_view(&sb->life.budget, &sb->spec.policy.budget, clock_monotonic_ms());
	} else if (!sb->keeper || !sb->keeper->budget(sb, &b, &period_ms)) {
		json_out_null(o, "budget");
		return;
	}
	json_out_object(o, "budget");
	json_out_u64(o, "used", b.used);
	json_out_u64(o, "allowed", b.allowed);
	json_out_u64(o, "period_ms", period_ms);
	json_out_i64(o, "frees_in_ms", b.frees_ms);
	json_out_i64(o, "resets_in_ms", b.resets_ms);
	json_out_object_end(o);
}

static void row_members(const struct sandbox *sb, struct json_out *o)
{
	struct json_span module = module_span(sb);
	struct json_span name = json_type(module) == '{' ? json_get(module, "name") : (struct json_span){ 0 };

	identity_json(sb, o);
	if (name.at)
		json_out_raw(o, "module", name.at, name.size);
	else
		json_out_null(o, "module");
	json_out_u64(o, "version", sb->versions.current);
	if (sb->host)
		json_out_i64(o, "pid", sb->host->pid);
	else
		json_out_null(o, "pid");
	json_out_u64(o, "restart_count", sandbox_restarts(sb));
	json_out_i64(o, "created_at", sb->spec.created_at_ms);
	json_out_text(o, "group", sb->spec.group[0] ? sb->spec.group : NULL);
	json_out_text(o, "profile", sb->spec.profile);
	json_out_raw(o, "labels", sb->spec.labels, strlen(sb->spec.labels));
}

void sandbox_row_json(const struct sandbox *sb, struct json_out *o)
{
	json_out_object(o, NULL);
	row_members(sb, o);
	json_out_object_end(o);
}

void sandbox_tree_row_json(const struct sandbox *sb, struct json_out *o)
{
	json_out_object(o, NULL);
	row_members(sb, o);
	budget_json(sb, o);
	json_out_object_end(o);
}

static void process_json(const struct sandbox *sb, struct json_out *o)
{
	char build[16];

	if (sb->host) {
		json_out_i64(o, "pid", sb->host->pid);
		json_out_u64(o, "generation", sb->host->link.generation);
		json_out_i64(o, "started_at", sb->host->started_at_ms);
		(void)snprintf(build, sizeof build, "%08x", sb->host->build);
		json_out_object(o, "host");
		json_out_text(o, "build", build);
		json_out_bool(o, "older", sb->host->is_older);
		json_out_object_end(o);
		json_out_text(o, "state_from", sb->state_from);
	} else {
		json_out_null(o, "pid");
		json_out_null(o, "generation");
		json_out_null(o, "started_at");
		json_out_null(o, "host");
		json_out_null(o, "state_from");
	}
	json_out_bool(o, "state_kept", sb->life.kept);
	checkpoint_json(sb, o, "checkpoint");
	json_out_bool(o, "persist", sb->spec.persist);
	json_out_bool(o, "durable", sb->spec.persist && sb->disk.has_row && !sb->disk.failed && sb->disk.pending == 0);
}

static void limits_json(const struct host_limits *l, struct json_out *o)
{
	json_out_object(o, "limits");
	for (int i = 0; i < SPEC_LIMIT__N; i++)
		json_out_u64(o, spec_limit_name((enum spec_limit)i), spec_limit(l, (enum spec_limit)i));
	json_out_object_end(o);
}

static void profile_json(const struct sandbox *sb, struct json_out *o)
{
	const struct policy *p = profile_policy(profile_from_name(sb->spec.profile, strlen(sb->spec.profile)));
	char fingerprint[POLICY_FINGERPRINT_BYTES + 1] = "";

	if (p)
		policy_fingerprint(p, fingerprint);
	json_out_text(o, "profile", sb->spec.profile);
	json_out_text(o, "profile_fingerprint", p ? fingerprint : NULL);
	json_out_text(o, "audit_level", policy_audit_text(spec_audit(&sb->spec)));
}

static void policy_json(const struct sandbox *sb, struct json_out *o)
{
	const struct life_policy *p = &sb->spec.policy;
	int64_t now = clock_monotonic_ms();
	char next[160];
	int64_t due_ms = 0;

	json_out_text(o, "restart", life_restart_text(p->restart));
	json_out_text(o, "group", sb->spec.group[0] ? sb->spec.group : NULL);
	json_out_bool(o, "significant", sb->spec.significant);
	json_out_u64(o, "start_timeout_ms", p->start_timeout_ms);
	json_out_u64(o, "shutdown_ms", p->shutdown_ms);
	json_out_u64(o, "heartbeat_ms", sb->spec.heartbeat_ms);
	json_out_u64(o, "max_execution_ms", sb->spec.max_execution_ms);
	json_out_text(o, "restart_state", p->from_checkpoint ? "checkpoint" : "fresh");
	profile_json(sb, o);
	json_out_bool(o, "strict", sb->spec.strict);
	json_out_text(o, "address_space", sb->spec.fresh_space ? "fresh" : "shared");
	json_out_u64(o, "probation_ms", sb->spec.probation_ms);
	json_out_u64(o, "keep_versions", sb->spec.keep_versions);
	limits_json(&sb->spec.limits, o);
	pending_json(sb, o, "pending");
	json_out_raw(o, "labels", sb->spec.labels, strlen(sb->spec.labels));
	json_out_raw(o, "config", sb->spec.config, strlen(sb->spec.config));
	json_out_u64(o, "restart_count", sandbox_restarts(sb));
	budget_json(sb, o);
	json_out_text(o, "budget_of", sb->spec.group[0] ? sb->spec.group : NULL);
	if (sb->life.state == LIFE_BACKOFF) {
		json_out_object(o, "backoff");
		json_out_i64(o, "until_in_ms", sb->life.timer_at_ms > now ? sb->life.timer_at_ms - now : 0);
		json_out_object_end(o);
	} else {
		json_out_null(o, "backoff");
	}
	if (sb->keeper && sb->keeper->waits(sb, &due_ms))
		json_out_i64(o, "next_restart_in_ms", due_ms > now ? due_ms - now : 0);
	else if (sb->life.state == LIFE_BACKOFF)
		json_out_i64(o, "next_restart_in_ms", sb->life.timer_at_ms > now ? sb->life.timer_at_ms - now : 0);
	else
		json_out_null(o, "next_restart_in_ms");
	decision_next_text(&sb->life, p, now, next, sizeof next);
	if (next[0])
		json_out_text(o, "next", next);
	else
		json_out_null(o, "next");
	if (sb->life.state == LIFE_FROZEN) {
		json_out_object(o, "frozen");
		json_out_text(o, "mechanism", sb->frozen_by_cgroup ? "cgroup" : "signals");
		json_out_object_end(o);
	} else {
		json_out_null(o, "frozen");
	}
}

static void calls_json(const struct calls *q, struct json_out *o)
{
	json_out_object(o, "queue");
	json_out_u64(o, "waiting", q->waiting.n);
	json_out_u64(o, "running", q->running.n);
	json_out_u64(o, "max", q->max_waiting);
	json_out_u64(o, "done", q->done);
	json_out_u64(o, "failed", q->failed);
	json_out_object_end(o);
}

void sandbox_info_json(const struct sandbox *sb, struct json_out *o)
{
	struct json_span module = module_span(sb);
	struct json_span name = json_type(module) == '{' ? json_get(module, "name") : (struct json_span){ 0 };
	const struct version *current = versions_current(&sb->versions);

	json_out_object(o, NULL);
	identity_json(sb, o);
	if (name.at)
		json_out_raw(o, "module", name.at, name.size);
	else
		json_out_null(o, "module");
	json_out_u64(o, "version", sb->versions.current);
	out_member(o, "abi", module);
	out_member(o, "state_version", module);
	json_out_text(o, "sha256", current ? current->sha256 : NULL);
	json_out_i64(o, "created_at", sb->spec.created_at_ms);
	json_out_i64(o, "updated_at", sb->updated.at_ms > 0 ? sb->updated.at_ms : sb->spec.created_at_ms);
	process_json(sb, o);
	policy_json(sb, o);
	last_exit_json(sb, o, "last_exit");
	calls_json(&sb->calls, o);
	versions_json(&sb->versions, o, "versions");
	sandbox_probation_json(sb, o, "probation");
	out_member(o, "functions", module);
	out_member(o, "timers", module);
	out_member(o, "state", module);
	out_member(o, "own_save", module);
	if (sb->security)
		json_out_raw(o, "security", sb->security, strlen(sb->security));
	else
		json_out_null(o, "security");
	if (sb->create_warnings) { /* in the answer to create only */
		json_out_object(o, "compiler");
		json_out_text(o, "warnings", sb->create_warnings);
		json_out_object_end(o);
	}
	json_out_object_end(o);
}

/* Names of what was asked for and isn't there. */
static void missing_json(struct json_span report, struct json_out *o)
{
	struct json_span key, row;

	json_out_array(o, "missing");
	for (struct json_iter it = json_iter_begin(report); json_iter_next(&it, &key, &row);) {
		char name[64], asked[PROTECTION_TEXT_BYTES], got[PROTECTION_TEXT_BYTES];

		if (json_string(json_get(row, "protection"), name, sizeof name) >= 0 &&
			json_string(json_get(row, "asked"), asked, sizeof asked) >= 0 &&
			json_string(json_get(row, "got"), got, sizeof got) >= 0 && strcmp(asked, "none") != 0 && strcmp(got, "none") == 0)
			json_out_text(o, NULL, name);
	}
	json_out_array_end(o);
}

const struct rpc_done *answer_security(struct rpc_request *r, const struct sandbox *sb)
{
	struct json_span report = { sb->security, sb->security ? strlen(sb->security) : 0 };
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;
	struct err e = ERR_INIT;
	double exposure;

	if (!sb->host || !sb->host->reported || !report.at) {
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s: there is no process to report its protections", sb->spec.id,
			sandbox_status_text(sb));
		return rpc_error(r, &e, NULL);
	}
	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	profile_json(sb, &o);
	json_out_bool(&o, "strict", sb->spec.strict);
	json_out_u64(&o, "generation", sb->host->link.generation);
	missing_json(report, &o);
	exposure = exposure_of(exposure_standing(report));
	json_out_f64(&o, "exposure", round(exposure * 10) / 10);
	json_out_text(&o, "rating", exposure_rating(exposure));
	json_out_raw(&o, "security", report.at, report.size);
	json_out_object_end(&o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}

static void usage_json(struct sandbox *sb, const struct usage *u, bool by_cgroup, struct json_out *o)
{
	const struct host_limits *l = &sb->spec.limits;
	struct host *h = sb->host;
	int64_t now_us = clock_monotonic_us(), before_us = h->usage_at_us ? h->usage_at_us : h->started_ms * 1000;

	json_out_object(o, NULL);
	json_out_text(o, "id", sb->spec.id);
	json_out_i64(o, "pid", h->pid);
	json_out_u64(o, "generation", h->link.generation);
	json_out_i64(o, "uptime_ms", now_us / 1000 - h->started_ms);
	json_out_object(o, "memory");
	json_out_u64(o, "anon", u->anon_bytes);
	json_out_u64(o, "file", u->file_bytes);
	json_out_u64(o, "shared", u->shared_bytes);
	json_out_u64(o, "peak", u->peak_bytes);
	json_out_u64(o, "limit", spec_limit(l, SPEC_LIMIT_MEMORY));
	json_out_object_end(o);
	json_out_u64(o, "processes", u->processes);
	json_out_u64(o, "max_processes", spec_limit(l, SPEC_LIMIT_PROCESSES));
	json_out_u64(o, "threads", u->threads);
	json_out_object(o, "cpu");
	json_out_u64(o, "time_us", u->cpu_us);
	json_out_f64(o, "percent", usage_percent(h->usage_cpu_us, before_us, u->cpu_us, now_us));
	json_out_i64(o, "over_ms", (now_us - before_us) / 1000);
	json_out_object_end(o);
	if (u->open_files >= 0)
		json_out_i64(o, "open_files", u->open_files);
	else
		json_out_null(o, "open_files");
	json_out_u64(o, "max_open_files", spec_limit(l, SPEC_LIMIT_OPEN_FILES));
	calls_json(&sb->calls, o);
	json_out_object(o, "percent");
	json_out_u64(o, "memory", sample_percent(u->anon_bytes + u->shared_bytes, spec_limit(l, SPEC_LIMIT_MEMORY)));
	json_out_u64(o, "processes", sample_percent(u->processes > u->threads ? u->processes : u->threads, spec_limit(l, SPEC_LIMIT_PROCESSES)));
	if (u->open_files >= 0)
		json_out_u64(o, "open_files", sample_percent((uint64_t)u->most_open_files, spec_limit(l, SPEC_LIMIT_OPEN_FILES)));
	else
		json_out_null(o, "open_files");
	json_out_u64(o, "queue", sample_percent(sb->calls.waiting.n, sb->calls.max_waiting));
	json_out_object_end(o);
	json_out_bool(o, "complete", !u->is_partial);
	json_out_text(o, "by", by_cgroup ? "cgroup" : "proc");
	json_out_object_end(o);
	h->usage_cpu_us = u->cpu_us;
	h->usage_at_us = now_us;
}

bool sandbox_usage_now(const struct sandbox *sb, struct usage *ret, bool *ret_by_cgroup)
{
	/* Where there is no pid namespace, what the host's children leave behind comes to the spawner. */
	pid_t orphans_of = sb->control->begin.is_root ? sb->control->begin.spawner_pid : 0;

	if (!sb->host || sb->host->pid <= 0 || !usage_read("/proc", sb->host->pid, orphans_of, ret))
		return false;
	*ret_by_cgroup = sb->host->leaf[0] && usage_read_cgroup(sb->control->begin.cgroup_dir, sb->host->leaf, ret);
	return true;
}

const struct rpc_done *answer_usage(struct rpc_request *r, struct sandbox *sb)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;
	struct err e = ERR_INIT;
	struct usage u;
	bool by_cgroup;

	if (!sandbox_usage_now(sb, &u, &by_cgroup)) {
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s: there is no process that could use anything", sb->spec.id, life_state_text(sb->life.state));
		return rpc_error(r, &e, NULL);
	}
	usage_json(sb, &u, by_cgroup, &o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}

const struct rpc_done *answer_info(struct rpc_request *r, const struct sandbox *sb)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;

	sandbox_info_json(sb, &o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}

void answer_info_durable(struct rpc_request *r, struct sandbox *sb)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	sandbox_info_json(sb, &o);
	durable_answer_raw(sb, r, buf_text(&b), b.size);
	buf_fini(&b);
}
