/* SPDX-License-Identifier: MIT
 *
 * The life of a sandbox: every order of requests, facts, timers and restarts of control, until no new state
 * appears, beside a model of the process, the timer, the transaction and the requests; directed cases for
 * each rule; bugs put in that must be found. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDED(bug) 0
#include "daemon/supervise/budget.c"
#undef SEEDED
static int seeded;
#define SEEDED(bug) (seeded == (bug))
#include "daemon/supervise/life.c"
#include "daemon/supervise/life_adopt.c"
#include "daemon/supervise/life_move.c"
#include "daemon/supervise/life_text.c"

#include "tests/support/check_main.h"

#define BUGS 16
#define ENTRIES 4  /* of the budget that can make a difference under the policies below */
#define T0   100000 /* the time that every state of the exploration is shifted to */

/* ---- the model: what the world is like ---- */

enum { NO_PROCESS, ASKED, ALIVE };
enum { NO_TXN, RELOAD, SAVE };

struct model {
	uint8_t process, kill_sent, stop_sent, txn, cancelled, timer, kept, checkpoint, gone, frozen;
	uint8_t waiting; /* enum life_request without its answer */
};

struct world {
	struct life l;
	struct model m;
};

static const struct life_policy policies[] = {
	{ LIFE_PERMANENT, { 2, 100, 60, 60, true }, 200, 200, 200, false },
	{ LIFE_TRANSIENT, { 1, 100, 60, 60, true }, 200, 200, 0, false },
	{ LIFE_TEMPORARY, { 2, 100, 60, 60, true }, 200, 200, 200, false },
	{ LIFE_PERMANENT, { 3, 100, 60, 60, true }, 200, 200, 200, true },
	{ LIFE_PERMANENT, { 2, 100, 60, 60, false }, 200, 200, 200, false },
};

#define MUST(cond, text)                                                                                     \
	do {                                                                                                 \
		if (!(cond))                                                                                 \
			return text;                                                                         \
	} while (0)

static const char *actions_process(struct world *w, const struct life_actions *out)
{
	struct model *m = &w->m;

	if (out->set & LIFE_DO_THAW) {
		MUST(m->frozen, "thawed, and not frozen");
		m->frozen = 0;
	}
	if (out->set & LIFE_DO_FREEZE) {
		MUST(m->process == ALIVE && !m->frozen && m->txn == NO_TXN, "frozen without need, or amid a transaction");
		m->frozen = 1;
	}
	MUST(!m->frozen || !(out->set & (LIFE_DO_ASK_SAVE | LIFE_DO_ASK_STOP)), "one that is frozen is asked for something");
	if (out->set & LIFE_DO_CANCEL_TXN) {
		MUST(m->txn != NO_TXN, "a transaction is cancelled that isn't there");
		m->cancelled = 1;
	}
	if (out->set & LIFE_DO_ASK_SAVE) {
		MUST(m->process == ALIVE && m->txn == NO_TXN,
			"a save while there is no process, or another transaction");
		m->txn = SAVE;
		m->cancelled = 0;
	}
	if (out->set & LIFE_DO_ASK_STOP) {
		MUST(m->process == ALIVE && !m->stop_sent && m->txn == NO_TXN,
			"STOP without need, or amid a transaction");
		m->stop_sent = 1;
	}
	if (out->set & LIFE_DO_KILL) {
		MUST(m->process == ALIVE, "KILL without a process");
		MUST(!m->kill_sent, "KILL twice");
		MUST(out->kill_why != LIFE_KILL_NONE, "KILL without a reason");
		m->kill_sent = 1;
	}
	if (out->set & LIFE_DO_BEGIN_START) {
		MUST(m->process == NO_PROCESS, "a start while a process lives");
		MUST((out->from != LIFE_FROM_FRESH) == m->kept,
			"a start from what isn't there, or not from what is");
		MUST(!m->gone, "a start after the end");
		m->process = ASKED;
		m->frozen = 0;
		m->kill_sent = m->stop_sent = m->txn = 0;
	}
	return NULL;
}

static const char *actions_do(struct world *w, const struct life_actions *out)
{
	struct model *m = &w->m;
	const char *wrong;

	MUST(!(out->set & LIFE_DO_CLEAR_TIMER) || m->timer, "a timer is cleared that isn't armed");
	m->timer = out->set & LIFE_DO_SET_TIMER ? 1 : out->set & LIFE_DO_CLEAR_TIMER ? 0 : m->timer;
	if (out->set & LIFE_DO_DROP_STATE) {
		MUST(m->kept, "a state is dropped that isn't kept");
		m->kept = 0;
	}
	MUST(!(out->set & LIFE_DO_SET_ASIDE) || out->set & LIFE_DO_DROP_STATE, "a state is set aside and stays");
	if (out->set & LIFE_DO_TAKE_OLDER) {
		MUST(out->set & LIFE_DO_SET_ASIDE, "an older state is taken without need");
		m->kept = 1;
	}
	if (out->set & LIFE_DO_SET_CHECKPOINT) {
		MUST(m->kept && !(out->set & (LIFE_DO_TAKE_CHECKPOINT | LIFE_DO_DROP_CHECKPOINT)), "a checkpoint of what isn't kept");
		m->kept = 0;
		m->checkpoint = 1;
	}
	if (out->set & LIFE_DO_TAKE_CHECKPOINT) {
		MUST(m->checkpoint && !m->kept && !(out->set & LIFE_DO_TAKE_OLDER), "a checkpoint is taken that isn't there, or in place of a state");
		m->kept = 1;
		m->checkpoint = 0;
	}
	if (out->set & LIFE_DO_DROP_CHECKPOINT) {
		MUST(m->checkpoint, "a checkpoint is dropped that isn't there");
		m->checkpoint = 0;
	}
	wrong = actions_process(w, out);
	MUST(wrong == NULL, wrong);
	if (out->set & LIFE_DO_ANSWER) {
		MUST(m->waiting == (uint8_t)out->request && out->request != LIFE_NO_REQUEST,
			"an answer that nobody waits for");
		MUST(out->ok == (out->reason == LIFE_REASON_NONE), "an answer that contradicts itself");
		MUST(out->request != LIFE_REQUEST_STOP || !out->ok || out->state_kept == m->kept,
			"whether the state was kept");
		m->waiting = LIFE_NO_REQUEST;
	}
	if (out->set & LIFE_DO_GONE) {
		MUST(m->process == NO_PROCESS && m->waiting == LIFE_NO_REQUEST && !m->kept && !m->checkpoint,
			"gone, and something is left");
		m->gone = 1;
	}
	return NULL;
}

/* What must hold between events. */
static const char *world_check(const struct world *w)
{
	const struct life *l = &w->l;
	const struct model *m = &w->m;
	bool killed = l->killed != LIFE_KILL_NONE;
	bool timer_needed = l->state == LIFE_BACKOFF || (l->state == LIFE_STARTING && !killed) ||
			    (l->state == LIFE_STOPPING && l->stage != STAGE_KILLED &&
				    !(l->stage == STAGE_SAVING && m->cancelled));

	MUST(m->timer == (l->timer_at_ms != 0), "what it thinks of the timer");
	/* a host that was taken over in its load, and is silent, gets a deadline */
	MUST(m->timer == timer_needed || (l->state == LIFE_RELOADING && !killed), "a timer without need, or a wait without one");
	MUST(m->waiting == (uint8_t)l->pending, "what it thinks of the requests");
	MUST(m->kept == l->kept, "what it thinks of the state kept");
	MUST(m->checkpoint == l->checkpoint, "what it thinks of the checkpoint");
	MUST(!m->frozen || l->state == LIFE_FROZEN || m->kill_sent, "frozen, and it is thought to run");
	MUST(l->restore_tries < RESTORE_TRIES, "a state is tried too often");
	MUST(m->gone == l->gone, "what it thinks of the end");
	MUST(m->process == l->process, "what it thinks of the process");
	MUST(m->process != ALIVE || m->kill_sent == killed, "what it thinks of the kill");
	MUST((l->stage != STAGE_NONE) == (l->state == LIFE_STOPPING), "a stage without a stop");
	switch (l->state) {
	case LIFE_RUNNING:
	case LIFE_FROZEN:
		MUST(m->process == ALIVE && m->waiting == LIFE_NO_REQUEST, "running");
		MUST((l->state == LIFE_FROZEN) == m->frozen, "frozen");
		MUST(!l->kept, "running, and an older state is kept");
		break;
	case LIFE_RELOADING:
		MUST(m->process == ALIVE && m->txn == RELOAD && m->waiting == LIFE_NO_REQUEST, "reloading");
		break;
	case LIFE_STARTING:
	case LIFE_STOPPING:
		MUST(m->process != NO_PROCESS, "starting or stopping nothing");
		break;
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
	case LIFE_STOPPED:
	case LIFE_BACKOFF:
	case LIFE_FAILED:
		MUST(m->process == NO_PROCESS && m->waiting == LIFE_NO_REQUEST,
			"down, and something is going on");
		MUST(l->state != LIFE_FAILED || l->reason != LIFE_REASON_NONE, "failed without a reason");
		break;
	case LIFE__N:
		return "no state";
	}
	return NULL;
}

