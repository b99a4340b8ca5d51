/* SPDX-License-Identifier: MIT
 *
 * One run of sandboxctl: what every verb works with. Connects at the first request, keeps one deadline for all of them, and
 * shows errors in the one way: a line on standard error, or {"error": ...} on standard output with --json. */
#ifndef SANDBOXD_CTL_H
#define SANDBOXD_CTL_H

#include <stdbool.h>

#include "client/args.h"
#include "client/rpcclient.h"
#include "proto/err.h"
#include "proto/limits.h"

struct ctl {
	const struct args *args;
	struct rpcclient rpc;
	bool colour;                        /* of standard output */
	char socket_path[LIMIT_PATH_BYTES + 1];
	bool has_warned;                    /* that the daemon is of another version */
};

void ctl_init(struct ctl *s, const struct args *a);
void ctl_fini(struct ctl *s);

/* All of these return the exit status: 0, or that of an error that they have already shown. */
int ctl_fail(const struct ctl *s, const struct err *e, struct json_span error); /* error: the daemon's object, or absent */
/* Calls the verb's method with the parameters of the command line, `name` (NULL: none) given or replaced by `value`. */
int ctl_request(struct ctl *s, const char *name, struct json_span value, struct rpcclient_reply *ret);
/* The same for a verb that takes code: reads FILE, uploads it, and gives object, or source and source_name. */
int ctl_request_code(struct ctl *s, struct rpcclient_reply *ret);

/* Calls the verb's method with these parameters, and shows no error: -1 with err. ret is the caller's to free in both cases. */
int ctl_try(struct ctl *s, const struct buf *params, struct rpcclient_reply *ret, struct err *e);

/* --json: prints the result and returns true: there is nothing more to print. */
bool ctl_json_done(const struct ctl *s, const struct rpcclient_reply *r);

#endif
