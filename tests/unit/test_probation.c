/* SPDX-License-Identifier: MIT
 *
 * Reloads, probation and take-over together, in a small world: control (the real transaction, the real probation, the real take-over
 * rule), a host that takes its messages one by one and may die between any two, a spawner, a client, and values that stand for
 * acknowledged changes. Every order of every event is explored until no new state appears; bugs put in must be found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int seeded;
#define SEEDED(bug) (seeded == (bug))
#include "daemon/reload/transaction.c"
#undef SEEDED
#define SEEDED(bug) (seeded == 100 + (bug))
#include "daemon/reload/probation.c"

#include "tests/support/check_main.h"

enum { RELOADS = 2, CALLS = 3, DEATHS = 2, TAKE_OVERS = 1, QUEUE = 10 };

/* What travels; the transaction's number is in the upper half. */
enum message {
	M_CALL = 1, M_REHEARSE, M_PREPARE, M_QUIESCE, M_SAVE, M_LOAD, M_COMMIT, M_ABORT,                          /* to the host */
	M_REPLY, M_REHEARSED, M_REHEARSE_FAILED, M_PREPARED, M_QUIESCED, M_SAVED, M_SAVE_FAILED, /* from it */
	M_LOADED, M_LOAD_FAILED, M_COMMITTED, M_UNLOADED, M_ABORTED,
	M_STATE, M_NO_STATE, M_SPEC, M_SPEC_CANDIDATE, /* to the spawner */
};

struct queue {
	uint8_t n, at[QUEUE], value[QUEUE];
};

struct world {
	struct txn t;
	struct probation p;
	/* control */
	uint8_t current, candidate, serial, held, made, state, trial, timer, trial_timer, answers, client, quarantined, taking_over, committed, load_sent;
	uint8_t local[3]; /* facts on their way inside control: place, make, seal */
	/* spawner */
	uint8_t kept, spec_current, spec_candidate;
	/* host; value: how many calls its state has counted */
	uint8_t alive, runs, phase, loaded, value, loaded_value, faulted;
	uint8_t acked; /* what clients were told */
	struct queue to_host, from_host, to_spawner, from_spawner;
	uint8_t reloads, calls, deaths, take_overs;
};

#define MUST(cond, text)             \
	do {                         \
		if (!(cond))         \
			return text; \
	} while (0)

static const struct txn_policy policy = { .timeout_ms = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0 } };

/* ---- queues ---- */

static const char *overflow;

static void put(struct queue *q, uint8_t what, uint8_t value)
{
	if (q->n == QUEUE) {
		overflow = "a queue overflows";
		return;
	}
	q->at[q->n] = what;
	q->value[q->n++] = value;
}

static uint8_t take(struct queue *q, uint8_t *value)
{
	uint8_t what = q->at[0];

	*value = q->value[0];
	q->n--;
	memmove(q->at, q->at + 1, q->n);
	memmove(q->value, q->value + 1, q->n);
	q->at[q->n] = q->value[q->n] = 0; /* equal worlds are equal bytes */
	return what;
}

static void clear(struct queue *q)
{
	memset(q, 0, sizeof *q);
}

/* ---- the host's beginnings ---- */

/* Values are stored as value + 1: 0 is no state. */
static void start(struct world *w, uint8_t version, uint8_t state)
{
	w->alive = 1;
	w->runs = version;
	w->phase = HOST_PHASE_SERVING;
	w->loaded = w->loaded_value = w->faulted = w->load_sent = 0;
	w->value = state ? (uint8_t)(state - 1) : 0;
	clear(&w->to_host);
	clear(&w->from_host);
}

static const char *recover(struct world *w, uint8_t state)
{
	MUST(state != 0, "a recovery without a state");
	MUST(state - 1 >= w->acked, "an acknowledged change is lost by a recovery");
	start(w, w->current, state);
	return NULL;
}

static const char *crash(struct world *w)
{
	MUST(!w->load_sent, "a state that was sealed is lost");
	start(w, w->current, 0);
	w->acked = 0; /* said: fresh */
	return NULL;
}