/* Can the world produce this event now? Events that it can't are offered too where they must be nothing. */
static bool possible(const struct world *w, enum life_event_type t)
{
	const struct model *m = &w->m;

	switch (t) {
	case LIFE_BORN:
		return m->process == ASKED;
	case LIFE_BEGIN_FAILED:
		return m->process == ASKED || w->l.state == LIFE_INITIALIZING || w->l.state == LIFE_COMPILING;
	case LIFE_READY:
	case LIFE_HOST_FAILED:
	case LIFE_FOUND_EMPTY:
	case LIFE_EXITED:
		return m->process == ALIVE;
	case LIFE_SAVE_DONE:
	case LIFE_SAVE_FAILED:
		return m->txn == SAVE;
	case LIFE_CHECKPOINTED: /* of one that runs, or was reloading when it was asked to stop */
		return m->process == ALIVE && (w->l.state == LIFE_RUNNING || w->l.state == LIFE_RELOADING || w->l.state == LIFE_STOPPING);
	case LIFE_RELOAD_END:
		return m->txn == RELOAD;
	case LIFE_RELOAD_DIED_SEALED:
		return m->txn == RELOAD && m->process == ALIVE;
	case LIFE_TIMER:
		return m->timer;
	case LIFE_CREATE_START:
	case LIFE_START:
	case LIFE_STOP:
	case LIFE_RESTART:
	case LIFE_DESTROY:
	case LIFE_RESET:
	case LIFE_FREEZE:
	case LIFE_THAW:
	case LIFE_RELOAD_BEGIN:
	case LIFE_HURRY:
	case LIFE_COMPILE_BEGIN:
	case LIFE_COMPILE_END:
	case LIFE_EVENT__N:
		break;
	}
	return true;
}

static void world_sees(struct world *w, const struct life_event *ev)
{
	struct model *m = &w->m;

	switch (ev->type) {
	case LIFE_BORN:
		m->process = ALIVE;
		break;
	case LIFE_BEGIN_FAILED:
		m->process = NO_PROCESS;
		break;
	case LIFE_EXITED:
		m->process = NO_PROCESS;
		m->txn = NO_TXN;
		m->frozen = 0;
		break;
	case LIFE_RELOAD_DIED_SEALED:
		m->process = NO_PROCESS;
		m->txn = NO_TXN;
		m->kept = 1;
		break;
	case LIFE_RELOAD_END:
		m->txn = NO_TXN;
		if (w->l.stage == STAGE_KILLED)
			m->kill_sent = 0; /* a replacement has ended with another process than the one that was killed */
		break;
	case LIFE_SAVE_FAILED:
		m->txn = NO_TXN;
		break;
	case LIFE_SAVE_DONE:
		m->txn = NO_TXN;
		m->kept = 1;
		break;
	case LIFE_CHECKPOINTED:
		m->checkpoint = 1;
		break;
	case LIFE_TIMER:
		m->timer = 0;
		break;
	default: /* the others change nothing in the world by themselves */
		break;
	}
}

static enum life_request request_of(enum life_event_type t)
{
	return t == LIFE_CREATE_START ? LIFE_REQUEST_CREATE
	       : t == LIFE_START      ? LIFE_REQUEST_START
	       : t == LIFE_STOP       ? LIFE_REQUEST_STOP
	       : t == LIFE_RESTART    ? LIFE_REQUEST_RESTART
	       : t == LIFE_DESTROY    ? LIFE_REQUEST_DESTROY
				      : LIFE_NO_REQUEST;
}

/* A process that ran has ended by itself: the rows of OTP.md section 4. */
static const char *restart_check(const struct world *before, const struct world *after,
	const struct life_policy *p, const struct life_event *ev, const struct life_actions *out)
{
	bool clean = ev->exit == LIFE_EXIT_NORMAL || ev->exit == LIFE_EXIT_SHUTDOWN;
	bool restart = p->restart == LIFE_PERMANENT || (p->restart == LIFE_TRANSIENT && !clean);
	bool up = before->l.state == LIFE_RUNNING || before->l.state == LIFE_RELOADING || before->l.state == LIFE_FROZEN;
	bool sealed = ev->type == LIFE_RELOAD_DIED_SEALED || before->l.kept;

	if (!up || (ev->type != LIFE_EXITED && ev->type != LIFE_RELOAD_DIED_SEALED))
		return NULL;
	if (sealed) {
		MUST(out->set & LIFE_DO_BEGIN_START && out->from == LIFE_FROM_SEALED,
			"a sealed state is not used");
		MUST(after->l.budget.n == before->l.budget.n, "a reload's recovery is counted");
		return NULL;
	}
	MUST(((out->set & (LIFE_DO_NOTE_RESTART | LIFE_DO_NOTE_GAVE_UP)) != 0) == restart,
		"restart type and exit class");
	MUST(!(out->set & LIFE_DO_BEGIN_START) || (out->from == LIFE_FROM_KEPT) == (before->l.checkpoint && p->from_checkpoint),
		"the checkpoint is not used, or against the policy");
	MUST(p->from_checkpoint || after->l.checkpoint == before->l.checkpoint, "a crash takes a checkpoint away");
	if (!restart)
		MUST(after->l.state == (clean ? LIFE_STOPPED : LIFE_FAILED), "an end that isn't restarted");
	return NULL;
}

static bool on_the_way(const struct life *l)
{
	return l->state == LIFE_STARTING || l->state == LIFE_BACKOFF || l->state == LIFE_STOPPING;
}

/* On its way up or down nothing that was counted gets older; at any other time it does. */
static const char *window_check(const struct life *before, const struct life *after, const struct life_policy *p, int64_t now_ms)
{
	uint32_t used = budget_view(&after->budget, &p->budget, now_ms).used, had = before->budget.n;

	MUST((after->budget.still_ms != 0) == (p->budget.window_stands && on_the_way(after)), "the window stands, or moves, at the wrong time");
	if (p->budget.window_stands && on_the_way(before) && after->budget.n != 0)
		MUST(used >= had, "a restart has left the window while it wasn't up");
	if (!p->budget.window_stands && before->budget.n > 0 && now_ms > T0 + p->budget.period_ms)
		MUST(used <= 1, "a restart is still in the window that it has left");
	return NULL;
}

static const char *step_check(
	struct world *w, const struct life_policy *p, const struct life_event *ev, bool *ret_taken)
{
	struct world before;
	struct life_actions out;
	enum life_result r;
	enum life_request request = request_of(ev->type);
	bool can = possible(w, ev->type), is_request = ev->type < LIFE_COMPILE_BEGIN;
	const char *wrong;

