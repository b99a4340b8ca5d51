/* SPDX-License-Identifier: MIT
 *
 * The host's pulse: while a module's function runs and counts sbx.beat up, control is told that it is alive, by a timer's signal handler,
 * since the loop is not reached. Nothing is told when nothing was counted. Host process. */
#ifndef SANDBOXD_HOST_BEAT_H
#define SANDBOXD_HOST_BEAT_H

#include <stdint.h>

#include "proto/err.h"

extern volatile uint64_t beat_word; /* what struct sbx's beat points to */

/* Before the walls go up. heartbeat_ms <= 0: nobody watches, nothing is done. */
int beat_start(int channel_fd, uint64_t generation, int64_t heartbeat_ms, struct err *e);

#endif
