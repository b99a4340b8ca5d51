/* SPDX-License-Identifier: MIT
 *
 * trial.c, version 3. */
#define TRIAL_VERSION 3
#include "trial.c"