	memcpy(&before, w, sizeof before);
	if (can)
		world_sees(w, ev);
	if (ev->type == LIFE_READY && ev->mirrored && can)
		w->m.checkpoint = 1;
	r = life_step(&w->l, p, ev, &out);
	*ret_taken = r == LIFE_TAKEN;
	MUST(r != LIFE_REFUSED || is_request, "a fact is refused");
	MUST(r != LIFE_IGNORED || !is_request, "a request is ignored");
	MUST(can || r != LIFE_TAKEN, "what can't have happened is taken");
	MUST(r != LIFE_TAKEN || !before.m.gone, "something is taken after the end");
	if (r != LIFE_TAKEN) {
		MUST(out.set == 0, "not taken, and actions");
		w->m.checkpoint = before.m.checkpoint;
		MUST(!can || (ev->type != LIFE_EXITED && ev->type != LIFE_RELOAD_DIED_SEALED &&
				     ev->type != LIFE_BORN && ev->type != LIFE_TIMER),
			"a birth, an end or a deadline is not taken");
		MUST(!can || ev->type != LIFE_RELOAD_END || before.m.process != ALIVE || w->m.kill_sent == before.m.kill_sent,
			"what a reload has promoted behind a kill lives on");
		w->l.timer_at_ms = before.l.timer_at_ms;
		MUST(memcmp(&w->l, &before.l, sizeof w->l) == 0, "not taken, and something changed");
		return NULL;
	}
	if (ev->type == LIFE_RELOAD_BEGIN) {
		w->m.txn = RELOAD;
		w->m.cancelled = 0;
	}
	if (request != LIFE_NO_REQUEST) {
		if (w->m.waiting !=
			LIFE_NO_REQUEST) { /* overridden: the earlier is answered in this very step */
			MUST(out.set & LIFE_DO_ANSWER && out.request == w->m.waiting && !out.ok &&
					out.reason == LIFE_REASON_CANCELLED,
				"an overridden request is not answered");
			wrong = actions_do(w, &out);
			w->m.waiting = request;
		} else {
			w->m.waiting = request;
			wrong = actions_do(w, &out);
		}
	} else {
		wrong = actions_do(w, &out);
	}
	MUST(wrong == NULL, wrong);
	if (out.set & LIFE_DO_SET_ASIDE) {
		MUST(before.l.kept && before.l.restore_tries == RESTORE_TRIES - 1, "a state is set aside before its time");
		const bool newer = before.l.checkpoint && p->from_checkpoint;

		MUST(!(out.set & LIFE_DO_TAKE_CHECKPOINT) == !newer, "the checkpoint is not tried, or one that isn't there");
		MUST(!(out.set & LIFE_DO_TAKE_OLDER) == !(ev->has_older && !newer), "an older state is not tried, or one that isn't there");
		MUST(!(out.set & LIFE_DO_BEGIN_START) || (out.from == LIFE_FROM_KEPT) == (newer || ev->has_older),
			"what follows a state that is set aside");
	}
	if (before.l.state == LIFE_STOPPING && request == LIFE_NO_REQUEST && (out.set & LIFE_DO_ANSWER) && out.request == LIFE_REQUEST_STOP && out.ok &&
		before.l.keep_wanted && p->from_checkpoint)
		MUST(out.state_kept || !(before.l.kept || before.l.checkpoint), "a stop that was to keep the state has nothing, and there was a checkpoint");
	if (ev->type == LIFE_SAVE_FAILED && before.m.waiting == LIFE_REQUEST_RESTART)
		MUST(w->l.state == LIFE_RUNNING && out.reason == LIFE_REASON_SAVE_FAILED,
			"a cold restart that nobody asked for");
	MUST(!is_request || w->l.budget.n <= before.l.budget.n, "a request is counted");
	wrong = restart_check(&before, w, p, ev, &out);
	MUST(wrong == NULL, wrong);
	wrong = window_check(&before.l, &w->l, p, ev->now_ms);
	MUST(wrong == NULL, wrong);
	return world_check(w);
}

/* Control dies and its successor finds `found`. */
static const char *adopt_check(
	struct world *w, const struct life_policy *p, const struct life_finding *f, int64_t now_ms)
{
	struct life_actions out;
	bool alive = f->found != LIFE_FOUND_NONE && f->found != LIFE_FOUND_EXITED;
	bool wanted = w->l.state == LIFE_RUNNING && !w->l.creating;
	const char *wrong;

	memset(&w->m, 0, sizeof w->m);
	w->m.process = alive ? ALIVE : NO_PROCESS;
	w->m.kept = f->has_state;
	w->m.checkpoint = f->has_checkpoint;
	w->m.frozen = alive && f->frozen;
	life_adopt(&w->l, p, f, now_ms, &out);
	if (w->l.state == LIFE_RELOADING || (w->l.state == LIFE_STOPPING && w->l.stage == STAGE_CANCELLING))
		w->m.txn = RELOAD; /* the engine's undoing or completing, by txn_take_over */
	MUST(!(out.set & LIFE_DO_ANSWER), "an answer after a take-over");
	wrong = actions_do(w, &out);
	MUST(wrong == NULL, wrong);
	if (wanted && alive && f->found == LIFE_FOUND_SERVING)
		MUST(w->l.state == LIFE_RUNNING && !(out.set & (LIFE_DO_KILL | LIFE_DO_ASK_STOP)),
			"a host that serves is lost");
	return world_check(w);
}

/* ---- the states seen; times are shifted, so that the same situation is the same state ---- */

#define SLOTS (1u << 20)

struct key {
	unsigned char life[offsetof(struct life, budget) + offsetof(struct budget, at_ms) +
			   ENTRIES * sizeof(int64_t)];
	struct model m;
};

struct seen {
	struct key *keys;
	uint32_t *slots; /* index + 1 */
	uint32_t n;
};

static void world_shift(struct world *w, const struct life_policy *p, int64_t now_ms)
{
	struct life *l = &w->l;
	int64_t by_ms = T0 - now_ms;
	uint32_t i;

	if (l->budget.still_ms != 0) { /* since when is of no consequence */
		budget_go_on(&l->budget, now_ms);
		budget_stand(&l->budget, now_ms);
	}
	budget_drop_oldest(&l->budget, budget_expired(&l->budget, &p->budget, now_ms));
	if (l->budget.n > ENTRIES)
		budget_drop_oldest(&l->budget, l->budget.n - ENTRIES);
	if (l->budget.still_ms != 0)
		l->budget.still_ms = T0;
	for (i = 0; i < BUDGET_INTENSITY_MAX + 1; i++)
		l->budget.at_ms[i] = i < l->budget.n ? l->budget.at_ms[i] + by_ms : 0;
	if (l->budget.streak > 2)
		l->budget.streak = 2; /* the back-off has its largest value by then */
	if (l->timer_at_ms != 0)
		l->timer_at_ms += by_ms;
	if (l->ready_ms != 0)
		l->ready_ms = now_ms - l->ready_ms > p->budget.period_ms ? T0 - p->budget.period_ms - 1
									 : l->ready_ms + by_ms;
	if (w->m.process == NO_PROCESS)
		l->ready_ms = 0; /* of no consequence any more */
	/* The rest decides nothing, it is only told. */
	l->restarts = 0;
	l->last_exit = LIFE_EXIT_NORMAL;
	l->gave_up_reason = LIFE_REASON_NONE;
	if (l->killed != LIFE_KILL_NONE)
		l->killed = w->m.process == NO_PROCESS ? LIFE_KILL_NONE : LIFE_KILL_CANCELLED;
	if (l->state != LIFE_STARTING)
		l->from = LIFE_FROM_FRESH;
	if (l->state == LIFE_STOPPING)
		l->reason = LIFE_REASON_NONE;
	if (w->m.txn == NO_TXN)
		w->m.cancelled = 0;
	if (w->m.process == NO_PROCESS)
		w->m.kill_sent = w->m.stop_sent = 0;
}

static void seen_add(struct seen *s, struct world *w, const struct life_policy *p, int64_t now_ms)
{
	uint32_t h = 2166136261u, i;
	struct key k;

	world_shift(w, p, now_ms);
	memset(&k, 0, sizeof k);
	memcpy(k.life, &w->l, sizeof k.life);
	k.m = w->m;
	for (i = 0; i < sizeof k; i++)
		h = (h ^ ((const unsigned char *)&k)[i]) * 16777619u;
	for (i = (h ^ h >> 15) % SLOTS; s->slots[i] != 0; i = (i + 1) % SLOTS)
		if (memcmp(&s->keys[s->slots[i] - 1], &k, sizeof k) == 0)
			return;
	ck_assert_uint_lt(s->n, SLOTS / 2);
	memcpy(&s->keys[s->n++], &k, sizeof k);
	s->slots[i] = s->n;
}

static void seen_get(const struct seen *s, uint32_t i, struct world *w)
{
	memset(w, 0, sizeof *w);
	memcpy(&w->l, s->keys[i].life, sizeof s->keys[i].life);
	w->m = s->keys[i].m;
}

/* From any state, DESTROY and a world that answers lead to GONE. */
static const char *destroy_ends(struct world w, const struct life_policy *p)
{
	struct life_event ev = { .type = LIFE_DESTROY, .now_ms = T0, .exit = LIFE_EXIT_ERROR };
	const char *wrong;
	bool taken;
	int i;

	for (i = 0; i < 20 && !w.m.gone; i++) {
		wrong = step_check(&w, p, &ev, &taken);
		MUST(wrong == NULL, wrong);
		if (w.m.process == ASKED)
			ev.type = LIFE_BORN;
		else if (w.m.kill_sent && w.m.process == ALIVE)
			ev.type = LIFE_EXITED;
		else if (w.m.txn != NO_TXN && w.m.cancelled)
			ev.type = w.m.txn == SAVE ? LIFE_SAVE_FAILED : LIFE_RELOAD_END;
		else
			ev.type = LIFE_TIMER;
	}
	MUST(w.m.gone, "DESTROY doesn't come to its end");
	return NULL;
}

/* One policy that makes nothing of them, and the one that does: else there would be as many states again. */
static bool checkpoints_matter(const struct life_policy *p)
{
	return p == &policies[1] || p->from_checkpoint;
}

