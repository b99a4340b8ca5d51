/* SPDX-License-Identifier: MIT
 *
 * info: all that is known of a sandbox, for reading. Members that this version doesn't know are printed as
 * JSON at the end, so that a newer daemon's facts aren't hidden. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/output.h"
#include "proto/exposure.h"

/* ---- values of more than one member ---- */

/* Members "name value, name value"; NULL-like "-" for none. */
static char *members(struct json_span object, const char *between)
{
	struct json_iter it = json_iter_begin(object);
	struct json_span key, value;
	char *all = NULL;

	while (json_iter_next(&it, &key, &value)) {
		char *name = output_text(key), *text = output_text(value);
		char *longer =
			output_format("%s%s%s%s%s", all ? all : "", all ? ", " : "", name, between, text);

		free(name);
		free(text);
		free(all);
		all = longer;
	}
	return all ? all : output_format("-");
}

static char *status_value(struct json_span info)
{
	char *status = output_text(json_get(info, "status")),
	     *reason = output_text(json_get(info, "status_reason"));
	char *both = strcmp(reason, "-") == 0 || !*reason ? output_format("%s", status)
							  : output_format("%s (%s)", status, reason);

	free(status);
	free(reason);
	return both;
}

static char *module_value(struct json_span info)
{
	char *module = output_text(json_get(info, "module")),
	     *version = output_text(json_get(info, "version"));
	char *state = output_text(json_get(info, "state_version"));
	char *abi = output_text(json_get(info, "abi"));
	bool known = strcmp(abi, "-") != 0; /* by daemons since ABI 1.1 */
	char *all = output_format("%s, version %s, state version %s%s%s", module, version, state, known ? ", ABI " : "",
		known ? abi : "");

	free(abi);
	free(module);
	free(version);
	free(state);
	return all;
}

static char *budget_value(struct json_span budget)
{
	int64_t used, allowed, resets;

	if (!json_i64(json_get(budget, "used"), &used) || !json_i64(json_get(budget, "allowed"), &allowed))
		return output_format("-");
	if (!json_i64(json_get(budget, "resets_in_ms"), &resets) || used == 0)
		return output_format("%" PRId64 " of %" PRId64 " used", used, allowed);
	return output_format("%" PRId64 " of %" PRId64 " used, resets in %" PRId64 " s", used, allowed,
		(resets + 999) / 1000);
}

/* A member's restarts are counted by its group. */
static void print_budget(struct json_span budget, struct json_span of)
{
	char *group = output_text(of), *value = json_type(budget) == '{' ? budget_value(budget) : output_format("-");

	if (json_type(of) != '"')
		output_pair(stdout, "restart budget", output_format("%s", value));
	else if (json_type(budget) == '{')
		output_pair(stdout, "restart budget", output_format("%s, counted by group %s", value, group));
	else
		output_pair(stdout, "restart budget", output_format("counted by group %s", group));
	free(group);
	free(value);
}

static char *backoff_value(struct json_span backoff)
{
	int64_t left;

	if (!json_i64(json_get(backoff, "until_in_ms"), &left) || left <= 0)
		return output_format("-");
	return output_format("next start in %" PRId64 " ms", left);
}

static char *frozen_value(struct json_span frozen)
{
	char *text, *all;

	if (json_type(frozen) != '{')
		return output_format("-");
	text = output_text(json_get(frozen, "mechanism"));
	all = output_format("by %s", text);
	free(text);
	return all;
}

static char *queue_value(struct json_span queue)
{
	char *waiting = output_text(json_get(queue, "waiting")),
	     *running = output_text(json_get(queue, "running"));
	char *max = output_text(json_get(queue, "max"));
	char *all = queue.at ? output_format("%s waiting of %s, %s running", waiting, max, running)
			     : output_format("-");

	free(waiting);
	free(running);
	free(max);
	return all;
}

static char *limits_value(struct json_span limits)
{
	struct json_iter it = json_iter_begin(limits);
	struct json_span key, value;
	char *all = NULL;

	while (json_iter_next(&it, &key, &value)) {
		char *name = output_text(key), *text, *longer;
		int64_t n;

		/* the limits in bytes */
		if ((strstr(name, "memory") || strstr(name, "size")) && json_i64(value, &n))
			text = output_bytes(n);
		else
			text = output_text(value);
		longer = output_format("%s%s%s %s", all ? all : "", all ? ", " : "", name, text);
		free(name);
		free(text);
		free(all);
		all = longer;
	}
	return all ? all : output_format("-");
}

