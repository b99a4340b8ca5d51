/* SPDX-License-Identifier: MIT
 *
 * What was asked for, from a request; and the sealed JSON text that the spawner keeps for each sandbox, from which a new
 * control process makes the same sandbox again. The text is this program's own, possibly of an earlier version, and is read with
 * every member checked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/shared_text.h"
#include "daemon/control/spawner_link.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/log.h"
#include "proto/profile_file.h"

#define SPEC_FORMAT 1

void spec_fini(struct spec *s)
{
	free(s->config);
	free(s->labels);
	s->config = s->labels = NULL;
}

/* ---- from a request ---- */

int spec_labels_check(struct json_span object, struct err *e)
{
	struct json_span key, value;
	struct json_iter it = json_iter_begin(object);
	unsigned n = 0;

	while (json_iter_next(&it, &key, &value)) {
		char text[LIMIT_ID_BYTES + 1];
		int64_t size = json_string(key, text, sizeof text);

		if (size < 0 || !name_is_id(text, (size_t)size))
			return err_set(e, ERR_BAD_PARAM, "a label's name must be like an id");
		if (json_type(value) != '"' || value.size > LIMIT_LABEL_BYTES + 2)
			return err_set(e, ERR_BAD_PARAM, "label %s must be a text of at most %d bytes", text, LIMIT_LABEL_BYTES);
		if (++n > LIMIT_LABELS)
			return err_set(e, ERR_BAD_PARAM, "more than %d labels", LIMIT_LABELS);
	}
	return 0;
}

static char *span_dup(struct json_span v)
{
	return v.at ? strndup(v.at, v.size) : strdup("{}");
}

enum life_restart spec_restart(const char *text)
{
	for (int i = 0; text && i < LIFE_RESTART__N; i++)
		if (strcmp(text, life_restart_text((enum life_restart)i)) == 0)
			return (enum life_restart)i;
	return LIFE_PERMANENT;
}

int spec_profile_set(struct spec *s, const char *name, const struct rpc_request *r, struct err *e)
{
	const struct policy *p = profile_policy(profile_wanted(name, e));

	if (!p)
		return err_about(e, "profile", -1);
	if (p->administrators_only && strcmp(s->profile, p->name) != 0 && !rpc_is_admin(r))
		return err_set(e, ERR_DENIED, "profile %s is for administrators", p->name);
	if (s->own_audit && s->audit < p->audit && !rpc_is_admin(r)) {
		err_set(e, ERR_DENIED, "audit_level %s is below %s, that of profile %s: only administrators may lower it", policy_audit_text(s->audit),
			policy_audit_text(p->audit), p->name);
		return err_about(e, "audit_level", -1);
	}
	(void)snprintf(s->profile, sizeof s->profile, "%s", p->name);
	return 0;
}

/* Which of the profiles, if its sandbox may have it; and how much of it is recorded. */
static int profile_from_request(struct spec *s, const struct rpc_request *r, struct err *e)
{
	const char *name = rpc_text(r, "profile"), *audit = rpc_text(r, "audit_level");

	s->own_audit = audit && policy_audit_from_text(audit, strlen(audit), &s->audit);
	return spec_profile_set(s, name ? name : "medium", r, e);
}

enum policy_audit spec_audit(const struct spec *s)
{
	const struct policy *p = profile_policy(profile_from_name(s->profile, strlen(s->profile)));

	return s->own_audit ? s->audit : p ? p->audit : POLICY_AUDIT_FULL;
}

int spec_check_object(const struct spec *s, size_t bytes, struct err *e)
{
	const struct policy *p = profile_policy(profile_from_name(s->profile, strlen(s->profile)));

	if (!p || bytes <= p->max_module_bytes)
		return 0;
	return err_set(e, ERR_LIMIT_EXCEEDED, "the module has %zu bytes, and profile %s takes at most %u (max_module_size)", bytes, s->profile,
		p->max_module_bytes);
}

int spec_check_profile(const struct spec *s, struct err *e)
{
	if (profile_from_name(s->profile, strlen(s->profile)) != PROFILE_NONE)
		return 0;
	return err_set(e, ERR_START_FAILED, "its profile %s isn't there any more: put %s" PROFILE_FILE_SUFFIX
		" back into profiles.d, restart sandboxd, and start it; or destroy it", s->profile, s->profile);
}

