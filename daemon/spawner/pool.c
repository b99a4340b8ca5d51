/* SPDX-License-Identifier: MIT
 *
 * The decisions of a pool of spare hosts. */
#include "daemon/spawner/pool.h"

#include <assert.h>

#ifndef SEEDED
#define SEEDED(bug) 0 /* its tests put bugs in */
#endif

#define LOSS_FIRST_MS 100
#define LOSS_MAX_MS   30000
#define LOSS_DOUBLED  8 /* times, at most: no shift beyond LOSS_MAX_MS */

void pool_init(struct pool *p, uint32_t target)
{
	*p = (struct pool){ .target = target, .due_ms = POOL_NOT_ASKED, .latest_ms = POOL_NOT_ASKED };
}

static bool lacks(const struct pool *p)
{
	return p->used && p->waiting + p->coming < p->target;
}

/* The first loss may be an accident. */
static int64_t loss_delay_ms(uint32_t losses)
{
	int64_t delay_ms = LOSS_FIRST_MS;

	if (losses == 0)
		return POOL_REFILL_MS;
	for (uint32_t i = 1; i < losses && i <= LOSS_DOUBLED; i++)
		delay_ms *= 2;
	return delay_ms < LOSS_MAX_MS ? delay_ms : LOSS_MAX_MS;
}

void pool_retarget(struct pool *p, uint32_t target, int64_t now_ms)
{
	if (p->target == target)
		return;
	p->target = target;
	p->latest_ms = POOL_NOT_ASKED;
	p->due_ms = lacks(p) ? now_ms + loss_delay_ms(p->losses) : POOL_NOT_ASKED;
}

void pool_started(struct pool *p, int64_t now_ms)
{
	if (p->target == 0)
		return;
	p->used = true;
	if (!lacks(p) || (p->losses > 0 && p->due_ms != POOL_NOT_ASKED))
		return;
	if (p->latest_ms == POOL_NOT_ASKED)
		p->latest_ms = now_ms + POOL_LATEST_MS;
	p->due_ms = now_ms + POOL_REFILL_MS < p->latest_ms ? now_ms + POOL_REFILL_MS : p->latest_ms;
}

bool pool_take(struct pool *p)
{
	if (p->waiting == 0)
		return false;
	p->waiting--;
	p->losses = 0;
	return true;
}

uint32_t pool_ask(struct pool *p, int64_t now_ms)
{
	uint32_t n;

	if (p->due_ms == POOL_NOT_ASKED || now_ms < p->due_ms)
		return 0;
	n = lacks(p) ? p->target - p->waiting - (SEEDED(3) ? 0 : p->coming) : 0;
	if (n > POOL_AT_ONCE)
		n = POOL_AT_ONCE;
	p->coming += SEEDED(2) ? 0 : n;
	if (!lacks(p) || SEEDED(1))
		p->due_ms = p->latest_ms = POOL_NOT_ASKED;
	return n;
}

void pool_came(struct pool *p)
{
	assert(p->coming > 0);
	p->coming--;
	p->waiting++;
}

void pool_lost(struct pool *p, bool was_waiting, int64_t now_ms)
{
	uint32_t *count = was_waiting ? &p->waiting : &p->coming;

	assert(*count > 0);
	(*count)--;
	p->losses++;
	p->latest_ms = POOL_NOT_ASKED;
	p->due_ms = now_ms + loss_delay_ms(p->losses);
}

void pool_emptied(struct pool *p, int64_t now_ms)
{
	p->waiting = p->coming = 0;
	p->latest_ms = POOL_NOT_ASKED;
	p->due_ms = lacks(p) ? now_ms + loss_delay_ms(p->losses) : POOL_NOT_ASKED;
}

int64_t pool_due_ms(const struct pool *p)
{
	return p->due_ms;
}
