/* SPDX-License-Identifier: MIT
 *
 * How many spare hosts of one profile there should be, and when the next ones are made. Pure: events in, numbers out, time is an
 * argument. Making them costs as much as starting a host, so it waits until the start that took one is over; those that end
 * while they wait are replaced ever more slowly. */
#ifndef SANDBOXD_POOL_H
#define SANDBOXD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_REFILL_MS   3    /* behind the newest start: several times what one takes, and not seen by the next */
#define POOL_LATEST_MS   50   /* behind the first that took one: starts without a pause don't keep the pool empty */
#define POOL_AT_ONCE     2    /* made in one turn of the loop; the rest in the next */
#define POOL_NOT_ASKED   INT64_MAX

struct pool {
	uint32_t target;          /* 0: there is no pool */
	uint32_t waiting, coming; /* ready to be taken; asked for, and not there yet */
	bool used;                /* a host of the profile was started: before that none is made */
	uint32_t losses;          /* in a row: ended before they were taken */
	int64_t due_ms;           /* when the next ones are made; POOL_NOT_ASKED */
	int64_t latest_ms;        /* not later than this, whatever starts come; POOL_NOT_ASKED: none was taken */
};

void pool_init(struct pool *p, uint32_t target);
void pool_retarget(struct pool *p, uint32_t target, int64_t now_ms); /* another number from now on; 0: none can be made, and nothing is due */
void pool_started(struct pool *p, int64_t now_ms);          /* a host was started, with or without a spare */
bool pool_take(struct pool *p);                             /* true: one that waits is used, and there was one */
uint32_t pool_ask(struct pool *p, int64_t now_ms);          /* so many are to be made now; they count as coming */
void pool_came(struct pool *p);                             /* one of those waits now */
void pool_lost(struct pool *p, bool was_waiting, int64_t now_ms); /* one has ended, or could not be made */
void pool_emptied(struct pool *p, int64_t now_ms);          /* their zygote is gone, and they with it */
int64_t pool_due_ms(const struct pool *p);                  /* POOL_NOT_ASKED: nothing is to be done */

#endif
