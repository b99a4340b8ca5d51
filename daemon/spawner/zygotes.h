/* SPDX-License-Identifier: MIT
 *
 * Zygotes, one per profile, and the births that they carry out (proto/zygote_wire.h). A zygote is started with the first
 * host of its profile, and again when it has died; what was asked of a dead one and had no answer is asked of the next.
 * One that has made config.zygote_hosts hosts, or is config.zygote_age_ms old, is dismissed: it carries out what it was asked, and ends; the
 * next one follows. Its hosts aren't its children, and live on.
 * A host that is to have an address space of its own (SPAWNER_F_FRESH) gets a zygote of its own: by the same steps, and dismissed with that host. */
#ifndef SANDBOXD_ZYGOTES_H
#define SANDBOXD_ZYGOTES_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/spawner/spares.h"
#include "daemon/spawner/table.h"
#include "proto/profile.h"
#include "proto/zygote_wire.h"

struct spawner;

/* A host on its way: what its process gets, until it says that it has it. Ordered by its start in its zygote's list; those that
 * were sent stand before those that weren't. */
struct birth {
	struct entry *entry;
	struct birth *previous, *next;
	enum profile profile;
	struct zygote *zygote; /* in whose list it is */
	bool sent, cloned;
	int fds[3]; /* its ends of channel, stdout, stderr */
};

struct zygote {
	enum profile profile;
	enum zygote_state {
		ZYGOTE_NONE,     /* the next start, or retry_at_ms, makes one */
		ZYGOTE_PREPARES, /* exec and its steps */
		ZYGOTE_SERVES,
		ZYGOTE_GONE      /* dead, or to be killed: what its hosts in birth still say is heard to the end of the link */
	} state;
	pid_t pid;               /* 0: reaped, or never there */
	int link_fd;
	bool has_root, has_pids; /* its hosts get a root, a pid namespace of their own */
	uint64_t lost;
	unsigned failures;       /* since one last served */
	int64_t deadline_ms;     /* for the answer that is due; NEVER */
	int64_t retry_at_ms;     /* NEVER: none is wanted */
	int filter_fd;           /* made once; -1: not yet. Of those of a single host: never */
	bool is_single;          /* makes one host */
	bool dismissed;          /* its end was asked for */
	uint32_t n_asked;        /* hosts that it was asked for */
	int64_t renew_at_ms;     /* NEVER: it has made none */
	char step[LIMIT_ID_BYTES + 1]; /* at which the newest failed */
	int sys_errno;
	struct birth *first, *last, *next_unsent;
	unsigned n_sent;         /* births that it was asked for, and that have not ended */
	struct spares spares;
};

/* An exit whose pid nobody knows yet: its zygote's word is still on its way. */
#define EARLY_EXITS 64
struct early_exit {
	pid_t pid; /* 0: free */
	int status;
};

/* By profile; then those of a single host, whose profile is that of the first birth in their list. */
#define ZYGOTES (PROFILE_NONE + LIMIT_FRESH_AT_ONCE)

struct zygotes {
	struct zygote of[ZYGOTES];
	struct early_exit early[EARLY_EXITS];
	unsigned n_early_next;
	unsigned births_at_work; /* n_sent of each at most */
};

void zygotes_init(struct zygotes *all, uint32_t spares);
void zygotes_close(struct spawner *sp);          /* also births that are under way */

/* A host of this profile: channel and pipes are there at once, the process follows. -1 with err: nothing has changed. */
int birth_start(struct spawner *sp, struct entry *entry, enum profile profile, bool is_fresh, const struct host_limits *limits, struct err *e);
/* Ends what is left of an entry's birth; with the entry's exit. NULL-safe. */
void birth_drop(struct spawner *sp, struct entry *entry);

int zygotes_pollfds(const struct spawner *sp, struct pollfd fds[ZYGOTES]);
void zygotes_ready(struct spawner *sp, const struct pollfd fds[ZYGOTES]);
void zygotes_read(struct spawner *sp);           /* all that has come */
struct zygote *zygote_find_pid(struct spawner *sp, pid_t pid);
void zygote_reaped(struct spawner *sp, struct zygote *z, int status);
void zygote_step_failed(struct zygote *z, const char *step, int sys_errno); /* before exec */
bool zygotes_early_exit(struct spawner *sp, pid_t pid, int status); /* an unknown child: true when it may be a host's */
void zygotes_timer(struct spawner *sp, int64_t now_ms);
void zygotes_go_on(struct spawner *sp);          /* births that waited for others to end; once a turn */
void zygotes_drain(struct spawner *sp);          /* ends those that have no birth under way, and all spare hosts; the next ones are another program's */
bool zygotes_drained(const struct spawner *sp);  /* none is left, and no birth */
int64_t zygotes_deadline(const struct spawner *sp);
void zygotes_kill(struct spawner *sp);           /* the daemon ends */

#endif