static const char *offer(struct seen *s, const struct world *from, const struct life_policy *p,
	enum life_event_type t, int variant, unsigned long *ret_steps)
{
	struct life_event ev = { .type = t, .now_ms = T0, .keep_state = variant & 1 };
	struct world w;
	const char *wrong;
	bool taken;

	if (variant & 1 && t != LIFE_START && t != LIFE_STOP && t != LIFE_RESTART && t != LIFE_EXITED &&
		t != LIFE_RELOAD_DIED_SEALED && t != LIFE_READY)
		return NULL; /* neither keep_state nor exit means anything to it */
	if (t == LIFE_CHECKPOINTED && !checkpoints_matter(p))
		return NULL;
	ev.mirrored = t == LIFE_READY && variant & 1;
	if (ev.mirrored && !p->from_checkpoint)
		return NULL;
	ev.has_older = variant & 4;
	ev.exit = variant & 1 ? LIFE_EXIT_NORMAL : from->m.kill_sent ? LIFE_EXIT_KILLED : LIFE_EXIT_ERROR;
	if (t == LIFE_TIMER && from->m.timer)
		ev.now_ms = from->l.timer_at_ms;
	if (variant & 2) /* later, where no deadline comes first */
		ev.now_ms += p->budget.period_ms + 1;
	/* SAVE_DONE and the like from an engine without such a transaction would be a bug of the engine's */
	if (!possible(from, t) && (t == LIFE_SAVE_DONE || t == LIFE_SAVE_FAILED || t == LIFE_RELOAD_END ||
					  t == LIFE_RELOAD_DIED_SEALED || t == LIFE_CHECKPOINTED))
		return NULL;
	memcpy(&w, from, sizeof w);
	wrong = step_check(&w, p, &ev, &taken);
	++*ret_steps;
	MUST(wrong == NULL, wrong);
	if (!taken)
		return NULL;
	seen_add(s, &w, p, ev.now_ms);
	return NULL;
}

static const char *offer_adopt(struct seen *s, const struct world *from, const struct life_policy *p,
	enum life_found found, int variant, unsigned long *ret_steps)
{
	struct life_finding f = { .found = found,
		.exit = variant & 1 ? LIFE_EXIT_NORMAL : LIFE_EXIT_ERROR,
		.has_state = variant & 2,
		.frozen = variant & 4,
		.has_older = variant & 8,
		.has_checkpoint = variant & 16,
		.mirrored = (variant & 16) && (variant & 8),
		.started_ms = T0 - 50 };
	struct world w;
	const char *wrong;

	if (from->m.gone || (f.has_checkpoint && !checkpoints_matter(p)))
		return NULL;
	memcpy(&w, from, sizeof w);
	wrong = adopt_check(&w, p, &f, T0);
	++*ret_steps;
	MUST(wrong == NULL, wrong);
	seen_add(s, &w, p, T0);
	return NULL;
}

static const char *explore_world(
	struct seen *s, const struct world *from, const struct life_policy *p, unsigned long *ret_steps)
{
	const char *wrong = NULL;
	int t, variant;

	for (t = 0; t < LIFE_EVENT__N && wrong == NULL; t++)
		for (variant = 0; variant < (from->m.timer ? 2 : 4) && wrong == NULL; variant++)
			wrong = offer(s, from, p, (enum life_event_type)t, variant, ret_steps);
	for (variant = 4; variant < (from->m.timer ? 6 : 8) && wrong == NULL; variant++) /* the one event that an older state means anything to */
		wrong = offer(s, from, p, LIFE_EXITED, variant, ret_steps);
	for (t = 0; t < LIFE_FOUND__N && wrong == NULL; t++)
		for (variant = 0; variant < 32 && wrong == NULL; variant += t == LIFE_FOUND_EXITED ? 1 : 2)
			wrong = offer_adopt(s, from, p, (enum life_found)t, variant, ret_steps);
	return wrong != NULL || from->m.gone ? wrong : destroy_ends(*from, p);
}

static const char *explore(const struct life_policy *p, bool print)
{
	struct seen s = { .keys = calloc(SLOTS / 2, sizeof(struct key)),
		.slots = calloc(SLOTS, sizeof(uint32_t)) };
	struct world w;
	unsigned long steps = 0;
	uint32_t i, by_state[LIFE__N] = { 0 };
	const char *wrong = NULL;

	ck_assert(s.keys != NULL && s.slots != NULL);
	memset(&w, 0, sizeof w);
	life_init(&w.l);
	seen_add(&s, &w, p, T0);
	for (i = 0; i < s.n && wrong == NULL; i++) {
		seen_get(&s, i, &w);
		by_state[w.l.state]++;
		wrong = explore_world(&s, &w, p, &steps);
	}
	if (print)
		printf("life, %s: %u states, %lu steps (running %u, stopping %u, starting %u, backoff %u, "
		       "failed %u)\n",
			life_restart_text(p->restart), s.n, steps, by_state[LIFE_RUNNING],
			by_state[LIFE_STOPPING], by_state[LIFE_STARTING], by_state[LIFE_BACKOFF],
			by_state[LIFE_FAILED]);
	if (wrong != NULL && print)
		printf("life, %s: in %s, stage %u: %s\n", life_restart_text(p->restart),
			life_state_text(w.l.state), (unsigned)w.l.stage, wrong);
	free(s.keys);
	free(s.slots);
	return wrong;
}

START_TEST(every_order_of_events)
{
	const char *wrong = explore(&policies[_i], true);

	ck_assert_msg(wrong == NULL, "%s", wrong);
}
END_TEST

START_TEST(seeded_bugs_are_found)
{
	const char *wrong;
	size_t i;

	for (seeded = 1; seeded <= BUGS; seeded++) {
		for (wrong = NULL, i = 0; i < sizeof policies / sizeof policies[0] && wrong == NULL; i++)
			wrong = explore(&policies[i], false);
		ck_assert_msg(wrong != NULL, "bug %d is not found", seeded);
		printf("life, bug %d: %s\n", seeded, wrong);
	}
	seeded = 0;
}
END_TEST

/* ---- directed ---- */

struct run {
	struct life l;
	struct life_policy p;
	struct life_actions out;
	int64_t now_ms;
};

static enum life_result run_try(struct run *r, enum life_event_type t, bool keep, enum life_exit exit)
{
	struct life_event ev = { .type = t, .now_ms = r->now_ms, .keep_state = keep, .exit = exit };

	return life_step(&r->l, &r->p, &ev, &r->out);
}

static void run_do(struct run *r, enum life_event_type t, bool keep, uint32_t want, enum life_state state)
{
	ck_assert_msg(run_try(r, t, keep, LIFE_EXIT_ERROR) == LIFE_TAKEN, "%s is not taken in %s",
		life_event_text(t), life_state_text(r->l.state));
	ck_assert_msg(r->out.set == want, "%s: actions 0x%x, not 0x%x", life_event_text(t), r->out.set, want);
	ck_assert_msg(r->l.state == state, "%s: now %s", life_event_text(t), life_state_text(r->l.state));
}

#define STARTS     (LIFE_DO_BEGIN_START | LIFE_DO_SET_TIMER)
#define READY_DOES (LIFE_DO_CLEAR_TIMER | LIFE_DO_NOTE_STARTED)

static void run_begin(struct run *r, enum life_restart restart)
{
	r->p = life_policy_default();
	r->p.restart = restart;
	r->now_ms = 1000;
	life_init(&r->l);
	run_do(r, LIFE_CREATE_START, false, STARTS, LIFE_STARTING);
	run_do(r, LIFE_BORN, false, 0, LIFE_STARTING);
	run_do(r, LIFE_READY, false, READY_DOES | LIFE_DO_ANSWER, LIFE_RUNNING);
	ck_assert(r->out.ok && r->out.request == LIFE_REQUEST_CREATE);
}

static void run_up_again(struct run *r)
{
	run_do(r, LIFE_BORN, false, 0, LIFE_STARTING);
	run_do(r, LIFE_READY, false, READY_DOES, LIFE_RUNNING);
}

static void expect_answer(const struct run *r, enum life_request request, bool ok, enum life_reason reason)
{
	ck_assert(r->out.set & LIFE_DO_ANSWER);
	ck_assert_int_eq(r->out.request, request);
	ck_assert_int_eq(r->out.ok, ok);
	ck_assert_int_eq(r->out.reason, reason);
}

