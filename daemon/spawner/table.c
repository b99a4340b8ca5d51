/* SPDX-License-Identifier: MIT
 *
 * The table: an array of slots that never move (a cursor stays valid over additions and removals) and two hashes. */
#include "daemon/spawner/table.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/spawner/denials.h"
#include "proto/fd.h"

_Static_assert((1u << ENTRY_SPEC) == SPAWNER_F_SPEC && (1u << ENTRY_STATE) == SPAWNER_F_STATE, "bits");
_Static_assert((1u << ENTRY_RING) == SPAWNER_F_RING && (1u << ENTRY_CHANNEL) == SPAWNER_F_CHANNEL, "bits");
_Static_assert((1u << ENTRY_STDOUT) == SPAWNER_F_STDOUT && (1u << ENTRY_STDERR) == SPAWNER_F_STDERR, "bits");
_Static_assert((1u << ENTRY_CHECKPOINT) == SPAWNER_F_CHECKPOINT, "bits");
_Static_assert((int)ENTRY_FD__N <= FD_MESSAGE_MAX, "an entry travels in one message");

static uint32_t bucket_of_name(const char *name)
{
	uint32_t hash = 2166136261u;

	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	return hash % TABLE_BUCKETS;
}

static uint32_t bucket_of_pid(pid_t pid)
{
	return (uint32_t)pid % TABLE_BUCKETS;
}

int table_init(struct table *t, uint32_t max, struct err *e)
{
	memset(t, 0, sizeof *t);
	t->max = max;
	t->facts_end = &t->facts;
	t->slots = calloc(max ? max : 1, sizeof(struct entry *));
	if (!t->slots)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a table of %u sandboxes", max);
	return 0;
}

void entry_free(struct entry *entry)
{
	for (size_t i = 0; i < ENTRY_FD__N; i++)
		fd_close(&entry->fds[i]);
	denials_unwatch(entry);
	free(entry);
}

void table_fini(struct table *t)
{
	for (uint32_t i = 0; i < t->n_slots; i++) {
		if (t->slots[i] && t->slots[i]->other)
			entry_free(t->slots[i]->other);
		if (t->slots[i])
			entry_free(t->slots[i]);
	}
	while (t->gone) {
		struct entry *entry = t->gone;

		t->gone = entry->next_gone;
		entry_free(entry);
	}
	free(t->slots);
	memset(t, 0, sizeof *t);
}

struct entry *table_find(const struct table *t, const char *sandbox)
{
	struct entry *entry = t->names[bucket_of_name(sandbox)];

	while (entry && strcmp(entry->sandbox, sandbox) != 0)
		entry = entry->next_name;
	return entry;
}

struct entry *table_find_pid(const struct table *t, pid_t pid)
{
	struct entry *entry = t->pids[bucket_of_pid(pid)];

	while (entry && entry->pid != pid)
		entry = entry->next_pid;
	return entry;
}

struct entry *table_from(const struct table *t, uint64_t cursor)
{
	for (uint64_t i = cursor; i < t->n_slots; i++)
		if (t->slots[i])
			return t->slots[i];
	return NULL;
}

static void entry_init(struct entry *entry, const char *sandbox)
{
	(void)snprintf(entry->sandbox, sizeof entry->sandbox, "%s", sandbox);
	entry->uid = (uid_t)-1;
	entry->listener_fd = -1;
	for (size_t i = 0; i < ENTRY_FD__N; i++)
		entry->fds[i] = -1;
}

struct entry *table_add(struct table *t, const char *sandbox, struct err *e)
{
	uint32_t slot = 0, bucket = bucket_of_name(sandbox);
	struct entry *entry;

	assert(!table_find(t, sandbox));
	if (t->n >= t->max) {
		err_set(e, ERR_LIMIT_EXCEEDED, "max_sandboxes = %u are held already", t->max);
		return NULL;
	}
	entry = calloc(1, sizeof *entry);
	if (!entry) {
		err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a sandbox");
		return NULL;
	}
	if (t->n == t->n_slots)
		slot = t->n_slots++;
	else
		while (t->slots[slot])
			slot++;
	entry_init(entry, sandbox);
	(void)snprintf(entry->folder, sizeof entry->folder, "%s", sandbox);
	entry->slot = slot;
	entry->next_name = t->names[bucket];
	t->names[bucket] = entry;
	t->slots[slot] = entry;
	ebb_rises(&t->ebb, ++t->n);
	return entry;
}

