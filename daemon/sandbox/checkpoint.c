/* SPDX-License-Identifier: MIT
 *
 * A checkpoint is a transaction of the reload's kind with nothing to load. It gives way to whatever is asked of the sandbox meanwhile, and
 * the timer's isn't begun while anything else is at work, or the disk hasn't taken the one before. */
#include "daemon/sandbox/checkpoint.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/store/states.h"
#include "daemon/store/storage.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"
#include "proto/mirror.h"

static void timer_cb(uv_timer_t *timer);

void checkpoint_init(struct sandbox *sb)
{
	sb->checkpoint.fd = sb->checkpoint.mirror_fd = sb->checkpoint.next_mirror_fd = -1;
	uv_timer_init(sb->control->loop, &sb->checkpoint.timer);
	sb->checkpoint.timer.data = sb;
}

void checkpoint_fini(struct sandbox *sb)
{
	fd_close(&sb->checkpoint.fd);
	fd_close(&sb->checkpoint.mirror_fd);
	fd_close(&sb->checkpoint.next_mirror_fd);
}

/* fd -1: drop it. */
static void keep(struct sandbox *sb, enum spawner_keep kind, int fd)
{
	struct spawner_message m;

	spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
	m.kind = (uint16_t)kind;
	spawner_send(sb->control->spawner, &m, &fd, fd >= 0);
}

/* ---- what the life orders ---- */

/* What the process began with. First it is kept in the one place, then no longer in the other. */
void checkpoint_set(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;

	if (sb->state_fd < 0)
		return; /* it could not be read, and the process began anew */
	fd_close(&k->fd);
	k->fd = fd_take(&sb->state_fd);
	k->mark = k->kept;
	k->mark.is_row = sb->disk.kept_is_row;
	k->mark.bytes = sb->state_bytes;
	k->mark.calls_done = sb->calls.done;
	k->mark.counts = true;
	keep(sb, SPAWNER_KEEP_CHECKPOINT, k->fd);
	keep(sb, SPAWNER_KEEP_STATE, -1);
}

/* The process has ended: what it had saved last is the checkpoint, and nothing was acknowledged since. Each process has a mirror of its own, so
 * nothing that it left behind writes into its successor's. */
static void mirror_read(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;
	struct err e = ERR_INIT;

	k->mark = (struct checkpoint_mark){ .at_ms = clock_wall_ms(), .calls_done = sb->calls.done, .counts = true };
	fd_close(&k->fd);
	k->fd = mirror_newest(k->mirror_fd, &k->mark.bytes, &k->mark.number, &e);
	fd_close(&k->mirror_fd);
	if (k->fd >= 0)
		return;
	keep(sb, SPAWNER_KEEP_CHECKPOINT, -1);
	events_add(sb->control->events, "sandbox.state_lost", sb->spec.id, sb->spec.owner, "why", e.text);
	log_error("sandbox=%s begins anew: %s", sb->spec.id, e.text);
}

static int mirror_give(struct host *h, int *ret_fd, struct err *e)
{
	fd_close(ret_fd);
	*ret_fd = mirror_make(e);
	if (*ret_fd < 0)
		return -1;
	(void)host_link_send(&h->link, HOST_MIRROR, 0, 0, NULL, 0, *ret_fd);
	return 0;
}

int checkpoint_mirror(struct sandbox *sb, struct err *e)
{
	struct checkpoint *k = &sb->checkpoint;

	if (!sb->spec.checkpoint_call)
		return 0;
	if (mirror_give(sb->host, &k->mirror_fd, e) < 0)
		return -1;
	keep(sb, SPAWNER_KEEP_MIRROR, k->mirror_fd);
	return 0;
}

int checkpoint_mirror_next(struct sandbox *sb, struct err *e)
{
	return sb->spec.checkpoint_call ? mirror_give(sb->next, &sb->checkpoint.next_mirror_fd, e) : 0;
}

