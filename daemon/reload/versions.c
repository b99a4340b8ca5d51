/* SPDX-License-Identifier: MIT
 *
 * The history is small (LIMIT_VERSIONS), so every look-up is a walk. */
#include "daemon/reload/versions.h"

#include <stdio.h>
#include <string.h>

const struct version *versions_find(const struct versions *v, uint32_t number)
{
	for (size_t i = 0; i < v->n; i++)
		if (number != 0 && v->items[i].number == number)
			return &v->items[i];
	return NULL;
}

const struct version *versions_find_object(const struct versions *v, const char *sha256)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->items[i].sha256, sha256) == 0)
			return &v->items[i];
	return NULL;
}

const struct version *versions_current(const struct versions *v)
{
	return versions_find(v, v->current);
}

/* Frees the place of the oldest version that nothing needs; the current one is about to become the one before. */
static void versions_prune(struct versions *v)
{
	size_t i = 0;

	while (i + 1 < v->n && v->items[i].number == v->current)
		i++;
	memmove(&v->items[i], &v->items[i + 1], (v->n - i - 1) * sizeof v->items[0]);
	v->n--;
}

static size_t versions_most(const struct versions *v)
{
	return v->keep >= 2 && v->keep < LIMIT_VERSIONS ? v->keep : LIMIT_VERSIONS;
}

uint32_t versions_commit(struct versions *v, const struct version *candidate, int64_t wall_ms)
{
	struct version *item = NULL;

	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->items[i].sha256, candidate->sha256) == 0)
			item = &v->items[i];
	if (!item) {
		while (v->n >= versions_most(v))
			versions_prune(v);
		item = &v->items[v->n++];
		*item = *candidate;
		item->number = ++v->last_number;
		item->loads = item->faults = 0;
		item->figures = (struct version_figures){ 0 };
		item->first_loaded_at_ms = wall_ms;
	}
	item->quarantined = false;
	item->quarantined_why[0] = '\0';
	item->loads++;
	item->loaded_at_ms = wall_ms;
	if (v->current != item->number)
		v->previous = versions_find(v, v->current) ? v->current : 0;
	v->current = item->number;
	return item->number;
}

static struct version *versions_at(struct versions *v, uint32_t number)
{
	for (size_t i = 0; i < v->n; i++)
		if (number != 0 && v->items[i].number == number)
			return &v->items[i];
	return NULL;
}

void versions_return(struct versions *v, uint32_t to, const char *why, int64_t wall_ms)
{
	struct version *bad = versions_at(v, v->current), *good = versions_at(v, to);

	if (!bad || !good || bad == good)
		return;
	bad->quarantined = true;
	(void)snprintf(bad->quarantined_why, sizeof bad->quarantined_why, "%s", why);
	good->loads++;
	good->loaded_at_ms = wall_ms;
	v->current = to;
	v->previous = 0;
	v->returns++;
	v->on_probation = false;
}

void versions_fault(struct versions *v)
{
	struct version *item = versions_at(v, v->current);

	if (item && item->faults < UINT32_MAX)
		item->faults++;
}

void versions_account(struct versions *v, const struct version_figures *more)
{
	struct version *item = versions_at(v, v->current);

	if (!item)
		return;
	item->figures.calls += more->calls;
	item->figures.failures += more->failures;
	item->figures.uptime_ms += more->uptime_ms;
	item->figures.crashes += more->crashes;
}

void versions_note_reload(struct versions *v, bool is_rollback, uint64_t pause_us, uint64_t state_bytes)
{
	struct version *item = versions_at(v, v->current);

	if (!item)
		return;
	v->reloads++;
	v->rollbacks += is_rollback;
	item->figures.rollbacks += is_rollback;
	item->figures.pause_us = pause_us;
	item->figures.state_bytes = state_bytes;
}

void versions_note_failed(struct versions *v, uint32_t number)
{
	struct version *item = versions_at(v, number);

	v->failed_reloads++;
	if (item)
		item->figures.refused++;
}

void versions_note_state_version(struct versions *v, uint32_t state_version)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->current != 0 && v->items[i].number == v->current)
			v->items[i].state_version = state_version;
}

const char *versions_status(const struct versions *v, const struct version *item)
{
	if (item->number == v->current)
		return v->on_probation ? "probation" : "current";
	if (item->quarantined)
		return "quarantined";
	return item->number == v->previous ? "good" : "superseded";
}

static void version_members(const struct version *item, struct json_out *o)
{
	json_out_u64(o, "version", item->number);
	json_out_text(o, "sha256", item->sha256);
	json_out_u64(o, "bytes", item->bytes);
	json_out_u64(o, "state_version", item->state_version);
	json_out_i64(o, "loaded_at", item->loaded_at_ms);
	json_out_i64(o, "first_loaded_at", item->first_loaded_at_ms);
	json_out_u64(o, "loads", item->loads);
	json_out_u64(o, "faults", item->faults);
	if (item->quarantined)
		json_out_text(o, "quarantined", item->quarantined_why);
	json_out_u64(o, "author", item->author);
	json_out_text(o, "origin", item->from_source ? "source" : "object");
	if (item->source_name[0])
		json_out_text(o, "source_name", item->source_name);
}

void version_members_json(const struct version *item, const char *status, struct json_out *o)
{
	version_members(item, o);
	json_out_text(o, "status", status);
}

