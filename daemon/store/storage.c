/* SPDX-License-Identifier: MIT
 *
 * The storage thread. Two lists under one lock: `waiting` (loop -> thread) and `finished` (thread -> loop), and a uv_async
 * that says that something has been finished. Neither list needs a bound of its own: each job lies in an owner that is
 * bounded already, and is in one list at most.
 *
 * Its end: storage_stop lets the thread run what is waiting; jobs submitted from then on go straight to `finished` with
 * SHUTTING_DOWN. The thread's last act is to say that it ends; then it is joined, the async is closed, and the rest is
 * freed in the close callback, after whatever came in until then has been told too. */
#include "daemon/store/storage.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/store/database.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/limits.h"

#define STORAGE_MAGIC 0x73746f72u
#define LAZY_MS       5 /* what comes within it costs one waking of the thread */

struct job_list {
	struct storage_job *first, **last;
};

struct storage {
	unsigned magic;
	int dir_fd;
	struct database *database; /* the thread's */
	uv_thread_t thread;
	uv_async_t async;
	uv_timer_t lazy;          /* of the loop, as what follows up to `lock` */
	unsigned open_handles;
	uv_mutex_t lock;          /* guards the members down to `ended` */
	uv_cond_t wake;
	struct job_list waiting, finished;
	bool has_async, stopping, ended;
	bool is_urgent;           /* there is one among those that wait that doesn't wait for more */
	bool is_closing;          /* loop only, as what follows */
	void (*stopped)(void *ctx);
	void *stopped_ctx;
};

