/* SPDX-License-Identifier: MIT
 *
 * A tree of groups: what an Erlang/OTP supervisor does, as a machine that waits for nothing. Pure: events and the
 * time in, an ordered list of actions out. Control process. One struct tree is one top-level group and all below it.
 *
 * A group has one inbox and does one thing at a time, to the end; it waits for at most one thing: that a child is
 * ready, or that one is gone. All else stays in its inbox, in order of arrival. docs/SUPERVISION.md has the rules,
 * tree_inner.h the table of phase x event.
 *
 * What the engine must keep:
 * - It carries out the DO_ entries in the order of the list, and hands the events that come of them to later steps,
 *   never into a step that runs. While `more` is set it calls tree_step with TREE_TURN until it isn't; other events
 *   may come in between.
 * - A leaf's instance is named by a tree_ref that DO_START brings (a number is never used twice in a tree; it maps to
 *   the generation of a process). Each DO_START is answered by exactly one of READY, FAILED, IGNORED, EXITED; after
 *   READY comes exactly one EXITED. FAILED, IGNORED and EXITED are said when no process is left: a start that is too slow
 *   is killed and reaped first. An event of an instance that isn't the present one is dropped.
 * - DO_ASK, DO_KILL and DO_CANCEL are orders to one instance, whose EXITED follows; with DO_CANCEL, of one that isn't
 *   ready, FAILED will do too. One that has ended meanwhile is nothing to do.
 * - A policy of its own that restarts a leaf would be a second supervisor: it must be off.
 *
 * Memory: tree_new and a start_child take what their part of the tree will ever need, each request a little more until
 * it is answered; nothing else allocates, so an exit, a timer, a restart can't fail for want of memory. One step does at
 * most LIMIT_TREE_TURN small pieces of work. */
#ifndef SANDBOXD_TREE_H
#define SANDBOXD_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/supervise/budget.h"
#include "proto/err.h"
#include "proto/limits.h"

enum tree_type { TREE_LEAF, TREE_GROUP, TREE_TYPE__N };
enum tree_restart { TREE_PERMANENT, TREE_TRANSIENT, TREE_TEMPORARY, TREE_RESTART__N };
enum tree_strategy { TREE_ONE_FOR_ONE, TREE_ONE_FOR_ALL, TREE_REST_FOR_ONE, TREE_STRATEGY__N };
enum tree_auto { TREE_AUTO_NEVER, TREE_AUTO_ANY, TREE_AUTO_ALL, TREE_AUTO__N };

#define TREE_SHUTDOWN_INFINITY (-1) /* ask, wait for ever; the only one for a group */
#define TREE_SHUTDOWN_BRUTAL   (-2) /* kill at once */

/* What a child is to be; borrowed during the call that it is given to. */
struct tree_spec {
	const char *id; /* unique among its siblings; the pattern of all ids */
	enum tree_type type;
	enum tree_restart restart;
	bool significant;    /* needs auto_shutdown of its group, and not permanent */
	int64_t shutdown_ms; /* 0: ask, then kill at once */
	void *user;          /* the engine's own; comes back in each action about the child */
	/* groups */
	enum tree_strategy strategy;
	enum tree_auto auto_shutdown;
	uint32_t intensity; /* <= BUDGET_INTENSITY_MAX */
	uint32_t period_ms; /* >= 1; without exact_ms whole seconds */
	const struct tree_spec *children;
	size_t n_children;
	/* What an earlier tree of the same children had come to, when this one takes its place: for its first start only. 0, NULL: nothing. */
	uint32_t streak;             /* restarts in a row: the exponent of the back-off */
	int64_t due_ms;              /* it waits for its restart until then, and isn't started before */
	int64_t ready_ms;            /* since when it is ready, if it is */
	const struct budget *budget; /* groups: the restarts counted so far, none of them in the future; copied */
};

