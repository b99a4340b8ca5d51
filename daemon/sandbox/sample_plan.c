/* SPDX-License-Identifier: MIT */
#include "daemon/sandbox/sample_plan.h"

#include <stddef.h>

enum sample_tell sample_cross(struct sample_told *t, enum sample_of of, uint64_t percent)
{
	uint8_t bit = (uint8_t)(1u << of);

	if (percent < SAMPLE_REARM_PERCENT) {
		t->warned &= (uint8_t)~bit;
		t->exceeded &= (uint8_t)~bit;
	} else if (percent >= SAMPLE_FULL_PERCENT && !(t->exceeded & bit)) {
		t->warned |= bit;
		t->exceeded |= bit;
		return SAMPLE_TELL_EXCEEDED;
	} else if (percent >= SAMPLE_WARN_PERCENT && !(t->warned & bit)) {
		t->warned |= bit;
		return SAMPLE_TELL_WARNING;
	}
	return SAMPLE_TELL_NOTHING;
}

uint64_t sample_percent(uint64_t used, uint64_t limit)
{
	if (limit == 0)
		return 0;
	return used < UINT64_MAX / 100 ? used * 100 / limit : used / limit * 100;
}

uint32_t sample_next_ms(uint32_t before_ms, bool was_busy)
{
	if (was_busy || before_ms < SAMPLE_SOON_MS)
		return SAMPLE_SOON_MS;
	return before_ms < SAMPLE_RARE_MS / 2 ? before_ms * 2 : SAMPLE_RARE_MS;
}

/* ---- the wheel ---- */

static void push(struct sample_item **list, struct sample_item *i)
{
	i->next = *list;
	i->at = list;
	if (i->next)
		i->next->at = &i->next;
	*list = i;
}

void sample_remove(struct sample_wheel *w, struct sample_item *i)
{
	if (!i->at)
		return;
	*i->at = i->next;
	if (i->next)
		i->next->at = i->at;
	i->next = NULL;
	i->at = NULL;
	w->n--;
}

void sample_put(struct sample_wheel *w, struct sample_item *i, uint32_t ms)
{
	uint32_t ticks = (ms + SAMPLE_TICK_MS - 1) / SAMPLE_TICK_MS;

	sample_remove(w, i);
	if (ticks == 0)
		ticks = 1;
	if (ticks >= SAMPLE_SLOTS)
		ticks = SAMPLE_SLOTS - 1;
	push(&w->slots[(w->now + ticks) % SAMPLE_SLOTS], i);
	w->n++;
}

void sample_advance(struct sample_wheel *w)
{
	struct sample_item **from = &w->slots[w->now], *i;

	w->now = (w->now + 1) % SAMPLE_SLOTS;
	while ((i = *from)) {
		sample_remove(w, i);
		push(&w->slots[w->now], i);
		w->n++;
	}
}

struct sample_item *sample_take(struct sample_wheel *w)
{
	struct sample_item *i = w->slots[w->now];

	if (i)
		sample_remove(w, i);
	return i;
}

uint32_t sample_idle_ticks(const struct sample_wheel *w)
{
	uint32_t ticks = 0;

	while (ticks < SAMPLE_SLOTS && !w->slots[(w->now + ticks) % SAMPLE_SLOTS])
		ticks++;
	return ticks;
}
