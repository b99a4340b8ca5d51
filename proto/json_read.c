/* SPDX-License-Identifier: MIT
 *
 * Reading of text that the scanner has accepted. Nothing here allocates but json_string_dup. Text that wasn't
 * checked gives nonsense, never a read outside of the span. */
#include "proto/json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_text.h"
#include "proto/limits.h"

#define INTEGER_BYTES 20 /* "-9223372036854775808", "18446744073709551615" */

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

/* Spans of the scanner have no space around them, but a whole line may. */
static struct json_span trim(struct json_span v)
{
	const char *at, *end;

	if (!v.at)
		return v;
	end = v.at + v.size;
	at = skip_space(v.at, end);
	while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n' || end[-1] == '\r'))
		end--;
	return (struct json_span){ at, (size_t)(end - at) };
}

char json_type(struct json_span v)
{
	v = trim(v);
	if (!v.at || v.size == 0)
		return 0;
	switch (*v.at) {
	case '{': case '[': case '"': case 't': case 'f':
		return *v.at;
	case 'n':
		return '0';
	default:
		for (size_t i = 0; i < v.size; i++)
			if (v.at[i] == '.' || v.at[i] == 'e' || v.at[i] == 'E')
				return 'n';
		return 'i';
	}
}

/* ---- containers ---- */

static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end; at++) {
		if (*at == '"')
			return at + 1;
		if (*at == '\\')
			at++;
	}
	return end;
}

static const char *skip_container(const char *at, const char *end)
{
	size_t depth = 0;

	while (at < end) {
		if (*at == '"') {
			at = skip_string(at, end);
			continue;
		}
		if (*at == '{' || *at == '[')
			depth++;
		else if ((*at == '}' || *at == ']') && --depth == 0)
			return at + 1;
		at++;
	}
	return end;
}

static const char *skip_value(const char *at, const char *end)
{
	if (at < end && *at == '"')
		return skip_string(at, end);
	if (at < end && (*at == '{' || *at == '['))
		return skip_container(at, end);
	while (at < end && !strchr(",]} \t\r\n", *at))
		at++;
	return at;
}

struct json_iter json_iter_begin(struct json_span object_or_array)
{
	struct json_span v = trim(object_or_array);

	if (!v.at || v.size < 2 || (*v.at != '{' && *v.at != '['))
		return (struct json_iter){ NULL, NULL };
	return (struct json_iter){ v.at + 1, v.at + v.size - 1 };
}

bool json_iter_next(struct json_iter *it, struct json_span *key, struct json_span *value)
{
	const char *at = skip_space(it->at, it->end), *behind;

	*key = *value = (struct json_span){ 0 };
	if (at < it->end && *at == ',')
		at = skip_space(at + 1, it->end);
	if (at >= it->end)
		return false;
	behind = skip_value(at, it->end);
	*value = (struct json_span){ at, (size_t)(behind - at) };
	at = skip_space(behind, it->end);
	if (*value->at == '"' && at < it->end && *at == ':') { /* it was the key: only members have a colon */
		*key = *value;
		at = skip_space(at + 1, it->end);
		behind = skip_value(at, it->end);
		*value = (struct json_span){ at, (size_t)(behind - at) };
	}
	if (value->size == 0) /* not JSON: stop rather than stay */
		behind = it->end;
	it->at = behind;
	return value->size > 0;
}

struct json_span json_get(struct json_span object, const char *key)
{
	struct json_iter it = json_iter_begin(object);
	struct json_span k, v;

	while (json_iter_next(&it, &k, &v))
		if (k.at && json_string_is(k, key))
			return v;
	return (struct json_span){ 0 };
}

/* ---- strings ---- */

