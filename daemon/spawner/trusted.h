/* SPDX-License-Identifier: MIT
 *
 * The administrator's files: read only if nobody but root, or whoever started the daemon, can have written them. Runs in the spawner. */
#ifndef SANDBOXD_TRUSTED_H
#define SANDBOXD_TRUSTED_H

#include <stddef.h>

#include "proto/config.h"
#include "proto/err.h"

/* The whole of a regular file, terminated; the caller frees it. name: relative to folder_fd (AT_FDCWD), no link. what, shown: for
 * messages, "configuration" and its path. NULL with err; sys_errno ENOENT: it isn't there. */
char *trusted_read(int folder_fd, const char *name, const char *what, const char *shown, size_t most, size_t *ret_size, struct err *e);
/* A folder, opened for reading. -1 with err; sys_errno ENOENT as above. */
int trusted_folder(const char *path, const char *what, struct err *e);

/* The own profiles: FOLDER/profiles.d/NAME.profile become known to this process (profile_own_put), in the order of their names. A folder
 * that isn't there has none. -1 with err on the first bad one: none may be left out in silence. */
int profiles_load(const char *folder, const struct config *c, struct err *e);

#endif
