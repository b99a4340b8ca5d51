/* SPDX-License-Identifier: MIT
 *
 * Instances: the order of hooks, calls and their errors, upgrades with rename, default and migrate, memory that ends,
 * blobs that are cut and flipped. */
#include "tests/support/check_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/module_make.h"

/* ---- a counter, in two versions ---- */

struct counter { int64_t count; };
SBX_STATE(counter, struct counter, SBX_FIELD(count));

static int increment(struct sbx *x, void *self)
{
	struct counter *c = self;

	c->count += sbx_arg_i64(x, "by");
	return sbx_put_i64(x, "count", c->count);
}

TEST_MODULE(counter_1, 1, SBX_USES(counter), SBX_FN(increment, "by: i64 = 1"));

struct counter2 { int64_t total; int32_t step; char owner[16]; };
SBX_STATE(counter2, struct counter2, SBX_FIELD(total), SBX_WAS("count"), SBX_FIELD(step), SBX_DEFAULT(1), SBX_RANGE(1, 1000),
	SBX_FIELD(owner), SBX_DEFAULT_S("nobody"));

static int increment2(struct sbx *x, void *self)
{
	struct counter2 *c = self;

	c->total += sbx_arg_i64(x, "by") * c->step;
	sbx_put_str(x, "owner", c->owner);
	return sbx_put_i64(x, "count", c->total);
}

TEST_MODULE(counter_2, 2, SBX_USES(counter2), SBX_FN_AS("increment", increment2, "by: i64 = 1"));

/* ---- a shop, in two versions ---- */

struct item { char *sku; int32_t qty; double price; };
SBX_STATE(item, struct item, SBX_FIELD(sku), SBX_FIELD(qty), SBX_RANGE(0, 1000000), SBX_FIELD(price));
struct place { double lat, lon; };
SBX_STATE(place, struct place, SBX_FIELD(lat), SBX_FIELD(lon));
struct shop { char *name; struct place at; struct item *items; uint32_t n_items; int16_t week[7]; char *note; bool has_note; uint8_t legacy; };
SBX_STATE(shop, struct shop, SBX_FIELD(name), SBX_DEFAULT_S("shop"), SBX_STRUCT(at, place), SBX_ARRAY_OF(items, n_items, item),
	SBX_FIXED(week), SBX_FIELD(note), SBX_PRESENT(has_note), SBX_FIELD(legacy), SBX_DEFAULT(7));

static int shop_init(struct sbx *x, void *self)
{
	struct shop *s = self;

	if (sbx_has(sbx_config(x, "name")))
		sbx_set_str(x, &s->name, sbx_text(x, sbx_config(x, "name")));
	return 0;
}

static int add(struct sbx *x, void *self)
{
	struct shop *s = self;
	struct item *it = SBX_ADD(x, s->items, s->n_items, struct item);

	sbx_set_str(x, &it->sku, sbx_arg_str(x, "sku"));
	it->qty = (int32_t)sbx_arg_i64(x, "qty");
	it->price = sbx_arg_f64(x, "price");
	s->week[2]++;
	s->at.lat = 52.5;
	return sbx_put_u64(x, "items", s->n_items);
}

TEST_MODULE(shop_1, 1, SBX_USES(shop), SBX_ON_INIT(shop_init), SBX_FN(add, "sku: str, qty: i64 = 1, price: f64"));

struct item2 { char *sku; int64_t qty; int64_t cents; char **tags; uint32_t n_tags; };
SBX_STATE(item2, struct item2, SBX_FIELD(sku), SBX_FIELD(qty), SBX_FIELD(cents), SBX_ARRAY(tags, n_tags));
struct shop2 { char *name; double lat, lon; struct item2 *items; uint32_t n_items; int32_t week[10]; char *note; bool has_note; };
SBX_STATE(shop2, struct shop2, SBX_FIELD(name), SBX_FIELD(lat), SBX_FIELD(lon), SBX_ARRAY_OF(items, n_items, item2), SBX_FIXED(week),
	SBX_FIELD(note), SBX_PRESENT(has_note));

