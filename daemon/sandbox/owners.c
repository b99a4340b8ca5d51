/* SPDX-License-Identifier: MIT
 *
 * A hash by uid. A record is there as long as one of its totals isn't 0. */
#include "daemon/sandbox/owners.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "proto/limits.h"

struct owner {
	uint32_t uid;
	struct owner_share totals;
	UT_hash_handle hh;
};

struct owners {
	struct owner *by_uid;
};

static const struct total_row {
	const char *name, *key, *unit, *remedy;
} rows[OWNER_TOTAL__N] = {
	[OWNER_SANDBOXES] = { "sandboxes", "max_sandboxes_per_owner", "sandboxes", "destroy one that isn't needed" },
	[OWNER_MEMORY] = { "memory", "max_memory_per_owner", "bytes of max_memory in sandboxes that are up", "stop one, or give this one a smaller max_memory" },
	[OWNER_STORE_BYTES] = { "store_bytes", "max_store_bytes_per_owner", "bytes of objects and states in the store",
		"destroy a sandbox, or let them keep fewer versions (keep_versions)" },
	[OWNER_JOBS] = { "jobs", "max_jobs_per_owner", "compile jobs at work", "wait until one is done, or compile it yourself" },
};

const char *owner_total_text(enum owner_total t)
{
	return rows[t].name;
}

struct owners *owners_new(void)
{
	return calloc(1, sizeof(struct owners));
}

static void owner_remove(struct owners *o, struct owner *w)
{
	HASH_DEL(o->by_uid, w); /* NOLINT(clang-analyzer-unix.Malloc): uthash keeps one table for all of them */
	free(w);
}

struct owners *owners_free(struct owners *o)
{
	struct owner *w, *next;

	if (!o)
		return NULL;
	HASH_ITER(hh, o->by_uid, w, next)
		owner_remove(o, w);
	free(o);
	return NULL;
}

static struct owner *owner_find(const struct owners *o, uid_t uid)
{
	struct owner *w = NULL;
	uint32_t key = uid;

	if (o)
		HASH_FIND(hh, o->by_uid, &key, sizeof key, w);
	return w;
}

static struct owner *owner_add(struct owners *o, uid_t uid)
{
	struct owner *w = calloc(1, sizeof *w);

	if (!w)
		abort(); /* totals that are wrong from here on would let some have too much and others nothing */
	w->uid = uid;
	HASH_ADD(hh, o->by_uid, uid, sizeof w->uid, w);
	return w;
}

void owners_set(struct owners *o, uid_t uid, struct owner_share *counted, const struct owner_share *now)
{
	static const struct owner_share nothing;
	struct owner *w;

	if (!o || memcmp(counted, now, sizeof *now) == 0)
		return;
	w = owner_find(o, uid);
	if (!w)
		w = owner_add(o, uid);
	for (int i = 0; i < OWNER_TOTAL__N; i++) {
		uint64_t share = now->of[i] < OWNER_SHARE_MAX ? now->of[i] : OWNER_SHARE_MAX;

		assert(w->totals.of[i] >= counted->of[i]);
		w->totals.of[i] += share - counted->of[i];
		counted->of[i] = share;
	}
	if (memcmp(&w->totals, &nothing, sizeof nothing) == 0)
		owner_remove(o, w);
}

struct owner_share owners_get(const struct owners *o, uid_t uid)
{
	const struct owner *w = owner_find(o, uid);

	return w ? w->totals : (struct owner_share){ 0 };
}

int owners_check(const struct owners *o, uid_t uid, const struct owner_share *limits, const struct owner_share *more, struct err *e)
{
	struct owner_share has = owners_get(o, uid);

	for (int i = 0; o && i < OWNER_TOTAL__N; i++) {
		const struct total_row *row = &rows[i];
		uint64_t share = more->of[i] < OWNER_SHARE_MAX ? more->of[i] : OWNER_SHARE_MAX;

		if (share == 0 || limits->of[i] == 0 || (has.of[i] <= limits->of[i] && share <= limits->of[i] - has.of[i]))
			continue;
		err_set(e, ERR_LIMIT_EXCEEDED, "user %u has %llu %s, and with %llu more there would be more than the %llu that each owner may have (%s): %s, "
			"or ask the administrator for more", (unsigned)uid, (unsigned long long)has.of[i], row->unit, (unsigned long long)share,
			(unsigned long long)limits->of[i], row->key, row->remedy);
		return err_about(e, row->key, -1);
	}
	return 0;
}

size_t owners_count(const struct owners *o)
{
	return o ? HASH_COUNT(o->by_uid) : 0;
}

void owners_each(const struct owners *o, void (*one)(void *ctx, uid_t uid, const struct owner_share *totals), void *ctx, size_t most)
{
	for (const struct owner *w = o ? o->by_uid : NULL; w && most > 0; w = w->hh.next, most--)
		one(ctx, w->uid, &w->totals);
}
