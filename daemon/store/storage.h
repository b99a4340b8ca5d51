/* SPDX-License-Identifier: MIT
 *
 * The one storage thread: whatever blocks (files, fsync, hashing of many bytes) is a job that runs there, in the order
 * submitted; its end is told on the loop. Control starts no other thread. */
#ifndef SANDBOXD_STORAGE_H
#define SANDBOXD_STORAGE_H

#include <uv.h>

#include "proto/err.h"

struct storage;

struct storage_job {
	void (*work)(struct storage_job *job);  /* in the thread: fills status and err; touches only what the job owns */
	void (*done)(struct storage_job *job);  /* on the loop, exactly once, also at shutdown (then status is -1, SHUTTING_DOWN) */
	struct storage_job *next;               /* the queue's */
	int status;                             /* 0, or -1 with err */
	struct err err;
};

int storage_start(uv_loop_t *loop, const char *state_dir, struct storage **ret, struct err *e);
void storage_submit(struct storage *s, struct storage_job *job); /* embedded in its owner, alive until done */
/* Finishes the queue, joins the thread, closes its handles; `stopped` is called on the loop when all is freed. */
void storage_stop(struct storage *s, void (*stopped)(void *ctx), void *ctx);
int storage_dir_fd(const struct storage *s);                     /* the state folder, for jobs' *at calls */

#endif
