/* SPDX-License-Identifier: MIT
 *
 * The table and the blocks of answers. What is shared are rows, the chains of blocks and their bytes; who has which row and which
 * blocks are free is found again from the rows. A row's state is written last and cleared first. */
#include "daemon/front/outcomes.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/utf8.h"

#define MAGIC       0x4f555443u /* also changes with the layout */
#define BLOCK_BYTES 4096u
#define BLOCKS      4096u
#define NO_BLOCK    UINT32_MAX
#define BUCKETS     8192u

struct shared {
	uint32_t magic, n_methods;
	struct outcome rows[LIMIT_OUTCOMES];
	uint32_t next[BLOCKS];      /* of a chain */
	char blocks[BLOCKS][BLOCK_BYTES];
};

_Static_assert(sizeof(struct shared) <= LIMIT_OUTCOMES_BYTES, "the memory is large enough");
_Static_assert(LIMIT_OUTCOME_BYTES <= LIMIT_OUTCOME_BYTES_PER_UID && LIMIT_OUTCOME_BYTES_PER_UID < BLOCKS * BLOCK_BYTES, "one always fits");

/* One user's rows, oldest first. */
struct user {
	uid_t uid;
	unsigned n;
	uint32_t n_blocks;
	TAILQ_HEAD(, local) rows;
	LIST_ENTRY(user) link;
};

/* What this process knows of a row. */
struct local {
	struct user *user;           /* NULL: the row is free */
	uint32_t n_blocks;
	int32_t same_bucket;         /* the next row; -1 */
	TAILQ_ENTRY(local) by_user, by_age;
};

struct outcomes {
	struct shared *m;
	struct local local[LIMIT_OUTCOMES];
	int32_t buckets[BUCKETS];
	uint16_t free_rows[LIMIT_OUTCOMES], free_blocks[BLOCKS];
	size_t n_free_rows, n_free_blocks;
	uint64_t order;
	LIST_HEAD(, user) users;
	TAILQ_HEAD(, local) by_age;  /* all rows in use, oldest first */
};

/* Only a process that looks after this one has been killed sees the order, so the compiler's is enough. */
static void state_set(struct outcome *row, enum outcome_state state)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&row->state, (uint32_t)state, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

size_t outcomes_index(const struct outcomes *o, const struct outcome *row)
{
	size_t i = (size_t)(row - o->m->rows);

	assert(i < LIMIT_OUTCOMES);
	return i;
}

static struct local *local_of(struct outcomes *o, const struct outcome *row)
{
	return &o->local[outcomes_index(o, row)];
}

static struct outcome *row_of(struct outcomes *o, const struct local *l)
{
	return &o->m->rows[l - o->local];
}

static int32_t *bucket_of(struct outcomes *o, uid_t uid, const char *key)
{
	uint32_t h = 2166136261u ^ uid;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return &o->buckets[h % BUCKETS];
}

/* ---- users ---- */

static struct user *user_find(const struct outcomes *o, uid_t uid)
{
	struct user *u;

	LIST_FOREACH(u, &o->users, link)
		if (u->uid == uid)
			return u;
	return NULL;
}

static struct user *user_get(struct outcomes *o, uid_t uid)
{
	struct user *u = user_find(o, uid);

	if (u)
		return u;
	u = calloc(1, sizeof *u);
	if (!u)
		return NULL;
	u->uid = uid;
	TAILQ_INIT(&u->rows);
	LIST_INSERT_HEAD(&o->users, u, link);
	return u;
}

/* ---- rows in use ---- */

static void row_enter(struct outcomes *o, struct outcome *row, struct user *u)
{
	struct local *l = local_of(o, row);
	int32_t *bucket = bucket_of(o, u->uid, row->key);

	l->user = u;
	l->n_blocks = 0;
	l->same_bucket = *bucket;
	*bucket = (int32_t)outcomes_index(o, row);
	u->n++;
	TAILQ_INSERT_TAIL(&u->rows, l, by_user);
	TAILQ_INSERT_TAIL(&o->by_age, l, by_age);
}

static void blocks_free(struct outcomes *o, const struct outcome *row, struct local *l)
{
	uint32_t block = row->first_block;

	for (uint32_t i = 0; i < l->n_blocks; i++, block = o->m->next[block])
		o->free_blocks[o->n_free_blocks++] = (uint16_t)block;
	l->user->n_blocks -= l->n_blocks;
	l->n_blocks = 0;
}

void outcomes_release(struct outcomes *o, struct outcome *row)
{
	struct local *l = local_of(o, row);
	int32_t *at = bucket_of(o, row->uid, row->key), index = (int32_t)outcomes_index(o, row);
	struct user *u = l->user;

	assert(u);
	state_set(row, OUTCOME_NONE);
	while (*at != index)
		at = &o->local[*at].same_bucket;
	*at = l->same_bucket;
	blocks_free(o, row, l);
	TAILQ_REMOVE(&u->rows, l, by_user);
	TAILQ_REMOVE(&o->by_age, l, by_age);
	o->free_rows[o->n_free_rows++] = (uint16_t)index;
	l->user = NULL;
	if (--u->n == 0) {
		LIST_REMOVE(u, link);
		free(u);
	}
}

