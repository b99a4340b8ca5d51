/* SPDX-License-Identifier: MIT
 *
 * reload and rollback: one answer, told in a few lines: what changed, how long callers waited, what became of
 * the state. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd_reload.h"
#include "client/ctl.h"
#include "client/output.h"

static bool is_there(struct json_span v)
{
	struct json_iter it = json_iter_begin(v);
	struct json_span key, value;
	bool yes = true;

	switch (json_type(v)) {
	case '{':
	case '[':
		return json_iter_next(&it, &key, &value);
	case '"':
		return !json_string_is(v, "");
	case 't':
	case 'f':
		return json_bool(v, &yes) && yes;
	case 0:
	case '0':
		return false;
	default:
		return true;
	}
}

/* {"field", "from", "to"} of a renamed or converted field in words; anything else as it is. */
static char *item_text(struct json_span v)
{
	char *field, *from, *to, *text;

	if (json_type(v) != '{' || !json_get(v, "field").at)
		return output_text(v);
	field = output_text(json_get(v, "field"));
	from = output_text(json_get(v, "from"));
	to = output_text(json_get(v, "to"));
	text = strcmp(field, to) == 0 ? output_format("%s -> %s", from, to) : output_format("%s (%s -> %s)", field, from, to);
	free(field);
	free(from);
	free(to);
	return text;
}

/* An array's or object's items behind each other; of an object "name value". */
static void print_items(struct json_span v)
{
	struct json_iter it = json_iter_begin(v);
	struct json_span key, value;
	const char *before = " ";

	while (json_iter_next(&it, &key, &value)) {
		char *name = key.at ? output_text(key) : NULL, *text = item_text(value);

		(void)printf("%s%s%s%s", before, name ? name : "", name ? " " : "", text);
		before = ", ";
		free(name);
		free(text);
	}
	(void)putchar('\n');
}

/* The report's words: "carried 2", "added: note". */
static void print_report(struct json_span report)
{
	struct json_iter it = json_iter_begin(report);
	struct json_span key, value;

	while (json_iter_next(&it, &key, &value)) {
		char *word, *text;

		/* the head has said the versions; these are the state's */
		if (!is_there(value) || json_string_is(key, "from_version") || json_string_is(key, "to_version"))
			continue;
		word = output_text(key);
		if (json_type(value) == '[' || json_type(value) == '{') {
			(void)printf("  %s:", word);
			print_items(value);
		} else {
			text = output_text(value);
			(void)printf("  %s %s\n", word, text);
			free(text);
		}
		free(word);
	}
}

static void print_steps(struct json_span steps_us)
{
	struct json_iter it = json_iter_begin(steps_us);
	struct json_span key, value;
	const char *before = "  steps: ";
	double us;

	while (json_iter_next(&it, &key, &value)) {
		char *name;

		if (!json_f64(value, &us))
			continue;
		name = output_text(key);
		(void)printf("%s%s %.2f ms", before, name, us / 1000);
		before = ", ";
		free(name);
	}
	if (*before == ',')
		(void)putchar('\n');
}

/* One line on standard error, as a compiler's warning. */
static void print_globals(struct json_span globals)
{
	struct json_span key, name;
	const char *before = ": ";
	int64_t bytes = 0, count = 0, n = 0;

	if (!is_there(globals))
		return;
	(void)json_i64(json_get(globals, "bytes"), &bytes);
	(void)json_i64(json_get(globals, "count"), &count);
	(void)fprintf(stderr, "sandboxctl: warning: %" PRId64 " bytes of variables aren't state, and begin afresh with each version", bytes);
	for (struct json_iter it = json_iter_begin(json_get(globals, "names")); json_iter_next(&it, &key, &name); n++) {
		char *text = output_text(name);

		(void)fprintf(stderr, "%s%s", before, text);
		before = ", ";
		free(text);
	}
	(void)fprintf(stderr, count > n ? ", and %" PRId64 " more\n" : "\n", count - n);
}

static void print_head(const char *id, struct json_span result)
{
	char *from = output_text(json_get(result, "from")), *to = output_text(json_get(result, "to"));
	char *rung = output_text(json_get(result, "rung")), *reason = output_text(json_get(result, "rung_reason"));
	int64_t bytes, queued;
	double pause_us;

	if (json_string_is(json_get(result, "outcome"), "checked"))
		(void)printf("%s: checked, nothing was changed: version %s -> %s would be", id, from, to);
	else if (json_string_is(json_get(result, "outcome"), "set"))
		(void)printf("%s: the state of version %s is changed", id, to);
	else
		(void)printf("%s: version %s -> %s", id, from, to);
	if (json_type(json_get(result, "rung")) == '"')
		(void)printf(", %s", rung);
	if (json_type(json_get(result, "rung_reason")) == '"' && strcmp(reason, "default") != 0 && strcmp(reason, "asked") != 0)
		(void)printf(" (%s)", reason);
	if (json_f64(json_get(result, "pause_us"), &pause_us)) /* not of a check */
		(void)printf(", paused %.2f ms", pause_us / 1000);
	if (json_i64(json_get(result, "state_bytes"), &bytes))
		(void)printf(", %" PRId64 " bytes of state", bytes);
	if (json_i64(json_get(result, "calls_queued"), &queued))
		(void)printf(", %" PRId64 " calls queued", queued);
	(void)putchar('\n');
	free(from);
	free(to);
	free(rung);
	free(reason);
}

static void print_result(const char *id, struct json_span result)
{
	struct json_span pinned = json_get(result, "pinned");
	double probation_ms;
	int64_t before = 0, since;

	(void)json_i64(json_get(result, "from"), &before);
	if (json_string_is(json_get(result, "outcome"), "no_change")) {
		char *version = output_text(
			json_get(result, "to").at ? json_get(result, "to") : json_get(result, "from"));

		(void)printf("%s: no change: version %s is this code already\n", id, version);
		free(version);
		return;
	}
	print_head(id, result);
	print_report(json_get(result, "report"));
	if (json_i64(json_get(result, "acknowledged_since"), &since)) {
		char *at = output_time(json_get(result, "saved_at"));

		(void)printf("  with the state saved at %s: %" PRId64 " acknowledged calls since then are given up\n", at, since);
		free(at);
	}
	if (json_f64(json_get(result, "probation_ms"), &probation_ms))
		(void)printf("  on probation for %.0f s: a fault of its code brings version %" PRId64 " back; sandboxctl commit %s ends that\n",
			probation_ms / 1000, before, id);
	print_globals(json_get(result, "globals"));
	print_steps(json_get(result, "steps_us"));
	if (is_there(pinned)) {
		char *text = output_text(pinned);

		(void)printf("  the old code stays in memory: %s\n",
			json_type(pinned) == 't' ? "it is pinned" : text);
		free(text);
	}
}

void cmd_reload_show(const struct ctl *s, const struct rpcclient_reply *r)
{
	if (!ctl_json_done(s, r)) {
		output_lines(stderr, json_get(json_get(r->result, "compiler"), "warnings"));
		if (!s->args->quiet)
			print_result(s->args->operands[0], r->result);
	}
}

static int show(const struct ctl *s, struct rpcclient_reply *r)
{
	cmd_reload_show(s, r);
	rpcclient_reply_fini(r);
	return 0;
}

int cmd_reload_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request_code(s, &r);

	return status == 0 ? show(s, &r) : status;
}

int cmd_rollback_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	return status == 0 ? show(s, &r) : status;
}
