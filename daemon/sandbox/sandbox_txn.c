/* SPDX-License-Identifier: MIT
 *
 * Carries out what daemon/reload/transaction.c decides. Some actions end at once (making a memfd, sealing it): the facts that they give
 * are queued and fed to the transaction when the actions at hand are done, so that one step never runs inside another. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/shared_text.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/log.h"

static void txn_timer_cb(uv_timer_t *timer)
{
	sandbox_txn_event(sandbox_of(timer->data), TXN_EV_TIMER, 0);
}

/* ---- the parts of a step ---- */

static void reload_placed(struct sandbox *sb, uint64_t serial, const struct err *e)
{
	char path[LIMIT_PATH_BYTES + 1];

	if (!txn_active(&sb->txn) || serial != sb->candidate_serial) {
		/* Given up meanwhile; one for a second process lies in either folder, or went with its own. */
		sandbox_path(sb, serial, path);
		(void)unlink(path);
		sandbox_next_path(sb, serial, path);
		(void)unlink(path);
		return;
	}
	if (e)
		*sandbox_error(sb, SANDBOX_ERROR_RELOAD) = *e;
	sandbox_txn_event(sb, e ? TXN_EV_PLACE_FAILED : TXN_EV_PLACED, 0);
}

static void queue_event(struct sandbox *sb, enum txn_event_type type)
{
	if (sb->n_txn_events < sizeof sb->txn_events / sizeof sb->txn_events[0])
		sb->txn_events[sb->n_txn_events++] = (struct txn_event){ .type = type };
}

static void do_place(struct sandbox *sb)
{
	if (FAULT(RELOAD_PLACE)) {
		err_sys(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_IO, "cannot place the candidate");
		queue_event(sb, TXN_EV_PLACE_FAILED);
		return;
	}
	sb->candidate_serial = ++sb->last_serial;
	sandbox_place(sb, sb->reload.code ? sb->reload.code->object : NULL, sb->candidate.sha256, sb->candidate_serial, true,
		sb->txn.mode == TXN_REPLACE, reload_placed);
}

/* REHEARSE and LOAD: where the candidate lies and how it is to be taken. */
static void send_candidate(struct sandbox *sb, enum host_message_type type, int state_fd)
{
	char name[LIMIT_ID_BYTES + 1];
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	if (!sb->host)
		return;
	sandbox_object_name(sb->candidate_serial, name);
	json_out_object(&o, NULL);
	json_out_text(&o, "path", name);
	(void)(type == HOST_REHEARSE ? FAULT(RELOAD_REHEARSE) : FAULT(RELOAD_LOAD));
	if (type == HOST_REHEARSE)
		json_out_u64(&o, "timeout_ms", sb->txn_policy.timeout_ms[TXN_REHEARSE]);
	json_out_bool(&o, "backwards", sb->reload.backwards);
	if (sb->reload.patch)
		json_out_raw(&o, "patch", sb->reload.patch, strlen(sb->reload.patch));
	json_out_object_end(&o);
	if (sb->reload.from_saved)
		state_fd = sb->reload.left.fd;
	(void)host_link_send(&sb->host->link, type, sb->candidate_serial, 0, b.data, b.size, state_fd);
	buf_fini(&b);
}

static void send_plain(struct sandbox *sb, enum host_message_type type)
{
	if (sb->host)
		(void)host_link_send(&sb->host->link, type, sb->candidate_serial, 0, NULL, 0, -1);
}

static void do_quiesce(struct sandbox *sb)
{
	struct spawner_message m;

	(void)FAULT(RELOAD_QUIESCE);
	send_plain(sb, HOST_QUIESCE);
	if (!sb->host || sb->txn.mode == TXN_CHECKPOINT) /* it waits for the call that runs: no reason to disturb that */
		return;
	spawner_message_init(&m, SPAWNER_SIGNAL, sb->spec.id);
	m.kind = SPAWNER_SIGNAL_ATTENTION;
	m.generation = sb->host->link.generation;
	spawner_send(sb->control->spawner, &m, NULL, 0);
}

