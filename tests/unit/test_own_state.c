/* SPDX-License-Identifier: MIT
 *
 * Own save and restore, alone and beside declared state; what crosses from one to the other; timers and what of them crosses a
 * save; what descriptors of minor 1 are refused. */
#define SBX_WANT_MINOR 1
#include "tests/support/check_main.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/context.h"
#include "daemon/host/state/state.h"
#include "proto/clock.h"
#include "tests/support/module_make.h"

/* ---- own state alone: a list ---- */

struct node { struct node *next; int64_t v; };
struct list { struct node *head; int64_t n; };
static int saves;

static int add(struct sbx *x, void *self)
{
	struct list *l = self;
	struct node *n = sbx_alloc(x, sizeof *n);

	n->v = sbx_arg_i64(x, "v");
	n->next = l->head;
	l->head = n;
	l->n++;
	return 0;
}
static int save(struct sbx *x, void *self)
{
	struct list *l = self;

	saves++;
	sbx_open_list(x, "values");
	for (struct node *n = l->head; n != NULL; n = n->next)
		sbx_put_i64(x, NULL, n->v);
	sbx_close(x);
	sbx_put_str(x, "caf\xe9", "\xff"); /* neither is UTF-8 */
	return sbx_put_i64(x, "n", l->n);
}
static int restore(struct sbx *x, void *self)
{
	struct list *l = self;
	struct sbx_val at = { 0 }, v;
	struct node **end = &l->head;

	while (sbx_has(v = sbx_next(x, sbx_saved(x, "values"), NULL, &at))) {
		*end = sbx_alloc(x, sizeof **end);
		(*end)->v = sbx_i64(x, v);
		end = &(*end)->next;
	}
	l->n = sbx_i64(x, sbx_saved(x, "n"));
	ck_assert_str_eq(sbx_text(x, sbx_saved(x, "caf\xe9")), "\xff");
	return 0;
}
static int sum(struct sbx *x, void *self)
{
	struct list *l = self;
	int64_t total = 0;

	for (struct node *n = l->head; n != NULL; n = n->next)
		total = total * 10 + n->v;
	sbx_put_i64(x, "n", l->n);
	return sbx_put_i64(x, "digits", total);
}
TEST_MODULE(list_v1, 1, SBX_SELF(struct list), SBX_ON_SAVE(save), SBX_ON_RESTORE(restore), SBX_FN(add, "v: i64"), SBX_FN(sum, ""));

/* v2: declared now; the old list is read by migrate */
struct declared { int64_t *values; uint32_t n_values; int64_t n; };
SBX_STATE(declared, struct declared, SBX_ARRAY(values, n_values), SBX_FIELD(n));
static int from_list(struct sbx *x, void *self)
{
	struct declared *d = self;
	struct sbx_val at = { 0 }, v;

	while (sbx_has(v = sbx_next(x, sbx_saved(x, "values"), NULL, &at)))
		*SBX_ADD(x, d->values, d->n_values, int64_t) = sbx_i64(x, v);
	d->n = sbx_i64(x, sbx_saved(x, "n"));
	return 0;
}
static int declared_sum(struct sbx *x, void *self)
{
	struct declared *d = self;
	int64_t total = 0;

	for (uint32_t i = 0; i < d->n_values; i++)
		total = total * 10 + d->values[i];
	return sbx_put_i64(x, "digits", total);
}
TEST_MODULE(list_v2, 2, SBX_USES(declared), SBX_ON_MIGRATE(from_list), SBX_FN_AS("sum", declared_sum, ""));

/* v3: both: a declared counter, and the list behind SBX_SKIP; reads either old form */
struct both { int64_t n; struct node *head; };
SBX_STATE(both, struct both, SBX_FIELD(n), SBX_SKIP(head));
static int both_save(struct sbx *x, void *self)
{
	struct both *b = self;

	sbx_open_list(x, "values");
	for (struct node *n = b->head; n != NULL; n = n->next)
		sbx_put_i64(x, NULL, n->v);
	return sbx_close(x);
}
static int both_restore(struct sbx *x, void *self)
{
	struct both *b = self;
	struct sbx_val at = { 0 }, v, values = sbx_saved(x, "values");
	struct node **end = &b->head;

	if (!sbx_has(values))
		values = sbx_old(x, "values");
	while (sbx_has(v = sbx_next(x, values, NULL, &at))) {
		*end = sbx_alloc(x, sizeof **end);
		(*end)->v = sbx_i64(x, v);
		end = &(*end)->next;
	}
	return 0;
}
static int both_sum(struct sbx *x, void *self)
{
	struct both *b = self;
	struct list l = { b->head, b->n };

	return sum(x, &l);
}
TEST_MODULE(list_v3, 3, SBX_USES(both), SBX_ON_SAVE(both_save), SBX_ON_RESTORE(both_restore), SBX_FN_AS("sum", both_sum, ""));