static void print_last_exit(struct json_span last)
{
	static const char *const keys[] = { "class", "signal", "code", "version", "generation" };
	char *line, *reason, *text;

	if (json_type(last) != '{')
		return;
	reason = output_text(json_get(last, "reason"));
	text = output_text(json_get(last, "text"));
	line = text[0] && strcmp(text, "-") != 0 ? output_format("%s: %s", reason, text) : output_format("%s", reason);
	free(reason);
	free(text);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct json_span v = json_get(last, keys[i]);
		char *longer;

		if (json_type(v) == 0 || json_type(v) == '0')
			continue;
		text = output_text(v);
		longer = output_format("%s; %s %s", line, keys[i], text);
		free(text);
		free(line);
		line = longer;
	}
	output_pair(stdout, "last exit", line);
	output_pair(stdout, "  at", output_time(json_get(last, "at")));
	output_pair(stdout, "  uptime ms", output_text(json_get(last, "uptime_ms")));
	output_pair(stdout, "  last words", output_text(json_get(last, "words")));
}

/* ---- functions, state, security ---- */

/* "by: i64 = 1" */
static void print_parameter(struct json_span p)
{
	char *name = output_text(json_get(p, "name")), *type = output_text(json_get(p, "type"));
	struct json_span preset = json_get(p, "default");
	bool optional = false;

	(void)printf("%s: %s", name, type);
	if (preset.at && json_type(preset) != '0') {
		char *text = output_text(preset);

		(void)printf(" = %s", text);
		free(text);
	} else if (json_bool(json_get(p, "optional"), &optional) && optional) {
		(void)printf(" (optional)");
	}
	free(name);
	free(type);
}

static void print_functions(struct json_span functions)
{
	struct json_iter it = json_iter_begin(functions), each;
	struct json_span key, f, p;

	while (json_iter_next(&it, &key, &f)) {
		char *name = output_text(json_get(f, "name"));
		const char *before = "";

		(void)printf("%-16s %s(", "function", name);
		free(name);
		each = json_iter_begin(json_get(f, "parameters"));
		while (json_iter_next(&each, &key, &p)) {
			(void)fputs(before, stdout);
			print_parameter(p);
			before = ", ";
		}
		(void)puts(")");
	}
}

static void print_state(struct json_span state)
{
	struct json_iter it = json_iter_begin(state);
	struct json_span key, field;

	while (json_type(state) == '[' && json_iter_next(&it, &key, &field)) {
		struct json_span kind = json_get(field, json_get(field, "type").at ? "type" : "kind");

		if (json_get(field, "name").at && kind.at) {
			char *name = output_text(json_get(field, "name")), *type = output_text(kind);

			output_pair(stdout, "state", output_format("%s: %s", name, type));
			free(name);
			free(type);
		} else {
			output_pair(stdout, "state", output_text(field));
		}
	}
}

static void print_security(struct json_span rows)
{
	static const char *const heads[] = { "PROTECTION", "ASKED", "GOT", "BY", "EXPOSURE", "WHY", NULL };
	static const char *const keys[] = { "protection", "asked", "got", "by", "why" };
	struct json_iter it = json_iter_begin(rows);
	struct output_table t;
	struct json_span key, row;

	if (json_type(rows) != '[')
		return;
	output_table_init(&t, heads);
	while (json_iter_next(&it, &key, &row)) {
		unsigned weight = exposure_weight(exposure_row(row));
		bool stands = exposure_stands(row);

		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			if (i == 4)
				output_table_cell(&t, stands || weight == 0 ? output_format("-") : output_format("%u", weight));
			output_table_cell(&t, output_text(json_get(row, keys[i])));
		}
	}
	if (t.n_cells > 0) {
		(void)putchar('\n');
		output_table_print(&t, stdout, true, -1, false);
	}
	output_table_fini(&t);
}

/* ---- the view ---- */

