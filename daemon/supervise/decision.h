/* SPDX-License-Identifier: MIT
 *
 * The decision log of one sandbox: what happened, the rule that applied, the numbers it had; as `explain` tells it in sentences. A ring of
 * plain values, so that it is copied into the spec as it is and outlives control. Pure, but for its memory. Control process. */
#ifndef SANDBOXD_DECISION_H
#define SANDBOXD_DECISION_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/supervise/life.h"
#include "proto/limits.h"

enum decision_kind {
	DECISION_NONE,
	DECISION_ASKED,         /* .request was asked for; .from */
	DECISION_OVERRIDDEN,    /* .request gave way to a later one */
	DECISION_BEGIN,         /* a process is being started; .from */
	DECISION_READY,
	DECISION_ENDED,         /* by itself: .what, .exit, .uptime_ms, .generation, .version */
	DECISION_ENDED_ASKED,   /* as asked */
	DECISION_START_FAILED,  /* .reason */
	DECISION_RESTART,       /* counted: .used of .allowed within .period_ms; after .delay_ms, .jitter_ms of it by chance; .streak in a row */
	DECISION_GAVE_UP,       /* .used > .allowed */
	DECISION_STAYS_DOWN,    /* the restart type says so; .exit, .restart */
	DECISION_RECOVERED,     /* died in a reload after its state was sealed: started from that, not counted */
	DECISION_KILLED,        /* .kill */
	DECISION_SAVE_FAILED,   /* not restarted, since not saved */
	DECISION_RESET,
	DECISION_STABLE,        /* the back-off begins anew, since it was up for .period_ms */
	DECISION_FROZEN,
	DECISION_THAWED,
	DECISION_TAKEN_OVER,    /* by a new control process */
	DECISION_SET_ASIDE,     /* a kept state whose restore has crashed too often; .used times */
	DECISION_GROUP,         /* its group decided; .what */
	DECISION__N
};

struct decision {
	int64_t at_ms;          /* wall clock */
	int64_t uptime_ms;
	uint64_t generation;
	uint32_t version;
	uint32_t used, allowed, period_ms, delay_ms, jitter_ms, streak;
	uint8_t kind, request, reason, exit, restart, from, kill, reserved;
	char what[64];          /* text, not trusted */
};

struct decisions {
	uint32_t n;             /* ever; the newest LIMIT_DECISIONS of them are in at[], the i-th in at[i % LIMIT_DECISIONS] */
	uint32_t room;          /* of at[]: it grows up to LIMIT_DECISIONS, since most sandboxes have a few; what there is no memory for is not kept */
	struct decision *at;    /* owned */
};

#define DECISIONS_BYTES_MOST (8 + LIMIT_DECISIONS * sizeof(struct decision))

/* What the life doesn't know of its process. */
struct decision_facts {
	int64_t wall_ms;
	int64_t uptime_ms;      /* of the process that has ended */
	uint64_t generation;
	uint32_t version;
	const char *what;       /* how it ended; NULL: nothing to say */
};

void decisions_add(struct decisions *ds, const struct decision *d);
/* What a step that was TAKEN meant. `before` is the life as it was before it. */
void decisions_step(struct decisions *ds, const struct life *before, const struct life *after, const struct life_policy *p,
	const struct life_event *ev, const struct life_actions *out, const struct decision_facts *facts);
size_t decisions_count(const struct decisions *ds);                        /* that are kept */
const struct decision *decisions_get(const struct decisions *ds, size_t i); /* 0: the oldest kept */
/* As bytes, which any later version reads: their number, at most DECISIONS_BYTES_MOST; from any bytes. */
size_t decisions_write(const struct decisions *ds, uint8_t to[DECISIONS_BYTES_MOST]);
void decisions_read(struct decisions *ds, const uint8_t *from, size_t size);
void decisions_fini(struct decisions *ds);
const char *decision_kind_text(enum decision_kind k);                      /* "gave_up" */
void decision_text(const struct decision *d, char *to, size_t room);       /* one sentence */
/* What comes next by itself, and when: "restart in 312 ms"; "" when nothing does. */
void decision_next_text(const struct life *l, const struct life_policy *p, int64_t now_ms, char *to, size_t room);

#endif
