/* SPDX-License-Identifier: MIT
 *
 * What sandboxctl prints. Everything from the daemon goes through here and is cleaned: no byte of a module's, a user's or a
 * file's text reaches the terminal as a control character. Without memory these end the program with status 1. */
#ifndef SANDBOXD_OUTPUT_H
#define SANDBOXD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/err.h"
#include "proto/json_scan.h"

/* ---- texts; the caller frees ---- */

/* Control characters and bytes that aren't UTF-8 become '?'; newlines and tabs too, unless kept. */
char *output_clean(const char *text, size_t size, bool keep_lines);
char *output_text(struct json_span v);                /* a string's text, any other value's JSON, "-" where absent or null */
char *output_time(struct json_span ms);               /* ms since 1970 as local time; "-" */
char *output_ago(struct json_span ms, int64_t now_ms);/* "41s", "5m", "3h", "2d" before now; "-" */
char *output_bytes(int64_t bytes);                    /* "64 MiB" where it is whole, else bytes */

char *output_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- lines ---- */

/* One line of JSON that has been checked; what a terminal would obey is written as an escape that means the same. */
void output_json(FILE *to, struct json_span v);
/* A text of several lines, or an array of such, as it is, cleaned, with a newline at the end; nothing where it is absent. */
void output_lines(FILE *to, struct json_span text);
/* "label  value", where the value is there; takes and frees it. "-" isn't printed. */
void output_pair(FILE *to, const char *label, char *value_take);

bool output_colours(int fd); /* a terminal that can, and no NO_COLOR */

/* ---- tables ---- */

#define OUTPUT_COLUMNS 12

struct output_table {
	const char *heads[OUTPUT_COLUMNS]; /* NULL behind the last */
	char **cells;
	size_t n_columns, n_cells, room;
};

void output_table_init(struct output_table *t, const char *const *heads); /* ends with NULL */
void output_table_cell(struct output_table *t, char *text_take);          /* row by row; takes and frees the text */
/* Columns aligned by characters; status_column (-1: none) in colour where `colour`. headings: print them. */
void output_table_print(struct output_table *t, FILE *to, bool headings, int status_column, bool colour);
void output_table_fini(struct output_table *t);

#endif
