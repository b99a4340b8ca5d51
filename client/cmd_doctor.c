/* SPDX-License-Identifier: MIT
 *
 * doctor: what the machine can enforce; and whether that is what a file requires. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/input.h"
#include "client/output.h"
#include "proto/protection.h"

#define REQUIRE_BYTES 65536

/* ---- the view ---- */

static bool is_true(struct json_span v)
{
	return json_type(v) == 't';
}

static size_t count_of(struct json_span array)
{
	struct json_iter it = json_iter_begin(array);
	struct json_span key, value;
	size_t n = 0;

	while (json_iter_next(&it, &key, &value))
		n++;
	return n;
}

static char *enforced_text(struct json_span profile)
{
	size_t asked = 0, missing = count_of(json_get(profile, "missing"));
	struct json_iter it = json_iter_begin(json_get(profile, "security"));
	struct json_span key, row;

	while (json_iter_next(&it, &key, &row))
		if (!json_string_is(json_get(row, "asked"), "none"))
			asked++;
	return output_format("%zu of %zu", asked - missing, asked);
}

static void print_profiles(struct json_span profiles)
{
	static const char *const heads[] = { "PROFILE", "WORKS", "ENFORCED", "BIRTH", "WHY NOT", NULL };
	struct json_iter it = json_iter_begin(profiles);
	struct json_span key, row;
	struct output_table t;
	int64_t us;

	output_table_init(&t, heads);
	while (json_iter_next(&it, &key, &row)) {
		bool works = is_true(json_get(row, "works"));

		output_table_cell(&t, output_text(json_get(row, "profile")));
		output_table_cell(&t, output_format("%s", works ? "yes" : "no"));
		output_table_cell(&t, works ? enforced_text(row) : output_format("-"));
		output_table_cell(&t, json_i64(json_get(row, "birth_us"), &us) ? output_format("%.1f ms", (double)us / 1000) : output_format("-"));
		output_table_cell(&t, output_text(json_get(row, "error")));
	}
	output_table_print(&t, stdout, true, -1, false);
	output_table_fini(&t);
}

/* The first reason that a profile gives for what it lacks. */
static char *why_text(struct json_span profiles, struct json_span protection)
{
	struct json_iter it = json_iter_begin(profiles), rows;
	struct json_span key, profile, row;
	char *name = output_text(protection), *found = NULL;

	while (!found && json_iter_next(&it, &key, &profile)) {
		rows = json_iter_begin(json_get(profile, "security"));
		while (!found && json_iter_next(&rows, &key, &row))
			if (json_string_is(json_get(row, "protection"), name) && !json_string_is(json_get(row, "asked"), "none") &&
				json_string_is(json_get(row, "got"), "none"))
				found = output_text(json_get(row, "why"));
	}
	free(name);
	return found ? found : output_format("-");
}

static void print_missing(struct json_span result)
{
	struct json_iter it = json_iter_begin(json_get(result, "remedies"));
	struct json_span key, row;

	if (count_of(json_get(result, "remedies")) == 0)
		(void)puts("\nall protections that the profiles ask for are enforced here");
	while (json_iter_next(&it, &key, &row)) {
		char *name = output_text(json_get(row, "protection"));

		(void)printf("\nnot enforced: %s\n", name);
		output_pair(stdout, "  lost", output_text(json_get(row, "lost")));
		output_pair(stdout, "  why", why_text(json_get(result, "profiles"), json_get(row, "protection")));
		output_pair(stdout, "  how to get it", output_text(json_get(row, "get")));
		free(name);
	}
}

static void print_capacity(struct json_span c)
{
	char *fit = output_text(json_get(c, "sandboxes")), *by = output_text(json_get(c, "limited_by")),
	     *present = output_text(json_get(c, "present")), *get = output_text(json_get(c, "get"));

	(void)printf("\nsandboxes that fit: %s, limited by %s; there are %s. For more: %s\n", fit, by, present, get);
	free(fit);
	free(by);
	free(present);
	free(get);
}

static void print_result(struct json_span result)
{
	static const char *const facts[] = { "kernel", "architecture", "landlock_abi", "cgroup", "rootless" };

	for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
		output_pair(stdout, facts[i], output_text(json_get(result, facts[i])));
	(void)putchar('\n');
	print_profiles(json_get(result, "profiles"));
	print_missing(result);
	print_capacity(json_get(result, "capacity"));
}

