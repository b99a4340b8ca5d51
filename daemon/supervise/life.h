/* SPDX-License-Identifier: MIT
 *
 * The life of one sandbox: which state it is in, when its process is started, asked, killed, started again.
 * Pure: events in, actions out, time is an argument. life_step, life_adopt and life_boot alone write `state` (move_to). Control
 * process.
 *
 * Rules that hold always (tests/unit/test_life.c explores them):
 * - one process at a time: BEGIN_START only after EXITED or BEGIN_FAILED of the one before;
 * - one request at a time: one that overrides another (table in life.c) answers that one `cancelled` at once
 * and takes its place; each request that was TAKEN gets exactly one ANSWER, in this step or a later one
 * (RESET: none, TAKEN is its answer);
 * - a start that is too slow is killed, and only EXITED makes it a failed start;
 * - requests are never counted; restarts by policy and retries of failed ones are (budget.h);
 * - the budget's window stands still while it is on its way up or down (starting, backoff, stopping), where the policy says so
 * (window_stands): what it takes to start isn't time that it has been well for;
 * - a first start (create) and a requested start or restart that fails is final: `failed`, or GONE for
 * create;
 * - `kept`: the spawner holds a state that is exactly what the sandbox would have now. So the engine carries
 * out DROP_STATE before it lets the first call go to the process. A start without a wish begins from the kept
 * state, if there is one, else fresh;
 * - `checkpoint`: the spawner holds, in another place, an older state: the newest checkpoint, or the one that the running process itself
 * began with. A restart by policy begins from it where the policy says so (from_checkpoint: TAKE_CHECKPOINT makes it the kept one), and so
 * does the start after a stop whose save failed. A state from which two starts by policy have failed is set aside (SET_ASIDE), and the next
 * start is from the checkpoint, if that is another one, or the one before it, where the engine has one (has_older: TAKE_OLDER), else fresh;
 * - frozen: no process of it runs. What it was asked to do waits; a stop, a restart or a destroy thaws it first.
 *
 * With a transaction (daemon/reload/transaction.h) at work, life hears of it when it is FINISHED. The host
 * lives: RELOAD_END, SAVE_DONE or SAVE_FAILED. The host has died (the transaction is given its exit first):
 * RELOAD_DIED_SEALED if it said RECOVER; SAVE_DONE and then EXITED for a save that ended well; else EXITED
 * alone. An event that comes up while actions are carried out waits until all of them are carried out.
 * tests/unit/test_life_transaction.c has the smallest engine that keeps these rules. */
#ifndef SANDBOXD_LIFE_H
#define SANDBOXD_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/supervise/budget.h"

/* What users see (FEATURES A9). life_state_text() has the names. */
enum life_state {
	LIFE_INITIALIZING,
	LIFE_COMPILING,
	LIFE_STARTING,
	LIFE_RUNNING,
	LIFE_RELOADING,
	LIFE_FROZEN,
	LIFE_STOPPING,
	LIFE_STOPPED,
	LIFE_BACKOFF,
	LIFE_FAILED,
	LIFE__N
};

enum life_restart { LIFE_PERMANENT, LIFE_TRANSIENT, LIFE_TEMPORARY, LIFE_RESTART__N };

struct life_policy {
	enum life_restart restart;
	struct budget_policy budget;
	uint32_t start_timeout_ms; /* BEGIN_START to READY */
	uint32_t save_ms; /* the save before a stop, and the end of a reload that a stop cancels; its own part
			   */
	uint32_t shutdown_ms; /* ASK_STOP to EXITED; 0: ask, then kill at once */
	bool from_checkpoint; /* a restart by policy begins from the newest checkpoint, not fresh */
};

/* How a process ended. NORMAL and SHUTDOWN are clean; the others are abnormal. */
enum life_exit {
	LIFE_EXIT_NORMAL,   /* status 0, unasked */
	LIFE_EXIT_SHUTDOWN, /* status 0 after STOP was sent */
	LIFE_EXIT_ERROR,    /* any other status or signal */
	LIFE_EXIT_KILLED,   /* SIGKILL by us (KILL was carried out) */
	LIFE_EXIT__N
};

