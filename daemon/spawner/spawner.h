/* SPDX-License-Identifier: MIT
 *
 * The spawner's whole state, and what its files offer each other. One thread, one poll loop, nothing in it blocks. */
#ifndef SANDBOXD_SPAWNER_H
#define SANDBOXD_SPAWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spawner/cgroups.h"
#include "daemon/spawner/child.h"
#include "daemon/spawner/denials.h"
#include "daemon/spawner/listener.h"
#include "daemon/spawner/liveness.h"
#include "daemon/spawner/notify.h"
#include "daemon/spawner/programs.h"
#include "daemon/spawner/slices.h"
#include "daemon/spawner/sweeps.h"
#include "daemon/spawner/table.h"
#include "daemon/spawner/uids.h"
#include "daemon/spawner/upgrade.h"
#include "daemon/spawner/zygotes.h"
#include "proto/config.h"
#include "proto/fd.h"
#include "proto/spawner_wire.h"

#define NEVER INT64_MAX

/* Exit statuses of sandboxd; see the table in proto/errors.def. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_RUNNING = 4 };

/* The control process that lives now, or the time when the next one starts. */
struct control {
	pid_t pid; /* 0: none */
	int fd;    /* our end; -1: closed, or it broke the contract and is dying */
	uint32_t epoch;
	uint64_t incarnation;
	int64_t started_ms, start_at_ms; /* start_at_ms: NEVER while one lives */
	bool ready, ever_ready;
	uint32_t quick_deaths, failed_starts;
	bool given_up;              /* it broke the contract: killed by us */
	char failure[160]; /* the set-up step that failed; "" */
	/* A reply that its socket had no room for. While there is one, no request is read, so one place is enough; notices
	 * are facts of the table that wait there. */
	bool has_out;
	struct spawner_message out;
	int out_fds[FD_MESSAGE_MAX];
	size_t n_out_fds;
};

struct job {
	enum { JOB_FREE, JOB_RUNS, JOB_ENDED } state; /* ENDED: JOB_DONE not yet sent */
	pid_t pid;
	uint64_t tag;
	uid_t uid;
	bool orphan; /* its control has died: nobody wants the result */
	bool timed_out;
	int64_t deadline_ms;
	int folder_fd, diagnostics_fd, object_fd;
	int status;
	char step[LIMIT_ID_BYTES + 1], text[96];
};

struct spawner {
	struct config config;
	bool is_root;
	uid_t control_uid; /* = gid */
	int runtime_fd, lock_fd, state_fd, objects_fd, jobs_fd, null_fd;
	int outcomes_fd;             /* of all controls (CONTROL_FD_OUTCOMES) */
	int faults_fd;               /* CONTROL_FD_FAULTS; -1: none are planted. Borrowed */
	bool objects_mounted;
	char objects_dir[LIMIT_PATH_BYTES + 1], jobs_dir[LIMIT_PATH_BYTES + 1];
	struct listener listener;
	struct programs programs;
	struct slices slices;
	struct uids uids;
	int signal_fd, report_read_fd, report_write_fd;
	struct table table;
	uint64_t generations;
	struct zygotes zygotes;
	struct denials denials;
	struct cgroups cgroups;
	uint64_t weaken;             /* PROTECTION_BITs that hosts are to lack; for tests */
	int landlock_abi;            /* to pretend; -1: the kernel's */
	struct job jobs[LIMIT_JOBS];
	struct sweeps sweeps;
	struct control control;
	struct liveness liveness;    /* of control */
	bool alive_unsent;           /* the question has found no room yet */
	struct notify notify;
	struct upgrade upgrade;
	int64_t drain_at_ms; /* the next look at the log pipes while no control lives */
	uint32_t stop_asked; /* SIGTERM and SIGINT so far */
	int64_t stop_by_ms, stop_asked_ms;
	bool stop_unsent, listener_unsent;
	bool ending;        /* everything has been killed; reap and go */
	int64_t ending_by_ms;
	int exit_status;
};

/* ---- spawner.c: start, loop, end ---- */
/* faults_fd: of fault_plant, borrowed; -1: none. ERR_ALREADY_EXISTS: another one runs. */
int spawner_open(struct spawner *sp, const struct config *c, int faults_fd, struct err *e);
/* The same over an exec: what another program held, by a table of its (handover.h). */
int spawner_take_over(struct spawner *sp, const struct config *c, const struct handover *h, struct err *e);
/* For tests: what hosts are to lack. Before the run. */
void spawner_weaken(struct spawner *sp, uint64_t weaken, int landlock_abi);
int spawner_run(struct spawner *sp);                                         /* returns the exit status */
void spawner_close(struct spawner *sp);                                      /* also what is half open */
void spawner_end(struct spawner *sp, int exit_status);                       /* kill everything, then leave the loop */
/* The daemon is to end, in order: control is told, and killed with all the rest when it takes too long. Asked again: sooner. */
void spawner_stop_asked(struct spawner *sp, const char *by, int64_t now_ms);
void spawner_patience(struct spawner *sp, uint64_t ms); /* what control says that it needs, unless somebody asked again */
int spawner_take_uid(struct spawner *sp, uid_t *ret_uid, struct err *e);     /* rootless: (uid_t)-1 */

