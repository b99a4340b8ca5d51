/* SPDX-License-Identifier: MIT
 *
 * Reading values for a module: a value of another type fails the callback and yields 0 or "". Texts are NUL-terminated copies
 * in the instance's own memory, so they count, and go when the callback ends. */
#include <string.h>

#include "daemon/host/module/context.h"

static const char *type_text(enum sbx_type type)
{
	switch (type) {
	case SBX_ABSENT:
		return "nothing";
	case SBX_NULL:
		return "null";
	case SBX_INT:
		return "an integer";
	case SBX_FLOAT:
		return "a float";
	case SBX_TRUTH:
		return "true or false";
	case SBX_TEXT:
		return "a text";
	case SBX_BLOB:
		return "bytes";
	case SBX_LIST:
		return "a list";
	case SBX_DICT:
		return "a dict";
	}
	return "something else";
}

static void bad_value(struct sbx *x, struct sbx_val v, const char *what, const char *wanted)
{
	context_fail((struct context *)x, "bad_value", "%.80s: there is %s where %s is read", what != NULL ? what : "a value",
		type_text(val_type(v)), wanted);
}

int64_t service_as_i64(struct sbx *x, struct sbx_val v, const char *what)
{
	int64_t i = 0;

	if (val_i64(v, &i) != 0)
		bad_value(x, v, what, "an i64");
	return i;
}

uint64_t service_as_u64(struct sbx *x, struct sbx_val v, const char *what)
{
	uint64_t u = 0;

	if (val_u64(v, &u) != 0)
		bad_value(x, v, what, "a u64");
	return u;
}

double service_as_f64(struct sbx *x, struct sbx_val v, const char *what)
{
	double f = 0;

	if (val_f64(v, &f) != 0)
		bad_value(x, v, what, "a number");
	return f;
}

bool service_as_bool(struct sbx *x, struct sbx_val v, const char *what)
{
	bool b = false;

	if (val_bool(v, &b) != 0)
		bad_value(x, v, what, "true or false");
	return b;
}

static const char *copy(struct sbx *x, const uint8_t *p, uint64_t n)
{
	struct context *c = (struct context *)x;
	struct scratch *s = service_alloc(x, sizeof *s + n + 1);

	s->next = c->scratch;
	c->scratch = s;
	if (n > 0)
		memcpy(s + 1, p, (size_t)n);
	return (const char *)(s + 1);
}

const char *service_as_text(struct sbx *x, struct sbx_val v, const char *what, uint64_t *n)
{
	const uint8_t *p = NULL;
	uint64_t size = 0;

	/* A state's text that isn't UTF-8 was saved as bytes: still a text, unless a NUL is in it. */
	if (val_content(v, &p, &size) != 0 || (size > 0 && memchr(p, '\0', (size_t)size) != NULL)) {
		bad_value(x, v, what, "a text");
		size = 0;
	}
	if (n != NULL)
		*n = size;
	return size > 0 ? copy(x, p, size) : "";
}

const void *service_as_blob(struct sbx *x, struct sbx_val v, const char *what, uint64_t *n)
{
	const uint8_t *p = NULL;
	uint64_t size = 0;

	if (val_content(v, &p, &size) != 0)
		bad_value(x, v, what, "bytes");
	if (n != NULL)
		*n = size;
	return size > 0 ? copy(x, p, size) : "";
}
