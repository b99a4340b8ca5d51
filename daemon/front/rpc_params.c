/* SPDX-License-Identifier: MIT
 *
 * The check of parameters. What is expected is said in words that come from the row itself, so that a message and the
 * table can't disagree. */
#include "daemon/front/rpc_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/names.h"

#define SHORT_TEXT 256 /* more than any name, choice or hash has */

bool rpc_params_is_text(enum param_kind kind)
{
	switch (kind) {
	case PARAM_ID:
	case PARAM_TEXT:
	case PARAM_CHOICE:
	case PARAM_SHA256:
	case PARAM_SOURCE_NAME:
	case PARAM_FUNCTION:
		return true;
	case PARAM_INTEGER:
	case PARAM_BOOL:
	case PARAM_OBJECT:
	case PARAM_ANY:
	case PARAM_BASE64:
		return false;
	}
	return false;
}

/* ---- texts ---- */

/* The string's bytes: in place when nothing is escaped, else decoded into `copy`. false: not a string, or too long. */
static bool short_text(struct json_span v, char copy[SHORT_TEXT], struct json_span *ret)
{
	int64_t size;

	if (json_type(v) != '"')
		return false;
	if (!memchr(v.at, '\\', v.size)) {
		*ret = (struct json_span){ v.at + 1, v.size - 2 };
		return true;
	}
	size = json_string(v, copy, SHORT_TEXT);
	if (size < 0)
		return false;
	*ret = (struct json_span){ copy, (size_t)size };
	return true;
}

static bool is_text_within(struct json_span v, int64_t min, int64_t max)
{
	char *copy;
	size_t size;

	if (json_type(v) != '"')
		return false;
	if (!memchr(v.at, '\\', v.size))
		return (int64_t)v.size - 2 >= min && (int64_t)v.size - 2 <= max;
	copy = json_string_dup(v, &size);
	free(copy);
	return copy && (int64_t)size >= min && (int64_t)size <= max;
}

static bool is_choice(const char *choices, struct json_span text)
{
	for (const char *at = choices;; at++) {
		size_t n = strcspn(at, "|");

		if (n == text.size && memcmp(at, text.at, n) == 0)
			return true;
		at += n;
		if (*at == '\0')
			return false;
	}
}

/* ---- base64 ---- */