void checkpoint_promoted(struct sandbox *sb)
{
	if (sb->checkpoint.next_mirror_fd < 0)
		return;
	fd_close(&sb->checkpoint.mirror_fd);
	sb->checkpoint.mirror_fd = fd_take(&sb->checkpoint.next_mirror_fd);
}

void checkpoint_next_drop(struct sandbox *sb)
{
	fd_close(&sb->checkpoint.next_mirror_fd);
}

void checkpoint_found(struct sandbox *sb, int *fd)
{
	struct checkpoint *k = &sb->checkpoint;

	if (sb->spec.checkpoint_call) {
		k->mirror_fd = fd_take(fd);
		return;
	}
	k->fd = fd_take(fd);
	if (k->fd >= 0)
		k->mark.bytes = (uint64_t)lseek(k->fd, 0, SEEK_END);
}

/* A mirror in which nothing was saved yet is none. */
bool checkpoint_is_there(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;
	uint64_t bytes, sequence;
	struct err e = ERR_INIT;
	autoclose int fd = -1;

	if (k->mirror_fd < 0 || sb->host)
		return k->mirror_fd >= 0 || k->fd >= 0;
	fd = mirror_newest(k->mirror_fd, &bytes, &sequence, &e);
	if (fd < 0)
		checkpoint_drop(sb);
	return fd >= 0;
}

void checkpoint_take(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;

	if (k->mirror_fd >= 0)
		mirror_read(sb);
	if (k->fd < 0)
		return;
	fd_close(&sb->state_fd);
	sb->state_fd = fd_take(&k->fd);
	sb->state_bytes = k->mark.bytes;
	k->kept = k->mark;
	sb->disk.kept_is_row = k->mark.is_row;
	sb->disk.kept_there = false;
	keep(sb, SPAWNER_KEEP_STATE, sb->state_fd);
	keep(sb, SPAWNER_KEEP_CHECKPOINT, -1);
	if (sb->life.state == LIFE_STOPPED && !k->mark.is_row)
		durable_state_saved(sb); /* what its stop could not save */
}

void checkpoint_drop(struct sandbox *sb)
{
	checkpoint_fini(sb);
	keep(sb, SPAWNER_KEEP_CHECKPOINT, -1);
}

/* ---- when ---- */

static bool may_begin(const struct sandbox *sb)
{
	return sb->life.state == LIFE_RUNNING && sb->host && sb->host->ready && !sb->host->found && !sb->host->killed && !sb->host->kill_text[0] &&
		!txn_active(&sb->txn) && !sb->reload.active && !sb->forgetting && !sb->gone;
}

static void begin(struct sandbox *sb, struct rpc_request *r)
{
	sb->checkpoint.request = r;
	sb->checkpoint.put_off = false;
	sandbox_txn_begin(sb, TXN_CHECKPOINT);
}

void checkpoint_update(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;
	int64_t left_ms = k->due_ms - clock_monotonic_ms();

	if (sb->spec.checkpoint_every_ms == 0 || sb->gone || sb->life.state != LIFE_RUNNING || !(k->touched || k->timers) || txn_active(&sb->txn) ||
		uv_is_active((uv_handle_t *)&k->timer))
		return;
	uv_timer_start(&k->timer, timer_cb, left_ms > 1 ? (uint64_t)left_ms : 1, 0);
}

static void again_later(struct sandbox *sb)
{
	sb->checkpoint.due_ms = clock_monotonic_ms() + sb->spec.checkpoint_every_ms;
}

static void timer_cb(uv_timer_t *timer)
{
	struct sandbox *sb = sandbox_of(timer->data);

	again_later(sb);
	sb->checkpoint.put_off = sb->calls.running.n > 0; /* else all that comes meanwhile would be held for as long as that call runs */
	if (!sb->checkpoint.put_off && may_begin(sb) && sb->disk.pending == 0)
		begin(sb, NULL);
	else
		checkpoint_update(sb);
}

/* Also if there are more: where there always are, none would ever be made. */
void checkpoint_replied(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;

	if (!k->put_off || !(k->touched || k->timers) || !may_begin(sb) || sb->disk.pending > 0)
		return;
	begin(sb, NULL);
}

