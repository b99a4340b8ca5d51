/* SPDX-License-Identifier: MIT
 *
 * A second process of a sandbox, in a reload that replaces (TXN_REPLACE): asked for, told to load the candidate while calls go on, given
 * the sealed state, promoted by the spawner; and the end of the process that was replaced. It says as little as any host may, and nothing
 * that it says reaches the life: until it is promoted it is the transaction's alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/shared_text.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/log.h"
#include "proto/protection.h"

#define SECURITY_JSON_BYTES (16u << 10)

/* A request on its way: an answer that comes when its transaction is over is nobody's. */
struct asked {
	struct sandbox *sb;
	int64_t began_us;
};

static bool is_current(const struct asked *a)
{
	return txn_active(&a->sb->txn) && a->sb->txn.mode == TXN_REPLACE && a->sb->reload.began_us == a->began_us;
}

static int ask(struct sandbox *sb, struct spawner_message *m, const int *fds, size_t n_fds, spawner_reply_fn *reply)
{
	struct asked *a = malloc(sizeof *a);
	struct err e = ERR_INIT; /* what an earlier step said stays, if this goes well */

	if (!a)
		return err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_INTERNAL, "no memory for a request to the spawner");
	*a = (struct asked){ sb, sb->reload.began_us };
	sandbox_hold(sb);
	if (spawner_request(sb->control->spawner, m, fds, n_fds, reply, a, &e) != 0)
		return 0;
	*sandbox_error(sb, SANDBOX_ERROR_RELOAD) = e;
	free(a);
	sandbox_release(sb);
	return -1;
}

static void asked_free(struct asked *a)
{
	struct sandbox *sb = a->sb;

	free(a);
	sandbox_release(sb);
}

/* ---- its start ---- */

static void spawned(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct asked *a = ctx;
	struct sandbox *sb = a->sb;
	char text[sizeof m->text];

	if (!is_current(a)) {
		asked_free(a); /* DISCARD stands behind START */
		return;
	}
	if (m->op != SPAWNER_STARTED || n_fds < 3) {
		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "the spawner can't make a second process: %s", text);
	} else if (((m->flags & SPAWNER_F_SECOND) != 0) == sb->second_folder) {
		err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_INTERNAL, "the second process has the first one's folder");
	} else {
		sb->next = host_new(sb, m->generation, fd_take(&fds[0]), fd_take(&fds[1]), fd_take(&fds[2]), sandbox_error(sb, SANDBOX_ERROR_RELOAD));
	}
	if (sb->next) {
		sb->next->pid = m->pid;
		host_process_set(sb->next, m);
		host_send_begin(sb->next);
		host_link_read_output(&sb->next->link);
	}
	sandbox_txn_event(sb, sb->next ? TXN_EV_SPAWNED : TXN_EV_SPAWN_FAILED, 0);
	asked_free(a);
}

void candidate_spawn(struct sandbox *sb)
{
	struct spawner_message m;

	if (sb->before) { /* for this one the spawner gives it up, and tells nothing of its end any more */
		candidate_kill_old(sb);
		host_abandon(sb->before);
		sb->before = NULL;
	}
	spawner_message_init(&m, SPAWNER_START, sb->spec.id);
	m.limits = sb->spec.limits;
	m.flags = SPAWNER_F_CANDIDATE | (sb->spec.fresh_space ? SPAWNER_F_FRESH : 0);
	(void)snprintf(m.name, sizeof m.name, "%s", sb->spec.profile);
	if (FAULT(RELOAD_SPAWN))
		err_sys(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "cannot ask for a second process");
	else if (ask(sb, &m, NULL, 0, spawned) == 0)
		return;
	sandbox_txn_event(sb, TXN_EV_SPAWN_FAILED, 0);
}

/* Its pid comes by another way than its word. */
static void staged(struct sandbox *sb)
{
	if (sb->next->staged && sb->next->pid > 0)
		sandbox_txn_event(sb, TXN_EV_STAGED, 0);
}