int spec_from_request(struct spec *s, const struct control *c, const struct rpc_request *r, struct err *e)
{
	struct json_span limits = rpc_param(r, "limits"), labels = rpc_param(r, "labels"), config = rpc_param(r, "config");
	struct life_policy *p = &s->policy;

	*s = (struct spec){ .owner = rpc_uid(r), .created_at_ms = clock_wall_ms(), .policy = life_policy_default(),
		.max_queue = (uint32_t)rpc_integer(r, "max_queue", LIMIT_CALL_QUEUE), .strict = rpc_bool(r, "strict", false),
		.persist = rpc_bool(r, "persist", true), .probation_ms = (uint32_t)rpc_integer(r, "probation_ms", DEFAULT_PROBATION_MS),
		.keep_versions = (uint32_t)rpc_integer(r, "keep_versions", LIMIT_VERSIONS) };
	(void)snprintf(s->id, sizeof s->id, "%s", rpc_text(r, "id"));
	if (profile_from_request(s, r, e) < 0)
		return -1;
	p->restart = spec_restart(rpc_text(r, "restart"));
	p->budget.intensity = (uint32_t)rpc_integer(r, "intensity", DEFAULT_RESTART_INTENSITY);
	p->budget.period_ms = (uint32_t)rpc_integer(r, "period_ms", DEFAULT_RESTART_PERIOD_MS);
	p->start_timeout_ms = (uint32_t)rpc_integer(r, "start_timeout_ms", DEFAULT_START_TIMEOUT_MS);
	p->shutdown_ms = (uint32_t)rpc_integer(r, "shutdown_ms", DEFAULT_SHUTDOWN_MS);
	s->checkpoint_every_ms = (uint32_t)rpc_integer(r, "checkpoint_every_ms", 0);
	s->checkpoint_call = rpc_text(r, "checkpoint") && strcmp(rpc_text(r, "checkpoint"), "call") == 0;
	if (s->checkpoint_call && rpc_text(r, "restart_state") && strcmp(rpc_text(r, "restart_state"), "fresh") == 0) {
		err_set(e, ERR_BAD_PARAM, "checkpoint call saves what restart_state fresh never begins with: leave one of them out");
		return err_about(e, "restart_state", -1);
	}
	/* Whoever asks for checkpoints wants to begin from them, unless he says otherwise. */
	p->from_checkpoint = rpc_text(r, "restart_state") ? strcmp(rpc_text(r, "restart_state"), "checkpoint") == 0 : s->checkpoint_call || s->checkpoint_every_ms > 0;
	s->heartbeat_ms = (uint32_t)rpc_integer(r, "heartbeat_ms", 0);
	s->fresh_space = rpc_text(r, "address_space") && strcmp(rpc_text(r, "address_space"), "fresh") == 0;
	s->max_execution_ms = (uint32_t)rpc_integer(r, "max_execution_ms", DEFAULT_MAX_EXECUTION_MS);
	if (config.at && config.size > LIMIT_SPEC_BYTES / 2)
		return err_set(e, ERR_BAD_PARAM, "config has %zu bytes, more than %u", config.size, LIMIT_SPEC_BYTES / 2);
	if ((limits.at && spec_limits_read(&s->limits, &c->begin, limits, e) < 0) || (labels.at && spec_labels_check(labels, e) < 0))
		return -1;
	s->config = span_dup(config);
	s->labels = span_dup(labels);
	if (!s->config || !s->labels) {
		spec_fini(s);
		return err_set(e, ERR_INTERNAL, "no memory for another sandbox");
	}
	return 0;
}

/* ---- the text that the spawner keeps ---- */

