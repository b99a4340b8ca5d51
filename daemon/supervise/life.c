/* SPDX-License-Identifier: MIT
 *
 * The life of one sandbox as a table of state x event. A handler names the next state and adds actions;
 * life_step, life_adopt and life_boot alone write `state` (move_to). A cell that is empty refuses a request and ignores a fact.
 * The rules are in life.h; what users read (names, exit classes) is in life_text.c. Control process; pure. */
#include <string.h>

#include "daemon/supervise/life_move.h"

#ifndef SEEDED
#define SEEDED(bug) 0 /* tests build this file with bugs put in, to see that they are found */
#endif

typedef enum life_state handler(struct step *s);

/* ---- before the first start ---- */

static enum life_state on_create_start(struct step *s)
{
	s->l->creating = true;
	s->l->pending = LIFE_REQUEST_CREATE;
	return move_start_begin(s);
}

static enum life_state on_compile_begin(struct step *s)
{
	(void)s;
	return LIFE_COMPILING;
}

static enum life_state on_compile_end(struct step *s)
{
	(void)s;
	return LIFE_INITIALIZING;
}

static enum life_state on_create_failed(struct step *s)
{
	s->l->reason = LIFE_REASON_BEGIN_FAILED;
	return move_gone(s, LIFE_FAILED);
}

/* ---- starting ---- */

static enum life_state on_born(struct step *s)
{
	if (s->l->process != LIFE_PROCESS_BEGUN)
		return NOT_TAKEN;
	s->l->process = LIFE_PROCESS_ALIVE;
	if (s->l->killed != LIFE_KILL_NONE) {
		s->out->set |= LIFE_DO_KILL;
		s->out->kill_why = s->l->killed;
	}
	return s->l->state;
}

static enum life_state starting_begin_failed(struct step *s)
{
	if (s->l->process != LIFE_PROCESS_BEGUN)
		return NOT_TAKEN;
	return move_start_failed(
		s, s->l->reason != LIFE_REASON_NONE ? s->l->reason : LIFE_REASON_BEGIN_FAILED);
}

static enum life_state starting_host_failed(struct step *s)
{
	if (s->l->process != LIFE_PROCESS_ALIVE || s->l->reason != LIFE_REASON_NONE)
		return NOT_TAKEN;
	s->l->reason = s->ev->unbegun ? LIFE_REASON_BEGIN_FAILED : LIFE_REASON_HOST_FAILED; /* its exit follows; the timer sees to that */
	return LIFE_STARTING;
}

static enum life_state starting_timer(struct step *s)
{
	if (s->l->reason == LIFE_REASON_NONE)
		s->l->reason = LIFE_REASON_START_TIMEOUT;
	move_process_kill(s, LIFE_KILL_START_TIMEOUT);
	if (SEEDED(5))
		return move_start_failed(s, s->l->reason);
	return LIFE_STARTING;
}

static enum life_state starting_exited(struct step *s)
{
	if (s->l->process != LIFE_PROCESS_ALIVE)
		return NOT_TAKEN;
	s->l->last_exit = s->ev->exit;
	return move_start_failed(
		s, s->l->reason != LIFE_REASON_NONE ? s->l->reason : LIFE_REASON_EXITED_EARLY);
}

static enum life_state starting_stop(struct step *s)
{
	if (s->l->creating)
		return NOT_TAKEN; /* a create that ends keeps nothing: DESTROY */
	move_pending_replace(s, LIFE_REQUEST_STOP);
	s->l->keep_wanted = s->ev->keep_state; /* the state that it starts from is still kept */
	s->l->stage = STAGE_KILLED;
	move_process_kill(s, LIFE_KILL_CANCELLED);
	return LIFE_STOPPING;
}

static enum life_state starting_destroy(struct step *s)
{
	move_pending_replace(s, LIFE_REQUEST_DESTROY);
	s->l->after_gone = true;
	s->l->stage = STAGE_KILLED;
	move_process_kill(s, LIFE_KILL_DESTROY);
	return LIFE_STOPPING;
}

/* ---- running, reloading ---- */

static enum life_state up_end(struct step *s, enum life_request request)
{
	struct life *l = s->l;

	l->pending = request;
	l->keep_wanted = request != LIFE_REQUEST_DESTROY && s->ev->keep_state;
	l->after_start = request == LIFE_REQUEST_RESTART;
	l->after_gone = request == LIFE_REQUEST_DESTROY;
	if (l->state == LIFE_FROZEN && !SEEDED(11))
		s->out->set |= LIFE_DO_THAW;
	if (l->state != LIFE_RELOADING || SEEDED(6))
		return move_stop_begin(s);
	l->stage = STAGE_CANCELLING;
	s->out->set |= LIFE_DO_CANCEL_TXN;
	move_timer_set(s, s->p->save_ms);
	return LIFE_STOPPING;
}

