/* SPDX-License-Identifier: MIT
 *
 * Every maximum of sandboxd, in one place. Crossing one is a clear error and loses nothing.
 * The number's reason stands beside it; tests and docs read the numbers from here. */
#ifndef SANDBOXD_LIMITS_H
#define SANDBOXD_LIMITS_H

/* ---- names ---- */
#define LIMIT_ID_BYTES       63  /* [A-Za-z0-9][A-Za-z0-9._-]{0,62}: fits a cgroup or file name with room for a suffix */
#define LIMIT_FUNCTION_BYTES 63  /* a C identifier of a module function */
#define LIMIT_PATH_BYTES     255 /* paths that travel in fixed-size messages (runtime folder + objects/<id>/<serial>.so) */
#define LIMIT_LABELS         32

/* ---- clients ---- */
#define LIMIT_REQUEST_BYTES          (1u << 20) /* one line, without its newline; 1 MiB, as the issue of huge requests asks */
#define LIMIT_JSON_DEPTH             64         /* nesting of arrays and objects */
#define LIMIT_REPLY_DEPTH            (LIMIT_JSON_DEPTH - 2) /* of what a host says: "result" of "result" stands around it, and clients read lines like ours */
#define LIMIT_JSON_NUMBER_BYTES      64         /* digits of one number */
#define LIMIT_CONNECTIONS            1024
#define LIMIT_CONNECTIONS_RESERVED   32         /* of them for administrators: whatever the others do, they get in */
#define LIMIT_CONNECTIONS_PER_UID    256
#define LIMIT_CONNECTIONS_PER_UID_NONE 8        /* of who may do nothing but ask what there is */
#define LIMIT_IN_FLIGHT              32         /* requests of one connection without a reply; then its socket is not read */
#define LIMIT_TURN_US                500       /* what comes in bulk (exits, ends of storage jobs) leaves the loop to others after that long */
#define LIMIT_REQUESTS_PER_TURN      64         /* one connection may not hog a turn of the loop */
#define LIMIT_REQUEST_BYTES_PER_UID  (64u << 20) /* unanswered requests and half lines of all connections of one uid; beyond it larger
                                                 * requests are `busy`; when half lines alone cross it, the connection that does it ends */
#define LIMIT_PARTIAL_BYTES_FREE     (64u << 10) /* a connection with less of a half line isn't the one that ends: one read of the socket */
#define LIMIT_SMALL_REQUEST_BYTES    4096       /* never `busy` for that reason: whoever has filled the queues can still stop and destroy */
#define LIMIT_REPLY_BYTES            (8u << 20) /* one line; a result that is longer, or in a batch doesn't fit any more, is `reply_too_large` */
#define LIMIT_CONNECTION_BACKLOG_BYTES (4u << 20) /* unread replies, from which on no more requests of the connection are taken */
#define LIMIT_CONNECTION_OUT_BYTES   (48u << 20) /* unread replies; beyond it the connection is closed. All that can come due while it
                                                 * reads: the backlog, one line more, and LIMIT_IN_FLIGHT replies of LIMIT_BODY_BYTES and head */
#define LIMIT_REPLY_BYTES_PER_UID    (128u << 20) /* unread replies of all connections of one uid; whose reply crosses it is closed */
#define LIMIT_REPLY_BYTES_FREE       (64u << 10) /* a connection with less isn't the one that is closed for the others' sake */
#define LIMIT_IDLE_PARTIAL_LINE_MS   30000      /* half a line, then silence */
#define LIMIT_PARTIAL_LINE_BYTES     4096       /* less than that in this time counts as silence: a slow sender can't hold a line for ever */
#define LIMIT_UPLOADS_PER_CONNECTION 4
#define LIMIT_UPLOAD_CHUNK_BYTES     (512u << 10) /* decoded; its base64 stays below LIMIT_REQUEST_BYTES */
#define LIMIT_UPLOAD_BYTES_PER_UID   (256u << 20) /* in uploads of all connections of one uid: four of the largest objects */
#define LIMIT_LIST_PAGE              500
#define LIMIT_LIST_STEPS             (1u << 20) /* that filters may take over one page: a millisecond or two; the rest follows from `next` */
#define LIMIT_LIST_PAGE_BYTES        (1u << 20) /* a page whose rows have more ends: labels can be long */
#define LIMIT_PATTERN_BYTES          128        /* of names: an id, and as many marks */
#define LIMIT_LABEL_BYTES            256        /* the text of one, as it stands in JSON */
#define LIMIT_RESERVED_FDS           64         /* of control: never used by connections, and half of them not by new sandboxes either, so
                                                 * that those which are there can always be started again (3 each) and saved */
