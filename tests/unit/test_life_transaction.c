/* SPDX-License-Identifier: MIT
 *
 * Life and transaction together, with the smallest engine between them, a host and a spawner that answer,
 * fail, hang and die at random, and clients that count. What a client was told must be there whenever a start
 * claims to have kept the state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/reload/transaction.h"
#include "daemon/supervise/life.h"

#include "tests/support/check_main.h"

#define QUEUE 64

/* What was sent to the host and not read by it yet; it is read in order. */
enum word { REHEARSE, QUIESCE, SAVE, LOAD, COMMIT, ABORT, STOP };

struct queue {
	int items[QUEUE], n;
};

struct engine {
	struct life l;
	struct life_policy lp;
	struct txn t;
	struct txn_policy tp;
	int64_t now_ms;
	bool life_timer, txn_timer, held;
	struct queue life_events, txn_events; /* events that came up while actions were carried out */
	struct queue host;                    /* words */
	bool begun, alive, quiesced, dying, recover;
	enum life_from from;
	int version, candidate, current, recorded;
	long value, acknowledged, state, kept; /* kept: -1 nothing */
	enum life_exit exit;
	int waiting;
	unsigned seed;
	unsigned long reloads, recoveries, kept_starts, answers, gone;
};

static unsigned pick(struct engine *e, unsigned n)
{
	return (unsigned)rand_r(&e->seed) % n;
}

static void push(struct queue *q, int item)
{
	ck_assert_int_lt(q->n, QUEUE);
	q->items[q->n++] = item;
}

static int shift(struct queue *q)
{
	int item = q->items[0];

	memmove(q->items, q->items + 1, (size_t)--q->n * sizeof q->items[0]);
	return item;
}

static enum life_result life_feed(struct engine *e, enum life_event_type type, bool keep);

static void txn_do(struct engine *e, const struct txn_actions *out)
{
	const uint32_t set = out->set;

	e->txn_timer = set & TXN_DO_SET_TIMER ? true : set & TXN_DO_CLEAR_TIMER ? false : e->txn_timer;
	if (set & TXN_DO_PLACE)
		push(&e->txn_events, pick(e, 20) ? TXN_EV_PLACED : TXN_EV_PLACE_FAILED);
	if (set & TXN_DO_HOLD_CALLS)
		e->held = true;
	if (set & TXN_DO_SEND_REHEARSE)
		push(&e->host, REHEARSE);
	if (set & TXN_DO_SEND_QUIESCE)
		push(&e->host, QUIESCE);
	if (set & TXN_DO_MAKE_STATE)
		push(&e->txn_events, pick(e, 20) ? TXN_EV_MADE : TXN_EV_MAKE_FAILED);
	if (set & TXN_DO_SEND_SAVE)
		push(&e->host, SAVE);
	if (set & TXN_DO_SEAL)
		push(&e->txn_events, pick(e, 20) ? TXN_EV_SEALED : TXN_EV_SEAL_FAILED);
	if (set & TXN_DO_KEEP_STATE) {
		e->kept = e->state;
		push(&e->txn_events, pick(e, 20) ? TXN_EV_KEPT : TXN_EV_KEEP_FAILED);
	}
	if (set & TXN_DO_SEND_LOAD)
		push(&e->host, LOAD);
	if (set & TXN_DO_RECORD) {
		e->recorded = e->candidate;
		push(&e->txn_events, pick(e, 20) ? TXN_EV_RECORDED : TXN_EV_RECORD_FAILED);
	}
	if (set & TXN_DO_SEND_COMMIT)
		push(&e->host, COMMIT);
	if (set & TXN_DO_SEND_ABORT)
		push(&e->host, ABORT);
	e->dying |= (set & TXN_DO_KILL_HOST) != 0;
	if (set & TXN_DO_ADOPT)
		e->current = e->recorded;
	if (set & (TXN_DO_ADOPT | TXN_DO_UNRECORD))
		e->recorded = 0;
	if (set & TXN_DO_DROP_STATE)
		e->kept = -1;
	if (set & TXN_DO_RELEASE_CALLS)
		e->held = false;
	e->recover |= (set & TXN_DO_RECOVER) != 0;
	if (!(set & TXN_DO_FINISHED))
		return;
	e->txn_events.n = 0; /* answers that nobody waits for any more */
	if (e->alive || (out->ok && e->t.mode == TXN_SAVE_ONLY))
		push(&e->life_events, e->t.mode == TXN_RELOAD ? LIFE_RELOAD_END
				      : out->ok               ? LIFE_SAVE_DONE
							      : LIFE_SAVE_FAILED);
	if (!e->alive) {
		push(&e->life_events, e->recover ? LIFE_RELOAD_DIED_SEALED : LIFE_EXITED);
		e->recoveries += e->recover;
	}
	e->reloads += e->t.mode == TXN_RELOAD && out->ok;
	e->recover = false;
}

