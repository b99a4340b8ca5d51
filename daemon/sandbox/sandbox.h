/* SPDX-License-Identifier: MIT
 *
 * One sandbox as control sees it. The rooms that act on it, one file each:
 *   sandbox.c   the object: birth, death, who may still call back
 *   spec.c      what was asked for, and the sealed spec that the spawner keeps
 *   life.c      (daemon/supervise) decides; sandbox_life.c carries the decisions out
 *   start.c     places the object, asks for a process, speaks the first words to it
 *   candidate.c a second process, of a reload's candidate: from its start to its promotion, and the end of the one before
 *   rung.c      chooses how a reload is carried out
 *   exit.c      a process has ended: what it was, who is told
 *   talk.c      what a host says, calls and casts
 *   waits.c     requests that wait for a state
 *   transaction.c (daemon/reload) decides; sandbox_txn.c carries a reload or a save out
 *   probation.c (daemon/reload) decides; sandbox_probation.c holds what a new version may have to give way to
 *   take_over.c a new control finds it in the spawner's table
 *   durable.c   what of it is on disk; answers wait for that
 *   owned.c     what it counts in its owner's totals; owners.c has these
 *   freeze.c    its processes are stopped and go on
 *   checkpoint.c  its state is saved while it runs
 *   watch.c     the heartbeat
 *   sampler.c   what it uses, against its limits
 *   overdue.c   the longest that a call may run
 *   explain.c   the decision log
 *   look.c      its state and schema for people
 *   history.c   what each version has done, and the states that they were left with
 *   updated.c   when it was last changed
 *   update.c    what was asked for is changed
 *   restore.c   it comes back after a restart of the machine
 *   info.c      shows it
 * Loop thread only. */
#ifndef SANDBOXD_SANDBOX_H
#define SANDBOXD_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>
#include <uv.h>

#include "daemon/sandbox/calls.h"
#include "daemon/sandbox/checkpoint.h"
#include "daemon/sandbox/code.h"
#include "daemon/sandbox/durable.h"
#include "daemon/sandbox/left_states.h"
#include "daemon/sandbox/owned.h"
#include "daemon/sandbox/sampler.h"
#include "daemon/control/control.h"
#include "daemon/sandbox/host_link.h"
#include "daemon/front/rpc.h"
#include "daemon/observe/logs.h"
#include "daemon/reload/probation.h"
#include "daemon/reload/transaction.h"
#include "daemon/reload/versions.h"
#include "daemon/supervise/decision.h"
#include "daemon/supervise/life.h"
#include "proto/profile.h"

#define PROFILE_BYTES (LIMIT_PROFILE_NAME_BYTES + 1)

struct usage;

struct spec {
	char id[LIMIT_ID_BYTES + 1];
	uid_t owner;
	int64_t created_at_ms;           /* wall clock */
	struct life_policy policy;
	struct host_limits limits;       /* 0: default */
	uint32_t max_queue;
	uint32_t heartbeat_ms;           /* 0: nobody watches */
	uint32_t max_execution_ms;       /* of a call; 0: without end */
	char group[LIMIT_ID_BYTES + 1];  /* "": on its own */
	bool significant;                /* in its group */
	int64_t joined_at_ms;            /* unique: the order in its group */
	char profile[PROFILE_BYTES];
	bool own_audit;                  /* audit was asked for; else it is the profile's */
	enum policy_audit audit;
	bool strict;
	bool fresh_space;                /* its processes share their layout with no other sandbox's */
	uint32_t probation_ms;           /* of a new version; 0: none */
	uint32_t keep_versions;
	uint32_t checkpoint_every_ms;    /* 0: only when asked */
	bool checkpoint_call;            /* before each reply (mirror) */
	bool persist;                    /* over a restart of the machine; false: no disk is touched */
	char *config, *labels;           /* JSON objects, owned */
};

/* How the last process ended, as `info` shows it. */
struct last_exit {
	bool happened;
	int64_t at_ms;                   /* wall clock */
	int64_t uptime_ms;
	enum life_exit exit;
	int wait_status;
	uint32_t version;
	uint64_t generation;
	uint64_t calls_done;             /* calls.done when it began; not kept */
	char reason[64];                 /* "signal SIGSEGV", "exit status 3", "start_timeout", ... */
	char text[192];                  /* from the death note, or why we ended it */
	char words[LIMIT_LAST_WORDS_BYTES]; /* last output */
	struct begun_from next;          /* what the start that followed began with */
};

