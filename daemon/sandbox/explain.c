/* SPDX-License-Identifier: MIT
 *
 * The decision log of a sandbox: filled by each step of its life, kept in its spec, told by `explain`. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"

static struct decision_facts facts_of(const struct sandbox *sb, char what[64])
{
	const struct last_exit *x = &sb->last_exit;

	(void)snprintf(what, 64, "%s", x->happened ? x->reason : "");
	return (struct decision_facts){ .wall_ms = clock_wall_ms(), .uptime_ms = x->happened ? x->uptime_ms : 0, .version = sb->versions.current,
		.generation = sb->host ? sb->host->link.generation : x->generation, .what = x->happened ? what : NULL };
}

void explain_step(struct sandbox *sb, const struct life *before, const struct life_event *ev, const struct life_actions *a)
{
	char what[64];
	struct decision_facts f = facts_of(sb, what);

	decisions_step(&sb->decisions, before, &sb->life, sandbox_policy(sb), ev, a, &f);
	if (sb->spec.group[0] && sb->decisions.n > 0 && decisions_get(&sb->decisions, decisions_count(&sb->decisions) - 1)->kind == DECISION_STAYS_DOWN)
		sb->decisions.n--; /* what follows is its group's decision */
}

void explain_note(struct sandbox *sb, enum decision_kind kind, const char *what)
{
	char unused[64];
	struct decision_facts f = facts_of(sb, unused);
	struct decision d = { .kind = (uint8_t)kind, .at_ms = f.wall_ms, .generation = f.generation, .version = f.version };

	(void)snprintf(d.what, sizeof d.what, "%s", what ? what : "");
	decisions_add(&sb->decisions, &d);
}

void explain_save(const struct sandbox *sb, struct json_out *o)
{
	uint8_t bytes[DECISIONS_BYTES_MOST];
	struct buf text = BUF_INIT;

	base64_encode(&text, bytes, decisions_write(&sb->decisions, bytes));
	json_out_text(o, "decisions", buf_text(&text));
	buf_fini(&text);
}

void explain_load(struct sandbox *sb, struct json_span saved)
{
	uint8_t bytes[DECISIONS_BYTES_MOST + 3];
	size_t size = 0;
	char *text = json_string_dup(saved, &size);
	int64_t n = text && size <= (sizeof bytes) / 3 * 4 ? base64_decode(bytes, text, size) : 0;

	if (n > 0 && n <= (int64_t)DECISIONS_BYTES_MOST)
		decisions_read(&sb->decisions, bytes, (size_t)n);
	free(text);
}

static void decision_json(const struct decision *d, struct json_out *o)
{
	char text[400];

	decision_text(d, text, sizeof text);
	json_out_object(o, NULL);
	json_out_i64(o, "at", d->at_ms);
	json_out_text(o, "kind", decision_kind_text((enum decision_kind)d->kind));
	json_out_text(o, "text", text);
	json_out_u64(o, "generation", d->generation);
	json_out_u64(o, "version", d->version);
	if (d->kind == DECISION_RESTART || d->kind == DECISION_GAVE_UP) {
		json_out_u64(o, "used", d->used);
		json_out_u64(o, "allowed", d->allowed);
		json_out_u64(o, "period_ms", d->period_ms);
		json_out_u64(o, "delay_ms", d->delay_ms);
		json_out_u64(o, "jitter_ms", d->jitter_ms);
	}
	json_out_object_end(o);
}

const struct rpc_done *sandbox_explain(struct sandbox *sb, struct rpc_request *r)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;
	char next[160];

	decision_next_text(&sb->life, &sb->spec.policy, clock_monotonic_ms(), next, sizeof next);
	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	json_out_text(&o, "status", sandbox_status_text(sb));
	if (sb->life.reason != LIFE_REASON_NONE)
		json_out_text(&o, "status_reason", life_reason_text(sb->life.reason));
	else
		json_out_null(&o, "status_reason");
	if (next[0])
		json_out_text(&o, "next", next);
	else
		json_out_null(&o, "next");
	json_out_array(&o, "decisions");
	for (size_t i = 0; i < decisions_count(&sb->decisions); i++)
		decision_json(decisions_get(&sb->decisions, i), &o);
	json_out_array_end(&o);
	json_out_u64(&o, "forgotten", sb->decisions.n - decisions_count(&sb->decisions));
	json_out_object_end(&o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}
