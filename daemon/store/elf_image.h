/* SPDX-License-Identifier: MIT
 *
 * What elf_check.c (headers, segments, sections) has found out, for elf_dynamic.c (dynamic section, symbols).
 * Private to the two. Everything is read by memcpy through the functions here: no pointer into the file is ever cast. */
#ifndef SANDBOXD_ELF_IMAGE_H
#define SANDBOXD_ELF_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/err.h"
#include "proto/limits.h"

struct elf_image {
	const unsigned char *data;
	uint64_t size;
	Elf64_Ehdr head;
	unsigned n_loads;
	Elf64_Phdr loads[LIMIT_ELF_HEADERS]; /* checked: in the file, ascending */
	Elf64_Phdr dynamic;                  /* p_type PT_NULL: none */
};

/* offset .. offset + n lies in the file; no sum can overflow. */
static inline bool elf_in_file(const struct elf_image *im, uint64_t offset, uint64_t n)
{
	return offset <= im->size && n <= im->size - offset;
}

/* What the loader will see at an address: bytes of the file, up to the end of its segment. NULL: the address has none. */
static inline const unsigned char *elf_at_address(const struct elf_image *im, uint64_t address, uint64_t *ret_room)
{
	for (unsigned i = 0; i < im->n_loads; i++) {
		const Elf64_Phdr *p = &im->loads[i];

		if (address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) {
			*ret_room = p->p_filesz - (address - p->p_vaddr);
			return im->data + p->p_offset + (address - p->p_vaddr);
		}
	}
	return NULL;
}

/* n bytes at the address, all in one segment of the file; NULL otherwise. */
static inline const unsigned char *elf_range(const struct elf_image *im, uint64_t address, uint64_t n)
{
	uint64_t room = 0;
	const unsigned char *at = elf_at_address(im, address, &room);

	return at && n <= room ? at : NULL;
}

struct elf_info;
void elf_find_globals(const struct elf_image *im, struct elf_info *info); /* after everything else was checked */
int elf_check_dynamic(const struct elf_image *im, struct err *e);

#endif
