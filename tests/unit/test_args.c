/* SPDX-License-Identifier: MIT
 *
 * sandboxctl's command line: options derived from the method table, the call syntax, sizes, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/argjson.h"
#include "client/args.h"
#include "client/input.h"
#include "proto/json_out.h"
#include "proto/limits.h"
#include "tests/support/check_main.h"

static struct args a;
static struct err e;

static int parse(const char *line)
{
	static char words[16][256];
	static char *argv[17];
	char copy[1024], *save = NULL;
	int argc = 0;

	(void)snprintf(copy, sizeof(copy), "sandboxctl %s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		ck_assert_int_lt(argc, 16);
		(void)snprintf(words[argc], sizeof(words[argc]), "%s", w);
		argv[argc] = words[argc];
		argc++;
	}
	argv[argc] = NULL;
	e = (struct err)ERR_INIT;
	return args_parse(&a, argc, argv, &e);
}

/* The params of a command line, or the text code of the error. */
static const char *params(const char *line)
{
	static char text[4096];
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	int r;

	if (parse(line) == -1)
		return err_code_text(e.code);
	json_out_object(&o, NULL);
	r = argjson_write(&o, &a, NULL, &e);
	json_out_object_end(&o);
	if (r == 0) {
		ck_assert_msg(json_check(b.data, b.size, &e) == 0, "%s", e.text);
		ck_assert_uint_lt(b.size, sizeof(text));
		memcpy(text, buf_text(&b), b.size + 1);
	}
	buf_fini(&b);
	return r == 0 ? text : err_code_text(e.code);
}

