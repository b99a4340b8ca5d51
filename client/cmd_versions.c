/* SPDX-License-Identifier: MIT
 *
 * versions: what is kept of a sandbox's module, newest first. history: what each of them has done. commit: the one that runs has proven
 * itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/output.h"

enum { COLUMN_STATUS = 1, SHA_SHOWN = 12 };

static void add_row(struct output_table *t, struct json_span row)
{
	static const char *const keys[] = { "version", "status", "origin", "state_version" };
	char *sha = output_text(json_get(row, "sha256"));

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		output_table_cell(t, output_text(json_get(row, keys[i])));
	output_table_cell(t, output_time(json_get(row, "loaded_at")));
	output_table_cell(t, output_text(json_get(row, "loads")));
	output_table_cell(t, output_text(json_get(row, "faults")));
	output_table_cell(t, output_text(json_get(row, "author")));
	output_table_cell(t, output_text(json_get(row, "bytes")));
	if (strlen(sha) > SHA_SHOWN)
		sha[SHA_SHOWN] = '\0';
	output_table_cell(t, sha);
	output_table_cell(t, output_text(json_get(row, "source_name")));
}

/* On standard error: the table is the same. */
static void say_destroyed(const struct ctl *s, struct json_span result)
{
	struct json_span at = json_get(result, "destroyed_at");
	char *text;

	if (!at.at || s->args->quiet)
		return;
	text = output_time(at);
	(void)fprintf(stderr, "sandboxctl: %s was destroyed at %s; this is what was kept of it\n", s->args->operands[0], text ? text : "-");
	free(text);
}

int cmd_versions_run(struct ctl *s)
{
	static const char *const heads[] = { "VERSION", "STATUS", "ORIGIN", "STATE", "LOADED", "LOADS", "FAULTS", "AUTHOR",
		"BYTES", "SHA256", "SOURCE", NULL };
	struct json_span key, row;
	struct rpcclient_reply r;
	struct output_table t;
	struct json_iter it;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		say_destroyed(s, r.result);
		output_table_init(&t, heads);
		it = json_iter_begin(json_get(r.result, "versions"));
		while (json_iter_next(&it, &key, &row))
			add_row(&t, row);
		output_table_print(&t, stdout, !s->args->quiet, COLUMN_STATUS, s->colour);
		output_table_fini(&t);
	}
	rpcclient_reply_fini(&r);
	return 0;
}

static void add_figures(struct output_table *t, struct json_span row)
{
	static const char *const keys[] = { "version", "status", "loads", "rollbacks", "refused", "calls", "failures", "crashes", "faults" };
	struct json_span saved = json_get(row, "saved");
	char text[64] = "";
	int64_t ms = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		output_table_cell(t, output_text(json_get(row, keys[i])));
	(void)json_i64(json_get(row, "uptime_ms"), &ms);
	(void)snprintf(text, sizeof text, "%.1f s", (double)ms / 1000);
	output_table_cell(t, strdup(text));
	(void)json_i64(json_get(row, "pause_us"), &ms);
	(void)snprintf(text, sizeof text, "%.2f ms", (double)ms / 1000);
	output_table_cell(t, strdup(ms > 0 ? text : "-"));
	output_table_cell(t, json_type(saved) == '{' ? output_time(json_get(saved, "at")) : strdup("-"));
}

int cmd_history_run(struct ctl *s)
{
	static const char *const heads[] = { "VERSION", "STATUS", "LOADS", "ROLLBACKS", "REFUSED", "CALLS", "FAILURES", "CRASHES", "FAULTS",
		"UPTIME", "PAUSE", "SAVED", NULL };
	struct json_span key, row;
	struct rpcclient_reply r;
	struct output_table t;
	struct json_iter it;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		say_destroyed(s, r.result);
		output_table_init(&t, heads);
		it = json_iter_begin(json_get(r.result, "versions"));
		while (json_iter_next(&it, &key, &row))
			add_figures(&t, row);
		output_table_print(&t, stdout, !s->args->quiet, COLUMN_STATUS, s->colour);
		output_table_fini(&t);
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_commit_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	bool was = false;

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet) {
		char *version = output_text(json_get(r.result, "version"));

		(void)json_bool(json_get(r.result, "was_on_probation"), &was);
		(void)printf("%s: version %s %s\n", s->args->operands[0], version,
			was ? "is no longer on probation" : "wasn't on probation");
		free(version);
	}
	rpcclient_reply_fini(&r);
	return 0;
}
