/* SPDX-License-Identifier: MIT
 *
 * The strict scanner: one pass over the bytes and a stack of levels in place of recursion. The keys of small
 * objects are compared one by one, those of large ones in the table of json_keys.c. Reading of accepted text
 * is in json_read.c. */
#include "proto/json_scan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_keys.h"
#include "proto/json_text.h"
#include "proto/limits.h"
#include "proto/utf8.h"

#define FEW_KEYS 8 /* compared one by one, no allocation */

/* 2^53: up to here integers are exact in every JSON reader. */
static const char largest[] = "9007199254740992";

struct level {
	bool is_object;
	uint32_t number;       /* of the object, unique in the text */
	size_t n_keys;
	struct json_span last; /* the key that the value being scanned belongs to */
	struct json_span few[FEW_KEYS];
};

enum want { WANT_VALUE, WANT_FIRST_KEY, WANT_FIRST_ITEM, WANT_MORE };

struct scan {
	const char *text, *at, *end;
	enum want want;
	json_visit_fn *visit;
	void *ctx;
	struct err *e;
	uint32_t n_objects;
	size_t depth, most; /* levels that are open, and that may be */
	struct json_keys keys;
	struct level levels[LIMIT_JSON_DEPTH];
};

/* ---- refusals ---- */

/* A key as people read it: decoded, cleaned, cut. */
static void show_key(char *to, size_t room, struct json_span key)
{
	struct json_span inside = json_text_inside(key);
	const char *at = inside.at, *end = inside.at + inside.size;
	char decoded[64 + 4], out[4];
	size_t size = 0, n;

	while (size < 64 && (n = json_text_next(&at, end, out)) > 0) {
		memcpy(decoded + size, out, n);
		size += n;
	}
	text_clean(to, room, decoded, size);
}

/* Adds where it was: the byte, and the key whose value it is in. */
static int refused_at(struct scan *s, const char *at)
{
	char key[64] = "";

	if (s->depth > 0 && s->levels[s->depth - 1].last.at)
		show_key(key, sizeof(key), s->levels[s->depth - 1].last);
	return err_about(s->e, key, at - s->text);
}

static int refuse(struct scan *s, enum err_code code, const char *at, const char *what)
{
	err_set(s->e, code, "%s at byte %zu", what, (size_t)(at - s->text));
	return refused_at(s, at);
}

static int refuse_byte(struct scan *s, const char *wanted)
{
	size_t offset = (size_t)(s->at - s->text);

	if (s->at == s->end)
		err_set(s->e, ERR_PARSE, "the text ends at byte %zu where %s is due", offset, wanted);
	else if (*s->at > ' ' && *s->at < 0x7f)
		err_set(s->e, ERR_PARSE, "'%c' at byte %zu where %s is due", *s->at, offset, wanted);
	else
		err_set(s->e, ERR_PARSE, "byte 0x%02x at byte %zu where %s is due", (unsigned char)*s->at,
			offset, wanted);
	return refused_at(s, s->at);
}

/* ---- tokens ---- */

static void skip_space(struct scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
		s->at++;
}

static char peek(const struct scan *s)
{
	return s->at < s->end ? *s->at : '\0'; /* a NUL is never what anyone wants */
}

static int visit(struct scan *s, enum json_event event, const char *from)
{
	return s->visit ? s->visit(s->ctx, event, (struct json_span){ from, (size_t)(s->at - from) }) : 0;
}

static int scan_escape(struct scan *s)
{
	const char *at = s->at;
	int32_t c;
	size_t used;

	if (s->end - at < 2)
		return refuse(s, ERR_PARSE, s->end, "the text ends in a string");
	if (at[1] != 'u') {
		if (!strchr("\"\\/bfnrt", at[1]) || at[1] == '\0')
			return refuse(s, ERR_PARSE, at, "an unknown escape");
		s->at += 2;
		return 0;
	}
	c = json_text_unicode(at + 2, s->end, &used);
	if (c == -1)
		return refuse(s, ERR_PARSE, at, "\\u without four hexadecimal digits");
	if (c == -2)
		return refuse(s, ERR_BAD_UTF8, at, "half of a surrogate pair");
	if (c == 0)
		return refuse(s, ERR_PARSE, at, "\\u0000 in a string");
	s->at += 2 + used;
	return 0;
}

