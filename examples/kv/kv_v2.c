/* SPDX-License-Identifier: MIT
 *
 * Version 2 of the store: each value knows how often it was read. A text can't become a struct by itself, so the map has another
 * name, and migrate fills it from the old one. */
#define SBX_WANT_MINOR 1
#include <sandbox_module.h>

struct entry { char *value; uint64_t reads; };
SBX_STATE(entry, struct entry, SBX_FIELD(value), SBX_FIELD(reads));
struct kv { struct sbx_map *entries; uint64_t writes; };
SBX_STATE(kv, struct kv, SBX_MAP_OF(entries, entry), SBX_FIELD(writes));

static int set(struct sbx *x, void *self)
{
	struct kv *kv = self;
	struct entry *e = SBX_PUT(x, kv->entries, struct entry, sbx_arg_str(x, "key"));

	sbx_set_str(x, &e->value, sbx_arg_str(x, "value"));
	return sbx_put_u64(x, "writes", ++kv->writes);
}

static int get(struct sbx *x, void *self)
{
	struct kv *kv = self;
	struct entry *e = SBX_FIND(x, kv->entries, struct entry, sbx_arg_str(x, "key"));

	if (e == NULL)
		return sbx_fail(x, "not_found", "no key %s", sbx_arg_str(x, "key"));
	sbx_put_u64(x, "reads", ++e->reads);
	return sbx_put_str(x, "value", e->value);
}

static int drop(struct sbx *x, void *self)
{
	struct kv *kv = self;

	return sbx_put_bool(x, "removed", sbx_map_remove(x, kv->entries, sbx_arg_str(x, "key")));
}

static int count(struct sbx *x, void *self)
{
	struct kv *kv = self;

	return sbx_put_u64(x, "count", sbx_map_count(x, kv->entries));
}

static int migrate(struct sbx *x, void *self)
{
	struct kv *kv = self;
	struct sbx_val at = { 0 }, key, value;

	while (sbx_has(value = sbx_next(x, sbx_old(x, "items"), &key, &at)))
		sbx_set_str(x, &SBX_PUT(x, kv->entries, struct entry, sbx_text(x, key))->value, sbx_text(x, value));
	return 0;
}

SBX_MODULE(kv, 2, SBX_USES(kv), SBX_ON_MIGRATE(migrate), SBX_FN(set, "key: str, value: str"), SBX_FN(get, "key: str"),
	SBX_FN(drop, "key: str"), SBX_FN(count, ""));
