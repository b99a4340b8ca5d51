/* SPDX-License-Identifier: MIT
 *
 * A schema for people: flat, so that a struct used in many places is told once. */
#include <string.h>

#include "daemon/host/state/schema.h"
#include "proto/names.h"

static void out_bytes(const struct schema_field *f, struct json_out *o)
{
	struct buf b = BUF_INIT;

	base64_encode(&b, f->default_s, (size_t)f->default_i);
	if (b.failed)
		o->to->failed = true;
	json_out_object(o, "default");
	json_out_text_n(o, "$bytes", b.data != NULL ? b.data : "", b.size);
	json_out_object_end(o);
	buf_fini(&b);
}

static void out_default(const struct schema_field *f, struct json_out *o)
{
	switch ((enum schema_default)f->default_kind) {
	case SCHEMA_DEFAULT_NONE:
		return;
	case SCHEMA_DEFAULT_INT:
		if (f->kind == SBX_K_BOOL)
			json_out_bool(o, "default", f->default_i != 0);
		else
			json_out_i64(o, "default", f->default_i);
		return;
	case SCHEMA_DEFAULT_UINT:
		json_out_u64(o, "default", (uint64_t)f->default_i);
		return;
	case SCHEMA_DEFAULT_BYTES:
		out_bytes(f, o);
		return;
	case SCHEMA_DEFAULT_FLOAT:
		json_out_f64(o, "default", f->default_f);
		return;
	case SCHEMA_DEFAULT_TEXT:
		json_out_text(o, "default", f->default_s);
		return;
	}
}

static void out_field(const struct schema *s, const struct schema_field *f, struct json_out *o)
{
	char kind[LIMIT_FUNCTION_BYTES + 40];

	field_kind_text(s, f, kind, sizeof kind);
	json_out_object(o, NULL);
	json_out_text(o, "name", f->name.text);
	json_out_text(o, "kind", kind);
	if (f->optional)
		json_out_bool(o, "optional", true);
	out_default(f, o);
	if (f->has_range) {
		json_out_array(o, "range");
		json_out_i64(o, NULL, f->lo);
		json_out_i64(o, NULL, f->hi);
		json_out_array_end(o);
	}
	if (f->n_was > 0) {
		json_out_array(o, "was");
		for (uint32_t i = 0; i < f->n_was; i++)
			json_out_text(o, NULL, f->was[i].text);
		json_out_array_end(o);
	}
	json_out_object_end(o);
}

static void out_fields(const struct schema *s, uint32_t index, struct json_out *o, const char *key)
{
	json_out_array(o, key);
	for (uint32_t i = 0; i < s->structs[index].n_fields; i++)
		out_field(s, &s->structs[index].fields[i], o);
	json_out_array_end(o);
}

void schema_json(const struct schema *s, struct json_out *o)
{
	out_fields(s, 0, o, "state");
	json_out_array(o, "structs");
	for (uint32_t i = 1; i < s->n_structs; i++) {
		json_out_object(o, NULL);
		json_out_text(o, "name", s->structs[i].name.text);
		out_fields(s, i, o, "fields");
		json_out_object_end(o);
	}
	json_out_array_end(o);
}
