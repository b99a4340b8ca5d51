/* SPDX-License-Identifier: MIT
 *
 * Which socket, how long, and how errors look. */
#include "client/ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/argjson.h"
#include "client/input.h"
#include "client/output.h"
#include "client/upload.h"
#include "proto/clock.h"
#include "proto/config.h"
#include "proto/json_out.h"

#ifndef SANDBOXD_VERSION
#define SANDBOXD_VERSION "unknown"
#endif
#define WAIT_MS  90000 /* more than the defaults of a compile, a start and a reload together */
#define GRACE_MS 1000  /* a call's own timeout is answered by the daemon, who knows more */

void ctl_init(struct ctl *s, const struct args *a)
{
	*s = (struct ctl){ .args = a, .colour = output_colours(STDOUT_FILENO) };
	rpcclient_init(&s->rpc);
}

void ctl_fini(struct ctl *s)
{
	rpcclient_fini(&s->rpc);
}

/* ---- errors ---- */

static void write_own_error(struct json_out *o, const struct err *e)
{
	json_out_object(o, "error");
	json_out_i64(o, "code", err_code_number(e->code));
	json_out_text(o, "message", e->text);
	json_out_object(o, "data");
	json_out_text(o, "code", err_code_text(e->code));
	json_out_text(o, "hint", err_code_hint(e->code));
	if (*e->nearest)
		json_out_text(o, "nearest", e->nearest);
	json_out_object_end(o);
	json_out_object_end(o);
}

static void show_json(const struct err *e, struct json_span error)
{
	struct buf line = BUF_INIT;
	struct json_out o = json_out_to(&line);

	json_out_object(&o, NULL);
	if (error.at)
		json_out_raw(&o, "error", error.at, error.size);
	else
		write_own_error(&o, e);
	json_out_object_end(&o);
	output_json(stdout, (struct json_span){ buf_text(&line), line.size });
	buf_fini(&line);
}

/* What the daemon adds to an error: stage, step, signal, last words; whatever it is. */
static void show_details(struct json_span data)
{
	static const char *const shown[] = { "code", "hint", "nearest", "output" };
	struct json_iter it = json_iter_begin(data);
	struct json_span key, value;

	while (json_iter_next(&it, &key, &value)) {
		bool skip = json_type(value) == '0';
		char *name, *text;

		for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
			skip = skip || json_string_is(key, shown[i]);
		if (skip)
			continue;
		if (json_string_is(key, "sandbox") && json_type(value) == '{') { /* already_exists: all that is known of it; with --json, all is shown */
			text = output_text(json_get(value, "status"));
			(void)fprintf(stderr, "  status: %s\n", text);
			free(text);
			continue;
		}
		name = output_text(key);
		text = output_text(value);
		(void)fprintf(stderr, "  %s: %s\n", name, text);
		free(name);
		free(text);
	}
}

static void show_text(const struct ctl *s, const struct err *e, struct json_span error)
{
	const struct verb *v = s->args->verb;
	struct json_span data = json_get(error, "data"), said = json_get(data, "code"),
			 hint = json_get(data, "hint");
	bool known = json_type(said) != '"' || json_string_is(said, err_code_text(e->code));

	(void)fputs("sandboxctl: ", stderr);
	if (v && v->operand_params[0] && s->args->n_operands > 0) {
		char *id = output_clean(s->args->operands[0], strlen(s->args->operands[0]), false);

		(void)fprintf(stderr, "%s %s: ", v->name, id);
		free(id);
	} else if (v) {
		(void)fprintf(stderr, "%s: ", v->name);
	}
	if (known) {
		(void)fprintf(stderr, "%s: %s", err_code_text(e->code), e->text);
	} else { /* a newer daemon's */
		char *code = output_text(said);

		(void)fprintf(stderr, "%s: %s", code, e->text);
		free(code);
	}
	if (*e->nearest) {
		(void)fprintf(stderr, " (did you mean '%s'?)\n", e->nearest);
	} else if (known) {
		(void)fprintf(stderr, " (%s)\n", err_code_hint(e->code));
	} else {
		char *text = output_text(hint);

		(void)fprintf(stderr, hint.at ? " (%s)\n" : "\n", text);
		free(text);
	}
	if (!s->args->quiet)
		show_details(data);
	output_lines(stderr, json_get(data, "output"));
}

int ctl_fail(const struct ctl *s, const struct err *e, struct json_span error)
{
	if (s->args->json)
		show_json(e, error);
	else
		show_text(s, e, error);
	return err_code_exit(e->code);
}

