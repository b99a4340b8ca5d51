/* SPDX-License-Identifier: MIT
 *
 * Reads a module's state tables. They lie in hostile memory: each row is copied before it is looked at, every number is
 * bounded, every text copied; after schema_read nothing points into the object. Structs are found depth first and known
 * by their table's address, so that one used twice is read once. */
#include "daemon/host/state/schema.h"

#include <stdlib.h>
#include <string.h>

#include "proto/names.h"

#define ROOM_FIRST 4 /* structs */

struct reading {
	struct schema *s;
	const struct sbx_schema *from[LIMIT_SCHEMAS];
	bool open[LIMIT_SCHEMAS];
	uint32_t room;      /* of s->structs; the table moves when it grows */
	uint32_t total_fields;
	struct err *e;
};

/* One struct while its rows are read. */
struct struct_reading {
	struct reading *all;
	const char *name;
	struct schema_field *fields;
	uint32_t n_fields, size;
	struct schema_skip *skips;
	struct schema_name *skip_names;
	uint32_t n_skips;
	bool ignoring;      /* the row before was one that we may ignore */
	bool after_field;   /* modifiers are welcome */
};

static int read_struct(struct reading *r, sbx_schema_fn *fn, unsigned depth, uint32_t *ret);

void schema_free(struct schema *s)
{
	if (s == NULL)
		return;
	for (uint32_t i = 0; i < s->n_structs; i++) {
		for (uint32_t f = 0; f < s->structs[i].n_fields; f++) {
			free(s->structs[i].fields[f].was);
			free(s->structs[i].fields[f].default_s);
		}
		free(s->structs[i].fields);
	}
	free(s->structs);
	free(s);
}

static int no_memory(struct err *e)
{
	return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the tables of a module");
}

static int name_copy(struct schema_name *to, const char *from)
{
	size_t n = from != NULL ? strnlen(from, sizeof to->text) : 0;

	if (n == sizeof to->text)
		return -1;
	memset(to, 0, sizeof *to);
	if (n > 0)
		memcpy(to->text, from, n);
	return name_is_function(to->text, n) ? 0 : -1;
}

/* ---- one row: a field ---- */

static int field_bad(const struct struct_reading *sr, const struct schema_field *f, const char *why)
{
	err_set(sr->all->e, ERR_BAD_MODULE, "field %s of struct %s: %s", f->name.text, sr->name, why);
	return err_about(sr->all->e, f->name.text, -1);
}

static int field_sizes(const struct struct_reading *sr, struct schema_field *f, const struct sbx_field *row)
{
	unsigned simple = kind_has_elem(f->kind) ? f->elem : f->kind;
	uint32_t simple_size = simple == f->kind ? row->size : row->elem_size;
	const struct schema *s = sr->all->s;

	if (simple == SBX_K_STRUCT ? simple_size != s->structs[f->type].size
	    : simple == SBX_K_CHARS ? simple_size == 0 : simple_size != kind_size(simple))
		return field_bad(sr, f, "its size isn't that of its kind");
	if (row->offset > sr->size || row->size > sr->size - row->offset)
		return field_bad(sr, f, "it lies outside the struct");
	if (f->kind == SBX_K_FIXED && (row->size == 0 || row->elem_size == 0 || row->size % row->elem_size != 0))
		return field_bad(sr, f, "its size isn't a multiple of its items' size");
	if (f->kind == SBX_K_ARRAY && row->size != sizeof(void *))
		return field_bad(sr, f, "an array is a pointer and a counter");
	if (f->kind == SBX_K_MAP && row->size != sizeof(void *))
		return field_bad(sr, f, "a map is a pointer");
	if (f->kind == SBX_K_ARRAY && f->elem == SBX_K_STRUCT && s->structs[f->type].has_map)
		return field_bad(sr, f, "items of an array can't contain a map: make it a map of structs");
	if (f->kind == SBX_K_ARRAY && !kind_is_int(row->count_kind))
		return field_bad(sr, f, "its counter isn't an integer");
	if (f->kind == SBX_K_ARRAY && (row->count_offset > sr->size || kind_size(row->count_kind) > sr->size - row->count_offset))
		return field_bad(sr, f, "its counter lies outside the struct");
	f->offset = row->offset;
	f->size = row->size;
	f->elem_size = row->elem_size;
	f->count_offset = row->count_offset;
	f->count_kind = (uint8_t)row->count_kind;
	f->n = f->kind == SBX_K_FIXED && row->elem_size != 0 ? row->size / row->elem_size : f->kind == SBX_K_CHARS ? row->size : 0;
	return 0;
}

