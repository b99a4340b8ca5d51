/* SPDX-License-Identifier: MIT */
#include "daemon/control/leave.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/control/spawner_link.h"
#include "daemon/front/listener.h"
#include "daemon/observe/events.h"
#include "daemon/store/storage.h"
#include "proto/fd.h"
#include "proto/json_out.h"
#include "proto/log.h"

#define DRAIN_MS    500 /* for calls that are at work: others wait for the next control meanwhile */
#define ASKED_MAX   16  /* who ask at the same time; one is enough */
#define REASON_BYTES 1024

static struct rpc_request *asked[ASKED_MAX];
static size_t n_asked;

static void gone(void *ctx, struct rpc_request *r)
{
	struct err e = ERR_INIT;

	(void)ctx;
	for (size_t i = 0; i < n_asked; i++)
		if (asked[i] == r)
			asked[i--] = asked[--n_asked];
	err_set(&e, ERR_UPGRADE_REFUSED, "nobody waits for it any more");
	(void)rpc_error(r, &e, NULL);
}

const struct rpc_done *daemon_upgrade(struct control *c, struct rpc_request *r)
{
	struct spawner_message m;
	struct err e = ERR_INIT;

	if (n_asked == ASKED_MAX) {
		err_set(&e, ERR_BUSY, "%d requests wait for an upgrade already", ASKED_MAX);
		return rpc_error(r, &e, NULL);
	}
	asked[n_asked++] = r;
	rpc_on_gone(r, gone, NULL);
	spawner_message_init(&m, SPAWNER_UPGRADE, NULL);
	spawner_send(c->spawner, &m, NULL, 0);
	return rpc_pending(r);
}

void upgrade_refused(struct control *c, int reason_fd)
{
	struct err e = ERR_INIT, ignored = ERR_INIT;
	size_t size;
	char *reason = reason_fd == -1 ? NULL : fd_read_all(reason_fd, REASON_BYTES, &size, &ignored);

	err_set(&e, ERR_UPGRADE_REFUSED, "%s", reason ? reason : "the spawner gave no reason");
	free(reason);
	events_add(c->events, "daemon.upgrade_refused", NULL, 0, "reason", e.text);
	while (n_asked > 0)
		(void)rpc_error(asked[--n_asked], &e, NULL);
}

/* ---- the end of this process ---- */

static void nothing(struct storage_job *job)
{
	job->status = 0;
}

static void written(struct storage_job *job)
{
	(void)job;
	_exit(0);
}

/* All answers are out. What the storage thread was given before is committed when its turn comes. */
static void listener_closed(void *ctx)
{
	static struct storage_job job = { .work = nothing, .barrier = true, .done = written, .err = ERR_INIT };
	struct control *c = ctx;

	c->listener = NULL;
	storage_submit(c->storage, &job);
}

void upgrade_goes(struct control *c)
{
	const struct listener_caps caps = { .drain_ms = DRAIN_MS };

	if (c->leaving || !c->listener || c->finishing)
		return;
	c->leaving = true;
	log_info("the program is replaced: the next control takes over");
	while (n_asked > 0) {
		cJSON *result = cJSON_CreateObject();

		cJSON_AddBoolToObject(result, "upgrading", true);
		cJSON_AddNumberToObject(result, "upgrades", c->begin.upgrades);
		(void)rpc_result(asked[--n_asked], result);
	}
	listener_set_caps(c->listener, &caps);
	listener_close(c->listener, listener_closed, c);
}

void upgrade_done(struct control *c)
{
	struct json_out *o;

	if (!c->begin.is_upgraded)
		return;
	o = events_begin(c->events, "daemon.upgraded", NULL, 0);
	json_out_i64(o, "upgrades", c->begin.upgrades);
	json_out_text(o, "version", SANDBOXD_VERSION);
	events_end(c->events);
}