static void txn_feed(struct engine *e, enum txn_event_type type, uint64_t bytes)
{
	struct txn_event ev = { .type = type, .bytes = bytes };
	struct txn_actions out;

	if (type == TXN_EV_TIMER)
		e->txn_timer = false;
	if (txn_step(&e->t, &e->tp, &ev, &out))
		txn_do(e, &out);
}

static void txn_start(struct engine *e, enum txn_mode mode)
{
	struct txn_actions out;

	ck_assert_msg(!txn_active(&e->t), "two transactions at once");
	e->candidate = e->current == 1 ? 2 : 1;
	txn_begin(&e->t, mode, &e->tp, 0, &out);
	txn_do(e, &out);
}

static void life_do(struct engine *e, const struct life_actions *out)
{
	const uint32_t set = out->set;

	e->life_timer = set & LIFE_DO_SET_TIMER ? true : set & LIFE_DO_CLEAR_TIMER ? false : e->life_timer;
	if (set & LIFE_DO_DROP_STATE)
		e->kept = -1;
	if (set & LIFE_DO_CANCEL_TXN)
		push(&e->txn_events, TXN_EV_CANCEL);
	if (set & LIFE_DO_ASK_SAVE)
		txn_start(e, TXN_SAVE_ONLY);
	if (set & LIFE_DO_ASK_STOP) {
		ck_assert_msg(!txn_active(&e->t), "STOP amid a transaction");
		push(&e->host, STOP);
	}
	if (set & LIFE_DO_KILL) {
		ck_assert(e->alive);
		e->dying = true;
	}
	if (set & LIFE_DO_BEGIN_START) {
		ck_assert_msg(!e->alive && !e->begun && !txn_active(&e->t),
			"a start beside a process (%d, %d) or a transaction (%s)", e->alive, e->begun,
			txn_step_text(e->t.step));
		e->begun = true;
		e->held = false; /* the hold has ended with the process */
		e->from = out->from;
		if (out->from == LIFE_FROM_FRESH) {
			e->acknowledged = 0; /* an ordinary crash, or wished */
		} else {
			ck_assert_int_eq(e->kept, e->acknowledged); /* nothing acknowledged is lost */
			e->kept_starts++;
		}
	}
	if (set & LIFE_DO_ANSWER) {
		ck_assert_int_eq(e->waiting, (int)out->request);
		if (out->request == LIFE_REQUEST_STOP && out->ok && out->state_kept)
			ck_assert_int_eq(e->kept, e->acknowledged);
		e->waiting = LIFE_NO_REQUEST;
		e->answers++;
	}
	if (set & LIFE_DO_GONE) {
		ck_assert(!e->alive && !e->begun && e->kept == -1 && !txn_active(&e->t) && !e->txn_timer &&
			  !e->life_timer);
		e->gone++;
	}
}

static enum life_result life_feed(struct engine *e, enum life_event_type type, bool keep)
{
	static const enum life_request requests[LIFE_EVENT__N] = { [LIFE_CREATE_START] = LIFE_REQUEST_CREATE,
		[LIFE_START] = LIFE_REQUEST_START,
		[LIFE_STOP] = LIFE_REQUEST_STOP,
		[LIFE_RESTART] = LIFE_REQUEST_RESTART,
		[LIFE_DESTROY] = LIFE_REQUEST_DESTROY };
	struct life_event ev = { .type = type, .now_ms = e->now_ms, .keep_state = keep, .exit = e->exit };
	struct life_actions out;
	enum life_result r;
	int before = e->waiting;

	if (type == LIFE_TIMER)
		e->life_timer = false;
	r = life_step(&e->l, &e->lp, &ev, &out);
	if (r != LIFE_TAKEN)
		return r;
	if (requests[type] != LIFE_NO_REQUEST && before == LIFE_NO_REQUEST)
		e->waiting = (int)requests[type];
	life_do(e, &out);
	if (requests[type] != LIFE_NO_REQUEST && before != LIFE_NO_REQUEST)
		e->waiting = (int)requests[type]; /* the one before was answered in this step */
	if (type == LIFE_RELOAD_BEGIN)
		txn_start(e, TXN_RELOAD);
	return r;
}

static void host_end(struct engine *e, enum life_exit exit)
{
	e->alive = e->dying = e->quiesced = false;
	e->host.n = 0;
	e->exit = exit;
	if (txn_active(&e->t))
		txn_feed(e, TXN_EV_HOST_DIED, 0);
	else
		push(&e->life_events, LIFE_EXITED);
}

