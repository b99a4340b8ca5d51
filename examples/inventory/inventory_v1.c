/* SPDX-License-Identifier: MIT
 *
 * A shop: nested structs, a growing array of structs, a fixed array, an optional text. */
#include <sandbox_module.h>

struct item {
	char *sku;
	int32_t qty;
	double price;
};
SBX_STATE(item, struct item, SBX_FIELD(sku), SBX_FIELD(qty), SBX_RANGE(0, 1000000), SBX_FIELD(price));

struct place {
	double lat, lon;
};
SBX_STATE(place, struct place, SBX_FIELD(lat), SBX_FIELD(lon));

struct shop {
	char *name;
	struct place at;
	struct item *items;
	uint32_t n_items;
	int16_t week[7]; /* items added per weekday */
	char *note;
	bool has_note;
	uint8_t legacy;
};
SBX_STATE(shop, struct shop,
	SBX_FIELD(name), SBX_DEFAULT_S("shop"),
	SBX_STRUCT(at, place),
	SBX_ARRAY_OF(items, n_items, item),
	SBX_FIXED(week),
	SBX_FIELD(note), SBX_PRESENT(has_note),
	SBX_FIELD(legacy), SBX_DEFAULT(7));

static int init(struct sbx *x, void *self)
{
	struct shop *s = self;

	if (sbx_has(sbx_config(x, "name")))
		sbx_set_str(x, &s->name, sbx_text(x, sbx_config(x, "name")));
	return 0;
}

static int add(struct sbx *x, void *self)
{
	struct shop *s = self;
	int64_t qty = sbx_arg_i64(x, "qty");
	struct item *it;

	if (qty < 0 || qty > 1000000)
		return sbx_fail(x, "bad_qty", "a quantity is 0 to 1000000, not %lld", (long long)qty);
	it = SBX_ADD(x, s->items, s->n_items, struct item);
	sbx_set_str(x, &it->sku, sbx_arg_str(x, "sku"));
	it->qty = (int32_t)qty;
	it->price = sbx_arg_f64(x, "price");
	s->week[sbx_now_ms(x) / 86400000 % 7]++;
	return sbx_put_u64(x, "items", s->n_items);
}

static int worth(struct sbx *x, void *self)
{
	struct shop *s = self;
	double sum = 0;

	for (uint32_t i = 0; i < s->n_items; i++)
		sum += s->items[i].qty * s->items[i].price;
	return sbx_put_f64(x, "worth", sum);
}

static int move(struct sbx *x, void *self)
{
	struct shop *s = self;

	s->at.lat = sbx_f64(x, sbx_get(x, sbx_arg(x, "to"), "lat"));
	s->at.lon = sbx_f64(x, sbx_get(x, sbx_arg(x, "to"), "lon"));
	return 0;
}

static int note(struct sbx *x, void *self)
{
	struct shop *s = self;

	sbx_set_str(x, &s->note, sbx_arg_str(x, "text"));
	s->has_note = true;
	return 0;
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
		sbx_put_f64(x, "price", s->items[i].price);
		sbx_close(x);
	}
	return sbx_close(x);
}

SBX_MODULE(inventory, 1, SBX_USES(shop), SBX_ON_INIT(init),
	SBX_FN(add, "sku: str, qty: i64 = 1, price: f64"), SBX_FN(worth, ""), SBX_FN(move, "to: dict"), SBX_FN(note, "text: str"),
	SBX_FN(list, ""));
