/* SPDX-License-Identifier: MIT
 *
 * A state in words, and back: for random schemas and states, a blob whose every field is replaced by what state_show said of it is the same
 * blob, byte for byte (but for what JSON can't say: the bits of NaNs, an optional text that is there and NULL). Then what is refused, and that nothing of it is written. */
#define SBX_WANT_MINOR 1
#include "tests/support/check_main.h"

#include "daemon/host/state/patch.h"
#include "daemon/host/state/show.h"
#include "tests/support/random_state.h"

enum { ROUNDS = 3000 };

static void *saved(struct module_instance *m, uint64_t *ret_n)
{
	struct err e = ERR_INIT;
	void *blob;

	ck_assert_msg(instance_save(m, NULL, 0, ret_n, &e) == 0, "%s", e.text);
	blob = malloc(*ret_n);
	ck_assert_ptr_nonnull(blob);
	ck_assert_msg(instance_save(m, blob, *ret_n, ret_n, &e) == 0, "%s", e.text);
	return blob;
}

/* The whole answer as text; NULL: JSON can't say it. */
static char *shown(const void *blob, uint64_t n)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct err e = ERR_INIT;
	char *text = NULL;

	json_out_object(&o, NULL);
	if (state_show(blob, n, &o, &e) == 0) {
		json_out_object_end(&o);
		ck_assert_msg(json_check(b.data, b.size, &e) == 0, "%s", e.text);
		text = strdup(buf_text(&b));
	} else {
		ck_assert_int_eq(e.code, ERR_BAD_PARAM);
	}
	buf_fini(&b);
	return text;
}

static bool one_round(int round, bool *ret_exact)
{
	struct module_instance *m = NULL;
	struct buf again = BUF_INIT;
	struct err e = ERR_INIT;
	struct module_desc *d;
	struct json_span state;
	char *text, *text_again;
	int next_id = 0;
	uint64_t n = 0;
	void *blob;
	bool said, has_null;

	seed = (uint64_t)round * 104729 + 3;
	random_set(&next_id);
	d = describe(0);
	ck_assert_msg(instance_new(d, &m, &e) == 0, "%s", e.text);
	random_fill(0, m);
	blob = saved(m, &n);
	text = shown(blob, n);
	said = text != NULL;
	*ret_exact = false;
	if (said) {
		state = json_get((struct json_span){ text, strlen(text) }, "state");
		ck_assert_int_eq(json_type(state), '{');
		ck_assert_msg(state_patch(blob, n, state.at, state.size, &again, &e) == 0, "round %d: %s in %s", round, e.text, text);
		text_again = shown(again.data, again.size);
		ck_assert_ptr_nonnull(text_again);
		has_null = memmem(state.at, state.size, ":null", 5) != NULL; /* of an optional text: NULL, or absent? It is taken as absent */
		if (!has_null)
			ck_assert_str_eq(text, text_again);
		*ret_exact = !has_null && strstr(text, "NaN") == NULL;
		if (*ret_exact)
			ck_assert_msg(again.size == n && memcmp(again.data, blob, n) == 0, "round %d: %s", round, text);
		free(text_again);
	}
	buf_fini(&again);
	free(text);
	free(blob);
	instance_free(m);
	module_desc_free(d);
	return said;
}

START_TEST(words_and_back)
{
	unsigned said = 0, exact = 0;

	instance_set_host(&(struct instance_host){ .memory_bytes = 4u << 20 });
	for (int round = 0; round < ROUNDS; round++) {
		bool is_exact;

		said += one_round(round, &is_exact);
		exact += is_exact;
	}
	printf("state_patch: %d rounds, %u in JSON, %u of them without NaN\n", ROUNDS, said, exact);
	ck_assert_uint_gt(exact, ROUNDS / 4);
}
END_TEST

/* ---- by hand ---- */

struct part { int8_t small; };
struct whole {
	int64_t count;
	uint64_t big;
	float ratio;
	bool on, has_note;
	char name[8];
	char *note;
	struct sbx_bytes raw;
	struct part part;
	uint16_t fixed[3];
	struct part *parts;
	uint32_t n_parts;
	struct sbx_map *by_name;
};
SBX_STATE(part, struct part, SBX_FIELD(small));
SBX_STATE(whole, struct whole, SBX_FIELD(count), SBX_FIELD(big), SBX_FIELD(ratio), SBX_FIELD(on), SBX_FIELD(name), SBX_FIELD(note), SBX_PRESENT(has_note),
	SBX_FIELD(raw), SBX_STRUCT(part, part), SBX_FIXED(fixed), SBX_ARRAY_OF(parts, n_parts, part), SBX_MAP_OF(by_name, part));

static void *blob;
static uint64_t blob_bytes;

static void setup(void)
{
	struct sbx_item items[] = { SBX_USES(whole) };
	struct sbx_module table = { SBX_MAGIC, SBX_ABI_MAJOR, 1, sizeof table, sizeof items[0], 1, 1, "whole", items, "" };
	struct module_instance *m = NULL;
	struct module_desc *d = NULL;
	struct err e = ERR_INIT;

	instance_set_host(&(struct instance_host){ .memory_bytes = 4u << 20 });
	ck_assert_msg(module_desc_read(&table, &d, &e) == 0, "%s", e.text);
	ck_assert_msg(instance_new(d, &m, &e) == 0, "%s", e.text);
	blob = saved(m, &blob_bytes);
	instance_free(m);
	module_desc_free(d);
}

