/* SPDX-License-Identifier: MIT
 *
 * JSON Schema comes from two places: of parameters from their rows, of results from the short texts below:
 *   {name: T, name?: T}  an object; '?' marks members that may be missing; others may be added, now and later
 *   [T]                  an array
 *   s i n b o            string, integer, number, boolean, object;  a  anything;  w  a 64-bit integer: number, or decimal string
 *   $name                a schema of the table `shared`
 *   T~                   or null */
#include "daemon/front/discover.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "daemon/front/rights.h"
#include "proto/err.h"
#include "proto/json_out.h"
#include "proto/limits.h"
#include "proto/names.h"

#ifndef SANDBOXD_VERSION
#define SANDBOXD_VERSION "unknown"
#endif

#define EXACT_MAX 9007199254740992 /* 2^53: larger bounds aren't JSON numbers of ours */

static const struct {
	const char *name, *text;
} shared[] = {
	{ "sandbox",
		"{id: s, group: s~, significant: b, status: s, status_reason: s~, owner: i, module: s~, version: i~, abi: s~, state_version: i~, sha256: s~, created_at: i, updated_at: i, pid: i~,"
		" generation: i~, started_at: i~, host: {build: s, older: b}~, state_from: s~, state_kept: b, checkpoint: $checkpoints, persist: b, durable: b, restart: s, start_timeout_ms: i, shutdown_ms: i, heartbeat_ms: i, max_execution_ms: i, restart_state: s, profile: s, profile_fingerprint: s~, audit_level: s, address_space: s,"
		" strict: b, probation_ms: i, keep_versions: i, probation: {version: i, back_to: i, ends_in_ms: i, acknowledged_since: i}~,"
		" limits: {max_memory: w, max_file_size: w, max_processes: i, max_open_files: i, max_cpu_percentage: i}, pending: [s], labels: o, config: o,"
		" restart_count: i, budget: $budget~, budget_of: s~, backoff: o~,"
		" next_restart_in_ms: i~, next: s~, frozen: {mechanism: s}~, last_exit: $last_exit~,"
		" queue: {waiting: i, running: i, max: i, done: i, failed: i}, versions: [$version], functions: [$function]~, timers: [s]~, state: a, own_save: b~,"
		" security: [$protection]~, compiler?: {warnings: s}}" },
	{ "budget", "{used: i, allowed: i, period_ms: i, frees_in_ms: i, resets_in_ms: i}" },
	{ "profile", "{profile: s, base: s, built_in: b, fingerprint: s, network: s, audit_level: s, max_module_size: i, administrators_only: b, dynamic_code: b,"
		" forbidden: s, unlisted: s, read_paths: [s], write_paths: [s], namespaces: [s], landlock: {files: [s], network: [s], scopes: [s]},"
		" operations: [{operation: s, allowed: b, refused_with: s, calls: i, landlock: [s], help: s}]}" },
	{ "row", "{id: s, status: s, status_reason: s~, owner: i, module: s~, version: i~, pid: i~, restart_count: i, created_at: i,"
		" group: s~, profile: s, labels: o, budget?: $budget}" }, /* budget: in group.tree */
	{ "last_exit",
		"{reason: s, class: s, signal?: i, code?: i, at: i, uptime_ms: i, version: i, generation: i, text: s, words: s,"
		" state_from: s~, checkpoint: i~, acknowledged_since: i~}" },
	{ "checkpoints", "{call: b, every_ms: i~, number: i~, saved_at: i~, state_bytes: i~, failing: b}" },
	{ "version",
		"{version: i, sha256: s, bytes: i, state_version: i, loaded_at: i, first_loaded_at: i,"
		" loads: i, faults: i, quarantined?: s, author: i, origin: s, source_name?: s~, status: s}" },
	{ "function", "{name: s, parameters: [{name: s, type: s, optional: b, default?: a}]}" },
	{ "protection", "{protection: s, asked: s, got: s, by: s, why: s}" },
	{ "reload",
		"{outcome: s, from: i, to: i, rung?: s, rung_reason?: s, sha256?: s, steps_us?: o, pause_us?: i, held_us?: i, total_us?: i, state_bytes?: i,"
		" report?: o~, calls_queued?: i, calls_running?: i, pinned?: a, probation_ms?: i, state_from?: s, saved_at?: i, acknowledged_since?: i, ended_after_commit?: b, old_process_killed?: b, globals?: {names: [s], count: i, bytes: i}, compiler?: {warnings: s}}" },
	{ "group",
		"{id: s, type: s, status: s, status_reason: s~, owner: i, parent: s~, strategy: s, auto_shutdown: s, restart: s, significant: b, wanted: b,"
		" budget: {used: i, allowed: i, period_ms: i, resets_in_ms: i}, restart_count: i, created_at: i, members: [o]}" },
	{ "line", "{at: i, stream: s, level: s, text: s, partial?: s}" },
	{ "event", "{seq: s, at: i, type: s, sandbox: s~, owner: i~}" },
	{ "error", "{code: i, message: s, data: {code: s, hint?: s, name?: s, offset?: i, nearest?: s, sandbox?: $sandbox}}" },
};

