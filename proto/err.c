/* SPDX-License-Identifier: MIT
 *
 * Fills error values and knows the table of errors. Every text passes through text_clean on its way in, so
 * that whatever a client, a module or a file name put into a message can't break a log line, a terminal or a
 * reply. */
#include "proto/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

#define RAW_BYTES 768 /* more than err.text: the cut is then made by text_clean, between two characters */

static const struct row {
	const char *text;
	int number, exit_status;
	const char *hint;
} rows[] = {
#define X(name, text, number, exit_status, hint) [ERR_##name] = { text, number, exit_status, hint },
#include "proto/errors.def"
#undef X
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) == ERR__N, "every error code has a row");

/* Codes arrive over channels too: one that doesn't exist is read as our own bug, not as an index. */
static const struct row *row_of(enum err_code code)
{
	return &rows[(unsigned)code < ERR__N ? code : ERR_INTERNAL];
}

void text_clean(char *to, uint64_t to_bytes, const char *from, uint64_t from_bytes)
{
	uint64_t put = 0;

	if (to_bytes == 0)
		return;
	for (uint64_t got = 0; got < from_bytes;) {
		const unsigned char *p = (const unsigned char *)from + got;
		size_t length = utf8_sequence(from + got, (size_t)(from_bytes - got));
		bool control = p[0] < 0x20 || p[0] == 0x7f || (length == 2 && p[0] == 0xc2 && p[1] < 0xa0);

		if (length == 0 || control) {
			if (put + 1 >= to_bytes)
				break;
			to[put++] = '?';
		} else {
			if (put + length >= to_bytes)
				break;
			memcpy(to + put, p, length);
			put += length;
		}
		got += length ? length : 1;
	}
	to[put] = '\0';
}

static void fill(struct err *e, enum err_code code, int sys_errno, const char *raw)
{
	*e = (struct err){ .code = code, .sys_errno = sys_errno, .offset = -1 };
	text_clean(e->text, sizeof(e->text), raw, strlen(raw));
}

void err_put_set(struct err *e, enum err_code code, const char *format, ...)
{
	int kept = errno;
	char raw[RAW_BYTES] = "";
	va_list args;

	if (!e)
		return;
	va_start(args, format);
	(void)vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	fill(e, code, 0, raw);
	errno = kept;
}

void err_put_sys(struct err *e, enum err_code code, const char *format, ...)
{
	int kept = errno;
	char raw[RAW_BYTES] = "";
	size_t used;
	va_list args;

	if (!e)
		return;
	va_start(args, format);
	(void)vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	used = strlen(raw);
	(void)snprintf(raw + used, sizeof(raw) - used, ": %s", strerror(kept));
	fill(e, code, kept, raw);
	errno = kept;
}

void err_put_prefix(struct err *e, const char *format, ...)
{
	int kept = errno;
	char raw[RAW_BYTES] = "";
	size_t used;
	va_list args;

	if (!e)
		return;
	va_start(args, format);
	(void)vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	used = strlen(raw);
	(void)snprintf(raw + used, sizeof(raw) - used, ": %s", e->text);
	text_clean(e->text, sizeof(e->text), raw, strlen(raw));
	errno = kept;
}

void err_put_about(struct err *e, const char *name, int64_t offset)
{
	if (!e)
		return;
	text_clean(e->name, sizeof(e->name), name, strlen(name));
	e->offset = offset;
}

const char *err_code_text(enum err_code code)
{
	return row_of(code)->text;
}

int err_code_number(enum err_code code)
{
	return row_of(code)->number;
}

int err_code_exit(enum err_code code)
{
	return row_of(code)->exit_status;
}

const char *err_code_hint(enum err_code code)
{
	return row_of(code)->hint;
}

enum err_code err_code_from_text(const char *text)
{
	for (int i = 0; i < ERR__N; i++)
		if (strcmp(rows[i].text, text) == 0)
			return (enum err_code)i;
	return ERR_INTERNAL;
}
