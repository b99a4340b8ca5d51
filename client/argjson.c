/* SPDX-License-Identifier: MIT
 *
 * Texts to JSON. Refuses here what the daemon would refuse, because the user then sees the option's name
 * instead of the parameter's; the daemon checks all of it again. */
#include "client/argjson.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/input.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "proto/utf8.h"

static int text_check(const char *text, size_t size, const char *what, struct err *e)
{
	size_t at = 0, n;

	while (at < size && (n = utf8_sequence(text + at, size - at)) > 0)
		at += n;
	return at == size ? 0 : err_set(e, ERR_BAD_UTF8, "%s is not UTF-8", what);
}

/* ---- single values ---- */

int argjson_size(const char *text, uint64_t *ret, struct err *e)
{
	static const char units[] = "KMGT";
	const char *unit = text + strspn(text, "0123456789");
	unsigned long long value;
	size_t power = 0;

	errno = 0;
	value = strtoull(text, NULL, 10);
	if (unit == text || errno != 0)
		return err_set(e, ERR_BAD_PARAM,
			"'%s' is not a size; write bytes, or a number and K, M, G or T", text);
	if (*unit) {
		char upper = (char)(*unit >= 'a' && *unit <= 'z' ? *unit - 'a' + 'A' : *unit);
		const char *found = strchr(units, upper);

		if (!found || !(unit[1] == '\0' || strcmp(unit + 1, "iB") == 0))
			return err_set(e, ERR_BAD_PARAM,
				"'%s' is not a size; its unit is one of K, M, G, T (KiB, ...)", text);
		power = (size_t)(found - units) + 1;
	}
	if (value > UINT64_MAX >> (10 * power))
		return err_set(e, ERR_BAD_PARAM, "'%s' is too large a size", text);
	*ret = (uint64_t)value << (10 * power);
	return 0;
}

static bool is_scalar(const char *text)
{
	size_t size = strlen(text);
	struct json_span v = { text, size };

	/* The scanner allows space around a value; here that makes it a string. */
	if (size == 0 || strchr(" \t\r\n\"[{", text[0]) || strchr(" \t\r\n", text[size - 1]))
		return false;
	return json_check(text, size, NULL) == 0 && json_type(v) != 0;
}

/* Splits at the first '='; *ret_raw: it was ":=". NULL with err: no name. */
static const char *split_item(const char *text, size_t *ret_name_size, bool *ret_raw, struct err *e)
{
	const char *equals = strchr(text, '=');
	size_t size;

	if (!equals) {
		err_set(e, ERR_BAD_PARAM, "'%s' is not NAME=VALUE", text);
		return NULL;
	}
	size = (size_t)(equals - text);
	*ret_raw = size > 0 && equals[-1] == ':';
	if (*ret_raw)
		size--;
	if (size == 0) {
		err_set(e, ERR_BAD_PARAM, "'%s' has no name before its '='", text);
		return NULL;
	}
	if (text_check(text, strlen(text), "an argument", e) == -1)
		return NULL;
	*ret_name_size = size;
	return equals + 1;
}

int argjson_argument(struct json_out *o, const char *text, struct err *e)
{
	size_t name_size;
	bool raw;
	const char *value = split_item(text, &name_size, &raw, e);

	if (!value)
		return -1;
	if (raw && json_check(value, strlen(value), e) == -1)
		return err_prefix(
			e, "the JSON behind '%.*s:='", (int)(name_size < 63 ? name_size : 63), text);
	json_out_key_n(o, text, name_size);
	if (raw || is_scalar(value))
		json_out_raw(o, NULL, value, strlen(value));
	else
		json_out_text(o, NULL, value);
	return 0;
}

static int write_size_item(struct json_out *o, const char *text, struct err *e)
{
	size_t name_size;
	bool raw;
	const char *value = split_item(text, &name_size, &raw, e);
	uint64_t size;

	if (!value)
		return -1;
	if (raw)
		return err_set(e, ERR_BAD_PARAM, "'%s' is not NAME=SIZE", text);
	if (argjson_size(value, &size, e) == -1)
		return -1;
	json_out_key_n(o, text, name_size);
	json_out_u64(o, NULL, size);
	return 0;
}

