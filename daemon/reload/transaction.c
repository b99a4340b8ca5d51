/* SPDX-License-Identifier: MIT
 *
 * The steps of a reload and what ends each of them, as a table of step x event. A handler adds actions and
 * names the next step; txn_begin and txn_step alone write `step`. A cell that is empty is an event that
 * doesn't apply: late, stale, or from a host that speaks out of turn. The rules are in transaction.h. Control
 * process; pure. */
#include <string.h>

#include "daemon/reload/transaction.h"
#include "proto/limits.h"

#ifndef SEEDED
#define SEEDED(bug) 0 /* tests build this file with bugs put in, to see that they are found */
#endif

/* The host has deadlines of its own for what it does by itself; the timers here are longer, for a host that
 * does not answer. */
#define BELT_MS 1000

#define PREPARE_LEAST_MS     50
#define PREPARE_BYTES_PER_MS (64u << 10)

const struct txn_step_row txn_steps[TXN_STEP__N] = {
	[TXN_IDLE] = { "idle", "begin", 0 },
	[TXN_SPAWN] = { "spawn", "spawned", 10000 },
	[TXN_STAGE] = { "stage", "staged", 10000 },
	[TXN_PLACE] = { "place", "placed", 10000 },
	[TXN_REHEARSE] = { "rehearse", "rehearsed", DEFAULT_REHEARSE_TIMEOUT_MS + BELT_MS },
	[TXN_RECORD] = { "record", "recorded", 5000 },
	[TXN_MAKE] = { "make", "made", 5000 },
	[TXN_PREPARE] = { "prepare", "prepared", 10000 },
	[TXN_QUIESCE] = { "quiesce", "quiesced", DEFAULT_QUIESCE_TIMEOUT_MS },
	[TXN_SAVE] = { "save", "saved", 10000 },
	[TXN_SEAL] = { "seal", "sealed", 5000 },
	[TXN_KEEP] = { "keep", "kept", 5000 },
	[TXN_LOAD] = { "load", "loaded", 10000 },
	[TXN_COMMIT] = { "commit", "committed", 5000 },
	[TXN_PROMOTE] = { "promote", "promoted", 0 }, /* the spawner answers, or everything has ended */
	[TXN_UNLOAD] = { "unload", "unloaded", 5000 },
	[TXN_ABORT] = { "abort", "aborted", 2000 },
	[TXN_KILL] = { "kill", "host_died", 0 }, /* SIGKILL needs no deadline */
	[TXN_DONE] = { "done", "", 0 },
};

struct step {
	struct txn *t;
	const struct txn_policy *p;
	const struct txn_event *ev;
	struct txn_actions *out;
};

#define NOT_TAKEN TXN_STEP__N /* what a handler returns to say: doesn't apply */

typedef enum txn_step handler(struct step *s);

static bool saves_alone(const struct txn *t)
{
	return t->mode == TXN_SAVE_ONLY || t->mode == TXN_CHECKPOINT;
}

/* ---- moves ---- */

/* Goes to a step that waits for something, with that step's time limit. */
static enum txn_step wait_in(struct step *s, enum txn_step next, uint32_t action)
{
	s->out->set |= action | TXN_DO_SET_TIMER;
	s->out->timer_ms = s->p->timeout_ms[next];
	return next;
}

static enum txn_step finish(struct step *s)
{
	struct txn *t = s->t;

	if (t->step != TXN_KILL && t->step != TXN_PROMOTE && s->ev->type != TXN_EV_TIMER)
		s->out->set |= TXN_DO_CLEAR_TIMER;
	if (t->held && !(SEEDED(2) && s->ev->type == TXN_EV_HOST_DIED)) {
		s->out->set |= TXN_DO_RELEASE_CALLS;
		t->held = false;
	}
	if (t->spawned && !(SEEDED(13) && s->ev->type == TXN_EV_HOST_DIED)) {
		s->out->set |= TXN_DO_DISCARD;
		t->spawned = false;
	}
	if (t->placed) {
		s->out->set |= TXN_DO_UNPLACE;
		t->placed = false;
	}
	s->out->set |= TXN_DO_ANSWER | TXN_DO_FINISHED;
	return TXN_DONE;
}

