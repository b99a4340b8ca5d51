/* SPDX-License-Identifier: MIT
 *
 * The front without I/O: lines in, replies out. A table of handlers of our own echoes what it was given, or keeps the
 * request to answer it later. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "daemon/front/rpc.h"
#include "daemon/front/rpc_peer.h"
#include "proto/limits.h"
#include "tests/support/check_main.h"

static struct control control;
static struct rpc_user user;
static struct rpc_peer peer;
static struct rpc_request *kept[64];
static size_t n_kept;
static int n_run;

/* ---- handlers ---- */

static const struct rpc_done *handle_name(struct control *c, struct rpc_request *r)
{
	char text[80];

	(void)c;
	n_run++;
	(void)snprintf(text, sizeof(text), "{\"ran\":\"%s\"}", rpc_method(r)->name);
	return rpc_result_raw(r, text, strlen(text));
}

static const struct rpc_done *handle_keep(struct control *c, struct rpc_request *r)
{
	(void)c;
	n_run++;
	kept[n_kept++] = r;
	return rpc_pending(r);
}

static const struct rpc_done *handle_tree(struct control *c, struct rpc_request *r)
{
	cJSON *tree = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(tree, "list");

	(void)c;
	n_run++;
	cJSON_AddNumberToObject(tree, "big", 1e15);
	cJSON_AddNumberToObject(tree, "exact", 9007199254740992.0);
	cJSON_AddNumberToObject(tree, "negative", -9007199254740991.0);
	cJSON_AddNumberToObject(tree, "half", 0.5);
	cJSON_AddStringToObject(tree, "text", "a\n\"\x01\xff");
	cJSON_AddNullToObject(tree, "none");
	cJSON_AddRawToObject(tree, "raw", "[1,\n2]");
	cJSON_AddItemToArray(list, cJSON_CreateTrue());
	cJSON_AddItemToArray(list, cJSON_CreateObject());
	return rpc_result(r, tree);
}

rpc_handler *const rpc_handlers[METHOD__N] = {
	[METHOD_DAEMON_PING] = handle_name,
	[METHOD_DAEMON_INFO] = handle_tree,
	[METHOD_DAEMON_SHUTDOWN] = handle_name,
	[METHOD_OBJECT_PUT] = handle_name,
	[METHOD_SANDBOX_CREATE] = handle_name,
	[METHOD_SANDBOX_DESTROY] = handle_name,
	[METHOD_SANDBOX_START] = handle_name,
	[METHOD_SANDBOX_STOP] = handle_name,
	[METHOD_SANDBOX_RESTART] = handle_name,
	[METHOD_SANDBOX_LIST] = handle_name,
	[METHOD_SANDBOX_INFO] = handle_name,
	[METHOD_SANDBOX_CALL] = handle_keep,
	[METHOD_SANDBOX_RELOAD] = handle_name,
	[METHOD_SANDBOX_ROLLBACK] = handle_name,
	[METHOD_VERSION_LIST] = handle_name,
	[METHOD_VERSION_COMMIT] = handle_name,
	[METHOD_LOG_READ] = handle_name,
	[METHOD_EVENT_READ] = handle_name,
};

/* ---- a peer ---- */

static void begin(void)
{
	control = (struct control){ .begin = { .daemon_uid = 990 } };
	user = (struct rpc_user){ .uid = 0 };
	n_kept = 0;
	n_run = 0;
	rpc_peer_init(&peer, 7, &user, RIGHTS_ADMIN, NULL);
}

static void end(void)
{
	rpc_peer_fini(&peer);
}

/* The replies to one line; valid until the next. */
static const char *line(const char *text, size_t size)
{
	char *copy = malloc(size + 1); /* exactly as large: a read beyond it is seen */

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, text, size);
	buf_clear(&peer.out);
	rpc_line(&control, &peer, copy, size);
	free(copy);
	return buf_text(&peer.out);
}

static const char *ask(const char *text)
{
	return line(text, strlen(text));
}

static struct json_span reply_of(const char *text)
{
	struct json_span v = { text, strlen(text) };
	struct err e = ERR_INIT;

	ck_assert_msg(v.size > 0 && text[v.size - 1] == '\n', "not a line: '%s'", text);
	ck_assert_ptr_eq(strchr(text, '\n'), text + v.size - 1);
	ck_assert_msg(json_check(text, v.size, &e) == 0, "%s: %s", text, e.text);
	return v;
}

static void expect_error(const char *reply, const char *id, const char *code, const char *name, long offset, const char *nearest)
{
	struct json_span v = reply_of(reply), error = json_get(v, "error"), data = json_get(error, "data");
	struct json_span got_id = json_get(v, "id");
	int64_t number = 0;

	ck_assert_msg(got_id.size == strlen(id) && memcmp(got_id.at, id, got_id.size) == 0, "id of %s", reply);
	ck_assert_msg(json_string_is(json_get(v, "jsonrpc"), "2.0"), "%s", reply);
	ck_assert_msg(!json_get(v, "result").at, "%s", reply);
	ck_assert_msg(json_string_is(json_get(data, "code"), code), "%s instead of %s", reply, code);
	ck_assert(json_i64(json_get(error, "code"), &number));
	ck_assert_int_eq(number, err_code_number(err_code_from_text(code)));
	ck_assert(json_type(json_get(error, "message")) == '"');
	ck_assert_msg(name ? json_string_is(json_get(data, "name"), name) : !json_get(data, "name").at, "name of %s", reply);
	ck_assert_msg(nearest ? json_string_is(json_get(data, "nearest"), nearest) : !json_get(data, "nearest").at,
		"nearest of %s", reply);
	number = -1;
	(void)json_i64(json_get(data, "offset"), &number);
	if (offset != -2)
		ck_assert_msg(number == offset, "offset of %s isn't %ld", reply, offset);
}

