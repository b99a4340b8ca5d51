/* SPDX-License-Identifier: MIT
 *
 * A module of the first release, built against its header: everything that ABI 1.0 has. It must load and run in every later host of
 * the same major number. */
#include "sandbox_module.h"

struct row { char *name; int32_t n; double price; char code[8]; };
SBX_STATE(row, struct row, SBX_FIELD(name), SBX_FIELD(n), SBX_RANGE(0, 1000), SBX_FIELD(price), SBX_FIELD(code));
struct store {
	struct row *rows;
	uint32_t n_rows;
	int16_t week[7];
	struct sbx_bytes blob;
	bool has_note;
	char *note;
	struct row first;
	uint64_t made;
	void *cache;
};
SBX_STATE(store, struct store, SBX_ARRAY_OF(rows, n_rows, row), SBX_FIXED(week), SBX_FIELD(blob), SBX_FIELD(note), SBX_PRESENT(has_note),
	SBX_STRUCT(first, row), SBX_FIELD(made), SBX_DEFAULT(7), SBX_WAS("created"), SBX_SKIP(cache));

static int make(struct sbx *x, void *self)
{
	((struct store *)self)->cache = sbx_alloc(x, 100);
	return 0;
}

static int init(struct sbx *x, void *self)
{
	struct store *s = self;

	sbx_set_bytes(x, &s->blob, "\0\1\2", 3);
	sbx_log(x, SBX_INFO, "starts");
	return sbx_has(sbx_config(x, "refuse")) ? sbx_fail(x, "asked", "as the configuration says") : 0;
}

static int add(struct sbx *x, void *self)
{
	struct store *s = self;
	struct row *r = SBX_ADD(x, s->rows, s->n_rows, struct row);

	sbx_set_str(x, &r->name, sbx_arg_str(x, "name"));
	r->n = (int32_t)sbx_arg_i64(x, "n");
	r->price = sbx_arg_f64(x, "price");
	s->week[s->n_rows % 7]++;
	if (sbx_arg_bool(x, "note")) {
		s->has_note = true;
		sbx_set_str(x, &s->note, r->name);
	}
	return sbx_put_u64(x, "rows", s->n_rows);
}

static int dump(struct sbx *x, void *self)
{
	const struct store *s = self;

	sbx_open_list(x, "rows");
	for (uint32_t i = 0; i < s->n_rows; i++) {
		sbx_open_dict(x, NULL);
		sbx_put_str(x, "name", s->rows[i].name);
		sbx_put_i64(x, "n", s->rows[i].n);
		sbx_put_f64(x, "price", s->rows[i].price);
		sbx_close(x);
	}
	sbx_close(x);
	sbx_put_bytes(x, "blob", s->blob.data, s->blob.size);
	sbx_put_str(x, "note", s->has_note ? s->note : NULL);
	sbx_put_bool(x, "cache", s->cache != NULL);
	return sbx_put_u64(x, "made", s->made);
}

static int check(struct sbx *x, void *self)
{
	return ((struct store *)self)->made == 7 ? 0 : sbx_fail(x, "made", "made is another");
}

SBX_MODULE(old_store, 1, SBX_USES(store), SBX_ON_MAKE(make), SBX_ON_INIT(init), SBX_ON_CHECK(check),
	SBX_FN(add, "name: str, n: i64 = 1, price: f64 = 0.5, note: bool = false"), SBX_FN(dump, ""));
