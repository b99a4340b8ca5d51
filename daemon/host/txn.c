/* SPDX-License-Identifier: MIT
 *
 * The host's half of a reload. What order is allowed is serve.c's table; what is undone when a step fails is
 * here: until COMMIT the old code and its state are untouched, and a failed LOAD leaves nothing of the
 * candidate (but what is pinned). */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/host/attention.h"
#include "daemon/host/death.h"
#include "daemon/host/lines.h"
#include "daemon/host/mirror.h"
#include "daemon/host/order.h"
#include "daemon/host/rehearse.h"
#include "daemon/host/serve.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/sandbox_module.h"
#include "proto/seldom.h"

static void post_error(
	struct host *h, enum host_message_type answer, uint64_t number, const struct err *e, const char *step)
{
	struct buf body = BUF_INIT;

	host_error_body(&body, e, step);
	host_post(h, answer, number, 1, 0, &body);
	buf_fini(&body);
}

static void parse(
	struct order *order, enum order_kind kind, const struct host_message *head, const char *body)
{
	struct err e = ERR_INIT;

	if (head->number == 0)
		death_end(HOST_EXIT_CONTRACT, "a candidate without a serial");
	if (order_parse(order, kind, body, head->body_bytes, &e) < 0)
		death_end(HOST_EXIT_CONTRACT, e.text);
}

void txn_rehearse(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct rehearse r = { .host = h, .serial = head->number, .state_fd = state_fd };
	struct err e = ERR_INIT;
	struct order order;

	parse(&order, ORDER_REHEARSE, head, body);
	r.path = order.path;
	r.backwards = order.backwards;
	r.patch = order.patch;
	(void)FAULT(HOST_REHEARSE);
	if (copy_running(&h->rehearsal))
		err_set(&e, ERR_BUSY, "another rehearsal is running");
	else if (copy_start(&h->rehearsal, order.timeout_ms, rehearse_run, &r, state_fd, &e) == 0)
		h->rehearsal_serial = head->number;
	if (e.code != ERR_OK)
		post_error(h, HOST_REHEARSED, head->number, &e, "copy");
}

void txn_quiesce(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	(void)body, (void)state_fd;
	if (head->number == 0)
		death_end(HOST_EXIT_CONTRACT, "QUIESCE without a serial");
	(void)FAULT(HOST_QUIESCE);
	attention_clear(); /* nothing runs any more: the signal has done its work */
	h->prepare.running = false; /* what isn't ready now comes page by page */
	h->candidate_serial = head->number;
	h->phase = HOST_PHASE_QUIESCED;
	host_post(h, HOST_QUIESCED, head->number, 0, 0, NULL);
}

void txn_prepare(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	(void)body;
	if (head->number == 0 || head->value[0] < 0)
		death_end(HOST_EXIT_CONTRACT, "PREPARE without a serial or for less than nothing");
	prepare_own_memory();
	prepare_begin(&h->prepare, head->number, state_fd, (uint64_t)head->value[0],
		h->now.instance ? instance_extent_bytes(h->now.instance) : 0);
}