/* ---- envelopes ---- */

static const struct envelope_row {
	const char *line, *id, *code, *name;
	long offset; /* -2: any */
	const char *nearest;
} envelope_rows[] = {
	{ "", "null", "parse_error", NULL, 0, NULL },
	{ "{", "null", "parse_error", NULL, 1, NULL },
	{ "x", "null", "parse_error", NULL, 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\"} x", "null", "parse_error", NULL, -2, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"daemon.ping\"}", "null", "duplicate_key", "id", 24, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"\\u0069d\":2,\"method\":\"daemon.ping\"}", "null", "duplicate_key", "id", 24, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.call\",\"params\":{\"args\":{\"a\":1,\"a\":1}}}", "null",
		"duplicate_key", "a", 72, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"daemon.ping\"}", "null", "bad_utf8", "id", 23, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0000\",\"method\":\"daemon.ping\"}", "null", "parse_error", "id", 23, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"daemon.ping\"}", "null", "bad_number", "id", 22, NULL },
	{ "1", "null", "invalid_request", NULL, 0, NULL },
	{ "null", "null", "invalid_request", NULL, 0, NULL },
	{ "\"daemon.ping\"", "null", "invalid_request", NULL, 0, NULL },
	{ "{}", "null", "invalid_request", "jsonrpc", -1, NULL },
	{ "{\"id\":5,\"method\":\"daemon.ping\"}", "5", "invalid_request", "jsonrpc", -1, NULL },
	{ "{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"daemon.ping\"}", "5", "invalid_request", "jsonrpc", 11, NULL },
	{ "{\"jsonrpc\":2.0,\"id\":5,\"method\":\"daemon.ping\"}", "5", "invalid_request", "jsonrpc", 11, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":5}", "5", "invalid_request", "method", -1, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":[1]}", "5", "invalid_request", "method", 33, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"daemon.ping\"}", "null", "invalid_request", "id", 22, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"daemon.ping\"}", "null", "invalid_request", "id", 22, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":{\"id\":1},\"method\":\"daemon.ping\"}", "null", "invalid_request", "id", 22, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"daemon.ping\"}", "null", "invalid_request", "id", 22, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"methud\":\"daemon.ping\"}", "\"a\"", "invalid_request", "methud", 26, "method" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\",\"zebra\":{\"id\":2}}", "1", "invalid_request", "zebra", 47, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\",\"params\":[]}", "1", "bad_param", "params", 56, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\",\"params\":\"x\"}", "1", "bad_param", "params", 56, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\",\"params\":null}", "1", "bad_param", "params", 56, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.pong\"}", "1", "unknown_method", "daemon.pong", 33, "daemon.ping" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", "1", "unknown_method", NULL, 33, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"Daemon.ping\\n\"}", "1", "unknown_method", "Daemon.ping?", 33, "daemon.ping" },
};

START_TEST(envelopes_are_refused)
{
	const struct envelope_row *row = &envelope_rows[_i];

	begin();
	expect_error(ask(row->line), row->id, row->code, row->name, row->offset, row->nearest);
	ck_assert_int_eq(n_run, 0);
	ck_assert_uint_eq(peer.in_flight, 0);
	end();
}
END_TEST

START_TEST(nul_bytes_are_refused)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\0\"method\":\"daemon.ping\"}";

	begin();
	expect_error(line(text, sizeof(text) - 1), "null", "parse_error", NULL, 24, NULL);
	end();
}
END_TEST

/* A call whose arguments nest so that the deepest bracket is at this level of the line. */
static const char *nested_call(int depth)
{
	static char text[512];
	size_t n = (size_t)snprintf(text, sizeof(text),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.call\",\"params\":{\"id\":\"a\",\"function\":\"f\",\"args\":{\"x\":");

	for (int i = 3; i < depth; i++)
		text[n++] = '[';
	for (int i = 3; i < depth; i++)
		text[n++] = ']';
	memcpy(text + n, "}}}", 4);
	return text;
}

START_TEST(depth_is_limited)
{
	begin();
	ck_assert_str_eq(ask(nested_call(64)), "");
	ck_assert_uint_eq(n_kept, 1);
	ck_assert_str_eq((rpc_result_raw(kept[0], "1", 1), buf_text(&peer.out)), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n");
	expect_error(ask(nested_call(65)), "null", "too_deep", NULL, -2, NULL);
	end();
}
END_TEST

START_TEST(ids_are_echoed_byte_for_byte)
{
	static const char *const ids[] = { "0", "-0", "-5", "9007199254740992", "null", "\"\"", "\"a\\u0062\\/\"",
		"\"\xc3\xa4\"" };
	char text[128], expected[128];

	begin();
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		(void)snprintf(text, sizeof(text), " {\"method\":\"daemon.ping\", \"id\" : %s , \"params\":{ },\"jsonrpc\":\"2.0\"}", ids[i]);
		(void)snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"ran\":\"daemon.ping\"}}\n",
			ids[i]);
		ck_assert_str_eq(ask(text), expected);
	}
	end();
}
END_TEST

