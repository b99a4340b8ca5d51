/* SPDX-License-Identifier: MIT
 *
 * trial.c, version 2. */
#define TRIAL_VERSION 2
#include "trial.c"