static int read_field(struct struct_reading *sr, const struct sbx_field *row, unsigned depth)
{
	struct reading *r = sr->all;
	struct schema_field *f = &sr->fields[sr->n_fields];
	bool sequence = kind_has_elem(row->kind);
	bool of_structs = row->kind == SBX_K_STRUCT || (sequence && row->elem == SBX_K_STRUCT);

	if (name_copy(&f->name, row->name) != 0)
		return err_set(r->e, ERR_BAD_MODULE, "a field of struct %s has no name that is a C identifier of at most %d bytes",
			sr->name, LIMIT_FUNCTION_BYTES);
	sr->n_fields++;
	sr->after_field = true;
	f->kind = (uint8_t)row->kind;
	f->elem = (uint8_t)row->elem;
	f->type = SCHEMA_NO_STRUCT;
	if (sequence ? !kind_is_elem(row->elem) : row->elem != 0)
		return field_bad(sr, f, sequence ? "an array or map can't hold items of this kind" : "only arrays and maps have an item kind");
	if (of_structs != (row->type != NULL))
		return field_bad(sr, f, of_structs ? "the struct's own table is missing" : "a table for something that is no struct");
	if (of_structs && read_struct(r, row->type, depth + 1, &f->type) != 0)
		return -1;
	return field_sizes(sr, f, row);
}

/* ---- one row: a modifier ---- */

static int read_default_bytes(struct struct_reading *sr, struct schema_field *f, const struct sbx_field *row)
{
	if (f->kind != SBX_K_BYTES)
		return field_bad(sr, f, "SBX_DEFAULT_B is for struct sbx_bytes");
	if (row->s == NULL || row->lo < 0 || row->lo >= LIMIT_ROW_BYTES)
		return field_bad(sr, f, "its default bytes are too many, or missing");
	f->default_kind = SCHEMA_DEFAULT_BYTES;
	f->default_i = row->lo;
	f->default_s = malloc((size_t)row->lo + 1);
	if (f->default_s == NULL)
		return no_memory(sr->all->e);
	memcpy(f->default_s, row->s, (size_t)row->lo);
	return 0;
}

static int read_default(struct struct_reading *sr, struct schema_field *f, const struct sbx_field *row)
{
	size_t n;

	if (f->default_kind != SCHEMA_DEFAULT_NONE)
		return field_bad(sr, f, "it has two defaults");
	if (row->kind == SBX_M_DEFAULT_I) {
		f->default_kind = SCHEMA_DEFAULT_INT;
		f->default_i = row->lo;
		return kind_is_number(f->kind) || f->kind == SBX_K_BOOL ? 0 : field_bad(sr, f, "SBX_DEFAULT is for numbers and bools");
	}
	if (row->kind == SBX_M_DEFAULT_U) {
		f->default_kind = SCHEMA_DEFAULT_UINT;
		f->default_i = row->lo;
		return f->kind == SBX_K_U64 ? 0 : field_bad(sr, f, "SBX_DEFAULT_U is for uint64_t");
	}
	if (row->kind == SBX_M_DEFAULT_B)
		return read_default_bytes(sr, f, row);
	if (row->kind == SBX_M_DEFAULT_F) {
		f->default_kind = SCHEMA_DEFAULT_FLOAT;
		f->default_f = row->f;
		return kind_is_float(f->kind) ? 0 : field_bad(sr, f, "SBX_DEFAULT_F is for floats");
	}
	if (f->kind != SBX_K_CHARS && f->kind != SBX_K_STR)
		return field_bad(sr, f, "SBX_DEFAULT_S is for texts");
	n = row->s != NULL ? strnlen(row->s, LIMIT_ROW_BYTES) : LIMIT_ROW_BYTES;
	if (n == LIMIT_ROW_BYTES || (f->kind == SBX_K_CHARS && n >= f->n))
		return field_bad(sr, f, "its default text is too long, or missing");
	f->default_kind = SCHEMA_DEFAULT_TEXT;
	f->default_s = strndup(row->s, n);
	return f->default_s != NULL ? 0 : no_memory(sr->all->e);
}

static int read_alias(struct struct_reading *sr, struct schema_field *f, const struct sbx_field *row)
{
	struct schema_name *grown;

	if (f->n_was == LIMIT_ALIASES)
		return field_bad(sr, f, "it has too many SBX_WAS");
	grown = realloc(f->was, (f->n_was + 1) * sizeof *grown);
	if (grown == NULL)
		return no_memory(sr->all->e);
	f->was = grown;
	return name_copy(&f->was[f->n_was++], row->s) == 0 ? 0 : field_bad(sr, f, "SBX_WAS isn't given a C identifier");
}