/* Why it isn't running, and what an answer says. */
enum life_reason {
	LIFE_REASON_NONE,
	LIFE_REASON_BEGIN_FAILED, /* no process: objects not placed, spawner said no */
	LIFE_REASON_HOST_FAILED,  /* the host said why (FAILED) and ended */
	LIFE_REASON_EXITED_EARLY, /* ended before ready and said nothing */
	LIFE_REASON_START_TIMEOUT,
	LIFE_REASON_CRASHED,     /* ended abnormally, and the policy doesn't restart it */
	LIFE_REASON_GAVE_UP,     /* budget used up; life.gave_up_reason is the last restart's cause */
	LIFE_REASON_CANCELLED,   /* a later request took this one's place */
	LIFE_REASON_SAVE_FAILED, /* RESTART {keep_state}: not saved, so not restarted: it runs on, nothing
				    changed */
	LIFE_REASON__N
};

enum life_event_type {
	/* ---- requests: TAKEN (then one ANSWER) or REFUSED (wrong_state) ---- */
	LIFE_CREATE_START, /* the first start; from initializing or compiling */
	LIFE_START,        /* keep_state: from the kept state if there is one; else it is dropped */
	LIFE_STOP,         /* keep_state: save first */
	LIFE_RESTART,      /* keep_state as both; from stopped, failed or backoff it is a START */
	LIFE_DESTROY,      /* orderly stop without a save, then GONE */
	LIFE_RESET,        /* budget and back-off are as new; failed -> stopped. No ANSWER */
	LIFE_FREEZE,       /* running -> frozen. No ANSWER: the engine tells when the spawner has done it */
	LIFE_THAW,         /* frozen -> running. Likewise */
	LIFE_RELOAD_BEGIN, /* the engine starts a transaction. No ANSWER: the transaction has its own */
	LIFE_HURRY, /* the daemon was asked to end twice: whatever is stopping is killed now. No ANSWER */
	/* ---- facts: TAKEN, or IGNORED when they don't apply (late, stale) ---- */
	LIFE_COMPILE_BEGIN,
	LIFE_COMPILE_END,
	LIFE_BORN,         /* the spawner's STARTED: there is a process that can be killed */
	LIFE_BEGIN_FAILED, /* instead of BORN. In initializing or compiling: create failed before its start ->
			      GONE, no ANSWER */
	LIFE_READY,
	LIFE_HOST_FAILED, /* FAILED of the host; its exit follows */
	LIFE_FOUND_EMPTY, /* after a take-over: the host's STATUS says that it never got START: killed,
			     started again, not counted */
	LIFE_EXITED,      /* exit; in starting also: a failed start */
	LIFE_SAVE_DONE,   /* the save asked by ASK_SAVE is kept by the spawner */
	LIFE_SAVE_FAILED,
	LIFE_RELOAD_END,         /* well or not: a version serves, in this process */
	LIFE_RELOAD_DIED_SEALED, /* exit; the process has ended, after its state was sealed (and is kept):
				    started from it, not counted */
	LIFE_CHECKPOINTED,       /* the spawner holds a new checkpoint, in place of one before */
	LIFE_TIMER,              /* the one timer that SET_TIMER armed */
	LIFE_EVENT__N
};

struct life_event {
	enum life_event_type type;
	int64_t now_ms;      /* monotonic */
	bool keep_state;     /* START, STOP, RESTART */
	bool by_daemon;      /* nobody asked: explain says nothing of the request */
	uint32_t random;     /* any number; the back-off's jitter is made of it */
	enum life_exit exit; /* EXITED, RELOAD_DIED_SEALED */
	bool has_older;      /* the engine has a state older than the kept one, which a start may begin from */
	bool hopeless;       /* BEGIN_FAILED: another try would end likewise, so it is `failed` at once */
	bool mirrored;       /* READY: what the process saves before each reply is the checkpoint, and is with the spawner already */
	bool unbegun;        /* HOST_FAILED: before it was told what to load, so that it isn't the kept state's fault */
};

enum life_result { LIFE_TAKEN, LIFE_REFUSED, LIFE_IGNORED };

