/* SPDX-License-Identifier: MIT
 *
 * The zygote: sandbox-host, started as `sandbox-host zygote`, which does once what every host needs, and is copied by the
 * kernel for each host (proto/zygote_wire.h). It never sees a byte of a module, of control or of another host.
 * Two tables of steps: prepare.c, once, here; birth.c, in each host, before anything of a module. */
#ifndef SANDBOXD_HOST_ZYGOTE_H
#define SANDBOXD_HOST_ZYGOTE_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/zygote/walls.h"
#include "proto/fd.h"
#include "proto/profile.h"
#include "proto/zygote_wire.h"

#define ZYGOTE_FILTER_MAX 4096 /* BPF_MAXINSNS */

/* Everything that the steps work on. One per process, static: the heap stays untouched, since each page of it that a host
 * writes to is copied for that host. */
struct zygote {
	int link_fd, proc_fd; /* -1: none */
	enum profile profile;
	bool rootless, wants_listener;
	uint32_t uid, gid;                /* rootless: of all */
	int landlock_abi;
	uint16_t n_filter;                /* 0: no filter */
	struct zygote_message request;    /* the newest */
	int fds[FD_MESSAGE_MAX];          /* that came with it */
	size_t n_fds;
	int granted_errno;                /* why a path that the profile grants can't be given; 0: all are */
	int cgroup_fd;                    /* of those: the cgroup of the host; -1: it stays in the zygote's */
	bool in_cgroup;                   /* in a host: it was cloned into it */
	int listener_fd;                  /* in a host, until it is born */
};

#define ZYGOTE_NAME "sandbox-zygote" /* as ps shows it; hosts take HOST_NAME */
#define HOST_NAME   "sandbox-host"
#define SPARE_NAME  "sandbox-spare" /* from when it waits until its BEGIN */
#define SPARE_BIRTH_NAME SPARE_NAME "~"

#define ZYGOTE_FDS_FROM 10 /* what a zygote keeps open lies here and above, beyond the numbers that a host's descriptors come under */

struct zygote_step {
	const char *name;
	int (*run)(struct zygote *z);     /* 0, or -1 with errno */
	enum protection protection;       /* run only when that is wanted; NONE: always */
	bool needs_request;               /* not tried beforehand */
};

/* What can't be had on this machine is found out once, by trying: the zygote's own steps, then a trial host's. From then on a step
 * that fails is a failed start: a module can't bring it about that its successor lacks a wall. */
enum zygote_mode { ZYGOTE_TRY, ZYGOTE_MUST };

/* Runs a table; -1 with the step that failed, errno is its own. TRY: the failure of a step with a protection is a loss. */
int zygote_steps(struct zygote *z, const struct zygote_step *steps, size_t n, enum zygote_mode mode, const char **ret_step);
int zygote_map_user(struct zygote *z, uint32_t uid, uint32_t gid); /* this process's new user namespace: itself to itself */
int zygote_attach(int mount_fd, int folder_fd, const char *to);    /* move_mount; to "": onto folder_fd itself */
int zygote_prepare(struct zygote *z, const char **ret_step); /* prepare.c */
int zygote_birth(struct zygote *z, enum zygote_mode mode, const char **ret_step); /* birth.c; in the host */
uint64_t zygote_namespaces(const struct zygote *z);          /* CLONE_NEW* that a host gets */

extern struct sock_filter zygote_filter[ZYGOTE_FILTER_MAX];  /* a page of it per 512 instructions is ever touched */

/* Serves the spawner on ZYGOTE_FD_LINK. Returns in each host, born: confined, descriptors 0 to HOST_FD_CHANNEL open and no
 * others. Never returns in the zygote, which exits when the spawner closes its end. */
void zygote_run(void);

#endif
