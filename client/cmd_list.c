/* SPDX-License-Identifier: MIT
 *
 * list: follows the pages, unless the user asks for one. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/output.h"
#include "proto/clock.h"
#include "proto/json_out.h"

enum { COLUMN_STATUS = 1 };

static const char *const heads[] = { "ID", "STATUS", "MODULE", "VERSION", "PID", "RESTARTS", "OWNER", "AGE",
	NULL };

struct listing {
	struct output_table table;
	struct buf json;
	struct json_out out;
	int64_t now_ms;
	bool quiet;
};

static void add_row(struct listing *l, struct json_span row)
{
	static const char *const keys[] = { "id", "status", "module", "version", "pid", "restart_count",
		"owner" };

	json_out_raw(&l->out, NULL, row.at, row.size);
	if (l->quiet) {
		output_table_cell(&l->table, output_text(json_get(row, "id")));
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		output_table_cell(&l->table, output_text(json_get(row, keys[i])));
	output_table_cell(&l->table, output_ago(json_get(row, "created_at"), l->now_ms));
}

/* Adds a page; *ret_next: the caller's copy of where the next one begins, NULL at the end. */
static void add_page(struct listing *l, struct json_span result, char **ret_next)
{
	struct json_iter it = json_iter_begin(json_get(result, "sandboxes"));
	struct json_span key, row, next = json_get(result, "next");
	size_t n = 0;

	for (; json_iter_next(&it, &key, &row); n++)
		add_row(l, row);
	*ret_next = n > 0 && json_type(next) == '"' ? json_string_dup(next, NULL) : NULL;
}

static void print(struct ctl *s, struct listing *l, const char *next)
{
	json_out_array_end(&l->out);
	if (next)
		json_out_text(&l->out, "next", next);
	json_out_object_end(&l->out);
	if (s->args->json)
		output_json(stdout, (struct json_span){ buf_text(&l->json), l->json.size });
	else
		output_table_print(
			&l->table, stdout, !s->args->quiet, s->args->quiet ? -1 : COLUMN_STATUS, s->colour);
	if (next && !s->args->json && !s->args->quiet) {
		char *clean = output_clean(next, strlen(next), false);

		(void)fprintf(stderr, "there are more: --after %s\n", clean);
		free(clean);
	}
}

int cmd_list_run(struct ctl *s)
{
	static const char *const only_ids[] = { "ID", NULL };
	bool one_page = args_param(s->args, "limit") != NULL, stuck;
	struct listing l = { .now_ms = clock_wall_ms(), .quiet = s->args->quiet };
	char *next = NULL;
	int status;

	output_table_init(&l.table, l.quiet ? only_ids : heads);
	l.out = json_out_to(&l.json);
	json_out_object(&l.out, NULL);
	json_out_array(&l.out, "sandboxes");
	do {
		struct buf after = BUF_INIT;
		struct json_out o = json_out_to(&after);
		struct rpcclient_reply r;
		char *from = next;

		if (next)
			json_out_text(&o, NULL, next);
		status = ctl_request(
			s, next ? "after" : NULL, (struct json_span){ after.data, after.size }, &r);
		buf_fini(&after);
		next = NULL;
		if (status == 0)
			add_page(&l, r.result, &next);
		rpcclient_reply_fini(&r);
		stuck = from && next && strcmp(from, next) == 0;
		free(from);
	} while (next && !one_page && !stuck);
	if (status == 0)
		print(s, &l, next);
	free(next);
	output_table_fini(&l.table);
	buf_fini(&l.json);
	return status;
}
