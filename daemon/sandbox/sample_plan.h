/* SPDX-License-Identifier: MIT
 *
 * When a sandbox is looked at again, and what of a look is told. Pure: numbers in, decisions out; sampler.c looks.
 *
 * Whoever is due stands in a wheel of lists, one for each tick, so that a look costs the same however many sandboxes there are, and those who
 * are due together need one wake-up. */
#ifndef SANDBOXD_SAMPLE_PLAN_H
#define SANDBOXD_SAMPLE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define SAMPLE_TICK_MS      125   /* of the wheel */
#define SAMPLE_SOON_MS      250   /* after a call, or a look that found it at work: what a fork bomb of memory may take till then is seen once */
#define SAMPLE_RARE_MS      4000  /* one that has done nothing: 1,000 of them are 250 looks a second, some 10 us each */
#define SAMPLE_WARN_PERCENT  80
#define SAMPLE_FULL_PERCENT  100
#define SAMPLE_REARM_PERCENT 70   /* below it the next crossing is told again */

/* ---- what is told: each crossing once ---- */

enum sample_of { SAMPLE_MEMORY, SAMPLE_PROCESSES, SAMPLE_OPEN_FILES, SAMPLE_QUEUE, SAMPLE_CPU, SAMPLE_OF__N };
enum sample_tell { SAMPLE_TELL_NOTHING, SAMPLE_TELL_WARNING, SAMPLE_TELL_EXCEEDED };

struct sample_told {
	uint8_t warned, exceeded; /* bits: 1 << enum sample_of */
};

/* percent of the limit. One that comes straight to it is exceeded, without a warning before or after. */
enum sample_tell sample_cross(struct sample_told *t, enum sample_of of, uint64_t percent);
uint64_t sample_percent(uint64_t used, uint64_t limit); /* rounded down; of no limit: 0 */

/* ---- when: ms until the next look ---- */

/* It was looked at `before_ms` after the look before that. was_busy: it has done something since. */
uint32_t sample_next_ms(uint32_t before_ms, bool was_busy);

/* ---- the wheel ---- */

struct sample_item {
	struct sample_item *next, **at; /* at NULL: in no wheel */
};

#define SAMPLE_SLOTS 64 /* of a tick each; more than SAMPLE_RARE_MS */

struct sample_wheel {
	struct sample_item *slots[SAMPLE_SLOTS];
	uint32_t now;           /* slot that is due */
	uint32_t n;
};

static inline bool sample_waits(const struct sample_item *i)
{
	return i->at != 0;
}

void sample_put(struct sample_wheel *w, struct sample_item *i, uint32_t ms); /* or moves it there; at least a tick from now */
void sample_remove(struct sample_wheel *w, struct sample_item *i);           /* nothing where it is in none */
void sample_advance(struct sample_wheel *w);                                 /* a tick has passed; what was due and not taken stays due */
struct sample_item *sample_take(struct sample_wheel *w);                     /* one that is due, out of the wheel; NULL: none is */
uint32_t sample_idle_ticks(const struct sample_wheel *w);                    /* ticks until somebody is due, 0: now. Not of an empty wheel */

#endif