static void answer_failed(struct step *s, enum txn_outcome outcome, enum txn_failure failure)
{
	bool known = s->t->failure != TXN_FAILURE_NONE; /* ABORT and KILL: what went wrong first counts */

	s->out->ok = false;
	s->out->outcome = outcome;
	s->out->failed_step = known ? s->t->failed_step : s->t->step;
	s->out->failure = known ? s->t->failure : failure;
	if (s->t->record_sent && !SEEDED(8))
		s->out->set |= TXN_DO_UNRECORD;
}

/* The old version serves on in the same process. */
static enum txn_step fail_unchanged(struct step *s, enum txn_failure failure)
{
	answer_failed(s, TXN_NOTHING_CHANGED, failure);
	if (s->t->made > 0)
		s->out->set |= TXN_DO_DROP_STATE;
	return finish(s);
}

/* No candidate code has run in the host: tell it to serve on, and don't wait. */
static enum txn_step fail_before_load(struct step *s, enum txn_failure failure)
{
	if (s->t->host_gone) { /* TXN_SAVE_ONLY: it died while its sealed state was on its way to the spawner
				*/
		answer_failed(s, TXN_STATE_LOST, failure);
		s->out->set |= TXN_DO_DROP_STATE;
		return finish(s);
	}
	if (!SEEDED(4) && !(s->t->mode == TXN_CHECKPOINT && s->t->sealed)) /* else it was told already, and serves */
		s->out->set |= TXN_DO_SEND_ABORT;
	return fail_unchanged(s, failure);
}

/* ---- a second process ---- */

static enum txn_step spawn(struct step *s)
{
	s->t->mode = TXN_REPLACE;
	s->t->spawned = true;
	return wait_in(s, TXN_SPAWN, TXN_DO_SPAWN);
}

/* What its process has, it takes along; the old one has only to be told if it was quiesced. */
static enum txn_step candidate_died(struct step *s)
{
	if (!s->t->spawned)
		return NOT_TAKEN;
	return s->t->held ? fail_before_load(s, TXN_FAILURE_CANDIDATE_DIED) : fail_unchanged(s, TXN_FAILURE_CANDIDATE_DIED);
}

/* Candidate code has run: wait until the host says that it is gone. */
static enum txn_step fail_after_load(struct step *s, enum txn_failure failure)
{
	s->t->failed_step = s->t->step;
	s->t->failure = failure;
	return wait_in(s, TXN_ABORT, TXN_DO_SEND_ABORT);
}

static enum txn_step fail_and_kill(struct step *s)
{
	if (s->t->failure == TXN_FAILURE_NONE) {
		s->t->failed_step = s->t->step;
		s->t->failure = TXN_FAILURE_TIMEOUT;
	}
	s->out->set |= TXN_DO_KILL_HOST; /* the timer has fired: none runs */
	return TXN_KILL;
}

static enum txn_step make(struct step *s, uint64_t needed)
{
	uint64_t bytes = needed + needed / 8 + TXN_STATE_BYTES_FIRST; /* room to grow until it is saved */

	bytes = (bytes + 4095) / 4096 * 4096;
	s->t->state_bytes = bytes < LIMIT_STATE_BYTES ? bytes : LIMIT_STATE_BYTES;
	s->t->made++;
	s->out->state_bytes = s->t->state_bytes;
	return wait_in(s, TXN_MAKE, TXN_DO_MAKE_STATE);
}

/* SAVE stands in the channel right behind QUIESCE: the pause waits for no answer between the two. */
static enum txn_step quiesce(struct step *s)
{
	s->t->held = true;
	if (SEEDED(12))
		return wait_in(s, TXN_QUIESCE, TXN_DO_SEND_QUIESCE | TXN_DO_SEND_SAVE);
	return wait_in(s, TXN_QUIESCE, TXN_DO_HOLD_CALLS | TXN_DO_SEND_QUIESCE | TXN_DO_SEND_SAVE);
}

static enum txn_step succeed(struct step *s)
{
	s->out->ok = true;
	s->out->outcome = TXN_CHANGED;
	s->out->host_gone = s->t->host_gone;
	return finish(s);
}

/* ---- what can go wrong in any step before LOAD ---- */

static enum txn_step said_failed(struct step *s)
{
	return fail_before_load(s, TXN_FAILURE_SAID);
}

static enum txn_step timed_out(struct step *s)
{
	return fail_before_load(s, TXN_FAILURE_TIMEOUT);
}

static enum txn_step cancelled(struct step *s)
{
	return fail_before_load(s, TXN_FAILURE_CANCELLED);
}

