/* SPDX-License-Identifier: MIT
 *
 * Looks at the bytes of a struct: none may belong to two fields, and none may be forgotten. A forgotten member would be
 * lost silently at the next reload, so it refuses the module. Padding is what alignment explains, and nothing else. */
#include <stdlib.h>

#include "daemon/host/state/schema.h"

struct range {
	uint32_t begin, end, align;
	const char *name, *part; /* part: "", " (its counter)", " (its SBX_PRESENT)" */
};

static uint32_t kind_align(const struct schema *s, const struct schema_field *f)
{
	unsigned kind = f->kind == SBX_K_FIXED ? f->elem : f->kind;

	if (kind == SBX_K_CHARS)
		return 1;
	if (kind == SBX_K_STRUCT)
		return s->structs[f->type].align;
	return kind == SBX_K_BYTES ? (uint32_t)_Alignof(struct sbx_bytes) : kind_size(kind);
}

/* A skipped member's type is unknown: the largest alignment that its place and size allow. */
static uint32_t skip_align(uint32_t offset, uint32_t size)
{
	uint32_t bits = offset | size | 16;

	return bits & -bits;
}

static int range_compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static uint32_t align_up(uint32_t at, uint32_t align)
{
	return align <= 1 ? at : (uint32_t)(((uint64_t)at + align - 1) / align * align);
}

static int undeclared(const struct schema_struct *st, uint32_t at, uint32_t n, struct err *e)
{
	return err_set(e, ERR_BAD_MODULE, "%u byte%s at offset %u of struct %s %s declared: add SBX_FIELD or SBX_SKIP", n,
		n == 1 ? "" : "s", at, st->name.text, n == 1 ? "isn't" : "aren't");
}

static int check_ranges(struct schema_struct *st, struct range *ranges, uint32_t n, struct err *e)
{
	uint32_t at = 0, tail;

	qsort(ranges, n, sizeof *ranges, range_compare);
	for (uint32_t i = 0; i < n; i++) {
		if (ranges[i].begin < at)
			return err_set(e, ERR_BAD_MODULE, "%s%s and %s%s of struct %s overlap at offset %u", ranges[i - 1].name,
				ranges[i - 1].part, ranges[i].name, ranges[i].part, st->name.text, ranges[i].begin);
		if (ranges[i].begin > at && ranges[i].begin != align_up(at, ranges[i].align))
			return undeclared(st, at, ranges[i].begin - at, e);
		at = ranges[i].end;
		if (ranges[i].align > st->align)
			st->align = ranges[i].align;
	}
	tail = st->size - at;
	return tail > 0 && st->size != align_up(at, st->align) ? undeclared(st, at, tail, e) : 0;
}

int schema_check_layout(struct schema *s, uint32_t index, const struct schema_skip *skips, uint32_t n_skips, struct err *e)
{
	struct schema_struct *st = &s->structs[index];
	struct range *ranges = calloc((size_t)st->n_fields * 3 + n_skips + 1, sizeof *ranges);
	uint32_t n = 0;
	int r;

	if (ranges == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the tables of a module");
	for (uint32_t i = 0; i < st->n_fields; i++) {
		const struct schema_field *f = &st->fields[i];

		ranges[n++] = (struct range){ f->offset, f->offset + f->size, kind_align(s, f), f->name.text, "" };
		if (f->kind == SBX_K_ARRAY)
			ranges[n++] = (struct range){ f->count_offset, f->count_offset + kind_size(f->count_kind),
				kind_size(f->count_kind), f->name.text, " (its counter)" };
		if (f->optional)
			ranges[n++] = (struct range){ f->present_offset, f->present_offset + (uint32_t)sizeof(bool),
				(uint32_t)_Alignof(bool), f->name.text, " (its SBX_PRESENT)" };
	}
	for (uint32_t i = 0; i < n_skips; i++)
		if (skips[i].size > 0)
			ranges[n++] = (struct range){ skips[i].offset, skips[i].offset + skips[i].size,
				skip_align(skips[i].offset, skips[i].size), skips[i].name, "" };
	st->align = 1;
	r = check_ranges(st, ranges, n, e);
	free(ranges);
	return r;
}
