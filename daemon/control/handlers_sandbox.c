/* SPDX-License-Identifier: MIT
 *
 * The handlers that change sandboxes: each finds it, asks its life (or its reload), and leaves the answer to what follows. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/handlers.h"
#include "daemon/group/group.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/waits.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/names.h"

/* ---- create: code -> held by the spawner, and first start; on any failure nothing is left ---- */

/* The spawner is asked to hold it and to start it in one request (start.c). */
static void create_start(struct sandbox *sb)
{
	struct err e = ERR_INIT;

	if (sandbox_request(sb, LIFE_CREATE_START, false, sb->request))
		return;
	err_set(&e, ERR_WRONG_STATE, "create of %s was overtaken by another request", sb->spec.id);
	sandbox_create_failed(sb, &e);
}

static void create_code_done(struct code *k, const struct err *e)
{
	struct sandbox *sb = sandbox_of(k->ctx);
	struct err over = ERR_INIT;

	owned_update(sb); /* its compile job is over */
	if (!e && !sb->forgetting && (spec_check_object(&sb->spec, k->object->size, &over) < 0 ||
		owned_check_object(sb, k->object->size, sb->request, &over) < 0))
		e = &over;
	if (sb->forgetting) {
		/* destroyed meanwhile: its request was answered then */
	} else if (e) {
		sb->create_warnings = k->diagnostics;
		k->diagnostics = NULL;
		sandbox_create_failed(sb, e);
	} else {
		sb->candidate = (struct version){ .bytes = k->object->size, .author = sb->spec.owner, .from_source = k->source != NULL };
		(void)snprintf(sb->candidate.sha256, sizeof sb->candidate.sha256, "%s", k->sha256);
		(void)snprintf(sb->candidate.source_name, sizeof sb->candidate.source_name, "%s", k->source_name);
		sb->has_candidate = true;
		durable_object(sb, sb->candidate.sha256);
		sb->create_object = blob_ref(k->object);
		sb->create_warnings = k->diagnostics;
		k->diagnostics = NULL;
		if (k->source)
			sandbox_fact(sb, LIFE_COMPILE_END, LIFE_EXIT_NORMAL);
		create_start(sb);
	}
	sb->create_code = NULL;
	code_fini(k);
	free(k);
	sandbox_release(sb);
}

/* The one that has the id already is shown to whoever may see it, as info shows it. */
static const struct rpc_done *already_exists(struct rpc_request *r, const struct sandbox *sb)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;
	struct err e = ERR_INIT;
	cJSON *extra = NULL;

	err_set(&e, ERR_ALREADY_EXISTS, "there is a sandbox %s already", sb->spec.id);
	if (!sb->forgetting && rpc_may_see(r, sb->spec.owner)) {
		sandbox_info_json(sb, &o);
		extra = b.failed ? NULL : cJSON_CreateObject();
		if (extra)
			cJSON_AddRawToObject(extra, "sandbox", buf_text(&b));
	}
	done = rpc_error(r, &e, extra);
	buf_fini(&b);
	return done;
}

const struct rpc_done *sandbox_create(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = registry_get(c->registry, rpc_text(r, "id"));
	struct group *group;
	struct spec spec;
	struct code *k;

	if (sb)
		return already_exists(r, sb);
	if (strncmp(rpc_text(r, "id"), NAME_PROBE, sizeof NAME_PROBE - 1) == 0) {
		err_set(&e, ERR_BAD_PARAM, "no sandbox may be called %s: names that begin with " NAME_PROBE " are for what daemon.doctor starts", rpc_text(r, "id"));
		return rpc_error(r, &e, NULL);
	}
	if (registry_count(c->registry) >= c->begin.max_sandboxes) {
		err_set(&e, ERR_LIMIT_EXCEEDED, "there are %zu sandboxes already, as many as this daemon may have",
			registry_count(c->registry));
		return rpc_error(r, &e, NULL);
	}
	if (!fd_room_beside(LIMIT_RESERVED_FDS / 2)) {
		err_set(&e, ERR_LIMIT_EXCEEDED, "the daemon has no descriptors left for another sandbox: raise its limit (LimitNOFILE=)");
		return rpc_error(r, &e, NULL);
	}
	if (group_of_create(c, r, &group, &e) < 0 || spec_from_request(&spec, c, r, &e) < 0)
		return rpc_error(r, &e, NULL);
	if (owned_check_create(c, &spec, r, &e) < 0) {
		spec_fini(&spec);
		return rpc_error(r, &e, NULL);
	}
	spec.created_at_ms = registry_created_at(c->registry, spec.created_at_ms);
	if (group) {
		(void)snprintf(spec.group, sizeof spec.group, "%s", group->id);
		spec.significant = rpc_bool(r, "significant", false);
		spec.joined_at_ms = spec.created_at_ms;
	}
	k = calloc(1, sizeof *k);
	sb = k ? sandbox_new(c, &spec, &e) : NULL;
	if (!sb) {
		if (!k)
			spec_fini(&spec);
		free(k);
		err_set(&e, ERR_INTERNAL, "no memory for another sandbox");
		return rpc_error(r, &e, NULL);
	}
	sb->hold_due = true;
	if (group && !member_new(group, sb, NULL))
		sb->spec.group[0] = '\0';
	registry_add(c->registry, sb);
	sandbox_log_keep(sb, true);
	events_add(c->events, "sandbox.created", sb->spec.id, sb->spec.owner, NULL, NULL);
	sb->request = r;
	sb->create_code = k;
	sandbox_hold(sb);
	if (rpc_text(r, "source"))
		sandbox_fact(sb, LIFE_COMPILE_BEGIN, LIFE_EXIT_NORMAL);
	code_begin(k, c, r, NULL, create_code_done, sb);
	owned_update(sb);
	return rpc_pending(r);
}

