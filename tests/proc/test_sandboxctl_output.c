/* SPDX-License-Identifier: MIT
 *
 * What the real sandboxctl prints of a fake daemon's answers, and what it asks for to get them. */
#include "proto/err.h"
#include "proto/limits.h"
#include "tests/support/fake_daemon.h"

/* ---- what is printed ---- */

#define DIRTY                                                                                                \
	"\\u001b[31m\x7f\xc2\x9b"                                                                            \
	"2J\\n"

START_TEST(nothing_from_the_daemon_reaches_the_terminal_uncleaned)
{
	static const char *const answers[][4] = {
		{ RESULT("{\"sandboxes\":[{\"id\":\"" DIRTY "\",\"status\":\"" DIRTY "\",\"module\":{\"" DIRTY
			 "\":1}}]}"),
			"list", NULL },
		{ RESULT("{\"result\":\"" DIRTY "\"}"), "call", "web", "f" },
		{ RESULT("{\"id\":\"" DIRTY "\",\"" DIRTY "\":\"" DIRTY "\",\"functions\":[{\"name\":\"" DIRTY
			 "\"}],\"limits\":{\"" DIRTY "\":1},\"config\":{\"a\":\"" DIRTY "\"}}"),
			"info", "web" },
		{ RESULT("{\"lines\":[{\"at\":1,\"stream\":\"" DIRTY "\",\"level\":\"" DIRTY
			 "\",\"text\":\"" DIRTY "\"}]}"),
			"logs", "web" },
		{ RESULT("{\"events\":[{\"seq\":\"" DIRTY "\",\"type\":\"" DIRTY "\",\"" DIRTY "\":\"" DIRTY
			 "\"}]}"),
			"events", "-n1" },
		{ RESULT("{\"outcome\":\"reloaded\",\"from\":\"" DIRTY "\",\"rung\":\"" DIRTY
			 "\",\"report\":{\"" DIRTY "\":[\"" DIRTY "\"]},\"steps_us\":{\"" DIRTY
			 "\":1},\"pinned\":\"" DIRTY "\"}"),
			"rollback", "web" },
		{ RESULT("{\"versions\":[{\"version\":\"" DIRTY "\",\"sha256\":\"" DIRTY "\"}]}"), "versions",
			"web" },
		{ RESULT("{\"" DIRTY "\":\"" DIRTY "\"}"), "daemon-info", NULL },
		{ RESULT("{\"version\":\"" DIRTY "\"}"), "ping", NULL },
		{ RESULT("{\"id\":\"" DIRTY "\",\"status\":\"" DIRTY "\"}"), "stop", "web" },
	};
	size_t i = (size_t)_i / 2;
	const char *json = _i % 2 ? "--json" : "--timeout=9000";
	struct fake *f;
	int status = fake_once(&f, SCRIPT(answers[i][0]), json, answers[i][1], answers[i][2],
		answers[i][2] ? answers[i][3] : NULL);

	ck_assert_msg(status == 0, "%s", f->err);
	is_clean(f->out);
	is_clean(f->err);
	has(f->out, "[31m");
	if (_i % 2 || strcmp(answers[i][1], "call") == 0)
		(void)line_of(f->out);
	if (_i % 2)
		has(f->out, "\\u001b[31m\\u007f\\u009b2J\\n");
	fake_free(f);
}
END_TEST

START_TEST(call_prints_the_result_alone)
{
	struct fake *f = fake_start(SCRIPT(RESULT("{\"result\":{\"count\":5},\"version\":2}")));
	struct fake_run with_input = { .standard_in = "{\"by\": 5,\n\"o\":{}}\n" };

	ck_assert_int_eq(fake_run_with(f, &with_input, SCRIPT("call", "web", "add", "--args", "-")), 0);
	ck_assert_str_eq(f->out, "{\"count\":5}\n");
	ck_assert_str_eq(f->err, "");
	fake_stop(f);
	ck_assert_str_eq(params_of(f, 0, "sandbox.call"),
		"{\"id\":\"web\",\"function\":\"add\",\"args\":{\"by\": 5, \"o\":{}} }");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(RESULT("{\"result\":{\"count\":5},\"version\":2}")), "call",
				 "web", "add", "by=5", "name=x", "obj:={\"a\":1}", "--json"),
		0);
	ck_assert_str_eq(f->out, "{\"result\":{\"count\":5},\"version\":2}\n");
	ck_assert_str_eq(params_of(f, 0, "sandbox.call"),
		"{\"id\":\"web\",\"function\":\"add\",\"args\":{\"by\":5,\"name\":\"x\",\"obj\":{\"a\":1}}}");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(RESULT("{}")), "call", "web", "add"), 0);
	ck_assert_str_eq(f->out, "null\n");
	fake_free(f);
}
END_TEST