/* ---- probation's actions ---- */

static const char *trial_step(struct world *w, struct probation_event ev)
{
	struct probation before = w->p;
	struct probation_actions a;

	if (!probation_step(&w->p, &ev, &a)) {
		MUST(a.set == 0 && memcmp(&before, &w->p, sizeof before) == 0, "not taken, and something changed");
		return NULL;
	}
	MUST(!(a.set & PROBATION_DO_CLEAR_TIMER) || w->trial_timer, "a timer is cleared that isn't armed");
	if (a.set & PROBATION_DO_CLEAR_TIMER)
		w->trial_timer = 0;
	if (a.set & PROBATION_DO_DROP_STATE) {
		MUST(w->trial != 0, "a state is dropped that isn't held");
		w->trial = 0;
	}
	if (a.set & PROBATION_DO_HOLD_STATE) {
		MUST(w->trial == 0 && w->state != 0, "held twice, or nothing to hold");
		w->trial = w->state;
	}
	if (a.set & PROBATION_DO_SET_TIMER)
		w->trial_timer = 1;
	if (a.set & PROBATION_DO_RETURN) {
		MUST(ev.type == PROBATION_EV_FAULT && !w->alive && w->faulted, "a return without a fault");
		MUST(a.version == w->current && a.to == before.before && a.to != a.version, "a return from or to another version");
		MUST(!(w->quarantined >> a.to & 1), "a return to a version that is quarantined");
		MUST(w->trial != 0, "a return without a state");
		w->quarantined |= (uint8_t)(1u << a.version);
		w->current = a.to;
		w->acked = (uint8_t)(w->trial - 1); /* said: acknowledged_since */
		start(w, w->current, w->trial);
		w->trial = 0;
		put(&w->to_spawner, M_SPEC, w->current);
	}
	MUST(probation_active(&w->p) == (w->trial != 0), "a state is held without probation, or the other way round");
	MUST(probation_active(&w->p) == (w->trial_timer != 0), "a probation without an end");
	MUST(!probation_active(&w->p) || w->p.version == w->current, "a version is on probation that doesn't run");
	return NULL;
}

/* ---- the transaction's actions, as the engine carries them out ---- */

static const char *ended(struct world *w, bool recovering)
{
	if (w->alive)
		return NULL;
	if (recovering)
		return recover(w, w->state ? w->state : w->kept);
	if (w->faulted && probation_active(&w->p))
		return trial_step(w, (struct probation_event){ .type = PROBATION_EV_FAULT });
	return crash(w);
}

static void tell(struct world *w, enum message m)
{
	if (w->alive)
		put(&w->to_host, (uint8_t)(m | w->serial << 5), 0);
}

