/* SPDX-License-Identifier: MIT
 *
 * One connection to the daemon: requests go out one at a time, each waits for its reply until the deadline. Blocking, with
 * poll. What comes back is checked strictly: a reply is one line of JSON that names our request and has a result or an error. */
#ifndef SANDBOXD_RPCCLIENT_H
#define SANDBOXD_RPCCLIENT_H

#include <stdint.h>

#include "proto/buf.h"
#include "proto/err.h"
#include "proto/frame.h"
#include "proto/json_scan.h"

#define RPCCLIENT_NO_DEADLINE INT64_MAX

struct rpcclient {
	int fd;               /* -1: not connected */
	const char *path;
	struct frame in;
	int64_t deadline_ms;  /* on the monotonic clock */
	int64_t last_id;
};

struct rpcclient_reply {
	char *line;              /* owned; the spans point into it */
	struct json_span result; /* the result, or absent */
	struct json_span error;  /* the error object, or absent */
};

void rpcclient_init(struct rpcclient *c);
void rpcclient_fini(struct rpcclient *c);
/* -1 with UNREACHABLE, DENIED, TIMEOUT, or BAD_PARAM for a path that no socket can have. path must live as long as c. */
int rpcclient_connect(struct rpcclient *c, const char *path, int64_t deadline_ms, struct err *e);
/* params: an object. 0: ret->result is there. -1 with err: if the daemon said it, ret->error is there too. In both cases
 * rpcclient_reply_fini frees the reply. UNREACHABLE: no sane reply came; TIMEOUT: none at all. */
int rpcclient_call(struct rpcclient *c, const char *method, struct json_span params, struct rpcclient_reply *ret, struct err *e);
/* The next notification, however long it takes: ret->result is its params. 1; 0: nobody reads out_fd any more; -1 with err. */
int rpcclient_next(struct rpcclient *c, int out_fd, struct rpcclient_reply *ret, struct err *e);
void rpcclient_reply_fini(struct rpcclient_reply *r);

#endif
