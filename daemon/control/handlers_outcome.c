/* SPDX-License-Identifier: MIT
 *
 * What a keyed request of an earlier control came to, told by what became of its sandbox. Calls aren't told so: their hosts answer for
 * them. What is as it was before, was not begun: asking again does it. */
#include <string.h>

#include "daemon/control/handlers.h"
#include "daemon/control/outcome_group.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/json_out.h"

static uint64_t generation_of(const struct sandbox *sb)
{
	return sb->host ? sb->host->link.generation : 0;
}

static uint64_t before(struct control *c, const struct outcome *row)
{
	const struct sandbox *sb = registry_get(c->registry, row->sandbox);

	if (outcome_is_of_group(row))
		return group_outcome_before(c, row);
	if (!sb)
		return 0;
	if (row->method == METHOD_SANDBOX_RESET)
		return sb->life.state == LIFE_FAILED;
	return row->method == METHOD_SANDBOX_RESTART ? generation_of(sb) : sb->versions.current;
}

enum rpc_key_fate outcome_as_info(const struct sandbox *sb, struct buf *to)
{
	struct json_out o = json_out_to(to);

	sandbox_info_json(sb, &o);
	return RPC_KEY_RESULT;
}

enum rpc_key_fate outcome_destroyed(const struct outcome *row, struct buf *to)
{
	struct json_out o = json_out_to(to);

	json_out_object(&o, NULL);
	json_out_text(&o, "id", row->sandbox);
	json_out_bool(&o, "destroyed", true);
	json_out_object_end(&o);
	return RPC_KEY_RESULT;
}

static enum rpc_key_fate reloaded(const struct sandbox *sb, const struct outcome *row, struct buf *to)
{
	struct json_out o = json_out_to(to);

	json_out_object(&o, NULL);
	json_out_text(&o, "outcome", "reloaded");
	json_out_u64(&o, "from", row->before);
	json_out_u64(&o, "to", sb->versions.current);
	json_out_object_end(&o);
	return RPC_KEY_RESULT;
}

/* The sandbox of a call is gone, and its host with it. */
static enum rpc_key_fate crashed(const struct outcome *row, struct buf *to)
{
	struct json_out o = json_out_to(to);

	json_out_object(&o, NULL);
	json_out_i64(&o, "code", err_code_number(ERR_CRASHED));
	json_out_text(&o, "message", "the sandbox was gone before the call's answer came");
	json_out_object(&o, "data");
	json_out_text(&o, "code", err_code_text(ERR_CRASHED));
	json_out_text(&o, "name", row->function);
	json_out_bool(&o, "outcome_unknown", true);
	json_out_object_end(&o);
	json_out_object_end(&o);
	return RPC_KEY_ERROR;
}

static bool is_starting(const struct sandbox *sb)
{
	return sb->life.state == LIFE_INITIALIZING || sb->life.state == LIFE_COMPILING || sb->life.state == LIFE_STARTING ||
		sb->life.state == LIFE_BACKOFF;
}

static bool is_up(const struct sandbox *sb)
{
	return sb->life.state == LIFE_RUNNING || sb->life.state == LIFE_RELOADING || sb->life.state == LIFE_FROZEN;
}

static enum rpc_key_fate resolve_life(const struct sandbox *sb, const struct outcome *row, struct buf *to)
{
	switch ((int)row->method) {
	case METHOD_SANDBOX_CREATE: /* one that was cut off before it was ready is on its way out: then it was not begun */
		return is_starting(sb) || sb->life.creating ? RPC_KEY_UNDECIDED : outcome_as_info(sb, to);
	case METHOD_SANDBOX_DESTROY:
		return sb->life.state == LIFE_STOPPING ? RPC_KEY_UNDECIDED : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_START:
		return is_up(sb) ? outcome_as_info(sb, to) : is_starting(sb) ? RPC_KEY_UNDECIDED : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_STOP:
		return sb->life.state == LIFE_STOPPED ? outcome_as_info(sb, to) :
			sb->life.state == LIFE_STOPPING ? RPC_KEY_UNDECIDED : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_RESTART:
		if (is_up(sb))
			return generation_of(sb) == row->before ? RPC_KEY_NOT_BEGUN : outcome_as_info(sb, to);
		return is_starting(sb) || sb->life.state == LIFE_STOPPING ? RPC_KEY_UNDECIDED : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_FREEZE:
		return sb->life.state == LIFE_FROZEN ? outcome_as_info(sb, to) : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_THAW:
		return sb->life.state == LIFE_RUNNING ? outcome_as_info(sb, to) : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_RESET: /* where nothing is to be seen of it, done again it does no harm */
		return row->before && sb->life.state != LIFE_FAILED ? outcome_as_info(sb, to) : RPC_KEY_NOT_BEGUN;
	case METHOD_SANDBOX_RELOAD:
	case METHOD_SANDBOX_ROLLBACK:
		if (sb->life.state == LIFE_RELOADING)
			return RPC_KEY_UNDECIDED;
		return sb->versions.current == row->before ? RPC_KEY_NOT_BEGUN : reloaded(sb, row, to);
	}
	return RPC_KEY_NOT_BEGUN; /* a call that could not be adopted, or nothing that has a key */
}

static enum rpc_key_fate resolve(struct control *c, const struct outcome *row, struct buf *to)
{
	const struct sandbox *sb = registry_get(c->registry, row->sandbox);

	if (outcome_is_of_group(row))
		return group_outcome(c, row, to);
	if (!sb)
		return row->method == METHOD_SANDBOX_DESTROY ? outcome_destroyed(row, to) :
			row->method == METHOD_SANDBOX_CALL   ? crashed(row, to) : RPC_KEY_NOT_BEGUN;
	if (sb->forgetting || (sb->host && sb->host->found && !sb->host->adopted) || row->method == METHOD_SANDBOX_CALL)
		return RPC_KEY_UNDECIDED; /* it is going, or hasn't said yet what it does (a frozen one can't: it is taken for what it was) */
	return resolve_life(sb, row, to);
}

const struct rpc_key_owner outcome_owner = { before, resolve };
