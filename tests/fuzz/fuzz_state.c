/* SPDX-License-Identifier: MIT
 *
 * A state blob restored into a module: any bytes; a proper head with the schema of one module, and any bytes as its data; a saved
 * state with changes. What is restored can be saved, and restored once more to the same. */
#define SBX_WANT_MINOR 1
#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "daemon/host/codec/cbor.h"
#include "daemon/host/module/context.h"
#include "daemon/host/module/instance.h"
#include "daemon/host/module/map.h"
#include "daemon/host/state/state.h"
#include "proto/limits.h"
#include "proto/sandbox_module.h"

#define FUZZ_MODULE(var, version, ...)                                                                                 \
	static const struct sbx_item var##_items[] = { __VA_ARGS__, SBX_ITEM_(SBX_T_END, 0, NULL, NULL, NULL, NULL) }; \
	static const struct sbx_module var = { SBX_MAGIC, SBX_ABI_MAJOR, SBX_ABI_MINOR, sizeof(struct sbx_module),     \
		sizeof(struct sbx_item), sizeof var##_items / sizeof var##_items[0] - 1, version, #var, var##_items, "" }

/* One of each kind, as two versions that carry over into each other in every way, and one that is something else. */
struct item { char sku[12]; int32_t qty; char *note; };
SBX_STATE(item, struct item, SBX_FIELD(sku), SBX_FIELD(qty), SBX_DEFAULT(3), SBX_FIELD(note));
struct item2 { char sku[8]; int64_t qty; struct sbx_bytes note; bool has; uint8_t extra; };
SBX_STATE(item2, struct item2, SBX_FIELD(sku), SBX_FIELD(qty), SBX_FIELD(note), SBX_FIELD(extra), SBX_PRESENT(has));

struct wide {
	bool b; int8_t i8; int16_t i16; int32_t i32; int64_t i64; uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64;
	float f32; double f64; char chars[9]; char *str; struct sbx_bytes bytes; struct item one; int16_t fixed[3]; double floats[2];
	struct item pair[2]; struct item *items; uint32_t n_items; int64_t *numbers; int8_t n_numbers; char **texts; uint16_t n_texts;
	int32_t maybe; bool has_maybe; uint32_t ranged; char *name[2];
};
SBX_STATE(wide, struct wide, SBX_FIELD(b), SBX_FIELD(i8), SBX_FIELD(i16), SBX_FIELD(i32), SBX_FIELD(i64), SBX_FIELD(u8),
	SBX_FIELD(u16), SBX_FIELD(u32), SBX_FIELD(u64), SBX_FIELD(f32), SBX_FIELD(f64), SBX_FIELD(chars), SBX_FIELD(str),
	SBX_FIELD(bytes), SBX_STRUCT(one, item), SBX_FIXED(fixed), SBX_FIXED(floats), SBX_FIXED_OF(pair, item),
	SBX_ARRAY_OF(items, n_items, item), SBX_ARRAY(numbers, n_numbers), SBX_ARRAY(texts, n_texts), SBX_FIELD(maybe),
	SBX_PRESENT(has_maybe), SBX_FIELD(ranged), SBX_DEFAULT(5), SBX_RANGE(1, 10), SBX_FIXED(name));
FUZZ_MODULE(wide_1, 1, SBX_USES(wide));

struct wide2 {
	uint8_t b; int64_t i8; int8_t i16; double i32; float i64; bool u8; uint64_t u16; int16_t u32; int64_t u64;
	double f32; float f64; char *chars; char str[6]; char *bytes; struct item2 one; int32_t fixed[2]; float floats[2];
	struct item2 pair[2]; struct item2 *items; uint8_t n_items; float *numbers; uint64_t n_numbers; struct sbx_bytes *texts;
	uint32_t n_texts; int64_t perhaps; uint8_t ranged; char name[2][5]; int32_t fresh;
};
SBX_STATE(wide2, struct wide2, SBX_FIELD(b), SBX_FIELD(i8), SBX_FIELD(i16), SBX_FIELD(i32), SBX_FIELD(i64), SBX_FIELD(u8),
	SBX_FIELD(u16), SBX_FIELD(u32), SBX_FIELD(u64), SBX_FIELD(f32), SBX_FIELD(f64), SBX_FIELD(chars), SBX_FIELD(str),
	SBX_FIELD(bytes), SBX_STRUCT(one, item2), SBX_FIXED(fixed), SBX_FIXED(floats), SBX_FIXED_OF(pair, item2),
	SBX_ARRAY_OF(items, n_items, item2), SBX_ARRAY(numbers, n_numbers), SBX_ARRAY(texts, n_texts), SBX_FIELD(perhaps),
	SBX_WAS("maybe"), SBX_DEFAULT(-1), SBX_FIELD(ranged), SBX_RANGE(0, 200), SBX_FIXED(name), SBX_FIELD(fresh),
	SBX_DEFAULT(9));
FUZZ_MODULE(wide_2, 2, SBX_USES(wide2));

struct kept { struct sbx_map *counts, *items; int32_t *n; uint8_t n_n; };
SBX_STATE(kept, struct kept, SBX_MAP(counts, int64_t), SBX_MAP_OF(items, item), SBX_ARRAY(n, n_n));
FUZZ_MODULE(kept_1, 1, SBX_USES(kept));
struct kept2 { struct sbx_map *counts, *items; };
SBX_STATE(kept2, struct kept2, SBX_MAP(counts, int8_t), SBX_MAP_OF(items, item2));
FUZZ_MODULE(kept_2, 2, SBX_USES(kept2));

struct list { int64_t *at; uint32_t n; struct item *more; int32_t n_more; bool *flags; uint8_t n_flags; float *fs; uint64_t n_fs; };
SBX_STATE(list, struct list, SBX_ARRAY(at, n), SBX_ARRAY_OF(more, n_more, item), SBX_ARRAY(flags, n_flags), SBX_ARRAY(fs, n_fs));
FUZZ_MODULE(list_1, 1, SBX_USES(list));

struct floats { double a, b, c, d; float e; int64_t i; bool flag; float ranged; int16_t small; };
SBX_STATE(floats, struct floats, SBX_FIELD(a), SBX_FIELD(b), SBX_FIELD(c), SBX_FIELD(d), SBX_FIELD(e), SBX_FIELD(i), SBX_FIELD(flag),
	SBX_FIELD(ranged), SBX_FIELD(small));
FUZZ_MODULE(floats_1, 1, SBX_USES(floats));
struct floats2 { float a, b; int64_t c; uint64_t d; double e, i; bool flag; float ranged; int16_t small; };
SBX_STATE(floats2, struct floats2, SBX_FIELD(a), SBX_FIELD(b), SBX_FIELD(c), SBX_FIELD(d), SBX_FIELD(e), SBX_FIELD(i),
	SBX_FIELD(flag), SBX_FIELD(ranged), SBX_RANGE(-1, 1), SBX_FIELD(small), SBX_RANGE(-5, 5));
FUZZ_MODULE(floats_2, 2, SBX_USES(floats2));

/* Arrays that become shorter, and counters with less room. */
struct longer { int32_t fixed[3]; struct item pair[2]; char *texts[2]; int32_t *many; uint32_t n; };
SBX_STATE(longer, struct longer, SBX_FIXED(fixed), SBX_FIXED_OF(pair, item), SBX_FIXED(texts), SBX_ARRAY(many, n));
FUZZ_MODULE(longer_1, 1, SBX_USES(longer));
struct shorter { int32_t fixed[2]; struct item pair[1]; char *texts[1]; int64_t *many; int8_t n; };
SBX_STATE(shorter, struct shorter, SBX_FIXED(fixed), SBX_FIXED_OF(pair, item), SBX_FIXED(texts), SBX_ARRAY(many, n));
FUZZ_MODULE(shorter_2, 2, SBX_USES(shorter));

/* A module that saves a part itself, and has timers. */
struct own { int32_t n; };
SBX_STATE(own, struct own, SBX_FIELD(n));

static int own_save(struct sbx *x, void *self)
{
	const struct own *o = self;

	return sbx_put_i64(x, "n", o->n) != 0 || sbx_put_str(x, "t", "text") != 0;
}

static int own_restore(struct sbx *x, void *self)
{
	struct own *o = self;

	o->n = (int32_t)sbx_i64(x, sbx_saved(x, "n"));
	(void)sbx_text(x, sbx_saved(x, "t"));
	return sbx_failed(x);
}

static int tick(struct sbx *x, void *self)
{
	(void)x, (void)self;
	return 0;
}
FUZZ_MODULE(own_1, 1, SBX_USES(own), SBX_TIMER(tick), SBX_ON_SAVE(own_save), SBX_ON_RESTORE(own_restore));

static const struct sbx_module *const modules[] = { &wide_1, &wide_2, &list_1, &kept_1, &kept_2, &floats_1, &floats_2, &own_1, &longer_1,
	&shorter_2 };
#define N_MODULES (sizeof modules / sizeof modules[0])
static struct module_desc *descs[N_MODULES];
static void *saved[2][N_MODULES];       /* the state that a new instance of each saves, and a full one */
static uint64_t saved_size[2][N_MODULES];

static void *save(struct module_instance *m, uint64_t *ret_size)
{
	struct err e = ERR_INIT;
	uint64_t again = 0;
	void *p;

	FUZZ_MUST(instance_save(m, NULL, 0, ret_size, &e) == 0);
	p = malloc(*ret_size);
	FUZZ_MUST(p != NULL && instance_save(m, p, *ret_size, &again, &e) == 0 && again == *ret_size);
	return p;
}

/* ---- full states: something in every field ---- */

static char *text_in(struct arena *a, const char *s)
{
	char *p = arena_alloc(a, strlen(s) + 1);

	FUZZ_MUST(p != NULL);
	memcpy(p, s, strlen(s) + 1);
	return p;
}

static void *array_in(struct arena *a, const void *from, size_t size)
{
	void *p = arena_alloc(a, size);

	FUZZ_MUST(p != NULL);
	memcpy(p, from, size);
	return p;
}

static void fill_item(struct arena *a, struct item *it)
{
	(void)snprintf(it->sku, sizeof it->sku, "abc");
	it->qty = -70000;
	it->note = text_in(a, "note");
}

static void fill_wide(struct arena *a, struct wide *w)
{
	static const int64_t numbers[] = { 1, -2, INT64_MAX };

	w->b = true;
	w->i8 = -8, w->i16 = 16, w->i32 = -32, w->i64 = 64, w->u8 = 1, w->u16 = 2, w->u32 = 3, w->u64 = 4;
	w->f32 = 1.5f, w->f64 = -2.25;
	(void)snprintf(w->chars, sizeof w->chars, "chars");
	w->str = text_in(a, "str");
	w->bytes = (struct sbx_bytes){ text_in(a, "bytes"), 5 };
	fill_item(a, &w->one);
	w->fixed[0] = 7;
	fill_item(a, &w->pair[1]);
	w->items = arena_alloc(a, 3 * sizeof *w->items);
	w->n_items = 3;
	for (int i = 0; i < 3; i++)
		fill_item(a, &w->items[i]);
	w->numbers = array_in(a, numbers, sizeof numbers);
	w->n_numbers = 3;
	w->texts = arena_alloc(a, 2 * sizeof *w->texts);
	w->texts[0] = text_in(a, "t");
	w->n_texts = 2;
	w->maybe = 5;
	w->has_maybe = true;
	w->name[0] = text_in(a, "name");
}

static void fill_list(struct arena *a, struct list *l)
{
	static const int64_t at[] = { 0, 5, -5 };
	static const bool flags[] = { true, false };
	static const float fs[] = { 0.5f, -1 };

	l->at = array_in(a, at, sizeof at);
	l->n = 3;
	l->more = arena_alloc(a, sizeof *l->more);
	l->n_more = 1;
	fill_item(a, l->more);
	l->flags = array_in(a, flags, sizeof flags);
	l->n_flags = 2;
	l->fs = array_in(a, fs, sizeof fs);
	l->n_fs = 2;
}

static void fill_floats(struct floats *f)
{
	*f = (struct floats){ .a = (double)NAN, .b = 1.1, .c = -3, .d = 1e18, .e = NAN, .i = 1 << 20, .flag = true, .ranged = 0.5f, .small = 3 };
}

static void fill_longer(struct arena *a, struct longer *l)
{
	l->fixed[0] = 1;
	l->fixed[1] = -1;
	fill_item(a, &l->pair[0]);
	l->texts[0] = text_in(a, "first");
	l->many = arena_alloc(a, 130 * sizeof *l->many);
	l->n = 130;
}

static void fill_kept(struct arena *a, struct kept *k)
{
	bool is_new;

	for (int i = 0; i < 40; i++) {
		char key[8];
		int64_t *n;

		(void)snprintf(key, sizeof key, "k%d", i);
		n = map_put(a, k->counts, key, strlen(key), &is_new);
		FUZZ_MUST(n != NULL);
		*n = i;
	}
	fill_item(a, map_put(a, k->items, "one", 3, &is_new));
}

static void prepare(void)
{
	static const struct instance_host host = { .memory_bytes = 128u << 10 };
	struct module_instance *m;
	struct err e = ERR_INIT;

	instance_set_host(&host);
	for (size_t i = 0; i < N_MODULES; i++) {
		FUZZ_MUST(module_desc_read(modules[i], &descs[i], &e) == 0 && instance_new(descs[i], &m, &e) == 0);
		saved[0][i] = save(m, &saved_size[0][i]);
		if (modules[i] == &wide_1)
			fill_wide(m->arena, m->self);
		else if (modules[i] == &list_1)
			fill_list(m->arena, m->self);
		else if (modules[i] == &kept_1)
			fill_kept(m->arena, m->self);
		else if (modules[i] == &floats_1)
			fill_floats(m->self);
		else if (modules[i] == &longer_1)
			fill_longer(m->arena, m->self);
		saved[1][i] = save(m, &saved_size[1][i]);
		instance_free(m);
	}
}

/* A saved state with some bytes changed, taken out or put in. */
static char *changed(struct fuzz_in *in, const void *from, size_t from_size, size_t *ret_size)
{
	size_t room = from_size + in->left;
	char *p = malloc(room), *exact;

	FUZZ_MUST(p != NULL);
	memcpy(p, from, from_size);
	*ret_size = from_size;
	while (in->left > 0 && *ret_size > 0) {
		uint8_t how = fuzz_u8(in), byte;
		size_t at = fuzz_u16(in) % *ret_size;

		byte = fuzz_u8(in);
		if (how % 4 == 0) {
			memmove(p + at, p + at + 1, --*ret_size - at);
			continue;
		}
		if (how % 4 == 1) {
			memmove(p + at + 1, p + at, *ret_size - at);
			++*ret_size;
		}
		p[at] = (char)byte;
	}
	exact = fuzz_exact(p, *ret_size);
	free(p);
	return exact;
}

/* The blob of the input: exactly as large, so that a read beyond it is seen. */
static char *blob_of(struct fuzz_in *in, uint8_t how, size_t *ret_size)
{
	size_t from = how / 4 % N_MODULES, head;
	struct state_blob b;
	struct err e = ERR_INIT;
	char *p;

	if (how % 4 == 0) {
		*ret_size = in->left;
		return fuzz_exact(in->at, in->left);
	}
	if (how % 4 >= 2)
		return changed(in, saved[how % 4 - 2][from], saved_size[how % 4 - 2][from], ret_size);
	FUZZ_MUST(state_blob_open(saved[0][from], saved_size[0][from], &b, &e) == 0);
	head = (size_t)(b.data - (const uint8_t *)saved[0][from]);
	state_blob_close(&b);
	*ret_size = head + in->left;
	p = malloc(*ret_size);
	FUZZ_MUST(p != NULL);
	memcpy(p, saved[0][from], head);
	if (in->left > 0)
		memcpy(p + head, in->at, in->left);
	return p;
}

static void report_is_sane(const struct state_report *r)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	FUZZ_MUST(r->n_entries <= STATE_REPORT_ENTRIES);
	json_out_object(&o, NULL);
	state_report_json(r, &o, "report");
	json_out_object_end(&o);
	FUZZ_MUST(!b.failed);
	fuzz_is_json(b.data, b.size);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct state_report report;
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in), to = fuzz_u8(&in);
	struct module_desc *d;
	struct module_instance *m, *n;
	struct err e = ERR_INIT;
	size_t blob_size;
	char *blob;

	if (!descs[0])
		prepare();
	d = descs[to / 2 % N_MODULES];
	blob = blob_of(&in, how, &blob_size);
	state_report_clear(&report);
	FUZZ_MUST(instance_new(d, &m, &e) == 0);
	if (instance_restore(m, blob, blob_size, to % 2 ? RESTORE_BACKWARDS : 0, &report, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.code == ERR_STATE_MISMATCH || e.code == ERR_LIMIT_EXCEEDED || e.code == ERR_MODULE_ERROR);
	} else {
		uint64_t once_size, twice_size;
		char *once = save(m, &once_size), *twice;

		FUZZ_MUST(cbor_check(once, once_size, &e) == 0);
		FUZZ_MUST(instance_new(d, &n, &e) == 0 && instance_restore(n, once, once_size, 0, NULL, &e) == 0);
		twice = save(n, &twice_size);
		FUZZ_MUST(once_size == twice_size && memcmp(once, twice, once_size) == 0);
		instance_free(n);
		free(once);
		free(twice);
	}
	report_is_sane(&report);
	instance_free(m);
	free(blob);
	return 0;
}