static void policy_save(const struct spec *s, struct json_out *o)
{
	const struct life_policy *p = &s->policy;

	json_out_text(o, "restart", life_restart_text(p->restart));
	json_out_u64(o, "intensity", p->budget.intensity);
	json_out_u64(o, "period_ms", p->budget.period_ms);
	json_out_u64(o, "start_timeout_ms", p->start_timeout_ms);
	json_out_u64(o, "shutdown_ms", p->shutdown_ms);
	json_out_text(o, "restart_state", p->from_checkpoint ? "checkpoint" : "fresh");
	json_out_u64(o, "heartbeat_ms", s->heartbeat_ms);
	json_out_u64(o, "max_execution_ms", s->max_execution_ms);
	if (s->group[0]) {
		json_out_text(o, "group", s->group);
		json_out_bool(o, "significant", s->significant);
		json_out_i64(o, "joined_at", s->joined_at_ms);
	}
	json_out_u64(o, "max_queue", s->max_queue);
	json_out_text(o, "profile", s->profile);
	if (s->own_audit)
		json_out_text(o, "audit_level", policy_audit_text(s->audit));
	json_out_bool(o, "strict", s->strict);
	json_out_text(o, "address_space", s->fresh_space ? "fresh" : "shared");
	json_out_bool(o, "persist", s->persist);
	json_out_u64(o, "probation_ms", s->probation_ms);
	json_out_u64(o, "keep_versions", s->keep_versions);
	if (s->checkpoint_every_ms > 0)
		json_out_u64(o, "checkpoint_every_ms", s->checkpoint_every_ms);
	if (s->checkpoint_call)
		json_out_bool(o, "checkpoint_call", true);
	json_out_object(o, "limits");
	json_out_u64(o, "max_memory", s->limits.max_memory_bytes);
	json_out_u64(o, "max_file_size", s->limits.max_file_size_bytes);
	json_out_u64(o, "max_processes", s->limits.max_processes);
	json_out_u64(o, "max_open_files", s->limits.max_open_files);
	if (s->limits.max_cpu_percentage != 0)
		json_out_u64(o, "max_cpu_percentage", s->limits.max_cpu_percentage);
	json_out_object_end(o);
	json_out_raw(o, "config", s->config, strlen(s->config));
	json_out_raw(o, "labels", s->labels, strlen(s->labels));
}

static void last_exit_save(const struct last_exit *x, struct json_out *o)
{
	if (!x->happened)
		return;
	json_out_object(o, "last_exit");
	json_out_i64(o, "at", x->at_ms);
	json_out_i64(o, "uptime_ms", x->uptime_ms);
	json_out_u64(o, "exit", (uint64_t)x->exit);
	json_out_i64(o, "wait_status", x->wait_status);
	json_out_u64(o, "version", x->version);
	json_out_u64(o, "generation", x->generation);
	json_out_text(o, "reason", x->reason);
	json_out_text(o, "text", x->text);
	json_out_text(o, "words", x->words);
	json_out_object(o, "next");
	begun_from_json(&x->next, o);
	json_out_object_end(o);
	json_out_object_end(o);
}

/* The life is copied as plain bytes: life_adopt takes any. */
static void life_save(const struct life *l, struct json_out *o)
{
	struct buf text = BUF_INIT;

	base64_encode(&text, l, sizeof *l);
	json_out_text(o, "life", buf_text(&text));
	buf_fini(&text);
}

/* What its group counted of it: a new control makes the group's window of them. */
static void counted_save(const struct sandbox *sb, struct json_out *o)
{
	const struct budget *b = &sb->counted.budget;

	if (!sb->spec.group[0] || (b->n == 0 && b->streak == 0))
		return;
	json_out_object(o, "counted");
	json_out_u64(o, "streak", b->streak);
	json_out_i64(o, "due", sb->counted.due_ms);
	json_out_array(o, "at");
	for (uint32_t i = 0; i < b->n; i++)
		json_out_i64(o, NULL, b->at_ms[i]);
	json_out_array_end(o);
	json_out_object_end(o);
}

static void counted_load(struct sandbox *sb, struct json_span saved)
{
	struct budget *b = &sb->counted.budget;
	struct json_span at, key, value;
	uint64_t streak = 0;

	budget_clear(b);
	sb->counted.due_ms = 0;
	sb->counted.found = json_type(saved) == '{';
	if (!sb->counted.found)
		return;
	if (json_u64(json_get(saved, "streak"), &streak) && streak <= UINT32_MAX)
		b->streak = (uint32_t)streak;
	if (!json_i64(json_get(saved, "due"), &sb->counted.due_ms))
		sb->counted.due_ms = 0;
	at = json_get(saved, "at");
	if (json_type(at) == '[')
		for (struct json_iter it = json_iter_begin(at); b->n <= BUDGET_INTENSITY_MAX && json_iter_next(&it, &key, &value);)
			if (json_i64(value, &b->at_ms[b->n]))
				b->n++;
	budget_sanitise(b, clock_monotonic_ms());
}

