/* SPDX-License-Identifier: MIT
 *
 * The shop's second version. What names and kinds can't say is done by migrate: prices become whole cents, the nested
 * place two plain members. The rest is automatic: qty widened, the week longer, tags added, legacy dropped. */
#include <sandbox_module.h>

struct item {
	char *sku;
	int64_t qty;
	int64_t cents;
	char **tags;
	uint32_t n_tags;
};
SBX_STATE(item, struct item,
	SBX_FIELD(sku), SBX_FIELD(qty), SBX_RANGE(0, 1000000000), SBX_FIELD(cents), SBX_ARRAY(tags, n_tags));

struct shop {
	char *name;
	double lat, lon;
	struct item *items;
	uint32_t n_items;
	int32_t week[10];
	char *note;
	bool has_note;
};
SBX_STATE(shop, struct shop,
	SBX_FIELD(name), SBX_DEFAULT_S("shop"),
	SBX_FIELD(lat), SBX_FIELD(lon),
	SBX_ARRAY_OF(items, n_items, item),
	SBX_FIXED(week),
	SBX_FIELD(note), SBX_PRESENT(has_note));

static int migrate(struct sbx *x, void *self)
{
	struct shop *s = self;
	struct sbx_val at = { 0 }, item, place = sbx_old(x, "at");

	if (sbx_old_version(x) != 1)
		return sbx_fail(x, "version", "can't read version %u", sbx_old_version(x));
	s->lat = sbx_f64(x, sbx_get(x, place, "lat"));
	s->lon = sbx_f64(x, sbx_get(x, place, "lon"));
	for (uint32_t i = 0; sbx_has(item = sbx_next(x, sbx_old(x, "items"), NULL, &at)); i++)
		s->items[i].cents = (int64_t)(sbx_f64(x, sbx_get(x, item, "price")) * 100 + 0.5);
	return 0;
}

static int check(struct sbx *x, void *self)
{
	struct shop *s = self;

	for (uint32_t i = 0; i < s->n_items; i++)
		if (s->items[i].cents > 100000000)
			return sbx_fail(x, "too_dear", "%s costs %lld cents", s->items[i].sku != NULL ? s->items[i].sku : "?",
				(long long)s->items[i].cents);
	return 0;
}

static int add(struct sbx *x, void *self)
{
	struct shop *s = self;
	struct item *it = SBX_ADD(x, s->items, s->n_items, struct item);
	struct sbx_val at = { 0 }, tag;

	sbx_set_str(x, &it->sku, sbx_arg_str(x, "sku"));
	it->qty = sbx_arg_i64(x, "qty");
	it->cents = sbx_arg_i64(x, "cents");
	while (sbx_has(tag = sbx_next(x, sbx_arg(x, "tags"), NULL, &at))) {
		char **slot = SBX_ADD(x, it->tags, it->n_tags, char *);

		sbx_set_str(x, slot, sbx_text(x, tag));
	}
	return sbx_put_u64(x, "items", s->n_items);
}

static int worth(struct sbx *x, void *self)
{
	struct shop *s = self;
	int64_t sum = 0;

	for (uint32_t i = 0; i < s->n_items; i++)
		sum += s->items[i].qty * s->items[i].cents;
	return sbx_put_f64(x, "worth", (double)sum / 100);
}

static int list(struct sbx *x, void *self)
{
	struct shop *s = self;

	sbx_put_str(x, "name", s->name);
	if (s->has_note)
		sbx_put_str(x, "note", s->note);
	sbx_open_list(x, "items");
	for (uint32_t i = 0; i < s->n_items; i++) {
		sbx_open_dict(x, NULL);
		sbx_put_str(x, "sku", s->items[i].sku);
		sbx_put_i64(x, "qty", s->items[i].qty);
		sbx_put_i64(x, "cents", s->items[i].cents);
		sbx_open_list(x, "tags");
		for (uint32_t t = 0; t < s->items[i].n_tags; t++)
			sbx_put_str(x, NULL, s->items[i].tags[t]);
		sbx_close(x);
		sbx_close(x);
	}
	return sbx_close(x);
}

SBX_MODULE(inventory, 2, SBX_USES(shop), SBX_ON_MIGRATE(migrate), SBX_ON_CHECK(check),
	SBX_FN(add, "sku: str, qty: i64 = 1, cents: i64, tags: list = []"), SBX_FN(worth, ""), SBX_FN(list, ""));