/* ---- the connection ---- */

/* Without XDG_RUNTIME_DIR the folder is one in /tmp, where anyone could have made it. */
static int check_folder(const char *socket_path, uid_t uid, struct err *e)
{
	char folder[LIMIT_PATH_BYTES + 1];
	const char *slash = strrchr(socket_path, '/');
	struct stat st;

	if (!slash || slash == socket_path || (size_t)(slash - socket_path) >= sizeof(folder))
		return 0;
	memcpy(folder, socket_path, (size_t)(slash - socket_path));
	folder[slash - socket_path] = '\0';
	if (lstat(folder, &st) == 0 && st.st_uid != uid && st.st_uid != 0)
		return err_set(e, ERR_DENIED, "%s belongs to another user; it is not your daemon's", folder);
	return 0;
}

static int choose_socket(struct ctl *s, struct err *e)
{
	const char *path = s->args->socket ? s->args->socket : getenv("SANDBOXD_SOCKET");
	struct config c;
	uid_t uid = geteuid();

	if (s->args->socket || (path && *path)) {
		if (strlen(path) >= sizeof(s->socket_path))
			return err_set(e, ERR_BAD_PARAM, "the socket's path is too long: '%s'", path);
		memcpy(s->socket_path, path, strlen(path) + 1);
		return 0;
	}
	config_defaults(&c, uid);
	if (uid != 0 && access(c.socket_path, F_OK) == -1 && (errno == ENOENT || errno == ENOTDIR))
		config_defaults(&c, 0);
	else if (uid != 0 && check_folder(c.socket_path, uid, e) == -1)
		return -1;
	memcpy(s->socket_path, c.socket_path, sizeof(c.socket_path));
	return 0;
}

static bool method_has(const struct method *m, const char *param)
{
	for (size_t i = 0; i < method_n_params(m); i++)
		if (strcmp(m->params[i].name, param) == 0)
			return true;
	return false;
}

static int64_t deadline(const struct ctl *s)
{
	const struct method *m = verb_method(s->args->verb);
	int64_t now = clock_monotonic_ms();

	if (s->args->timeout_ms == ARGS_NO_TIMEOUT)
		return now + WAIT_MS + argjson_time_ms(s->args);
	if (s->args->timeout_ms == 0)
		return RPCCLIENT_NO_DEADLINE;
	return now + s->args->timeout_ms + (m && method_has(m, "timeout_ms") ? GRACE_MS : 0);
}

static int connect_once(struct ctl *s, struct err *e)
{
	if (s->rpc.fd >= 0)
		return 0;
	if (choose_socket(s, e) == -1)
		return -1;
	return rpcclient_connect(&s->rpc, s->socket_path, deadline(s), e);
}

/* ---- requests ---- */

/* Known requests work with any version, so nothing is said about it until a daemon doesn't understand one: then it is asked for its own. What
 * only another version can mean, a method or a parameter of our table that it doesn't have, is `unsupported`, and its own words are in it. */
static void judge(struct ctl *s, struct rpcclient_reply *ret, struct err *said)
{
	bool unknown = said->code == ERR_UNKNOWN_METHOD || said->code == ERR_UNKNOWN_PARAM;
	struct rpcclient_reply r = { 0 };
	struct err e = ERR_INIT;

	if (!ret->error.at || (!unknown && said->code != ERR_MISSING_PARAM && said->code != ERR_BAD_PARAM))
		return;
	if (rpcclient_call(&s->rpc, methods[METHOD_DAEMON_PING].name, (struct json_span){ "{}", 2 }, &r, &e) == 0 &&
		json_type(json_get(r.result, "version")) == '"' && !json_string_is(json_get(r.result, "version"), SANDBOXD_VERSION)) {
		char *version = output_text(json_get(r.result, "version"));

		if (!s->has_warned)
			(void)fprintf(stderr, "sandboxctl: warning: this is sandboxctl %s, the daemon is sandboxd %s\n", SANDBOXD_VERSION, version);
		s->has_warned = true;
		if (unknown) {
			err_prefix(said, "sandboxd %s doesn't have what sandboxctl %s asks for", version, SANDBOXD_VERSION);
			said->code = ERR_UNSUPPORTED;
			said->nearest[0] = '\0'; /* nobody has mistyped it */
			ret->error = (struct json_span){ 0 };
		}
		free(version);
	}
	rpcclient_reply_fini(&r);
}