START_TEST(notifications_run_without_a_reply)
{
	begin();
	ck_assert_str_eq(ask("{\"jsonrpc\":\"2.0\",\"method\":\"daemon.ping\"}"), "");
	ck_assert_int_eq(n_run, 1);
	ck_assert_str_eq(ask("{\"jsonrpc\":\"2.0\",\"method\":\"no.such\"}"), "");
	ck_assert_str_eq(ask("{\"jsonrpc\":\"2.0\",\"method\":\"daemon.ping\",\"params\":{\"x\":1}}"), "");
	ck_assert_int_eq(n_run, 1);
	ck_assert_uint_eq(peer.in_flight, 0);
	end();
}
END_TEST

START_TEST(escaped_method_names_are_understood)
{
	begin();
	ck_assert_str_eq(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon\\u002eping\"}"),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"ran\":\"daemon.ping\"}}\n");
	end();
}
END_TEST

/* ---- parameters ---- */

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID63 "a23456789012345678901234567890123456789012345678901234567890123"

static const struct param_row {
	const char *method, *params, *code, *name; /* code NULL: accepted */
	long offset;                               /* in params; -2: any, -1: none */
	const char *nearest, *words;               /* words: in the message */
} param_rows[] = {
	{ "daemon.ping", "{}", NULL, NULL, 0, NULL, NULL },
	{ "daemon.ping", "{\"x\":1}", "unknown_param", "x", 1, NULL, "daemon.ping has no parameter 'x'" },
	{ "sandbox.info", "{}", "missing_param", "id", -1, NULL, "needs the parameter 'id'" },
	{ "sandbox.info", "{\"ld\":\"a\"}", "unknown_param", "ld", 1, "id", "did you mean 'id'?" },
	{ "sandbox.info", "{\"id\":\"a\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.info", "{\"\\u0069d\":\"\\u0061\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.info", "{\"id\":\"" ID63 "\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.info", "{\"id\":\"" ID63 "4\"}", "invalid_id", "id", 6, NULL, "at most 62" },
	{ "sandbox.info", "{\"id\":\"../x\"}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.info", "{\"id\":\"\"}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.info", "{\"id\":\"a\\n\"}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.info", "{\"id\":\"\xc3\xa4\"}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.info", "{\"id\":5}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.info", "{\"id\":null}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.info", "{\"id\":{\"id\":\"a\"}}", "invalid_id", "id", 6, NULL, NULL },
	{ "sandbox.list", "{\"limit\":1}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.list", "{\"limit\":\"500\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.list", "{\"limit\":0}", "bad_param", "limit", 9, NULL, "must be an integer between 1 and 500" },
	{ "sandbox.list", "{\"limit\":501}", "bad_param", "limit", 9, NULL, NULL },
	{ "sandbox.list", "{\"limit\":1.5}", "bad_param", "limit", 9, NULL, NULL },
	{ "sandbox.list", "{\"limit\":1e2}", "bad_param", "limit", 9, NULL, NULL },
	{ "sandbox.list", "{\"limit\":\" 1\"}", "bad_param", "limit", 9, NULL, NULL },
	{ "sandbox.list", "{\"status\":\"gone\"}", "bad_param", "status", -2, NULL, NULL },
	{ "sandbox.list", "{\"status\":\"backoff\",\"name\":\"*\",\"label\":\"a=b\",\"group\":\"g\",\"profile\":\"low\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.list", "{\"limit\":true}", "bad_param", "limit", 9, NULL, NULL },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":\"f\",\"timeout_ms\":86400001}", "bad_param", "timeout_ms", -2, NULL,
		"must be an integer between 1 and 86400000" },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":\"f\",\"timeout\":1}", "unknown_param", "timeout", 25, NULL, NULL },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":\"f\",\"timeout_m\":1}", "unknown_param", "timeout_m", 25, "timeout_ms", NULL },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":\"5f\"}", "bad_param", "function", -2, NULL, "C identifier" },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":\"f-g\"}", "bad_param", "function", -2, NULL, NULL },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":1}", "bad_param", "function", -2, NULL, NULL },
	{ "sandbox.call", "{\"id\":\"a\",\"function\":\"f\",\"args\":[]}", "bad_param", "args", 32, NULL, "must be an object" },
	{ "sandbox.start", "{\"id\":\"a\",\"state\":\"fresh\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.start", "{\"id\":\"a\",\"state\":\"\\u006beep\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.start", "{\"id\":\"a\",\"state\":\"keep|fresh\"}", "bad_param", "state", -2, NULL, "one of keep, fresh" },
	{ "sandbox.start", "{\"id\":\"a\",\"state\":\"kee\"}", "bad_param", "state", -2, NULL, NULL },
	{ "sandbox.start", "{\"id\":\"a\",\"state\":\"\"}", "bad_param", "state", -2, NULL, NULL },
	{ "sandbox.create", "{\"id\":\"a\",\"object\":\"" SHA "\",\"config\":{},\"strict\":false,\"limits\":{},\"labels\":{}}", NULL,
		NULL, 0, NULL, NULL },
	{ "sandbox.create", "{\"id\":\"a\",\"object\":\"" SHA "0\"}", "bad_param", "object", -2, NULL, "64 lower-case" },
	{ "sandbox.create", "{\"id\":\"a\",\"object\":\"X123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}", "bad_param",
		"object", -2, NULL, NULL },
	{ "sandbox.create", "{\"id\":\"a\",\"strict\":\"true\"}", "bad_param", "strict", -2, NULL, "true or false" },
	{ "sandbox.create", "{\"id\":\"a\",\"strict\":1}", "bad_param", "strict", -2, NULL, NULL },
	{ "sandbox.create", "{\"id\":\"a\",\"source_name\":\"m.c\"}", NULL, NULL, 0, NULL, NULL },
	{ "sandbox.create", "{\"id\":\"a\",\"source_name\":\"../m.c\"}", "bad_param", "source_name", -2, NULL, "without folders" },
	{ "sandbox.create", "{\"id\":\"a\",\"source_name\":\"m.h\"}", "bad_param", "source_name", -2, NULL, NULL },
	{ "sandbox.create", "{\"id\":\"a\",\"limits\":[]}", "bad_param", "limits", -2, NULL, NULL },
	{ "event.read", "{\"since_seq\":\"1-2\"}", NULL, NULL, 0, NULL, NULL },
	{ "event.read", "{\"since_seq\":\"" SHA "\"}", NULL, NULL, 0, NULL, NULL },
	{ "event.read", "{\"since_seq\":\"" SHA "0\"}", "bad_param", "since_seq", 13, NULL, "at most 64 bytes" },
	{ "event.read", "{\"since_seq\":\"\\u0031" SHA "\"}", "bad_param", "since_seq", 13, NULL, NULL },
	{ "event.read", "{\"since_seq\":12}", "bad_param", "since_seq", 13, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"\"}", NULL, NULL, 0, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"QUJD\"}", NULL, NULL, 0, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"QU\\/D\"}", NULL, NULL, 0, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"QUJ\"}", "bad_param", "data", -2, NULL, "must be base64" },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"QU=D\"}", "bad_param", "data", -2, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"====\"}", "bad_param", "data", -2, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":\"QUJD\\n\"}", "bad_param", "data", -2, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":0,\"data\":7}", "bad_param", "data", -2, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":-1,\"data\":\"\"}", "bad_param", "offset", -2, NULL, NULL },
	{ "object.put", "{\"upload\":\"u\",\"offset\":67108865,\"data\":\"\"}", "bad_param", "offset", -2, NULL, NULL },
};