/* A state that the life keeps and that no memfd holds: after a restart of the machine, until the next start. */
static void kept_there_save(const struct sandbox *sb, struct json_out *o)
{
	const struct on_disk *k = &sb->disk;

	if (!k->kept_there && !(sb->booting && k->state_sha256[0]))
		return;
	json_out_object(o, "kept_on_disk");
	json_out_text(o, "sha256", k->state_sha256);
	json_out_u64(o, "bytes", k->state_bytes);
	json_out_object_end(o);
}

static void kept_there_load(struct on_disk *k, struct json_span saved)
{
	k->kept_there = json_type(saved) == '{' && json_string(json_get(saved, "sha256"), k->state_sha256, sizeof k->state_sha256) == SHA256_HEX_BYTES &&
		name_is_sha256(k->state_sha256, SHA256_HEX_BYTES) && json_u64(json_get(saved, "bytes"), &k->state_bytes);
	if (!k->kept_there)
		k->state_sha256[0] = '\0';
}

/* The newest is first. Where a newer one is on its way to the disk, whose name isn't known yet, the row's is older than it; or is the same. */
static void older_save(const struct older_state *o, struct json_out *to)
{
	if (!o->sha256[0])
		return;
	json_out_object(to, NULL);
	json_out_text(to, "sha256", o->sha256);
	json_out_u64(to, "bytes", o->bytes);
	json_out_bool(to, "bad", o->is_bad);
	json_out_object_end(to);
}

static void older_states_save(const struct on_disk *k, struct json_out *o)
{
	struct older_state row = { .bytes = k->state_bytes };

	if (k->state_fd >= 0)
		(void)snprintf(row.sha256, sizeof row.sha256, "%s", k->state_sha256);
	json_out_bool(o, "kept_is_row", k->kept_is_row);
	json_out_array(o, "older_states");
	older_save(&row, o);
	older_save(&k->older, o);
	json_out_array_end(o);
}

static void older_states_load(struct on_disk *k, struct json_span top)
{
	struct json_span all = json_get(top, "older_states"), key, value;
	struct older_state *const to[] = { &k->older, &k->elder };
	size_t n = 0;

	k->kept_is_row = json_type(json_get(top, "kept_is_row")) == 't';
	if (json_type(all) != '[')
		return;
	for (struct json_iter it = json_iter_begin(all); n < sizeof to / sizeof to[0] && json_iter_next(&it, &key, &value);) {
		struct older_state o = { .is_bad = true };

		if (json_type(value) != '{' || json_string(json_get(value, "sha256"), o.sha256, sizeof o.sha256) != SHA256_HEX_BYTES ||
			!name_is_sha256(o.sha256, SHA256_HEX_BYTES) || !json_u64(json_get(value, "bytes"), &o.bytes) ||
			!json_bool(json_get(value, "bad"), &o.is_bad))
			return; /* of no use; what came before it is */
		*to[n++] = o;
	}
}

static void versions_as_committed(const struct sandbox *sb, struct json_out *o)
{
	struct versions v = sb->versions;

	(void)versions_commit(&v, &sb->candidate, clock_wall_ms());
	versions_save(&v, o, "versions");
}

