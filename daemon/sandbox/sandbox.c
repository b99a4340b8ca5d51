/* SPDX-License-Identifier: MIT
 *
 * A sandbox is freed when three things have come together, in any order: it is gone (out of the registry, nothing wanted), its
 * timers are closed, and every operation that holds its address (a job of the storage thread, a reply of the spawner) has called back. */
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/shared_text.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/waits.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/ebb.h"
#include "proto/fd.h"
#include "proto/log.h"

#define SANDBOX_MAGIC 0x5a4db0c5u

static struct ebb alive; /* how many there have been, and are, those included that are gone and not freed */
static size_t n_alive;

static void call_timer_cb(uv_timer_t *timer)
{
	struct sandbox *sb = sandbox_of(timer->data);

	calls_time(&sb->calls, clock_monotonic_ms());
	if (sb->calls.first_deadline_ms != INT64_MAX)
		sandbox_pump(sb);
}

struct sandbox *sandbox_of(void *data)
{
	struct sandbox *sb = data;

	assert(sb && sb->magic == SANDBOX_MAGIC);
	return sb;
}

struct sandbox *sandbox_new(struct control *c, struct spec *spec_take, struct err *e)
{
	struct sandbox *sb = calloc(1, sizeof *sb);

	if (sb)
		sb->log = sandbox_log_new(-1);
	if (!sb || !sb->log) {
		free(sb);
		spec_fini(spec_take);
		err_set(e, ERR_INTERNAL, "no memory for another sandbox");
		return NULL;
	}
	ebb_rises(&alive, ++n_alive);
	sb->magic = SANDBOX_MAGIC;
	sb->control = c;
	sb->spec = *spec_take;
	sb->versions.keep = sb->spec.keep_versions;
	*spec_take = (struct spec){ 0 };
	durable_init(sb);
	sb->state_fd = sb->trial.state_fd = -1;
	sb->ring_kept = -1;
	life_init(&sb->life);
	sb->told = sb->life.state;
	sb->txn_policy = txn_policy_default();
	calls_init(&sb->calls, c->begin.epoch, sb->spec.max_queue, sandbox_cast_failed, sb);
	uv_timer_init(c->loop, &sb->life_timer);
	uv_timer_init(c->loop, &sb->txn_timer);
	uv_timer_init(c->loop, &sb->call_timer);
	watch_init(sb);
	overdue_init(sb);
	checkpoint_init(sb);
	uv_timer_init(c->loop, &sb->trial.timer);
	sb->life_timer.data = sb->txn_timer.data = sb->call_timer.data = sb->trial.timer.data = sb;
	sb->open_handles = 7;
	sb->call_timer.timer_cb = call_timer_cb;
	return sb;
}

static struct err shared = ERR_INIT; /* where there was no memory for one of its own */

struct err *sandbox_error(struct sandbox *sb, enum sandbox_error which)
{
	int kept = errno; /* err_sys comes next */

	if (!sb->errors[which])
		sb->errors[which] = malloc(sizeof shared);
	if (!sb->errors[which])
		sb->errors[which] = &shared;
	else if (sb->errors[which] != &shared)
		*sb->errors[which] = (struct err)ERR_INIT;
	errno = kept;
	return sb->errors[which];
}

const struct err *sandbox_error_told(const struct sandbox *sb, enum sandbox_error which)
{
	static const struct err none = ERR_INIT;

	return sb->errors[which] ? sb->errors[which] : &none;
}

void sandbox_error_none(struct sandbox *sb, enum sandbox_error which)
{
	if (sb->errors[which] != &shared)
		free(sb->errors[which]);
	sb->errors[which] = NULL;
}

