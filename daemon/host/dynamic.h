/* SPDX-License-Identifier: MIT
 *
 * The dynamic tables of a loaded object, as they lie in memory: its name, its executable range, its symbols.
 * Every pointer is checked against the object's own segments, since a hostile object can say anything. Runs
 * in sandbox-host; dynamic_symbol is async-signal-safe. */
#ifndef SANDBOXD_HOST_DYNAMIC_H
#define SANDBOXD_HOST_DYNAMIC_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

struct dynamic {
	uintptr_t base;       /* what file addresses are relative to */
	uintptr_t begin, end; /* hull of the segments */
	uintptr_t code_begin, code_end;
	const ElfW(Sym) *symbols; /* NULL: none that can be read */
	size_t n_symbols;
	const char *names;
	size_t names_bytes;
	bool no_delete; /* DF_1_NODELETE */
};

void dynamic_read(const struct dl_phdr_info *info, struct dynamic *d);
/* The name of symbol i, "" where it lies outside of the table or isn't terminated inside it. */
const char *dynamic_name(const struct dynamic *d, size_t i);
/* The defined symbol whose extent holds the address, or -1. */
ptrdiff_t dynamic_symbol(const struct dynamic *d, uintptr_t address);

#endif
