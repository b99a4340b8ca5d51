/* SPDX-License-Identifier: MIT
 *
 * One write is one storage job with two parts: files first (the object of a create, a saved state), then the row, in a transaction that
 * it shares with all other writes that wait just then. Each job carries a copy of everything, so the sandbox may change meanwhile: the
 * next write follows in order. Answers are held until no write of their sandbox is under way. */
#include "daemon/sandbox/durable.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/control/shutdown.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/durable_files.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/store/histories.h"
#include "daemon/store/objects.h"
#include "daemon/store/states.h"
#include "daemon/store/storage.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"

/* ---- answers ---- */

struct held_answer {
	struct held_answer *next;
	struct rpc_request *request;
	cJSON *tree;      /* result, or an error's extra members */
	char *json;       /* a result as text */
	size_t size;
	struct err error; /* ERR_OK: a result */
};

static void answer_give(struct sandbox *sb, struct held_answer *a)
{
	struct err e = ERR_INIT;

	if (a->error.code != ERR_OK) {
		(void)rpc_error(a->request, &a->error, a->tree);
	} else if (sb->disk.failed) {
		cJSON *extra = cJSON_CreateObject();

		cJSON_Delete(a->tree);
		err_set(&e, ERR_IO, "the change of sandbox %s is in force, but not durable: %s", sb->spec.id, sandbox_error_told(sb, SANDBOX_ERROR_DISK)->text);
		cJSON_AddBoolToObject(extra, "in_force", true);
		cJSON_AddBoolToObject(extra, "durable", false);
		cJSON_AddStringToObject(extra, "status", sandbox_status_text(sb));
		(void)rpc_error(a->request, &e, extra);
	} else if (a->json) {
		(void)rpc_result_raw(a->request, a->json, a->size);
	} else {
		(void)rpc_result(a->request, a->tree);
	}
	free(a->json);
	free(a);
}

static void answers_give(struct sandbox *sb)
{
	while (sb->disk.pending == 0 && sb->disk.answers) {
		struct held_answer *a = sb->disk.answers;

		sb->disk.answers = a->next;
		if (!sb->disk.answers)
			sb->disk.answers_end = &sb->disk.answers;
		answer_give(sb, a);
	}
}

static void answer_hold(struct sandbox *sb, struct held_answer what)
{
	struct held_answer *a;

	if (sb->spec.persist && sb->disk.failed && sb->disk.pending == 0 && !sb->forgetting)
		durable_write(sb); /* whoever asks is told how it is now */
	a = malloc(sizeof *a);
	if (!a) {
		struct err e = ERR_INIT;

		err_set(&e, ERR_INTERNAL, "no memory to hold the answer back until it is durable");
		free(what.json);
		cJSON_Delete(what.tree);
		(void)rpc_error(what.request, &e, NULL);
		return;
	}
	*a = what;
	a->next = NULL;
	*sb->disk.answers_end = a;
	sb->disk.answers_end = &a->next;
	answers_give(sb);
}

void durable_answer(struct sandbox *sb, struct rpc_request *r, cJSON *result_take)
{
	answer_hold(sb, (struct held_answer){ .request = r, .tree = result_take, .error = ERR_INIT });
}

void durable_answer_raw(struct sandbox *sb, struct rpc_request *r, const char *json, size_t size)
{
	char *copy = malloc(size + 1);
	struct err e = ERR_INIT;

	if (!copy) {
		err_set(&e, ERR_INTERNAL, "no memory for the answer");
		durable_answer_error(sb, r, &e, NULL);
		return;
	}
	memcpy(copy, json, size);
	answer_hold(sb, (struct held_answer){ .request = r, .json = copy, .size = size, .error = ERR_INIT });
}

void durable_answer_error(struct sandbox *sb, struct rpc_request *r, const struct err *e, cJSON *extra_take)
{
	answer_hold(sb, (struct held_answer){ .request = r, .tree = extra_take, .error = *e });
}

/* ---- one write ---- */

struct write {
	struct storage_job job;
	struct sandbox *sandbox;
	struct control *control;
	uint64_t number;
	unsigned state_number;
	bool delete_row;
	struct database_row row;         /* owns its spec */
	struct blob *object;             /* a reference, or NULL */
	int state_fd;                    /* a duplicate, or -1 */
	struct blob *history;            /* kept before the row is deleted; a reference, or NULL */
	bool history_is_lost;            /* it never can be kept */
	bool drop_history;               /* of an earlier sandbox of this id */
	char problem[HISTORY_PROBLEM_BYTES]; /* what was damaged of those kept; "": nothing */
	struct tombstones *tombstones;   /* rows that an earlier write could not delete; owned */
	void (*done)(struct sandbox *sb, const struct err *e);
};