static void print_rest(struct json_span info)
{
	static const char *const known[] = { "id", "status", "status_reason", "pid", "generation", "owner",
		"module", "state_version", "version", "created_at", "started_at", "restart", "profile",
		"strict", "limits", "labels", "config", "restart_count", "budget", "backoff", "last_exit",
		"queue", "functions", "timers", "state", "own_save", "abi", "security", "state_from", "state_kept", "versions", "sha256", "start_timeout_ms",
		"shutdown_ms", "compiler", "group", "significant", "heartbeat_ms", "max_execution_ms", "address_space", "restart_state", "next_restart_in_ms", "next", "frozen",
		"updated_at", "budget_of", "checkpoint" };
	struct json_iter it = json_iter_begin(info);
	struct json_span key, value;

	while (json_iter_next(&it, &key, &value)) {
		bool printed = false;
		char *name;

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			printed = printed || json_string_is(key, known[i]);
		if (printed)
			continue;
		name = output_text(key);
		output_pair(stdout, name, output_text(value));
		free(name);
	}
}

static char *milliseconds(struct json_span v)
{
	int64_t n;

	return json_i64(v, &n) ? output_format("%lld ms", (long long)n) : output_text((struct json_span){ 0 });
}

static char *checkpoint_value(struct json_span checkpoint)
{
	int64_t number = 0, bytes = 0, every_ms = 0;
	bool failing = false, call = false;
	char *when, *text, policy[64] = "on demand";

	(void)json_bool(json_get(checkpoint, "failing"), &failing);
	(void)json_bool(json_get(checkpoint, "call"), &call);
	if (call)
		(void)snprintf(policy, sizeof policy, "before each reply");
	if (json_i64(json_get(checkpoint, "every_ms"), &every_ms))
		(void)snprintf(policy, sizeof policy, "%severy %lld ms%s", call ? "before each reply, " : "", (long long)every_ms, failing ? ", which fails (see events)" : "");
	if (!json_i64(json_get(checkpoint, "number"), &number) || !json_i64(json_get(checkpoint, "state_bytes"), &bytes))
		return output_format("none yet; %s", policy);
	when = output_time(json_get(checkpoint, "saved_at"));
	text = output_format("%lld, %lld bytes, %s; %s", (long long)number, (long long)bytes, when, policy);
	free(when);
	return text;
}

static void print_info(struct json_span info)
{
	output_pair(stdout, "id", output_text(json_get(info, "id")));
	output_pair(stdout, "status", status_value(info));
	output_pair(stdout, "pid", output_text(json_get(info, "pid")));
	output_pair(stdout, "generation", output_text(json_get(info, "generation")));
	output_pair(stdout, "owner", output_text(json_get(info, "owner")));
	output_pair(stdout, "module", module_value(info));
	output_pair(stdout, "state from", output_text(json_get(info, "state_from")));
	output_pair(stdout, "created", output_time(json_get(info, "created_at")));
	output_pair(stdout, "updated", output_time(json_get(info, "updated_at")));
	output_pair(stdout, "started", output_time(json_get(info, "started_at")));
	output_pair(stdout, "group", output_text(json_get(info, "group")));
	output_pair(stdout, "restart", output_text(json_get(info, "restart")));
	output_pair(stdout, "restarts", output_text(json_get(info, "restart_count")));
	print_budget(json_get(info, "budget"), json_get(info, "budget_of"));
	output_pair(stdout, "back-off", backoff_value(json_get(info, "backoff")));
	output_pair(stdout, "next", output_text(json_get(info, "next")));
	output_pair(stdout, "frozen", frozen_value(json_get(info, "frozen")));
	print_last_exit(json_get(info, "last_exit"));
	output_pair(stdout, "queue", queue_value(json_get(info, "queue")));
	output_pair(stdout, "profile", output_text(json_get(info, "profile")));
	output_pair(stdout, "strict", output_text(json_get(info, "strict")));
	output_pair(stdout, "address space", output_text(json_get(info, "address_space")));
	output_pair(stdout, "limits", limits_value(json_get(info, "limits")));
	output_pair(stdout, "labels", members(json_get(info, "labels"), "="));
	output_pair(stdout, "config", output_text(json_get(info, "config")));
	output_pair(stdout, "start timeout", milliseconds(json_get(info, "start_timeout_ms")));
	output_pair(stdout, "shutdown", milliseconds(json_get(info, "shutdown_ms")));
	output_pair(stdout, "heartbeat", milliseconds(json_get(info, "heartbeat_ms")));
	output_pair(stdout, "longest call", milliseconds(json_get(info, "max_execution_ms")));
	output_pair(stdout, "restart state", output_text(json_get(info, "restart_state")));
	output_pair(stdout, "checkpoint", checkpoint_value(json_get(info, "checkpoint")));
	output_pair(stdout, "state kept", output_text(json_get(info, "state_kept")));
	output_pair(stdout, "object", output_text(json_get(info, "sha256")));
	print_rest(info);
	print_functions(json_get(info, "functions"));
	print_state(json_get(info, "state"));
	print_security(json_get(info, "security"));
}

