/* SPDX-License-Identifier: MIT
 *
 * update: a line per changed member, with what it was and is, and whether the process has it already. With --now a restart follows where it hasn't. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/output.h"
#include "proto/json_out.h"

static void print_change(struct json_span change)
{
	char *member = output_text(json_get(change, "member")), *effect = output_text(json_get(change, "effect"));

	(void)printf("%s", member);
	if (json_get(change, "to").at) {
		char *from = output_text(json_get(change, "from")), *to = output_text(json_get(change, "to"));

		(void)printf(": %s -> %s", from, to);
		free(from);
		free(to);
	}
	(void)printf(": %s", strcmp(effect, "next_start") == 0 ? "with the next start" : effect);
	if (json_get(change, "why").at) {
		char *why = output_text(json_get(change, "why"));

		(void)printf(" (%s)", why);
		free(why);
	}
	(void)putchar('\n');
	free(member);
	free(effect);
}

static void print_changes(struct json_span changes)
{
	struct json_iter it = json_iter_begin(changes);
	struct json_span key, change;
	bool any = false;

	for (; json_iter_next(&it, &key, &change); any = true)
		print_change(change);
	if (!any)
		(void)puts("nothing is changed");
}

/* Of one that has no process nothing is pending. */
static bool waits(struct json_span result)
{
	struct json_iter it = json_iter_begin(json_get(result, "pending"));
	struct json_span key, value;

	return json_iter_next(&it, &key, &value);
}

/* The state is kept. */
static int restart(struct ctl *s)
{
	struct buf params = BUF_INIT;
	struct json_out o = json_out_to(&params);
	struct rpcclient_reply r = { 0 };
	struct err e = ERR_INIT;
	int status = 0;

	json_out_object(&o, NULL);
	json_out_text(&o, "id", s->args->operands[0]);
	json_out_object_end(&o);
	if (rpcclient_call(&s->rpc, methods[METHOD_SANDBOX_RESTART].name, (struct json_span){ buf_text(&params), params.size }, &r, &e) == -1)
		status = ctl_fail(s, &e, r.error);
	else if (!s->args->json && !s->args->quiet)
		(void)puts("restarted, with its state");
	buf_fini(&params);
	rpcclient_reply_fini(&r);
	return status;
}

int cmd_update_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	bool again = false;

	if (status != 0)
		return status;
	again = args_flag(s->args, "now") && waits(r.result);
	/* One line of JSON: the answer, or the error of what followed. */
	if (again && s->args->json)
		status = restart(s);
	if (status == 0 && !ctl_json_done(s, &r) && !s->args->quiet)
		print_changes(json_get(r.result, "changes"));
	if (again && !s->args->json)
		status = restart(s);
	rpcclient_reply_fini(&r);
	return status;
}