/* Who decides when a sandbox in a group is started and stopped (daemon/group). */
struct sandbox_keeper {
	void (*changed)(struct sandbox *sb, enum life_state before); /* from inside a step of its life: only notes it */
	void (*gone)(struct sandbox *sb);
	bool (*waits)(const struct sandbox *sb, int64_t *ret_due_ms); /* it is down, and will be started; due 0: soon */
	bool (*budget)(const struct sandbox *sb, struct budget_view *ret, uint32_t *ret_period_ms); /* that its restarts are counted in; false: it has none now */
	bool (*undecided)(const struct sandbox *sb); /* it is down, and the group hasn't said what follows; sandbox_status_changed will be called */
};

/* A host process and control's link to it; outlives its sandbox's interest until its handles are closed. */
struct host {
	struct host_link link;           /* first: the link's owner is found by it */
	struct sandbox *sandbox;         /* NULL: abandoned */
	int32_t pid;                     /* 0: its zygote has not said it yet */
	int64_t started_ms;              /* monotonic */
	int64_t started_at_ms;           /* wall clock */
	uint64_t serial;                 /* what it was told to load */
	uint64_t calls_done;             /* calls.done when it was ready, or was taken over */
	bool asked, killed;              /* HOST_STOP sent; KILL carried out for the life */
	bool reported, ready;
	bool ready_waits;                /* for its pid */
	bool told;                       /* what to load */
	bool staged;                     /* a candidate's: it has loaded it, and its pid is to come */
	bool found;                      /* taken over: no STATUS yet */
	bool adopted;                    /* and the life has been told of it without one */
	bool frozen;                     /* when it was taken over */
	bool undoing;                    /* taken over in a reload: ABORT was sent */
	unsigned old_casts;              /* taken over: so many casts of earlier clients may still tell that they failed */
	char leaf[LIMIT_ID_BYTES + 33];  /* of its cgroup, in begin.cgroup_dir; "": none */
	uint32_t build;                  /* of the program that it runs; control->begin.host_build: the one of new ones too */
	bool is_older;                   /* it isn't, and counts in control->older_hosts */
	char denied[96];                 /* the system call that it was killed for; "" */
	char kill_text[96];              /* why control killed it outside the life's rules; "" */
	char kill_reason[16];            /* its word for last_exit; "": killed */
	unsigned old_replies;            /* to calls of an earlier control */
	struct host_death *death;        /* its note; NULL: none came */
	bool exited;                     /* EXITED is being handled */
	bool draining;                   /* a candidate's: what it has left is being read */
	uint32_t n_pinned;               /* objects that it couldn't unload, as far as this control knows */
	char pinned_why[81];             /* the newest */
	uint64_t usage_cpu_us;           /* when `usage` was last asked, and when that was; 0: its start */
	int64_t usage_at_us;
};

/* How a reload is carried out: in the process that runs, or by a second one that follows it. */
enum rung { RUNG_IN_PLACE, RUNG_REPLACE };

/* One reload or rollback at work, from its request to its answer. */
struct reload {
	bool active;                     /* the request is taken: compiling, checking or in transaction */
	struct rpc_request *request;
	struct code *code;               /* owned; NULL: none was asked for */
	bool is_rollback, is_check, backwards;
	bool force;                      /* also what is quarantined */
	enum rung rung;
	bool rung_asked;                 /* by the request: it isn't changed */
	char rung_reason[96];
	const char *security;            /* REPORT of the candidate's process, shared_text */
	char *patch;                     /* state.set: a JSON object, owned; NULL: none */
	bool from_saved;                 /* the candidate takes left.fd's state instead of the present one */
	struct left_state left;          /* its fd is owned */
	uint32_t number;                 /* of the candidate, if it is in the history; 0 */
	uint32_t from, to_hint;          /* to_hint: rollback's target */
	unsigned calls_queued, calls_running; /* waiting and unanswered when the hold began; queued counts those that came later too */
	int64_t began_us, step_us;       /* monotonic */
	int64_t hold_us, idle_us;        /* new calls are held since; the host has nothing to do since */
	int64_t held_us, pause_us;       /* how long: what callers may see beyond the calls before theirs, and what the reload itself took */
	int64_t took_us[TXN_STEP__N];
	uint64_t state_bytes;
	char *report, *pinned;           /* JSON from the host, owned */
	const char *module;              /* the same, shared_text */
};

