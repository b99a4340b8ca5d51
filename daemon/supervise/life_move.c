/* SPDX-License-Identifier: MIT
 *
 * The moves that the handlers of life.c and the take-over of life_adopt.c are made of: each adds actions and
 * names the next state; move_to alone writes it. Control process; pure. */
#include <assert.h>

#include "daemon/supervise/life_move.h"

#ifndef SEEDED
#define SEEDED(bug) 0 /* tests build this file with bugs put in, to see that they are found */
#endif

static bool on_its_way(enum life_state state)
{
	return state == LIFE_STARTING || state == LIFE_BACKOFF || state == LIFE_STOPPING;
}

void move_to(struct step *s, enum life_state next)
{
	s->l->state = next;
	if (s->p->budget.window_stands && on_its_way(next) && !SEEDED(12))
		budget_stand(&s->l->budget, s->ev->now_ms);
	else
		budget_go_on(&s->l->budget, s->ev->now_ms);
}

void move_timer_set(struct step *s, uint32_t ms)
{
	s->l->timer_at_ms = s->ev->now_ms + ms;
	if (s->l->timer_at_ms == 0)
		s->l->timer_at_ms = 1; /* 0 says "not armed" */
	s->out->set = (s->out->set & ~LIFE_DO_CLEAR_TIMER) | LIFE_DO_SET_TIMER;
	s->out->timer_ms = ms;
}

void move_timer_clear(struct step *s)
{
	if (s->l->timer_at_ms != 0)
		s->out->set |= LIFE_DO_CLEAR_TIMER;
	s->out->set &= ~LIFE_DO_SET_TIMER;
	s->l->timer_at_ms = 0;
}

void move_state_drop(struct step *s)
{
	if (s->l->kept)
		s->out->set |= LIFE_DO_DROP_STATE;
	s->l->kept = s->l->kept_sealed = false;
}

/* It is out of date, with nothing left that could begin from it; or it is to begin anew. */
void move_checkpoint_drop(struct step *s)
{
	if (s->l->checkpoint)
		s->out->set |= LIFE_DO_DROP_CHECKPOINT;
	s->l->checkpoint = false;
}

/* The next start is from it. */
void move_checkpoint_take(struct step *s)
{
	s->out->set |= LIFE_DO_TAKE_CHECKPOINT;
	s->l->checkpoint = false;
	s->l->kept = true;
	s->l->kept_sealed = false;
}

/* A start by policy failed, and it had begun from a state: the second time it is that state's fault. Not where nothing was begun: no process
 * could be made, or there was nothing to load. */
static void move_restore_failed(struct step *s, enum life_reason reason)
{
	struct life *l = s->l;

	if (!l->kept || l->from == LIFE_FROM_FRESH || reason == LIFE_REASON_BEGIN_FAILED)
		return;
	if (++l->restore_tries < RESTORE_TRIES + SEEDED(10))
		return;
	move_state_drop(s);
	l->restore_tries = 0;
	s->out->set |= LIFE_DO_SET_ASIDE;
	if (l->checkpoint && s->p->from_checkpoint) { /* it was the state of a reload's save: newer */
		move_checkpoint_take(s);
	} else if (s->ev->has_older && !SEEDED(13)) {
		s->out->set |= LIFE_DO_TAKE_OLDER;
		l->kept = true;
	}
}

void move_answer(struct step *s, bool ok, enum life_reason reason)
{
	if (s->l->pending == LIFE_NO_REQUEST)
		return;
	assert(!(s->out->set & LIFE_DO_ANSWER));
	s->out->set |= LIFE_DO_ANSWER;
	s->out->request = s->l->pending;
	s->out->ok = ok;
	s->out->reason = reason;
	s->out->state_kept = s->l->kept;
	s->out->from = s->l->from;
	s->l->pending = LIFE_NO_REQUEST;
}

/* `request` takes the place of the one that waits, if any. */
void move_pending_replace(struct step *s, enum life_request request)
{
	if (!SEEDED(1))
		move_answer(s, false, LIFE_REASON_CANCELLED);
	s->l->pending = request;
}