/* Bits of life_actions.set; carried out in this order. */
#define LIFE_DO_CLEAR_TIMER  0x0001u
#define LIFE_DO_DROP_STATE   0x0002u /* the spawner forgets the kept state */
#define LIFE_DO_CANCEL_TXN   0x0004u /* CANCEL to the transaction at work; its end is told as above */
#define LIFE_DO_ASK_SAVE     0x0008u /* begin a TXN_SAVE_ONLY transaction -> SAVE_DONE | SAVE_FAILED */
#define LIFE_DO_ASK_STOP     0x0010u /* HOST_STOP and the attention signal */
#define LIFE_DO_KILL         0x0020u /* .kill_why; -> EXITED */
#define LIFE_DO_BEGIN_START  0x0040u /* .from; place objects, SPAWNER_START -> BORN | BEGIN_FAILED */
#define LIFE_DO_SET_TIMER    0x0080u /* .timer_ms; replaces one that runs */
#define LIFE_DO_NOTE_STARTED 0x0100u /* notes are for events and logs only */
#define LIFE_DO_NOTE_CRASHED                                                                                 \
	0x0200u                      /* ended by itself, abnormally, or a start by policy failed (.reason)   \
				      */
#define LIFE_DO_NOTE_RESTART 0x0400u /* a counted restart follows, after .delay_ms */
#define LIFE_DO_NOTE_GAVE_UP 0x0800u
#define LIFE_DO_ANSWER       0x1000u /* .request, .ok, .reason, .state_kept (STOP), .from (START, RESTART) */
#define LIFE_DO_THAW         0x4000u /* before all others: the spawner lets its processes go on */
#define LIFE_DO_FREEZE       0x8000u /* the spawner stops every process of it */
#define LIFE_DO_SET_ASIDE    0x10000u /* with DROP_STATE: the state dropped is one that starts failed from */
#define LIFE_DO_TAKE_OLDER   0x20000u /* with SET_ASIDE, behind DROP_STATE: the state before it is the kept one now */
#define LIFE_DO_SET_CHECKPOINT  0x40000u /* what was kept is the checkpoint now, in place of one before */
#define LIFE_DO_TAKE_CHECKPOINT 0x80000u /* behind DROP_STATE: the checkpoint is what is kept now */
#define LIFE_DO_DROP_CHECKPOINT 0x100000u /* the spawner forgets it */
#define LIFE_DO__ALL         0x1fffffu
#define LIFE_DO_GONE         0x2000u /* no process, nothing wanted: FORGET it. The last action of a life */

enum life_from {
	LIFE_FROM_FRESH,
	LIFE_FROM_KEPT,
	LIFE_FROM_SEALED
}; /* SEALED: the kept state is a cut reload's */
enum life_kill {
	LIFE_KILL_NONE,
	LIFE_KILL_START_TIMEOUT,
	LIFE_KILL_SHUTDOWN_DEADLINE,
	LIFE_KILL_CANCELLED /* a start that a stop
cancels */
	,
	LIFE_KILL_DESTROY,
	LIFE_KILL_HURRY,
	LIFE_KILL_TAKE_OVER,
	LIFE_KILL__N
};
enum life_request {
	LIFE_NO_REQUEST,
	LIFE_REQUEST_CREATE,
	LIFE_REQUEST_START,
	LIFE_REQUEST_STOP,
	LIFE_REQUEST_RESTART,
	LIFE_REQUEST_DESTROY,
	LIFE_REQUEST__N
};

struct life_actions {
	uint32_t set;
	enum life_from from;
	enum life_kill kill_why;
	enum life_request request;
	enum life_reason reason;
	bool ok, state_kept;
	uint32_t timer_ms, delay_ms, jitter_ms; /* delay_ms contains jitter_ms */
};

/* Plain fields; struct life as a whole may be copied into the spec and given to life_adopt. Read freely,
 * write never. */