void checkpoint_touched(struct sandbox *sb)
{
	bool before = sb->checkpoint.touched;

	sb->checkpoint.touched = true;
	if (!before)
		checkpoint_update(sb);
}

void checkpoint_ready(struct sandbox *sb)
{
	struct checkpoint *k = &sb->checkpoint;

	k->ready_done = sb->calls.done;
	k->ready_counts = true;
	k->touched = true; /* by `init`; and timers may be armed */
	k->timers = k->put_off = false;
	again_later(sb);
}

void checkpoint_cancel(struct sandbox *sb)
{
	if (txn_active(&sb->txn) && sb->txn.mode == TXN_CHECKPOINT)
		sandbox_txn_event(sb, TXN_EV_CANCEL, 0);
}

/* ---- the transaction ---- */

/* What was sent before is done before the save; nothing is sent until it is over. */
void checkpoint_held(struct sandbox *sb)
{
	sb->checkpoint.touched = false;
}

void checkpoint_sealed(struct sandbox *sb)
{
	sb->checkpoint.made = (struct checkpoint_mark){ .number = sb->checkpoint.newest + 1, .at_ms = clock_wall_ms(), .bytes = sb->state_bytes,
		.calls_done = sb->calls.done, .counts = true };
}

static void newest_is(struct sandbox *sb, int fd, const struct checkpoint_mark *mark)
{
	struct checkpoint *k = &sb->checkpoint;

	k->newest = mark->number;
	k->newest_at_ms = mark->at_ms;
	k->newest_bytes = mark->bytes;
	if (sb->spec.checkpoint_call) { /* what is in the mirror is newer: this one is for the disk alone */
		fd_close(&fd);
	} else {
		fd_close(&k->fd);
		k->fd = fd;
		k->mark = *mark;
		sandbox_fact(sb, LIFE_CHECKPOINTED, LIFE_EXIT_NORMAL);
	}
	sandbox_keep_spec(sb);
}

bool checkpoint_of_reload(struct sandbox *sb)
{
	bool saved = sb->reload.from_saved;
	int fd;

	checkpoint_touched(sb);
	if (!sb->spec.policy.from_checkpoint || sb->spec.checkpoint_call || (saved ? sb->reload.left.fd : sb->state_fd) < 0)
		return false;
	fd = saved ? fd_take(&sb->reload.left.fd) : fd_take(&sb->state_fd); /* saved: that is the state from now on, and the present one is given up */
	checkpoint_sealed(sb);
	if (saved)
		sb->checkpoint.made.bytes = sb->reload.left.bytes;
	keep(sb, SPAWNER_KEEP_CHECKPOINT, fd);
	keep(sb, SPAWNER_KEEP_STATE, -1);
	fd_close(&sb->state_fd);
	newest_is(sb, fd, &sb->checkpoint.made);
	return true;
}

/* ---- the answer: its hash is made by the storage thread ---- */

struct answer_job {
	struct storage_job job;
	struct sandbox *sandbox;
	struct rpc_request *request;
	int fd;
	struct checkpoint_mark mark;
	int64_t pause_us, held_us;
	uint32_t version;
	char sha256[SHA256_HEX_BYTES + 1];
};

static void answer_work(struct storage_job *job)
{
	struct answer_job *a = (struct answer_job *)job;

	job->status = states_hash(a->fd, a->mark.bytes, a->sha256, &job->err);
}

static void answer_give(struct sandbox *sb, const struct answer_job *a)
{
	struct json_out *ev = events_begin(sb->control->events, "state.checkpoint", sb->spec.id, sb->spec.owner);
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct json_out *const to[] = { &o, ev };

	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	for (size_t i = 0; i < 2; i++) {
		json_out_u64(to[i], "version", a->version);
		json_out_u64(to[i], "checkpoint", a->mark.number);
		json_out_i64(to[i], "saved_at", a->mark.at_ms);
		json_out_u64(to[i], "state_bytes", a->mark.bytes);
		json_out_text(to[i], "sha256", a->sha256);
		json_out_i64(to[i], "pause_us", a->pause_us);
		json_out_i64(to[i], "held_us", a->held_us);
		json_out_u64(to[i], "acknowledged", a->mark.calls_done);
	}
	json_out_object_end(&o);
	events_end(sb->control->events);
	durable_answer_raw(sb, a->request, buf_text(&b), b.size);
	buf_fini(&b);
}