static const struct {
	const char *line, *want;
} lines[] = {
	/* operands and options of the table */
	{ "info web", "{\"id\":\"web\"}" },
	{ "create web x.c --restart transient --strict --max-queue=7",
		"{\"id\":\"web\",\"restart\":\"transient\",\"max_queue\":7,\"strict\":true}" },
	{ "create web x.c --strict=false", "{\"id\":\"web\",\"strict\":false}" },
	{ "create web x.c --no-strict --no-persist", "{\"id\":\"web\",\"strict\":false,\"persist\":false}" },
	{ "create web x.c --start-timeout-ms 500 --shutdown-ms 0", "{\"id\":\"web\",\"start_timeout_ms\":500,\"shutdown_ms\":0}" },
	{ "create web x.c --config {\"a\":[1,2]}", "{\"id\":\"web\",\"config\":{\"a\":[1,2]}}" },
	{ "create web x.c --limit max_memory=64M --limit max_processes=5",
		"{\"id\":\"web\",\"limits\":{\"max_memory\":67108864,\"max_processes\":5}}" },
	{ "create web x.c --limits {\"max_memory\":1}", "{\"id\":\"web\",\"limits\":{\"max_memory\":1}}" },
	{ "create web x.c --label team=a --label n=5", "{\"id\":\"web\",\"labels\":{\"team\":\"a\",\"n\":\"5\"}}" },
	{ "create web x.c --label a==b", "{\"id\":\"web\",\"labels\":{\"a\":\"=b\"}}" },
	{ "rollback web 3 --quiesce-timeout-ms 9", "{\"id\":\"web\",\"version\":3,\"quiesce_timeout_ms\":9}" },
	{ "rollback web --version 3", "{\"id\":\"web\",\"version\":3}" },
	{ "rollback web 3 --version 3", "duplicate_key" },
	{ "rollback web", "{\"id\":\"web\"}" },
	{ "restart web --state fresh", "{\"id\":\"web\",\"state\":\"fresh\"}" },
	{ "logs web -n 5", "{\"id\":\"web\",\"lines\":5}" },
	{ "logs web -n5", "{\"id\":\"web\",\"lines\":5}" },
	{ "logs web --lines 5", "{\"id\":\"web\",\"lines\":5}" },
	{ "events -n 3 --since 1-7 --sandbox web", "{\"since_seq\":\"1-7\",\"sandbox\":\"web\",\"limit\":3}" },
	{ "events --since-seq 1-7", "{\"since_seq\":\"1-7\"}" },
	{ "--json info --quiet web --socket /x", "{\"id\":\"web\"}" },
	{ "info -- web", "{\"id\":\"web\"}" },
	/* the call syntax */
	{ "call web f", "{\"id\":\"web\",\"function\":\"f\"}" },
	{ "call web f by=5 name=x", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"by\":5,\"name\":\"x\"}}" },
	{ "call web f a=-1.5e3 b=true c=false d=null e=", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":-1.5e3,\"b\":true,\"c\":false,"
							"\"d\":null,\"e\":\"\"}}" },
	{ "call web f a=05 b=+1 c=0x10 d=1. e=NaN f=True",
		"{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":\"05\",\"b\":\"+1\",\"c\":\"0x10\",\"d\":\"1.\",\"e\":\"NaN\",\"f\":\"True\"}}" },
	{ "call web f a=[1] b={} c=\"x\"",
		"{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":\"[1]\",\"b\":\"{}\",\"c\":\"\\\"x\\\"\"}}" },
	{ "call web f a:=\"5\" b:=[1,{\"x\":null}] c:=7",
		"{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":\"5\",\"b\":[1,{\"x\":null}],\"c\":7}}" },
	{ "call web f a=x=y b=c:=d", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":\"x=y\",\"b\":\"c:=d\"}}" },
	{ "call web f a=9007199254740993", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":\"9007199254740993\"}}" },
	{ "call web f a=9007199254740991", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":9007199254740991}}" },
	{ "call web f --args {\"by\":1}", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"by\":1}}" },
	{ "call web f --timeout 70", "{\"id\":\"web\",\"function\":\"f\",\"timeout_ms\":70}" },
	{ "call web f --timeout 70 --timeout-ms 5", "{\"id\":\"web\",\"function\":\"f\",\"timeout_ms\":5}" },
	{ "call web f -- a=1 b=--x", "{\"id\":\"web\",\"function\":\"f\",\"args\":{\"a\":1,\"b\":\"--x\"}}" },
	/* what is refused */
	{ "crate", "unknown_method" },
	{ "info", "missing_param" },
	{ "info a b", "unknown_param" },
	{ "ping x", "unknown_param" },
	{ "call web", "missing_param" },
	{ "info web --restart temporary", "unknown_param" },
	{ "create web x.c --restrat transient", "unknown_param" },
	{ "create web x.c --source 00", "unknown_param" },
	{ "--restart transient create web x.c", "unknown_param" },
	{ "info web -x", "unknown_param" },
	{ "create web x.c --restart", "missing_param" },
	{ "create web x.c --restart always", "bad_param" },
	{ "create web x.c --restart permanent|transient", "bad_param" },
	{ "create web x.c --restart=", "bad_param" },
	{ "create web x.c --restart transient --restart transient", "duplicate_key" },
	{ "create web x.c --config {} --config-file x", "duplicate_key" },
	{ "create web x.c --limit a=1 --limits {}", "duplicate_key" },
	{ "create web x.c --limit a=1 --limit a=2", "duplicate_key" },
	{ "create web x.c --max-queue 0", "bad_param" },
	{ "create web x.c --max-queue 65537", "bad_param" },
	{ "create web x.c --max-queue 1x", "bad_param" },
	{ "create web x.c --max-queue -", "bad_param" },
	{ "create web x.c --max-queue 99999999999999999999", "bad_param" },
	{ "create web x.c --strict=maybe", "bad_param" },
	{ "create web x.c --no-persist=false", "bad_param" },
	{ "create web x.c --no-persist --no-persist", "duplicate_key" },
	{ "create web x.c --persist --no-persist", "duplicate_key" },
	{ "create web x.c --no-restart", "unknown_param" },
	{ "create web x.c --no-persit", "unknown_param" },
	{ "create web x.c --limits [1]", "bad_param" },
	{ "create web x.c --limits {\"a\":1,\"a\":2}", "duplicate_key" },
	{ "create web x.c --config {\"a\":}", "parse_error" },
	{ "create web x.c --config-file /nonexistent/file", "bad_param" },
	{ "create web x.c --limit max_memory=64X", "bad_param" },
	{ "create web x.c --limit max_memory:=64", "bad_param" },
	{ "create web x.c --limit max_memory", "bad_param" },
	{ "create web x.c --label =x", "bad_param" },
	{ "create web x.c --label a:=x", "bad_param" },
	{ "create web x.c --object 00", "bad_param" },
	{ "create ../x x.c", "invalid_id" },
	{ "info -- -x", "invalid_id" },
	{ "call web 9f", "bad_param" },
	{ "call web f x", "bad_param" },
	{ "call web f =x", "bad_param" },
	{ "call web f :=1", "bad_param" },
	{ "call web f a:=", "parse_error" },
	{ "call web f a:=x", "parse_error" },
	{ "call web f a:={\"b\":1,\"b\":2}", "duplicate_key" },
	{ "call web f a=1 a=2", "duplicate_key" },
	{ "call web f a=1 --args {}", "duplicate_key" },
	{ "call web f a=\xff", "bad_utf8" },
	{ "call web f --args [1]", "bad_param" },
	{ "call web f --timeout x", "bad_param" },
	{ "call web f --timeout -5", "bad_param" },
	{ "ping --json=yes", "bad_param" },
	{ "rollback web 0", "bad_param" },
	{ "rollback web x", "bad_param" },
};

START_TEST(command_lines_become_params_or_errors)
{
	const char *got = params(lines[_i].line);

	ck_assert_msg(strcmp(got, lines[_i].want) == 0, "%s: got %s (%s), want %s", lines[_i].line, got, e.text, lines[_i].want);
}
END_TEST

START_TEST(globals_stand_anywhere)
{
	ck_assert_int_eq(parse("--socket /a --timeout=5 info web --json -q"), 0);
	ck_assert_str_eq(a.socket, "/a");
	ck_assert_int_eq(a.timeout_ms, 5);
	ck_assert(a.json && a.quiet && !a.help);
	ck_assert_str_eq(a.verb->name, "info");
	ck_assert_int_eq(parse("create --help"), 0);
	ck_assert(a.help);
	/* known even where the line is bad, so that the error can be shown as asked */
	ck_assert_int_eq(parse("info --bad --json"), -1);
	ck_assert(a.json);
	ck_assert_str_eq(a.verb->name, "info");
}
END_TEST

