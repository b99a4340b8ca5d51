/* SPDX-License-Identifier: MIT
 *
 * Checkpoints of one sandbox: its state, saved while it runs (TXN_CHECKPOINT), on demand (state.checkpoint), every so often
 * (checkpoint_every_ms), and by the save of each reload. The newest is with the spawner, beside the state that a start begins from, and, where the
 * sandbox is persistent and it was saved for its own sake, on disk as a stop's would be. What begins from it, and when, is the life's to
 * decide. Loop thread only. */
#ifndef SANDBOXD_CHECKPOINT_H
#define SANDBOXD_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "proto/json_out.h"
#include "proto/json_scan.h"

struct host_message;
struct rpc_request;
struct rpc_done;
struct sandbox;
struct txn_actions;

/* What is known of a saved state. */
struct checkpoint_mark {
	uint64_t number;         /* of the checkpoint; 0: it is a stop's state, or a cut reload's */
	int64_t at_ms;           /* wall clock */
	uint64_t bytes;
	uint64_t calls_done;     /* calls.done then */
	bool counts;             /* calls_done is of this control process */
	bool is_row;             /* it is the state that the registry's row refers to */
};

/* A part of struct sandbox. */
struct checkpoint {
	int fd;                  /* as the spawner keeps it; -1: none */
	int mirror_fd;           /* checkpoint call: what the process saves its state into before each reply; the spawner keeps it in place of fd. -1: none */
	int next_mirror_fd;      /* the same of a second process, which the spawner is given with its promotion. -1: none */
	struct checkpoint_mark mark;
	struct checkpoint_mark kept; /* of the state that the life keeps */
	uint64_t newest;         /* the number of the last one that was made */
	int64_t newest_at_ms;
	uint64_t newest_bytes;
	struct rpc_request *request; /* of the one at work; NULL: the timer's */
	uint32_t quiesce_ms;     /* 0: the default */
	struct checkpoint_mark made; /* of the one at work */
	bool touched;            /* the state may have changed since the newest: a call was sent, another state was put in */
	bool timers;             /* or may change by itself: timers of the module were armed when it was last saved */
	bool failing;            /* the last one by the timer did not go well, and that was told */
	bool put_off;            /* it was due by the timer while calls ran */
	int64_t due_ms;          /* monotonic: the next by the timer, not before */
	uint64_t ready_done;     /* calls.done when the running, or last, process was ready */
	bool ready_counts;
	uv_timer_t timer;
};

/* With what the process after the last one began. A part of struct last_exit. */
struct begun_from {
	char state_from[16];     /* "": none has been begun */
	uint64_t number;         /* of the checkpoint; 0 */
	uint64_t since;          /* acknowledged since */
	bool counts;
};

void checkpoint_init(struct sandbox *sb);
void checkpoint_fini(struct sandbox *sb);
/* ---- what the life orders ---- */
void checkpoint_set(struct sandbox *sb);    /* LIFE_DO_SET_CHECKPOINT */
void checkpoint_take(struct sandbox *sb);   /* LIFE_DO_TAKE_CHECKPOINT */
void checkpoint_drop(struct sandbox *sb);   /* LIFE_DO_DROP_CHECKPOINT */
/* ---- what happens ---- */
/* Checkpoint call: the process is given a mirror, before it is told what to load. */
int checkpoint_mirror(struct sandbox *sb, struct err *e);
/* The second process is, likewise; it is the sandbox's process; it is discarded. */
int checkpoint_mirror_next(struct sandbox *sb, struct err *e);
void checkpoint_promoted(struct sandbox *sb);
void checkpoint_next_drop(struct sandbox *sb);
/* A new control finds what the spawner keeps in that place. True: the next start may begin from it. */
void checkpoint_found(struct sandbox *sb, int *fd);
bool checkpoint_is_there(struct sandbox *sb);
void checkpoint_ready(struct sandbox *sb);  /* a process serves */
void checkpoint_touched(struct sandbox *sb);
void checkpoint_update(struct sandbox *sb); /* its state or its host may have changed */
void checkpoint_replied(struct sandbox *sb); /* a call has ended: one that the timer has put off begins */
void checkpoint_cancel(struct sandbox *sb); /* one that is at work gives way to a request */
/* The transaction: calls are held; it is sealed; it is over. */
void checkpoint_held(struct sandbox *sb);
void checkpoint_sealed(struct sandbox *sb);
void checkpoint_done(struct sandbox *sb, const struct txn_actions *a);
/* A reload is committed: its save is the newest checkpoint, where one would be begun from. False: it isn't kept. */
bool checkpoint_of_reload(struct sandbox *sb);
/* ---- for people, and a new control ---- */
const char *checkpoint_from_text(const struct sandbox *sb, int from /* enum life_from */); /* "fresh", "checkpoint", ... */
void checkpoint_begins(struct sandbox *sb, int from); /* a start without a wish follows the last exit: notes it there */
/* Its process has ended, and the life hasn't been told: what a restart by policy will begin with. False: not with a checkpoint. */
bool checkpoint_next(const struct sandbox *sb, struct begun_from *ret);
void begun_from_json(const struct begun_from *b, struct json_out *o); /* state_from, checkpoint, acknowledged_since */
void checkpoint_json(const struct sandbox *sb, struct json_out *o, const char *key);
void checkpoint_save(const struct sandbox *sb, struct json_out *o);
void checkpoint_load(struct sandbox *sb, struct json_span top);
void begun_from_load(struct begun_from *b, struct json_span saved);
const struct rpc_done *sandbox_checkpoint(struct sandbox *sb, struct rpc_request *r);

#endif
