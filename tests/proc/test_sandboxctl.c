/* SPDX-License-Identifier: MIT
 *
 * The real sandboxctl against a fake daemon: exit statuses, what is printed where, what is sent, and every
 * way in which a daemon can misbehave. SANDBOXD_BUILD names the folder with the program. */
#include <stdint.h>

#include "client/option.h"
#include "client/verb.h"
#include "proto/err.h"
#include "proto/json_scan.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "tests/support/fake_daemon.h"

/* ---- exit statuses ---- */

START_TEST(each_error_has_its_exit_status)
{
	enum err_code code = (enum err_code)_i;
	char answer[512];
	struct fake *f;
	int status;

	(void)snprintf(answer, sizeof(answer),
		ERROR("{\"code\":%d,\"message\":\"it is so\",\"data\":{\"code\":\"%s\"}}"),
		err_code_number(code), err_code_text(code));
	status = fake_once(&f, SCRIPT(answer), "info", "web");
	ck_assert_int_eq(status, err_code_exit(code));
	ck_assert_int_ne(status, 0);
	ck_assert_str_eq(f->out, "");
	(void)snprintf(answer, sizeof(answer), "sandboxctl: info web: %s: it is so (%s)\n",
		err_code_text(code), err_code_hint(code));
	ck_assert_str_eq(f->err, answer);
	fake_free(f);
}
END_TEST

START_TEST(errors_without_a_known_word)
{
	struct fake *f;

	ck_assert_int_eq(
		fake_once(&f, SCRIPT(ERROR("{\"code\":-32001,\"message\":\"gone\"}")), "info", "web"), 3);
	has(f->err, "not_found: gone");
	fake_free(f);
	ck_assert_int_eq(fake_once(&f,
				 SCRIPT(ERROR("{\"code\":-1,\"message\":\"m\",\"data\":{\"code\":\"new_one\","
					      "\"hint\":\"h\"}}")),
				 "info", "web"),
		1);
	ck_assert_str_eq(f->err, "sandboxctl: info web: new_one: m (h)\n");
	fake_free(f);
	ck_assert_int_eq(
		fake_once(&f, SCRIPT(ERROR("{\"code\":0,\"data\":{\"code\":\"ok\"}}")), "info", "web"), 1);
	fake_free(f);
	ck_assert_int_eq(fake_once(&f, SCRIPT(ERROR("{}")), "info", "web"), 1);
	fake_free(f);
	/* a request that couldn't be read is answered without its id */
	ck_assert_int_eq(fake_once(&f,
				 SCRIPT("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32030,"
					"\"message\":\"m\"}}\n"),
				 "info", "web"),
		7);
	fake_free(f);
}
END_TEST

START_TEST(an_error_in_json_goes_to_standard_output)
{
	static const char error[] =
		"{\"code\":-32050,\"message\":\"short\",\"data\":{\"code\":\"bad_image\",\"more\":[1]}}";
	char want[256], answer[256];
	struct json_span data;
	struct fake *f;

	(void)snprintf(answer, sizeof(answer), ERROR("%s"), error);
	(void)snprintf(want, sizeof(want), "{\"error\":%s}\n", error);
	ck_assert_int_eq(fake_once(&f, SCRIPT(answer), "info", "web", "--json"), 8);
	ck_assert_str_eq(f->out, want);
	ck_assert_str_eq(f->err, "");
	fake_free(f);
	/* sandboxctl's own errors look the same */
	f = fake_new(1);
	ck_assert_int_eq(fake_run(f, "create", "web", "/nonexistent/x.c", "--json"), 8);
	data = json_get(json_get(line_of(f->out), "error"), "data");
	ck_assert(json_string_is(json_get(data, "code"), "bad_source"));
	ck_assert_int_eq(fake_run(f, "info", "web", "--jsn", "--json"), 2);
	data = json_get(json_get(line_of(f->out), "error"), "data");
	ck_assert(json_string_is(json_get(data, "code"), "unknown_param"));
	ck_assert(json_string_is(json_get(data, "nearest"), "--json"));
	fake_free(f);
}
END_TEST

