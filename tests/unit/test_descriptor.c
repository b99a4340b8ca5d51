/* SPDX-License-Identifier: MIT
 *
 * Every way for a descriptor to be refused, each made by spoiling one thing of a good one. */
#include "tests/support/check_main.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/module_make.h"

static int nothing(struct sbx *x, void *self)
{
	(void)x;
	(void)self;
	return 0;
}

struct inner { int32_t a; char text[4]; };
SBX_STATE(inner, struct inner, SBX_FIELD(a), SBX_DEFAULT(3), SBX_FIELD(text));
struct good {
	int64_t count;
	struct inner in;
	struct inner *items;
	uint32_t n;
	bool has;
	uint8_t small[3];
	char *name;
	double ratio;
	void *cache;
};
SBX_STATE(good, struct good,
	SBX_FIELD(count), SBX_DEFAULT(5), SBX_RANGE(1, 10), SBX_WAS("total"), SBX_STRUCT(in, inner), SBX_ARRAY_OF(items, n, inner),
	SBX_FIXED(small), SBX_PRESENT(has), SBX_FIELD(name), SBX_DEFAULT_S("x"), SBX_FIELD(ratio), SBX_DEFAULT_F(0.5), SBX_SKIP(cache));
TEST_MODULE(good_module, 3, SBX_USES(good), SBX_ON_MAKE(nothing), SBX_ON_INIT(nothing), SBX_ON_MIGRATE(nothing), SBX_ON_CHECK(nothing),
	SBX_ON_STOP(nothing), SBX_ON_UNMAKE(nothing), SBX_FN(nothing, "a: i64 = 1"), SBX_FN_AS("other", nothing, ""));

/* ---- a copy that can be spoiled ---- */

static struct sbx_field rows[32];
static struct sbx_schema schema;
static struct sbx_item items[16];
static struct sbx_module module;

static const struct sbx_schema *spoiled_schema(void)
{
	return &schema;
}

static void fresh_copy(void)
{
	schema = *good_schema();
	memcpy(rows, schema.fields, schema.n_fields * sizeof rows[0]);
	schema.fields = rows;
	module = good_module;
	memcpy(items, module.items, module.n_items * sizeof items[0]);
	items[0].schema = spoiled_schema;
	module.items = items;
}

static void expect_refusal(const char *part, const char *spoiling)
{
	struct module_desc *d = NULL;
	struct err e = ERR_INIT;

	ck_assert_msg(module_desc_read(&module, &d, &e) != 0, "%s was taken", spoiling);
	ck_assert_ptr_null(d);
	ck_assert_msg(e.code == ERR_BAD_MODULE, "%s: %s %s", spoiling, err_code_text(e.code), e.text);
	ck_assert_msg(strstr(e.text, part) != NULL, "%s: \"%s\" has no \"%s\"", spoiling, e.text, part);
}

