/* SPDX-License-Identifier: MIT
 *
 * What each version has done. Calls and time are counted by the sandbox; what came since the last look goes to the version that is current. */
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"

void sandbox_account(struct sandbox *sb)
{
	const struct calls *q = &sb->calls;
	uint64_t done = q->done + q->failed;
	int64_t now = clock_monotonic_ms();
	struct version_figures more = { .calls = done - sb->account.done, .failures = q->refused - sb->account.refused };

	if (sb->account.since_ms > 0) {
		more.uptime_ms = (uint64_t)(now - sb->account.since_ms);
		sb->account.since_ms = now;
	}
	sb->account.done = done;
	sb->account.refused = q->refused;
	versions_account(&sb->versions, &more);
}

void sandbox_account_exit(struct sandbox *sb)
{
	sandbox_account(sb);
	sb->account.since_ms = 0;
	if (!life_exit_is_clean(sb->last_exit.exit))
		versions_account(&sb->versions, &(struct version_figures){ .crashes = 1 });
}

void sandbox_left(struct sandbox *sb, uint32_t version)
{
	struct left_state what = { .version = version, .fd = -1, .at_ms = clock_wall_ms(), .bytes = sb->state_bytes,
		.calls_done = sb->calls.done };

	for (size_t i = sb->left.n; i-- > 0;)
		if (!versions_find(&sb->versions, sb->left.items[i].version))
			left_states_drop(&sb->left, sb->left.items[i].version); /* it went out of the history */
	(void)left_states_add(&sb->left, &what, sb->state_fd);
}

static void version_history_json(const struct sandbox *sb, const struct version *item, struct json_out *o)
{
	const struct left_state *left = left_states_find(&sb->left, item->number);

	json_out_object(o, NULL);
	version_members_json(item, versions_status(&sb->versions, item), o);
	version_figures_json(item, o);
	if (left) {
		json_out_object(o, "saved");
		json_out_i64(o, "at", left->at_ms);
		json_out_u64(o, "state_bytes", left->bytes);
		json_out_u64(o, "acknowledged_since", sb->calls.done - left->calls_done);
		json_out_object_end(o);
	} else {
		json_out_null(o, "saved");
	}
	json_out_object_end(o);
}

const struct rpc_done *sandbox_version_history(struct sandbox *sb, struct rpc_request *r)
{
	const struct versions *v = &sb->versions;
	struct json_span name = { 0 };
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;
	struct err e = ERR_INIT;

	sandbox_account(sb);
	if (sb->module)
		name = json_get((struct json_span){ sb->module, strlen(sb->module) }, "name");
	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	if (name.at)
		json_out_raw(&o, "module", name.at, name.size);
	json_out_u64(&o, "current", v->current);
	json_out_u64(&o, "total_versions", v->last_number);
	json_out_u64(&o, "reloads", v->reloads);
	json_out_u64(&o, "failed_reloads", v->failed_reloads);
	json_out_u64(&o, "rollbacks", v->rollbacks);
	json_out_u64(&o, "returns", v->returns);
	json_out_array(&o, "versions");
	for (size_t i = v->n; i-- > 0;)
		version_history_json(sb, &v->items[i], &o);
	json_out_array_end(&o);
	json_out_object_end(&o);
	if (b.failed)
		err_set(&e, ERR_INTERNAL, "no memory for the result");
	done = b.failed ? rpc_error(r, &e, NULL) : rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}