START_TEST(unknown_names_get_the_nearest)
{
	ck_assert_int_eq(parse("create web x.c --restrat x"), -1);
	ck_assert_str_eq(e.nearest, "--restart");
	ck_assert_int_eq(parse("relaod web"), -1);
	ck_assert_str_eq(e.nearest, "reload");
	ck_assert_int_eq(parse("info web --qqqqqqqqqqqqqqqq"), -1);
	ck_assert_str_eq(e.nearest, "");
}
END_TEST

START_TEST(every_parameter_has_an_operand_or_an_option)
{
	for (size_t i = 0; i < n_verbs; i++) {
		const struct method *m = verb_method(&verbs[i]);
		struct option all[OPTIONS_MAX];
		size_t n = options_of(&verbs[i], all);

		for (size_t j = 0; m && !verbs[i].own_params && j < method_n_params(m); j++) {
			size_t found = option_is_operand(&verbs[i], m->params[j].name);

			for (size_t k = 0; k < n; k++)
				found += all[k].param == &m->params[j];
			ck_assert_msg(found > 0, "%s: %s can't be given", verbs[i].name, m->params[j].name);
		}
		for (size_t j = 0; j < n; j++)
			for (size_t k = 0; k < j; k++) {
				ck_assert_msg(strcmp(all[j].name, all[k].name) != 0, "%s: two --%s", verbs[i].name, all[j].name);
				ck_assert(!all[j].letter || all[j].letter != all[k].letter);
			}
	}
}
END_TEST

START_TEST(every_method_has_a_verb)
{
	for (int m = 0; m < METHOD__N; m++) {
		bool found = m == METHOD_OBJECT_PUT || m == METHOD_STREAM_END; /* create and reload use it; a stream ends with its verb */

		for (size_t i = 0; i < n_verbs; i++)
			found = found || verbs[i].method == m;
		ck_assert_msg(found, "no verb for %s", methods[m].name);
	}
}
END_TEST

static const struct {
	const char *text;
	uint64_t want; /* UINT64_MAX: refused */
} sizes[] = {
	{ "0", 0 }, { "1", 1 }, { "64M", 64u << 20 }, { "64m", 64u << 20 }, { "64MiB", 64u << 20 }, { "1K", 1024 }, { "2g", 2ull << 30 },
	{ "1T", 1ull << 40 }, { "16777215T", 16777215ull << 40 }, { "16777216T", UINT64_MAX }, { "18446744073709551616", UINT64_MAX },
	{ "", UINT64_MAX }, { "M", UINT64_MAX }, { "-1", UINT64_MAX }, { " 1", UINT64_MAX }, { "1 M", UINT64_MAX }, { "1MB", UINT64_MAX },
	{ "1Mi", UINT64_MAX }, { "1.5M", UINT64_MAX }, { "1MM", UINT64_MAX }, { "0x10", UINT64_MAX },
};

START_TEST(sizes_have_units)
{
	uint64_t got = 0;
	int r = argjson_size(sizes[_i].text, &got, &e);

	ck_assert_msg((r == -1) == (sizes[_i].want == UINT64_MAX), "%s", sizes[_i].text);
	if (r == 0)
		ck_assert_uint_eq(got, sizes[_i].want);
}
END_TEST

START_TEST(too_many_words_are_an_error)
{
	static char *argv[600];
	static char word[] = "a=1";

	for (int i = 0; i < 600; i++)
		argv[i] = word;
	argv[1] = strdup("call");
	ck_assert_int_eq(args_parse(&a, 600, argv, &e), -1);
	ck_assert_int_eq(e.code, ERR_BAD_PARAM);
	free(argv[1]);
}
END_TEST

START_TEST(json_comes_from_files)
{
	char path[] = "/tmp/test_args_XXXXXX", line[128];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "{\n \"by\": 1 }\n", 13), 13);
	(void)snprintf(line, sizeof(line), "call web f --args-file %s", path);
	ck_assert_str_eq(params(line), "{\"id\":\"web\",\"function\":\"f\",\"args\":{  \"by\": 1 } }");
	ck_assert_int_eq(ftruncate(fd, LIMIT_REQUEST_BYTES + 1), 0);
	ck_assert_str_eq(params(line), "request_too_large");
	close(fd);
	unlink(path);
}
END_TEST

CHECK_MAIN("args", tcase_add_loop_test(tc, command_lines_become_params_or_errors, 0, sizeof(lines) / sizeof(lines[0]));
	tcase_add_test(tc, globals_stand_anywhere); tcase_add_test(tc, unknown_names_get_the_nearest);
	tcase_add_test(tc, every_parameter_has_an_operand_or_an_option); tcase_add_test(tc, every_method_has_a_verb);
	tcase_add_loop_test(tc, sizes_have_units, 0, sizeof(sizes) / sizeof(sizes[0]));
	tcase_add_test(tc, too_many_words_are_an_error); tcase_add_test(tc, json_comes_from_files))
