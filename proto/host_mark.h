/* SPDX-License-Identifier: MIT
 *
 * Whose a process is, where neither a pid namespace nor a user of its own tells: each host without a pid namespace carries a mark, which all
 * that descend from it inherit, over setsid, fork and exec, and when they are orphans. It is the hard limit of RLIMIT_LOCKS, which Linux has not looked at
 * since 2.4: any process of the same user can read it, and none can raise it without CAP_SYS_RESOURCE. Lowered, it is the mark of a
 * host that isn't there, and so a stray's.
 * (prctl's "subreaper" would keep orphans below their host, but a host can't tell them from the children that its module waits for, and no more once
 * it is dead.) Host, spawner; async-signal-safe. */
#ifndef SANDBOXD_HOST_MARK_H
#define SANDBOXD_HOST_MARK_H

#include <sys/types.h>

void host_mark_set(void);      /* this process is a host. Where the limit is lower already, there is no mark */
/* Of a process, also of a zombie, asked by one that isn't a host: its host's pid; -1: it has lowered it; 0: it has none, or can't be asked. */
pid_t host_mark_of(pid_t pid);

#endif
