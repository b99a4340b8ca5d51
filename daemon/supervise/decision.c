/* SPDX-License-Identifier: MIT
 *
 * Which decisions a step of a life contains, and how they read. See decision.h. Control process; pure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/supervise/decision.h"
#include "daemon/supervise/life_move.h"

#define ROOM_FIRST 4
#define N_MOST     2000000000u

static const char *const kind_texts[DECISION__N] = { [DECISION_NONE] = "none",
	[DECISION_ASKED] = "asked",
	[DECISION_OVERRIDDEN] = "overridden",
	[DECISION_BEGIN] = "begin",
	[DECISION_READY] = "ready",
	[DECISION_ENDED] = "ended",
	[DECISION_ENDED_ASKED] = "ended_as_asked",
	[DECISION_START_FAILED] = "start_failed",
	[DECISION_RESTART] = "restart",
	[DECISION_GAVE_UP] = "gave_up",
	[DECISION_STAYS_DOWN] = "stays_down",
	[DECISION_RECOVERED] = "recovered",
	[DECISION_KILLED] = "killed",
	[DECISION_SAVE_FAILED] = "save_failed",
	[DECISION_RESET] = "reset",
	[DECISION_STABLE] = "stable",
	[DECISION_FROZEN] = "frozen",
	[DECISION_THAWED] = "thawed",
	[DECISION_TAKEN_OVER] = "taken_over",
	[DECISION_SET_ASIDE] = "set_aside",
	[DECISION_GROUP] = "group" };

static const char *const from_texts[] = { [LIFE_FROM_FRESH] = "a fresh state",
	[LIFE_FROM_KEPT] = "the kept state",
	[LIFE_FROM_SEALED] = "the state that a reload had sealed" };

static bool room_make(struct decisions *ds)
{
	uint32_t room = ds->room == 0 ? ROOM_FIRST : 2 * ds->room;
	struct decision *more;

	if (ds->room >= LIMIT_DECISIONS)
		return true;
	if (room > LIMIT_DECISIONS)
		room = LIMIT_DECISIONS;
	more = realloc(ds->at, room * sizeof *more);
	if (!more)
		return false;
	ds->at = more;
	ds->room = room;
	return true;
}

void decisions_fini(struct decisions *ds)
{
	free(ds->at);
	*ds = (struct decisions){ 0 };
}

void decisions_add(struct decisions *ds, const struct decision *d)
{
	if (ds->n >= ds->room && !room_make(ds))
		return;
	ds->at[ds->n % LIMIT_DECISIONS] = *d;
	ds->n++;
	if (ds->n >= N_MOST) /* the place stays the same */
		ds->n = LIMIT_DECISIONS + ds->n % LIMIT_DECISIONS;
}

size_t decisions_count(const struct decisions *ds)
{
	return ds->n < LIMIT_DECISIONS ? ds->n : LIMIT_DECISIONS;
}

const struct decision *decisions_get(const struct decisions *ds, size_t i)
{
	return &ds->at[(ds->n - decisions_count(ds) + i) % LIMIT_DECISIONS];
}

static struct decision decision_new(enum decision_kind kind, const struct decision_facts *f)
{
	return (struct decision){ .kind = (uint8_t)kind, .at_ms = f->wall_ms, .generation = f->generation, .version = f->version };
}

static void add_plain(struct decisions *ds, enum decision_kind kind, const struct decision_facts *f)
{
	struct decision d = decision_new(kind, f);

	decisions_add(ds, &d);
}

static bool is_end(const struct life_event *ev)
{
	return ev->type == LIFE_EXITED || ev->type == LIFE_RELOAD_DIED_SEALED;
}

static void add_request(struct decisions *ds, const struct life *before, const struct life_event *ev, const struct decision_facts *f)
{
	static const enum life_request of[] = { [LIFE_CREATE_START] = LIFE_REQUEST_CREATE, [LIFE_START] = LIFE_REQUEST_START,
		[LIFE_STOP] = LIFE_REQUEST_STOP, [LIFE_RESTART] = LIFE_REQUEST_RESTART, [LIFE_DESTROY] = LIFE_REQUEST_DESTROY };
	struct decision d;

	if (ev->type > LIFE_DESTROY)
		return;
	if (before->pending != LIFE_NO_REQUEST) {
		d = decision_new(DECISION_OVERRIDDEN, f);
		d.request = (uint8_t)before->pending;
		decisions_add(ds, &d);
	}
	if (ev->by_daemon)
		return;
	d = decision_new(DECISION_ASKED, f);
	d.request = (uint8_t)of[ev->type];
	d.from = ev->keep_state ? LIFE_FROM_KEPT : LIFE_FROM_FRESH;
	decisions_add(ds, &d);
}