static void teardown(void)
{
	free(blob);
}

static void gives(const char *patch, const char *part_of_state)
{
	struct buf to = BUF_INIT;
	struct err e = ERR_INIT;
	char *text;

	ck_assert_msg(state_patch(blob, blob_bytes, patch, strlen(patch), &to, &e) == 0, "%s: %s", patch, e.text);
	text = shown(to.data, to.size);
	ck_assert_ptr_nonnull(text);
	ck_assert_msg(strstr(text, part_of_state) != NULL, "%s: %s", patch, text);
	free(text);
	buf_fini(&to);
}

static void refuses(const char *patch, const char *path, const char *why)
{
	struct buf to = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(state_patch(blob, blob_bytes, patch, strlen(patch), &to, &e) == -1, "%s is taken", patch);
	ck_assert_int_eq(e.code, ERR_STATE_MISMATCH);
	ck_assert_msg(strcmp(e.name, path) == 0 && strstr(e.text, why), "%s: %s: %s", patch, e.name, e.text);
	buf_fini(&to);
}

START_TEST(what_is_taken)
{
	gives("{}", "\"count\":0");
	gives("{\"count\":-5}", "\"count\":-5,\"big\":0");
	gives("{\"count\":\"-9223372036854775808\"}", "\"count\":\"-9223372036854775808\"");
	gives("{\"big\":\"18446744073709551615\"}", "\"big\":\"18446744073709551615\"");
	gives("{\"ratio\":\"NaN\"}", "\"ratio\":\"NaN\"");
	gives("{\"ratio\":\"-Infinity\",\"on\":true}", "\"ratio\":\"-Infinity\",\"on\":true");
	gives("{\"ratio\":2}", "\"ratio\":2");
	gives("{\"name\":\"seven\"}", "\"name\":\"seven\"");
	gives("{\"note\":\"hi\"}", "\"note\":\"hi\"");
	gives("{\"note\":null}", "\"raw\"");
	gives("{\"raw\":{\"$bytes\":\"AAE=\"}}", "\"raw\":{\"$bytes\":\"AAE=\"}");
	gives("{\"part\":{\"small\":-128}}", "\"part\":{\"small\":-128}");
	gives("{\"part\":{}}", "\"part\":{\"small\":0}");
	gives("{\"fixed\":[1,2,65535]}", "\"fixed\":[1,2,65535]");
	gives("{\"parts\":[{\"small\":1},{\"small\":2}]}", "\"parts\":[{\"small\":1},{\"small\":2}]");
	gives("{\"parts\":[]}", "\"parts\":[]");
	gives("{\"by_name\":{\"b\":{\"small\":1},\"a\":{\"small\":2}}}", "\"by_name\":{\"b\":{\"small\":1},\"a\":{\"small\":2}}");
}
END_TEST

START_TEST(what_is_refused)
{
	refuses("{\"cuont\":1}", "", "no field cuont");
	refuses("{\"count\":1.5}", "count", "no i64");
	refuses("{\"count\":\"1x\"}", "count", "no i64");
	refuses("{\"count\":\"\"}", "count", "no i64");
	refuses("{\"count\":\"9223372036854775808\"}", "count", "no i64");
	refuses("{\"count\":null}", "count", "no i64");
	refuses("{\"big\":-1}", "big", "no u64");
	refuses("{\"big\":\"18446744073709551616\"}", "big", "no u64");
	refuses("{\"ratio\":\"much\"}", "ratio", "no f32");
	refuses("{\"on\":1}", "on", "no bool");
	refuses("{\"name\":5}", "name", "no char[8]");
	refuses("{\"raw\":\"text\"}", "raw", "no bytes");
	refuses("{\"part\":[]}", "part", "no object");
	refuses("{\"part\":{\"small\":128}}", "part.small", "no i8");
	refuses("{\"part\":{\"big\":1}}", "part", "no field big");
	refuses("{\"fixed\":[1,2]}", "fixed", "3 items, not 2");
	refuses("{\"fixed\":[1,2,65536]}", "fixed[2]", "no u16");
	refuses("{\"fixed\":{}}", "fixed", "no ");
	refuses("{\"parts\":[{\"small\":1},{}]}", "parts[1].small", "missing");
	refuses("{\"parts\":[7]}", "parts[0]", "no object");
	refuses("{\"by_name\":{\"x\":{\"small\":300}}}", "by_name[x].small", "no i8");
	refuses("{\"by_name\":[]}", "by_name", "no ");
}
END_TEST

START_TEST(damaged_blobs)
{
	struct err e = ERR_INIT;

	for (uint64_t i = 0; i < blob_bytes; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct buf to = BUF_INIT;

			((uint8_t *)blob)[i] ^= (uint8_t)(1u << bit);
			(void)state_patch(blob, blob_bytes, "{\"count\":1,\"fixed\":[1,2,3]}", 28, &to, &e); /* no matter what, within bounds */
			buf_fini(&to);
			(void)state_patch(blob, i, "{\"count\":1}", 11, &to, &e);
			buf_fini(&to);
			((uint8_t *)blob)[i] ^= (uint8_t)(1u << bit);
		}
}
END_TEST

CHECK_MAIN("state_patch", tcase_add_checked_fixture(tc, setup, teardown); tcase_add_test(tc, words_and_back); tcase_add_test(tc, what_is_taken);
	   tcase_add_test(tc, what_is_refused); tcase_add_test(tc, damaged_blobs);)
