/* SPDX-License-Identifier: MIT
 *
 * Pieces of two MiB, so that a call waits no longer than one of them takes and huge pages come whole. Each page is touched, too: in a
 * virtual machine whose page tables are shadowed, that the kernel has an entry for it is only half of the price. */
#include "daemon/host/prepare.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/host/module/instance.h"

#define PIECE (2u << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HEAP_MOST  (4u << 20)
#define STACK_MOST (32u << 10)
#define PAGE       4096u

/* ---- the host's own ---- */

static uintptr_t heap_begin;

__attribute__((constructor)) static void note_heap(void)
{
	heap_begin = (uintptr_t)sbrk(0);
}

static void populate(uintptr_t begin, uintptr_t end)
{
	begin -= begin % PAGE;
	end += (PAGE - end % PAGE) % PAGE;
	if (end > begin)
		(void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

static int populate_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
	uintptr_t relro_end = 0;

	(void)size, (void)ctx;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_GNU_RELRO)
			relro_end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr, end = begin + p->p_memsz;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
			continue;
		populate(relro_end > begin && relro_end < end ? relro_end : begin, end);
	}
	return 0;
}

/* The frames of what comes next, below this one's. */
__attribute__((noinline)) static void populate_stack(void)
{
	volatile char pages[STACK_MOST];

	for (size_t i = 0; i < sizeof pages; i += PAGE)
		pages[i] = 0;
}

void prepare_own_memory(void)
{
	uintptr_t end = (uintptr_t)sbrk(0);

	if (end - heap_begin > HEAP_MOST)
		heap_begin = end - HEAP_MOST; /* what is used next lies at its top, most likely */
	populate(heap_begin, end);
	(void)dl_iterate_phdr(populate_object, NULL);
	populate_stack();
}

/* ---- for the state ---- */

/* At an address where huge pages fit, if there are any for memfds. */
static uint8_t *map_memfd(int memfd, uint64_t bytes)
{
	uint8_t *room, *at, *map;
	uint64_t front, slack = bytes >= PIECE ? PIECE : 0;

	room = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	front = slack ? (PIECE - (uintptr_t)room % PIECE) % PIECE : 0;
	at = room + front;
	map = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd, 0);
	if (map == MAP_FAILED) {
		(void)munmap(room, bytes + slack);
		return NULL;
	}
	if (front > 0)
		(void)munmap(room, front);
	if (slack > front)
		(void)munmap(at + (bytes + PAGE - 1) / PAGE * PAGE, slack - front);
	if (slack > 0)
		(void)madvise(map, bytes, MADV_HUGEPAGE);
	return map;
}

static void touch(uint8_t *at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += PAGE)
		((volatile uint8_t *)at)[i] = 0;
}

static void look(const uint8_t *at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += PAGE)
		(void)((const volatile uint8_t *)at)[i];
}

void prepare_begin(struct prepare *p, uint64_t serial, int memfd, uint64_t expected, uint64_t arena_bytes)
{
	struct stat st;

	prepare_drop(p);
	*p = (struct prepare){ .serial = serial, .running = true, .arena_wanted = arena_bytes };
	if (fstat(memfd, &st) < 0 || st.st_size <= 0)
		return;
	p->map_bytes = (uint64_t)st.st_size;
	p->map = map_memfd(memfd, p->map_bytes);
	p->view = mmap(NULL, p->map_bytes, PROT_READ, MAP_PRIVATE, memfd, 0);
	if (p->view == MAP_FAILED)
		p->view = NULL;
	p->device = st.st_dev;
	p->inode = st.st_ino;
	p->memfd_wanted = !p->map ? 0 : expected < p->map_bytes ? (expected + PAGE - 1) / PAGE * PAGE : p->map_bytes;
}

bool prepare_step(struct prepare *p)
{
	uint64_t n;

	if (p->memfd_done < p->memfd_wanted) {
		n = p->memfd_wanted - p->memfd_done < PIECE ? p->memfd_wanted - p->memfd_done : PIECE;
		if (madvise(p->map + p->memfd_done, n, MADV_POPULATE_WRITE) != 0) { /* no memory for it, or an older kernel */
			p->memfd_wanted = p->memfd_done;
			return false;
		}
		touch(p->map + p->memfd_done, n);
		p->memfd_done += n;
		return false;
	}
	if (p->view && p->view_done < p->memfd_wanted) {
		n = p->memfd_wanted - p->view_done < PIECE ? p->memfd_wanted - p->view_done : PIECE;
		look(p->view + p->view_done, n);
		p->view_done += n;
		return false;
	}
	if (p->arena_done < p->arena_wanted) {
		p->arena_done += PIECE;
		if (p->arena_done > p->arena_wanted)
			p->arena_done = p->arena_wanted;
		if (!instance_prepare(p->arena_done))
			p->arena_done = p->arena_wanted;
		return false;
	}
	p->running = false;
	return true;
}

void *prepare_take(struct prepare *p, int memfd, uint64_t bytes)
{
	struct stat st;
	uint8_t *map = p->map;

	if (map && fstat(memfd, &st) == 0 && st.st_dev == p->device && st.st_ino == p->inode && bytes == p->map_bytes) {
		p->map = NULL;
		return map;
	}
	return map_memfd(memfd, bytes);
}

const void *prepare_view(const struct prepare *p, int memfd, uint64_t bytes)
{
	struct stat st;

	if (!p->view || bytes > p->map_bytes || fstat(memfd, &st) < 0 || st.st_dev != p->device || st.st_ino != p->inode)
		return NULL;
	return p->view;
}

void prepare_unmap(struct prepare *p)
{
	if (p->map)
		(void)munmap(p->map, p->map_bytes);
	p->map = NULL;
}

void prepare_drop(struct prepare *p)
{
	if (p->serial == 0)
		return;
	prepare_unmap(p);
	if (p->view)
		(void)munmap(p->view, p->map_bytes);
	instance_prepare(0);
	*p = (struct prepare){ 0 };
}
