/* SPDX-License-Identifier: MIT
 *
 * The contract between the spawner and a zygote, and the hosts that it clones. One SOCK_SEQPACKET pair per zygote, made by the
 * spawner; it is descriptor ZYGOTE_FD_LINK in sandbox-host when that is started as `sandbox-host zygote`. All messages are one
 * fixed-size struct zygote_message with up to FD_MESSAGE_MAX descriptors.
 *
 * A host inherits the zygote's end, says BORN on it once, and closes it before it reads anything from its channel, so before
 * anything of a module runs in it. So EOF at the spawner's end means: the zygote is dead, and every host that it has cloned
 * was born or is dead. Only then is a CLONE that got no answer sent to the next zygote: no host is made twice.
 *
 * Order in a zygote: BEGIN, then steps, then READY or FAILED; then CLONE, each answered by CLONED (in this order). Per host:
 * CLONED and BORN in either order. A zygote ends at EOF.
 *
 * A protection that can't be had is no failure here: READY and BORN tell which are lost, the host's own report says why, and
 * `strict` is control's business. A step without a protection that fails is FAILED, or a BORN with status. */
#ifndef SANDBOXD_ZYGOTE_WIRE_H
#define SANDBOXD_ZYGOTE_WIRE_H

#include <stdint.h>

#include "proto/limits.h"
#include "proto/protection.h"
#include "proto/spawner_wire.h"

#define ZYGOTE_WIRE_VERSION 1u
#define ZYGOTE_ARGUMENT     "zygote" /* argv[1] of sandbox-host */
#define ZYGOTE_FD_LINK      3        /* 0, 1: /dev/null; 2: the daemon's stderr */
#define ZYGOTE_OBJECTS      "/objects" /* where a host with a root of its own finds its objects */
#define ZYGOTE_WRITABLE     "/rw"      /* has Landlock's rule: one for the folder that is mounted on itself would not be seen */
#define ZYGOTE_SCRATCH      "/rw/scratch" /* and its scratch, which is its folder */

enum zygote_op {
	/* ---- spawner -> zygote ---- */
	ZYGOTE_BEGIN = 1, /* profile, weaken, landlock_abi, flags; fd: sealed memfd with the BPF program; none: no filter. Where the profile isn't
	                     built in its struct policy follows, as a message of its own */
	ZYGOTE_CLONE,     /* tag = generation, uid, limits, scratch_bytes, objects; fds: channel, stdout, stderr, and with
	                     ZYGOTE_F_OBJECTS a detached read-only mount of the sandbox's objects folder. (A rootless spawner can't make
	                     one: there the hosts do it themselves) */

	/* ---- zygote -> spawner ---- */
	ZYGOTE_READY = 64, /* flags: what it has; lost */
	ZYGOTE_FAILED,     /* step, status = errno: then it exits */
	ZYGOTE_CLONED,     /* tag, pid; status != 0: there is none, step and errno say why */

	/* ---- host -> spawner ---- */
	ZYGOTE_BORN        /* tag; status 0: it is confined and serves, fd: the seccomp listener if there is one; else step, errno */
};

#define ZYGOTE_F_ROOTLESS 0x1u /* BEGIN: the daemon is an ordinary user's: user namespaces, no change of uid */
#define ZYGOTE_F_LISTENER 0x2u /* BEGIN: install the filter with a listener for its USER_NOTIF rules */
#define ZYGOTE_F_OBJECTS  0x4u /* CLONE: the fourth descriptor is the mount */
#define ZYGOTE_F_CGROUP   0x40u /* CLONE: the last descriptor is the cgroup that it is cloned into */
#define ZYGOTE_F_SPARE    0x20u /* CLONE: in advance, for a sandbox that isn't known yet; it waits for its BEGIN */
#define ZYGOTE_F_ROOT     0x8u /* READY: hosts get a root of their own: ZYGOTE_OBJECTS needs the mount */
#define ZYGOTE_F_PIDS     0x10u /* READY: hosts get a pid namespace of their own: nothing outlives them */

struct zygote_message {
	uint32_t version;       /* ZYGOTE_WIRE_VERSION */
	uint16_t op;
	uint16_t profile;       /* enum profile */
	uint64_t tag;
	uint32_t flags;         /* ZYGOTE_F_* */
	int32_t pid;            /* in the spawner's pid namespace */
	int32_t status;         /* errno */
	uint32_t uid;           /* = gid */
	uint64_t weaken;        /* BEGIN: PROTECTION_BITs to leave out; for tests */
	uint64_t lost;          /* READY, BORN: PROTECTION_BITs that can't be had here. CLONE: those that only its cgroup gives, and it doesn't */
	int32_t landlock_abi;   /* BEGIN: pretend this one; -1: the kernel's */
	uint32_t reserved;
	uint64_t scratch_bytes;
	struct host_limits limits; /* no field is 0 */
	char objects[LIMIT_PATH_BYTES + 1]; /* the folder by its real path, for hosts without a root of their own. BEGIN: of all sandboxes;
	                                       CLONE: of this one */
	char step[LIMIT_ID_BYTES + 1]; /* CLONE: why there is no cgroup, or none with all controllers */
};

#endif
