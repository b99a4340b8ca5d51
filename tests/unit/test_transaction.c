/* SPDX-License-Identifier: MIT
 *
 * The reload's transaction: every order of every event, in step or out of step, host death, timer and cancel
 * included, until no new state appears, beside a model of what the world has seen; bugs put in that must be
 * found; and the take-over's table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int seeded;
#define SEEDED(bug) (seeded == (bug))
#include "daemon/reload/transaction.c"

#include "tests/support/check_main.h"

#define BUGS 19 /* the last one is of a checkpoint */
#define BUGS_RELOAD 12 /* up to here in TXN_RELOAD, from here on, but for the last, in TXN_REPLACE */

/* What the world has seen of one transaction. */
struct model {
	uint8_t host_dead, timer, held, answered, finished;
	uint8_t placed, rehearsed, made, save_sent, quiesce_sent, abort_sent, aborted, load_sent, loaded, kill_sent, cancel_seen;
	uint8_t seal_sent, sealed, keep_sent, kept, record_sent, recorded, commit_sent, committed, adopted;
	uint8_t released, makes;
	uint8_t spawn, staged, promote_sent, promoted, promote_failed, next_dead, old_dead, old_ended; /* TXN_REPLACE */
};

struct node {
	struct txn t;
	struct model m;
};

static uint32_t at_finish_wanted(const struct node *n)
{
	bool save_ok = n->t.mode == TXN_SAVE_ONLY && n->m.kept;

	return save_ok ? 0 : 1;
}

#define MUST(cond, text)                                                                                     \
	do {                                                                                                 \
		if (!(cond))                                                                                 \
			return text;                                                                         \
	} while (0)

/* The actions, in their order, against what the world allows. */
static const char *actions_do(struct node *n, const struct txn_actions *out)
{
	struct model *m = &n->m;
	const uint32_t to_host = TXN_DO_SEND_REHEARSE | TXN_DO_SEND_PREPARE | TXN_DO_SEND_QUIESCE |
				 TXN_DO_SEND_SAVE | TXN_DO_SEND_LOAD | TXN_DO_SEND_COMMIT | TXN_DO_SEND_ABORT | TXN_DO_KILL_HOST;
	uint32_t set = out->set;

	const uint32_t to_next = TXN_DO_SEND_STAGE | (n->t.mode == TXN_REPLACE ? TXN_DO_SEND_LOAD : 0);

	MUST(!m->finished, "actions after FINISHED");
	MUST(!(set & to_host & ~to_next) || !m->host_dead, "something is sent to a dead host");
	MUST(!(set & to_next) || (m->spawn && !m->next_dead), "something is sent to a candidate's process that isn't there");
	if (set & TXN_DO_SPAWN) {
		MUST(!m->spawn && !m->held, "a second candidate's process, or one that is made in the pause");
		m->spawn = 1;
	}
	if (set & TXN_DO_SEND_STAGE)
		MUST(m->placed && !m->held, "it is to load what isn't there, or in the pause");
	if (set & TXN_DO_PROMOTE) {
		MUST(m->spawn && m->staged && m->sealed && m->kept && m->loaded && m->held && !m->promote_sent,
			"PROMOTE before staged, sealed, kept and loaded");
		m->promote_sent = 1;
	}
	if (set & TXN_DO_DISCARD) {
		MUST(m->spawn, "discarded twice, or what was promoted");
		MUST(!m->promote_sent || m->promote_failed, "discarded while it may be promoted");
		m->spawn = 0;
	}
	if (set & TXN_DO_RETIRE)
		MUST(m->promoted && !m->old_dead, "a process is to end that has, or that serves");
	if (set & TXN_DO_KILL_OLD) {
		MUST(m->promoted && !m->old_dead && !m->old_ended, "a process is killed that has ended, or serves");
		m->old_ended = 1;
	}
	MUST(!(set & TXN_DO_CLEAR_TIMER) || m->timer, "a timer is cleared that isn't armed");
	m->timer = set & TXN_DO_SET_TIMER ? 1 : set & TXN_DO_CLEAR_TIMER ? 0 : m->timer;
	if (set & TXN_DO_PLACE)
		m->placed = 1;
	if (set & TXN_DO_HOLD_CALLS) {
		MUST(!m->held && !m->released, "calls are held twice");
		m->held = 1;
	}
	if (set & TXN_DO_SEND_QUIESCE) {
		MUST(m->held, "quiesced without holding the calls");
		m->quiesce_sent = 1;
	}
	if (set & TXN_DO_MAKE_STATE) {
		MUST(++m->makes <= 1 + TXN_SAVE_RETRIES, "too many states are made");
		MUST(out->state_bytes > 0 && out->state_bytes <= LIMIT_STATE_BYTES, "size of the state");
		m->made = 0;
	}
	if (set & TXN_DO_SEND_PREPARE)
		MUST(m->made && !m->held, "memory is prepared in the pause, or for no memfd");
	if (set & TXN_DO_SEND_SAVE) {
		MUST(m->made && m->quiesce_sent, "SAVE without a memfd, or into a host that isn't quiesced");
		m->save_sent = 1;
	}
	if (set & TXN_DO_SEAL)
		m->seal_sent = 1;
	if (set & TXN_DO_KEEP_STATE) {
		MUST(m->sealed, "a state is kept that isn't sealed");
		m->keep_sent = 1;
	}
	if (set & TXN_DO_SEND_LOAD) {
		MUST(m->sealed && m->keep_sent && m->held, "LOAD before the state is sealed and on its way to the spawner");
		m->load_sent = 1;
	}
	if (set & TXN_DO_RECORD) {
		MUST(m->rehearsed && !m->held, "recorded before it is rehearsed, or in the pause");
		m->record_sent = 1;
	}
	if (set & TXN_DO_SEND_COMMIT) {
		MUST(m->sealed && m->kept && m->loaded && m->recorded,
			"COMMIT before sealed, kept, loaded and recorded");
		m->commit_sent = 1;
	}
	if (set & TXN_DO_SEND_ABORT) {
		MUST(!m->commit_sent && !m->abort_sent, "ABORT twice, or after COMMIT");
		m->abort_sent = 1;
	}
	if (set & TXN_DO_KILL_HOST) {
		MUST(n->t.mode != TXN_REPLACE, "the process is killed that nothing of the candidate has touched");
		MUST(!m->kill_sent && m->sealed && m->load_sent, "KILL twice, or before it is needed");
		m->kill_sent = 1;
	}
	if (set & TXN_DO_ADOPT) {
		MUST((m->committed || m->promoted) && !m->kill_sent, "adopted without COMMITTED");
		m->adopted = 1;
		m->record_sent = 0;
	}
	if (set & TXN_DO_UNRECORD)
		m->record_sent = 0;
	if (set & TXN_DO_DROP_STATE)
		m->keep_sent = 0;
	if (set & TXN_DO_UNPLACE) {
		MUST(m->placed, "unplaced twice");
		m->placed = 0;
	}
	if (set & TXN_DO_RELEASE_CALLS) {
		MUST(m->held && !m->released, "calls are released that aren't held");
		MUST(!m->keep_sent || m->host_dead || n->t.mode == TXN_CHECKPOINT, "calls are released while an older state is kept");
		MUST(n->t.mode != TXN_CHECKPOINT || m->host_dead || !m->quiesce_sent || m->abort_sent, "calls are released to a host that is quiesced");
		m->held = 0;
		m->released = 1;
	}
	if (set & TXN_DO_RECOVER) {
		MUST(m->host_dead && m->sealed && m->keep_sent && !m->adopted,
			"recovery without death, state or need");
		MUST(!out->ok && out->outcome == TXN_RECOVERED, "a recovery that isn't answered as one");
	}
	if (set & TXN_DO_ANSWER) {
		MUST(!m->answered, "answered twice");
		m->answered = 1;
	}
	if (set & TXN_DO_FINISHED)
		m->finished = 1;
	return NULL;
}

