/* SPDX-License-Identifier: MIT
 *
 * events: follows the pages until one is empty, unless the user asks for one; or follows what happens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/follow.h"
#include "client/output.h"
#include "client/since.h"
#include "proto/clock.h"
#include "proto/json_out.h"

struct reading {
	const struct ctl *s;
	struct buf json;
	struct json_out out;
	bool gap;
	size_t n;   /* events of this page */
	char *next; /* the JSON of where to read on; NULL: not said */
};

/* "1-7  2026-11-30 16:05:17.123  sandbox.started  web  pid=12 version=1" */
static void print_event(struct json_span event)
{
	static const char *const in_front[] = { "seq", "at", "type", "sandbox", "subscription" };
	char *seq = output_text(json_get(event, "seq")), *at = output_time(json_get(event, "at"));
	char *type = output_text(json_get(event, "type")), *sandbox = output_text(json_get(event, "sandbox"));
	struct json_iter it = json_iter_begin(event);
	struct json_span key, value;

	(void)printf("%s  %s  %s  %s", seq, at, type, sandbox);
	while (json_iter_next(&it, &key, &value)) {
		bool shown = json_type(value) == '0';
		char *name, *text;

		for (size_t i = 0; i < sizeof(in_front) / sizeof(in_front[0]); i++)
			shown = shown || json_string_is(key, in_front[i]);
		if (shown)
			continue;
		name = output_text(key);
		text = output_text(value);
		(void)printf("  %s=%s", name, text);
		free(name);
		free(text);
	}
	(void)putchar('\n');
	free(seq);
	free(at);
	free(type);
	free(sandbox);
}

static void take_page(struct reading *d, struct json_span result)
{
	struct json_iter it = json_iter_begin(json_get(result, "events"));
	struct json_span key, event, next = json_get(result, "next");
	bool gap = false;

	/* The events in front of the gap are gone; within the pages that follow there can't be another one.
	 */
	if (json_bool(json_get(result, "gap"), &gap) && gap && !d->gap && !d->s->args->json)
		(void)fputs(
			"sandboxctl: older events are gone: these don't follow what was asked for\n", stderr);
	d->gap = d->gap || gap;
	for (d->n = 0; json_iter_next(&it, &key, &event); d->n++) {
		if (d->s->args->json)
			json_out_raw(&d->out, NULL, event.at, event.size);
		else
			print_event(event);
	}
	if (json_type(next) == '"' || json_type(next) == 'i') {
		free(d->next);
		d->next = strndup(next.at, next.size);
	}
}

static void print_json(struct reading *d)
{
	json_out_array_end(&d->out);
	if (d->next)
		json_out_raw(&d->out, "next", d->next, strlen(d->next));
	json_out_bool(&d->out, "gap", d->gap);
	json_out_object_end(&d->out);
	output_json(stdout, (struct json_span){ buf_text(&d->json), d->json.size });
}

/* ---- what is asked for ---- */

static const char *const without[] = { "since_seq", "since_ms", "newest", "limit", NULL };

static void give(const struct ctl *s, const char *param, const char *otherwise, struct json_out *o)
{
	const struct arg_option *given = args_param(s->args, param);
	const char *text = given && given->text ? given->text : otherwise;

	if (text)
		json_out_raw(o, param, text, strlen(text));
}

/* The number may be anything that the daemon will refuse: but it must be one. */
static int check_limit(const struct ctl *s, struct err *e)
{
	const struct arg_option *given = args_param(s->args, "limit");
	int64_t n;

	if (!given || (args_integer(given->text, &n) && n >= 0 && n <= 1000))
		return 0;
	(void)err_set(e, ERR_BAD_PARAM, "-n takes 0 to 1000, not '%.80s'", given->text);
	return err_about(e, "limit", -1);
}

static int members(struct follow *f, const char *seq, struct json_out *o, struct err *e)
{
	const struct ctl *s = f->s;
	const struct arg_option *since = args_param(s->args, "since_seq"), *ms = args_param(s->args, "since_ms");
	const char *text = since ? since->text : ms ? ms->text : NULL;
	bool follows = args_param(s->args, "follow") != NULL;
	int64_t at;

	if (check_limit(s, e) == -1)
		return -1;
	if (text && !(since && since_is_seq(text))) {
		if (since_ms(text, clock_wall_ms(), &at, e) == -1)
			return -1;
		json_out_i64(o, "since_ms", at);
	} else if (text && !seq) {
		json_out_text(o, "since_seq", text);
	}
	if (seq) {
		json_out_text(o, "since_seq", seq);
		if (follows)
			json_out_i64(o, "limit", 1000);
		return 0;
	}
	if (!text && (follows || args_param(s->args, "limit") || args_param(s->args, "newest")))
		json_out_bool(o, "newest", true);
	give(s, "limit", text || !follows ? NULL : "10", o);
	return 0;
}

/* ---- following ---- */

static void show(struct follow *f, struct json_span event)
{
	if (f->s->args->json)
		output_json(stdout, event);
	else
		print_event(event);
}

static void follow_page(struct follow *f, struct json_span result)
{
	struct json_iter it = json_iter_begin(json_get(result, "events"));
	struct json_span key, event;
	bool gap = false;

	if (json_bool(json_get(result, "gap"), &gap) && gap)
		(void)fputs("sandboxctl: events before these are gone\n", stderr);
	while (json_iter_next(&it, &key, &event))
		show(f, event);
	follow_seq(f, json_get(result, "next"));
}

static void follow_note(struct follow *f, struct json_span params)
{
	uint64_t dropped;

	if (json_get(params, "seq").at) {
		show(f, params);
		follow_seq(f, json_get(params, "seq"));
	} else if (json_u64(json_get(params, "dropped"), &dropped)) {
		(void)fprintf(stderr, "sandboxctl: %" PRIu64 " events came faster than they were read, and are left out here\n", dropped);
	} else if (json_get(params, "gap").at) {
		(void)fputs("sandboxctl: events before these are gone\n", stderr);
	}
}

/* ---- pages ---- */

static int read_pages(struct follow *f, struct reading *d)
{
	bool one_page = args_param(f->s->args, "limit") || args_param(f->s->args, "newest"), more;
	int status;

	do {
		char before[sizeof(f->seq)];
		struct rpcclient_reply r;

		memcpy(before, f->seq, sizeof(before));
		status = follow_request(f, f->seq[0] ? f->seq : NULL, &r);
		if (status == 0) {
			take_page(d, r.result);
			follow_seq(f, json_get(r.result, "next"));
		}
		rpcclient_reply_fini(&r);
		more = status == 0 && !one_page && d->n > 0 && f->seq[0] && strcmp(before, f->seq) != 0;
	} while (more);
	return status;
}

int cmd_events_run(struct ctl *s)
{
	struct follow f = { .s = s, .without = without, .members = members, .page = follow_page, .note = follow_note };
	struct reading d = { .s = s };
	int status;

	if (args_param(s->args, "follow"))
		return follow_run(&f);
	d.out = json_out_to(&d.json);
	json_out_object(&d.out, NULL);
	json_out_array(&d.out, "events");
	status = read_pages(&f, &d);
	if (status == 0 && s->args->json)
		print_json(&d);
	free(d.next);
	buf_fini(&d.json);
	return status;
}
