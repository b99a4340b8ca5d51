/* SPDX-License-Identifier: MIT
 *
 * The strict scanner and its readers. What it accepts must also parse with cJSON, to an equal tree; read back through json_out
 * it must be the same once more. */
#include "tests/fuzz/fuzz.h"

#include <cjson/cJSON.h>
#include <math.h>

#include "proto/json_out.h"
#include "proto/limits.h"

static bool has_long_number; /* more digits than cJSON takes */

static int visit(void *ctx, enum json_event event, struct json_span span)
{
	size_t *n = ctx;

	(*n)++;
	if ((event == JSON_NUMBER || event == JSON_INTEGER) && span.size > 60)
		has_long_number = true;
	FUZZ_MUST(span.at != NULL && span.size > 0);
	return 0;
}

static int stop_at_third(void *ctx, enum json_event event, struct json_span span)
{
	int *n = ctx;

	(void)event, (void)span;
	return ++*n == 3 ? 77 : 0;
}

static void copy_text(struct json_span v, struct json_out *o, const cJSON *c)
{
	size_t size = 0;
	char *text = json_string_dup(v, &size), small[16];
	int64_t n = json_string(v, small, sizeof small);

	FUZZ_MUST(text != NULL && strlen(text) == size);
	FUZZ_MUST(n == (size < sizeof small ? (int64_t)size : -1));
	FUZZ_MUST(json_string_is(v, text));
	if (c)
		FUZZ_MUST(cJSON_IsString(c) && strcmp(c->valuestring, text) == 0);
	json_out_text(o, NULL, text);
	free(text);
}

static void copy_number(struct json_span v, struct json_out *o, const cJSON *c)
{
	double d = 0;
	int64_t i = 0;
	uint64_t u = 0;

	FUZZ_MUST(json_f64(v, &d) && isfinite(d));
	if (c)
		FUZZ_MUST(cJSON_IsNumber(c) && cJSON_GetNumberValue(c) == d);
	if (json_type(v) == 'i' && !(d == 0 && signbit(d))) { /* -0 isn't an integer's text */
		FUZZ_MUST(json_i64(v, &i) && (double)i == d);
		FUZZ_MUST(json_u64(v, &u) == (i >= 0) && (i < 0 || u == (uint64_t)i));
		json_out_i64(o, NULL, i);
	} else {
		FUZZ_MUST(json_type(v) == 'i' || !json_i64(v, &i));
		json_out_f64(o, NULL, d);
	}
}

static void copy(struct json_span v, struct json_out *o, const cJSON *c, bool with_c);

static void copy_container(struct json_span v, struct json_out *o, const cJSON *c, bool with_c)
{
	bool is_object = json_type(v) == '{';
	struct json_iter it = json_iter_begin(v);
	const cJSON *item = with_c ? c->child : NULL;
	struct json_span key, value;

	if (with_c)
		FUZZ_MUST(is_object ? cJSON_IsObject(c) : cJSON_IsArray(c));
	(is_object ? json_out_object : json_out_array)(o, NULL);
	while (json_iter_next(&it, &key, &value)) {
		FUZZ_MUST((key.at != NULL) == is_object);
		if (with_c)
			FUZZ_MUST(item != NULL);
		if (is_object) {
			size_t size = 0;
			char *text = json_string_dup(key, &size);
			struct json_span again;

			FUZZ_MUST(text != NULL);
			if (with_c)
				FUZZ_MUST(strcmp(item->string, text) == 0);
			again = json_get(v, text);
			FUZZ_MUST(again.at == value.at && again.size == value.size);
			json_out_key_n(o, text, size);
			free(text);
		}
		copy(value, o, item, with_c);
		item = with_c ? item->next : NULL;
	}
	FUZZ_MUST(item == NULL);
	(is_object ? json_out_object_end : json_out_array_end)(o);
}

/* Writes the value again; beside it goes cJSON's tree of the same text. */
static void copy(struct json_span v, struct json_out *o, const cJSON *c, bool with_c)
{
	bool b = false;

	switch (json_type(v)) {
	case '{':
	case '[':
		copy_container(v, o, c, with_c);
		break;
	case '"':
		copy_text(v, o, with_c ? c : NULL);
		break;
	case 'i':
	case 'n':
		copy_number(v, o, with_c ? c : NULL);
		break;
	case 't':
	case 'f':
		FUZZ_MUST(json_bool(v, &b) && b == (json_type(v) == 't'));
		if (with_c)
			FUZZ_MUST(b ? cJSON_IsTrue(c) : cJSON_IsFalse(c));
		json_out_bool(o, NULL, b);
		break;
	case '0':
		if (with_c)
			FUZZ_MUST(cJSON_IsNull(c));
		json_out_null(o, NULL);
		break;
	default:
		FUZZ_MUST(!"a type");
	}
}

static char *written(const char *text, size_t size, const cJSON *c, size_t *ret_size)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	copy((struct json_span){ text, size }, &o, c, c != NULL);
	FUZZ_MUST(!b.failed);
	fuzz_is_json(b.data, b.size);
	return buf_take(&b, ret_size);
}

/* The readers take any text that was accepted, also as what it isn't. */
static void misread(struct json_span v)
{
	char small[8];
	double d;
	int64_t i;
	uint64_t u;
	bool b;

	(void)json_string(v, small, sizeof small);
	(void)json_string_is(v, "id");
	(void)json_f64(v, &d);
	(void)json_i64(v, &i);
	(void)json_u64(v, &u);
	(void)json_bool(v, &b);
	(void)json_get(v, "a");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_exact(data, size), *once, *twice;
	size_t n_events = 0, once_size = 0, twice_size = 0;
	struct err e = ERR_INIT;
	cJSON *c = NULL;
	int n = 0;

	has_long_number = false;
	if (json_walk(text, size, visit, &n_events, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.offset >= 0 && (uint64_t)e.offset <= size);
		FUZZ_MUST(json_check(text, size, NULL) == -1);
		free(text);
		return 0;
	}
	FUZZ_MUST(n_events > 0 && json_walk(text, size, stop_at_third, &n, &e) == (n_events >= 3 ? 77 : 0));
	misread((struct json_span){ text, size });
	if (!has_long_number) {
		c = cJSON_ParseWithLength(text, size);
		FUZZ_MUST(c != NULL);
	}
	once = written(text, size, c, &once_size);
	twice = written(once, once_size, NULL, &twice_size);
	FUZZ_MUST(once_size == twice_size && memcmp(once, twice, once_size) == 0);
	cJSON_Delete(c);
	free(once);
	free(twice);
	free(text);
	return 0;
}
