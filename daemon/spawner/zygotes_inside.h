/* SPDX-License-Identifier: MIT
 *
 * What zygotes.c (their lives) and births.c (their work) offer each other. */
#ifndef SANDBOXD_ZYGOTES_INSIDE_H
#define SANDBOXD_ZYGOTES_INSIDE_H

#include "daemon/spawner/zygotes.h"

/* ---- zygotes.c ---- */
void zygote_want(struct spawner *sp, struct zygote *z); /* makes one, if there is none and none has to be waited for */
void zygote_expect(struct zygote *z);                   /* an answer came, or one is due now: the deadline moves */
/* The one that is to make a host of this profile. */
struct zygote *zygote_for(struct spawner *sp, enum profile profile, bool is_fresh);
/* It was asked for one host more; false: it is dismissed, and is asked for no other. */
bool zygote_asked(struct spawner *sp, struct zygote *z);
bool zygotes_early_take(struct spawner *sp, pid_t pid, int *ret_status);

/* ---- births.c ---- */
struct clone_request {
	uint64_t tag;
	uint32_t flags;
	uid_t uid;
	const struct host_limits *limits;
	const char *folder; /* in the objects folder */
	const char *leaf;   /* of its cgroup; made by this, where there are any */
	const int *its;     /* channel, stdout, stderr */
};
/* -1 with errno: not sent; ret_step NULL: for want of room, or since its end is closed. */
int clone_ask(struct spawner *sp, const struct zygote *z, const struct clone_request *r, const char **ret_step);
int host_ends_make(int ours[3], int its[3], struct err *e); /* channel, stdout, stderr; -1: some of them may be open */
void births_send(struct spawner *sp, struct zygote *z); /* as far as there is room, and not too many are at work */
bool births_may_send(const struct spawner *sp, const struct zygote *z);
void birth_cloned(struct spawner *sp, struct zygote *z, const struct zygote_message *m);
void birth_born(struct spawner *sp, struct zygote *z, const struct zygote_message *m, pid_t pid, int *listener_fd); /* may take it */
void births_link_ended(struct spawner *sp, struct zygote *z);
void births_fail(struct spawner *sp, struct zygote *z, const char *step, int sys_errno); /* all that wait */

#endif
