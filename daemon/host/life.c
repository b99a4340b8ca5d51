/* SPDX-License-Identifier: MIT
 *
 * The host's own life: confine, start a module (fresh or with a state), stop it. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "daemon/host/attention.h"
#include "daemon/host/beat.h"
#include "daemon/host/confine.h"
#include "daemon/host/death.h"
#include "daemon/host/lines.h"
#include "daemon/host/mirror.h"
#include "daemon/host/order.h"
#include "daemon/host/serve.h"
#include "daemon/host/zygote/walls.h"
#include "daemon/host/zygote/zygote.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/sandbox_module.h"
#include "proto/seldom.h"

_Noreturn static void life_fail(struct host *h, const struct err *e, const char *step)
{
	struct buf body = BUF_INIT;

	(void)fflush(stdout);
	host_error_body(&body, e, step);
	host_post(h, HOST_FAILED, 0, 1, 0, &body);
	_exit(HOST_EXIT_FAILED);
}

/* The host's last words for a module that ran out of memory, or corrupted it: SIGABRT follows. */
static void last_word(const char *text)
{
	death_last_word(text);
}

void life_begin(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct instance_host services = {
		.log = lines_log, .last_word = last_word, .attention = &attention_word, .beat = &beat_word, .running = code_hook
	};
	struct buf report = BUF_INIT;
	struct err e = ERR_INIT;
	struct confine c;

	if (walls.spare)
		(void)prctl(PR_SET_NAME, HOST_NAME, 0, 0, 0);
	if (h->begun)
		death_end(HOST_EXIT_CONTRACT, "a second BEGIN");
	if (confine_parse(&c, body, head->body_bytes, h->channel_fd, &e) < 0)
		death_end(HOST_EXIT_CONTRACT, e.text);
	if (state_fd >= 0 && fault_use(state_fd, &e) < 0)
		death_end(HOST_EXIT_CONTRACT, e.text);
	if (beat_start(h->channel_fd, h->generation, head->value[0], &e) < 0 || (!walls.stand && confine_apply(&c, &e) < 0))
		life_fail(h, &e, "confine");
	services.memory_bytes = c.limits.max_memory_bytes;
	instance_set_host(&services);
	confine_report(&c, &report);
	host_post(h, HOST_REPORT, 0, 0, 0, &report);
	buf_fini(&report);
	h->begun = true;
}

/* The object is loaded while the process that it is to follow still serves; its state comes with START. */
void life_stage(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct buf staged = BUF_INIT;
	struct json_out o = json_out_to(&staged);
	struct err e = ERR_INIT;
	struct order order;

	(void)state_fd;
	if (!h->begun || h->now.serial != 0)
		death_end(HOST_EXIT_CONTRACT, h->begun ? "a second STAGE" : "STAGE before BEGIN");
	(void)FAULT(HOST_STAGE);
	if (head->number == 0 || order_parse(&order, ORDER_STAGE, body, head->body_bytes, &e) < 0)
		death_end(HOST_EXIT_CONTRACT, head->number ? e.text : "STAGE without a serial");
	if (code_load(&h->now, head->number, order.path, &e) < 0)
		life_fail(h, &e, h->now.step);
	(void)fflush(stdout);
	buf_init(&staged, LIMIT_BODY_BYTES);
	json_out_object(&o, NULL);
	code_times_json(&h->now, NULL, &o);
	json_out_object_end(&o);
	if (staged.failed) {
		err_set(&e, ERR_BAD_MODULE, "the module's description exceeds %u bytes", LIMIT_BODY_BYTES);
		life_fail(h, &e, "descriptor");
	}
	host_post(h, HOST_STAGED, head->number, 0, 0, &staged);
	buf_fini(&staged);
}

void life_start(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	static SELDOM_WRITTEN struct state_report report;
	struct buf ready = BUF_INIT;
	struct json_out o = json_out_to(&ready);
	struct err e = ERR_INIT;
	struct order order;
	int64_t began, init_us;
	int rc;

	if (!h->begun)
		death_end(HOST_EXIT_CONTRACT, "START before BEGIN");
	(void)FAULT(HOST_START);
	if (head->number == 0 || order_parse(&order, ORDER_START, body, head->body_bytes, &e) < 0)
		death_end(HOST_EXIT_CONTRACT, head->number ? e.text : "START without a serial");
	if (h->now.serial != 0 && h->now.serial != head->number)
		death_end(HOST_EXIT_CONTRACT, "START of another object than was staged");
	if (h->now.serial == 0 && code_load(&h->now, head->number, order.path, &e) < 0)
		life_fail(h, &e, h->now.step);
	began = clock_monotonic_us();
	if (state_fd >= 0)
		rc = code_restore_fd(&h->now, state_fd, NULL, order.patch, order.backwards, &report, &e);
	else
		rc = code_init(&h->now, order.config.at, order.config.size, &e);
	init_us = clock_monotonic_us() - began;
	if (rc < 0)
		life_fail(h, &e, h->now.step);
	if (mirror_accepts(h, h->now.instance, &e) < 0 || mirror_save(h, h->now.instance, &e) < 0)
		life_fail(h, &e, "checkpoint");
	(void)fflush(stdout);
	buf_init(&ready, LIMIT_BODY_BYTES);
	json_out_object(&o, NULL);
	if (state_fd >= 0) {
		code_times_json(&h->now, &report, &o);
	} else {
		code_times_json(&h->now, NULL, &o);
		json_out_i64(&o, "init_us", init_us);
	}
	json_out_object_end(&o);
	if (ready.failed) {
		err_set(&e, ERR_BAD_MODULE, "the module's description exceeds %u bytes", LIMIT_BODY_BYTES);
		life_fail(h, &e, "descriptor");
	}
	h->phase = HOST_PHASE_SERVING;
	h->trim_due = true;
	host_post(h, HOST_READY, head->number, 0, 0, &ready);
	buf_fini(&ready);
}

void life_stop(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	char cause[OBJECT_CAUSE_BYTES];
	struct err e = ERR_INIT;

	(void)body, (void)state_fd;
	(void)FAULT(HOST_STOP);
	copy_kill(&h->rehearsal);
	copy_kill(&h->saving);
	copy_kill(&h->showing);
	code_unload(&h->candidate, cause);
	if (h->now.instance && head->value[0] == 0 && h->phase != HOST_PHASE_EMPTY) {
		death_running("stop");
		if (instance_stop(h->now.instance, &e) < 0)
			lines_log(NULL, SBX_WARNING, e.text, strlen(e.text)); /* it ends all the same */
	}
	if (copy_threads() == 1)
		code_unload(&h->now, cause);
	else
		code_leave(&h->now);
	(void)fflush(stdout);
	h->phase = HOST_PHASE_EMPTY;
	host_post(h, HOST_STOPPED, 0, 0, 0, NULL);
	h->exit_status = HOST_EXIT_STOPPED;
	h->stopped = true;
}