int64_t json_string(struct json_span v, char *to, size_t room)
{
	const char *at, *end;
	size_t size = 0, n;
	char out[4];

	v = trim(v);
	if (json_type(v) != '"')
		return -1;
	v = json_text_inside(v);
	at = v.at;
	end = v.at + v.size;
	while ((n = json_text_next(&at, end, out)) > 0) {
		if (room <= n || size >= room - n)
			return -1;
		memcpy(to + size, out, n);
		size += n;
	}
	if (size >= room)
		return -1;
	to[size] = '\0';
	return (int64_t)size;
}

char *json_string_dup(struct json_span v, size_t *ret_size)
{
	char *copy;
	int64_t size;

	if (json_type(v) != '"')
		return NULL;
	copy = malloc(v.size + 1); /* decoding never makes it longer */
	if (!copy)
		return NULL;
	size = json_string(v, copy, v.size + 1);
	if (size < 0) {
		free(copy);
		return NULL;
	}
	if (ret_size)
		*ret_size = (size_t)size;
	return copy;
}

bool json_string_is(struct json_span v, const char *text)
{
	const char *at, *end;
	char out[4];
	size_t n;

	v = trim(v);
	if (json_type(v) != '"')
		return false;
	v = json_text_inside(v);
	at = v.at;
	end = v.at + v.size;
	while ((n = json_text_next(&at, end, out)) > 0) {
		if (*text == '\0' || strncmp(text, out, n) != 0)
			return false;
		text += n;
	}
	return *text == '\0';
}

/* ---- numbers ---- */

/* The digits of an integer, or of a string of one, into a terminated copy; false: neither. */
static bool integer_text(struct json_span v, char copy[INTEGER_BYTES + 1])
{
	const char *digits;
	char type = json_type(v);

	v = trim(v);
	if (type == '"')
		v = json_text_inside(v);
	else if (type != 'i')
		return false;
	if (v.size == 0 || v.size > INTEGER_BYTES)
		return false;
	memcpy(copy, v.at, v.size);
	copy[v.size] = '\0';
	digits = *copy == '-' ? copy + 1 : copy;
	if (digits[0] == '\0' || (digits[0] == '0' && digits[1] != '\0'))
		return false;
	return strspn(digits, "0123456789") == strlen(digits) && strlen(copy) == v.size;
}

bool json_i64(struct json_span v, int64_t *ret)
{
	char copy[INTEGER_BYTES + 1];
	long long value;

	if (!integer_text(v, copy))
		return false;
	errno = 0;
	value = strtoll(copy, NULL, 10);
	if (errno != 0)
		return false;
	*ret = value;
	return true;
}

bool json_u64(struct json_span v, uint64_t *ret)
{
	char copy[INTEGER_BYTES + 1];
	unsigned long long value;

	if (!integer_text(v, copy))
		return false;
	if (*copy == '-' && strcmp(copy, "-0") != 0) /* strtoull would wrap it around */
		return false;
	errno = 0;
	value = strtoull(copy, NULL, 10);
	if (errno != 0)
		return false;
	*ret = value;
	return true;
}

bool json_f64(struct json_span v, double *ret)
{
	char copy[LIMIT_JSON_NUMBER_BYTES + 1], *end;
	char type = json_type(v);
	double value;

	v = trim(v);
	if (type == '"') {
		if (json_string_is(v, "NaN"))
			value = (double)NAN;
		else if (json_string_is(v, "Infinity"))
			value = (double)INFINITY;
		else if (json_string_is(v, "-Infinity"))
			value = (double)-INFINITY;
		else
			return false;
		*ret = value;
		return true;
	}
	if ((type != 'i' && type != 'n') || v.size > LIMIT_JSON_NUMBER_BYTES)
		return false;
	memcpy(copy, v.at, v.size);
	copy[v.size] = '\0';
	value = strtod(copy, &end);
	if (end == copy || *end != '\0')
		return false;
	*ret = value;
	return true;
}

bool json_bool(struct json_span v, bool *ret)
{
	char type = json_type(v);

	if (type != 't' && type != 'f')
		return false;
	*ret = type == 't';
	return true;
}
