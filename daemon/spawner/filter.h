/* SPDX-License-Identifier: MIT
 *
 * The seccomp filter of a profile, made once in the spawner from calls.def: a program in a sealed memfd, which zygotes and hosts only
 * install.
 *
 * libseccomp makes it, a tree over the numbers of system calls. A call of which only some arguments are allowed needs one answer for all
 * others, of its own (prctl: EPERM, ioctl: ENOTTY, unknown calls: ENOSYS), and libseccomp has a single default and one comparison
 * per argument and rule: such calls get a block of instructions of our own behind its program. Its heap stays in the spawner: zygotes
 * are exec'ed. Runs in the spawner; filter_decide is pure. */
#ifndef SANDBOXD_FILTER_H
#define SANDBOXD_FILTER_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/profile.h"

struct filter {
	int fd;                  /* sealed memfd of struct sock_filter; the caller closes it */
	uint32_t n_instructions; /* at most BPF_MAXINSNS */
};

struct filter_verdict {
	uint32_t ret;             /* what the filter returns: SECCOMP_RET_* */
	enum operation operation; /* that the call is refused for; OPERATION__N: allowed, unlisted, or of another ABI */
	const char *call;         /* "ptrace"; "" where there is no row */
	int error;                /* refused: errno that the caller gets; 0: allowed, or killed without being asked for */
	bool kill;                /* refused, and whoever names it ends the process */
};

/* -1: libseccomp, or the kernel under it, refused something, by name (unavailable); or too many instructions (internal).
 * weaken: PROTECTION_BITs; "network" and "new code" leave their calls open. (A host without "system calls" gets no filter at all.)
 * listener: forbidden calls, and with a full audit refused ones too, are left to a listener (SECCOMP_RET_USER_NOTIF), which answers
 * with `error`, or kills. Without it the filter does so itself. */
int filter_build(const struct policy *p, uint64_t weaken, bool listener, struct filter *ret, struct err *e);

/* What that filter says about one call, from the table instead of the program: for who answers a listener's questions. */
void filter_decide(const struct policy *p, uint64_t weaken, bool listener, const struct seccomp_data *call, struct filter_verdict *ret);

#endif