/* What must hold when it is over. */
static const char *finish_check(const struct node *n, const struct txn_actions *out)
{
	const struct model *m = &n->m;
	bool reload = n->t.mode != TXN_SAVE_ONLY && n->t.mode != TXN_CHECKPOINT;
	bool recover = out->set & TXN_DO_RECOVER;

	MUST(m->answered, "finished without an answer");
	MUST(!m->timer, "finished with a timer");
	MUST(!m->placed, "the candidate's object stays");
	MUST(!m->record_sent, "the candidate stays recorded");
	MUST(n->t.step == TXN_DONE, "finished, and not done");
	MUST(!m->spawn, "a candidate's process is left");
	if (at_finish_wanted(n) || m->host_dead)
		MUST(!m->held, "calls are held for ever");
	else
		MUST(m->held, "calls were released to a process that is being stopped");
	if (out->ok && n->t.mode == TXN_CHECK) {
		MUST(out->outcome == TXN_NOTHING_CHANGED && m->rehearsed && !m->released && !m->record_sent && m->makes == 0,
			"a check that changes something");
		return NULL;
	}
	if (out->ok) {
		MUST(out->outcome == TXN_CHANGED, "ok, and nothing changed");
		MUST(reload ? m->adopted && !m->keep_sent : m->keep_sent && (m->kept || n->t.mode == TXN_CHECKPOINT),
			"ok without what was wanted");
		MUST(out->host_gone == m->host_dead, "whether the host lives");
		MUST(!m->promoted || m->old_dead || m->old_ended, "the old process lives on");
		return NULL;
	}
	MUST(!m->promoted, "failed, and the new process serves");
	MUST(!m->adopted, "failed, and the new version is current");
	MUST(out->failure != TXN_FAILURE_NONE, "failed without a reason");
	MUST(out->failed_step > TXN_IDLE && out->failed_step < TXN_UNLOAD, "failed in no step");
	MUST(recover || !m->keep_sent, "a state stays kept that is out of date");
	switch (out->outcome) {
	case TXN_NOTHING_CHANGED:
		MUST(!m->host_dead, "nothing changed, and the host is dead");
		MUST(!m->quiesce_sent || m->abort_sent, "a quiesced host is left so");
		MUST(!m->load_sent || m->aborted || n->t.mode == TXN_REPLACE, "candidate code may still be in the process that serves");
		MUST(!m->kill_sent, "nothing changed, and it was killed");
		break;
	case TXN_RECOVERED:
		MUST(recover, "recovered without RECOVER");
		break;
	case TXN_STATE_LOST:
		MUST(m->host_dead, "lost, and it lives");
		MUST(!m->sealed || !reload, "lost, though it was sealed");
		break;
	case TXN_CHANGED:
	case TXN_OUTCOME__N:
		return "failed, and changed";
	}
	return NULL;
}

static const char *step_check(struct node *n, const struct txn_event *ev, bool *ret_taken)
{
	static const struct txn_policy p = { .timeout_ms = {
						     1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 15, 16, 0, 0 } };
	struct txn before = n->t;
	struct txn_actions out;
	const char *wrong;

	switch (ev->type) { /* what the world has seen, if it is in step */
	case TXN_EV_HOST_DIED:
		n->m.host_dead = 1;
		n->m.old_dead = !n->m.promoted;
		break;
	case TXN_EV_CANDIDATE_DIED:
		n->m.next_dead = 1;
		break;
	case TXN_EV_STAGED:
		n->m.staged |= n->t.step == TXN_STAGE;
		break;
	case TXN_EV_PROMOTED:
		if (n->t.step == TXN_PROMOTE) {
			n->m.promoted = 1;
			n->m.spawn = n->m.host_dead = 0; /* it is the sandbox's process now */
		}
		break;
	case TXN_EV_PROMOTE_FAILED:
		n->m.promote_failed |= n->t.step == TXN_PROMOTE;
		break;
	case TXN_EV_UNLOADED:
		n->m.old_ended |= n->t.step == TXN_UNLOAD;
		break;
	case TXN_EV_TIMER:
		n->m.timer = 0;
		break;
	case TXN_EV_REHEARSED:
		n->m.rehearsed |= n->t.step == TXN_REHEARSE;
		break;
	case TXN_EV_MADE:
		n->m.made |= n->t.step == TXN_MAKE;
		break;
	case TXN_EV_LOADED:
		n->m.loaded |= n->t.step == TXN_LOAD;
		break;
	case TXN_EV_SEALED:
		n->m.sealed |= n->m.seal_sent;
		break;
	case TXN_EV_KEPT:
		n->m.kept |= n->m.keep_sent;
		break;
	case TXN_EV_RECORDED:
		n->m.recorded |= n->m.record_sent;
		break;
	case TXN_EV_COMMITTED:
		n->m.committed |= n->m.commit_sent;
		break;
	case TXN_EV_ABORTED:
		n->m.aborted |= n->m.abort_sent;
		break;
	default: /* the others leave no trace */
		break;
	}
	*ret_taken = txn_step(&n->t, &p, ev, &out);
	if (!*ret_taken) {
		MUST(memcmp(&before, &n->t, sizeof before) == 0 && out.set == 0,
			"not taken, and something changed");
		MUST(ev->type != TXN_EV_TIMER, "the timer was armed for nothing");
		MUST(ev->type != TXN_EV_HOST_DIED || before.step == TXN_DONE, "a death is not taken");
		MUST(ev->type != TXN_EV_CANDIDATE_DIED || before.step == TXN_PROMOTE, "a candidate's death is not taken");
		return NULL;
	}
	wrong = actions_do(n, &out);
	MUST(wrong == NULL, wrong);
	if (ev->type == TXN_EV_CANCEL && (n->t.mode == TXN_SAVE_ONLY || n->t.mode == TXN_CHECKPOINT))
		MUST(n->m.finished, "the cancel of a save doesn't end it at once");
	if (n->m.finished)
		return finish_check(n, &out);
	MUST(n->m.timer == (n->t.step != TXN_KILL && n->t.step != TXN_PROMOTE), "a step without a deadline");
	MUST(n->t.held == n->m.held, "what it thinks of the calls");
	return NULL;
}

