/* SPDX-License-Identifier: MIT
 *
 * The table from methods to handlers, and those that only look. */
#include "daemon/control/handlers.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/doctor/doctor.h"
#include "daemon/front/discover.h"
#include "daemon/front/listener.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/control/leave.h"
#include "daemon/control/shutdown.h"
#include "daemon/control/spawner_link.h"
#include "daemon/front/rpc_stream.h"
#include "daemon/group/group.h"
#include "daemon/front/uploads.h"
#include "proto/clock.h"

#ifndef SANDBOXD_VERSION
#define SANDBOXD_VERSION "unknown"
#endif
#define PROTOCOL_VERSION 1

rpc_handler *const rpc_handlers[METHOD__N] = {
	[METHOD_DAEMON_PING] = daemon_ping,
	[METHOD_DAEMON_INFO] = daemon_info,
	[METHOD_DAEMON_DOCTOR] = daemon_doctor,
	[METHOD_DAEMON_SHUTDOWN] = daemon_shutdown,
	[METHOD_DAEMON_UPGRADE] = daemon_upgrade,
	[METHOD_OBJECT_PUT] = uploads_put,
	[METHOD_SANDBOX_CREATE] = sandbox_create,
	[METHOD_SANDBOX_DESTROY] = sandbox_destroy,
	[METHOD_SANDBOX_START] = sandbox_start_request,
	[METHOD_SANDBOX_STOP] = sandbox_stop_request,
	[METHOD_SANDBOX_RESTART] = sandbox_restart_request,
	[METHOD_SANDBOX_FREEZE] = sandbox_freeze_request,
	[METHOD_SANDBOX_THAW] = sandbox_thaw_request,
	[METHOD_SANDBOX_RESET] = sandbox_reset_request,
	[METHOD_SANDBOX_UPDATE] = sandbox_update_request,
	[METHOD_SANDBOX_EXPLAIN] = sandbox_explain_request,
	[METHOD_SANDBOX_LIST] = sandbox_list,
	[METHOD_SANDBOX_INFO] = sandbox_info,
	[METHOD_SANDBOX_SECURITY] = sandbox_security,
	[METHOD_SANDBOX_USAGE] = sandbox_usage,
	[METHOD_SANDBOX_CALL] = sandbox_call_request,
	[METHOD_SANDBOX_CAST] = sandbox_cast_request,
	[METHOD_SANDBOX_WAIT] = sandbox_wait_request,
	[METHOD_SANDBOX_RELOAD] = sandbox_reload_request,
	[METHOD_SANDBOX_ROLLBACK] = sandbox_rollback_request,
	[METHOD_GROUP_CREATE] = group_create,
	[METHOD_GROUP_LIST] = group_list,
	[METHOD_GROUP_INFO] = group_info,
	[METHOD_GROUP_DESTROY] = group_destroy,
	[METHOD_GROUP_ADD] = group_add,
	[METHOD_GROUP_REMOVE] = group_remove,
	[METHOD_GROUP_START] = group_start,
	[METHOD_GROUP_STOP] = group_stop,
	[METHOD_GROUP_RESTART] = group_restart,
	[METHOD_GROUP_RESET] = group_reset,
	[METHOD_GROUP_TREE] = group_tree_request,
	[METHOD_PROFILE_LIST] = profile_list,
	[METHOD_PROFILE_SHOW] = profile_show,
	[METHOD_PROFILE_VALIDATE] = profile_validate,
	[METHOD_PROFILE_DIFF] = profile_diff,
	[METHOD_REQUEST_OUTCOME] = request_outcome,
	[METHOD_RPC_DISCOVER] = rpc_discover,
	[METHOD_STATE_GET] = state_get,
	[METHOD_STATE_SET] = state_set,
	[METHOD_STATE_CHECKPOINT] = state_checkpoint,
	[METHOD_STATE_CHECK] = state_check,
	[METHOD_SCHEMA_GET] = schema_get,
	[METHOD_VERSION_LIST] = version_list,
	[METHOD_VERSION_HISTORY] = version_history,
	[METHOD_VERSION_COMMIT] = version_commit,
	[METHOD_LOG_READ] = log_read,
	[METHOD_EVENT_READ] = event_read,
	[METHOD_AUDIT_READ] = audit_read,
	[METHOD_STREAM_END] = rpc_stream_end,
};

