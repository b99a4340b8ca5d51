/* SPDX-License-Identifier: MIT
 *
 * Saved states on disk: <state>/states/<sha256> (folder.h), de-duplicated, checked when read. They come and go as sealed memfds, are
 * read through mappings, and are opaque here. All functions block: they run in storage jobs (or in tests). */
#ifndef SANDBOXD_STATES_H
#define SANDBOXD_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/names.h"

/* Durable when it returns 0; ret gets the name. The memfd is sealed and stays the caller's. */
int states_put(int state_dir_fd, int memfd, uint64_t bytes, char ret_sha256[SHA256_HEX_BYTES + 1], struct err *e);
/* A sealed memfd with the state. -1: OBJECT_NOT_FOUND (no such file), or IO; a damaged file was put aside. ret_is_gone: it will not come
 * back by itself; else (an error of the disk, no memory) another try may read it. */
int states_get(int state_dir_fd, const char *sha256, uint64_t bytes, int *ret_memfd, bool *ret_is_gone, struct err *e);
/* The name that it would have: SHA-256 of a sealed memfd of so many bytes. */
int states_hash(int memfd, uint64_t bytes, char sha256[SHA256_HEX_BYTES + 1], struct err *e);

#endif