static void list_init(struct job_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

static void list_add(struct job_list *l, struct storage_job *job)
{
	job->next = NULL;
	*l->last = job;
	l->last = &job->next;
}

static struct storage_job *list_take_first(struct job_list *l)
{
	struct storage_job *job = l->first;

	if (!job)
		return NULL;
	l->first = job->next;
	if (!l->first)
		l->last = &l->first;
	job->next = NULL;
	return job;
}

static void list_move(struct job_list *from, struct job_list *to)
{
	list_init(to);
	if (!from->first)
		return;
	*to = *from;
	list_init(from);
}

/* ---- in the thread ---- */

static void job_finished(struct storage *s, struct storage_job *job)
{
	uv_mutex_lock(&s->lock);
	list_add(&s->finished, job);
	(void)uv_async_send(&s->async);
	uv_mutex_unlock(&s->lock);
}

static int write_all_of(struct storage *s, struct storage_job *first, struct err *e)
{
	if (database_begin(s->database, e) == -1)
		return -1;
	for (struct storage_job *job = first; job; job = job->next) {
		job->err = (struct err)ERR_INIT;
		if (job->write(job, s->database) == -1) {
			*e = job->err;
			database_rollback(s->database);
			return -1;
		}
	}
	if (database_commit(s->database, e) == 0)
		return 0;
	database_rollback(s->database);
	return -1;
}

/* The second parts of all that wait for it: together, or, if that fails, each alone, so that one can't take others with it. */
static void commit(struct storage *s, struct job_list *writes)
{
	struct err e = ERR_INIT;
	struct storage_job *job;
	bool together;

	if (!writes->first)
		return;
	if (!s->database)
		(void)err_set(&e, ERR_IO, "the registry isn't open");
	together = s->database && write_all_of(s, writes->first, &e) == 0;
	while ((job = list_take_first(writes))) {
		struct err alone = e;

		if (!together && (!s->database || write_all_of(s, job, &alone) == -1)) {
			job->err = alone;
			job->status = -1;
		}
		job_finished(s, job);
	}
}

static void batch_run(struct storage *s, struct job_list *batch)
{
	struct job_list writes;
	struct storage_job *job;

	list_init(&writes);
	while ((job = list_take_first(batch))) {
		if (job->barrier)
			commit(s, &writes);
		if (job->work)
			job->work(job);
		if (job->write && job->status == 0)
			list_add(&writes, job);
		else
			job_finished(s, job);
	}
	commit(s, &writes);
}

static void thread_main(void *arg)
{
	struct storage *s = arg;
	struct job_list batch;

	uv_mutex_lock(&s->lock);
	for (;;) {
		while (!(s->waiting.first && s->is_urgent) && !s->stopping)
			uv_cond_wait(&s->wake, &s->lock);
		s->is_urgent = false;
		list_move(&s->waiting, &batch);
		if (!batch.first)
			break;
		uv_mutex_unlock(&s->lock);
		batch_run(s, &batch);
		uv_mutex_lock(&s->lock);
	}
	uv_mutex_unlock(&s->lock);
	s->database = database_close(s->database); /* may write: the last checkpoint */
	uv_mutex_lock(&s->lock);
	s->ended = true;
	if (s->has_async)
		(void)uv_async_send(&s->async);
	uv_mutex_unlock(&s->lock);
}

/* ---- on the loop ---- */

/* Not told yet: they come first when the loop has looked at others. */
static void put_back(struct storage *s, struct storage_job *first)
{
	struct storage_job *last = first;

	while (last->next)
		last = last->next;
	uv_mutex_lock(&s->lock);
	last->next = s->finished.first;
	s->finished.first = first;
	if (!last->next)
		s->finished.last = &last->next;
	(void)uv_async_send(&s->async);
	uv_mutex_unlock(&s->lock);
}

/* Tells what had been finished when it was called, for most_us at most (0: all); what `done` submits in turn waits for the next call. */
static void tell_finished(struct storage *s, int64_t most_us)
{
	int64_t began_us = clock_monotonic_us();
	struct storage_job *job, *next;

	uv_mutex_lock(&s->lock);
	job = s->finished.first;
	list_init(&s->finished);
	uv_mutex_unlock(&s->lock);
	for (; job; job = next) {
		next = job->next; /* `done` may free the job, or submit it again */
		job->next = NULL;
		job->done(job);
		if (next && most_us > 0 && clock_monotonic_us() - began_us >= most_us) {
			put_back(s, next);
			return;
		}
	}
}

static void storage_free(struct storage *s)
{
	fd_close(&s->dir_fd);
	uv_cond_destroy(&s->wake);
	uv_mutex_destroy(&s->lock);
	s->magic = 0;
	free(s);
}

static struct storage *storage_of(void *data)
{
	struct storage *s = data;

	assert(s->magic == STORAGE_MAGIC);
	return s;
}

static void on_closed(uv_handle_t *handle)
{
	struct storage *s = storage_of(handle->data);
	void (*stopped)(void *ctx) = s->stopped;
	void *ctx = s->stopped_ctx;

	if (--s->open_handles > 0)
		return;
	while (s->finished.first) /* the thread has gone: no lock needed to look */
		tell_finished(s, 0);
	storage_free(s);
	stopped(ctx);
}

static void on_async(uv_async_t *async)
{
	struct storage *s = storage_of(async->data);
	bool ended;

	uv_mutex_lock(&s->lock);
	ended = s->ended;
	uv_mutex_unlock(&s->lock);
	tell_finished(s, ended ? 0 : LIMIT_TURN_US);
	if (!ended || s->is_closing)
		return;
	(void)uv_thread_join(&s->thread); /* it is on its last lines */
	s->is_closing = true;
	uv_close((uv_handle_t *)&s->lazy, on_closed);
	uv_close((uv_handle_t *)&s->async, on_closed);
}

static void on_lazy(uv_timer_t *timer)
{
	struct storage *s = storage_of(timer->data);

	uv_mutex_lock(&s->lock);
	s->is_urgent = s->waiting.first != NULL;
	if (s->is_urgent)
		uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->lock);
}