static void answer_done(struct storage_job *job)
{
	struct answer_job *a = (struct answer_job *)job;
	struct sandbox *sb = a->sandbox;

	if (job->status == 0)
		answer_give(sb, a);
	else
		(void)rpc_error(a->request, &job->err, NULL);
	fd_close(&a->fd);
	free(a);
	sandbox_release(sb);
}

static void answer_begin(struct sandbox *sb, struct rpc_request *r, int fd)
{
	struct answer_job *a = calloc(1, sizeof *a);
	struct err e = ERR_INIT;

	if (!a || (a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0) {
		err_set(&e, ERR_INTERNAL, "checkpoint %llu of sandbox %s is made, but there is no memory or descriptor for the answer",
			(unsigned long long)sb->checkpoint.newest, sb->spec.id);
		free(a);
		(void)rpc_error(r, &e, NULL);
		return;
	}
	a->job = (struct storage_job){ .work = answer_work, .done = answer_done, .err = ERR_INIT };
	a->sandbox = sb;
	a->request = r;
	a->mark = sb->checkpoint.made;
	a->pause_us = sb->reload.pause_us;
	a->held_us = sb->reload.held_us;
	a->version = sb->versions.current;
	sandbox_hold(sb);
	storage_submit(sb->control->storage, &a->job);
}

static void failure_text(const struct sandbox *sb, const struct txn_actions *a, struct err *e)
{
	const char *id = sb->spec.id, *step = txn_step_text(a->failed_step);

	switch (a->failure) {
	case TXN_FAILURE_SAID:
		*e = *sandbox_error_told(sb, SANDBOX_ERROR_RELOAD);
		if (e->code == ERR_OK)
			err_set(e, ERR_RELOAD_FAILED, "no reason was given");
		err_prefix(e, "the state of sandbox %s could not be saved: %s", id, step);
		return;
	case TXN_FAILURE_TIMEOUT:
		if (a->failed_step == TXN_QUIESCE)
			err_set(e, ERR_BUSY, "no checkpoint of sandbox %s was made: a running call did not end within %u ms", id,
				sb->txn_policy.timeout_ms[TXN_QUIESCE]);
		else
			err_set(e, ERR_RELOAD_FAILED, "no checkpoint of sandbox %s was made: %s did not end within %u ms", id, step,
				sb->txn_policy.timeout_ms[a->failed_step]);
		return;
	case TXN_FAILURE_CANCELLED:
		err_set(e, ERR_WRONG_STATE, "no checkpoint of sandbox %s was made: a later request took its place", id);
		return;
	case TXN_FAILURE_HOST_DIED:
		err_set(e, ERR_CRASHED, "no checkpoint of sandbox %s was made: its process ended: %s", id, sb->last_exit.reason);
		return;
	case TXN_FAILURE_NONE:
	case TXN_FAILURE_STATE_SIZE:
	case TXN_FAILURE_STATE_GROWS:
	case TXN_FAILURE_CANDIDATE_DIED:
	case TXN_FAILURE__N:
		break;
	}
	err_set(e, ERR_RELOAD_FAILED, "no checkpoint of sandbox %s was made: %s: %s", id, step, txn_failure_text(a->failure));
}

/* By the timer nobody is told but by events, once; what only had to give way is no failure. */
static void timer_failed(struct sandbox *sb, const struct txn_actions *a, const struct err *e)
{
	if (sb->checkpoint.failing || a->failure == TXN_FAILURE_CANCELLED || a->failure == TXN_FAILURE_HOST_DIED)
		return;
	sb->checkpoint.failing = true;
	events_add(sb->control->events, "state.checkpoint_failed", sb->spec.id, sb->spec.owner, "why", e->text);
	log_warning("sandbox=%s %s", sb->spec.id, e->text);
}

void checkpoint_done(struct sandbox *sb, const struct txn_actions *a)
{
	struct checkpoint *k = &sb->checkpoint;
	struct rpc_request *r = k->request;
	struct err e = ERR_INIT;
	int fd;

	k->request = NULL;
	k->quiesce_ms = 0;
	again_later(sb);
	if (!a->ok) {
		k->touched = true;
		failure_text(sb, a, &e);
		if (r)
			(void)rpc_error(r, &e, NULL);
		else
			timer_failed(sb, a, &e);
		checkpoint_update(sb);
		return;
	}
	k->failing = false;
	durable_state_saved(sb);
	k->made.is_row = sb->spec.persist;
	fd = fd_take(&sb->state_fd);
	if (r)
		answer_begin(sb, r, fd);
	newest_is(sb, fd, &k->made);
	checkpoint_update(sb);
}

const struct rpc_done *sandbox_checkpoint(struct sandbox *sb, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	const struct rpc_done *taken;

	if (sb->reload.active || sb->checkpoint.request)
		err_set(&e, ERR_BUSY, "a %s of sandbox %s is at work already", sb->reload.active ? "reload" : "checkpoint", sb->spec.id);
	else if (sb->life.state != LIFE_RUNNING || !sb->host || !sb->host->ready || sb->host->found)
		err_set(&e, ERR_WRONG_STATE, "sandbox %s is %s, and only a running one can save its state", sb->spec.id, sandbox_status_text(sb));
	if (e.code != ERR_OK)
		return rpc_error(r, &e, NULL);
	checkpoint_cancel(sb); /* the timer's: what was acknowledged since it was saved belongs to this one */
	if (!may_begin(sb)) {
		err_set(&e, ERR_BUSY, "sandbox %s is being killed, or something else is at work in it", sb->spec.id);
		return rpc_error(r, &e, NULL);
	}
	sb->checkpoint.quiesce_ms = (uint32_t)rpc_integer(r, "quiesce_timeout_ms", DEFAULT_QUIESCE_TIMEOUT_MS);
	taken = rpc_pending(r);
	begin(sb, r);
	return taken;
}

/* ---- for people, and a new control ---- */

const char *checkpoint_from_text(const struct sandbox *sb, int from)
{
	switch ((enum life_from)from) {
	case LIFE_FROM_FRESH:
		return "fresh";
	case LIFE_FROM_KEPT:
		return sb->checkpoint.kept.number > 0 ? "checkpoint" : "kept";
	case LIFE_FROM_SEALED:
		return "sealed";
	}
	return "fresh";
}

void checkpoint_begins(struct sandbox *sb, int from)
{
	const struct checkpoint *k = &sb->checkpoint;
	struct begun_from *b = &sb->last_exit.next;

	*b = (struct begun_from){ .number = from == LIFE_FROM_KEPT ? k->kept.number : 0, .counts = true };
	(void)snprintf(b->state_from, sizeof b->state_from, "%s", checkpoint_from_text(sb, from));
	if (from == LIFE_FROM_SEALED)
		return; /* nothing was acknowledged since */
	b->counts = from == LIFE_FROM_KEPT ? k->kept.counts : k->ready_counts;
	b->since = sb->calls.done - (from == LIFE_FROM_KEPT ? k->kept.calls_done : k->ready_done);
}

bool checkpoint_next(const struct sandbox *sb, struct begun_from *ret)
{
	const struct checkpoint *k = &sb->checkpoint;
	struct err e = ERR_INIT;
	uint64_t bytes;
	autoclose int fd = -1;

	*ret = (struct begun_from){ .number = k->mark.number, .since = sb->calls.done - k->mark.calls_done, .counts = k->mark.counts };
	if (!sb->life.checkpoint || !sb->spec.policy.from_checkpoint)
		return false;
	if (k->mirror_fd >= 0) {
		fd = mirror_newest(k->mirror_fd, &bytes, &ret->number, &e);
		if (fd < 0)
			return false;
		ret->since = 0;
		ret->counts = true;
	}
	(void)snprintf(ret->state_from, sizeof ret->state_from, "%s", ret->number > 0 ? "checkpoint" : "kept");
	return true;
}

void begun_from_json(const struct begun_from *b, struct json_out *o)
{
	json_out_text(o, "state_from", b->state_from[0] ? b->state_from : NULL);
	if (b->number > 0)
		json_out_u64(o, "checkpoint", b->number);
	else
		json_out_null(o, "checkpoint");
	if (b->state_from[0] && b->counts)
		json_out_u64(o, "acknowledged_since", b->since);
	else
		json_out_null(o, "acknowledged_since");
}

void begun_from_load(struct begun_from *b, struct json_span saved)
{
	*b = (struct begun_from){ 0 };
	if (json_string(json_get(saved, "state_from"), b->state_from, sizeof b->state_from) < 0)
		b->state_from[0] = '\0';
	if (!json_u64(json_get(saved, "checkpoint"), &b->number))
		b->number = 0;
	b->counts = json_u64(json_get(saved, "acknowledged_since"), &b->since);
}

void checkpoint_json(const struct sandbox *sb, struct json_out *o, const char *key)
{
	const struct checkpoint *k = &sb->checkpoint;

	json_out_object(o, key);
	json_out_bool(o, "call", sb->spec.checkpoint_call);
	if (sb->spec.checkpoint_every_ms > 0)
		json_out_u64(o, "every_ms", sb->spec.checkpoint_every_ms);
	else
		json_out_null(o, "every_ms");
	if (k->newest > 0) {
		json_out_u64(o, "number", k->newest);
		json_out_i64(o, "saved_at", k->newest_at_ms);
		json_out_u64(o, "state_bytes", k->newest_bytes);
	} else {
		json_out_null(o, "number");
		json_out_null(o, "saved_at");
		json_out_null(o, "state_bytes");
	}
	json_out_bool(o, "failing", k->failing);
	json_out_object_end(o);
}

static void mark_save(const struct checkpoint_mark *m, struct json_out *o, const char *key)
{
	json_out_object(o, key);
	json_out_u64(o, "number", m->number);
	json_out_i64(o, "at", m->at_ms);
	json_out_bool(o, "is_row", m->is_row);
	json_out_object_end(o);
}

/* How much was acknowledged since isn't known to the next control: it counts anew. */
static void mark_load(struct checkpoint_mark *m, struct json_span saved)
{
	*m = (struct checkpoint_mark){ 0 };
	if (json_type(saved) != '{' || !json_u64(json_get(saved, "number"), &m->number) || !json_i64(json_get(saved, "at"), &m->at_ms) ||
		!json_bool(json_get(saved, "is_row"), &m->is_row))
		*m = (struct checkpoint_mark){ 0 };
}

void checkpoint_save(const struct sandbox *sb, struct json_out *o)
{
	const struct checkpoint *k = &sb->checkpoint;

	if (k->newest == 0 && k->fd < 0)
		return;
	json_out_object(o, "checkpoints");
	json_out_u64(o, "newest", k->newest);
	json_out_i64(o, "at", k->newest_at_ms);
	json_out_u64(o, "bytes", k->newest_bytes);
	mark_save(&k->mark, o, "mark");
	mark_save(&k->kept, o, "kept");
	json_out_object_end(o);
}

void checkpoint_load(struct sandbox *sb, struct json_span top)
{
	struct json_span saved = json_get(top, "checkpoints");
	struct checkpoint *k = &sb->checkpoint;

	if (json_type(saved) != '{' || !json_u64(json_get(saved, "newest"), &k->newest) || !json_i64(json_get(saved, "at"), &k->newest_at_ms) ||
		!json_u64(json_get(saved, "bytes"), &k->newest_bytes)) {
		k->newest = k->newest_bytes = 0;
		k->newest_at_ms = 0;
		return;
	}
	mark_load(&k->mark, json_get(saved, "mark"));
	mark_load(&k->kept, json_get(saved, "kept"));
	k->touched = true;
}