static void print_function_names(struct json_span functions)
{
	struct json_iter it = json_iter_begin(functions);
	struct json_span key, f;

	while (json_iter_next(&it, &key, &f)) {
		char *name = output_text(json_get(f, "name"));

		(void)puts(name);
		free(name);
	}
}

int cmd_info_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	bool check = args_flag(s->args, "check");

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !(check && s->args->quiet)) {
		if (args_flag(s->args, "functions"))
			print_function_names(json_get(r.result, "functions"));
		else
			print_info(r.result);
	}
	if (check && !json_string_is(json_get(r.result, "status"), "running"))
		status = err_code_exit(ERR_WRONG_STATE);
	rpcclient_reply_fini(&r);
	return status;
}

/* "3 of 100" */
static char *used_of(struct json_span result, const char *used, const char *limit)
{
	char *now = output_text(json_get(result, used)), *most = output_text(json_get(result, limit));
	char *both = output_format("%s of %s", now, most);

	free(now);
	free(most);
	return both;
}

static void print_exposure(struct json_span result)
{
	char *rating = output_text(json_get(result, "rating"));
	double exposure;

	if (json_f64(json_get(result, "exposure"), &exposure))
		output_pair(stdout, "exposure", output_format("%.1f of 10 (%s)", exposure, rating));
	free(rating);
}

int cmd_security_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		output_pair(stdout, "profile", output_text(json_get(r.result, "profile")));
		output_pair(stdout, "strict", output_text(json_get(r.result, "strict")));
		print_exposure(r.result);
		print_security(json_get(r.result, "security"));
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_usage_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	struct json_span memory, cpu;
	int64_t n;

	if (status != 0)
		return status;
	if (ctl_json_done(s, &r)) {
		rpcclient_reply_fini(&r);
		return 0;
	}
	memory = json_get(r.result, "memory");
	cpu = json_get(r.result, "cpu");
	for (size_t i = 0; i < 5; i++) {
		static const char *const keys[] = { "anon", "file", "shared", "peak", "limit" };
		char label[24];

		(void)snprintf(label, sizeof label, "memory %s", keys[i]);
		if (json_i64(json_get(memory, keys[i]), &n))
			output_pair(stdout, label, output_bytes(n));
	}
	output_pair(stdout, "memory percent", output_text(json_get(json_get(r.result, "percent"), "memory")));
	output_pair(stdout, "processes", used_of(r.result, "processes", "max_processes"));
	output_pair(stdout, "threads", output_text(json_get(r.result, "threads")));
	output_pair(stdout, "open files", used_of(r.result, "open_files", "max_open_files"));
	output_pair(stdout, "cpu percent", output_text(json_get(cpu, "percent")));
	if (json_i64(json_get(cpu, "time_us"), &n))
		output_pair(stdout, "cpu time", output_format("%.3f s", (double)n / 1e6));
	output_pair(stdout, "calls waiting", output_text(json_get(json_get(r.result, "queue"), "waiting")));
	output_pair(stdout, "calls done", output_text(json_get(json_get(r.result, "queue"), "done")));
	if (json_i64(json_get(r.result, "uptime_ms"), &n))
		output_pair(stdout, "uptime", output_format("%.1f s", (double)n / 1e3));
	rpcclient_reply_fini(&r);
	return 0;
}