/* The current version on probation. */
struct trial {
	struct probation probation;
	int state_fd;                    /* the state saved at its commit; -1 */
	uint64_t state_bytes;
	uint64_t calls_done;             /* calls.done at the commit */
	int64_t until_ms;                /* monotonic */
	uv_timer_t timer;
};

/* When what was asked for, its versions or what is wanted last changed, and what that was then. */
struct updated {
	int64_t at_ms;                   /* wall clock */
	uint32_t version, n_versions;
	bool wanted, significant;
	char group[LIMIT_ID_BYTES + 1];
};

/* Errors that a sandbox remembers for later. Large, and most never have one: each is made at its first use. */
enum sandbox_error {
	SANDBOX_ERROR_PLACE,             /* of the start at work: its object couldn't be placed */
	SANDBOX_ERROR_START,             /* why the start at work failed */
	SANDBOX_ERROR_RELOAD,            /* what the failing step of the reload at work said */
	SANDBOX_ERROR_DISK,              /* why the newest write that has ended did not go well */
	SANDBOX_ERROR_GONE,              /* what those hear who ask, or wait, when it is gone */
	SANDBOX_ERROR__N
};

struct sandbox {
	unsigned magic;
	unsigned pending;                /* operations that will call back with this pointer */
	struct control *control;
	struct spec spec;
	struct life life;
	enum life_state told;            /* its status, as it was last told to people */
	struct life_event facts[8];      /* that came up while the life's actions were being carried out */
	unsigned n_facts;
	bool applying;
	struct versions versions;
	struct version candidate;        /* of the first start, or of the reload at work */
	bool has_candidate;
	uint64_t candidate_serial;
	uint64_t serial, last_serial;    /* of the object running; the highest ever used */
	struct host *host;               /* NULL: no process */
	struct host *next;               /* of the candidate of a reload that replaces, until it is promoted or discarded; NULL */
	struct host *before;             /* what was replaced, until it has ended; NULL */
	bool second_folder;              /* where its objects lie (spawner_wire.h) */
	bool spec_due;                   /* it has changed while PROMOTE, which brings one, was on its way */
	bool promoted;                   /* the spec of a PROMOTE, found by a take-over that follows it at once */
	struct calls calls;
	bool calls_held;
	struct txn txn;
	struct txn_policy txn_policy;
	struct txn_event txn_events[8];  /* facts found while actions are carried out */
	unsigned n_txn_events;
	bool txn_stepping, txn_recovered;
	struct reload reload;
	struct trial trial;
	struct left_states left;         /* what its versions were left with */
	struct {
		uint64_t done, refused;  /* of calls: up to here they are in the figures of versions */
		int64_t since_ms;        /* monotonic: a process serves, and its time up to here is; 0: none does */
	} account;
	int state_fd;                    /* the state being made or kept; -1 */
	uint64_t state_bytes;
	char state_from[32];             /* what the running process began with: "fresh", "kept", "checkpoint", "reload" */
	struct rpc_request *request;     /* of the life's pending request */
	struct code *create_code;        /* while a create compiles and checks */
	struct blob *create_object;      /* until it is durable */
	struct on_disk disk;
	struct checkpoint checkpoint;
	struct {
		bool is_in;              /* in the registry */
		struct owner_share counted; /* of its owner's totals: owned_update alone writes it */
	} owned;
	char *create_warnings;
	bool put_pending, put_failed;
	bool hold_due;                   /* the spawner doesn't hold it: the next START asks for that too */
	bool place_due, place_state;     /* the object, when START is answered; and a kept state first */
	bool start_pending;              /* START was sent and not answered */
	unsigned placing;                /* jobs that write into its folder, by name: its id is free for another owner when there are none */
	bool forget_due;                 /* FORGET waits for them */
	char placed_sha256[SHA256_HEX_BYTES + 1]; /* of the file that is kept for the next start; "": none, or a job is replacing it */
	uint64_t keeping_serial;         /* of the last placement that keeps its file */
	uint64_t placed_serial;          /* the object of this serial lies where its host finds it */
	struct err *errors[SANDBOX_ERROR__N]; /* sandbox_error */
	char failure_step[LIMIT_ID_BYTES + 1]; /* the stage of the start that failed; "": not known */
	const char *module, *security;   /* JSON from READY and REPORT, shared_text; NULL: not known */
	struct last_exit last_exit;
	struct sandbox_log *log;
	struct log_writer *log_writer;   /* NULL: the log is in memory only */
	int ring_kept;                   /* the ring that the spawner holds; -1 */
	struct wait *waits;              /* requests that wait for a state (waits.h) */
	struct decisions decisions;      /* explain.c */
	const struct sandbox_keeper *keeper; /* its group; NULL: on its own */
	void *member;                    /* the keeper's */
	struct life_policy as_member;    /* sandbox_policy: in a group its own restarts are off */
	bool resting;                    /* in a group: down by a request, or finished; so over a restart of the daemon */
	bool keep_at_stop;               /* the stop that was asked for keeps the state */
	bool member_ready;               /* the group was told that it runs */
	uint32_t group_restarts;         /* counted by its group */
	uint32_t asked_restarts;         /* requested ones: in no budget */
	struct updated updated;          /* updated.c */
	struct update *update;           /* at work; NULL: none is */
	uint32_t next_start;             /* members that were changed and that its process doesn't have: bits of update.c */
	struct {
		struct budget budget;    /* those of them that are in its group's window, or were; the streak */
		int64_t due_ms;          /* it waits for its restart until then; 0: it doesn't */
		bool found;              /* of an earlier control, and its group hasn't started it yet */
	} counted;
	struct {
		struct rpc_request *request; /* NULL: nobody asks for its state */
		uint64_t number;             /* epoch << 32 | asked: an answer to an earlier control is no answer */
		uint32_t asked;
		enum show_what what;
		uint32_t version;
	} look;
	bool frozen_by_cgroup;           /* else by signals */
	struct rpc_request *freeze_request; /* a freeze or thaw that the spawner carries out */
	struct {
		uv_timer_t timer;
		bool asked, late;        /* a ping is out; its time is over once */
		uint64_t number;
		int64_t since_ms;        /* monotonic: the ping, or what was heard since */
	} watch;
	struct {
		uv_timer_t timer;
		uint64_t number;         /* of the call that runs; 0: none */
		enum overdue_stage { OVERDUE_NOT, OVERDUE_LATE, OVERDUE_TOLD } stage;
		int64_t since_ms, told_ms; /* monotonic */
		int64_t stood_ms;        /* its time stands still since then; 0: it runs */
	} overdue;
	struct sample sample;            /* sampler.c */
	uv_timer_t life_timer, txn_timer, call_timer;
	unsigned open_handles;
	bool gone;                       /* out of the registry */
	bool booting;                    /* the registry's row is held by the spawner, and no life of it has begun yet (sandbox_boot) */
	bool not_held;                   /* the spawner could not take it when it came back from the registry: HOLD is still to come (sandbox_start) */
	bool keep_history;               /* the destroy that was asked for keeps its history of versions */
	bool forgetting, was_gone;       /* being removed from everywhere; an earlier control had begun that */
	struct rpc_request *gone_request; /* answered when nothing is left */
	bool gone_ok;
	UT_hash_handle hh;
};

