/* SPDX-License-Identifier: MIT
 *
 * A folder of the state folder whose files are named by a SHA-256: objects/ and states/ by that of their bytes, histories/ by that of an id. A file under its hash is
 * either whole or damaged, never half-written: a writer fills HASH.tmp, makes it durable and renames it. What is found damaged, or isn't
 * a regular file at all, is renamed to HASH.damaged and stays for the administrator. Left-over HASH.tmp files are a killed predecessor's:
 * the next writer of that hash or folder_collect removes them. No path of a client comes here; names are checked hashes, links
 * are never followed. All functions block: they run in storage jobs (or in tests). */
#ifndef SANDBOXD_STORE_FOLDER_H
#define SANDBOXD_STORE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/err.h"
#include "proto/names.h"

#define FOLDER_OBJECTS "objects"
#define FOLDER_STATES  "states"
#define FOLDER_HISTORIES "histories"

bool folder_is_hash(const char *name);
int folder_open(int state_dir_fd, const char *folder); /* -1 with errno */
int folder_open_error(const char *folder, struct err *e); /* says what the errno of folder_open means; -1 */
int folder_make(int state_dir_fd, const char *folder, int *ret_fd, struct err *e); /* opens it, or makes it durably */

enum folder_found { FOLDER_GOOD, FOLDER_NONE, FOLDER_DAMAGED /* err says how */, FOLDER_UNREADABLE /* err set */ };
/* Opens a file that is a regular one of at most `limit` bytes; ret_fd is set only when it is FOLDER_GOOD. Its bytes are not looked at.
 * `what` ("object") is for texts. */
enum folder_found folder_file(int folder_fd, const char *sha256, const char *what, size_t limit, int *ret_fd, size_t *ret_size, struct err *e);
int folder_put_aside(int folder_fd, const char *sha256, const char *what, struct err *e);
/* Durable when it returns 0: temporary file, fsync, rename, fsync of the folder. */
int folder_write(int folder_fd, const char *sha256, const char *what, const void *data, size_t size, struct err *e);
int folder_sync(int folder_fd, int file_fd, const char *sha256, const char *what, struct err *e); /* of a file that is there already */
int folder_remove(int state_dir_fd, const char *folder, const char *sha256, struct err *e);       /* one that isn't there: 0 */
/* Removes what keep(ctx, sha256) doesn't want, and left-overs. Returns how many were removed, -1 with err (all are tried). */
int folder_collect(int state_dir_fd, const char *folder, bool (*keep)(void *ctx, const char *sha256), void *ctx, struct err *e);
int folder_write_all(int fd, const void *data, size_t size); /* -1 with errno */

#endif
