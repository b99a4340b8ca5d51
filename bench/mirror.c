/* SPDX-License-Identifier: MIT
 *
 * What checkpoint call costs each call inside a host: the state of 1 KiB is saved into its mirror, with all that is done then, guard and look
 * for threads included. Two shapes: one field of bytes, and 128 numbers. Prints one JSON object with medians in microseconds of processor
 * time over batches, so that a busy machine blurs them less; without the host's filters, which each of its system calls passes. */
#define SBX_WANT_MINOR 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/host/death.h"
#include "daemon/host/mirror.h"
#include "proto/fd.h"
#include "proto/sandbox_module.h"

enum { BATCHES = 201, CALLS = 500 };

struct bytes { char text[1008]; int64_t count; };
SBX_STATE(bytes, struct bytes, SBX_FIELD(text), SBX_FIELD(count));
struct numbers { int64_t n[128]; };
SBX_STATE(numbers, struct numbers, SBX_FIXED(n));
struct row { int64_t a, b, c, d; };
SBX_STATE(row, struct row, SBX_FIELD(a), SBX_FIELD(b), SBX_FIELD(c), SBX_FIELD(d));
struct rows { struct row r[32]; };
SBX_STATE(rows, struct rows, SBX_FIXED_OF(r, row));

static int fill_bytes(struct sbx *x, void *self)
{
	struct bytes *b = self;

	(void)x;
	memset(b->text, 'x', sizeof b->text - 1);
	b->count = 1;
	return 0;
}

static int fill_numbers(struct sbx *x, void *self)
{
	struct numbers *n = self;

	(void)x;
	for (int i = 0; i < 128; i++)
		n->n[i] = (int64_t)i << 40;
	return 0;
}

static int fill_rows(struct sbx *x, void *self)
{
	struct rows *r = self;

	(void)x;
	for (int i = 0; i < 32; i++)
		r->r[i] = (struct row){ i, -i, (int64_t)i << 40, 1ll << 60 };
	return 0;
}

#define MODULE(var, ...)                                                                                               \
	static const struct sbx_item var##_items[] = { __VA_ARGS__, SBX_ITEM_(SBX_T_END, 0, NULL, NULL, NULL, NULL) }; \
	static const struct sbx_module var = { SBX_MAGIC, SBX_ABI_MAJOR, SBX_WANT_MINOR, sizeof(struct sbx_module),    \
		sizeof(struct sbx_item), sizeof var##_items / sizeof var##_items[0] - 1, 1, #var, var##_items, "" }
MODULE(text_1k, SBX_USES(bytes), SBX_ON_INIT(fill_bytes));
MODULE(numbers_1k, SBX_USES(numbers), SBX_ON_INIT(fill_numbers));
MODULE(structs_1k, SBX_USES(rows), SBX_ON_INIT(fill_rows));

static struct host host;

static void must(int r, const struct err *e)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench/mirror: %s\n", e->text);
	death_expected();
	exit(1);
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void run(const struct sbx_module *module, bool last)
{
	struct module_instance *m = NULL;
	struct module_desc *d = NULL;
	struct err e = ERR_INIT;
	double us[BATCHES];
	uint64_t size = 0;

	must(module_desc_read(module, &d, &e), &e);
	must(instance_new(d, &m, &e), &e);
	must(instance_init(m, NULL, 0, &e), &e);
	must(instance_save(m, NULL, 0, &size, &e), &e);
	for (int i = 0; i < BATCHES; i++) {
		double began = cpu_us();

		for (int n = 0; n < CALLS; n++)
			must(mirror_save(&host, m, &e), &e);
		us[i] = (cpu_us() - began) / CALLS;
	}
	qsort(us, BATCHES, sizeof us[0], compare);
	printf("  \"%s\": {\"blob_bytes\": %llu, \"save_us\": %.3f, \"p90_us\": %.3f}%s\n", module->name, (unsigned long long)size, us[BATCHES / 2],
		us[BATCHES * 9 / 10], last ? "" : ",");
	instance_free(m);
	module_desc_free(d);
}

int main(void)
{
	struct err e = ERR_INIT;
	int fd = mirror_make(&e);

	must(fd < 0 ? -1 : mirror_open(&host.mirror, fd, &e), &e);
	death_init(-1);
	instance_set_host(&(struct instance_host){ .memory_bytes = 16ull << 20 });
	printf("{\n");
	run(&text_1k, false);
	run(&numbers_1k, false);
	run(&structs_1k, true);
	printf("}\n");
	fflush(stdout);
	death_expected();
	return 0;
}
