/* SPDX-License-Identifier: MIT
 *
 * Objects are counted here: a sandbox refers to one before its write is begun, and no longer after the row that doesn't name it is
 * committed. Removal is a storage job, so a sandbox that comes to refer to an object meanwhile puts it again behind the removal. Who
 * refers to a state is asked of the registry as well, since its hash is known to the storage thread first: the removal is a barrier. */
#include "daemon/sandbox/durable_files.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/observe/events.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/store/folder.h"
#include "daemon/store/histories.h"
#include "daemon/store/objects.h"
#include "daemon/store/storage.h"
#include "proto/log.h"

#define PROBLEMS_MAX       16
#define HISTORIES_PER_WRITE 4 /* of tombstones, each with a file and its fsync: what one failed to keep is no burden of everybody's writes */

struct object_ref {
	char sha256[SHA256_HEX_BYTES + 1];
	unsigned n;
	UT_hash_handle hh;
};

struct name {
	char text[SHA256_HEX_BYTES + 1];
	bool is_state, keep;
};

struct names {
	struct name *items;
	size_t n, room;
};

struct tombstones {
	size_t n;
	struct tombstone {
		char id[LIMIT_ID_BYTES + 1];
		char objects[DURABLE_OBJECTS][SHA256_HEX_BYTES + 1];
		unsigned n_objects;
		struct blob *history; /* kept before the row is deleted; a reference, or NULL */
		bool is_not_due;      /* of a copy: that has failed */
		bool is_told;         /* in a copy: of an earlier one's failure */
	} items[];
};

struct durable {
	struct object_ref *refs, *state_refs;
	struct names to_remove;
	bool removing;
	unsigned writes;
	bool may_write;
	struct tombstones *tombstones; /* NULL: none */
	size_t tombstones_turn;        /* which is the first to have its history tried */
	char problems[PROBLEMS_MAX][320];
	size_t n_problems;
};

int durable_new(struct control *c, struct err *e)
{
	c->durable = calloc(1, sizeof *c->durable);
	return c->durable ? 0 : err_set(e, ERR_INTERNAL, "no memory");
}

void durable_free(struct control *c)
{
	struct object_ref *ref, *next;

	if (!c->durable)
		return;
	HASH_ITER(hh, c->durable->refs, ref, next) {
		HASH_DEL(c->durable->refs, ref); /* NOLINT(clang-analyzer-unix.Malloc): uthash keeps one table for all of them */
		free(ref);
	}
	HASH_ITER(hh, c->durable->state_refs, ref, next) {
		HASH_DEL(c->durable->state_refs, ref); /* NOLINT(clang-analyzer-unix.Malloc): likewise */
		free(ref);
	}
	free(c->durable->to_remove.items);
	tombstones_free(c->durable->tombstones);
	free(c->durable);
	c->durable = NULL;
}

void durable_problem(struct control *c, const char *text)
{
	struct durable *k = c->durable;

	log_error("%s", text);
	events_add(c->events, "daemon.registry", NULL, 0, "problem", text);
	if (k->n_problems < PROBLEMS_MAX)
		(void)snprintf(k->problems[k->n_problems++], sizeof k->problems[0], "%s", text);
}

void durable_json(const struct control *c, cJSON *to)
{
	cJSON *registry = cJSON_AddObjectToObject(to, "registry");
	cJSON *problems = cJSON_AddArrayToObject(registry, "problems");

	for (size_t i = 0; i < c->durable->n_problems; i++)
		cJSON_AddItemToArray(problems, cJSON_CreateString(c->durable->problems[i]));
	cJSON_AddNumberToObject(registry, "writes_pending", c->durable->writes);
	cJSON_AddNumberToObject(registry, "objects", HASH_COUNT(c->durable->refs));
}

bool durable_is_busy(const struct control *c)
{
	return c->durable->writes > 0;
}

void durable_writing(struct control *c, bool on)
{
	c->durable->may_write = on;
}

void files_writes(struct control *c, int change)
{
	c->durable->writes = (unsigned)((int)c->durable->writes + change);
}

bool files_may_write(const struct control *c)
{
	return c->durable->may_write;
}

/* ---- removal ---- */

struct remove_job {
	struct storage_job job;
	struct control *control;
	struct names names;
	bool all;                 /* names: objects that are referred to; everything else goes */
	size_t removed;
};