static const char *apply(struct world *w, const struct txn_actions *a)
{
	uint32_t set = a->set;
	const char *wrong;

	if (set & TXN_DO_CLEAR_TIMER)
		w->timer = 0;
	w->local[0] |= (set & TXN_DO_PLACE) != 0;
	if (set & TXN_DO_SEND_REHEARSE)
		tell(w, M_REHEARSE);
	if (set & TXN_DO_RECORD)
		put(&w->to_spawner, (uint8_t)(M_SPEC_CANDIDATE | w->serial << 5), (uint8_t)(w->current | w->candidate << 4));
	w->local[1] |= (set & TXN_DO_MAKE_STATE) != 0;
	if (set & TXN_DO_SEND_PREPARE)
		tell(w, M_PREPARE);
	if (set & TXN_DO_HOLD_CALLS)
		w->held = 1;
	if (set & TXN_DO_SEND_QUIESCE)
		tell(w, M_QUIESCE);
	if (set & TXN_DO_SEND_SAVE)
		tell(w, M_SAVE);
	w->local[2] |= (set & TXN_DO_SEAL) != 0;
	if (set & TXN_DO_KEEP_STATE)
		put(&w->to_spawner, (uint8_t)(M_STATE | w->serial << 5), w->state);
	if (set & TXN_DO_SEND_LOAD)
		tell(w, M_LOAD);
	w->load_sent |= (set & TXN_DO_SEND_LOAD) != 0;
	if (set & TXN_DO_SEND_COMMIT)
		tell(w, M_COMMIT);
	if (set & TXN_DO_SEND_ABORT)
		tell(w, M_ABORT);
	if (set & TXN_DO_KILL_HOST) {
		w->alive = w->faulted = 0;
		clear(&w->to_host);
	}
	if (set & TXN_DO_ADOPT) {
		struct probation_event ev = { .type = PROBATION_EV_COMMITTED, .version = w->candidate, .before = w->current, .ms = 30000 };

		MUST(w->committed, "adopted without COMMITTED");
		ev.backwards = w->candidate < w->current;
		w->current = w->candidate;
		w->quarantined &= (uint8_t)~(1u << w->current);
		put(&w->to_spawner, M_SPEC, w->current);
		wrong = trial_step(w, ev);
		MUST(wrong == NULL, wrong);
		MUST(!ev.backwards || !probation_active(&w->p), "a rollback is on probation");
	}
	if (set & TXN_DO_UNRECORD)
		put(&w->to_spawner, M_SPEC, w->current);
	if (set & TXN_DO_DROP_STATE) {
		w->state = w->made = w->load_sent = 0;
		put(&w->to_spawner, M_NO_STATE, 0);
	}
	if (set & TXN_DO_RELEASE_CALLS) {
		MUST(w->held, "calls are released that aren't held");
		w->held = 0;
	}
	if (set & TXN_DO_SET_TIMER)
		w->timer = 1;
	if (set & TXN_DO_ANSWER)
		MUST(++w->answers == 1, "answered twice");
	if (set & TXN_DO_FINISHED) {
		MUST(w->answers == 1, "finished without an answer");
		w->answers = w->candidate = w->local[0] = w->local[1] = w->local[2] = 0;
		memset(&w->t, 0, sizeof w->t);
		wrong = ended(w, set & TXN_DO_RECOVER);
		MUST(wrong == NULL, wrong);
		if (set & TXN_DO_RECOVER) { /* kept until the new process is ready, which is at once here */
			w->state = 0;
			put(&w->to_spawner, M_NO_STATE, 0);
		}
	}
	return NULL;
}

static const char *txn_do(struct world *w, enum txn_event_type type, uint64_t bytes)
{
	struct txn_event ev = { .type = type, .bytes = bytes };
	struct txn_actions a;

	if (!txn_active(&w->t) || !txn_step(&w->t, &policy, &ev, &a))
		return NULL;
	return apply(w, &a);
}

/* ---- control ---- */

static const char *reload_begin(struct world *w, uint8_t candidate)
{
	struct txn_actions a;

	w->reloads++;
	w->serial++;
	w->committed = 0;
	w->candidate = candidate;
	txn_begin(&w->t, TXN_RELOAD, &policy, 0, &a);
	return apply(w, &a);
}

static const char *control_reads(struct world *w)
{
	static const struct {
		uint8_t message;
		enum txn_event_type type;
	} rows[] = { { M_REHEARSED, TXN_EV_REHEARSED }, { M_REHEARSE_FAILED, TXN_EV_REHEARSE_FAILED }, { M_PREPARED, TXN_EV_PREPARED },
		{ M_QUIESCED, TXN_EV_QUIESCED }, { M_SAVED, TXN_EV_SAVED }, { M_SAVE_FAILED, TXN_EV_SAVE_FAILED }, { M_LOADED, TXN_EV_LOADED },
		{ M_LOAD_FAILED, TXN_EV_LOAD_FAILED }, { M_COMMITTED, TXN_EV_COMMITTED }, { M_UNLOADED, TXN_EV_UNLOADED },
		{ M_ABORTED, TXN_EV_ABORTED } };
	uint8_t value, what = take(&w->from_host, &value);

	if ((what & 31) == M_REPLY) {
		w->acked = value > w->acked ? value : w->acked;
		return NULL;
	}
	/* UNLOADED and ABORTED come as they come, the rest by their number. */
	if (what >> 5 != w->serial && (what & 31) != M_UNLOADED && (what & 31) != M_ABORTED)
		return NULL;
	w->committed |= (what & 31) == M_COMMITTED;
	if ((what & 31) == M_SAVED && txn_active(&w->t) && w->t.step == TXN_SAVE)
		w->state = w->made ? value : 0;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].message == (what & 31))
			return txn_do(w, rows[i].type, 100);
	return NULL;
}

