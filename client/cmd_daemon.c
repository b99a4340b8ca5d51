/* SPDX-License-Identifier: MIT
 *
 * ping, daemon-info, shutdown: the verbs about the daemon itself. */
#include <stdlib.h>

#include "client/ctl.h"
#include "client/output.h"
#include "proto/clock.h"

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