#define LIMIT_PEER_GROUPS            65536      /* the kernel's NGROUPS_MAX: all groups of a client are looked at */
#define LIMIT_REQUEST_KEY_BYTES      64         /* a UUID is 36 */
#define LIMIT_OUTCOMES               4096       /* keyed requests, at work or with an outcome that is kept */
#define LIMIT_OUTCOMES_PER_UID       1024       /* the oldest outcome of the same user goes first */
#define LIMIT_OUTCOME_BYTES          ((1u << 20) + 4096) /* one: the largest reply of a module, and its frame */
#define LIMIT_OUTCOME_BYTES_PER_UID  (4u << 20)
#define LIMIT_OUTCOMES_BYTES         (20u << 20) /* the memory that all lie in: table and 16 MiB of them; used as it fills */

/* ---- objects and sources ---- */
#define LIMIT_OBJECT_BYTES   (64u << 20)
#define LIMIT_SOURCE_BYTES   (4u << 20)
#define LIMIT_ELF_HEADERS    256  /* program headers of an object */
#define LIMIT_ELF_SECTIONS   4096 /* sections of an object */
#define DEFAULT_PROBATION_MS 30000 /* as long as a fault of a new version's code brings the one before back */
#define LIMIT_PINNED_OBJECTS 4   /* that a process couldn't unload: the next reload replaces it, so that mappings and memory stay bounded */
#define RELOAD_STATE_COPIES  3   /* of the state, that a reload in place has at once: old, saved, new */
#define RELOAD_PROCESSES     4   /* that control has made in a sandbox at once, beside its own: one that rehearses, looks at a state or saves it, and those before it that just end */
#define LIMIT_VERSIONS       10   /* kept per module, and their objects on disk; current and good are never pruned */
#define LIMIT_HISTORIES_KEPT      1024 /* of destroyed sandboxes (keep_history): the oldest goes first. All are read when the first is kept */
#define LIMIT_HISTORIES_PER_OWNER 128  /* of one owner's: one who destroys much doesn't send away those of others, unless eight do so */
#define LIMIT_HISTORIES_BYTES     (16u << 20) /* of all files together */
#define LIMIT_HISTORY_BYTES       (64u << 10) /* of one: LIMIT_VERSIONS rows, twice, have a fifth of it */
#define LIMIT_DIAGNOSTICS_BYTES (64u << 10) /* compiler output that an error carries */