static int read_present(struct struct_reading *sr, struct schema_field *f, const struct sbx_field *row)
{
	if (f->optional)
		return field_bad(sr, f, "it has two SBX_PRESENT");
	if (row->size != sizeof(bool) || row->offset >= sr->size)
		return field_bad(sr, f, "SBX_PRESENT doesn't name a bool of the struct");
	f->optional = true;
	f->present_offset = row->offset;
	return 0;
}

static int read_modifier(struct struct_reading *sr, const struct sbx_field *row)
{
	struct schema_field *f = sr->n_fields > 0 && sr->after_field ? &sr->fields[sr->n_fields - 1] : NULL;

	if (f == NULL)
		return err_set(sr->all->e, ERR_BAD_MODULE, "a row of struct %s says more about a field, but follows none", sr->name);
	switch ((enum sbx_kind)row->kind) {
	case SBX_M_DEFAULT_I:
	case SBX_M_DEFAULT_F:
	case SBX_M_DEFAULT_S:
	case SBX_M_DEFAULT_U:
	case SBX_M_DEFAULT_B:
		return read_default(sr, f, row);
	case SBX_M_WAS:
		return read_alias(sr, f, row);
	case SBX_M_PRESENT:
		return read_present(sr, f, row);
	case SBX_M_RANGE:
		if (f->has_range || !kind_is_number(f->kind) || row->lo > row->hi)
			return field_bad(sr, f, "SBX_RANGE is for one number, once, with the lower bound first");
		f->has_range = true;
		f->lo = row->lo;
		f->hi = row->hi;
		return 0;
	default: /* what a newer header knows */
		return field_bad(sr, f, "it is qualified by a row that this host doesn't know");
	}
}

static int read_skip(struct struct_reading *sr, const struct sbx_field *row)
{
	struct schema_name *name = &sr->skip_names[sr->n_skips];

	if (name_copy(name, row->name) != 0)
		*name = (struct schema_name){ "?" };
	if (row->offset > sr->size || row->size > sr->size - row->offset)
		return err_set(sr->all->e, ERR_BAD_MODULE, "member %s lies outside struct %s", name->text, sr->name);
	sr->skips[sr->n_skips++] = (struct schema_skip){ row->offset, row->size, name->text };
	return 0;
}

static int read_row(struct struct_reading *sr, const struct sbx_field *row, unsigned depth)
{
	unsigned bare = row->kind & ~(unsigned)SBX_MAY_IGNORE;

	if (row->kind <= UINT8_MAX && (row->kind & SBX_MAY_IGNORE) != 0) {
		/* A field of a later version: its bytes are as good as skipped; its modifiers go with it. */
		if (bare >= SBX_K_MODIFIER)
			return 0;
		sr->after_field = false;
		sr->ignoring = true;
		return row->size > 0 ? read_skip(sr, row) : 0;
	}
	if (row->kind == SBX_M_SKIP) {
		sr->after_field = sr->ignoring = false;
		return read_skip(sr, row);
	}
	if (row->kind >= SBX_K_MODIFIER)
		return sr->ignoring ? 0 : read_modifier(sr, row);
	sr->ignoring = false;
	if (row->kind == SBX_K_END || row->kind > SBX_K_MAP)
		return err_set(sr->all->e, ERR_BAD_MODULE, "struct %s has a field of kind %u, which this host doesn't know", sr->name,
			(unsigned)row->kind);
	return read_field(sr, row, depth);
}

/* ---- checks once all rows are there ---- */

static bool int_fits(int64_t v, unsigned kind)
{
	unsigned bits = 8 * kind_size(kind);

	if (kind == SBX_K_BOOL)
		return v == 0 || v == 1;
	if (!kind_is_signed(kind))
		return v >= 0 && (bits == 64 || (uint64_t)v >> bits == 0);
	return bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1));
}

