/* SPDX-License-Identifier: MIT
 *
 * The upgrade of a running daemon: the program that lies where this one was started takes its place, by exec, in the same process. Hosts stay
 * its children; the listening socket, the locks and what is kept of sandboxes cross as descriptors (handover.h).
 *
 *   CHECKS   the new program is run beside this one, and says whether it can read all that it will be given. No: nothing has been touched
 *   LEAVES   control answers what is due, waits for its storage, and ends
 *   DRAINS   hosts in birth are born, spare hosts, zygotes and compile jobs end: they are the old program's. Then exec
 *
 * Whatever fails on the way, the old program goes on, with a new control. Never blocks. Spawner only. */
#ifndef SANDBOXD_UPGRADE_H
#define SANDBOXD_UPGRADE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/config.h"
#include "proto/err.h"

struct spawner;
struct options;
struct handover;

struct upgrade {
	enum { UPGRADE_NONE, UPGRADE_CHECKS, UPGRADE_LEAVES, UPGRADE_DRAINS } state;
	char *const *argv;      /* of main, borrowed: the new program gets it too */
	char path[LIMIT_PATH_BYTES + 1]; /* where this program was started; "": it can't be told */
	pid_t pid;              /* of the check; 0: it is reaped */
	int program_fd;         /* what is checked is what takes over */
	int output_fd;          /* what the check has said */
	int64_t deadline_ms;    /* of the state; NEVER */
	bool overdue;           /* the check was killed for it */
	enum { UPGRADE_SAYS_NOTHING, UPGRADE_SAYS_GO, UPGRADE_SAYS_REFUSED } says; /* control has not been told */
	char reason[sizeof((struct err *)0)->text];
	uint32_t done;          /* so many since the daemon's start */
	bool untold;            /* the first control after one does not serve yet */
};

void upgrade_init(struct upgrade *u);
void upgrade_begin_at(struct upgrade *u, char *const *argv); /* at the start of the program: where it lies */
void upgrade_close(struct upgrade *u);

void upgrade_asked(struct spawner *sp, const char *by, int64_t now_ms);
bool upgrade_reaped(struct spawner *sp, pid_t pid, int status, int64_t now_ms); /* true: it was the check */
bool upgrade_drains(const struct spawner *sp);      /* no zygote and no spare host is to be made any more */
bool upgrade_control_left(struct spawner *sp, int64_t now_ms); /* control has ended; true: none is to follow now */
void upgrade_timer(struct spawner *sp, int64_t now_ms); /* once a turn: also what is done when others have ended */
int64_t upgrade_deadline(const struct spawner *sp);

/* ---- upgrade_table.c ---- */
/* What the spawner holds, as bytes. The caller's to free. NULL with err. */
void *upgrade_pack(const struct spawner *sp, size_t *ret_size, struct err *e);
/* In the new program: the spawner of this table. What follows a first failure is undefined: the program ends. */
int upgrade_take_over(struct spawner *sp, const struct config *c, const struct handover *h, struct err *e);
/* May a daemon with this table go on with this configuration? */
int upgrade_config_check(const struct config *c, const struct handover *h, struct err *e);

/* ---- upgrade_check.c: in the new program ---- */
#define UPGRADE_CHECK_FD 3
#define UPGRADE_GOOD     "can take over\n"
/* --can-take-over FD: says UPGRADE_GOOD, or why not. Touches nothing. Returns the exit status. */
int upgrade_can_take_over(const char *fd_text, const struct config *c);
/* --take-over FD: the table, in memory that is never given back. All descriptors but those that it names are closed, and those will not cross another
 * exec. -1 with err. */
int upgrade_table_open(const char *fd_text, struct handover *ret, struct err *e);

#endif
