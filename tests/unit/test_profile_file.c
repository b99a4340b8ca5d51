/* SPDX-License-Identifier: MIT
 *
 * Profiles as texts: what each key comes to, that order doesn't matter, and that each contradiction is refused with its line and the
 * reason. */
#include <stdio.h>
#include <string.h>

#include "proto/landlock_abi.h"
#include "proto/profile_file.h"
#include "tests/support/check_main.h"

static int parse(struct policy *p, const char *text, struct err *e)
{
	*e = (struct err)ERR_INIT;
	return profile_parse(p, "own", text, strlen(text), "own.profile", NULL, e);
}

static struct policy parsed(const char *text)
{
	struct policy p;
	struct err e;

	ck_assert_msg(parse(&p, text, &e) == 0, "%s: %s", text, e.text);
	ck_assert_int_eq(policy_check(&p, &e), 0);
	ck_assert_str_eq(p.name, "own");
	return p;
}

START_TEST(alone)
{
	static const char *const bases[] = { "base = high\n", "base = medium\n", " base=low # all of it" };

	for (int i = 0; i < PROFILE__N; i++) {
		struct policy p = parsed(bases[i]), wanted = *profile_builtin((enum profile)i);

		ck_assert_int_eq(p.base, i);
		(void)strcpy(wanted.name, "own");
		ck_assert_uint_eq(p.operations, wanted.operations);
		ck_assert_uint_eq(p.landlock_fs, wanted.landlock_fs);
		ck_assert_uint_eq(p.landlock_net, wanted.landlock_net);
		ck_assert_uint_eq(p.namespaces, wanted.namespaces);
		ck_assert_int_eq(p.audit, wanted.audit);
		ck_assert_int_eq(p.refuse_new_code, wanted.refuse_new_code);
		ck_assert_int_eq(p.administrators_only, wanted.administrators_only);
		ck_assert_uint_eq(p.max_module_bytes, LIMIT_OBJECT_BYTES);
	}
}
END_TEST

START_TEST(keys)
{
	const uint64_t medium = profile_builtin(PROFILE_MEDIUM)->operations;
	const char *names[32];
	struct policy p = parsed("refuse = threads,timers\nallow = network_client\tcrypto\nnetwork = host\nbase = medium\naudit_level = none\n"
				 "max_module_size = 4096\nadministrators_only = yes\ndynamic_code = no\n");

	ck_assert_uint_eq(p.operations, (medium | OPERATION(NETWORK_CLIENT) | OPERATION(CRYPTO)) & ~(OPERATION(THREADS) | OPERATION(TIMERS)));
	ck_assert_uint_eq(p.landlock_net, LL_NET_BIND_TCP);
	ck_assert_uint_eq(p.landlock_fs, LL_FS_ALL);
	ck_assert_int_eq(p.audit, POLICY_AUDIT_NONE);
	ck_assert_uint_eq(p.max_module_bytes, 4096);
	ck_assert(p.administrators_only && p.refuse_new_code && policy_has_network(&p));
	p = parsed("base = medium\nallow = network_server\nnetwork = host\n");
	ck_assert_uint_eq(p.landlock_net, LL_NET_CONNECT_TCP);
	ck_assert_uint_eq(p.landlock_fs, LL_FS_ALL & ~LL_FS_MAKE_SOCK);
	p = parsed("base = medium\ndynamic_code = yes\n");
	ck_assert(!p.refuse_new_code && (p.operations & OPERATION(DYNAMIC_CODE)) && !policy_has_network(&p));
	p = parsed("base = medium\nallow = exec\n");
	ck_assert(!p.refuse_new_code && !(p.landlock_fs & LL_FS_EXECUTE));
	p = parsed("base = low\nrefuse = exec\nadministrators_only = no\nnetwork = host\naudit_level = full\n");
	ck_assert(!(p.operations & OPERATION(EXEC)) && !p.administrators_only && p.audit == POLICY_AUDIT_FULL);
	ck_assert_uint_eq(profile_keys(names, 32), 10);
	ck_assert_str_eq(names[0], "base");
	ck_assert_uint_eq(profile_keys(NULL, 0), 10);
}
END_TEST

