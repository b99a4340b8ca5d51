/* SPDX-License-Identifier: MIT
 *
 * What becomes of a life when control was started again: what is committed is completed, the rest undone, and
 * a process that lives is kept wherever it was wanted. The rules are in life.h. Control process; pure. */
#include <string.h>

#include "daemon/supervise/life_move.h"

static void adopt_sanitise(struct life *l, int64_t now_ms)
{
	if ((unsigned)l->state >= LIFE__N)
		l->state = LIFE_STOPPED;
	if ((unsigned)l->reason >= LIFE_REASON__N)
		l->reason = LIFE_REASON_NONE;
	if ((unsigned)l->gave_up_reason >= LIFE_REASON__N)
		l->gave_up_reason = LIFE_REASON_NONE;
	if ((unsigned)l->last_exit >= LIFE_EXIT__N)
		l->last_exit = LIFE_EXIT_ERROR;
	if ((unsigned)l->from > LIFE_FROM_SEALED)
		l->from = LIFE_FROM_FRESH;
	if (l->state == LIFE_FAILED && l->reason == LIFE_REASON_NONE)
		l->reason = LIFE_REASON_CRASHED;
	l->keep_wanted = l->keep_wanted != 0;
	l->after_start = l->after_start != 0;
	l->after_gone = l->after_gone != 0;
	l->creating = l->creating != 0;
	if (l->restore_tries >= RESTORE_TRIES)
		l->restore_tries = 0;
	/* A kill that an earlier control had ordered, and noted first: the end that follows is still nobody's fault. */
	l->free_retry = l->free_retry != 0 && (l->state == LIFE_STARTING || l->state == LIFE_BACKOFF);
	l->gone = false;
	l->pending = LIFE_NO_REQUEST; /* whoever asked has seen the end of his connection */
	l->killed = LIFE_KILL_NONE;
	l->stage = STAGE_NONE;
	if (l->ready_ms < 0 || l->ready_ms > now_ms)
		l->ready_ms = now_ms;
	if (l->timer_at_ms < 0) /* due long ago; and a difference of times may not overflow */
		l->timer_at_ms = 0;
	budget_sanitise(&l->budget, now_ms);
}

static int64_t backoff_ceiling_ms(const struct step *s)
{
	int64_t max_ms = s->p->budget.backoff_max_ms;

	max_ms += max_ms / 4;
	return max_ms < INT32_MAX ? max_ms : INT32_MAX;
}

/* No process: carry on with what was wanted. An exit that nobody knows any more is taken as an error. */
static enum life_state adopt_ended(struct step *s, const struct life_finding *f, int64_t timer_at_ms)
{
	struct life *l = s->l;
	int64_t left_ms = timer_at_ms - s->ev->now_ms;

	if (l->state == LIFE_BACKOFF && f->found == LIFE_FOUND_EXITED)
		l->state = LIFE_STARTING; /* begun, and not recorded any more */
	switch (l->state) {
	case LIFE_STARTING:
		if (f->found == LIFE_FOUND_NONE)
			return move_start_begin(s);
		l->last_exit = f->exit;
		return move_start_failed(
			s, l->reason != LIFE_REASON_NONE ? l->reason : LIFE_REASON_EXITED_EARLY);
	case LIFE_RUNNING:
	case LIFE_RELOADING:
	case LIFE_FROZEN:
		l->kept_sealed = l->kept;
		return move_crashed(s);
	case LIFE_STOPPING:
		l->last_exit = f->found == LIFE_FOUND_EXITED ? f->exit : l->last_exit;
		return move_stop_finish(s);
	case LIFE_BACKOFF:
		if (left_ms <= 0)
			return move_start_begin(s);
		move_timer_set(s, left_ms < backoff_ceiling_ms(s) ? (uint32_t)left_ms : (uint32_t)backoff_ceiling_ms(s));
		return LIFE_BACKOFF;
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
	case LIFE_STOPPED:
	case LIFE_FAILED:
	case LIFE__N:
		break;
	}
	return l->state;
}

