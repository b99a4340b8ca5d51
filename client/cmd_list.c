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
	"GROUP", "PROFILE", "LABELS", NULL };

struct listing {
	struct output_table table;
	struct buf json;
	struct json_out out;
	int64_t now_ms;
	bool quiet;
	size_t rows;
};

/* "a=x,b=y"; "-": there are none. */
static char *labels_text(struct json_span labels)
{
	struct json_span name, value;
	char *all = NULL;

	if (json_type(labels) == '{') {
		for (struct json_iter it = json_iter_begin(labels); json_iter_next(&it, &name, &value);) {
			char *n = output_text(name), *v = output_text(value), *more;

			more = output_format("%s%s%s=%s", all ? all : "", all ? "," : "", n, v);
			free(n);
			free(v);
			free(all);
			all = more;
		}
	}
	return all ? all : output_format("-");
}

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
	output_table_cell(&l->table, output_text(json_get(row, "group")));
	output_table_cell(&l->table, output_text(json_get(row, "profile")));
	output_table_cell(&l->table, labels_text(json_get(row, "labels")));
}

/* Adds a page; *ret_next: the caller's copy of where the next one begins, NULL at the end. */
static void add_page(struct listing *l, struct json_span result, char **ret_next)
{
	struct json_iter it = json_iter_begin(json_get(result, "sandboxes"));
	struct json_span key, row, next = json_get(result, "next");

	while (json_iter_next(&it, &key, &row)) {
		add_row(l, row);
		l->rows++;
	}
	*ret_next = json_type(next) == '"' ? json_string_dup(next, NULL) : NULL;
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
	} while (next && !(one_page && l.rows > 0) && !stuck);
	if (status == 0)
		print(s, &l, next);
	free(next);
	output_table_fini(&l.table);
	buf_fini(&l.json);
	return status;
}