static void add_end(struct decisions *ds, const struct life *before, const struct life_event *ev, const struct decision_facts *f)
{
	struct decision d = decision_new(before->state == LIFE_STOPPING ? DECISION_ENDED_ASKED : DECISION_ENDED, f);

	d.exit = (uint8_t)ev->exit;
	d.uptime_ms = f->uptime_ms;
	(void)snprintf(d.what, sizeof d.what, "%s", f->what ? f->what : "");
	decisions_add(ds, &d);
}

/* What the policy said of an end, or of a start that failed. */
static void add_policy(struct decisions *ds, const struct life *before, const struct life *after, const struct life_policy *p,
	const struct life_event *ev, const struct life_actions *out, const struct decision_facts *f)
{
	struct budget_view v = budget_view(&after->budget, &p->budget, ev->now_ms);
	bool up = before->state == LIFE_RUNNING || before->state == LIFE_RELOADING || before->state == LIFE_FROZEN;
	struct decision d = { 0 };

	if (up && before->budget.streak > 0 && after->budget.streak <= 1 && is_end(ev))
		add_plain(ds, DECISION_STABLE, f);
	if (out->set & LIFE_DO_NOTE_RESTART)
		d = decision_new(DECISION_RESTART, f);
	else if (out->set & LIFE_DO_NOTE_GAVE_UP)
		d = decision_new(DECISION_GAVE_UP, f);
	else if (up && is_end(ev) && (out->set & LIFE_DO_BEGIN_START))
		d = decision_new(DECISION_RECOVERED, f);
	else if ((up || before->state == LIFE_STARTING) && before->pending == LIFE_NO_REQUEST && !(out->set & LIFE_DO_BEGIN_START) &&
		(after->state == LIFE_STOPPED || after->state == LIFE_FAILED))
		d = decision_new(DECISION_STAYS_DOWN, f);
	else
		return;
	d.restart = (uint8_t)p->restart;
	d.exit = (uint8_t)(is_end(ev) ? ev->exit : LIFE_EXIT_ERROR);
	d.reason = (uint8_t)(d.kind == DECISION_GAVE_UP ? after->gave_up_reason : out->reason);
	d.used = v.used;
	d.allowed = v.allowed;
	d.period_ms = p->budget.period_ms;
	d.delay_ms = out->delay_ms;
	d.jitter_ms = out->jitter_ms;
	d.streak = after->budget.streak;
	decisions_add(ds, &d);
}

static void add_start_failed(struct decisions *ds, const struct life *before, const struct life *after, const struct life_event *ev,
	const struct life_actions *out, const struct decision_facts *f)
{
	struct decision d = decision_new(DECISION_START_FAILED, f);

	if (before->state != LIFE_STARTING || (ev->type != LIFE_BEGIN_FAILED && ev->type != LIFE_EXITED) || before->free_retry)
		return;
	d.reason = (uint8_t)(out->reason != LIFE_REASON_NONE ? out->reason : after->reason);
	(void)snprintf(d.what, sizeof d.what, "%s", ev->type == LIFE_EXITED && f->what ? f->what : "");
	decisions_add(ds, &d);
}

void decisions_step(struct decisions *ds, const struct life *before, const struct life *after, const struct life_policy *p,
	const struct life_event *ev, const struct life_actions *out, const struct decision_facts *facts)
{
	struct decision d;

	add_request(ds, before, ev, facts);
	if (ev->type == LIFE_RESET)
		add_plain(ds, DECISION_RESET, facts);
	if (after->state != before->state && (after->state == LIFE_FROZEN || (before->state == LIFE_FROZEN && after->state == LIFE_RUNNING)))
		add_plain(ds, after->state == LIFE_FROZEN ? DECISION_FROZEN : DECISION_THAWED, facts);
	if (is_end(ev) && before->state != LIFE_STARTING)
		add_end(ds, before, ev, facts);
	if (before->restore_tries > 0 && after->restore_tries == 0 && (out->set & LIFE_DO_SET_ASIDE)) {
		d = decision_new(DECISION_SET_ASIDE, facts);
		d.used = before->restore_tries + 1u;
		decisions_add(ds, &d);
	}
	add_start_failed(ds, before, after, ev, out, facts);
	add_policy(ds, before, after, p, ev, out, facts);
	if (out->set & LIFE_DO_KILL) {
		d = decision_new(DECISION_KILLED, facts);
		d.kill = (uint8_t)out->kill_why;
		d.delay_ms = out->kill_why == LIFE_KILL_SHUTDOWN_DEADLINE ? p->shutdown_ms :
			out->kill_why == LIFE_KILL_START_TIMEOUT          ? p->start_timeout_ms :
									    0;
		decisions_add(ds, &d);
	}
	if ((out->set & LIFE_DO_ANSWER) && out->reason == LIFE_REASON_SAVE_FAILED)
		add_plain(ds, DECISION_SAVE_FAILED, facts);
	if (out->set & LIFE_DO_BEGIN_START) {
		d = decision_new(DECISION_BEGIN, facts);
		d.from = (uint8_t)out->from;
		decisions_add(ds, &d);
	}
	if (out->set & LIFE_DO_NOTE_STARTED)
		add_plain(ds, DECISION_READY, facts);
}