static enum life_state adopt_starting(struct step *s, const struct life_finding *f)
{
	int64_t now_ms = s->ev->now_ms, started_ms = f->started_ms < 0 || f->started_ms > now_ms ? now_ms : f->started_ms;
	int64_t left_ms = started_ms + s->p->start_timeout_ms - now_ms;

	switch (f->found) {
	case LIFE_FOUND_SERVING:
		s->l->reason = LIFE_REASON_NONE;
		return move_ready(s);
	case LIFE_FOUND_IN_RELOAD:
		s->l->ready_ms = s->ev->now_ms;
		s->l->kept_sealed = s->l->kept;
		return LIFE_RELOADING;
	case LIFE_FOUND_NOT_STARTED:
		s->l->reason = LIFE_REASON_NONE;
		return move_found_empty(s);
	case LIFE_FOUND_SILENT:
	case LIFE_FOUND_NONE:
	case LIFE_FOUND_EXITED:
	case LIFE_FOUND__N:
		break;
	}
	left_ms = left_ms < 1 ? 1 : left_ms;
	move_timer_set(s, left_ms < s->p->start_timeout_ms ? (uint32_t)left_ms : s->p->start_timeout_ms);
	return LIFE_STARTING;
}

static enum life_state adopt_up(struct step *s, const struct life_finding *f)
{
	if (s->l->ready_ms == 0)
		s->l->ready_ms = s->ev->now_ms;
	s->l->kept_sealed = s->l->kept;
	switch (f->found) {
	case LIFE_FOUND_SERVING:
		move_state_drop(s);
		return LIFE_RUNNING;
	case LIFE_FOUND_IN_RELOAD:
		return LIFE_RELOADING;
	case LIFE_FOUND_NOT_STARTED: /* it was ready, and says that it never was */
		move_process_kill(s, LIFE_KILL_TAKE_OVER);
		return s->l->kept ? LIFE_RELOADING : LIFE_RUNNING;
	case LIFE_FOUND_SILENT: /* with a sealed state no call runs: it loads, and mustn't for ever */
		if (s->l->kept)
			move_timer_set(s, s->p->save_ms);
		break;
	case LIFE_FOUND_NONE:
	case LIFE_FOUND_EXITED:
	case LIFE_FOUND__N:
		break;
	}
	return s->l->kept ? LIFE_RELOADING : s->l->state;
}

static enum life_state adopt_stopping(struct step *s, const struct life_finding *f)
{
	if (f->found == LIFE_FOUND_NOT_STARTED) {
		s->l->stage = STAGE_KILLED;
		move_process_kill(s, LIFE_KILL_TAKE_OVER);
		return LIFE_STOPPING;
	}
	if (!s->l->keep_wanted || (s->l->kept && f->found != LIFE_FOUND_SERVING)) {
		if (!s->l->keep_wanted)
			move_state_drop(s);
		return move_stop_ask(s);
	}
	move_state_drop(s);
	if (f->found != LIFE_FOUND_IN_RELOAD)
		return move_stop_begin(s);
	s->l->stage = STAGE_CANCELLING; /* the engine undoes what it finds, then RELOAD_END */
	move_timer_set(s, s->p->save_ms);
	return LIFE_STOPPING;
}

static enum life_state adopt_frozen(struct step *s, const struct life_finding *f)
{
	if (!f->frozen) { /* whoever asked for it was not answered, and it was not done */
		enum life_state next = adopt_up(s, f);

		return next == LIFE_FROZEN ? LIFE_RUNNING : next;
	}
	move_state_drop(s);
	return LIFE_FROZEN;
}