/* Where we differ from OTP, each for itself; all zero is OTP. */
struct tree_rules {
	bool keep_failed;    /* a top-level group that gives up, or fails to start, is `failed` with a reason until START or RESET;
	                        so is, below it, a transient group that gave up (as a state that is shown; OTP: undefined) */
	bool exact_ms;       /* windows of exact milliseconds; OTP: the clock in whole seconds */
	bool cut;            /* a stop from above cuts what the group is doing; OTP: waits for its turn in the inbox */
	bool answer_at_once; /* which and count are answered when they come; OTP: in their turn */
	uint32_t backoff_first_ms; /* back-off of each child: 0 ms, then this, doubled each time; 0: none at all */
	uint32_t backoff_max_ms;
	bool groups_wait; /* the start of a group below the top waits for TREE_BEGUN; for simulations */
};

struct tree_ref {
	uint32_t slot;     /* place of the child in the tree */
	uint64_t instance; /* 0: none */
};

enum tree_exit {
	TREE_EXIT_NORMAL,       /* clean: status 0, unasked */
	TREE_EXIT_SHUTDOWN,     /* clean: as asked */
	TREE_EXIT_SHUTDOWN_WHY, /* clean: stopped on purpose, for a reason of its own */
	TREE_EXIT_ERROR,
	TREE_EXIT_KILLED, /* SIGKILL, ours too */
	TREE_EXIT__N
};

enum tree_ask { TREE_ASK_START_CHILD, TREE_ASK_TERMINATE, TREE_ASK_RESTART, TREE_ASK_DELETE, TREE_ASK_WHICH, TREE_ASK_COUNT, TREE_ASK__N };

enum tree_reply {
	TREE_REPLY_OK,
	TREE_REPLY_OK_IGNORED,  /* done, there was nothing to run */
	TREE_REPLY_RUNNING,     /* refused: it runs */
	TREE_REPLY_RESTARTING,  /* refused: it is being restarted */
	TREE_REPLY_ALREADY_STARTED,
	TREE_REPLY_ALREADY_PRESENT,
	TREE_REPLY_NOT_FOUND,
	TREE_REPLY_BAD_COMBINATION, /* significant, in a group or with a restart type that has no use for it */
	TREE_REPLY_START_FAILED,
	TREE_REPLY_DOWN,  /* the group isn't there, or ends before the request's turn */
	TREE_REPLY_WHICH, /* read tree_child_last/prev now */
	TREE_REPLY_COUNT, /* read tree_count now */
	TREE_REPLY_BUSY,  /* LIMIT_GROUP_REQUESTS wait already */
	TREE_REPLY_LIMIT, /* LIMIT_GROUP_CHILDREN, LIMIT_TREE_DEPTH or LIMIT_TREE_NODES would be crossed */
	TREE_REPLY_BAD_SPEC,
	TREE_REPLY_NO_MEMORY,
	TREE_REPLY__N
};

enum tree_event_type {
	/* ---- the keeper of the top-level group: TAKEN, or REFUSED in this state ---- */
	TREE_START, /* down or failed -> starting */
	TREE_STOP,  /* the parent's stop, at the top */
	TREE_HURRY, /* while it ends: whatever is being stopped is killed, and what comes next at once */
	TREE_RESET, /* failed -> down; else: all windows and back-offs below are as new */
	TREE_REQUEST, /* .group, .ask, .request, .child or .spec: exactly one DO_REPLY, in this step or a later one */
	/* ---- facts about .ref: TAKEN, or IGNORED when it isn't the present instance or not possible now ---- */
	TREE_BEGUN, /* of a group, with rules.groups_wait */
	TREE_READY,
	TREE_FAILED,
	TREE_IGNORED, /* nothing to do: success without a process */
	TREE_EXITED,  /* .exit */
	TREE_TIMER, /* the time that DO_TIMER named has come (earlier: nothing happens) */
	TREE_TURN,  /* go on */
	TREE_EVENT__N
};