static void do_make_state(struct sandbox *sb, uint64_t bytes)
{
	fd_close(&sb->state_fd);
	sb->disk.kept_is_row = false;
	sb->checkpoint.kept = (struct checkpoint_mark){ 0 };
	sb->state_fd = FAULT(RELOAD_MAKE) ? -1 : memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (sb->state_fd >= 0 && ftruncate(sb->state_fd, (off_t)bytes) == 0) {
		sb->state_bytes = bytes;
		queue_event(sb, TXN_EV_MADE);
		return;
	}
	err_sys(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "cannot make a memfd of %llu bytes for the state", (unsigned long long)bytes);
	queue_event(sb, TXN_EV_MAKE_FAILED);
}

static void do_seal(struct sandbox *sb, uint64_t bytes)
{
	if (!FAULT(RELOAD_SEAL) && ftruncate(sb->state_fd, (off_t)bytes) == 0 &&
		fcntl(sb->state_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0) {
		sb->state_bytes = bytes;
		checkpoint_sealed(sb);
		queue_event(sb, TXN_EV_SEALED);
		return;
	}
	err_sys(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "cannot seal the saved state of %llu bytes", (unsigned long long)bytes);
	queue_event(sb, TXN_EV_SEAL_FAILED);
}

/* A KEEP on its way: which transaction it belongs to, since its answer may come when that one is over. */
struct keeping {
	struct sandbox *sb;
	uint64_t serial;
	enum spawner_keep kind;
};

static void kept_reply(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct keeping *k = ctx;
	struct sandbox *sb = k->sb;
	bool state = k->kind != SPAWNER_KEEP_SPEC, ok = m->op == SPAWNER_OK;

	(void)fds;
	(void)n_fds;
	if (k->serial == sb->candidate_serial && txn_active(&sb->txn)) {
		if (!ok)
			err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "the spawner can't keep what must survive: %s", strerror(m->status));
		sandbox_txn_event(sb, state ? (ok ? TXN_EV_KEPT : TXN_EV_KEEP_FAILED) : (ok ? TXN_EV_RECORDED : TXN_EV_RECORD_FAILED), 0);
	}
	free(k);
	sandbox_release(sb);
}

static void keep(struct sandbox *sb, enum spawner_keep kind, int fd, enum txn_event_type failed)
{
	struct keeping *k = malloc(sizeof *k);
	struct spawner_message m;
	struct err e = ERR_INIT;

	if (!k)
		err_set(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_INTERNAL, "no memory for a request to the spawner");
	if (failed == TXN_EV_KEEP_FAILED ? FAULT(RELOAD_KEEP) : FAULT(RELOAD_RECORD)) {
		err_sys(sandbox_error(sb, SANDBOX_ERROR_RELOAD), ERR_RELOAD_FAILED, "cannot give the spawner what must survive");
	} else if (k && fd >= 0) {
		*k = (struct keeping){ sb, sb->candidate_serial, kind };
		spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
		m.kind = (uint16_t)kind;
		sandbox_hold(sb);
		if (spawner_request(sb->control->spawner, &m, &fd, 1, kept_reply, k, &e) != 0)
			return;
		*sandbox_error(sb, SANDBOX_ERROR_RELOAD) = e;
		sandbox_release(sb);
	}
	free(k);
	queue_event(sb, failed);
}

static void do_record(struct sandbox *sb)
{
	struct err e = ERR_INIT;
	int fd = spec_memfd(sb, SPEC_WITH_CANDIDATE, &e);

	if (fd < 0)
		*sandbox_error(sb, SANDBOX_ERROR_RELOAD) = e;
	keep(sb, SPAWNER_KEEP_SPEC, fd, TXN_EV_RECORD_FAILED);
	fd_close(&fd);
}

void sandbox_drop_state(struct sandbox *sb)
{
	struct spawner_message m;

	fd_close(&sb->state_fd);
	sb->disk.kept_there = false;
	sb->checkpoint.kept = (struct checkpoint_mark){ 0 };
	spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
	m.kind = SPAWNER_KEEP_STATE;
	spawner_send(sb->control->spawner, &m, NULL, 0);
}

