/* SPDX-License-Identifier: MIT
 *
 * It goes the ways that a start goes, with nothing of its results kept: the loader loads and drops a small library of libc's own, the
 * report is written once. Pages of code are mapped at once: those that fork doesn't copy come one fault at a time otherwise. */
#include "daemon/host/warm.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/host/confine.h"
#include "daemon/host/module/object.h"
#include "daemon/host/ranges.h"
#include "proto/buf.h"

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
}
