/* SPDX-License-Identifier: MIT
 *
 * The table of calls.def: which system call, with which arguments, is which operation. Pure; runs in the spawner. */
#ifndef SANDBOXD_CALLS_H
#define SANDBOXD_CALLS_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALL_CONDITIONS 2

#if defined __x86_64__
#define CALL_ARCH       0xc000003eu /* AUDIT_ARCH_X86_64 */
#define CALL_NUMBER_X32 0x40000000u /* calls of another ABI, from this number on */
#elif defined __aarch64__
#define CALL_ARCH       0xc00000b7u /* AUDIT_ARCH_AARCH64 */
#define CALL_NUMBER_X32 UINT32_MAX  /* there is none: numbers from any ABI's are unlisted */
#else
#error "calls.def has been looked at for x86-64 and arm64 only"
#endif

/* (argument & mask) == value, or != */
struct call_condition {
	unsigned argument;
	bool differs;
	uint64_t mask, value;
};

struct call_row {
	const char *name;
	int number;          /* -1: this architecture has no such call */
	uint64_t operations; /* OPERATION_BITs, one of which is enough */
	size_t n_conditions; /* all must hold */
	struct call_condition conditions[CALL_CONDITIONS];
};

/* Rows of one call stand together, in the order in which they are tried. */
extern const struct call_row call_rows[];
extern const size_t call_rows_n;

/* The row that decides about a call; NULL: none is about it. It doesn't look at the architecture. */
const struct call_row *call_find(const struct seccomp_data *call);

#endif
