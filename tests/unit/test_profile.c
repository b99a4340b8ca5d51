/* SPDX-License-Identifier: MIT
 *
 * Operations and profiles: the tables are whole, a stricter profile allows nothing that a laxer one refuses, contradictions are named. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "proto/landlock_abi.h"
#include "proto/names.h"
#include "proto/profile.h"
#include "tests/support/check_main.h"

START_TEST(operations)
{
	for (int i = 0; i < OPERATION__N; i++) {
		const char *name = operation_name((enum operation)i);

		ck_assert_msg(name_is_function(name, strlen(name)), "%s", name);
		ck_assert_msg(strlen(operation_help((enum operation)i)) > 10 && !strchr(operation_help((enum operation)i), '|'), "%s", name);
		ck_assert_int_eq(operation_from_name(name, strlen(name)), i);
		ck_assert_msg(operation_refusal((enum operation)i) >= 0 && operation_refusal((enum operation)i) < 200, "%s", name);
	}
	ck_assert_int_eq(operation_from_name("file_rea", 8), OPERATION__N);
	ck_assert_int_eq(operation_from_name("file_read_", 10), OPERATION__N);
	ck_assert_int_eq(operation_from_name("", 0), OPERATION__N);
	ck_assert_str_eq(operation_name(OPERATION__N), "");
	ck_assert_int_eq(operation_refusal(OPERATION_TRACING), 0);
	ck_assert_int_eq(operation_refusal(OPERATION_ASYNC_IO), ENOSYS);
}
END_TEST

START_TEST(builtin)
{
	struct err e = ERR_INIT;
	uint64_t laxer = OPERATIONS_ALL;

	for (int i = PROFILE__N - 1; i >= 0; i--) {
		const struct policy *p = profile_builtin((enum profile)i);

		ck_assert_msg(policy_check(p, &e) == 0, "%s", e.text);
		ck_assert_int_eq(profile_from_name(p->name, strlen(p->name)), i);
		ck_assert_uint_eq(p->operations & ~laxer, 0);
		laxer = p->operations;
	}
	ck_assert_int_eq(profile_from_name("hig", 3), PROFILE_NONE);
	ck_assert_int_eq(profile_from_name("high ", 5), PROFILE_NONE);
	ck_assert(profile_builtin(PROFILE_HIGH)->refuse_new_code && profile_builtin(PROFILE_MEDIUM)->refuse_new_code);
	ck_assert_uint_eq(profile_builtin(PROFILE_LOW)->namespaces, 0);
	ck_assert(profile_builtin(PROFILE_HIGH)->namespaces & CLONE_NEWCGROUP);
}
END_TEST

/* One change to a good policy, and what the refusal must name. */
static const struct bad {
	const char *names;
	enum profile base;
	uint64_t add, remove;            /* operations */
	uint64_t namespaces, fs, net, scopes;
	enum policy_unlisted unlisted;
} bads[] = {
	{ "base", PROFILE_HIGH, 0, OPERATION(BASE), 0, 0, 0, 0, POLICY_ENOSYS },
	{ "processes", PROFILE_HIGH, 0, OPERATION(PROCESSES), 0, 0, 0, 0, POLICY_ENOSYS },
	{ "file_read", PROFILE_MEDIUM, 0, OPERATION(FILE_READ), 0, 0, 0, 0, POLICY_ENOSYS },
	{ "tracing", PROFILE_LOW, OPERATION(TRACING), 0, 0, 0, 0, 0, POLICY_ALLOW },
	{ "kernel", PROFILE_MEDIUM, OPERATION(KERNEL), 0, 0, 0, 0, 0, POLICY_ENOSYS },
	{ "don't exist", PROFILE_MEDIUM, UINT64_C(1) << 63, 0, 0, 0, 0, 0, POLICY_ENOSYS },
	{ "new code", PROFILE_MEDIUM, OPERATION(EXEC), 0, 0, 0, 0, 0, POLICY_ENOSYS },
	{ "new code", PROFILE_HIGH, OPERATION(DYNAMIC_CODE), 0, 0, 0, 0, 0, POLICY_ENOSYS },
	{ "namespace", PROFILE_MEDIUM, 0, 0, CLONE_NEWUSER, 0, 0, 0, POLICY_ENOSYS },
	{ "namespace", PROFILE_LOW, 0, 0, CLONE_NEWNET, 0, 0, 0, POLICY_ALLOW },
	{ "Landlock", PROFILE_MEDIUM, 0, 0, 0, LL_FS_ALL + 1, 0, 0, POLICY_ENOSYS },
	{ "Landlock", PROFILE_MEDIUM, 0, 0, 0, 0, 4, 0, POLICY_ENOSYS },
	{ "Landlock", PROFILE_MEDIUM, 0, 0, 0, 0, 0, 4, POLICY_ENOSYS },
	{ "Landlock", PROFILE_MEDIUM, OPERATION(NETWORK_CLIENT), 0, 0, 0, 0, 0, POLICY_ENOSYS },
	{ "nobody has looked at", PROFILE_MEDIUM, 0, 0, 0, 0, 0, 0, POLICY_ALLOW },
};

START_TEST(contradictions)
{
	for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
		const struct bad *b = &bads[i];
		struct policy p = *profile_builtin(b->base);
		struct err e = ERR_INIT;

		(void)strcpy(p.name, "own");
		p.operations = (p.operations | b->add) & ~b->remove;
		p.namespaces |= b->namespaces;
		p.landlock_fs |= b->fs;
		p.landlock_net |= b->net;
		p.landlock_scopes |= b->scopes;
		p.unlisted = b->unlisted;
		ck_assert_msg(policy_check(&p, &e) == -1, "row %zu is accepted", i);
		ck_assert_int_eq(e.code, ERR_BAD_PARAM);
		ck_assert_msg(strstr(e.text, b->names) && strstr(e.text, "own"), "row %zu: %s", i, e.text);
	}
}
END_TEST

START_TEST(own_policies)
{
	struct policy p = *profile_builtin(PROFILE_MEDIUM);
	struct err e = ERR_INIT;

	p.operations &= ~(OPERATION(FILE_WRITE) | OPERATION(THREADS) | OPERATION(MEMORY_FILES));
	ck_assert_int_eq(policy_check(&p, &e), 0);
	p.operations |= OPERATION(NETWORK_CLIENT);
	p.landlock_net = LL_NET_BIND_TCP;
	ck_assert_msg(policy_check(&p, &e) == 0, "%s", e.text);
	(void)strcpy(p.name, "../own");
	ck_assert_int_eq(policy_check(&p, &e), -1);
	ck_assert_int_eq(e.code, ERR_INVALID_ID);
	memset(p.name, 'a', sizeof p.name);
	ck_assert_int_eq(policy_check(&p, &e), -1);
	p.name[0] = '\0';
	ck_assert_int_eq(policy_check(&p, &e), -1);
}
END_TEST

CHECK_MAIN("profile", tcase_add_test(tc, operations); tcase_add_test(tc, builtin); tcase_add_test(tc, contradictions);
	tcase_add_test(tc, own_policies));