static int scan_string(struct scan *s, struct json_span *ret)
{
	const char *from = s->at++;

	for (;;) {
		unsigned char c;
		size_t length;

		while (s->at < s->end && (unsigned char)*s->at >= 0x20 && (unsigned char)*s->at < 0x80 &&
			*s->at != '"' && *s->at != '\\')
			s->at++;
		if (s->at == s->end)
			return refuse(s, ERR_PARSE, s->at, "the text ends in a string");
		c = (unsigned char)*s->at;
		if (c == '"') {
			s->at++;
			*ret = (struct json_span){ from, (size_t)(s->at - from) };
			return 0;
		}
		if (c == '\\') {
			if (scan_escape(s) != 0)
				return -1;
			continue;
		}
		if (c < 0x20)
			return refuse(s, ERR_PARSE, s->at, "a raw control character in a string");
		length = utf8_sequence(s->at, (size_t)(s->end - s->at));
		if (length == 0)
			return refuse(s, ERR_BAD_UTF8, s->at, "bytes that aren't UTF-8");
		s->at += length;
	}
}

static size_t skip_digits(struct scan *s)
{
	const char *from = s->at;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
		s->at++;
	return (size_t)(s->at - from);
}

/* A number of the right form: is it one that every reader reads alike? */
static int check_number(struct scan *s, const char *from, bool is_integer)
{
	size_t size = (size_t)(s->at - from);
	char copy[LIMIT_JSON_NUMBER_BYTES + 1];

	if (size > LIMIT_JSON_NUMBER_BYTES)
		return refuse(s, ERR_BAD_NUMBER, from, "a number of too many digits");
	if (is_integer) {
		const char *digits = *from == '-' ? from + 1 : from;
		size_t n = (size_t)(s->at - digits);

		if (n > sizeof(largest) - 1 || (n == sizeof(largest) - 1 && memcmp(digits, largest, n) > 0))
			return refuse(s, ERR_BAD_NUMBER, from,
				"an integer beyond 2^53 (send it as a decimal string)");
		return 0;
	}
	memcpy(copy, from, size);
	copy[size] = '\0';
	if (isinf(strtod(copy, NULL)))
		return refuse(s, ERR_BAD_NUMBER, from, "a number that no double holds");
	return 0;
}

static int scan_number(struct scan *s)
{
	const char *from = s->at;
	bool is_integer = true;

	if (peek(s) == '-')
		s->at++;
	if (peek(s) == '0')
		s->at++;
	else if (skip_digits(s) == 0)
		return refuse_byte(s, "a digit");
	if (peek(s) == '.') {
		is_integer = false;
		s->at++;
		if (skip_digits(s) == 0)
			return refuse_byte(s, "a digit");
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		is_integer = false;
		s->at++;
		if (peek(s) == '+' || peek(s) == '-')
			s->at++;
		if (skip_digits(s) == 0)
			return refuse_byte(s, "a digit");
	}
	if (check_number(s, from, is_integer) == -1)
		return -1;
	s->want = WANT_MORE;
	return visit(s, is_integer ? JSON_INTEGER : JSON_NUMBER, from);
}

static int scan_word(struct scan *s, const char *word, enum json_event event)
{
	const char *from = s->at;
	size_t n = strlen(word);

	if ((size_t)(s->end - from) < n || memcmp(from, word, n) != 0)
		return refuse_byte(s, "a value");
	s->at += n;
	s->want = WANT_MORE;
	return visit(s, event, from);
}

/* ---- structure ---- */

static int open_level(struct scan *s, bool is_object)
{
	struct level *l;

	if (s->depth == s->most) {
		err_set(s->e, ERR_TOO_DEEP, "more than %zu levels at byte %zu", s->most,
			(size_t)(s->at - s->text));
		return refused_at(s, s->at);
	}
	l = &s->levels[s->depth++];
	l->is_object = is_object;
	l->number = is_object ? s->n_objects++ : 0;
	l->n_keys = 0;
	l->last = (struct json_span){ 0 };
	s->want = is_object ? WANT_FIRST_KEY : WANT_FIRST_ITEM;
	s->at++;
	return visit(s, is_object ? JSON_OBJECT_BEGIN : JSON_ARRAY_BEGIN, s->at - 1);
}

static int close_level(struct scan *s)
{
	bool is_object = s->levels[--s->depth].is_object;

	s->want = WANT_MORE;
	s->at++;
	return visit(s, is_object ? JSON_OBJECT_END : JSON_ARRAY_END, s->at - 1);
}

/* 1: new, 0: seen before, -1: no memory. */
static int note_key(struct scan *s, struct level *l, struct json_span key)
{
	if (l->n_keys < FEW_KEYS) {
		for (size_t i = 0; i < l->n_keys; i++)
			if (json_keys_equal(l->few[i], key))
				return 0;
		l->few[l->n_keys++] = key;
		return 1;
	}
	if (l->n_keys == FEW_KEYS) {
		for (size_t i = 0; i < FEW_KEYS; i++)
			if (json_keys_add(&s->keys, l->number, l->few[i]) == -1)
				return -1;
		l->n_keys++; /* now all are in the table */
	}
	return json_keys_add(&s->keys, l->number, key);
}

