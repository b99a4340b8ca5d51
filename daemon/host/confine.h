/* SPDX-License-Identifier: MIT
 *
 * Confinement: what the host does to itself before any module code, and the report of what holds. The report
 * is verified from facts, not from what somebody meant to set. Runs in sandbox-host, once, before the first
 * dlopen. */
#ifndef SANDBOXD_HOST_CONFINE_H
#define SANDBOXD_HOST_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/err.h"
#include "proto/profile.h"
#include "proto/spawner_wire.h"

struct confine {
	enum profile profile;
	struct host_limits limits; /* 0: the default of limits.h */
	uint32_t spawner_uid;      /* who made the channel */
};

/* HOST_BEGIN's body: {"profile": "high" | "medium" | "low", "limits": {...}}; limits' keys are those of
 * struct host_limits. Unknown keys are refused. channel_fd tells the spawner's uid. */
int confine_parse(struct confine *c, const char *json, size_t size, int channel_fd, struct err *e);
/* What a host that was started by exec, without a zygote, can do for itself: a test's, an old way. */
int confine_apply(const struct confine *c, struct err *e);
/* PROTECTION_BITs that a profile asks for. A user namespace is asked for where the daemon is an ordinary user's. */
uint64_t confine_asked(enum profile profile, bool rootless);
/* HOST_REPORT's body: an array with one row per protection, {"protection","asked","got","by","why"}.
 * asked "none": the profile doesn't want it. got "none": it isn't there, and why says why. */
void confine_report(const struct confine *c, struct buf *to);

#endif