static const char *call(struct module_instance *m, const char *fn, const char *args)
{
	static struct buf b;
	struct err e;

	buf_clear(&b);
	ck_ok(instance_call(m, fn, args, args != NULL ? strlen(args) : 0, &b, &e));
	return buf_text(&b);
}

/* A new instance of d with the state of m. */
static struct module_instance *carry(struct module_instance *m, const struct module_desc *d, struct state_report *report)
{
	struct module_instance *n = instance_of(d);
	uint64_t size = 0;
	void *blob = save_of(m, &size);
	struct err e;

	ck_ok(instance_restore(n, blob, size, 0, report, &e));
	free(blob);
	return n;
}

START_TEST(own_state_survives)
{
	struct module_desc *d[3] = { desc_of(&list_v1), desc_of(&list_v2), desc_of(&list_v3) };
	struct module_instance *m = instance_of(d[0]), *n[5];
	static struct state_report report;
	uint64_t size = 0;
	struct err e;
	void *blob;

	ck_ok(instance_init(m, NULL, 0, &e));
	call(m, "add", "{\"v\":1}");
	call(m, "add", "{\"v\":2}");
	call(m, "add", "{\"v\":3}");
	saves = 0;
	n[0] = carry(m, d[0], &report);
	ck_assert_int_eq(saves, 2); /* counted, then written */
	ck_assert_str_eq(call(n[0], "sum", NULL), "{\"n\":3,\"digits\":321}");
	ck_assert_uint_eq(report.counts[STATE_CARRIED], 1);
	ck_assert_str_eq(report.entries[0].path, "(own state)");
	n[1] = carry(n[0], d[1], &report); /* own to declared */
	ck_assert_str_eq(call(n[1], "sum", NULL), "{\"digits\":321}");
	ck_assert_uint_eq(report.counts[STATE_DROPPED], 1);
	n[2] = carry(n[1], d[2], &report); /* declared to both */
	ck_assert_str_eq(call(n[2], "sum", NULL), "{\"n\":3,\"digits\":321}");
	ck_assert_uint_eq(report.counts[STATE_ADDED], 1);
	n[3] = carry(n[2], d[2], &report); /* both to both */
	ck_assert_str_eq(call(n[3], "sum", NULL), "{\"n\":3,\"digits\":321}");
	ck_assert_uint_eq(report.counts[STATE_CARRIED], 2);
	blob = save_of(n[1], &size); /* a rollback may not lose it */
	n[4] = instance_of(d[0]);
	ck_fails(instance_restore(n[4], blob, size, RESTORE_BACKWARDS, NULL, &e), ERR_STATE_MISMATCH, "(own state)");
	free(blob);
	for (int i = 0; i < 5; i++)
		instance_free(n[i]);
	instance_free(m);
	for (int i = 0; i < 3; i++)
		module_desc_free(d[i]);
}
END_TEST

/* A state that a hostile module has forged: `levels` lists in its own part, without the host's writer. */
static void *forged(const void *blob, uint64_t size, unsigned levels, uint64_t *ret_size)
{
	struct state_blob b;
	struct cbor_writer w;
	struct buf text;
	struct err e;
	void *copy;

	ck_ok(state_blob_open(blob, size, &b, &e));
	buf_init(&text, 4 << 20);
	w = cbor_writer_buf(&text);
	cbor_put_raw(&w, blob, (uint64_t)(b.own - (const uint8_t *)blob));
	cbor_put_head(&w, CBOR_MAP, 1);
	cbor_put_string(&w, "values", 6);
	for (unsigned i = 0; i + 1 < levels; i++)
		cbor_put_head(&w, CBOR_ARRAY, 1);
	cbor_put_head(&w, CBOR_ARRAY, 0);
	cbor_put_raw(&w, b.data, b.data_bytes);
	ck_assert(!text.failed);
	*ret_size = text.size;
	copy = malloc(text.size);
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, text.data, text.size);
	buf_fini(&text);
	state_blob_close(&b);
	return copy;
}

