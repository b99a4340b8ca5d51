/* SPDX-License-Identifier: MIT
 *
 * The attention signal: "stop soon", meant for all calls that were sent, or for the one whose time is over. It sets a word that
 * long-running module code polls (sbx_stop_asked), and interrupts blocking system calls. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_ATTENTION_H
#define SANDBOXD_HOST_ATTENTION_H

#include <stdint.h>

#include "proto/err.h"

extern volatile uint32_t attention_word;

int attention_init(struct err *e); /* also the signals that the host never wants to die of */
void attention_clear(void);        /* whom it was meant for has ended */
/* After each call. Control has at most LIMIT_CALLS_IN_HOST calls here: after so many, a signal was meant for
 * none of the next. One that was meant for a single call is over with it. */
void attention_call_ended(void);

#endif