START_TEST(a_create_that_fails_is_gone)
{
	struct run r = { .p = life_policy_default(), .now_ms = 1 };

	life_init(&r.l);
	ck_assert(life_takes_calls(&r.l)); /* right behind the create */
	run_do(&r, LIFE_COMPILE_BEGIN, false, 0, LIFE_COMPILING);
	ck_assert(life_takes_calls(&r.l));
	run_do(&r, LIFE_COMPILE_END, false, 0, LIFE_INITIALIZING);
	run_do(&r, LIFE_CREATE_START, false, STARTS, LIFE_STARTING);
	ck_assert(life_takes_calls(&r.l));
	ck_assert_uint_eq(r.out.timer_ms, 10000);
	ck_assert_int_eq(run_try(&r, LIFE_STOP, true, 0), LIFE_REFUSED);
	run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
	run_do(&r, LIFE_HOST_FAILED, false, 0, LIFE_STARTING);
	run_do(&r, LIFE_EXITED, false, LIFE_DO_CLEAR_TIMER | LIFE_DO_ANSWER | LIFE_DO_GONE, LIFE_FAILED);
	expect_answer(&r, LIFE_REQUEST_CREATE, false, LIFE_REASON_HOST_FAILED);
	ck_assert(!life_takes_calls(&r.l));
	ck_assert_int_eq(run_try(&r, LIFE_START, true, 0), LIFE_REFUSED);
	ck_assert_int_eq(run_try(&r, LIFE_TIMER, true, 0), LIFE_IGNORED);
}
END_TEST

START_TEST(a_slow_start_is_killed_and_failed_only_when_it_has_ended)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_STOP, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_EXITED, false, LIFE_DO_CLEAR_TIMER | LIFE_DO_ANSWER | LIFE_DO_NOTE_CRASHED,
		LIFE_STOPPED);
	run_do(&r, LIFE_START, false, STARTS, LIFE_STARTING);
	run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
	r.now_ms += 10000;
	run_do(&r, LIFE_TIMER, false, LIFE_DO_KILL, LIFE_STARTING);
	ck_assert_int_eq(r.out.kill_why, LIFE_KILL_START_TIMEOUT);
	ck_assert_int_eq(run_try(&r, LIFE_READY, false, 0), LIFE_IGNORED); /* too late: it is being killed */
	run_do(&r, LIFE_EXITED, false, LIFE_DO_ANSWER, LIFE_FAILED);
	expect_answer(&r, LIFE_REQUEST_START, false, LIFE_REASON_START_TIMEOUT);
	ck_assert_int_eq(r.l.reason, LIFE_REASON_START_TIMEOUT);
	ck_assert_uint_eq(r.l.budget.n, 0); /* requests are not counted */
}
END_TEST

START_TEST(a_start_that_is_not_born_yet_is_killed_at_birth)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	run_do(&r, LIFE_STOP, true, LIFE_DO_CLEAR_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_BORN, false, LIFE_DO_KILL, LIFE_STOPPING);
	ck_assert_int_eq(r.out.kill_why, LIFE_KILL_CANCELLED);
	ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_KILLED), LIFE_TAKEN);
	expect_answer(&r, LIFE_REQUEST_STOP, true, LIFE_REASON_NONE);
	ck_assert(!r.out.state_kept && r.l.state == LIFE_STOPPED);
}
END_TEST

START_TEST(crashes_are_restarted_with_back_off_until_the_budget_ends)
{
	static const uint32_t want_ms[] = { 0, 100, 200, 400, 800 };
	struct run r;
	int i;

	run_begin(&r, LIFE_PERMANENT);
	for (i = 0; i < 5; i++) {
		ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, i % 2 ? LIFE_EXIT_NORMAL : LIFE_EXIT_ERROR),
			LIFE_TAKEN);
		ck_assert(r.out.set & LIFE_DO_NOTE_RESTART);
		ck_assert_uint_eq(r.out.delay_ms, want_ms[i]);
		if (want_ms[i] > 0) {
			ck_assert_int_eq(r.l.state, LIFE_BACKOFF);
			ck_assert_uint_eq(r.out.timer_ms, want_ms[i]);
			r.now_ms += want_ms[i];
			run_do(&r, LIFE_TIMER, false, STARTS, LIFE_STARTING);
		}
		ck_assert_int_eq(r.l.from, LIFE_FROM_FRESH);
		run_up_again(&r);
	}
	run_do(&r, LIFE_EXITED, false, LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_GAVE_UP, LIFE_FAILED);
	ck_assert_int_eq(r.l.reason, LIFE_REASON_GAVE_UP);
	ck_assert_int_eq(r.l.gave_up_reason, LIFE_REASON_CRASHED);
	ck_assert_uint_eq(r.l.restarts, 5);
	run_do(&r, LIFE_RESET, false, 0, LIFE_STOPPED);
	ck_assert_uint_eq(budget_view(&r.l.budget, &r.p.budget, r.now_ms).used, 0);
	run_do(&r, LIFE_START, false, STARTS, LIFE_STARTING);
}
END_TEST

START_TEST(a_stable_uptime_makes_the_next_restart_immediate)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	run_up_again(&r);
	r.now_ms += 59999;
	run_do(&r, LIFE_EXITED, false, LIFE_DO_SET_TIMER | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART,
		LIFE_BACKOFF);
	run_do(&r, LIFE_TIMER, false, STARTS, LIFE_STARTING);
	run_up_again(&r);
	r.now_ms += 60000;
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
}
END_TEST

START_TEST(a_failed_start_by_policy_is_counted_too)
{
	struct run r;
	int i;

	run_begin(&r, LIFE_TRANSIENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	for (i = 1; i < 5; i++) {
		if (i % 2) {
			run_do(&r, LIFE_BEGIN_FAILED, false,
				LIFE_DO_SET_TIMER | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART,
				LIFE_BACKOFF);
		} else { /* an exit with status 0 before ready is a failed start, not a clean end */
			run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
			ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_NORMAL), LIFE_TAKEN);
			ck_assert_int_eq(r.out.reason, LIFE_REASON_EXITED_EARLY);
			ck_assert_int_eq(r.l.state, LIFE_BACKOFF);
		}
		run_do(&r, LIFE_TIMER, false, STARTS, LIFE_STARTING);
	}
	run_do(&r, LIFE_BEGIN_FAILED, false,
		LIFE_DO_CLEAR_TIMER | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_GAVE_UP, LIFE_FAILED);
	ck_assert_int_eq(r.l.gave_up_reason, LIFE_REASON_BEGIN_FAILED);
}
END_TEST

/* Another try would end likewise: no budget is charged, nothing is waited for, and a request starts it again. */
START_TEST(a_hopeless_start_fails_at_once)
{
	struct life_event ev = { .type = LIFE_BEGIN_FAILED, .hopeless = true };
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	ev.now_ms = r.now_ms;
	ck_assert_int_eq(life_step(&r.l, &r.p, &ev, &r.out), LIFE_TAKEN);
	ck_assert_uint_eq(r.out.set, LIFE_DO_CLEAR_TIMER);
	ck_assert_int_eq(r.l.state, LIFE_FAILED);
	ck_assert_int_eq(r.l.reason, LIFE_REASON_BEGIN_FAILED);
	ck_assert_uint_eq(r.l.restarts, 1);
	run_do(&r, LIFE_START, false, STARTS, LIFE_STARTING);
	ev.now_ms = r.now_ms;
	ck_assert_int_eq(life_step(&r.l, &r.p, &ev, &r.out), LIFE_TAKEN);
	expect_answer(&r, LIFE_REQUEST_START, false, LIFE_REASON_BEGIN_FAILED);
	ck_assert_int_eq(r.l.state, LIFE_FAILED);
}
END_TEST

/* Each start takes longer than the whole window; then it ends at once, or fails, or the back-off alone takes that long. */
START_TEST(a_slow_start_is_no_time_that_it_was_well_for)
{
	static const enum { ENDS, FAILS, WAITS } kinds[] = { ENDS, FAILS, WAITS };

	for (int stands = 0; stands <= 1; stands++)
		for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
			struct run r;
			int ends = 0;

			run_begin(&r, LIFE_PERMANENT);
			r.p.budget = (struct budget_policy){ 2, 300, kinds[k] == WAITS ? 400 : 0, 400, stands };
			for (; ends < 20 && r.l.state != LIFE_FAILED; ends++) {
				ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_ERROR), LIFE_TAKEN);
				if (r.l.state == LIFE_BACKOFF) {
					r.now_ms = r.l.timer_at_ms;
					run_do(&r, LIFE_TIMER, false, STARTS, LIFE_STARTING);
				}
				if (r.l.state == LIFE_FAILED)
					break;
				run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
				if (kinds[k] == WAITS)
					run_do(&r, LIFE_READY, false, READY_DOES, LIFE_RUNNING);
				else
					r.now_ms += 400;
				if (kinds[k] == ENDS)
					run_do(&r, LIFE_READY, false, READY_DOES, LIFE_RUNNING);
			}
			ck_assert_int_eq(ends, stands ? 2 : 20);
			if (stands)
				ck_assert_uint_eq(budget_view(&r.l.budget, &r.p.budget, r.now_ms).used, 3);
		}
}
END_TEST

