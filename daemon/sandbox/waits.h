/* SPDX-License-Identifier: MIT
 *
 * Requests that wait for a state of a sandbox (sandbox.wait). Each has a timer of its own, which ends it and which notices that its
 * client has left; so whatever is abandoned is freed within WAIT_LOOK_MS. Loop thread only. */
#ifndef SANDBOXD_WAITS_H
#define SANDBOXD_WAITS_H

#include "daemon/front/rpc.h"
#include "proto/err.h"

struct sandbox;

/* Answers r now or later. sb NULL: there is none that this caller may see, and e says so: that is `gone`, and an error for the rest. */
const struct rpc_done *wait_begin(struct sandbox *sb, struct rpc_request *r, const struct err *e);
/* The state has changed: answers those that waited for it. */
void waits_state(struct sandbox *sb);
/* Nothing of the sandbox is left: answers all. */
void waits_gone(struct sandbox *sb);

#endif