/* Once per process; one that is not born yet is killed at birth. */
void move_process_kill(struct step *s, enum life_kill why)
{
	move_timer_clear(s);
	if (s->l->killed == LIFE_KILL_NONE) {
		s->l->killed = why;
		if (s->l->process == LIFE_PROCESS_ALIVE || SEEDED(2)) {
			s->out->set |= LIFE_DO_KILL;
			s->out->kill_why = why;
		}
	}
}

enum life_state move_start_begin(struct step *s)
{
	struct life *l = s->l;

	l->process = LIFE_PROCESS_BEGUN;
	l->killed = LIFE_KILL_NONE;
	l->reason = LIFE_REASON_NONE;
	l->free_retry = false;
	l->ready_ms = 0;
	l->stage = STAGE_NONE;
	l->after_start = l->after_gone = l->keep_wanted = false;
	if (l->pending != LIFE_NO_REQUEST)
		l->restore_tries = 0; /* whoever asks, tries anew */
	l->from = !l->kept ? LIFE_FROM_FRESH : l->kept_sealed ? LIFE_FROM_SEALED : LIFE_FROM_KEPT;
	s->out->from = l->from;
	s->out->set |= LIFE_DO_BEGIN_START;
	move_timer_set(s, s->p->start_timeout_ms);
	return LIFE_STARTING;
}

/* The policy's word on a process that ended by itself, or on a start by policy that failed. */
enum life_state move_policy_decide(struct step *s, enum life_reason reason, bool clean)
{
	struct life *l = s->l;

	move_timer_clear(s);
	if (s->p->restart == LIFE_TEMPORARY || (s->p->restart == LIFE_TRANSIENT && clean && !SEEDED(3))) {
		l->reason = clean ? LIFE_REASON_NONE : reason;
		return clean ? LIFE_STOPPED : LIFE_FAILED;
	}
	if (!budget_charge(&l->budget, &s->p->budget, s->ev->now_ms, &s->out->delay_ms)) {
		l->reason = LIFE_REASON_GAVE_UP;
		l->gave_up_reason = reason;
		s->out->set |= LIFE_DO_NOTE_GAVE_UP;
		return LIFE_FAILED;
	}
	if (s->out->delay_ms > 0) {
		s->out->jitter_ms = budget_jitter_ms(s->out->delay_ms, s->ev->random);
		s->out->delay_ms = s->out->delay_ms < UINT32_MAX - s->out->jitter_ms ? s->out->delay_ms + s->out->jitter_ms : UINT32_MAX;
	}
	l->restarts++;
	s->out->set |= LIFE_DO_NOTE_RESTART;
	if (s->out->delay_ms == 0)
		return move_start_begin(s);
	move_timer_set(s, s->out->delay_ms);
	return LIFE_BACKOFF;
}

enum life_state move_gone(struct step *s, enum life_state last)
{
	move_state_drop(s);
	move_checkpoint_drop(s);
	move_timer_clear(s);
	s->l->gone = true;
	s->l->stage = STAGE_NONE;
	s->out->set |= LIFE_DO_GONE;
	return last;
}

/* There is no process any more, and that was wanted: what now? */
enum life_state move_stop_finish(struct step *s)
{
	struct life *l = s->l;

	move_timer_clear(s);
	l->stage = STAGE_NONE;
	l->process = LIFE_PROCESS_NONE;
	l->reason = LIFE_REASON_NONE;
	if (!l->keep_wanted)
		move_state_drop(s);
	if (l->keep_wanted && !l->kept && l->checkpoint && s->p->from_checkpoint && !SEEDED(15))
		move_checkpoint_take(s); /* it died, or could not be saved: better than nothing */
	else
		move_checkpoint_drop(s);
	if (l->after_gone) {
		move_answer(s, true, LIFE_REASON_NONE);
		return move_gone(s, LIFE_STOPPED);
	}
	if (l->after_start)
		return move_start_begin(s);
	move_answer(s, true, LIFE_REASON_NONE);
	return LIFE_STOPPED;
}