/* ---- the set of states seen ---- */

#define SLOTS (1u << 20)

struct seen {
	struct node *nodes;
	uint32_t *slots; /* index + 1 */
	uint32_t n;
};

static uint32_t hash_of(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	uint32_t h = 2166136261u;

	while (size-- > 0)
		h = (h ^ *p++) * 16777619u;
	return h ^ h >> 15;
}

static void seen_add(struct seen *s, const struct node *n)
{
	uint32_t i = hash_of(n, sizeof *n) % SLOTS;

	for (; s->slots[i] != 0; i = (i + 1) % SLOTS)
		if (memcmp(&s->nodes[s->slots[i] - 1], n, sizeof *n) == 0)
			return;
	ck_assert_uint_lt(s->n, SLOTS / 2);
	memcpy(&s->nodes[s->n++], n, sizeof *n);
	s->slots[i] = s->n;
}

/* From any state, timers alone (and the death of a host that was killed) bring the end: nothing waits for
 * ever. */
static const char *ends_by_itself(struct node n)
{
	bool taken;
	int i;

	for (i = 0; i < 10 && !n.m.finished; i++) {
		struct txn_event ev = { .type = n.t.step == TXN_KILL ? TXN_EV_HOST_DIED :
						n.t.step == TXN_PROMOTE ? TXN_EV_PROMOTE_FAILED : TXN_EV_TIMER };
		const char *wrong = step_check(&n, &ev, &taken);

		MUST(wrong == NULL, wrong);
		MUST(taken, "a deadline that is nothing");
	}
	MUST(n.m.finished, "it never ends");
	return NULL;
}

/* Can it come? A dead process says nothing, a timer that isn't armed doesn't fire, the spawner answers what it was asked. */
static bool from_host(enum txn_event_type e);

static bool may_come(const struct node *n, enum txn_event_type e)
{
	bool of_next = e == TXN_EV_STAGED || e == TXN_EV_STAGE_FAILED || e == TXN_EV_CANDIDATE_DIED ||
		(n->t.mode == TXN_REPLACE && (e == TXN_EV_LOADED || e == TXN_EV_LOAD_FAILED));

	if (of_next)
		return n->m.spawn && !n->m.next_dead;
	if (e == TXN_EV_UNLOADED && n->m.promoted)
		return !n->m.old_ended && !n->m.old_dead;
	if (n->m.host_dead && from_host(e))
		return false;
	return e != TXN_EV_TIMER || n->m.timer;
}

static bool from_host(enum txn_event_type e)
{
	static const bool table_of[TXN_EVENT__N] = { [TXN_EV_REHEARSED] = true,
		[TXN_EV_REHEARSE_FAILED] = true,
		[TXN_EV_PREPARED] = true,
		[TXN_EV_QUIESCED] = true,
		[TXN_EV_SAVED] = true,
		[TXN_EV_SAVE_TOO_SMALL] = true,
		[TXN_EV_SAVE_FAILED] = true,
		[TXN_EV_LOADED] = true,
		[TXN_EV_LOAD_FAILED] = true,
		[TXN_EV_COMMITTED] = true,
		[TXN_EV_UNLOADED] = true,
		[TXN_EV_ABORTED] = true,
		[TXN_EV_HOST_DIED] = true };

	return table_of[e];
}

/* The sizes worth trying: none, small, all that there is, one more, twice as much, the limit, beyond it. */
static int sizes_of(const struct node *n, enum txn_event_type e, uint64_t sizes[8])
{
	int k = 0;

	sizes[k++] = 0;
	if (e != TXN_EV_REHEARSED && e != TXN_EV_SAVED && e != TXN_EV_SAVE_TOO_SMALL)
		return k;
	sizes[k++] = 1000;
	sizes[k++] = n->t.state_bytes;
	sizes[k++] = n->t.state_bytes + 1;
	sizes[k++] = n->t.state_bytes * 2;
	sizes[k++] = LIMIT_STATE_BYTES;
	sizes[k++] = LIMIT_STATE_BYTES + 1;
	sizes[k++] = UINT64_MAX;
	return k;
}

static const char *explore_node(struct seen *s, const struct node *from, unsigned long *ret_steps)
{
	enum txn_event_type e;
	uint64_t sizes[8];
	bool taken;
	int k, n_sizes;

	for (e = 0; e < TXN_EVENT__N; e++) {
		if (!may_come(from, e))
			continue;
		n_sizes = sizes_of(from, e, sizes);
		for (k = 0; k < 2 * n_sizes; k++) {
			struct txn_event ev = { .type = e, .bytes = sizes[k / 2], .replace = k % 2 };
			struct node next;
			const char *wrong;

			if (ev.replace && e != TXN_EV_REHEARSED)
				continue;
			memcpy(&next, from, sizeof next);
			wrong = step_check(&next, &ev, &taken);
			++*ret_steps;
			MUST(wrong == NULL, wrong);
			if (taken && !next.m.finished) {
				wrong = ends_by_itself(next);
				MUST(wrong == NULL, wrong);
			}
			if (taken)
				seen_add(s, &next);
		}
	}
	return NULL;
}

