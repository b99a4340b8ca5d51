/* SPDX-License-Identifier: MIT */
#include "proto/config_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proto/names.h"
#include "proto/utf8.h"

#define NAME_BYTES 32 /* longer words aren't keys */

struct word word_trim(struct word w)
{
	while (w.size > 0 && strchr(" \t\r", w.at[0])) {
		w.at++;
		w.size--;
	}
	while (w.size > 0 && strchr(" \t\r", w.at[w.size - 1]))
		w.size--;
	return w;
}

bool word_is(struct word w, const char *text)
{
	return strlen(text) == w.size && memcmp(text, w.at, w.size) == 0;
}

bool word_number(struct word w, unsigned base, uint64_t *ret)
{
	uint64_t value = 0;

	if (w.size == 0)
		return false;
	for (size_t i = 0; i < w.size; i++) {
		unsigned digit = (unsigned)(unsigned char)w.at[i] - '0';

		if (digit >= base || value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	*ret = value;
	return true;
}

bool word_is_text(struct word w)
{
	for (size_t i = 0; i < w.size;) {
		size_t n = utf8_sequence(w.at + i, w.size - i);

		if (n == 0 || ((unsigned char)w.at[i] < 0x20 && w.at[i] != '\t' && w.at[i] != '\r') ||
			w.at[i] == 0x7f)
			return false;
		i += n;
	}
	return true;
}

bool path_is_within(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int find_key(struct word w, const char *const *keys, size_t n_keys, struct err *e)
{
	char name[NAME_BYTES + 1];
	int near;

	text_clean(name, sizeof(name), w.at, w.size);
	if (w.size == 0)
		return err_set(e, ERR_BAD_PARAM, "no key in front of '='");
	for (size_t i = 0; i < n_keys; i++)
		if (word_is(w, keys[i]))
			return (int)i;
	err_set(e, ERR_UNKNOWN_PARAM, "unknown key '%s'", name);
	near = name_nearest(name, keys, n_keys);
	if (near >= 0 && e) {
		err_set(e, ERR_UNKNOWN_PARAM, "unknown key '%s'; is '%s' meant?", name, keys[near]);
		(void)snprintf(e->nearest, sizeof(e->nearest), "%s", keys[near]);
	}
	return -1;
}

/* '#' begins a comment in front of a line or behind a space: paths may have one inside. */
static struct word without_comment(struct word w)
{
	for (size_t i = 0; i < w.size; i++)
		if (w.at[i] == '#' && (i == 0 || w.at[i - 1] == ' ' || w.at[i - 1] == '\t'))
			w.size = i;
	return word_trim(w);
}

struct reader {
	const char *const *keys;
	size_t n_keys;
	config_set_fn *set;
	void *ctx;
	bool seen[CONFIG_TEXT_KEYS];
};

/* ret_name: the key, as soon as it is known, for the message. */
static int read_line(struct reader *r, int64_t n, struct word line, char ret_name[NAME_BYTES + 1], struct err *e)
{
	const char *equals;
	struct word key, value;
	int i;

	if (!word_is_text(line))
		return err_set(e, ERR_BAD_UTF8, "control characters, or bytes that aren't UTF-8");
	line = without_comment(line);
	if (line.size == 0)
		return 0;
	equals = memchr(line.at, '=', line.size);
	if (!equals)
		return err_set(e, ERR_BAD_PARAM, "not of the form 'key = value'");
	key = word_trim((struct word){ line.at, (size_t)(equals - line.at) });
	value = word_trim((struct word){ equals + 1, line.size - (size_t)(equals + 1 - line.at) });
	text_clean(ret_name, NAME_BYTES + 1, key.at, key.size);
	i = find_key(key, r->keys, r->n_keys, e);
	if (i == -1)
		return -1;
	if (r->seen[i])
		return err_set(e, ERR_DUPLICATE_KEY, "'%s' is given twice", r->keys[i]);
	r->seen[i] = true;
	if (value.size == 0) {
		err_set(e, ERR_BAD_PARAM, "has no value");
		return err_prefix(e, "%s", r->keys[i]);
	}
	return r->set(r->ctx, (size_t)i, n, value, e) == -1 ? err_prefix(e, "%s", r->keys[i]) : 0;
}

int config_text_read(const char *text, size_t size, size_t most, const char *file, const char *const *keys, size_t n_keys,
	config_set_fn *set, void *ctx, struct err *e)
{
	struct reader r = { .keys = keys, .n_keys = n_keys, .set = set, .ctx = ctx };
	int64_t n = 1;

	assert(n_keys <= CONFIG_TEXT_KEYS);
	if (size > most)
		return err_set(e, ERR_LIMIT_EXCEEDED, "%s: %zu bytes, at most %zu are read", file, size, most);
	for (const char *at = text, *end = text + size; at < end; n++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct word line = { at, (size_t)((newline ? newline : end) - at) };
		char name[NAME_BYTES + 1] = "";

		if (read_line(&r, n, line, name, e) == -1) {
			err_prefix(e, "%s:%lld", file, (long long)n);
			return err_about(e, name, n);
		}
		at = newline ? newline + 1 : end;
	}
	return 0;
}
