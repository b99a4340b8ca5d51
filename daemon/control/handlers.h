/* SPDX-License-Identifier: MIT
 *
 * One handler per row of the method table; handlers.c holds the table. */
#ifndef SANDBOXD_HANDLERS_H
#define SANDBOXD_HANDLERS_H

#include "daemon/front/rpc.h"
#include "daemon/front/rpc_key.h"

struct sandbox;

rpc_handler daemon_ping, daemon_info, daemon_shutdown;
rpc_handler sandbox_create, sandbox_destroy, sandbox_start_request, sandbox_stop_request, sandbox_restart_request;
rpc_handler sandbox_freeze_request, sandbox_thaw_request, sandbox_reset_request, sandbox_update_request, sandbox_explain_request;
rpc_handler sandbox_list, sandbox_info, sandbox_security, sandbox_usage, sandbox_call_request, sandbox_cast_request, sandbox_wait_request, sandbox_reload_request, sandbox_rollback_request;
rpc_handler state_get, state_set, state_checkpoint, state_check, schema_get;
rpc_handler version_list, version_history, version_commit, log_read, event_read, audit_read;
rpc_handler profile_list, profile_show, profile_validate, profile_diff; /* handlers_profile.c */

extern const struct rpc_key_owner outcome_owner; /* handlers_outcome.c */

/* The sandbox that the request names, if its caller may see it; else NULL, and err is not_found. */
struct sandbox *handler_sandbox(struct control *c, const struct rpc_request *r, struct err *e);
/* Answers with the JSON in `b`, and frees it. */
const struct rpc_done *handler_answer(struct rpc_request *r, struct buf *b);

#endif