static void chain_drop_pid(struct table *t, struct entry *entry)
{
	struct entry **link = &t->pids[bucket_of_pid(entry->pid)];

	while (*link != entry)
		link = &(*link)->next_pid;
	*link = entry->next_pid;
	entry->next_pid = NULL;
	entry->pid = 0;
}

static void fact_add(struct table *t, struct entry *entry)
{
	if (entry->has_fact)
		return;
	entry->has_fact = true;
	entry->next_fact = NULL;
	*t->facts_end = entry;
	t->facts_end = &entry->next_fact;
}

static void fact_drop(struct table *t, struct entry *entry)
{
	struct entry **link = &t->facts;

	if (!entry->has_fact)
		return;
	while (*link != entry)
		link = &(*link)->next_fact;
	*link = entry->next_fact;
	if (!*link)
		t->facts_end = link;
	entry->has_fact = false;
}

struct entry *table_fact(struct table *t)
{
	while (t->facts && (t->facts->unwanted || (!t->facts->birth_unsent && !t->facts->exit_unsent)))
		fact_drop(t, t->facts);
	return t->facts;
}

void table_remove(struct table *t, struct entry *entry)
{
	struct entry **link = &t->names[bucket_of_name(entry->sandbox)];

	assert(!entry_lives(entry) && !entry->other);
	fact_drop(t, entry);
	while (*link != entry)
		link = &(*link)->next_name;
	*link = entry->next_name;
	t->slots[entry->slot] = NULL;
	t->n--;
	entry_free(entry);
	if (ebb_is_low(&t->ebb, t->n))
		(void)malloc_trim(0);
}

void entry_started(struct table *t, struct entry *entry, uint64_t generation, int64_t now_ms)
{
	assert(!entry_lives(entry) && !entry->exited);
	entry->starting = true;
	entry->own_pids = false;
	entry->kill_wanted = false;
	entry->frozen = false;
	entry->generation = generation;
	entry->status = 0;
	entry->started_ms = now_ms;
	entry->ended_ms = 0;
	entry->step[0] = '\0';
	entry->text[0] = '\0';
	t->n_living++;
}

void entry_has_pid(struct table *t, struct entry *entry, pid_t pid)
{
	uint32_t bucket = bucket_of_pid(pid);

	assert(entry->starting && entry->pid == 0 && pid > 0);
	entry->pid = pid;
	entry->next_pid = t->pids[bucket];
	t->pids[bucket] = entry;
	entry->birth_unsent = true;
	fact_add(t, entry);
}

void entry_born(struct entry *entry)
{
	assert(entry->starting && entry->pid > 0);
	entry->starting = false;
}

void entry_has_own_pids(struct entry *entry, bool own_pids)
{
	entry->own_pids = own_pids;
}

void entry_birth_sent(struct entry *entry)
{
	entry->birth_unsent = false;
}

static void gone_add(struct table *t, struct entry *entry)
{
	fact_drop(t, entry);
	entry->next_gone = t->gone;
	t->gone = entry;
}

void entry_exited(struct table *t, struct entry *entry, int status, int64_t now_ms)
{
	assert(entry_lives(entry));
	if (entry->pid > 0)
		chain_drop_pid(t, entry);
	denials_unwatch(entry);
	entry->starting = false;
	entry->loose |= !entry->own_pids;
	t->n_living--;
	entry_birth_sent(entry); /* the exit says it all */
	entry->status = status;
	entry->ended_ms = now_ms;
	entry->exited = true;
	entry->frozen = false;
	entry->exit_unsent = true;
	if (entry->unwanted)
		gone_add(t, entry);
	else
		fact_add(t, entry);
}

void entry_exit_sent(struct entry *entry)
{
	entry->exit_unsent = false;
}

void entry_acknowledged(struct table *t, struct entry *entry)
{
	(void)t;
	entry_exit_sent(entry);
	entry->exited = false;
	fd_close(&entry->fds[ENTRY_CHANNEL]);
	fd_close(&entry->fds[ENTRY_STDOUT]);
	fd_close(&entry->fds[ENTRY_STDERR]);
}