/* Before the state was sealed: an ordinary crash. */
static enum txn_step died_unsealed(struct step *s)
{
	answer_failed(s, TXN_STATE_LOST, TXN_FAILURE_HOST_DIED);
	if (s->t->made > 0)
		s->out->set |= TXN_DO_DROP_STATE;
	return finish(s);
}

/* From sealing on: the old version goes on from the sealed state, in a new process. */
static enum txn_step died_sealed(struct step *s)
{
	if (saves_alone(s->t)) {
		s->t->host_gone = true; /* in KEEP: what was sealed is on its way to the spawner */
		return s->t->step;
	}
	answer_failed(s, TXN_RECOVERED, TXN_FAILURE_HOST_DIED);
	s->out->set |= TXN_DO_RECOVER;
	return finish(s);
}

/* ---- spawn, place, stage, rehearse ---- */

/* The old process has heard of nothing. */
static enum txn_step early_failed(struct step *s)
{
	return fail_unchanged(s, TXN_FAILURE_SAID);
}

static enum txn_step early_timed_out(struct step *s)
{
	return fail_unchanged(s, TXN_FAILURE_TIMEOUT);
}

static enum txn_step early_cancelled(struct step *s)
{
	return fail_unchanged(s, TXN_FAILURE_CANCELLED);
}

static enum txn_step spawned(struct step *s)
{
	s->t->placed = true;
	return wait_in(s, TXN_PLACE, TXN_DO_PLACE);
}

static enum txn_step staged(struct step *s)
{
	return make(s, s->t->expected_bytes);
}

static enum txn_step placed(struct step *s)
{
	if (s->t->mode == TXN_REPLACE)
		return wait_in(s, TXN_STAGE, TXN_DO_SEND_STAGE);
	return wait_in(s, TXN_REHEARSE, TXN_DO_SEND_REHEARSE);
}

static enum txn_step rehearsed(struct step *s)
{
	if (s->ev->bytes == 0 || s->ev->bytes > LIMIT_STATE_BYTES)
		return fail_unchanged(s, TXN_FAILURE_STATE_SIZE);
	if (s->t->mode == TXN_CHECK) {
		s->out->ok = true;
		s->out->outcome = TXN_NOTHING_CHANGED;
		return finish(s);
	}
	s->t->expected_bytes = s->ev->bytes;
	if (s->ev->replace) { /* its object goes where the other process finds it */
		s->out->set |= TXN_DO_UNPLACE;
		s->t->placed = false;
		return spawn(s);
	}
	s->t->record_sent = true;
	return wait_in(s, TXN_RECORD, TXN_DO_RECORD);
}

/* The copy has ended; the host itself has done nothing yet. */
static enum txn_step rehearse_failed(struct step *s)
{
	return fail_unchanged(s, TXN_FAILURE_SAID);
}

/* ---- record, make, prepare: while calls go on ---- */

static enum txn_step recorded(struct step *s)
{
	return make(s, s->t->expected_bytes);
}

/* A host that is busy in a call doesn't come to it, and only QUIESCE brings the attention signal: what is waited for is what the
 * work itself may take, by its size. */
static enum txn_step prepare(struct step *s)
{
	uint64_t ms = PREPARE_LEAST_MS + s->t->expected_bytes / PREPARE_BYTES_PER_MS;
	enum txn_step next = wait_in(s, TXN_PREPARE, TXN_DO_SEND_PREPARE);

	s->out->state_bytes = s->t->expected_bytes;
	if (ms < s->out->timer_ms)
		s->out->timer_ms = (uint32_t)ms;
	return next;
}

/* Also when it takes too long: memory that isn't ready costs time later, nothing else. */
static enum txn_step prepared(struct step *s)
{
	return quiesce(s);
}

/* ---- quiesce, save, seal, keep ---- */

static enum txn_step quiesced(struct step *s)
{
	return wait_in(s, TXN_SAVE, 0);
}

static enum txn_step made(struct step *s)
{
	if (s->t->held) /* the one before was too small */
		return wait_in(s, TXN_SAVE, TXN_DO_SEND_SAVE);
	return s->t->mode == TXN_RELOAD ? prepare(s) : quiesce(s);
}

static enum txn_step saved(struct step *s)
{
	if (s->ev->bytes == 0 || s->ev->bytes > s->t->state_bytes)
		return fail_before_load(s, TXN_FAILURE_STATE_SIZE);
	s->t->state_bytes = s->out->state_bytes = s->ev->bytes;
	if (SEEDED(7)) {
		s->t->keep_sent = true;
		return wait_in(s, TXN_KEEP, TXN_DO_KEEP_STATE);
	}
	return wait_in(s, TXN_SEAL, TXN_DO_SEAL);
}

