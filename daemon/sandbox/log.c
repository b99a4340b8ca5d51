/* SPDX-License-Identifier: MIT
 *
 * The log of a sandbox and its files: who has some, from when on, and what becomes of them. */
#include <stdlib.h>
#include <string.h>

#include "daemon/observe/log_writer.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/log.h"

void sandbox_log_keep(struct sandbox *sb, bool is_fresh)
{
	if (sb->log_writer || !sb->control->logs || !sb->spec.persist)
		return;
	sb->log_writer = log_writer_new(sb->control->logs, sb->log, sb->spec.id, is_fresh);
	if (!sb->log_writer)
		log_error("sandbox=%s no memory to write its log to files", sb->spec.id);
}

void sandbox_log_close(struct sandbox *sb)
{
	sb->log_writer = log_writer_end(sb->log_writer, false);
}

void sandbox_log_remove(struct sandbox *sb)
{
	sb->log_writer = log_writer_end(sb->log_writer, true);
}

/* ---- folders that nobody has any more ---- */

struct collecting {
	struct storage_job job;
	struct storage *storage;
	size_t n;
	char (*ids)[LIMIT_ID_BYTES + 1]; /* of those that stay, in order */
	int n_removed;
};

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool is_there(void *ctx, const char *sandbox)
{
	struct collecting *k = ctx;

	return k->n > 0 && bsearch(sandbox, k->ids, k->n, sizeof(k->ids[0]), compare_ids);
}

static void collect_work(struct storage_job *job)
{
	struct collecting *k = (struct collecting *)(void *)job;

	k->n_removed = log_files_collect(storage_dir_fd(k->storage), is_there, k);
}

static void collect_done(struct storage_job *job)
{
	struct collecting *k = (struct collecting *)(void *)job;

	if (job->status == 0 && k->n_removed > 0)
		log_info("logs of %d sandboxes that are gone were removed", k->n_removed);
	free(k->ids);
	free(k);
}

void sandbox_logs_begin(struct control *c)
{
	struct collecting *k = calloc(1, sizeof(*k));

	if (k)
		k->ids = calloc(registry_count(c->registry) + 1, sizeof(k->ids[0]));
	for (struct sandbox *sb = registry_first(c->registry); sb; sb = registry_next(sb)) {
		sandbox_log_keep(sb, false);
		if (k && k->ids)
			memcpy(k->ids[k->n++], sb->spec.id, sizeof(sb->spec.id));
	}
	/* No sandbox at all may also mean that they couldn't be read: then all stay. */
	if (!k || !k->ids || k->n == 0) {
		if (k)
			free(k->ids);
		free(k);
		return;
	}
	qsort(k->ids, k->n, sizeof(k->ids[0]), compare_ids);
	k->storage = c->storage;
	k->job.work = collect_work;
	k->job.done = collect_done;
	storage_submit(c->storage, &k->job);
}
