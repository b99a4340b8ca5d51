/* SPDX-License-Identifier: MIT
 *
 * trial.c, version 4: its rehearsal takes a second. */
#define TRIAL_VERSION 4
#define TRIAL_SLOW
#include "trial.c"