static bool names_add(struct names *l, const char *text, bool is_state)
{
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 16;
		struct name *more = realloc(l->items, room * sizeof *more);

		if (!more)
			return false; /* it stays until the next start */
		l->items = more;
		l->room = room;
	}
	l->items[l->n] = (struct name){ .is_state = is_state };
	(void)snprintf(l->items[l->n++].text, sizeof l->items[0].text, "%s", text);
	return true;
}

static void state_is_used(void *ctx, const char *sha256)
{
	struct names *l = ctx;

	for (size_t i = 0; i < l->n; i++)
		if (l->items[i].is_state && strcmp(l->items[i].text, sha256) == 0)
			l->items[i].keep = true;
}

static void remove_work(struct storage_job *job)
{
	struct remove_job *k = (struct remove_job *)job;
	int dir = storage_dir_fd(k->control->storage);
	bool has_state = false;

	for (size_t i = 0; i < k->names.n; i++)
		has_state = has_state || k->names.items[i].is_state;
	if (has_state && (!storage_database(k->control->storage) ||
				 database_states(storage_database(k->control->storage), state_is_used, &k->names, &job->err) == -1)) {
		job->status = -1;
		return;
	}
	for (size_t i = 0; i < k->names.n; i++)
		if (!k->names.items[i].keep &&
			folder_remove(dir, k->names.items[i].is_state ? FOLDER_STATES : FOLDER_OBJECTS, k->names.items[i].text, &job->err) == -1)
			job->status = -1;
}

static void remove_next(struct control *c);

static void remove_done(struct storage_job *job)
{
	struct remove_job *k = (struct remove_job *)job;
	struct control *c = k->control;

	if (job->status == -1)
		log_warning("what nothing refers to stays until the next start: %s", job->err.text);
	else if (k->removed > 0)
		log_info("removed %zu files that nothing refers to", k->removed);
	free(k->names.items);
	free(k);
	c->durable->removing = false;
	remove_next(c);
}

static struct remove_job *remove_new(struct control *c, void (*work)(struct storage_job *))
{
	struct remove_job *k = calloc(1, sizeof *k);

	if (!k)
		return NULL;
	k->job = (struct storage_job){ .work = work, .barrier = true, .done = remove_done, .err = ERR_INIT };
	k->control = c;
	c->durable->removing = true;
	return k;
}

static bool is_referred_to(const struct object_ref *refs, const char *sha256)
{
	struct object_ref *ref = NULL;

	HASH_FIND_STR(refs, sha256, ref);
	return ref != NULL;
}

/* One job at a time: what comes up meanwhile goes together in the next. */
static void remove_next(struct control *c)
{
	struct durable *k = c->durable;
	struct remove_job *job;

	if (k->removing || k->to_remove.n == 0 || !c->storage)
		return;
	job = remove_new(c, remove_work);
	if (!job)
		return;
	job->names = k->to_remove;
	k->to_remove = (struct names){ 0 };
	for (size_t i = 0; i < job->names.n; i++)
		job->names.items[i].keep = is_referred_to(job->names.items[i].is_state ? k->state_refs : k->refs, job->names.items[i].text);
	storage_submit(c->storage, &job->job);
}

static void remove_later(struct control *c, const char *sha256, bool is_state)
{
	(void)names_add(&c->durable->to_remove, sha256, is_state);
	remove_next(c);
}

/* ---- everything, at the start ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static bool names_has(void *ctx, const char *sha256)
{
	const struct names *l = ctx;
	struct name key = { 0 };

	(void)snprintf(key.text, sizeof key.text, "%s", sha256);
	return l->n > 0 && bsearch(&key, l->items, l->n, sizeof l->items[0], by_text);
}

static void state_note(void *ctx, const char *sha256)
{
	(void)names_add(ctx, sha256, true);
}

static void collect_work(struct storage_job *job)
{
	struct remove_job *k = (struct remove_job *)job;
	int dir = storage_dir_fd(k->control->storage);
	struct names states = { 0 };
	int n;

	if (!storage_database(k->control->storage) || database_states(storage_database(k->control->storage), state_note, &states, &job->err) == -1) {
		job->status = -1;
		free(states.items);
		return;
	}
	for (size_t i = 0; i < k->names.n; i++)
		if (k->names.items[i].is_state && !names_add(&states, k->names.items[i].text, true)) {
			free(states.items);
			job->status = err_set(&job->err, ERR_INTERNAL, "no memory for the names of states");
			return;
		}
	if (states.n > 0)
		qsort(states.items, states.n, sizeof states.items[0], by_text);
	n = folder_collect(dir, FOLDER_STATES, names_has, &states, &job->err);
	job->status = n < 0 ? -1 : 0;
	k->removed = n < 0 ? 0 : (size_t)n;
	n = objects_collect(dir, names_has, &k->names, &job->err);
	job->status = n < 0 ? -1 : job->status;
	k->removed += n < 0 ? 0 : (size_t)n;
	free(states.items);
}

void durable_collect(struct control *c)
{
	struct remove_job *job = remove_new(c, collect_work);
	bool fits = true;

	if (!job)
		return;
	for (const struct object_ref *ref = c->durable->refs; ref; ref = ref->hh.next)
		fits = fits && names_add(&job->names, ref->sha256, false);
	for (const struct object_ref *ref = c->durable->state_refs; ref; ref = ref->hh.next)
		fits = fits && names_add(&job->names, ref->sha256, true);
	if (!fits) {
		free(job->names.items);
		free(job);
		c->durable->removing = false;
		return;
	}
	if (job->names.n > 0)
		qsort(job->names.items, job->names.n, sizeof job->names.items[0], by_text);
	storage_submit(c->storage, &job->job);
}

/* ---- references to objects ---- */

