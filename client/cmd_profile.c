/* SPDX-License-Identifier: MIT
 *
 * profile-list, -show, -validate, -diff: what module code may do under which name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/args.h"
#include "client/ctl.h"
#include "client/input.h"
#include "client/output.h"
#include "proto/json_out.h"
#include "proto/limits.h"

#define SUFFIX ".profile"

static bool is_true(struct json_span v)
{
	bool value = false;

	return json_bool(v, &value) && value;
}

static char *answer_text(struct json_span v)
{
	return output_format("%s", is_true(v) ? "yes" : "no");
}

/* "pid mount ipc", "-" for none. */
static char *words_text(struct json_span array)
{
	struct json_span key, each;
	char *all = output_format("%s", "");

	for (struct json_iter it = json_iter_begin(array); json_iter_next(&it, &key, &each);) {
		char *word = output_text(each), *more = output_format("%s%s%s", all, all[0] ? " " : "", word);

		free(word);
		free(all);
		all = more;
	}
	if (all[0])
		return all;
	free(all);
	return output_format("-");
}

int cmd_profile_list_run(struct ctl *s)
{
	static const char *const heads[] = { "PROFILE", "BASE", "NETWORK", "AUDIT", "MODULE SIZE", "ADMINISTRATORS ONLY", "OPERATIONS", "FINGERPRINT", NULL };
	static const char *const only_names[] = { "PROFILE", NULL };
	struct rpcclient_reply r;
	struct output_table t;
	struct json_span key, row;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		output_table_init(&t, s->args->quiet ? only_names : heads);
		for (struct json_iter it = json_iter_begin(json_get(r.result, "profiles")); json_iter_next(&it, &key, &row);) {
			int64_t size = 0;

			output_table_cell(&t, output_text(json_get(row, "profile")));
			if (s->args->quiet)
				continue;
			(void)json_i64(json_get(row, "max_module_size"), &size);
			output_table_cell(&t, output_text(json_get(row, "base")));
			output_table_cell(&t, output_text(json_get(row, "network")));
			output_table_cell(&t, output_text(json_get(row, "audit_level")));
			output_table_cell(&t, output_bytes(size));
			output_table_cell(&t, answer_text(json_get(row, "administrators_only")));
			output_table_cell(&t, output_text(json_get(row, "operations")));
			output_table_cell(&t, output_text(json_get(row, "fingerprint")));
		}
		output_table_print(&t, stdout, !s->args->quiet, -1, s->colour);
		output_table_fini(&t);
	}
	rpcclient_reply_fini(&r);
	return 0;
}

static void print_settings(struct json_span p)
{
	static const char *const texts[] = { "profile", "base", "fingerprint", "network", "audit_level", "forbidden", "unlisted" };
	struct json_span landlock = json_get(p, "landlock");
	int64_t size = 0;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		output_pair(stdout, texts[i], output_text(json_get(p, texts[i])));
	(void)json_i64(json_get(p, "max_module_size"), &size);
	output_pair(stdout, "max_module_size", output_bytes(size));
	output_pair(stdout, "administrators_only", answer_text(json_get(p, "administrators_only")));
	output_pair(stdout, "dynamic_code", answer_text(json_get(p, "dynamic_code")));
	output_pair(stdout, "read_paths", words_text(json_get(p, "read_paths")));
	output_pair(stdout, "write_paths", words_text(json_get(p, "write_paths")));
	output_pair(stdout, "namespaces", words_text(json_get(p, "namespaces")));
	output_pair(stdout, "landlock files", words_text(json_get(landlock, "files")));
	output_pair(stdout, "landlock network", words_text(json_get(landlock, "network")));
	output_pair(stdout, "landlock scopes", words_text(json_get(landlock, "scopes")));
}

static void print_profile(const struct ctl *s, struct json_span p)
{
	static const char *const heads[] = { "OPERATION", "ALLOWED", "REFUSED WITH", "CALLS", "LANDLOCK", NULL };
	struct output_table t;
	struct json_span key, row;

	print_settings(p);
	(void)putchar('\n');
	output_table_init(&t, heads);
	for (struct json_iter it = json_iter_begin(json_get(p, "operations")); json_iter_next(&it, &key, &row);) {
		output_table_cell(&t, output_text(json_get(row, "operation")));
		output_table_cell(&t, answer_text(json_get(row, "allowed")));
		output_table_cell(&t, output_text(json_get(row, "refused_with")));
		output_table_cell(&t, output_text(json_get(row, "calls")));
		output_table_cell(&t, words_text(json_get(row, "landlock")));
	}
	output_table_print(&t, stdout, true, -1, s->colour);
	output_table_fini(&t);
}

int cmd_profile_show_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r))
		print_profile(s, r.result);
	rpcclient_reply_fini(&r);
	return 0;
}

/* "/etc/sandboxd/profiles.d/web.profile": "web". */
static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t size = strlen(name), suffix = sizeof SUFFIX - 1;

	if (strcmp(path, "-") == 0)
		return output_format("profile");
	if (size > suffix && strcmp(name + size - suffix, SUFFIX) == 0)
		size -= suffix;
	return output_format("%.*s", (int)size, name);
}

int cmd_profile_validate_run(struct ctl *s)
{
	const char *path = s->args->operands[0], *given = args_text(s->args, "name", NULL);
	struct rpcclient_reply r = { 0 };
	struct buf params = BUF_INIT;
	struct json_out o = json_out_to(&params);
	struct err e = ERR_INIT;
	size_t size = 0;
	char *text = input_text(path, LIMIT_PROFILE_BYTES, &size, &e), *name;
	int status;

	if (!text)
		return ctl_fail(s, &e, (struct json_span){ 0 });
	name = given ? output_format("%s", given) : name_of(path);
	json_out_object(&o, NULL);
	json_out_text_n(&o, "text", text, size);
	json_out_text(&o, "name", name);
	json_out_object_end(&o);
	status = ctl_try(s, &params, &r, &e) == 0 ? 0 : ctl_fail(s, &e, r.error);
	if (status == 0 && !ctl_json_done(s, &r) && !s->args->quiet) {
		(void)printf("%s: good\n", path);
		print_profile(s, r.result);
	}
	rpcclient_reply_fini(&r);
	buf_fini(&params);
	free(name);
	free(text);
	return status;
}

static void print_differences(const struct ctl *s, struct json_span result)
{
	const char *const heads[] = { "", s->args->operands[0], s->args->operands[1], NULL };
	struct output_table t;
	struct json_span key, row;

	output_table_init(&t, heads);
	for (struct json_iter it = json_iter_begin(json_get(result, "settings")); json_iter_next(&it, &key, &row);) {
		output_table_cell(&t, output_text(json_get(row, "setting")));
		output_table_cell(&t, output_text(json_get(row, "a")));
		output_table_cell(&t, output_text(json_get(row, "b")));
	}
	for (struct json_iter it = json_iter_begin(json_get(result, "operations")); json_iter_next(&it, &key, &row);) {
		output_table_cell(&t, output_text(json_get(row, "operation")));
		output_table_cell(&t, answer_text(json_get(row, "a")));
		output_table_cell(&t, answer_text(json_get(row, "b")));
	}
	output_table_print(&t, stdout, true, -1, s->colour);
	output_table_fini(&t);
}

int cmd_profile_diff_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	bool same;

	if (status != 0)
		return status;
	same = is_true(json_get(r.result, "same"));
	if (!ctl_json_done(s, &r) && !s->args->quiet && !same)
		print_differences(s, r.result);
	rpcclient_reply_fini(&r);
	return same ? 0 : 1;
}