enum life_state move_start_failed(struct step *s, enum life_reason reason)
{
	struct life *l = s->l;

	l->process = LIFE_PROCESS_NONE;
	move_timer_clear(s);
	if (l->creating) {
		l->reason = reason;
		move_answer(s, false, reason);
		return move_gone(s, LIFE_FAILED);
	}
	if (l->pending != LIFE_NO_REQUEST) {
		l->reason = reason;
		move_answer(s, false, reason);
		return LIFE_FAILED;
	}
	if (s->ev->type == LIFE_BEGIN_FAILED && s->ev->hopeless) {
		l->reason = reason;
		return LIFE_FAILED;
	}
	if (l->free_retry)
		return move_start_begin(s);
	move_restore_failed(s, reason);
	s->out->set |= LIFE_DO_NOTE_CRASHED;
	s->out->reason = reason;
	return move_policy_decide(s, reason, false);
}

enum life_state move_stop_ask(struct step *s)
{
	s->l->stage = STAGE_ASKED;
	s->out->set |= LIFE_DO_ASK_STOP;
	move_timer_set(s, s->p->shutdown_ms);
	return LIFE_STOPPING;
}

/* The process serves, and no transaction is at work: save it, or ask it to stop. */
enum life_state move_stop_begin(struct step *s)
{
	if (!s->l->keep_wanted)
		return move_stop_ask(s);
	s->l->stage = STAGE_SAVING;
	s->out->set |= LIFE_DO_ASK_SAVE;
	move_timer_set(s, s->p->save_ms);
	return LIFE_STOPPING;
}

void move_process_ended(struct step *s)
{
	s->l->process = LIFE_PROCESS_NONE;
	s->l->last_exit = s->ev->exit;
	if (!life_exit_is_clean(s->ev->exit)) {
		s->out->set |= LIFE_DO_NOTE_CRASHED;
		s->out->reason = LIFE_REASON_CRASHED;
	}
	if (s->l->ready_ms != 0)
		budget_uptime(&s->l->budget, &s->p->budget, s->ev->now_ms - s->l->ready_ms);
}

enum life_state move_ready(struct step *s)
{
	struct life *l = s->l;

	if (l->process != LIFE_PROCESS_ALIVE || l->killed != LIFE_KILL_NONE || l->reason != LIFE_REASON_NONE)
		return NOT_TAKEN;
	move_timer_clear(s);
	if (s->p->from_checkpoint && l->kept && !s->ev->mirrored && !SEEDED(4)) {
		s->out->set |= LIFE_DO_SET_CHECKPOINT; /* out of date, but better than nothing after a crash */
		l->checkpoint = true;
		l->kept = l->kept_sealed = false;
	} else if (!SEEDED(4)) {
		move_state_drop(s); /* from the first call on it is out of date */
		l->checkpoint = l->checkpoint || s->ev->mirrored;
	}
	l->restore_tries = 0;
	l->ready_ms = s->ev->now_ms;
	l->creating = false;
	s->out->set |= LIFE_DO_NOTE_STARTED;
	move_answer(s, true, LIFE_REASON_NONE);
	return LIFE_RUNNING;
}

enum life_state move_found_empty(struct step *s)
{
	if (s->l->process != LIFE_PROCESS_ALIVE || s->l->killed != LIFE_KILL_NONE ||
		s->l->pending != LIFE_NO_REQUEST)
		return NOT_TAKEN;
	s->l->free_retry = true;
	move_process_kill(s, LIFE_KILL_TAKE_OVER);
	return LIFE_STARTING;
}

enum life_state move_crashed(struct step *s)
{
	move_process_ended(s);
	if (s->l->kept) /* a reload that a dead control had sealed */
		return move_start_begin(s);
	if (s->l->checkpoint && s->p->from_checkpoint && !SEEDED(14))
		move_checkpoint_take(s);
	return move_policy_decide(s, LIFE_REASON_CRASHED, life_exit_is_clean(s->ev->exit));
}