size_t decisions_write(const struct decisions *ds, uint8_t to[DECISIONS_BYTES_MOST])
{
	const uint32_t head[2] = { ds->n, 0 };
	size_t size = decisions_count(ds) * sizeof *ds->at;

	memcpy(to, head, sizeof head);
	if (size > 0)
		memcpy(to + sizeof head, ds->at, size);
	return sizeof head + size;
}

static void sanitise(struct decisions *ds)
{
	for (size_t i = 0; i < decisions_count(ds); i++) {
		struct decision *d = &ds->at[i];

		if (d->kind >= DECISION__N)
			d->kind = DECISION_NONE;
		if (d->request >= LIFE_REQUEST__N)
			d->request = LIFE_NO_REQUEST;
		if (d->reason >= LIFE_REASON__N)
			d->reason = LIFE_REASON_NONE;
		if (d->exit >= LIFE_EXIT__N)
			d->exit = LIFE_EXIT_ERROR;
		if (d->restart >= LIFE_RESTART__N)
			d->restart = LIFE_PERMANENT;
		if (d->from > LIFE_FROM_SEALED)
			d->from = LIFE_FROM_FRESH;
		if (d->kill >= LIFE_KILL__N)
			d->kill = LIFE_KILL_NONE;
		d->what[sizeof d->what - 1] = '\0';
		for (char *at = d->what; *at; at++)
			if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
				*at = '?';
	}
}

void decisions_read(struct decisions *ds, const uint8_t *from, size_t size)
{
	struct decisions found = { 0 };

	decisions_fini(ds);
	if (size < 2 * sizeof(uint32_t))
		return;
	memcpy(&found.n, from, sizeof found.n);
	found.room = (uint32_t)decisions_count(&found);
	if (found.n == 0 || found.n >= N_MOST || size - 2 * sizeof(uint32_t) < found.room * sizeof *found.at) /* an earlier version kept all places */
		return;
	found.at = malloc(found.room * sizeof *found.at);
	if (!found.at)
		return;
	memcpy(found.at, from + 2 * sizeof(uint32_t), found.room * sizeof *found.at);
	sanitise(&found);
	*ds = found;
}

const char *decision_kind_text(enum decision_kind k)
{
	return (unsigned)k < DECISION__N ? kind_texts[k] : "unknown";
}

/* ---- sentences ---- */

static void asked_text(const struct decision *d, char *to, size_t room)
{
	const char *what = life_request_text((enum life_request)d->request);
	bool keep = d->from != LIFE_FROM_FRESH;

	switch ((enum life_request)d->request) {
	case LIFE_REQUEST_STOP:
		(void)snprintf(to, room, "A %s was asked for; its state is %s.", what, keep ? "saved first" : "dropped");
		return;
	case LIFE_REQUEST_START:
	case LIFE_REQUEST_RESTART:
		(void)snprintf(to, room, "A %s was asked for, %s. Requests are never counted.", what,
			keep ? "with the state it has" : "with a fresh state");
		return;
	case LIFE_REQUEST_CREATE:
	case LIFE_REQUEST_DESTROY:
	case LIFE_NO_REQUEST:
	case LIFE_REQUEST__N:
		(void)snprintf(to, room, "A %s was asked for.", what);
		return;
	}
}

static void restart_text(const struct decision *d, char *to, size_t room)
{
	const char *type = life_restart_text((enum life_restart)d->restart);

	if (d->delay_ms == 0)
		(void)snprintf(to, room, "Restart type %s: it is started again at once, the first restart since it was last stable. "
			"%" PRIu32 " of %" PRIu32 " restarts within %" PRIu32 " ms used.", type, d->used, d->allowed, d->period_ms);
	else
		(void)snprintf(to, room, "Restart type %s: it is started again after a back-off of %" PRIu32 " ms (%" PRIu32 " ms of them by chance), restart %"
			PRIu32 " in a row. %" PRIu32 " of %" PRIu32 " restarts within %" PRIu32 " ms used.", type, d->delay_ms, d->jitter_ms,
			d->streak, d->used, d->allowed, d->period_ms);
}

static void stays_down_text(const struct decision *d, char *to, size_t room)
{
	const char *type = life_restart_text((enum life_restart)d->restart);
	bool clean = life_exit_is_clean((enum life_exit)d->exit);

	(void)snprintf(to, room, "Restart type %s, and the end was %s (%s): it stays down, %s.", type, clean ? "clean" : "not clean",
		life_exit_text((enum life_exit)d->exit), clean ? "stopped" : "failed");
}