static enum txn_step save_too_small(struct step *s)
{
	if (s->ev->bytes <= s->t->state_bytes || s->ev->bytes > LIMIT_STATE_BYTES)
		return fail_before_load(s, TXN_FAILURE_STATE_SIZE);
	if (s->t->made > TXN_SAVE_RETRIES && !SEEDED(10))
		return fail_before_load(s, TXN_FAILURE_STATE_GROWS);
	return make(s, s->ev->bytes);
}

/* A KEEP that was sent holds, whatever becomes of control: so the host may load while the spawner takes it. */
static enum txn_step sealed(struct step *s)
{
	s->t->sealed = s->t->keep_sent = true;
	if (s->t->mode == TXN_SAVE_ONLY)
		return wait_in(s, TXN_KEEP, TXN_DO_KEEP_STATE);
	if (s->t->mode == TXN_CHECKPOINT) { /* the host serves on while the spawner takes it */
		s->t->held = false;
		return wait_in(s, TXN_KEEP, TXN_DO_KEEP_STATE | TXN_DO_RELEASE_CALLS | (SEEDED(19) ? 0 : TXN_DO_SEND_ABORT));
	}
	s->t->load_sent = true;
	return wait_in(s, TXN_LOAD, SEEDED(11) ? TXN_DO_SEND_LOAD : TXN_DO_KEEP_STATE | TXN_DO_SEND_LOAD);
}

static enum txn_step kept(struct step *s)
{
	if (!s->t->host_gone)
		s->t->held = false; /* the hold ends with the process, which life stops now: nothing is
				       released to it */
	return succeed(s);
}

/* What was sent to the spawner holds. */
static enum txn_step keep_cancelled(struct step *s)
{
	return s->t->mode == TXN_CHECKPOINT ? kept(s) : cancelled(s);
}

/* ---- load, commit, unload ---- */

/* KEPT and LOADED come in any order; the deadline is that of the load. */
static enum txn_step loaded_and_kept(struct step *s)
{
	if (!s->t->loaded || !(s->t->kept || SEEDED(1)))
		return TXN_LOAD;
	if (s->t->mode != TXN_REPLACE)
		return wait_in(s, TXN_COMMIT, TXN_DO_SEND_COMMIT);
	s->out->set |= TXN_DO_PROMOTE | TXN_DO_CLEAR_TIMER;
	return TXN_PROMOTE;
}

static enum txn_step loaded(struct step *s)
{
	if (s->t->loaded)
		return NOT_TAKEN;
	s->t->loaded = true;
	return loaded_and_kept(s);
}

static enum txn_step load_kept(struct step *s)
{
	if (s->t->kept)
		return NOT_TAKEN;
	s->t->kept = true;
	return loaded_and_kept(s);
}

/* In a replacement nothing of the candidate has touched the process that serves. */
static enum txn_step late_said_failed(struct step *s)
{
	if (s->t->mode == TXN_REPLACE && !SEEDED(14))
		return fail_before_load(s, TXN_FAILURE_SAID);
	return fail_after_load(s, TXN_FAILURE_SAID);
}

static enum txn_step late_cancelled(struct step *s)
{
	if (s->t->mode == TXN_REPLACE)
		return fail_before_load(s, TXN_FAILURE_CANCELLED);
	return fail_after_load(s, TXN_FAILURE_CANCELLED);
}

static enum txn_step load_timed_out(struct step *s)
{
	if (SEEDED(5) || s->t->mode == TXN_REPLACE)
		return fail_before_load(s, TXN_FAILURE_TIMEOUT);
	return s->t->loaded ? fail_after_load(s, TXN_FAILURE_TIMEOUT) : fail_and_kill(s); /* loaded: it is the spawner that is silent */
}

static enum txn_step committed(struct step *s)
{
	s->t->record_sent = false; /* it is no candidate any more */
	s->t->placed = false;
	s->t->held = SEEDED(3);
	return wait_in(
		s, TXN_UNLOAD, TXN_DO_ADOPT | TXN_DO_DROP_STATE | TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS);
}

/* Whether it has committed is not known; no call was released since the seal, so the old version from the
 * sealed state is right. */