struct tree_event {
	enum tree_event_type type;
	int64_t now_ms;  /* monotonic, never going back */
	uint32_t random; /* fresh; for the jitter of back-offs. 0: none */
	struct tree_ref ref;
	enum tree_exit exit;
	/* TREE_REQUEST */
	const char *group; /* its id; the first one in start order from the top. NULL: the top */
	enum tree_ask ask;
	uint64_t request;             /* the caller's number */
	const char *child;            /* all but START_CHILD */
	const struct tree_spec *spec; /* START_CHILD; copied */
};

enum tree_result { TREE_TAKEN, TREE_REFUSED, TREE_IGNORED_EVENT };

enum tree_what {
	TREE_DO_START,   /* .id; a group: nothing to do but, with groups_wait, to say BEGUN, FAILED, IGNORED or EXITED */
	TREE_DO_CANCEL,  /* of a start that isn't ready: kill it */
	TREE_DO_ASK,     /* ask it to stop; a group: nothing to do */
	TREE_DO_KILL,    /* .why */
	TREE_DO_REPLY,   /* .request, .ask, .reply; always the last entry of a list for WHICH and COUNT */
	TREE_DO_RELEASE, /* the child is out of the tree for good: last use of .user */
	TREE_DO_TIMER,   /* .at_ms: call TREE_TIMER then; replaces the one before. 0: none */
	TREE_DO_UP,      /* the top-level group is up */
	TREE_DO_DOWN,    /* it is down; .failed, .why, .exit */
	/* ---- decisions, for events, logs, explain; nothing to carry out ---- */
	TREE_NOTE_STARTED,
	TREE_NOTE_START_FAILED,
	TREE_NOTE_IGNORED,
	TREE_NOTE_EXITED,    /* taken from the inbox: .exit, .why: what follows */
	TREE_NOTE_ASKED_DEAD, /* stopped, but it had ended before: .why BRUTAL or not */
	TREE_NOTE_STOPPED,
	TREE_NOTE_STOP_ERROR, /* it ended otherwise than asked */
	TREE_NOTE_COUNTED,    /* .used of .allowed restarts within .period_ms; .why */
	TREE_NOTE_GAVE_UP,    /* the same numbers; .id: the group */
	TREE_NOTE_RETRY,      /* a start failed; a retry waits in the inbox, or for .delay_ms */
	TREE_NOTE_BACKOFF,    /* a restart waits for .delay_ms */
	TREE_NOTE_RETRY_VOID,
	TREE_NOTE_REMOVED, /* its spec is out of the group's list */
	TREE_NOTE_ENDING,  /* a group ends; .why */
	TREE_WHAT__N
};

/* The rule behind an entry; tree_why_text has a sentence for each. */
enum tree_why {
	TREE_WHY_NONE,
	TREE_WHY_INITIAL,
	TREE_WHY_PERMANENT,
	TREE_WHY_TRANSIENT,
	TREE_WHY_CLEAN,
	TREE_WHY_TEMPORARY,
	TREE_WHY_RETRY,
	TREE_WHY_STRATEGY,
	TREE_WHY_REVIVED,
	TREE_WHY_REQUEST,
	TREE_WHY_UNDO,
	TREE_WHY_ABOVE,
	TREE_WHY_SIGNIFICANT,
	TREE_WHY_ALL_SIGNIFICANT,
	TREE_WHY_INTENSITY,
	TREE_WHY_ENDING,
	TREE_WHY_TIME,
	TREE_WHY_BRUTAL,
	TREE_WHY_HURRY,
	TREE_WHY_CUT,
	TREE_WHY_START_FAILED,
	TREE_WHY__N
};

/* .id, .group, .user: of the child that it is about, valid until the next tree_step. */
struct tree_action {
	enum tree_what what;
	enum tree_why why;
	enum tree_type type;
	enum tree_exit exit;
	enum tree_ask ask;
	enum tree_reply reply;
	bool failed;
	const char *id, *group; /* group: "" at the top */
	void *user;
	struct tree_ref ref;
	uint64_t request;
	int64_t at_ms;
	uint32_t used, allowed, period_ms, delay_ms;
};