static const char *reap(struct world *w)
{
	if (txn_active(&w->t))
		return txn_do(w, TXN_EV_HOST_DIED, 0);
	return ended(w, false);
}

/* A new control: what the dead one had sent is read by host and spawner first; then it looks, and decides. */
static const char *take_over_now(struct world *w)
{
	struct txn_found f = { .alive = w->alive, .phase = (enum host_phase)w->phase, .host_serial = w->runs,
		.host_candidate = w->loaded, .current_serial = w->spec_current, .recorded_serial = w->spec_candidate,
		.has_state = w->kept != 0 };
	enum txn_take_over what = txn_take_over(&f);
	const char *wrong = NULL;

	w->taking_over = 0;
	w->current = w->spec_current;
	clear(&w->from_host);
	clear(&w->from_spawner);
	MUST(what != TXN_TAKE_KILL, "an honest host is killed by a take-over");
	if (what == TXN_TAKE_COMPLETE) {
		w->current = w->spec_candidate;
		w->quarantined &= (uint8_t)~(1u << w->current);
	}
	if (what == TXN_TAKE_RECOVER)
		wrong = recover(w, w->kept);
	else if (!w->alive)
		wrong = crash(w);
	MUST(wrong == NULL, wrong);
	if (what == TXN_TAKE_UNDO || w->phase != HOST_PHASE_SERVING) {
		w->phase = HOST_PHASE_SERVING; /* ABORT, and ABORTED where that is waited for */
		w->loaded = w->loaded_value = 0;
	}
	w->kept = w->spec_candidate = w->load_sent = 0;
	w->spec_current = w->current;
	MUST(w->runs == w->current, "after a take-over another version runs than is shown");
	MUST(w->value >= w->acked, "an acknowledged change is lost by a take-over");
	return NULL;
}

static void control_dies(struct world *w)
{
	w->take_overs++;
	memset(&w->t, 0, sizeof w->t);
	memset(&w->p, 0, sizeof w->p); /* LOST: nobody holds its state */
	w->committed = w->candidate = w->held = w->made = w->state = w->trial = w->timer = w->trial_timer = w->answers = 0;
	memset(w->local, 0, sizeof w->local);
	w->taking_over = 1;
}

/* ---- host and spawner ---- */

static const char *host_takes(struct world *w, bool well)
{
	uint8_t unused, what = take(&w->to_host, &unused), tag = (uint8_t)(what & ~31);

	switch (what & 31) {
	case M_CALL:
		MUST(w->phase == HOST_PHASE_SERVING, "a call reaches a host that is quiesced");
		put(&w->from_host, M_REPLY, ++w->value);
		break;
	case M_REHEARSE:
		put(&w->from_host, tag | (well ? M_REHEARSED : M_REHEARSE_FAILED), 0);
		break;
	case M_PREPARE:
		if (well)
			put(&w->from_host, tag | M_PREPARED, 0);
		break;
	case M_QUIESCE:
		MUST(w->phase == HOST_PHASE_SERVING, "quiesced twice");
		w->phase = HOST_PHASE_QUIESCED;
		put(&w->from_host, tag | M_QUIESCED, 0);
		break;
	case M_SAVE:
		MUST(w->phase == HOST_PHASE_QUIESCED, "saved while it serves");
		put(&w->from_host, tag | (well ? M_SAVED : M_SAVE_FAILED), (uint8_t)(w->value + 1));
		break;
	case M_LOAD:
		MUST(w->phase == HOST_PHASE_QUIESCED, "loaded out of turn");
		w->loaded = well;
		w->phase = well ? HOST_PHASE_LOADED : HOST_PHASE_QUIESCED;
		put(&w->from_host, tag | (well ? M_LOADED : M_LOAD_FAILED), 0);
		break;
	case M_COMMIT:
		MUST(w->phase == HOST_PHASE_LOADED, "committed out of turn");
		w->runs = w->spec_candidate; /* what was recorded is what is loaded */
		w->phase = HOST_PHASE_SERVING;
		w->loaded = 0;
		put(&w->from_host, tag | M_COMMITTED, 0);
		put(&w->from_host, tag | M_UNLOADED, 0);
		break;
	default: /* M_ABORT */
		w->phase = HOST_PHASE_SERVING;
		w->loaded = 0;
		put(&w->from_host, tag | M_ABORTED, 0);
	}
	return NULL;
}

