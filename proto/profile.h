/* SPDX-License-Identifier: MIT
 *
 * A profile is a named security policy: what module code may do, as data. The three that are built in are the rows of a const
 * table; the administrator's own come from files (profile_file.h), are the same struct, and must pass policy_check. The spawner reads
 * them at its start and hands them on: control gets all with its first message, a zygote the one that it is for. Pure; runs in every
 * process, and each has its table of own ones.
 *
 * Who turns it into walls: the spawner makes the seccomp filter (daemon/spawner/filter.h), the zygote namespaces, root and Landlock
 * ruleset (daemon/host/zygote). */
#ifndef SANDBOXD_PROFILE_H
#define SANDBOXD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/limits.h"

enum operation {
#define X(name, text, profiles, refusal, help) OPERATION_##name,
#include "proto/operations.def"
#undef X
	OPERATION__N
};
_Static_assert(OPERATION__N <= 63, "a set of operations is less than 64 bits");

#define OPERATION_BIT(op) (UINT64_C(1) << (op))
#define OPERATION(name)   OPERATION_BIT(OPERATION_##name)
#define OPERATIONS_ALL    (OPERATION_BIT(OPERATION__N) - 1)
/* Without these no host can load, answer or reload. */
#define OPERATIONS_NEEDED (OPERATION(BASE) | OPERATION(FILE_READ) | OPERATION(PROCESSES) | OPERATION(SIGNALS) | OPERATION(IPC))

/* From PROFILE__N on: the administrator's own, in the order of their names. */
enum profile { PROFILE_HIGH, PROFILE_MEDIUM, PROFILE_LOW, PROFILE__N, PROFILE_NONE = PROFILE__N + LIMIT_PROFILES };

enum policy_forbidden { POLICY_REFUSE, POLICY_KILL };     /* what a forbidden call gets, once it is named */
enum policy_unlisted { POLICY_ENOSYS, POLICY_ALLOW };     /* a system call that is in no operation */
enum policy_audit { POLICY_AUDIT_NONE,
	POLICY_AUDIT_BASIC,  /* forbidden calls */
	POLICY_AUDIT_FULL }; /* every refused call but unlisted ones */

struct policy {
	char name[LIMIT_PROFILE_NAME_BYTES + 1];
	enum profile base;        /* the built-in one that it was made from; its own, of these */
	bool administrators_only;
	uint32_t max_module_bytes; /* of a shared object */
	uint64_t operations;      /* OPERATION_BITs */
	uint64_t namespaces;      /* CLONE_NEW*, wanted; a user namespace comes on top where it is needed to make them */
	enum policy_forbidden forbidden;
	enum policy_unlisted unlisted;
	enum policy_audit audit;
	bool refuse_new_code;     /* PR_SET_MDWE, noexec scratch; the filter looks at OPERATION_DYNAMIC_CODE */
	bool scratch;             /* a folder of its own to write to */
	uint64_t landlock_fs;     /* LANDLOCK_ACCESS_FS_* to handle; 0: no Landlock for files */
	uint64_t landlock_net;    /* LANDLOCK_ACCESS_NET_* to handle */
	uint64_t landlock_scopes; /* LANDLOCK_SCOPE_* */
	uint8_t n_read_paths, n_write_paths;
	char paths[LIMIT_PROFILE_PATHS_BYTES]; /* of the machine, each terminated: those that are only read, then those that are written too */
};

/* The i-th of all granted paths, and whether it may be written; NULL: there are no more. */
const char *policy_path(const struct policy *p, size_t i, bool *ret_write);

/* The built-in ones; PROFILE_HIGH .. PROFILE_LOW. */
const struct policy *profile_builtin(enum profile id);
/* Any that this process knows; NULL: there is none of this number. */
const struct policy *profile_policy(enum profile id);
/* PROFILE_NONE: none of this name is known here. */
enum profile profile_from_name(const char *name, size_t size);
/* The same with an error that names the nearest one. */
enum profile profile_wanted(const char *name, struct err *e);
/* One that has passed policy_check becomes known to this process; id is from PROFILE__N to below PROFILE_NONE. */
void profile_own_put(enum profile id, const struct policy *p);

/* 16 hexadecimal digits that change with anything that the policy says, for people to compare; no proof against a forger. */
#define POLICY_FINGERPRINT_BYTES 16
void policy_fingerprint(const struct policy *p, char ret[POLICY_FINGERPRINT_BYTES + 1]);
bool policy_has_network(const struct policy *p);  /* any way to it is allowed */
const char *policy_audit_text(enum policy_audit a); /* "none", "basic", "full" */
bool policy_audit_from_text(const char *text, size_t size, enum policy_audit *ret);

/* A policy that contradicts itself, or under which no host could work, is refused: err names what. */
int policy_check(const struct policy *p, struct err *e);

const char *operation_name(enum operation op); /* "file_read" */
const char *operation_help(enum operation op);
int operation_refusal(enum operation op);      /* errno of a refused use; 0: forbidden */
/* OPERATION__N: unknown. */
enum operation operation_from_name(const char *name, size_t size);
/* The Landlock rights without which it can't be used, LL_FS_* and LL_NET_*; 0: Landlock knows nothing of it. */
void operation_landlock(enum operation op, uint64_t *ret_fs, uint64_t *ret_net);
bool operation_is_free(enum operation op);    /* some profile may allow it */

#endif