static int write_text_item(struct json_out *o, const char *text, struct err *e)
{
	size_t name_size;
	bool raw;
	const char *value = split_item(text, &name_size, &raw, e);

	if (!value)
		return -1;
	if (raw)
		return err_set(e, ERR_BAD_PARAM, "'%s' is not NAME=TEXT: only texts go here", text);
	json_out_key_n(o, text, name_size);
	json_out_text(o, NULL, value);
	return 0;
}

/* How the members of an object are written; objects without a row have values as a call has. */
static const struct {
	const char *param;
	int (*write)(struct json_out *o, const char *text, struct err *e);
} item_forms[] = {
	{ "limits", write_size_item },
	{ "labels", write_text_item },
};

static int write_item(struct json_out *o, const char *param, const char *text, struct err *e)
{
	for (size_t i = 0; i < sizeof(item_forms) / sizeof(item_forms[0]); i++)
		if (strcmp(item_forms[i].param, param) == 0)
			return item_forms[i].write(o, text, e);
	return argjson_argument(o, text, e);
}

/* ---- parameters ---- */

static int write_integer(struct json_out *o, const struct method_param *p, const char *text, struct err *e)
{
	int64_t value;

	if (!args_integer(text, &value) || value < p->min || value > p->max)
		return err_set(e, ERR_BAD_PARAM, "'%s' is not an integer from %" PRId64 " to %" PRId64, text,
			p->min, p->max);
	json_out_i64(o, p->name, value);
	return 0;
}

static bool is_choice(const char *choices, const char *text)
{
	size_t size = strlen(text);

	for (const char *at = choices; *at; at += *at == '|') {
		size_t n = strcspn(at, "|");

		if (n == size && memcmp(at, text, n) == 0)
			return true;
		at += n;
	}
	return false;
}

static int write_json(
	struct json_out *o, const struct method_param *p, const char *json, size_t size, struct err *e)
{
	if (json_check(json, size, e) == -1)
		return -1;
	if (p->kind == PARAM_OBJECT && json_type((struct json_span){ json, size }) != '{')
		return err_set(e, ERR_BAD_PARAM, "a JSON object is needed: {\"name\": value, ...}");
	json_out_raw(o, p->name, json, size);
	return 0;
}

static int write_name(struct json_out *o, const struct method_param *p, const char *text, struct err *e)
{
	size_t size = strlen(text);

	if (p->kind == PARAM_ID && !name_is_id(text, size))
		return err_set(e, ERR_INVALID_ID, "'%s' is not an id", text);
	if (p->kind == PARAM_FUNCTION && !name_is_function(text, size))
		return err_set(e, ERR_BAD_PARAM, "'%s' is not the name of a function", text);
	if (p->kind == PARAM_SHA256 && !name_is_sha256(text, size))
		return err_set(
			e, ERR_BAD_PARAM, "'%s' is not a SHA-256: 64 lower-case hexadecimal digits", text);
	if (p->kind == PARAM_SOURCE_NAME && !name_is_source_file(text, size))
		return err_set(e, ERR_BAD_PARAM, "'%s' is not the name of a C source", text);
	if (p->kind == PARAM_TEXT && size > (size_t)p->max)
		return err_set(e, ERR_BAD_PARAM, "a text of %zu bytes; at most %" PRId64, size, p->max);
	if (text_check(text, size, "a text", e) == -1)
		return -1;
	json_out_text(o, p->name, text);
	return 0;
}

/* text NULL: a flag */
static int write_value(struct json_out *o, const struct method_param *p, const char *text, struct err *e)
{
	bool yes = !text || strcmp(text, "true") == 0;

	assert(text || p->kind == PARAM_BOOL);
	switch (p->kind) {
	case PARAM_INTEGER:
		return write_integer(o, p, text, e);
	case PARAM_BOOL:
		if (!yes && strcmp(text, "false") != 0)
			return err_set(e, ERR_BAD_PARAM, "'%s' is neither true nor false", text);
		json_out_bool(o, p->name, yes);
		return 0;
	case PARAM_CHOICE:
		if (!is_choice(p->choices, text))
			return err_set(e, ERR_BAD_PARAM, "'%s' is none of %s", text, p->choices);
		json_out_text(o, p->name, text);
		return 0;
	case PARAM_OBJECT:
	case PARAM_ANY:
		return write_json(o, p, text, strlen(text), e);
	case PARAM_ID:
	case PARAM_TEXT:
	case PARAM_SHA256:
	case PARAM_SOURCE_NAME:
	case PARAM_FUNCTION:
	case PARAM_BASE64:
		return write_name(o, p, text, e);
	}
	return -1;
}