static int check_default(struct struct_reading *sr, const struct schema_field *f)
{
	double v = f->default_kind == SCHEMA_DEFAULT_INT ? (double)f->default_i : f->default_f;

	if (f->default_kind == SCHEMA_DEFAULT_NONE) {
		if (f->has_range && !f->optional && (f->lo > 0 || f->hi < 0))
			return field_bad(sr, f, "it starts as 0, which isn't in its range: add SBX_DEFAULT");
		return 0;
	}
	if (f->optional)
		return field_bad(sr, f, "it is either optional or has a default");
	if (f->default_kind == SCHEMA_DEFAULT_INT && !kind_is_float(f->kind) && !int_fits(f->default_i, f->kind))
		return field_bad(sr, f, "its default doesn't fit its kind");
	if (!f->has_range)
		return 0;
	if (f->default_kind == SCHEMA_DEFAULT_UINT && f->default_i < 0) /* beyond INT64_MAX, and so beyond any range */
		return field_bad(sr, f, "its default isn't in its range");
	if (kind_is_float(f->kind) ? !(v >= (double)f->lo && v <= (double)f->hi) : f->default_i < f->lo || f->default_i > f->hi)
		return field_bad(sr, f, "its default isn't in its range");
	return 0;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names and aliases are one namespace: a blob must find exactly one field. */
static int check_names(struct struct_reading *sr)
{
	const char **names = calloc((size_t)sr->n_fields * (1 + LIMIT_ALIASES) + 1, sizeof *names);
	size_t n = 0;
	int r = 0;

	if (names == NULL)
		return no_memory(sr->all->e);
	for (uint32_t i = 0; i < sr->n_fields; i++) {
		names[n++] = sr->fields[i].name.text;
		for (uint32_t w = 0; w < sr->fields[i].n_was; w++)
			names[n++] = sr->fields[i].was[w].text;
	}
	qsort(names, n, sizeof *names, name_compare);
	for (size_t i = 1; r == 0 && i < n; i++)
		if (strcmp(names[i - 1], names[i]) == 0) {
			err_set(sr->all->e, ERR_BAD_MODULE, "the name %s is declared twice in struct %s (as a field or by SBX_WAS)",
				names[i], sr->name);
			r = err_about(sr->all->e, names[i], -1);
		}
	free(names);
	return r;
}

static bool has_defaults(const struct schema *s, const struct schema_struct *st)
{
	for (uint32_t i = 0; i < st->n_fields; i++) {
		const struct schema_field *f = &st->fields[i];
		bool by_value = f->kind == SBX_K_STRUCT || (f->kind == SBX_K_FIXED && f->elem == SBX_K_STRUCT);

		if (f->default_kind != SCHEMA_DEFAULT_NONE || f->kind == SBX_K_MAP || (by_value && s->structs[f->type].has_defaults))
			return true;
	}
	return false;
}

static bool has_map(const struct schema *s, const struct schema_struct *st)
{
	for (uint32_t i = 0; i < st->n_fields; i++) {
		const struct schema_field *f = &st->fields[i];

		if (f->kind == SBX_K_MAP || ((f->kind == SBX_K_STRUCT || f->kind == SBX_K_FIXED) && f->type != SCHEMA_NO_STRUCT &&
			s->structs[f->type].has_map))
			return true;
	}
	return false;
}

/* ---- a struct ---- */

static int read_rows(struct struct_reading *sr, const struct sbx_schema *head, uint32_t index, unsigned depth)
{
	struct schema *s = sr->all->s;
	struct sbx_field row;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < head->n_fields; i++) {
		memcpy(&row, (const char *)head->fields + (size_t)i * head->field_size, sizeof row);
		r = read_row(sr, &row, depth);
		s->structs[index].n_fields = sr->n_fields; /* what schema_free frees; the table may have moved */
	}
	for (uint32_t i = 0; r == 0 && i < sr->n_fields; i++)
		r = check_default(sr, &sr->fields[i]);
	if (r == 0)
		r = check_names(sr);
	if (r == 0)
		r = schema_check_layout(s, index, sr->skips, sr->n_skips, sr->all->e);
	if (r == 0)
		s->structs[index].has_defaults = has_defaults(s, &s->structs[index]);
	if (r == 0)
		s->structs[index].has_map = has_map(s, &s->structs[index]);
	return r;
}

static int read_head(struct reading *r, const struct sbx_schema *from, struct sbx_schema *head, struct schema_name *name)
{
	if (from == NULL)
		return err_set(r->e, ERR_BAD_MODULE, "a struct's table is missing");
	memcpy(head, from, sizeof *head);
	if (name_copy(name, head->name) != 0)
		return err_set(r->e, ERR_BAD_MODULE, "a struct of the state has no name that is a C identifier");
	if (head->schema_size < sizeof *head || head->schema_size > LIMIT_ROW_BYTES || head->field_size < sizeof(struct sbx_field) ||
		head->field_size > LIMIT_ROW_BYTES || head->field_size % 8 != 0)
		return err_set(r->e, ERR_BAD_MODULE, "the table of struct %s has rows of %u bytes; this host knows %zu", name->text,
			head->field_size, sizeof(struct sbx_field));
	if (head->n_fields > LIMIT_FIELDS)
		return err_set(r->e, ERR_BAD_MODULE, "struct %s has %u rows; at most %d are taken", name->text, head->n_fields, LIMIT_FIELDS);
	if (head->size == 0 || (head->n_fields > 0 && head->fields == NULL))
		return err_set(r->e, ERR_BAD_MODULE, "struct %s is empty", name->text);
	r->total_fields += head->n_fields;
	if (r->total_fields > LIMIT_STATE_FIELDS)
		return err_set(r->e, ERR_BAD_MODULE, "the state has more than %d fields in all", LIMIT_STATE_FIELDS);
	return 0;
}