/* Up, it ages: what was counted before a start is as old after it as it was. */
START_TEST(the_window_goes_on_where_it_stood)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	r.now_ms += 5000;
	ck_assert_int_eq(budget_view(&r.l.budget, &r.p.budget, r.now_ms).frees_ms, 60001);
	run_up_again(&r);
	r.now_ms += 20000;
	ck_assert_int_eq(budget_view(&r.l.budget, &r.p.budget, r.now_ms).frees_ms, 40001);
	run_do(&r, LIFE_STOP, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	r.now_ms += 1000;
	ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_SHUTDOWN), LIFE_TAKEN);
	ck_assert_int_eq(r.l.state, LIFE_STOPPED);
	r.now_ms += 40000;
	ck_assert_uint_eq(budget_view(&r.l.budget, &r.p.budget, r.now_ms).used, 1);
	r.now_ms += 1;
	ck_assert_uint_eq(budget_view(&r.l.budget, &r.p.budget, r.now_ms).used, 0);
}
END_TEST

START_TEST(restart_types_and_exit_classes)
{
	static const struct {
		enum life_restart restart;
		enum life_exit exit;
		enum life_state want;
	} rows[] = {
		{ LIFE_PERMANENT, LIFE_EXIT_NORMAL, LIFE_STARTING },
		{ LIFE_PERMANENT, LIFE_EXIT_SHUTDOWN, LIFE_STARTING },
		{ LIFE_PERMANENT, LIFE_EXIT_ERROR, LIFE_STARTING },
		{ LIFE_PERMANENT, LIFE_EXIT_KILLED, LIFE_STARTING },
		{ LIFE_TRANSIENT, LIFE_EXIT_NORMAL, LIFE_STOPPED },
		{ LIFE_TRANSIENT, LIFE_EXIT_SHUTDOWN, LIFE_STOPPED },
		{ LIFE_TRANSIENT, LIFE_EXIT_ERROR, LIFE_STARTING },
		{ LIFE_TRANSIENT, LIFE_EXIT_KILLED, LIFE_STARTING },
		{ LIFE_TEMPORARY, LIFE_EXIT_NORMAL, LIFE_STOPPED },
		{ LIFE_TEMPORARY, LIFE_EXIT_SHUTDOWN, LIFE_STOPPED },
		{ LIFE_TEMPORARY, LIFE_EXIT_ERROR, LIFE_FAILED },
		{ LIFE_TEMPORARY, LIFE_EXIT_KILLED, LIFE_FAILED },
	};
	size_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct run r;

		run_begin(&r, rows[i].restart);
		ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, rows[i].exit), LIFE_TAKEN);
		ck_assert_int_eq(r.l.state, rows[i].want);
		ck_assert_int_eq(r.l.budget.n, rows[i].want == LIFE_STARTING);
		ck_assert_int_eq(r.l.last_exit, rows[i].exit);
	}
}
END_TEST

START_TEST(a_stop_saves_asks_and_kills_at_the_deadline)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_STOP, true, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	ck_assert_uint_eq(r.out.timer_ms, r.p.save_ms);
	run_do(&r, LIFE_SAVE_DONE, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	ck_assert_uint_eq(r.out.timer_ms, 5000);
	run_do(&r, LIFE_TIMER, false, LIFE_DO_KILL, LIFE_STOPPING);
	ck_assert_int_eq(r.out.kill_why, LIFE_KILL_SHUTDOWN_DEADLINE);
	ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_KILLED), LIFE_TAKEN);
	expect_answer(&r, LIFE_REQUEST_STOP, true, LIFE_REASON_NONE);
	ck_assert(r.out.state_kept && r.l.state == LIFE_STOPPED);
	run_do(&r, LIFE_START, true, STARTS, LIFE_STARTING);
	ck_assert_int_eq(r.out.from, LIFE_FROM_KEPT);
	run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
	run_do(&r, LIFE_READY, false, READY_DOES | LIFE_DO_DROP_STATE | LIFE_DO_ANSWER, LIFE_RUNNING);
	ck_assert_int_eq(r.out.from, LIFE_FROM_KEPT);
}
END_TEST

START_TEST(a_stop_whose_save_fails_goes_on_and_says_so)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_STOP, true, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_TIMER, false, LIFE_DO_CANCEL_TXN, LIFE_STOPPING);
	run_do(&r, LIFE_SAVE_FAILED, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_SHUTDOWN), LIFE_TAKEN);
	expect_answer(&r, LIFE_REQUEST_STOP, true, LIFE_REASON_NONE);
	ck_assert(!r.out.state_kept);
}
END_TEST

START_TEST(a_restart_keeps_the_state_or_leaves_all_as_it_was)
{
	struct run r;

	run_begin(&r, LIFE_TEMPORARY);
	run_do(&r, LIFE_RESTART, true, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	ck_assert(life_takes_calls(&r.l));
	run_do(&r, LIFE_SAVE_FAILED, false, LIFE_DO_CLEAR_TIMER | LIFE_DO_ANSWER, LIFE_RUNNING);
	expect_answer(&r, LIFE_REQUEST_RESTART, false, LIFE_REASON_SAVE_FAILED);
	run_do(&r, LIFE_RESTART, true, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_SAVE_DONE, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_SHUTDOWN), LIFE_TAKEN);
	ck_assert_uint_eq(r.out.set, STARTS);
	ck_assert_int_eq(r.out.from, LIFE_FROM_KEPT);
	run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
	run_do(&r, LIFE_HOST_FAILED, false, 0, LIFE_STARTING);
	run_do(&r, LIFE_EXITED, false, LIFE_DO_CLEAR_TIMER | LIFE_DO_ANSWER, LIFE_FAILED);
	expect_answer(&r, LIFE_REQUEST_RESTART, false, LIFE_REASON_HOST_FAILED);
	ck_assert(r.l.kept); /* the state is not lost: it may be tried again, or dropped */
	run_do(&r, LIFE_START, false, STARTS | LIFE_DO_DROP_STATE, LIFE_STARTING);
	ck_assert_int_eq(r.out.from, LIFE_FROM_FRESH);
}
END_TEST

START_TEST(later_requests_override)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_RESTART, true, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	ck_assert_int_eq(run_try(&r, LIFE_START, true, 0), LIFE_REFUSED);
	ck_assert_int_eq(run_try(&r, LIFE_RELOAD_BEGIN, true, 0), LIFE_REFUSED);
	run_do(&r, LIFE_STOP, true, LIFE_DO_ANSWER, LIFE_STOPPING);
	expect_answer(&r, LIFE_REQUEST_RESTART, false, LIFE_REASON_CANCELLED);
	ck_assert_int_eq(run_try(&r, LIFE_STOP, true, 0), LIFE_REFUSED);
	run_do(&r, LIFE_SAVE_DONE, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_DESTROY, false, LIFE_DO_ANSWER | LIFE_DO_DROP_STATE, LIFE_STOPPING);
	expect_answer(&r, LIFE_REQUEST_STOP, false, LIFE_REASON_CANCELLED);
	ck_assert_int_eq(run_try(&r, LIFE_DESTROY, true, 0), LIFE_REFUSED);
	run_do(&r, LIFE_HURRY, false, LIFE_DO_CLEAR_TIMER | LIFE_DO_KILL, LIFE_STOPPING);
	ck_assert_int_eq(run_try(&r, LIFE_EXITED, false, LIFE_EXIT_KILLED), LIFE_TAKEN);
	ck_assert_uint_eq(r.out.set, LIFE_DO_ANSWER | LIFE_DO_GONE);
	expect_answer(&r, LIFE_REQUEST_DESTROY, true, LIFE_REASON_NONE);
}
END_TEST

START_TEST(a_stop_cancels_back_off)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	run_up_again(&r);
	run_do(&r, LIFE_EXITED, false, LIFE_DO_SET_TIMER | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART,
		LIFE_BACKOFF);
	run_do(&r, LIFE_STOP, true, LIFE_DO_CLEAR_TIMER | LIFE_DO_ANSWER, LIFE_STOPPED);
	expect_answer(&r, LIFE_REQUEST_STOP, true, LIFE_REASON_NONE);
	ck_assert_int_eq(run_try(&r, LIFE_TIMER, false, 0), LIFE_IGNORED);
}
END_TEST