char *spec_text(const struct sandbox *sb, enum spec_form form, size_t *ret_size, struct err *e)
{
	const char *security = form == SPEC_PROMOTED ? sb->reload.security : sb->security;
	const char *module = form == SPEC_PROMOTED ? sb->reload.module : sb->module;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	json_out_u64(&o, "format", SPEC_FORMAT);
	json_out_text(&o, "id", sb->spec.id);
	json_out_u64(&o, "owner", sb->spec.owner);
	json_out_i64(&o, "created_at", sb->spec.created_at_ms);
	policy_save(&sb->spec, &o);
	if (form >= SPEC_AS_COMMITTED)
		versions_as_committed(sb, &o);
	else
		versions_save(&sb->versions, &o, "versions");
	json_out_u64(&o, "serial", form == SPEC_PROMOTED ? sb->candidate_serial : sb->serial);
	if (form == SPEC_PROMOTED)
		json_out_bool(&o, "promoted", true);
	json_out_u64(&o, "last_serial", sb->last_serial);
	json_out_u64(&o, "state_bytes", sb->state_bytes);
	json_out_text(&o, "state_from", form != SPEC_PROMOTED ? sb->state_from : sb->reload.from_saved ? "saved" : "reload");
	if (sb->forgetting)
		json_out_bool(&o, "gone", true);
	if (sb->keep_history)
		json_out_bool(&o, "keep_history", true);
	if (sb->booting)
		json_out_bool(&o, "boot", sb->disk.wanted);
	json_out_bool(&o, "resting", sb->resting);
	json_out_u64(&o, "group_restarts", sb->group_restarts);
	json_out_u64(&o, "asked_restarts", sb->asked_restarts);
	updated_save(sb, &o);
	pending_save(sb, form == SPEC_PROMOTED, &o);
	counted_save(sb, &o);
	kept_there_save(sb, &o);
	older_states_save(&sb->disk, &o);
	checkpoint_save(sb, &o);
	if (form == SPEC_WITH_CANDIDATE) {
		version_save(&sb->candidate, &o, "candidate");
		json_out_u64(&o, "candidate_serial", sb->candidate_serial);
	}
	life_save(&sb->life, &o);
	explain_save(sb, &o);
	last_exit_save(&sb->last_exit, &o);
	if (security && b.size + strlen(security) < LIMIT_SPEC_BYTES - 64)
		json_out_raw(&o, "security", security, strlen(security));
	if (module && b.size + strlen(module) < LIMIT_SPEC_BYTES - 64)
		json_out_raw(&o, "module", module, strlen(module));
	json_out_object_end(&o);
	if (!b.failed && b.size <= LIMIT_SPEC_BYTES) {
		*ret_size = b.size;
		return b.data;
	}
	err_set(e, ERR_LIMIT_EXCEEDED, "the description of sandbox %s has %zu bytes, more than %u", sb->spec.id, b.size, LIMIT_SPEC_BYTES);
	buf_fini(&b);
	return NULL;
}

int spec_memfd(const struct sandbox *sb, enum spec_form form, struct err *e)
{
	/* Whatever else changes while a candidate is recorded: a successor that isn't told of it would take the host that commits it for a liar. */
	bool recorded = form == SPEC_PLAIN && txn_active(&sb->txn) && sb->txn.record_sent;
	size_t size = 0;
	char *text = spec_text(sb, recorded ? SPEC_WITH_CANDIDATE : form, &size, e);
	int fd = text && !FAULT(SPEC_MEMFD) ? fd_memfd("spec", text, size, true) : -1;

	if (text && fd < 0)
		err_sys(e, ERR_INTERNAL, "cannot make a memfd for the spec of %s", sb->spec.id);
	free(text);
	return fd;
}

bool spec_as_written(const struct sandbox *sb, const char *json, size_t size)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct json_span there, here;
	bool same = false;
	int64_t at_ms;

	json_out_object(&o, NULL);
	versions_save(&sb->versions, &o, "versions");
	json_out_object_end(&o);
	if (!b.failed && json_check(json, size, NULL) == 0 && json_type((struct json_span){ json, size }) == '{') {
		there = json_get((struct json_span){ json, size }, "versions");
		here = json_get((struct json_span){ b.data, b.size }, "versions");
		same = there.size == here.size && there.at && memcmp(there.at, here.at, here.size) == 0 &&
			(!json_i64(json_get((struct json_span){ json, size }, "updated_at"), &at_ms) || at_ms == sb->updated.at_ms);
	}
	buf_fini(&b);
	return same;
}

void sandbox_keep_spec(struct sandbox *sb)
{
	struct err e = ERR_INIT;
	struct spawner_message m;
	int fd;

	owned_update(sb);
	sandbox_account(sb);
	updated_note(sb);
	if (sb->hold_due || sb->not_held)
		return; /* what isn't held can't be kept for: it is told with HOLD */
	sb->spec_due = txn_active(&sb->txn) && sb->txn.step == TXN_PROMOTE;
	if (sb->spec_due)
		return; /* the one that PROMOTE brings, or the one before it, is right until that is answered */
	fd = spec_memfd(sb, SPEC_PLAIN, &e);
	if (fd < 0) {
		log_error("sandbox=%s %s", sb->spec.id, e.text);
		return;
	}
	spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
	m.kind = SPAWNER_KEEP_SPEC;
	spawner_send(sb->control->spawner, &m, &fd, 1);
	fd_close(&fd);
}

