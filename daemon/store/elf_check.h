/* SPDX-License-Identifier: MIT
 *
 * Looks at an object before any process maps it (DESIGN 11.5: a truncated one kills inside dlopen). Pure, bounded,
 * reads headers by memcpy only; fuzzed. */
#ifndef SANDBOXD_ELF_CHECK_H
#define SANDBOXD_ELF_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

#define ELF_GLOBALS_NAMED 8

struct elf_info {
	char module[64];        /* from section .sbx.info, cleaned; "" when there is none */
	uint32_t state_version; /* from it; 0 */
	uint32_t n_globals;     /* variables that can be written, known by name; at most ELF_GLOBALS_NAMED of them are in globals */
	uint64_t globals_bytes; /* their bytes; where the object is stripped, of all */
	char globals[ELF_GLOBALS_NAMED][64];
};

/* 0, or -1 with BAD_IMAGE and the reason in words ("it is 32-bit", "segment 2 ends at byte 8192 of a file of 4096", ...). */
int elf_check(const void *data, size_t size, struct elf_info *ret, struct err *e);

#endif