static int shop_migrate(struct sbx *x, void *self)
{
	struct shop2 *s = self;
	struct sbx_val at = { 0 }, it, place = sbx_old(x, "at");

	if (sbx_old_version(x) != 1)
		return sbx_fail(x, "version", "can't read version %u", sbx_old_version(x));
	s->lat = sbx_f64(x, sbx_get(x, place, "lat"));
	for (uint32_t i = 0; sbx_has(it = sbx_next(x, sbx_old(x, "items"), NULL, &at)); i++)
		s->items[i].cents = (int64_t)(sbx_f64(x, sbx_get(x, it, "price")) * 100 + 0.5);
	ck_assert_uint_eq(sbx_u64(x, sbx_old(x, "legacy")), 7);
	ck_assert_uint_eq(sbx_length(x, sbx_old(x, "items")), s->n_items);
	ck_assert(!sbx_has(sbx_old(x, "note")));
	ck_assert_int_eq(sbx_type_of(x, sbx_old(x, "week")), SBX_LIST);
	return 0;
}

static int shop_check(struct sbx *x, void *self)
{
	struct shop2 *s = self;

	for (uint32_t i = 0; i < s->n_items; i++)
		if (s->items[i].cents > 100000000)
			return sbx_fail(x, "too_dear", "%s costs %lld cents", s->items[i].sku, (long long)s->items[i].cents);
	return 0;
}

static int dump(struct sbx *x, void *self)
{
	struct shop2 *s = self;

	sbx_put_str(x, "name", s->name);
	sbx_put_f64(x, "lat", s->lat);
	sbx_open_list(x, "items");
	for (uint32_t i = 0; i < s->n_items; i++) {
		sbx_open_dict(x, NULL);
		sbx_put_str(x, "sku", s->items[i].sku);
		sbx_put_i64(x, "cents", s->items[i].cents);
		sbx_close(x);
	}
	return sbx_close(x);
}

TEST_MODULE(shop_v2, 2, SBX_USES(shop2), SBX_ON_MIGRATE(shop_migrate), SBX_ON_CHECK(shop_check), SBX_FN(dump, ""));

/* ---- tools ---- */

static const char *call(struct module_instance *m, const char *fn, const char *args)
{
	static struct buf b;
	struct err e;

	buf_clear(&b);
	ck_ok(instance_call(m, fn, args, strlen(args), &b, &e));
	return buf_text(&b);
}

static struct err call_fails(struct module_instance *m, const char *fn, const char *args, enum err_code code, const char *part)
{
	struct buf b = BUF_INIT;
	struct err e;

	ck_fails(instance_call(m, fn, args, strlen(args), &b, &e), code, part);
	ck_assert_uint_eq(b.size, 0);
	buf_fini(&b);
	return e;
}

START_TEST(a_counter_goes_to_v2_and_back)
{
	struct module_desc *d1 = desc_of(&counter_1), *d2 = desc_of(&counter_2);
	struct module_instance *v1 = instance_of(d1), *v2 = instance_of(d2), *back = instance_of(d1);
	struct state_report report;
	uint64_t n;
	void *blob;
	struct err e;

	ck_ok(instance_init(v1, NULL, 0, &e));
	ck_assert_str_eq(call(v1, "increment", ""), "{\"count\":1}");
	ck_assert_str_eq(call(v1, "increment", "{\"by\":\"9007199254740993\"}"), "{\"count\":\"9007199254740994\"}");
	blob = save_of(v1, &n);
	ck_ok(instance_restore(v2, blob, n, 0, &report, &e));
	free(blob);
	ck_assert_uint_eq(report.counts[STATE_RENAMED], 1);
	ck_assert_uint_eq(report.counts[STATE_ADDED], 2);
	ck_assert_uint_eq(report.from_version, 1);
	ck_assert_str_eq(call(v2, "increment", ""), "{\"owner\":\"nobody\",\"count\":\"9007199254740995\"}");
	blob = save_of(v2, &n);
	ck_ok(instance_restore(back, blob, n, RESTORE_BACKWARDS, &report, &e));
	free(blob);
	ck_assert_uint_eq(report.counts[STATE_DROPPED], 2);
	ck_assert_str_eq(call(back, "increment", "{\"by\":\"-9007199254740995\"}"), "{\"count\":0}");
	instance_free(v1);
	instance_free(v2);
	instance_free(back);
	module_desc_free(d1);
	module_desc_free(d2);
}
END_TEST

