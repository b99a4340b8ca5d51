/* SPDX-License-Identifier: MIT
 *
 * A key-value store: the map is the host's, so that a million keys cross a reload in a fraction of a second. */
#define SBX_WANT_MINOR 1
#include <sandbox_module.h>

struct kv { struct sbx_map *items; uint64_t writes; };
SBX_STATE(kv, struct kv, SBX_MAP(items, char *), SBX_FIELD(writes));

static int set(struct sbx *x, void *self)
{
	struct kv *kv = self;

	sbx_set_str(x, SBX_PUT(x, kv->items, char *, sbx_arg_str(x, "key")), sbx_arg_str(x, "value"));
	return sbx_put_u64(x, "writes", ++kv->writes);
}

static int get(struct sbx *x, void *self)
{
	struct kv *kv = self;
	char **value = SBX_FIND(x, kv->items, char *, sbx_arg_str(x, "key"));

	return value != NULL ? sbx_put_str(x, "value", *value) : sbx_fail(x, "not_found", "no key %s", sbx_arg_str(x, "key"));
}

static int drop(struct sbx *x, void *self)
{
	struct kv *kv = self;

	return sbx_put_bool(x, "removed", sbx_map_remove(x, kv->items, sbx_arg_str(x, "key")));
}

static int count(struct sbx *x, void *self)
{
	struct kv *kv = self;

	return sbx_put_u64(x, "count", sbx_map_count(x, kv->items));
}

static int keys(struct sbx *x, void *self)
{
	struct kv *kv = self;
	const char *key;

	sbx_open_list(x, "keys");
	for (uint64_t at = 0; SBX_NEXT(x, kv->items, char *, &at, &key) != NULL;)
		sbx_put_str(x, NULL, key);
	return sbx_close(x);
}

/* Many at once, to see what a large state costs. */
static int load(struct sbx *x, void *self)
{
	struct kv *kv = self;
	char text[32];

	for (int64_t i = 0, n = sbx_arg_i64(x, "n"); i < n; i++) {
		snprintf(text, sizeof text, "key %lld", (long long)i);
		sbx_set_str(x, SBX_PUT(x, kv->items, char *, text), text);
		if (i % 1000 == 0 && sbx_stop_asked(x))
			return sbx_fail(x, "cancelled", "stopped after %lld keys", (long long)i);
	}
	return count(x, self);
}

SBX_MODULE(kv, 1, SBX_USES(kv), SBX_FN(set, "key: str, value: str"), SBX_FN(get, "key: str"), SBX_FN(drop, "key: str"),
	SBX_FN(count, ""), SBX_FN(keys, ""), SBX_FN(load, "n: i64"));
