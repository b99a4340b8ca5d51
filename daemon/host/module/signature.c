/* SPDX-License-Identifier: MIT
 *
 * Reads signatures (once, at load) and checks arguments (per call). A default is any JSON literal; it goes through the
 * same conversion as an argument, so a module whose default doesn't fit its type isn't loaded. */
#include "daemon/host/module/signature.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/codec/cbor.h"
#include "daemon/host/codec/json_cbor.h"
#include "proto/names.h"

static const char *const types[] = {
	[PARAM_I64] = "i64", [PARAM_U64] = "u64", [PARAM_F64] = "f64", [PARAM_BOOL] = "bool", [PARAM_STR] = "str",
	[PARAM_BYTES] = "bytes", [PARAM_LIST] = "list", [PARAM_DICT] = "dict", [PARAM_ANY] = "any",
};
_Static_assert(sizeof types / sizeof types[0] == PARAM__N, "each type has its text");

static const char *type_text(enum param_type type)
{
	return type < PARAM__N ? types[type] : "?";
}

/* ---- one argument: checked, and converted to what the type's reader expects ---- */

static const char *what_is(const struct cbor_head *h)
{
	switch ((enum cbor_major)h->major) {
	case CBOR_UINT:
	case CBOR_NEGATIVE:
		return "an integer";
	case CBOR_BYTES:
		return "bytes";
	case CBOR_TEXT:
		return "a text";
	case CBOR_ARRAY:
		return "a list";
	case CBOR_MAP:
		return "a dict";
	case CBOR_SIMPLE:
		return cbor_is_float(h) ? "a number with a fraction" : cbor_is_null(h) ? "null" : "true or false";
	case CBOR_TAG:
		break;
	}
	return "something else";
}

/* Integers beyond 2^53 come as decimal strings: -?[0-9]+ without leading zeros. */
static bool integer_text(struct cbor_reader *r, const struct cbor_head *h, bool is_signed, struct cbor_writer *w)
{
	const uint8_t *p = cbor_get_content(r, h);
	char text[24] = "";
	char *end;

	if (p == NULL || h->value == 0 || h->value >= sizeof text)
		return false;
	memcpy(text, p, (size_t)h->value);
	end = text + (text[0] == '-');
	if (!isdigit((unsigned char)*end) || (*end == '0' && h->value > 1) || (text[0] == '-' && !is_signed))
		return false;
	errno = 0;
	if (is_signed)
		cbor_put_i64(w, strtoll(text, &end, 10));
	else
		cbor_put_u64(w, strtoull(text, &end, 10));
	return errno == 0 && *end == '\0';
}

static bool put_integer(struct cbor_reader *r, const struct cbor_head *h, bool is_signed, struct cbor_writer *w)
{
	if (h->major == CBOR_TEXT)
		return integer_text(r, h, is_signed, w);
	if (h->major > CBOR_NEGATIVE || (is_signed ? h->value > INT64_MAX : h->major == CBOR_NEGATIVE))
		return false;
	cbor_put_head(w, (enum cbor_major)h->major, h->value);
	return true;
}

static bool put_float(struct cbor_reader *r, const struct cbor_head *h, struct cbor_writer *w)
{
	static const struct { const char *text; double value; } words[] = {
		{ "NaN", __builtin_nan("") }, { "Infinity", __builtin_inf() }, { "-Infinity", -__builtin_inf() },
	};
	const uint8_t *p;

	if (cbor_is_float(h)) {
		cbor_put_f64(w, cbor_float(h));
		return true;
	}
	if (h->major <= CBOR_NEGATIVE) {
		cbor_put_f64(w, h->major == CBOR_UINT ? (double)h->value : -1.0 - (double)h->value);
		return true;
	}
	if (h->major != CBOR_TEXT || (p = cbor_get_content(r, h)) == NULL)
		return false;
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (h->value == strlen(words[i].text) && memcmp(p, words[i].text, (size_t)h->value) == 0) {
			cbor_put_f64(w, words[i].value);
			return true;
		}
	return false;
}