static void shop_upgrade(const char *price, bool good)
{
	struct module_desc *d1 = desc_of(&shop_1), *d2 = desc_of(&shop_v2);
	struct module_instance *v1 = instance_of(d1), *v2 = instance_of(d2);
	struct state_report report;
	char args[100];
	uint64_t n;
	void *blob;
	struct err e;

	ck_ok(instance_init(v1, "{\"name\":\"corner\"}", 17, &e));
	call(v1, "add", "{\"sku\":\"a\",\"price\":1.25}");
	snprintf(args, sizeof args, "{\"sku\":\"b\",\"price\":%s}", price);
	call(v1, "add", args);
	blob = save_of(v1, &n);
	if (good) {
		ck_ok(instance_restore(v2, blob, n, 0, &report, &e));
		ck_assert_str_eq(call(v2, "dump", ""),
			"{\"name\":\"corner\",\"lat\":52.5,\"items\":[{\"sku\":\"a\",\"cents\":125},{\"sku\":\"b\",\"cents\":300}]}");
		ck_assert_uint_eq(report.counts[STATE_WIDENED], 2); /* week, items[].qty */
		ck_assert_uint_eq(report.counts[STATE_DROPPED], 3); /* at, legacy, items[].price */
		ck_assert_uint_eq(report.counts[STATE_ADDED], 4);
	} else {
		ck_fails(instance_restore(v2, blob, n, 0, &report, &e), ERR_MODULE_ERROR, "b costs");
		ck_assert_str_eq(e.name, "too_dear");
	}
	free(blob);
	instance_free(v1);
	instance_free(v2);
	module_desc_free(d1);
	module_desc_free(d2);
}

START_TEST(a_shop_migrates_and_is_checked)
{
	shop_upgrade("3", true);
	shop_upgrade("3000000", false);
}
END_TEST

/* ---- hooks ---- */

static char order[200];

