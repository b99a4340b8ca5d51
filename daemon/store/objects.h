/* SPDX-License-Identifier: MIT
 *
 * Objects: immutable, each under its hash. Those of sandboxes that are kept lie in <state>/objects/<sha256> (folder.h); those of
 * sandboxes that are not (`persist: false`) beside the copies that their host loads, in the runtime folder, as <sha256>.object.
 * All functions block: they run in storage jobs (or in tests). */
#ifndef SANDBOXD_OBJECTS_H
#define SANDBOXD_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/store/blob.h"
#include "proto/err.h"

/* Durable when it returns 0: temporary file, fsync, rename, fsync of the folder. An object that is there already, with the right size and hash, is kept. */
int objects_put(int state_dir_fd, const struct blob *object, struct err *e);
bool objects_has(int state_dir_fd, const char *sha256);
/* Reads an object and checks its hash; a damaged file is renamed to <sha256>.damaged and reported (IO). */
int objects_get(int state_dir_fd, const char *sha256, struct blob **ret, struct err *e);
/* Writes a fresh copy for a host: O_EXCL, mode 0444, in a folder that only control and its host can look into. `path` is <objects_dir>/<sandbox>/<serial>.so. */
int objects_place(const struct blob *object, const char *path, struct err *e);
/* The file that was placed for a start keeps a second name, so that the next process of the sandbox, which has loaded nothing yet, can be given the
 * same: a link, which costs no more than a look. 0, or -1 with errno. Folder as below. */
int objects_keep_placed(const char *folder, const char *path);
void objects_drop_placed(const char *folder);
int objects_place_again(const char *folder, const char *path); /* doesn't block: the folder is in memory */
/* Removes what no version refers to: keep(ctx, sha256) says. Returns how many were removed, -1 with err. */
int objects_collect(int state_dir_fd, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e);

/* The same for a sandbox that touches no disk: `folder` is <objects_dir>/<sandbox>. Mode 0600: control's own. */
int objects_put_volatile(const char *folder, const struct blob *object, struct err *e);
/* And a copy for its first host, which is the same file by another name: neither is ever written to. */
int objects_place_volatile(const char *folder, const struct blob *object, const char *path, struct err *e);
int objects_get_volatile(const char *folder, const char *sha256, struct blob **ret, struct err *e);
/* Removes those that keep() doesn't want: what a control that was killed had put there for a reload that is undone. */
void objects_collect_volatile(const char *folder, bool (*keep)(void *ctx, const char *sha256), void *ctx);
void objects_remove_volatile(const char *folder, const char *sha256);

#endif