START_TEST(an_error_shows_its_details_and_the_compilers_lines)
{
	struct fake *f;

	ck_assert_int_eq(
		fake_once(&f,
			SCRIPT(ERROR(
				"{\"code\":-32052,\"message\":\"no\",\"data\":{\"code\":\"compilation_"
				"failed\","
				"\"stage\":\"compile\",\"output\":\"x.c:1: \\u001b[31merror\\n\\tint\"}}")),
			"info", "web"),
		8);
	has(f->err, "\n  stage: compile\nx.c:1: ?[31merror\n\tint\n");
	is_clean(f->err);
	fake_free(f);
	ck_assert_int_eq(
		fake_once(&f,
			SCRIPT(ERROR(
				"{\"code\":-32602,\"message\":\"no\",\"data\":{\"code\":\"unknown_param\","
				"\"nearest\":\"by\"}}")),
			"info", "web"),
		2);
	ck_assert_str_eq(f->err, "sandboxctl: info web: unknown_param: no (did you mean 'by'?)\n");
	fake_free(f);
}
END_TEST

static const struct {
	const char *args[6];
	const char *says;
} usages[] = {
	{ { NULL }, "no verb given" },
	{ { "crate" }, "did you mean 'create'" },
	{ { "info" }, "usage: sandboxctl info ID" },
	{ { "ping", "x" }, "one operand too many" },
	{ { "info", "web", "--jsn" }, "did you mean '--json'" },
	{ { "create", "web" }, "usage: sandboxctl create ID FILE" },
	{ { "create", "web", "x.c", "--object", SHA }, "give one" },
	{ { "call", "web", "f", "x" }, "not NAME=VALUE" },
	{ { "create", "../x", "x.c" }, "invalid_id" },
	{ { "create", "web\n", "x.c" }, "create web?: invalid_id" },
	{ { "help", "crate" }, "did you mean 'create'" },
	{ { "--timeout", "x", "ping" }, "milliseconds" },
	{ { "info", "web", "--limits", "\x1b[31m" }, "no option --limits" },
	{ { "info", "web", "--\x1b[31m" }, "no option --?[31m" },
};

START_TEST(usage_errors)
{
	struct fake *f = fake_new(1);

	ck_assert_int_eq(fake_run_with(f, &(const struct fake_run){ 0 }, usages[_i].args), 2);
	ck_assert_str_eq(f->out, "");
	has(f->err, usages[_i].says);
	is_clean(f->err);
	ck_assert_uint_eq(f->n_lines, 0);
	fake_free(f);
}
END_TEST

/* ---- daemons that misbehave ---- */

static const char *const garbage[] = {
	"hello\n",
	"{}\n",
	"[]\n",
	"1\n",
	"\"x\"\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":\"1x\",\"result\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"result\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n",
	"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}\n",
	"{\"id\":1,\"result\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"result\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"x\"}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\x1b[31m\"}\n",
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}} x\n",
	"\x1b]0;owned\x07\n",
};

START_TEST(garbage_is_unreachable)
{
	struct fake *f;

	ck_assert_int_eq(fake_once(&f, SCRIPT(garbage[_i]), "info", "web", "--timeout", "20000"), 6);
	has(f->err, "what answers is not sandboxd");
	ck_assert_str_eq(f->out, "");
	is_clean(f->err);
	fake_free(f);
}
END_TEST

START_TEST(a_reply_without_end_is_refused)
{
	size_t size = LIMIT_CONNECTION_OUT_BYTES + 4096;
	char *endless = malloc(size + 1);
	struct fake *f;

	ck_assert_ptr_nonnull(endless);
	memset(endless, 'x', size);
	endless[size] = '\0';
	ck_assert_int_eq(fake_once(&f, SCRIPT(endless), "info", "web"), 6);
	has(f->err, "longer than");
	fake_free(f);
	free(endless);
}
END_TEST

