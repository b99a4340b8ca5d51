/* SPDX-License-Identifier: MIT
 *
 * How exposed the rest of the machine is to a sandbox, as one number: the weights of the protections that don't stand, out of those of all,
 * from 0 (all stand) to 10 (none does). It orders sandboxes and machines; it proves nothing. Pure; every process. */
#ifndef SANDBOXD_EXPOSURE_H
#define SANDBOXD_EXPOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/json_scan.h"
#include "proto/protection.h"

/* What one protection that doesn't stand adds, 0 to 10: how much of the machine its lack alone opens to hostile code. 0: it is only a
 * means to others. */
unsigned exposure_weight(enum protection p);
/* Of a set of PROTECTION_BITs that stand: 0.0 to 10.0. */
double exposure_of(uint64_t standing);
/* "good" below 2, "medium" below 5, "exposed" below 8, "unsafe". */
const char *exposure_rating(double exposure);

/* A host's report (an array of {protection, got, ...}): which stand. What the report doesn't name, doesn't. */
uint64_t exposure_standing(struct json_span report);
bool exposure_stands(struct json_span row); /* of one row */
/* The protection of a row; PROTECTION__N: an unknown one. */
enum protection exposure_row(struct json_span row);

#endif
