/* SPDX-License-Identifier: MIT
 *
 * What names may look like, and the two text forms of bytes. Locale-free on purpose: isalnum() and friends
 * ask it. */
#include "proto/names.h"

#include <string.h>

#include "proto/limits.h"

#define NEAREST_BYTES 63 /* longer texts aren't misspelt names */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool name_is_id(const char *text, size_t size)
{
	if (size < 1 || size > LIMIT_ID_BYTES || !(is_letter(text[0]) || is_digit(text[0])))
		return false;
	for (size_t i = 1; i < size; i++) {
		char c = text[i];

		if (!is_letter(c) && !is_digit(c) && c != '.' && c != '_' && c != '-')
			return false;
	}
	return true;
}

bool name_is_function(const char *text, size_t size)
{
	if (size < 1 || size > LIMIT_FUNCTION_BYTES || is_digit(text[0]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_letter(text[i]) && !is_digit(text[i]) && text[i] != '_')
			return false;
	return true;
}

bool name_is_source_file(const char *text, size_t size)
{
	return size > 2 && name_is_id(text, size) && text[size - 2] == '.' && text[size - 1] == 'c';
}

/* Behind the set that begins at `set`, its '['; NULL: it isn't closed, or is empty. */
static const char *set_end(const char *set)
{
	const char *at = set + 1 + (set[1] == '!');

	if (*at == ']')
		return NULL;
	at = strchr(at, ']');
	return at ? at + 1 : NULL;
}

static bool set_has(const char *set, const char *end, char c)
{
	bool negated = set[1] == '!', found = false;

	for (const char *at = set + 1 + negated; at < end - 1; at++) {
		if (at + 2 < end - 1 && at[1] == '-') {
			found = found || (c >= at[0] && c <= at[2]);
			at += 2;
		} else {
			found = found || c == *at;
		}
	}
	return found != negated;
}

bool name_is_pattern(const char *text)
{
	if (!*text)
		return false;
	for (const char *at = text; *at; at++) {
		const char *end = *at == '[' ? set_end(at) : NULL;

		if (end) {
			for (at += 1 + (at[1] == '!'); at < end - 1; at++)
				if (!is_letter(*at) && !is_digit(*at) && !strchr("._-", *at))
					return false;
		} else if (!is_letter(*at) && !is_digit(*at) && !strchr("._-*?", *at)) {
			return false;
		}
	}
	return true;
}

bool name_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *again = NULL; /* behind the last *, and where the name goes on if it takes one character more */

	while (*name) {
		const char *end = *pattern == '[' ? set_end(pattern) : pattern + 1;

		if (*pattern == '*') {
			star = ++pattern;
			again = name;
		} else if (*pattern && (*pattern == '[' ? set_has(pattern, end, *name) : *pattern == '?' || *pattern == *name)) {
			pattern = end;
			name++;
		} else if (star) {
			pattern = star;
			name = ++again;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

bool name_is_sha256(const char *text, size_t size)
{
	if (size != SHA256_HEX_BYTES)
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_digit(text[i]) && !(text[i] >= 'a' && text[i] <= 'f'))
			return false;
	return true;
}

/* Levenshtein's distance, one row at a time. Both at most NEAREST_BYTES long. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t row[NEAREST_BYTES + 1];

	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[nb];
}

int name_nearest(const char *text, const char *const *candidates, size_t n)
{
	size_t length = strnlen(text, NEAREST_BYTES + 1);
	size_t best = 2 + length / 4; /* one more than is near enough */
	int found = -1;

	if (length > NEAREST_BYTES)
		return -1;
	for (size_t i = 0; i < n; i++) {
		size_t other = strnlen(candidates[i], NEAREST_BYTES + 1);
		size_t longer = other > length ? other : length;
		size_t d;

		if (other > NEAREST_BYTES)
			continue;
		d = distance(text, length, candidates[i], other);
		/* d == longer: not one letter in common; only of two empty texts is that near */
		if (d < best && (d < longer || d == 0)) {
			best = d;
			found = (int)i;
		}
	}
	return found;
}

void hex_encode(char *to, const uint8_t *from, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		to[2 * i] = digits[from[i] >> 4];
		to[2 * i + 1] = digits[from[i] & 15];
	}
	to[2 * n] = '\0';
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool hex_decode(uint8_t *to, const char *from, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++) {
		int high = hex_value(from[2 * i]);
		int low = high < 0 ? -1 : hex_value(from[2 * i + 1]); /* behind a NUL is nothing to read */

		if (low < 0)
			return false;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct buf *to, const void *from, size_t n)
{
	const uint8_t *p = from;
	char *out = n / 3 < SIZE_MAX / 4 - 1 ? buf_extend(to, (n + 2) / 3 * 4) : NULL;

	if (!out) {
		to->failed = true;
		return;
	}
	for (; n > 0; out += 4) {
		uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)(n > 1 ? p[1] : 0) << 8 | (n > 2 ? p[2] : 0);

		out[0] = base64_digits[bits >> 18];
		out[1] = base64_digits[bits >> 12 & 63];
		out[2] = n > 1 ? base64_digits[bits >> 6 & 63] : '=';
		out[3] = n > 2 ? base64_digits[bits & 63] : '=';
		if (n <= 3)
			break;
		p += 3;
		n -= 3;
	}
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (is_digit(c))
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

int64_t base64_decode(uint8_t *to, const char *from, size_t n)
{
	uint8_t *out = to;
	size_t padding = 0;

	if (n % 4 != 0)
		return -1;
	if (n > 0 && from[n - 1] == '=')
		padding = from[n - 2] == '=' ? 2 : 1;
	for (size_t i = 0; i < n; i += 4) {
		size_t used = i + 4 == n ? 4 - padding : 4;
		uint32_t bits = 0;

		for (size_t j = 0; j < 4; j++) {
			int v = j < used ? base64_value(from[i + j]) : 0;

			if (v < 0)
				return -1;
			bits = bits << 6 | (uint32_t)v;
		}
		/* Bits that no byte uses are zero, or two texts would mean the same bytes. */
		if ((used == 3 && (bits & 0xff)) || (used == 2 && (bits & 0xffff)))
			return -1;
		*out++ = (uint8_t)(bits >> 16);
		if (used > 2)
			*out++ = (uint8_t)(bits >> 8);
		if (used > 3)
			*out++ = (uint8_t)bits;
	}
	return out - to;
}
