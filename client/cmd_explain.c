/* SPDX-License-Identifier: MIT
 *
 * explain: what was decided about a sandbox, a sentence a line, oldest first; then what it is now. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/output.h"

static void print_decision(struct json_span d)
{
	char *at = output_time(json_get(d, "at")), *text = output_text(json_get(d, "text"));

	(void)printf("%s  %s\n", at, text);
	free(at);
	free(text);
}

static void print_now(struct json_span result)
{
	char *status = output_text(json_get(result, "status"));
	struct json_span reason = json_get(result, "status_reason"), next = json_get(result, "next");

	(void)printf("now: %s", status);
	free(status);
	if (json_type(reason) == '"') {
		char *text = output_text(reason);

		(void)printf(" (%s)", text);
		free(text);
	}
	if (json_type(next) == '"') {
		char *text = output_text(next);

		(void)printf("; %s", text);
		free(text);
	}
	(void)putchar('\n');
}

int cmd_explain_run(struct ctl *s)
{
	struct rpcclient_reply r;
	struct json_span key, each;
	struct json_iter it;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		for (it = json_iter_begin(json_get(r.result, "decisions")); json_iter_next(&it, &key, &each);)
			print_decision(each);
		if (!s->args->quiet)
			print_now(r.result);
	}
	rpcclient_reply_fini(&r);
	return 0;
}
