/* SPDX-License-Identifier: MIT
 *
 * A share is a function of the sandbox as it is; owners_set makes a difference of it. So no event has to be counted the right number of
 * times: to ask once too often is harmless. */
#include "daemon/sandbox/owned.h"

#include <string.h>

#include "daemon/sandbox/sandbox.h"

static uint64_t memory_of(const struct spec *s)
{
	return s->limits.max_memory_bytes ? s->limits.max_memory_bytes : DEFAULT_MAX_MEMORY_BYTES;
}

/* Is it to have a process? Also while one is waited for, or one that was asked to end is still there. */
static bool is_up(const struct sandbox *sb)
{
	enum life_state status = sandbox_status(sb);

	return sb->booting ? sb->disk.wanted : status != LIFE_STOPPED && status != LIFE_FAILED;
}

static uint64_t objects_bytes(const struct sandbox *sb)
{
	uint64_t bytes = sb->has_candidate && !versions_find_object(&sb->versions, sb->candidate.sha256) ? sb->candidate.bytes : 0;

	for (size_t i = 0; i < sb->versions.n; i++)
		bytes += sb->versions.items[i].bytes;
	return bytes;
}

static uint64_t state_bytes(const struct sandbox *sb)
{
	const struct on_disk *k = &sb->disk;

	if (!sb->spec.persist)
		return sb->state_fd >= 0 ? sb->state_bytes : 0;
	if (k->state_fd >= 0)
		return k->state_fd_bytes + k->older.bytes;
	return (k->state_sha256[0] && !k->state_drop ? k->state_bytes : 0) + k->older.bytes;
}

void owned_update(struct sandbox *sb)
{
	struct owner_share now = { 0 };

	if (sb->owned.is_in) {
		now.of[OWNER_SANDBOXES] = 1;
		now.of[OWNER_MEMORY] = is_up(sb) ? memory_of(&sb->spec) : 0;
		now.of[OWNER_STORE_BYTES] = objects_bytes(sb) + state_bytes(sb);
	}
	if ((sb->create_code && sb->create_code->compiling) || (sb->reload.active && sb->reload.code && sb->reload.code->compiling))
		now.of[OWNER_JOBS] = 1;
	owners_set(sb->control->owners, sb->spec.owner, &sb->owned.counted, &now);
}

void owned_registered(struct sandbox *sb, bool is_in)
{
	sb->owned.is_in = is_in;
	owned_update(sb);
}

/* ---- may it be more? ---- */

static struct owner_share limits_of(const struct control *c)
{
	const struct control_begin *b = &c->begin;

	return (struct owner_share){ { [OWNER_SANDBOXES] = b->max_sandboxes_per_owner, [OWNER_MEMORY] = b->max_memory_per_owner,
		[OWNER_STORE_BYTES] = b->max_store_bytes_per_owner, [OWNER_JOBS] = b->max_jobs_per_owner } };
}

int owned_check(const struct control *c, uid_t owner, const struct owner_share *more, const struct rpc_request *r, struct err *e)
{
	struct owner_share limits = limits_of(c);

	return rpc_is_admin(r) ? 0 : owners_check(c->owners, owner, &limits, more, e);
}

int owned_check_create(const struct control *c, const struct spec *s, const struct rpc_request *r, struct err *e)
{
	const struct owner_share more = { { [OWNER_SANDBOXES] = 1, [OWNER_MEMORY] = memory_of(s), [OWNER_JOBS] = rpc_text(r, "source") != NULL } };

	return owned_check(c, s->owner, &more, r, e);
}

int owned_check_job(const struct control *c, uid_t owner, const struct rpc_request *r, struct err *e)
{
	const struct owner_share more = { { [OWNER_JOBS] = rpc_text(r, "source") != NULL } };

	return owned_check(c, owner, &more, r, e);
}

void owned_add_start(const struct sandbox *sb, uid_t owner, struct owner_share *more)
{
	if (sb->spec.owner == owner && !is_up(sb))
		more->of[OWNER_MEMORY] += memory_of(&sb->spec) < OWNER_SHARE_MAX ? memory_of(&sb->spec) : OWNER_SHARE_MAX;
}

int owned_check_start(const struct sandbox *sb, const struct rpc_request *r, struct err *e)
{
	struct owner_share more = { 0 };

	owned_add_start(sb, sb->spec.owner, &more);
	return owned_check(sb->control, sb->spec.owner, &more, r, e);
}

int owned_check_object(const struct sandbox *sb, uint64_t bytes, const struct rpc_request *r, struct err *e)
{
	const struct owner_share more = { { [OWNER_STORE_BYTES] = bytes } };

	return owned_check(sb->control, sb->spec.owner, &more, r, e);
}

/* ---- shown ---- */

/* JSON's numbers are exact up to here. */
static double shown(uint64_t n)
{
	return (double)(n < 1ull << 53 ? n : 1ull << 53);
}

static void owner_json(void *ctx, uid_t uid, const struct owner_share *totals)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddNumberToObject(row, "uid", uid);
	for (int i = 0; i < OWNER_TOTAL__N; i++)
		cJSON_AddNumberToObject(row, owner_total_text((enum owner_total)i), shown(totals->of[i]));
	cJSON_AddItemToArray(ctx, row);
}

void owned_json(const struct control *c, const struct rpc_request *r, cJSON *to)
{
	struct owner_share has = owners_get(c->owners, rpc_uid(r)), limits = limits_of(c);
	cJSON *owned = cJSON_AddObjectToObject(to, "owned");
	size_t n = owners_count(c->owners);

	for (int i = 0; i < OWNER_TOTAL__N; i++) {
		cJSON *total = cJSON_AddObjectToObject(owned, owner_total_text((enum owner_total)i));

		cJSON_AddNumberToObject(total, "used", shown(has.of[i]));
		if (limits.of[i] == 0 || rpc_is_admin(r))
			cJSON_AddNullToObject(total, "limit");
		else
			cJSON_AddNumberToObject(total, "limit", shown(limits.of[i]));
	}
	if (!rpc_is_admin(r))
		return;
	owners_each(c->owners, owner_json, cJSON_AddArrayToObject(to, "owners"), LIMIT_OWNERS_SHOWN);
	cJSON_AddNumberToObject(to, "owners_left_off", n > LIMIT_OWNERS_SHOWN ? (double)(n - LIMIT_OWNERS_SHOWN) : 0);
}