/* It is also told whether the state will change by itself. */
static void post_saved(struct host *h, uint32_t status, int64_t value, const struct buf *body)
{
	struct host_message head = { .type = HOST_SAVED, .number = h->saving_serial, .status = status,
		.value = { value, h->now.instance && instance_timer_due_us(h->now.instance) != INT64_MAX } };
	struct err e = ERR_INIT;

	if (body->failed)
		death_end(HOST_EXIT_RESOURCE, "no memory for a message to control");
	if (host_post_raw(h, &head, body->data, body->size, &e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);
}

/* Declared state is read by our own code, which believes nothing that stands there; behind the guard, since a module may have
 * taken even the pages away. So that costs no copy. Another thread could change it while it is read. */
static bool save_quickly(struct host *h, struct save *s)
{
	struct copy_answer answer = { .body = BUF_INIT };
	struct err e = ERR_INIT;
	bool saved;

	if (!instance_save_is_ours(h->now.instance) || copy_one_thread(&e) < 0) {
		prepare_unmap(&h->prepare); /* else it couldn't be sealed */
		return false;
	}
	s->to = prepare_take(&h->prepare, s->fd, s->capacity);
	if (!s->to)
		return false;
	buf_init(&answer.body, LIMIT_BODY_BYTES);
	saved = save_here(s, &answer);
	if (saved)
		post_saved(h, answer.status, answer.value, &answer.body);
	buf_fini(&answer.body);
	return saved;
}

void txn_save(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct save s = { .host = h, .fd = state_fd, .capacity = (uint64_t)head->value[0] };
	struct err e = ERR_INIT;
	struct stat st;

	(void)body;
	if (head->value[0] <= 0 || s.capacity > LIMIT_STATE_BYTES || fstat(state_fd, &st) < 0 ||
		st.st_size < head->value[0])
		death_end(HOST_EXIT_CONTRACT, "SAVE into a memfd that is smaller than it says");
	(void)FAULT(HOST_SAVE);
	h->saving_serial = head->number;
	if (copy_running(&h->saving))
		err_set(&e, ERR_BUSY, "another save is running");
	else if (!save_quickly(h, &s))
		(void)copy_start(&h->saving, DEFAULT_REHEARSE_TIMEOUT_MS, save_run, &s, state_fd, &e);
	if (e.code != ERR_OK)
		post_error(h, HOST_SAVED, head->number, &e, "copy");
}

static void finish_rehearsal(struct host *h)
{
	char step[LIMIT_FUNCTION_BYTES + 1];
	struct copy_answer answer;
	struct err e = ERR_INIT;

	if (copy_finish(&h->rehearsal, &answer, step, &e) < 0)
		post_error(h, HOST_REHEARSED, h->rehearsal_serial, &e, step);
	else
		host_post(h, HOST_REHEARSED, h->rehearsal_serial, answer.status, 0, &answer.body);
	buf_fini(&answer.body);
}

static void finish_save(struct host *h)
{
	char step[LIMIT_FUNCTION_BYTES + 1];
	struct copy_answer answer;
	struct err e = ERR_INIT;

	if (copy_finish(&h->saving, &answer, step, &e) < 0)
		post_error(h, HOST_SAVED, h->saving_serial, &e, step);
	else
		post_saved(h, answer.status, answer.value, &answer.body);
	buf_fini(&answer.body);
}

void txn_progress(struct host *h, int64_t now_us)
{
	if (copy_progress(&h->rehearsal, now_us))
		finish_rehearsal(h);
	if (copy_progress(&h->saving, now_us))
		finish_save(h);
	if (h->prepare.running && prepare_step(&h->prepare))
		host_post(h, HOST_PREPARED, h->prepare.serial, 0, 0, NULL);
}

/* A candidate that fails and can't be unloaded is worth a line: its mapping stays. */
static void drop_candidate(struct host *h)
{
	char cause[OBJECT_CAUSE_BYTES], line[OBJECT_CAUSE_BYTES + 64];

	prepare_drop(&h->prepare);
	code_unload(&h->candidate, cause);
	(void)fflush(stdout);
	if (!cause[0])
		return;
	(void)snprintf(line, sizeof line, "the candidate stays mapped: %s", cause);
	lines_log(NULL, SBX_WARNING, line, strlen(line));
}

void txn_load(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	static SELDOM_WRITTEN struct state_report report;
	struct buf loaded = BUF_INIT;
	struct json_out o = json_out_to(&loaded);
	struct err e = ERR_INIT;
	struct order order;

	parse(&order, ORDER_LOAD, head, body);
	(void)FAULT(HOST_LOAD);
	copy_kill(&h->rehearsal);
	h->candidate_serial = head->number;
	if (code_load(&h->candidate, head->number, order.path, &e) < 0 || code_replaces(&h->candidate, &h->now, &e) < 0 ||
		code_restore_fd(&h->candidate, state_fd, &h->prepare, order.patch, order.backwards, &report, &e) < 0) {
		const char *step = h->candidate.step;

		drop_candidate(h);
		post_error(h, HOST_LOADED, head->number, &e, step);
		return;
	}
	if (mirror_accepts(h, h->candidate.instance, &e) < 0) {
		drop_candidate(h);
		post_error(h, HOST_LOADED, head->number, &e, "checkpoint");
		return;
	}
	buf_init(&loaded, LIMIT_BODY_BYTES);
	json_out_object(&o, NULL);
	code_times_json(&h->candidate, &report, &o);
	json_out_object_end(&o);
	if (loaded.failed) {
		err_set(&e, ERR_BAD_MODULE, "the module's description exceeds %u bytes", LIMIT_BODY_BYTES);
		drop_candidate(h);
		post_error(h, HOST_LOADED, head->number, &e, "descriptor");
	} else {
		h->phase = HOST_PHASE_LOADED;
		host_post(h, HOST_LOADED, head->number, 0, 0, &loaded);
	}
	buf_fini(&loaded);
}

void txn_commit(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	char cause[OBJECT_CAUSE_BYTES];
	struct buf unloaded = BUF_INIT;
	struct json_out o = json_out_to(&unloaded);
	struct err e = ERR_INIT;
	struct code old = h->now;
	uint64_t old_serial = old.serial;

	(void)body, (void)state_fd;
	(void)FAULT(HOST_COMMIT);
	if (h->phase == HOST_PHASE_SERVING) { /* a new control completes what its predecessor had committed */
		if (head->number != h->now.serial)
			death_end(HOST_EXIT_CONTRACT, "COMMIT of what isn't loaded");
		host_post(h, HOST_COMMITTED, head->number, 0, 0, NULL);
		return;
	}
	if (head->number != h->candidate.serial)
		death_end(HOST_EXIT_CONTRACT, "COMMIT of what isn't loaded");
	/* From here on it is what would be lost. If it can't be saved after all, the old code goes on from what was sealed, in another process. */
	if (mirror_save(h, h->candidate.instance, &e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);
	h->now = h->candidate;
	h->candidate = (struct code){ 0 };
	h->candidate_serial = 0;
	h->phase = HOST_PHASE_SERVING;
	attention_clear();
	host_post(h, HOST_COMMITTED, head->number, 0, 0, NULL);
	prepare_drop(&h->prepare);
	code_unload(&old, cause);
	(void)fflush(stdout);
	json_out_object(&o, NULL);
	json_out_text(&o, "pinned", cause[0] ? cause : NULL);
	json_out_object_end(&o);
	host_post(h, HOST_UNLOADED, old_serial, 0, 0, &unloaded);
	buf_fini(&unloaded);
}

void txn_abort(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	(void)body, (void)state_fd;
	copy_kill(&h->rehearsal);
	copy_kill(&h->saving);
	drop_candidate(h);
	h->candidate_serial = 0;
	attention_clear();
	if (h->phase != HOST_PHASE_EMPTY)
		h->phase = HOST_PHASE_SERVING;
	host_post(h, HOST_ABORTED, head->number, 0, 0, NULL);
}
