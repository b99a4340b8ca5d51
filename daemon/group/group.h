/* SPDX-License-Identifier: MIT
 *
 * Groups: supervision trees of sandboxes. daemon/supervise/tree.h decides; here its orders become requests to the lives of sandboxes, and what
 * these tell becomes its events. A top-level group has a tree; the groups below it are parts of that. While a sandbox is in a group its own
 * restart policy is off (struct sandbox, keeper).
 *
 *   groups.c        the groups by id, who is in them, what of them is on disk
 *   group_build.c   what a tree is built of
 *   group_tree.c    a tree is built, stepped, its orders are carried out
 *   group_keeper.c  what a member's life tells its group
 *   group_request.c what clients ask for
 *   group_json.c    shows them
 *   group_explain.c what they decided, in sentences
 *
 * A group is changed by what its members are: the list that a tree begins with is that of the members at the moment when the top-level group is
 * started. Loop thread only. */
#ifndef SANDBOXD_GROUP_H
#define SANDBOXD_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>
#include <uv.h>

#include "daemon/control/control.h"
#include "daemon/front/rpc.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/store/database.h"
#include "daemon/supervise/tree.h"

struct group;

/* A place in a group, of a sandbox or of a group. A tree's node points to it, so it lives until both have let go. */
struct member {
	struct sandbox *sandbox;         /* NULL: a group, or it is gone */
	struct group *group;             /* the group that it is; NULL: a sandbox, or it is gone */
	struct group *in;
	unsigned nodes;                  /* of the tree that point here: an original one stays when the member is removed */
	bool listed;                     /* in the group's list, as the tree has it */
	bool is_dead;                    /* removed: freed when no node points here */
	bool is_asked;                   /* by the tree: an order to stop is out */
	bool start_when_down;
	struct tree_ref ref;             /* of the instance that the tree knows; instance 0: none */
};

/* What is to be told to the tree; the answer goes to the request. */
enum pending_kind { PENDING_START_CHILD, PENDING_STOP_CHILD, PENDING_RESTART_CHILD, PENDING_REMOVE, PENDING_DESTROY, PENDING_GROUP, PENDING_SILENT };

struct pending {
	struct pending *next;
	uint64_t number;                 /* of the tree's request; 0: waits for UP or DOWN of the whole */
	enum pending_kind kind;
	enum tree_ask ask;
	bool wants_up;                   /* number 0: answered at UP (or FAILED), else at DOWN */
	bool then_start;                 /* the second half of a restart follows */
	bool keep;
	struct rpc_request *request;     /* NULL: nobody waits */
	struct member *member;           /* NULL: it is gone */
	struct group *group;             /* in whose inbox it is, or the top */
};

struct group {
	char id[LIMIT_ID_BYTES + 1];
	char parent_id[LIMIT_ID_BYTES + 1]; /* "": top-level */
	struct control *control;
	uid_t owner;
	int64_t created_at_ms;           /* wall clock, unique: the order among siblings */
	enum tree_strategy strategy;
	enum tree_auto auto_shutdown;
	uint32_t intensity, period_ms;
	enum tree_restart restart;       /* in its parent */
	bool significant;
	bool wanted;                     /* up after a restart of the machine */
	bool failed;                     /* it gave up, or could not start; until start or reset */
	char why[128];                   /* a sentence */
	uint32_t restarts;               /* counted by it */
	bool stop_asked;                 /* by a client, since it was started: the states are kept */
	struct group *parent;            /* NULL: top-level */
	struct member *member;           /* its place in its parent */
	/* top-level only */
	struct tree *tree;               /* NULL: down */
	uv_timer_t due, pump;
	struct fact { struct tree_event event; struct pending *asked; } *facts; /* not told to the tree yet */
	size_t n_facts, room_facts;
	struct pending *pending;
	uint64_t last_number;
	bool stepping, start_again;      /* in a step; what follows when it is down */
	bool for_daemon;                 /* its stop is the daemon's end */
	uint64_t end_ms;                 /* the daemon's end: what its members may take */
	unsigned writes;                 /* storage jobs that have not ended */
	unsigned open_handles;
	bool is_gone;
	struct group_decision *decisions; /* group_explain.c: a ring; NULL: none yet */
	uint64_t n_decisions;            /* ever */
	UT_hash_handle hh;
};