static enum life_state adopt_alive(struct step *s, const struct life_finding *f)
{
	switch (s->l->state) {
	case LIFE_STARTING:
	case LIFE_BACKOFF: /* begun, and not recorded any more */
		return adopt_starting(s, f);
	case LIFE_RUNNING:
	case LIFE_RELOADING:
		return adopt_up(s, f);
	case LIFE_FROZEN:
		return adopt_frozen(s, f);
	case LIFE_STOPPING:
		return adopt_stopping(s, f);
	case LIFE_STOPPED: /* a start was begun that nobody was told of: undone */
	case LIFE_FAILED:
		s->l->keep_wanted = s->l->kept;
		s->l->after_start = s->l->after_gone = false;
		return move_stop_ask(s);
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
	case LIFE__N:
		break;
	}
	return s->l->state;
}

void life_adopt(struct life *l, const struct life_policy *p, const struct life_finding *found, int64_t now_ms,
	struct life_actions *out)
{
	const struct life_event ev = { .type = LIFE_EXITED,
		.now_ms = now_ms,
		.random = found->random,
		.has_older = found->has_older,
		.mirrored = found->mirrored,
		.exit = found->found == LIFE_FOUND_EXITED ? found->exit : LIFE_EXIT_ERROR };
	struct step s = { .l = l, .p = p, .ev = &ev, .out = out };
	bool alive = found->found != LIFE_FOUND_NONE && found->found != LIFE_FOUND_EXITED;
	int64_t timer_at_ms;

	memset(out, 0, sizeof *out);
	adopt_sanitise(l, now_ms);
	timer_at_ms = l->timer_at_ms;
	l->timer_at_ms = 0;
	l->checkpoint = found->has_checkpoint;
	l->kept = found->has_state;
	l->kept_sealed = l->kept && l->kept_sealed;
	l->process = alive ? LIFE_PROCESS_ALIVE : LIFE_PROCESS_NONE;
	if (l->state == LIFE_INITIALIZING || l->state == LIFE_COMPILING || l->creating) {
		l->creating = true; /* also where its first start was begun and not recorded any more: whoever made it isn't told that it is there */
		l->after_gone = true;
		l->after_start = l->keep_wanted = false;
		l->stage = STAGE_KILLED;
		if (alive) {
			move_process_kill(&s, LIFE_KILL_TAKE_OVER);
			move_to(&s, LIFE_STOPPING);
		} else {
			move_to(&s, move_stop_finish(&s));
		}
		return;
	}
	move_to(&s, alive ? adopt_alive(&s, found) : adopt_ended(&s, found, timer_at_ms));
	if (alive && found->frozen && l->state != LIFE_FROZEN)
		out->set |= LIFE_DO_THAW;
}

void life_boot(struct life *l, const struct life_policy *p, bool wanted, bool has_state, uint32_t delay_ms, int64_t now_ms,
	struct life_actions *out)
{
	const struct life_event ev = { .type = LIFE_TIMER, .now_ms = now_ms };
	struct step s = { .l = l, .p = p, .ev = &ev, .out = out };
	bool was_failed, knows_kept;

	memset(out, 0, sizeof *out);
	adopt_sanitise(l, now_ms);
	was_failed = l->state == LIFE_FAILED;
	knows_kept = l->state == LIFE_STOPPED || was_failed; /* else these bytes weren't read, or it was up */
	budget_clear(&l->budget); /* its times are of another boot */
	l->timer_at_ms = l->ready_ms = 0;
	l->creating = l->keep_wanted = l->after_start = l->after_gone = l->free_retry = false;
	l->process = LIFE_PROCESS_NONE;
	l->kept = has_state && (wanted || !knows_kept || l->kept);
	l->kept_sealed = l->checkpoint = false;
	l->restore_tries = 0;
	if (!wanted) {
		move_to(&s, was_failed ? LIFE_FAILED : LIFE_STOPPED);
		l->reason = was_failed ? l->reason : LIFE_REASON_NONE;
		return;
	}
	l->reason = LIFE_REASON_NONE;
	if (delay_ms == 0) {
		move_to(&s, move_start_begin(&s));
		return;
	}
	move_timer_set(&s, delay_ms);
	move_to(&s, LIFE_BACKOFF);
}