START_TEST(parameters_are_checked)
{
	const struct param_row *row = &param_rows[_i];
	char text[512], expected[128];
	int head;

	begin();
	(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"%s\",\"params\":%s}", row->method,
		row->params);
	head = (int)(strstr(text, "\"params\":") + 9 - text);
	if (!row->code) {
		(void)snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{\"ran\":\"%s\"}}\n",
			row->method);
		ck_assert_str_eq(ask(text), expected);
		ck_assert_int_eq(n_run, 1);
	} else {
		const char *reply = ask(text);

		expect_error(reply, "\"q\"", row->code, row->name, row->offset >= 0 ? row->offset + head : row->offset,
			row->nearest);
		if (row->words)
			ck_assert_msg(strstr(reply, row->words), "'%s' isn't in %s", row->words, reply);
		ck_assert_int_eq(n_run, 0);
	}
	end();
}
END_TEST

START_TEST(too_many_parameters_name_an_unknown_one)
{
	char text[2048];
	size_t n;

	begin();
	n = (size_t)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.info\",\"params\":{\"id\":\"a\"");
	for (int i = 0; i < 60; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ",\"p%d\":[%d,{\"q\":0}]", i, i);
	(void)snprintf(text + n, sizeof(text) - n, "}}");
	expect_error(ask(text), "1", "unknown_param", "p0", -2, NULL);
	end();
}
END_TEST

START_TEST(a_chunk_is_limited)
{
	size_t n = LIMIT_UPLOAD_CHUNK_BYTES / 3 * 4 + 4, head;
	char *text = malloc(n + 256);

	begin();
	ck_assert_ptr_nonnull(text);
	head = (size_t)snprintf(text, 256, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"object.put\",\"params\":{\"upload\":\"u\",\"offset\":0,\"data\":\"");
	memset(text + head, 'A', n);
	memcpy(text + head + n, "\"}}", 4);
	expect_error(ask(text), "1", "bad_param", "data", (long)head - 1, NULL); /* 512 KiB and 2 bytes */
	memcpy(text + head + n - 2, "==", 2);
	ck_assert_ptr_nonnull(strstr(ask(text), "\"result\"")); /* exactly 512 KiB */
	free(text);
	end();
}
END_TEST

