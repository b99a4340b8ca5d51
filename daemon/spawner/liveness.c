/* SPDX-License-Identifier: MIT */
#include "daemon/spawner/liveness.h"

#define NEVER INT64_MAX

void liveness_init(struct liveness *l, int64_t watchdog_ms)
{
	*l = (struct liveness)LIVENESS_INIT;
	if (watchdog_ms <= 0)
		return;
	if (watchdog_ms / 4 < l->ask_ms)
		l->ask_ms = watchdog_ms / 4 > 0 ? watchdog_ms / 4 : 1;
	if (watchdog_ms / 2 < l->most_ms)
		l->most_ms = watchdog_ms / 2 > 0 ? watchdog_ms / 2 : 1;
}

void liveness_serves(struct liveness *l, int64_t now_ms)
{
	l->ask_at_ms = now_ms + l->ask_ms;
	l->late_at_ms = NEVER;
	l->fed_ms = now_ms;
}

void liveness_gone(struct liveness *l)
{
	l->ask_at_ms = l->late_at_ms = NEVER;
}

bool liveness_goes_on(struct liveness *l, int64_t now_ms)
{
	if (l->fed_ms == INT64_MIN || now_ms - l->fed_ms < l->ask_ms)
		return false; /* before the first one serves, the service manager waits for READY instead */
	l->fed_ms = now_ms;
	return true;
}

bool liveness_answered(struct liveness *l, int64_t now_ms)
{
	if (l->late_at_ms == NEVER)
		return false;
	l->late_at_ms = NEVER;
	l->ask_at_ms = now_ms + l->ask_ms;
	l->fed_ms = now_ms;
	return true;
}

enum liveness_act liveness_timer(struct liveness *l, int64_t now_ms)
{
	if (now_ms >= l->late_at_ms) {
		liveness_gone(l);
		return LIVENESS_REPLACE;
	}
	if (now_ms < l->ask_at_ms)
		return LIVENESS_NOTHING;
	l->ask_at_ms = NEVER;
	l->late_at_ms = now_ms + l->most_ms;
	return LIVENESS_ASK;
}

int64_t liveness_deadline(const struct liveness *l)
{
	return l->ask_at_ms < l->late_at_ms ? l->ask_at_ms : l->late_at_ms;
}