static void spawner_takes(struct world *w)
{
	uint8_t value, what = take(&w->to_spawner, &value);

	switch (what & 31) {
	case M_STATE:
		w->kept = value;
		put(&w->from_spawner, what, 0);
		break;
	case M_NO_STATE:
		w->kept = 0;
		break;
	case M_SPEC_CANDIDATE:
		w->spec_current = value & 15;
		w->spec_candidate = value >> 4;
		put(&w->from_spawner, what, 0);
		break;
	default: /* M_SPEC */
		w->spec_current = value;
		w->spec_candidate = 0;
	}
}

/* ---- the events of a world; one that isn't possible is not taken ---- */

enum event {
	E_HOST_WELL, E_HOST_BADLY, E_SPAWNER, E_READ_HOST, E_READ_SPAWNER, E_READ_SPAWNER_REFUSED, E_PLACED, E_PLACE_FAILED, E_MADE, E_MAKE_FAILED,
	E_SEALED, E_SEAL_FAILED, E_CALL, E_RELOAD, E_ROLLBACK, E_CANCEL, E_TIMER, E_TRIAL_TIMER, E_CONFIRM, E_STOPPED, E_LOST, E_CLIENT_GONE, E_FAULT,
	E_KILLED, E_REAP, E_CONTROL_DIES, E_TAKE_OVER, E__N
};

static bool can(const struct world *w, enum event e)
{
	bool up = !w->taking_over, active = txn_active(&w->t), idle = up && !active && w->alive;
	/* Queues of a bounded length: what an earlier reload has left may be on its way still, but not all of it. */
	bool fresh = w->to_spawner.n + w->from_spawner.n <= 2 && w->to_host.n + w->from_host.n <= 2;

	switch (e) {
	case E_HOST_WELL:
		return w->alive && w->to_host.n > 0;
	case E_HOST_BADLY:
		return w->alive && w->to_host.n > 0 &&
			((w->to_host.at[0] & 31) == M_REHEARSE || (w->to_host.at[0] & 31) == M_SAVE || (w->to_host.at[0] & 31) == M_LOAD ||
				(w->to_host.at[0] & 31) == M_PREPARE);
	case E_SPAWNER:
		return w->to_spawner.n > 0;
	case E_READ_HOST:
		return up && w->from_host.n > 0;
	case E_READ_SPAWNER:
	case E_READ_SPAWNER_REFUSED:
		return up && w->from_spawner.n > 0;
	case E_PLACED:
	case E_PLACE_FAILED:
		return up && w->local[0];
	case E_MADE:
	case E_MAKE_FAILED:
		return up && w->local[1];
	case E_SEALED:
	case E_SEAL_FAILED:
		return up && w->local[2];
	case E_CALL:
		return up && w->alive && !w->held && w->calls < CALLS && w->to_host.n + w->from_host.n < 4;
	case E_RELOAD:
		return idle && fresh && w->reloads < RELOADS;
	case E_ROLLBACK:
		return idle && fresh && w->reloads < RELOADS && w->current > 1;
	case E_CANCEL:
		return up && active;
	case E_TIMER:
		return up && w->timer;
	case E_TRIAL_TIMER:
		return up && w->trial_timer;
	case E_CONFIRM:
	case E_STOPPED:
	case E_LOST:
		return idle && probation_active(&w->p);
	case E_CLIENT_GONE:
		return up && active && w->client;
	case E_FAULT:
	case E_KILLED:
		return w->alive && w->deaths < DEATHS;
	case E_REAP:
		return up && !w->alive && w->from_host.n == 0;
	case E_CONTROL_DIES:
		return up && w->take_overs < TAKE_OVERS;
	case E_TAKE_OVER:
		return w->taking_over && w->to_spawner.n == 0 && (!w->alive || w->to_host.n == 0);
	case E__N:
		break;
	}
	return false;
}

