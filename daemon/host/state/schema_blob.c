/* SPDX-License-Identifier: MIT
 *
 * A schema as it travels in front of the state: an array of structs [name, [fields]], the state itself first; a field is
 * [name, [aliases], kind, item kind, struct or null, n, optional]. Read back it may come from a compromised host: sizes,
 * kinds, indexes and nesting are checked before anything follows them. */
#include <stdlib.h>
#include <string.h>

#include "daemon/host/state/schema.h"
#include "proto/names.h"

enum { FIELD_MEMBERS = 7, STRUCT_MEMBERS = 2 };

/* ---- writing ---- */

static void put_name(struct cbor_writer *w, const struct schema_name *name)
{
	cbor_put_string(w, name->text, strlen(name->text));
}

static void put_field(struct cbor_writer *w, const struct schema_field *f)
{
	cbor_put_head(w, CBOR_ARRAY, FIELD_MEMBERS);
	put_name(w, &f->name);
	cbor_put_head(w, CBOR_ARRAY, f->n_was);
	for (uint32_t i = 0; i < f->n_was; i++)
		put_name(w, &f->was[i]);
	cbor_put_u64(w, f->kind);
	cbor_put_u64(w, f->elem);
	if (f->type == SCHEMA_NO_STRUCT)
		cbor_put_null(w);
	else
		cbor_put_u64(w, f->type);
	cbor_put_u64(w, f->n);
	cbor_put_bool(w, f->optional);
}

void schema_write(const struct schema *s, struct cbor_writer *w)
{
	cbor_put_head(w, CBOR_ARRAY, s->n_structs);
	for (uint32_t i = 0; i < s->n_structs; i++) {
		cbor_put_head(w, CBOR_ARRAY, STRUCT_MEMBERS);
		put_name(w, &s->structs[i].name);
		cbor_put_head(w, CBOR_ARRAY, s->structs[i].n_fields);
		for (uint32_t f = 0; f < s->structs[i].n_fields; f++)
			put_field(w, &s->structs[i].fields[f]);
	}
}

/* ---- reading ---- */

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_STATE_MISMATCH, "the saved state's schema is damaged: %s", what);
}

static int get_array(struct cbor_reader *r, uint64_t most, uint32_t *ret, struct err *e)
{
	struct cbor_head h;

	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_ARRAY || h.value > most || !cbor_length_possible(r, &h))
		return bad(e, "a list is missing or too long");
	*ret = (uint32_t)h.value;
	return 0;
}

static int get_u64(struct cbor_reader *r, uint64_t most, uint64_t *ret, struct err *e)
{
	struct cbor_head h;

	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_UINT || h.value > most)
		return bad(e, "a number is missing or too large");
	*ret = h.value;
	return 0;
}

static int get_name(struct cbor_reader *r, struct schema_name *ret, struct err *e)
{
	struct cbor_head h;
	const uint8_t *p;

	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_TEXT || (p = cbor_get_content(r, &h)) == NULL ||
		!name_is_function((const char *)p, (size_t)h.value))
		return bad(e, "a name is missing or none");
	memset(ret, 0, sizeof *ret);
	memcpy(ret->text, p, (size_t)h.value);
	return 0;
}

