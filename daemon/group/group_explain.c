/* SPDX-License-Identifier: MIT
 *
 * What a group has decided lately, in sentences. Kept in memory, the newest LIMIT_DECISIONS of each group that has decided anything: the
 * events have all of it, on disk. A new control process begins anew, and says so. */
#include <stdarg.h>
#include <stdlib.h>

#include "daemon/group/group.h"
#include "proto/clock.h"

struct group_decision {
	int64_t at_ms; /* wall clock */
	char kind[16];
	char text[300];
};

void group_decided(struct group *g, const char *kind, const char *format, ...)
{
	struct group_decision *d;
	va_list args;

	if (!g->decisions)
		g->decisions = calloc(LIMIT_DECISIONS, sizeof *g->decisions);
	if (!g->decisions)
		return;
	d = &g->decisions[g->n_decisions++ % LIMIT_DECISIONS];
	d->at_ms = clock_wall_ms();
	(void)snprintf(d->kind, sizeof d->kind, "%s", kind);
	va_start(args, format);
	(void)vsnprintf(d->text, sizeof d->text, format, args);
	va_end(args);
}

/* "web ended (signal SIGKILL)" */
static void child_text(const struct member *m, const struct tree_action *a, char *to, size_t room)
{
	const struct last_exit *x = m && m->sandbox ? &m->sandbox->last_exit : NULL;

	if (x && x->happened)
		(void)snprintf(to, room, "%s ended (%s)", a->id, x->reason);
	else
		(void)snprintf(to, room, "%s ended", a->id);
}

void group_decision(struct group *g, enum group_decided what, const struct member *m, const struct tree_action *a)
{
	const char *strategy = tree_strategy_text(g->strategy);
	char child[LIMIT_ID_BYTES + 80] = "";

	if (a)
		child_text(m, a, child, sizeof child);
	switch (what) {
	case GROUP_DECIDED_RESTART:
		group_decided(g, "restart", "%s: %s. Restart %u of the %u that are allowed within %u ms; strategy %s.", child, tree_why_text(a->why), a->used,
			a->allowed, a->period_ms, strategy);
		return;
	case GROUP_DECIDED_BACKOFF:
		group_decided(g, "backoff", "%s is started in %u ms: %s.", a->id, a->delay_ms, tree_why_text(a->why));
		return;
	case GROUP_DECIDED_STAYS:
		group_decided(g, "stays_down", "%s: %s.", child, tree_why_text(a->why));
		return;
	case GROUP_DECIDED_GAVE_UP:
		group_decided(g, "gave_up", "Restart %u within %u ms is more than the %u allowed: the group gives up.", a->allowed + 1, a->period_ms, a->allowed);
		return;
	case GROUP_DECIDED_ENDING:
		group_decided(g, "ending", "The group ends, its members in reverse order: %s.", tree_why_text(a->why));
		return;
	case GROUP_DECIDED_UP:
		group_decided(g, "up", "The group is up: its members were started in order.");
		return;
	case GROUP_DECIDED_DOWN:
		group_decided(g, "down", "The group is down: all its members have ended.");
		return;
	case GROUP_DECIDED_FAILED:
		group_decided(g, "failed", "The group is failed until a start or a reset: %s.", g->why);
		return;
	}
}

const struct rpc_done *group_explain(struct group *g, struct rpc_request *r)
{
	uint64_t n = g->n_decisions, kept = n < LIMIT_DECISIONS ? n : LIMIT_DECISIONS;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;

	json_out_object(&o, NULL);
	json_out_text(&o, "id", g->id);
	json_out_text(&o, "status", group_status(g));
	json_out_text(&o, "status_reason", g->why[0] ? g->why : NULL);
	json_out_null(&o, "next");
	json_out_array(&o, "decisions");
	for (uint64_t i = n - kept; i < n; i++) {
		const struct group_decision *d = &g->decisions[i % LIMIT_DECISIONS];

		json_out_object(&o, NULL);
		json_out_i64(&o, "at", d->at_ms);
		json_out_text(&o, "kind", d->kind);
		json_out_text(&o, "text", d->text);
		json_out_object_end(&o);
	}
	json_out_array_end(&o);
	json_out_u64(&o, "forgotten", n - kept);
	json_out_object_end(&o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}