static enum life_state up_stop(struct step *s)
{
	return up_end(s, LIFE_REQUEST_STOP);
}

static enum life_state up_restart(struct step *s)
{
	return up_end(s, LIFE_REQUEST_RESTART);
}

static enum life_state up_destroy(struct step *s)
{
	return up_end(s, LIFE_REQUEST_DESTROY);
}

static enum life_state running_reload_begin(struct step *s)
{
	if (s->l->killed != LIFE_KILL_NONE)
		return NOT_TAKEN;
	return LIFE_RELOADING;
}

static enum life_state running_freeze(struct step *s)
{
	if (s->l->killed != LIFE_KILL_NONE)
		return NOT_TAKEN;
	s->out->set |= LIFE_DO_FREEZE;
	return LIFE_FROZEN;
}

/* Also while it stops: a reload that had come too far to be cancelled. */
static enum life_state up_checkpointed(struct step *s)
{
	s->l->checkpoint = true;
	return s->l->state;
}

static enum life_state frozen_thaw(struct step *s)
{
	s->out->set |= LIFE_DO_THAW;
	return LIFE_RUNNING;
}

static enum life_state reloading_end(struct step *s)
{
	move_timer_clear(s);
	move_state_drop(s);
	return LIFE_RUNNING;
}

/* Taken over in the middle of a load, and it hasn't said a word since: it comes back from the sealed state. */
static enum life_state reloading_timer(struct step *s)
{
	move_process_kill(s, LIFE_KILL_TAKE_OVER);
	return LIFE_RELOADING;
}

static enum life_state reloading_died_sealed(struct step *s)
{
	move_process_ended(s);
	s->l->kept = s->l->kept_sealed = true;
	if (SEEDED(7))
		return move_policy_decide(s, LIFE_REASON_CRASHED, false);
	return move_start_begin(s);
}

/* ---- stopping ---- */

static enum life_state stopping_stop(struct step *s)
{
	struct life *l = s->l;

	if (l->after_gone || l->pending == LIFE_REQUEST_STOP)
		return NOT_TAKEN;
	move_pending_replace(s, LIFE_REQUEST_STOP);
	l->after_start = false;
	l->keep_wanted = s->ev->keep_state &&
			 (l->keep_wanted || l->stage == STAGE_CANCELLING); /* else it is too late to save */
	if (!l->keep_wanted)
		move_state_drop(s);
	return LIFE_STOPPING;
}

/* Wanted again before it was down: the stop goes on to its end, a start follows. */
static enum life_state stopping_start(struct step *s)
{
	if (s->l->after_gone || s->l->after_start)
		return NOT_TAKEN;
	move_pending_replace(s, LIFE_REQUEST_START);
	s->l->after_start = true;
	if (!s->ev->keep_state) {
		s->l->keep_wanted = false;
		move_state_drop(s);
	}
	return LIFE_STOPPING;
}

static enum life_state stopping_destroy(struct step *s)
{
	if (s->l->pending == LIFE_REQUEST_DESTROY)
		return NOT_TAKEN;
	move_pending_replace(s, LIFE_REQUEST_DESTROY);
	s->l->after_gone = true;
	s->l->after_start = s->l->keep_wanted = false;
	move_state_drop(s);
	return LIFE_STOPPING; /* the step at work goes on to its end: each has a deadline */
}

static enum life_state stopping_hurry(struct step *s)
{
	if (s->l->stage == STAGE_KILLED)
		return NOT_TAKEN;
	s->l->stage = STAGE_KILLED;
	move_process_kill(s, LIFE_KILL_HURRY);
	return LIFE_STOPPING;
}

static enum life_state stopping_begin_failed(struct step *s)
{
	return s->l->process == LIFE_PROCESS_BEGUN ? move_stop_finish(s) : NOT_TAKEN;
}

static enum life_state stopping_exited(struct step *s)
{
	if (s->l->process != LIFE_PROCESS_ALIVE)
		return NOT_TAKEN;
	s->l->last_exit = s->ev->exit;
	if (s->ev->exit == LIFE_EXIT_ERROR) {
		s->out->set |= LIFE_DO_NOTE_CRASHED;
		s->out->reason = LIFE_REASON_CRASHED;
	}
	return move_stop_finish(s);
}

