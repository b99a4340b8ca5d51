/* SPDX-License-Identifier: MIT
 *
 * What a keyed request about a group came to, when the control that had begun it is gone. Control process, loop thread. */
#ifndef SANDBOXD_OUTCOME_GROUP_H
#define SANDBOXD_OUTCOME_GROUP_H

#include "daemon/front/rpc_key.h"
#include "daemon/sandbox/sandbox.h"

bool outcome_is_of_group(const struct outcome *row);
/* As rpc_key_owner's: what there is when it begins, and what has become of it. */
uint64_t group_outcome_before(struct control *c, const struct outcome *row);
enum rpc_key_fate group_outcome(struct control *c, const struct outcome *row, struct buf *to);

/* ---- handlers_outcome.c ---- */
enum rpc_key_fate outcome_as_info(const struct sandbox *sb, struct buf *to);
enum rpc_key_fate outcome_destroyed(const struct outcome *row, struct buf *to);

#endif