/* ---- sandbox.c ---- */
struct sandbox *sandbox_new(struct control *c, struct spec *spec_take, struct err *e);  /* in no registry yet; state initializing */
void sandbox_discard(struct sandbox *sb);   /* one that came into no registry */
/* To write one; without memory all share one place, and the newest says what is wrong. */
struct err *sandbox_error(struct sandbox *sb, enum sandbox_error which);
const struct err *sandbox_error_told(const struct sandbox *sb, enum sandbox_error which); /* ERR_OK: none */
void sandbox_error_none(struct sandbox *sb, enum sandbox_error which);
void sandbox_hold(struct sandbox *sb);      /* one more callback will come */
void sandbox_release(struct sandbox *sb);   /* it has come; frees a sandbox that is gone when it was the last */
void sandbox_gone(struct sandbox *sb);      /* LIFE_DO_GONE: FORGET, leave the registry, free when all is closed */
void sandbox_forget(struct sandbox *sb);    /* the FORGET of one that is gone, once no job writes into its folder: when the last has ended */
struct sandbox *sandbox_of(void *data);     /* a handle's data, checked */
void sandbox_path(const struct sandbox *sb, uint64_t serial, char to[LIMIT_PATH_BYTES + 1]); /* in that folder */
void sandbox_next_path(const struct sandbox *sb, uint64_t serial, char to[LIMIT_PATH_BYTES + 1]); /* in that of a candidate's process */
void sandbox_object_name(uint64_t serial, char to[LIMIT_ID_BYTES + 1]); /* serial.so: what its host calls it */
void sandbox_folder(const struct sandbox *sb, char to[LIMIT_PATH_BYTES + 1]);                /* of its process's objects */
const struct version *sandbox_running_version(const struct sandbox *sb); /* NULL before the first start */

