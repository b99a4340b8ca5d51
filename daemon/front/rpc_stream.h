/* SPDX-License-Identifier: MIT
 *
 * The front's side of streams (rpc.h): a peer has a list of them. */
#ifndef SANDBOXD_RPC_STREAM_H
#define SANDBOXD_RPC_STREAM_H

#include <stdbool.h>

#include "daemon/front/rpc.h"

struct rpc_peer;

rpc_handler rpc_stream_end; /* stream.end */
/* All has been sent: streams that wait for room go on. true: there is something to send again. */
bool rpc_streams_pump(struct rpc_peer *p);
void rpc_streams_end(struct rpc_peer *p); /* the peer goes */

#endif
