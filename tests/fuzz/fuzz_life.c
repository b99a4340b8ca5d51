/* SPDX-License-Identifier: MIT
 *
 * A life of any bytes, as a spec might hold it, adopted by a new control; then events in any order. It stays a life. */
#include "tests/fuzz/fuzz.h"

#include "daemon/supervise/life.h"

static void check(const struct life *l, const struct life_actions *a)
{
	FUZZ_MUST((unsigned)l->state < LIFE__N && life_state_text(l->state) != NULL);
	FUZZ_MUST((unsigned)l->reason < LIFE_REASON__N && (unsigned)l->pending < LIFE_REQUEST__N && (unsigned)l->killed < LIFE_KILL__N);
	FUZZ_MUST(l->process <= LIFE_PROCESS_ALIVE && (unsigned)l->last_exit < LIFE_EXIT__N && l->budget.n <= BUDGET_INTENSITY_MAX + 1);
	FUZZ_MUST((a->set & ~LIFE_DO__ALL) == 0 && (unsigned)a->kill_why < LIFE_KILL__N);
	if (a->set & LIFE_DO_KILL)
		FUZZ_MUST(a->kill_why != LIFE_KILL_NONE && l->process != LIFE_PROCESS_NONE);
	if (a->set & LIFE_DO_ANSWER)
		FUZZ_MUST(a->request != LIFE_NO_REQUEST && a->ok == (a->reason == LIFE_REASON_NONE));
	if (a->set & LIFE_DO_SET_TIMER)
		FUZZ_MUST(l->timer_at_ms != 0);
	(void)life_takes_calls(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct life_policy p = life_policy_default();
	struct life_finding found = { .found = (enum life_found)(fuzz_u8(&in) % LIFE_FOUND__N), .exit = (enum life_exit)(fuzz_u8(&in) % LIFE_EXIT__N) };
	int64_t now = 1000000;
	struct life_actions out;
	struct life l, booted;

	found.has_state = fuzz_u8(&in) & 1;
	found.started_ms = fuzz_u8(&in) & 1 ? (int64_t)fuzz_u64(&in) : now - fuzz_u16(&in);
	p.restart = (enum life_restart)(fuzz_u8(&in) % LIFE_RESTART__N);
	p.budget.intensity = fuzz_u8(&in) % (BUDGET_INTENSITY_MAX + 1);
	p.budget.period_ms = fuzz_u16(&in) + 1u;
	p.shutdown_ms = fuzz_u8(&in) & 1 ? fuzz_u16(&in) : 0;
	fuzz_take(&in, &l, sizeof l);
	if (l.state >= 64) /* an enum of small numbers more often than not */
		l.state = (enum life_state)((unsigned)l.state % LIFE__N);
	booted = l;
	life_boot(&booted, &p, l.gone & 1, found.has_state, l.gone & 2 ? 500 : 0, now, &out);
	check(&booted, &out);
	FUZZ_MUST(booted.process != LIFE_PROCESS_ALIVE && !(out.set & LIFE_DO_KILL));
	life_adopt(&l, &p, &found, now, &out);
	check(&l, &out);
	FUZZ_MUST(l.pending == LIFE_NO_REQUEST);
	for (int i = 0; i < 200 && in.left > 0 && !(out.set & LIFE_DO_GONE); i++) {
		struct life_event ev = { .type = (enum life_event_type)(fuzz_u8(&in) % LIFE_EVENT__N), .now_ms = now += fuzz_u8(&in) };

		ev.keep_state = fuzz_u8(&in) & 1;
		ev.exit = (enum life_exit)(fuzz_u8(&in) % LIFE_EXIT__N);
		(void)life_step(&l, &p, &ev, &out);
		check(&l, &out);
	}
	return 0;
}
