/* SPDX-License-Identifier: MIT
 *
 * events: follows the pages until one is empty, unless the user asks for one. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/output.h"
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
	static const char *const in_front[] = { "seq", "at", "type", "sandbox" };
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

int cmd_events_run(struct ctl *s)
{
	bool one_page = args_param(s->args, "limit") != NULL, more;
	struct reading d = { .s = s };
	int status;

	d.out = json_out_to(&d.json);
	json_out_object(&d.out, NULL);
	json_out_array(&d.out, "events");
	do {
		char *from = d.next ? strdup(d.next) : NULL;
		struct rpcclient_reply r;

		status = ctl_request(s, from ? "since_seq" : NULL,
			(struct json_span){ from, from ? strlen(from) : 0 }, &r);
		if (status == 0)
			take_page(&d, r.result);
		rpcclient_reply_fini(&r);
		more = status == 0 && !one_page && d.n > 0 && d.next && !(from && strcmp(from, d.next) == 0);
		free(from);
	} while (more);
	if (status == 0 && s->args->json)
		print_json(&d);
	free(d.next);
	buf_fini(&d.json);
	return status;
}
