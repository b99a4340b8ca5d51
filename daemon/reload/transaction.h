/* SPDX-License-Identifier: MIT
 *
 * A reload as a transaction, and the save part of it alone for an orderly stop or restart. Pure: events in,
 * actions out; the engine carries the actions out and arms the one timer. Control process.
 *
 *   place -> rehearse -> record -> make -> prepare -> quiesce -> save -> seal -> load -> commit -> unload
 *                                  make -------------> quiesce -> save -> seal -> keep    (TXN_SAVE_ONLY, TXN_CHECKPOINT)
 *   spawn -> place -> stage -> make ---------------> quiesce -> save -> seal -> load -> promote -> unload    (TXN_REPLACE)
 *
 * What can be done before the calls are held is done before: the candidate is recorded, the memfd made, its memory and the
 * candidate's prepared. In the pause control waits for the host alone: SAVE is sent behind
 * QUIESCE, and KEEP goes to the spawner while the host loads.
 *
 * TXN_REPLACE brings the candidate in a second process, which loads it while calls go on and restores the sealed state. The
 * spawner makes it the sandbox's process in one step (PROMOTE, with the spec that tells of it); the process before is then ended.
 * No candidate code ever runs in the old process, so until then any failure costs the second process (DISCARD) and nothing else.
 *
 * Rules that hold always (tests/unit/test_transaction.c explores them):
 * - calls are held from QUIESCE on, until RELEASE_CALLS, exactly once (TXN_SAVE_ONLY that succeeds: until the
 * process ends; TXN_CHECKPOINT: until KEEP is sent);
 * - the answer is given exactly once; FINISHED is the last action, and nothing follows it;
 * - LOAD is sent only after the state was sealed and KEEP sent (what was sent to the spawner holds, even if
 * control dies the next instant); COMMIT only after it was kept and the candidate recorded and loaded; the
 * candidate is current (ADOPT) only after COMMITTED;
 * - a failure before COMMITTED leaves the old version serving the old state: in the same process where no
 * candidate code has run in it (before LOAD) or ABORTED says that the candidate is gone, else in a new one,
 * from the sealed state (RECOVER);
 * - a candidate's process is discarded or promoted, exactly once; it is promoted only when it has loaded the sealed state and the spawner
 * keeps that. What PROMOTE came to is waited for without a deadline: the spawner answers, or everything has ended;
 * - a host that dies before the state is sealed has crashed: state_lost. After COMMITTED, too, it is an
 * ordinary crash;
 * - DROP_STATE and ADOPT come before RELEASE_CALLS: while the spawner keeps a state, nothing newer was
 * acknowledged. A checkpoint is kept in another place, and is older than what runs as soon as it is there.
 *
 * The channel is ordered, so where no candidate code has run ABORT is sent and not waited for: calls released
 * after it are read after it. The engine gives an event only if its serial is this transaction's (ABORTED,
 * SAVED too). */
#ifndef SANDBOXD_TRANSACTION_H
#define SANDBOXD_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/host_wire.h"

enum txn_mode {
	TXN_RELOAD,
	TXN_SAVE_ONLY,
	TXN_CHECK /* place and rehearse, nothing else */,
	TXN_REPLACE /* in a second process */,
	TXN_CHECKPOINT /* save, and serve on; a CANCEL that comes when it was sealed leaves it done */
};

/* The step at work; rows of txn_steps[]. */
enum txn_step {
	TXN_IDLE,
	TXN_SPAWN /* TXN_REPLACE: the candidate's process */,
	TXN_STAGE /* likewise: it loads the candidate, while calls go on */,
	TXN_PLACE,
	TXN_REHEARSE,
	TXN_RECORD,
	TXN_MAKE,
	TXN_PREPARE /* memory is made ready while calls go on */,
	TXN_QUIESCE,
	TXN_SAVE,
	TXN_SEAL,
	TXN_KEEP /* TXN_SAVE_ONLY, TXN_CHECKPOINT; a reload loads meanwhile */,
	TXN_LOAD,
	TXN_COMMIT,
	TXN_PROMOTE /* TXN_REPLACE, in place of COMMIT */,
	TXN_UNLOAD /* of the old code; TXN_REPLACE: the end of the old process */,
	TXN_ABORT /* waiting for ABORTED, candidate code has run */,
	TXN_KILL /* waiting for the end of a hung host */,
	TXN_DONE,
	TXN_STEP__N
};

struct txn_step_row {
	const char *name;    /* as replies and events show it */
	const char *ends_by; /* what ends it well */
	uint32_t timeout_ms; /* default */
};
extern const struct txn_step_row txn_steps[TXN_STEP__N];

struct txn_policy {
	uint32_t timeout_ms[TXN_STEP__N];
};
struct txn_policy txn_policy_default(void); /* from the table */

