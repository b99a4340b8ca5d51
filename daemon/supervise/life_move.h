/* SPDX-License-Identifier: MIT
 *
 * Inner header of life.c, life_move.c and life_adopt.c; nobody else includes it. Control process. */
#ifndef SANDBOXD_LIFE_MOVE_H
#define SANDBOXD_LIFE_MOVE_H

#include "daemon/supervise/life.h"

/* Where a stop is. Only while `stopping`. */
enum stage {
	STAGE_NONE,
	STAGE_CANCELLING, /* the reload at work is being cancelled; timer */
	STAGE_SAVING,     /* timer; when it has fired: waits for the end of the cancelled save */
	STAGE_ASKED,      /* HOST_STOP was sent; timer */
	STAGE_KILLED,     /* waits for the end of the process, or for its birth to kill it */
	STAGE__N
};

struct step {
	struct life *l;
	const struct life_policy *p;
	const struct life_event *ev;
	struct life_actions *out;
};

#define RESTORE_TRIES 2 /* so many starts by policy may fail from one state */

#define NOT_TAKEN LIFE__N /* what a handler returns to say: not now */

void move_to(struct step *s, enum life_state next); /* the end of a step: its state, and what follows from that alone */
void move_timer_set(struct step *s, uint32_t ms);
void move_timer_clear(struct step *s);
void move_state_drop(struct step *s);
void move_checkpoint_drop(struct step *s);
void move_checkpoint_take(struct step *s);
void move_answer(struct step *s, bool ok, enum life_reason reason);
void move_pending_replace(struct step *s, enum life_request request);
void move_process_kill(struct step *s, enum life_kill why);
enum life_state move_start_begin(struct step *s);
enum life_state move_policy_decide(struct step *s, enum life_reason reason, bool clean);
enum life_state move_gone(struct step *s, enum life_state last);
enum life_state move_stop_finish(struct step *s);
enum life_state move_start_failed(struct step *s, enum life_reason reason);
enum life_state move_stop_ask(struct step *s);
enum life_state move_stop_begin(struct step *s);
void move_process_ended(struct step *s);
enum life_state move_ready(struct step *s);
enum life_state move_found_empty(struct step *s);
enum life_state move_crashed(struct step *s);

#endif
