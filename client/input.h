/* SPDX-License-Identifier: MIT
 *
 * What sandboxctl reads for the user, with the user's rights: JSON from files and standard input, objects and sources. */
#ifndef SANDBOXD_INPUT_H
#define SANDBOXD_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/err.h"

/* A whole file, pipe or, for "-", standard input, of at most `limit` bytes. The caller frees; NULL with err (a usage error). */
char *input_text(const char *path, size_t limit, size_t *ret_size, struct err *e);

struct codefile {
	char *data;
	size_t size;
	bool is_source;
	char name[64]; /* of a source, as the compiler's messages shall show it */
};

/* Reads a .so or .c: a regular file, not larger than the daemon takes; or, for "-", standard input, where what is no ELF file is
 * a source. -1 with ERR_BAD_SOURCE. */
int codefile_read(struct codefile *c, const char *path, struct err *e);
void codefile_fini(struct codefile *c);

#endif