enum txn_event_type {
	TXN_EV_SPAWNED, /* the candidate's process is on its way */
	TXN_EV_SPAWN_FAILED,
	TXN_EV_STAGED, /* it is there, and has loaded the candidate */
	TXN_EV_STAGE_FAILED,
	TXN_EV_PLACED, /* the candidate's object is in the sandbox's folder */
	TXN_EV_PLACE_FAILED,
	TXN_EV_REHEARSED, /* bytes = state_bytes */
	TXN_EV_REHEARSE_FAILED,
	TXN_EV_PREPARED,
	TXN_EV_QUIESCED,
	TXN_EV_MADE, /* the memfd is there, with the size asked */
	TXN_EV_MAKE_FAILED,
	TXN_EV_SAVED,          /* bytes used */
	TXN_EV_SAVE_TOO_SMALL, /* bytes needed */
	TXN_EV_SAVE_FAILED,
	TXN_EV_SEALED,
	TXN_EV_SEAL_FAILED,
	TXN_EV_KEPT, /* spawner: OK */
	TXN_EV_KEEP_FAILED,
	TXN_EV_LOADED,
	TXN_EV_LOAD_FAILED,
	TXN_EV_RECORDED, /* spawner: OK for the spec with the candidate */
	TXN_EV_RECORD_FAILED,
	TXN_EV_COMMITTED,
	TXN_EV_PROMOTED, /* spawner: OK */
	TXN_EV_PROMOTE_FAILED,
	TXN_EV_UNLOADED, /* TXN_REPLACE: the old process has ended */
	TXN_EV_ABORTED,
	TXN_EV_HOST_DIED, /* reaped; what its channel still held has been given before */
	TXN_EV_CANDIDATE_DIED, /* the same of the candidate's process, until it is promoted */
	TXN_EV_TIMER,
	TXN_EV_CANCEL, /* a stop, restart or destroy was asked */
	TXN_EVENT__N
};

struct txn_event {
	enum txn_event_type type;
	uint64_t bytes; /* REHEARSED, SAVED, SAVE_TOO_SMALL; from a host: not trusted */
	bool replace;   /* REHEARSED: it would work, but this process hasn't the room: goes on as TXN_REPLACE */
};

/* Bits of txn_actions.set; carried out in this order. */
#define TXN_DO_CLEAR_TIMER   0x000001u
#define TXN_DO_PLACE         0x000002u
#define TXN_DO_SEND_REHEARSE 0x000004u
#define TXN_DO_RECORD        0x000008u /* KEEP_SPEC: the spec names the candidate beside the version running */
#define TXN_DO_MAKE_STATE    0x000010u /* a new memfd of .state_bytes, in place of one before */
#define TXN_DO_SEND_PREPARE  0x000020u /* .state_bytes are expected */
#define TXN_DO_HOLD_CALLS    0x000040u /* no CALL goes to the host from here */
#define TXN_DO_SEND_QUIESCE  0x000080u /* and the attention signal */
#define TXN_DO_SEND_SAVE     0x000100u /* may stand in the channel behind QUIESCE */
#define TXN_DO_SEAL          0x000200u /* truncate to .state_bytes, seal */
#define TXN_DO_KEEP_STATE    0x000400u /* SPAWNER_KEEP_STATE; TXN_CHECKPOINT: SPAWNER_KEEP_CHECKPOINT */
#define TXN_DO_SEND_LOAD     0x000800u
#define TXN_DO_SEND_COMMIT   0x001000u
#define TXN_DO_SEND_ABORT    0x002000u
#define TXN_DO_KILL_HOST     0x004000u /* -> HOST_DIED */
#define TXN_DO_ADOPT         0x008000u /* KEEP_SPEC: the candidate is the version running */
#define TXN_DO_UNRECORD      0x010000u /* KEEP_SPEC without the candidate */
#define TXN_DO_DROP_STATE    0x020000u /* close the memfd; KEEP_STATE without one if it had been sent */
#define TXN_DO_UNPLACE       0x040000u /* remove the candidate's object, also one whose placing is under way */
#define TXN_DO_RELEASE_CALLS 0x080000u /* the queue drains again, as far as the life's state allows */
#define TXN_DO_RECOVER       0x100000u /* RELOAD_DIED_SEALED to life: the old version starts from what is kept */
#define TXN_DO_SET_TIMER     0x200000u /* .timer_ms; replaces one that runs */
#define TXN_DO_ANSWER        0x400000u /* .ok, or .failed_step, .failure, .outcome */
#define TXN_DO_FINISHED      0x800000u /* life is told; life.h says what */
/* Of TXN_REPLACE. SPAWN, SEND_STAGE and PROMOTE come before all others; DISCARD and RETIRE before ADOPT, KILL_OLD before ANSWER. */
#define TXN_DO_SPAWN         0x01000000u /* SPAWNER_START of a candidate */
#define TXN_DO_SEND_STAGE    0x02000000u
#define TXN_DO_PROMOTE       0x04000000u /* SPAWNER_PROMOTE */
#define TXN_DO_DISCARD       0x08000000u /* SPAWNER_DISCARD; also one whose start is under way */
#define TXN_DO_RETIRE        0x10000000u /* the old process is told to end -> UNLOADED */
#define TXN_DO_KILL_OLD      0x20000000u /* it didn't in time */

