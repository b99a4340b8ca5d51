/* SPDX-License-Identifier: MIT
 *
 * Folders: made, checked, handed over, emptied. Everything below a folder that another user may write to is reached by
 * openat without following links. Runs in the spawner. */
#ifndef SANDBOXD_FOLDERS_H
#define SANDBOXD_FOLDERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/err.h"

/* Makes the folder and missing parents (0755 or, for a user, 0700). -1 if a part of the path is no folder. */
int folder_make(const char *path, mode_t mode, struct err *e);
/* Opens a folder of our own: no link, owner `uid`, not writable by others; in a folder that anyone writes to, 0700. */
int folder_open_own(const char *path, uid_t uid, struct err *e);
/* Can users other than root walk down to this path? Names the folder in the way. */
int folder_check_reachable(const char *path, struct err *e);

/* Removes what is in the folder, then the folder; never follows a link. 0 also if it wasn't there. */
int folder_remove_at(int parent_fd, const char *name, struct err *e);
int folder_empty(int fd, struct err *e);

/* Gives a state folder with its files (depth <= 3) to `uid`, if it is root's or of a uid within [first, first + count). */
int folder_hand_over(const char *path, uid_t uid, uid_t first, uint32_t count, struct err *e);

/* Makes <path> an empty folder 0711 on a file system that executes. As root: a tmpfs of its own, if mounting is allowed.
 * Returns its descriptor. */
int folder_open_objects(const char *path, bool is_root, bool *ret_mounted, struct err *e);

#endif