/* A new thread inherits the mask: the daemon's signals are the loop's business, and SIGXFSZ becomes an error of write. */
static int thread_start(struct storage *s)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = uv_thread_create(&s->thread, thread_main, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static void ask_to_end(struct storage *s)
{
	uv_mutex_lock(&s->lock);
	s->stopping = true;
	uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->lock);
}

static struct storage *storage_new(void)
{
	struct storage *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->magic = STORAGE_MAGIC;
	s->dir_fd = -1;
	list_init(&s->waiting);
	list_init(&s->finished);
	if (uv_mutex_init(&s->lock) != 0) {
		free(s);
		return NULL;
	}
	if (uv_cond_init(&s->wake) != 0) {
		uv_mutex_destroy(&s->lock);
		free(s);
		return NULL;
	}
	return s;
}

int storage_start(uv_loop_t *loop, const char *state_dir, struct storage **ret, struct err *e)
{
	struct storage *s = storage_new();
	int r;

	if (!s)
		return err_set(e, ERR_INTERNAL, "no memory for the storage thread");
	s->dir_fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd == -1) {
		(void)err_sys(e, ERR_IO, "cannot open the state folder %s", state_dir);
		storage_free(s);
		return -1;
	}
	r = thread_start(s);
	if (r != 0) {
		(void)err_set(e, ERR_INTERNAL, "cannot start the storage thread: %s", uv_strerror(r));
		storage_free(s);
		return -1;
	}
	r = uv_async_init(loop, &s->async, on_async);
	if (r != 0) {
		(void)err_set(e, ERR_INTERNAL, "cannot watch the storage thread: %s", uv_strerror(r));
		ask_to_end(s);
		(void)uv_thread_join(&s->thread);
		storage_free(s);
		return -1;
	}
	(void)uv_timer_init(loop, &s->lazy);
	s->async.data = s->lazy.data = s;
	s->open_handles = 2;
	uv_mutex_lock(&s->lock);
	s->has_async = true;
	uv_mutex_unlock(&s->lock);
	*ret = s;
	return 0;
}

/* Under the lock. */
static void finish(struct storage *s, struct storage_job *job)
{
	list_add(&s->finished, job);
	if (!s->is_closing)
		(void)uv_async_send(&s->async);
}

static void submit(struct storage *s, struct storage_job *job, bool is_urgent)
{
	assert((job->work || job->write) && job->done);
	job->status = 0;
	job->err = (struct err)ERR_INIT;
	uv_mutex_lock(&s->lock);
	if (s->stopping) {
		job->status = err_set(&job->err, ERR_SHUTTING_DOWN, "sandboxd is ending: no more files are written");
		finish(s, job);
	} else {
		list_add(&s->waiting, job);
		if (is_urgent) {
			s->is_urgent = true;
			uv_cond_signal(&s->wake);
		} else if (!uv_is_active((uv_handle_t *)&s->lazy)) {
			(void)uv_timer_start(&s->lazy, on_lazy, LAZY_MS, 0);
		}
	}
	uv_mutex_unlock(&s->lock);
}

void storage_submit(struct storage *s, struct storage_job *job)
{
	submit(s, job, true);
}

void storage_submit_lazily(struct storage *s, struct storage_job *job)
{
	submit(s, job, false);
}

void storage_skip(struct storage *s, struct storage_job *job)
{
	job->status = 0;
	job->err = (struct err)ERR_INIT;
	uv_mutex_lock(&s->lock);
	finish(s, job);
	uv_mutex_unlock(&s->lock);
}

void storage_stop(struct storage *s, void (*stopped)(void *ctx), void *ctx)
{
	assert(!s->stopped && stopped);
	s->stopped = stopped;
	s->stopped_ctx = ctx;
	ask_to_end(s);
}

int storage_dir_fd(const struct storage *s)
{
	return s->dir_fd;
}

struct database *storage_database(const struct storage *s)
{
	return s->database;
}

void storage_set_database(struct storage *s, struct database *d_take)
{
	s->database = d_take;
}