static void do_adopt(struct sandbox *sb)
{
	uint32_t before = sb->versions.current;

	(void)FAULT(RELOAD_ADOPT);
	sandbox_account(sb);
	sandbox_left(sb, before);
	sb->serial = sb->candidate_serial;
	sb->reload.to_hint = sb->reload.patch ? before : versions_commit(&sb->versions, &sb->candidate, clock_wall_ms());
	sb->has_candidate = false;
	if (sb->reload.module) {
		(void)shared_text_free(sb->module);
		sb->module = sb->reload.module;
		sb->reload.module = NULL;
	}
	(void)snprintf(sb->state_from, sizeof sb->state_from, sb->reload.patch ? "set" : sb->reload.from_saved ? "saved" : "reload");
	sandbox_keep_spec(sb);
	if (sb->reload.patch)
		return; /* the same version with another state: what it has proven, or has to prove, stays */
	sandbox_probation_begin(sb, before, sb->spec.probation_ms,
		(sb->reload.backwards || sb->reload.is_rollback) && !sb->candidate.quarantined);
}

/* The part of an adoption that callers needn't wait for: the spec is with the spawner, so a successor would write the row, too; and the
 * storage thread would take a processor from those who do the rest. */
static void do_adopted(struct sandbox *sb)
{
	durable_write(sb);
	sandbox_placed_drop(sb);
	if (!sb->reload.patch)
		events_add(sb->control->events, "version.current", sb->spec.id, sb->spec.owner, "sha256", sb->candidate.sha256);
}

static void do_unplace(struct sandbox *sb)
{
	char path[LIMIT_PATH_BYTES + 1];

	sandbox_path(sb, sb->candidate_serial, path);
	(void)unlink(path);
}

static void do_hold(struct sandbox *sb)
{
	sb->calls_held = true;
	sb->reload.hold_us = clock_monotonic_us();
	sb->reload.idle_us = 0;
	sb->reload.calls_queued = sb->calls.waiting.n;
	sb->reload.calls_running = sb->calls.running.n;
	if (sb->txn.mode == TXN_CHECKPOINT)
		checkpoint_held(sb);
}

static void do_release(struct sandbox *sb)
{
	sb->calls_held = false;
	sb->reload.held_us = clock_monotonic_us() - sb->reload.hold_us;
	sb->reload.pause_us = sb->reload.idle_us ? clock_monotonic_us() - sb->reload.idle_us : 0;
	sandbox_pump(sb);
}

static void do_recover(struct sandbox *sb)
{
	sb->txn_recovered = true;
	sandbox_fact(sb, LIFE_RELOAD_DIED_SEALED, sb->last_exit.exit);
}

/* The life hears of the end: what became of the transaction if the process lives; that it has ended, if it has. */
static void do_finished(struct sandbox *sb, enum txn_mode mode, const struct txn_actions *a)
{
	bool died = !sb->host && !sb->txn_recovered; /* it had ended before this step, and the life doesn't know yet */

	if (mode == TXN_CHECKPOINT)
		checkpoint_done(sb, a);
	if (mode == TXN_SAVE_ONLY && !a->ok) {
		*sandbox_error(sb, SANDBOX_ERROR_START) = *sandbox_error_told(sb, SANDBOX_ERROR_RELOAD);
		if (sandbox_error_told(sb, SANDBOX_ERROR_RELOAD)->code == ERR_OK)
			err_set(sandbox_error(sb, SANDBOX_ERROR_START), ERR_RELOAD_FAILED, "%s: %s", txn_step_text(a->failed_step),
				a->failure == TXN_FAILURE_HOST_DIED ? sb->last_exit.reason : txn_failure_text(a->failure));
	}
	if (mode == TXN_SAVE_ONLY && a->ok) {
		(void)FAULT(STATE_KEPT);
		durable_state_saved(sb);
	}
	if (mode == TXN_SAVE_ONLY && (a->ok || !died))
		sandbox_fact(sb, a->ok ? LIFE_SAVE_DONE : LIFE_SAVE_FAILED, LIFE_EXIT_NORMAL);
	else if (mode != TXN_SAVE_ONLY && mode != TXN_CHECKPOINT && !died && !sb->txn_recovered)
		sandbox_fact(sb, LIFE_RELOAD_END, LIFE_EXIT_NORMAL);
	if (died && !sandbox_probation_exited(sb))
		sandbox_fact(sb, LIFE_EXITED, sb->last_exit.exit);
}

