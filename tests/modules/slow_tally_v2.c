/* SPDX-License-Identifier: MIT
 *
 * The same code again as another version. */
#define STATE_VERSION 2
#include "slow_tally.c"