void candidate_born(struct sandbox *sb, const struct spawner_message *m)
{
	sb->next->pid = m->pid;
	host_process_set(sb->next, m);
	staged(sb);
}

/* ---- what it is told ---- */

void candidate_stage(struct sandbox *sb)
{
	struct host *h = sb->next;
	char name[LIMIT_ID_BYTES + 1];
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	if (!h || h->told || (sb->spec.strict && !h->reported))
		return;
	h->told = true;
	h->serial = sb->candidate_serial;
	(void)FAULT(RELOAD_STAGE);
	sandbox_object_name(h->serial, name);
	json_out_object(&o, NULL);
	json_out_text(&o, "path", name);
	json_out_object_end(&o);
	(void)host_link_send(&h->link, HOST_STAGE, h->serial, 0, b.data, b.size, -1);
	buf_fini(&b);
}

void candidate_load(struct sandbox *sb)
{
	struct err e = ERR_INIT;

	(void)FAULT(RELOAD_LOAD);
	if (sb->next && checkpoint_mirror_next(sb, &e) < 0) {
		*sandbox_error(sb, SANDBOX_ERROR_RELOAD) = e;
		sandbox_txn_event(sb, TXN_EV_LOAD_FAILED, 0);
	} else if (sb->next)
		host_send_start(sb->next, sb->candidate_serial, sb->reload.backwards, sb->reload.patch,
			sb->reload.from_saved ? sb->reload.left.fd : sb->state_fd);
}

/* ---- what it says ---- */

static void on_report(struct sandbox *sb, struct host *h, const struct host_message *head, const char *body)
{
	struct json_span report = { body, head->body_bytes };

	if (h->reported)
		return;
	h->reported = true;
	if (json_type(report) != '[' || head->body_bytes > SECURITY_JSON_BYTES) {
		candidate_broken(sb, h, "a confinement report that isn't one");
		return;
	}
	(void)shared_text_free(sb->reload.security);
	sb->reload.security = shared_text(report.at, report.size);
	if (!sb->spec.strict)
		return;
	if (!sandbox_strict_accepts(report, sandbox_error(sb, SANDBOX_ERROR_RELOAD)))
		sandbox_txn_event(sb, TXN_EV_CANDIDATE_DIED, 0); /* it is discarded before it loads anything */
	else if (sb->txn.step == TXN_STAGE)
		candidate_stage(sb);
}

/* Another module's object is no version of this one. */
static bool is_same_module(struct sandbox *sb, struct json_span body)
{
	char name[LIMIT_ID_BYTES + 1] = "", running[LIMIT_ID_BYTES + 1] = "", clean[LIMIT_ID_BYTES + 1];
	struct json_span now = { sb->module, sb->module ? strlen(sb->module) : 0 };

	if (!sb->module) /* taken over right after a commit: what runs isn't known by name */
		return true;
	if (json_string(json_get(json_get(body, "module"), "name"), name, sizeof name) > 0 &&
		json_string(json_get(now, "name"), running, sizeof running) > 0 && strcmp(name, running) == 0)
		return true;
	text_clean(clean, sizeof clean, name, strlen(name));
	err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_BAD_MODULE, "it is module %s, and a version of %s is wanted", clean, running);
	return false;
}

static void on_staged(struct sandbox *sb, struct host *h, const struct host_message *head, const char *body)
{
	struct json_span top = { body, head->body_bytes };

	if (head->number != sb->candidate_serial || h->staged || sb->txn.step != TXN_STAGE || !h->told)
		return;
	if (json_type(top) != '{' || !is_same_module(sb, top)) {
		sandbox_txn_event(sb, TXN_EV_STAGE_FAILED, 0);
		return;
	}
	h->staged = true;
	staged(sb);
}

static void on_ready(struct sandbox *sb, struct host *h, const struct host_message *head, const char *body)
{
	if (head->number != sb->candidate_serial || h->ready || sb->txn.step != TXN_LOAD || json_type((struct json_span){ body, head->body_bytes }) != '{')
		return;
	h->ready = true;
	sandbox_report_keep(sb, (struct json_span){ body, head->body_bytes });
	sandbox_txn_event(sb, TXN_EV_LOADED, 0);
}