/* ---- spawn.c: the parent's half of a birth ---- */
/* Forks and runs the plan, whose report pipe is filled in here. -1 with err. */
pid_t spawn_child(struct spawner *sp, struct child_plan *plan, struct err *e);
extern char *const spawn_environment[]; /* PATH and LANG, no more */

/* ---- control.c ---- */
void control_init(struct control *c);
void control_start(struct spawner *sp, int64_t now_ms);
void control_readable(struct spawner *sp);
void control_writable(struct spawner *sp);
void control_notify(struct spawner *sp); /* sends the facts that are not told yet, as far as there is room */
void control_reply(struct spawner *sp, const struct spawner_message *m, const int *fds, size_t n_fds);
void control_break(struct spawner *sp, const char *why); /* it broke the contract: killed, replaced */
void control_reaped(struct spawner *sp, int status, int64_t now_ms);
void control_timer(struct spawner *sp, int64_t now_ms);
int64_t control_deadline(const struct spawner *sp);

/* ---- requests.c ---- */
int objects_folder_make(struct spawner *sp, const char *name, uid_t uid, struct err *e); /* anew; its host's */
/* What a sandbox's next processes will load; copies for those that have ended go with the folder. All are tried: the first failure is told. */
int objects_move(struct spawner *sp, const char *from, const char *to, struct err *e);
void request_handle(struct spawner *sp, const struct spawner_message *m, int *fds, size_t n_fds); /* takes the fds */

/* ---- seconds.c: a sandbox's second process ---- */
struct entry *second_start(struct spawner *sp, struct entry *entry, enum profile profile, bool is_fresh, const struct host_limits *limits,
	struct err *e);                                                     /* a candidate; it is starting. NULL */
struct entry *second_promote(struct spawner *sp, struct entry *entry, uint64_t generation, int *fds, size_t n_fds, struct err *e); /* takes its spec, and its mirror if there is one; NULL */
void second_drop(struct spawner *sp, struct entry *entry);                  /* its other is killed, if it lives, and nobody hears of it any more */
void seconds_drop_all(struct spawner *sp);                                  /* control has died */
void seconds_free(struct spawner *sp);                                      /* those that have ended */

/* ---- jobs.c ---- */
void jobs_init(struct spawner *sp);
int job_start(struct spawner *sp, const struct spawner_message *m, int source_fd, struct err *e);
void job_kill(struct spawner *sp, uint64_t tag);
struct job *job_find_pid(struct spawner *sp, pid_t pid);
void job_reaped(struct spawner *sp, struct job *job, int status);
bool job_done_send(struct spawner *sp, struct job *job); /* false: no room */
void jobs_orphan(struct spawner *sp); /* control has died */
void jobs_kill_all(struct spawner *sp);
void jobs_timer(struct spawner *sp, int64_t now_ms);
int64_t jobs_deadline(const struct spawner *sp);

/* ---- freeze.c ---- */
int entry_freeze(struct spawner *sp, struct entry *entry, struct err *e); /* -1: some run on, so all do */
void entry_thaw(struct spawner *sp, struct entry *entry);
void entry_kill(struct spawner *sp, struct entry *entry);                  /* all of it that can be reached at once; it has a pid */
bool entry_has_leaf(const struct spawner *sp, const struct entry *entry);  /* a cgroup of its own */
void entry_leaf_end(struct spawner *sp, struct entry *entry);              /* its process has ended, or never came: so does its cgroup */
void entry_orphans_kill(struct spawner *sp, const struct entry *entry);    /* what the host that has ended left behind */
bool orphan_is_stray(struct spawner *sp, pid_t pid);                      /* rootless: left by a host that has ended, and missed then */
void orphans_stray_kill(struct spawner *sp);                              /* rootless: all of these, and what descends from them */
bool freeze_covers(struct spawner *sp, pid_t pid, uid_t uid);             /* was it stopped, since its sandbox is frozen? */

/* ---- limits.c ---- */
struct cgroup_limits limits_of_cgroup(const struct host_limits *l); /* what a host needs for itself on top */
/* Gives the process of an entry, which has one, other limits; answer: value, status (SPAWNER_LIMIT). -1: it has those of before. */
int entry_limit(struct spawner *sp, struct entry *entry, const struct host_limits *limits, struct spawner_message *answer, struct err *e);

/* ---- reap.c ---- */
void reap_children(struct spawner *sp, int64_t now_ms);
void reap_reports(struct spawner *sp);  /* which set-up steps failed */
void reap_kill_all(struct spawner *sp); /* hosts, jobs, control, adopted orphans */
bool reap_done(const struct spawner *sp);
/* Frees the uid once every process that still runs under it is killed. */
void reap_sweep(struct spawner *sp, uid_t uid);
void reap_uid_free(struct spawner *sp, uid_t uid); /* none does: all have ended with the first of their pid namespace */

#endif
