/* SPDX-License-Identifier: MIT
 *
 * The contract between spawner and control. One SOCK_SEQPACKET pair, made by the spawner for each control process
 * (possession is the right); it is descriptor CONTROL_FD_SPAWNER in control. All messages but the first are one fixed-size
 * struct spawner_message with up to FD_MESSAGE_MAX descriptors. The spawner trusts no field: sizes, names, descriptors,
 * ceilings are validated again against the administrator's configuration.
 *
 * Order: the spawner reads what a dead control had sent, to the end, before it starts the next control. So a KEEP that was
 * sent holds, also when its sender died right after.
 *
 * The spawner's table has one entry per *sandbox* (not per process): HOLD makes it, FORGET ends it. While no control is there
 * the entry keeps everything: spec, state, log ring, the host's channel, the log pipes, an exit status not yet acknowledged.
 *
 * A sandbox has one process, but for a reload that replaces it: START with flag CANDIDATE makes a second one, with a generation, a user and an
 * objects folder of its own. PROMOTE makes it the sandbox's process, in one step with the spec that says so; the process before is then the second
 * one, until it has ended. DISCARD ends a candidate. The second process of a control that has died is ended: a successor finds one. */
#ifndef SANDBOXD_SPAWNER_WIRE_H
#define SANDBOXD_SPAWNER_WIRE_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/limits.h"
#include "proto/profile.h"

#define SPAWNER_WIRE_VERSION 1u

/* ---- descriptors that control is started with; all others are closed ---- */
#define CONTROL_FD_SPAWNER 3 /* SEQPACKET to the spawner */
#define CONTROL_FD_LISTEN  4 /* the listening socket, non-blocking; the spawner holds it too */
#define CONTROL_FD_OUTCOMES 5 /* memfd of LIMIT_OUTCOMES_BYTES, sealed against SHRINK and GROW: each control gets the same one. What
                               * keyed requests came to; the spawner never looks into it */
#define CONTROL_FD_FAULTS  6 /* memfd of proto/fault.h; only when control_begin.has_faults */

/* ---- descriptors that a host is started with; all others are closed. 0 is /dev/null ---- */
#define HOST_FD_STDOUT  1
#define HOST_FD_STDERR  2
#define HOST_FD_CHANNEL 3

/* The first message, spawner -> control, unasked. */
struct control_begin {
	uint32_t wire_version;
	uint32_t epoch;             /* how many controls this spawner has started: high half of call numbers */
	uint64_t incarnation;       /* unique per (machine, control process): first half of event numbers */
	uint8_t is_root;            /* uids are changed; else all processes run as one user */
	uint8_t everyone_operates;
	uint16_t n_administrators, n_operators;
	uint16_t n_administrator_groups, n_operator_groups;
	uint16_t has_faults;        /* --fault was given */
	uint16_t lets_exceed;       /* --weaken leaves a limit of memory or processes out: control doesn't make up for it */
	uint32_t daemon_uid;        /* the spawner's: always an administrator */
	uint32_t max_sandboxes, max_jobs;
	uint32_t max_sandboxes_per_owner, max_jobs_per_owner; /* totals of each owner, 0: no limit */
	uint64_t max_memory_per_owner, max_store_bytes_per_owner;
	uint32_t compile_timeout_ms;
	uint64_t compile_memory_bytes;
	uint64_t max_memory_bytes, max_file_size_bytes; /* ceilings, 0: none */
	uint32_t max_processes, max_open_files;
	int32_t spawner_pid;
	uint32_t upgrades;          /* of the spawner since its start */
	uint8_t is_upgraded;        /* the first control of this program has not served yet */
	uint32_t host_build;        /* of the program that new hosts run */
	uint32_t administrators[CONFIG_MAX_USERS];
	uint32_t operators[CONFIG_MAX_USERS];
	uint32_t administrator_groups[CONFIG_MAX_USERS];
	uint32_t operator_groups[CONFIG_MAX_USERS];
	char socket_path[LIMIT_PATH_BYTES + 1];
	char state_dir[LIMIT_PATH_BYTES + 1];      /* exists, belongs to control's user, mode 0700 */
	char objects_dir[LIMIT_PATH_BYTES + 1];    /* exists, executable; holds one folder per held sandbox */
	uint32_t n_profiles;
	uint16_t n_calls[OPERATION__N];            /* system calls that each operation allows: the table of them is the spawner's */
	struct policy profiles[LIMIT_PROFILES];    /* the own ones, n_profiles of them */
	char cgroup_dir[LIMIT_PATH_BYTES + 1];     /* holds a leaf for each host, which everybody may read; "": there are none */
};