static int refuse_duplicate(struct scan *s, struct json_span key)
{
	char shown[64];

	show_key(shown, sizeof(shown), key);
	err_set(s->e, ERR_DUPLICATE_KEY, "duplicate key \"%s\" at byte %zu", shown,
		(size_t)(key.at - s->text));
	return err_about(s->e, shown, key.at - s->text);
}

/* A key and its colon. */
static int scan_key(struct scan *s)
{
	struct level *l = &s->levels[s->depth - 1];
	struct json_span key = { 0 };
	int r;

	l->last = (struct json_span){ 0 };
	if (peek(s) != '"')
		return refuse_byte(s, "a key in quotes");
	if (scan_string(s, &key) == -1)
		return -1;
	r = note_key(s, l, key);
	if (r == 0)
		return refuse_duplicate(s, key);
	if (r == -1)
		return refuse(s, ERR_INTERNAL, key.at, "no memory for a key");
	l->last = key;
	r = visit(s, JSON_KEY, key.at);
	if (r != 0)
		return r;
	skip_space(s);
	if (peek(s) != ':')
		return refuse_byte(s, "':'");
	s->at++;
	s->want = WANT_VALUE;
	return 0;
}

static int scan_value(struct scan *s)
{
	struct json_span string;

	switch (peek(s)) {
	case '{':
		return open_level(s, true);
	case '[':
		return open_level(s, false);
	case '"':
		if (scan_string(s, &string) == -1)
			return -1;
		s->want = WANT_MORE;
		return visit(s, JSON_STRING, string.at);
	case 't':
		return scan_word(s, "true", JSON_TRUE);
	case 'f':
		return scan_word(s, "false", JSON_FALSE);
	case 'n':
		return scan_word(s, "null", JSON_NULL);
	default:
		if (peek(s) == '-' || (peek(s) >= '0' && peek(s) <= '9'))
			return scan_number(s);
		return refuse_byte(s, "a value");
	}
}

/* Behind an item of the innermost container. */
static int scan_more(struct scan *s)
{
	bool is_object = s->levels[s->depth - 1].is_object;

	if (peek(s) == (is_object ? '}' : ']'))
		return close_level(s);
	if (peek(s) != ',')
		return refuse_byte(s, is_object ? "',' or '}'" : "',' or ']'");
	s->at++;
	skip_space(s);
	if (is_object)
		return scan_key(s);
	s->want = WANT_VALUE;
	return 0;
}

static int scan_text(struct scan *s)
{
	int r = 0;

	while (r == 0) {
		skip_space(s);
		switch (s->want) {
		case WANT_VALUE:
			r = scan_value(s);
			break;
		case WANT_FIRST_KEY:
			r = peek(s) == '}' ? close_level(s) : scan_key(s);
			break;
		case WANT_FIRST_ITEM:
			r = peek(s) == ']' ? close_level(s) : scan_value(s);
			break;
		case WANT_MORE:
			if (s->depth == 0)
				return s->at == s->end ? 0 : refuse_byte(s, "the end");
			r = scan_more(s);
			break;
		}
	}
	return r;
}

static int walk(const char *text, size_t size, size_t most_levels, json_visit_fn *visit_fn, void *ctx, struct err *e)
{
	struct scan s; /* not cleared: a level is filled when it is opened */
	int r;

	if (size > UINT32_MAX) /* the key table counts in 32 bits */
		return err_set(e, ERR_LIMIT_EXCEEDED, "a JSON text of %zu bytes", size);
	s.text = s.at = text;
	s.end = text + size;
	s.want = WANT_VALUE;
	s.visit = visit_fn;
	s.ctx = ctx;
	s.e = e;
	s.n_objects = 0;
	s.depth = 0;
	s.most = most_levels;
	json_keys_init(&s.keys);
	r = scan_text(&s);
	json_keys_fini(&s.keys);
	return r;
}

int json_walk(const char *text, size_t size, json_visit_fn *visit_fn, void *ctx, struct err *e)
{
	return walk(text, size, LIMIT_JSON_DEPTH, visit_fn, ctx, e);
}

int json_check(const char *text, size_t size, struct err *e)
{
	return json_check_within(text, size, LIMIT_JSON_DEPTH, e);
}

int json_check_within(const char *text, size_t size, size_t most_levels, struct err *e)
{
	assert(most_levels <= LIMIT_JSON_DEPTH);
	return walk(text, size, most_levels, NULL, NULL, e);
}