static enum life_state stopping_save_done(struct step *s)
{
	if (s->l->stage != STAGE_SAVING && s->l->stage != STAGE_KILLED)
		return NOT_TAKEN;
	s->l->kept = true;
	s->l->kept_sealed = false;
	if (!s->l->keep_wanted)
		move_state_drop(s);
	return s->l->stage == STAGE_SAVING ? move_stop_ask(s) : LIFE_STOPPING;
}

static enum life_state stopping_save_failed(struct step *s)
{
	struct life *l = s->l;

	if (l->stage != STAGE_SAVING)
		return NOT_TAKEN;
	if (!l->after_start || SEEDED(8))
		return move_stop_ask(s);
	move_timer_clear(s);
	l->stage = STAGE_NONE;
	l->after_start = l->keep_wanted = false;
	move_answer(s, false, LIFE_REASON_SAVE_FAILED); /* a cold restart is never silent: it serves on */
	return LIFE_RUNNING;
}

static enum life_state stopping_reload_end(struct step *s)
{
	if (s->l->stage == STAGE_KILLED && s->l->process == LIFE_PROCESS_ALIVE && !SEEDED(16)) {
		s->out->set |= LIFE_DO_KILL; /* it may have promoted another process since, which that kill didn't hit */
		s->out->kill_why = s->l->killed;
		return LIFE_STOPPING;
	}
	if (s->l->stage != STAGE_CANCELLING)
		return NOT_TAKEN;
	move_state_drop(s);
	return move_stop_begin(s);
}

static enum life_state stopping_died_sealed(struct step *s)
{
	if (s->l->stage != STAGE_CANCELLING && s->l->stage != STAGE_KILLED)
		return NOT_TAKEN;
	if (s->l->process != LIFE_PROCESS_ALIVE)
		return NOT_TAKEN;
	s->l->kept = s->l->kept_sealed = true;
	s->l->last_exit = s->ev->exit;
	return move_stop_finish(s);
}

static enum life_state stopping_timer(struct step *s)
{
	if (s->l->stage == STAGE_SAVING) {
		s->out->set |=
			LIFE_DO_CANCEL_TXN; /* its end is SAVE_FAILED, or SAVE_DONE if that was faster */
		return LIFE_STOPPING;
	}
	s->l->stage = STAGE_KILLED;
	move_process_kill(s, LIFE_KILL_SHUTDOWN_DEADLINE);
	return SEEDED(9) ? move_stop_finish(s) : LIFE_STOPPING;
}

/* ---- down: stopped, backoff, failed ---- */

static enum life_state down_start_as(struct step *s, enum life_request request)
{
	if (s->l->state == LIFE_FAILED)
		budget_clear(&s->l->budget);
	if (!s->ev->keep_state) {
		move_state_drop(s);
		move_checkpoint_drop(s);
	}
	s->l->pending = request;
	return move_start_begin(s);
}

static enum life_state down_start(struct step *s)
{
	return down_start_as(s, LIFE_REQUEST_START);
}

static enum life_state down_restart(struct step *s)
{
	return down_start_as(s, LIFE_REQUEST_RESTART);
}

static enum life_state down_stop(struct step *s)
{
	s->l->pending = LIFE_REQUEST_STOP;
	s->l->keep_wanted = s->ev->keep_state;
	s->l->after_start = s->l->after_gone = false;
	return move_stop_finish(s);
}

static enum life_state down_destroy(struct step *s)
{
	s->l->pending = LIFE_REQUEST_DESTROY;
	s->l->keep_wanted = s->l->after_start = false;
	s->l->after_gone = true;
	return move_stop_finish(s);
}

static enum life_state backoff_timer(struct step *s)
{
	return move_start_begin(s);
}

static enum life_state on_reset(struct step *s)
{
	budget_clear(&s->l->budget);
	if (s->l->state != LIFE_FAILED)
		return s->l->state;
	s->l->reason = LIFE_REASON_NONE;
	return LIFE_STOPPED;
}

