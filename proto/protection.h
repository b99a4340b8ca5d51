/* SPDX-License-Identifier: MIT
 *
 * The protections of a host by number, by name and as a set of bits. Runs in every process; pure. */
#ifndef SANDBOXD_PROTECTION_H
#define SANDBOXD_PROTECTION_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

enum protection {
#define X(name, text, by, from, without) PROTECTION_##name,
#include "proto/protection.def"
#undef X
	PROTECTION__N,
	PROTECTION_NONE = PROTECTION__N /* of a step that nothing can be without */
};
_Static_assert(PROTECTION__N <= 64, "a set of them is 64 bits");

#define PROTECTION_TEXT_BYTES 256 /* room for what a report says of one: `asked`, `got`, `why` */
#define PROTECTION_BIT(p) (UINT64_C(1) << (p))

const char *protection_name(enum protection p); /* "own uid" */
const char *protection_by(enum protection p);   /* "setresuid" */

/* "pid-namespace,system calls" -> bits; spaces and '-' are the same. -1 with err that names the word and the nearest name. */
int protection_set_parse(const char *text, uint64_t *ret_bits, struct err *e);

#endif
