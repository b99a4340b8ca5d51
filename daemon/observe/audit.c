/* SPDX-License-Identifier: MIT */
#include "daemon/observe/audit.h"

#include <stdlib.h>

#include "proto/clock.h"

struct audit *audit_new(uint64_t incarnation)
{
	struct audit *a = calloc(1, sizeof *a);

	if (a && !(a->events = events_new(incarnation))) {
		free(a);
		a = NULL;
	}
	return a;
}

int audit_open(struct audit *a, int state_dir_fd, struct storage *storage, struct err *e)
{
	return events_open(a->events, state_dir_fd, "audit", storage, e);
}

void audit_close(struct audit *a)
{
	if (a)
		events_close(a->events);
}

struct audit *audit_free(struct audit *a)
{
	if (a)
		(void)events_free(a->events);
	free(a);
	return NULL;
}

/* The user's place: its own, else a free one, else that of whoever has been quiet for longest. */
static struct audit_user *place_of(struct audit_allowance *a, uid_t uid)
{
	struct audit_user *best = &a->users[0];

	for (size_t i = 0; i < LIMIT_AUDIT_USERS; i++) {
		struct audit_user *u = &a->users[i];

		if (u->since_ms != 0 && u->uid == uid)
			return u;
		if (u->since_ms < best->since_ms)
			best = u;
	}
	*best = (struct audit_user){ .uid = uid };
	return best;
}

bool audit_allowed(struct audit_allowance *a, uid_t uid, int64_t now_ms, uint64_t *ret_suppressed)
{
	struct audit_user *u = place_of(a, uid);

	if (u->since_ms == 0 || now_ms - u->since_ms >= LIMIT_AUDIT_PERIOD_MS) {
		u->since_ms = now_ms > 0 ? now_ms : 1;
		u->n = 0;
	}
	if (u->n >= LIMIT_AUDIT_RECORDS) {
		u->suppressed++;
		return false;
	}
	u->n++;
	*ret_suppressed = u->suppressed;
	u->suppressed = 0;
	return true;
}

struct json_out *audit_begin(struct audit *a, const char *type, const char *sandbox, uid_t owner, uid_t by, uint64_t version)
{
	uint64_t suppressed = 0;
	struct json_out *o;

	if (!a || !audit_allowed(&a->allowance, by, clock_monotonic_ms(), &suppressed))
		return NULL;
	o = events_begin(a->events, type, sandbox, owner);
	json_out_u64(o, "uid", by);
	if (version > 0)
		json_out_u64(o, "version", version);
	if (suppressed > 0)
		json_out_u64(o, "suppressed", suppressed);
	return o;
}
