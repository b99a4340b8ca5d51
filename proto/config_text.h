/* SPDX-License-Identifier: MIT
 *
 * The form of the administrator's files: `key = value` lines, '#' comments, UTF-8, each key once. What the values mean is the
 * reader's business (config.c, profile_file.c). Pure; runs in every process. */
#ifndef SANDBOXD_CONFIG_TEXT_H
#define SANDBOXD_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

#define CONFIG_TEXT_KEYS 64 /* more than any file has */

/* A piece of a text, not terminated. */
struct word {
	const char *at;
	size_t size;
};

struct word word_trim(struct word w);
bool word_is(struct word w, const char *text);
bool word_number(struct word w, unsigned base, uint64_t *ret); /* digits and nothing else */
bool word_is_text(struct word w);                              /* UTF-8, of control characters only \t and \r */

bool path_is_within(const char *path, const char *folder); /* is it this folder, or in it? Of plain absolute paths */

/* What a line gives: its key by its number, its value, which isn't empty. */
typedef int config_set_fn(void *ctx, size_t key, int64_t line, struct word value, struct err *e);

/* Every line in its order. -1 with err on the first bad one: FILE:LINE in front, name = key, offset = line. What was set before it stays
 * set: callers work on a copy. file is only for messages. */
int config_text_read(const char *text, size_t size, size_t most, const char *file, const char *const *keys, size_t n_keys,
	config_set_fn *set, void *ctx, struct err *e);

#endif