static enum txn_step commit_died(struct step *s)
{
	if (SEEDED(6)) {
		s->out->set |= TXN_DO_ADOPT | TXN_DO_DROP_STATE;
		return succeed(s);
	}
	return died_sealed(s);
}

/* ---- promote ---- */

static enum txn_step promoted(struct step *s)
{
	s->t->spawned = SEEDED(15);
	s->t->placed = s->t->held = false;
	s->out->set |= TXN_DO_ADOPT | TXN_DO_DROP_STATE | TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS;
	if (s->t->old_gone && !SEEDED(16))
		return succeed(s);
	return wait_in(s, TXN_UNLOAD, TXN_DO_RETIRE);
}

static enum txn_step promote_failed(struct step *s)
{
	return s->t->old_gone ? died_sealed(s) : fail_before_load(s, TXN_FAILURE_SAID);
}

/* What PROMOTE comes to decides which of the two goes on. */
static enum txn_step promote_died(struct step *s)
{
	if (SEEDED(17))
		return died_sealed(s);
	if (s->t->old_gone)
		return NOT_TAKEN;
	s->t->old_gone = true;
	return TXN_PROMOTE;
}

static enum txn_step unload_died(struct step *s)
{
	s->t->host_gone = true;
	if (s->t->mode == TXN_REPLACE) /* the new one; nobody waits for the old one then */
		s->out->set |= TXN_DO_KILL_OLD;
	if (SEEDED(9))
		s->out->set |= TXN_DO_RECOVER;
	return succeed(s);
}

static enum txn_step unload_not_waited_for(struct step *s)
{
	s->out->not_unloaded = true;
	if (s->t->mode == TXN_REPLACE && !SEEDED(18))
		s->out->set |= TXN_DO_KILL_OLD;
	return succeed(s);
}

/* ---- abort ---- */

static enum txn_step aborted(struct step *s)
{
	return fail_unchanged(s, TXN_FAILURE_SAID);
}

static handler *const table[TXN_STEP__N][TXN_EVENT__N] = {
	[TXN_SPAWN] = { [TXN_EV_SPAWNED] = spawned,
		[TXN_EV_SPAWN_FAILED] = early_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = early_timed_out,
		[TXN_EV_CANCEL] = early_cancelled },
	[TXN_STAGE] = { [TXN_EV_STAGED] = staged,
		[TXN_EV_STAGE_FAILED] = early_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = early_timed_out,
		[TXN_EV_CANCEL] = early_cancelled },
	[TXN_PROMOTE] = { [TXN_EV_PROMOTED] = promoted, /* CANCEL: too late, it ends by itself */
		[TXN_EV_PROMOTE_FAILED] = promote_failed,
		[TXN_EV_HOST_DIED] = promote_died },
	[TXN_PLACE] = { [TXN_EV_PLACED] = placed,
		[TXN_EV_PLACE_FAILED] = early_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = early_timed_out,
		[TXN_EV_CANCEL] = early_cancelled },
	[TXN_REHEARSE] = { [TXN_EV_REHEARSED] = rehearsed,
		[TXN_EV_REHEARSE_FAILED] = rehearse_failed,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_RECORD] = { [TXN_EV_RECORDED] = recorded,
		[TXN_EV_RECORD_FAILED] = said_failed,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_MAKE] = { [TXN_EV_MADE] = made,
		[TXN_EV_MAKE_FAILED] = said_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_PREPARE] = { [TXN_EV_PREPARED] = prepared,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = prepared,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_QUIESCE] = { [TXN_EV_QUIESCED] = quiesced,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_SAVE] = { [TXN_EV_SAVED] = saved,
		[TXN_EV_SAVE_TOO_SMALL] = save_too_small,
		[TXN_EV_SAVE_FAILED] = said_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_SEAL] = { [TXN_EV_SEALED] = sealed,
		[TXN_EV_SEAL_FAILED] = said_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_unsealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = cancelled },
	[TXN_KEEP] = { [TXN_EV_KEPT] = kept,
		[TXN_EV_KEEP_FAILED] = said_failed,
		[TXN_EV_HOST_DIED] = died_sealed,
		[TXN_EV_TIMER] = timed_out,
		[TXN_EV_CANCEL] = keep_cancelled },
	[TXN_LOAD] = { [TXN_EV_LOADED] = loaded,
		[TXN_EV_LOAD_FAILED] = late_said_failed,
		[TXN_EV_KEPT] = load_kept,
		[TXN_EV_KEEP_FAILED] = late_said_failed,
		[TXN_EV_CANDIDATE_DIED] = candidate_died,
		[TXN_EV_HOST_DIED] = died_sealed,
		[TXN_EV_TIMER] = load_timed_out,
		[TXN_EV_CANCEL] = late_cancelled },
	[TXN_COMMIT] = { [TXN_EV_COMMITTED] = committed, /* CANCEL: too late, it ends by itself */
		[TXN_EV_HOST_DIED] = commit_died,
		[TXN_EV_TIMER] = fail_and_kill },
	[TXN_UNLOAD] = { [TXN_EV_UNLOADED] = succeed,
		[TXN_EV_HOST_DIED] = unload_died,
		[TXN_EV_TIMER] = unload_not_waited_for,
		[TXN_EV_CANCEL] = unload_not_waited_for },
	[TXN_ABORT] = { [TXN_EV_ABORTED] = aborted,
		[TXN_EV_HOST_DIED] = died_sealed,
		[TXN_EV_TIMER] = fail_and_kill },
	[TXN_KILL] = { [TXN_EV_HOST_DIED] = died_sealed },
};

