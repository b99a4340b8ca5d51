/* SPDX-License-Identifier: MIT
 *
 * docs/SECURITY.md says what the tables say: operations by profile, calls by operation, protections with their kernels.
 * SANDBOXD_WRITE_DOCS=1 writes the three tables anew. Runs in the top folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/spawner/calls.h"
#include "proto/buf.h"
#include "proto/profile.h"
#include "tests/support/check_main.h"

#define PAGE "docs/SECURITY.md"

static const char operations_head[] = "| operation | high | medium | low | a refused use gets | what it is |\n|---|---|---|---|---|---|\n";
static const char protections_head[] = "| protection | by | from | without it |\n|---|---|---|---|\n";
static const char calls_head[] = "| operation | system calls |\n|---|---|\n";

static char page[1 << 18];

static void page_read(void)
{
	FILE *f = fopen(PAGE, "r");
	size_t n;

	ck_assert_msg(f, PAGE " is missing (tests run in the top folder)");
	n = fread(page, 1, sizeof page - 1, f);
	(void)fclose(f);
	ck_assert_uint_lt(n, sizeof page - 1);
	page[n] = '\0';
}

/* From behind the head of a table to the blank line that ends it. */
static char *table_find(const char *head, size_t *ret_size)
{
	char *at = strstr(page, head), *end;

	ck_assert_msg(at, PAGE " has no table that begins with '%s'", head);
	at += strlen(head);
	end = *at == '\n' ? at - 1 : strstr(at, "\n\n");
	*ret_size = end ? (size_t)(end + 1 - at) : strlen(at);
	return at;
}

static void table_same(const char *head, const struct buf *wanted)
{
	size_t size;
	char *at = table_find(head, &size);
	const char *text = wanted->data;

	if (getenv("SANDBOXD_WRITE_DOCS")) {
		FILE *f = fopen(PAGE, "w");

		ck_assert_ptr_nonnull(f);
		(void)fprintf(f, "%.*s%.*s%s", (int)(at - page), page, (int)wanted->size, text, at + size);
		ck_assert_int_eq(fclose(f), 0);
		page_read();
		at = table_find(head, &size);
	}
	for (size_t i = 0; i < size && i < wanted->size; i++)
		ck_assert_msg(at[i] == text[i], PAGE " differs from the table (SANDBOXD_WRITE_DOCS=1 writes it anew) at: %.60s", at + i);
	ck_assert_uint_eq(size, wanted->size);
}

START_TEST(operations)
{
	struct buf b = BUF_INIT;

	page_read();
	for (int op = 0; op < OPERATION__N; op++) {
		int refusal = operation_refusal((enum operation)op);
		uint64_t anywhere = 0;

		buf_printf(&b, "| `%s` |", operation_name((enum operation)op));
		for (int p = 0; p < PROFILE__N; p++) {
			bool allowed = profile_builtin((enum profile)p)->operations & OPERATION_BIT(op);

			anywhere |= allowed;
			buf_printf(&b, " %s |", allowed ? "yes" : "");
		}
		if (op == OPERATION_BASE)
			buf_add_text(&b, " |");
		else
			buf_printf(&b, " %s |", refusal ? strerrorname_np(refusal) : "**forbidden**");
		buf_printf(&b, " %s%s |\n", operation_help((enum operation)op), anywhere ? "" : ". No profile may allow it");
	}
	ck_assert(!b.failed);
	table_same(operations_head, &b);
	buf_fini(&b);
}
END_TEST

/* Each call once per operation; with a star where only some arguments are that operation. */
static void write_calls(struct buf *b, enum operation op)
{
	const char *before = "";

	buf_printf(b, "| `%s` | ", operation_name(op));
	for (size_t i = 0; i < call_rows_n; i++) {
		const struct call_row *row = &call_rows[i];
		size_t first = i;

		if (!(row->operations & OPERATION_BIT(op)) || strcmp(before, row->name) == 0)
			continue;
		while (first > 0 && strcmp(call_rows[first - 1].name, row->name) == 0)
			first--;
		buf_printf(b, "%s%s%s", *before ? " " : "", row->name, call_rows[first].n_conditions ? "\\*" : "");
		before = row->name;
	}
	buf_add_text(b, " |\n");
}

START_TEST(calls)
{
	struct buf b = BUF_INIT;

	page_read();
	for (int op = 0; op < OPERATION__N; op++)
		write_calls(&b, (enum operation)op);
	ck_assert(!b.failed);
	table_same(calls_head, &b);
	buf_fini(&b);
}
END_TEST

static const struct {
	const char *name, *by, *from, *without;
} protection_rows[] = {
#define X(name, text, by, from, without) { text, by, from, without },
#include "proto/protection.def"
#undef X
};

START_TEST(protections)
{
	struct buf b = BUF_INIT;

	page_read();
	for (size_t i = 0; i < sizeof protection_rows / sizeof *protection_rows; i++)
		buf_printf(&b, "| %s | %s | %s | %s |\n", protection_rows[i].name, protection_rows[i].by, protection_rows[i].from,
			protection_rows[i].without);
	ck_assert(!b.failed);
	table_same(protections_head, &b);
	buf_fini(&b);
}
END_TEST

CHECK_MAIN("security page", tcase_add_test(tc, operations); tcase_add_test(tc, calls); tcase_add_test(tc, protections));