START_TEST(a_request_that_is_too_large_is_not_sent)
{
	char *text = malloc(LIMIT_REQUEST_BYTES + 1);
	struct fake *f = fake_start(SCRIPT(RESULT("{}")));
	struct fake_run with_input = { .standard_in = text };

	memset(text, 'x', LIMIT_REQUEST_BYTES);
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + LIMIT_REQUEST_BYTES - 2, "\"}", 3);
	ck_assert_int_eq(fake_run_with(f, &with_input, SCRIPT("call", "web", "add", "--args", "-")), 2);
	has(f->err, "request_too_large");
	fake_stop(f);
	ck_assert_uint_eq(f->n_lines, 0);
	fake_free(f);
	free(text);
}
END_TEST

#define PAGE_1                                                                                               \
	RESULT_TO(1, "{\"sandboxes\":[{\"id\":\"a\",\"status\":\"running\",\"module\":\"counter\","          \
		     "\"version\":2,\"pid\":12,"                                                             \
		     "\"owner\":0,\"restart_count\":1,\"created_at\":1000,\"group\":\"shop\",\"profile\":\"medium\","      \
		     "\"labels\":{\"team\":\"a\",\"zone\":\"x\\u0007y\"}}],\"next\":\"a\"}")
#define PAGE_2                                                                                               \
	RESULT_TO(2,                                                                                         \
		"{\"sandboxes\":[{\"id\":\"longer-id\",\"status\":\"failed\",\"pid\":null}],\"next\":null}")

START_TEST(list_follows_pages)
{
	struct fake *f;

	ck_assert_int_eq(fake_once(&f, SCRIPT(PAGE_1, PAGE_2), "list"), 0);
	has(f->out, "ID         STATUS   MODULE   VERSION  PID  RESTARTS  OWNER  AGE");
	has(f->out, "  GROUP  PROFILE  LABELS\na          running  counter  2        12   1         0      ");
	has(f->out, "  shop   medium   team=a,zone=x?y\n");
	has(f->out, "\nlonger-id  failed   -        -        -    -         -      -");
	hasnt(f->out, "\x1b");
	ck_assert_str_eq(params_of(f, 0, "sandbox.list"), "{}");
	ck_assert_str_eq(params_of(f, 1, "sandbox.list"), "{\"after\":\"a\"}");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(PAGE_1, PAGE_2), "list", "-q"), 0);
	ck_assert_str_eq(f->out, "a\nlonger-id\n");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(PAGE_1, PAGE_2), "list", "--json"), 0);
	has(f->out, "{\"sandboxes\":[{\"id\":\"a\",");
	has(f->out, ",{\"id\":\"longer-id\",\"status\":\"failed\",\"pid\":null}]}\n");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(PAGE_1), "list", "--limit", "1"), 0);
	has(f->err, "there are more: --after a");
	ck_assert_str_eq(params_of(f, 0, "sandbox.list"), "{\"limit\":1}");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(RESULT("{\"sandboxes\":[]}")), "list"), 0);
	ck_assert_str_eq(f->out, "ID  STATUS  MODULE  VERSION  PID  RESTARTS  OWNER  AGE  GROUP  PROFILE  LABELS\n");
	fake_free(f);
	/* a page of which nothing was left by filters, but that isn't the last */
	ck_assert_int_eq(fake_once(&f, SCRIPT(RESULT_TO(1, "{\"sandboxes\":[],\"next\":\"k\"}"), PAGE_2), "list", "-q", "--limit", "1", "--name", "long*"), 0);
	ck_assert_str_eq(f->out, "longer-id\n");
	has(params_of(f, 1, "sandbox.list"), "\"after\":\"k\"");
	fake_free(f);
	/* the second page fails */
	ck_assert_int_eq(fake_once(&f, SCRIPT(PAGE_1, FAKE_CLOSE), "list"), 6);
	ck_assert_str_eq(f->out, "");
	fake_free(f);
}
END_TEST