/* ---- log.c ---- */
void sandbox_log_keep(struct sandbox *sb, bool is_fresh); /* from here on its log goes to files too; is_fresh: just created */
void sandbox_log_close(struct sandbox *sb);               /* what is there is written */
void sandbox_log_remove(struct sandbox *sb);              /* with its files */
void sandbox_logs_begin(struct control *c);               /* of all that are in the registry; files of others go */

/* ---- spec.c ---- */
int spec_from_request(struct spec *s, const struct control *c, const struct rpc_request *r, struct err *e);
/* A profile that is there, and that whoever asks may have, with the audit level that stands in the spec. */
int spec_profile_set(struct spec *s, const char *name, const struct rpc_request *r, struct err *e);
enum policy_audit spec_audit(const struct spec *s); /* what of it is recorded in the audit trail */
int spec_check_object(const struct spec *s, size_t bytes, struct err *e); /* may its profile have a module of that size? */
int spec_check_profile(const struct spec *s, struct err *e);              /* is its profile there? Else what to do */
void spec_fini(struct spec *s);
/* The members of `limits`; 1u << one of them is its SPAWNER_LIMIT_ bit. */
enum spec_limit { SPEC_LIMIT_MEMORY, SPEC_LIMIT_FILE_SIZE, SPEC_LIMIT_PROCESSES, SPEC_LIMIT_OPEN_FILES, SPEC_LIMIT_CPU, SPEC_LIMIT__N };
const char *spec_limit_name(enum spec_limit which);
uint64_t spec_limit(const struct host_limits *l, enum spec_limit which); /* the default where none was given */
/* What stands in the object goes into *l, within the ceilings; the others stay. */
int spec_limits_read(struct host_limits *l, const struct control_begin *b, struct json_span object, struct err *e);
int spec_labels_check(struct json_span object, struct err *e);
enum life_restart spec_restart(const char *text);
/* The text that the spawner and the registry keep: everything a new control must know. WITH_CANDIDATE: a commit may follow. AS_COMMITTED: as
 * if it had. Allocated; NULL with err. */
enum spec_form { SPEC_PLAIN /* in a memfd WITH_CANDIDATE where one is recorded */, SPEC_WITH_CANDIDATE, SPEC_AS_COMMITTED, SPEC_PROMOTED /* with the candidate's process, too */ };
char *spec_text(const struct sandbox *sb, enum spec_form form, size_t *ret_size, struct err *e);
bool spec_as_written(const struct sandbox *sb, const char *json, size_t size); /* versions and time of the last change: as in this text? */
/* The sealed memfd that holds everything a new control must know; -1 with err. */
int spec_memfd(const struct sandbox *sb, enum spec_form form, struct err *e);
int spec_load(struct sandbox *sb, const char *json, size_t size, struct err *e);        /* into a sandbox_new'ed one */
bool spec_is_newer(const char *json, size_t size); /* a later format: nothing is wrong with it */
void sandbox_keep_spec(struct sandbox *sb); /* gives the spawner the present one; errors are logged */

