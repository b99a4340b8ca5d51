/* SPDX-License-Identifier: MIT
 *
 * call: the function's result, and nothing else, on standard output. cast: nothing but that it was taken. */
#include <stdio.h>

#include "client/ctl.h"
#include "client/output.h"

int cmd_call_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		struct json_span result = json_get(r.result, "result");

		output_json(stdout, result.at ? result : (struct json_span){ "null", 4 });
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_cast_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet)
		(void)printf("%s: %s begins\n", s->args->operands[0], s->args->operands[1]);
	rpcclient_reply_fini(&r);
	return 0;
}