START_TEST(closed_early)
{
	struct fake *f;

	ck_assert_int_eq(fake_once(&f, SCRIPT(FAKE_CLOSE), "info", "web"), 6);
	has(f->err, "closed the connection before it replied");
	fake_free(f);
	f = fake_start(SCRIPT("{\"jsonrpc\":\"2.0\",\"id\":1,\"res"));
	f->close_after = true;
	ck_assert_int_eq(fake_run(f, "info", "web"), 6);
	has(f->err, "in the middle of its reply");
	fake_free(f);
	/* closed at once, before anything is sent */
	ck_assert_int_eq(fake_once(&f, SCRIPT(NULL), "info", "web"), 6);
	fake_free(f);
	/* closed in the middle of an upload, with the reason */
	f = fake_start(
		SCRIPT(ERROR("{\"code\":-32030,\"message\":\"not you\",\"data\":{\"code\":\"denied\"}}")));
	f->close_after = true;
	fake_write_file(f, "x.so", "x", 1);
	{
		char path[160];

		fake_path(f, "x.so", path);
		ck_assert_int_eq(fake_run(f, "create", "web", path), 7);
	}
	has(f->err, "denied: not you");
	fake_free(f);
}
END_TEST

START_TEST(nobody_there)
{
	char long_path[200];
	struct fake *f = fake_new(1);

	fake_stop(f); /* the socket file stays, as after a crash */
	ck_assert_int_eq(fake_run(f, "ping"), 6);
	has(f->err, "no daemon at");
	ck_assert_int_eq(fake_run(f, "--socket", "/nonexistent/socket", "ping"), 6);
	ck_assert_int_eq(fake_run(f, "--socket", "", "ping"), 2);
	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	ck_assert_int_eq(fake_run(f, "--socket", long_path, "ping"), 2);
	has(f->err, "path");
	fake_free(f);
}
END_TEST

START_TEST(a_socket_that_one_may_not_use)
{
	struct fake *f = fake_start(SCRIPT(RESULT("{}")));

	/* root is let in everywhere: then it is nobody who tries */
	if (geteuid() != 0)
		ck_assert_int_eq(chmod(f->socket, 0), 0);
	ck_assert_int_eq(fake_run_with(f, &(const struct fake_run){ .as_nobody = true }, SCRIPT("ping")), 7);
	has(f->err, "denied: cannot connect");
	fake_free(f);
}
END_TEST

START_TEST(a_daemon_that_never_answers)
{
	struct fake *f;

	ck_assert_int_eq(fake_once(&f, SCRIPT(FAKE_HANG), "info", "web", "--timeout", "50"), 5);
	has(f->err, "timeout: the daemon didn't reply in time");
	fake_free(f);
	/* a call lets the daemon end the waiting, and waits a little longer itself */
	ck_assert_int_eq(fake_once(&f, SCRIPT(FAKE_HANG), "call", "web", "f", "--timeout", "50"), 5);
	ck_assert_str_eq(
		params_of(f, 0, "sandbox.call"), "{\"id\":\"web\",\"function\":\"f\",\"timeout_ms\":50}");
	fake_free(f);
}
END_TEST

START_TEST(a_daemon_that_takes_no_connection)
{
	struct fake *f = fake_new(0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fds[8], n = 0, r;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket);
	do { /* until the backlog is full */
		fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		r = connect(fds[n++], (const struct sockaddr *)&address, sizeof(address));
	} while (r == 0 && n < 8);
	ck_assert_int_eq(r, -1);
	ck_assert_int_eq(fake_run(f, "ping", "--timeout", "50"), 5);
	has(f->err, "takes no connection");
	while (n > 0)
		close(fds[--n]);
	fake_free(f);
}
END_TEST

START_TEST(replies_may_come_in_pieces_and_behind_others)
{
	struct fake *f = fake_start(SCRIPT(
		"\n{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{}}\r\n" RESULT("{\"result\":7}")));

	f->one_by_one = true;
	ck_assert_int_eq(fake_run(f, "call", "web", "f"), 0);
	ck_assert_str_eq(f->out, "7\n");
	fake_free(f);
}
END_TEST