/* The host reads one word, and answers well or not. */
static void host_read(struct engine *e)
{
	bool fails = pick(e, 10) == 0;

	switch ((enum word)shift(&e->host)) {
	case REHEARSE:
		txn_feed(e, fails ? TXN_EV_REHEARSE_FAILED : TXN_EV_REHEARSED, 100);
		break;
	case QUIESCE:
		e->quiesced = true;
		txn_feed(e, TXN_EV_QUIESCED, 0);
		break;
	case SAVE:
		e->state = e->value;
		txn_feed(e, fails ? pick(e, 2) ? TXN_EV_SAVE_FAILED : TXN_EV_SAVE_TOO_SMALL : TXN_EV_SAVED,
			fails ? e->t.state_bytes + 1 : 100);
		break;
	case LOAD:
		txn_feed(e, fails ? TXN_EV_LOAD_FAILED : TXN_EV_LOADED, 0);
		break;
	case COMMIT:
		e->version = e->candidate;
		e->quiesced = false;
		txn_feed(e, TXN_EV_COMMITTED, 0);
		if (pick(e, 4))
			txn_feed(e, TXN_EV_UNLOADED, 0);
		break;
	case ABORT:
		e->quiesced = false;
		txn_feed(e, TXN_EV_ABORTED, 0);
		break;
	case STOP:
		host_end(e, LIFE_EXIT_SHUTDOWN);
		break;
	}
}

static void host_start(struct engine *e)
{
	e->begun = false;
	if (pick(e, 15) == 0) {
		(void)life_feed(e, LIFE_BEGIN_FAILED, false);
		return;
	}
	e->alive = true;
	e->value = e->from == LIFE_FROM_FRESH ? 0 : e->kept;
	e->version = e->current;
	(void)life_feed(e, LIFE_BORN, false);
	if (pick(e, 10))
		(void)life_feed(e, LIFE_READY, false);
}

static void client_call(struct engine *e)
{
	bool serves = e->l.state == LIFE_RUNNING || e->l.state == LIFE_RELOADING;

	if (!serves || e->held || !e->alive || e->dying)
		return;
	if (e->quiesced)
		return; /* it waits in the channel behind the ABORT */
	ck_assert_int_eq(e->version, e->current);
	ck_assert_msg(e->kept == -1, "a call is acknowledged while an older state is kept");
	e->acknowledged = ++e->value;
}

static void user_asks(struct engine *e)
{
	static const enum life_event_type asks[] = { LIFE_RELOAD_BEGIN, LIFE_RELOAD_BEGIN, LIFE_RELOAD_BEGIN,
		LIFE_START, LIFE_START, LIFE_STOP, LIFE_RESTART, LIFE_RESTART, LIFE_RESET };
	unsigned what = pick(e, 40);

	if (what == 0)
		(void)life_feed(e, pick(e, 4) ? LIFE_RESTART : LIFE_DESTROY, false);
	else if (what < 4)
		(void)life_feed(e, asks[pick(e, sizeof asks / sizeof asks[0])], pick(e, 8) != 0);
}

static void turn(struct engine *e)
{
	if (e->life_events.n > 0) {
		(void)life_feed(e, (enum life_event_type)shift(&e->life_events), false);
		return;
	}
	e->now_ms += pick(e, 50);
	user_asks(e);
	if (e->life_events.n > 0)
		return;
	if (e->txn_events.n > 0 && pick(e, 3))
		txn_feed(e, (enum txn_event_type)shift(&e->txn_events), 0);
	else if (e->begun && pick(e, 2))
		host_start(e);
	else if (e->alive && e->dying && pick(e, 2))
		host_end(e, LIFE_EXIT_KILLED);
	else if (e->alive && pick(e, 60) == 0)
		host_end(e, LIFE_EXIT_ERROR);
	else if (e->alive && e->host.n > 0 && pick(e, 3))
		host_read(e);
	else if (e->txn_timer && pick(e, 12) == 0)
		txn_feed(e, TXN_EV_TIMER, 0);
	else if (e->life_timer && pick(e, 12) == 0)
		(void)life_feed(e, LIFE_TIMER, false);
	else
		client_call(e);
}

static void engine_init(struct engine *e)
{
	life_init(&e->l);
	memset(&e->t, 0, sizeof e->t);
	e->host.n = e->life_events.n = e->txn_events.n = 0;
	e->held = e->life_timer = e->txn_timer = false;
	e->waiting = LIFE_NO_REQUEST;
	e->kept = -1;
	e->current = 1;
	e->recorded = 0;
	e->acknowledged = e->value = 0;
	ck_assert_int_eq(life_feed(e, LIFE_CREATE_START, false), LIFE_TAKEN);
}

START_TEST(what_was_acknowledged_is_there)
{
	struct engine e = { .now_ms = 1, .seed = (unsigned)_i + 1 };
	long i;

	e.lp = life_policy_default();
	e.lp.restart = (enum life_restart)(_i % LIFE_RESTART__N);
	e.lp.budget.period_ms = 500;
	e.tp = txn_policy_default();
	engine_init(&e);
	for (i = 0; i < 100000; i++) {
		turn(&e);
		if (e.l.gone)
			engine_init(&e);
	}
	printf("life and transaction, seed %d: %lu reloads, %lu recoveries, %lu starts with state, %lu "
	       "answers, %lu ends\n",
		_i + 1, e.reloads, e.recoveries, e.kept_starts, e.answers, e.gone);
	ck_assert(
		e.reloads > 100 && e.recoveries > 10 && e.kept_starts > 100 && e.answers > 100 && e.gone > 5);
}
END_TEST

CHECK_MAIN("life_transaction", tcase_add_loop_test(tc, what_was_acknowledged_is_there, 0, 6))