static const struct bad {
	const char *text;
	int64_t line;
	const char *says, *nearest;
} bads[] = {
	{ "", -1, "own.profile: base is missing", "" },
	{ "allow = exec\n", -1, "base is missing: write base = high, medium or low", "" },
	{ "base\n", 1, "own.profile:1: not of the form", "" },
	{ "base =\n", 1, "base: has no value", "" },
	{ "\n= high\n", 2, "no key in front", "" },
	{ "base = high\nbase = low\n", 2, "'base' is given twice", "" },
	{ "bas = high\n", 1, "unknown key 'bas'; is 'base' meant?", "base" },
	{ "base = hihg\n", 1, "base: 'hihg' is no built-in profile (high, medium, low); is 'high' meant?", "high" },
	{ "base = own\n", 1, "is no built-in profile", "" },
	{ "base = high low\n", 1, "is no built-in profile", "" },
	{ "base = high\xff\n", 1, "UTF-8", "" },
	{ "base = high\nallow = thread\n", 2, "allow: 'thread' is no operation; is 'threads' meant?", "threads" },
	{ "base = high\nallow = everything_there_is_and_very_much_more_than_that_too\n", 2, "is no operation", "" },
	{ "base = high\nallow = exec, exec\n", 2, "exec stands there twice", "" },
	{ "base = high\nallow = ,\n", 2, "names no operation", "" },
	{ "base = medium\nallow = threads\nrefuse = threads\n", 3, "refuse: threads is allowed in line 2, and refused here", "" },
	{ "refuse = file_read\nbase = medium\n", 1, "no sandbox can work without the operation file_read", "" },
	{ "base = low\nallow = tracing\n", 2, "no profile may allow the operation tracing: it would be weaker than low", "" },
	{ "base = medium\nnetwork = all\n", 2, "network: 'all' is no network (none, host)", "" },
	{ "base = medium\nnetwork = host\n", 2, "no operation that uses it is allowed", "" },
	{ "base = medium\nallow = network_client\n", 2, "allow: network_client is allowed, and network = none: write network = host", "" },
	{ "base = medium\nallow = network_other\nnetwork = none\n", 3, "network: network_other is allowed, and network = none", "" },
	{ "base = low\nnetwork = none\nrefuse = network_client network_server network_other crypto\n", 2, "nobody has looked at", "" },
	{ "base = low\nrefuse = network_client network_server network_other crypto\n", 1, "base: host, and no operation", "" },
	{ "base = medium\naudit_level = ful\n", 2, "'ful' is no audit level (full, basic, none); is 'full' meant?", "full" },
	{ "base = medium\nmax_module_size = 0\n", 2, "max_module_size: not a number of bytes within 1 to", "" },
	{ "base = medium\nmax_module_size = 67108865\n", 2, "not a number of bytes", "" },
	{ "base = medium\nmax_module_size = 1M\n", 2, "not a number of bytes", "" },
	{ "base = medium\nadministrators_only = true\n", 2, "is no answer (yes, no)", "" },
	{ "base = medium\ndynamic_code = maybe\n", 2, "is no answer (yes, no)", "" },
	{ "base = medium\ndynamic_code = yes\nrefuse = dynamic_code\n", 2, "yes, and line 3 refuses the operation dynamic_code", "" },
	{ "base = medium\nallow = exec\ndynamic_code = no\n", 3, "no, and line 2 allows the operation exec, which makes new code", "" },
	{ "base = medium\nread_paths = etc\n", 2, "read_paths: etc doesn't begin with '/'", "" },
	{ "base = medium\nread_paths = /\n", 2, "/ is the root folder", "" },
	{ "base = medium\nread_paths = /etc/\n", 2, "/etc/ ends with '/'", "" },
	{ "base = medium\nread_paths = /a //b\n", 2, "//b has an empty part", "" },
	{ "base = medium\nread_paths = /a/./b\n", 2, "'.' or '..'", "" },
	{ "base = medium\nread_paths = /a/..\n", 2, "'.' or '..'", "" },
	{ "base = medium\nread_paths = /sys/kernel\n", 2, "/sys/kernel lies where no profile", "" },
	{ "base = medium\nread_paths = /objects\n", 2, "/objects lies where no profile", "" },
	{ "base = medium\nwrite_paths = /rw\n", 2, "/rw lies where no profile", "" },
	{ "base = medium\nwrite_paths = /usr/lib/x\n", 2, "/usr/lib/x lies among the libraries", "" },
	{ "base = medium\nread_paths = /a /b\nwrite_paths = /b\n", 3, "/b stands there twice", "" },
	{ "base = medium\nread_paths = /1 /2 /3 /4 /5 /6 /7 /8 /9\n", 2, "more than 8 paths", "" },
	{ "base = low\nread_paths = /a\n", 2, "base = low sees all files", "" },
	{ "base = medium\nwrite_paths = /a\nrefuse = file_write\n", 2, "the operation file_write is refused (line 3)", "" },
	{ "base = low\ndynamic_code = no\n", 2, "can't refuse new code: take base = medium", "" },
};