struct sandbox *handler_sandbox(struct control *c, const struct rpc_request *r, struct err *e)
{
	const char *id = rpc_text(r, "id");
	struct sandbox *sb = registry_get(c->registry, id);

	if (sb && !sb->forgetting && rpc_may_see(r, sb->spec.owner))
		return sb;
	err_set(e, ERR_NOT_FOUND, "there is no sandbox %s", id);
	return NULL;
}

const struct rpc_done *daemon_ping(struct control *c, struct rpc_request *r)
{
	static const char pong[] = "{\"pong\":true,\"version\":\"" SANDBOXD_VERSION "\"}";

	(void)c;
	return rpc_result_raw(r, pong, sizeof pong - 1);
}

const struct rpc_done *daemon_info(struct control *c, struct rpc_request *r)
{
	cJSON *result = cJSON_CreateObject();
	char build[16];

	cJSON_AddStringToObject(result, "version", SANDBOXD_VERSION);
	cJSON_AddNumberToObject(result, "protocol", PROTOCOL_VERSION);
	cJSON_AddNumberToObject(result, "pid", c->begin.spawner_pid);
	cJSON_AddNumberToObject(result, "control_pid", getpid());
	cJSON_AddNumberToObject(result, "epoch", c->begin.epoch);
	cJSON_AddNumberToObject(result, "upgrades", c->begin.upgrades);
	(void)snprintf(build, sizeof build, "%08x", c->begin.host_build);
	cJSON_AddStringToObject(result, "host_build", build);
	cJSON_AddNumberToObject(result, "hosts_of_older_build", c->older_hosts);
	cJSON_AddNumberToObject(result, "uptime_ms", (double)(clock_monotonic_ms() - c->started_ms));
	cJSON_AddBoolToObject(result, "rootless", !c->begin.is_root);
	cJSON_AddNumberToObject(result, "sandboxes", (double)registry_count(c->registry));
	cJSON_AddNumberToObject(result, "uid", rpc_uid(r));
	durable_json(c, result);
	cJSON_AddStringToObject(result, "right", rpc_right(r));
	owned_json(c, r, result);
	cJSON_AddStringToObject(result, "socket", c->begin.socket_path);
	cJSON_AddStringToObject(result, "state_dir", c->begin.state_dir);
	return rpc_result(r, result);
}

const struct rpc_done *daemon_shutdown(struct control *c, struct rpc_request *r)
{
	static const char stopping[] = "{\"stopping\":true}";
	struct spawner_message m;

	/* The spawner counts it as it counts SIGTERM, and tells this process: so it holds also if this process dies now. */
	spawner_message_init(&m, SPAWNER_STOP, NULL);
	spawner_send(c->spawner, &m, NULL, 0);
	shutdown_begin(c, 1);
	return rpc_result_raw(r, stopping, sizeof stopping - 1);
}

const struct rpc_done *handler_answer(struct rpc_request *r, struct buf *b)
{
	const struct rpc_done *done;
	struct err e = ERR_INIT;

	if (b->failed) {
		err_set(&e, ERR_INTERNAL, "no memory for the result");
		done = rpc_error(r, &e, NULL);
	} else {
		done = rpc_result_raw(r, buf_text(b), b->size);
	}
	buf_fini(b);
	return done;
}

const struct rpc_done *sandbox_info(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? answer_info(r, sb) : rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_security(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? answer_security(r, sb) : rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_usage(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? answer_usage(r, sb) : rpc_error(r, &e, NULL);
}

const struct rpc_done *state_get(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? look_get(sb, r) : rpc_error(r, &e, NULL);
}

const struct rpc_done *state_set(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_state_set(sb, r) : rpc_error(r, &e, NULL);
}

const struct rpc_done *state_checkpoint(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_checkpoint(sb, r) : rpc_error(r, &e, NULL);
}

const struct rpc_done *state_check(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	if (!sb)
		return rpc_error(r, &e, NULL);
	return rpc_text(r, "object") || rpc_text(r, "source") ? sandbox_reload(sb, r) : look_check(sb, r);
}

const struct rpc_done *schema_get(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? look_schema(sb, r) : rpc_error(r, &e, NULL);
}
