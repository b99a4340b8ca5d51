/* SPDX-License-Identifier: MIT
 *
 * Inner header of tree_*.c; nobody else includes it. Control process; pure.
 *
 * A group is a phase, one cursor into its children, and at most one wait. tree_group.c has the table of phase x
 * happening; group_happens alone writes `phase`. tree_child.c alone writes a child's `state`. An empty cell can't
 * come true: the events that could reach one are dropped before. */
#ifndef SANDBOXD_TREE_INNER_H
#define SANDBOXD_TREE_INNER_H

#include "daemon/supervise/tree.h"

#ifndef SEEDED
#define SEEDED(bug) 0 /* tests build these files with wrong beliefs put in, to see that they are found */
#endif

enum phase {
	PHASE_CLOSED,   /* no incarnation */
	PHASE_INIT,     /* starts its children; cursor: the next one */
	PHASE_UNDO,     /* one of them has failed: stops those that were started; cursor: the next one, backwards */
	PHASE_IDLE,     /* takes from the inbox */
	PHASE_ONE,      /* one_for_one: waits for the one */
	PHASE_SET_DOWN, /* stops the set, backwards from cursor to set_from */
	PHASE_SET_UP,   /* starts what is left of it */
	PHASE_REQ_START,
	PHASE_REQ_STOP,
	PHASE_ENDING,  /* stops all, backwards */
	PHASE_CLOSING, /* answers what waits in the inbox, then it is gone */
	PHASE__N
};

enum happening {
	ON_TURN, /* nothing is waited for */
	ON_READY,
	ON_FAILED,
	ON_IGNORED,
	ON_GONE,
	ON_CUT, /* rules.cut: the order from above, at once */
	ON__N
};

enum wait { WAIT_NONE, WAIT_READY, WAIT_GONE };
enum child_state { CHILD_UNDEFINED, CHILD_RUNNING, CHILD_RESTARTING };
enum message_kind { MESSAGE_EXIT, MESSAGE_RETRY, MESSAGE_STOP, MESSAGE_REQUEST };

struct message {
	struct message *prev, *next;
	struct tree_node *node;
	enum message_kind kind;
	bool queued, counted; /* counted: this retry is in the window already */
};

struct request {
	struct message message; /* first */
	uint64_t number;
	enum tree_ask ask;
	struct tree_node *added; /* START_CHILD: owned until it is in the list */
	char child[LIMIT_ID_BYTES + 1];
};

/* Retries of one child that can wait at once: without back-off another's crash may queue a second one. Beyond these they are merged. */
#define RETRIES 4

struct tree_node {
	char id[LIMIT_ID_BYTES + 1];
	enum tree_type type;
	enum tree_restart restart;
	enum child_state state;
	enum tree_exit exit;
	bool significant, original, listed, alive, ended;
	bool killed;    /* the present process was, or is going to be: never twice */
	bool cancelled; /* its start was cut: not ready, and to be gone */
	bool dormant;   /* was undefined when a restart of its siblings took it along */
	bool gave_up, failed;
	int64_t shutdown_ms, ready_ms;
	void *user;
	bool kept; /* the next three are of an earlier tree, and not used yet */
	int64_t kept_due_ms, kept_ready_ms;
	uint32_t slot, streak, restarts;
	uint64_t instance;
	struct tree_group *parent; /* NULL: the top */
	struct tree_group *group;  /* NULL: a leaf */
	struct tree_node *prev, *next;    /* in its group's list */
	struct tree_node *original_next;  /* in its group's list of originals */
	struct tree_node *grave;
	struct message exited, retries[RETRIES];
	int64_t due_ms; /* the one timer: deadline of a stop, or back-off; 0: not armed */
	struct tree_node *due_prev, *due_next;
};

struct tree_group {
	struct tree_node *node;
	enum tree_strategy strategy;
	enum tree_auto auto_shutdown;
	struct budget_policy policy;
	struct budget budget; /* in milliseconds, or whole seconds: rules.exact_ms */
	bool kept_budget;     /* it is of an earlier tree, and goes on in the first start */
	enum phase phase;
	enum wait wait;
	bool failing;             /* its own start has failed */
	enum tree_why why_ending, why_restart;
	struct tree_node *waited;
	struct tree_node *cursor, *set_from; /* set_from NULL: all */
	struct tree_node *crasher;           /* whose end or failed start the restart at work is about */
	struct tree_node *originals, *first, *last;
	uint32_t n_children, n_requests;
	struct message *inbox, *inbox_last;
	struct message stop;
	struct request *request; /* at work */
	struct tree_group *work_next;
	bool in_work;
};

