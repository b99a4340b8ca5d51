/* SPDX-License-Identifier: MIT
 *
 * Puts a struct's defaults into zeroed memory, also those of the structs that it contains by value. */
#include <string.h>

#include "daemon/host/module/map.h"
#include "daemon/host/state/schema.h"

static void set_int(const struct schema_field *f, uint8_t *at)
{
	uint64_t bits = (uint64_t)f->default_i; /* little endian: the low bytes of any width */

	memcpy(at, &bits, kind_size(f->kind));
}

static void set_float(const struct schema_field *f, uint8_t *at)
{
	double f64 = f->default_kind == SCHEMA_DEFAULT_INT ? (double)f->default_i : f->default_f;
	float f32 = (float)f64;

	if (f->kind == SBX_K_F32)
		memcpy(at, &f32, sizeof f32);
	else
		memcpy(at, &f64, sizeof f64);
}

static int set_text(const struct schema_field *f, uint8_t *at, struct arena *a, struct err *e)
{
	size_t n = strlen(f->default_s) + 1;
	char *copy;

	if (f->kind == SBX_K_CHARS) {
		memcpy(at, f->default_s, n); /* checked when the schema was read: it fits */
		return 0;
	}
	copy = arena_alloc(a, n);
	if (copy == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the default of %s", f->name.text);
	memcpy(copy, f->default_s, n);
	memcpy(at, &copy, sizeof copy);
	return 0;
}

static int set_bytes(const struct schema_field *f, uint8_t *at, struct arena *a, struct err *e)
{
	struct sbx_bytes b = { NULL, (uint64_t)f->default_i };

	if (b.size == 0)
		return 0;
	b.data = arena_alloc(a, b.size);
	if (b.data == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the default of %s", f->name.text);
	memcpy(b.data, f->default_s, b.size);
	memcpy(at, &b, sizeof b);
	return 0;
}

static int set_map(const struct schema *s, const struct schema_field *f, uint8_t *at, struct arena *a, struct err *e)
{
	uint32_t align = f->elem == SBX_K_STRUCT ? s->structs[f->type].align : 8;
	struct sbx_map *m = map_new(a, f->elem_size, align, f->elem, f->type);

	if (m == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the map %s", f->name.text);
	memcpy(at, &m, sizeof m);
	return 0;
}

static int set_field(const struct schema *s, const struct schema_field *f, uint8_t *at, struct arena *a, struct err *e)
{
	switch ((enum schema_default)f->default_kind) {
	case SCHEMA_DEFAULT_TEXT:
		return set_text(f, at, a, e);
	case SCHEMA_DEFAULT_BYTES:
		return set_bytes(f, at, a, e);
	case SCHEMA_DEFAULT_INT:
	case SCHEMA_DEFAULT_UINT:
	case SCHEMA_DEFAULT_FLOAT:
		if (kind_is_float(f->kind))
			set_float(f, at);
		else
			set_int(f, at);
		return 0;
	case SCHEMA_DEFAULT_NONE:
		break;
	}
	if (f->kind == SBX_K_MAP)
		return set_map(s, f, at, a, e);
	if (f->kind == SBX_K_STRUCT)
		return schema_set_defaults(s, f->type, at, a, e);
	for (uint64_t i = 0; f->kind == SBX_K_FIXED && f->elem == SBX_K_STRUCT && i < f->n; i++)
		if (schema_set_defaults(s, f->type, at + i * f->elem_size, a, e) != 0)
			return -1;
	return 0;
}

int schema_set_defaults(const struct schema *s, uint32_t index, void *at, struct arena *a, struct err *e)
{
	const struct schema_struct *st = &s->structs[index];

	for (uint32_t i = 0; st->has_defaults && i < st->n_fields; i++)
		if (set_field(s, &st->fields[i], (uint8_t *)at + st->fields[i].offset, a, e) != 0)
			return -1;
	return 0;
}