static int get_aliases(struct cbor_reader *r, struct schema_field *f, struct err *e)
{
	uint32_t n = 0;

	if (get_array(r, LIMIT_ALIASES, &n, e) != 0)
		return -1;
	if (n > 0 && (f->was = calloc(n, sizeof *f->was)) == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a schema");
	f->n_was = n;
	for (uint32_t i = 0; i < n; i++)
		if (get_name(r, &f->was[i], e) != 0)
			return -1;
	return 0;
}

static int get_struct_index(struct cbor_reader *r, uint32_t n_structs, uint32_t *ret, struct err *e)
{
	struct cbor_head h;

	if (cbor_get_head(r, &h) != 0)
		return bad(e, "it is cut");
	*ret = SCHEMA_NO_STRUCT;
	if (cbor_is_null(&h))
		return 0;
	if (h.major != CBOR_UINT || h.value >= n_structs)
		return bad(e, "a field names a struct that isn't there");
	*ret = (uint32_t)h.value;
	return 0;
}

static int get_field(struct cbor_reader *r, const struct schema *s, struct schema_field *f, struct err *e)
{
	uint64_t kind = 0, elem = 0, n = 0;
	struct cbor_head h;
	uint32_t members = 0;
	bool sequence, of_structs;

	if (get_array(r, FIELD_MEMBERS, &members, e) != 0 || get_name(r, &f->name, e) != 0 || get_aliases(r, f, e) != 0 ||
		get_u64(r, UINT8_MAX, &kind, e) != 0 || get_u64(r, UINT8_MAX, &elem, e) != 0 ||
		get_struct_index(r, s->n_structs, &f->type, e) != 0 || get_u64(r, UINT32_MAX, &n, e) != 0)
		return -1;
	if (members != FIELD_MEMBERS || cbor_get_head(r, &h) != 0 || h.major != CBOR_SIMPLE ||
		(h.info != CBOR_TRUE && h.info != CBOR_FALSE))
		return bad(e, "a field has not its seven members");
	sequence = kind_has_elem((unsigned)kind);
	of_structs = kind == SBX_K_STRUCT || (sequence && elem == SBX_K_STRUCT);
	if (!sequence && !kind_is_elem((unsigned)kind)) {
		err_set(e, ERR_STATE_MISMATCH, "field %s was saved as kind %u, which this host doesn't know", f->name.text,
			(unsigned)kind);
		return err_about(e, f->name.text, -1);
	}
	if (sequence ? !kind_is_elem((unsigned)elem) : elem != 0)
		return bad(e, "an item kind that can't be");
	if (of_structs != (f->type != SCHEMA_NO_STRUCT))
		return bad(e, "a struct is missing, or there is one too many");
	f->kind = (uint8_t)kind;
	f->elem = (uint8_t)elem;
	f->n = n;
	f->optional = h.info == CBOR_TRUE;
	return 0;
}

static int get_struct(struct cbor_reader *r, const struct schema *s, struct schema_struct *st, uint32_t *left, struct err *e)
{
	uint32_t members = 0, n = 0;

	if (get_array(r, STRUCT_MEMBERS, &members, e) != 0 || get_name(r, &st->name, e) != 0 ||
		get_array(r, LIMIT_FIELDS, &n, e) != 0)
		return -1;
	if (members != STRUCT_MEMBERS || n > *left)
		return bad(e, "a struct has not its two members, or there are too many fields");
	*left -= n;
	st->fields = calloc(n + 1u, sizeof *st->fields);
	if (st->fields == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a schema");
	for (uint32_t i = 0; i < n; i++) {
		st->n_fields = i + 1;
		if (get_field(r, s, &st->fields[i], e) != 0)
			return -1;
	}
	return 0;
}

int schema_parse(struct cbor_reader *r, struct schema **ret, struct err *e)
{
	struct schema *s = calloc(1, sizeof *s);
	uint32_t n = 0, left = LIMIT_STATE_FIELDS;
	int result = 0;

	if (s == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a schema");
	if (get_array(r, LIMIT_SCHEMAS, &n, e) != 0 || n == 0) {
		free(s);
		return bad(e, "its structs are missing");
	}
	s->structs = calloc(n, sizeof *s->structs);
	s->n_structs = s->structs != NULL ? n : 0;
	if (s->structs == NULL)
		result = err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a schema");
	for (uint32_t i = 0; result == 0 && i < n; i++)
		result = get_struct(r, s, &s->structs[i], &left, e);
	if (result == 0 && schema_find_cycle(s) >= 0)
		result = bad(e, "a struct contains itself, or they nest too deep");
	if (result != 0) {
		schema_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

/* heights[i]: 0 not yet known, -1 being looked at, else levels below and including it. */
static int height_of(const struct schema *s, int *heights, uint32_t index, unsigned depth)
{
	int most = 0, h;

	if (heights[index] != 0)
		return heights[index];
	if (depth >= LIMIT_SCHEMA_DEPTH)
		return -1;
	heights[index] = -1;
	for (uint32_t i = 0; i < s->structs[index].n_fields; i++) {
		if (s->structs[index].fields[i].type == SCHEMA_NO_STRUCT)
			continue;
		h = height_of(s, heights, s->structs[index].fields[i].type, depth + 1);
		if (h < 0)
			return -1;
		if (h > most)
			most = h;
	}
	if (most + 1 > LIMIT_SCHEMA_DEPTH)
		return -1;
	return heights[index] = most + 1;
}

int64_t schema_find_cycle(const struct schema *s)
{
	int heights[LIMIT_SCHEMAS] = { 0 };

	for (uint32_t i = 0; i < s->n_structs; i++)
		if (height_of(s, heights, i, 0) < 0)
			return i;
	return -1;
}