static int write_file(struct json_out *o, const struct method_param *p, const char *path, struct err *e)
{
	size_t size;
	char *json = input_text(path, LIMIT_REQUEST_BYTES, &size, e);
	int r;

	if (!json)
		return -1;
	r = write_json(o, p, json, size, e);
	free(json);
	return r == -1 ? err_prefix(e, "%s", strcmp(path, "-") == 0 ? "standard input" : path) : 0;
}

/* All members given one by one, as options or as the operands behind the named ones. */
static int write_items(
	struct json_out *o, const struct method_param *p, const char *const *items, size_t n, struct err *e)
{
	size_t from;

	json_out_object(o, p->name);
	from = o->to->size - 1;
	for (size_t i = 0; i < n; i++)
		if (write_item(o, p->name, items[i], e) == -1)
			return -1;
	json_out_object_end(o);
	/* The scanner finds a name that is given twice. */
	return o->to->failed ? 0 : json_check(o->to->data + from, o->to->size - from, e);
}

static int write_given(struct json_out *o, const struct args *a, const struct method_param *p, struct err *e)
{
	const struct arg_option *given = args_param(a, p->name);
	const char *items[ARGS_MAX];
	size_t n = 0;

	switch (given->option.kind) {
	case OPTION_FILE:
		return write_file(o, p, given->text, e);
	case OPTION_ITEM:
		for (size_t i = 0; i < a->n_options; i++)
			if (a->options[i].option.param == p)
				items[n++] = a->options[i].text;
		return write_items(o, p, items, n, e);
	default: /* the enum has more members than options that give parameters */
		if ((p->kind == PARAM_OBJECT || p->kind == PARAM_ANY) && strcmp(given->text, "-") == 0)
			return write_file(o, p, "-", e);
		return write_value(o, p, given->text, e);
	}
}

static size_t n_named_operands(const struct verb *v)
{
	size_t n = 0;

	while (n < VERB_OPERANDS && v->operand_params[n])
		n++;
	return n;
}

static int write_param(struct json_out *o, const struct args *a, const struct method_param *p, struct err *e)
{
	const struct arg_option *given = args_param(a, p->name);
	const char *operand = args_operand(a, p->name);
	size_t named = n_named_operands(a->verb);
	bool rest = a->verb->rest_param && strcmp(a->verb->rest_param, p->name) == 0 && a->n_operands > named;

	if (given && (operand || rest))
		return err_set(e, ERR_DUPLICATE_KEY, "--%s and an operand give the same parameter",
			given->option.name);
	if (operand)
		return write_value(o, p, operand, e);
	if (rest)
		return write_items(o, p, a->operands + named, a->n_operands - named, e);
	if (given) {
		if (write_given(o, a, p, e) == 0)
			return 0;
		return err_prefix(e, "--%s", given->option.name);
	}
	/* The daemon then ends the waiting itself, and can say what became of the call. */
	if (strcmp(p->name, "timeout_ms") == 0 && a->timeout_ms > 0)
		json_out_i64(o, p->name, a->timeout_ms);
	return 0;
}

int argjson_write(struct json_out *o, const struct args *a, const char *without, struct err *e)
{
	const struct method *m = verb_method(a->verb);

	for (size_t i = 0; m && i < method_n_params(m); i++)
		if (!(without && strcmp(without, m->params[i].name) == 0) &&
			write_param(o, a, &m->params[i], e) == -1)
			return -1;
	return 0;
}

int64_t argjson_time_ms(const struct args *a)
{
	int64_t sum = 0, value;

	for (size_t i = 0; i < a->n_options; i++) {
		const char *value_word = a->options[i].option.value;

		if (value_word && strcmp(value_word, "MS") == 0 && args_integer(a->options[i].text, &value) &&
			value > 0)
			sum += value < INT32_MAX ? value : INT32_MAX;
	}
	return sum;
}
