/* SPDX-License-Identifier: MIT
 *
 * What becomes a record of the audit trail, by the sandbox's level: at basic requests that were refused, forbidden system calls, ends by a
 * limit; at full every change too; at none only what was refused for want of a right, which administrators always see. */
#include <string.h>

#include "daemon/observe/audit.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"

/* Refusals that say something about who asked; that a name is taken or a queue full does not. */
static const char *refusal_type(enum err_code code)
{
	static const struct {
		enum err_code code;
		const char *type;
	} types[] = { { ERR_DENIED, "denied.right" }, { ERR_LIMIT_EXCEEDED, "denied.limit" }, { ERR_STRICT_REFUSED, "denied.strict" },
		{ ERR_BAD_IMAGE, "denied.object" }, { ERR_BAD_MODULE, "denied.object" }, { ERR_QUARANTINED, "denied.reload" },
		{ ERR_RELOAD_FAILED, "denied.reload" }, { ERR_STATE_MISMATCH, "denied.reload" } };

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].code == code)
			return types[i].type;
	return NULL;
}

static void request_record(struct control *c, const char *type, const struct rpc_act *act, const struct sandbox *sb)
{
	struct json_out *o = audit_begin(c->audit, type, sb ? sb->spec.id : NULL, sb ? sb->spec.owner : 0, act->uid,
		sb ? sb->versions.current : 0);

	if (!o)
		return;
	json_out_text(o, "method", act->method->name);
	if (!sb && act->id)
		json_out_text(o, "asked", act->id);
	if (act->e) {
		json_out_text(o, "code", err_code_text(act->e->code));
		json_out_text(o, "message", act->e->text);
	}
	events_end(c->audit->events);
}

void audit_request(struct control *c, const struct rpc_act *act)
{
	const struct sandbox *sb = act->id ? registry_get(c->registry, act->id) : NULL;
	const char *type;

	if (!act->e) {
		if (sb && method_is_change(act->method) && spec_audit(&sb->spec) == POLICY_AUDIT_FULL)
			request_record(c, "changed", act, sb);
		return;
	}
	if (act->e->code == ERR_NOT_FOUND && sb && !act->is_admin && sb->spec.owner != act->uid) {
		request_record(c, "denied.owner", act, sb); /* who asked was told that there is none */
		return;
	}
	type = refusal_type(act->e->code);
	if (type && (!sb || act->e->code == ERR_DENIED || spec_audit(&sb->spec) != POLICY_AUDIT_NONE))
		request_record(c, type, act, sb);
}

void audit_call(struct sandbox *sb, uint64_t generation, const char *call, const char *operation, const char *answer, uint64_t unnamed)
{
	struct json_out *o;

	if (spec_audit(&sb->spec) == POLICY_AUDIT_NONE)
		return;
	o = audit_begin(sb->control->audit, "denied.call", sb->spec.id, sb->spec.owner, sb->spec.owner, sb->versions.current);
	if (!o)
		return;
	json_out_u64(o, "generation", generation);
	json_out_text(o, "call", call);
	json_out_text(o, "operation", operation);
	json_out_text(o, "answer", answer);
	if (unnamed > 0)
		json_out_u64(o, "unnamed_before", unnamed);
	events_end(sb->control->audit->events);
}

void audit_exit(struct sandbox *sb)
{
	const struct last_exit *x = &sb->last_exit;
	const char *limit = exit_limit(x);
	struct json_out *o;

	if (!limit || spec_audit(&sb->spec) == POLICY_AUDIT_NONE)
		return;
	o = audit_begin(sb->control->audit, "denied.limit", sb->spec.id, sb->spec.owner, sb->spec.owner, x->version);
	if (!o)
		return;
	json_out_u64(o, "generation", x->generation);
	json_out_text(o, "limit", limit);
	json_out_text(o, "message", x->text);
	events_end(sb->control->audit->events);
}
