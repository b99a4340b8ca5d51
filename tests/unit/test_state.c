/* SPDX-License-Identifier: MIT
 *
 * The carry-over table, row by row: what each kind becomes in each other kind, and what is refused with path and value.
 * Modules of one field each; the state is put into memory directly. */
#include "tests/support/check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/context.h"
#include "tests/support/module_make.h"

#define ONE(tag, member, ...)                   \
	struct tag { member };                  \
	SBX_STATE(tag, struct tag, __VA_ARGS__); \
	TEST_MODULE(tag##_m, 1, SBX_USES(tag))
#define SCALAR(tag, T) ONE(tag, T v;, SBX_FIELD(v))

SCALAR(b, bool);
SCALAR(i8, int8_t);
SCALAR(i16, int16_t);
SCALAR(i32, int32_t);
SCALAR(i64, int64_t);
SCALAR(u8, uint8_t);
SCALAR(u16, uint16_t);
SCALAR(u32, uint32_t);
SCALAR(u64, uint64_t);
SCALAR(f32, float);
SCALAR(f64, double);
ONE(chars4, char v[4];, SBX_FIELD(v));
ONE(chars8, char v[8];, SBX_FIELD(v));
SCALAR(str, char *);
SCALAR(bytes, struct sbx_bytes);
ONE(i32x2, int32_t v[2];, SBX_FIXED(v));
ONE(i32x4, int32_t v[4];, SBX_FIXED(v));
ONE(i64x4, int64_t v[4];, SBX_FIXED(v));
ONE(f64x2, double v[2];, SBX_FIXED(v));
ONE(f32x2, float v[2];, SBX_FIXED(v));
ONE(boolx2, bool v[2];, SBX_FIXED(v));
ONE(i32s, int32_t *v; uint32_t n;, SBX_ARRAY(v, n));
ONE(i8s, int8_t *v; uint8_t n;, SBX_ARRAY(v, n));
ONE(small_count, int32_t *v; int8_t n;, SBX_ARRAY(v, n));
ONE(strs, char **v; int64_t n;, SBX_ARRAY(v, n));
ONE(strx2, char *v[2];, SBX_FIXED(v));
ONE(wrapped, struct i32 v;, SBX_STRUCT(v, i32));
ONE(wrapped64, struct i64 v;, SBX_STRUCT(v, i64));
ONE(structs, struct i32 *v; size_t n;, SBX_ARRAY_OF(v, n, i32));
ONE(structx2, struct i64 v[2];, SBX_FIXED_OF(v, i64));
ONE(renamed, int64_t w;, SBX_FIELD(w), SBX_WAS("v"));
ONE(renamed_again, int64_t z;, SBX_FIELD(z), SBX_WAS("v"));
ONE(ranged, int32_t v;, SBX_FIELD(v), SBX_DEFAULT(5), SBX_RANGE(1, 10));
ONE(ranged_u, uint64_t v;, SBX_FIELD(v), SBX_RANGE(0, 10));
ONE(ranged_f, float v;, SBX_FIELD(v), SBX_RANGE(-1, 1));
ONE(other, int64_t w;, SBX_FIELD(w), SBX_DEFAULT(77));
ONE(optional, int64_t v; bool has;, SBX_FIELD(v), SBX_PRESENT(has));
ONE(optional_str, char *v; bool has;, SBX_FIELD(v), SBX_PRESENT(has));
ONE(optional_other, int64_t w; bool has;, SBX_FIELD(w), SBX_PRESENT(has));

/* ---- crossing: state of one module into another ---- */

static struct crossing {
	struct module_desc *desc[2];
	struct module_instance *m[2];
	struct state_report report;
	struct err e;
	int result;
} c;

static void end_crossing(void)
{
	for (int i = 0; i < 2; i++) {
		instance_free(c.m[i]);
		module_desc_free(c.desc[i]);
		c.m[i] = NULL;
		c.desc[i] = NULL;
	}
}

static void begin(const struct sbx_module *from, const struct sbx_module *to)
{
	end_crossing();
	c.desc[0] = desc_of(from);
	c.desc[1] = desc_of(to);
	c.m[0] = instance_of(c.desc[0]);
	c.m[1] = instance_of(c.desc[1]);
}

static void *old_self(void)
{
	return c.m[0]->self;
}

static void *new_self(void)
{
	return c.m[1]->self;
}

static char *text(const char *s)
{
	char *p = arena_alloc(c.m[0]->arena, strlen(s) + 1);

	memcpy(p, s, strlen(s) + 1);
	return p;
}

static void cross_with(unsigned flags)
{
	uint64_t size;
	void *blob = save_of(c.m[0], &size);

	c.e = (struct err)ERR_INIT;
	c.result = instance_restore(c.m[1], blob, size, flags, &c.report, &c.e);
	free(blob);
}

static void carried(enum state_word word)
{
	cross_with(0);
	ck_assert_msg(c.result == 0, "%s (%s)", c.e.text, c.e.name);
	ck_assert_msg(c.report.counts[word] == 1, "%s isn't said", state_word_text(word));
}

static void refused(const char *path, const char *part)
{
	cross_with(0);
	ck_assert_msg(c.result != 0, "carried, not refused for %s", part);
	ck_assert_int_eq(c.e.code, ERR_STATE_MISMATCH);
	ck_assert_str_eq(c.e.name, path);
	ck_assert_msg(strstr(c.e.text, part) != NULL, "\"%s\" has no \"%s\"", c.e.text, part);
}

/* from.v = value becomes to.v == want */
#define BECOMES(from, value, to, want, word)                                                      \
	do {                                                                                      \
		begin(&from##_m, &to##_m);                                                        \
		((struct from *)old_self())->v = (value);                                         \
		carried(word);                                                                    \
		ck_assert_msg(((struct to *)new_self())->v == (want), #from " " #value " to " #to); \
	} while (0)
#define MISFITS(from, value, to, part)                    \
	do {                                              \
		begin(&from##_m, &to##_m);                \
		((struct from *)old_self())->v = (value); \
		refused("v", part);                       \
	} while (0)

START_TEST(same_kinds)
{
	BECOMES(b, true, b, true, STATE_CARRIED);
	BECOMES(i8, INT8_MIN, i8, INT8_MIN, STATE_CARRIED);
	BECOMES(i16, INT16_MIN, i16, INT16_MIN, STATE_CARRIED);
	BECOMES(i32, INT32_MIN, i32, INT32_MIN, STATE_CARRIED);
	BECOMES(i64, INT64_MIN, i64, INT64_MIN, STATE_CARRIED);
	BECOMES(u8, UINT8_MAX, u8, UINT8_MAX, STATE_CARRIED);
	BECOMES(u16, UINT16_MAX, u16, UINT16_MAX, STATE_CARRIED);
	BECOMES(u32, UINT32_MAX, u32, UINT32_MAX, STATE_CARRIED);
	BECOMES(u64, UINT64_MAX, u64, UINT64_MAX, STATE_CARRIED);
	BECOMES(f32, -0.1f, f32, -0.1f, STATE_CARRIED);
	BECOMES(f64, 1e308, f64, 1e308, STATE_CARRIED);
	end_crossing();
}
END_TEST

START_TEST(wider_numbers)
{
	BECOMES(i8, INT8_MIN, i16, INT8_MIN, STATE_WIDENED);
	BECOMES(i8, -1, i64, -1, STATE_WIDENED);
	BECOMES(i32, INT32_MIN, i64, INT32_MIN, STATE_WIDENED);
	BECOMES(u8, 255, u64, 255, STATE_WIDENED);
	BECOMES(u8, 255, i16, 255, STATE_WIDENED);
	BECOMES(u32, UINT32_MAX, i64, UINT32_MAX, STATE_WIDENED);
	BECOMES(f32, 0.1f, f64, (double)0.1f, STATE_WIDENED);
	end_crossing();
}
END_TEST

START_TEST(narrower_numbers)
{
	BECOMES(i64, -128, i8, -128, STATE_NARROWED);
	MISFITS(i64, 128, i8, "v: 128 doesn't fit i8");
	MISFITS(i64, -129, i8, "-129");
	MISFITS(i64, INT64_MIN, i32, "-9223372036854775808 doesn't fit i32");
	BECOMES(u64, 65535, u16, 65535, STATE_NARROWED);
	MISFITS(u64, 65536, u16, "65536 doesn't fit u16");
	BECOMES(u64, INT64_MAX, i64, INT64_MAX, STATE_CONVERTED);
	MISFITS(u64, (uint64_t)INT64_MAX + 1, i64, "9223372036854775808");
	BECOMES(i64, 5, u64, 5, STATE_CONVERTED);
	BECOMES(i8, 127, u8, 127, STATE_CONVERTED);
	MISFITS(i8, -1, u64, "-1 doesn't fit u64");
	MISFITS(u8, 128, i8, "128 doesn't fit i8");
	end_crossing();
}
END_TEST

START_TEST(floats)
{
	BECOMES(f64, 0.5, f32, 0.5f, STATE_NARROWED);
	ck_assert_uint_eq(c.report.counts[STATE_LOSSY], 0);
	BECOMES(f64, 0.1, f32, 0.1f, STATE_LOSSY);
	ck_assert_uint_eq(c.report.counts[STATE_NARROWED], 1);
	BECOMES(f64, (double)INFINITY, f32, INFINITY, STATE_NARROWED);
	MISFITS(f64, 1e39, f32, "doesn't fit f32");
	MISFITS(f64, -1e300, f32, "doesn't fit f32");
	BECOMES(f64, 0x1.fffffep127, f32, 0x1.fffffep127f, STATE_NARROWED);
	MISFITS(f64, 0x1.ffffffp127, f32, "doesn't fit f32");
	end_crossing();
}
END_TEST

START_TEST(integers_and_floats)
{
	BECOMES(i64, 1ll << 53, f64, 9007199254740992.0, STATE_CONVERTED);
	MISFITS(i64, (1ll << 53) + 1, f64, "9007199254740993 doesn't fit f64");
	MISFITS(u64, UINT64_MAX, f64, "18446744073709551615");
	BECOMES(u64, 1ull << 63, f64, 9223372036854775808.0, STATE_CONVERTED);
	BECOMES(i64, INT64_MIN, f64, -9223372036854775808.0, STATE_CONVERTED);
	BECOMES(i64, 16777216, f32, 16777216.0f, STATE_CONVERTED);
	MISFITS(i64, 16777217, f32, "16777217");
	BECOMES(f64, -3.0, i8, -3, STATE_CONVERTED);
	BECOMES(f64, -9223372036854775808.0, i64, INT64_MIN, STATE_CONVERTED);
	BECOMES(f64, 18446744073709549568.0, u64, 18446744073709549568ull, STATE_CONVERTED);
	MISFITS(f64, 18446744073709551616.0, u64, "fit u64");
	MISFITS(f64, -9223372036854777856.0, i64, "fit i64");
	MISFITS(f64, 0.5, i64, "0.5 doesn't fit i64");
	MISFITS(f64, (double)NAN, i64, "nan");
	MISFITS(f64, (double)INFINITY, u64, "inf");
	MISFITS(f64, 300, u8, "300 doesn't fit u8");
	MISFITS(f64, -1, u8, "-1 doesn't fit u8");
	BECOMES(f64, -0.0, i8, 0, STATE_CONVERTED);
	end_crossing();
}
END_TEST

START_TEST(bools)
{
	BECOMES(b, true, i64, 1, STATE_CONVERTED);
	BECOMES(u8, 1, b, true, STATE_CONVERTED);
	BECOMES(i32, 0, b, false, STATE_CONVERTED);
	MISFITS(i32, 2, b, "2 doesn't fit bool");
	MISFITS(i32, -1, b, "-1 doesn't fit bool");
	MISFITS(f64, 1, b, "f64 can't become bool");
	MISFITS(b, true, f64, "bool can't become f64: give it another name and convert it in migrate");
	begin(&b_m, &b_m);
	memset(old_self(), 0x55, 1); /* a bool's byte that is no bool */
	carried(STATE_CARRIED);
	ck_assert_uint_eq(*(uint8_t *)new_self(), 1);
	end_crossing();
}
END_TEST

START_TEST(nans_keep_their_bits)
{
	static const uint32_t bits32[] = { 0x7fc00000, 0x7f800001, 0xffc12345, 0xff812345 };
	static const uint64_t odd = 0x7ff4000000000001;

	for (size_t i = 0; i < 4; i++) {
		uint64_t wide;
		uint32_t back;

		begin(&f32_m, &f64_m);
		memcpy(old_self(), &bits32[i], 4);
		carried(STATE_WIDENED);
		memcpy(&wide, new_self(), 8);
		begin(&f64_m, &f32_m);
		memcpy(old_self(), &wide, 8);
		carried(STATE_NARROWED);
		ck_assert_uint_eq(c.report.counts[STATE_LOSSY], 0);
		memcpy(&back, new_self(), 4);
		ck_assert_uint_eq(back, bits32[i]);
	}
	begin(&f64_m, &f32_m);
	memcpy(old_self(), &odd, 8);
	carried(STATE_LOSSY);
	ck_assert(isnan(((struct f32 *)new_self())->v));
	end_crossing();
}
END_TEST

#define TEXT_OF(tag) (((struct tag *)new_self())->v)

START_TEST(texts)
{
	begin(&chars4_m, &chars8_m);
	memcpy(old_self(), "abc\0", 4);
	carried(STATE_WIDENED);
	ck_assert_mem_eq(TEXT_OF(chars8), "abc\0\0\0\0\0", 8);
	begin(&chars8_m, &chars4_m);
	memcpy(old_self(), "abc\0junk", 8); /* what follows the NUL is no state */
	carried(STATE_NARROWED);
	ck_assert_mem_eq(TEXT_OF(chars4), "abc\0", 4);
	begin(&chars8_m, &chars4_m);
	memcpy(old_self(), "abcd", 5);
	refused("v", "a text of 4 bytes doesn't fit char[4]");
	begin(&chars8_m, &str_m);
	memcpy(old_self(), "abc", 4);
	carried(STATE_WIDENED);
	ck_assert_str_eq(TEXT_OF(str), "abc");
	begin(&str_m, &chars4_m);
	((struct str *)old_self())->v = text("abc");
	carried(STATE_NARROWED);
	ck_assert_str_eq(TEXT_OF(chars4), "abc");
	begin(&str_m, &chars4_m);
	((struct str *)old_self())->v = text("abcd");
	refused("v", "doesn't fit char[4]");
	begin(&str_m, &chars4_m); /* NULL */
	carried(STATE_NARROWED);
	ck_assert_str_eq(TEXT_OF(chars4), "");
	begin(&str_m, &str_m);
	carried(STATE_CARRIED);
	ck_assert_ptr_null(TEXT_OF(str));
	begin(&str_m, &str_m);
	((struct str *)old_self())->v = text("\xff\xfe not UTF-8");
	carried(STATE_CARRIED);
	ck_assert_str_eq(TEXT_OF(str), "\xff\xfe not UTF-8");
	begin(&str_m, &i64_m);
	refused("v", "str can't become i64");
	end_crossing();
}
END_TEST

static void set_old_bytes(const char *p, uint64_t n)
{
	struct sbx_bytes b = { n > 0 ? arena_alloc(c.m[0]->arena, n) : NULL, n };

	if (n > 0)
		memcpy(b.data, p, n);
	((struct bytes *)old_self())->v = b;
}

START_TEST(bytes_and_texts)
{
	begin(&bytes_m, &bytes_m);
	set_old_bytes("a\0b", 3);
	carried(STATE_CARRIED);
	ck_assert_uint_eq(TEXT_OF(bytes).size, 3);
	ck_assert_mem_eq(TEXT_OF(bytes).data, "a\0b", 3);
	begin(&bytes_m, &bytes_m);
	carried(STATE_CARRIED);
	ck_assert_ptr_null(TEXT_OF(bytes).data);
	begin(&bytes_m, &str_m);
	set_old_bytes("ab", 2);
	carried(STATE_CONVERTED);
	ck_assert_str_eq(TEXT_OF(str), "ab");
	begin(&bytes_m, &str_m);
	set_old_bytes("a\0b", 3);
	refused("v", "contain a NUL");
	begin(&bytes_m, &chars4_m);
	set_old_bytes("abcd", 4);
	refused("v", "doesn't fit char[4]");
	begin(&str_m, &bytes_m);
	((struct str *)old_self())->v = text("ab");
	carried(STATE_CONVERTED);
	ck_assert_uint_eq(TEXT_OF(bytes).size, 2);
	begin(&bytes_m, &i64_m);
	refused("v", "bytes can't become i64");
	end_crossing();
}
END_TEST

START_TEST(fixed_arrays)
{
	static const int32_t four[] = { 1, -2, 3, 4 }, two[] = { 1, -2, 0, 0 };

	begin(&i32x4_m, &i32x4_m);
	memcpy(old_self(), four, sizeof four);
	carried(STATE_CARRIED);
	ck_assert_mem_eq(new_self(), four, sizeof four);
	begin(&i32x2_m, &i32x4_m);
	memcpy(old_self(), four, 8);
	carried(STATE_WIDENED);
	ck_assert_mem_eq(new_self(), two, sizeof two);
	begin(&i32x2_m, &i64x4_m);
	memcpy(old_self(), four, 8);
	carried(STATE_WIDENED);
	ck_assert_int_eq(((struct i64x4 *)new_self())->v[1], -2);
	begin(&i32x4_m, &i32x2_m); /* the cut tail equals the default */
	memcpy(old_self(), two, sizeof two);
	carried(STATE_NARROWED);
	ck_assert_mem_eq(new_self(), two, 8);
	begin(&i32x4_m, &i32x2_m);
	memcpy(old_self(), four, sizeof four);
	refused("v[2]", "the array has room for 2 only, and this item isn't empty");
	begin(&i64x4_m, &i32x4_m);
	((struct i64x4 *)old_self())->v[3] = 1ll << 40;
	refused("v[3]", "1099511627776 doesn't fit i32");
	begin(&f64x2_m, &f32x2_m);
	((struct f64x2 *)old_self())->v[1] = 0.1;
	carried(STATE_LOSSY);
	begin(&boolx2_m, &i32x2_m);
	((struct boolx2 *)old_self())->v[1] = true;
	carried(STATE_CONVERTED);
	ck_assert_int_eq(((struct i32x2 *)new_self())->v[1], 1);
	end_crossing();
}
END_TEST

static void set_old_items(const int32_t *from, uint32_t n)
{
	struct i32s *s = old_self();

	s->v = arena_alloc(c.m[0]->arena, n * sizeof *from);
	memcpy(s->v, from, n * sizeof *from);
	s->n = n;
}

START_TEST(growable_arrays)
{
	static const int32_t items[200] = { 1, -2, 3 };

	begin(&i32s_m, &i32s_m);
	set_old_items(items, 200);
	carried(STATE_CARRIED);
	ck_assert_uint_eq(((struct i32s *)new_self())->n, 200);
	ck_assert_mem_eq(((struct i32s *)new_self())->v, items, sizeof items);
	begin(&i32s_m, &i32s_m);
	carried(STATE_CARRIED);
	ck_assert_ptr_null(((struct i32s *)new_self())->v);
	begin(&i32s_m, &i8s_m);
	set_old_items(items, 200);
	carried(STATE_NARROWED);
	ck_assert_uint_eq(((struct i8s *)new_self())->n, 200);
	ck_assert_int_eq(((struct i8s *)new_self())->v[1], -2);
	begin(&i32s_m, &small_count_m);
	set_old_items(items, 200);
	refused("v", "200 items are more than its counter can say");
	begin(&i32x4_m, &i32s_m);
	memcpy(old_self(), items, 16);
	carried(STATE_WIDENED);
	ck_assert_uint_eq(((struct i32s *)new_self())->n, 4);
	begin(&i32s_m, &i32x4_m);
	set_old_items(items, 200);
	carried(STATE_NARROWED);
	ck_assert_mem_eq(new_self(), items, 16);
	begin(&i32s_m, &i32x2_m);
	set_old_items(items, 3);
	refused("v[2]", "room for 2 only");
	begin(&i32s_m, &i32_m);
	refused("v", "i32[] can't become i32");
	begin(&i32_m, &i32s_m);
	refused("v", "i32 can't become i32[]");
	end_crossing();
}
END_TEST

START_TEST(arrays_of_texts)
{
	begin(&strs_m, &strs_m);
	((struct strs *)old_self())->v = arena_alloc(c.m[0]->arena, 2 * sizeof(char *));
	((struct strs *)old_self())->v[0] = text("one");
	((struct strs *)old_self())->n = 2;
	carried(STATE_CARRIED);
	ck_assert_str_eq(((struct strs *)new_self())->v[0], "one");
	ck_assert_ptr_null(((struct strs *)new_self())->v[1]);
	begin(&strs_m, &strx2_m);
	((struct strs *)old_self())->v = arena_alloc(c.m[0]->arena, 3 * sizeof(char *));
	((struct strs *)old_self())->v[2] = text("three");
	((struct strs *)old_self())->n = 3;
	refused("v[2]", "room for 2 only");
	((struct strs *)old_self())->v[2] = NULL;
	carried(STATE_NARROWED);
	end_crossing();
}
END_TEST

START_TEST(structs_)
{
	begin(&wrapped_m, &wrapped64_m);
	((struct wrapped *)old_self())->v.v = -5;
	carried(STATE_WIDENED);
	ck_assert_int_eq(((struct wrapped64 *)new_self())->v.v, -5);
	begin(&wrapped64_m, &wrapped_m);
	((struct wrapped64 *)old_self())->v.v = 1ll << 40;
	refused("v.v", "doesn't fit i32");
	begin(&wrapped_m, &i32_m);
	refused("v", "struct i32 can't become i32");
	begin(&i32_m, &wrapped_m);
	refused("v", "can't become");
	begin(&structx2_m, &structs_m);
	((struct structx2 *)old_self())->v[1].v = 9;
	carried(STATE_NARROWED);
	ck_assert_uint_eq(((struct structs *)new_self())->n, 2);
	ck_assert_int_eq(((struct structs *)new_self())->v[1].v, 9);
	begin(&structs_m, &structx2_m);
	((struct structs *)old_self())->v = arena_alloc(c.m[0]->arena, 3 * sizeof(struct i32));
	((struct structs *)old_self())->n = 3;
	((struct structs *)old_self())->v[1].v = 8;
	cross_with(0);
	ck_assert_int_eq(c.result, 0);
	ck_assert_int_eq(((struct structx2 *)new_self())->v[1].v, 8);
	begin(&structx2_m, &wrapped_m);
	refused("v", "can't become");
	end_crossing();
}
END_TEST

START_TEST(added_dropped_and_backwards)
{
	begin(&i64_m, &other_m);
	((struct i64 *)old_self())->v = 5;
	carried(STATE_ADDED);
	ck_assert_uint_eq(c.report.counts[STATE_DROPPED], 1);
	ck_assert_int_eq(((struct other *)new_self())->w, 77);
	begin(&i64_m, &other_m);
	cross_with(RESTORE_BACKWARDS);
	ck_assert_int_eq(c.e.code, ERR_STATE_MISMATCH);
	ck_assert_str_eq(c.e.name, "w");
	begin(&i64_m, &optional_other_m); /* optional: absent, also backwards */
	cross_with(RESTORE_BACKWARDS);
	ck_assert_int_eq(c.result, 0);
	ck_assert(!((struct optional_other *)new_self())->has);
	end_crossing();
}
END_TEST

START_TEST(optional_fields)
{
	begin(&optional_m, &optional_m);
	carried(STATE_CARRIED);
	ck_assert(!((struct optional *)new_self())->has);
	begin(&optional_m, &i64_m); /* absent, but must be there: the default */
	carried(STATE_CARRIED);
	ck_assert_int_eq(((struct i64 *)new_self())->v, 0);
	begin(&optional_m, &i64_m);
	cross_with(RESTORE_BACKWARDS);
	ck_assert_int_ne(c.result, 0);
	begin(&optional_m, &i64_m);
	*(struct optional *)old_self() = (struct optional){ 4, true };
	carried(STATE_CARRIED);
	ck_assert_int_eq(((struct i64 *)new_self())->v, 4);
	begin(&i64_m, &optional_m);
	((struct i64 *)old_self())->v = 4;
	carried(STATE_CARRIED);
	ck_assert(((struct optional *)new_self())->has);
	ck_assert_int_eq(((struct optional *)new_self())->v, 4);
	begin(&optional_str_m, &optional_str_m); /* there, and NULL */
	((struct optional_str *)old_self())->has = true;
	carried(STATE_CARRIED);
	ck_assert(((struct optional_str *)new_self())->has);
	ck_assert_ptr_null(((struct optional_str *)new_self())->v);
	end_crossing();
}
END_TEST

START_TEST(renaming_works_both_ways)
{
	begin(&i64_m, &renamed_m);
	((struct i64 *)old_self())->v = 6;
	carried(STATE_RENAMED);
	ck_assert_int_eq(((struct renamed *)new_self())->w, 6);
	ck_assert_str_eq(c.report.entries[0].from, "v");
	ck_assert_str_eq(c.report.entries[0].to, "w");
	begin(&renamed_m, &i64_m); /* the old code doesn't know the new name: the blob knows the old one */
	((struct renamed *)old_self())->w = 6;
	cross_with(RESTORE_BACKWARDS);
	ck_assert_int_eq(c.result, 0);
	ck_assert_int_eq(((struct i64 *)new_self())->v, 6);
	begin(&renamed_m, &renamed_again_m); /* both were called v */
	((struct renamed *)old_self())->w = 6;
	carried(STATE_RENAMED);
	ck_assert_int_eq(((struct renamed_again *)new_self())->z, 6);
	end_crossing();
}
END_TEST

START_TEST(ranges_are_checked)
{
	begin(&i32_m, &ranged_m);
	((struct i32 *)old_self())->v = 10;
	carried(STATE_CARRIED);
	begin(&i32_m, &ranged_m);
	((struct i32 *)old_self())->v = 11;
	refused("v", "11 isn't in its range 1 to 10");
	begin(&u64_m, &ranged_u_m);
	((struct u64 *)old_self())->v = UINT64_MAX;
	refused("v", "18446744073709551615 isn't in its range");
	begin(&f32_m, &ranged_f_m);
	((struct f32 *)old_self())->v = NAN;
	refused("v", "nan isn't in its range");
	begin(&f32_m, &ranged_f_m);
	((struct f32 *)old_self())->v = -1;
	carried(STATE_CARRIED);
	end_crossing();
}
END_TEST

/* ---- what can't be saved ---- */

static void unsaveable(const char *path, const char *part)
{
	uint64_t size;
	struct err e;

	ck_fails(instance_save(c.m[0], NULL, 0, &size, &e), ERR_STATE_MISMATCH, part);
	ck_assert_str_eq(e.name, path);
}

START_TEST(foreign_and_wild_memory_is_refused)
{
	static char literal[] = "literal";
	char *full;

	begin(&str_m, &str_m);
	((struct str *)old_self())->v = literal;
	unsaveable("v", "isn't the host's (a string literal");
	full = arena_alloc(c.m[0]->arena, 16);
	memset(full, 'x', arena_usable(c.m[0]->arena, full));
	((struct str *)old_self())->v = full;
	unsaveable("v", "doesn't end within its memory");
	((struct str *)old_self())->v = full + 1;
	unsaveable("v", "isn't the host's");
	arena_release(c.m[0]->arena, full);
	((struct str *)old_self())->v = full;
	unsaveable("v", "freed?");
	((struct str *)old_self())->v = NULL;
	begin(&chars4_m, &chars4_m);
	memcpy(old_self(), "abcd", 4);
	unsaveable("v", "doesn't end within its 4 bytes");
	begin(&bytes_m, &bytes_m);
	((struct bytes *)old_self())->v = (struct sbx_bytes){ literal, 3 };
	unsaveable("v", "sbx_set_bytes");
	set_old_bytes("abc", 3);
	((struct bytes *)old_self())->v.size = 100000;
	unsaveable("v", "its size is 100000");
	begin(&i32s_m, &i32s_m);
	((struct i32s *)old_self())->n = 1;
	unsaveable("v", "SBX_ADD");
	set_old_items((const int32_t[]){ 1, 2 }, 2);
	((struct i32s *)old_self())->n = UINT32_MAX;
	unsaveable("v", "counter says 4294967295");
	begin(&strs_m, &strs_m);
	((struct strs *)old_self())->v = arena_alloc(c.m[0]->arena, 64);
	((struct strs *)old_self())->n = -1;
	unsaveable("v", "counter says 18446744073709551615");
	((struct strs *)old_self())->n = 2;
	((struct strs *)old_self())->v[1] = literal;
	unsaveable("v[1]", "string literal");
	end_crossing();
}
END_TEST

START_TEST(a_room_that_is_too_small)
{
	uint64_t need, size = 0;
	uint8_t *room;
	struct err e;

	begin(&str_m, &str_m);
	((struct str *)old_self())->v = text("some text");
	ck_ok(instance_save(c.m[0], NULL, 0, &need, &e));
	room = malloc(need);
	for (uint64_t n = 0; n < need; n++) {
		ck_fails(instance_save(c.m[0], room, n, &size, &e), ERR_LIMIT_EXCEEDED, "bytes");
		ck_assert_uint_eq(size, need);
	}
	ck_ok(instance_save(c.m[0], room, need, &size, &e));
	free(room);
	end_crossing();
}
END_TEST

START_TEST(the_report_in_json)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	begin(&i64_m, &renamed_m);
	cross_with(0);
	state_report_json(&c.report, &o, NULL);
	ck_assert_str_eq(buf_text(&b), "{\"from_version\":1,\"to_version\":1,\"renamed\":[{\"field\":\"w\",\"from\":\"v\",\"to\":\"w\"}]}");
	buf_clear(&b);
	o = json_out_to(&b);
	begin(&i32_m, &i64_m);
	cross_with(0);
	state_report_json(&c.report, &o, NULL);
	ck_assert_str_eq(buf_text(&b), "{\"from_version\":1,\"to_version\":1,\"widened\":[{\"field\":\"v\",\"from\":\"i32\",\"to\":\"i64\"}]}");
	for (int i = 0; i < 1000; i++)
		state_report_add(&c.report, STATE_ADDED, "a", NULL, NULL);
	ck_assert_uint_eq(c.report.n_entries, STATE_REPORT_ENTRIES);
	ck_assert_uint_eq(c.report.n_left_out, 1001 - STATE_REPORT_ENTRIES);
	buf_fini(&b);
	end_crossing();
}
END_TEST

CHECK_MAIN("state", tcase_add_test(tc, same_kinds); tcase_add_test(tc, wider_numbers); tcase_add_test(tc, narrower_numbers);
	   tcase_add_test(tc, floats); tcase_add_test(tc, integers_and_floats); tcase_add_test(tc, bools);
	   tcase_add_test(tc, nans_keep_their_bits); tcase_add_test(tc, texts); tcase_add_test(tc, bytes_and_texts);
	   tcase_add_test(tc, fixed_arrays); tcase_add_test(tc, growable_arrays); tcase_add_test(tc, arrays_of_texts);
	   tcase_add_test(tc, structs_); tcase_add_test(tc, added_dropped_and_backwards); tcase_add_test(tc, optional_fields);
	   tcase_add_test(tc, renaming_works_both_ways); tcase_add_test(tc, ranges_are_checked);
	   tcase_add_test(tc, foreign_and_wild_memory_is_refused); tcase_add_test(tc, a_room_that_is_too_small);
	   tcase_add_test(tc, the_report_in_json))