struct life {
	enum life_state state;
	uint8_t stage;                   /* life.c's own, part of the state */
	uint8_t process;                 /* enum life_process */
	uint8_t gone, kept, kept_sealed; /* these and the next are booleans; uint8_t, since they may come from
					    a spec's bytes */
	uint8_t keep_wanted;             /* of the stop at work */
	uint8_t after_start;             /* what follows the stop at work: a start (RESTART) */
	uint8_t after_gone;              /* or GONE (DESTROY, a create that was cut) */
	uint8_t creating;                /* not ready yet for the first time */
	uint8_t free_retry;              /* the end of this process is nobody's fault; a take-over keeps it */
	uint8_t checkpoint;              /* a boolean too */
	uint8_t restore_tries;           /* starts by policy in a row that failed from the present state */
	enum life_from from;             /* what the newest start began with */
	enum life_request pending;
	enum life_reason reason; /* why failed; while starting: what is known already */
	enum life_reason gave_up_reason;
	enum life_kill killed; /* KILL was sent to the present process */
	enum life_exit last_exit;
	uint32_t restarts;   /* counted, since creation */
	int64_t ready_ms;    /* of the present or the last process; 0: was not ready */
	int64_t timer_at_ms; /* when the timer is due; 0: not armed */
	struct budget budget;
};

enum life_process { LIFE_PROCESS_NONE, LIFE_PROCESS_BEGUN, LIFE_PROCESS_ALIVE };

/* What a new control finds for one sandbox in the spawner's table and in the host's STATUS. */
enum life_found {
	LIFE_FOUND_NONE,        /* no process, no exit that isn't acknowledged */
	LIFE_FOUND_EXITED,      /* .exit */
	LIFE_FOUND_SILENT,      /* alive, no STATUS yet: busy in a handler, or in `init` */
	LIFE_FOUND_NOT_STARTED, /* STATUS: phase EMPTY */
	LIFE_FOUND_SERVING,
	LIFE_FOUND_IN_RELOAD, /* STATUS: quiesced or loaded; txn_take_over() says what to do; then RELOAD_END
			       */
	LIFE_FOUND__N
};

struct life_finding {
	enum life_found found;
	enum life_exit exit;
	bool has_state;     /* the spawner keeps a state */
	bool has_checkpoint; /* and a checkpoint */
	bool mirrored, has_older; /* as in an event */
	bool frozen;        /* its processes are stopped by the spawner */
	uint32_t random;    /* as in an event */
	int64_t started_ms; /* of the process */
};

struct life_policy life_policy_default(void);
void life_init(struct life *l); /* initializing */
/* The only way to change a life. `out` is always filled. */
enum life_result life_step(
	struct life *l, const struct life_policy *p, const struct life_event *ev, struct life_actions *out);
/* After a restart of control: *l is what the spec says (any bytes), on return what it is now, with the
 * actions that follow. No request is pending afterwards. A life whose create was cut off ends (GONE, after a
 * KILL where a process lives), and is `creating` until then. So that no exit is missed or counted twice, the
 * spec is kept before SPAWNER_ACK_EXIT; so that one that was ordered is not taken for a crash, before a KILL. A
 * STATUS that comes later for a SILENT host: SERVING is READY or RELOAD_END, EMPTY is FOUND_EMPTY, QUIESCED or
 * LOADED is RELOAD_BEGIN; each may be IGNORED. */
void life_adopt(struct life *l, const struct life_policy *p, const struct life_finding *found, int64_t now_ms,
	struct life_actions *out);

/* After a restart of the machine: *l is what the registry's spec says (any bytes). wanted: it is to be up again, from the saved state if
 * there is one; after delay_ms, so that many don't start at once. Not counted. Else it is down as it was. */
void life_boot(struct life *l, const struct life_policy *p, bool wanted, bool has_state, uint32_t delay_ms, int64_t now_ms,
	struct life_actions *out);

/* The one table of OTP.md section 12: asked: STOP was sent to it; killed: KILL was carried out. */
enum life_exit life_exit_class(int wait_status, bool asked, bool killed);
bool life_exit_is_clean(enum life_exit e);
bool life_takes_calls(const struct life *l); /* running, or on its way there (a create as well): queue; else wrong_state */

const char *life_state_text(enum life_state s);     /* "running" */
const char *life_restart_text(enum life_restart r); /* "permanent" */
const char *life_exit_text(enum life_exit e);       /* "normal" */
const char *life_reason_text(enum life_reason r);   /* "start_timeout" */
const char *life_kill_text(enum life_kill k);       /* "shutdown_deadline" */
const char *life_request_text(enum life_request r); /* "start" */
const char *life_event_text(enum life_event_type t);

#endif
