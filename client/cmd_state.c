/* SPDX-License-Identifier: MIT
 *
 * state-get: the state as JSON. checkpoint: it is saved. state-check: does it survive? schema: what it is made of. state-diff, schema-diff: two of them, each from a
 * sandbox (ID), from what a version was left with (ID@VERSION), or from a file that state-get or schema has written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd_reload.h"
#include "client/ctl.h"
#include "client/input.h"
#include "client/json_diff.h"
#include "client/output.h"
#include "proto/json_out.h"

#define FILE_BYTES_MOST (8u << 20)

int cmd_state_get_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r))
		output_json(stdout, json_get(r.result, "state"));
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_state_set_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	cmd_reload_show(s, &r);
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_checkpoint_run(struct ctl *s)
{
	int64_t number = 0, bytes = 0, pause_us = 0, acknowledged = 0;
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	char *sha256;

	if (status != 0)
		return status;
	(void)json_i64(json_get(r.result, "checkpoint"), &number);
	(void)json_i64(json_get(r.result, "state_bytes"), &bytes);
	(void)json_i64(json_get(r.result, "pause_us"), &pause_us);
	(void)json_i64(json_get(r.result, "acknowledged"), &acknowledged);
	sha256 = output_text(json_get(r.result, "sha256"));
	if (ctl_json_done(s, &r))
		(void)0;
	else if (s->args->quiet)
		(void)printf("%" PRId64 "\n", number);
	else
		(void)printf("%s: checkpoint %" PRId64 ", %" PRId64 " bytes, paused %" PRId64 " us, %" PRId64 " calls acknowledged; sha256 %.12s\n",
			s->args->operands[0], number, bytes, pause_us, acknowledged, sha256);
	free(sha256);
	rpcclient_reply_fini(&r);
	return 0;
}

static void print_check(const struct ctl *s, struct json_span result)
{
	int64_t bytes = 0, again = 0, at = 0;
	bool same = false;

	(void)json_bool(json_get(result, "same"), &same);
	(void)json_i64(json_get(result, "state_bytes"), &bytes);
	if (same) {
		(void)printf("%s: saved, restored and saved again: the same %" PRId64 " bytes\n", s->args->operands[0], bytes);
		return;
	}
	(void)json_i64(json_get(result, "state_bytes_again"), &again);
	(void)json_i64(json_get(result, "differs_at"), &at);
	(void)printf("%s: what was restored isn't what was saved: %" PRId64 " bytes and then %" PRId64 ", different from byte %" PRId64 " on\n",
		s->args->operands[0], bytes, again, at);
}

int cmd_state_check_run(struct ctl *s)
{
	bool has_code = s->args->n_operands > 1 || args_param(s->args, "object");
	struct rpcclient_reply r;
	int status = has_code ? ctl_request_code(s, &r) : ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	bool same = true;

	if (status != 0)
		return status;
	(void)json_bool(json_get(r.result, "same"), &same);
	if (has_code)
		cmd_reload_show(s, &r);
	else if (!ctl_json_done(s, &r) && !s->args->quiet)
		print_check(s, r.result);
	rpcclient_reply_fini(&r);
	return same ? 0 : 1;
}

/* ---- schemas ---- */

static void print_fields(struct json_span fields, const char *indent)
{
	struct json_span key, field;

	for (struct json_iter it = json_iter_begin(fields); json_iter_next(&it, &key, &field);) {
		char *name = output_text(json_get(field, "name")), *kind = output_text(json_get(field, "kind"));

		(void)printf("%s%s: %s%s", indent, name, kind, json_get(field, "optional").at ? "?" : "");
		free(name);
		free(kind);
		for (int i = 0; i < 3; i++) {
			static const char *const more[] = { "default", "range", "was" }, *const words[] = { " =", ", range", ", was" };
			char *text = output_text(json_get(field, more[i]));

			if (json_get(field, more[i]).at)
				(void)printf("%s %s", words[i], text);
			free(text);
		}
		(void)putchar('\n');
	}
}

int cmd_schema_run(struct ctl *s)
{
	struct rpcclient_reply r;
	struct json_span key, row;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		print_fields(json_get(r.result, "state"), "");
		for (struct json_iter it = json_iter_begin(json_get(r.result, "structs")); json_iter_next(&it, &key, &row);) {
			char *name = output_text(json_get(row, "name"));

			(void)printf("struct %s\n", name);
			free(name);
			print_fields(json_get(row, "fields"), "  ");
		}
	}
	rpcclient_reply_fini(&r);
	return 0;
}

/* {name: {kind, optional, default, range, was}}, structs likewise under "struct NAME": so that fields are compared by name. */
static void by_name(struct json_span fields, struct json_out *o)
{
	struct json_span key, field, value;

	for (struct json_iter it = json_iter_begin(fields); json_iter_next(&it, &key, &field);) {
		char *name = json_string_dup(json_get(field, "name"), NULL);

		json_out_object(o, name ? name : "?");
		for (struct json_iter in = json_iter_begin(field); json_iter_next(&in, &key, &value);)
			if (!json_string_is(key, "name") && !json_string_is(key, "was")) {
				char *member = json_string_dup(key, NULL);

				json_out_raw(o, member ? member : "?", value.at, value.size);
				free(member);
			}
		json_out_object_end(o);
		free(name);
	}
}

