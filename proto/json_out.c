/* SPDX-License-Identifier: MIT
 *
 * Writes JSON that the strict scanner accepts, whatever it is given. Errors stay in the buffer (failed). */
#include "proto/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

#define EXACT_MAX 9007199254740992ll /* 2^53: larger integers travel as strings */

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* One byte that can't stand in a string as it is. The scanner refuses \u0000, so a NUL can only be marked. */
static void put_special(struct buf *to, unsigned char c)
{
	static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";

	for (size_t i = 0; escapes[i]; i += 2) {
		if (c == (unsigned char)escapes[i]) {
			buf_add_char(to, '\\');
			buf_add_char(to, escapes[i + 1]);
			return;
		}
	}
	if (c == 0 || c >= 0x80)
		buf_add_char(to, '?');
	else
		buf_printf(to, "\\u%04x", c);
}

static void put_string(struct buf *to, const char *s, size_t n)
{
	size_t at = 0;

	buf_add_char(to, '"');
	while (at < n) {
		size_t from = at, length;

		while (at < n && is_plain((unsigned char)s[at]))
			at++;
		while (at < n && (unsigned char)s[at] >= 0x80 && (length = utf8_sequence(s + at, n - at)) > 0)
			at += length;
		if (at > from)
			buf_add(to, s + from, at - from);
		else
			put_special(to, (unsigned char)s[at++]);
	}
	buf_add_char(to, '"');
}

/* What stands in front of a value. */
static void begin(struct json_out *o, const char *key)
{
	if (key)
		json_out_key_n(o, key, strlen(key));
	else if (o->comma)
		buf_add_char(o->to, ',');
	o->comma = true;
}

void json_out_key_n(struct json_out *o, const char *key, size_t n)
{
	if (o->comma)
		buf_add_char(o->to, ',');
	put_string(o->to, key, n);
	buf_add_char(o->to, ':');
	o->comma = false;
}

void json_out_object(struct json_out *o, const char *key)
{
	begin(o, key);
	buf_add_char(o->to, '{');
	o->comma = false;
}

void json_out_object_end(struct json_out *o)
{
	buf_add_char(o->to, '}');
	o->comma = true;
}

void json_out_array(struct json_out *o, const char *key)
{
	begin(o, key);
	buf_add_char(o->to, '[');
	o->comma = false;
}

void json_out_array_end(struct json_out *o)
{
	buf_add_char(o->to, ']');
	o->comma = true;
}

void json_out_text(struct json_out *o, const char *key, const char *s)
{
	if (s)
		json_out_text_n(o, key, s, strlen(s));
	else
		json_out_null(o, key);
}

void json_out_text_n(struct json_out *o, const char *key, const char *s, size_t n)
{
	begin(o, key);
	put_string(o->to, s, n);
}

static void put_integer(struct buf *to, bool negative, uint64_t size)
{
	bool quoted = size > (uint64_t)EXACT_MAX;

	if (quoted)
		buf_add_char(to, '"');
	if (negative)
		buf_add_char(to, '-');
	buf_add_u64(to, size);
	if (quoted)
		buf_add_char(to, '"');
}

void json_out_i64(struct json_out *o, const char *key, int64_t v)
{
	begin(o, key);
	put_integer(o->to, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void json_out_u64(struct json_out *o, const char *key, uint64_t v)
{
	begin(o, key);
	put_integer(o->to, false, v);
}

/* 15 digits always survive the way there and back, so the shortest text has as many or needs 16 or 17. The
 * few bits of numbers next to zero hold fewer: there each length is tried. */
static void put_shortest(char *to, size_t room, double v)
{
	for (int precision = fabs(v) < 2.3e-308 ? 1 : 15; precision <= 17; precision++) {
		(void)snprintf(to, room, "%.*g", precision, v);
		if (strtod(to, NULL) == v)
			return;
	}
}

void json_out_f64(struct json_out *o, const char *key, double v)
{
	char text[40];

	begin(o, key);
	if (isnan(v)) {
		buf_add_text(o->to, "\"NaN\"");
	} else if (isinf(v)) {
		buf_add_text(o->to, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
	} else {
		put_shortest(text, sizeof(text), v);
		buf_add_text(o->to, text);
		/* Without a fraction it would be read as an integer, and refused as too large for one. */
		if (fabs(v) > (double)EXACT_MAX && !strpbrk(text, ".e"))
			buf_add_text(o->to, ".0");
	}
}

void json_out_bool(struct json_out *o, const char *key, bool v)
{
	begin(o, key);
	buf_add_text(o->to, v ? "true" : "false");
}

void json_out_null(struct json_out *o, const char *key)
{
	begin(o, key);
	buf_add_text(o->to, "null");
}

static void replace_by_space(char *text, size_t n, char c)
{
	for (char *at = text, *end = text + n; (at = memchr(at, c, (size_t)(end - at))); )
		*at++ = ' ';
}

/* Between tokens a newline is only space, and inside of strings checked JSON has none: so each becomes a
 * space. */
void json_out_raw(struct json_out *o, const char *key, const char *json, size_t n)
{
	char *copy;

	begin(o, key);
	copy = buf_extend(o->to, n);
	if (!copy || n == 0)
		return;
	memcpy(copy, json, n);
	replace_by_space(copy, n, '\n');
	replace_by_space(copy, n, '\r');
}