int ctl_try(struct ctl *s, const struct buf *params, struct rpcclient_reply *ret, struct err *e)
{
	int r;

	if (params->failed)
		return err_set(e, ERR_INTERNAL, "no memory for the request");
	if (connect_once(s, e) == -1)
		return -1;
	r = rpcclient_call(&s->rpc, verb_method(s->args->verb)->name, (struct json_span){ params->data, params->size }, ret, e);
	if (r == -1)
		judge(s, ret, e);
	return r;
}

static int call(struct ctl *s, struct buf *params, struct rpcclient_reply *ret)
{
	struct err e = ERR_INIT;
	int status = 0;

	if (ctl_try(s, params, ret, &e) == 0)
		return 0;
	status = ctl_fail(s, &e, ret->error);
	rpcclient_reply_fini(ret);
	return status;
}

int ctl_request(struct ctl *s, const char *name, struct json_span value, struct rpcclient_reply *ret)
{
	struct buf params = BUF_INIT;
	struct json_out o = json_out_to(&params);
	struct err e = ERR_INIT;
	int status;

	*ret = (struct rpcclient_reply){ 0 };
	json_out_object(&o, NULL);
	if (argjson_write(&o, s->args, name, &e) == 0) {
		if (name)
			json_out_raw(&o, name, value.at, value.size);
		json_out_object_end(&o);
		status = call(s, &params, ret);
	} else {
		status = ctl_fail(s, &e, (struct json_span){ 0 });
	}
	buf_fini(&params);
	return status;
}

/* Reads FILE, sends it and writes the members that name it. */
static int give_code(struct ctl *s, struct json_out *o, struct rpcclient_reply *ret, struct err *e)
{
	char sha256[SHA256_HEX_BYTES + 1];
	struct codefile code = { 0 };
	int r;

	if (codefile_read(&code, s->args->operands[1], e) == -1)
		return -1;
	if (!code.is_source && args_param(s->args, "source_name")) {
		codefile_fini(&code);
		return err_set(e, ERR_BAD_PARAM, "--name is the name of a C source, and %s is an object", s->args->operands[1]);
	}
	r = connect_once(s, e);
	if (r == 0)
		r = upload_bytes(&s->rpc, code.data, code.size, sha256, ret, e);
	if (r == -1)
		judge(s, ret, e);
	if (r == 0) {
		json_out_text(o, code.is_source ? "source" : "object", sha256);
		if (code.is_source && !args_param(s->args, "source_name"))
			json_out_text(o, "source_name", code.name);
	}
	codefile_fini(&code);
	return r;
}

/* Does an option take standard input? FILE then can't. */
static bool reads_standard_input(const struct args *a)
{
	for (size_t i = 0; i < a->n_options; i++)
		if (a->options[i].option.kind != OPTION_FLAG && a->options[i].text && strcmp(a->options[i].text, "-") == 0)
			return true;
	return false;
}

/* FILE, or --object in its place. */
static int check_code(const struct args *a, struct err *e)
{
	bool file = a->n_operands > 1, object = args_param(a, "object") != NULL;

	if (object && args_param(a, "source_name"))
		return err_set(e, ERR_BAD_PARAM, "--name is the name of a C source, and --object names an object");
	if (file && strcmp(a->operands[1], "-") == 0 && reads_standard_input(a))
		return err_set(e, ERR_BAD_PARAM, "standard input can be given only once: FILE is - already");
	if (file && object)
		return err_set(e, ERR_BAD_PARAM, "FILE and --object are two ways to name the code: give one");
	if (!file && !object)
		return err_set(e, ERR_MISSING_PARAM, "too few operands; usage: sandboxctl %s %s [options]",
			a->verb->name, a->verb->operands);
	return 0;
}

int ctl_request_code(struct ctl *s, struct rpcclient_reply *ret)
{
	struct buf params = BUF_INIT;
	struct json_out o = json_out_to(&params);
	struct err e = ERR_INIT;
	int status;

	*ret = (struct rpcclient_reply){ 0 };
	json_out_object(&o, NULL);
	if (check_code(s->args, &e) == 0 && argjson_write(&o, s->args, NULL, &e) == 0 &&
		(s->args->n_operands < 2 || give_code(s, &o, ret, &e) == 0)) {
		json_out_object_end(&o);
		status = call(s, &params, ret);
	} else {
		status = ctl_fail(s, &e, ret->error);
		rpcclient_reply_fini(ret);
	}
	buf_fini(&params);
	return status;
}

bool ctl_json_done(const struct ctl *s, const struct rpcclient_reply *r)
{
	if (s->args->json)
		output_json(stdout, r->result);
	return s->args->json;
}