START_TEST(reload_recovery_is_not_counted)
{
	struct run r;

	run_begin(&r, LIFE_TEMPORARY);
	run_do(&r, LIFE_RELOAD_BEGIN, false, 0, LIFE_RELOADING);
	ck_assert_int_eq(run_try(&r, LIFE_RELOAD_BEGIN, false, 0), LIFE_REFUSED);
	run_do(&r, LIFE_RELOAD_DIED_SEALED, false, STARTS | LIFE_DO_NOTE_CRASHED, LIFE_STARTING);
	ck_assert_int_eq(r.out.from, LIFE_FROM_SEALED);
	ck_assert_uint_eq(r.l.budget.n, 0);
	run_do(&r, LIFE_BORN, false, 0, LIFE_STARTING);
	run_do(&r, LIFE_READY, false, READY_DOES | LIFE_DO_DROP_STATE, LIFE_RUNNING);
	run_do(&r, LIFE_RELOAD_BEGIN, false, 0, LIFE_RELOADING);
	run_do(&r, LIFE_RELOAD_END, false, 0, LIFE_RUNNING);
	run_do(&r, LIFE_RELOAD_BEGIN, false, 0, LIFE_RELOADING);
	run_do(&r, LIFE_STOP, true, LIFE_DO_CANCEL_TXN | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_RELOAD_END, false, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_SAVE_DONE, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
}
END_TEST

START_TEST(a_stop_amid_a_reload_that_dies_sealed_keeps_the_state)
{
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_RELOAD_BEGIN, false, 0, LIFE_RELOADING);
	run_do(&r, LIFE_STOP, true, LIFE_DO_CANCEL_TXN | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	run_do(&r, LIFE_TIMER, false, LIFE_DO_KILL, LIFE_STOPPING);
	run_do(&r, LIFE_RELOAD_DIED_SEALED, false, LIFE_DO_ANSWER, LIFE_STOPPED);
	ck_assert(r.out.ok && r.out.state_kept);
}
END_TEST

/* ---- take-over ---- */

struct adopt_row {
	enum life_state was;
	enum life_found found;
	bool has_state;
	enum life_state want;
	uint32_t set;
};

START_TEST(take_over_rows)
{
	static const struct adopt_row rows[] = {
		{ LIFE_RUNNING, LIFE_FOUND_SERVING, false, LIFE_RUNNING, 0 },
		{ LIFE_RUNNING, LIFE_FOUND_SILENT, false, LIFE_RUNNING, 0 }, /* busy in a long handler */
		{ LIFE_RUNNING, LIFE_FOUND_SERVING, true, LIFE_RUNNING, LIFE_DO_DROP_STATE },
		{ LIFE_RUNNING, LIFE_FOUND_EXITED, false, LIFE_STARTING,
			STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART },
		{ LIFE_RUNNING, LIFE_FOUND_NONE, false, LIFE_STARTING,
			STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART },
		{ LIFE_RUNNING, LIFE_FOUND_IN_RELOAD, true, LIFE_RELOADING, 0 },
		{ LIFE_RUNNING, LIFE_FOUND_NOT_STARTED, false, LIFE_RUNNING, LIFE_DO_KILL },
		{ LIFE_RELOADING, LIFE_FOUND_SERVING, true, LIFE_RUNNING, LIFE_DO_DROP_STATE },
		{ LIFE_RELOADING, LIFE_FOUND_IN_RELOAD, true, LIFE_RELOADING, 0 },
		{ LIFE_RELOADING, LIFE_FOUND_EXITED, true, LIFE_STARTING, STARTS | LIFE_DO_NOTE_CRASHED },
		{ LIFE_RELOADING, LIFE_FOUND_EXITED, false, LIFE_STARTING,
			STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART },
		{ LIFE_STARTING, LIFE_FOUND_SERVING, true, LIFE_RUNNING,
			LIFE_DO_DROP_STATE | LIFE_DO_NOTE_STARTED },
		{ LIFE_STARTING, LIFE_FOUND_SILENT, false, LIFE_STARTING, LIFE_DO_SET_TIMER },
		{ LIFE_STARTING, LIFE_FOUND_NOT_STARTED, true, LIFE_STARTING, LIFE_DO_KILL },
		{ LIFE_STARTING, LIFE_FOUND_NONE, true, LIFE_STARTING, STARTS },
		{ LIFE_STARTING, LIFE_FOUND_EXITED, false, LIFE_STARTING,
			STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART },
		{ LIFE_BACKOFF, LIFE_FOUND_NONE, false, LIFE_STARTING, STARTS },
		{ LIFE_BACKOFF, LIFE_FOUND_SERVING, false, LIFE_RUNNING, LIFE_DO_NOTE_STARTED },
		{ LIFE_STOPPED, LIFE_FOUND_NONE, true, LIFE_STOPPED, 0 },
		{ LIFE_STOPPED, LIFE_FOUND_SERVING, true, LIFE_STOPPING,
			LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER },
		{ LIFE_STOPPED, LIFE_FOUND_EXITED, false, LIFE_STOPPED, 0 },
		{ LIFE_FAILED, LIFE_FOUND_NONE, false, LIFE_FAILED, 0 },
		{ LIFE_STOPPING, LIFE_FOUND_NONE, false, LIFE_STOPPED, 0 },
		{ LIFE_STOPPING, LIFE_FOUND_EXITED, false, LIFE_STOPPED, 0 },
		{ LIFE_STOPPING, LIFE_FOUND_SILENT, false, LIFE_STOPPING,
			LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER },
		{ LIFE_INITIALIZING, LIFE_FOUND_NONE, false, LIFE_STOPPED, LIFE_DO_GONE },
		{ LIFE_COMPILING, LIFE_FOUND_NONE, false, LIFE_STOPPED, LIFE_DO_GONE },
	};
	const struct life_policy p = life_policy_default();
	size_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct life_finding f = { .found = rows[i].found,
			.exit = LIFE_EXIT_ERROR,
			.has_state = rows[i].has_state,
			.started_ms = 4000 };
		struct life_actions out;
		struct life l;

		life_init(&l);
		l.state = rows[i].was;
		l.ready_ms = 3000;
		l.reason = rows[i].was == LIFE_FAILED ? LIFE_REASON_CRASHED : LIFE_REASON_NONE;
		life_adopt(&l, &p, &f, 5000, &out);
		ck_assert_msg(l.state == rows[i].want, "row %zu: %s", i, life_state_text(l.state));
		ck_assert_msg(
			out.set == rows[i].set, "row %zu: actions 0x%x, not 0x%x", i, out.set, rows[i].set);
	}
}
END_TEST

START_TEST(take_over_keeps_budget_back_off_and_the_aim_of_a_stop)
{
	const struct life_finding none = { .found = LIFE_FOUND_NONE }, kept_and_over = {
		.found = LIFE_FOUND_EXITED, .exit = LIFE_EXIT_SHUTDOWN, .has_state = true
	};
	struct run r;

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_EXITED, false, STARTS | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART, LIFE_STARTING);
	run_up_again(&r);
	run_do(&r, LIFE_EXITED, false, LIFE_DO_SET_TIMER | LIFE_DO_NOTE_CRASHED | LIFE_DO_NOTE_RESTART,
		LIFE_BACKOFF);
	life_adopt(&r.l, &r.p, &none, r.now_ms + 40, &r.out);
	ck_assert_int_eq(r.l.state, LIFE_BACKOFF);
	ck_assert_uint_eq(r.out.timer_ms, 60); /* what is left of 100 */
	ck_assert_uint_eq(r.l.budget.n, 2);
	ck_assert_int_eq(r.l.budget.still_ms, r.now_ms); /* since then it isn't up */

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_RESTART, true, LIFE_DO_ASK_SAVE | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	life_adopt(&r.l, &r.p, &kept_and_over, r.now_ms, &r.out);
	ck_assert_int_eq(r.l.state, LIFE_STARTING);
	ck_assert_int_eq(r.out.from, LIFE_FROM_KEPT);

	run_begin(&r, LIFE_PERMANENT);
	run_do(&r, LIFE_DESTROY, false, LIFE_DO_ASK_STOP | LIFE_DO_SET_TIMER, LIFE_STOPPING);
	life_adopt(&r.l, &r.p, &kept_and_over, r.now_ms, &r.out);
	ck_assert_uint_eq(r.out.set, LIFE_DO_DROP_STATE | LIFE_DO_GONE);
}
END_TEST

