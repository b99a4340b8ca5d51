/* SPDX-License-Identifier: MIT
 *
 * Which loaded object an address lies in: a table made after every dlopen and dlclose, so that a fault
 * handler needs no lock of the dynamic linker. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_RANGES_H
#define SANDBOXD_HOST_RANGES_H

#include <stdint.h>

#include "daemon/host/dynamic.h"
#include "proto/host_wire.h"

void ranges_refresh(void);
/* Fills object, pc_offset, symbol, symbol_offset of the note; leaves them empty for an unknown address.
 * Async-signal-safe. */
void ranges_describe(uintptr_t address, struct host_death *note);

#endif
