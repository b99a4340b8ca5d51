/* SPDX-License-Identifier: MIT
 *
 * A blob with some of its fields replaced by values from JSON. Pure; in sandbox-host. */
#ifndef SANDBOXD_HOST_STATE_PATCH_H
#define SANDBOXD_HOST_STATE_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/err.h"

/* patch: a JSON object of fields by name, as state_show writes them. What isn't named stays; a struct is patched member by member; arrays,
 * maps and what is in them are replaced as a whole; null makes an optional field absent. Timers and own state stay. Appends the new blob to
 * `to`. ERR_STATE_MISMATCH with path and reason (nearest: of a name that isn't there); ERR_LIMIT_EXCEEDED when `to` is full. */
int state_patch(const void *blob, uint64_t n, const char *patch, size_t patch_bytes, struct buf *to, struct err *e);

#endif
