/* SPDX-License-Identifier: MIT
 *
 * When a sandbox was last changed: put into a group or taken out, given another version, started or stopped by a wish. What a crash and its
 * restart do is no change. Found out by comparing, whenever it is kept: nothing that changes it can forget to say so. */
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"

static struct updated now(const struct sandbox *sb)
{
	struct updated u = { .at_ms = sb->updated.at_ms, .version = sb->versions.current, .n_versions = (uint32_t)sb->versions.n,
		.wanted = durable_is_wanted(sb, sb->updated.wanted), .significant = sb->spec.significant };

	memcpy(u.group, sb->spec.group, sizeof u.group);
	return u;
}

void updated_note(struct sandbox *sb)
{
	struct updated u = now(sb), *was = &sb->updated;
	int64_t at_ms = clock_wall_ms();

	if (sb->life.creating || was->at_ms == 0 || was->version == 0)
		u.at_ms = sb->spec.created_at_ms;
	else if (!sb->booting && (u.version != was->version || u.n_versions != was->n_versions || u.wanted != was->wanted ||
					  u.significant != was->significant || strcmp(u.group, was->group) != 0))
		u.at_ms = at_ms > was->at_ms ? at_ms : was->at_ms; /* the wall clock may go back */
	*was = u;
}

void updated_now(struct sandbox *sb)
{
	int64_t at_ms = clock_wall_ms();

	if (at_ms > sb->updated.at_ms)
		sb->updated.at_ms = at_ms;
}

void updated_save(const struct sandbox *sb, struct json_out *o)
{
	json_out_i64(o, "updated_at", sb->updated.at_ms > 0 ? sb->updated.at_ms : sb->spec.created_at_ms);
	json_out_bool(o, "updated_wanted", sb->updated.wanted);
}

void updated_load(struct sandbox *sb, struct json_span saved)
{
	int64_t at_ms;
	bool wanted;

	/* Written by an earlier version: not known, and not before it was made. */
	if (!json_i64(json_get(saved, "updated_at"), &at_ms) || at_ms < sb->spec.created_at_ms)
		at_ms = sb->spec.created_at_ms;
	sb->updated = now(sb);
	sb->updated.at_ms = at_ms;
	sb->updated.wanted = json_bool(json_get(saved, "updated_wanted"), &wanted) ? wanted : durable_is_wanted(sb, sb->updated.wanted);
}
