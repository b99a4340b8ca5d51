/* SPDX-License-Identifier: MIT
 *
 * What the spawner holds for each sandbox, over the deaths of control: descriptors, the host process, its exit until it is
 * acknowledged. Found by name, by pid, by slot (the cursor of SPAWNER_TABLE). Pure but for closing descriptors. */
#ifndef SANDBOXD_TABLE_H
#define SANDBOXD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spawner/cgroups.h"
#include "proto/ebb.h"
#include "proto/err.h"
#include "proto/profile.h"
#include "proto/spawner_wire.h"

/* Index of a descriptor of an entry; 1 << index is its SPAWNER_F_ bit. */
enum entry_fd { ENTRY_SPEC, ENTRY_STATE, ENTRY_RING, ENTRY_CHANNEL, ENTRY_STDOUT, ENTRY_STDERR, ENTRY_CHECKPOINT, ENTRY_FD__N };

struct entry {
	char sandbox[LIMIT_ID_BYTES + 1];
	char folder[LIMIT_ID_BYTES + sizeof SPAWNER_SECOND_FOLDER]; /* of its objects: the sandbox's first or second */
	struct entry *other;       /* a second process: a candidate's, or the one that was replaced; in no slot and under no name. NULL: none */
	bool is_candidate;         /* an `other` that may be promoted */
	bool unwanted;             /* it was an `other`: nobody is told of it any more, and it goes when its process has ended */
	struct entry *next_gone;
	uid_t uid; /* its hosts'; (uid_t)-1: none of its own */
	int fds[ENTRY_FD__N];
	int listener_fd;           /* of its seccomp filter; -1: none. Closed by denials_unwatch only */
	int listener_set;          /* the epoll set that it is in; not owned */
	uint32_t n_denials;        /* of this generation */
	uint32_t host_build;       /* of the program that the newest start runs; programs.h */
	enum profile profile;      /* of the newest start */
	struct host_limits limits; /* of the newest start */
	uint64_t generation;       /* of the newest start; 0: never started */
	bool starting;             /* its process is asked for; it isn't born, and may not even be cloned */
	bool kill_wanted;          /* as soon as its pid is known */
	bool birth_unsent;         /* control that lives now has not been told its pid */
	pid_t pid;                 /* > 0: lives, or is not reaped yet */
	bool own_pids;             /* its process is the first of a pid namespace: all others of it end with it */
	bool loose;                /* one that had none has run under this uid: others may be left over */
	bool frozen;               /* every process of it was stopped, by us */
	bool frozen_by_cgroup;     /* not by signals */
	bool exited;               /* the newest generation has ended, unacknowledged */
	bool exit_unsent;          /* control that lives now has not been told */
	int status;
	int64_t started_ms, ended_ms;
	uint64_t dropped_bytes;
	char leaf[CGROUP_LEAF_BYTES]; /* of its process's cgroup; "": it has ended, or there are none */
	bool oom;                  /* the newest generation was killed for its memory */
	char step[LIMIT_ID_BYTES + 1]; /* of the set-up, that failed */
	char text[96];
	uint32_t slot;
	struct entry *next_name, *next_pid; /* hash chains */
	struct entry *next_fact;   /* of those with something that control has not been told */
	bool has_fact;
	struct birth *birth;       /* while starting: zygotes.c's, owned */
};

#define TABLE_BUCKETS 4096u

struct table {
	struct entry **slots;
	uint32_t max, n, n_slots; /* limit; entries; slots in use or once used */
	uint32_t n_living;
	struct ebb ebb;
	struct entry *gone;       /* unwanted ones whose process has ended */
	uint32_t n_unwanted;      /* with those whose process still lives */
	struct entry *facts, **facts_end; /* entries with a birth or an exit unsent; never walks the table for one of them */
	struct entry *names[TABLE_BUCKETS], *pids[TABLE_BUCKETS];
};

int table_init(struct table *t, uint32_t max, struct err *e);
void table_fini(struct table *t); /* closes everything */

struct entry *table_find(const struct table *t, const char *sandbox);    /* borrowed; NULL */
struct entry *table_find_pid(const struct table *t, pid_t pid);          /* borrowed; NULL */
struct entry *table_from(const struct table *t, uint64_t cursor);        /* the first entry whose slot is >= cursor */
struct entry *table_fact(struct table *t);                               /* the first with a fact unsent; NULL */
struct entry *table_add(struct table *t, const char *sandbox, struct err *e); /* the caller looked: it isn't there */
void table_remove(struct table *t, struct entry *entry);                 /* no host lives; closes, frees */

/* ---- second processes ---- */

bool entry_is_second(const struct entry *entry);                     /* its objects are in the second folder */
void entry_folder_set(struct entry *entry, bool is_second);
struct entry *entry_other_add(struct entry *entry, struct err *e);   /* a candidate: in the other folder, without a uid, never started. It has none */
struct entry *entry_of_generation(struct entry *entry, uint64_t generation); /* it or its other; NULL */
/* The candidate, which lives, is the sandbox's process; spec (owned), ring and checkpoint are its (a mirror, which is owned, takes that place; -1:
 * none); the state that was kept is closed. Returns it; the entry before is its other. */
struct entry *entry_promote(struct table *t, struct entry *entry, int spec_fd_take, int mirror_fd_take);
/* It has no other any more: that one goes when its process has ended (the caller kills it). */
void entry_other_drop(struct table *t, struct entry *entry);
struct entry *table_gone(struct table *t); /* one that can go, taken out of the table: the caller frees its uid, then itself. NULL */
void entry_free(struct entry *entry);      /* closes everything */

static inline bool entry_lives(const struct entry *entry)
{
	return entry->pid > 0 || entry->starting;
}

/* The steps of a host's life; nothing else writes starting, pid, exited and the unsent flags. A host may also exit while it is
 * starting. */
void entry_started(struct table *t, struct entry *entry, uint64_t generation, int64_t now_ms);
void entry_has_pid(struct table *t, struct entry *entry, pid_t pid);
void entry_born(struct entry *entry);
void entry_has_own_pids(struct entry *entry, bool own_pids); /* told when its process is asked for */
void entry_birth_sent(struct entry *entry);
void entry_exited(struct table *t, struct entry *entry, int status, int64_t now_ms);
void entry_exit_sent(struct entry *entry);
void entry_acknowledged(struct table *t, struct entry *entry); /* closes channel and pipes */

/* Fills an ENTRY or EXITED message, and for the former the descriptors (borrowed). */
void entry_describe(const struct entry *entry, struct spawner_message *m);
size_t entry_borrow_fds(const struct entry *entry, struct spawner_message *m, int fds[ENTRY_FD__N]);

#endif