START_TEST(handlers_get_their_parameters)
{
	struct rpc_request *r;
	struct json_span args;

	begin();
	ck_assert_str_eq(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":{\"timeout_ms\":\"250\",\"args\":{\"x\":[1,\"}\"]},"
			     "\"function\":\"f\\u0031\",\"id\":\"box\"},\"method\":\"sandbox.call\"}"), "");
	ck_assert_uint_eq(n_kept, 1);
	r = kept[0];
	ck_assert_str_eq(rpc_method(r)->name, "sandbox.call");
	ck_assert_str_eq(rpc_text(r, "id"), "box");
	ck_assert_str_eq(rpc_text(r, "function"), "f1");
	ck_assert_int_eq(rpc_integer(r, "timeout_ms", 9), 250);
	args = rpc_param(r, "args");
	ck_assert_uint_eq(args.size, strlen("{\"x\":[1,\"}\"]}"));
	ck_assert_int_eq(memcmp(args.at, "{\"x\":[1,\"}\"]}", args.size), 0);
	ck_assert_uint_eq(rpc_connection(r), 7);
	ck_assert_uint_eq(rpc_uid(r), 0);
	ck_assert(!rpc_is_gone(r));
	(void)rpc_result_raw(r, "{}", 2);

	(void)ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":{\"function\":\"f\",\"id\":\"box\"},\"method\":\"sandbox.call\"}");
	r = kept[1];
	ck_assert_int_eq(rpc_integer(r, "timeout_ms", 9), 9);
	ck_assert_ptr_null(rpc_param(r, "args").at);
	(void)rpc_result_raw(r, "{}", 2);
	end();
}
END_TEST

/* ---- rights ---- */

START_TEST(levels_come_from_the_lists)
{
	struct control_begin b = { .daemon_uid = 990, .n_administrators = 1, .n_operators = 2, .administrators = { 1000 },
		.operators = { 1001, 1002, 1003 } };

	ck_assert_int_eq(rights_of(&b, 0, NULL, 0), RIGHTS_ADMIN);
	ck_assert_int_eq(rights_of(&b, 990, NULL, 0), RIGHTS_ADMIN);
	ck_assert_int_eq(rights_of(&b, 1000, NULL, 0), RIGHTS_ADMIN);
	ck_assert_int_eq(rights_of(&b, 1002, NULL, 0), RIGHTS_OPERATOR);
	ck_assert_int_eq(rights_of(&b, 1003, NULL, 0), RIGHTS_NONE); /* beyond the count */
	b.everyone_operates = 1;
	ck_assert_int_eq(rights_of(&b, 1003, NULL, 0), RIGHTS_OPERATOR);
	b.n_operators = 65535; /* a wrong count doesn't lead out of the list */
	b.everyone_operates = 0;
	ck_assert_int_eq(rights_of(&b, 77, NULL, 0), RIGHTS_NONE);
}
END_TEST

START_TEST(levels_come_from_groups)
{
	struct control_begin b = { .daemon_uid = 990, .n_administrator_groups = 1, .n_operator_groups = 1,
		.administrator_groups = { 27, 30 }, .operator_groups = { 100 } };
	const gid_t none[] = { 30, 1000 }, operators[] = { 5, 100 }, both[] = { 100, 5, 27 };

	ck_assert_int_eq(rights_of(&b, 1000, none, 2), RIGHTS_NONE); /* 30 is beyond the count; 1000 is a uid */
	ck_assert_int_eq(rights_of(&b, 1000, operators, 2), RIGHTS_OPERATOR);
	ck_assert_int_eq(rights_of(&b, 1000, operators, 1), RIGHTS_NONE);
	ck_assert_int_eq(rights_of(&b, 1000, both, 3), RIGHTS_ADMIN);
	ck_assert_int_eq(rights_of(&b, 27, NULL, 0), RIGHTS_NONE); /* a uid isn't a gid */
	b.n_administrator_groups = 65535;
	ck_assert_int_eq(rights_of(&b, 1000, none, 2), RIGHTS_ADMIN);
	ck_assert_int_eq(rights_of(&b, 1000, operators, 1), RIGHTS_NONE);
}
END_TEST

#define INFO "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.info\",\"params\":{\"id\":\"a\"}}"
#define LIST "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sandbox.list\"}"
#define SHUTDOWN "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.shutdown\"}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.ping\"}"

START_TEST(rights_are_asked_for)
{
	begin();
	user.uid = 1000;
	peer.rights = RIGHTS_NONE;
	expect_error(ask(INFO), "1", "denied", "operator", -1, NULL);
	expect_error(ask(SHUTDOWN), "1", "denied", "admin", -1, NULL);
	ck_assert_ptr_nonnull(strstr(ask(LIST), "\"result\""));
	peer.rights = RIGHTS_OPERATOR;
	ck_assert_ptr_nonnull(strstr(ask(INFO), "\"result\""));
	expect_error(ask(SHUTDOWN), "1", "denied", "admin", -1, NULL);
	peer.rights = RIGHTS_ADMIN;
	ck_assert_ptr_nonnull(strstr(ask(SHUTDOWN), "\"result\""));
	end();
}
END_TEST