static void on_failed(struct sandbox *sb, struct host *h, const struct host_message *head, const char *body)
{
	if (h->ready)
		return;
	error_from_host(sandbox_error(sb, SANDBOX_ERROR_RELOAD), NULL, head, body, ERR_RELOAD_FAILED);
	sandbox_txn_event(sb, h->staged ? TXN_EV_LOAD_FAILED : TXN_EV_STAGE_FAILED, 0);
}

void candidate_message(struct sandbox *sb, struct host *h, const struct host_message *head, const char *body)
{
	if (head->type == HOST_DEATH)
		host_death_keep(h, head, body);
	if (h != sb->next || !txn_active(&sb->txn))
		return; /* of the one before nothing else is waited for */
	switch ((int)head->type) {
	case HOST_REPORT:
		on_report(sb, h, head, body);
		break;
	case HOST_STAGED:
		on_staged(sb, h, head, body);
		break;
	case HOST_READY:
		on_ready(sb, h, head, body);
		break;
	case HOST_FAILED:
		on_failed(sb, h, head, body);
		break;
	}
}

static void kill_generation(struct sandbox *sb, uint64_t generation)
{
	struct spawner_message m;

	spawner_message_init(&m, SPAWNER_SIGNAL, sb->spec.id);
	m.kind = SPAWNER_SIGNAL_KILL;
	m.generation = generation;
	spawner_send(sb->control->spawner, &m, NULL, 0);
}

/* End of file: its exit follows, and says more. */
void candidate_broken(struct sandbox *sb, struct host *h, const char *why)
{
	if (!why && h == sb->before && h->asked)
		return; /* it ends, as it was told; KILL_OLD is for one that doesn't */
	if (!why || h != sb->next) {
		kill_generation(sb, h->link.generation);
		return;
	}
	err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "protocol violation of the second process: %s", why);
	events_add(sb->control->events, "sandbox.killed", sb->spec.id, sb->spec.owner, "why", sandbox_error_told(sb, SANDBOX_ERROR_RELOAD)->text);
	sandbox_txn_event(sb, TXN_EV_CANDIDATE_DIED, 0);
}

/* ---- its promotion ---- */

/* From here on it is the sandbox's process. */
static void change_places(struct sandbox *sb)
{
	sandbox_account(sb);
	calls_crashed(&sb->calls, sb->spec.id, "its process was replaced, after it had said that no call runs"); /* a lie: nobody answers these */
	sb->before = sb->host; /* NULL: it has died meanwhile */
	sb->host = sb->next;
	sb->next = NULL;
	sb->host->calls_done = sb->calls.done;
	sb->second_folder = !sb->second_folder;
	checkpoint_promoted(sb);
	sb->account.since_ms = clock_monotonic_ms();
	(void)shared_text_free(sb->security);
	sb->security = sb->reload.security;
	sb->reload.security = NULL;
	look_ended(sb, "a reload replaced its process");
	watch_thawed(sb); /* what is asked of the one before is no question to this one */
	overdue_update(sb);
	pending_replaced(sb);
}

static void promoted(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct asked *a = ctx;
	struct sandbox *sb = a->sb;
	char text[sizeof m->text];

	(void)fds, (void)n_fds;
	if (m->op == SPAWNER_OK && sb->next) {
		change_places(sb);
		sandbox_txn_event(sb, TXN_EV_PROMOTED, 0);
	} else {
		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		if (sandbox_error_told(sb, SANDBOX_ERROR_RELOAD)->code == ERR_OK)
			err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "the spawner can't promote the second process: %s", text);
		sandbox_txn_event(sb, TXN_EV_PROMOTE_FAILED, 0);
	}
	if (sb->spec_due)
		sandbox_keep_spec(sb);
	asked_free(a);
}