/* ---- sandbox_life.c ---- */
const struct life_policy *sandbox_policy(struct sandbox *sb); /* what its life goes by */
/* A fact; `exit` only with EXITED and RELOAD_DIED_SEALED. */
void sandbox_fact(struct sandbox *sb, enum life_event_type type, enum life_exit exit);
/* What people are told: the life's state, and `backoff` while its group is going to start it. */
enum life_state sandbox_status(const struct sandbox *sb);
void sandbox_status_changed(struct sandbox *sb); /* it may have: tells it, unless the group hasn't decided yet */
bool sandbox_takes_calls(const struct sandbox *sb);
void sandbox_module_keep(const char **to, struct json_span body); /* the module as READY, STAGED and the like describe it */
uint32_t sandbox_module_state_version(const char *module);
void sandbox_report_keep(struct sandbox *sb, struct json_span body); /* of a reload's step: what became of the state */
bool sandbox_strict_accepts(struct json_span report, struct err *e); /* strict: every protection that was asked for is there */
/* A request; true: taken (r is answered now or later), false: refused, r is the caller's to answer. */
bool sandbox_request(struct sandbox *sb, enum life_event_type type, bool keep_state, struct rpc_request *r);
void sandbox_adopt(struct sandbox *sb, const struct life_finding *found); /* after a restart of control */
void sandbox_boot(struct sandbox *sb, bool wanted, uint32_t delay_ms);    /* after a restart of the machine */
void sandbox_counted_clear(struct sandbox *sb);                           /* its group begins to count anew */

/* ---- updated.c ---- */
void updated_note(struct sandbox *sb);      /* before it is kept or written: something may have changed */
void updated_save(const struct sandbox *sb, struct json_out *o);
void updated_load(struct sandbox *sb, struct json_span saved); /* the spec, once all else of it is loaded */

void updated_now(struct sandbox *sb);       /* what was asked for has changed */

/* ---- update.c ---- */
const struct rpc_done *sandbox_update(struct sandbox *sb, struct rpc_request *r);
void pending_json(const struct sandbox *sb, struct json_out *o, const char *key); /* names of what the next start brings */
void pending_save(const struct sandbox *sb, bool is_replaced, struct json_out *o); /* is_replaced: as pending_replaced leaves it */
void pending_replaced(struct sandbox *sb);  /* a second process, made by the spec as it is, has taken over */
void pending_load(struct sandbox *sb, struct json_span saved);

/* ---- explain.c ---- */
void explain_step(struct sandbox *sb, const struct life *before, const struct life_event *ev, const struct life_actions *a);
void explain_note(struct sandbox *sb, enum decision_kind kind, const char *what);
void explain_save(const struct sandbox *sb, struct json_out *o);
void explain_load(struct sandbox *sb, struct json_span saved);
const struct rpc_done *sandbox_explain(struct sandbox *sb, struct rpc_request *r);

/* ---- history.c ---- */
/* What the current version has done since the last time goes into its figures: to be called before another is current, and before they are shown. */
void sandbox_account(struct sandbox *sb);
void sandbox_account_exit(struct sandbox *sb); /* its process has ended (last_exit) */
/* At a commit, while state_fd is the sealed state that `version` was left with. */
void sandbox_left(struct sandbox *sb, uint32_t version);
/* destroyed_at_ms: what is kept of one that is destroyed; 0: it is there. */
void sandbox_version_list_json(const struct sandbox *sb, int64_t destroyed_at_ms, struct json_out *o, const char *key);
void sandbox_version_history_json(struct sandbox *sb, int64_t destroyed_at_ms, struct json_out *o, const char *key);
struct blob *sandbox_history_text(struct sandbox *sb, int64_t destroyed_at_ms, struct err *e); /* as histories.h has it; NULL with err */

/* ---- look.c ---- */
const struct rpc_done *look_get(struct sandbox *sb, struct rpc_request *r);
const struct rpc_done *look_check(struct sandbox *sb, struct rpc_request *r);
const struct rpc_done *look_schema(struct sandbox *sb, struct rpc_request *r);
void look_shown(struct sandbox *sb, const struct host_message *head, const char *body);
void look_ended(struct sandbox *sb, const char *how); /* its process has ended */

/* ---- freeze.c ---- */
void freeze_do(struct sandbox *sb);         /* LIFE_DO_FREEZE */
void thaw_do(struct sandbox *sb);           /* LIFE_DO_THAW */
const struct rpc_done *sandbox_freeze(struct sandbox *sb, struct rpc_request *r, bool freeze);
void freeze_fini(struct sandbox *sb);       /* it is gone: whoever waits is told */

/* ---- watch.c ---- */
void watch_init(struct sandbox *sb);
void watch_update(struct sandbox *sb);      /* its state or its host may have changed */
void watch_thawed(struct sandbox *sb);
void watch_heard(struct sandbox *sb, uint64_t answers); /* its host has sent something; answers: the number of a ping, or 0 */