/* ---- --require ---- */

static struct json_span profile_named(struct json_span result, const char *name)
{
	struct json_iter it = json_iter_begin(json_get(result, "profiles"));
	struct json_span key, row;

	while (json_iter_next(&it, &key, &row))
		if (json_string_is(json_get(row, "profile"), name))
			return row;
	return (struct json_span){ 0 };
}

/* Is it in its process's report, asked for and got? */
static bool has(struct json_span profile, const char *protection)
{
	struct json_iter it = json_iter_begin(json_get(profile, "security"));
	struct json_span key, row;

	while (json_iter_next(&it, &key, &row))
		if (json_string_is(json_get(row, "protection"), protection))
			return !json_string_is(json_get(row, "got"), "none");
	return false;
}

/* "PROFILE" or "PROFILE PROTECTION", or "sandboxes N". 1: met; 0: not; -1 with err: no requirement that this program knows. */
static int line_met(char *line, struct json_span result, struct err *e)
{
	char *rest = line + strcspn(line, " \t");
	struct json_span profile;
	uint64_t bit;
	int64_t want, fit;

	if (*rest)
		*rest++ = '\0';
	rest += strspn(rest, " \t");
	if (strcmp(line, "sandboxes") == 0) {
		if (!args_integer(rest, &want) || want < 0)
			return err_set(e, ERR_BAD_PARAM, "sandboxes: '%s' is not a number", rest);
		return json_i64(json_get(json_get(result, "capacity"), "sandboxes"), &fit) && fit >= want;
	}
	profile = profile_named(result, line);
	if (!profile.at)
		return err_set(e, ERR_BAD_PARAM, "'%s' is neither a profile nor 'sandboxes'", line);
	if (!*rest)
		return is_true(json_get(profile, "works"));
	if (strchr(rest, ',') || protection_set_parse(rest, &bit, e) == -1)
		return e->code != ERR_OK ? -1 : err_set(e, ERR_BAD_PARAM, "'%s' is more than one protection: a line each", rest);
	return has(profile, protection_name((enum protection)__builtin_ctzll(bit)));
}

static void trim(char *line)
{
	size_t n = strcspn(line, "#\r");

	line[n] = '\0';
	while (n > 0 && strchr(" \t", line[n - 1]))
		line[--n] = '\0';
}

/* Prints each line that isn't met to standard error. The number of them, or -1 with err. */
static int unmet(char *text, struct json_span result, struct err *e)
{
	int n = 0, number = 0;

	for (char *next = text, *line; (line = next); number++) {
		char shown[160];
		int met;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line += strspn(line, " \t");
		trim(line);
		text_clean(shown, sizeof shown, line, strlen(line));
		if (!*line)
			continue;
		met = line_met(line, result, e);
		if (met == -1) {
			struct err why = *e;

			return err_set(e, ERR_BAD_PARAM, "--require: line %d: %s", number + 1, why.text);
		}
		if (met == 0) {
			n++;
			(void)fprintf(stderr, "sandboxctl: not met: %s\n", shown);
		}
	}
	return n;
}

int cmd_doctor_run(struct ctl *s)
{
	const char *path = args_text(s->args, "require", NULL);
	struct rpcclient_reply r;
	struct err e = ERR_INIT;
	char *required = NULL;
	size_t size;
	int status, n = 0;

	if (path && !(required = input_text(path, REQUIRE_BYTES, &size, &e)))
		return ctl_fail(s, &e, (struct json_span){ 0 });
	if (required && strlen(required) != size) {
		free(required);
		(void)err_set(&e, ERR_BAD_PARAM, "--require: %s is not text", path);
		return ctl_fail(s, &e, (struct json_span){ 0 });
	}
	status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);
	if (status != 0) {
		free(required);
		return status;
	}
	if (required)
		n = unmet(required, r.result, &e);
	if (n >= 0 && !ctl_json_done(s, &r) && !s->args->quiet)
		print_result(r.result);
	status = n < 0 ? ctl_fail(s, &e, (struct json_span){ 0 }) : n > 0;
	free(required);
	rpcclient_reply_fini(&r);
	return status;
}
