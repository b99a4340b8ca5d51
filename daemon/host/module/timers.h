/* SPDX-License-Identifier: MIT
 *
 * What instance.c needs of an instance's timers; the main loop's part is in instance.h. In sandbox-host. */
#ifndef SANDBOXD_HOST_TIMERS_H
#define SANDBOXD_HOST_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/codec/cbor.h"
#include "daemon/host/module/instance.h"
#include "proto/err.h"

bool timers_any(const struct module_instance *m);
void timers_save(const struct module_instance *m, struct cbor_writer *w);  /* {name: [milliseconds left, period or 0]} */
/* Arms what was armed; p NULL: nothing was. ERR_STATE_MISMATCH: the new code has no timer of a name. */
int timers_restore(struct module_instance *m, const void *p, uint64_t n, struct err *e);

#endif