/* One that never can be kept doesn't keep its row. */
static int history_keep(struct write *w, struct err *e)
{
	if (histories_keep(w->control->histories, w->history->data, w->history->size, w->problem, e) == 0)
		return 0;
	if (!histories_is_final(e))
		return -1;
	w->history_is_lost = true;
	(void)snprintf(w->problem, sizeof w->problem, "sandbox %s is deleted without its history: %.200s", w->row.id, e->text);
	*e = (struct err)ERR_INIT;
	return histories_drop(w->control->histories, w->row.id, e);
}

static void write_work(struct storage_job *job)
{
	struct write *w = (struct write *)job;
	int dir = storage_dir_fd(w->control->storage);

	if (w->object)
		job->status = objects_put(dir, w->object, &job->err);
	if (job->status == 0 && w->state_fd >= 0)
		job->status = states_put(dir, w->state_fd, w->row.state_bytes, w->row.state_sha256, &job->err);
	if (w->history)
		job->status = history_keep(w, &job->err);
	else if (w->drop_history)
		job->status = histories_drop(w->control->histories, w->row.id, &job->err);
	tombstones_keep_histories(w->tombstones, w->control->histories);
}

static int write_row(struct storage_job *job, struct database *d)
{
	struct write *w = (struct write *)job;

	for (size_t i = 0; i < tombstones_count(w->tombstones); i++)
		if (tombstones_is_due(w->tombstones, i) && database_delete(d, tombstones_id(w->tombstones, i), &job->err) == -1)
			return -1;
	return w->delete_row ? database_delete(d, w->row.id, &job->err) : database_put(d, &w->row, &job->err);
}

static void write_free(struct write *w)
{
	blob_unref(w->object);
	blob_unref(w->history);
	fd_close(&w->state_fd);
	free(w->row.spec);
	tombstones_free(w->tombstones);
	free(w);
}

static void write_failed(struct sandbox *sb, const struct err *e)
{
	bool before = sb->disk.failed;

	sb->disk.failed = true;
	*sandbox_error(sb, SANDBOX_ERROR_DISK) = *e;
	if (before)
		return;
	events_add(sb->control->events, "sandbox.not_durable", sb->spec.id, sb->spec.owner, "why", e->text);
	log_error("sandbox=%s what is in force is not durable: %s", sb->spec.id, e->text);
}

static void older_set(struct older_state *o, const char *sha256, uint64_t bytes, bool is_bad)
{
	(void)snprintf(o->sha256, sizeof o->sha256, "%s", sha256);
	o->bytes = bytes;
	o->is_bad = is_bad;
}

static void write_went_well(struct sandbox *sb, const struct write *w)
{
	struct on_disk *k = &sb->disk;

	if (w->state_number == k->state_number) {
		fd_close(&k->state_fd);
		k->state_drop = false;
	}
	if (w->delete_row)
		k->older = (struct older_state){ 0 };
	else if (w->row.state_sha256[0] && k->state_sha256[0] && strcmp(k->state_sha256, w->row.state_sha256) != 0)
		older_set(&k->older, k->state_sha256, k->state_bytes, false);
	k->has_row = !w->delete_row;
	(void)snprintf(k->state_sha256, sizeof k->state_sha256, "%s", w->row.state_sha256);
	k->state_bytes = w->row.state_bytes;
	files_states_set(sb);
	if (k->failed) {
		events_add(sb->control->events, "sandbox.durable", sb->spec.id, sb->spec.owner, NULL, NULL);
		log_info("sandbox=%s what is in force is durable again", sb->spec.id);
	}
	k->failed = false;
	owned_update(sb);
}

