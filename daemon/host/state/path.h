/* SPDX-License-Identifier: MIT
 *
 * Where in the state we are: a chain on the stack, turned into text only when something must be said. Pure. */
#ifndef SANDBOXD_HOST_PATH_H
#define SANDBOXD_HOST_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/state/report.h"
#include "proto/err.h"

struct path {
	const struct path *up;  /* NULL: the state itself */
	const char *name;       /* of a field; NULL: an item */
	uint64_t index;         /* of an item; PATH_ANY: "[]" */
	const char *key;        /* of a map's value, key_bytes long; NULL: none */
	uint64_t key_bytes;
};

#define PATH_ANY UINT64_MAX

/* "items[3].qty", "stock[bolt].qty"; when it is too long its front is cut. Returns to. */
const char *path_text(const struct path *p, char to[STATE_REPORT_PATH]);
/* ERR_STATE_MISMATCH about the path: "<path>: <format...>". Returns -1. */
int path_fail(const struct path *p, struct err *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