static void sandbox_free(struct sandbox *sb)
{
	calls_refuse(&sb->calls, sandbox_error_told(sb, SANDBOX_ERROR_GONE));
	for (int i = 0; i < SANDBOX_ERROR__N; i++)
		sandbox_error_none(sb, (enum sandbox_error)i);
	decisions_fini(&sb->decisions);
	owned_update(sb);
	durable_fini(sb);
	reload_fini(&sb->reload);
	spec_fini(&sb->spec);
	fd_close(&sb->state_fd);
	checkpoint_fini(sb);
	fd_close(&sb->trial.state_fd);
	left_states_fini(&sb->left);
	sandbox_log_close(sb);
	sandbox_log_free(sb->log);
	blob_unref(sb->create_object);
	free(sb->create_warnings);
	(void)shared_text_free(sb->module);
	(void)shared_text_free(sb->security);
	sb->magic = 0;
	sample_forget(sb);
	free(sb);
}

static void sandbox_free_when_done(struct sandbox *sb)
{
	if (!sb->gone || sb->pending > 0 || sb->open_handles > 0)
		return;
	sandbox_free(sb);
	if (ebb_is_low(&alive, --n_alive))
		(void)malloc_trim(0);
}

void sandbox_hold(struct sandbox *sb)
{
	sb->pending++;
}

void sandbox_release(struct sandbox *sb)
{
	assert(sb->pending > 0);
	sb->pending--;
	sandbox_free_when_done(sb);
}

static void timer_closed_cb(uv_handle_t *handle)
{
	struct sandbox *sb = sandbox_of(handle->data);

	sb->open_handles--;
	sandbox_free_when_done(sb);
}

/* The end of all: nothing of it is left in the spawner, so whoever waited for that may know. */
static void sandbox_gone_finish(struct sandbox *sb)
{
	struct rpc_request *r = sb->gone_request;

	sb->gone_request = NULL;
	registry_remove(sb->control->registry, sb);
	sandbox_log_remove(sb);
	events_add(sb->control->events, "sandbox.destroyed", sb->spec.id, sb->spec.owner, NULL, NULL);
	if (r && sb->gone_ok) {
		struct buf b = BUF_INIT;
		struct json_out o = json_out_to(&b);

		json_out_object(&o, NULL);
		json_out_text(&o, "id", sb->spec.id);
		json_out_bool(&o, "destroyed", true);
		json_out_object_end(&o);
		(void)rpc_result_raw(r, buf_text(&b), b.size);
		buf_fini(&b);
	} else if (r) {
		const char *output = sb->last_exit.words[0] ? sb->last_exit.words : sb->create_warnings; /* or the compiler's */
		cJSON *extra = NULL;

		if (sb->failure_step[0] || output) {
			extra = cJSON_CreateObject();
			if (sb->failure_step[0])
				cJSON_AddStringToObject(extra, "stage", sb->failure_step);
			if (output)
				cJSON_AddStringToObject(extra, "output", output);
		}
		(void)rpc_error(r, sandbox_error_told(sb, SANDBOX_ERROR_GONE), extra);
	}
	waits_gone(sb);
	freeze_fini(sb);
	if (sb->keeper)
		sb->keeper->gone(sb);
	err_set(sandbox_error(sb, SANDBOX_ERROR_GONE), ERR_NOT_FOUND, "sandbox %s has been destroyed", sb->spec.id);
	calls_refuse(&sb->calls, sandbox_error_told(sb, SANDBOX_ERROR_GONE));
	uv_close((uv_handle_t *)&sb->life_timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->txn_timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->call_timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->watch.timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->overdue.timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->trial.timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->checkpoint.timer, timer_closed_cb);
	sb->gone = true; /* freed when the last timer is closed, or later */
}

static void forgotten(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct sandbox *sb = ctx;

	(void)fds;
	(void)n_fds;
	/* ENOENT: the spawner never held it (HOLD was refused). */
	if (m->op == SPAWNER_ERROR && m->status != ENOENT)
		log_error("sandbox=%s the spawner can't forget it: %.*s", sb->spec.id, (int)sizeof m->text, m->text);
	sandbox_gone_finish(sb);
	sandbox_release(sb);
}