static const char *explore(enum txn_mode mode, bool print)
{
	static const struct txn_policy p = { .timeout_ms = {
						     1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 15, 16, 0, 0 } };
	struct seen s = { .nodes = calloc(SLOTS / 2, sizeof(struct node)),
		.slots = calloc(SLOTS, sizeof(uint32_t)) };
	struct node first;
	struct txn_actions out;
	unsigned long steps = 0, finished = 0;
	uint32_t i;
	const char *wrong;

	ck_assert(s.nodes != NULL && s.slots != NULL);
	memset(&first, 0, sizeof first);
	txn_begin(&first.t, mode, &p, 0, &out);
	wrong = actions_do(&first, &out);
	if (wrong == NULL)
		seen_add(&s, &first);
	for (i = 0; i < s.n && wrong == NULL; i++) {
		wrong = explore_node(&s, &s.nodes[i], &steps);
		finished += s.nodes[i].m.finished;
	}
	if (print)
		printf("transaction, mode %d: %u states, %lu of them ends, %lu steps\n", (int)mode, s.n,
			finished, steps);
	free(s.nodes);
	free(s.slots);
	return wrong;
}

START_TEST(every_order_of_events)
{
	const char *wrong = explore(TXN_RELOAD, true);

	ck_assert_msg(wrong == NULL, "reload: %s", wrong);
	wrong = explore(TXN_SAVE_ONLY, true);
	ck_assert_msg(wrong == NULL, "save only: %s", wrong);
	wrong = explore(TXN_CHECK, true);
	ck_assert_msg(wrong == NULL, "check: %s", wrong);
	wrong = explore(TXN_REPLACE, true);
	ck_assert_msg(wrong == NULL, "replace: %s", wrong);
	wrong = explore(TXN_CHECKPOINT, true);
	ck_assert_msg(wrong == NULL, "checkpoint: %s", wrong);
}
END_TEST

START_TEST(seeded_bugs_are_found)
{
	const char *wrong;

	for (seeded = 1; seeded <= BUGS; seeded++) {
		wrong = explore(seeded <= BUGS_RELOAD ? TXN_RELOAD : seeded == BUGS ? TXN_CHECKPOINT : TXN_REPLACE, false);
		ck_assert_msg(wrong != NULL, "bug %d is not found", seeded);
		printf("transaction, bug %d: %s\n", seeded, wrong);
	}
	seeded = 0;
}
END_TEST

/* ---- directed ---- */

struct run {
	struct txn t;
	struct txn_policy p;
	struct txn_actions out;
};

static void run_begin(struct run *r, enum txn_mode mode)
{
	r->p = txn_policy_default();
	txn_begin(&r->t, mode, &r->p, 0, &r->out);
}

static void run_do(struct run *r, enum txn_event_type type, uint64_t bytes, uint32_t want)
{
	struct txn_event ev = { .type = type, .bytes = bytes };

	ck_assert_msg(txn_step(&r->t, &r->p, &ev, &r->out), "%s is not taken in %s", txn_event_text(type),
		txn_step_text(r->t.step));
	ck_assert_msg(
		r->out.set == want, "%s: actions 0x%x, not 0x%x", txn_event_text(type), r->out.set, want);
}

#define HOLDS (TXN_DO_HOLD_CALLS | TXN_DO_SEND_QUIESCE | TXN_DO_SEND_SAVE | TXN_DO_SET_TIMER)

/* To the step named, by the straight way. */
static void run_to(struct run *r, enum txn_step step)
{
	static const struct {
		enum txn_step from;
		enum txn_event_type type;
		uint64_t bytes;
		uint32_t want;
	} way[] = {
		{ TXN_PLACE, TXN_EV_PLACED, 0, TXN_DO_SEND_REHEARSE | TXN_DO_SET_TIMER },
		{ TXN_REHEARSE, TXN_EV_REHEARSED, 5000, TXN_DO_RECORD | TXN_DO_SET_TIMER },
		{ TXN_RECORD, TXN_EV_RECORDED, 0, TXN_DO_MAKE_STATE | TXN_DO_SET_TIMER },
		{ TXN_MAKE, TXN_EV_MADE, 0, TXN_DO_SEND_PREPARE | TXN_DO_SET_TIMER },
		{ TXN_PREPARE, TXN_EV_PREPARED, 0, HOLDS },
		{ TXN_QUIESCE, TXN_EV_QUIESCED, 0, TXN_DO_SET_TIMER },
		{ TXN_SAVE, TXN_EV_SAVED, 5001, TXN_DO_SEAL | TXN_DO_SET_TIMER },
		{ TXN_SEAL, TXN_EV_SEALED, 0, TXN_DO_KEEP_STATE | TXN_DO_SEND_LOAD | TXN_DO_SET_TIMER },
		{ TXN_LOAD, TXN_EV_KEPT, 0, 0 },
		{ TXN_LOAD, TXN_EV_LOADED, 0, TXN_DO_SEND_COMMIT | TXN_DO_SET_TIMER },
		{ TXN_COMMIT, TXN_EV_COMMITTED, 0,
			TXN_DO_ADOPT | TXN_DO_DROP_STATE | TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS |
				TXN_DO_SET_TIMER },
	};
	size_t i;

	for (i = 0; i < sizeof way / sizeof way[0] && r->t.step != step; i++)
		if (way[i].from == r->t.step)
			run_do(r, way[i].type, way[i].bytes, way[i].want);
	ck_assert_int_eq(r->t.step, step);
}

#define ENDS (TXN_DO_CLEAR_TIMER | TXN_DO_ANSWER | TXN_DO_FINISHED)

START_TEST(the_straight_way)
{
	struct run r;

	run_begin(&r, TXN_RELOAD);
	ck_assert_uint_eq(r.out.set, TXN_DO_PLACE | TXN_DO_SET_TIMER);
	run_to(&r, TXN_UNLOAD);
	ck_assert(txn_active(&r.t) && txn_committing(&r.t));
	run_do(&r, TXN_EV_UNLOADED, 0, ENDS);
	ck_assert(r.out.ok && !r.out.host_gone && !r.out.not_unloaded && !txn_active(&r.t));
}
END_TEST