START_TEST(refused)
{
	for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
		const struct bad *b = &bads[i];
		struct policy p = { .name = "as it was" };
		struct err e;

		ck_assert_msg(parse(&p, b->text, &e) == -1, "row %zu is accepted: %s", i, b->text);
		ck_assert_msg(strstr(e.text, b->says), "row %zu: '%s' instead of '%s'", i, e.text, b->says);
		ck_assert_msg(strncmp(e.text, "own.profile:", 12) == 0, "row %zu: %s", i, e.text);
		ck_assert_msg(e.offset == b->line, "row %zu: line %lld, %s", i, (long long)e.offset, e.text);
		ck_assert_msg(strcmp(e.nearest, b->nearest) == 0, "row %zu: nearest %s", i, e.nearest);
		ck_assert_str_eq(p.name, "as it was");
	}
}
END_TEST

START_TEST(sizes)
{
	static char text[LIMIT_PROFILE_BYTES + 1];
	struct policy p;
	struct err e = ERR_INIT;

	memset(text, '#', sizeof text);
	memcpy(text, "base = high\n", 12);
	ck_assert_int_eq(profile_parse(&p, "own", text, LIMIT_PROFILE_BYTES, "f", NULL, &e), 0);
	ck_assert_int_eq(profile_parse(&p, "own", text, LIMIT_PROFILE_BYTES + 1, "f", NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT_EXCEEDED);
}
END_TEST

static int check_path(void *ctx, const char *path, struct err *e)
{
	return strcmp(path, ctx) == 0 ? err_set(e, ERR_BAD_PARAM, "is taken") : 0;
}

START_TEST(paths)
{
	static char text[2048], long_one[LIMIT_PATH_BYTES + 2], taken[] = "/srv/b";
	const struct profile_paths looks = { check_path, taken };
	struct policy p = parsed("base = medium\nwrite_paths = /srv/b\nread_paths = /srv/a.b/..c  /.x\t/home/...\n");
	struct err e;
	bool writes;

	ck_assert_uint_eq(p.n_read_paths, 3);
	ck_assert_uint_eq(p.n_write_paths, 1);
	ck_assert_str_eq(policy_path(&p, 0, &writes), "/srv/a.b/..c");
	ck_assert(!writes);
	ck_assert_str_eq(policy_path(&p, 2, &writes), "/home/...");
	ck_assert_str_eq(policy_path(&p, 3, &writes), "/srv/b");
	ck_assert(writes);
	ck_assert_ptr_null(policy_path(&p, 4, &writes));
	e = (struct err)ERR_INIT;
	ck_assert_int_eq(profile_parse(&p, "own", "base = high\nread_paths = /srv/a /srv/b\n", 39, "f", &looks, &e), -1);
	ck_assert_str_eq(e.text, "f:2: read_paths: /srv/b: is taken");
	ck_assert_int_eq(profile_parse(&p, "own", "base = high\nread_paths = /srv/a\n", 32, "f", &looks, &e), 0);
	memset(long_one, 'x', LIMIT_PATH_BYTES);
	long_one[0] = '/';
	for (int n = 1; n <= 5; n++) { /* four of the longest fit */
		size_t used = (size_t)snprintf(text, sizeof text, "base = high\nread_paths =");

		for (int i = 0; i < n; i++) {
			long_one[1] = (char)('a' + i);
			used += (size_t)snprintf(text + used, sizeof text - used, " %s", long_one);
		}
		ck_assert_int_eq(parse(&p, text, &e), n <= 4 ? 0 : -1);
	}
	long_one[LIMIT_PATH_BYTES] = 'x';
	(void)snprintf(text, sizeof text, "base = high\nread_paths = %s", long_one);
	ck_assert_int_eq(parse(&p, text, &e), -1);
	ck_assert(strstr(e.text, "is too long"));
	p = parsed("base = high\nread_paths = /a\n");
	p.n_write_paths = 1; /* an empty one follows */
	ck_assert_int_eq(policy_check(&p, &e), -1);
	p.n_write_paths = 0;
	memset(p.paths, '/', sizeof p.paths);
	ck_assert_int_eq(policy_check(&p, &e), -1);
	p.n_read_paths = LIMIT_PROFILE_PATHS + 1;
	ck_assert_int_eq(policy_check(&p, &e), -1);
}
END_TEST

START_TEST(names)
{
	static const struct {
		const char *name;
		enum err_code code; /* ERR_OK: good */
	} rows[] = { { "a", ERR_OK }, { "Web.2_x-y", ERR_OK }, { "abcdefghijklmnopqrstuv", ERR_OK }, { "abcdefghijklmnopqrstuvw", ERR_INVALID_ID },
		{ "", ERR_INVALID_ID }, { "../a", ERR_INVALID_ID }, { ".a", ERR_INVALID_ID }, { "a b", ERR_INVALID_ID }, { "high", ERR_BAD_PARAM },
		{ "medium", ERR_BAD_PARAM }, { "low", ERR_BAD_PARAM }, { "lower", ERR_OK } };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct policy p;
		struct err e = ERR_INIT;

		ck_assert_int_eq(profile_name_check(rows[i].name, &e), rows[i].code == ERR_OK ? 0 : -1);
		ck_assert_int_eq(e.code, rows[i].code);
		ck_assert_int_eq(profile_parse(&p, rows[i].name, "base = high", 11, "f", NULL, &e), rows[i].code == ERR_OK ? 0 : -1);
	}
}
END_TEST