#define TREE_ACTIONS_MAX 128
struct tree_actions {
	uint32_t n;
	bool more; /* there is work left: TREE_TURN */
	struct tree_action at[TREE_ACTIONS_MAX];
};

enum tree_root { TREE_ROOT_DOWN, TREE_ROOT_STARTING, TREE_ROOT_UP, TREE_ROOT_ENDING, TREE_ROOT_FAILED, TREE_ROOT__N };

struct tree;
struct tree_node; /* a child or the top; for reading, valid until the next tree_step */

/* Everything below `top` is checked before anything exists: ERR_BAD_PARAM, ERR_INVALID_ID, ERR_LIMIT_EXCEEDED, ERR_INTERNAL (memory). */
int tree_new(const struct tree_spec *top, const struct tree_rules *rules, struct tree **ret, struct err *e);
/* No actions: what still runs is the caller's; each node's user is handed to release (may be NULL). */
void tree_free(struct tree *t, void (*release)(void *user));
/* The only way to change a tree. `out` is always filled. */
enum tree_result tree_step(struct tree *t, const struct tree_event *ev, struct tree_actions *out);

/* ---- reading ---- */
enum tree_root tree_root_state(const struct tree *t);
enum tree_why tree_root_why(const struct tree *t); /* why it failed */
int64_t tree_due_ms(const struct tree *t);         /* when TREE_TIMER is due; 0: never */
const struct tree_node *tree_top(const struct tree *t);
const struct tree_node *tree_find_group(const struct tree *t, const char *id); /* among those that are up or coming up; NULL */

/* What a child is doing. The first three are OTP's; the others are seen with answer_at_once, or keep_failed, only. */
enum tree_state { TREE_UNDEFINED, TREE_RUNNING, TREE_RESTARTING, TREE_STARTING, TREE_STOPPING, TREE_BACKOFF, TREE_STATE_FAILED, TREE_STATE__N };

struct tree_view {
	const char *id;
	void *user;
	enum tree_type type;
	enum tree_restart restart;
	bool significant, alive; /* alive: running, and no exit has been reported */
	enum tree_state state;
	bool to_start;         /* it is down, and the restart that its group is at will start it */
	struct tree_ref ref;
	int64_t due_ms;        /* backoff: when it is started; stopping: when it is killed; 0: never */
	uint32_t restarts;     /* counted ones that began with this child */
	uint32_t streak;       /* those in a row */
	enum tree_exit exit;   /* the last one, if ended */
	bool ended;
};

struct tree_view tree_view(const struct tree_node *n);
const struct tree_node *tree_child_first(const struct tree_node *group); /* start order; NULL: none */
const struct tree_node *tree_child_next(const struct tree_node *child);
const struct tree_node *tree_child_last(const struct tree_node *group);
const struct tree_node *tree_child_prev(const struct tree_node *child);
struct tree_counts {
	uint32_t specs, active, groups, leaves;
};
struct tree_counts tree_count(const struct tree_node *group);
struct budget_view tree_budget(const struct tree *t, const struct tree_node *group, int64_t now_ms); /* "2 of 5 used" */

const char *tree_state_text(enum tree_state s);   /* "running" */
const char *tree_restart_text(enum tree_restart r);
const char *tree_strategy_text(enum tree_strategy s);
const char *tree_auto_text(enum tree_auto a);
const char *tree_exit_text(enum tree_exit e);     /* "shutdown" */
const char *tree_reply_text(enum tree_reply r);   /* "already_started" */
const char *tree_ask_text(enum tree_ask a);       /* "start_child" */
const char *tree_root_text(enum tree_root s);     /* "up" */
const char *tree_what_text(enum tree_what w);     /* "start_failed" */
const char *tree_why_text(enum tree_why w);       /* a sentence */
bool tree_exit_is_clean(enum tree_exit e);
/* One line for a person; returns its bytes, cut to room. */
size_t tree_action_text(const struct tree_action *a, char *to, size_t room);

#endif
