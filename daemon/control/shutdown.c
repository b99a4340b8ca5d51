/* SPDX-License-Identifier: MIT */
#include "daemon/control/shutdown.h"

#include "daemon/front/listener.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/store/storage.h"
#include "proto/log.h"

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
	storage_stop(c->storage, shutdown_finish, c);
	c->storage = NULL;
}

void shutdown_step(struct control *c)
{
	if (!c->shutting_down || c->finishing)
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

void shutdown_begin(struct control *c, uint64_t asked)
{
	struct sandbox *sb = registry_first(c->registry), *next;

	if (!c->shutting_down) {
		c->shutting_down = true;
		log_info("stopping %zu sandboxes", registry_count(c->registry));
		events_add(c->events, "daemon.stopping", NULL, 0, NULL, NULL);
	} else if (asked < 2) {
		return;
	}
	for (; sb; sb = next) {
		next = registry_next(sb);
		(void)sandbox_request(sb, asked < 2 ? LIFE_STOP : LIFE_HURRY, false, NULL);
	}
	shutdown_step(c);
}