START_TEST(each_step_that_fails_says_which_and_what_it_means)
{
	static const uint32_t same = ENDS | TXN_DO_UNPLACE, recorded = same | TXN_DO_SEND_ABORT | TXN_DO_UNRECORD,
			      made = recorded | TXN_DO_DROP_STATE, held = made | TXN_DO_RELEASE_CALLS;
	static const struct {
		enum txn_step step;
		enum txn_event_type type;
		uint64_t bytes;
		uint32_t want;
		enum txn_failure failure;
	} rows[] = {
		{ TXN_PLACE, TXN_EV_PLACE_FAILED, 0, same, TXN_FAILURE_SAID },
		{ TXN_PLACE, TXN_EV_TIMER, 0, same & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_TIMEOUT },
		{ TXN_PLACE, TXN_EV_CANCEL, 0, same, TXN_FAILURE_CANCELLED },
		{ TXN_REHEARSE, TXN_EV_REHEARSE_FAILED, 0, same, TXN_FAILURE_SAID },
		{ TXN_REHEARSE, TXN_EV_REHEARSED, LIMIT_STATE_BYTES + 1, same, TXN_FAILURE_STATE_SIZE },
		{ TXN_REHEARSE, TXN_EV_TIMER, 0, (same | TXN_DO_SEND_ABORT) & ~TXN_DO_CLEAR_TIMER,
			TXN_FAILURE_TIMEOUT },
		{ TXN_REHEARSE, TXN_EV_CANCEL, 0, same | TXN_DO_SEND_ABORT, TXN_FAILURE_CANCELLED },
		{ TXN_RECORD, TXN_EV_RECORD_FAILED, 0, recorded, TXN_FAILURE_SAID },
		{ TXN_RECORD, TXN_EV_TIMER, 0, recorded & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_TIMEOUT },
		{ TXN_RECORD, TXN_EV_CANCEL, 0, recorded, TXN_FAILURE_CANCELLED },
		{ TXN_MAKE, TXN_EV_MAKE_FAILED, 0, made, TXN_FAILURE_SAID },
		{ TXN_PREPARE, TXN_EV_CANCEL, 0, made, TXN_FAILURE_CANCELLED },
		{ TXN_QUIESCE, TXN_EV_TIMER, 0, held & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_TIMEOUT },
		{ TXN_QUIESCE, TXN_EV_CANCEL, 0, held, TXN_FAILURE_CANCELLED },
		{ TXN_SAVE, TXN_EV_SAVE_FAILED, 0, held, TXN_FAILURE_SAID },
		{ TXN_SAVE, TXN_EV_SAVED, 0, held, TXN_FAILURE_STATE_SIZE },
		{ TXN_SAVE, TXN_EV_SAVED, 1u << 30, held, TXN_FAILURE_STATE_SIZE },
		{ TXN_SAVE, TXN_EV_SAVE_TOO_SMALL, 1, held, TXN_FAILURE_STATE_SIZE },
		{ TXN_SAVE, TXN_EV_SAVE_TOO_SMALL, UINT64_MAX, held, TXN_FAILURE_STATE_SIZE },
		{ TXN_SEAL, TXN_EV_SEAL_FAILED, 0, held, TXN_FAILURE_SAID },
	};
	size_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct run r;

		run_begin(&r, TXN_RELOAD);
		run_to(&r, rows[i].step);
		run_do(&r, rows[i].type, rows[i].bytes, rows[i].want);
		ck_assert(!r.out.ok);
		ck_assert_int_eq(r.out.outcome, TXN_NOTHING_CHANGED);
		ck_assert_int_eq(r.out.failed_step, rows[i].step);
		ck_assert_int_eq(r.out.failure, rows[i].failure);
	}
}
END_TEST

START_TEST(a_load_that_fails_waits_for_aborted)
{
	static const struct {
		enum txn_step step;
		enum txn_event_type type;
		enum txn_failure failure;
	} rows[] = {
		{ TXN_LOAD, TXN_EV_LOAD_FAILED, TXN_FAILURE_SAID },
		{ TXN_LOAD, TXN_EV_KEEP_FAILED, TXN_FAILURE_SAID },
		{ TXN_LOAD, TXN_EV_CANCEL, TXN_FAILURE_CANCELLED },
	};
	size_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct run r;

		run_begin(&r, TXN_RELOAD);
		run_to(&r, rows[i].step);
		run_do(&r, rows[i].type, 0, TXN_DO_SEND_ABORT | TXN_DO_SET_TIMER);
		run_do(&r, TXN_EV_ABORTED, 0,
			ENDS | TXN_DO_DROP_STATE | TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS | TXN_DO_UNRECORD);
		ck_assert_int_eq(r.out.outcome, TXN_NOTHING_CHANGED);
		ck_assert_int_eq(r.out.failed_step, rows[i].step);
		ck_assert_int_eq(r.out.failure, rows[i].failure);
	}
}
END_TEST

START_TEST(a_host_that_hangs_is_killed_and_the_old_version_recovers)
{
	static const enum txn_step rows[] = { TXN_LOAD, TXN_COMMIT };
	size_t i;

	for (i = 0; i < 2; i++) {
		struct run r;

		run_begin(&r, TXN_RELOAD);
		run_to(&r, rows[i]);
		run_do(&r, TXN_EV_TIMER, 0, TXN_DO_KILL_HOST);
		run_do(&r, TXN_EV_HOST_DIED, 0,
			TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS | TXN_DO_RECOVER | TXN_DO_ANSWER |
				TXN_DO_FINISHED | TXN_DO_UNRECORD);
		ck_assert_int_eq(r.out.outcome, TXN_RECOVERED);
		ck_assert_int_eq(r.out.failed_step, rows[i]);
		ck_assert_int_eq(r.out.failure, TXN_FAILURE_TIMEOUT);
	}
}
END_TEST

START_TEST(death_before_and_after_the_seal)
{
	enum txn_step step;

	for (step = TXN_PLACE; step <= TXN_UNLOAD; step++) {
		if (step == TXN_KEEP || step == TXN_PROMOTE)
			continue; /* TXN_SAVE_ONLY's, TXN_REPLACE's */
		struct txn_event died = { .type = TXN_EV_HOST_DIED };
		struct run r;

		run_begin(&r, TXN_RELOAD);
		run_to(&r, step);
		ck_assert(txn_step(&r.t, &r.p, &died, &r.out));
		ck_assert(r.out.set & TXN_DO_FINISHED);
		if (step < TXN_LOAD)
			ck_assert_int_eq(r.out.outcome, TXN_STATE_LOST);
		else if (step < TXN_UNLOAD)
			ck_assert(r.out.outcome == TXN_RECOVERED && (r.out.set & TXN_DO_RECOVER));
		else
			ck_assert(r.out.ok && r.out.host_gone && !(r.out.set & TXN_DO_RECOVER));
	}
}
END_TEST

START_TEST(kept_and_loaded_in_any_order)
{
	struct txn_event twice = { .type = TXN_EV_KEPT };
	struct run r;

	run_begin(&r, TXN_RELOAD);
	run_to(&r, TXN_LOAD);
	run_do(&r, TXN_EV_LOADED, 0, 0);
	ck_assert_int_eq(r.t.step, TXN_LOAD);
	run_do(&r, TXN_EV_KEPT, 0, TXN_DO_SEND_COMMIT | TXN_DO_SET_TIMER);
	ck_assert_int_eq(r.t.step, TXN_COMMIT);
	ck_assert(!txn_step(&r.t, &r.p, &twice, &r.out));

	/* Loaded, and the spawner is silent: that isn't the host's fault, and it isn't killed for it. */
	run_begin(&r, TXN_RELOAD);
	run_to(&r, TXN_LOAD);
	run_do(&r, TXN_EV_LOADED, 0, 0);
	run_do(&r, TXN_EV_TIMER, 0, TXN_DO_SEND_ABORT | TXN_DO_SET_TIMER);
	ck_assert_int_eq(r.t.step, TXN_ABORT);
}
END_TEST