enum txn_failure {
	TXN_FAILURE_NONE,
	TXN_FAILURE_SAID /* the step's own error; the engine has its text */,
	TXN_FAILURE_TIMEOUT,
	TXN_FAILURE_CANCELLED,
	TXN_FAILURE_HOST_DIED,
	TXN_FAILURE_STATE_SIZE /* a size from the host that can't be: 0, above the limit, or
contradicting itself */
	,
	TXN_FAILURE_STATE_GROWS /* too small again and again */,
	TXN_FAILURE_CANDIDATE_DIED,
	TXN_FAILURE__N
};

enum txn_outcome {
	TXN_NOTHING_CHANGED, /* the old version serves the old state in the same process */
	TXN_RECOVERED,       /* the same, in a new process (RECOVER) */
	TXN_STATE_LOST,      /* the process has died before its state was sealed */
	TXN_CHANGED,         /* .ok; TXN_CHECK: NOTHING_CHANGED and .ok */
	TXN_OUTCOME__N
};

struct txn_actions {
	uint32_t set;
	uint64_t state_bytes; /* MAKE_STATE, SEND_PREPARE, SEAL */
	uint32_t timer_ms;
	bool ok;
	bool host_gone;            /* ANSWER: ok, but the host died right after (COMMITTED or KEPT) */
	bool not_unloaded;         /* ANSWER: ok, but the old code's UNLOADED did not come in time */
	enum txn_step failed_step; /* ANSWER: the step at work when it failed */
	enum txn_failure failure;
	enum txn_outcome outcome;
};

struct txn {
	enum txn_mode mode;
	enum txn_step step; /* written by transaction.c only */
	bool held, host_gone;
	bool spawned;              /* TXN_REPLACE: a candidate's process is asked for, neither promoted nor discarded */
	bool old_gone;             /* TXN_REPLACE: the old process died while PROMOTE was on its way */
	bool placed, keep_sent, sealed, load_sent, record_sent;
	bool kept, loaded;         /* LOAD waits for both */
	uint32_t made;             /* memfds made: 1 and at most TXN_SAVE_RETRIES more */
	uint64_t expected_bytes;   /* of the state, before it is saved */
	uint64_t state_bytes;      /* size of the memfd; from SAVED on, of the state */
	enum txn_step failed_step; /* while ABORT or KILL: what the answer will say */
	enum txn_failure failure;
};

#define TXN_SAVE_RETRIES      3           /* too small: a bigger one, at most three times */
#define TXN_STATE_BYTES_FIRST (64u << 10) /* the guess where no rehearsal has measured it */

/* Begins; the first actions are in `out`. TXN_SAVE_ONLY, TXN_CHECKPOINT: expected_bytes is a guess of the state's size, 0:
 * none. */
void txn_begin(struct txn *t, enum txn_mode mode, const struct txn_policy *p, uint64_t expected_bytes,
	struct txn_actions *out);
/* true: taken. false: doesn't apply in this step (late, stale, a host out of turn); nothing changes, `out` is
 * empty. */
bool txn_step(struct txn *t, const struct txn_policy *p, const struct txn_event *ev, struct txn_actions *out);
bool txn_active(const struct txn *t); /* neither TXN_IDLE nor TXN_DONE */
/* true: CANCEL comes too late, the candidate will be current if the host lives (COMMIT was sent) */
bool txn_committing(const struct txn *t);

/* ---- take-over: a new control finds a sandbox that may have been in a reload ---- */

struct txn_found {
	bool alive;
	enum host_phase phase;    /* of STATUS */
	uint64_t host_serial;     /* STATUS: running */
	uint64_t host_candidate;  /* STATUS: candidate, 0 none */
	uint64_t current_serial;  /* recorded in the spec: running */
	uint64_t recorded_serial; /* recorded in the spec: candidate, 0 none */
	bool has_state;           /* the spawner keeps a state */
};
enum txn_take_over {
	TXN_TAKE_NOTHING,  /* no trace of a reload */
	TXN_TAKE_COMPLETE, /* the host has committed: ADOPT, DROP_STATE; and ABORT if its phase isn't SERVING
			    */
	TXN_TAKE_UNDO,     /* ABORT, UNRECORD, DROP_STATE, UNPLACE: the old version serves on. Phase LOADED:
			      ABORTED must come, or KILL and RECOVER */
	TXN_TAKE_RECOVER,  /* it died, the state is kept: UNRECORD, the old version starts from it (life_adopt
			      does that by has_state) */
	TXN_TAKE_KILL, /* what it says can't be true: kill it; an ordinary crash, or RECOVER if has_state */
	TXN_TAKE__N
};
enum txn_take_over txn_take_over(const struct txn_found *f);

const char *txn_step_text(enum txn_step s); /* "quiesce" */
const char *txn_event_text(enum txn_event_type e);
const char *txn_failure_text(enum txn_failure f); /* "timeout" */
const char *txn_outcome_text(enum txn_outcome o); /* "nothing_changed" */

#endif