/* ---- overdue.c ---- */
void overdue_init(struct sandbox *sb);
void overdue_update(struct sandbox *sb);    /* a call was sent or answered; its state or its host may have changed */
void overdue_changed(struct sandbox *sb);   /* max_execution_ms: holds for the call that runs too */

/* ---- start.c ---- */
void sandbox_start(struct sandbox *sb, enum life_from from);
void sandbox_tell_host(struct sandbox *sb); /* what to load, once all that has to come before has come */
void sandbox_create_failed(struct sandbox *sb, const struct err *e); /* before its life began: answered when nothing is left */
void sandbox_put_object(struct sandbox *sb);
void sandbox_denied(struct sandbox *sb, const struct spawner_message *m); /* a forbidden system call */
void sandbox_born(struct sandbox *sb, const struct spawner_message *m); /* its pid is known */
/* Places an object (NULL: the stored one of this hash) under a serial in a storage job; put: durable first. */
void sandbox_placed_drop(struct sandbox *sb); /* another version runs: what was kept for the next start goes, which may be large */
void host_send_begin(struct host *h);       /* its first message */
/* Its first module message: what to load, and what it is to make of the state. */
void host_send_start(struct host *h, uint64_t serial, bool backwards, const char *patch, int state_fd);
void sandbox_place(struct sandbox *sb, struct blob *object, const char *sha256, uint64_t serial, bool put,
	bool for_next, void (*placed)(struct sandbox *sb, uint64_t serial, const struct err *e));
struct host *host_new(struct sandbox *sb, uint64_t generation, int channel_fd, int stdout_fd, int stderr_fd, struct err *e);
void host_death_keep(struct host *h, const struct host_message *head, const char *body); /* its death note; what isn't one is dropped */
void host_process_set(struct host *h, const struct spawner_message *m); /* its cgroup and its program, from STARTED, BORN, ENTRY */
void host_disown(struct host *h);           /* nothing that it says counts any more; host_abandon is to follow */
void host_abandon(struct host *h);          /* that, and closes its link; frees itself */

/* ---- candidate.c ---- */
void candidate_spawn(struct sandbox *sb);
void candidate_stage(struct sandbox *sb);   /* it is there, and its object too */
void candidate_load(struct sandbox *sb);    /* the state is sealed */
void candidate_promote(struct sandbox *sb);
void candidate_discard(struct sandbox *sb);
void candidate_retire(struct sandbox *sb);  /* the process before is told to end */
void candidate_kill_old(struct sandbox *sb);
void candidate_born(struct sandbox *sb, const struct spawner_message *m);
void candidate_message(struct sandbox *sb, struct host *h, const struct host_message *head, const char *body); /* of it, or of the one before */
void candidate_broken(struct sandbox *sb, struct host *h, const char *why);
void candidate_exited(struct sandbox *sb, const struct spawner_message *m);
void candidate_fini(struct sandbox *sb);    /* the sandbox goes */

/* ---- rung.c ---- */
/* Before the transaction begins. -1: what was asked for can't be. */
int rung_choose(struct sandbox *sb, struct err *e);
bool rung_needs_room(struct sandbox *sb, uint64_t state_bytes); /* rehearsed: so much state doesn't fit here; then the rung is another */
const char *rung_text(enum rung rung);

/* ---- talk.c ---- */
extern const struct host_link_owner sandbox_host_owner;
void sandbox_ready(struct sandbox *sb);     /* host and object store are both ready */
void sandbox_pump(struct sandbox *sb);      /* sends the calls that may be sent */
int sandbox_call(struct sandbox *sb, struct rpc_request *r, struct err *e);
/* Tells it as the event call.failed: of calls.cast_failed. */
void sandbox_cast_failed(void *sb, const char *function, const struct err *e);
void sandbox_keep_ring(struct sandbox *sb); /* the log's ring, once there is one */
void sandbox_kill_host(struct sandbox *sb, const char *why); /* a violation: its end is a crash */
void error_from_host(struct err *e, char step[32], const struct host_message *head, const char *body, enum err_code otherwise);