static bool put_as_is(const struct cbor_reader *whole, struct cbor_writer *w)
{
	struct cbor_reader r = *whole;

	if (cbor_skip(&r) != 0)
		return false;
	cbor_put_raw(w, whole->at, (uint64_t)(r.at - whole->at));
	return true;
}

static bool put_argument(const struct cbor_reader *value, enum param_type type, struct cbor_writer *w)
{
	static const int majors[PARAM__N] = {
		[PARAM_STR] = CBOR_TEXT, [PARAM_BYTES] = CBOR_BYTES, [PARAM_LIST] = CBOR_ARRAY, [PARAM_DICT] = CBOR_MAP,
	};
	struct cbor_reader r = *value;
	struct cbor_head h;

	if (cbor_get_head(&r, &h) != 0)
		return false;
	switch (type) {
	case PARAM_I64:
	case PARAM_U64:
		return put_integer(&r, &h, type == PARAM_I64, w);
	case PARAM_F64:
		return put_float(&r, &h, w);
	case PARAM_BOOL:
		return h.major == CBOR_SIMPLE && (h.info == CBOR_TRUE || h.info == CBOR_FALSE) && put_as_is(value, w);
	case PARAM_STR:
	case PARAM_BYTES:
	case PARAM_LIST:
	case PARAM_DICT:
		return h.major == majors[type] && put_as_is(value, w);
	case PARAM_ANY:
		return put_as_is(value, w);
	case PARAM__N:
		break;
	}
	return false;
}

/* ---- reading a signature ---- */

struct scan {
	const char *at;
	struct err *e;
	uint32_t number;   /* of the parameter, from 1 */
};

static int bad(const struct scan *s, const char *what)
{
	return err_set(s->e, ERR_BAD_MODULE, "parameter %u: %s", s->number, what);
}

static void skip_space(struct scan *s)
{
	while (*s->at == ' ' || *s->at == '\t' || *s->at == '\n')
		s->at++;
}

static size_t word(struct scan *s, char to[LIMIT_FUNCTION_BYTES + 1])
{
	size_t n = 0;

	skip_space(s);
	while (isalnum((unsigned char)s->at[n]) || s->at[n] == '_')
		n++;
	if (n > 0 && n <= LIMIT_FUNCTION_BYTES)
		memcpy(to, s->at, n);
	to[n <= LIMIT_FUNCTION_BYTES ? n : 0] = '\0';
	s->at += n;
	return n;
}

/* Up to the comma that is in no string and no bracket. */
static size_t literal_length(const char *at)
{
	unsigned depth = 0;
	size_t n = 0;

	for (bool in_string = false; at[n] != '\0'; n++) {
		if (in_string && at[n] == '\\' && at[n + 1] != '\0')
			n++;
		else if (at[n] == '"')
			in_string = !in_string;
		else if (!in_string && (at[n] == '[' || at[n] == '{'))
			depth++;
		else if (!in_string && (at[n] == ']' || at[n] == '}') && depth > 0)
			depth--;
		else if (!in_string && depth == 0 && at[n] == ',')
			break;
	}
	while (n > 0 && isspace((unsigned char)at[n - 1]))
		n--;
	return n;
}

static int read_default(struct scan *s, struct parameter *p)
{
	struct buf raw = BUF_INIT;
	struct cbor_writer w = cbor_writer_buf(&p->default_cbor);
	struct cbor_reader r;
	size_t n;
	int result = 0;

	skip_space(s);
	n = literal_length(s->at);
	buf_add(&p->default_json, s->at, n);
	if (n == 0)
		result = bad(s, "the default is missing after =");
	else if (json_to_cbor(s->at, n, &raw, s->e) != 0)
		result = bad(s, "its default isn't a JSON literal");
	if (result == 0) {
		r = cbor_reader_over(raw.data, raw.size);
		if (!put_argument(&r, p->type, &w) || p->default_cbor.failed || p->default_json.failed)
			result = bad(s, "its default isn't of its type");
	}
	s->at += n;
	buf_fini(&raw);
	return result;
}