static const char *const results[METHOD__N] = {
	[METHOD_DAEMON_PING] = "{pong: b, version: s}",
	[METHOD_DAEMON_INFO] = ("{version: s, protocol: i, pid: i, control_pid: i, epoch: i, upgrades: i, host_build: s, hosts_of_older_build: i, uptime_ms: i, rootless: b, sandboxes: i,"
				" registry: {problems: [s], writes_pending: i, objects: i},"
				" uid: i, right: s, socket: s, state_dir: s,"
				" owned: {sandboxes: {used: i, limit: i~}, memory: {used: i, limit: i~}, store_bytes: {used: i, limit: i~},"
				" jobs: {used: i, limit: i~}}, owners?: [{uid: i, sandboxes: i, memory: i, store_bytes: i, jobs: i}], owners_left_off?: i}"),
	[METHOD_DAEMON_DOCTOR] = ("{version: s, rootless: b, kernel: s, architecture: s, landlock_abi: i, cgroup: s,"
				  " profiles: [{profile: s, works: b, birth_us: i~, error: s~, step: s~, missing: [s], security: [$protection]~}],"
				  " remedies: [{protection: s, lost: s, get: s}],"
				  " capacity: {sandboxes: i, limited_by: s, open_files: i, max_sandboxes: i, present: i, get: s}}"),
	[METHOD_DAEMON_SHUTDOWN] = "{stopping: b}",
	[METHOD_DAEMON_UPGRADE] = "{upgrading: b, upgrades: i}",
	[METHOD_OBJECT_PUT] = "{upload: s, received: i, sha256?: s}",
	[METHOD_SANDBOX_CREATE] = "$sandbox",
	[METHOD_SANDBOX_DESTROY] = "{id: s, destroyed: b}",
	[METHOD_SANDBOX_START] = "$sandbox",
	[METHOD_SANDBOX_STOP] = "$sandbox",
	[METHOD_SANDBOX_RESTART] = "$sandbox",
	[METHOD_SANDBOX_FREEZE] = "$sandbox",
	[METHOD_SANDBOX_THAW] = "$sandbox",
	[METHOD_SANDBOX_RESET] = "$sandbox",
	[METHOD_SANDBOX_UPDATE] = "{id: s, changes: [{member: s, effect: s, from?: a, to?: a, why?: s}], pending: [s]}",
	[METHOD_SANDBOX_EXPLAIN] = ("{id: s, status: s, status_reason: s~, next: s~, forgotten: i, decisions: [{at: i, kind: s, text: s, generation?: i,"
				    " version?: i, used?: i, allowed?: i, period_ms?: i, delay_ms?: i, jitter_ms?: i}]}"),
	[METHOD_SANDBOX_LIST] = "{sandboxes: [$row], next: s~}",
	[METHOD_SANDBOX_INFO] = "$sandbox",
	[METHOD_SANDBOX_USAGE] = ("{id: s, pid: i, generation: i, uptime_ms: i, memory: {anon: i, file: i, shared: i, peak: i, limit: i}, processes: i,"
				  " max_processes: i, threads: i, cpu: {time_us: i, percent: n, over_ms: i}, open_files: i~, max_open_files: i,"
				  " queue: {waiting: i, running: i, max: i, done: i, failed: i}, percent: {memory: i, processes: i, open_files: i~, queue: i}, complete: b, by: s}"),
	[METHOD_SANDBOX_SECURITY] = "{id: s, profile: s, profile_fingerprint: s~, audit_level: s, strict: b, generation: i, missing: [s], exposure: n, rating: s, security: [$protection]}",
	[METHOD_SANDBOX_CALL] = "{result: a, version: i}",
	[METHOD_SANDBOX_CAST] = "{taken: b, version: i}",
	[METHOD_SANDBOX_WAIT] = "{id: s, status: s, waited_ms: i}",
	[METHOD_SANDBOX_RELOAD] = "$reload",
	[METHOD_SANDBOX_ROLLBACK] = "$reload",
	[METHOD_PROFILE_LIST] = "{profiles: [{profile: s, base: s, built_in: b, fingerprint: s, network: s, audit_level: s, max_module_size: i, administrators_only: b,"
		" dynamic_code: b, operations: i}]}",
	[METHOD_PROFILE_SHOW] = "$profile",
	[METHOD_PROFILE_VALIDATE] = "$profile",
	[METHOD_PROFILE_DIFF] = "{a: s, b: s, same: b, operations: [{operation: s, a: b, b: b}], settings: [{setting: s, a: s, b: s}]}",
	[METHOD_REQUEST_OUTCOME] = "{state: s, method?: s, id?: s, result?: o, error?: $error}",
	[METHOD_GROUP_CREATE] = "$group",
	[METHOD_GROUP_LIST] = "{groups: [$group]}",
	[METHOD_GROUP_INFO] = "$group",
	[METHOD_GROUP_DESTROY] = "{id: s, destroyed: b}",
	[METHOD_GROUP_ADD] = "$sandbox",
	[METHOD_GROUP_REMOVE] = "$sandbox",
	[METHOD_GROUP_START] = "$group",
	[METHOD_GROUP_STOP] = "$group",
	[METHOD_GROUP_RESTART] = "$group",
	[METHOD_GROUP_RESET] = "$group",
	[METHOD_GROUP_TREE] = "{groups: [$group], sandboxes: [$row]}",
	[METHOD_STATE_GET] = "{id: s, version: i, state_version: i, state_bytes: i, state: o, timers: o~, own: a}",
	[METHOD_STATE_SET] = "$reload",
	[METHOD_STATE_CHECKPOINT] = "{id: s, version: i, checkpoint: i, saved_at: i, state_bytes: i, sha256: s, pause_us: i, held_us: i, acknowledged: i}",
	[METHOD_STATE_CHECK] = ("{id?: s, version?: i, state_bytes: i, same?: b, state_bytes_again?: i, differs_at?: i, report?: o~, outcome?: s, from?: i, to?: i, rung?: s, rung_reason?: s,"
				" sha256?: s, steps_us?: o, total_us?: i, globals?: {names: [s], count: i, bytes: i}, compiler?: {warnings: s}}"),
	[METHOD_SCHEMA_GET] = "{id: s, version: i, state_version: i, state: a, structs: a}",
	[METHOD_VERSION_LIST] = "{id: s, module?: s, destroyed_at?: i, current: i, versions: [$version]}",
	[METHOD_VERSION_HISTORY] = ("{id: s, module?: s, destroyed_at?: i, current: i, total_versions: i, reloads: i, failed_reloads: i, rollbacks: i, returns: i, versions: ["
				    "{version: i, sha256: s, bytes: i, state_version: i, loaded_at: i, first_loaded_at: i, loads: i, faults: i, quarantined?: s, author: i,"
				    " origin: s, source_name?: s~, status: s, calls: i, failures: i, uptime_ms: i, crashes: i, rollbacks: i, refused: i, pause_us: i,"
				    " state_bytes: i, saved: {at: i, state_bytes: i, acknowledged_since: i}~}]}"),
	[METHOD_VERSION_COMMIT] = "{id: s, version: i, was_on_probation: b}",
	[METHOD_LOG_READ] = "{lines: [$line], dropped_bytes: w, next?: s~, subscription?: i}",
	[METHOD_EVENT_READ] = "{events: [$event], next: s~, gap: b, subscription?: i}",
	[METHOD_AUDIT_READ] = "{events: [$event], next: s~, gap: b, subscription?: i}",
	[METHOD_STREAM_END] = "{subscription: i, ended: b}",
	[METHOD_RPC_DISCOVER] = "{openrpc: s, info: o, methods: [o], x-notifications: [o], components: o}",
};