/* ---- spawner ---- */
#define LIMIT_SANDBOXES         16384
#define LIMIT_JOBS              16     /* compile jobs at once */
#define DEFAULT_OWNER_SANDBOXES    256 /* totals of each owner; an administrator's requests are exempt */
#define DEFAULT_OWNER_MEMORY_BYTES (32ull << 30) /* as many sandboxes as that, of the usual max_memory */
#define DEFAULT_OWNER_STORE_BYTES  (4ull << 30)
#define DEFAULT_OWNER_JOBS         1   /* of two in all: a place is left for others */
#define LIMIT_OWNERS_SHOWN         256 /* in daemon.info; how many more there are is said */
#define LIMIT_FRESH_AT_ONCE     4      /* zygotes of a single host each, being made beside each other; further ones wait */
#define DEFAULT_ZYGOTE_HOSTS    10000  /* of one zygote: those after it have another layout and stack canary; and what a zygote lost would not be lost for ever */
#define DEFAULT_ZYGOTE_AGE_MS   3600000
#define LIMIT_SPARES            16     /* of one profile: a burst of as many starts finds its processes made */
#define DEFAULT_SPARES          4      /* about 0.2 MiB each, kernel included */
#define LIMIT_PROFILES          16     /* of files, beside the built-in ones: each that is used has a zygote and spare hosts */
#define LIMIT_PROFILE_NAME_BYTES 22    /* with NAME_PROBE and two numbers it is the id of a probe */
#define LIMIT_PROFILE_BYTES     (16u << 10) /* of one file */
#define LIMIT_PROFILE_PATHS     8      /* that may be read, and as many that may be written: each is a mount of every host */
#define LIMIT_PROFILE_PATHS_BYTES 1024 /* of all of them: they travel with the profile */
#define LIMIT_PROFILE_FILES     256    /* entries of profiles.d that are looked at */
#define LIMIT_SPEC_BYTES        (64u << 10)
#define LIMIT_LOG_RING_BYTES    (64u << 10)
#define LIMIT_UIDS_PER_SLICE    256
#define LIMIT_CONFIG_BYTES      (64u << 10)
#define LIMIT_FAULTS            80     /* --fault options: each point once, and some */
#define LIMIT_FSIZE_BYTES       (128ull << 20) /* the least RLIMIT_FSIZE that sandboxd starts with: memfds fall under it as well, and the largest
                                                * that isn't a state is an object of LIMIT_OBJECT_BYTES; a registry and its log need as much */
#define LIMIT_HOST_OWN_BYTES    (4u << 20) /* what a host needs beside max_memory before its module has anything: memory.max counts page tables and
                                            * stacks of the kernel too (1 MiB, idle) */
#define LIMIT_ASIDE_FILES       256 /* damaged parts of the registry that stay for an administrator: a disk that damages for ever must not fill itself with them. */
#define LIMIT_ASIDE_BYTES       (256 << 20) /* of them together; the first and the newest stay however large they are */
#define LIMIT_FDS_PER_SANDBOX   8      /* of the spawner: channel, two log pipes, seccomp listener, spec; state, checkpoint and log ring where there are any */
#define LIMIT_SPAWNER_FDS_HEADROOM 128 /* of the spawner, for all that isn't a sandbox's */
#define LIMIT_DENIALS_NAMED     64    /* forbidden system calls of one process that are named; then the kernel answers alone */

/* ---- groups ---- */
#define LIMIT_GROUP_CHILDREN 1024  /* of one group */
#define LIMIT_TREE_DEPTH     8     /* groups in groups, the top one included: an order to stop passes through in one step */
#define LIMIT_TREE_NODES     16384 /* groups and children of one tree: as many as there may be sandboxes */
#define LIMIT_GROUP_REQUESTS 64    /* requests that wait in one group's inbox; then `busy` */
#define LIMIT_TREE_TURN      256   /* small pieces of work in one step of a tree */

/* ---- simulations (sandboxd --simulate) ---- */
#define LIMIT_SIMULATE_LINE_BYTES LIMIT_REQUEST_BYTES /* one scenario */
#define LIMIT_SIMULATE_LINES      1000000 /* of one file: a pipe that never ends is told so */
#define LIMIT_SIMULATE_EVENTS     65536   /* of one scenario */
#define LIMIT_SIMULATE_ACTIONS    1000000 /* of one scenario: a tree that restarts for ever ends here */
#define LIMIT_SIMULATE_RESULT_BYTES (64u << 20)
#define LIMIT_SIMULATE_TIME_MS    (366ll * 86400 * 1000)