static int read_parameter(struct scan *s, struct signature *sig)
{
	struct parameter *p = &sig->parameters[sig->n];
	char type[LIMIT_FUNCTION_BYTES + 1];
	size_t n = word(s, p->name);

	if (!name_is_function(p->name, n))
		return bad(s, "its name isn't a C identifier");
	for (uint32_t i = 0; i < sig->n; i++)
		if (strcmp(sig->parameters[i].name, p->name) == 0)
			return bad(s, "its name is there already");
	sig->n++;
	skip_space(s);
	if (*s->at != ':')
		return bad(s, "write it as name: type");
	s->at++;
	word(s, type);
	for (p->type = 0; p->type < PARAM__N && strcmp(types[p->type], type) != 0; p->type++)
		;
	if (p->type == PARAM__N)
		return bad(s, "its type is none of i64 u64 f64 bool str bytes list dict any");
	skip_space(s);
	if (*s->at == '?') {
		p->optional = true;
		s->at++;
		skip_space(s);
	}
	if (*s->at != '=')
		return 0;
	s->at++;
	return p->optional ? bad(s, "it is either optional or has a default") : read_default(s, p);
}

int signature_read(const char *text, struct signature *ret, struct err *e)
{
	struct signature sig = { 0, calloc(LIMIT_PARAMETERS, sizeof *sig.parameters) };
	struct scan s = { text, e, 0 };
	int result = 0;

	if (sig.parameters == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a signature");
	skip_space(&s);
	while (result == 0 && *s.at != '\0') {
		s.number++;
		result = sig.n == LIMIT_PARAMETERS ? bad(&s, "there are too many") : read_parameter(&s, &sig);
		skip_space(&s);
		if (result == 0 && *s.at == ',') {
			s.at++;
			skip_space(&s);
			if (*s.at == '\0')
				result = bad(&s, "another one should follow the comma");
		} else if (result == 0 && *s.at != '\0') {
			result = bad(&s, "a comma should follow it");
		}
	}
	if (result != 0) {
		signature_fini(&sig);
		return -1;
	}
	if (sig.n < LIMIT_PARAMETERS) {
		struct parameter *shrunk = realloc(sig.parameters, (sig.n + 1u) * sizeof *shrunk);

		if (shrunk != NULL)
			sig.parameters = shrunk;
	}
	*ret = sig;
	return 0;
}

void signature_fini(struct signature *s)
{
	for (uint32_t i = 0; s->parameters != NULL && i < s->n; i++) {
		buf_fini(&s->parameters[i].default_json);
		buf_fini(&s->parameters[i].default_cbor);
	}
	free(s->parameters);
	memset(s, 0, sizeof *s);
}

/* ---- checking arguments ---- */

static int unknown_argument(const struct signature *s, const uint8_t *name, uint64_t n, struct err *e)
{
	const char *names[LIMIT_PARAMETERS] = { NULL };
	char clean[64];
	int nearest;

	for (uint32_t i = 0; i < s->n; i++)
		names[i] = s->parameters[i].name;
	text_clean(clean, sizeof clean, (const char *)name, n);
	nearest = name_nearest(clean, names, s->n);
	err_set(e, ERR_BAD_ARGUMENT, nearest >= 0 ? "there is no argument %s; perhaps %s is meant" : "there is no argument %s", clean,
		nearest >= 0 ? names[nearest] : "");
	err_about(e, clean, -1);
	if (e != NULL && nearest >= 0)
		text_clean(e->nearest, sizeof e->nearest, names[nearest], strlen(names[nearest]));
	return -1;
}

/* Finds each parameter's value; at == NULL: not given. */
static int find_values(const struct signature *s, const struct buf *args, struct cbor_reader values[LIMIT_PARAMETERS], struct err *e)
{
	struct cbor_reader r = cbor_reader_over(args->data, args->size);
	struct cbor_head h, key;
	const uint8_t *name;
	uint32_t k;

	if (cbor_get_head(&r, &h) != 0 || h.major != CBOR_MAP)
		return err_set(e, ERR_BAD_ARGUMENT, "arguments are a JSON object");
	for (uint64_t i = 0; i < h.value; i++) {
		if (cbor_get_head(&r, &key) != 0 || key.major != CBOR_TEXT || (name = cbor_get_content(&r, &key)) == NULL)
			return err_set(e, ERR_BAD_ARGUMENT, "an argument's name isn't text");
		for (k = 0; k < s->n; k++)
			if (strlen(s->parameters[k].name) == key.value && memcmp(s->parameters[k].name, name, (size_t)key.value) == 0)
				break;
		if (k == s->n)
			return unknown_argument(s, name, key.value, e);
		values[k] = r;
		if (cbor_skip(&r) != 0)
			return err_set(e, ERR_BAD_ARGUMENT, "an argument is cut");
	}
	return 0;
}

static int put_parameter(const struct parameter *p, const struct cbor_reader *value, struct cbor_writer *w, uint32_t *n, struct err *e)
{
	struct cbor_head h = { CBOR_TAG, 0, 0 };
	bool given = value->at != NULL;

	if (given && p->optional && p->type != PARAM_ANY && cbor_peek_head(value, &h) == 0 && cbor_is_null(&h))
		given = false;
	if (!given && p->optional)
		return 0;
	if (!given && p->default_cbor.size == 0) {
		err_set(e, ERR_BAD_ARGUMENT, "the argument %s (%s) is missing", p->name, types[p->type]);
		return err_about(e, p->name, -1);
	}
	cbor_put_string(w, p->name, strlen(p->name));
	++*n;
	if (!given) {
		cbor_put_raw(w, p->default_cbor.data, p->default_cbor.size);
		return 0;
	}
	if (put_argument(value, p->type, w))
		return 0;
	if (cbor_peek_head(value, &h) != 0)
		h = (struct cbor_head){ CBOR_TAG, 0, 0 };
	err_set(e, ERR_BAD_ARGUMENT, "the argument %s must be %s, not %s%s", p->name, type_text(p->type), what_is(&h),
		h.major <= CBOR_NEGATIVE && p->type <= PARAM_U64 ? " beyond its range" : "");
	return err_about(e, p->name, -1);
}

int signature_check(const struct signature *s, const char *args_json, size_t n, struct buf *ret_cbor, struct err *e)
{
	struct cbor_reader values[LIMIT_PARAMETERS] = { { NULL, NULL } };
	struct cbor_writer w = cbor_writer_buf(ret_cbor);
	struct buf args;
	uint64_t mark;
	uint32_t count = 0;
	int result;

	buf_init(&args, (size_t)LIMIT_BODY_BYTES * 4); /* a container's head is longer in CBOR than in JSON */
	result = json_to_cbor(n > 0 ? args_json : "{}", n > 0 ? n : 2, &args, e);
	if (result == 0)
		result = find_values(s, &args, values, e);
	mark = cbor_put_open(&w, CBOR_MAP);
	for (uint32_t i = 0; result == 0 && i < s->n; i++)
		result = put_parameter(&s->parameters[i], &values[i], &w, &count, e);
	cbor_set_length(&w, mark, count);
	if (result == 0 && ret_cbor->failed)
		result = err_set(e, ERR_LIMIT_EXCEEDED, "the arguments are too large");
	buf_fini(&args);
	return result;
}

void signature_json(const struct signature *s, struct json_out *o, const char *key)
{
	json_out_array(o, key);
	for (uint32_t i = 0; i < s->n; i++) {
		const struct parameter *p = &s->parameters[i];

		json_out_object(o, NULL);
		json_out_text(o, "name", p->name);
		json_out_text(o, "type", types[p->type]);
		json_out_bool(o, "optional", p->optional || p->default_json.size > 0);
		if (p->default_json.size > 0)
			json_out_raw(o, "default", p->default_json.data, p->default_json.size);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}
