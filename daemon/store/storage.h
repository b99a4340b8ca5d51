/* SPDX-License-Identifier: MIT
 *
 * The one storage thread: whatever blocks (files, fsync, hashing of many bytes) is a job that runs there, in the order
 * submitted; its end is told on the loop. Control starts no other thread.
 *
 * A job may have a second part, `write`: its writes to the registry. The thread takes all jobs that wait, runs the first part of each in
 * order, and then the second parts, in order, as one transaction: one fsync for all of them, and none is told before it. If the
 * transaction fails, each is tried alone. A `barrier` job runs when all writes before it are committed, and before any later work. */
#ifndef SANDBOXD_STORAGE_H
#define SANDBOXD_STORAGE_H

#include <stdbool.h>
#include <uv.h>

#include "proto/err.h"

struct storage;
struct database; /* daemon/store/database.h */

struct storage_job {
	void (*work)(struct storage_job *job);  /* in the thread: fills status and err; touches only what the job owns. NULL: nothing */
	/* In the thread, within a transaction, when work went well; 0, or -1 with job->err: the transaction is rolled back. May run twice. */
	int (*write)(struct storage_job *job, struct database *d);
	bool barrier;
	void (*done)(struct storage_job *job);  /* on the loop, exactly once, also at shutdown (then status is -1, SHUTTING_DOWN) */
	struct storage_job *next;               /* the queue's */
	int status;                             /* 0, or -1 with err */
	struct err err;
};

int storage_start(uv_loop_t *loop, const char *state_dir, struct storage **ret, struct err *e);
void storage_submit(struct storage *s, struct storage_job *job); /* embedded in its owner, alive until done */
/* The same, but the thread is not woken for it: it runs before the next that is submitted, or in a few milliseconds. */
void storage_submit_lazily(struct storage *s, struct storage_job *job);
/* There is nothing to be done in the thread: told on the loop, as the others are, and later. */
void storage_skip(struct storage *s, struct storage_job *job);
/* Finishes the queue, joins the thread, closes its handles; `stopped` is called on the loop when all is freed. */
void storage_stop(struct storage *s, void (*stopped)(void *ctx), void *ctx);
int storage_dir_fd(const struct storage *s);                     /* the state folder, for jobs' *at calls */
/* For work functions only, which run in the thread: the registry, which one of them has opened. Closed when the thread ends. */
struct database *storage_database(const struct storage *s);
void storage_set_database(struct storage *s, struct database *d_take);

#endif