static void write_done(struct storage_job *job)
{
	struct write *w = (struct write *)job;
	struct sandbox *sb = w->sandbox;
	struct control *c = w->control;
	const struct err *e = job->status == 0 ? NULL : &job->err;

	sb->disk.pending--;
	files_writes(c, -1);
	if (w->problem[0])
		durable_problem(c, w->problem);
	if (w->history_is_lost)
		sb->disk.history = blob_unref(sb->disk.history);
	if (w->number > sb->disk.ended) {
		sb->disk.ended = w->number;
		if (!e)
			write_went_well(sb, w);
		else if (!w->done)
			write_failed(sb, e);
	}
	if (e && w->state_number == sb->disk.state_begun)
		sb->disk.state_begun--;
	if (!e)
		files_tombstones_done(c, w->tombstones);
	if (w->done)
		w->done(sb, e);
	if (!e && sb->disk.pending == 0 && !sb->forgetting)
		durable_versions(sb);
	answers_give(sb);
	write_free(w);
	sandbox_release(sb);
	shutdown_step(c);
}

static int row_fill(struct sandbox *sb, enum spec_form form, struct write *w, struct err *e)
{
	struct database_row *row = &w->row;

	(void)snprintf(row->id, sizeof row->id, "%s", sb->spec.id);
	row->created_at_ms = sb->spec.created_at_ms;
	row->wanted = sb->disk.wanted;
	if (w->delete_row)
		return 0;
	row->spec = spec_text(sb, form, &row->spec_size, e);
	if (!row->spec)
		return -1;
	w->state_number = sb->disk.state_begun = sb->disk.state_number;
	if (sb->disk.state_fd >= 0) {
		w->state_fd = fcntl(sb->disk.state_fd, F_DUPFD_CLOEXEC, 3);
		row->state_bytes = sb->disk.state_fd_bytes;
		if (w->state_fd < 0)
			return err_sys(e, ERR_IO, "cannot duplicate the descriptor of the state of %s", sb->spec.id);
	} else if (!sb->disk.state_drop) {
		(void)snprintf(row->state_sha256, sizeof row->state_sha256, "%s", sb->disk.state_sha256);
		row->state_bytes = sb->disk.state_bytes;
	}
	return 0;
}

static struct write *write_new(struct sandbox *sb, void (*done)(struct sandbox *, const struct err *))
{
	struct write *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->job = (struct storage_job){ .work = write_work, .write = write_row, .done = write_done, .err = ERR_INIT };
	w->sandbox = sb;
	w->control = sb->control;
	w->state_fd = -1;
	w->done = done;
	return w;
}

static void write_submit(struct sandbox *sb, struct write *w)
{
	w->number = ++sb->disk.begun;
	sb->disk.pending++;
	w->tombstones = files_tombstones(sb->control, sb->spec.id);
	sandbox_hold(sb);
	files_writes(sb->control, 1);
	storage_submit(sb->control->storage, &w->job);
}

void durable_write(struct sandbox *sb)
{
	struct write *w;
	struct err e = ERR_INIT;

	owned_update(sb);
	if (!sb->spec.persist || sb->forgetting || sb->life.creating || !files_may_write(sb->control))
		return;
	updated_note(sb);
	w = write_new(sb, NULL);
	if (w && row_fill(sb, SPEC_PLAIN, w, &e) == 0) {
		sb->disk.state = sb->life.state;
		write_submit(sb, w);
		return;
	}
	if (!w)
		err_set(&e, ERR_INTERNAL, "no memory to write the row of sandbox %s", sb->spec.id);
	else
		write_free(w);
	write_failed(sb, &e);
}

void durable_create(struct sandbox *sb, void (*done)(struct sandbox *sb, const struct err *e))
{
	struct write *w = write_new(sb, done);
	struct err e = ERR_INIT;

	if (w)
		w->object = blob_ref(sb->create_object);
	sb->disk.wanted = true;
	sb->disk.state = LIFE_STARTING;
	if (w && row_fill(sb, SPEC_AS_COMMITTED, w, &e) == 0) {
		write_submit(sb, w);
		return;
	}
	if (!w)
		err_set(&e, ERR_INTERNAL, "no memory to write the row of sandbox %s", sb->spec.id);
	else
		write_free(w);
	done(sb, &e);
}

/* What is to become of its history of versions, and of that of an earlier sandbox of its id. A create that failed leaves that as it is. */
static int history_due(struct sandbox *sb, struct write *w, struct err *e)
{
	if (sb->versions.n == 0)
		return 0;
	w->drop_history = !sb->keep_history;
	if (!sb->keep_history)
		return 0;
	sb->disk.history = sandbox_history_text(sb, clock_wall_ms(), e);
	if (!sb->disk.history)
		return -1;
	w->history = blob_ref(sb->disk.history);
	return 0;
}