void version_figures_json(const struct version *item, struct json_out *o)
{
	const struct version_figures *f = &item->figures;

	json_out_u64(o, "calls", f->calls);
	json_out_u64(o, "failures", f->failures);
	json_out_u64(o, "uptime_ms", f->uptime_ms);
	json_out_u64(o, "crashes", f->crashes);
	json_out_u64(o, "rollbacks", f->rollbacks);
	json_out_u64(o, "refused", f->refused);
	json_out_u64(o, "pause_us", f->pause_us);
	json_out_u64(o, "state_bytes", f->state_bytes);
}

void version_json(const struct version *item, const char *status, struct json_out *o, const char *key)
{
	json_out_object(o, key);
	version_members_json(item, status, o);
	json_out_object_end(o);
}

void versions_json(const struct versions *v, struct json_out *o, const char *key)
{
	json_out_array(o, key);
	for (size_t i = v->n; i-- > 0;)
		version_json(&v->items[i], versions_status(v, &v->items[i]), o, NULL);
	json_out_array_end(o);
}

void version_save(const struct version *item, struct json_out *o, const char *key)
{
	json_out_object(o, key);
	version_members(item, o);
	version_figures_json(item, o);
	json_out_object_end(o);
}

void versions_save(const struct versions *v, struct json_out *o, const char *key)
{
	json_out_object(o, key);
	json_out_u64(o, "last_number", v->last_number);
	json_out_u64(o, "current", v->current);
	json_out_u64(o, "previous", v->previous);
	json_out_u64(o, "reloads", v->reloads);
	json_out_u64(o, "failed_reloads", v->failed_reloads);
	json_out_u64(o, "rollbacks", v->rollbacks);
	json_out_u64(o, "returns", v->returns);
	json_out_array(o, "items");
	for (size_t i = 0; i < v->n; i++)
		version_save(&v->items[i], o, NULL);
	json_out_array_end(o);
	json_out_object_end(o);
}

static bool load_u32(struct json_span object, const char *key, uint32_t *ret)
{
	uint64_t value;

	if (!json_u64(json_get(object, key), &value) || value > UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

/* A count that an earlier program didn't keep is 0. */
static void load_count(struct json_span object, const char *key, uint32_t *ret)
{
	if (!load_u32(object, key, ret))
		*ret = 0;
}

static void load_sum(struct json_span object, const char *key, uint64_t *ret)
{
	if (!json_u64(json_get(object, key), ret))
		*ret = 0;
}

static void figures_load(struct version_figures *f, struct json_span saved)
{
	load_sum(saved, "calls", &f->calls);
	load_sum(saved, "failures", &f->failures);
	load_sum(saved, "uptime_ms", &f->uptime_ms);
	load_count(saved, "crashes", &f->crashes);
	load_count(saved, "rollbacks", &f->rollbacks);
	load_count(saved, "refused", &f->refused);
	load_sum(saved, "pause_us", &f->pause_us);
	load_sum(saved, "state_bytes", &f->state_bytes);
}

int version_load(struct version *item, struct json_span saved, struct err *e)
{
	uint32_t author = 0;

	*item = (struct version){ 0 };
	if (json_type(saved) != '{' || !load_u32(saved, "version", &item->number) ||
		json_string(json_get(saved, "sha256"), item->sha256, sizeof item->sha256) < 0 ||
		!name_is_sha256(item->sha256, strlen(item->sha256)) || !json_u64(json_get(saved, "bytes"), &item->bytes) ||
		!load_u32(saved, "state_version", &item->state_version) || !json_i64(json_get(saved, "loaded_at"), &item->loaded_at_ms) ||
		!load_u32(saved, "loads", &item->loads) || !load_u32(saved, "author", &author))
		return err_set(e, ERR_IO, "a saved version lacks a member or holds a wrong one");
	item->author = author;
	/* Members of later versions of this program: a history kept by an earlier one lacks them. */
	load_count(saved, "faults", &item->faults);
	figures_load(&item->figures, saved);
	if (!json_i64(json_get(saved, "first_loaded_at"), &item->first_loaded_at_ms))
		item->first_loaded_at_ms = 0;
	item->quarantined = json_string(json_get(saved, "quarantined"), item->quarantined_why, sizeof item->quarantined_why) >= 0;
	if (!item->quarantined)
		item->quarantined_why[0] = '\0';
	item->from_source = json_string_is(json_get(saved, "origin"), "source");
	if (json_string(json_get(saved, "source_name"), item->source_name, sizeof item->source_name) < 0)
		item->source_name[0] = '\0';
	return 0;
}

int versions_load(struct versions *v, struct json_span saved, struct err *e)
{
	struct json_span items = json_type(saved) == '{' ? json_get(saved, "items") : (struct json_span){ 0 };
	struct json_span key, value;
	struct json_iter it;

	*v = (struct versions){ .keep = v->keep };
	if (json_type(items) != '[' || !load_u32(saved, "last_number", &v->last_number) ||
		!load_u32(saved, "current", &v->current) || !load_u32(saved, "previous", &v->previous))
		return err_set(e, ERR_IO, "a saved history lacks a member");
	load_count(saved, "reloads", &v->reloads);
	load_count(saved, "failed_reloads", &v->failed_reloads);
	load_count(saved, "rollbacks", &v->rollbacks);
	load_count(saved, "returns", &v->returns);
	for (it = json_iter_begin(items); json_iter_next(&it, &key, &value);) {
		if (v->n == LIMIT_VERSIONS)
			return err_set(e, ERR_IO, "a saved history has more than %d versions", LIMIT_VERSIONS);
		if (version_load(&v->items[v->n++], value, e) < 0)
			return -1;
	}
	if (v->current != 0 && !versions_current(v))
		return err_set(e, ERR_IO, "a saved history lacks its current version %u", v->current);
	return 0;
}
