/* SPDX-License-Identifier: MIT
 *
 * The plan. Fields are matched by name, then by alias, in both directions: the new code knows what a field was called, and
 * the blob of newer code knows it for the way back. Whether kinds go together is the table below; whether the values do
 * is seen when they are read. One plan per pair of structs, told in the report under the first path that needs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/state/path.h"
#include "daemon/host/state/state.h"

struct planning {
	struct plan *p;
	struct state_report *report;
	struct err *e;
};

static int plan_pair(struct planning *g, uint32_t old_struct, uint32_t new_struct, const struct path *path, uint32_t *ret);

/* ---- kinds ---- */

enum carry { CARRY_SAME, CARRY_WIDER, CARRY_NARROWER, CARRY_CONVERTED, CARRY_NEVER };

static enum carry carry_number(unsigned from, unsigned to)
{
	if (kind_is_float(from) && kind_is_float(to))
		return to == SBX_K_F64 ? CARRY_WIDER : CARRY_NARROWER;
	if (kind_is_float(from) || kind_is_float(to))
		return CARRY_CONVERTED;
	if (kind_is_signed(from) == kind_is_signed(to))
		return kind_size(to) > kind_size(from) ? CARRY_WIDER : CARRY_NARROWER;
	return kind_is_signed(to) && kind_size(to) > kind_size(from) ? CARRY_WIDER : CARRY_CONVERTED;
}

/* Kinds that aren't sequences; for CHARS see carry_field. */
static enum carry carry_simple(unsigned from, unsigned to)
{
	bool from_text = from == SBX_K_STR || from == SBX_K_CHARS, to_text = to == SBX_K_STR || to == SBX_K_CHARS;

	if (from == to)
		return CARRY_SAME;
	if (kind_is_number(from) && kind_is_number(to))
		return carry_number(from, to);
	if ((from == SBX_K_BOOL && kind_is_int(to)) || (kind_is_int(from) && to == SBX_K_BOOL))
		return CARRY_CONVERTED;
	if (from_text && to_text)
		return to == SBX_K_STR ? CARRY_WIDER : CARRY_NARROWER;
	if ((from_text && to == SBX_K_BYTES) || (from == SBX_K_BYTES && to_text))
		return CARRY_CONVERTED;
	return CARRY_NEVER;
}

static bool is_sequence(const struct schema_field *f)
{
	return kind_has_elem(f->kind);
}

static enum carry carry_field(const struct schema_field *from, const struct schema_field *to)
{
	enum carry items, room = CARRY_SAME;

	if (kind_family(from->kind) != kind_family(to->kind) && (is_sequence(from) || is_sequence(to)))
		return CARRY_NEVER;
	if (!is_sequence(from)) {
		if (from->kind == SBX_K_CHARS && to->kind == SBX_K_CHARS && from->n != to->n)
			return to->n > from->n ? CARRY_WIDER : CARRY_NARROWER;
		return carry_simple(from->kind, to->kind);
	}
	items = carry_simple(from->elem, to->elem);
	if (from->kind == SBX_K_MAP)
		return items;
	if (from->kind == SBX_K_FIXED && (to->kind == SBX_K_ARRAY || to->n > from->n))
		room = CARRY_WIDER;
	else if (to->kind == SBX_K_FIXED && (from->kind == SBX_K_ARRAY || to->n < from->n))
		room = CARRY_NARROWER;
	return items > room ? items : room;
}

/* ---- names ---- */

static bool has_alias(const struct schema_field *f, const char *name)
{
	for (uint32_t i = 0; i < f->n_was; i++)
		if (strcmp(f->was[i].text, name) == 0)
			return true;
	return false;
}

/* The ways for an old field's name to fit a new field, best first. */
enum fit { FIT_NAME, FIT_NEW_ALIAS, FIT_OLD_ALIAS, FIT_BOTH_ALIASES, FIT__N };

static bool name_fits(enum fit fit, const struct schema_field *from, const struct schema_field *to)
{
	switch (fit) {
	case FIT_NAME:
		return strcmp(from->name.text, to->name.text) == 0;
	case FIT_NEW_ALIAS:
		return has_alias(to, from->name.text);
	case FIT_OLD_ALIAS:
		return has_alias(from, to->name.text);
	case FIT_BOTH_ALIASES:
		for (uint32_t i = 0; i < to->n_was; i++)
			if (has_alias(from, to->was[i].text))
				return true;
		return false;
	case FIT__N:
		break;
	}
	return false;
}

/* Best names first, so that no alias takes a field from its namesake. */
static void match_fields(const struct schema_struct *from, const struct schema_struct *to, struct plan_op *ops, bool *taken)
{
	for (uint32_t i = 0; i < from->n_fields; i++)
		ops[i] = (struct plan_op){ .field = PLAN_DROPPED };
	for (enum fit fit = FIT_NAME; fit < FIT__N; fit++)
		for (uint32_t i = 0; i < from->n_fields; i++)
			for (uint32_t k = 0; ops[i].field == PLAN_DROPPED && k < to->n_fields; k++)
				if (!taken[k] && name_fits(fit, &from->fields[i], &to->fields[k])) {
					ops[i].field = k;
					taken[k] = true;
				}
}

/* ---- one field ---- */

static void tell(struct planning *g, enum state_word word, const struct path *path, const char *from, const char *to)
{
	char text[STATE_REPORT_PATH];

	if (g->report != NULL)
		state_report_add(g->report, word, path_text(path, text), from, to);
}

