/* SPDX-License-Identifier: MIT
 *
 * The table of kinds: sizes, families, and how a field's kind reads in messages. */
#include "daemon/host/state/schema.h"

#include <stdio.h>

const struct kind_row kind_rows[KIND_ROWS] = {
	[SBX_K_BOOL] = { "bool", sizeof(bool), 'b' },
	[SBX_K_I8] = { "i8", 1, 'i' }, [SBX_K_I16] = { "i16", 2, 'i' }, [SBX_K_I32] = { "i32", 4, 'i' }, [SBX_K_I64] = { "i64", 8, 'i' },
	[SBX_K_U8] = { "u8", 1, 'u' }, [SBX_K_U16] = { "u16", 2, 'u' }, [SBX_K_U32] = { "u32", 4, 'u' }, [SBX_K_U64] = { "u64", 8, 'u' },
	[SBX_K_F32] = { "f32", 4, 'f' }, [SBX_K_F64] = { "f64", 8, 'f' },
	[SBX_K_CHARS] = { "char", 0, 'c' },
	[SBX_K_STR] = { "str", sizeof(char *), 's' },
	[SBX_K_BYTES] = { "bytes", sizeof(struct sbx_bytes), 'y' },
	[SBX_K_STRUCT] = { "struct", 0, 'S' },
	[SBX_K_FIXED] = { "fixed", 0, 'a' },
	[SBX_K_ARRAY] = { "array", sizeof(void *), 'a' },
	[SBX_K_MAP] = { "map", sizeof(void *), 'm' },
};

void field_kind_text(const struct schema *s, const struct schema_field *f, char *to, uint32_t to_bytes)
{
	unsigned kind = kind_has_elem(f->kind) ? f->elem : f->kind;
	bool is_struct = kind == SBX_K_STRUCT && f->type < s->n_structs;
	const char *prefix = is_struct ? "struct " : "", *text = is_struct ? s->structs[f->type].name.text : kind_rows[kind & (KIND_ROWS - 1)].text;

	if (f->kind == SBX_K_MAP)
		snprintf(to, to_bytes, "map of %s%s", prefix, text);
	else if (f->kind == SBX_K_FIXED || f->kind == SBX_K_CHARS)
		snprintf(to, to_bytes, "%s%s[%llu]", prefix, text, (unsigned long long)f->n);
	else
		snprintf(to, to_bytes, "%s%s%s", prefix, text, f->kind == SBX_K_ARRAY ? "[]" : "");
}
