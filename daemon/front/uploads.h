/* SPDX-License-Identifier: MIT
 *
 * What a connection has uploaded (object.put): at most LIMIT_UPLOADS_PER_CONNECTION, open and finished together.
 * A chunk is appended on the loop; the finished whole is hashed by a storage job, which owns the upload meanwhile,
 * so that the connection may end at any time. Control process only. */
#ifndef SANDBOXD_UPLOADS_H
#define SANDBOXD_UPLOADS_H

#include <stdint.h>

#include "daemon/front/rpc.h"
#include "proto/limits.h"

struct upload;

struct uploads { /* zeroed: none */
	struct upload *items[LIMIT_UPLOADS_PER_CONNECTION];
	uint64_t n_finished; /* ever: tells which is the oldest */
};

rpc_handler uploads_put; /* object.put */

/* The finished upload with this hash: a new reference, or NULL. */
struct blob *uploads_find(const struct uploads *u, const char *sha256);
/* At the end of the connection. Uploads being hashed are freed by their job's end. */
void uploads_drop(struct uploads *u);

#endif