/* ---- code ---- */

/* What object.put got in requests 0..n_chunks, put together. */
static void check_chunks(const struct fake *f, size_t n_chunks, const uint8_t *data, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n_chunks; i++) {
		struct json_span whole = { f->lines[i], strlen(f->lines[i]) },
				 params = json_get(whole, "params"), text;
		uint8_t *chunk = malloc(LIMIT_REQUEST_BYTES);
		int64_t offset, n;
		bool last = false;

		ck_assert_uint_le(whole.size, LIMIT_REQUEST_BYTES + 1);
		(void)params_of(f, i, "object.put");
		ck_assert(json_i64(json_get(params, "offset"), &offset));
		ck_assert_int_eq(offset, at);
		text = json_get(params, "data");
		n = base64_decode(chunk, text.at + 1, text.size - 2);
		ck_assert_int_ge(n, 0);
		ck_assert_uint_le(at + (size_t)n, size);
		ck_assert_mem_eq(chunk, data + at, (size_t)n);
		at += (size_t)n;
		ck_assert(json_bool(json_get(params, "last"), &last));
		ck_assert_int_eq(last, i + 1 == n_chunks);
		free(chunk);
	}
	ck_assert_uint_eq(at, size);
}

START_TEST(an_object_is_sent_in_chunks)
{
	size_t size = (3u << 19) + 10; /* 1.5 MiB and a little: four chunks */
	uint8_t *data = malloc(size);
	struct fake *f = fake_start(SCRIPT(RESULT_TO(1, "{}"), RESULT_TO(2, "{}"), RESULT_TO(3, "{}"),
		RESULT_TO(4, "{\"sha256\":\"" SHA "\"}"),
		RESULT_TO(5, "{\"id\":\"web\",\"status\":\"running\",\"module\":\"m\",\"version\":1,\"pid\":"
			     "12}")));
	char path[160];

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 9));
	fake_write_file(f, "x.so", data, size);
	fake_path(f, "x.so", path);
	ck_assert_msg(fake_run(f, "create", "web", path, "--strict", "--limit", "max_memory=1M") == 0, "%s",
		f->err);
	ck_assert_str_eq(f->out, "web: running, m version 1, pid 12\n");
	fake_stop(f);
	ck_assert_uint_eq(f->n_lines, 5);
	check_chunks(f, 4, data, size);
	ck_assert_str_eq(params_of(f, 4, "sandbox.create"),
		"{\"id\":\"web\",\"strict\":true,\"limits\":{\"max_memory\":1048576},\"object\":\"" SHA
		"\"}");
	fake_free(f);
	free(data);
}
END_TEST

START_TEST(a_source_keeps_its_name)
{
	static const char *const names[][2] = { { "x.c", "x.c" }, { "odd name.c", "module.c" } };

	for (size_t i = 0; i < 2; i++) {
		struct fake *f = fake_start(SCRIPT(RESULT_TO(1, "{\"sha256\":\"" SHA "\"}"),
			RESULT_TO(2, "{\"outcome\":\"no_change\",\"to\":1,\"compiler\":{\"warnings\":[\"x.c:"
				     "1: warning\",\"x.c:2: more\"]}}")));
		char path[160], want[256];

		fake_write_file(f, names[i][0], "int x;\n", 7);
		fake_path(f, names[i][0], path);
		ck_assert_int_eq(fake_run(f, "reload", "web", path), 0);
		ck_assert_str_eq(f->out, "web: no change: version 1 is this code already\n");
		ck_assert_str_eq(f->err, "x.c:1: warning\nx.c:2: more\n");
		fake_stop(f);
		check_chunks(f, 1, (const uint8_t *)"int x;\n", 7);
		(void)snprintf(want, sizeof(want),
			"{\"id\":\"web\",\"source\":\"" SHA "\",\"source_name\":\"%s\"}", names[i][1]);
		ck_assert_str_eq(params_of(f, 1, "sandbox.reload"), want);
		fake_free(f);
	}
}
END_TEST

