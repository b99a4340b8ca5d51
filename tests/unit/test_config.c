/* SPDX-License-Identifier: MIT
 *
 * The configuration: defaults for root and users, each key, each refusal with its line, values against each
 * other. */
#include "proto/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"

static int parse(struct config *c, const char *text, struct err *e)
{
	*e = (struct err)ERR_INIT;
	return config_parse(c, text, strlen(text), "test.conf", e);
}

static void environment(const char *runtime, const char *state, const char *home)
{
	static const char *const names[] = { "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME" };
	const char *values[] = { runtime, state, home };

	for (int i = 0; i < 3; i++) {
		if (values[i])
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
	}
}

START_TEST(defaults_of_root)
{
	struct config c;
	struct err e = ERR_INIT;

	environment("/run/user/0", "/root/s", "/root");
	config_defaults(&c, 0);
	ck_assert_str_eq(c.socket_path, "/run/sandboxd/sandboxd.sock");
	ck_assert_str_eq(c.state_dir, "/var/lib/sandboxd");
	ck_assert_str_eq(c.runtime_dir, "/run/sandboxd");
	ck_assert_uint_eq(c.socket_mode, 0600);
	ck_assert(c.socket_group == (gid_t)-1);
	ck_assert_uint_eq(c.uid_first, 1879048192);
	ck_assert_uint_eq(c.uid_count, 1048576);
	ck_assert_uint_eq(c.max_sandboxes, LIMIT_SANDBOXES);
	ck_assert_uint_eq(c.max_memory_bytes, 0);
	ck_assert_uint_eq(c.spare_hosts, DEFAULT_SPARES);
	ck_assert_uint_eq(c.max_jobs, 2);
	ck_assert_uint_eq(c.max_sandboxes_per_owner, DEFAULT_OWNER_SANDBOXES);
	ck_assert_uint_eq(c.max_memory_per_owner, DEFAULT_OWNER_MEMORY_BYTES);
	ck_assert_uint_eq(c.max_store_bytes_per_owner, DEFAULT_OWNER_STORE_BYTES);
	ck_assert_uint_eq(c.max_jobs_per_owner, DEFAULT_OWNER_JOBS);
	ck_assert_uint_eq(c.compile_timeout_ms, DEFAULT_COMPILE_TIMEOUT_MS);
	ck_assert_uint_eq(c.shutdown_timeout_ms, DEFAULT_DAEMON_SHUTDOWN_MS);
	ck_assert_uint_eq(c.zygote_hosts, DEFAULT_ZYGOTE_HOSTS);
	ck_assert_uint_eq(c.zygote_age_ms, DEFAULT_ZYGOTE_AGE_MS);
	ck_assert_uint_eq(c.compile_memory_bytes, DEFAULT_COMPILE_MEMORY_BYTES);
	ck_assert_uint_eq(c.n_administrators + c.n_operators + c.everyone_operates, 0);
	ck_assert_msg(config_check(&c, &e) == 0, "%s", e.text);
}
END_TEST

