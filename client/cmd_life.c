/* SPDX-License-Identifier: MIT
 *
 * create, destroy, start, stop, restart, freeze, thaw, reset, wait: the verbs whose answer is the state that a sandbox now has. */
#include <stdlib.h>

#include "client/ctl.h"
#include "client/output.h"

/* "web: running, counter version 2, pid 123": as much of it as there is */
static void print_state(struct json_span info)
{
	static const struct {
		const char *key, *before;
	} parts[] = { { "id", "" }, { "status", ": " }, { "module", ", " }, { "version", " version " },
		{ "pid", ", pid " } };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct json_span v = json_get(info, parts[i].key);
		char *text;

		if (json_type(v) == 0 || json_type(v) == '0')
			continue;
		text = output_text(v);
		(void)printf("%s%s", parts[i].before, text);
		free(text);
	}
	(void)putchar('\n');
}

static int show(const struct ctl *s, struct rpcclient_reply *r)
{
	if (!ctl_json_done(s, r)) {
		/* warnings of a compiler that succeeded */
		output_lines(stderr, json_get(json_get(r->result, "compiler"), "warnings"));
		if (!s->args->quiet)
			print_state(r->result);
	}
	rpcclient_reply_fini(r);
	return 0;
}

static int run_plain(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	return status == 0 ? show(s, &r) : status;
}

int cmd_create_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request_code(s, &r);

	return status == 0 ? show(s, &r) : status;
}

int cmd_start_run(struct ctl *s)
{
	return run_plain(s);
}

int cmd_stop_run(struct ctl *s)
{
	return run_plain(s);
}

int cmd_restart_run(struct ctl *s)
{
	return run_plain(s);
}

int cmd_freeze_run(struct ctl *s)
{
	return run_plain(s);
}

int cmd_thaw_run(struct ctl *s)
{
	return run_plain(s);
}

int cmd_reset_run(struct ctl *s)
{
	return run_plain(s);
}

int cmd_destroy_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet)
		(void)printf("%s: destroyed\n", s->args->operands[0]);
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_wait_run(struct ctl *s)
{
	struct err e = ERR_INIT;

	/* The daemon would say `for`, which isn't how it is written here. */
	if (!args_param(s->args, "for")) {
		err_set(&e, ERR_MISSING_PARAM, "--for STATE says what to wait for; usage: sandboxctl wait ID --for STATE [options]");
		return ctl_fail(s, &e, (struct json_span){ 0 });
	}
	return run_plain(s);
}
