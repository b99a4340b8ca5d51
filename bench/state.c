/* SPDX-License-Identifier: MIT
 *
 * What a large state costs inside a host, without processes: counting, saving into a fresh memfd and into one that was filled
 * before, restoring into a new instance, freeing it. Prints one JSON object with medians in milliseconds of processor time, so that
 * a busy machine blurs them less; nothing here waits. */
#define SBX_WANT_MINOR 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/host/module/context.h"
#include "daemon/host/module/instance.h"
#include "proto/sandbox_module.h"

enum { N = 1000000, ROUNDS_MAX = 7 };

struct item { char *sku; int64_t id; int32_t qty; double price; bool hot; };
SBX_STATE(item, struct item, SBX_FIELD(sku), SBX_FIELD(id), SBX_FIELD(qty), SBX_FIELD(price), SBX_FIELD(hot));
struct store { struct item *items; uint32_t n; };
SBX_STATE(store, struct store, SBX_ARRAY_OF(items, n, item));
struct table { struct sbx_map *pairs; };
SBX_STATE(table, struct table, SBX_MAP(pairs, int64_t));
struct texts { struct sbx_map *pairs; };
SBX_STATE(texts, struct texts, SBX_MAP(pairs, char *));
struct blob { struct sbx_bytes data; };
SBX_STATE(blob, struct blob, SBX_FIELD(data));

static int fill_store(struct sbx *x, void *self)
{
	struct store *s = self;

	for (int i = 0; i < N; i++) {
		struct item *it = SBX_ADD(x, s->items, s->n, struct item);
		char sku[16];

		snprintf(sku, sizeof sku, "s%d", i % 1000);
		sbx_set_str(x, &it->sku, sku);
		*it = (struct item){ it->sku, i, i % 100, i * 0.5, i % 2 == 0 };
	}
	return 0;
}

static int fill_table(struct sbx *x, void *self)
{
	struct table *t = self;
	char key[32];

	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof key, "user:%08d:visits", i);
		*SBX_PUT(x, t->pairs, int64_t, key) = i;
	}
	return 0;
}

static int fill_texts(struct sbx *x, void *self)
{
	struct texts *t = self;
	char key[32];

	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof key, "key%d", i);
		sbx_set_str(x, SBX_PUT(x, t->pairs, char *, key), key);
	}
	return 0;
}

static int fill_blob(struct sbx *x, void *self)
{
	struct blob *b = self;

	b->data.size = 100u << 20;
	b->data.data = sbx_alloc(x, b->data.size);
	memset(b->data.data, 7, b->data.size);
	return 0;
}

#define MODULE(var, ...)                                                                                               \
	static const struct sbx_item var##_items[] = { __VA_ARGS__, SBX_ITEM_(SBX_T_END, 0, NULL, NULL, NULL, NULL) }; \
	static const struct sbx_module var = { SBX_MAGIC, SBX_ABI_MAJOR, SBX_WANT_MINOR, sizeof(struct sbx_module),    \
		sizeof(struct sbx_item), sizeof var##_items / sizeof var##_items[0] - 1, 1, #var, var##_items, "" }
MODULE(structs_1m, SBX_USES(store), SBX_ON_INIT(fill_store));
MODULE(map_str_i64_1m, SBX_USES(table), SBX_ON_INIT(fill_table));
MODULE(map_str_str_1m, SBX_USES(texts), SBX_ON_INIT(fill_texts));
MODULE(bytes_100m, SBX_USES(blob), SBX_ON_INIT(fill_blob));

static void must(int r, const struct err *e)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench/state: %s\n", e->text);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int rounds = ROUNDS_MAX;

static double median(double *ms)
{
	qsort(ms, (size_t)rounds, sizeof *ms, compare);
	return ms[rounds / 2];
}

static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static double ms_since(int64_t began_us)
{
	return (double)(cpu_us() - began_us) / 1000;
}

static void run(const struct sbx_module *module, bool last)
{
	double count[ROUNDS_MAX], fresh[ROUNDS_MAX], again[ROUNDS_MAX], restore[ROUNDS_MAX], gone[ROUNDS_MAX];
	struct module_instance *m = NULL, *n = NULL;
	struct module_desc *d = NULL;
	struct err e = ERR_INIT;
	uint64_t size = 0;
	int64_t began;

	must(module_desc_read(module, &d, &e), &e);
	must(instance_new(d, &m, &e), &e);
	must(instance_init(m, NULL, 0, &e), &e);
	for (int i = 0; i < rounds; i++) {
		int fd = memfd_create("state", MFD_CLOEXEC);
		void *to;

		began = cpu_us();
		must(instance_save(m, NULL, 0, &size, &e), &e);
		count[i] = ms_since(began);
		must(ftruncate(fd, (off_t)size), &e);
		began = cpu_us();
		to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		must(to == MAP_FAILED ? -1 : instance_save(m, to, size, &size, &e), &e);
		fresh[i] = ms_since(began);
		began = cpu_us();
		must(instance_save(m, to, size, &size, &e), &e);
		again[i] = ms_since(began);
		began = cpu_us();
		must(instance_new(d, &n, &e), &e);
		must(instance_restore(n, to, size, 0, NULL, &e), &e);
		restore[i] = ms_since(began);
		began = cpu_us();
		instance_free(n);
		gone[i] = ms_since(began);
		munmap(to, size);
		close(fd);
	}
	printf("  \"%s\": {\"blob_bytes\": %llu, \"count_ms\": %.1f, \"save_fresh_ms\": %.1f, \"save_again_ms\": %.1f, \"restore_ms\": %.1f, "
		"\"free_ms\": %.1f}%s\n", module->name, (unsigned long long)size, median(count), median(fresh), median(again), median(restore),
		median(gone), last ? "" : ",");
	instance_free(m);
	module_desc_free(d);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = atoi(argv[1]);
	if (argc > 2 || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: state [ROUNDS]   (1 to %d)\n", ROUNDS_MAX);
		return 2;
	}
	instance_set_host(&(struct instance_host){ .memory_bytes = 1ull << 30 });
	printf("{\n");
	run(&structs_1m, false);
	run(&map_str_i64_1m, false);
	run(&map_str_str_1m, false);
	run(&bytes_100m, true);
	printf("}\n");
	return 0;
}
