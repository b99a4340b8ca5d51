/* SPDX-License-Identifier: MIT
 *
 * rpc.discover: the protocol as an OpenRPC document, made from the method table, the error table and the table of results in
 * discover.c. Pure; control process. */
#ifndef SANDBOXD_DISCOVER_H
#define SANDBOXD_DISCOVER_H

#include "daemon/front/rpc.h"
#include "proto/buf.h"

void discover_write(struct buf *to); /* the document; to->failed: no memory */

extern rpc_handler rpc_discover;

#endif