START_TEST(slow_preparation_is_not_waited_for)
{
	struct txn_event late = { .type = TXN_EV_PREPARED };
	struct run r;

	run_begin(&r, TXN_RELOAD);
	run_to(&r, TXN_PREPARE);
	ck_assert_uint_eq(r.out.timer_ms, 50); /* a small state's */
	run_do(&r, TXN_EV_TIMER, 0, HOLDS);
	ck_assert(!txn_step(&r.t, &r.p, &late, &r.out));
	ck_assert_int_eq(r.t.step, TXN_QUIESCE);
}
END_TEST

START_TEST(too_small_is_made_bigger_three_times)
{
	struct run r;
	int i;

	run_begin(&r, TXN_RELOAD);
	run_to(&r, TXN_SAVE);
	for (i = 0; i < TXN_SAVE_RETRIES; i++) {
		run_do(&r, TXN_EV_SAVE_TOO_SMALL, r.t.state_bytes + 1, TXN_DO_MAKE_STATE | TXN_DO_SET_TIMER);
		run_do(&r, TXN_EV_MADE, 0, TXN_DO_SEND_SAVE | TXN_DO_SET_TIMER);
	}
	run_do(&r, TXN_EV_SAVE_TOO_SMALL, r.t.state_bytes + 1,
		ENDS | TXN_DO_SEND_ABORT | TXN_DO_UNRECORD | TXN_DO_DROP_STATE | TXN_DO_UNPLACE |
			TXN_DO_RELEASE_CALLS);
	ck_assert_int_eq(r.out.failure, TXN_FAILURE_STATE_GROWS);
}
END_TEST

/* ---- in a second process ---- */

static void replace_to(struct run *r, enum txn_step step)
{
	static const struct {
		enum txn_step from;
		enum txn_event_type type;
		uint64_t bytes;
		uint32_t want;
	} way[] = {
		{ TXN_SPAWN, TXN_EV_SPAWNED, 0, TXN_DO_PLACE | TXN_DO_SET_TIMER },
		{ TXN_PLACE, TXN_EV_PLACED, 0, TXN_DO_SEND_STAGE | TXN_DO_SET_TIMER },
		{ TXN_STAGE, TXN_EV_STAGED, 0, TXN_DO_MAKE_STATE | TXN_DO_SET_TIMER },
		{ TXN_MAKE, TXN_EV_MADE, 0, HOLDS },
		{ TXN_QUIESCE, TXN_EV_QUIESCED, 0, TXN_DO_SET_TIMER },
		{ TXN_SAVE, TXN_EV_SAVED, 5001, TXN_DO_SEAL | TXN_DO_SET_TIMER },
		{ TXN_SEAL, TXN_EV_SEALED, 0, TXN_DO_KEEP_STATE | TXN_DO_SEND_LOAD | TXN_DO_SET_TIMER },
		{ TXN_LOAD, TXN_EV_KEPT, 0, 0 },
		{ TXN_LOAD, TXN_EV_LOADED, 0, TXN_DO_PROMOTE | TXN_DO_CLEAR_TIMER },
		{ TXN_PROMOTE, TXN_EV_PROMOTED, 0,
			TXN_DO_ADOPT | TXN_DO_DROP_STATE | TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS | TXN_DO_RETIRE |
				TXN_DO_SET_TIMER },
	};

	run_begin(r, TXN_REPLACE);
	ck_assert_uint_eq(r->out.set, TXN_DO_SPAWN | TXN_DO_SET_TIMER);
	for (size_t i = 0; i < sizeof way / sizeof way[0] && r->t.step != step; i++)
		if (way[i].from == r->t.step)
			run_do(r, way[i].type, way[i].bytes, way[i].want);
	ck_assert_int_eq(r->t.step, step);
}

START_TEST(a_replacement_takes_over_and_the_old_process_ends)
{
	struct run r;

	replace_to(&r, TXN_UNLOAD);
	ck_assert(txn_committing(&r.t));
	run_do(&r, TXN_EV_UNLOADED, 0, ENDS);
	ck_assert(r.out.ok && !r.out.host_gone && !r.out.not_unloaded);
	replace_to(&r, TXN_UNLOAD);
	run_do(&r, TXN_EV_TIMER, 0, (ENDS & ~TXN_DO_CLEAR_TIMER) | TXN_DO_KILL_OLD);
	ck_assert(r.out.ok && r.out.not_unloaded);
	replace_to(&r, TXN_UNLOAD); /* the new one */
	run_do(&r, TXN_EV_HOST_DIED, 0, ENDS | TXN_DO_KILL_OLD);
	ck_assert(r.out.ok && r.out.host_gone);
	replace_to(&r, TXN_PROMOTE); /* the old one, while PROMOTE is on its way */
	run_do(&r, TXN_EV_HOST_DIED, 0, 0);
	run_do(&r, TXN_EV_PROMOTED, 0, (ENDS & ~TXN_DO_CLEAR_TIMER) | TXN_DO_ADOPT | TXN_DO_DROP_STATE | TXN_DO_UNPLACE | TXN_DO_RELEASE_CALLS);
	ck_assert(r.out.ok && !r.out.host_gone);
}
END_TEST