static void schema_by_name(struct json_span schema, struct buf *to)
{
	struct json_out o = json_out_to(to);
	struct json_span key, row;

	json_out_object(&o, NULL);
	by_name(json_get(schema, "state"), &o);
	for (struct json_iter it = json_iter_begin(json_get(schema, "structs")); json_iter_next(&it, &key, &row);) {
		char *name = output_text(json_get(row, "name")), *title = output_format("struct %s", name);

		json_out_object(&o, title);
		by_name(json_get(row, "fields"), &o);
		json_out_object_end(&o);
		free(title);
		free(name);
	}
	json_out_object_end(&o);
}

/* ---- two of them ---- */

struct side {
	struct rpcclient_reply reply;
	char *text;            /* of a file */
	struct json_span whole;
};

static void side_free(struct side *d)
{
	rpcclient_reply_fini(&d->reply);
	free(d->text);
}

static bool is_file(const char *operand)
{
	size_t n = strlen(operand);

	return strcmp(operand, "-") == 0 || strchr(operand, '/') || (n > 5 && strcmp(operand + n - 5, ".json") == 0);
}

static int side_file(struct side *d, const char *path, struct err *e)
{
	size_t size = 0;

	d->text = input_text(path, FILE_BYTES_MOST, &size, e);
	if (!d->text)
		return -1;
	while (size > 0 && strchr(" \t\r\n", d->text[size - 1]))
		size--;
	if (json_check(d->text, size, e) < 0)
		return err_prefix(e, "%s", path);
	d->whole = (struct json_span){ d->text, size };
	return json_type(d->whole) == '{' ? 0 : err_set(e, ERR_BAD_PARAM, "%s: not a JSON object", path);
}

/* ID or ID@VERSION */
static int side_sandbox(struct ctl *s, struct side *d, const char *operand, struct err *e)
{
	const char *at = strrchr(operand, '@');
	struct buf params = BUF_INIT;
	struct json_out o = json_out_to(&params);
	int64_t version = 0;
	int r = 0;

	if (at && (!args_integer(at + 1, &version) || version < 1))
		return err_set(e, ERR_BAD_PARAM, "'%s': behind @ stands the number of a version", operand);
	json_out_object(&o, NULL);
	json_out_text_n(&o, "id", operand, at ? (size_t)(at - operand) : strlen(operand));
	if (at)
		json_out_i64(&o, "version", version);
	json_out_object_end(&o);
	r = ctl_try(s, &params, &d->reply, e);
	buf_fini(&params);
	d->whole = d->reply.result;
	return r;
}

static int side_get(struct ctl *s, struct side *d, const char *operand)
{
	struct err e = ERR_INIT;
	int r = is_file(operand) ? side_file(d, operand, &e) : side_sandbox(s, d, operand, &e);

	return r == 0 ? 0 : ctl_fail(s, &e, d->reply.error);
}

struct listing {
	const struct ctl *s;
	struct json_out o;
};

static void tell(void *ctx, const char *path, struct json_span left, struct json_span right)
{
	struct listing *l = ctx;
	char *clean, *a, *b;

	if (l->s->args->json) {
		json_out_object(&l->o, NULL);
		json_out_text(&l->o, "path", path);
		if (left.at)
			json_out_raw(&l->o, "left", left.at, left.size);
		if (right.at)
			json_out_raw(&l->o, "right", right.at, right.size);
		json_out_object_end(&l->o);
		return;
	}
	clean = output_clean(path, strlen(path), false);
	a = output_text(left);
	b = output_text(right);
	if (left.at && right.at)
		(void)printf("~ %s: %s -> %s\n", clean, a, b);
	else
		(void)printf("%s %s: %s\n", left.at ? "-" : "+", clean, left.at ? a : b);
	free(clean);
	free(a);
	free(b);
}

static void list(const struct ctl *s, struct json_span left, struct json_span right)
{
	struct buf text = BUF_INIT;
	struct listing l = { s, json_out_to(&text) };
	size_t n;

	json_out_object(&l.o, NULL);
	json_out_array(&l.o, "differences");
	n = json_diff(left, right, tell, &l);
	json_out_array_end(&l.o);
	json_out_object_end(&l.o);
	if (s->args->json)
		output_json(stdout, (struct json_span){ buf_text(&text), text.size });
	else if (n == 0 && !s->args->quiet)
		(void)printf("no difference\n");
	buf_fini(&text);
}

/* A file may hold the state alone, or all of the answer. */
static struct json_span state_of(struct json_span whole)
{
	return json_get(whole, "state_version").at && json_type(json_get(whole, "state")) == '{' ? json_get(whole, "state") : whole;
}

static int diff(struct ctl *s, bool schemas)
{
	struct side sides[2] = { 0 };
	struct buf names[2] = { BUF_INIT, BUF_INIT };
	int status = 0;

	for (int i = 0; i < 2 && status == 0; i++)
		status = side_get(s, &sides[i], s->args->operands[i]);
	for (int i = 0; i < 2 && status == 0 && schemas; i++)
		schema_by_name(sides[i].whole, &names[i]);
	if (status == 0 && schemas)
		list(s, (struct json_span){ buf_text(&names[0]), names[0].size }, (struct json_span){ buf_text(&names[1]), names[1].size });
	else if (status == 0)
		list(s, state_of(sides[0].whole), state_of(sides[1].whole));
	for (int i = 0; i < 2; i++) {
		side_free(&sides[i]);
		buf_fini(&names[i]);
	}
	return status;
}

int cmd_state_diff_run(struct ctl *s)
{
	return diff(s, false);
}

int cmd_schema_diff_run(struct ctl *s)
{
	return diff(s, true);
}
