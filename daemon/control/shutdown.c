/* SPDX-License-Identifier: MIT */
#include "daemon/control/shutdown.h"

#include "daemon/doctor/doctor.h"
#include "daemon/front/listener.h"
#include "daemon/group/group.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/audit.h"
#include "daemon/observe/events.h"
#include "daemon/store/storage.h"
#include "proto/log.h"

#define SAVE_MS 1500 /* for the end of a reload that is cut, and again for a save */
#define OWN_MS  2000 /* for what is left to do then */

static void shutdown_finish(void *ctx)
{
	struct control *c = ctx;
	struct spawner_message m;

	spawner_message_init(&m, SPAWNER_FINISHED, NULL);
	spawner_send(c->spawner, &m, NULL, 0);
	uv_stop(c->loop);
}

static void listener_closed(void *ctx)
{
	struct control *c = ctx;

	c->listener = NULL;
	for (struct sandbox *sb = registry_first(c->registry); sb; sb = registry_next(sb))
		sandbox_log_close(sb);
	events_close(c->events);
	audit_close(c->audit);
	storage_stop(c->storage, shutdown_finish, c);
	c->storage = NULL;
}

void shutdown_step(struct control *c)
{
	if (!c->shutting_down || c->finishing)
		return;
	if (durable_is_busy(c))
		return;
	for (struct sandbox *sb = registry_first(c->registry); sb; sb = registry_next(sb))
		if (sb->life.process != LIFE_PROCESS_NONE)
			return;
	c->finishing = true;
	log_info("all sandboxes are stopped");
	if (c->listener)
		listener_close(c->listener, listener_closed, c);
	else
		listener_closed(c);
}

/* An orderly stop that changes nothing of what is wanted: after the daemon's next start they go on with the state that is saved now. */
void shutdown_stop(struct sandbox *sb)
{
	bool before = sb->disk.by_daemon;

	switch (sb->life.state) {
	case LIFE_STOPPED:
	case LIFE_FAILED:
	case LIFE__N:
		return;
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
		if (sb->create_code)
			code_cancel(sb->create_code);
		(void)sandbox_request(sb, LIFE_DESTROY, false, NULL);
		return;
	case LIFE_STARTING:
	case LIFE_RUNNING:
	case LIFE_RELOADING:
	case LIFE_FROZEN:
	case LIFE_STOPPING:
	case LIFE_BACKOFF:
		break;
	}
	if (sb->life.creating) {
		(void)sandbox_request(sb, LIFE_DESTROY, false, NULL);
		return;
	}
	if (sb->spec.policy.save_ms > SAVE_MS)
		sb->spec.policy.save_ms = SAVE_MS;
	sb->disk.by_daemon = true;
	if (!sandbox_request(sb, LIFE_STOP, sb->spec.persist, NULL))
		sb->disk.by_daemon = before; /* it is stopping already, as somebody asked */
}

static uint64_t time_of(const struct sandbox *sb)
{
	return sb->life.process == LIFE_PROCESS_NONE ? 0 : sb->spec.policy.shutdown_ms + 2ull * SAVE_MS;
}

/* Those of a tree may have to end one after the other, all else at once. */
static uint64_t time_needed(const struct control *c)
{
	uint64_t longest = 0;

	for (struct group *g = group_first(); g; g = g->hh.next)
		g->end_ms = 0;
	for (struct sandbox *sb = registry_first(c->registry); sb; sb = registry_next(sb)) {
		struct member *m = sb->member;

		if (m)
			group_top(m->in)->end_ms += time_of(sb);
		else if (time_of(sb) > longest)
			longest = time_of(sb);
	}
	for (struct group *g = group_first(); g; g = g->hh.next)
		if (g->end_ms > longest)
			longest = g->end_ms;
	return longest + OWN_MS;
}

void shutdown_begin(struct control *c, uint64_t asked)
{
	struct spawner_message m;

	struct sandbox *sb = registry_first(c->registry), *next;
	bool first = !c->shutting_down;

	if (!c->shutting_down) {
		c->shutting_down = true;
		spawner_message_init(&m, SPAWNER_STOPPING, NULL);
		m.value = time_needed(c);
		spawner_send(c->spawner, &m, NULL, 0);
		log_info("stopping %zu sandboxes", registry_count(c->registry));
		events_add(c->events, "daemon.stopping", NULL, 0, NULL, NULL);
	} else if (asked < 2) {
		return;
	}
	if (first) {
		doctor_shutdown(c);
		groups_stop_for_end(c, false);
	}
	if (asked >= 2)
		groups_stop_for_end(c, true);
	for (; sb; sb = next) {
		next = registry_next(sb);
		sandbox_hold(sb);
		if (first && !group_stops_by_itself(sb))
			shutdown_stop(sb);
		if (asked >= 2)
			(void)sandbox_request(sb, LIFE_HURRY, false, NULL);
		sandbox_release(sb);
	}
	shutdown_step(c);
}