START_TEST(a_replacement_that_fails_costs_the_second_process_only)
{
	static const uint32_t early = ENDS | TXN_DO_DISCARD, placed = early | TXN_DO_UNPLACE,
			      made = placed | TXN_DO_SEND_ABORT | TXN_DO_DROP_STATE, held = made | TXN_DO_RELEASE_CALLS;
	static const struct {
		enum txn_step step;
		enum txn_event_type type;
		uint32_t want;
		enum txn_failure failure;
	} rows[] = {
		{ TXN_SPAWN, TXN_EV_SPAWN_FAILED, early, TXN_FAILURE_SAID },
		{ TXN_SPAWN, TXN_EV_CANDIDATE_DIED, early, TXN_FAILURE_CANDIDATE_DIED },
		{ TXN_SPAWN, TXN_EV_CANCEL, early, TXN_FAILURE_CANCELLED },
		{ TXN_PLACE, TXN_EV_PLACE_FAILED, placed, TXN_FAILURE_SAID },
		{ TXN_PLACE, TXN_EV_CANDIDATE_DIED, placed, TXN_FAILURE_CANDIDATE_DIED },
		{ TXN_STAGE, TXN_EV_STAGE_FAILED, placed, TXN_FAILURE_SAID },
		{ TXN_STAGE, TXN_EV_CANDIDATE_DIED, placed, TXN_FAILURE_CANDIDATE_DIED },
		{ TXN_STAGE, TXN_EV_TIMER, placed & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_TIMEOUT },
		{ TXN_MAKE, TXN_EV_MAKE_FAILED, made, TXN_FAILURE_SAID },
		{ TXN_QUIESCE, TXN_EV_TIMER, held & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_TIMEOUT },
		{ TXN_QUIESCE, TXN_EV_CANDIDATE_DIED, held, TXN_FAILURE_CANDIDATE_DIED },
		{ TXN_SAVE, TXN_EV_SAVE_FAILED, held, TXN_FAILURE_SAID },
		{ TXN_SEAL, TXN_EV_SEAL_FAILED, held, TXN_FAILURE_SAID },
		{ TXN_LOAD, TXN_EV_LOAD_FAILED, held, TXN_FAILURE_SAID },
		{ TXN_LOAD, TXN_EV_KEEP_FAILED, held, TXN_FAILURE_SAID },
		{ TXN_LOAD, TXN_EV_CANDIDATE_DIED, held, TXN_FAILURE_CANDIDATE_DIED },
		{ TXN_LOAD, TXN_EV_TIMER, held & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_TIMEOUT },
		{ TXN_LOAD, TXN_EV_CANCEL, held, TXN_FAILURE_CANCELLED },
		{ TXN_PROMOTE, TXN_EV_PROMOTE_FAILED, held & ~TXN_DO_CLEAR_TIMER, TXN_FAILURE_SAID },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct run r;

		replace_to(&r, rows[i].step);
		run_do(&r, rows[i].type, 0, rows[i].want);
		ck_assert(!r.out.ok);
		ck_assert_int_eq(r.out.outcome, TXN_NOTHING_CHANGED);
		ck_assert_int_eq(r.out.failed_step, rows[i].step);
		ck_assert_int_eq(r.out.failure, rows[i].failure);
	}
}
END_TEST

/* The rehearsal tells that this process hasn't the room for both: the object goes, and a second process is asked for. */
START_TEST(a_rehearsal_may_turn_into_a_replacement)
{
	struct txn_event ev = { .type = TXN_EV_REHEARSED, .bytes = 5000, .replace = true };
	struct run r;

	run_begin(&r, TXN_RELOAD);
	run_to(&r, TXN_REHEARSE);
	ck_assert(txn_step(&r.t, &r.p, &ev, &r.out));
	ck_assert_uint_eq(r.out.set, TXN_DO_UNPLACE | TXN_DO_SPAWN | TXN_DO_SET_TIMER);
	ck_assert(r.t.step == TXN_SPAWN && r.t.mode == TXN_REPLACE);
	run_do(&r, TXN_EV_SPAWNED, 0, TXN_DO_PLACE | TXN_DO_SET_TIMER);
}
END_TEST

/* A save alone, to KEEP. */
static void save_begin(struct run *r)
{
	run_begin(r, TXN_SAVE_ONLY);
	ck_assert_uint_eq(r->out.set, TXN_DO_MAKE_STATE | TXN_DO_SET_TIMER);
	ck_assert_uint_eq(r->out.state_bytes, TXN_STATE_BYTES_FIRST);
	run_do(r, TXN_EV_MADE, 0, HOLDS);
	run_do(r, TXN_EV_QUIESCED, 0, TXN_DO_SET_TIMER);
	run_do(r, TXN_EV_SAVED, 5001, TXN_DO_SEAL | TXN_DO_SET_TIMER);
	run_do(r, TXN_EV_SEALED, 0, TXN_DO_KEEP_STATE | TXN_DO_SET_TIMER);
	ck_assert_int_eq(r->t.step, TXN_KEEP);
}

START_TEST(save_only_ends_quiesced_and_kept)
{
	struct run r;

	save_begin(&r);
	run_do(&r, TXN_EV_KEPT, 0, ENDS);
	ck_assert(r.out.ok && !r.out.host_gone);

	save_begin(&r);
	run_do(&r, TXN_EV_HOST_DIED, 0, 0); /* the state is sealed and on its way: waits for it */
	run_do(&r, TXN_EV_KEPT, 0, ENDS | TXN_DO_RELEASE_CALLS);
	ck_assert(r.out.ok && r.out.host_gone);

	save_begin(&r);
	run_do(&r, TXN_EV_HOST_DIED, 0, 0);
	run_do(&r, TXN_EV_KEEP_FAILED, 0, ENDS | TXN_DO_RELEASE_CALLS | TXN_DO_DROP_STATE);
	ck_assert_int_eq(r.out.outcome, TXN_STATE_LOST);
}
END_TEST

START_TEST(messages_out_of_turn_change_nothing)
{
	enum txn_event_type e;
	struct run r;

	run_begin(&r, TXN_RELOAD);
	run_to(&r, TXN_LOAD);
	for (e = 0; e < TXN_EVENT__N; e++) {
		struct txn_event ev = { .type = e, .bytes = 5 };

		if (e == TXN_EV_LOADED || e == TXN_EV_LOAD_FAILED || e == TXN_EV_HOST_DIED ||
			e == TXN_EV_TIMER || e == TXN_EV_CANCEL || e == TXN_EV_KEPT || e == TXN_EV_KEEP_FAILED)
			continue;
		ck_assert(!txn_step(&r.t, &r.p, &ev, &r.out));
		ck_assert_uint_eq(r.out.set, 0);
	}
	ck_assert_int_eq(r.t.step, TXN_LOAD);
}
END_TEST

