/* SPDX-License-Identifier: MIT
 *
 * Cleaning, times, lines and tables. Writes only to the streams that it is given. */
#include "client/output.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *need(void *memory)
{
	if (!memory) {
		(void)fputs("sandboxctl: out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

/* ---- texts ---- */

char *output_clean(const char *text, size_t size, bool keep_lines)
{
	char *copy = need(malloc(size + 1)), *to = copy;

	while (size > 0) {
		size_t n = 0;

		while (n < size && !(keep_lines && (text[n] == '\n' || text[n] == '\t')))
			n++;
		text_clean(to, n + 1, text, n); /* never longer than what it cleans */
		to += strlen(to);
		text += n;
		size -= n;
		if (size > 0) {
			*to++ = *text++;
			size--;
		}
	}
	*to = '\0';
	return copy;
}

char *output_format(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	return need(n < 0 ? NULL : text);
}

char *output_text(struct json_span v)
{
	char type = json_type(v), *raw, *clean;
	size_t size;

	if (type == 0 || type == '0')
		return need(strdup("-"));
	if (type != '"')
		return output_clean(v.at, v.size, false);
	raw = need(json_string_dup(v, &size));
	clean = output_clean(raw, size, false);
	free(raw);
	return clean;
}

char *output_time(struct json_span ms)
{
	int64_t value;
	time_t seconds;
	struct tm local;
	char text[64];

	if (!json_i64(ms, &value) || value < 0)
		return need(strdup("-"));
	seconds = (time_t)(value / 1000);
	if (!localtime_r(&seconds, &local) || strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local) == 0)
		return need(strdup("-"));
	return output_format("%s.%03d", text, (int)(value % 1000));
}

char *output_ago(struct json_span ms, int64_t now_ms)
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	int64_t value, seconds;

	if (!json_i64(ms, &value) || value < 0)
		return need(strdup("-"));
	seconds = now_ms > value ? (now_ms - value) / 1000 : 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (seconds >= 2 * units[i].seconds || units[i].seconds == 1)
			return output_format("%" PRId64 "%c", seconds / units[i].seconds, units[i].unit);
	return need(strdup("-"));
}

char *output_bytes(int64_t bytes)
{
	static const char *const units[] = { "TiB", "GiB", "MiB", "KiB" };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		int64_t unit = (int64_t)1 << (40 - 10 * i);

		if (bytes >= unit && bytes % unit == 0)
			return output_format("%" PRId64 " %s", bytes / unit, units[i]);
	}
	return output_format("%" PRId64 " bytes", bytes);
}

/* ---- lines ---- */

/* Checked JSON has no raw control character below 0x20 within strings; between tokens it may have white
 * space. */
void output_json(FILE *to, struct json_span v)
{
	for (size_t i = 0; i < v.size; i++) {
		unsigned char c = (unsigned char)v.at[i];

		if (c == 0x7f) {
			(void)fputs("\\u007f", to);
		} else if (c == 0xc2 && i + 1 < v.size && (unsigned char)v.at[i + 1] < 0xa0) {
			(void)fprintf(to, "\\u%04x", (unsigned char)v.at[++i]);
		} else {
			(void)putc(c < 0x20 ? ' ' : c, to);
		}
	}
	(void)putc('\n', to);
}

static void print_text_lines(FILE *to, struct json_span text)
{
	size_t size;
	char *raw = json_string_dup(text, &size), *clean;

	if (!raw)
		return;
	clean = output_clean(raw, size, true);
	free(raw);
	size = strlen(clean);
	if (size > 0) {
		(void)fputs(clean, to);
		if (clean[size - 1] != '\n')
			(void)putc('\n', to);
	}
	free(clean);
}

void output_lines(FILE *to, struct json_span text)
{
	struct json_iter it = json_iter_begin(text);
	struct json_span key, each;

	if (json_type(text) != '[')
		print_text_lines(to, text);
	while (json_type(text) == '[' && json_iter_next(&it, &key, &each))
		print_text_lines(to, each);
}

void output_pair(FILE *to, const char *label, char *value_take)
{
	if (strcmp(value_take, "-") != 0 && *value_take)
		(void)fprintf(to, "%-16s %s\n", label, value_take);
	free(value_take);
}

bool output_colours(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* ---- tables ---- */

void output_table_init(struct output_table *t, const char *const *heads)
{
	*t = (struct output_table){ 0 };
	while (heads[t->n_columns]) {
		assert(t->n_columns < OUTPUT_COLUMNS);
		t->heads[t->n_columns] = heads[t->n_columns];
		t->n_columns++;
	}
}

void output_table_cell(struct output_table *t, char *text_take)
{
	if (t->n_cells == t->room) {
		t->room = t->room ? t->room * 2 : 64;
		t->cells = need(reallocarray(t->cells, t->room, sizeof(*t->cells)));
	}
	t->cells[t->n_cells++] = text_take;
}

void output_table_fini(struct output_table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct output_table){ 0 };
}

/* Characters, for cleaned text. */
static size_t width(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static const char *status_colour(const char *status)
{
	static const struct {
		const char *status, *colour;
	} colours[] = {
		{ "running", "\033[32m" },
		{ "failed", "\033[31m" },
		{ "backoff", "\033[33m" },
		{ "stopped", "\033[2m" },
		{ "current", "\033[32m" },
		{ "quarantined", "\033[31m" },
	};

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		if (strcmp(colours[i].status, status) == 0)
			return colours[i].colour;
	return NULL;
}

static void print_row(
	const struct output_table *t, FILE *to, const char *const *row, const size_t *widths, int coloured)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		const char *colour = (int)i == coloured ? status_colour(row[i]) : NULL;

		(void)fprintf(to, "%s%s%s", colour ? colour : "", row[i], colour ? "\033[0m" : "");
		if (i + 1 < t->n_columns)
			(void)fprintf(to, "%*s", (int)(widths[i] - width(row[i]) + 2), "");
	}
	(void)putc('\n', to);
}

void output_table_print(struct output_table *t, FILE *to, bool headings, int status_column, bool colour)
{
	size_t widths[OUTPUT_COLUMNS];
	const char *row[OUTPUT_COLUMNS];

	assert(t->n_cells % t->n_columns == 0);
	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = headings ? width(t->heads[i]) : 0;
	for (size_t i = 0; i < t->n_cells; i++)
		if (width(t->cells[i]) > widths[i % t->n_columns])
			widths[i % t->n_columns] = width(t->cells[i]);
	if (headings)
		print_row(t, to, t->heads, widths, -1);
	for (size_t i = 0; i < t->n_cells; i += t->n_columns) {
		for (size_t j = 0; j < t->n_columns; j++)
			row[j] = t->cells[i + j];
		print_row(t, to, row, widths, colour ? status_column : -1);
	}
}
