/* SPDX-License-Identifier: MIT
 *
 * Two tables: operations (proto/operations.def), and the profiles that are built in; a third for those that this process was given. */
#include "proto/profile.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
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
		.base = PROFILE_HIGH,
		.max_module_bytes = LIMIT_OBJECT_BYTES,
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
		.base = PROFILE_MEDIUM,
		.max_module_bytes = LIMIT_OBJECT_BYTES,
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
		.base = PROFILE_LOW,
		.max_module_bytes = LIMIT_OBJECT_BYTES,
		.administrators_only = true,
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

/* Of this process, filled once at its start. A free place has no name. */
static struct policy own[LIMIT_PROFILES];

void profile_own_put(enum profile id, const struct policy *p)
{
	assert(id >= PROFILE__N && id < PROFILE_NONE);
	own[id - PROFILE__N] = *p;
}

const struct policy *profile_policy(enum profile id)
{
	if (id < PROFILE__N)
		return &builtin[id];
	return id < PROFILE_NONE && own[id - PROFILE__N].name[0] ? &own[id - PROFILE__N] : NULL;
}

enum profile profile_from_name(const char *name, size_t size)
{
	for (enum profile id = PROFILE_HIGH; id < PROFILE_NONE; id++) {
		const struct policy *p = profile_policy(id);

		if (p && strlen(p->name) == size && memcmp(p->name, name, size) == 0)
			return id;
	}
	return PROFILE_NONE;
}

enum profile profile_wanted(const char *name, struct err *e)
{
	enum profile id = profile_from_name(name, strlen(name));
	const char *names[PROFILE_NONE];
	char shown[LIMIT_ID_BYTES + 1];
	size_t n = 0;
	int near;

	if (id != PROFILE_NONE)
		return id;
	for (id = PROFILE_HIGH; id < PROFILE_NONE; id++)
		if (profile_policy(id))
			names[n++] = profile_policy(id)->name;
	text_clean(shown, sizeof shown, name, strlen(name));
	near = name_nearest(shown, names, n);
	err_set(e, ERR_BAD_PARAM, near >= 0 ? "no profile is called '%s'; is '%s' meant?" : "no profile is called '%s'", shown, near >= 0 ? names[near] : "");
	if (e && near >= 0)
		(void)snprintf(e->nearest, sizeof e->nearest, "%s", names[near]);
	return PROFILE_NONE;
}