START_TEST(take_over_rows)
{
	static const struct {
		struct txn_found f;
		enum txn_take_over want;
	} rows[] = {
		/* alive, phase, runs, candidate of the host, current, candidate recorded, state */
		{ { true, HOST_PHASE_SERVING, 1, 0, 1, 0, false }, TXN_TAKE_NOTHING },
		{ { true, HOST_PHASE_SERVING, 1, 2, 1, 0, false }, TXN_TAKE_UNDO }, /* in a rehearsal */
		{ { true, HOST_PHASE_SERVING, 1, 0, 1, 2, true },
			TXN_TAKE_UNDO }, /* aborted, not unrecorded */
		{ { true, HOST_PHASE_SERVING, 1, 0, 1, 0, true },
			TXN_TAKE_UNDO }, /* aborted, state not dropped */
		{ { true, HOST_PHASE_QUIESCED, 1, 0, 1, 0, false }, TXN_TAKE_UNDO },
		{ { true, HOST_PHASE_QUIESCED, 1, 2, 1, 0, true }, TXN_TAKE_UNDO },
		{ { true, HOST_PHASE_LOADED, 1, 2, 1, 0, true }, TXN_TAKE_UNDO },
		{ { true, HOST_PHASE_LOADED, 1, 2, 1, 2, true },
			TXN_TAKE_UNDO }, /* recorded, not committed */
		{ { true, HOST_PHASE_SERVING, 2, 0, 1, 2, true }, TXN_TAKE_COMPLETE },
		{ { true, HOST_PHASE_SERVING, 2, 2, 1, 2, true }, TXN_TAKE_COMPLETE },
		{ { true, HOST_PHASE_SERVING, 2, 0, 2, 0, true },
			TXN_TAKE_UNDO }, /* adopted, state not dropped */
		{ { true, HOST_PHASE_QUIESCED, 2, 0, 1, 2, false }, TXN_TAKE_COMPLETE },
		{ { true, HOST_PHASE_LOADED, 2, 2, 1, 2, true }, TXN_TAKE_KILL },
		{ { true, HOST_PHASE_SERVING, 3, 0, 1, 2, true }, TXN_TAKE_KILL }, /* nobody gave it 3 */
		{ { true, HOST_PHASE_SERVING, 0, 0, 1, 0, false }, TXN_TAKE_KILL },
		{ { true, HOST_PHASE_EMPTY, 1, 0, 1, 0, false }, TXN_TAKE_KILL },
		{ { true, (enum host_phase)77, 1, 0, 1, 0, false }, TXN_TAKE_KILL },
		{ { false, HOST_PHASE_EMPTY, 0, 0, 1, 2, true }, TXN_TAKE_RECOVER },
		{ { false, HOST_PHASE_EMPTY, 0, 0, 1, 0, true }, TXN_TAKE_RECOVER },
		{ { false, HOST_PHASE_EMPTY, 0, 0, 1, 2, false }, TXN_TAKE_UNDO }, /* only the record */
		{ { false, HOST_PHASE_EMPTY, 0, 0, 1, 0, false }, TXN_TAKE_NOTHING },
	};
	size_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_msg(txn_take_over(&rows[i].f) == rows[i].want, "row %zu: %d", i,
			(int)txn_take_over(&rows[i].f));
}
END_TEST

/* Control dies after any step of the straight way, and with the host's answer to it read or not: what does
 * the next one do? */
START_TEST(take_over_at_every_step)
{
	enum txn_step step;
	int committed_too;

	for (step = TXN_PLACE; step <= TXN_UNLOAD; step++) {
		if (step == TXN_PROMOTE)
			continue;
		for (committed_too = 0; committed_too < 2; committed_too++) {
			struct txn_found f = { .alive = true,
				.phase = HOST_PHASE_SERVING,
				.host_serial = 1,
				.current_serial = 1 };
			bool adopted = step == TXN_UNLOAD;

			if (step >= TXN_QUIESCE) /* it may not have come to it yet */
				f.phase = step > TXN_LOAD ? HOST_PHASE_LOADED : HOST_PHASE_QUIESCED;
			f.host_candidate = step == TXN_REHEARSE || step >= TXN_QUIESCE ? 2 : 0;
			f.recorded_serial = step >= TXN_RECORD && !adopted ? 2 : 0;
			f.has_state = step >= TXN_KEEP && !adopted; /* KEEP was sent with LOAD */
			f.current_serial = adopted ? 2 : 1;
			if (adopted || (step == TXN_COMMIT && committed_too)) {
				f.phase = HOST_PHASE_SERVING;
				f.host_serial = 2;
				f.host_candidate = 0;
			}
			if (step == TXN_COMMIT && committed_too)
				ck_assert_int_eq(txn_take_over(&f), TXN_TAKE_COMPLETE);
			else if (adopted || step == TXN_PLACE)
				ck_assert_int_eq(txn_take_over(&f), TXN_TAKE_NOTHING);
			else
				ck_assert_int_eq(txn_take_over(&f), TXN_TAKE_UNDO);
			f.alive = false;
			ck_assert_int_eq(txn_take_over(&f) == TXN_TAKE_RECOVER, step >= TXN_KEEP && !adopted);
		}
	}
}
END_TEST

START_TEST(every_step_has_a_name_and_a_deadline)
{
	enum txn_step s;
	struct txn_policy p = txn_policy_default();

	for (s = TXN_SPAWN; s < TXN_DONE; s++) {
		ck_assert(txn_steps[s].name != NULL && txn_steps[s].name[0] != '\0' &&
			  txn_steps[s].ends_by[0] != '\0');
		ck_assert((p.timeout_ms[s] > 0) == (s != TXN_KILL && s != TXN_PROMOTE));
	}
	ck_assert_str_eq(txn_step_text((enum txn_step)999), "unknown");
	ck_assert_str_eq(txn_failure_text(TXN_FAILURE_TIMEOUT), "timeout");
	ck_assert_str_eq(txn_outcome_text(TXN_STATE_LOST), "state_lost");
}
END_TEST

CHECK_MAIN("transaction", tcase_add_test(tc, every_order_of_events);
	   tcase_add_test(tc, seeded_bugs_are_found); tcase_add_test(tc, the_straight_way);
	   tcase_add_test(tc, each_step_that_fails_says_which_and_what_it_means);
	   tcase_add_test(tc, a_load_that_fails_waits_for_aborted);
	   tcase_add_test(tc, a_host_that_hangs_is_killed_and_the_old_version_recovers);
	   tcase_add_test(tc, death_before_and_after_the_seal);
	   tcase_add_test(tc, kept_and_loaded_in_any_order);
	   tcase_add_test(tc, slow_preparation_is_not_waited_for);
	   tcase_add_test(tc, too_small_is_made_bigger_three_times);
	   tcase_add_test(tc, a_replacement_takes_over_and_the_old_process_ends);
	   tcase_add_test(tc, a_replacement_that_fails_costs_the_second_process_only);
	   tcase_add_test(tc, a_rehearsal_may_turn_into_a_replacement);
	   tcase_add_test(tc, save_only_ends_quiesced_and_kept);
	   tcase_add_test(tc, messages_out_of_turn_change_nothing); tcase_add_test(tc, take_over_rows);
	   tcase_add_test(tc, take_over_at_every_step);
	   tcase_add_test(tc, every_step_has_a_name_and_a_deadline);)