/* What a subscription sends (docs/PROTOCOL.md, Streams): an event or a line, or what is to be known about those that are missing. */
static const struct {
	const char *name, *description, *params;
} notifications[] = {
	{ "event", "of event.read with follow",
		"{subscription: i, seq?: s, at?: i, type?: s, sandbox?: s~, owner?: i~, gap?: b, dropped?: i}" },
	{ "audit", "of audit.read with follow",
		"{subscription: i, seq?: s, at?: i, type?: s, sandbox?: s~, owner?: i~, gap?: b, dropped?: i}" },
	{ "log", "of log.read with follow",
		"{subscription: i, seq?: s, at?: i, stream?: s, level?: s, text?: s, partial?: s, dropped_bytes?: w, ended?: s}" },
};

/* ---- short texts to JSON Schema ---- */

static char next(const char **at)
{
	while (**at == ' ')
		++*at;
	return **at;
}

static void name_skip(const char **at)
{
	while ((**at >= 'a' && **at <= 'z') || (**at >= '0' && **at <= '9') || **at == '_' || **at == '-')
		++*at;
}

/* Past one T. */
static void skip(const char **at)
{
	int depth = 0;

	do {
		if (**at == '{' || **at == '[')
			depth++;
		else if (**at == '}' || **at == ']')
			depth--;
		++*at;
	} while (depth > 0 || (**at && **at != ',' && **at != '}' && **at != ']'));
}