static bool is_base64_digit(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

/* Bytes that it decodes to, -1: not base64. (Surplus bits in the last digit are base64_decode's to refuse.) */
static int64_t base64_size(const char *text, size_t n)
{
	size_t padding = 0;

	if (n % 4 != 0)
		return -1;
	if (n > 0 && text[n - 1] == '=')
		padding = text[n - 2] == '=' ? 2 : 1;
	for (size_t i = 0; i < n - padding; i++)
		if (!is_base64_digit((unsigned char)text[i]))
			return -1;
	return (int64_t)(n / 4 * 3 - padding);
}

static bool is_base64_within(struct json_span v, int64_t max)
{
	int64_t decoded;
	size_t size;
	char *copy;

	if (json_type(v) != '"')
		return false;
	if (!memchr(v.at, '\\', v.size)) {
		decoded = base64_size(v.at + 1, v.size - 2);
	} else {
		copy = json_string_dup(v, &size); /* "\/" is a way to write '/' */
		decoded = copy ? base64_size(copy, size) : -1;
		free(copy);
	}
	return decoded >= 0 && decoded <= max;
}

/* ---- one value ---- */

static bool fits(const struct method_param *p, struct json_span v)
{
	char copy[SHORT_TEXT];
	struct json_span text;
	int64_t number;
	bool boolean;

	switch (p->kind) {
	case PARAM_ID:
		return short_text(v, copy, &text) && name_is_id(text.at, text.size);
	case PARAM_TEXT:
		return is_text_within(v, p->min, p->max);
	case PARAM_INTEGER:
		return json_i64(v, &number) && number >= p->min && number <= p->max;
	case PARAM_BOOL:
		return json_bool(v, &boolean);
	case PARAM_CHOICE:
		return short_text(v, copy, &text) && is_choice(p->choices, text);
	case PARAM_OBJECT:
		return json_type(v) == '{';
	case PARAM_ANY:
		return true;
	case PARAM_SHA256:
		return short_text(v, copy, &text) && name_is_sha256(text.at, text.size);
	case PARAM_SOURCE_NAME:
		return short_text(v, copy, &text) && name_is_source_file(text.at, text.size);
	case PARAM_FUNCTION:
		return short_text(v, copy, &text) && name_is_function(text.at, text.size);
	case PARAM_BASE64:
		return is_base64_within(v, p->max);
	}
	return false;
}

/* "permanent|transient" -> "permanent, transient" */
static void choices_text(char *to, size_t room, const char *choices)
{
	size_t put = 0;

	for (const char *at = choices; *at && put + 3 < room; at++) {
		to[put++] = *at == '|' ? ',' : *at;
		if (*at == '|')
			to[put++] = ' ';
	}
	to[put] = '\0';
}

static void expected(char *to, size_t room, const struct method_param *p)
{
	char choices[128];

	switch (p->kind) {
	case PARAM_ID:
		(void)snprintf(to, room, "a letter or digit, then at most %d of A-Z a-z 0-9 . _ -", LIMIT_ID_BYTES - 1);
		return;
	case PARAM_TEXT:
		if (p->min > 0)
			(void)snprintf(to, room, "a string of %" PRId64 " to %" PRId64 " bytes", p->min, p->max);
		else
			(void)snprintf(to, room, "a string of at most %" PRId64 " bytes", p->max);
		return;
	case PARAM_INTEGER:
		(void)snprintf(to, room, "an integer between %" PRId64 " and %" PRId64, p->min, p->max);
		return;
	case PARAM_BOOL:
		(void)snprintf(to, room, "true or false");
		return;
	case PARAM_CHOICE:
		choices_text(choices, sizeof(choices), p->choices);
		(void)snprintf(to, room, "one of %s", choices);
		return;
	case PARAM_OBJECT:
		(void)snprintf(to, room, "an object");
		return;
	case PARAM_ANY:
		(void)snprintf(to, room, "any JSON value");
		return;
	case PARAM_SHA256:
		(void)snprintf(to, room, "%d lower-case hexadecimal digits", SHA256_HEX_BYTES);
		return;
	case PARAM_SOURCE_NAME:
		(void)snprintf(to, room,
			"a file name of at most %d of A-Z a-z 0-9 . _ - that ends in .c, without folders", LIMIT_ID_BYTES);
		return;
	case PARAM_FUNCTION:
		(void)snprintf(to, room, "a C identifier of at most %d bytes", LIMIT_FUNCTION_BYTES);
		return;
	case PARAM_BASE64:
		(void)snprintf(to, room, "base64 (with padding, without spaces) of at most %" PRId64 " bytes", p->max);
		return;
	}
}

static int refuse_value(const struct method *m, const struct method_param *p, int64_t offset, struct err *e)
{
	char wanted[256] = "";

	expected(wanted, sizeof(wanted), p);
	err_set(e, p->kind == PARAM_ID ? ERR_INVALID_ID : ERR_BAD_PARAM, "%s: %s must be %s", m->name, p->name, wanted);
	return err_about(e, p->name, offset);
}

/* ---- names ---- */

static bool is_named(struct json_span key, const char *name)
{
	size_t size = strlen(name);

	if (key.size == size + 2 && memcmp(key.at + 1, name, size) == 0)
		return true;
	return memchr(key.at, '\\', key.size) && json_string_is(key, name);
}

static size_t find(const struct method *m, struct json_span key)
{
	size_t i = 0;

	while (i < METHOD_MAX_PARAMS && m->params[i].name && !is_named(key, m->params[i].name))
		i++;
	return i;
}

static int refuse_unknown(const struct method *m, struct json_span key, int64_t offset, struct err *e)
{
	const char *names[METHOD_MAX_PARAMS];
	size_t n = method_n_params(m), size = 0;
	char *name = json_string_dup(key, &size);
	char shown[64] = "?";
	int near;

	for (size_t i = 0; i < n; i++)
		names[i] = m->params[i].name;
	if (name)
		text_clean(shown, sizeof(shown), name, size);
	near = name ? name_nearest(name, names, n) : -1;
	if (near >= 0)
		err_set(e, ERR_UNKNOWN_PARAM, "%s has no parameter '%s'; did you mean '%s'?", m->name, shown,
			names[near]);
	else
		err_set(e, ERR_UNKNOWN_PARAM, "%s has no parameter '%s'", m->name, shown);
	err_about(e, shown, offset);
	if (near >= 0 && e)
		(void)snprintf(e->nearest, sizeof(e->nearest), "%s", names[near]);
	free(name);
	return -1;
}

static int refuse_missing(const struct method *m, const struct method_param *p, struct err *e)
{
	err_set(e, ERR_MISSING_PARAM, "%s needs the parameter '%s': %s", m->name, p->name, p->help);
	return err_about(e, p->name, -1);
}

int rpc_params_check(const struct method *m, const struct rpc_envelope *from, const char *text, struct rpc_params *ret,
	struct err *e)
{
	size_t n = method_n_params(m);

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < from->n_params; i++) {
		size_t row = find(m, from->names[i]);

		if (row >= n)
			return refuse_unknown(m, from->names[i], from->names[i].at - text, e);
		ret->values[row] = from->values[i];
	}
	for (size_t row = 0; row < n; row++) {
		const struct method_param *p = &m->params[row];
		struct json_span v = ret->values[row];

		if (!v.at) {
			if (p->required)
				return refuse_missing(m, p, e);
			continue;
		}
		if (!fits(p, v))
			return refuse_value(m, p, v.at - text, e);
		if (rpc_params_is_text(p->kind))
			ret->text_bytes += v.size; /* its quotes leave room for the NUL */
	}
	return 0;
}