START_TEST(info_is_readable)
{
	static const char info[] =
		RESULT("{\"id\":\"web\",\"status\":\"backoff\",\"status_reason\":\"crashed\",\"pid\":null,"
		       "\"module\":\"counter\",\"state_version\":1,"
		       "\"version\":2,\"created_at\":1000,\"budget\":{\"used\":2,\"allowed\":5,\"period_ms\":"
		       "60000,\"resets_in_ms\":40100},"
		       "\"backoff\":{\"until_in_ms\":200},\"limits\":{\"max_memory\":134217728,\"max_"
		       "processes\":100},\"labels\":{\"team\":\"a\"},"
		       "\"last_exit\":{\"reason\":\"signal\",\"class\":\"crash\",\"signal\":\"SIGSEGV\","
		       "\"code\":null,\"uptime_ms\":7,\"words\":\"bye\"},"
		       "\"queue\":{\"waiting\":1,\"running\":0,\"max\":1024},\"functions\":[{\"name\":"
		       "\"add\",\"parameters\":[{\"name\":\"by\","
		       "\"type\":\"i64\",\"optional\":true,\"default\":1},{\"name\":\"why\",\"type\":"
		       "\"string\"}]},{\"name\":\"get\",\"parameters\":[]}],"
		       "\"state\":[{\"name\":\"count\",\"type\":\"i64\"}],\"security\":[{\"protection\":"
		       "\"seccomp\",\"asked\":\"on\",\"got\":\"none\","
		       "\"by\":\"-\",\"why\":\"not yet\"}],\"later\":{\"a\":1}}");
	static const char *const parts[] = {
		"status           backoff (crashed)\n",
		"module           counter, version 2, state version 1\n",
		"restart budget   2 of 5 used, resets in 41 s\n",
		"back-off         next start in 200 ms\n",
		"limits           max_memory 128 MiB, max_processes 100\n",
		"labels           team=a\n",
		"last exit        signal; class crash; signal SIGSEGV\n",
		"  last words     bye\n",
		"queue            1 waiting of 1024, 0 running\n",
		"function         add(by: i64 = 1, why: string)\n",
		"function         get()\n",
		"state            count: i64\n",
		"later            {\"a\":1}\n",
		"\nPROTECTION  ASKED  GOT   BY  EXPOSURE  WHY\nseccomp     on     none  -   -         not yet\n",
	};
	struct fake *f;

	ck_assert_int_eq(fake_once(&f, SCRIPT(info), "info", "web"), 0);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		has(f->out, parts[i]);
	hasnt(f->out, "pid");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(info), "info", "web", "--functions"), 0);
	ck_assert_str_eq(f->out, "add\nget\n");
	fake_free(f);
}
END_TEST

/* Any member may be missing or of another type: nothing may break. */
START_TEST(strange_results_are_tolerated)
{
	static const char *const results[] = { RESULT("{}"), RESULT("null"), RESULT("[]"), RESULT("7"),
		RESULT("{\"sandboxes\":{\"a\":1},\"versions\":7,\"lines\":[1,null],\"events\":\"x\",\"next\":"
		       "7,\"budget\":[],\"functions\":[1],"
		       "\"state\":7,\"security\":{},\"limits\":[1],\"last_exit\":{},\"report\":[],\"steps_"
		       "us\":{\"a\":\"b\"},\"queue\":7,\"at\":-1}") };
	static const char *const verb_args[][3] = { { "list" }, { "info", "w" }, { "call", "w", "f" },
		{ "versions", "w" }, { "logs", "w" }, { "events" }, { "rollback", "w" }, { "stop", "w" },
		{ "destroy", "w" }, { "ping" }, { "daemon-info" }, { "shutdown" } };

	for (size_t i = 0; i < sizeof(verb_args) / sizeof(verb_args[0]); i++) {
		const char *const *v = verb_args[i];
		struct fake *f;

		ck_assert_msg(fake_once(&f, SCRIPT(results[_i]), v[0], v[1], v[1] ? v[2] : NULL) == 0,
			"%s: %s", v[0], f->err);
		fake_free(f);
	}
}
END_TEST

START_TEST(reload_tells_what_happened)
{
	struct fake *f;

	ck_assert_int_eq(fake_once(&f,
				 SCRIPT(RESULT("{\"outcome\":\"reloaded\",\"from\":1,\"to\":2,\"rung\":\"re"
					       "place\",\"rung_reason\":\"memory: needs 3 x state\",\"pause_us\":312,"
					       "\"steps_us\":{\"save\":100,\"load\":212},\"state_bytes\":24,"
					       "\"calls_queued\":3,"
					       "\"report\":{\"carried\":2,\"added\":[\"note\"],\"dropped\":[]"
					       ",\"renamed\":[\"a -> b\",\"c -> d\"]},"
					       "\"pinned\":false}")),
				 "rollback", "web", "1"),
		0);
	ck_assert_str_eq(f->out,
		"web: version 1 -> 2, replace (memory: needs 3 x state), paused 0.31 ms, 24 bytes of state, 3 calls queued\n"
		"  carried 2\n  added: note\n  renamed: a -> b, c -> d\n  steps: save 0.10 ms, load 0.21 "
		"ms\n");
	ck_assert_str_eq(params_of(f, 0, "sandbox.rollback"), "{\"id\":\"web\",\"version\":1}");
	fake_free(f);
}
END_TEST