struct outcome *outcomes_find(struct outcomes *o, uid_t uid, const char *key)
{
	for (int32_t i = *bucket_of(o, uid, key); i >= 0; i = o->local[i].same_bucket)
		if (o->m->rows[i].uid == uid && strcmp(o->m->rows[i].key, key) == 0)
			return &o->m->rows[i];
	return NULL;
}

/* The oldest that is done: of this user, or (NULL) of all. Those at work in front of it are passed: few, they are bounded by what is
 * in flight. */
static bool evict(struct outcomes *o, struct user *u)
{
	struct local *l;

	if (u) {
		TAILQ_FOREACH(l, &u->rows, by_user)
			if (row_of(o, l)->state == OUTCOME_DONE)
				break;
	} else {
		TAILQ_FOREACH(l, &o->by_age, by_age)
			if (row_of(o, l)->state == OUTCOME_DONE)
				break;
	}
	if (l)
		outcomes_release(o, row_of(o, l));
	return l != NULL;
}

int outcomes_begin(struct outcomes *o, const struct outcome *from, struct outcome **ret, struct err *e)
{
	struct user *u = user_find(o, from->uid);
	struct outcome *row;

	assert(!outcomes_find(o, from->uid, from->key));
	if (u && u->n >= LIMIT_OUTCOMES_PER_UID && !evict(o, u))
		return err_set(e, ERR_BUSY, "uid %lu has %u requests with keys at work", (unsigned long)from->uid, u->n);
	if (o->n_free_rows == 0 && !evict(o, NULL))
		return err_set(e, ERR_BUSY, "%d requests with keys are at work", LIMIT_OUTCOMES);
	u = user_get(o, from->uid); /* again: it may have gone with its last row */
	if (!u)
		return err_set(e, ERR_BUSY, "no memory for a request with a key");
	row = &o->m->rows[o->free_rows[--o->n_free_rows]];
	*row = *from;
	row->state = OUTCOME_NONE;
	row->order = ++o->order;
	row->first_block = NO_BLOCK;
	row->size = 0;
	state_set(row, OUTCOME_RUNNING);
	row_enter(o, row, u);
	*ret = row;
	return 0;
}

