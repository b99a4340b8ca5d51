/* SPDX-License-Identifier: MIT
 *
 * call: the function's result, and nothing else, on standard output. */
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