/* A control that ends an empty host notes that first. Its successor finds the end, or the process still dying: nobody's fault. */
START_TEST(take_over_of_what_an_earlier_one_had_killed)
{
	static const enum life_restart restarts[] = { LIFE_PERMANENT, LIFE_TRANSIENT, LIFE_TEMPORARY };
	const struct life_finding empty = { .found = LIFE_FOUND_NOT_STARTED, .started_ms = 4000 },
				  over = { .found = LIFE_FOUND_EXITED, .exit = LIFE_EXIT_ERROR, .started_ms = 4000 },
				  dying = { .found = LIFE_FOUND_SILENT, .started_ms = 4000 };

	for (size_t i = 0; i < sizeof restarts / sizeof restarts[0]; i++) {
		struct life_event exited = { .type = LIFE_EXITED, .now_ms = 5030, .exit = LIFE_EXIT_ERROR };
		struct life_policy p = life_policy_default();
		struct life noted, l;
		struct life_actions out;

		p.restart = restarts[i];
		life_init(&noted);
		noted.state = LIFE_STARTING;
		life_adopt(&noted, &p, &empty, 5000, &out);
		ck_assert_uint_eq(out.set, LIFE_DO_KILL);

		l = noted;
		life_adopt(&l, &p, &over, 5010, &out);
		ck_assert_int_eq(l.state, LIFE_STARTING);
		ck_assert_uint_eq(out.set, STARTS);
		ck_assert_uint_eq(l.restarts, 0);
		life_adopt(&l, &p, &over, 5020, &out); /* the one that follows is its own */
		ck_assert(out.set & LIFE_DO_NOTE_CRASHED);

		l = noted;
		life_adopt(&l, &p, &dying, 5010, &out);
		ck_assert_int_eq(life_step(&l, &p, &exited, &out), LIFE_TAKEN);
		ck_assert_int_eq(l.state, LIFE_STARTING);
		ck_assert_uint_eq(l.restarts, 0);
		ck_assert(!(out.set & LIFE_DO_NOTE_CRASHED));

		l = noted;
		life_adopt(&l, &p, &empty, 5010, &out); /* it was noted, and no more */
		ck_assert_uint_eq(out.set, LIFE_DO_KILL);
	}
}
END_TEST

/* Its first start was begun and not recorded: it goes, and until it has gone nobody may take it for one that was made. */
START_TEST(take_over_of_a_create_that_had_just_begun)
{
	static const enum life_found found[] = { LIFE_FOUND_NOT_STARTED, LIFE_FOUND_SILENT, LIFE_FOUND_SERVING };
	const struct life_policy p = life_policy_default();

	for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
		const struct life_finding f = { .found = found[i], .started_ms = 4000 };
		struct life_actions out;
		struct life l;

		life_init(&l);
		life_adopt(&l, &p, &f, 5000, &out);
		ck_assert_int_eq(l.state, LIFE_STOPPING);
		ck_assert_uint_eq(out.set, LIFE_DO_KILL);
		ck_assert(l.creating && l.after_gone);
	}
}
END_TEST

/* Times as the bytes of a spec, or a table, may hold them: no difference of two overflows, and a timer is never set beyond its step. */
START_TEST(take_over_with_times_that_cannot_be)
{
	static const int64_t times[] = { INT64_MIN, -1, INT64_MAX };
	const struct life_policy p = life_policy_default();

	for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
		struct life_finding none = { .found = LIFE_FOUND_NONE };
		struct life_finding silent = { .found = LIFE_FOUND_SILENT, .started_ms = times[i] };
		struct life_actions out;
		struct life l;

		life_init(&l);
		l.state = LIFE_BACKOFF;
		l.timer_at_ms = times[i];
		life_adopt(&l, &p, &none, 1000000, &out);
		ck_assert_int_eq(l.state, times[i] < 0 ? LIFE_STARTING : LIFE_BACKOFF);
		ck_assert(times[i] < 0 || out.timer_ms == p.budget.backoff_max_ms / 4 * 5);

		life_init(&l);
		l.state = LIFE_STARTING;
		life_adopt(&l, &p, &silent, 1000000, &out);
		ck_assert_int_eq(l.state, LIFE_STARTING);
		ck_assert(out.timer_ms > 0 && out.timer_ms <= p.start_timeout_ms);
	}
}
END_TEST

START_TEST(take_over_survives_any_bytes)
{
	const struct life_policy p = life_policy_default();
	unsigned seed = 7, i, j;

	for (i = 0; i < 20000; i++) {
		struct life_finding f = { .found = (enum life_found)(rand_r(&seed) % LIFE_FOUND__N),
			.exit = (enum life_exit)(rand_r(&seed) % LIFE_EXIT__N),
			.has_state = rand_r(&seed) % 2,
			.started_ms = rand_r(&seed) % 100000 };
		struct world w;
		const char *wrong;

		memset(&w, 0, sizeof w);
		for (j = 0; j < sizeof w.l; j++)
			((unsigned char *)&w.l)[j] = (unsigned char)rand_r(&seed);
		if (i % 4)
			w.l.state = (enum life_state)(i / 4 % LIFE__N);
		if (i % 3)
			w.l.reason = (enum life_reason)(i % LIFE_REASON__N);
		wrong = adopt_check(&w, &p, &f, 50000);
		if (wrong == NULL && !w.m.gone)
			wrong = destroy_ends(w, &p);
		ck_assert_msg(wrong == NULL, "%s", wrong);
	}
}
END_TEST

START_TEST(exit_classes)
{
	ck_assert_int_eq(life_exit_class(0, false, false), LIFE_EXIT_NORMAL);
	ck_assert_int_eq(life_exit_class(0, true, false), LIFE_EXIT_SHUTDOWN);
	ck_assert_int_eq(
		life_exit_class(0, true, true), LIFE_EXIT_SHUTDOWN); /* it was faster than the kill */
	ck_assert_int_eq(life_exit_class(1 << 8, true, false), LIFE_EXIT_ERROR);
	ck_assert_int_eq(life_exit_class(SIGKILL, false, true), LIFE_EXIT_KILLED);
	ck_assert_int_eq(life_exit_class(SIGKILL, true, false), LIFE_EXIT_ERROR); /* somebody else's */
	ck_assert_int_eq(life_exit_class(SIGSEGV, true, true), LIFE_EXIT_ERROR);
	ck_assert_int_eq(life_exit_class(SIGTERM, true, false), LIFE_EXIT_ERROR);
}
END_TEST

START_TEST(names)
{
	ck_assert_str_eq(life_state_text(LIFE_RELOADING), "reloading");
	ck_assert_str_eq(life_reason_text(LIFE_REASON_START_TIMEOUT), "start_timeout");
	ck_assert_str_eq(life_request_text(LIFE_REQUEST_DESTROY), "destroy");
	ck_assert_str_eq(life_kill_text(LIFE_KILL_HURRY), "hurry");
	ck_assert_str_eq(life_exit_text((enum life_exit)99), "unknown");
}
END_TEST

CHECK_MAIN("life", tcase_add_loop_test(tc, every_order_of_events, 0, sizeof policies / sizeof policies[0]);
	   tcase_add_test(tc, seeded_bugs_are_found); tcase_add_test(tc, a_create_that_fails_is_gone);
	   tcase_add_test(tc, a_slow_start_is_killed_and_failed_only_when_it_has_ended);
	   tcase_add_test(tc, a_start_that_is_not_born_yet_is_killed_at_birth);
	   tcase_add_test(tc, a_slow_start_is_no_time_that_it_was_well_for);
	   tcase_add_test(tc, the_window_goes_on_where_it_stood);
	   tcase_add_test(tc, crashes_are_restarted_with_back_off_until_the_budget_ends);
	   tcase_add_test(tc, a_stable_uptime_makes_the_next_restart_immediate);
	   tcase_add_test(tc, a_failed_start_by_policy_is_counted_too);
	   tcase_add_test(tc, restart_types_and_exit_classes);
	   tcase_add_test(tc, a_stop_saves_asks_and_kills_at_the_deadline);
	   tcase_add_test(tc, a_stop_whose_save_fails_goes_on_and_says_so);
	   tcase_add_test(tc, a_restart_keeps_the_state_or_leaves_all_as_it_was);
	   tcase_add_test(tc, later_requests_override); tcase_add_test(tc, a_stop_cancels_back_off);
	   tcase_add_test(tc, reload_recovery_is_not_counted);
	   tcase_add_test(tc, a_stop_amid_a_reload_that_dies_sealed_keeps_the_state);
	   tcase_add_test(tc, take_over_rows);
	   tcase_add_test(tc, take_over_keeps_budget_back_off_and_the_aim_of_a_stop);
	   tcase_add_test(tc, take_over_of_what_an_earlier_one_had_killed);
	   tcase_add_test(tc, take_over_of_a_create_that_had_just_begun);
	   tcase_add_test(tc, take_over_with_times_that_cannot_be);
	   tcase_add_test(tc, take_over_survives_any_bytes); tcase_add_test(tc, exit_classes);
	   tcase_add_test(tc, a_hopeless_start_fails_at_once);
	   tcase_add_test(tc, names);)
