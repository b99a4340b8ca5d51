/* SPDX-License-Identifier: MIT
 *
 * The versions of a sandbox's module: of one that is there, or what was kept of one that was destroyed (keep_history), which the storage
 * thread reads. */
#include <stdlib.h>
#include <string.h>

#include "daemon/control/handlers.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/store/histories.h"
#include "daemon/store/storage.h"

/* ---- of one that was destroyed ---- */

struct kept_job {
	struct storage_job job;
	struct control *control;
	struct rpc_request *request;
	char id[LIMIT_ID_BYTES + 1];
	char problem[HISTORY_PROBLEM_BYTES];
	struct history found;
	bool is_list;
};

static void kept_work(struct storage_job *job)
{
	struct kept_job *k = (struct kept_job *)job;

	job->status = histories_get(k->control->histories, k->id, &k->found, k->problem, &job->err);
}

static void kept_done(struct storage_job *job)
{
	struct kept_job *k = (struct kept_job *)job;
	struct json_span answer = k->is_list ? k->found.list : k->found.history;

	if (k->problem[0])
		durable_problem(k->control, k->problem);
	if (job->status == 0 && !rpc_may_see(k->request, k->found.owner))
		job->status = err_set(&job->err, ERR_NOT_FOUND, "there is no sandbox %s", k->id);
	if (job->status == 0)
		(void)rpc_result_raw(k->request, answer.at, answer.size);
	else
		(void)rpc_error(k->request, &job->err, NULL);
	history_fini(&k->found);
	free(k);
}

/* An id that somebody has now stands for that sandbox alone. */
static const struct rpc_done *kept(struct control *c, struct rpc_request *r, const struct err *not_found, bool is_list)
{
	const char *id = rpc_text(r, "id");
	struct kept_job *k;
	struct err e = ERR_INIT;

	if (registry_get(c->registry, id))
		return rpc_error(r, not_found, NULL);
	k = calloc(1, sizeof *k);
	if (!k) {
		(void)err_set(&e, ERR_INTERNAL, "no memory to look for a kept history");
		return rpc_error(r, &e, NULL);
	}
	k->job = (struct storage_job){ .work = kept_work, .done = kept_done, .err = ERR_INIT };
	k->control = c;
	k->request = r;
	k->is_list = is_list;
	(void)snprintf(k->id, sizeof k->id, "%s", id);
	storage_submit(c->storage, &k->job);
	return rpc_pending(r);
}

/* ---- the handlers ---- */

static const struct rpc_done *shown(struct control *c, struct rpc_request *r, bool is_list)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	if (!sb)
		return kept(c, r, &e, is_list);
	if (is_list)
		sandbox_version_list_json(sb, 0, &o, NULL);
	else
		sandbox_version_history_json(sb, 0, &o, NULL);
	return handler_answer(r, &b);
}

const struct rpc_done *version_history(struct control *c, struct rpc_request *r)
{
	return shown(c, r, false);
}

const struct rpc_done *version_list(struct control *c, struct rpc_request *r)
{
	return shown(c, r, true);
}

const struct rpc_done *version_commit(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = handler_sandbox(c, r, &e);

	return sb ? sandbox_version_commit(sb, r) : rpc_error(r, &e, NULL);
}