static void schema(struct json_out *o, const char *key, const char **at);

static void object(struct json_out *o, const char **at)
{
	const char *first = ++*at;

	json_out_text(o, "type", "object");
	json_out_object(o, "properties");
	while (next(at) != '}') {
		const char *name = *at;

		name_skip(at);
		json_out_key_n(o, name, (size_t)(*at - name));
		*at += **at == '?';
		assert(**at == ':');
		++*at;
		(void)next(at);
		schema(o, NULL, at);
		if (next(at) == ',')
			++*at;
	}
	json_out_object_end(o);
	json_out_array(o, "required");
	for (const char *again = first; next(&again) != '}';) {
		const char *name = again;

		name_skip(&again);
		if (*again == ':')
			json_out_text_n(o, NULL, name, (size_t)(again - name));
		again += *again == '?';
		again++;
		(void)next(&again);
		skip(&again);
		if (next(&again) == ',')
			again++;
	}
	json_out_array_end(o);
	++*at;
}

static void integer_or_text(struct json_out *o)
{
	json_out_array(o, "type");
	json_out_text(o, NULL, "integer");
	json_out_text(o, NULL, "string");
	json_out_array_end(o);
	json_out_text(o, "pattern", "^-?[0-9]+$");
}

/* The members of one schema, without '~'. */
static void members(struct json_out *o, const char **at)
{
	static const struct {
		char letter;
		const char *type;
	} types[] = { { 's', "string" }, { 'i', "integer" }, { 'n', "number" }, { 'b', "boolean" }, { 'o', "object" } };
	char ref[64] = "#/components/schemas/";
	const char *name;

	if (**at == '{') {
		object(o, at);
		return;
	}
	if (**at == '[') {
		++*at;
		json_out_text(o, "type", "array");
		(void)next(at);
		schema(o, "items", at);
		assert(next(at) == ']');
		++*at;
		return;
	}
	if (**at == '$') {
		name = ++*at;
		name_skip(at);
		assert((size_t)(*at - name) < 32);
		(void)strncat(ref, name, (size_t)(*at - name));
		json_out_text(o, "$ref", ref);
		return;
	}
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (types[i].letter == **at)
			json_out_text(o, "type", types[i].type);
	if (**at == 'w')
		integer_or_text(o);
	++*at;
}

