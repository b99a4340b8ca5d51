/* SPDX-License-Identifier: MIT
 *
 * What one sandbox counts in its owner's totals, and whether a request may add to them. Administrators' requests always may. Restarts by
 * policy, a restoration and a take-over are no requests: they are counted and never refused. Loop thread only. */
#ifndef SANDBOXD_OWNED_H
#define SANDBOXD_OWNED_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/control/control.h"
#include "daemon/front/rpc.h"
#include "daemon/sandbox/owners.h"

struct sandbox;
struct spec;

/* Something that counts may have changed: its share is taken anew (from its versions, so in bounded time). */
void owned_update(struct sandbox *sb);
void owned_registered(struct sandbox *sb, bool is_in); /* it has come into the registry, or left it */

/* -1: limit_exceeded. */
int owned_check_create(const struct control *c, const struct spec *s, const struct rpc_request *r, struct err *e);
int owned_check_job(const struct control *c, uid_t owner, const struct rpc_request *r, struct err *e);   /* where r brings a source */
int owned_check_start(const struct sandbox *sb, const struct rpc_request *r, struct err *e);
int owned_check_object(const struct sandbox *sb, uint64_t bytes, const struct rpc_request *r, struct err *e);
/* of several at once: what they would add is gathered, then checked */
void owned_add_start(const struct sandbox *sb, uid_t owner, struct owner_share *more);
int owned_check(const struct control *c, uid_t owner, const struct owner_share *more, const struct rpc_request *r, struct err *e);

void owned_json(const struct control *c, const struct rpc_request *r, cJSON *to); /* members of daemon.info */

#endif
