/* SPDX-License-Identifier: MIT
 *
 * What of a sandbox is on disk, and what is on its way there: its row in the registry, its objects, its saved state. A change is
 * in force at once; its answer is held until the row is committed. A write that fails loses nothing: the old row stands, an event
 * says so, and the next change (or request) writes the whole row again.
 *
 * A sandbox with `persist: false` has none of this; its objects lie in the runtime folder and end with it. Loop thread only. */
#ifndef SANDBOXD_DURABLE_H
#define SANDBOXD_DURABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/control/control.h"
#include "daemon/front/rpc.h"
#include "daemon/store/database.h"
#include "daemon/supervise/life.h"

struct sandbox;
struct held_answer;

#define DURABLE_OBJECTS (LIMIT_VERSIONS + 2) /* versions, a candidate, and one that was just pruned */

/* The state before the newest: what a start falls back to. */
struct older_state {
	char sha256[SHA256_HEX_BYTES + 1]; /* "": none */
	uint64_t bytes;
	bool is_bad;             /* it was the newest, and is set aside: not to be begun from; there until another is saved */
};

/* A part of struct sandbox. */
struct on_disk {
	bool has_row;            /* a row of it was committed, by this process or an earlier one */
	bool wanted;             /* up after a restart of the machine: as the newest row says or will say */
	enum life_state state;   /* at the newest write: to write again when a sandbox that is down becomes failed, or no longer is */
	bool by_daemon;          /* its stop is the daemon's end: what is wanted doesn't change */
	bool failed;             /* the newest write that has ended did not go well */
	unsigned pending;        /* writes that have not ended */
	uint64_t begun, ended;   /* numbers of the newest write that was begun, and that has ended */
	char state_sha256[SHA256_HEX_BYTES + 1]; /* of the state that the row refers to; "": none */
	uint64_t state_bytes;
	/* What is to become of it: until a row that says so is committed, each write says it. */
	int state_fd;            /* a saved state, ours; -1: none */
	uint64_t state_fd_bytes;
	bool state_drop;         /* the row is to refer to none */
	unsigned state_number;   /* counts what was saved and dropped */
	unsigned state_begun;    /* the newest of these that a write carries */
	bool kept_there;         /* the state that the life keeps is that of the row, and in no memfd */
	bool kept_is_row;        /* it is that of the row, wherever it is; else a reload's */
	struct older_state older, elder; /* elder: what is older where that is the same as the row's, until the row is known */
	char state_refs[LIMIT_KEPT_STATES][SHA256_HEX_BYTES + 1]; /* files that stay on its account */
	char objects[DURABLE_OBJECTS][SHA256_HEX_BYTES + 1]; /* referred to, in memory or in the row */
	unsigned n_objects;
	struct blob *history;    /* of its versions: it is being destroyed, and this is kept; else NULL */
	struct held_answer *answers, **answers_end;
};

/* ---- the daemon's ---- */
int durable_new(struct control *c, struct err *e); /* c->durable */
void durable_free(struct control *c);
void durable_problem(struct control *c, const char *text); /* log, event, daemon.info */
void durable_json(const struct control *c, cJSON *to);     /* member `registry` */
/* Up, or on its way there, by a wish; on the way between states, and at the daemon's end, as it was `before`. */
bool durable_is_wanted(const struct sandbox *sb, bool before);
bool durable_is_busy(const struct control *c);             /* writes have not ended: the daemon's end waits for them */
/* While a new control reads what an earlier one left nothing is written; on: from then on. */
void durable_writing(struct control *c, bool on);
/* Removes the objects and states that nothing refers to. */
void durable_collect(struct control *c);

/* ---- one sandbox's ---- */
void durable_init(struct sandbox *sb);
void durable_fini(struct sandbox *sb);
void durable_object(struct sandbox *sb, const char *sha256); /* it refers to this object from now on */
/* The first write, in parallel with the start: object and row. `done` is called later. */
void durable_create(struct sandbox *sb, void (*done)(struct sandbox *sb, const struct err *e));
void durable_write(struct sandbox *sb);                      /* the row as it is now, and the saved state if it is new */
void durable_life(struct sandbox *sb);                       /* after each step of its life: writes if what is wanted has changed */
void durable_versions(struct sandbox *sb);                   /* its versions have changed, or a candidate has gone */
void durable_state_saved(struct sandbox *sb);                /* state_fd is the sealed state of an orderly stop or restart */
void durable_state_dropped(struct sandbox *sb);              /* a client wants it to begin anew */
void durable_state_gone(struct sandbox *sb);                 /* its file can't be read */
bool durable_has_older(const struct sandbox *sb);            /* than the one that its life keeps */
void durable_state_older(struct sandbox *sb);                /* that one is set aside, the older one is what its life keeps now */
void durable_states_found(struct sandbox *sb);               /* its spec and its row's state are read */
/* Its history of versions is kept, if that was asked for, or the one that was kept of an earlier sandbox of its id is dropped; then the row is deleted,
 * then its objects and its state, as far as nothing else refers to them. e: not durable; it may come back. */
void durable_forget(struct sandbox *sb, void (*done)(struct sandbox *sb, const struct err *e));
void durable_forgotten(struct sandbox *sb, bool ok); /* first thing in `done` */
/* It was found in the spawner's table: its objects are counted; of a volatile one's, what is left over is removed. */
void durable_taken_over(struct sandbox *sb);
/* What the registry had of a sandbox that the spawner's table has too: before its life is adopted, which may end it at once; */
void durable_row_found(struct sandbox *sb, const struct database_row *row);
/* and when all are adopted: writes it if they differ. row NULL: it had nothing. */
void durable_found(struct sandbox *sb, const struct database_row *row);
/* Its life was adopted later than that, since its host had to be asked: what a stop had saved is written. */
void durable_adopted(struct sandbox *sb);

/* Answers, held until what was written up to now is durable. json and extra are copied or taken. */
void durable_answer(struct sandbox *sb, struct rpc_request *r, cJSON *result_take);
void durable_answer_raw(struct sandbox *sb, struct rpc_request *r, const char *json, size_t size);
void durable_answer_error(struct sandbox *sb, struct rpc_request *r, const struct err *e, cJSON *extra_take);

#endif
