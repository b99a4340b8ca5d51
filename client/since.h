/* SPDX-License-Identifier: MIT
 *
 * What --since may say: a number of an event or a line (INCARNATION-N), or a time. Pure, but for the local time zone. */
#ifndef SANDBOXD_SINCE_H
#define SANDBOXD_SINCE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/err.h"

bool since_is_seq(const char *text);
/* 90s, 10m, 2h, 3d before now; 16:05, 16:05:30 today; 2026-11-30, 2026-11-30 16:05[:30] (or with a T), local time;
 * ms since 1970. -1 with BAD_PARAM. */
int since_ms(const char *text, int64_t now_ms, int64_t *ret, struct err *e);

#endif
