/* SPDX-License-Identifier: MIT
 *
 * Two tables: operations (proto/operations.def), and the profiles that are built in. */
#include "proto/profile.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "proto/landlock_abi.h"
#include "proto/names.h"

#define H         (1u << PROFILE_HIGH)
#define M         (1u << PROFILE_MEDIUM)
#define L         (1u << PROFILE_LOW)
#define FORBIDDEN 0

#define KNOWN_NAMESPACES                                                                                     \
	((uint64_t)(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET))
#define NETWORKS                                                                                             \
	(OPERATION(NETWORK_CLIENT) | OPERATION(NETWORK_SERVER) | OPERATION(NETWORK_OTHER) | OPERATION(CRYPTO))

static const struct {
	const char *name, *help;
	int refusal;
	unsigned profiles;
} operations[] = {
#define X(name, text, profiles, refusal, help) [OPERATION_##name] = { text, help, refusal, profiles },
#include "proto/operations.def"
#undef X
};
_Static_assert(sizeof operations / sizeof *operations == OPERATION__N, "a row for each operation");

/* The column of a profile in operations.def, as one constant expression. */
#define IN(profiles, p, name) (((profiles) & (p)) != 0 ? OPERATION(name) : 0)

static const struct policy builtin[] = {
	[PROFILE_HIGH] = {
		.name = "high",
		.operations = 0
#define X(name, text, profiles, refusal, help) | IN(profiles, H, name)
#include "proto/operations.def"
#undef X
		, .namespaces = (uint64_t)(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP),
		.forbidden = POLICY_KILL,
		.unlisted = POLICY_ENOSYS,
		.audit = POLICY_AUDIT_FULL,
		.refuse_new_code = true,
		.scratch = true,
		.landlock_fs = LL_FS_ALL,
		.landlock_net = LL_NET_ALL,
		.landlock_scopes = LL_SCOPE_ALL,
	},
	[PROFILE_MEDIUM] = {
		.name = "medium",
		.operations = 0
#define X(name, text, profiles, refusal, help) | IN(profiles, M, name)
#include "proto/operations.def"
#undef X
		, .namespaces = (uint64_t)(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS),
		.forbidden = POLICY_REFUSE,
		.unlisted = POLICY_ENOSYS,
		.audit = POLICY_AUDIT_BASIC,
		.refuse_new_code = true,
		.scratch = true,
		.landlock_fs = LL_FS_ALL,
		.landlock_net = LL_NET_ALL,
		.landlock_scopes = LL_SCOPE_ALL,
	},
	[PROFILE_LOW] = {
		.name = "low",
		.operations = 0
#define X(name, text, profiles, refusal, help) | IN(profiles, L, name)
#include "proto/operations.def"
#undef X
		, .forbidden = POLICY_REFUSE,
		.unlisted = POLICY_ALLOW,
		.audit = POLICY_AUDIT_BASIC,
	},
};
_Static_assert(sizeof builtin / sizeof *builtin == PROFILE__N, "a policy for each profile");

const struct policy *profile_builtin(enum profile id)
{
	return &builtin[id];
}

enum profile profile_from_name(const char *name, size_t size)
{
	for (int i = 0; i < PROFILE__N; i++)
		if (strlen(builtin[i].name) == size && memcmp(builtin[i].name, name, size) == 0)
			return (enum profile)i;
	return PROFILE__N;
}

static int check_operations(const struct policy *p, struct err *e)
{
	for (int i = 0; i < OPERATION__N; i++) {
		bool has = p->operations & OPERATION_BIT(i);

		if (!has && (OPERATIONS_NEEDED & OPERATION_BIT(i)))
			return err_set(e, ERR_BAD_PARAM, "profile %s: no sandbox can work without the operation %s", p->name,
				operations[i].name);
		if (has && operations[i].profiles == 0)
			return err_set(e, ERR_BAD_PARAM, "profile %s: no profile may allow the operation %s", p->name,
				operations[i].name);
	}
	if (p->operations & ~OPERATIONS_ALL)
		return err_set(e, ERR_BAD_PARAM, "profile %s: it allows operations that don't exist", p->name);
	return 0;
}

int policy_check(const struct policy *p, struct err *e)
{
	if (!memchr(p->name, '\0', sizeof p->name) || !name_is_id(p->name, strlen(p->name)))
		return err_set(e, ERR_INVALID_ID, "the name of a profile is an id: a letter or digit, then A-Z a-z 0-9 . _ -");
	if (check_operations(p, e) < 0)
		return -1;
	if (p->namespaces & ~KNOWN_NAMESPACES)
		return err_set(e, ERR_BAD_PARAM, "profile %s: it wants a namespace of an unknown kind", p->name);
	if ((p->landlock_fs & ~LL_FS_ALL) || (p->landlock_net & ~LL_NET_ALL) || (p->landlock_scopes & ~LL_SCOPE_ALL))
		return err_set(e, ERR_BAD_PARAM, "profile %s: it wants Landlock rights of an unknown kind", p->name);
	if (p->refuse_new_code && (p->operations & (OPERATION(DYNAMIC_CODE) | OPERATION(EXEC))))
		return err_set(e, ERR_BAD_PARAM,
			"profile %s: it refuses new code, but allows an operation that makes it (dynamic_code, exec)", p->name);
	if (p->unlisted == POLICY_ALLOW && (p->landlock_net || p->refuse_new_code))
		return err_set(e, ERR_BAD_PARAM,
			"profile %s: it allows system calls that nobody has looked at, so it can't refuse network or new code",
			p->name);
	if (((p->landlock_net & LL_NET_CONNECT_TCP) && (p->operations & OPERATION(NETWORK_CLIENT))) ||
		((p->landlock_net & LL_NET_BIND_TCP) && (p->operations & OPERATION(NETWORK_SERVER))))
		return err_set(e, ERR_BAD_PARAM, "profile %s: it allows a use of the network that it refuses by Landlock", p->name);
	if ((p->namespaces & CLONE_NEWNET) && (p->operations & NETWORKS))
		return err_set(e, ERR_BAD_PARAM, "profile %s: a network namespace of its own has no network to allow", p->name);
	return 0;
}

const char *operation_name(enum operation op)
{
	return (unsigned)op < OPERATION__N ? operations[op].name : "";
}

const char *operation_help(enum operation op)
{
	return (unsigned)op < OPERATION__N ? operations[op].help : "";
}

int operation_refusal(enum operation op)
{
	return (unsigned)op < OPERATION__N ? operations[op].refusal : 0;
}

enum operation operation_from_name(const char *name, size_t size)
{
	for (int i = 0; i < OPERATION__N; i++)
		if (strlen(operations[i].name) == size && memcmp(operations[i].name, name, size) == 0)
			return (enum operation)i;
	return OPERATION__N;
}
