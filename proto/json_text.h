/* SPDX-License-Identifier: MIT
 *
 * What one JSON string says: its escapes decoded, character by character. For text that the scanner has
 * accepted; on any other it gives wrong characters, but never reads outside of it. For proto/json_*.c. */
#ifndef SANDBOXD_JSON_TEXT_H
#define SANDBOXD_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/json_scan.h"
#include "proto/utf8.h"

static inline int json_text_hex4(const char *at)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		char c = at[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value = value << 4 | ((c | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return value;
}

/* The code point of the \uXXXX or \uXXXX\uXXXX at `at` (behind the "\u"), and how many bytes it takes behind
 * the "\u". -1: bad digits, -2: half a surrogate pair. */
static inline int32_t json_text_unicode(const char *at, const char *end, size_t *ret_used)
{
	int32_t high = end - at >= 4 ? json_text_hex4(at) : -1;
	int32_t low;

	*ret_used = 4;
	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high >= 0xdc00 || end - at < 10 || at[4] != '\\' || at[5] != 'u')
		return -2;
	low = json_text_hex4(at + 6);
	if (low < 0xdc00 || low > 0xdfff)
		return -2;
	*ret_used = 10;
	return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* What is between the quotes. */
static inline struct json_span json_text_inside(struct json_span s)
{
	return s.size >= 2 ? (struct json_span){ s.at + 1, s.size - 2 } : (struct json_span){ s.at, 0 };
}

/* Decodes the character at *at, moves *at behind it; returns its bytes (1 to 4), 0 at the end. */
static inline size_t json_text_next(const char **at, const char *end, char out[4])
{
	static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
	size_t used;
	int32_t c;

	if (*at >= end)
		return 0;
	if (**at != '\\' || end - *at < 2) {
		out[0] = *(*at)++;
		return 1;
	}
	if ((*at)[1] != 'u') {
		out[0] = (*at)[1];
		for (size_t i = 0; plain[i]; i += 2)
			if (plain[i] == (*at)[1])
				out[0] = plain[i + 1];
		*at += 2;
		return 1;
	}
	c = json_text_unicode(*at + 2, end, &used);
	if (c < 0) {
		*at = end;
		return 0;
	}
	*at += 2 + used;
	return utf8_put(out, (uint32_t)c);
}

static inline bool json_text_is_plain(struct json_span inside)
{
	return inside.size == 0 || !memchr(inside.at, '\\', inside.size);
}

#endif
