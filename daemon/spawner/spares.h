/* SPDX-License-Identifier: MIT
 *
 * Spare hosts: made in advance by a zygote, born like any other, behind all walls, with a uid and a folder of objects of their own; they
 * wait for the BEGIN of a sandbox. They belong to none, hold nothing of one, and stand in no table. One is used once, by a sandbox
 * that is started with the limits that it was made with: it brings its uid and its folder along. How many there should be is pool.c's
 * decision. Where hosts have no root of their own there are none: such a host knows its folder by its path. */
#ifndef SANDBOXD_SPARES_H
#define SANDBOXD_SPARES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spawner/cgroups.h"
#include "daemon/spawner/pool.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/profile.h"
#include "proto/spawner_wire.h"

struct entry;
struct spawner;
struct zygote;
struct zygote_message;

#define SPARE_PLACES (2 * LIMIT_SPARES) /* with those that have ended and aren't reaped */
#define SPARE_TAG    (1ull << 63)       /* in the tags of their requests: they are no generations */

struct spare {
	enum { SPARE_NONE, SPARE_COMING, SPARE_WAITING, SPARE_GONE } state;
	uint64_t tag;          /* without SPARE_TAG it is the number in its folder's name */
	pid_t pid;             /* 0: its zygote has not said it yet */
	uid_t uid;
	struct host_limits limits;
	int fds[3];            /* our ends: channel, stdout, stderr */
	bool own_pids;
	int listener_fd;       /* of its seccomp filter; -1: none */
	char leaf[CGROUP_LEAF_BYTES]; /* of its cgroup */
};

struct spares {
	struct pool pool;
	struct spare of[SPARE_PLACES];
	uint64_t last_number;
};

void spares_init(struct spares *s, uint32_t target);

/* One that waits and fits; NULL: none. Then its folder is given to a sandbox, which has one already or is new; -1 with err: the sandbox's
 * stays as it was, and the spare may have ended. At last it is the entry's process: the entry must have its uid by then. */
struct spare *spare_find(struct spawner *sp, enum profile profile, const struct host_limits *limits);
int spare_folder_give(struct spawner *sp, struct spare *s, enum profile profile, const char *sandbox, bool is_new, struct err *e);
void spare_start(struct spawner *sp, struct spare *s, struct entry *entry, enum profile profile);

/* ---- for zygotes.c ---- */
void spare_cloned(struct spawner *sp, struct zygote *z, const struct zygote_message *m);
void spare_born(struct spawner *sp, struct zygote *z, const struct zygote_message *m, pid_t pid, int *listener_fd); /* may take it */
bool spare_reaped(struct spawner *sp, pid_t pid);                   /* true: it was one */
bool spares_none(const struct spares *all);                         /* neither one that waits, nor one that has ended and is not reaped */
bool spares_coming(const struct zygote *z);                         /* pids that nobody knows yet may be theirs */
void spares_drop(struct spawner *sp, struct zygote *z);             /* their zygote is gone: the next one's are better */
void spares_link_ended(struct spawner *sp, struct zygote *z);       /* those that never came never will */
void spares_timer(struct spawner *sp, struct zygote *z, int64_t now_ms); /* makes those that are due; its zygote serves */
void spares_kill(struct spawner *sp, struct zygote *z);             /* the daemon ends */

#endif