START_TEST(owners_see_their_own)
{
	begin();
	user.uid = 1000;
	peer.rights = RIGHTS_OPERATOR;
	(void)ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":{\"function\":\"f\",\"id\":\"box\"},\"method\":\"sandbox.call\"}");
	ck_assert(rpc_may_see(kept[0], 1000));
	ck_assert(!rpc_may_see(kept[0], 1001));
	ck_assert(!rpc_is_admin(kept[0]));
	(void)rpc_result_raw(kept[0], "1", 1);
	end();
}
END_TEST

START_TEST(shutting_down_refuses_the_rest)
{
	begin();
	control.shutting_down = true;
	expect_error(ask(INFO), "1", "shutting_down", NULL, -1, NULL);
	ck_assert_ptr_nonnull(strstr(ask(PING), "\"result\""));
	ck_assert_ptr_nonnull(strstr(ask(SHUTDOWN), "\"result\""));
	ck_assert_ptr_nonnull(strstr(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.info\"}"), "\"result\""));
	end();
}
END_TEST

/* ---- answers ---- */

#define CALL(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"sandbox.call\",\"params\":{\"function\":\"f\",\"id\":\"box\"}}"
#define CALL_NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"sandbox.call\",\"params\":{\"function\":\"f\",\"id\":\"box\"}}"

START_TEST(trees_are_printed_exactly)
{
	begin();
	ck_assert_str_eq(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.info\"}"),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"list\":[true,{}],\"big\":1000000000000000,\"exact\":9007199254740992,"
		"\"negative\":-9007199254740991,\"half\":0.5,\"text\":\"a\\n\\\"\\u0001?\",\"none\":null,\"raw\":[1, 2]}}\n");
	end();
}
END_TEST

START_TEST(answers_may_come_out_of_order)
{
	begin();
	(void)ask(CALL("1"));
	(void)ask(CALL("2"));
	ck_assert_uint_eq(peer.in_flight, 2);
	(void)rpc_result_raw(kept[1], "22", 2);
	(void)rpc_result(kept[0], cJSON_CreateNumber(11));
	ck_assert_str_eq(buf_text(&peer.out),
		"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":22}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":11}\n");
	ck_assert_uint_eq(peer.in_flight, 0);
	end();
}
END_TEST

START_TEST(errors_carry_extra_members)
{
	struct err e;
	cJSON *extra = cJSON_CreateObject();
	struct json_span data;
	int64_t signal = 0;

	begin();
	(void)ask(CALL("1"));
	err_set(&e, ERR_CRASHED, "it died");
	cJSON_AddNumberToObject(extra, "signal", 11);
	(void)rpc_error(kept[0], &e, extra);
	expect_error(buf_text(&peer.out), "1", "crashed", NULL, -1, NULL);
	data = json_get(json_get(reply_of(buf_text(&peer.out)), "error"), "data");
	ck_assert(json_i64(json_get(data, "signal"), &signal));
	ck_assert_int_eq(signal, 11);
	(void)ask(CALL("1"));
	(void)rpc_result(kept[1], NULL); /* a handler without memory */
	expect_error(buf_text(&peer.out), "1", "internal_error", NULL, -1, NULL);
	end();
}
END_TEST

START_TEST(answers_to_the_gone_are_dropped)
{
	struct err e;

	begin();
	(void)ask(CALL("1"));
	(void)ask(CALL("2"));
	(void)ask("[" CALL("3") "," CALL("4") "]");
	ck_assert_uint_eq(n_kept, 4);
	rpc_peer_fini(&peer);
	ck_assert(rpc_is_gone(kept[0]));
	ck_assert_ptr_null(rpc_upload(kept[0], SHA));
	ck_assert_str_eq(rpc_text(kept[0], "id"), "box");
	err_set(&e, ERR_TIMEOUT, "late");
	(void)rpc_error(kept[0], &e, cJSON_CreateObject());
	(void)rpc_result(kept[1], cJSON_CreateObject());
	(void)rpc_result_raw(kept[2], "1", 1);
	(void)rpc_result_raw(kept[3], "1", 1);
}
END_TEST

static size_t n_told;

static void told_gone(void *ctx, struct rpc_request *r)
{
	ck_assert_ptr_eq(ctx, &n_told);
	ck_assert(rpc_is_gone(r));
	if (n_told++ == 0)
		(void)rpc_result_raw(r, "1", 1); /* withdrawn */
}

START_TEST(who_holds_a_request_is_told_that_its_client_goes)
{
	begin();
	n_told = 0;
	(void)ask(CALL("1"));
	(void)ask("[" CALL("2") "," CALL("3") "]");
	(void)ask(CALL("4"));
	ck_assert_uint_gt(user.request_bytes, 0);
	for (size_t i = 0; i < n_kept; i++)
		rpc_on_gone(kept[i], told_gone, &n_told);
	rpc_on_gone(kept[0], NULL, NULL);
	rpc_peer_fini(&peer);
	ck_assert_uint_eq(n_told, 3);
	for (size_t i = 0; i < 3; i++) /* the fourth came first and is answered */
		(void)rpc_result_raw(kept[i], "1", 1);
	ck_assert_uint_eq(user.request_bytes, 0);
}
END_TEST