/* ---- host channel ---- */
#define LIMIT_MESSAGE_BYTES   (64u << 10) /* one SEQPACKET message, header included; larger bodies travel by memfd */
#define LIMIT_BODY_BYTES      (1u << 20)  /* arguments, a reply, a configuration */
#define LIMIT_CALLS_IN_HOST   32          /* sent to a host and unanswered; the rest waits in control's queue */
#define LIMIT_REPLIES_UNACKED 256         /* a host keeps each reply until it is acknowledged */
#define LIMIT_REPLIES_UNACKED_BYTES (8u << 20) /* of their bodies: they count against the sandbox's memory */
#define LIMIT_CALL_QUEUE      1024        /* default of max_queue */
#define LIMIT_WAITS           1024        /* sandbox.wait requests of one sandbox: each is a timer and a request line */
#define LIMIT_STATE_BYTES     (4ull << 30)
#define LIMIT_PATCH_BYTES     (48u << 10)  /* of state.set: it travels with the candidate in one message */
#define LIMIT_KEPT_STATES       2           /* of one sandbox on disk: the newest that a stop or restart saved, and the one before it */
#define LIMIT_CHECKPOINT_LEAST_MS 100       /* of checkpoint_every_ms: a persistent one costs the disk some ms each time, and callers a pause */
#define LIMIT_MIRROR_STATE_BYTES (1u << 20) /* of a state that is saved before each reply (checkpoint call): more would cost each call a millisecond */
#define LIMIT_LEFT_STATES       4           /* of one sandbox: states that its versions were left with, for rollback with state saved */
#define LIMIT_LEFT_STATES_BYTES (64u << 20) /* of all of them together: they are memory beside the sandbox's own */
#define LIMIT_HOST_BYTES_PER_TURN    (512u << 10) /* of bodies: each is scanned before it is used */
#define LIMIT_HOST_MESSAGES_WAITING  256 /* control's own messages to a host that doesn't read; there are few */
#define LIMIT_HOST_MESSAGES_PER_TURN 64   /* one host may not hog a turn of control's loop */

/* ---- module ABI ---- */
#define LIMIT_ITEMS        1024 /* rows of a module descriptor */
#define LIMIT_FIELDS       1024 /* rows of one schema */
#define LIMIT_SCHEMAS      256  /* structs reachable from a module's state */
#define LIMIT_SCHEMA_DEPTH 16
#define LIMIT_PARAMETERS   32   /* of one function */
#define LIMIT_VALUE_DEPTH  64   /* nesting of CBOR values; the same as JSON's */
#define LIMIT_LOG_TEXT_BYTES 1024
#define LIMIT_STATE_FIELDS   4096 /* fields of all structs of a module's state: its description stays below LIMIT_BODY_BYTES */
#define LIMIT_ALL_PARAMETERS 4096 /* of all functions of a module, for the same reason */
#define LIMIT_SIGNATURE_BYTES 4096 /* text of one function's signature */
#define LIMIT_ALIASES        8    /* SBX_WAS rows of one field */
#define LIMIT_TIMER_MS       (10ll * 365 * 86400 * 1000) /* ten years: no sum with it overflows */
#define LIMIT_ROW_BYTES      4096 /* stride of a row of a module's tables: room for what later versions append */