START_TEST(an_empty_object_is_for_the_daemon_to_refuse)
{
	struct fake *f = fake_start(SCRIPT(RESULT_TO(1, "{\"sha256\":\"" SHA "\"}"),
		"{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32050,\"message\":\"empty\",\"data\":{"
		"\"code\":\"bad_image\"}}}\n"));
	char path[160];

	fake_write_file(f, "x.so", "", 0);
	fake_path(f, "x.so", path);
	ck_assert_int_eq(fake_run(f, "create", "web", path), 8);
	has(f->err, "sandboxctl: create web: bad_image: empty (");
	fake_stop(f);
	check_chunks(f, 1, (const uint8_t *)"", 0);
	fake_free(f);
	/* an upload that yields no name */
	f = fake_start(SCRIPT(RESULT_TO(1, "{\"sha256\":\"short\"}")));
	fake_write_file(f, "x.so", "", 0);
	fake_path(f, "x.so", path);
	ck_assert_int_eq(fake_run(f, "create", "web", path), 6);
	fake_free(f);
}
END_TEST

START_TEST(an_object_that_the_daemon_has_needs_no_file)
{
	struct fake *f;

	ck_assert_int_eq(
		fake_once(&f, SCRIPT(RESULT("{\"id\":\"web\"}")), "create", "web", "--object", SHA), 0);
	ck_assert_str_eq(params_of(f, 0, "sandbox.create"), "{\"id\":\"web\",\"object\":\"" SHA "\"}");
	fake_free(f);
}
END_TEST

static int create_from(struct fake *f, const char *name)
{
	char path[160];

	fake_path(f, name, path);
	return fake_run(f, "create", "web", path);
}

START_TEST(files_that_are_none)
{
	struct fake *f = fake_new(1);
	char path[160];
	int fd;

	ck_assert_int_eq(create_from(f, "missing.so"), 8);
	has(f->err, "bad_source: cannot open");
	has(f->err, "No such file");
	fake_path(f, "folder.so", path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(create_from(f, "folder.so"), 8);
	has(f->err, "is a folder");
	fake_path(f, "fifo.so", path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(create_from(f, "fifo.so"), 8);
	has(f->err, "not a regular file");
	fake_write_file(f, "x.txt", "x", 1);
	ck_assert_int_eq(create_from(f, "x.txt"), 8);
	has(f->err, "neither a .so nor a .c");
	fake_path(f, "x.c", path);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, LIMIT_SOURCE_BYTES + 1), 0);
	close(fd);
	ck_assert_int_eq(create_from(f, "x.c"), 8);
	has(f->err, "at most 4194304");
	fake_path(f, "x.so", path);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, LIMIT_OBJECT_BYTES + 1), 0);
	close(fd);
	ck_assert_int_eq(create_from(f, "x.so"), 8);
	fake_free(f);
}
END_TEST

/* ---- help, version, surroundings ---- */

START_TEST(help_names_every_verb_and_option)
{
	struct fake *f = fake_new(1);

	ck_assert_int_eq(fake_run(f, "help"), 0);
	for (size_t i = 0; i < n_verbs; i++)
		has(f->out, verbs[i].name);
	for (int code = ERR_OK + 1; code < ERR__N; code++)
		has(f->out, err_code_text((enum err_code)code));
	for (size_t i = 0; i < n_verbs; i++) {
		struct option all[OPTIONS_MAX];
		size_t n = options_of(&verbs[i], all);
		char name[80], *first;

		ck_assert_int_eq(fake_run(f, "help", verbs[i].name), 0);
		for (size_t j = 0; j < n; j++) {
			(void)snprintf(name, sizeof(name), "--%s", all[j].name);
			has(f->out, name);
			has(f->out, all[j].help);
		}
		has(f->out, verbs[i].example);
		has(f->out, "Exit status:\n  0  done\n");
		first = strdup(f->out);
		ck_assert_int_eq(fake_run(f, verbs[i].name, "--help"), 0);
		ck_assert_str_eq(first, f->out);
		free(first);
		ck_assert_int_eq(fake_run(f, "help", "--names", verbs[i].name), 0);
		for (size_t j = 0; j < n; j++) {
			(void)snprintf(name, sizeof(name), "--%s", all[j].name);
			has(f->out, name);
		}
	}
	fake_free(f);
}
END_TEST

