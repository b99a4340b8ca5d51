/* SPDX-License-Identifier: MIT
 *
 * Sends bytes to the daemon's store in chunks (object.put) over one connection. */
#ifndef SANDBOXD_UPLOAD_H
#define SANDBOXD_UPLOAD_H

#include <stddef.h>

#include "client/rpcclient.h"
#include "proto/err.h"
#include "proto/names.h"

/* 0: sha256 is what the daemon calls them. -1 with err, and as rpcclient_call with *ret: the reply of the chunk that failed. */
int upload_bytes(struct rpcclient *c, const char *data, size_t size, char sha256[SHA256_HEX_BYTES + 1],
	struct rpcclient_reply *ret, struct err *e);

#endif