#define REFUSED(part, ...)                           \
	do {                                         \
		fresh_copy();                        \
		__VA_ARGS__;                         \
		expect_refusal(part, #__VA_ARGS__);  \
	} while (0)

enum { COUNT, COUNT_DEFAULT, COUNT_RANGE, COUNT_WAS, IN, ITEMS, SMALL, HAS, NAME, NAME_DEFAULT, RATIO, RATIO_DEFAULT, CACHE };

START_TEST(a_good_one_is_read)
{
	struct module_desc *d;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct err e;

	fresh_copy();
	ck_ok(module_desc_read(&module, &d, &e));
	memset(rows, 0xee, sizeof rows); /* nothing points there any more */
	memset(items, 0xee, sizeof items);
	memset(&schema, 0xee, sizeof schema);
	ck_assert_str_eq(module_desc_name(d), "good_module");
	ck_assert_uint_eq(module_desc_state_version(d), 3);
	module_desc_json(d, &o, NULL);
	ck_ok(json_check(b.data, b.size, &e));
	ck_assert_ptr_nonnull(strstr(buf_text(&b), "{\"name\":\"good_module\",\"abi\":\"1.0\",\"state_version\":3,\"state_bytes\":56,\"own_save\":false,\"functions\":["
		"{\"name\":\"nothing\",\"parameters\":[{\"name\":\"a\",\"type\":\"i64\",\"optional\":true,\"default\":1}]},{\"name\":\"other\",\"parameters\":[]}],\"timers\":[],"
		"\"state\":[{\"name\":\"count\",\"kind\":\"i64\",\"default\":5,\"range\":[1,10],\"was\":[\"total\"]},{\"name\":\"in\",\"kind\":\"struct inner\"},"
		"{\"name\":\"items\",\"kind\":\"struct inner[]\"},{\"name\":\"small\",\"kind\":\"u8[3]\",\"optional\":true},"));
	ck_assert_ptr_nonnull(strstr(buf_text(&b), "\"structs\":[{\"name\":\"inner\",\"fields\":[{\"name\":\"a\",\"kind\":\"i32\",\"default\":3},"
		"{\"name\":\"text\",\"kind\":\"char[4]\"}]}]}"));
	buf_fini(&b);
	module_desc_free(d);
	module_desc_free(NULL);
}
END_TEST

START_TEST(heads)
{
	struct module_desc *d;
	struct err e;

	ck_fails(module_desc_read(NULL, &d, &e), ERR_BAD_MODULE, "no descriptor");
	REFUSED("magic", module.magic = 0);
	REFUSED("built for ABI 2, this host has 1.1", module.abi_major = 2);
	REFUSED("asks for ABI 1.3, this host has 1.1", module.abi_minor = 3);
	REFUSED("descriptor has 8 bytes", module.size = 8);
	REFUSED("bytes", module.size = UINT32_MAX);
	REFUSED("items have 8 bytes", module.item_size = 8);
	REFUSED("items have", module.item_size = sizeof(struct sbx_item) + 1);
	REFUSED("items have", module.item_size = 1u << 20);
	REFUSED("at most 1024", module.n_items = LIMIT_ITEMS + 1);
	REFUSED("items are missing", module.items = NULL);
	REFUSED("state version is 0", module.state_version = 0);
	REFUSED("name", module.name = NULL);
	REFUSED("name", module.name = "");
	REFUSED("name", module.name = "../x");
	REFUSED("name", module.name = "a234567890123456789012345678901234567890123456789012345678901234");
}
END_TEST

START_TEST(items_of_a_module)
{
	REFUSED("tag 99", items[1].tag = 99);
	REFUSED("tag 5", items[1].tag = 5);
	REFUSED("tag 0", items[1].tag = 0);
	REFUSED("tag 1103", items[1].tag = 1024 + 79);
	REFUSED("hook init is declared twice", items[1].tag = SBX_T_INIT);
	REFUSED("hook make is declared twice, or has no code", items[1].fn = NULL);
	REFUSED("one SBX_USES", items[0].schema = NULL);
	REFUSED("one SBX_USES", items[1] = items[0]);
	REFUSED("no name", items[7].name = NULL);
	REFUSED("no name", items[7].name = "a b");
	REFUSED("no name", items[7].name = "");
	REFUSED("nothing has no code", items[7].fn = NULL);
	REFUSED("function nothing is declared twice", items[8].name = "nothing");
	REFUSED("function nothing: parameter 1: its type is none of", items[7].text = "a: int");
	REFUSED("longer than", static char text[LIMIT_SIGNATURE_BYTES + 10]; memset(text, ' ', sizeof text - 1); items[7].text = text);
}
END_TEST

START_TEST(ignorable_rows_are_ignored)
{
	struct module_desc *d;
	struct err e;

	fresh_copy();
	items[1].tag = SBX_MAY_IGNORE + 99;
	items[1].fn = NULL;
	rows[NAME].kind = SBX_MAY_IGNORE + 30;          /* a field: its bytes count as skipped, */
	rows[NAME_DEFAULT].kind = SBX_MAY_IGNORE + 90;  /* and so does what qualifies it */
	ck_ok(module_desc_read(&module, &d, &e));
	module_desc_free(d);
	fresh_copy();
	rows[NAME].kind = SBX_MAY_IGNORE + 30;
	ck_ok(module_desc_read(&module, &d, &e));
	module_desc_free(d);
}
END_TEST

START_TEST(heads_of_structs)
{
	REFUSED("rows of 8 bytes", schema.field_size = 8);
	REFUSED("rows of", schema.field_size = sizeof(struct sbx_field) + 4);
	REFUSED("rows of", schema.field_size = 1u << 30);
	REFUSED("rows of", schema.schema_size = 4);
	REFUSED("at most 1024", schema.n_fields = LIMIT_FIELDS + 1);
	REFUSED("is empty", schema.size = 0);
	REFUSED("is empty", schema.fields = NULL);
	REFUSED("C identifier", schema.name = "a b");
	REFUSED("C identifier", schema.name = NULL);
}
END_TEST

START_TEST(fields)
{
	REFUSED("kind 0", rows[COUNT].kind = SBX_K_END);
	REFUSED("kind 19", rows[COUNT].kind = 19);
	REFUSED("kind 63", rows[COUNT].kind = 63);
	REFUSED("kind 19", rows[COUNT].kind = 19);
	REFUSED("doesn't know", rows[COUNT_RANGE].kind = 99);
	REFUSED("doesn't know", rows[COUNT_RANGE].kind = 256 + SBX_MAY_IGNORE);
	REFUSED("C identifier", rows[COUNT].name = NULL);
	REFUSED("C identifier", rows[COUNT].name = "");
	REFUSED("C identifier", rows[COUNT].name = "a-b");
	REFUSED("C identifier", rows[COUNT].name = "a234567890123456789012345678901234567890123456789012345678901234");
	REFUSED("field count of struct good: its size", rows[COUNT].size = 4);
	REFUSED("its size", rows[COUNT].kind = SBX_K_I32);
	REFUSED("its size", rows[NAME].kind = SBX_K_BYTES);
	REFUSED("outside the struct", rows[COUNT].offset = 56);
	REFUSED("outside the struct", rows[COUNT].offset = UINT32_MAX - 3);
	REFUSED("only arrays", rows[COUNT].elem = SBX_K_I8);
	REFUSED("can't hold items", rows[SMALL].elem = 0);
	REFUSED("can't hold items", rows[SMALL].elem = SBX_K_FIXED);
	REFUSED("can't hold items", rows[SMALL].elem = SBX_K_ARRAY);
	REFUSED("can't hold items", rows[SMALL].elem = 18);
	REFUSED("its size isn't", rows[SMALL].elem = SBX_K_I16);
	REFUSED("table is missing", rows[SMALL].elem = SBX_K_STRUCT);
	REFUSED("table is missing", rows[IN].type = NULL);
	REFUSED("no struct", rows[COUNT].type = spoiled_schema);
	REFUSED("its size isn't", rows[SMALL].elem_size = 0);
	REFUSED("its size isn't", rows[SMALL].elem = SBX_K_CHARS, rows[SMALL].elem_size = 0);
	REFUSED("multiple", rows[SMALL].elem = SBX_K_CHARS, rows[SMALL].elem_size = 2);
	REFUSED("pointer and a counter", rows[ITEMS].size = 4);
	REFUSED("counter isn't an integer", rows[ITEMS].count_kind = SBX_K_F64);
	REFUSED("counter isn't an integer", rows[ITEMS].count_kind = 0);
	REFUSED("counter isn't an integer", rows[ITEMS].count_kind = 70000);
	REFUSED("counter lies outside", rows[ITEMS].count_offset = 54);
	REFUSED("counter lies outside", rows[ITEMS].count_offset = UINT32_MAX);
	REFUSED("its size isn't", rows[ITEMS].elem_size = 4);
	REFUSED("its size isn't", rows[IN].size = 4);
	REFUSED("contains itself", rows[IN].type = spoiled_schema);
	REFUSED("cache lies outside", rows[CACHE].offset = 60);
}
END_TEST

START_TEST(modifiers)
{
	REFUSED("follows none", rows[COUNT] = rows[COUNT_DEFAULT]);
	REFUSED("two defaults", rows[COUNT_RANGE] = rows[COUNT_DEFAULT]);
	REFUSED("isn't in its range", rows[COUNT_DEFAULT].lo = 11);
	REFUSED("add SBX_DEFAULT", rows[COUNT_DEFAULT] = rows[COUNT_WAS], rows[COUNT_WAS].s = "older");
	REFUSED("lower bound first", rows[COUNT_RANGE].lo = 11);
	REFUSED("for one number", rows[NAME_DEFAULT] = rows[COUNT_RANGE]);
	REFUSED("for numbers and bools", rows[NAME_DEFAULT] = rows[COUNT_DEFAULT]);
	REFUSED("for floats", rows[COUNT_DEFAULT] = rows[RATIO_DEFAULT]);
	REFUSED("for texts", rows[RATIO_DEFAULT] = rows[NAME_DEFAULT]);
	REFUSED("too long, or missing", rows[NAME_DEFAULT].s = NULL);
	REFUSED("identifier", rows[COUNT_WAS].s = NULL);
	REFUSED("identifier", rows[COUNT_WAS].s = "a b");
	REFUSED("declared twice", rows[COUNT_WAS].s = "name");
	REFUSED("declared twice", rows[COUNT_WAS].s = "count");
	REFUSED("name ratio is declared twice in struct good", rows[NAME].name = "ratio");
	REFUSED("bool of the struct", rows[HAS].size = 4);
	REFUSED("bool of the struct", rows[HAS].offset = 56);
	REFUSED("two SBX_PRESENT", rows[NAME] = rows[HAS], rows[NAME_DEFAULT] = rows[HAS]);
	REFUSED("either optional or has a default", rows[NAME_DEFAULT + 1] = rows[HAS], rows[RATIO_DEFAULT].kind = SBX_MAY_IGNORE + 100);
	REFUSED("doesn't fit its kind", rows[COUNT].kind = SBX_K_U64, rows[COUNT_DEFAULT].lo = -1);
	REFUSED("follows none", rows[CACHE - 1] = rows[CACHE], rows[CACHE] = rows[COUNT_DEFAULT]);
}
END_TEST

START_TEST(bytes_of_structs)
{
	REFUSED("8 bytes at offset 48 of struct good aren't declared: add SBX_FIELD or SBX_SKIP", schema.n_fields--);
	REFUSED("1 byte at offset 28 of struct good isn't declared", rows[HAS].kind = SBX_MAY_IGNORE + 100);
	REFUSED("8 bytes at offset 0", rows[COUNT] = rows[CACHE], rows[COUNT_DEFAULT].kind = rows[COUNT_RANGE].kind = rows[COUNT_WAS].kind = SBX_MAY_IGNORE + 100);
	REFUSED("overlap at offset 0", rows[RATIO].offset = 0);
	REFUSED("small (its SBX_PRESENT) and items (its counter) of struct good overlap at offset 24", rows[HAS].offset = offsetof(struct good, n));
	REFUSED("items (its counter)", rows[ITEMS].count_offset = 0);
	REFUSED("8 bytes at offset 56", schema.size = 64);
}
END_TEST

struct forgotten { int64_t a; int64_t b; };
SBX_STATE(forgotten, struct forgotten, SBX_FIELD(a));
TEST_MODULE(forgotten_module, 1, SBX_USES(forgotten));
struct padded { uint8_t a; uint64_t b; uint16_t c; struct { void *p; int32_t q; } skipped; uint8_t d; };
SBX_STATE(padded, struct padded, SBX_FIELD(a), SBX_FIELD(b), SBX_FIELD(c), SBX_SKIP(skipped), SBX_FIELD(d));
TEST_MODULE(padded_module, 1, SBX_USES(padded));
TEST_MODULE(stateless_module, 1, SBX_FN(nothing, ""));

START_TEST(the_lint_tells_padding_from_members)
{
	struct module_desc *d;
	struct err e;

	ck_fails(module_desc_read(&forgotten_module, &d, &e), ERR_BAD_MODULE, "8 bytes at offset 8 of struct forgotten aren't declared: add SBX_FIELD or SBX_SKIP");
	module_desc_free(desc_of(&padded_module));
	module_desc_free(desc_of(&stateless_module));
}
END_TEST

/* ---- many structs, deep structs ---- */

enum { DEEP = LIMIT_SCHEMA_DEPTH + 4 };
static struct sbx_schema deep[DEEP];
static struct sbx_field deep_rows[DEEP][2];
static unsigned deep_n;
#define DEEP_FN(i) static const struct sbx_schema *deep_fn_##i(void) { return &deep[i]; }
DEEP_FN(0) DEEP_FN(1) DEEP_FN(2) DEEP_FN(3) DEEP_FN(4) DEEP_FN(5) DEEP_FN(6) DEEP_FN(7) DEEP_FN(8) DEEP_FN(9)
DEEP_FN(10) DEEP_FN(11) DEEP_FN(12) DEEP_FN(13) DEEP_FN(14) DEEP_FN(15) DEEP_FN(16) DEEP_FN(17) DEEP_FN(18) DEEP_FN(19)
static sbx_schema_fn *const deep_fns[DEEP] = { deep_fn_0, deep_fn_1, deep_fn_2, deep_fn_3, deep_fn_4, deep_fn_5, deep_fn_6, deep_fn_7,
	deep_fn_8, deep_fn_9, deep_fn_10, deep_fn_11, deep_fn_12, deep_fn_13, deep_fn_14, deep_fn_15, deep_fn_16, deep_fn_17, deep_fn_18, deep_fn_19 };

static int read_deep(unsigned n, bool cycle, struct err *e)
{
	struct sbx_item item = { SBX_T_STATE, 0, "deep", NULL, NULL, deep_fn_0 };
	struct sbx_module m = good_module;
	struct module_desc *d;
	int r;

	deep_n = n;
	for (unsigned i = 0; i < n; i++) {
		deep_rows[i][0] = (struct sbx_field){ .kind = SBX_K_I64, .size = 8, .name = "a" };
		deep_rows[i][1] = (struct sbx_field){ .kind = SBX_K_ARRAY, .elem = SBX_K_STRUCT, .offset = 8, .size = 8, .elem_size = 24,
			.count_offset = 16, .count_kind = SBX_K_U64, .name = "b", .type = i + 1 < n ? deep_fns[i + 1] : deep_fns[0] };
		deep[i] = (struct sbx_schema){ sizeof deep[i], sizeof deep_rows[i][0], 2, 24, "deep", deep_rows[i] };
	}
	if (!cycle) {
		deep[n - 1].n_fields = 1;
		deep[n - 1].size = 8;
		if (n > 1)
			deep_rows[n - 2][1].elem_size = 8;
	}
	m.items = &item;
	m.n_items = 1;
	r = module_desc_read(&m, &d, e);
	if (r == 0)
		module_desc_free(d);
	return r;
}

START_TEST(nesting_is_bounded)
{
	struct err e;

	ck_ok(read_deep(1, false, &e));
	ck_ok(read_deep(LIMIT_SCHEMA_DEPTH, false, &e));
	ck_fails(read_deep(LIMIT_SCHEMA_DEPTH + 1, false, &e), ERR_BAD_MODULE, "deeper than 16");
	ck_fails(read_deep(1, true, &e), ERR_BAD_MODULE, "contains itself");
	ck_fails(read_deep(5, true, &e), ERR_BAD_MODULE, "contains itself");
}
END_TEST

CHECK_MAIN("descriptor", tcase_add_test(tc, a_good_one_is_read); tcase_add_test(tc, heads); tcase_add_test(tc, items_of_a_module);
	   tcase_add_test(tc, ignorable_rows_are_ignored); tcase_add_test(tc, heads_of_structs); tcase_add_test(tc, fields);
	   tcase_add_test(tc, modifiers); tcase_add_test(tc, bytes_of_structs); tcase_add_test(tc, the_lint_tells_padding_from_members);
	   tcase_add_test(tc, nesting_is_bounded))
