/* SPDX-License-Identifier: MIT
 *
 * Reads PT_LOAD and PT_DYNAMIC of one loaded object. The number of symbols isn't written anywhere: it follows
 * from the hash tables, which are walked within the object's segments only. */
#include "daemon/host/dynamic.h"

#include <string.h>

#define SYMBOLS_MOST                                                                                         \
	65536 /* a handler has to walk them; objects with more get no symbol in their death note */

static bool inside(const struct dynamic *d, uintptr_t at, size_t bytes)
{
	return at >= d->begin && at <= d->end && bytes <= d->end - at;
}

/* glibc has relocated these pointers in place, unless the dynamic section is read-only. */
static uintptr_t pointer(const struct dynamic *d, uintptr_t value)
{
	return value < d->begin ? d->base + value : value;
}

static size_t count_by_gnu_hash(const struct dynamic *d, uintptr_t at)
{
	uint32_t head[4], last = 0, hash;
	uintptr_t buckets, chains;

	if (!inside(d, at, sizeof head))
		return 0;
	memcpy(head, (const void *)at,
		sizeof head); /* buckets, first symbol hashed, words of the filter, shift */
	buckets = at + sizeof head + (uintptr_t)head[2] * sizeof(ElfW(Addr));
	chains = buckets + (uintptr_t)head[0] * sizeof(uint32_t);
	if (!inside(d, buckets, (size_t)head[0] * sizeof(uint32_t)))
		return 0;
	for (uint32_t i = 0; i < head[0]; i++) {
		uint32_t bucket;

		memcpy(&bucket, (const void *)(buckets + i * sizeof bucket), sizeof bucket);
		if (bucket > last)
			last = bucket;
	}
	if (last < head[1])
		return head[1]; /* nothing hashed: all are undefined */
	for (;; last++) {
		uintptr_t chain = chains + (uintptr_t)(last - head[1]) * sizeof hash;

		if (last >= SYMBOLS_MOST || !inside(d, chain, sizeof hash))
			return 0;
		memcpy(&hash, (const void *)chain, sizeof hash);
		if (hash & 1)
			return (size_t)last + 1;
	}
}

static size_t count_by_hash(const struct dynamic *d, uintptr_t at)
{
	uint32_t head[2];

	if (!inside(d, at, sizeof head))
		return 0;
	memcpy(head, (const void *)at, sizeof head);
	return head[1];
}

static void read_tables(struct dynamic *d, uintptr_t at, size_t bytes)
{
	uintptr_t symbols = 0, names = 0, gnu_hash = 0, hash = 0;

	for (size_t i = 0; i < bytes / sizeof(ElfW(Dyn)); i++) {
		ElfW(Dyn) row;

		memcpy(&row, (const void *)(at + i * sizeof row), sizeof row);
		if (row.d_tag == DT_NULL)
			break;
		if (row.d_tag == DT_SYMTAB)
			symbols = pointer(d, row.d_un.d_ptr);
		else if (row.d_tag == DT_STRTAB)
			names = pointer(d, row.d_un.d_ptr);
		else if (row.d_tag == DT_STRSZ)
			d->names_bytes = row.d_un.d_val;
		else if (row.d_tag == DT_GNU_HASH)
			gnu_hash = pointer(d, row.d_un.d_ptr);
		else if (row.d_tag == DT_HASH)
			hash = pointer(d, row.d_un.d_ptr);
		else if (row.d_tag == DT_FLAGS_1)
			d->no_delete = (row.d_un.d_val & DF_1_NODELETE) != 0;
	}
	d->n_symbols = gnu_hash ? count_by_gnu_hash(d, gnu_hash) : hash ? count_by_hash(d, hash) : 0;
	if (d->n_symbols == 0 || d->n_symbols > SYMBOLS_MOST || symbols % _Alignof(ElfW(Sym)) != 0 ||
		!inside(d, symbols, d->n_symbols * sizeof(ElfW(Sym))) || !inside(d, names, d->names_bytes)) {
		d->n_symbols = 0;
		return;
	}
	d->symbols = (const ElfW(Sym) *)symbols;
	d->names = (const char *)names;
}

void dynamic_read(const struct dl_phdr_info *info, struct dynamic *d)
{
	*d = (struct dynamic){ .base = info->dlpi_addr, .begin = UINTPTR_MAX };
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		if (begin < d->begin)
			d->begin = begin;
		if (begin + p->p_memsz > d->end)
			d->end = begin + p->p_memsz;
		if ((p->p_flags & PF_X) && d->code_end == 0) {
			d->code_begin = begin;
			d->code_end = begin + p->p_memsz;
		}
	}
	if (d->begin > d->end) {
		d->begin = d->end;
		return;
	}
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_DYNAMIC && inside(d, info->dlpi_addr + p->p_vaddr, p->p_memsz))
			read_tables(d, info->dlpi_addr + p->p_vaddr, p->p_memsz);
	}
}

const char *dynamic_name(const struct dynamic *d, size_t i)
{
	size_t at = d->symbols[i].st_name;

	if (at >= d->names_bytes || !memchr(d->names + at, 0, d->names_bytes - at))
		return "";
	return d->names + at;
}

ptrdiff_t dynamic_symbol(const struct dynamic *d, uintptr_t address)
{
	for (size_t i = 0; i < d->n_symbols; i++) {
		const ElfW(Sym) *s = &d->symbols[i];
		uintptr_t begin = d->base + s->st_value;

		if (s->st_shndx != SHN_UNDEF && s->st_value != 0 && address >= begin &&
			address - begin < s->st_size)
			return (ptrdiff_t)i;
	}
	return -1;
}
