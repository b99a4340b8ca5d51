/* SPDX-License-Identifier: MIT
 *
 * The same code as another object, so that a reload has something to do. */
#include "bag.c"

__attribute__((used)) static const char another[] = "another object";
