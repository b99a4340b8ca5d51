/* SPDX-License-Identifier: MIT
 *
 * It goes the ways that a start goes, with nothing of its results kept: the loader loads and drops a small library of libc's own, the
 * report is written once. Pages of code are mapped at once: those that fork doesn't copy come one fault at a time otherwise. So are the pages
 * of stack, heap and clock that a start uses; what of it nothing needs is given back as after any start (serve.c, trim). */
#include "daemon/host/warm.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/host/confine.h"
#include "daemon/host/module/instance.h"
#include "daemon/host/module/object.h"
#include "daemon/host/ranges.h"
#include "proto/buf.h"
#include "proto/clock.h"

#define WARM_STACK_BYTES (24u << 10)
#define WARM_HEAP_BYTES  (20u << 10)

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

static int populate(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const uintptr_t *page = ctx;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = (info->dlpi_addr + p->p_vaddr) & ~(*page - 1);

		if (p->p_type == PT_LOAD && !(p->p_flags & PF_W))
			(void)madvise((void *)begin, info->dlpi_addr + p->p_vaddr + p->p_memsz - begin, MADV_POPULATE_READ); /* NOLINT */
	}
	return 0;
}

/* Deeper than a start goes: a JSON body is walked with some KiB of frame. */
static void __attribute__((noinline)) touch_stack(uintptr_t page)
{
	volatile char room[WARM_STACK_BYTES];

	for (size_t at = 0; at < sizeof room; at += page)
		room[at] = 0;
}

/* Freed memory at the top of the heap stays, and what is taken next comes from there. */
static void touch_heap(uintptr_t page)
{
	volatile char *room = malloc(WARM_HEAP_BYTES);

	for (size_t at = 0; room && at < WARM_HEAP_BYTES; at += page)
		room[at] = 0;
	free((void *)(uintptr_t)room);
}

/* For the usual limit, which a spare has: its first page needs a page table of its own, and with shadowed ones that costs more than the rest
 * of a start's faults together. */
static void prepare_arena(void)
{
	struct rlimit memory;
	struct instance_host any = { 0 };

	if (getrlimit(RLIMIT_DATA, &memory) == -1 || memory.rlim_cur == RLIM_INFINITY)
		return;
	any.memory_bytes = memory.rlim_cur;
	instance_set_host(&any);
	(void)instance_prepare(1);
}

void warm_up(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct confine any = { .profile = PROFILE_HIGH };
	struct buf report = BUF_INIT;

	(void)dl_iterate_phdr(populate, &page);
	confine_report(&any, &report);
	buf_fini(&report);
	object_warm_up();
	ranges_refresh();
	prepare_arena();
	touch_stack(page);
	touch_heap(page);
	(void)clock_monotonic_us(); /* the pages that the kernel keeps the time in */
}
