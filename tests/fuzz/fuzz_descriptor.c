/* SPDX-License-Identifier: MIT
 *
 * A module's descriptor with hostile numbers and texts. Its pointers lead to memory of the object, which is all that an object can
 * make of them: tables of the stated stride, texts that end or don't end for long, NULL. */
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "daemon/host/module/descriptor.h"
#include "proto/limits.h"

#define N_SCHEMAS 6
#define TEXT_BYTES 160 /* more than the largest length that make_field says */
#define TABLE_BYTES ((size_t)(LIMIT_ITEMS + 1) * LIMIT_ROW_BYTES)

static struct sbx_schema schemas[N_SCHEMAS];
static char *tables[N_SCHEMAS + 1]; /* rows of each schema, and the items */
static size_t used[N_SCHEMAS + 1];  /* bytes of each, so that no input sees the one before it */
static char texts[1 << 16];

#define SCHEMA_FN(n)                                       \
	static const struct sbx_schema *schema_##n(void) \
	{                                                \
		return &schemas[n];                      \
	}
SCHEMA_FN(0) SCHEMA_FN(1) SCHEMA_FN(2) SCHEMA_FN(3) SCHEMA_FN(4) SCHEMA_FN(5)
static const struct sbx_schema *schema_null(void)
{
	return NULL;
}
static sbx_schema_fn *const schema_fns[] = { NULL, schema_0, schema_1, schema_2, schema_3, schema_4, schema_5, schema_null };

static int code(struct sbx *x, void *self)
{
	(void)x, (void)self;
	return 0;
}

static const char *text_of(struct fuzz_in *in)
{
	/* With room: what a row says of the length of its default's bytes is what its module promises, and not the reader's business. */
	static const char some[][TEXT_BYTES] = { "", "a", "b", "c", "value", "n", "items", "", "1x", "has", "q: i64 = 1", "s: str?",
		"x: list, y: dict", "x: nothing" };
	uint8_t which = fuzz_u8(in);

	if (which < sizeof some / sizeof some[0])
		return which == 0 ? NULL : some[which];
	return texts + which * 16u; /* the input's own bytes; they end somewhere */
}

/* A number that is mostly right. */
static uint32_t near(struct fuzz_in *in, uint32_t right)
{
	uint8_t how = fuzz_u8(in);

	return how < 200 ? right : how < 230 ? right + (how & 15) * 8 : fuzz_u32(in);
}

static void make_field(struct fuzz_in *in, struct sbx_field *f, uint32_t *offset)
{
	static const uint8_t sizes[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 12, 8, 16, 24, 24, 8, 8 };
	uint8_t kind = fuzz_u8(in);

	*f = (struct sbx_field){ .kind = kind & 0x80 ? kind : kind < 100 ? kind % 20 : 64 + kind % 10, .name = text_of(in) };
	f->elem = fuzz_u8(in) % 20;
	f->elem = f->kind >= SBX_K_FIXED && f->kind <= SBX_K_MAP ? f->elem : (uint16_t)(f->elem == 19);
	f->size = near(in, f->kind < sizeof sizes ? sizes[f->kind] : 1);
	f->elem_size = near(in, f->elem < sizeof sizes ? sizes[f->elem] : 0);
	f->offset = near(in, *offset);
	f->count_offset = near(in, *offset + 8);
	f->count_kind = fuzz_u8(in) % 12;
	f->type = f->kind == SBX_K_STRUCT || f->elem == SBX_K_STRUCT ? schema_fns[fuzz_u8(in) % 8] : fuzz_u8(in) == 77 ? schema_0 : NULL;
	f->lo = (int8_t)fuzz_u8(in);
	f->hi = fuzz_u8(in) < 200 ? f->lo + 100 : (int64_t)fuzz_u64(in);
	f->f = fuzz_u8(in) < 200 ? 1.5 : (double)NAN;
	f->s = text_of(in);
	if (f->kind < SBX_K_MODIFIER)
		*offset += (f->size + 7) / 8 * 8 + (f->kind == SBX_K_ARRAY ? 8 : 0);
}