static void txn_apply(struct sandbox *sb, const struct txn_actions *a)
{
	enum txn_mode mode = sb->txn.mode;

	if (a->set & TXN_DO_CLEAR_TIMER)
		uv_timer_stop(&sb->txn_timer);
	if (a->set & TXN_DO_SPAWN)
		candidate_spawn(sb);
	if (a->set & TXN_DO_SEND_STAGE)
		candidate_stage(sb);
	if (a->set & TXN_DO_PROMOTE)
		candidate_promote(sb);
	if (a->set & TXN_DO_PLACE)
		do_place(sb);
	if (a->set & TXN_DO_SEND_REHEARSE)
		send_candidate(sb, HOST_REHEARSE, -1);
	if (a->set & TXN_DO_RECORD)
		do_record(sb);
	if (a->set & TXN_DO_MAKE_STATE)
		do_make_state(sb, a->state_bytes);
	if ((a->set & TXN_DO_SEND_PREPARE) && sb->host)
		(void)host_link_send(&sb->host->link, HOST_PREPARE, sb->candidate_serial, (int64_t)a->state_bytes, NULL, 0, sb->state_fd);
	if (a->set & TXN_DO_HOLD_CALLS)
		do_hold(sb);
	if (a->set & TXN_DO_SEND_QUIESCE)
		do_quiesce(sb);
	if ((a->set & TXN_DO_SEND_SAVE) && sb->host && !FAULT(RELOAD_SAVE))
		(void)host_link_send(&sb->host->link, HOST_SAVE, sb->candidate_serial, (int64_t)sb->state_bytes, NULL, 0, sb->state_fd);
	if (a->set & TXN_DO_SEAL)
		do_seal(sb, a->state_bytes);
	if ((a->set & TXN_DO_KEEP_STATE) && mode == TXN_CHECKPOINT && sb->spec.checkpoint_call)
		queue_event(sb, TXN_EV_KEPT); /* what is kept there is newer at any time */
	else if (a->set & TXN_DO_KEEP_STATE)
		keep(sb, mode == TXN_CHECKPOINT ? SPAWNER_KEEP_CHECKPOINT : SPAWNER_KEEP_STATE, sb->state_fd, TXN_EV_KEEP_FAILED);
	if ((a->set & TXN_DO_SEND_LOAD) && mode == TXN_REPLACE)
		candidate_load(sb);
	else if (a->set & TXN_DO_SEND_LOAD)
		send_candidate(sb, HOST_LOAD, sb->state_fd);
	if ((a->set & TXN_DO_SEND_COMMIT) && !FAULT(RELOAD_COMMIT))
		send_plain(sb, HOST_COMMIT);
	if (a->set & TXN_DO_SEND_ABORT)
		send_plain(sb, HOST_ABORT);
	if (a->set & TXN_DO_KILL_HOST)
		sandbox_kill_host(sb, "the candidate hung while it was loaded");
	if (a->set & TXN_DO_DISCARD)
		candidate_discard(sb);
	if (a->set & TXN_DO_RETIRE)
		candidate_retire(sb);
	if (a->set & TXN_DO_ADOPT)
		do_adopt(sb);
	if (a->set & TXN_DO_UNRECORD)
		sandbox_keep_spec(sb);
	if ((a->set & TXN_DO_DROP_STATE) && !((a->set & TXN_DO_ADOPT) && checkpoint_of_reload(sb)))
		sandbox_drop_state(sb);
	if (a->set & TXN_DO_UNPLACE)
		do_unplace(sb);
	if (a->set & TXN_DO_RELEASE_CALLS)
		do_release(sb);
	if (a->set & TXN_DO_ADOPT)
		do_adopted(sb);
	if ((a->set & TXN_DO_ADOPT) && txn_active(&sb->txn) && sb->life.state == LIFE_STOPPING)
		queue_event(sb, TXN_EV_CANCEL); /* it came too late to undo anything, but not to wait for no unload: the save has its own time */
	if (a->set & TXN_DO_RECOVER)
		do_recover(sb);
	if (a->set & TXN_DO_SET_TIMER)
		uv_timer_start(&sb->txn_timer, txn_timer_cb, a->timer_ms, 0);
	if (a->set & TXN_DO_KILL_OLD)
		candidate_kill_old(sb);
	if ((a->set & TXN_DO_ANSWER) && mode != TXN_SAVE_ONLY && mode != TXN_CHECKPOINT)
		reload_answer(sb, a);
	if (a->set & TXN_DO_FINISHED)
		do_finished(sb, mode, a);
}