/* What a host process is limited to; 0 in a field: the default of limits.h. */
struct host_limits {
	uint64_t max_memory_bytes;    /* RLIMIT_DATA */
	uint64_t max_file_size_bytes; /* RLIMIT_FSIZE */
	uint64_t max_stack_bytes;     /* RLIMIT_STACK */
	uint32_t max_processes;       /* RLIMIT_NPROC, only where the host has a uid or a user namespace of its own */
	uint32_t max_open_files;      /* RLIMIT_NOFILE */
	uint32_t max_cpu_percentage;  /* of one processor: cpu.max of its cgroup, where it has one */
	uint32_t reserved;
};

enum spawner_op {
	/* ---- requests, control -> spawner; the reply carries the same tag ---- */
	SPAWNER_READY = 1,  /* control serves clients now. No reply. */
	SPAWNER_TABLE,      /* value = cursor, 0 first -> ENTRY (value = next cursor) or TABLE_END */
	SPAWNER_HOLD,       /* sandbox; fd: sealed spec -> OK (uid) | ERROR. Makes entry, uid, objects folder */
	SPAWNER_KEEP,       /* sandbox, kind = enum spawner_keep; fd: what to keep, none: drop it -> OK | ERROR */
	SPAWNER_FORGET,     /* sandbox: no host may live (else ERROR EBUSY) -> OK. uid freed, folder removed */
	SPAWNER_START,      /* sandbox, limits, name = profile; fd: sealed spec, kept first, or none; flags FRESH, and HOLD: HOLD with that spec, first
	                       -> STARTED (generation, uid; fds: channel, stdout, stderr) | ERROR (EBUSY: one lives; flags HOLD: it isn't even held). pid 0: the process comes after the answer: BORN, or EXITED with the step that failed. What is sent to it
	                       meanwhile waits in its channel.
	                       flag CANDIDATE: beside the one that lives; no spec comes with it. (EBUSY: there is a candidate already) */
	SPAWNER_SIGNAL,     /* sandbox, generation, kind = enum spawner_signal -> OK | ERROR (ESRCH: gone, or another generation) */
	SPAWNER_ACK_EXIT,   /* sandbox, generation: the exit status may be forgotten. No reply. */
	SPAWNER_JOB,        /* kind = enum spawner_job, name = source file name, timeout_ms, limits.max_memory_bytes; fd: sealed source -> JOB_DONE | ERROR */
	SPAWNER_JOB_KILL,   /* value = tag of the JOB: its client has gone. No reply of its own; JOB_DONE follows */
	SPAWNER_FINISHED,   /* all hosts are stopped, clients answered: end the daemon. No reply: the spawner ends control too */
	SPAWNER_STOP,       /* a client asked for the end of the daemon: as SIGTERM. No reply; STOP_ASKED follows */
	SPAWNER_STOPPING,   /* value = ms that an orderly end takes at most: the spawner is patient for so long (shutdown_timeout_ms at most). No reply */
	SPAWNER_ALIVE,      /* the answer to ALIVE_ASKED. No reply */
	SPAWNER_UPGRADE,    /* a client asked for an upgrade: as SIGHUP. No reply; UPGRADE_GOES or UPGRADE_REFUSED follows */
	SPAWNER_PROMOTE,    /* sandbox, generation of the candidate; fds: sealed spec, kept with it; its mirror, where it has one -> OK | ERROR (ESRCH: it isn't there, or not born; nothing has changed).
	                       The state that is kept is dropped; what is stored in the folder of the process before moves along */
	SPAWNER_DISCARD,    /* sandbox, generation of the candidate, 0: whichever -> OK | ERROR ESRCH. It is killed, and nothing more is told of it */
	SPAWNER_LIMIT,      /* sandbox, generation, limits; fd: sealed spec, kept once the limits are found to be allowed -> OK (value: SPAWNER_LIMIT_* that its process
	                       goes on without, status = why the first of them) | ERROR (EPERM: above a ceiling; ESRCH: gone, or another generation;
	                       EAGAIN: not born): nothing is changed, nothing kept */
	SPAWNER_REQUEST__N,

