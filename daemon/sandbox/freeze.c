/* SPDX-License-Identifier: MIT
 *
 * freeze and thaw: the life says when one may be, the spawner does it, and then the client is answered. A frozen sandbox that is to stop is
 * thawed on its way, by the life's own action. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"
#include "proto/log.h"

static void freeze_message(const struct sandbox *sb, struct spawner_message *m, enum spawner_signal kind)
{
	spawner_message_init(m, SPAWNER_SIGNAL, sb->spec.id);
	m->kind = (uint16_t)kind;
	m->generation = sb->host ? sb->host->link.generation : 0;
}

static void freeze_answer(struct sandbox *sb, const struct err *e)
{
	struct rpc_request *r = sb->freeze_request;

	sb->freeze_request = NULL;
	if (!r)
		return;
	if (e)
		(void)rpc_error(r, e, NULL);
	else
		(void)answer_info(r, sb);
}

static void freeze_done(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct sandbox *sb = ctx;
	struct err e = ERR_INIT;
	char text[sizeof m->text];

	(void)fds;
	(void)n_fds;
	if (m->op == SPAWNER_OK) {
		sb->frozen_by_cgroup = (m->flags & SPAWNER_F_CGROUP) != 0;
		freeze_answer(sb, NULL);
		sandbox_release(sb);
		return;
	}
	text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
	err_set(&e, m->status == ESRCH ? ERR_WRONG_STATE : ERR_UNAVAILABLE, "sandbox %s: %s", sb->spec.id, text);
	log_warning("%s", e.text);
	freeze_answer(sb, &e); /* first: the thaw that follows answers nobody, least of all who asks next */
	if (sb->life.state == LIFE_FROZEN && m->status != ESRCH) /* it runs on, so that is what it is */
		(void)sandbox_request(sb, LIFE_THAW, false, NULL);
	sandbox_release(sb);
}

/* One message, whose answer goes to whoever asked. */
static void freeze_ask(struct sandbox *sb, enum spawner_signal kind)
{
	struct spawner_message m;
	struct err e = ERR_INIT;

	freeze_message(sb, &m, kind);
	sandbox_hold(sb);
	if (spawner_request(sb->control->spawner, &m, NULL, 0, freeze_done, sb, &e) != 0)
		return;
	freeze_answer(sb, &e);
	sandbox_release(sb);
}

void freeze_do(struct sandbox *sb)
{
	sandbox_keep_spec(sb); /* first: a successor must know that a silent host is a frozen one */
	freeze_ask(sb, SPAWNER_SIGNAL_FREEZE);
	events_add(sb->control->events, "sandbox.frozen", sb->spec.id, sb->spec.owner, "mechanism", "signals");
}

void thaw_do(struct sandbox *sb)
{
	if (sb->life.state == LIFE_RUNNING && sb->freeze_request) {
		freeze_ask(sb, SPAWNER_SIGNAL_THAW);
	} else {
		struct spawner_message m;

		freeze_message(sb, &m, SPAWNER_SIGNAL_THAW);
		spawner_send(sb->control->spawner, &m, NULL, 0);
	}
	events_add(sb->control->events, "sandbox.thawed", sb->spec.id, sb->spec.owner, NULL, NULL);
	watch_thawed(sb);
}

const struct rpc_done *sandbox_freeze(struct sandbox *sb, struct rpc_request *r, bool freeze)
{
	const struct rpc_done *pending;
	struct err e = ERR_INIT;

	if (sb->life.state == (freeze ? LIFE_FROZEN : LIFE_RUNNING) && !sb->freeze_request)
		return answer_info(r, sb); /* as asked already */
	if (sb->freeze_request) {
		err_set(&e, ERR_BUSY, "another freeze or thaw of sandbox %s is at work", sb->spec.id);
		return rpc_error(r, &e, NULL);
	}
	pending = rpc_pending(r);
	sb->freeze_request = r;
	if (sandbox_request(sb, freeze ? LIFE_FREEZE : LIFE_THAW, false, NULL))
		return pending;
	sb->freeze_request = NULL;
	rpc_key_not_begun(r);
	err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s", sb->spec.id, sandbox_status_text(sb));
	return rpc_error(r, &e, NULL);
}

void freeze_fini(struct sandbox *sb)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_NOT_FOUND, "sandbox %s was destroyed", sb->spec.id);
	freeze_answer(sb, &e);
}