static int refuse_kinds(struct planning *g, const struct path *path, const char *from, const char *to)
{
	return path_fail(path, g->e, "%s can't become %s: give it another name and convert it in migrate", from, to);
}

static int plan_field(struct planning *g, const struct schema_field *from, const struct schema_field *to, struct plan_op *op,
	const struct path *path)
{
	static const enum state_word words[] = {
		[CARRY_SAME] = STATE_CARRIED, [CARRY_WIDER] = STATE_WIDENED, [CARRY_NARROWER] = STATE_NARROWED,
		[CARRY_CONVERTED] = STATE_CONVERTED,
	};
	bool renamed = strcmp(from->name.text, to->name.text) != 0;
	char from_text[LIMIT_FUNCTION_BYTES + 40], to_text[LIMIT_FUNCTION_BYTES + 32];
	struct path item = { path, NULL, PATH_ANY, NULL, 0 };
	enum carry carry = carry_field(from, to);

	field_kind_text(g->p->from, from, from_text, sizeof from_text);
	field_kind_text(g->p->to, to, to_text, sizeof to_text);
	if (carry == CARRY_NEVER)
		return refuse_kinds(g, path, from_text, to_text);
	if (renamed)
		tell(g, STATE_RENAMED, path, from->name.text, to->name.text);
	if (carry != CARRY_SAME || !renamed)
		tell(g, words[carry], path, from_text, to_text);
	op->kind = to->kind;
	op->offset = to->offset;
	op->is_plain = from->kind == to->kind && !is_sequence(to) && kind_family(to->kind) != 'S' && kind_family(to->kind) != 'c' &&
		!from->optional && !to->optional && !to->has_range;
	if (to->type == SCHEMA_NO_STRUCT)
		return 0;
	return plan_pair(g, from->type, to->type, is_sequence(to) ? &item : path, &op->sub);
}

static int plan_new_fields(struct planning *g, const struct schema_struct *to, const bool *taken, const struct path *path)
{
	struct path field = { path, NULL, 0, NULL, 0 };

	for (uint32_t k = 0; k < to->n_fields; k++) {
		if (taken[k])
			continue;
		field.name = to->fields[k].name.text;
		if (g->p->backwards && !to->fields[k].optional)
			return path_fail(&field, g->e, "the newer state doesn't have it: a rollback would reset it");
		tell(g, STATE_ADDED, &field, NULL, NULL);
	}
	return 0;
}

/* ---- one pair of structs ---- */

static int plan_members(struct planning *g, uint32_t pair, bool *taken, const struct path *path)
{
	const struct schema_struct *from = &g->p->from->structs[g->p->pairs[pair].old_struct];
	const struct schema_struct *to = &g->p->to->structs[g->p->pairs[pair].new_struct];
	struct plan_op *ops = g->p->pairs[pair].ops;
	struct path field = { path, NULL, 0, NULL, 0 };

	match_fields(from, to, ops, taken);
	for (uint32_t i = 0; i < from->n_fields; i++) {
		field.name = from->fields[i].name.text;
		if (ops[i].field == PLAN_DROPPED) {
			tell(g, STATE_DROPPED, &field, NULL, NULL);
			continue;
		}
		field.name = to->fields[ops[i].field].name.text;
		if (plan_field(g, &from->fields[i], &to->fields[ops[i].field], &ops[i], &field) != 0)
			return -1;
	}
	return plan_new_fields(g, to, taken, path);
}

static int plan_pair(struct planning *g, uint32_t old_struct, uint32_t new_struct, const struct path *path, uint32_t *ret)
{
	struct plan *p = g->p;
	uint32_t n_old = p->from->structs[old_struct].n_fields;
	bool *taken;
	int r;

	for (uint32_t i = 0; i < p->n_pairs; i++)
		if (p->pairs[i].old_struct == old_struct && p->pairs[i].new_struct == new_struct) {
			*ret = i;
			return 0;
		}
	if (p->n_pairs == LIMIT_SCHEMAS)
		return path_fail(path, g->e, "more than %d pairs of structs to carry over", LIMIT_SCHEMAS);
	*ret = p->n_pairs++;
	p->pairs[*ret] = (struct plan_pair){ old_struct, new_struct, calloc(n_old + 1u, sizeof(struct plan_op)) };
	taken = calloc(p->to->structs[new_struct].n_fields + 1u, sizeof *taken);
	if (p->pairs[*ret].ops == NULL || taken == NULL)
		r = err_set(g->e, ERR_LIMIT_EXCEEDED, "no memory for the plan of a restore");
	else
		r = plan_members(g, *ret, taken, path);
	free(taken);
	return r;
}

int plan_make(const struct schema *from, const struct schema *to, bool backwards, struct state_report *report,
	struct plan **ret, struct err *e)
{
	struct planning g = { calloc(1, sizeof(struct plan)), report, e };
	uint32_t root;

	if (g.p == NULL || (g.p->pairs = calloc(LIMIT_SCHEMAS, sizeof *g.p->pairs)) == NULL) {
		free(g.p);
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for the plan of a restore");
	}
	g.p->from = from;
	g.p->to = to;
	g.p->backwards = backwards;
	if (plan_pair(&g, 0, 0, NULL, &root) != 0) {
		plan_free(g.p);
		return -1;
	}
	*ret = g.p;
	return 0;
}

void plan_free(struct plan *p)
{
	if (p == NULL)
		return;
	for (uint32_t i = 0; i < p->n_pairs; i++)
		free(p->pairs[i].ops);
	free(p->pairs);
	free(p);
}