static void ref_take(struct object_ref **refs, const char *sha256)
{
	struct object_ref *ref = NULL;

	HASH_FIND_STR(*refs, sha256, ref);
	if (!ref) {
		ref = calloc(1, sizeof *ref);
		if (!ref)
			abort(); /* an object that isn't counted would be removed under its sandbox */
		(void)snprintf(ref->sha256, sizeof ref->sha256, "%s", sha256);
		HASH_ADD_STR(*refs, sha256, ref);
	}
	ref->n++;
}

static void ref_drop(struct control *c, const char *sha256, bool is_state)
{
	struct object_ref **refs = is_state ? &c->durable->state_refs : &c->durable->refs, *ref = NULL;

	HASH_FIND_STR(*refs, sha256, ref);
	if (!ref || --ref->n > 0)
		return;
	HASH_DEL(*refs, ref);
	free(ref);
	remove_later(c, sha256, is_state);
}

void files_states_set(struct sandbox *sb)
{
	struct on_disk *k = &sb->disk;
	char before[LIMIT_KEPT_STATES][SHA256_HEX_BYTES + 1];

	if (!sb->spec.persist)
		return;
	memcpy(before, k->state_refs, sizeof before);
	(void)snprintf(k->state_refs[0], sizeof k->state_refs[0], "%s", k->state_sha256);
	(void)snprintf(k->state_refs[1], sizeof k->state_refs[1], "%s", k->older.sha256);
	for (int i = 0; i < LIMIT_KEPT_STATES; i++)
		if (k->state_refs[i][0])
			ref_take(&sb->control->durable->state_refs, k->state_refs[i]);
	for (int i = 0; i < LIMIT_KEPT_STATES; i++)
		if (before[i][0])
			ref_drop(sb->control, before[i], true);
}

static bool listed(const char *const *sha256, unsigned n, const char *one)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(sha256[i], one) == 0)
			return true;
	return false;
}

static void object_drop(struct sandbox *sb, const char *sha256)
{
	char folder[LIMIT_PATH_BYTES + 1];

	if (sb->spec.persist) {
		ref_drop(sb->control, sha256, false);
	} else if (!sb->forgetting) { /* else the spawner removes the whole folder */
		sandbox_folder(sb, folder);
		objects_remove_volatile(folder, sha256); /* one unlink in a tmpfs: not worth a job */
	}
}

void files_object_add(struct sandbox *sb, const char *sha256)
{
	struct on_disk *k = &sb->disk;

	for (unsigned i = 0; i < k->n_objects; i++)
		if (strcmp(k->objects[i], sha256) == 0)
			return;
	if (k->n_objects == DURABLE_OBJECTS) {
		/* Writes that fail again and again: what the row refers to isn't known any more, so this one stays until the next start. */
		memmove(k->objects[0], k->objects[1], (DURABLE_OBJECTS - 1) * sizeof k->objects[0]);
		k->n_objects--;
	}
	(void)snprintf(k->objects[k->n_objects++], sizeof k->objects[0], "%s", sha256);
	if (sb->spec.persist)
		ref_take(&sb->control->durable->refs, sha256);
}

