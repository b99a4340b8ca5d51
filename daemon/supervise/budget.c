/* SPDX-License-Identifier: MIT
 *
 * The restart budget: a window of exact milliseconds, and the back-off that grows with each restart in a row.
 * Rules and lifetime are in budget.h. Control process; pure. */
#include <string.h>

#include "daemon/supervise/budget.h"

#ifndef SEEDED
#define SEEDED(bug) 0 /* tests build this file with bugs put in, to see that they are found */
#endif

static void budget_drop_oldest(struct budget *b, uint32_t n)
{
	memmove(b->at_ms, b->at_ms + n, (b->n - n) * sizeof b->at_ms[0]);
	b->n -= n;
}

/* What time it is for the window. */
static int64_t window_ms(const struct budget *b, int64_t now_ms)
{
	return b->still_ms != 0 && b->still_ms < now_ms ? b->still_ms : now_ms;
}

/* How many of the oldest entries are out of the window at now_ms. */
static uint32_t budget_expired(const struct budget *b, const struct budget_policy *p, int64_t now_ms)
{
	uint32_t n = 0;

	now_ms = window_ms(b, now_ms);
	while (n < b->n && now_ms - b->at_ms[n] > (int64_t)p->period_ms - SEEDED(1))
		n++;
	return n;
}

static uint32_t budget_delay_ms(const struct budget *b, const struct budget_policy *p)
{
	uint64_t delay_ms = p->backoff_first_ms;
	uint32_t i;

	if (b->streak == 0)
		return 0;
	for (i = 1; i < b->streak && delay_ms < p->backoff_max_ms; i++)
		delay_ms *= 2;
	return delay_ms < p->backoff_max_ms || SEEDED(2) ? (uint32_t)delay_ms : p->backoff_max_ms;
}

void budget_clear(struct budget *b)
{
	memset(b, 0, sizeof *b);
}

bool budget_charge(struct budget *b, const struct budget_policy *p, int64_t now_ms, uint32_t *ret_delay_ms)
{
	uint32_t intensity = p->intensity < BUDGET_INTENSITY_MAX ? p->intensity : BUDGET_INTENSITY_MAX;

	now_ms = window_ms(b, now_ms);
	if (b->n > 0 && now_ms < b->at_ms[b->n - 1])
		now_ms = b->at_ms[b->n - 1]; /* the clock doesn't go back; should it, the order holds */
	budget_drop_oldest(b, budget_expired(b, p, now_ms));
	if (b->n == BUDGET_INTENSITY_MAX + 1)
		budget_drop_oldest(b, 1);
	b->at_ms[b->n++] = now_ms;
	if (b->n > intensity + SEEDED(3))
		return false;
	*ret_delay_ms = budget_delay_ms(b, p);
	if (b->streak < UINT32_MAX)
		b->streak++;
	return true;
}

void budget_uptime(struct budget *b, const struct budget_policy *p, int64_t uptime_ms)
{
	if (uptime_ms >= (int64_t)p->period_ms && !SEEDED(4))
		b->streak = 0;
}

void budget_stand(struct budget *b, int64_t now_ms)
{
	if (b->still_ms == 0 && now_ms > 0)
		b->still_ms = now_ms;
}

void budget_go_on(struct budget *b, int64_t now_ms)
{
	int64_t by_ms = now_ms - window_ms(b, now_ms);

	for (uint32_t i = 0; i < b->n && !SEEDED(6); i++)
		b->at_ms[i] += by_ms;
	b->still_ms = 0;
}

uint32_t budget_jitter_ms(uint32_t delay_ms, uint32_t random)
{
	return (uint32_t)(((uint64_t)(delay_ms / 4) * random) >> 32) + SEEDED(5) * (1 + delay_ms);
}

struct budget_view budget_view(const struct budget *b, const struct budget_policy *p, int64_t now_ms)
{
	uint32_t expired = budget_expired(b, p, now_ms);
	struct budget_view v = { .used = b->n - expired, .allowed = p->intensity };

	now_ms = window_ms(b, now_ms);
	if (v.used > 0) {
		v.frees_ms = b->at_ms[expired] + p->period_ms + 1 - now_ms;
		v.resets_ms = b->at_ms[b->n - 1] + p->period_ms + 1 - now_ms;
	}
	return v;
}

void budget_sanitise(struct budget *b, int64_t now_ms)
{
	uint32_t i, kept = 0;

	if (b->still_ms < 0 || b->still_ms > now_ms)
		b->still_ms = 0;
	now_ms = window_ms(b, now_ms);
	if (b->n > BUDGET_INTENSITY_MAX + 1)
		b->n = 0;
	for (i = 0; i < b->n; i++)
		if (b->at_ms[i] >= 0 && b->at_ms[i] <= now_ms &&
			(kept == 0 || b->at_ms[i] >= b->at_ms[kept - 1]))
			b->at_ms[kept++] = b->at_ms[i];
	b->n = kept;
}
