/* SPDX-License-Identifier: MIT
 *
 * What each version has done, for who asks and for what stays when the sandbox is destroyed. Calls and time are counted by the sandbox; what came since the last look goes to the version that is current. */
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/store/blob.h"
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

/* `saved`: nothing of a destroyed sandbox can be gone back to. */
static void version_history_json(const struct sandbox *sb, const struct version *item, bool is_destroyed, struct json_out *o)
{
	const struct left_state *left = is_destroyed ? NULL : left_states_find(&sb->left, item->number);

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

/* What both answers begin with. */
static void head_json(const struct sandbox *sb, int64_t destroyed_at_ms, struct json_out *o)
{
	char name[LIMIT_ID_BYTES + 1];
	int64_t n = -1; /* also of a kept spec, whose module an earlier version took from its host as it was */

	if (sb->module)
		n = json_string(json_get((struct json_span){ sb->module, strlen(sb->module) }, "name"), name, sizeof name);
	json_out_text(o, "id", sb->spec.id);
	if (n > 0 && name_is_id(name, (size_t)n))
		json_out_text(o, "module", name);
	if (destroyed_at_ms)
		json_out_i64(o, "destroyed_at", destroyed_at_ms);
	json_out_u64(o, "current", sb->versions.current);
}

void sandbox_version_list_json(const struct sandbox *sb, int64_t destroyed_at_ms, struct json_out *o, const char *key)
{
	json_out_object(o, key);
	head_json(sb, destroyed_at_ms, o);
	versions_json(&sb->versions, o, "versions");
	json_out_object_end(o);
}

void sandbox_version_history_json(struct sandbox *sb, int64_t destroyed_at_ms, struct json_out *o, const char *key)
{
	const struct versions *v = &sb->versions;

	sandbox_account(sb);
	json_out_object(o, key);
	head_json(sb, destroyed_at_ms, o);
	json_out_u64(o, "total_versions", v->last_number);
	json_out_u64(o, "reloads", v->reloads);
	json_out_u64(o, "failed_reloads", v->failed_reloads);
	json_out_u64(o, "rollbacks", v->rollbacks);
	json_out_u64(o, "returns", v->returns);
	json_out_array(o, "versions");
	for (size_t i = v->n; i-- > 0;)
		version_history_json(sb, &v->items[i], destroyed_at_ms != 0, o);
	json_out_array_end(o);
	json_out_object_end(o);
}

struct blob *sandbox_history_text(struct sandbox *sb, int64_t destroyed_at_ms, struct err *e)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct blob *text = NULL;

	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	json_out_u64(&o, "owner", sb->spec.owner);
	json_out_i64(&o, "destroyed_at", destroyed_at_ms);
	sandbox_version_list_json(sb, destroyed_at_ms, &o, "list");
	sandbox_version_history_json(sb, destroyed_at_ms, &o, "history");
	json_out_object_end(&o);
	if (b.failed)
		buf_fini(&b);
	else
		text = blob_new(b.data, b.size);
	if (!text)
		(void)err_set(e, ERR_INTERNAL, "no memory for the history of versions of sandbox %s", sb->spec.id);
	return text;
}