#define NOTES(name)                                                 \
	static int hook_##name(struct sbx *x, void *self)           \
	{                                                           \
		(void)x;                                            \
		(void)self;                                         \
		strncat(order, #name " ", sizeof order - strlen(order) - 1); \
		return 0;                                           \
	}
NOTES(make)
NOTES(init)
NOTES(migrate)
NOTES(check)
NOTES(stop)
NOTES(unmake)
TEST_MODULE(hooks_1, 1, SBX_ON_MAKE(hook_make), SBX_ON_INIT(hook_init), SBX_ON_MIGRATE(hook_migrate), SBX_ON_CHECK(hook_check),
	SBX_ON_STOP(hook_stop), SBX_ON_UNMAKE(hook_unmake));
TEST_MODULE(hooks_2, 2, SBX_ON_MAKE(hook_make), SBX_ON_INIT(hook_init), SBX_ON_MIGRATE(hook_migrate), SBX_ON_CHECK(hook_check),
	SBX_ON_STOP(hook_stop), SBX_ON_UNMAKE(hook_unmake));

START_TEST(hooks_run_in_order)
{
	struct module_desc *d1 = desc_of(&hooks_1), *d2 = desc_of(&hooks_2);
	struct module_instance *m = instance_of(d1), *same = instance_of(d1), *next = instance_of(d2);
	uint64_t n;
	void *blob;
	struct err e;

	order[0] = '\0';
	ck_ok(instance_init(m, "{}", 2, &e));
	blob = save_of(m, &n);
	ck_assert_str_eq(order, "init ");
	ck_ok(instance_restore(same, blob, n, 0, NULL, &e)); /* the same version: nothing to migrate */
	ck_assert_str_eq(order, "init check ");
	ck_ok(instance_restore(next, blob, n, 0, NULL, &e));
	ck_assert_str_eq(order, "init check migrate check ");
	ck_ok(instance_stop(next, &e));
	instance_free(next);
	ck_assert_str_eq(order, "init check migrate check stop unmake ");
	free(blob);
	instance_free(m);
	instance_free(same);
	instance_free(NULL);
	module_desc_free(d1);
	module_desc_free(d2);
}
END_TEST

static int failing(struct sbx *x, void *self)
{
	(void)self;
	return sbx_fail(x, "no_luck", "it can't be: %d", 42);
}
TEST_MODULE(fails_make, 1, SBX_ON_MAKE(failing));
TEST_MODULE(fails_init, 1, SBX_ON_INIT(failing));

START_TEST(failing_hooks_say_why)
{
	struct module_desc *d = desc_of(&fails_make);
	struct module_instance *m = NULL;
	struct err e;

	ck_fails(instance_new(d, &m, &e), ERR_MODULE_ERROR, "it can't be: 42");
	ck_assert_str_eq(e.name, "no_luck");
	ck_assert_ptr_null(m);
	module_desc_free(d);
	d = desc_of(&fails_init);
	m = instance_of(d);
	ck_fails(instance_init(m, NULL, 0, &e), ERR_MODULE_ERROR, "it can't be: 42");
	ck_fails(instance_init(m, "[]", 2, &e), ERR_BAD_PARAM, "JSON object");
	ck_fails(instance_init(m, "{", 1, &e), ERR_PARSE, "");
	instance_free(m);
	module_desc_free(d);
}
END_TEST

/* ---- calls ---- */

struct texts { char *s; struct sbx_bytes b; char **list; uint8_t n; };
SBX_STATE(texts, struct texts, SBX_FIELD(s), SBX_FIELD(b), SBX_ARRAY(list, n));

static int returns_seven(struct sbx *x, void *self)
{
	(void)x;
	(void)self;
	return 7;
}
static int reads_badly(struct sbx *x, void *self)
{
	(void)self;
	ck_assert_int_eq(sbx_i64(x, sbx_get(x, sbx_arg(x, "d"), "a")), 0);
	ck_assert_str_eq(sbx_text(x, sbx_get(x, sbx_arg(x, "d"), "b")), "");
	ck_assert(sbx_failed(x));
	return 0;
}
static int undeclared(struct sbx *x, void *self)
{
	(void)self;
	sbx_arg_i64(x, "nope");
	return 0;
}
static int same_key(struct sbx *x, void *self)
{
	(void)self;
	sbx_put_i64(x, "a", 1);
	return sbx_put_i64(x, "a", 2);
}
static int left_open(struct sbx *x, void *self)
{
	(void)self;
	return sbx_open_list(x, "a");
}
static int closed_twice(struct sbx *x, void *self)
{
	(void)self;
	return sbx_close(x);
}
static int keyless(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_i64(x, NULL, 1);
}
static int keyed(struct sbx *x, void *self)
{
	(void)self;
	sbx_open_list(x, "a");
	return sbx_put_i64(x, "b", 1);
}
static int too_deep(struct sbx *x, void *self)
{
	(void)self;
	sbx_open_list(x, "a");
	for (int i = 0; i < 200; i++)
		sbx_open_list(x, NULL);
	return 0;
}
static int bad_key(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_i64(x, "\xff", 1);
}
static int large(struct sbx *x, void *self)
{
	static char text[2u << 20];

	(void)self;
	memset(text, 'a', sizeof text - 1);
	return sbx_put_str(x, "text", text);
}
static int echo(struct sbx *x, void *self)
{
	struct sbx_val at = { 0 }, key, v;

	(void)self;
	sbx_put_val(x, "whole", sbx_arg(x, "any"));
	sbx_open_list(x, "parts");
	while (sbx_has(v = sbx_next(x, sbx_arg(x, "any"), &key, &at))) {
		sbx_put_i64(x, NULL, sbx_type_of(x, v));
		if (sbx_has(key))
			sbx_put_str(x, NULL, sbx_text(x, key));
	}
	return sbx_close(x);
}
static int literal(struct sbx *x, void *self)
{
	static char foreign[] = "foreign";
	struct texts *t = self;

	t->s = foreign;
	sbx_set_str(x, &t->s, "ours");
	return 0;
}
static int replace(struct sbx *x, void *self)
{
	struct texts *t = self;
	uint64_t n;
	const void *p = sbx_arg_bytes(x, "b", &n);

	sbx_set_str(x, &t->s, sbx_arg_str(x, "s"));
	sbx_set_str(x, &t->s, t->s);
	sbx_set_bytes(x, &t->b, p, n);
	sbx_put_bytes(x, "b", t->b.data, t->b.size);
	sbx_put_bool(x, "stop", sbx_stop_asked(x));
	sbx_log(x, SBX_WARNING, "replaced by %s", t->s);
	return sbx_put_str(x, "s", t->s);
}
static int fill(struct sbx *x, void *self)
{
	struct texts *t = self;

	for (int i = 0; i < 255; i++)
		sbx_set_str(x, SBX_ADD(x, t->list, t->n, char *), "x");
	return sbx_put_u64(x, "n", t->n);
}
TEST_MODULE(calls, 1, SBX_USES(texts), SBX_FN(failing, ""), SBX_FN(returns_seven, ""), SBX_FN(reads_badly, "d: dict"), SBX_FN(undeclared, ""),
	SBX_FN(same_key, ""), SBX_FN(left_open, ""), SBX_FN(closed_twice, ""), SBX_FN(keyless, ""), SBX_FN(keyed, ""), SBX_FN(too_deep, ""),
	SBX_FN(bad_key, ""), SBX_FN(large, ""), SBX_FN(echo, "any: any"), SBX_FN(literal, ""), SBX_FN(replace, "s: str, b: bytes"),
	SBX_FN(fill, ""));

START_TEST(failing_calls_say_why)
{
	static const struct { const char *fn, *args, *code, *part; } rows[] = {
		{ "failing", "", "no_luck", "it can't be: 42" }, { "returns_seven", "", "failed", "returns_seven returned 7" },
		{ "reads_badly", "{\"d\":{\"a\":\"x\"}}", "bad_value", "a value: there is a text where an i64 is read" },
		{ "undeclared", "", "bad_value", "nope: there is nothing where" }, { "same_key", "", "bad_reply", "reply of same_key" },
		{ "left_open", "", "bad_reply", "left open" }, { "closed_twice", "", "bad_reply", "without an open" },
		{ "keyless", "", "bad_reply", "needs a key" }, { "keyed", "", "bad_reply", "key b inside a list" },
		{ "too_deep", "", "too_deep", "at most 64" }, { "bad_key", "", "bad_reply", "a key that isn't text" },
		{ "literal", "", "not_owned", "string literal" },
	};
	struct module_desc *d = desc_of(&calls);
	struct module_instance *m = instance_of(d);

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ck_assert_str_eq(call_fails(m, rows[i].fn, rows[i].args, ERR_MODULE_ERROR, rows[i].part).name, rows[i].code);
	call_fails(m, "large", "", ERR_REPLY_TOO_LARGE, "larger than 1048576");
	ck_assert_str_eq(call_fails(m, "fil", "", ERR_UNKNOWN_FUNCTION, "perhaps fill is meant").nearest, "fill");
	call_fails(m, "", "", ERR_UNKNOWN_FUNCTION, "no function");
	ck_assert_str_eq(call_fails(m, "echo", "{\"amy\":1}", ERR_BAD_ARGUMENT, "perhaps any").nearest, "any");
	instance_free(m);
	module_desc_free(d);
}
END_TEST

static char logged[100];
static int logged_level;

static void log_it(void *ctx, int level, const char *text, size_t n)
{
	*(int *)ctx += 1;
	logged_level = level;
	snprintf(logged, sizeof logged, "%.*s", (int)n, text);
}

START_TEST(calls_read_and_write_all_types)
{
	static volatile uint32_t attention;
	static volatile uint64_t beat;
	int n_logged = 0;
	struct instance_host host = { .log = log_it, .log_ctx = &n_logged, .attention = &attention, .beat = &beat };
	struct module_desc *d = desc_of(&calls);
	struct module_instance *m;
	uint64_t before;

	instance_set_host(&host);
	m = instance_of(d);
	ck_assert_str_eq(call(m, "echo", "{\"any\":{\"a\":1,\"b\":[1,2.5],\"c\":{\"$bytes\":\"aGk=\"},\"d\":null,\"e\":true}}"),
		"{\"whole\":{\"a\":1,\"b\":[1,2.5],\"c\":{\"$bytes\":\"aGk=\"},\"d\":null,\"e\":true},\"parts\":[2,\"a\",7,\"b\",6,\"c\",1,\"d\",4,\"e\"]}");
	call(m, "replace", "{\"s\":\"one\",\"b\":{\"$bytes\":\"aGk=\"}}");
	before = instance_memory_bytes(m);
	attention = 1;
	for (int i = 0; i < 100; i++)
		ck_assert_str_eq(call(m, "replace", "{\"s\":\"two\",\"b\":{\"$bytes\":\"aGk=\"}}"), "{\"b\":{\"$bytes\":\"aGk=\"},\"stop\":true,\"s\":\"two\"}");
	ck_assert_uint_eq(instance_memory_bytes(m), before); /* nothing leaks, not even argument texts */
	ck_assert_uint_eq(beat, 101);
	ck_assert_int_eq(n_logged, 101);
	ck_assert_int_eq(logged_level, SBX_WARNING);
	ck_assert_str_eq(logged, "replaced by two");
	ck_assert_str_eq(call(m, "fill", ""), "{\"n\":255}");
	instance_free(m);
	module_desc_free(d);
	instance_set_host(&(struct instance_host){ 0 });
}
END_TEST

/* ---- the end of memory ---- */

static int hoard(struct sbx *x, void *self)
{
	(void)self;
	while (sbx_alloc(x, 100000) != NULL)
		;
	return 0;
}
TEST_MODULE(hoarder, 1, SBX_FN(hoard, ""), SBX_FN(fill, ""), SBX_USES(texts));

/* Calls fn in a forked process; it must abort and have said this. */
static void dies_saying(const struct sbx_module *module, const char *fn, const char *first, const char *part)
{
	char word[600] = "";
	size_t n = 0;
	ssize_t got;
	int fds[2], status;
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		struct instance_host host = { .memory_bytes = 1u << 20 };
		struct module_instance *m;
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], 2);
		instance_set_host(&host);
		m = instance_of(desc_of(module));
		if (first != NULL)
			call(m, first, "");
		call(m, fn, "");
		_exit(0);
	}
	close(fds[1]);
	while (n < sizeof word - 1 && (got = read(fds[0], word + n, sizeof word - 1 - n)) > 0)
		n += (size_t)got;
	close(fds[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_assert_msg(strstr(word, part) != NULL, "the last word was: %s", word);
}

START_TEST(exhaustion_has_a_last_word)
{
	dies_saying(&hoarder, "hoard", NULL, "module hoarder in hoard: memory exhausted by a request for 100000 bytes");
	dies_saying(&hoarder, "fill", "fill", "the counter can't say more than 255");
}
END_TEST

struct huge { char fill[64u << 20]; };
SBX_STATE(huge, struct huge, SBX_FIELD(fill));
TEST_MODULE(huge_state, 1, SBX_USES(huge));

START_TEST(a_state_larger_than_memory_is_refused)
{
	struct module_desc *d = desc_of(&huge_state);
	struct module_instance *m = NULL;
	struct err e;

	instance_set_host(&(struct instance_host){ .memory_bytes = 1u << 20 });
	ck_fails(instance_new(d, &m, &e), ERR_LIMIT_EXCEEDED, "67108864");
	instance_set_host(&(struct instance_host){ 0 });
	module_desc_free(d);
}
END_TEST

static int put_literal(struct sbx *x, void *self)
{
	static char foreign[] = "foreign";

	(void)x;
	((struct texts *)self)->s = foreign;
	return 0;
}
TEST_MODULE(literal_init, 1, SBX_USES(texts), SBX_ON_INIT(put_literal));

START_TEST(state_that_cant_be_saved_fails_init)
{
	struct module_desc *d = desc_of(&literal_init);
	struct module_instance *m = instance_of(d);
	struct err e;

	ck_fails(instance_init(m, NULL, 0, &e), ERR_STATE_MISMATCH, "s: it points to memory that isn't the host's");
	instance_free(m);
	module_desc_free(d);
}
END_TEST

/* ---- hostile blobs ---- */

static void *shop_blob(uint64_t *n)
{
	struct module_desc *d = desc_of(&shop_1);
	struct module_instance *m = instance_of(d);
	void *blob;

	for (int i = 0; i < 3; i++)
		call(m, "add", "{\"sku\":\"abc\",\"price\":1.5}");
	blob = save_of(m, n);
	instance_free(m);
	module_desc_free(d);
	return blob;
}

/* How many of the two modules took it. Whatever happens, it must be an error value or a restored state that can be saved. */
static int restore_anyhow(struct module_desc *const d[2], const uint8_t *blob, uint64_t n)
{
	int taken = 0;

	for (int i = 0; i < 2; i++) {
		struct module_instance *m = instance_of(d[i]);
		struct state_report report;
		struct err e = ERR_INIT;
		uint8_t *exact = malloc(n + 1); /* so that a byte too far is seen */
		uint64_t size;

		memcpy(exact, blob, n);
		if (instance_restore(m, exact, n, i == 0 ? RESTORE_BACKWARDS : 0, &report, &e) == 0) {
			taken++;
			ck_ok(instance_save(m, NULL, 0, &size, &e));
		} else {
			ck_assert_int_ne(e.code, ERR_OK);
			ck_assert_int_ne(e.code, ERR_INTERNAL);
		}
		free(exact);
		instance_free(m);
	}
	return taken;
}

/* A second version without hooks: migrate's own assertions are not for hostile bytes. */
TEST_MODULE(shop_quiet, 2, SBX_USES(shop2));

START_TEST(cut_and_flipped_blobs_are_errors)
{
	struct module_desc *d[2] = { desc_of(&shop_1), desc_of(&shop_quiet) };
	uint64_t n, seed = 7;
	uint8_t *blob;
	int taken = 0;

	instance_set_host(&(struct instance_host){ .memory_bytes = 1u << 20 });
	blob = shop_blob(&n);
	ck_assert_int_eq(restore_anyhow(d, blob, n), 2);
	for (uint64_t cut = 0; cut < n; cut++)
		ck_assert_int_eq(restore_anyhow(d, blob, cut), 0);
	for (uint64_t bit = 0; bit < 8 * n; bit++) {
		blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
		taken += restore_anyhow(d, blob, n);
		blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (int round = 0; round < 3000; round++) {
		uint8_t *other = malloc(n);

		memcpy(other, blob, n);
		for (int k = 0; k < 1 + round % 6; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			other[(seed >> 33) % n] = (uint8_t)(seed >> 20);
		}
		taken += restore_anyhow(d, other, n);
		free(other);
	}
	printf("instance: %llu cuts refused, %llu flips and 3000 random changes survived (%d restores were still good)\n",
		(unsigned long long)n, (unsigned long long)(8 * n), taken);
	free(blob);
	module_desc_free(d[0]);
	module_desc_free(d[1]);
	instance_set_host(&(struct instance_host){ 0 });
}
END_TEST

CHECK_MAIN("instance", tcase_add_test(tc, a_counter_goes_to_v2_and_back); tcase_add_test(tc, a_shop_migrates_and_is_checked);
	   tcase_add_test(tc, hooks_run_in_order); tcase_add_test(tc, failing_hooks_say_why);
	   tcase_add_test(tc, failing_calls_say_why); tcase_add_test(tc, calls_read_and_write_all_types);
	   tcase_add_test(tc, exhaustion_has_a_last_word); tcase_add_test(tc, a_state_larger_than_memory_is_refused);
	   tcase_add_test(tc, state_that_cant_be_saved_fails_init); tcase_add_test(tc, cut_and_flipped_blobs_are_errors))