static const char *local_fact(struct world *w, unsigned which, bool well)
{
	static const enum txn_event_type good[] = { TXN_EV_PLACED, TXN_EV_MADE, TXN_EV_SEALED },
					 bad[] = { TXN_EV_PLACE_FAILED, TXN_EV_MAKE_FAILED, TXN_EV_SEAL_FAILED };

	w->local[which] = 0;
	if (which == 1)
		w->made = well;
	return txn_do(w, well ? good[which] : bad[which], 0);
}

static const char *spawner_said(struct world *w, bool well)
{
	uint8_t unused, what = take(&w->from_spawner, &unused);

	if (what >> 5 != w->serial)
		return NULL;
	if ((what & 31) == M_STATE)
		return txn_do(w, well ? TXN_EV_KEPT : TXN_EV_KEEP_FAILED, 0);
	return txn_do(w, well ? TXN_EV_RECORDED : TXN_EV_RECORD_FAILED, 0);
}

static const char *happens(struct world *w, enum event e)
{
	switch (e) {
	case E_HOST_WELL:
		return host_takes(w, true);
	case E_HOST_BADLY:
		return host_takes(w, false);
	case E_SPAWNER:
		spawner_takes(w);
		return NULL;
	case E_READ_HOST:
		return control_reads(w);
	case E_READ_SPAWNER:
		return spawner_said(w, true);
	case E_READ_SPAWNER_REFUSED:
		return spawner_said(w, false);
	case E_PLACED:
		return local_fact(w, 0, true);
	case E_PLACE_FAILED:
		return local_fact(w, 0, false);
	case E_MADE:
		return local_fact(w, 1, true);
	case E_MAKE_FAILED:
		return local_fact(w, 1, false);
	case E_SEALED:
		return local_fact(w, 2, true);
	case E_SEAL_FAILED:
		return local_fact(w, 2, false);
	case E_CALL:
		w->calls++;
		put(&w->to_host, M_CALL, 0);
		return NULL;
	case E_RELOAD:
		return reload_begin(w, (uint8_t)(w->current + 1));
	case E_ROLLBACK:
		return reload_begin(w, (uint8_t)(w->current - 1));
	case E_CANCEL:
		return txn_do(w, TXN_EV_CANCEL, 0);
	case E_TIMER:
		w->timer = 0;
		return txn_do(w, TXN_EV_TIMER, 0);
	case E_TRIAL_TIMER:
		w->trial_timer = 0;
		return trial_step(w, (struct probation_event){ .type = PROBATION_EV_TIMER });
	case E_CONFIRM:
		return trial_step(w, (struct probation_event){ .type = PROBATION_EV_CONFIRM });
	case E_STOPPED:
		return trial_step(w, (struct probation_event){ .type = PROBATION_EV_STOPPED });
	case E_LOST:
		return trial_step(w, (struct probation_event){ .type = PROBATION_EV_LOST });
	case E_CLIENT_GONE: /* the answer goes nowhere; the reload goes on */
		w->client = 0;
		return NULL;
	case E_FAULT:
	case E_KILLED:
		w->deaths++;
		w->alive = 0;
		w->faulted = e == E_FAULT;
		clear(&w->to_host);
		return NULL;
	case E_REAP:
		return reap(w);
	case E_CONTROL_DIES:
		control_dies(w);
		return NULL;
	case E_TAKE_OVER:
		return take_over_now(w);
	case E__N:
		break;
	}
	return NULL;
}