static handler *const table[LIFE__N][LIFE_EVENT__N] = {
	[LIFE_INITIALIZING] = {
		[LIFE_CREATE_START] = on_create_start, [LIFE_DESTROY] = down_destroy,
		[LIFE_COMPILE_BEGIN] = on_compile_begin, [LIFE_BEGIN_FAILED] = on_create_failed,
	},
	[LIFE_COMPILING] = {
		[LIFE_CREATE_START] = on_create_start, [LIFE_DESTROY] = down_destroy,
		[LIFE_COMPILE_END] = on_compile_end, [LIFE_BEGIN_FAILED] = on_create_failed,
	},
	[LIFE_STARTING] = {
		[LIFE_STOP] = starting_stop, [LIFE_DESTROY] = starting_destroy, [LIFE_RESET] = on_reset,
		[LIFE_BORN] = on_born, [LIFE_BEGIN_FAILED] = starting_begin_failed, [LIFE_READY] = move_ready,
		[LIFE_HOST_FAILED] = starting_host_failed, [LIFE_FOUND_EMPTY] = move_found_empty,
		[LIFE_EXITED] = starting_exited, [LIFE_TIMER] = starting_timer,
	},
	[LIFE_RUNNING] = {
		[LIFE_STOP] = up_stop, [LIFE_RESTART] = up_restart, [LIFE_DESTROY] = up_destroy,
		[LIFE_RESET] = on_reset, [LIFE_RELOAD_BEGIN] = running_reload_begin, [LIFE_EXITED] = move_crashed,
		[LIFE_FREEZE] = running_freeze, [LIFE_CHECKPOINTED] = up_checkpointed,
	},
	[LIFE_FROZEN] = {
		[LIFE_STOP] = up_stop, [LIFE_RESTART] = up_restart, [LIFE_DESTROY] = up_destroy,
		[LIFE_RESET] = on_reset, [LIFE_THAW] = frozen_thaw, [LIFE_EXITED] = move_crashed,
	},
	[LIFE_RELOADING] = {
		[LIFE_STOP] = up_stop, [LIFE_RESTART] = up_restart, [LIFE_DESTROY] = up_destroy,
		[LIFE_RESET] = on_reset, [LIFE_RELOAD_END] = reloading_end, [LIFE_EXITED] = move_crashed,
		[LIFE_RELOAD_DIED_SEALED] = reloading_died_sealed, [LIFE_TIMER] = reloading_timer, [LIFE_CHECKPOINTED] = up_checkpointed,
	},
	[LIFE_STOPPING] = {
		[LIFE_START] = stopping_start, [LIFE_STOP] = stopping_stop, [LIFE_DESTROY] = stopping_destroy, [LIFE_RESET] = on_reset,
		[LIFE_HURRY] = stopping_hurry, [LIFE_BORN] = on_born, [LIFE_BEGIN_FAILED] = stopping_begin_failed,
		[LIFE_EXITED] = stopping_exited, [LIFE_SAVE_DONE] = stopping_save_done,
		[LIFE_SAVE_FAILED] = stopping_save_failed, [LIFE_RELOAD_END] = stopping_reload_end,
		[LIFE_RELOAD_DIED_SEALED] = stopping_died_sealed, [LIFE_TIMER] = stopping_timer, [LIFE_CHECKPOINTED] = up_checkpointed,
	},
	[LIFE_STOPPED] = {
		[LIFE_START] = down_start, [LIFE_STOP] = down_stop, [LIFE_RESTART] = down_restart,
		[LIFE_DESTROY] = down_destroy, [LIFE_RESET] = on_reset,
	},
	[LIFE_BACKOFF] = {
		[LIFE_START] = down_start, [LIFE_STOP] = down_stop, [LIFE_RESTART] = down_restart,
		[LIFE_DESTROY] = down_destroy, [LIFE_RESET] = on_reset, [LIFE_TIMER] = backoff_timer,
	},
	[LIFE_FAILED] = {
		[LIFE_START] = down_start, [LIFE_STOP] = down_stop, [LIFE_RESTART] = down_restart,
		[LIFE_DESTROY] = down_destroy, [LIFE_RESET] = on_reset,
	},
};

void life_init(struct life *l)
{
	memset(l, 0, sizeof *l);
}

enum life_result life_step(
	struct life *l, const struct life_policy *p, const struct life_event *ev, struct life_actions *out)
{
	struct step s = { .l = l, .p = p, .ev = ev, .out = out };
	handler *run = table[l->state][ev->type];
	enum life_state next = NOT_TAKEN;

	memset(out, 0, sizeof *out);
	if (ev->type == LIFE_TIMER) {
		if (l->timer_at_ms == 0)
			run = NULL; /* it was cleared, and had fired already */
		l->timer_at_ms = 0;
	}
	if (run != NULL && !l->gone)
		next = run(&s);
	if (next == NOT_TAKEN)
		return ev->type < LIFE_COMPILE_BEGIN ? LIFE_REFUSED : LIFE_IGNORED;
	move_to(&s, next);
	return LIFE_TAKEN;
}
