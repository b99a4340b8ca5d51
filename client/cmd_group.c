/* SPDX-License-Identifier: MIT
 *
 * group-create and its like, whose answer is what a group, or a sandbox in one, is now; group-list; tree, drawn. */
#include <inttypes.h>
#include <stdlib.h>

#include "client/ctl.h"
#include "client/output.h"

/* "web: up, one_for_one, 2 of 5 restarts used" */
static char *group_text(struct json_span g)
{
	char *id = output_text(json_get(g, "id")), *status = output_text(json_get(g, "status")), *strategy = output_text(json_get(g, "strategy"));
	char *reason = output_text(json_get(g, "status_reason")), *all;
	int64_t used = 0, allowed = 0;
	bool why = json_type(json_get(g, "status_reason")) == '"';

	(void)json_i64(json_get(json_get(g, "budget"), "used"), &used);
	(void)json_i64(json_get(json_get(g, "budget"), "allowed"), &allowed);
	all = output_format("%s: %s%s%s%s, %s, %" PRId64 " of %" PRId64 " restarts used", id, status, why ? " (" : "", why ? reason : "", why ? ")" : "",
		strategy, used, allowed);
	free(id);
	free(status);
	free(strategy);
	free(reason);
	return all;
}

static char *sandbox_text(struct json_span sb)
{
	char *id = output_text(json_get(sb, "id")), *status = output_text(json_get(sb, "status")), *all;
	char *restart = output_text(json_get(sb, "restart")), *pid = output_text(json_get(sb, "pid"));
	bool has_pid = pid[0] != '-', has_restart = json_get(sb, "restart").at != NULL;
	/* one in a group has none of its own: group-add shows info, where it is the group's */
	struct json_span budget = json_type(json_get(sb, "budget_of")) == '"' ? (struct json_span){ 0 } : json_get(sb, "budget");
	int64_t due, restarts = 0, used, allowed;
	char next[80] = "";
	bool significant = false;

	(void)json_bool(json_get(sb, "significant"), &significant);
	(void)json_i64(json_get(sb, "restart_count"), &restarts);
	if (json_i64(json_get(sb, "due_in_ms"), &due))
		(void)snprintf(next, sizeof next, ", starts in %" PRId64 " ms", due);
	else if (json_i64(json_get(budget, "used"), &used) && json_i64(json_get(budget, "allowed"), &allowed))
		(void)snprintf(next, sizeof next, ", %" PRId64 " of %" PRId64 " restarts used", used, allowed);
	all = output_format("%s: %s%s%s%s, pid %s, %" PRId64 " restarts%s", id, status, has_restart ? ", " : "", has_restart ? restart : "",
		significant ? ", significant" : "", has_pid ? pid : "-", restarts, next);
	free(id);
	free(status);
	free(restart);
	free(pid);
	return all;
}

static void draw(struct json_span members, const char *before)
{
	struct json_iter it = json_iter_begin(members), ahead;
	struct json_span key, member, unused;

	while (json_type(members) == '[' && json_iter_next(&it, &key, &member)) {
		bool is_group = json_string_is(json_get(member, "type"), "group"), is_last;
		char *text = is_group ? group_text(member) : sandbox_text(member), *deeper;

		ahead = it;
		is_last = !json_iter_next(&ahead, &key, &unused);
		(void)printf("%s%s%s\n", before, is_last ? "`-- " : "|-- ", text);
		deeper = output_format("%s%s", before, is_last ? "    " : "|   ");
		if (is_group)
			draw(json_get(member, "members"), deeper);
		free(deeper);
		free(text);
	}
}

static void draw_group(struct json_span g)
{
	char *text = group_text(g);

	(void)puts(text);
	free(text);
	draw(json_get(g, "members"), "");
}

int cmd_tree_run(struct ctl *s)
{
	struct rpcclient_reply r;
	struct json_span key, each;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		for (struct json_iter it = json_iter_begin(json_get(r.result, "groups")); json_iter_next(&it, &key, &each);)
			draw_group(each);
		for (struct json_iter it = json_iter_begin(json_get(r.result, "sandboxes")); json_iter_next(&it, &key, &each);) {
			char *text = sandbox_text(each);

			(void)puts(text);
			free(text);
		}
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_group_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet) {
		bool is_group = json_string_is(json_get(r.result, "type"), "group");
		char *text = is_group ? group_text(r.result) : sandbox_text(r.result);

		(void)puts(text);
		free(text);
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_group_info_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r))
		draw_group(r.result);
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_group_list_run(struct ctl *s)
{
	static const char *const heads[] = { "GROUP", "STATUS", "PARENT", "STRATEGY", "RESTARTS", NULL }, *const only_ids[] = { "GROUP", NULL };
	static const char *const keys[] = { "id", "status", "parent", "strategy", "restart_count" };
	struct rpcclient_reply r;
	struct output_table t;
	struct json_span key, each;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r)) {
		output_table_init(&t, s->args->quiet ? only_ids : heads);
		for (struct json_iter it = json_iter_begin(json_get(r.result, "groups")); json_iter_next(&it, &key, &each);)
			for (size_t i = 0; i < (s->args->quiet ? 1 : sizeof keys / sizeof keys[0]); i++)
				output_table_cell(&t, output_text(json_get(each, keys[i])));
		output_table_print(&t, stdout, !s->args->quiet, s->args->quiet ? -1 : 1, s->colour);
		output_table_fini(&t);
	}
	rpcclient_reply_fini(&r);
	return 0;
}

int cmd_group_destroy_run(struct ctl *s)
{
	struct rpcclient_reply r;
	int status = ctl_request(s, NULL, (struct json_span){ 0 }, &r);

	if (status != 0)
		return status;
	if (!ctl_json_done(s, &r) && !s->args->quiet)
		(void)printf("%s: destroyed\n", s->args->operands[0]);
	rpcclient_reply_fini(&r);
	return 0;
}