static bool get_u32(struct json_span object, const char *name, uint32_t *ret)
{
	uint64_t v;

	if (!json_u64(json_get(object, name), &v) || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool get_text(struct json_span object, const char *name, char *to, size_t room)
{
	if (json_string(json_get(object, name), to, room) >= 0)
		return true;
	to[0] = '\0';
	return false;
}

static void last_exit_load(struct last_exit *x, struct json_span saved)
{
	uint64_t exit = 0;
	int64_t status = 0;

	if (json_type(saved) != '{')
		return;
	x->happened = json_i64(json_get(saved, "at"), &x->at_ms) && json_i64(json_get(saved, "uptime_ms"), &x->uptime_ms) &&
		json_u64(json_get(saved, "exit"), &exit) && exit < LIFE_EXIT__N && json_i64(json_get(saved, "wait_status"), &status) &&
		get_u32(saved, "version", &x->version);
	x->exit = (enum life_exit)exit;
	x->wait_status = (int)status;
	if (!json_u64(json_get(saved, "generation"), &x->generation))
		x->generation = 0; /* written by an earlier version */
	(void)get_text(saved, "reason", x->reason, sizeof x->reason);
	(void)get_text(saved, "text", x->text, sizeof x->text);
	(void)get_text(saved, "words", x->words, sizeof x->words);
	begun_from_load(&x->next, json_get(saved, "next"));
}

static int policy_load(struct spec *s, struct json_span top, struct err *e)
{
	struct json_span limits = json_get(top, "limits");
	struct life_policy *p = &s->policy;
	char restart[16];

	*p = life_policy_default();
	s->persist = true;
	if (!get_text(top, "restart", restart, sizeof restart) || !get_u32(top, "intensity", &p->budget.intensity) ||
		!get_u32(top, "period_ms", &p->budget.period_ms) || !get_u32(top, "start_timeout_ms", &p->start_timeout_ms) ||
		!get_u32(top, "shutdown_ms", &p->shutdown_ms) || !get_u32(top, "max_queue", &s->max_queue) ||
		!get_text(top, "profile", s->profile, sizeof s->profile) || !json_bool(json_get(top, "strict"), &s->strict) ||
		json_type(limits) != '{' || !json_u64(json_get(limits, "max_memory"), &s->limits.max_memory_bytes) ||
		!json_u64(json_get(limits, "max_file_size"), &s->limits.max_file_size_bytes) ||
		!get_u32(limits, "max_processes", &s->limits.max_processes) ||
		!get_u32(limits, "max_open_files", &s->limits.max_open_files) || p->budget.intensity > BUDGET_INTENSITY_MAX ||
		p->budget.period_ms == 0)
		return err_set(e, ERR_IO, "a kept spec lacks a member of the policy");
	p->restart = spec_restart(restart);
	s->own_audit = get_text(top, "audit_level", restart, sizeof restart) && policy_audit_from_text(restart, strlen(restart), &s->audit);
	/* What an earlier version didn't write is as it was then. */
	(void)get_u32(limits, "max_cpu_percentage", &s->limits.max_cpu_percentage);
	p->from_checkpoint = json_string_is(json_get(top, "restart_state"), "checkpoint");
	s->fresh_space = json_string_is(json_get(top, "address_space"), "fresh");
	if (!get_u32(top, "heartbeat_ms", &s->heartbeat_ms))
		s->heartbeat_ms = 0;
	if (!get_u32(top, "max_execution_ms", &s->max_execution_ms))
		s->max_execution_ms = 0;
	if (!get_text(top, "group", s->group, sizeof s->group) || !name_is_id(s->group, strlen(s->group)) ||
		!json_i64(json_get(top, "joined_at"), &s->joined_at_ms))
		s->group[0] = '\0';
	s->significant = json_type(json_get(top, "significant")) == 't';
	/* Of later versions of this program. */
	if (!get_u32(top, "probation_ms", &s->probation_ms))
		s->probation_ms = DEFAULT_PROBATION_MS;
	if (!get_u32(top, "keep_versions", &s->keep_versions) || s->keep_versions < 2 || s->keep_versions > LIMIT_VERSIONS)
		s->keep_versions = LIMIT_VERSIONS;
	if (!get_u32(top, "checkpoint_every_ms", &s->checkpoint_every_ms) || s->checkpoint_every_ms < LIMIT_CHECKPOINT_LEAST_MS)
		s->checkpoint_every_ms = 0;
	s->checkpoint_call = json_type(json_get(top, "checkpoint_call")) == 't';
	return 0;
}

/* Members that come as JSON values are copied as text; those that are only shown may be absent. */
static char *get_raw(struct json_span top, const char *name)
{
	struct json_span v = json_get(top, name);

	return v.at ? strndup(v.at, v.size) : NULL;
}

static const char *get_shared(struct json_span top, const char *name)
{
	struct json_span v = json_get(top, name);

	return v.at ? shared_text(v.at, v.size) : NULL;
}

bool spec_is_newer(const char *json, size_t size)
{
	uint32_t format = 0;

	return json_check(json, size, NULL) == 0 && json_type((struct json_span){ json, size }) == '{' &&
		get_u32((struct json_span){ json, size }, "format", &format) && format > SPEC_FORMAT;
}

int spec_load(struct sandbox *sb, const char *json, size_t size, struct err *e)
{
	struct json_span top = { json, size }, candidate;
	struct spec *s = &sb->spec;
	uint8_t life[sizeof sb->life + 3];
	uint32_t owner = 0, format = 0;
	char *text;

	if (json_check(json, size, e) < 0)
		return err_prefix(e, "kept spec");
	if (json_type(top) != '{')
		return err_set(e, ERR_IO, "a kept spec is not an object");
	if (!get_u32(top, "format", &format) || format != SPEC_FORMAT)
		return err_set(e, ERR_IO, "a kept spec has format %u, this program reads %d", format, SPEC_FORMAT);
	if (!get_text(top, "id", s->id, sizeof s->id) || !name_is_id(s->id, strlen(s->id)) || !get_u32(top, "owner", &owner) ||
		!json_i64(json_get(top, "created_at"), &s->created_at_ms) || !json_u64(json_get(top, "serial"), &sb->serial) ||
		!json_u64(json_get(top, "last_serial"), &sb->last_serial) || !json_u64(json_get(top, "state_bytes"), &sb->state_bytes))
		return err_set(e, ERR_IO, "a kept spec lacks a member");
	s->owner = owner;
	if (policy_load(s, top, e) < 0)
		return -1;
	sb->versions.keep = s->keep_versions;
	if (versions_load(&sb->versions, json_get(top, "versions"), e) < 0)
		return -1;
	sb->promoted = json_type(json_get(top, "promoted")) == 't';
	candidate = json_get(top, "candidate");
	if (candidate.at) {
		if (version_load(&sb->candidate, candidate, e) < 0 || !json_u64(json_get(top, "candidate_serial"), &sb->candidate_serial))
			return err_set(e, ERR_IO, "a kept spec's candidate lacks a member");
		sb->has_candidate = true;
	}
	s->persist = !json_get(top, "persist").at || json_type(json_get(top, "persist")) == 't';
	sb->was_gone = json_type(json_get(top, "gone")) == 't';
	sb->keep_history = json_type(json_get(top, "keep_history")) == 't';
	kept_there_load(&sb->disk, json_get(top, "kept_on_disk"));
	older_states_load(&sb->disk, top);
	checkpoint_load(sb, top);
	sb->booting = json_bool(json_get(top, "boot"), &sb->disk.wanted);
	(void)get_text(top, "state_from", sb->state_from, sizeof sb->state_from);
	last_exit_load(&sb->last_exit, json_get(top, "last_exit"));
	sb->resting = json_type(json_get(top, "resting")) == 't';
	if (!get_u32(top, "group_restarts", &sb->group_restarts))
		sb->group_restarts = 0;
	if (!get_u32(top, "asked_restarts", &sb->asked_restarts))
		sb->asked_restarts = 0;
	counted_load(sb, json_get(top, "counted"));
	explain_load(sb, json_get(top, "decisions"));
	s->config = get_raw(top, "config");
	s->labels = get_raw(top, "labels");
	sb->security = get_shared(top, "security");
	sb->module = get_shared(top, "module");
	text = json_string_dup(json_get(top, "life"), &size);
	if (text && size <= sizeof life / 3 * 4 && base64_decode(life, text, size) == (int64_t)sizeof sb->life)
		memcpy(&sb->life, life, sizeof sb->life);
	free(text);
	updated_load(sb, top);
	pending_load(sb, top);
	calls_init(&sb->calls, sb->control->begin.epoch, s->max_queue, sandbox_cast_failed, sb);
	return s->config && s->labels && s->config[0] == '{' && s->labels[0] == '{' ?
		0 :
		err_set(e, ERR_IO, "a kept spec lacks config or labels");
}