/* ---- groups.c ---- */
struct group *group_find(const char *id);                   /* NULL: none */
struct group *group_first(void);                            /* in the order of creation; next: hh.next */
size_t group_count(void);
struct group *group_top(struct group *g);
struct group *group_new(struct control *c, const char *id, int64_t created_at_ms);
void group_gone(struct group *g);                           /* out of the list; freed when its handles are closed */
bool group_has_members(const struct group *g);
bool group_begins(const struct group *top);                 /* its tree is to be told to start, and nothing else before */
bool group_is_settled(struct group *g);                     /* neither on its way up nor down, and nothing waits to be told to its tree */
/* The members of g in start order: an array to free, NULL for none or no memory. */
struct member **group_members(const struct group *g, size_t *ret_n);
struct member *member_new(struct group *in, struct sandbox *sandbox, struct group *group);
void member_detach(struct member *m);                       /* removed from its group */
void member_released(struct member *m);                     /* the tree points to it no more */
/* Its row, as it is now (or deleted); r (may be NULL) is answered when that is durable. */
void group_write(struct group *g, struct rpc_request *r);
void group_delete(struct group *g, struct rpc_request *r);
/* Before the take-over: takes the rows. */
void groups_load(struct control *c, struct database_found *found);
/* After it, before clients are let in: sandboxes find their groups, and what was wanted is started. */
void groups_begin(struct control *c);
void groups_stop_for_end(struct control *c, bool hurry);    /* the daemon ends */
bool group_stops_by_itself(const struct sandbox *sb);       /* at the daemon's end its group stops it */

/* ---- group_keeper.c ---- */
bool member_view(const struct sandbox *sb, struct tree_view *ret); /* how its group has it; false: not at all */
extern const struct sandbox_keeper group_keeper;

/* ---- group_build.c ---- */
struct tree_spec member_spec(struct member *m);
bool member_is_finished(const struct member *m);            /* a temporary one isn't run again */
/* The specs of its members, to be freed by group_specs_free; 0, or -1: no memory. The tree copies all of it. goes_on: it takes the place of
 * an earlier control's; then *ret_window, to be freed, is what it had counted. */
int group_specs_of(const struct group *g, bool goes_on, struct tree_spec **ret, size_t *ret_n, struct budget **ret_window);
void group_specs_free(struct tree_spec *specs, size_t n);
void group_specs_mark(const struct tree_spec *specs, size_t n); /* a tree has nodes of them now */

/* ---- group_tree.c ---- */
/* goes_on: it takes the place of an earlier control's: windows and back-offs go on. */
int group_start_tree(struct group *top, bool goes_on, struct err *e);
void member_start(struct group *top, struct member *m, enum tree_why why); /* as the tree has ordered */
void member_fact(struct group *top, enum tree_event_type type, struct tree_ref ref, enum tree_exit exit);
bool member_is_up(const struct sandbox *sb);
bool member_is_down(const struct sandbox *sb);              /* no process, and none is coming by itself */
/* Its owner sees it. m, a: the member, the decision that it is about; NULL: none. */
void group_event(struct group *g, const char *type, struct member *m, const struct tree_action *a);
void group_fact(struct group *top, const struct tree_event *ev); /* told soon, never from inside */
/* A request to the tree about m; pending_done follows, perhaps from inside. No memory: r is answered. */
void member_ask(enum pending_kind kind, enum tree_ask ask, struct member *m, bool then_start, struct rpc_request *r);
void group_tree_end(struct group *top);                     /* forgets its tree */

/* ---- group_request.c ---- */
rpc_handler group_create, group_list, group_info, group_destroy, group_add, group_remove, group_start, group_stop, group_restart, group_reset,
	group_tree_request;
/* A sandbox that is in a group is stopped, started ... by the group. type: LIFE_START, STOP, RESTART, DESTROY. */
const struct rpc_done *group_sandbox_request(struct sandbox *sb, struct rpc_request *r, enum life_event_type type, bool keep);
/* sandbox.create: the group that it names, where it may begin; -1 with err. *ret NULL: none is named. */
int group_of_create(struct control *c, const struct rpc_request *r, struct group **ret, struct err *e);
void group_join(struct group *g, struct sandbox *sb);
void pending_done(struct group *top, struct pending *p, enum tree_reply reply);
void pending_whole(struct group *top, bool up);             /* UP, DOWN or FAILED has come */

/* ---- group_explain.c ---- */
enum group_decided {
	GROUP_DECIDED_RESTART,
	GROUP_DECIDED_BACKOFF,
	GROUP_DECIDED_STAYS,             /* a member that has ended isn't started again */
	GROUP_DECIDED_GAVE_UP,
	GROUP_DECIDED_ENDING,
	GROUP_DECIDED_UP,
	GROUP_DECIDED_DOWN,
	GROUP_DECIDED_FAILED             /* g->why */
};
/* A sentence in its ring. m: the member that it is about, NULL: none; a: the tree's action, NULL for the last three. */
void group_decision(struct group *g, enum group_decided what, const struct member *m, const struct tree_action *a);
void group_decided(struct group *g, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
const struct rpc_done *group_explain(struct group *g, struct rpc_request *r);

/* ---- group_json.c ---- */
void group_json(struct group *g, struct json_out *o, const char *key, bool deep);
const char *group_status(struct group *g);
struct budget_view group_budget(struct group *g); /* nothing used while it is down */
const struct rpc_done *group_answer(struct rpc_request *r, struct group *g);

#endif