static void schema(struct json_out *o, const char *key, const char **at)
{
	const char *end = *at;

	skip(&end);
	while (end[-1] == ' ')
		end--;
	json_out_object(o, key);
	if (end[-1] == '~') {
		json_out_array(o, "anyOf");
		json_out_object(o, NULL);
		json_out_text(o, "type", "null");
		json_out_object_end(o);
		json_out_object(o, NULL);
		members(o, at);
		json_out_object_end(o);
		json_out_array_end(o);
		assert(**at == '~');
		++*at;
	} else {
		members(o, at);
	}
	json_out_object_end(o);
}

/* ---- parameters ---- */

static void bound(struct json_out *o, const char *key, int64_t v)
{
	json_out_i64(o, key, v > EXACT_MAX ? EXACT_MAX : v < -EXACT_MAX ? -EXACT_MAX : v);
}

static void integer_schema(struct json_out *o, const struct method_param *p)
{
	json_out_array(o, "anyOf");
	json_out_object(o, NULL);
	json_out_text(o, "type", "integer");
	bound(o, "minimum", p->min);
	bound(o, "maximum", p->max);
	json_out_object_end(o);
	json_out_object(o, NULL);
	json_out_text(o, "type", "string");
	json_out_text(o, "pattern", "^-?[0-9]{1,20}$");
	json_out_object_end(o);
	json_out_array_end(o);
}

static void choices(struct json_out *o, const char *text)
{
	json_out_array(o, "enum");
	for (;; text++) {
		size_t n = strcspn(text, "|");

		json_out_text_n(o, NULL, text, n);
		text += n;
		if (!*text)
			break;
	}
	json_out_array_end(o);
}

static void text_schema(struct json_out *o, const char *pattern, int64_t min, int64_t max)
{
	json_out_text(o, "type", "string");
	if (pattern)
		json_out_text(o, "pattern", pattern);
	if (min > 0)
		bound(o, "minLength", min);
	bound(o, "maxLength", max);
}

static void param_schema(struct json_out *o, const struct method_param *p)
{
	json_out_object(o, "schema");
	switch (p->kind) {
	case PARAM_ID:
		text_schema(o, "^[A-Za-z0-9][A-Za-z0-9._-]*$", 1, LIMIT_ID_BYTES);
		break;
	case PARAM_TEXT:
		text_schema(o, NULL, p->min, p->max); /* in bytes: never less than characters */
		break;
	case PARAM_INTEGER:
		integer_schema(o, p);
		break;
	case PARAM_BOOL:
		json_out_text(o, "type", "boolean");
		break;
	case PARAM_CHOICE:
		choices(o, p->choices);
		break;
	case PARAM_OBJECT:
		json_out_text(o, "type", "object");
		break;
	case PARAM_ANY:
		break;
	case PARAM_SHA256:
		text_schema(o, "^[0-9a-f]+$", SHA256_HEX_BYTES, SHA256_HEX_BYTES);
		break;
	case PARAM_SOURCE_NAME:
		text_schema(o, "^[A-Za-z0-9._-]+[.]c$", 3, LIMIT_ID_BYTES);
		break;
	case PARAM_FUNCTION:
		text_schema(o, "^[A-Za-z_][A-Za-z0-9_]*$", 1, LIMIT_FUNCTION_BYTES);
		break;
	case PARAM_BASE64:
		text_schema(o, "^[A-Za-z0-9+/]*={0,2}$", 0, (p->max + 2) / 3 * 4);
		json_out_text(o, "contentEncoding", "base64");
		break;
	}
	json_out_object_end(o);
}

/* ---- the document ---- */