static void answer_large(struct rpc_request *r, size_t size)
{
	char *text = malloc(size);

	ck_assert_ptr_nonnull(text);
	memset(text, 'x', size);
	text[0] = text[size - 1] = '"';
	(void)rpc_result_raw(r, text, size);
	free(text);
}

START_TEST(a_reply_too_large_for_a_line_is_an_error)
{
	begin();
	(void)ask(CALL("1"));
	answer_large(kept[0], LIMIT_REPLY_BYTES);
	expect_error(buf_text(&peer.out), "1", "reply_too_large", NULL, -1, NULL);
	(void)ask(CALL("2"));
	answer_large(kept[1], LIMIT_CONNECTION_OUT_BYTES + 1); /* not even the buffer takes it */
	expect_error(buf_text(&peer.out), "2", "reply_too_large", NULL, -1, NULL);
	(void)ask(CALL("3"));
	answer_large(kept[2], LIMIT_REPLY_BYTES - 100);
	ck_assert_uint_gt(peer.out.size, LIMIT_REPLY_BYTES - 100);
	end();
}
END_TEST

/* ---- batches ---- */

START_TEST(what_does_not_fit_into_a_batch_is_an_error)
{
	struct buf all = BUF_INIT;
	const char *at;
	size_t n = 0;

	begin();
	buf_add_char(&all, '[');
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		buf_printf(&all, "%s" CALL("%d"), i ? "," : "", i);
	buf_add_char(&all, ']');
	ck_assert_str_eq(ask(buf_text(&all)), "");
	ck_assert_uint_eq(n_kept, LIMIT_IN_FLIGHT);
	for (size_t i = 0; i < n_kept; i++)
		answer_large(kept[i], i == 8 ? 100 : LIMIT_BODY_BYTES);
	ck_assert_uint_eq(peer.batch_bytes, 0);
	ck_assert(!peer.out.failed);
	(void)reply_of(buf_text(&peer.out));
	for (at = buf_text(&peer.out); (at = strstr(at, "\"code\":\"reply_too_large\"")); at++)
		n++;
	ck_assert_uint_eq(n, LIMIT_IN_FLIGHT - 8); /* 7 large ones, and the small one behind the first that was too large */
	buf_fini(&all);
	end();
}
END_TEST

START_TEST(batches_are_answered_together)
{
	begin();
	ck_assert_str_eq(ask("[" CALL("1") ", " PING "," CALL_NOTE "," CALL("\"x\"") ",5]"), "");
	ck_assert_uint_eq(n_kept, 3);
	ck_assert_uint_eq(peer.in_flight, 3);
	(void)rpc_result_raw(kept[2], "3", 1);
	(void)rpc_result_raw(kept[0], "1", 1);
	ck_assert_uint_eq(peer.out.size, 0);
	(void)rpc_result_raw(kept[1], "2", 1); /* the notification: its end ends the batch, its result is dropped */
	ck_assert_uint_eq(peer.in_flight, 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&peer.out), "\"code\":\"invalid_request\""));
	(void)reply_of(buf_text(&peer.out));
	ck_assert_ptr_eq(strstr(buf_text(&peer.out), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"ran\":\"daemon.ping\"}},{"),
		buf_text(&peer.out));
	ck_assert_ptr_nonnull(strstr(buf_text(&peer.out),
		",{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":3},{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}]\n"));
	end();
}
END_TEST

START_TEST(batches_without_replies_are_silent)
{
	begin();
	ck_assert_str_eq(ask("[{\"jsonrpc\":\"2.0\",\"method\":\"daemon.ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"no.such\"}]"), "");
	ck_assert_int_eq(n_run, 1);
	end();
}
END_TEST

static const char *batch_of(int n)
{
	static char text[8192];
	size_t at = 1;

	text[0] = '[';
	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s" PING, i ? "," : "");
	memcpy(text + at, "]", 2);
	return text;
}

START_TEST(bad_batches_are_refused)
{
	const char *reply;

	begin();
	expect_error(ask("[]"), "null", "invalid_request", NULL, -1, NULL);
	expect_error(ask(" [ ] "), "null", "invalid_request", NULL, -1, NULL);
	expect_error(ask("[" PING ",]"), "null", "parse_error", NULL, -2, NULL);
	expect_error(ask("[" PING), "null", "parse_error", NULL, -2, NULL);
	expect_error(ask(batch_of(33)), "null", "invalid_request", NULL, -1, NULL);
	ck_assert_int_eq(n_run, 0); /* all or nothing is judged before anything runs */
	reply = ask(batch_of(32));
	ck_assert_int_eq(n_run, 32);
	(void)reply_of(reply);
	end();
}
END_TEST

START_TEST(offsets_in_batches_count_from_the_line)
{
	const char *reply;

	begin();
	reply = ask("[" PING ",{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"daemon.ping\",\"params\":{\"x\":1}},[]]");
	ck_assert_msg(strstr(reply, "\"name\":\"x\",\"offset\":106"), "%s", reply);
	ck_assert_msg(strstr(reply, "\"offset\":114"), "%s", reply);
	end();
}
END_TEST