static int find_known(struct reading *r, const struct sbx_schema *from, uint32_t *ret)
{
	for (uint32_t i = 0; i < r->s->n_structs; i++)
		if (r->from[i] == from) {
			*ret = i;
			if (!r->open[i])
				return 1;
			return err_set(r->e, ERR_BAD_MODULE, "struct %s contains itself", r->s->structs[i].name.text);
		}
	return 0;
}

/* For one more struct. The table grows with them: most modules have a few, and what lies behind it is there to stay. */
static int room_make(struct reading *r)
{
	uint32_t room = r->room == 0 ? ROOM_FIRST : 2 * r->room;
	struct schema_struct *more;

	if (r->s->n_structs < r->room)
		return 0;
	more = realloc(r->s->structs, room * sizeof *more);
	if (more == NULL)
		return -1;
	memset(more + r->room, 0, (room - r->room) * sizeof *more);
	r->s->structs = more;
	r->room = room;
	return 0;
}

static int read_struct(struct reading *r, sbx_schema_fn *fn, unsigned depth, uint32_t *ret)
{
	const struct sbx_schema *from = fn();
	struct struct_reading sr = { .all = r };
	struct schema_struct *st;
	struct sbx_schema head = { 0 };
	struct schema_name name;
	int known = find_known(r, from, ret);

	if (known != 0)
		return known < 0 ? -1 : 0;
	if (r->s->n_structs == LIMIT_SCHEMAS || depth >= LIMIT_SCHEMA_DEPTH)
		return err_set(r->e, ERR_BAD_MODULE, "the state has more than %d structs, or nests deeper than %d", LIMIT_SCHEMAS,
			LIMIT_SCHEMA_DEPTH);
	if (room_make(r) != 0)
		return no_memory(r->e);
	st = &r->s->structs[r->s->n_structs];
	if (read_head(r, from, &head, &st->name) != 0)
		return -1;
	*ret = r->s->n_structs++;
	r->from[*ret] = from;
	r->open[*ret] = true;
	name = st->name;
	sr.name = name.text;
	st->size = sr.size = head.size;
	st->fields = sr.fields = calloc(head.n_fields + 1u, sizeof *sr.fields);
	sr.skips = calloc(head.n_fields + 1u, sizeof *sr.skips);
	sr.skip_names = calloc(head.n_fields + 1u, sizeof *sr.skip_names);
	if (sr.fields == NULL || sr.skips == NULL || sr.skip_names == NULL)
		known = no_memory(r->e);
	else
		known = read_rows(&sr, &head, *ret, depth);
	free(sr.skips);
	free(sr.skip_names);
	r->open[*ret] = false;
	return known;
}

int schema_read(sbx_schema_fn *root, struct schema **ret, struct err *e)
{
	struct reading r = { .e = e };
	struct schema_struct *shrunk;
	uint32_t index = 0;
	int result = -1;

	r.s = calloc(1, sizeof *r.s);
	if (r.s == NULL || room_make(&r) != 0) {
		free(r.s);
		return no_memory(e);
	}
	if (root != NULL) {
		result = read_struct(&r, root, 0, &index);
		if (result == 0 && schema_find_cycle(r.s) >= 0) /* structs met twice, the second time deeper */
			result = err_set(e, ERR_BAD_MODULE, "the state's structs nest deeper than %d", LIMIT_SCHEMA_DEPTH);
	} else {
		r.s->structs[0].name = (struct schema_name){ "none" };
		r.s->n_structs = 1;
		result = 0;
	}
	if (result != 0) {
		schema_free(r.s);
		return -1;
	}
	shrunk = realloc(r.s->structs, r.s->n_structs * sizeof *shrunk);
	if (shrunk != NULL)
		r.s->structs = shrunk;
	*ret = r.s;
	return 0;
}