	/* ---- replies ---- */
	SPAWNER_OK = 64,
	SPAWNER_ERROR,      /* status = errno, text = what failed, on what, and a hint */
	SPAWNER_ENTRY,      /* see struct; fds in the order of the bits in flags */
	SPAWNER_TABLE_END,
	SPAWNER_STARTED,
	SPAWNER_JOB_DONE,   /* status = wait status, flags SPAWNER_F_TIMED_OUT; fds: diagnostics memfd, then (only if status == 0) the object file */

	/* ---- notices, spawner -> control, tag 0 ---- */
	SPAWNER_EXITED = 128, /* sandbox, generation, pid, status = wait status; step: see text. Repeated in ENTRY until ACK_EXIT */
	SPAWNER_STOP_ASKED,   /* value = how many SIGTERM, SIGINT and STOP so far: 1 orderly, 2 hurry */
	SPAWNER_LISTENER,     /* the socket had been unlinked: fd = its successor */
	SPAWNER_BORN,         /* sandbox, generation, pid: the process of a START is there */
	SPAWNER_ALIVE_ASKED,  /* answer with ALIVE from the loop: who doesn't for too long is replaced */
	SPAWNER_UPGRADE_GOES, /* the new program can take over: answer what is due, and exit; the next control is the new one */
	SPAWNER_UPGRADE_REFUSED, /* fd: a sealed memfd with the reason, a sentence; nothing was touched, or all is as before */
	SPAWNER_DENIED        /* sandbox, generation, pid: a forbidden system call. value = number, name = its name, text = the operation that
	                         the profile lacks, status = the errno that it got, flags KILLED, LAST (no more are named);
	                         dropped_bytes = so many of all sandboxes before it are told to nobody */
};

enum spawner_keep { SPAWNER_KEEP_SPEC = 1, /* sealed memfd <= LIMIT_SPEC_BYTES */
	SPAWNER_KEEP_STATE,                    /* sealed memfd: the newest saved state */
	SPAWNER_KEEP_RING,                     /* memfd of LIMIT_LOG_RING_BYTES, sealed against SHRINK and GROW */
	SPAWNER_KEEP_CHECKPOINT,               /* sealed memfd: the newest checkpoint, older than what runs */
	SPAWNER_KEEP_MIRROR };                 /* in the same place: a mirror (proto/mirror.h), sealed against SHRINK and GROW */

enum spawner_signal { SPAWNER_SIGNAL_KILL = 1, /* SIGKILL to the host and its process group */
	SPAWNER_SIGNAL_ATTENTION,              /* HOST_ATTENTION_SIGNAL: stop soon; blocking calls return EINTR */
	SPAWNER_SIGNAL_FREEZE,                 /* SIGSTOP to every process of the sandbox; ERROR EAGAIN: not all could be, all run on */
	SPAWNER_SIGNAL_THAW,                   /* SIGCONT to them */
	SPAWNER_SIGNAL_TIME };                 /* HOST_ATTENTION_SIGNAL, with the value HOST_ATTENTION_TIME */

