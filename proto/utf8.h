/* SPDX-License-Identifier: MIT
 *
 * The one idea of what UTF-8 is: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 * Pure; runs in every process. */
#ifndef SANDBOXD_UTF8_H
#define SANDBOXD_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes (1 to 4) of the well-formed sequence at the front of p[0..n); 0: there is none. */
static inline size_t utf8_sequence(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	unsigned char low = 0x80, high = 0xbf; /* what the second byte may be */
	size_t length;

	if (n == 0)
		return 0;
	if (u[0] < 0x80)
		return 1;
	if (u[0] >= 0xc2 && u[0] <= 0xdf)
		length = 2;
	else if (u[0] >= 0xe0 && u[0] <= 0xef)
		length = 3;
	else if (u[0] >= 0xf0 && u[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (u[0] == 0xe0)
		low = 0xa0;
	else if (u[0] == 0xed)
		high = 0x9f;
	else if (u[0] == 0xf0)
		low = 0x90;
	else if (u[0] == 0xf4)
		high = 0x8f;
	if (n < length || u[1] < low || u[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

/* Is all of it well-formed? Runs of ASCII, which most texts are, go eight bytes at a time. */
static inline bool utf8_is_good(const char *p, size_t n)
{
	size_t at = 0, step;
	uint64_t eight;

	while (at < n) {
		for (; n - at >= sizeof eight; at += sizeof eight) {
			memcpy(&eight, p + at, sizeof eight);
			if ((eight & 0x8080808080808080u) != 0)
				break;
		}
		if (at == n)
			break;
		step = utf8_sequence(p + at, n - at);
		if (step == 0)
			return false;
		at += step;
	}
	return true;
}

/* ASCII without a NUL: what nearly all keys and texts are. false says nothing. */
static inline bool utf8_is_plain(const void *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	uint64_t eight;

	for (; n >= sizeof eight; p += sizeof eight, n -= sizeof eight) {
		memcpy(&eight, p, sizeof eight);
		if (((eight | (eight - 0x0101010101010101u)) & 0x8080808080808080u) != 0)
			return false;
	}
	for (; n > 0; p++, n--)
		if (*p == 0 || *p >= 0x80)
			return false;
	return true;
}

/* Writes a code point that isn't a surrogate; returns its bytes. */
static inline size_t utf8_put(char to[4], uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

#endif