/* ---- second processes ---- */

bool entry_is_second(const struct entry *entry)
{
	return strcmp(entry->folder, entry->sandbox) != 0;
}

void entry_folder_set(struct entry *entry, bool is_second)
{
	(void)snprintf(entry->folder, sizeof entry->folder, "%s%s", entry->sandbox, is_second ? SPAWNER_SECOND_FOLDER : "");
}

struct entry *entry_other_add(struct entry *entry, struct err *e)
{
	struct entry *other = calloc(1, sizeof *other);

	assert(!entry->other);
	if (!other) {
		err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a second process");
		return NULL;
	}
	entry_init(other, entry->sandbox);
	entry_folder_set(other, !entry_is_second(entry));
	other->is_candidate = true;
	entry->other = other;
	return other;
}

struct entry *entry_of_generation(struct entry *entry, uint64_t generation)
{
	if (entry->generation == generation)
		return entry;
	return entry->other && entry->other->generation == generation ? entry->other : NULL;
}

/* What belongs to the sandbox changes hands, what belongs to a process stays: pointers to either stay right. */
struct entry *entry_promote(struct table *t, struct entry *entry, int spec_fd_take, int mirror_fd_take)
{
	struct entry **link = &t->names[bucket_of_name(entry->sandbox)], *next = entry->other;

	assert(next && next->is_candidate && entry_lives(next) && !next->starting);
	while (*link != entry)
		link = &(*link)->next_name;
	*link = next;
	next->next_name = entry->next_name;
	entry->next_name = NULL;
	next->slot = entry->slot;
	t->slots[next->slot] = next;
	fd_close(&entry->fds[ENTRY_SPEC]);
	fd_close(&entry->fds[ENTRY_STATE]);
	next->fds[ENTRY_SPEC] = spec_fd_take;
	next->fds[ENTRY_RING] = fd_take(&entry->fds[ENTRY_RING]);
	next->fds[ENTRY_CHECKPOINT] = mirror_fd_take != -1 ? mirror_fd_take : fd_take(&entry->fds[ENTRY_CHECKPOINT]);
	next->dropped_bytes += entry->dropped_bytes;
	next->is_candidate = false;
	next->other = entry;
	entry->other = NULL;
	return next;
}

void entry_other_drop(struct table *t, struct entry *entry)
{
	struct entry *other = entry->other;

	entry->other = NULL;
	fact_drop(t, other);
	other->unwanted = true;
	t->n_unwanted++;
	if (!entry_lives(other))
		gone_add(t, other);
}

struct entry *table_gone(struct table *t)
{
	struct entry *entry = t->gone;

	if (entry) {
		t->gone = entry->next_gone;
		t->n_unwanted--;
	}
	return entry;
}

void entry_describe(const struct entry *entry, struct spawner_message *m)
{
	(void)snprintf(m->sandbox, sizeof m->sandbox, "%s", entry->sandbox);
	(void)snprintf(m->name, sizeof m->name, "%s", entry->step);
	(void)snprintf(m->text, sizeof m->text, "%s", entry->exited ? entry->text : entry->leaf);
	m->generation = entry->generation;
	m->pid = entry->pid;
	m->status = entry->status;
	m->uid = entry->uid;
	m->dropped_bytes = entry->dropped_bytes;
	m->started_ms = entry->started_ms;
	m->ended_ms = entry->ended_ms;
	m->limits = entry->limits;
	m->host_build = entry->host_build;
	m->flags = (entry->exited ? SPAWNER_F_EXITED : 0) | (entry->frozen ? SPAWNER_F_FROZEN : 0) |
		(entry->exited && entry->oom ? SPAWNER_F_OOM : 0) | (entry->frozen_by_cgroup ? SPAWNER_F_CGROUP : 0) |
		(entry_is_second(entry) ? SPAWNER_F_SECOND : 0);
}

size_t entry_borrow_fds(const struct entry *entry, struct spawner_message *m, int fds[ENTRY_FD__N])
{
	size_t n = 0;

	for (size_t i = 0; i < ENTRY_FD__N; i++) {
		if (entry->fds[i] == -1)
			continue;
		m->flags |= 1u << i;
		fds[n++] = entry->fds[i];
	}
	return n;
}
