/* SPDX-License-Identifier: MIT
 *
 * logs: the lines that a sandbox wrote. Each is a module's text, so nothing of it may reach the terminal
 * uncleaned. */
#include <inttypes.h>
#include <stdlib.h>

#include "client/ctl.h"
#include "client/output.h"

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

int cmd_logs_run(struct ctl *s)
{
	struct json_span key, line;
	struct rpcclient_reply r;
	struct json_iter it;
	uint64_t dropped;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

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