/* The table of a process, and what is found in it. */
START_TEST(own)
{
	struct policy p = parsed("base = medium\nrefuse = threads\n"), other = parsed("base = medium\nrefuse = timers\n");
	char one[POLICY_FINGERPRINT_BYTES + 1], two[POLICY_FINGERPRINT_BYTES + 1];
	struct err e = ERR_INIT;

	ck_assert_int_eq(profile_from_name("own", 3), PROFILE_NONE);
	ck_assert_ptr_null(profile_policy(PROFILE__N));
	ck_assert_ptr_null(profile_policy(PROFILE_NONE));
	profile_own_put(PROFILE__N, &p);
	ck_assert_int_eq(profile_from_name("own", 3), PROFILE__N);
	ck_assert_str_eq(profile_policy(PROFILE__N)->name, "own");
	ck_assert_ptr_null(profile_policy((enum profile)(PROFILE__N + 1)));
	ck_assert_int_eq(profile_wanted("own", &e), PROFILE__N);
	ck_assert_int_eq(profile_wanted("owm", &e), PROFILE_NONE);
	ck_assert_int_eq(e.code, ERR_BAD_PARAM);
	ck_assert_str_eq(e.nearest, "own");
	ck_assert_int_eq(profile_wanted("\n\xff", &e), PROFILE_NONE);
	policy_fingerprint(&p, one);
	policy_fingerprint(&p, two);
	ck_assert_str_eq(one, two);
	policy_fingerprint(&other, two);
	ck_assert_str_ne(one, two);
	other = p;
	other.audit = POLICY_AUDIT_FULL;
	policy_fingerprint(&other, two);
	ck_assert_str_ne(one, two);
	ck_assert_uint_eq(strspn(one, "0123456789abcdef"), POLICY_FINGERPRINT_BYTES);
}
END_TEST

CHECK_MAIN("profile file", tcase_add_test(tc, alone); tcase_add_test(tc, keys); tcase_add_test(tc, refused); tcase_add_test(tc, sizes);
	tcase_add_test(tc, names); tcase_add_test(tc, own); tcase_add_test(tc, paths));