/* OpenRPC wants different numbers in one list: the ones that JSON-RPC itself defines are shared by several of our codes. */
static bool is_own_number(enum err_code code)
{
	return code != ERR_OK && err_code_number(code) > -32100 && err_code_number(code) <= -32000;
}

static void method_write(struct json_out *o, const struct method *m)
{
	const char *result = results[method_id_of(m)] ? results[method_id_of(m)] : "o";
	char ref[64];

	json_out_object(o, NULL);
	json_out_text(o, "name", m->name);
	json_out_text(o, "summary", m->help);
	json_out_text(o, "paramStructure", "by-name");
	json_out_text(o, "x-right", rights_needed_text(m->right));
	json_out_array(o, "params");
	for (size_t i = 0; i < method_n_params(m); i++) {
		json_out_object(o, NULL);
		json_out_text(o, "name", m->params[i].name);
		json_out_text(o, "description", m->params[i].help);
		json_out_bool(o, "required", m->params[i].required);
		param_schema(o, &m->params[i]);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_object(o, "result");
	json_out_text(o, "name", "result");
	json_out_text(o, "description", m->result);
	schema(o, "schema", &result);
	json_out_object_end(o);
	json_out_array(o, "errors");
	for (int code = 0; code < ERR__N; code++) {
		if (!is_own_number((enum err_code)code))
			continue;
		(void)snprintf(ref, sizeof ref, "#/components/errors/%s", err_code_text((enum err_code)code));
		json_out_object(o, NULL);
		json_out_text(o, "$ref", ref);
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_object_end(o);
}

static void components_write(struct json_out *o)
{
	json_out_object(o, "components");
	json_out_object(o, "schemas");
	for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
		const char *text = shared[i].text;

		schema(o, shared[i].name, &text);
	}
	json_out_object_end(o);
	json_out_object(o, "errors");
	for (int code = 1; code < ERR__N; code++) {
		json_out_object(o, err_code_text((enum err_code)code));
		json_out_i64(o, "code", err_code_number((enum err_code)code));
		json_out_text(o, "message", err_code_text((enum err_code)code));
		json_out_object(o, "data");
		json_out_text(o, "code", err_code_text((enum err_code)code));
		json_out_text(o, "hint", err_code_hint((enum err_code)code));
		json_out_object_end(o);
		json_out_object_end(o);
	}
	json_out_object_end(o);
	json_out_object_end(o);
}

static void notifications_write(struct json_out *o)
{
	json_out_array(o, "x-notifications");
	for (size_t i = 0; i < sizeof notifications / sizeof notifications[0]; i++) {
		const char *params = notifications[i].params;

		json_out_object(o, NULL);
		json_out_text(o, "name", notifications[i].name);
		json_out_text(o, "description", notifications[i].description);
		schema(o, "params", &params);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

void discover_write(struct buf *to)
{
	struct json_out o = json_out_to(to);

	json_out_object(&o, NULL);
	json_out_text(&o, "openrpc", "1.3.2");
	json_out_object(&o, "info");
	json_out_text(&o, "title", "sandboxd");
	json_out_text(&o, "description", "JSON-RPC 2.0 over a Unix stream socket, one message a line.");
	json_out_text(&o, "version", SANDBOXD_VERSION);
	json_out_object_end(&o);
	json_out_array(&o, "methods");
	for (size_t i = 0; i < METHOD__N; i++)
		method_write(&o, &methods[i]);
	json_out_array_end(&o);
	notifications_write(&o);
	components_write(&o);
	json_out_object_end(&o);
}

const struct rpc_done *rpc_discover(struct control *c, struct rpc_request *r)
{
	const struct rpc_done *done;
	struct buf b = BUF_INIT;
	struct err e = ERR_INIT;

	(void)c;
	discover_write(&b);
	if (b.failed) {
		err_set(&e, ERR_INTERNAL, "no memory for the document");
		done = rpc_error(r, &e, NULL);
	} else {
		done = rpc_result_raw(r, b.data, b.size);
	}
	buf_fini(&b);
	return done;
}
