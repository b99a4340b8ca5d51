/* SPDX-License-Identifier: MIT
 *
 * The restart budget of one sandbox and its back-off. Pure: no clock, no heap; plain fields only, so that it
 * is copied into the spec as it is. Control process.
 *
 * Window: exact milliseconds, both bounds inclusive: two restarts count together if they are at most
 * period_ms apart. One restart more than `intensity` within the period is too many (intensity 0: the first
 * one). Where the policy says so, the window stands still between budget_stand and budget_go_on: what takes longer than the period to
 * start, and then ends at once, or can't be started at all, is one too many all the same. Back-off: the first restart after a stable uptime (ready for at least period_ms), and the very first,
 * is at once; the next ones in a row wait backoff_first_ms, doubled each time, at most backoff_max_ms, and up to a quarter of that
 * on top by chance (budget_jitter_ms), so that many that ended at once don't start at once. */
#ifndef SANDBOXD_BUDGET_H
#define SANDBOXD_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_INTENSITY_MAX 100 /* a policy that allows more is refused where it is read */

struct budget_policy {
	uint32_t intensity;        /* <= BUDGET_INTENSITY_MAX */
	uint32_t period_ms;        /* >= 1 */
	uint32_t backoff_first_ms; /* 0: never wait */
	uint32_t backoff_max_ms;   /* >= backoff_first_ms */
	bool window_stands;        /* for the caller: it stands while the sandbox isn't up. OTP: it never does */
};

struct budget {
	uint32_t n;      /* entries used of at_ms */
	uint32_t streak; /* counted restarts since the last stable uptime: the back-off's exponent */
	int64_t still_ms; /* the window stands at this time; 0: it moves */
	int64_t at_ms[BUDGET_INTENSITY_MAX + 1]; /* monotonic times of the counted restarts, oldest first */
};

struct budget_view {
	uint32_t used, allowed; /* "2 of 5 used" */
	int64_t frees_ms;       /* until the oldest one counts no more; 0: none counts */
	int64_t resets_ms;      /* until none counts; 0: none counts */
};

void budget_clear(struct budget *b);
/* Counts one restart. true: allowed, *ret_delay_ms is what to wait before it. false: too many (it stays
 * counted). */
bool budget_charge(struct budget *b, const struct budget_policy *p, int64_t now_ms, uint32_t *ret_delay_ms);
/* The process had been ready for uptime_ms when it ended: a stable one ends the streak. Call it before
 * budget_charge. */
void budget_uptime(struct budget *b, const struct budget_policy *p, int64_t uptime_ms);
/* From now on no time passes for the window; from now on it does, and what is counted is as old as it was. Each again: nothing. */
void budget_stand(struct budget *b, int64_t now_ms);
void budget_go_on(struct budget *b, int64_t now_ms);
/* What is added to a delay, from a random number of the caller's: 0 to a quarter of it. */
uint32_t budget_jitter_ms(uint32_t delay_ms, uint32_t random);
struct budget_view budget_view(const struct budget *b, const struct budget_policy *p, int64_t now_ms);
/* Makes bytes that came from outside (a spec) safe to use: drops what is not in order, in the future, or too
 * much. */
void budget_sanitise(struct budget *b, int64_t now_ms);

#endif