void durable_forget(struct sandbox *sb, void (*done)(struct sandbox *sb, const struct err *e))
{
	struct write *w = NULL;
	struct err e = ERR_INIT;

	if (!sb->spec.persist || (!sb->disk.has_row && sb->disk.pending == 0)) {
		done(sb, NULL);
		return;
	}
	w = write_new(sb, done);
	if (!w || history_due(sb, w, &e) < 0) {
		if (w)
			write_free(w);
		else
			err_set(&e, ERR_INTERNAL, "no memory to delete the row of sandbox %s", sb->spec.id);
		done(sb, &e);
		return;
	}
	w->delete_row = true;
	(void)row_fill(sb, SPEC_PLAIN, w, &e);
	write_submit(sb, w);
}

void durable_forgotten(struct sandbox *sb, bool ok)
{
	if (ok)
		files_objects_set(sb, NULL, 0);
	else
		files_tombstone_add(sb);
}

/* ---- what makes a write necessary ---- */

bool durable_is_wanted(const struct sandbox *sb, bool before)
{
	if (sb->spec.group[0]) /* what its group does with it is the group's matter */
		return !sb->resting;
	switch (sb->life.state) {
	case LIFE_STARTING:
	case LIFE_RUNNING:
	case LIFE_RELOADING:
	case LIFE_FROZEN:
	case LIFE_BACKOFF:
		return true;
	case LIFE_STOPPED:
	case LIFE_FAILED:
		return sb->disk.by_daemon && before;
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
	case LIFE_STOPPING:
	case LIFE__N:
		break;
	}
	return before;
}

void durable_life(struct sandbox *sb)
{
	bool wanted = durable_is_wanted(sb, sb->disk.wanted);
	bool is_down = sb->life.state == LIFE_STOPPED || sb->life.state == LIFE_FAILED;

	if (!sb->spec.persist || sb->forgetting || sb->life.gone || sb->life.creating || sb->life.state == LIFE_INITIALIZING ||
		sb->life.state == LIFE_COMPILING)
		return;
	if (wanted == sb->disk.wanted && !(is_down && !sb->disk.by_daemon && sb->life.state != sb->disk.state) && sb->disk.state_begun == sb->disk.state_number)
		return;
	sb->disk.wanted = wanted;
	durable_write(sb);
}

void durable_object(struct sandbox *sb, const char *sha256)
{
	files_object_add(sb, sha256);
	owned_update(sb);
}

/* From here on it refers to what its versions (and a candidate) say; the row of those before has been replaced. */
void durable_versions(struct sandbox *sb)
{
	const char *keep[DURABLE_OBJECTS];
	unsigned n = 0;

	owned_update(sb);
	if (sb->disk.pending > 0 || sb->disk.failed)
		return; /* rows that refer to others may still stand */
	for (size_t i = 0; i < sb->versions.n; i++)
		keep[n++] = sb->versions.items[i].sha256;
	if (sb->has_candidate)
		keep[n++] = sb->candidate.sha256;
	files_objects_set(sb, keep, n);
}

static void state_take(struct sandbox *sb)
{
	struct err e = ERR_INIT;

	fd_close(&sb->disk.state_fd);
	sb->disk.state_fd = fcntl(sb->state_fd, F_DUPFD_CLOEXEC, 3);
	sb->disk.state_fd_bytes = sb->state_bytes;
	sb->disk.state_drop = sb->disk.kept_there = false;
	sb->disk.kept_is_row = true;
	sb->disk.state_number++;
	owned_update(sb);
	if (sb->disk.state_fd < 0) {
		err_sys(&e, ERR_IO, "cannot duplicate the descriptor of the state of %s", sb->spec.id);
		write_failed(sb, &e);
	}
}

void durable_state_saved(struct sandbox *sb)
{
	if (!sb->spec.persist)
		return;
	state_take(sb);
	if (sb->life.pending != LIFE_REQUEST_STOP || sb->disk.by_daemon)
		durable_write(sb); /* a stop that was asked writes when it is done: once */
}

void durable_state_dropped(struct sandbox *sb)
{
	bool is_there = sb->disk.state_sha256[0] || sb->disk.state_fd >= 0;

	fd_close(&sb->disk.state_fd);
	sb->disk.kept_there = false;
	sb->disk.older = (struct older_state){ 0 };
	files_states_set(sb);
	if (!sb->spec.persist || !is_there)
		return;
	sb->disk.state_drop = true;
	sb->disk.state_number++;
	owned_update(sb);
}