/* ---- the drive ---- */

/* How long each step took, and an event for each; the step that has just ended is `before`. */
static void note_step(struct sandbox *sb, enum txn_step before)
{
	int64_t now = clock_monotonic_us();

	if (sb->txn.step == before)
		return;
	sb->reload.took_us[before] += now - sb->reload.step_us;
	if (sb->txn.mode != TXN_SAVE_ONLY && sb->txn.mode != TXN_CHECKPOINT && before != TXN_IDLE) {
		struct json_out *o = events_begin(sb->control->events, "reload.step", sb->spec.id, sb->spec.owner);

		json_out_text(o, "step", txn_step_text(before));
		json_out_i64(o, "us", now - sb->reload.step_us);
		json_out_text(o, "next", txn_step_text(sb->txn.step));
		events_end(sb->control->events);
	}
	sb->reload.step_us = now;
}

static void txn_run(struct sandbox *sb)
{
	sb->txn_stepping = true;
	while (sb->n_txn_events > 0) {
		struct txn_event ev = sb->txn_events[0];
		enum txn_step before = sb->txn.step;
		struct txn_actions a;

		memmove(&sb->txn_events[0], &sb->txn_events[1], --sb->n_txn_events * sizeof sb->txn_events[0]);
		if (ev.type == TXN_EV_QUIESCED)
			sb->reload.idle_us = clock_monotonic_us();
		if (ev.type == TXN_EV_REHEARSED || ev.type == TXN_EV_SAVED)
			sb->reload.state_bytes = ev.bytes;
		if (ev.type == TXN_EV_REHEARSED && before == TXN_REHEARSE)
			ev.replace = rung_needs_room(sb, ev.bytes);
		if (!txn_step(&sb->txn, &sb->txn_policy, &ev, &a)) {
			log_debug("sandbox=%s %s is ignored in step %s", sb->spec.id, txn_event_text(ev.type), txn_step_text(before));
			continue;
		}
		note_step(sb, before);
		txn_apply(sb, &a);
	}
	sb->txn_stepping = false;
}

void sandbox_txn_event(struct sandbox *sb, enum txn_event_type type, uint64_t bytes)
{
	queue_event(sb, type);
	if (sb->n_txn_events > 0)
		sb->txn_events[sb->n_txn_events - 1].bytes = bytes;
	if (!sb->txn_stepping)
		txn_run(sb);
}

void sandbox_txn_begin(struct sandbox *sb, enum txn_mode mode)
{
	struct txn_actions a;
	bool stepping = sb->txn_stepping;

	sb->txn_recovered = false;
	sb->reload.step_us = clock_monotonic_us();
	if (mode == TXN_SAVE_ONLY || mode == TXN_CHECKPOINT) {
		sb->txn_policy = txn_policy_default();
		if (mode == TXN_CHECKPOINT && sb->checkpoint.quiesce_ms > 0)
			sb->txn_policy.timeout_ms[TXN_QUIESCE] = sb->checkpoint.quiesce_ms;
		sandbox_error_none(sb, SANDBOX_ERROR_RELOAD);
		sb->candidate_serial = ++sb->last_serial; /* no candidate: the number that the host's answers carry */
	}
	txn_begin(&sb->txn, mode, &sb->txn_policy, sb->state_bytes, &a);
	note_step(sb, TXN_IDLE);
	sb->txn_stepping = true;
	txn_apply(sb, &a);
	sb->txn_stepping = stepping;
	if (!stepping)
		txn_run(sb);
}

void reload_fini(struct reload *rl)
{
	if (rl->code)
		code_fini(rl->code);
	free(rl->code);
	free(rl->report);
	(void)shared_text_free(rl->module);
	(void)shared_text_free(rl->security);
	free(rl->pinned);
	free(rl->patch);
	if (rl->from_saved)
		fd_close(&rl->left.fd);
	*rl = (struct reload){ 0 };
}