START_TEST(defaults_of_users)
{
	static const struct {
		const char *runtime, *state, *home, *socket, *state_dir;
	} rows[] = {
		{ "/run/user/7", NULL, "/home/x", "/run/user/7/sandboxd/sandboxd.sock",
			"/home/x/.local/state/sandboxd" },
		{ "/run/user/7", "/s", "/home/x", "/run/user/7/sandboxd/sandboxd.sock", "/s/sandboxd" },
		{ "/run/user/7", "s", "/home/x", "/run/user/7/sandboxd/sandboxd.sock",
			"/home/x/.local/state/sandboxd" },
		{ "run", NULL, "home", "/tmp/sandboxd-7/sandboxd.sock", "/tmp/sandboxd-7/state" },
		{ "", "", "", "/tmp/sandboxd-7/sandboxd.sock", "/tmp/sandboxd-7/state" },
		{ NULL, NULL, NULL, "/tmp/sandboxd-7/sandboxd.sock", "/tmp/sandboxd-7/state" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct config c;
		struct err e = ERR_INIT;

		environment(rows[i].runtime, rows[i].state, rows[i].home);
		config_defaults(&c, 7);
		ck_assert_str_eq(c.socket_path, rows[i].socket);
		ck_assert_str_eq(c.state_dir, rows[i].state_dir);
		ck_assert_uint_eq(strlen(c.runtime_dir) + strlen("/sandboxd.sock"), strlen(c.socket_path));
		ck_assert_msg(config_check(&c, &e) == 0, "%s", e.text);
	}
}
END_TEST

START_TEST(environment_of_every_length)
{
	char folder[400] = "/", state[400 + 2];

	for (size_t n = 1; n + 1 < sizeof(folder); n++) {
		struct config c;
		struct err e = ERR_INIT;

		folder[n] = 'x';
		folder[n + 1] = '\0';
		snprintf(state, sizeof(state), "/s%s", folder);
		environment(folder, state, NULL);
		config_defaults(&c, 7);
		ck_assert_msg(config_check(&c, &e) == 0, "%s", e.text);
	}
}
END_TEST

START_TEST(every_key)
{
	static const char text[] =
		"# a comment\n\n  \t\r\n"
		"socket = /s/a.sock\r\n"
		"state_dir=/s/state#1   # not a comment at first\n"
		"\truntime_dir\t=\t/s/run\n"
		"socket_mode = 0660\n"
		"socket_group = 123\n"
		"administrators = 0, 1000 ,1001\n"
		"operators = 1002\n"
		"administrator_groups = 27, 0\n"
		"operator_groups = 100\n"
		"uid_first = 65536\n"
		"uid_count = 512\n"
		"max_sandboxes = 10\n"
		"max_memory_bytes = 9223372036854775807\n"
		"max_processes = 5\n"
		"max_open_files = 6\n"
		"max_file_size_bytes = 7\n"
		"spare_hosts = 9\n"
		"max_jobs = 8\n"
		"max_sandboxes_per_owner = 11\n"
		"max_memory_per_owner = 12\n"
		"max_store_bytes_per_owner = 13\n"
		"max_jobs_per_owner = 0\n"
		"compile_memory_bytes = 16777216\n"
		"compile_timeout_ms = 100\n"
		"shutdown_timeout_ms = 1000\n"
		"zygote_hosts = 7\n"
		"zygote_age_ms = 1000";
	const char *names[64];
	struct config c;
	struct err e;
	size_t n = config_keys(names, 64);

	config_defaults(&c, 0);
	ck_assert_msg(parse(&c, text, &e) == 0, "%s", e.text);
	ck_assert_str_eq(c.socket_path, "/s/a.sock");
	ck_assert_str_eq(c.state_dir, "/s/state#1");
	ck_assert_str_eq(c.runtime_dir, "/s/run");
	ck_assert_uint_eq(c.socket_mode, 0660);
	ck_assert_uint_eq(c.socket_group, 123);
	ck_assert_uint_eq(c.n_administrators, 3);
	ck_assert_uint_eq(c.administrators[0], 0);
	ck_assert_uint_eq(c.administrators[1], 1000);
	ck_assert_uint_eq(c.administrators[2], 1001);
	ck_assert_uint_eq(c.n_operators, 1);
	ck_assert_uint_eq(c.operators[0], 1002);
	ck_assert(!c.everyone_operates);
	ck_assert_uint_eq(c.uid_first, 65536);
	ck_assert_uint_eq(c.uid_count, 512);
	ck_assert_uint_eq(c.max_sandboxes, 10);
	ck_assert_uint_eq(c.max_memory_bytes, INT64_MAX);
	ck_assert_uint_eq(c.max_processes, 5);
	ck_assert_uint_eq(c.max_open_files, 6);
	ck_assert_uint_eq(c.max_file_size_bytes, 7);
	ck_assert_uint_eq(c.spare_hosts, 9);
	ck_assert_uint_eq(c.max_jobs, 8);
	ck_assert_uint_eq(c.max_sandboxes_per_owner, 11);
	ck_assert_uint_eq(c.max_memory_per_owner, 12);
	ck_assert_uint_eq(c.max_store_bytes_per_owner, 13);
	ck_assert_uint_eq(c.max_jobs_per_owner, 0);
	ck_assert_uint_eq(c.compile_memory_bytes, 16777216);
	ck_assert_uint_eq(c.compile_timeout_ms, 100);
	ck_assert_uint_eq(c.shutdown_timeout_ms, 1000);
	ck_assert_uint_eq(c.zygote_hosts, 7);
	ck_assert_uint_eq(c.zygote_age_ms, 1000);
	ck_assert_msg(config_check(&c, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(c.n_administrator_groups, 2);
	ck_assert_uint_eq(c.administrator_groups[0], 27);
	ck_assert_uint_eq(c.n_operator_groups, 1);
	ck_assert_uint_eq(c.operator_groups[0], 100);
	ck_assert_uint_eq(n, 27);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(strstr(text, names[i]), "%s isn't tested", names[i]);
	ck_assert_int_eq(parse(&c, "operators = *", &e), 0);
	ck_assert(c.everyone_operates);
	ck_assert_int_eq(parse(&c, "", &e), 0);
}
END_TEST

/* Names come from texts of the form of /etc/passwd and /etc/group, and from nowhere else. */
START_TEST(names_of_users_and_groups)
{
	static const char users[] = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbroken\n:x:7:7:::\nno:number:x:1::\n"
				    "ada2:x:1001:1:::\nbig:x:4294967295:1:::\nlast:x:1002:5:::";
	static const char groups[] = "wheel:x:27:root,ada\nada:x:1005:\n";
	const struct config_names names = { users, groups, sizeof users - 1, sizeof groups - 1 };
	static const char good[] = "administrators = ada, 5, last\noperators = ada2\nadministrator_groups = wheel,ada\noperator_groups = 9\n"
				   "socket_group = wheel\n";
	static const char *const wrong[] = { "administrators = wheel", "administrators = ad", "administrators = ada3", "administrators = broken",
		"administrators = no", "administrators = big", "administrators = x", "administrators = ada:x", "administrators = ,ada",
		"administrators = 10x", "operator_groups = root", "operator_groups = whee", "socket_group = root", "socket_group = *",
		"operator_groups = *", "administrator_groups = 4294967295", "administrators = :" };
	struct config c;
	struct err e = ERR_INIT;

	config_defaults(&c, 0);
	ck_assert_msg(config_parse_named(&c, good, sizeof good - 1, "f", &names, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(c.n_administrators, 3);
	ck_assert_uint_eq(c.administrators[0], 1000);
	ck_assert_uint_eq(c.administrators[2], 1002); /* the last line needs no newline */
	ck_assert_uint_eq(c.operators[0], 1001);
	ck_assert_uint_eq(c.administrator_groups[0], 27);
	ck_assert_uint_eq(c.administrator_groups[1], 1005);
	ck_assert_uint_eq(c.operator_groups[0], 9);
	ck_assert_uint_eq(c.socket_group, 27);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		config_defaults(&c, 0);
		ck_assert_msg(config_parse_named(&c, wrong[i], strlen(wrong[i]), "f", &names, &e) == -1, "%s", wrong[i]);
		ck_assert_int_eq(e.code, ERR_BAD_PARAM);
	}
	ck_assert_int_eq(parse(&c, "administrators = ada", &e), -1); /* without texts there are no names */
}
END_TEST

static const struct {
	const char *text;
	enum err_code code;
	int64_t line;
	const char *name, *nearest;
} bad[] = {
	{ "# x\nsockets = /s\n", ERR_UNKNOWN_PARAM, 2, "sockets", "socket" },
	{ "max_job = 1", ERR_UNKNOWN_PARAM, 1, "max_job", "max_jobs" },
	{ "nonsense = 1", ERR_UNKNOWN_PARAM, 1, "nonsense", "" },
	{ "Socket = /s", ERR_UNKNOWN_PARAM, 1, "Socket", "socket" },
	{ "socket = /a\n\nsocket = /a\n", ERR_DUPLICATE_KEY, 3, "socket", "" },
	{ "socket", ERR_BAD_PARAM, 1, "", "" },
	{ "= 1", ERR_BAD_PARAM, 1, "", "" },
	{ "socket =", ERR_BAD_PARAM, 1, "socket", "" },
	{ "socket = # none", ERR_BAD_PARAM, 1, "socket", "" },
	{ "socket = relative", ERR_BAD_PARAM, 1, "socket", "" },
	{ "socket = /\x01", ERR_BAD_UTF8, 1, "", "" },
	{ "socket = /\xff", ERR_BAD_UTF8, 1, "", "" },
	{ "socket_mode = 0888", ERR_BAD_PARAM, 1, "socket_mode", "" },
	{ "socket_mode = 1777", ERR_BAD_PARAM, 1, "socket_mode", "" },
	{ "socket_mode = rw", ERR_BAD_PARAM, 1, "socket_mode", "" },
	{ "socket_group = 4294967295", ERR_BAD_PARAM, 1, "socket_group", "" },
	{ "socket_group = users", ERR_BAD_PARAM, 1, "socket_group", "" },
	{ "administrators = 1,", ERR_BAD_PARAM, 1, "administrators", "" },
	{ "administrators = ,1", ERR_BAD_PARAM, 1, "administrators", "" },
	{ "administrators = 1 2", ERR_BAD_PARAM, 1, "administrators", "" },
	{ "administrators = -1", ERR_BAD_PARAM, 1, "administrators", "" },
	{ "administrators = 4294967295", ERR_BAD_PARAM, 1, "administrators", "" },
	{ "administrators = *", ERR_BAD_PARAM, 1, "administrators", "" },
	{ "operators = *, 1", ERR_BAD_PARAM, 1, "operators", "" },
	{ "uid_first = 0", ERR_BAD_PARAM, 1, "uid_first", "" },
	{ "uid_first = 2147483648", ERR_BAD_PARAM, 1, "uid_first", "" },
	{ "uid_count = 255", ERR_BAD_PARAM, 1, "uid_count", "" },
	{ "max_sandboxes = 0", ERR_BAD_PARAM, 1, "max_sandboxes", "" },
	{ "max_sandboxes = 16385", ERR_BAD_PARAM, 1, "max_sandboxes", "" },
	{ "spare_hosts = 17", ERR_BAD_PARAM, 1, "spare_hosts", "" },
	{ "max_jobs = 17", ERR_BAD_PARAM, 1, "max_jobs", "" },
	{ "max_sandboxes_per_owner = 16385", ERR_BAD_PARAM, 1, "max_sandboxes_per_owner", "" },
	{ "max_memory_per_owner = 1G", ERR_BAD_PARAM, 1, "max_memory_per_owner", "" },
	{ "max_store_bytes_per_owner = -1", ERR_BAD_PARAM, 1, "max_store_bytes_per_owner", "" },
	{ "max_jobs_per_owner = 17", ERR_BAD_PARAM, 1, "max_jobs_per_owner", "" },
	{ "max_jobs_per_user = 1", ERR_UNKNOWN_PARAM, 1, "max_jobs_per_user", "max_jobs_per_owner" },
	{ "max_memory_bytes = 9223372036854775808", ERR_BAD_PARAM, 1, "max_memory_bytes", "" },
	{ "max_memory_bytes = 99999999999999999999999999", ERR_BAD_PARAM, 1, "max_memory_bytes", "" },
	{ "max_memory_bytes = 1K", ERR_BAD_PARAM, 1, "max_memory_bytes", "" },
	{ "max_memory_bytes = 0x10", ERR_BAD_PARAM, 1, "max_memory_bytes", "" },
	{ "max_processes = -1", ERR_BAD_PARAM, 1, "max_processes", "" },
	{ "max_processes = +1", ERR_BAD_PARAM, 1, "max_processes", "" },
	{ "compile_timeout_ms = 1", ERR_BAD_PARAM, 1, "compile_timeout_ms", "" },
	{ "shutdown_timeout_ms = 999", ERR_BAD_PARAM, 1, "shutdown_timeout_ms", "" },
	{ "zygote_hosts = 0", ERR_BAD_PARAM, 1, "zygote_hosts", "" },
	{ "zygote_age_ms = 999", ERR_BAD_PARAM, 1, "zygote_age_ms", "" },
	{ "compile_memory_bytes = 1", ERR_BAD_PARAM, 1, "compile_memory_bytes", "" },
};

START_TEST(refusals)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct config c, before;
		struct err e;
		char where[32];

		config_defaults(&c, 0);
		before = c;
		ck_assert_msg(parse(&c, bad[i].text, &e) == -1, "'%s' accepted", bad[i].text);
		ck_assert_msg(e.code == bad[i].code, "'%s': %s", bad[i].text, e.text);
		ck_assert_int_eq(e.offset, bad[i].line);
		ck_assert_str_eq(e.name, bad[i].name);
		ck_assert_str_eq(e.nearest, bad[i].nearest);
		snprintf(where, sizeof(where), "test.conf:%d: ", (int)bad[i].line);
		ck_assert_msg(strncmp(e.text, where, strlen(where)) == 0, "%s", e.text);
		ck_assert_mem_eq(&c, &before, sizeof(c));
		ck_assert_int_eq(config_parse(&c, bad[i].text, strlen(bad[i].text), "test.conf", NULL), -1);
	}
}
END_TEST

START_TEST(sizes)
{
	static char text[LIMIT_CONFIG_BYTES + 1];
	struct config c;
	struct err e = ERR_INIT;
	size_t n;

	config_defaults(&c, 0);
	memset(text, '\n', sizeof(text));
	ck_assert_int_eq(config_parse(&c, text, LIMIT_CONFIG_BYTES, "f", &e), 0);
	ck_assert_int_eq(config_parse(&c, text, LIMIT_CONFIG_BYTES + 1, "f", &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT_EXCEEDED);
	ck_assert_int_eq(config_parse(&c, "socket = /a\0b", 13, "f", &e), -1);
	ck_assert_int_eq(e.code, ERR_BAD_UTF8);

	n = (size_t)sprintf(text, "socket = /");
	memset(text + n, 's', 106);
	text[n + 106] = '\0';
	ck_assert_msg(parse(&c, text, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(strlen(c.socket_path), 107);
	text[n + 106] = 's';
	text[n + 107] = '\0';
	ck_assert_int_eq(parse(&c, text, &e), -1);

	n = (size_t)sprintf(text, "operators = 1");
	for (int i = 1; i < CONFIG_MAX_USERS; i++)
		n += (size_t)sprintf(text + n, ",%d", i);
	ck_assert_int_eq(parse(&c, text, &e), 0);
	ck_assert_uint_eq(c.n_operators, CONFIG_MAX_USERS);
	sprintf(text + n, ",7");
	ck_assert_int_eq(parse(&c, text, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT_EXCEEDED);
}
END_TEST

START_TEST(values_against_each_other)
{
	static const struct {
		const char *text, *name; /* NULL: good */
	} rows[] = {
		{ "socket = /a/../b", "socket" },
		{ "socket = /a/..", "socket" },
		{ "socket = /..a/b..", NULL },
		{ "state_dir = /", "state_dir" },
		{ "state_dir = //", "state_dir" },
		{ "runtime_dir = /a/../../b", "runtime_dir" },
		{ "state_dir = /a\nruntime_dir = /a", "state_dir" },
		{ "state_dir = /a/\nruntime_dir = //a/.", "state_dir" },
		{ "state_dir = /a\nruntime_dir = /a/b", "runtime_dir" },
		{ "state_dir = /a\nruntime_dir = /./a//b/c", "runtime_dir" },
		{ "state_dir = /a/objects\nruntime_dir = /a", "state_dir" },
		{ "state_dir = /a//objects/./x\nruntime_dir = /a/", "state_dir" },
		{ "state_dir = /a/jobs/x\nruntime_dir = /a", "state_dir" },
		{ "state_dir = /a/lock\nruntime_dir = /a", "state_dir" },
		{ "uid_count = 257", "uid_count" },
		{ "uid_first = 1000\nuid_count = 256", NULL },
		{ "uid_first = 60928\nuid_count = 256", NULL },
		{ "uid_first = 60929\nuid_count = 256", "uid_first" },
		{ "uid_first = 65519\nuid_count = 256", "uid_first" },
		{ "uid_first = 65520\nuid_count = 256", "uid_first" }, /* nobody */
		{ "uid_first = 65534\nuid_count = 256", "uid_first" },
		{ "uid_first = 65535\nuid_count = 256", NULL },
		{ "uid_first = 1000\nuid_count = 1048576", "uid_first" },
		{ "uid_first = 2147483392\nuid_count = 256", NULL },
		{ "uid_first = 2147483393\nuid_count = 256", "uid_first" },
		{ "uid_first = 2147483647\nuid_count = 2147483392", "uid_first" },
	};
	struct config c;
	struct err e;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		config_defaults(&c, 0);
		ck_assert_msg(parse(&c, rows[i].text, &e) == 0, "%s", e.text);
		ck_assert_msg(
			config_check(&c, &e) == (rows[i].name ? -1 : 0), "'%s': %s", rows[i].text, e.text);
		ck_assert_str_eq(e.name, rows[i].name ? rows[i].name : "");
	}
	config_defaults(&c, 0);
	memset(c.runtime_dir + 1, 'r', 200); /* no room for objects */
	ck_assert_int_eq(config_check(&c, &e), -1);
	config_defaults(&c, 0);
	c.state_dir[0] = 'v';
	ck_assert_int_eq(config_check(&c, &e), -1);
	config_defaults(&c, 0);
	c.state_dir[3] = '\n';
	ck_assert_int_eq(config_check(&c, &e), -1);
	config_defaults(&c, 0);
	c.uid_count = 0;
	ck_assert_int_eq(config_check(&c, NULL), -1);
}
END_TEST

CHECK_MAIN("config", tcase_add_test(tc, defaults_of_root); tcase_add_test(tc, defaults_of_users);
	tcase_add_test(tc, environment_of_every_length); tcase_add_test(tc, every_key); tcase_add_test(tc, names_of_users_and_groups);
	tcase_add_test(tc, refusals); tcase_add_test(tc, sizes);
	tcase_add_test(tc, values_against_each_other))
