/* SPDX-License-Identifier: MIT
 *
 * ping, daemon-info, shutdown, upgrade: the verbs about the daemon itself. */
#include <stdlib.h>

#include "client/ctl.h"
#include "client/output.h"
#include "proto/clock.h"

#define SERVES_MS 90000 /* the old program ends in 30 s at most; a control takes over many sandboxes in less than the rest */

int cmd_ping_run(struct ctl *s)
{
	int64_t began = clock_monotonic_us();
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	double took_ms = (double)(clock_monotonic_us() - began) / 1000;

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet) {
		char *version = output_text(json_get(r.result, "version"));

		(void)printf("pong from sandboxd %s in %.2f ms\n", version, took_ms);
		free(version);
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_daemon_info_run(struct ctl *s)
{
	struct json_span key, value;
	struct rpcclient_reply r;
	struct json_iter it;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		it = json_iter_begin(r.result);
		while (json_iter_next(&it, &key, &value)) {
			char *label = output_text(key);

			output_pair(stdout, label, output_text(value));
			free(label);
		}
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_shutdown_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet)
		(void)puts("the daemon stops its sandboxes and ends");
	rpcclient_reply_fini(&r);
	return 0;
}

/* The connection that the new program's control accepts first is ours, or one behind it: what it says is said after the upgrade. */
static int upgrade_wait(struct ctl *s, int64_t before)
{
	struct rpcclient_reply r = { 0 };
	struct err e = ERR_INIT;
	int64_t after = -1;
	int status = 0;

	rpcclient_fini(&s->rpc);
	rpcclient_init(&s->rpc);
	if (rpcclient_connect(&s->rpc, s->socket_path, clock_monotonic_ms() + SERVES_MS, &e) == -1 ||
		rpcclient_call(&s->rpc, "daemon.info", (struct json_span){ "{}", 2 }, &r, &e) == -1)
		status = ctl_fail(s, &e, r.error);
	else if (!json_i64(json_get(r.result, "upgrades"), &after) || after <= before)
		status = ctl_fail(s, (err_set(&e, ERR_UPGRADE_REFUSED, "the new program could not take over, and the old one serves on: the daemon's log and the "
			"event daemon.upgrade_refused say why"), &e), (struct json_span){ 0 });
	rpcclient_reply_fini(&r);
	return status;
}

int cmd_upgrade_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int64_t before = 0;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	(void)json_i64(json_get(r.result, "upgrades"), &before);
	status = upgrade_wait(s, before);
	if (status == 0 && !ctl_json_done(s, &r) && !s->args->quiet)
		(void)puts("the daemon runs the program that is installed now");
	rpcclient_reply_fini(&r);
	return status;
}

/* outcome, discover: the result as it is. */
int cmd_print_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		char *text = output_text(r.result);

		(void)puts(text);
		free(text);
	}
	rpcclient_reply_fini(&r);
	return 0;
}