static void hash_add(uint64_t *hash, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*hash = (*hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
}

void policy_fingerprint(const struct policy *p, char ret[POLICY_FINGERPRINT_BYTES + 1])
{
	const uint64_t numbers[] = { p->namespaces, p->forbidden, p->unlisted, p->audit, p->refuse_new_code, p->scratch, p->landlock_fs,
		p->landlock_net, p->landlock_scopes, p->administrators_only, p->max_module_bytes };
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	bool writes = false;

	hash_add(&hash, p->name, strlen(p->name) + 1);
	for (int i = 0; i < OPERATION__N; i++) /* by name: a later version numbers them otherwise */
		if (p->operations & OPERATION_BIT(i))
			hash_add(&hash, operations[i].name, strlen(operations[i].name) + 1);
	for (size_t i = 0; policy_path(p, i, &writes); i++) {
		hash_add(&hash, policy_path(p, i, &writes), strlen(policy_path(p, i, &writes)) + 1);
		hash_add(&hash, writes ? "w" : "r", 1);
	}
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		for (unsigned shift = 0; shift < 64; shift += 8)
			hash_add(&hash, &(uint8_t){ (uint8_t)(numbers[i] >> shift) }, 1);
	(void)snprintf(ret, POLICY_FINGERPRINT_BYTES + 1, "%016" PRIx64, hash);
}

bool policy_has_network(const struct policy *p)
{
	return p->operations & NETWORKS;
}

static const char *const audit_texts[] = { [POLICY_AUDIT_NONE] = "none", [POLICY_AUDIT_BASIC] = "basic", [POLICY_AUDIT_FULL] = "full" };

const char *policy_audit_text(enum policy_audit a)
{
	return (unsigned)a < sizeof audit_texts / sizeof *audit_texts ? audit_texts[a] : "";
}

bool policy_audit_from_text(const char *text, size_t size, enum policy_audit *ret)
{
	for (size_t i = 0; i < sizeof audit_texts / sizeof *audit_texts; i++)
		if (strlen(audit_texts[i]) == size && memcmp(audit_texts[i], text, size) == 0) {
			*ret = (enum policy_audit)i;
			return true;
		}
	return false;
}

const char *policy_path(const struct policy *p, size_t i, bool *ret_write)
{
	const char *at = p->paths;

	if (i >= (size_t)p->n_read_paths + p->n_write_paths)
		return NULL;
	*ret_write = i >= p->n_read_paths;
	for (; i > 0; i--)
		at += strlen(at) + 1;
	return at;
}

/* As many as it says, each terminated, absolute, and of a length that messages have room for. */
static int check_paths(const struct policy *p, struct err *e)
{
	const char *at = p->paths, *end = p->paths + sizeof p->paths;
	bool good = p->n_read_paths <= LIMIT_PROFILE_PATHS && p->n_write_paths <= LIMIT_PROFILE_PATHS;

	for (unsigned i = 0; good && i < (unsigned)p->n_read_paths + p->n_write_paths; i++) {
		size_t size = strnlen(at, (size_t)(end - at));

		good = at[0] == '/' && size <= LIMIT_PATH_BYTES && size < (size_t)(end - at);
		at += size + 1;
		good = good && (at < end || i + 1u == (unsigned)p->n_read_paths + p->n_write_paths);
	}
	if (!good)
		return err_set(e, ERR_BAD_PARAM, "profile %s: its paths aren't absolute, or too many", p->name);
	if (p->n_write_paths > 0 && !(p->operations & OPERATION(FILE_WRITE)))
		return err_set(e, ERR_BAD_PARAM, "profile %s: it grants paths to write to, and refuses file_write", p->name);
	if (p->n_read_paths + p->n_write_paths > 0 && p->landlock_fs == 0)
		return err_set(e, ERR_BAD_PARAM, "profile %s: it sees all files of the machine, and grants some of them", p->name);
	return 0;
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
	if ((unsigned)p->base >= PROFILE__N || p->max_module_bytes == 0 || p->max_module_bytes > LIMIT_OBJECT_BYTES)
		return err_set(e, ERR_BAD_PARAM, "profile %s: max_module_size is not within 1 to %u, or its base is unknown", p->name, LIMIT_OBJECT_BYTES);
	if (check_operations(p, e) < 0)
		return -1;
	if (check_paths(p, e) < 0)
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

void operation_landlock(enum operation op, uint64_t *ret_fs, uint64_t *ret_net)
{
	static const struct {
		uint64_t fs, net;
	} rights[OPERATION__N] = {
		[OPERATION_FILE_READ] = { LL_FS_READ_FILE | LL_FS_READ_DIR, 0 },
		[OPERATION_FILE_WRITE] = { LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR | LL_FS_MAKE_REG |
			LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER | LL_FS_TRUNCATE, 0 },
		[OPERATION_SPECIAL_FILES] = { LL_FS_MAKE_CHAR | LL_FS_MAKE_BLOCK, 0 },
		[OPERATION_EXEC] = { LL_FS_EXECUTE, 0 },
		[OPERATION_DEVICES] = { LL_FS_IOCTL_DEV, 0 },
		[OPERATION_NETWORK_CLIENT] = { 0, LL_NET_CONNECT_TCP },
		[OPERATION_NETWORK_SERVER] = { LL_FS_MAKE_SOCK, LL_NET_BIND_TCP },
	};

	*ret_fs = (unsigned)op < OPERATION__N ? rights[op].fs : 0;
	*ret_net = (unsigned)op < OPERATION__N ? rights[op].net : 0;
}

bool operation_is_free(enum operation op)
{
	return (unsigned)op < OPERATION__N && operations[op].profiles != 0;
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