static void make_schema(struct fuzz_in *in, size_t which)
{
	struct sbx_schema *s = &schemas[which];
	uint32_t offset = 0, n = fuzz_u8(in) % 12;

	*s = (struct sbx_schema){ .schema_size = near(in, sizeof *s), .field_size = near(in, sizeof(struct sbx_field)), .name = text_of(in) };
	for (uint32_t i = 0; i < n; i++) {
		struct sbx_field f;

		make_field(in, &f, &offset);
		if (s->field_size <= LIMIT_ROW_BYTES)
			memcpy(tables[which] + (size_t)i * s->field_size, &f, sizeof f);
		used[which] = (size_t)n * LIMIT_ROW_BYTES;
	}
	s->fields = fuzz_u8(in) < 250 ? (const struct sbx_field *)(const void *)tables[which] : NULL;
	s->n_fields = near(in, n);
	s->size = near(in, offset);
}

static void make_items(struct fuzz_in *in, struct sbx_module *m)
{
	uint32_t n = fuzz_u8(in) % 10;

	for (uint32_t i = 0; i < n; i++) {
		struct sbx_item item = { .tag = fuzz_u8(in) % 20, .name = text_of(in), .text = text_of(in), .fn = fuzz_u8(in) < 240 ? code : NULL };

		item.number = fuzz_u8(in);
		item.tag = item.tag == 19 ? fuzz_u32(in) : item.tag > 15 ? SBX_T_FN : item.tag;
		item.schema = item.tag == SBX_T_STATE ? schema_fns[1 + fuzz_u8(in) % 7] : NULL;
		used[N_SCHEMAS] = (size_t)n * LIMIT_ROW_BYTES;
		if (m->item_size <= LIMIT_ROW_BYTES)
			memcpy(tables[N_SCHEMAS] + (size_t)i * m->item_size, &item, sizeof item);
	}
	m->n_items = near(in, n);
}

static void look_at(struct module_desc *d)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct module_instance *m;
	struct err e = ERR_INIT;
	uint64_t size;

	module_desc_json(d, &o, NULL);
	FUZZ_MUST(!b.failed);
	fuzz_is_json(b.data, b.size);
	(void)module_desc_function(d, "valu", &e);
	if (instance_new(d, &m, &e) == 0) {
		FUZZ_MUST(instance_save(m, NULL, 0, &size, &e) == 0);
		instance_free(m);
	}
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct sbx_module m = { .magic = SBX_MAGIC, .abi_major = SBX_ABI_MAJOR };
	struct module_desc *d = NULL;
	struct err e = ERR_INIT;
	size_t n_texts = size < sizeof texts - 1 ? size : sizeof texts - 1;

	for (size_t i = 0; i <= N_SCHEMAS; i++)
		if (!tables[i])
			tables[i] = calloc(1, TABLE_BYTES);
	for (size_t i = 0; i <= N_SCHEMAS; i++) {
		memset(tables[i], 0, used[i]);
		used[i] = 0;
	}
	memset(texts, 0, sizeof texts);
	if (n_texts > 0)
		memcpy(texts, data, n_texts);
	m.magic = near(&in, SBX_MAGIC);
	m.abi_major = (uint16_t)near(&in, SBX_ABI_MAJOR);
	m.abi_minor = (uint16_t)(fuzz_u8(&in) % 3);
	m.size = near(&in, sizeof m);
	m.item_size = near(&in, sizeof(struct sbx_item));
	m.state_version = near(&in, 1);
	m.name = fuzz_u8(&in) < 230 ? "fuzzed" : text_of(&in);
	m.items = fuzz_u8(&in) < 250 ? (const struct sbx_item *)(const void *)tables[N_SCHEMAS] : NULL;
	make_items(&in, &m);
	for (size_t i = 0; i < N_SCHEMAS; i++)
		make_schema(&in, i);
	if (module_desc_read(&m, &d, &e) != 0) {
		fuzz_refused(&e);
	} else {
		look_at(d);
		module_desc_free(d);
	}
	return 0;
}
