/* SPDX-License-Identifier: MIT
 *
 * Does control still serve? It is asked now and then and answers from its loop. One that doesn't answer for too long is to be replaced;
 * while it answers, the service manager's watchdog is fed. Pure: time in, decisions out. */
#ifndef SANDBOXD_LIVENESS_H
#define SANDBOXD_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#define LIVENESS_ASK_MS   20000  /* a wake-up of both processes each: 0.1 in a second */
#define LIVENESS_MOST_MS  60000  /* far longer than any turn of its loop; short enough that nobody waits for an administrator */

struct liveness {
	int64_t ask_ms;       /* how often it is asked */
	int64_t most_ms;      /* the answer may take */
	int64_t ask_at_ms;    /* INT64_MAX: nobody is there to be asked */
	int64_t late_at_ms;   /* by when the question must be answered; INT64_MAX: none is open */
	int64_t fed_ms;       /* when the watchdog was fed last; INT64_MIN: never */
};
#define LIVENESS_INIT { LIVENESS_ASK_MS, LIVENESS_MOST_MS, INT64_MAX, INT64_MAX, INT64_MIN }

enum liveness_act { LIVENESS_NOTHING, LIVENESS_ASK, LIVENESS_REPLACE };

/* watchdog_ms: the service manager wants to hear at least so often, or ends the daemon; 0: it doesn't. A control that doesn't answer is
 * replaced before that. */
void liveness_init(struct liveness *l, int64_t watchdog_ms);
void liveness_serves(struct liveness *l, int64_t now_ms);   /* control is ready */
void liveness_gone(struct liveness *l);                     /* it has ended, or is being ended */
/* A control that is not ready yet has sent something: its take-over goes on. True: the watchdog is to be fed, which a long one waits for. */
bool liveness_goes_on(struct liveness *l, int64_t now_ms);
bool liveness_answered(struct liveness *l, int64_t now_ms); /* true: to a question that was open */
enum liveness_act liveness_timer(struct liveness *l, int64_t now_ms);
int64_t liveness_deadline(const struct liveness *l);

#endif
