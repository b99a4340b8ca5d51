/* SPDX-License-Identifier: MIT
 *
 * Landlock: the ruleset that the zygote makes once, from a policy and the folders of its root, and that each host puts on itself. Which
 * rights there are depends on the kernel's ABI: what the running one lacks is told, not asked for. Rules hold for what is mounted
 * below their folder later. Runs in the zygote and in hosts, before any module code. */
#ifndef SANDBOXD_HOST_LANDLOCK_H
#define SANDBOXD_HOST_LANDLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/landlock_abi.h"
#include "proto/profile.h"

/* What module code may do below a folder. Executing is in none: dlopen maps, it doesn't execute. */
#define LANDLOCK_READ_ONLY  (LL_FS_READ_FILE | LL_FS_READ_DIR)
#define LANDLOCK_READ_WRITE                                                                                  \
	(LANDLOCK_READ_ONLY | LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR | LL_FS_MAKE_REG |          \
		LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER | LL_FS_TRUNCATE)

struct landlock_folder {
	const char *path;
	uint64_t rights; /* LL_FS_*; those that aren't handled mean nothing */
	bool is_granted; /* by the administrator: no part of the path may be a link by now, which a module may have made */
};

struct landlock_ruleset {
	int fd;                    /* -1: nothing to restrict, since the policy asks for nothing or the kernel has nothing of it */
	int abi;                   /* the ABI that was used; 0: the kernel has no Landlock, or it is off */
	uint64_t fs, net, scopes;  /* handled */
	char got[96];              /* "files, tcp, abstract sockets, signals (ABI 7)"; "": nothing */
	char lacks[200];           /* what was asked for and isn't handled, with the kernel that has it; "": nothing */
};

/* The kernel's ABI; 0 with errno ENOSYS (not built in) or EOPNOTSUPP (switched off). */
int landlock_abi(void);
/* Pure: what of a policy an ABI covers; fills all but fd. */
void landlock_cover(const struct policy *p, int abi, struct landlock_ruleset *ret);
/* abi: -1 for the kernel's own; a smaller one is pretended, a larger one isn't believed. A folder that isn't there is an error.
 * 0 also where there is nothing to do (fd -1); -1 with err and errno. The caller closes fd. */
int landlock_make(const struct policy *p, int abi, const struct landlock_folder *folders, size_t n, struct landlock_ruleset *ret,
	struct err *e);
/* From now on, for this thread and all that it starts. Needs no_new_privs. 0, or -1 with errno. fd -1: does nothing. */
int landlock_restrict(int fd);

#endif