/* What holds in each world, and more of it when nothing is on its way. */
static const char *check(const struct world *w)
{
	bool quiet = w->to_host.n == 0 && w->from_host.n == 0 && w->to_spawner.n == 0 && w->from_spawner.n == 0;

	MUST(overflow == NULL, overflow);
	MUST(!(w->quarantined >> w->current & 1), "a quarantined version runs");
	MUST(probation_active(&w->p) == (w->trial != 0), "a state is held without probation, or the other way round");
	if (w->taking_over || txn_active(&w->t) || !w->alive || !quiet)
		return NULL;
	MUST(!w->held, "calls are held for ever");
	MUST(w->phase == HOST_PHASE_SERVING && w->loaded == 0, "it is idle, and its host doesn't serve");
	MUST(w->runs == w->current && w->spec_current == w->current, "what is shown isn't what runs");
	MUST(w->kept == 0 && w->state == 0, "a state is kept that is out of date");
	MUST(w->spec_candidate == 0, "a candidate stays recorded");
	MUST(w->value >= w->acked, "an acknowledged change is lost");
	return NULL;
}

/* ---- the set of worlds seen: by fingerprints of 64 bits; two of them that are equal by chance are less likely than a broken memory ---- */

#define SLOTS (1u << 23)

struct seen {
	uint64_t *slots;
	struct world *open;
	size_t n, n_open, room;
};

static uint64_t fingerprint(const struct world *w)
{
	const unsigned char *p = (const unsigned char *)w;
	uint64_t h = 0x9e3779b97f4a7c15u, eight;
	size_t i;

	for (i = 0; i + 8 <= sizeof *w; i += 8) {
		memcpy(&eight, p + i, 8);
		h = (h ^ eight) * 0xff51afd7ed558ccdu;
		h ^= h >> 29;
	}
	for (; i < sizeof *w; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	h ^= h >> 32;
	return h ? h : 1;
}

static void seen_add(struct seen *s, const struct world *w)
{
	uint64_t h = fingerprint(w), i = h % SLOTS;

	for (; s->slots[i] != 0; i = (i + 1) % SLOTS)
		if (s->slots[i] == h)
			return;
	ck_assert_uint_lt(s->n, SLOTS / 4 * 3);
	s->slots[i] = h;
	s->n++;
	if (s->n_open == s->room) {
		s->room = s->room ? s->room * 2 : 1024;
		s->open = realloc(s->open, s->room * sizeof *s->open);
		ck_assert(s->open != NULL);
	}
	memcpy(&s->open[s->n_open++], w, sizeof *w);
}

static const char *explore(size_t *ret_worlds, unsigned long *ret_steps)
{
	struct seen s = { .slots = calloc(SLOTS, sizeof(uint64_t)) };
	struct world first, now, next;
	const char *wrong = NULL;

	ck_assert(s.slots != NULL);
	memset(&first, 0, sizeof first);
	first.current = first.spec_current = first.client = 1;
	start(&first, 1, 0);
	overflow = NULL;
	seen_add(&s, &first);
	while (s.n_open > 0 && wrong == NULL) {
		memcpy(&now, &s.open[--s.n_open], sizeof now);
		for (int e = 0; e < E__N && wrong == NULL; e++) {
			if (!can(&now, (enum event)e))
				continue;
			memcpy(&next, &now, sizeof next);
			wrong = happens(&next, (enum event)e);
			++*ret_steps;
			if (wrong == NULL)
				wrong = check(&next);
			if (wrong == NULL)
				seen_add(&s, &next);
		}
	}
	*ret_worlds = s.n;
	free(s.open);
	free(s.slots);
	return wrong;
}

START_TEST(every_order_in_a_small_world)
{
	unsigned long steps = 0;
	size_t worlds = 0;
	const char *wrong = explore(&worlds, &steps);

	ck_assert_msg(wrong == NULL, "%s", wrong);
	printf("reloads and probation: %zu worlds, %lu steps\n", worlds, steps);
	ck_assert_uint_ge(worlds, 1000000);
}
END_TEST

/* 1xx: probation's own; below: the transaction's (all of its bugs: test_transaction). */
START_TEST(seeded_bugs_are_found)
{
	static const int bugs[] = { 101, 102, 103, 104, 105, 106, 107, 3, 4, 6, 8, 11, 12 };

	for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
		unsigned long steps = 0;
		size_t worlds = 0;
		const char *wrong;

		seeded = bugs[i];
		wrong = explore(&worlds, &steps);
		ck_assert_msg(wrong != NULL, "bug %d is not found", seeded);
		printf("reloads and probation, bug %d: %s (after %zu worlds)\n", seeded, wrong, worlds);
	}
	seeded = 0;
}
END_TEST