/* ---- exit.c ---- */
void sandbox_exited(struct sandbox *sb, const struct spawner_message *m);
/* How it ended, in words, by its status, its notes and what we did to it: class, reason and text of *x, which has the rest. */
void exit_describe(struct last_exit *x, const struct host *h, const struct spawner_message *m, enum life_kill killed);
/* held: of host_link_drain. */
void exit_record(struct sandbox *sb, const struct spawner_message *m, unsigned held); /* fills last_exit and tells it; the life isn't told */
const char *exit_limit(const struct last_exit *x); /* the limit that it ended by; NULL: by none */
void last_exit_json(const struct sandbox *sb, struct json_out *o, const char *key);

/* ---- sandbox_txn.c ---- */
void sandbox_txn_begin(struct sandbox *sb, enum txn_mode mode);
void sandbox_txn_event(struct sandbox *sb, enum txn_event_type type, uint64_t bytes);
void sandbox_drop_state(struct sandbox *sb);
void reload_fini(struct reload *rl);

/* ---- sandbox_probation.c ---- */
void sandbox_probation_begin(struct sandbox *sb, uint32_t before, uint32_t ms, bool backwards); /* at a commit, while state_fd is its save */
void sandbox_probation_end(struct sandbox *sb, enum probation_event_type why);
/* A process that served has ended (last_exit): true when the version before comes back for it, which the life has been told. */
bool sandbox_probation_exited(struct sandbox *sb);
void sandbox_probation_json(const struct sandbox *sb, struct json_out *o, const char *key); /* null: none */
const struct rpc_done *sandbox_version_commit(struct sandbox *sb, struct rpc_request *r);

/* ---- reload_request.c ---- */
const struct rpc_done *sandbox_reload(struct sandbox *sb, struct rpc_request *r);
const struct rpc_done *sandbox_rollback(struct sandbox *sb, struct rpc_request *r);
const struct rpc_done *sandbox_state_set(struct sandbox *sb, struct rpc_request *r);
void reload_answer(struct sandbox *sb, const struct txn_actions *a);

/* ---- audit_records.c: what becomes a record of the audit trail ---- */
void audit_request(struct control *c, const struct rpc_act *act); /* control->acted */
void audit_call(struct sandbox *sb, uint64_t generation, const char *call, const char *operation, const char *answer, uint64_t unnamed);
void audit_exit(struct sandbox *sb); /* last_exit is known */

/* ---- take_over.c ---- */
/* Reads the spawner's table, before the loop runs. `ready` is called once, from the loop, when every host that was found has said what it
 * is doing, or was given the time to. */
/* Did the take-over refuse this entry? Before it has ended; then what isn't in the registry is. */
bool take_over_refused(const char *sandbox);
int take_over(struct control *c, struct database_found *found, void (*ready)(struct control *c), struct err *e);
void sandbox_found(struct sandbox *sb, const struct host_message *status); /* STATUS of a host taken over */
/* It ended before it said anything: true when that was told to the life as what was found. */
bool sandbox_found_exited(struct sandbox *sb, bool found, bool adopted, int64_t started_ms);
bool sandbox_found_aborted(struct sandbox *sb);   /* ABORTED: true when it ends what a take-over undid */

/* ---- restore.c ---- */
/* Takes the rows; from then on they are found by id. */
void restore_begin(struct control *c, struct database_found *found);
const struct database_row *restore_row(const char *id); /* NULL: none */
/* What the registry has: what the spawner's table has too is compared with it, the rest is made again. `done` is called once, later or
 * from inside, when the spawner holds them all. */
void restore_rows(void (*done)(void));

/* ---- info.c ---- */
uint32_t sandbox_restarts(const struct sandbox *sb); /* those that were counted, and those that were asked for */
void sandbox_info_json(const struct sandbox *sb, struct json_out *o);
const char *sandbox_status_text(const struct sandbox *sb);
void sandbox_row_json(const struct sandbox *sb, struct json_out *o);
void sandbox_tree_row_json(const struct sandbox *sb, struct json_out *o); /* with its budget */
bool sandbox_usage_now(const struct sandbox *sb, struct usage *ret, bool *ret_by_cgroup); /* false: it has no process */
const struct rpc_done *answer_usage(struct rpc_request *r, struct sandbox *sb);
const struct rpc_done *answer_security(struct rpc_request *r, const struct sandbox *sb);
const struct rpc_done *answer_info(struct rpc_request *r, const struct sandbox *sb);
void answer_info_durable(struct rpc_request *r, struct sandbox *sb); /* the same, when what is shown is durable */

#endif