/* ---- the life's requests ---- */

static const struct rpc_done *life_request(struct control *c, struct rpc_request *r, enum life_event_type type, bool keep)
{
	const struct rpc_done *taken;
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	if (!sb || ((type == LIFE_START || type == LIFE_RESTART) && owned_check_start(sb, r, &e) < 0))
		return rpc_error(r, &e, NULL);
	if (sb->create_code && type == LIFE_DESTROY)
		code_cancel(sb->create_code);
	if (type == LIFE_DESTROY && sb->reload.code)
		code_cancel(sb->reload.code); /* where a reload is being compiled */
	if (sb->member)
		return group_sandbox_request(sb, r, type, keep);
	taken = rpc_pending(r); /* before: what is as asked already is answered at once */
	if (sandbox_request(sb, type, keep, r))
		return taken;
	rpc_key_not_begun(r);
	err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
	return rpc_error(r, &e, NULL);
}

static bool wants_kept(const struct rpc_request *r)
{
	const char *state = rpc_text(r, "state");

	return !state || strcmp(state, "keep") == 0;
}

const struct rpc_done *sandbox_destroy(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	const struct sandbox *sb = handler_sandbox(c, r, &e);

	if (sb && !sb->spec.persist && rpc_bool(r, "keep_history", false)) {
		err_set(&e, ERR_BAD_PARAM, "sandbox %s has persist: false, so nothing of it is on disk and its history can't be kept: destroy it without keep_history",
			sb->spec.id);
		(void)err_about(&e, "keep_history", -1);
		return rpc_error(r, &e, NULL);
	}
	return life_request(c, r, LIFE_DESTROY, false);
}

const struct rpc_done *sandbox_start_request(struct control *c, struct rpc_request *r)
{
	return life_request(c, r, LIFE_START, wants_kept(r));
}

const struct rpc_done *sandbox_stop_request(struct control *c, struct rpc_request *r)
{
	return life_request(c, r, LIFE_STOP, wants_kept(r));
}

const struct rpc_done *sandbox_restart_request(struct control *c, struct rpc_request *r)
{
	return life_request(c, r, LIFE_RESTART, wants_kept(r));
}

const struct rpc_done *sandbox_freeze_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_freeze(sb, r, true) : rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_thaw_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_freeze(sb, r, false) : rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_reset_request(struct control *c, struct rpc_request *r)
{
	const struct rpc_done *taken;
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	if (!sb)
		return rpc_error(r, &e, NULL);
	if (!sandbox_request(sb, LIFE_RESET, false, NULL)) {
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
		return rpc_error(r, &e, NULL);
	}
	sandbox_keep_spec(sb);
	taken = rpc_pending(r);
	answer_info_durable(r, sb);
	return taken;
}

const struct rpc_done *sandbox_update_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_update(sb, r) : rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_explain_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);
	struct group *g = sb ? NULL : group_find(rpc_text(r, "id"));

	if (g && rpc_may_see(r, g->owner))
		return group_explain(g, r);
	return sb ? sandbox_explain(sb, r) : rpc_error(r, &e, NULL);
}

/* ---- calls and code ---- */

const struct rpc_done *sandbox_call_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	if (!sb || sandbox_call(sb, r, &e) < 0)
		return rpc_error(r, &e, NULL);
	return rpc_pending(r);
}

const struct rpc_done *sandbox_cast_request(struct control *c, struct rpc_request *r)
{
	return sandbox_call_request(c, r); /* calls.c knows it by its method */
}

const struct rpc_done *sandbox_wait_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return wait_begin(sb, r, &e);
}

const struct rpc_done *sandbox_reload_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_reload(sb, r) : rpc_error(r, &e, NULL);
}

const struct rpc_done *sandbox_rollback_request(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_rollback(sb, r) : rpc_error(r, &e, NULL);
}