void candidate_promote(struct sandbox *sb)
{
	int fds[] = { spec_memfd(sb, SPEC_PROMOTED, sandbox_error(sb, SANDBOX_ERROR_RELOAD)), sb->checkpoint.next_mirror_fd };
	struct spawner_message m;
	bool sent = false;

	spawner_message_init(&m, SPAWNER_PROMOTE, sb->spec.id);
	m.generation = sb->next ? sb->next->link.generation : 0;
	if (FAULT(RELOAD_PROMOTE))
		err_sys(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "cannot ask for the promotion of the second process");
	else
		sent = fds[0] >= 0 && ask(sb, &m, fds, fds[1] >= 0 ? 2 : 1, promoted) == 0;
	fd_close(&fds[0]);
	if (!sent)
		sandbox_txn_event(sb, TXN_EV_PROMOTE_FAILED, 0);
}

void candidate_discard(struct sandbox *sb)
{
	struct spawner_message m;

	spawner_message_init(&m, SPAWNER_DISCARD, sb->spec.id);
	spawner_send(sb->control->spawner, &m, NULL, 0);
	if (sb->next && sb->next->draining)
		host_disown(sb->next); /* whoever reads what is left of it abandons it */
	else if (sb->next)
		host_abandon(sb->next);
	sb->next = NULL;
	checkpoint_next_drop(sb);
}

/* ---- the one before ---- */

void candidate_retire(struct sandbox *sb)
{
	(void)FAULT(RELOAD_RETIRE);
	if (!sb->before)
		return;
	sb->before->asked = true;
	(void)host_link_send(&sb->before->link, HOST_STOP, 0, 1, NULL, 0, -1);
}

void candidate_kill_old(struct sandbox *sb)
{
	if (sb->before)
		kill_generation(sb, sb->before->link.generation);
}

static void before_exited(struct sandbox *sb, const struct spawner_message *m)
{
	struct last_exit x = { .uptime_ms = m->ended_ms - m->started_ms };
	struct host *h = sb->before;
	struct json_out *o;

	(void)host_link_drain(&h->link);
	exit_describe(&x, h, m, LIFE_KILL_NONE);
	o = events_begin(sb->control->events, "sandbox.replaced", sb->spec.id, sb->spec.owner);
	json_out_u64(o, "generation", m->generation);
	json_out_text(o, "reason", x.reason);
	json_out_text(o, "text", x.text);
	json_out_i64(o, "uptime_ms", x.uptime_ms);
	events_end(sb->control->events);
	log_info("sandbox=%s pid=%d, which was replaced, ended after %lld ms: %s%s%s", sb->spec.id, h->pid, (long long)x.uptime_ms, x.reason,
		x.text[0] ? ": " : "", x.text);
	sb->before = NULL;
	host_abandon(h);
	if (txn_active(&sb->txn) && sb->txn.mode == TXN_REPLACE)
		sandbox_txn_event(sb, TXN_EV_UNLOADED, 0);
}

static void next_exited(struct sandbox *sb, const struct spawner_message *m)
{
	struct last_exit x = { 0 };
	struct host *h = sb->next;

	h->exited = h->draining = true;
	(void)host_link_drain(&h->link); /* what it said of its failure comes before */
	h->draining = false;
	if (sb->next != h) { /* and has ended all */
		host_abandon(h);
		return;
	}
	exit_describe(&x, h, m, LIFE_KILL_NONE);
	err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "the second process ended: %s%s%s", x.reason, x.text[0] ? ": " : "", x.text);
	sandbox_txn_event(sb, TXN_EV_CANDIDATE_DIED, 0);
}

void candidate_exited(struct sandbox *sb, const struct spawner_message *m)
{
	sandbox_hold(sb);
	if (sb->before && sb->before->link.generation == m->generation)
		before_exited(sb, m);
	else if (sb->next && sb->next->link.generation == m->generation)
		next_exited(sb, m);
	sandbox_release(sb);
}

void candidate_fini(struct sandbox *sb)
{
	if (sb->next)
		host_abandon(sb->next);
	if (sb->before)
		host_abandon(sb->before);
	sb->next = sb->before = NULL;
}