START_TEST(logs_and_events)
{
	struct fake *f;

	ck_assert_int_eq(fake_once(&f,
				 SCRIPT(RESULT("{\"lines\":[{\"at\":1000,\"stream\":\"stdout\",\"text\":"
					       "\"hello\"},{\"at\":1001,"
					       "\"stream\":\"log\",\"level\":\"info\",\"text\":\"x\","
					       "\"partial\":true}],\"dropped_bytes\":7}")),
				 "logs", "web", "-n", "5"),
		0);
	has(f->out, ".000 stdout  hello\n");
	has(f->out, ".001 log info  x (continued)\n");
	has(f->err, "7 bytes were dropped");
	ck_assert_str_eq(params_of(f, 0, "log.read"), "{\"id\":\"web\",\"lines\":5}");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f,
				 SCRIPT(RESULT_TO(1, "{\"events\":[{\"seq\":\"1-8\",\"at\":1,\"type\":"
						     "\"sandbox.started\",\"sandbox\":\"web\","
						     "\"pid\":12}],\"next\":\"1-8\",\"gap\":true}"),
					 RESULT_TO(2, "{\"events\":[],\"next\":\"1-8\",\"gap\":false}")),
				 "events", "--since", "1-2", "--sandbox", "web"),
		0);
	has(f->out, "1-8  ");
	has(f->out, "  sandbox.started  web  pid=12\n");
	has(f->err, "older events are gone");
	ck_assert_str_eq(params_of(f, 0, "event.read"), "{\"sandbox\":\"web\",\"since_seq\":\"1-2\"}");
	ck_assert_str_eq(params_of(f, 1, "event.read"), "{\"sandbox\":\"web\",\"since_seq\":\"1-8\"}");
	fake_free(f);
}
END_TEST

START_TEST(quiet_is_quiet)
{
	static const char *const verb_args[][3] = { { "stop", "w" }, { "destroy", "w" }, { "rollback", "w" },
		{ "ping" }, { "shutdown" } };

	for (size_t i = 0; i < sizeof(verb_args) / sizeof(verb_args[0]); i++) {
		struct fake *f;

		ck_assert_int_eq(fake_once(&f, SCRIPT(RESULT("{\"id\":\"w\"}")), "--quiet", verb_args[i][0],
					 verb_args[i][1]),
			0);
		ck_assert_str_eq(f->out, "");
		ck_assert_str_eq(f->err, "");
		fake_free(f);
	}
}
END_TEST

/* With a terminal as standard output; what it got. */
static const char *on_terminal(const char *term, const char *variable)
{
	static char text[4096];
	struct fake *f = fake_start(SCRIPT(RESULT("{\"sandboxes\":[{\"id\":\"a\",\"status\":\"failed\"}]}")));
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct fake_run how = { .env = { term, variable } };
	ssize_t n;

	ck_assert_int_ge(terminal, 0);
	ck_assert_int_eq(grantpt(terminal), 0);
	ck_assert_int_eq(unlockpt(terminal), 0);
	how.standard_out = ptsname(terminal);
	ck_assert_int_eq(fake_run_with(f, &how, SCRIPT("list")), 0);
	n = read(terminal, text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	close(terminal);
	fake_free(f);
	return text;
}

START_TEST(colours_only_on_a_terminal)
{
	has(on_terminal("TERM=xterm", NULL), "\x1b[31mfailed\x1b[0m");
	hasnt(on_terminal("TERM=xterm", "NO_COLOR=1"), "\x1b");
	hasnt(on_terminal("TERM=dumb", NULL), "\x1b");
	has(on_terminal("TERM=xterm", "NO_COLOR="), "\x1b[31m"); /* empty is as unset */
}
END_TEST

CHECK_MAIN("sandboxctl_output",
	   tcase_add_loop_test(tc, nothing_from_the_daemon_reaches_the_terminal_uncleaned, 0, 20);
	   tcase_add_test(tc, call_prints_the_result_alone);
	   tcase_add_test(tc, a_request_that_is_too_large_is_not_sent);
	   tcase_add_test(tc, list_follows_pages); tcase_add_test(tc, info_is_readable);
	   tcase_add_loop_test(tc, strange_results_are_tolerated, 0, 5);
	   tcase_add_test(tc, reload_tells_what_happened); tcase_add_test(tc, logs_and_events);
	   tcase_add_test(tc, quiet_is_quiet); tcase_add_test(tc, colours_only_on_a_terminal))