void files_objects_set(struct sandbox *sb, const char *const *sha256, unsigned n)
{
	struct on_disk *k = &sb->disk;

	for (unsigned i = k->n_objects; i-- > 0;) {
		char gone[SHA256_HEX_BYTES + 1];

		if (listed(sha256, n, k->objects[i]))
			continue;
		memcpy(gone, k->objects[i], sizeof gone);
		memmove(k->objects[i], k->objects[i + 1], (k->n_objects - i - 1) * sizeof k->objects[0]);
		k->n_objects--;
		object_drop(sb, gone);
	}
	for (unsigned i = 0; i < n; i++)
		files_object_add(sb, sha256[i]);
}

/* ---- rows that could not be deleted ---- */

void files_tombstone_add(struct sandbox *sb)
{
	struct durable *k = sb->control->durable;
	size_t n = tombstones_count(k->tombstones);
	struct tombstones *more = realloc(k->tombstones, sizeof *more + (n + 1) * sizeof more->items[0]);

	if (!more)
		return; /* it comes back at the next start */
	k->tombstones = more;
	more->n = n + 1;
	(void)snprintf(more->items[n].id, sizeof more->items[n].id, "%s", sb->spec.id);
	memcpy(more->items[n].objects, sb->disk.objects, sizeof sb->disk.objects);
	more->items[n].n_objects = sb->disk.n_objects;
	more->items[n].history = sb->disk.history ? blob_ref(sb->disk.history) : NULL;
	more->items[n].is_not_due = more->items[n].is_told = false;
	sb->disk.n_objects = 0; /* the tombstone has them now */
}

size_t tombstones_count(const struct tombstones *t)
{
	return t ? t->n : 0;
}

const char *tombstones_id(const struct tombstones *t, size_t i)
{
	return t->items[i].id;
}

bool tombstones_is_due(const struct tombstones *t, size_t i)
{
	return !t->items[i].is_not_due;
}

void tombstones_keep_histories(struct tombstones *t, struct histories *h)
{
	for (size_t i = 0; i < tombstones_count(t); i++) {
		char problem[HISTORY_PROBLEM_BYTES];
		struct err e = ERR_INIT;
		const struct blob *text = t->items[i].history;

		if (text && histories_keep(h, text->data, text->size, problem, &e) == -1 && !histories_is_final(&e)) {
			if (!t->items[i].is_told)
				log_warning("the row of %s stays: %s", t->items[i].id, e.text);
			t->items[i].is_not_due = true;
		}
	}
}

void tombstones_free(struct tombstones *t)
{
	for (size_t i = 0; i < tombstones_count(t); i++)
		blob_unref(t->items[i].history);
	free(t);
}

/* The objects of a row that is replaced stay until the next start: rare, and safe. */
static void tombstone_remove(struct durable *k, size_t i)
{
	blob_unref(k->tombstones->items[i].history);
	memmove(&k->tombstones->items[i], &k->tombstones->items[i + 1], (k->tombstones->n - i - 1) * sizeof k->tombstones->items[0]);
	k->tombstones->n--;
}

struct tombstones *files_tombstones(struct control *c, const char *but_not)
{
	struct durable *k = c->durable;
	struct tombstones *copy;
	size_t n, n_histories = 0, first;

	for (size_t i = tombstones_count(k->tombstones); i-- > 0;)
		if (strcmp(k->tombstones->items[i].id, but_not) == 0)
			tombstone_remove(k, i);
	n = tombstones_count(k->tombstones);
	copy = n > 0 ? malloc(sizeof *copy + n * sizeof copy->items[0]) : NULL;
	if (!copy)
		return NULL;
	copy->n = 0;
	first = k->tombstones_turn;
	for (size_t i = 0; i < n; i++) {
		struct tombstone *from = &k->tombstones->items[(first + i) % n];

		if (from->history && n_histories == HISTORIES_PER_WRITE)
			continue;
		copy->items[copy->n++] = *from;
		if (!from->history)
			continue;
		(void)blob_ref(from->history);
		from->is_told = true;
		n_histories++;
		k->tombstones_turn = (first + i + 1) % n;
	}
	return copy;
}

void files_tombstones_done(struct control *c, const struct tombstones *t)
{
	struct durable *k = c->durable;

	for (size_t n = 0; n < tombstones_count(t); n++)
		for (size_t i = tombstones_count(k->tombstones); i-- > 0;)
			if (!t->items[n].is_not_due && strcmp(k->tombstones->items[i].id, t->items[n].id) == 0) {
				for (unsigned j = 0; j < t->items[n].n_objects; j++)
					ref_drop(c, t->items[n].objects[j], false);
				tombstone_remove(k, i);
			}
}
