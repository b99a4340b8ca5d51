/* SPDX-License-Identifier: MIT
 *
 * soak.c, version 2. */
#define SOAK_VERSION 2
#include "soak.c"