START_TEST(depth_of_a_forged_state)
{
	static const struct { unsigned levels; bool good; } rows[] = { { 1, true }, { LIMIT_VALUE_DEPTH - 1, true }, { LIMIT_VALUE_DEPTH, true },
		{ LIMIT_VALUE_DEPTH + 1, false }, { LIMIT_VALUE_DEPTH + 2, false }, { 1000000, false } };
	struct module_desc *d = desc_of(&list_v1);
	struct module_instance *m = instance_of(d);
	uint64_t size = 0, size_forged;
	struct err e;
	void *blob, *text;

	ck_ok(instance_init(m, NULL, 0, &e));
	blob = save_of(m, &size);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct state_blob b;

		text = forged(blob, size, rows[i].levels, &size_forged);
		if (rows[i].good) {
			ck_ok(state_blob_open(text, size_forged, &b, &e));
			state_blob_close(&b);
		} else {
			ck_fails(state_blob_open(text, size_forged, &b, &e), ERR_STATE_MISMATCH, "nest deeper than 64");
			ck_assert_str_eq(e.name, "too_deep");
		}
		free(text);
	}
	free(blob);
	instance_free(m);
	module_desc_free(d);
}
END_TEST

/* ---- saves that go wrong ---- */

static int how;
static int bad_save(struct sbx *x, void *self)
{
	(void)self;
	switch (how) {
	case 0:
		return sbx_fail(x, "not_now", "no %d", 7);
	case 1:
		return sbx_put_i64(x, NULL, 1);
	case 2:
		return sbx_open_list(x, "left open");
	case 3:
		for (int i = 0; i < LIMIT_VALUE_DEPTH; i++)
			sbx_open_dict(x, "d");
		return sbx_open_dict(x, "d"); /* one too many */
	case 4:
		return sbx_put_val(x, "v", sbx_arg(x, "none"));
	case 5:
		for (int i = 0; i < LIMIT_VALUE_DEPTH; i++)
			sbx_open_dict(x, "d");
		sbx_put_i64(x, "deep", 5);
		for (int i = 0; i < LIMIT_VALUE_DEPTH; i++)
			sbx_close(x);
		return 0;
	default:
		return 0;
	}
}
static int deep_restore(struct sbx *x, void *self)
{
	struct sbx_val v = sbx_root(x, SBX_SAVED);

	(void)self;
	while (sbx_has(sbx_get(x, v, "d")))
		v = sbx_get(x, v, "d");
	return how != 5 || sbx_i64(x, sbx_get(x, v, "deep")) == 5 ? 0 : sbx_fail(x, "lost", "lost");
}
struct self { int a; };
TEST_MODULE(bad, 1, SBX_SELF(struct self), SBX_ON_SAVE(bad_save), SBX_ON_RESTORE(deep_restore));

START_TEST(failing_saves)
{
	static const char *const texts[] = { "no 7", "needs a key", "left open", "at most", "no value to put" };
	struct module_desc *d = desc_of(&bad);
	struct module_instance *m = instance_of(d), *n;
	uint64_t size = 0, first;
	struct err e;
	uint8_t *blob;

	for (how = 0; how < 5; how++)
		ck_fails(instance_save(m, NULL, 0, &size, &e), how == 3 ? ERR_TOO_DEEP : ERR_MODULE_ERROR, texts[how]);
	n = carry(m, d, NULL); /* how == 5: as deep as can be */
	instance_free(n);
	blob = save_of(m, &first);
	ck_fails(instance_save(m, blob, first - 1, &size, &e), ERR_LIMIT_EXCEEDED, "needs");
	ck_assert_uint_eq(size, first);
	for (uint64_t cut = 0; cut < first; cut++) {
		n = instance_of(d);
		ck_assert_int_ne(instance_restore(n, blob, cut, 0, NULL, &e), 0);
		instance_free(n);
	}
	free(blob);
	instance_free(m);
	module_desc_free(d);
}
END_TEST

/* ---- timers ---- */

struct clocked { int64_t ticks, bangs; };
SBX_STATE(clocked, struct clocked, SBX_FIELD(ticks), SBX_FIELD(bangs));
static int tick(struct sbx *x, void *self) { (void)x; ((struct clocked *)self)->ticks++; return 0; }
static int bang(struct sbx *x, void *self) { ((struct clocked *)self)->bangs++; return sbx_fail(x, "bang", "it failed"); }
static int arm(struct sbx *x, void *self)
{
	(void)self;
	sbx_every(x, "tick", 100);
	sbx_after(x, "bang", 250);
	return 0;
}
static int disarm(struct sbx *x, void *self) { (void)self; return sbx_cancel_timer(x, "tick"); }
static int arm_none(struct sbx *x, void *self) { (void)self; return sbx_after(x, "no", 1); }
TEST_MODULE(clocked_v1, 1, SBX_USES(clocked), SBX_TIMER(tick), SBX_TIMER(bang), SBX_FN(arm, ""), SBX_FN(disarm, ""), SBX_FN(arm_none, ""));
TEST_MODULE(clocked_v2, 2, SBX_USES(clocked), SBX_TIMER(tick));