/* ---- the three ways in ---- */

struct txn_policy txn_policy_default(void)
{
	struct txn_policy p;
	int i;

	for (i = 0; i < TXN_STEP__N; i++)
		p.timeout_ms[i] = txn_steps[i].timeout_ms;
	return p;
}

void txn_begin(struct txn *t, enum txn_mode mode, const struct txn_policy *p, uint64_t expected_bytes,
	struct txn_actions *out)
{
	struct step s = { .t = t, .p = p, .out = out };

	memset(t, 0, sizeof *t);
	memset(out, 0, sizeof *out);
	t->mode = mode;
	if (saves_alone(t)) {
		t->expected_bytes = expected_bytes < LIMIT_STATE_BYTES ? expected_bytes : LIMIT_STATE_BYTES;
		t->step = make(&s, t->expected_bytes);
	} else if (mode == TXN_REPLACE) {
		t->expected_bytes = expected_bytes < LIMIT_STATE_BYTES ? expected_bytes : LIMIT_STATE_BYTES;
		t->step = spawn(&s);
	} else {
		t->placed = true;
		t->step = wait_in(&s, TXN_PLACE, TXN_DO_PLACE);
	}
}

bool txn_step(struct txn *t, const struct txn_policy *p, const struct txn_event *ev, struct txn_actions *out)
{
	struct step s = { .t = t, .p = p, .ev = ev, .out = out };
	handler *run = table[t->step][ev->type];
	enum txn_step next = NOT_TAKEN;

	memset(out, 0, sizeof *out);
	if (run != NULL && !(ev->type == TXN_EV_HOST_DIED && t->host_gone))
		next = run(&s);
	if (next == NOT_TAKEN)
		return false;
	t->step = next;
	return true;
}

bool txn_active(const struct txn *t)
{
	return t->step != TXN_IDLE && t->step != TXN_DONE;
}

bool txn_committing(const struct txn *t)
{
	return t->step == TXN_COMMIT || t->step == TXN_PROMOTE || t->step == TXN_UNLOAD;
}

enum txn_take_over txn_take_over(const struct txn_found *f)
{
	bool is_candidate = f->recorded_serial != 0 && f->host_serial == f->recorded_serial;
	bool trace = f->recorded_serial != 0 || f->host_candidate != 0 || f->has_state;

	if (!f->alive)
		return f->has_state              ? TXN_TAKE_RECOVER
		       : f->recorded_serial != 0 ? TXN_TAKE_UNDO
						 : TXN_TAKE_NOTHING;
	if (!is_candidate && f->host_serial != f->current_serial)
		return TXN_TAKE_KILL; /* it says that it runs what nobody gave it */
	switch (f->phase) {
	case HOST_PHASE_SERVING:
	case HOST_PHASE_QUIESCED:
		if (is_candidate)
			return TXN_TAKE_COMPLETE;
		return trace || f->phase == HOST_PHASE_QUIESCED ? TXN_TAKE_UNDO : TXN_TAKE_NOTHING;
	case HOST_PHASE_LOADED:
		/* It is loaded beside the one that runs, so that must be the old one. */
		return is_candidate ? TXN_TAKE_KILL : TXN_TAKE_UNDO;
	case HOST_PHASE_EMPTY:
		break; /* nothing runs in it: life_adopt's business, and a lie where it was ready before */
	}
	return TXN_TAKE_KILL;
}