START_TEST(which_ends_are_faults)
{
	static const int fatal[] = { 4, 5, 6, 7, 8, 11, 24, 31 };

	for (int n = 1; n < 65; n++) {
		bool want = false;

		for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
			want |= fatal[i] == n;
		ck_assert_msg(probation_is_fault(n) == want, "signal %d", n);
		ck_assert_msg(probation_is_fault((128 + n) << 8) == want, "status 128 + %d", n);
		ck_assert(!probation_is_fault(n << 8));
	}
	ck_assert(!probation_is_fault(0));
	ck_assert_str_eq(probation_why_text(PROBATION_EV_CONFIRM), "commit");
	ck_assert_str_eq(probation_why_text((enum probation_event_type)99), "unknown");
}
END_TEST

START_TEST(not_every_reload_is_on_probation)
{
	static const struct probation_event none[] = {
		{ PROBATION_EV_COMMITTED, 2, 1, 0, false },   /* switched off */
		{ PROBATION_EV_COMMITTED, 2, 0, 1000, false }, /* nothing ran before */
		{ PROBATION_EV_COMMITTED, 1, 2, 1000, true },  /* a rollback */
		{ PROBATION_EV_COMMITTED, 2, 2, 1000, false }, /* the same */
	};
	struct probation p = { 0 };
	struct probation_actions a;

	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		ck_assert(!probation_step(&p, &none[i], &a) && a.set == 0 && !probation_active(&p));
	ck_assert(probation_step(&p, &(struct probation_event){ PROBATION_EV_COMMITTED, 2, 1, 1000, false }, &a));
	ck_assert_uint_eq(a.set, PROBATION_DO_HOLD_STATE | PROBATION_DO_SET_TIMER);
	ck_assert_uint_eq(a.timer_ms, 1000);
	/* the next reload ends it and begins its own */
	ck_assert(probation_step(&p, &(struct probation_event){ PROBATION_EV_COMMITTED, 3, 2, 500, false }, &a));
	ck_assert_uint_eq(a.set, PROBATION_DO_CLEAR_TIMER | PROBATION_DO_DROP_STATE | PROBATION_DO_HOLD_STATE | PROBATION_DO_SET_TIMER |
		PROBATION_DO_PASSED);
	ck_assert(a.version == 2 && a.why == PROBATION_EV_COMMITTED);
	ck_assert(probation_step(&p, &(struct probation_event){ .type = PROBATION_EV_FAULT }, &a));
	ck_assert(a.version == 3 && a.to == 2 && !probation_active(&p));
	ck_assert(!probation_step(&p, &(struct probation_event){ .type = PROBATION_EV_FAULT }, &a));
}
END_TEST

CHECK_MAIN("probation", tcase_add_test(tc, every_order_in_a_small_world); tcase_add_test(tc, seeded_bugs_are_found);
	   tcase_add_test(tc, which_ends_are_faults); tcase_add_test(tc, not_every_reload_is_on_probation);)