START_TEST(timers)
{
	struct module_desc *d = desc_of(&clocked_v1), *d2 = desc_of(&clocked_v2);
	struct module_instance *m = instance_of(d), *n;
	struct clocked *c = m->self;
	int64_t now, due;
	uint64_t size = 0, again = 0;
	struct buf b = BUF_INIT;
	struct err e;
	void *blob;

	ck_assert_int_eq(instance_timer_due_us(m), INT64_MAX);
	ck_assert_int_eq(instance_timer_run(m, INT64_MAX / 2, &e), 0);
	ck_fails(instance_call(m, "arm_none", NULL, 0, &b, &e), ERR_MODULE_ERROR, "no SBX_TIMER no");
	now = clock_monotonic_us();
	call(m, "arm", NULL);
	due = instance_timer_due_us(m);
	ck_assert_int_ge(due, now + 100000);
	ck_assert_str_eq(instance_timer_name(m), "tick");
	ck_ok(instance_timer_run(m, due - 1, &e));
	ck_assert_int_eq(c->ticks, 0);
	ck_ok(instance_timer_run(m, due, &e));
	ck_assert_int_eq(c->ticks, 1);
	ck_assert_int_eq(instance_timer_due_us(m), due + 100000);
	/* what is left of it crosses a save, also into the next code */
	blob = save_of(m, &size);
	n = instance_of(d);
	now = clock_monotonic_us();
	ck_ok(instance_restore(n, blob, size, 0, NULL, &e));
	ck_assert_int_gt(instance_timer_due_us(n), now + 100000);
	ck_assert_int_le(instance_timer_due_us(n), clock_monotonic_us() + 201000);
	instance_free(n);
	n = instance_of(d2);
	ck_fails(instance_restore(n, blob, size, 0, NULL, &e), ERR_STATE_MISMATCH, "the timer bang is armed");
	instance_free(n);
	free(blob);
	/* one that is very late runs once, and goes on from now */
	now = due + 10 * 100000;
	ck_ok(instance_timer_run(m, now, &e));
	ck_assert_int_eq(c->ticks, 2);
	ck_assert_str_eq(instance_timer_name(m), "bang");
	ck_fails(instance_timer_run(m, now, &e), ERR_MODULE_ERROR, "it failed");
	ck_assert_int_eq(c->bangs, 1);
	ck_assert_str_eq(instance_timer_name(m), "tick");
	ck_assert_int_eq(instance_timer_due_us(m), now + 100000);
	ck_ok(instance_timer_run(m, now, &e));
	ck_assert_int_eq(c->ticks, 2);
	call(m, "disarm", NULL);
	ck_assert_int_eq(instance_timer_due_us(m), INT64_MAX);
	ck_ok(instance_save(m, NULL, 0, &again, &e));
	ck_assert_uint_lt(again, size);
	buf_fini(&b);
	instance_free(m);
	module_desc_free(d);
	module_desc_free(d2);
}
END_TEST

/* ---- descriptors ---- */

TEST_MODULE(self_and_uses, 1, SBX_USES(clocked), SBX_SELF(struct self));
TEST_MODULE(self_unsaved, 1, SBX_SELF(struct self));
TEST_MODULE(half, 1, SBX_USES(clocked), SBX_ON_SAVE(save));
TEST_MODULE(twice, 1, SBX_TIMER(tick), SBX_TIMER(tick));
TEST_MODULE(no_name, 1, SBX_ITEM_(SBX_T_TIMER, 0, "a-b", NULL, tick, NULL));
TEST_MODULE(no_size, 1, SBX_ITEM_(SBX_T_SELF, 0, "x", NULL, NULL, NULL));

START_TEST(descriptors)
{
	struct module_desc *d;
	struct err e;

	ck_fails(module_desc_read(&self_and_uses, &d, &e), ERR_BAD_MODULE, "or one SBX_USES");
	ck_fails(module_desc_read(&self_unsaved, &d, &e), ERR_BAD_MODULE, "SBX_SELF needs SBX_ON_SAVE");
	ck_fails(module_desc_read(&half, &d, &e), ERR_BAD_MODULE, "need each other");
	ck_fails(module_desc_read(&twice, &d, &e), ERR_BAD_MODULE, "timer tick is declared twice");
	ck_fails(module_desc_read(&no_name, &d, &e), ERR_BAD_MODULE, "C identifier");
	ck_fails(module_desc_read(&no_size, &d, &e), ERR_BAD_MODULE, "SBX_SELF");
}
END_TEST

CHECK_MAIN("own_state", tcase_add_test(tc, own_state_survives); tcase_add_test(tc, depth_of_a_forged_state); tcase_add_test(tc, failing_saves); tcase_add_test(tc, timers);
	   tcase_add_test(tc, descriptors))
