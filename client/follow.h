/* SPDX-License-Identifier: MIT
 *
 * logs -f and events -f: the first page, then notifications, until the user or the reader of the output ends it. When the
 * connection is lost (a restart of the daemon's control process) it is made anew and goes on behind the last thing shown. */
#ifndef SANDBOXD_FOLLOW_H
#define SANDBOXD_FOLLOW_H

#include <stdbool.h>

#include "client/ctl.h"
#include "proto/json_out.h"

struct follow {
	struct ctl *s;
	const char *const *without;  /* parameters that options give and that members() gives in their place; ends with NULL */
	/* Members of params. seq: go on behind it; NULL: the beginning. -1 with err. */
	int (*members)(struct follow *f, const char *seq, struct json_out *o, struct err *e);
	void (*page)(struct follow *f, struct json_span result);
	void (*note)(struct follow *f, struct json_span params);
	bool is_over;                /* set by note: nothing more will come */
	char seq[64];                /* of the last one shown; "" */
};

/* The exit status. */
int follow_run(struct follow *f);
void follow_seq(struct follow *f, struct json_span seq); /* takes note of it */

/* One request with the options' parameters but those in `without`, and with members(). 0, or the exit status of an error that was shown. */
int follow_request(struct follow *f, const char *seq, struct rpcclient_reply *ret);

#endif
