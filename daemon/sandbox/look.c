/* SPDX-License-Identifier: MIT
 *
 * Looking at a sandbox's state: state.get, state.check, schema.get. Only a host reads a state, so it is asked, one question at a time; a state
 * that a version was left with is lent to it. Members of its answer are spliced by name, so it adds none of its own. */
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/fd.h"

static const char *const members[SHOW__N][6] = {
	[SHOW_STATE] = { "state_version", "state_bytes", "state", "timers", "own" },
	[SHOW_SCHEMA] = { "state_version", "state", "structs" },
	[SHOW_CHECK] = { "state_bytes", "same", "state_bytes_again", "differs_at", "report" },
};

static const struct rpc_done *give(struct rpc_request *r, struct buf *b)
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

static const struct rpc_done *answer_from(const struct sandbox *sb, struct rpc_request *r, enum show_what what, uint32_t version,
	struct json_span from)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	json_out_u64(&o, "version", version);
	for (size_t i = 0; i < sizeof members[0] / sizeof members[0][0] && members[what][i]; i++) {
		struct json_span value = json_get(from, members[what][i]);

		if (value.at)
			json_out_raw(&o, members[what][i], value.at, value.size);
	}
	json_out_object_end(&o);
	return give(r, &b);
}

static const struct rpc_done *ask(struct sandbox *sb, struct rpc_request *r, enum show_what what, uint32_t version)
{
	struct left_state left = { .fd = -1 };
	struct err e = ERR_INIT;

	if (sb->look.request)
		err_set(&e, ERR_BUSY, "sandbox %s answers another question about its state just now", sb->spec.id);
	else if (sb->life.state != LIFE_RUNNING || !sb->host || !sb->host->ready || sb->host->found)
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s, and only a running one can read its state", sb->spec.id,
			life_state_text(sb->life.state));
	else if (version != 0 && !versions_find(&sb->versions, version))
		err_set(&e, ERR_VERSION_NOT_FOUND, "sandbox %s has no version %u", sb->spec.id, version);
	else if (version != 0 && left_states_get(&sb->left, version, &left, &e) < 0)
		err_prefix(&e, "version %u of sandbox %s", version, sb->spec.id);
	if (e.code != ERR_OK)
		return rpc_error(r, &e, NULL);
	checkpoint_cancel(sb); /* it would hold the host for as long as a call runs */
	sb->look.request = r;
	sb->look.number = (uint64_t)sb->control->begin.epoch << 32 | ++sb->look.asked;
	sb->look.what = what;
	sb->look.version = version != 0 ? version : sb->versions.current;
	(void)host_link_send(&sb->host->link, HOST_SHOW, sb->look.number, (int64_t)what, NULL, 0, left.fd);
	fd_close(&left.fd);
	return rpc_pending(r);
}

const struct rpc_done *look_get(struct sandbox *sb, struct rpc_request *r)
{
	return ask(sb, r, SHOW_STATE, (uint32_t)rpc_integer(r, "version", 0));
}

const struct rpc_done *look_check(struct sandbox *sb, struct rpc_request *r)
{
	return ask(sb, r, SHOW_CHECK, 0);
}

/* What runs, or ran last, has told its schema; an older version's is in the state that it was left with. */
const struct rpc_done *look_schema(struct sandbox *sb, struct rpc_request *r)
{
	uint32_t version = (uint32_t)rpc_integer(r, "version", 0);
	struct err e = ERR_INIT;

	if (version != 0 && version != sb->versions.current)
		return ask(sb, r, SHOW_SCHEMA, version);
	if (sb->module)
		return answer_from(sb, r, SHOW_SCHEMA, sb->versions.current, (struct json_span){ sb->module, strlen(sb->module) });
	err_set(&e, ERR_WRONG_STATE, "sandbox %s has not told its schema since control was started: it will at its next start or reload", sb->spec.id);
	return rpc_error(r, &e, NULL);
}

void look_shown(struct sandbox *sb, const struct host_message *head, const char *body)
{
	struct rpc_request *r = sb->look.request;
	struct err e = ERR_INIT;

	if (!r || head->number != sb->look.number)
		return; /* an earlier control's */
	sb->look.request = NULL;
	if (head->status != 0) {
		error_from_host(&e, NULL, head, body, ERR_STATE_MISMATCH);
		err_prefix(&e, "the state of sandbox %s", sb->spec.id);
		(void)rpc_error(r, &e, NULL);
	} else {
		(void)answer_from(sb, r, sb->look.what, sb->look.version, (struct json_span){ body, head->body_bytes });
	}
}

void look_ended(struct sandbox *sb, const char *how)
{
	struct rpc_request *r = sb->look.request;
	struct err e = ERR_INIT;

	if (!r)
		return;
	sb->look.request = NULL;
	err_set(&e, ERR_CRASHED, "the process of sandbox %s ended before it could show its state: %s", sb->spec.id, how);
	(void)rpc_error(r, &e, NULL);
}