START_TEST(version_and_output_that_cannot_be_written)
{
	struct fake *f = fake_new(1);

	ck_assert_int_eq(fake_run(f, "--version"), 0);
	ck_assert_int_eq(strncmp(f->out, "sandboxctl ", 11), 0);
	ck_assert_int_eq(
		fake_run_with(f, &(const struct fake_run){ .standard_out = "/dev/full" }, SCRIPT("help")), 1);
	has(f->err, "cannot write");
	fake_free(f);
}
END_TEST

START_TEST(the_socket_comes_from_the_environment)
{
	struct fake *f = fake_start(SCRIPT(RESULT("{\"version\":\"1\"}")));
	char variable[160];
	struct fake_run how = { .no_socket = true, .env = { variable } };

	(void)snprintf(variable, sizeof(variable), "SANDBOXD_SOCKET=%s", f->socket);
	ck_assert_msg(fake_run_with(f, &how, SCRIPT("ping")) == 0, "%s", f->err);
	has(f->out, "pong from sandboxd 1 in ");
	fake_free(f);
}
END_TEST

/* Without a daemon of the user's own the system's is asked: its path is in the message, or it answers. */
START_TEST(a_user_without_a_daemon_asks_the_systems)
{
	struct fake *f = fake_new(1);
	char variable[160];
	struct fake_run how = { .no_socket = true, .as_nobody = true, .env = { variable } };
	int status;

	(void)snprintf(variable, sizeof(variable), "XDG_RUNTIME_DIR=/nonexistent%s", f->folder);
	status = fake_run_with(f, &how, SCRIPT("ping", "--timeout", "10000"));
	if (status != 0)
		has(f->err, "/run/sandboxd/sandboxd.sock");
	hasnt(f->err, "nonexistent");
	fake_free(f);
}
END_TEST

CHECK_MAIN("sandboxctl", tcase_add_loop_test(tc, each_error_has_its_exit_status, ERR_OK + 1, ERR__N);
	   tcase_add_test(tc, errors_without_a_known_word);
	   tcase_add_test(tc, an_error_in_json_goes_to_standard_output);
	   tcase_add_test(tc, an_error_shows_its_details_and_the_compilers_lines);
	   tcase_add_loop_test(tc, usage_errors, 0, sizeof(usages) / sizeof(usages[0]));
	   tcase_add_loop_test(tc, garbage_is_unreachable, 0, sizeof(garbage) / sizeof(garbage[0]));
	   tcase_add_test(tc, a_reply_without_end_is_refused); tcase_add_test(tc, closed_early);
	   tcase_add_test(tc, nobody_there); tcase_add_test(tc, a_socket_that_one_may_not_use);
	   tcase_add_test(tc, a_daemon_that_never_answers);
	   tcase_add_test(tc, a_daemon_that_takes_no_connection);
	   tcase_add_test(tc, replies_may_come_in_pieces_and_behind_others);
	   tcase_add_test(tc, an_object_is_sent_in_chunks); tcase_add_test(tc, a_source_keeps_its_name);
	   tcase_add_test(tc, an_empty_object_is_for_the_daemon_to_refuse);
	   tcase_add_test(tc, an_object_that_the_daemon_has_needs_no_file);
	   tcase_add_test(tc, files_that_are_none); tcase_add_test(tc, help_names_every_verb_and_option);
	   tcase_add_test(tc, version_and_output_that_cannot_be_written);
	   tcase_add_test(tc, the_socket_comes_from_the_environment);
	   tcase_add_test(tc, a_user_without_a_daemon_asks_the_systems))