void durable_state_gone(struct sandbox *sb)
{
	sb->disk.kept_there = false;
	sb->disk.state_drop = true;
	sb->disk.state_number++;
	durable_write(sb);
}

bool durable_has_older(const struct sandbox *sb)
{
	const struct on_disk *k = &sb->disk;

	if (!sb->spec.persist || k->state_fd >= 0 || k->state_drop || !k->state_sha256[0])
		return false;
	return k->kept_is_row ? k->older.sha256[0] && !k->older.is_bad : sb->spec.policy.from_checkpoint;
}

void durable_state_older(struct sandbox *sb)
{
	struct on_disk *k = &sb->disk;
	struct older_state good = k->older;

	if (k->kept_is_row) {
		older_set(&k->older, k->state_sha256, k->state_bytes, true);
		(void)snprintf(k->state_sha256, sizeof k->state_sha256, "%s", good.sha256);
		k->state_bytes = good.bytes;
		files_states_set(sb);
	}
	k->kept_there = k->kept_is_row = true;
	durable_write(sb);
}

void durable_states_found(struct sandbox *sb)
{
	struct on_disk *k = &sb->disk;

	if (strcmp(k->older.sha256, k->state_sha256) == 0)
		k->older = strcmp(k->elder.sha256, k->state_sha256) == 0 ? (struct older_state){ 0 } : k->elder;
	k->elder = (struct older_state){ 0 };
	files_states_set(sb);
}

void durable_row_found(struct sandbox *sb, const struct database_row *row)
{
	sb->disk.has_row = true;
	if (!sb->disk.kept_there) { /* else the spec is right: the state before was taken, and the row not written any more */
		(void)snprintf(sb->disk.state_sha256, sizeof sb->disk.state_sha256, "%s", row->state_sha256);
		sb->disk.state_bytes = row->state_bytes;
	}
	sb->disk.wanted = row->wanted;
	durable_states_found(sb);
	owned_update(sb);
}

/* A state that an orderly stop had saved just then, and of which the row may not know yet; a cut reload's is not one. */
static bool has_stop_state(const struct sandbox *sb)
{
	return sb->state_fd >= 0 && sb->life.kept && !sb->life.kept_sealed &&
		(sb->life.state == LIFE_STOPPING || sb->life.state == LIFE_STOPPED || sb->life.state == LIFE_FAILED);
}

void durable_adopted(struct sandbox *sb)
{
	if (!sb->spec.persist || sb->life.creating || sb->was_gone || sb->forgetting || sb->disk.state_fd >= 0 || !has_stop_state(sb))
		return;
	state_take(sb);
	durable_write(sb);
}

void durable_found(struct sandbox *sb, const struct database_row *row)
{
	bool differs = true, is_down = sb->life.state == LIFE_STOPPED || sb->life.state == LIFE_FAILED;

	if (!sb->spec.persist || sb->life.creating || sb->was_gone || sb->forgetting)
		return; /* a create that was cut off ends, and so does a destroy: its row with it */
	sb->disk.wanted = durable_is_wanted(sb, sb->disk.wanted);
	sb->disk.state = sb->life.state;
	if (row)
		differs = row->wanted != sb->disk.wanted || (sb->disk.kept_there && strcmp(row->state_sha256, sb->disk.state_sha256) != 0) ||
			!spec_as_written(sb, row->spec, row->spec_size);
	if (has_stop_state(sb) && (!is_down || !row || row->wanted || !row->state_sha256[0])) {
		state_take(sb);
		differs = true;
	}
	if (differs)
		durable_write(sb);
}

static bool is_referred_to(void *ctx, const char *sha256)
{
	const struct sandbox *sb = ctx;

	for (unsigned i = 0; i < sb->disk.n_objects; i++)
		if (strcmp(sb->disk.objects[i], sha256) == 0)
			return true;
	return false;
}

void durable_taken_over(struct sandbox *sb)
{
	char folder[LIMIT_PATH_BYTES + 1];

	durable_versions(sb);
	if (sb->spec.persist)
		return;
	sandbox_folder(sb, folder);
	objects_collect_volatile(folder, is_referred_to, sb);
}

void durable_init(struct sandbox *sb)
{
	sb->disk.wanted = true;
	sb->disk.state_fd = -1;
	sb->disk.answers_end = &sb->disk.answers;
}

void durable_fini(struct sandbox *sb)
{
	answers_give(sb);
	fd_close(&sb->disk.state_fd);
	sb->disk.history = blob_unref(sb->disk.history);
}
