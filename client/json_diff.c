/* SPDX-License-Identifier: MIT
 *
 * Recursive: the scanner has bounded the depth. */
#include "client/json_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 512 /* a longer one is cut */

struct walk {
	json_diff_fn *tell;
	void *ctx;
	size_t n;
	char path[PATH_BYTES];
};

static void differ(struct walk *w, struct json_span left, struct json_span right)
{
	w->n++;
	w->tell(w->ctx, w->path, left, right);
}

static bool same_scalar(struct json_span left, struct json_span right)
{
	char *a, *b;
	bool same;

	if (left.size == right.size && memcmp(left.at, right.at, left.size) == 0)
		return true;
	if (json_type(left) != '"' || json_type(right) != '"')
		return false;
	a = json_string_dup(left, NULL); /* one may be written with escapes */
	b = json_string_dup(right, NULL);
	same = a && b && strcmp(a, b) == 0;
	free(a);
	free(b);
	return same;
}

static void compare(struct walk *w, struct json_span left, struct json_span right);

/* One part deeper, and back. */
static void part(struct walk *w, const char *format_with, const char *name, size_t index, struct json_span left, struct json_span right)
{
	size_t size = strlen(w->path);

	if (name)
		(void)snprintf(w->path + size, sizeof w->path - size, "%s%s", format_with, name);
	else
		(void)snprintf(w->path + size, sizeof w->path - size, "[%zu]", index);
	if (left.at && right.at)
		compare(w, left, right);
	else
		differ(w, left, right);
	w->path[size] = '\0';
}

static void compare_objects(struct walk *w, struct json_span left, struct json_span right)
{
	const char *dot = w->path[0] ? "." : "";
	struct json_span key, value, other = { 0 };
	struct json_iter it;

	for (it = json_iter_begin(left); json_iter_next(&it, &key, &value);) {
		char *name = json_string_dup(key, NULL);

		if (name)
			part(w, dot, name, 0, value, json_get(right, name));
		free(name);
	}
	for (it = json_iter_begin(right); json_iter_next(&it, &key, &value);) {
		char *name = json_string_dup(key, NULL);

		if (name && !json_get(left, name).at)
			part(w, dot, name, 0, other, value);
		free(name);
	}
}

static void compare_arrays(struct walk *w, struct json_span left, struct json_span right)
{
	struct json_iter a = json_iter_begin(left), b = json_iter_begin(right);
	struct json_span key;

	for (size_t i = 0;; i++) {
		struct json_span x = { 0 }, y = { 0 };
		bool has_x = json_iter_next(&a, &key, &x), has_y = json_iter_next(&b, &key, &y);

		if (!has_x && !has_y)
			return;
		part(w, "", NULL, i, has_x ? x : (struct json_span){ 0 }, has_y ? y : (struct json_span){ 0 });
	}
}

static void compare(struct walk *w, struct json_span left, struct json_span right)
{
	char type = json_type(left);

	if (type == '{' && json_type(right) == '{')
		compare_objects(w, left, right);
	else if (type == '[' && json_type(right) == '[')
		compare_arrays(w, left, right);
	else if (!same_scalar(left, right))
		differ(w, left, right);
}

size_t json_diff(struct json_span left, struct json_span right, json_diff_fn *tell, void *ctx)
{
	struct walk w = { .tell = tell, .ctx = ctx };

	compare(&w, left, right);
	return w.n;
}