/* ---- observation ---- */
#define LIMIT_DECISIONS       16   /* kept of each sandbox for explain, in its spec: three restarts with all that led to them */
#define LIMIT_EVENTS          4096 /* kept in memory */
#define LIMIT_EVENT_BYTES     (8u << 10) /* one event; a larger one keeps its head and says truncated */
#define LIMIT_EVENTS_BYTES    (4u << 20) /* all kept events: 1 KiB each on average, most need a fifth of it */
#define LIMIT_EVENTS_PAGE_BYTES (1u << 20) /* of one event.read; the rest follows from `next` */
#define LIMIT_EVENT_SEGMENT_BYTES (1u << 20)  /* one file of events; a new one begins behind it */
#define LIMIT_EVENT_FILES_BYTES   (16u << 20) /* of all files of events: months of a quiet machine; the oldest go first */
#define LIMIT_EVENT_FILES_AGE_MS  (30ll * 24 * 3600 * 1000)
#define LIMIT_EVENT_BATCH_BYTES   (1u << 20)  /* of events that wait for the disk; what comes on top isn't written, and counted */
#define LIMIT_EVENT_PENDING_BYTES (256u << 10) /* of the mapped file that keeps them when control is killed meanwhile */
#define LIMIT_AUDIT_USERS         64          /* whose allowances are known apart; then that of the longest quiet one begins anew */
#define LIMIT_AUDIT_RECORDS       500         /* that one user may cause in LIMIT_AUDIT_PERIOD_MS: a flood can't push the others' out of the files */
#define LIMIT_AUDIT_PERIOD_MS     60000
#define LIMIT_LOG_FILE_BYTES      (1u << 20)  /* one log file of a sandbox; the next one begins behind it */
#define LIMIT_LOG_FILES           2           /* kept of each sandbox */
#define LIMIT_LOG_BATCH_BYTES     (1u << 20)  /* of a sandbox's lines that wait for the disk */
#define LIMIT_LOG_BATCH_ALL_BYTES (16u << 20) /* of all sandboxes' */
#define LIMIT_STREAMS_PER_CONNECTION 16       /* event.read and log.read with follow */
#define LIMIT_STREAM_QUEUE_BYTES  (256u << 10) /* unsent bytes of a connection, from which on its streams drop: a turn of a flood of short lines */
#define LIMIT_LOG_LINE_BYTES  4096 /* longer lines are split and say so */
#define LIMIT_LOG_READ_BYTES_PER_TURN (64u << 10)
#define LIMIT_LAST_WORDS_BYTES 512
#define LIMIT_PROCESS_OWN_BYTES (1u << 20) /* of each process but the first that isn't counted where there is no cgroup: a fork shares its memory until
                                            * somebody writes to it (an idle host has less than half of it), and the kernel counts it for both */
#define LIMIT_SAMPLE_US       2000 /* of a tick of 125 ms that looks at what sandboxes use may take, and one look more: 1.6 per cent of a processor */
#define LIMIT_USAGE_PROCESSES 1024 /* of one sandbox that usage adds up, and threads of one process: some 20 us each */

/* ---- defaults of a sandbox (FEATURES E1, DESIGN 6 and 7) ---- */
#define DEFAULT_MAX_MEMORY_BYTES     (128ull << 20)
#define DEFAULT_MAX_PROCESSES        100
#define DEFAULT_MAX_EXECUTION_MS     300000  /* a call */
#define LIMIT_ATTENTION_MS           1000    /* from the attention signal, when the time of a call is over, until its process is killed */
#define DEFAULT_MAX_FILE_SIZE_BYTES  (10ull << 20)
#define DEFAULT_MAX_OPEN_FILES       64
#define DEFAULT_MAX_CPU_PERCENTAGE   100 /* of one processor; less would stall a host for tens of milliseconds at a time */
#define LIMIT_MAX_CPU_PERCENTAGE     100000 /* 100 for each of 1,000 processors */
#define DEFAULT_MAX_STACK_BYTES      (8ull << 20)
#define DEFAULT_SCRATCH_BYTES        (64ull << 20) /* a host's own folder, in memory */
#define DEFAULT_START_TIMEOUT_MS     10000
#define DEFAULT_SHUTDOWN_MS          5000
#define DEFAULT_DAEMON_SHUTDOWN_MS   60000   /* the longest that the daemon's own end may take, whatever its sandboxes ask; below systemd's 90 s */
#define LIMIT_DAEMON_SHUTDOWN_MS     3600000
#define DEFAULT_QUIESCE_TIMEOUT_MS   5000
#define DEFAULT_REHEARSE_TIMEOUT_MS  10000
#define DEFAULT_CALL_TIMEOUT_MS      30000
#define DEFAULT_WAIT_TIMEOUT_MS      30000
#define DEFAULT_COMPILE_TIMEOUT_MS   30000
#define DEFAULT_COMPILE_MEMORY_BYTES (1ull << 30)
#define DEFAULT_RESTART_INTENSITY    5
#define DEFAULT_RESTART_PERIOD_MS    60000
#define DEFAULT_BACKOFF_FIRST_MS     100
#define DEFAULT_BACKOFF_MAX_MS       30000

#endif
