/* SPDX-License-Identifier: MIT
 *
 * The table of loaded objects. The writer takes it back to empty first: a handler that interrupts it finds
 * nothing instead of something half written. */
#include "daemon/host/ranges.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "proto/seldom.h"

#define RANGES_MOST 64 /* libc, the loader, a module and what it is linked with */

struct range {
	struct dynamic object;
	char name[LIMIT_ID_BYTES + 1];
};

static SELDOM_WRITTEN struct range ranges[RANGES_MOST];
static volatile sig_atomic_t n_ranges;

/* strncpy without its padding and its gcc warnings; async-signal-safe. */
static void copy_text(char *to, size_t room, const char *from)
{
	size_t n = 0;

	while (n + 1 < room && from[n]) {
		to[n] = from[n];
		n++;
	}
	to[n] = '\0';
}

static int add_range(struct dl_phdr_info *info, size_t size, void *ctx)
{
	int *n = ctx;
	const char *slash = strrchr(info->dlpi_name, '/');
	struct range *r = &ranges[*n];

	(void)size;
	if (*n == RANGES_MOST)
		return 1;
	dynamic_read(info, &r->object);
	/* The main program has no name of its own here. */
	copy_text(r->name, sizeof r->name,
		slash                ? slash + 1
		: info->dlpi_name[0] ? info->dlpi_name
				     : "sandbox-host");
	++*n;
	return 0;
}

void ranges_refresh(void)
{
	int n = 0;

	n_ranges = 0;
	atomic_signal_fence(memory_order_seq_cst);
	(void)dl_iterate_phdr(add_range, &n);
	atomic_signal_fence(memory_order_seq_cst);
	n_ranges = n;
}

void ranges_describe(uintptr_t address, struct host_death *note)
{
	for (int i = 0; i < n_ranges; i++) {
		const struct range *r = &ranges[i];
		ptrdiff_t symbol;

		if (address < r->object.code_begin || address >= r->object.code_end)
			continue;
		copy_text(note->object, sizeof note->object, r->name);
		note->pc_offset = address - r->object.base;
		symbol = dynamic_symbol(&r->object, address);
		if (symbol < 0)
			return;
		copy_text(note->symbol, sizeof note->symbol, dynamic_name(&r->object, (size_t)symbol));
		note->symbol_offset = note->pc_offset - r->object.symbols[symbol].st_value;
		return;
	}
}