/* What a LIMIT changes; the bits of its answer. */
#define SPAWNER_LIMIT_MEMORY     0x01u
#define SPAWNER_LIMIT_FILE_SIZE  0x02u
#define SPAWNER_LIMIT_PROCESSES  0x04u
#define SPAWNER_LIMIT_OPEN_FILES 0x08u
#define SPAWNER_LIMIT_CPU        0x10u

enum spawner_job { SPAWNER_JOB_COMPILE_C = 1 };

/* SPAWNER_F_*: in ENTRY, which descriptors follow, in this order; and facts */
#define SPAWNER_F_SPEC      0x01u
#define SPAWNER_F_STATE     0x02u
#define SPAWNER_F_RING      0x04u
#define SPAWNER_F_CHANNEL   0x08u
#define SPAWNER_F_STDOUT    0x10u
#define SPAWNER_F_STDERR    0x20u
#define SPAWNER_F_CHECKPOINT 0x40u
#define SPAWNER_F_EXITED    0x4000u /* no descriptor: generation has ended with `status`, unacknowledged */
#define SPAWNER_F_FROZEN    0x100u /* ENTRY; no descriptor: its processes are stopped by FREEZE */
#define SPAWNER_F_TIMED_OUT 0x80u /* JOB_DONE: ended by its time limit */
#define SPAWNER_F_KILLED    0x100u /* DENIED: the process is killed for it */
#define SPAWNER_F_LAST      0x200u
#define SPAWNER_F_OOM       0x1000u /* EXITED: the kernel killed it for the memory of its cgroup */
#define SPAWNER_F_CGROUP    0x2000u /* ENTRY, and OK of FREEZE: its processes are held by a cgroup of its own */
#define SPAWNER_F_HOLD      0x400u /* START: the sandbox is new; ERROR of it: it is not held */
#define SPAWNER_F_CANDIDATE 0x4000u /* START: a second process */
#define SPAWNER_F_SECOND    0x8000u /* STARTED, ENTRY: its objects lie in the sandbox's second folder, its id and SPAWNER_SECOND_FOLDER */
#define SPAWNER_F_FRESH     0x800u /* START: an address space of its own, made by an exec for this host alone */

#define SPAWNER_SECOND_FOLDER "+" /* in no id. A sandbox's processes take turns with the two folders where one replaces another */

/* Exit status of a control that can't start for a reason that a successor would find too (a registry of a newer format): the spawner ends. */
#define CONTROL_EXIT_REFUSED 78 /* EX_CONFIG */

struct spawner_message {
	uint32_t version;      /* SPAWNER_WIRE_VERSION */
	uint16_t op, kind;
	uint64_t tag;          /* chosen by control, echoed; 0: it waits for no reply, and gets none; 0 in notices */
	uint64_t generation;   /* assigned by the spawner, unique over its life, never 0 */
	uint64_t value;
	int32_t pid;             /* ENTRY: 0 while it isn't born, BORN follows */
	int32_t status;
	uint32_t flags;
	uint32_t uid;
	uint32_t timeout_ms;
	uint32_t host_build;     /* ENTRY, STARTED: of the program that the host runs */
	uint64_t dropped_bytes;  /* ENTRY: log bytes drained and dropped while no control was there */
	int64_t started_ms;      /* ENTRY, STARTED, EXITED: monotonic time of the start */
	int64_t ended_ms;        /* EXITED */
	struct host_limits limits;
	char sandbox[LIMIT_ID_BYTES + 1];
	char name[LIMIT_ID_BYTES + 1];   /* JOB: source file name; START: profile; EXITED: the set-up step that failed, "" when exec worked */
	char text[96];                   /* ENTRY, STARTED, BORN: the host's leaf in cgroup_dir, "": none */
};

#endif