/* ---- hostile bytes ---- */

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void expect_lines(const char *text)
{
	while (*text) {
		const char *newline = strchr(text, '\n');
		struct err e;

		ck_assert_ptr_nonnull(newline);
		ck_assert_msg(json_check(text, (size_t)(newline - text), &e) == 0, "%s", text);
		text = newline + 1;
	}
}

/* Whatever comes in, what goes out is lines of strict JSON, and every request ends. */
START_TEST(damaged_lines_get_whole_replies)
{
	static const char *const seeds[] = { INFO, LIST, CALL("\"a\\u00e4\""), "[" CALL("1") "," PING "]",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"object.put\",\"params\":{\"upload\":\"u\",\"offset\":\"0\",\"data\":\"QUJD\"}}" };
	static const char bytes[] = "{}[]\",:\\u0019-.eE ntf/\x01\xc3\xa4\xff";
	uint32_t state = 12345u + (uint32_t)_i;
	char text[256];

	begin();
	for (int round = 0; round < 20000; round++) {
		size_t size = strlen(seeds[round % 5]);

		memcpy(text, seeds[round % 5], size);
		for (uint32_t n = next_random(&state) % 4; n > 0; n--) {
			size_t at = next_random(&state) % size;
			size_t length = next_random(&state) % (size - at);

			if (next_random(&state) % 3)
				text[at] = bytes[next_random(&state) % sizeof(bytes)];
			else
				memmove(text + at, text + size - length, length);
		}
		if (next_random(&state) % 8 == 0)
			size = next_random(&state) % size;
		(void)line(text, size);
		while (n_kept > 0)
			(void)rpc_result_raw(kept[--n_kept], "1", 1);
		ck_assert_uint_eq(peer.in_flight, 0);
		if (peer.out.size > 0)
			expect_lines(buf_text(&peer.out));
	}
	end();
}
END_TEST

/* ---- speed: what a ping costs inside of control, without system calls. Printed when asked for ---- */

START_TEST(speed)
{
	static const char call[] = "{\"jsonrpc\":\"2.0\",\"id\":12345,\"method\":\"sandbox.call\",\"params\":{\"id\":\"counter\",\"function\":"
				   "\"increment\",\"args\":{\"by\":5,\"name\":\"x\"},\"timeout_ms\":30000}}";
	enum { ROUNDS = 200000 };
	struct timespec from, mid, to;

	begin();
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < ROUNDS; i++) {
		buf_clear(&peer.out);
		rpc_line(&control, &peer, PING, sizeof(PING) - 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &mid);
	for (int i = 0; i < ROUNDS; i++) {
		buf_clear(&peer.out);
		n_kept = 0;
		rpc_line(&control, &peer, call, sizeof(call) - 1);
		(void)rpc_result_raw(kept[0], "{\"result\":5,\"version\":1}", 24);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("ping %.0f ns, call %.0f ns\n",
		((double)(mid.tv_sec - from.tv_sec) * 1e9 + (double)(mid.tv_nsec - from.tv_nsec)) / ROUNDS,
		((double)(to.tv_sec - mid.tv_sec) * 1e9 + (double)(to.tv_nsec - mid.tv_nsec)) / ROUNDS);
	end();
}
END_TEST

#define ROWS(array) (int)(sizeof(array) / sizeof((array)[0]))

CHECK_MAIN("rpc", tcase_add_loop_test(tc, envelopes_are_refused, 0, ROWS(envelope_rows)); tcase_add_test(tc, nul_bytes_are_refused);
	tcase_add_test(tc, depth_is_limited); tcase_add_test(tc, ids_are_echoed_byte_for_byte);
	tcase_add_test(tc, notifications_run_without_a_reply); tcase_add_test(tc, escaped_method_names_are_understood);
	tcase_add_loop_test(tc, parameters_are_checked, 0, ROWS(param_rows));
	tcase_add_test(tc, too_many_parameters_name_an_unknown_one); tcase_add_test(tc, a_chunk_is_limited);
	tcase_add_test(tc, handlers_get_their_parameters); tcase_add_test(tc, levels_come_from_the_lists); tcase_add_test(tc, levels_come_from_groups);
	tcase_add_test(tc, rights_are_asked_for); tcase_add_test(tc, owners_see_their_own);
	tcase_add_test(tc, shutting_down_refuses_the_rest); tcase_add_test(tc, trees_are_printed_exactly);
	tcase_add_test(tc, answers_may_come_out_of_order); tcase_add_test(tc, errors_carry_extra_members);
	tcase_add_test(tc, answers_to_the_gone_are_dropped); tcase_add_test(tc, batches_are_answered_together);
	tcase_add_test(tc, who_holds_a_request_is_told_that_its_client_goes);
	tcase_add_test(tc, a_reply_too_large_for_a_line_is_an_error); tcase_add_test(tc, what_does_not_fit_into_a_batch_is_an_error);
	tcase_add_test(tc, batches_without_replies_are_silent); tcase_add_test(tc, bad_batches_are_refused);
	tcase_add_test(tc, offsets_in_batches_count_from_the_line); tcase_add_loop_test(tc, damaged_lines_get_whole_replies, 0, 3);
	if (getenv("SANDBOXD_TEST_SPEED")) tcase_add_test(tc, speed))