struct tree {
	struct tree_rules rules;
	struct tree_node *top;
	enum tree_root root;
	enum tree_why root_why;
	bool stop_asked, hurry;
	struct tree_node **slots;
	uint32_t n_slots, n_nodes, free_hint;
	uint64_t instances;
	struct tree_group *work, *work_last, *current;
	struct tree_node *due_first, *due_last; /* by due_ms */
	int64_t told_due_ms, timers_until_ms;
	struct tree_node *dead, *dead_last; /* to be released */
	struct tree_node *buried;           /* released in this step: freed by the next */
	/* of the step that runs */
	int64_t now_ms;
	uint32_t random;
	struct tree_actions *out;
	bool hold; /* the list must end here */
};

/* tree.c */
struct tree_action *tree_emit(struct tree *t, enum tree_what what, const struct tree_node *n, enum tree_why why);
void tree_work(struct tree *t, struct tree_group *g);
void tree_work_first(struct tree *t, struct tree_group *g);
void tree_work_forget(struct tree *t, struct tree_group *g);
void tree_root_up(struct tree *t);
void tree_root_ending(struct tree *t, enum tree_why why);
void tree_root_gone(struct tree *t, enum tree_exit exit);
/* tree_inbox.c */
void inbox_put(struct tree_group *g, struct message *m);
void inbox_put_first(struct tree_group *g, struct message *m);
void inbox_remove(struct tree_group *g, struct message *m);
struct message *inbox_take(struct tree_group *g);
void timer_arm(struct tree *t, struct tree_node *n, int64_t due_ms);
void timer_clear(struct tree *t, struct tree_node *n);
void list_append(struct tree_group *g, struct tree_node *n);
void list_remove(struct tree_group *g, struct tree_node *n);
/* tree_group.c */
bool group_happens(struct tree *t, struct tree_group *g, enum happening what, struct tree_node *child);
void group_open(struct tree *t, struct tree_group *g);
bool group_has_work(const struct tree_group *g);
void group_ask(struct tree *t, struct tree_group *g);
enum phase group_finish(struct tree *t, struct tree_group *g, enum tree_why why);
/* tree_child.c */
void child_start(struct tree *t, struct tree_node *n, enum tree_why why);
bool child_waits_on(struct tree *t, struct tree_node *n);
void child_started(struct tree *t, struct tree_node *n, enum happening how);
void child_gone(struct tree *t, struct tree_node *n, enum tree_exit exit);
void child_stop(struct tree *t, struct tree_node *n, enum tree_why why); /* then waits, or it is gone already */
void child_cancel(struct tree *t, struct tree_node *n);
void child_stopped(struct tree *t, struct tree_node *n);
void child_forget(struct tree *t, struct tree_node *n);
void child_restarting(struct tree *t, struct tree_node *n);
void child_reset(struct tree_node *n);
void child_time_is_over(struct tree *t, struct tree_node *n);
void child_remove(struct tree *t, struct tree_node *n);
/* tree_decide.c */
enum phase decide_message(struct tree *t, struct tree_group *g, struct message *m);
enum phase decide_restart_failed(struct tree *t, struct tree_group *g, struct tree_node *n);
enum phase decide_ended(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_why why);
bool decide_count(struct tree *t, struct tree_group *g, struct tree_node *n, enum tree_why why);
/* tree_request.c */
enum tree_result request_come(struct tree *t, const struct tree_event *ev);
enum phase request_take(struct tree *t, struct tree_group *g, struct request *r);
void request_reply(struct tree *t, struct tree_group *g, struct request *r, enum tree_reply reply);
/* tree_build.c */
struct tree_node *build_node(struct tree *t, const struct tree_spec *spec, const struct tree_spec *parent, uint32_t depth, struct err *e);
void build_bury(struct tree *t, struct tree_node *n);
void build_free(struct tree *t, struct tree_node *n);
uint32_t build_depth(const struct tree_group *g);

static inline bool restart_delayed(const struct tree *t)
{
	return t->rules.backoff_first_ms > 0;
}

#endif