void decision_text(const struct decision *d, char *to, size_t room)
{
	if (room > 0)
		to[0] = '\0';
	switch ((enum decision_kind)d->kind) {
	case DECISION_ASKED:
		asked_text(d, to, room);
		return;
	case DECISION_OVERRIDDEN:
		(void)snprintf(to, room, "The %s that was at work gave way to a later request.", life_request_text((enum life_request)d->request));
		return;
	case DECISION_BEGIN:
		(void)snprintf(to, room, "A process is started with %s.", from_texts[d->from <= LIFE_FROM_SEALED ? d->from : 0]);
		return;
	case DECISION_READY:
		(void)snprintf(to, room, "Generation %" PRIu64 " is ready with version %" PRIu32 ".", d->generation, d->version);
		return;
	case DECISION_ENDED:
	case DECISION_ENDED_ASKED:
		(void)snprintf(to, room, "Generation %" PRIu64 " (version %" PRIu32 ") ended%s after %" PRId64 " ms: %s; class %s.", d->generation,
			d->version, d->kind == DECISION_ENDED ? "" : " while it was being stopped", d->uptime_ms, d->what[0] ? d->what : "unknown",
			life_exit_text((enum life_exit)d->exit));
		return;
	case DECISION_START_FAILED:
		(void)snprintf(to, room, "The start failed: %s%s%s.", life_reason_text((enum life_reason)d->reason), d->what[0] ? ", " : "", d->what);
		return;
	case DECISION_RESTART:
		restart_text(d, to, room);
		return;
	case DECISION_GAVE_UP:
		(void)snprintf(to, room, "Restart %" PRIu32 " within %" PRIu32 " ms is more than the %" PRIu32 " allowed (cause of the last: %s): it is failed "
			"until a start or reset is asked for.", d->used, d->period_ms, d->allowed, life_reason_text((enum life_reason)d->reason));
		return;
	case DECISION_STAYS_DOWN:
		stays_down_text(d, to, room);
		return;
	case DECISION_RECOVERED:
		(void)snprintf(to, room, "It ended in a reload whose state was sealed: it is started from that state. Not counted.");
		return;
	case DECISION_KILLED:
		if (d->delay_ms > 0)
			(void)snprintf(to, room, "Its process is killed: %s of %" PRIu32 " ms.", life_kill_text((enum life_kill)d->kill), d->delay_ms);
		else
			(void)snprintf(to, room, "Its process is killed: %s.", life_kill_text((enum life_kill)d->kill));
		return;
	case DECISION_SAVE_FAILED:
		(void)snprintf(to, room, "Its state could not be saved, so it was not restarted and runs on.");
		return;
	case DECISION_RESET:
		(void)snprintf(to, room, "A reset was asked for: restart budget and back-off are as new.");
		return;
	case DECISION_STABLE:
		(void)snprintf(to, room, "It had been up long enough to count as stable: the back-off began anew.");
		return;
	case DECISION_FROZEN:
		(void)snprintf(to, room, "It was frozen: no process of it runs; calls wait.");
		return;
	case DECISION_THAWED:
		(void)snprintf(to, room, "It was thawed and goes on.");
		return;
	case DECISION_TAKEN_OVER:
		(void)snprintf(to, room, "A new control process took it over: %s.", d->what[0] ? d->what : "as it was");
		return;
	case DECISION_SET_ASIDE:
		(void)snprintf(to, room, "Starts from the newest kept state ended %" PRIu32 " times: that state is set aside.", d->used);
		return;
	case DECISION_GROUP:
		(void)snprintf(to, room, "Its group decided: %s.", d->what);
		return;
	case DECISION_NONE:
	case DECISION__N:
		return;
	}
}

void decision_next_text(const struct life *l, const struct life_policy *p, int64_t now_ms, char *to, size_t room)
{
	int64_t left_ms = l->timer_at_ms > now_ms ? l->timer_at_ms - now_ms : 0;
	const char *what = NULL;

	if (room > 0)
		to[0] = '\0';
	switch (l->state) {
	case LIFE_BACKOFF:
		what = "it is started";
		break;
	case LIFE_STARTING:
		what = l->timer_at_ms ? "it is killed unless it is ready" : NULL;
		break;
	case LIFE_STOPPING:
		what = !l->timer_at_ms ? NULL : l->stage == STAGE_ASKED ? "it is killed unless it ends" : "the save is given up unless it is done";
		break;
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
	case LIFE_RUNNING:
	case LIFE_RELOADING:
	case LIFE_FROZEN:
	case LIFE_STOPPED:
	case LIFE_FAILED:
	case LIFE__N:
		break;
	}
	(void)p;
	if (what)
		(void)snprintf(to, room, "in %" PRId64 " ms %s", left_ms, what);
}
