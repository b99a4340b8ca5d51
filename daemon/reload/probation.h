/* SPDX-License-Identifier: MIT
 *
 * The time after a reload in which the new version has to prove itself. A fault of its code within it brings the version before
 * back, with the state saved at the commit. Pure: events in, actions out; the engine keeps that state, arms the one timer and
 * starts the process. Control process.
 *
 * Rules that hold always (tests/unit/test_probation.c explores them, with reloads, exits and restarts of control):
 * - HOLD_STATE and DROP_STATE take turns, and a state is held just while a version is on probation;
 * - RETURN comes at most once for a version, only for a fault of its code, and to the version that ran before it;
 * - a probation that is over, however it ended, has no effect on anything: a later fault is an ordinary crash;
 * - a return isn't itself on probation, nor is a rollback: what comes back ran before. */
#ifndef SANDBOXD_PROBATION_H
#define SANDBOXD_PROBATION_H

#include <stdbool.h>
#include <stdint.h>

enum probation_event_type {
	PROBATION_EV_COMMITTED, /* a reload: version, before, ms, backwards */
	PROBATION_EV_FAULT,     /* the process ended by a fault of its code (probation_is_fault), while it served */
	PROBATION_EV_TIMER,
	PROBATION_EV_CONFIRM,   /* version.commit */
	PROBATION_EV_STOPPED,   /* a stop, restart or destroy by request: the owner has decided */
	PROBATION_EV_LOST,      /* what was held can't be had any more */
	PROBATION_EVENT__N
};

struct probation_event {
	enum probation_event_type type;
	uint32_t version, before; /* COMMITTED: current from now on, and the one that it took the place of (0: none) */
	uint32_t ms;              /* COMMITTED: how long; 0: not at all */
	bool backwards;           /* COMMITTED: a rollback */
};

/* Bits of probation_actions.set; carried out in this order. */
#define PROBATION_DO_CLEAR_TIMER 0x01u
#define PROBATION_DO_DROP_STATE  0x02u /* of a probation that is over */
#define PROBATION_DO_HOLD_STATE  0x04u /* the one saved at the commit that was just told */
#define PROBATION_DO_SET_TIMER   0x08u /* .timer_ms */
#define PROBATION_DO_RETURN      0x10u /* quarantine .version, start .to from the state held, which is given away with it */
#define PROBATION_DO_PASSED      0x20u /* .version is as any other from now on; .why */

struct probation_actions {
	uint32_t set;
	uint32_t timer_ms;
	uint32_t version, to;
	enum probation_event_type why; /* PASSED: what ended it */
};

struct probation {
	uint32_t version; /* on probation; 0: none is */
	uint32_t before;  /* where a fault leads back to */
};

/* true: taken; false: doesn't apply, nothing changes and `out` is empty. */
bool probation_step(struct probation *p, const struct probation_event *ev, struct probation_actions *out);
bool probation_active(const struct probation *p);
/* A wait status: SEGV, BUS, ILL, FPE, ABRT, SYS, TRAP, or the limit of time (XCPU), also as pid 1 of a namespace reports them (128 +
 * signal). A SIGKILL isn't one: it comes from outside. */
bool probation_is_fault(int wait_status);
const char *probation_why_text(enum probation_event_type why); /* "time", "commit" ... */

#endif