/* With FORGET its folder goes, and another owner may take its id: a job that is still to come would place its object there. */
void sandbox_forget(struct sandbox *sb)
{
	struct spawner_message m;
	struct err e = ERR_INIT;

	sb->forget_due = sb->placing > 0;
	if (sb->forget_due)
		return;
	spawner_message_init(&m, SPAWNER_FORGET, sb->spec.id);
	sandbox_hold(sb);
	if (spawner_request(sb->control->spawner, &m, NULL, 0, forgotten, sb, &e) == 0) {
		log_error("sandbox=%s %s", sb->spec.id, e.text);
		sandbox_gone_finish(sb);
		sandbox_release(sb);
	}
}

/* Its row is deleted, or couldn't be; now the spawner may forget it. */
static void gone_from_disk(struct sandbox *sb, const struct err *error)
{
	durable_forgotten(sb, error == NULL);
	if (error) {
		log_error("sandbox=%s its row stays in the registry: %s", sb->spec.id, error->text);
		events_add(sb->control->events, "sandbox.not_durable", sb->spec.id, sb->spec.owner, "why", error->text);
		if (sb->gone_ok)
			err_set(sandbox_error(sb, SANDBOX_ERROR_GONE), ERR_IO, "sandbox %s is destroyed, but that is not durable, and it may come back after a restart "
				"of the machine: %s", sb->spec.id, error->text);
		sb->gone_ok = false;
	}
	sandbox_forget(sb);
}

void sandbox_gone(struct sandbox *sb)
{
	if (sb->forgetting)
		return;
	sb->forgetting = true;
	if (sb->host) {
		host_abandon(sb->host);
		sb->host = NULL;
	}
	candidate_fini(sb);
	fd_close(&sb->state_fd);
	checkpoint_fini(sb);
	sandbox_keep_spec(sb); /* says `gone`: a control that comes after this one goes on from here */
	durable_forget(sb, gone_from_disk);
}

void sandbox_folder(const struct sandbox *sb, char to[LIMIT_PATH_BYTES + 1])
{
	(void)snprintf(to, LIMIT_PATH_BYTES + 1, "%.150s/%s%s", sb->control->begin.objects_dir, sb->spec.id,
		sb->second_folder ? SPAWNER_SECOND_FOLDER : "");
}

void sandbox_discard(struct sandbox *sb)
{
	uv_close((uv_handle_t *)&sb->life_timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->txn_timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->call_timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->watch.timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->overdue.timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->trial.timer, timer_closed_cb);
	uv_close((uv_handle_t *)&sb->checkpoint.timer, timer_closed_cb);
	sb->gone = true;
}

void sandbox_object_name(uint64_t serial, char to[LIMIT_ID_BYTES + 1])
{
	(void)snprintf(to, LIMIT_ID_BYTES + 1, "%llu.so", (unsigned long long)serial);
}

void sandbox_path(const struct sandbox *sb, uint64_t serial, char to[LIMIT_PATH_BYTES + 1])
{
	/* The spawner checked that the longest such path fits. */
	(void)snprintf(to, LIMIT_PATH_BYTES + 1, "%.150s/%s%s/%llu.so", sb->control->begin.objects_dir, sb->spec.id,
		sb->second_folder ? SPAWNER_SECOND_FOLDER : "", (unsigned long long)serial);
}

void sandbox_next_path(const struct sandbox *sb, uint64_t serial, char to[LIMIT_PATH_BYTES + 1])
{
	(void)snprintf(to, LIMIT_PATH_BYTES + 1, "%.150s/%s%s/%llu.so", sb->control->begin.objects_dir, sb->spec.id,
		sb->second_folder ? "" : SPAWNER_SECOND_FOLDER, (unsigned long long)serial);
}

const struct version *sandbox_running_version(const struct sandbox *sb)
{
	return versions_current(&sb->versions);
}
