/* SPDX-License-Identifier: MIT
 *
 * logs: the lines that a sandbox wrote. Each is a module's text, so nothing of it may reach the terminal
 * uncleaned. */
#include <inttypes.h>
#include <stdlib.h>

#include "client/ctl.h"
#include "client/follow.h"
#include "client/output.h"
#include "client/since.h"
#include "proto/clock.h"

static void print_line(const struct ctl *s, struct json_span line)
{
	char *text = output_text(json_get(line, "text"));
	bool partial = false;

	if (!s->args->quiet) {
		char *at = output_time(json_get(line, "at")), *stream = output_text(json_get(line, "stream"));
		struct json_span level = json_get(line, "level");
		char *word = output_text(level);

		(void)printf("%s %s%s%s  ", at, stream, json_type(level) == '"' ? " " : "",
			json_type(level) == '"' ? word : "");
		free(at);
		free(stream);
		free(word);
	}
	(void)printf("%s%s\n", text,
		json_bool(json_get(line, "partial"), &partial) && partial ? " (continued)" : "");
	free(text);
}

static const char *const without[] = { "since_ms", "since_seq", "lines", NULL };

static int members(struct follow *f, const char *seq, struct json_out *o, struct err *e)
{
	const struct ctl *s = f->s;
	const struct arg_option *since = args_param(s->args, "since_ms"), *behind = args_param(s->args, "since_seq");
	const struct arg_option *lines = args_param(s->args, "lines");
	const char *number = behind ? behind->text : since && since_is_seq(since->text) ? since->text : NULL;
	int64_t at, n;

	if (lines && !(args_integer(lines->text, &n) && n >= 0 && n <= 10000)) {
		(void)err_set(e, ERR_BAD_PARAM, "-n takes 0 to 10000, not '%.80s'", lines->text);
		return err_about(e, "lines", -1);
	}
	if (since && since->text != number) {
		if (since_ms(since->text, clock_wall_ms(), &at, e) == -1)
			return -1;
		json_out_i64(o, "since_ms", at);
	}
	if (seq || number)
		json_out_text(o, "since_seq", seq ? seq : number);
	if (seq)
		json_out_i64(o, "lines", 10000); /* all that came while nobody listened */
	else if (lines)
		json_out_i64(o, "lines", n);
	else if (args_param(s->args, "follow") && !since && !behind)
		json_out_i64(o, "lines", 10);
	return 0;
}

/* ---- following ---- */

static void show(struct follow *f, struct json_span line)
{
	if (f->s->args->json)
		output_json(stdout, line);
	else
		print_line(f->s, line);
}

static void follow_page(struct follow *f, struct json_span result)
{
	struct json_iter it = json_iter_begin(json_get(result, "lines"));
	struct json_span key, line;

	while (json_iter_next(&it, &key, &line))
		show(f, line);
	follow_seq(f, json_get(result, "next"));
}

static void follow_note(struct follow *f, struct json_span params)
{
	uint64_t dropped;

	if (json_get(params, "seq").at) {
		show(f, params);
		follow_seq(f, json_get(params, "seq"));
	} else if (json_u64(json_get(params, "dropped_bytes"), &dropped)) {
		(void)fprintf(stderr, "sandboxctl: %" PRIu64 " bytes came faster than they were read, and are left out here\n", dropped);
	} else if (json_get(params, "ended").at) {
		(void)fputs("sandboxctl: the sandbox is destroyed\n", stderr);
		f->is_over = true;
	}
}

int cmd_logs_run(struct ctl *s)
{
	struct follow f = { .s = s, .without = without, .members = members, .page = follow_page, .note = follow_note };
	struct json_span key, line;
	struct rpcclient_reply r;
	struct json_iter it;
	uint64_t dropped;
	int status;

	if (args_param(s->args, "follow"))
		return follow_run(&f);
	status = follow_request(&f, NULL, &r);
	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		it = json_iter_begin(json_get(r.result, "lines"));
		while (json_iter_next(&it, &key, &line))
			print_line(s, line);
		if (json_u64(json_get(r.result, "dropped_bytes"), &dropped) && dropped > 0)
			(void)fprintf(stderr,
				"sandboxctl: %" PRIu64 " bytes were dropped and can't be shown\n", dropped);
	}
	rpcclient_reply_fini(&r);
	return 0;
}
