/* SPDX-License-Identifier: MIT
 *
 * What of the registry is damaged is put aside in the state folder as registry.damaged-<ms>...: the whole file, or one row as text. It stays
 * for the administrator, and as long as one is there the objects and states that it may refer to stay too. What comes behind LIMIT_ASIDE_FILES
 * or LIMIT_ASIDE_BYTES sends the older ones away, but never the first, and says so in the log. Storage jobs only. */
#ifndef SANDBOXD_ASIDE_H
#define SANDBOXD_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/err.h"

int aside_file(int dir_fd, const char *name, char ret_name[128], struct err *e); /* with its -wal, -shm, -journal */
int aside_row(int dir_fd, const char *id, const char *why, const void *spec, size_t size, char ret_name[128], struct err *e);
bool aside_any(int dir_fd); /* also when that can't be told */

#endif