void outcomes_number(struct outcome *row, uint64_t number)
{
	__atomic_store_n(&row->number, number, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* ---- answers ---- */

static uint32_t blocks_for(size_t size)
{
	return (uint32_t)((size + BLOCK_BYTES - 1) / BLOCK_BYTES);
}

bool outcomes_done(struct outcomes *o, struct outcome *row, bool is_error, const char *json, size_t size)
{
	struct local *l = local_of(o, row);
	uint32_t n = blocks_for(size), *link = &row->first_block;

	assert(row->state == OUTCOME_RUNNING && l->user);
	if (size == 0 || size > LIMIT_OUTCOME_BYTES)
		return false;
	while ((l->user->n_blocks + n) * BLOCK_BYTES > LIMIT_OUTCOME_BYTES_PER_UID)
		if (!evict(o, l->user))
			return false; /* can't be: without outcomes it has no blocks */
	while (o->n_free_blocks < n)
		if (!evict(o, NULL))
			return false; /* nor this */
	for (uint32_t i = 0; i < n; i++) {
		size_t at = (size_t)i * BLOCK_BYTES, part = size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES;
		uint32_t block = o->free_blocks[--o->n_free_blocks];

		memcpy(o->m->blocks[block], json + at, part);
		*link = block;
		link = &o->m->next[block];
	}
	row->is_error = is_error;
	row->size = (uint32_t)size;
	l->n_blocks = n;
	l->user->n_blocks += n;
	state_set(row, OUTCOME_DONE);
	return true;
}

void outcomes_read(const struct outcomes *o, const struct outcome *row, struct buf *to)
{
	uint32_t block = row->first_block;

	for (size_t at = 0; at < row->size; at += BLOCK_BYTES, block = o->m->next[block])
		buf_add(to, o->m->blocks[block], row->size - at < BLOCK_BYTES ? row->size - at : BLOCK_BYTES);
}

struct outcome *outcomes_running(struct outcomes *o, const struct outcome *after)
{
	for (size_t i = after ? outcomes_index(o, after) + 1 : 0; i < LIMIT_OUTCOMES; i++)
		if (o->local[i].user && o->m->rows[i].state == OUTCOME_RUNNING)
			return &o->m->rows[i];
	return NULL;
}

/* ---- found again ---- */

static bool is_text(const char *text, size_t room, size_t least)
{
	size_t n = strnlen(text, room);

	if (n == room || n < least)
		return false;
	for (size_t i = 0; i < n;) {
		size_t step = utf8_sequence(text + i, n - i);

		if (step == 0 || (unsigned char)text[i] < 0x20)
			return false;
		i += step;
	}
	return true;
}

/* Takes the blocks of a row out of `is_free`; false: the chain can't be one. */
static bool chain_take(const struct shared *m, const struct outcome *row, bool is_free[BLOCKS])
{
	uint32_t n = blocks_for(row->size), block = row->first_block;

	if (row->size == 0 || row->size > LIMIT_OUTCOME_BYTES)
		return false;
	for (uint32_t i = 0; i < n; i++, block = m->next[block]) {
		if (block >= BLOCKS || !is_free[block])
			return false; /* what it took so far is lost to this process: only damaged memory comes here */
		is_free[block] = false;
	}
	return true;
}

static bool row_is_good(const struct shared *m, const struct outcome *row, bool is_free[BLOCKS])
{
	if (row->state != OUTCOME_RUNNING && row->state != OUTCOME_DONE)
		return false;
	if (!is_text(row->key, sizeof row->key, 1) || !is_text(row->sandbox, sizeof row->sandbox, 0) ||
		!is_text(row->function, sizeof row->function, 0) || row->method >= METHOD__N)
		return false;
	return row->state == OUTCOME_RUNNING || chain_take(m, row, is_free);
}

static int by_order(const void *a, const void *b)
{
	const struct outcome *x = *(struct outcome *const *)a, *y = *(struct outcome *const *)b;

	return x->order < y->order ? -1 : x->order > y->order;
}

static int load(struct outcomes *o, struct err *e)
{
	static struct outcome *found[LIMIT_OUTCOMES];
	bool is_free[BLOCKS];
	size_t n = 0;

	memset(is_free, true, sizeof is_free);
	for (size_t i = LIMIT_OUTCOMES; i-- > 0;) {
		struct outcome *row = &o->m->rows[i];

		if (row_is_good(o->m, row, is_free))
			found[n++] = row;
		else
			state_set(row, OUTCOME_NONE);
	}
	qsort(found, n, sizeof found[0], by_order);
	for (size_t i = 0; i < n; i++) {
		struct user *u = outcomes_find(o, found[i]->uid, found[i]->key) ? NULL : user_get(o, found[i]->uid);

		if (!u)
			return err_set(e, ERR_INTERNAL, "the kept outcomes of keyed requests can't be read");
		row_enter(o, found[i], u);
		if (found[i]->state == OUTCOME_DONE)
			u->n_blocks += local_of(o, found[i])->n_blocks = blocks_for(found[i]->size);
		o->order = found[i]->order;
	}
	for (size_t i = LIMIT_OUTCOMES; i-- > 0;)
		if (!o->local[i].user)
			o->free_rows[o->n_free_rows++] = (uint16_t)i;
	for (size_t i = BLOCKS; i-- > 0;)
		if (is_free[i])
			o->free_blocks[o->n_free_blocks++] = (uint16_t)i;
	return 0;
}

static void clear(struct outcomes *o)
{
	for (size_t i = 0; i < LIMIT_OUTCOMES; i++)
		state_set(&o->m->rows[i], OUTCOME_NONE);
	o->m->magic = MAGIC;
	o->m->n_methods = METHOD__N;
}

static void init(struct outcomes *o)
{
	memset(o->local, 0, sizeof o->local);
	for (size_t i = 0; i < BUCKETS; i++)
		o->buckets[i] = -1;
	o->n_free_rows = o->n_free_blocks = 0;
	o->order = 0;
	TAILQ_INIT(&o->by_age);
}

static void users_free(struct outcomes *o)
{
	struct user *u;

	while ((u = LIST_FIRST(&o->users))) {
		LIST_REMOVE(u, link);
		free(u);
	}
}

int outcomes_open(int fd_take, struct outcomes **ret, struct err *e)
{
	autoclose int fd = fd_take;
	int seals = fcntl(fd, F_GET_SEALS);
	struct outcomes *o;
	struct stat st;

	if (seals == -1 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) || fstat(fd, &st) == -1 ||
		st.st_size != LIMIT_OUTCOMES_BYTES)
		return err_set(e, ERR_INTERNAL, "the memory for outcomes isn't what the spawner makes");
	o = calloc(1, sizeof *o);
	if (!o)
		return err_set(e, ERR_INTERNAL, "no memory for the outcomes of keyed requests");
	o->m = FAULT(OUTCOMES_MAP) ? MAP_FAILED : mmap(NULL, sizeof *o->m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (o->m == MAP_FAILED) {
		free(o);
		return err_sys(e, ERR_INTERNAL, "cannot map the outcomes of keyed requests");
	}
	LIST_INIT(&o->users);
	init(o);
	if (o->m->magic != MAGIC || o->m->n_methods != METHOD__N)
		clear(o);
	if (load(o, e) == -1) {
		users_free(o);
		init(o);
		clear(o);
		if (load(o, e) == -1)
			return outcomes_close(o), -1;
	}
	*ret = o;
	return 0;
}

struct outcomes *outcomes_close(struct outcomes *o)
{
	if (!o)
		return NULL;
	users_free(o);
	(void)munmap(o->m, sizeof *o->m);
	free(o);
	return NULL;
}
