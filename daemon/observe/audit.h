/* SPDX-License-Identifier: MIT
 *
 * The audit trail: a stream like that of events (events.h), in files of its own, of what was refused to whom, and under profiles that ask for
 * it of who changed what. Nobody may push the others' records out of the files: each user causes at most so many in a time, and what comes
 * on top is counted, and told with the next one. Control process, loop thread. */
#ifndef SANDBOXD_AUDIT_H
#define SANDBOXD_AUDIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/observe/events.h"

/* ---- the allowance, pure ---- */
struct audit_allowance {
	struct audit_user {
		uid_t uid;
		int64_t since_ms;   /* its present time began; 0: a free place */
		uint32_t n;         /* records in it */
		uint64_t suppressed; /* that nobody has been told of */
	} users[LIMIT_AUDIT_USERS];
};
/* May this user cause one more record now? When it may, ret_suppressed is how many of its were not written since the last. */
bool audit_allowed(struct audit_allowance *a, uid_t uid, int64_t now_ms, uint64_t *ret_suppressed);

/* ---- the trail ---- */
struct audit {
	struct events *events;
	struct audit_allowance allowance;
};

struct audit *audit_new(uint64_t incarnation); /* NULL: no memory */
int audit_open(struct audit *a, int state_dir_fd, struct storage *storage, struct err *e); /* as events_open */
void audit_close(struct audit *a);
struct audit *audit_free(struct audit *a);     /* NULL ok */

/* As events_begin; NULL: not this one (a is NULL, or the user `by` has caused too many). by: who did it; of a module, its owner. version: of the
 * sandbox's module, 0: none. End it with events_end(a->events). */
struct json_out *audit_begin(struct audit *a, const char *type, const char *sandbox, uid_t owner, uid_t by, uint64_t version);

#endif
