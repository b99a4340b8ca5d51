/* SPDX-License-Identifier: MIT
 *
 * The host's loop: one message at a time, in order, and the end of copies. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_SERVE_H
#define SANDBOXD_HOST_SERVE_H

#include "daemon/host/host.h"

void serve_init(struct host *h, int channel_fd);
void serve(struct host *h); /* until HOST_STOP is answered */
void serve_fini(struct host *h);

/* A handler borrows everything; body is NUL-terminated; state_fd -1: none came. */
typedef void serve_fn(struct host *h, const struct host_message *head, const char *body, int state_fd);

serve_fn life_begin, life_stage, life_start, life_stop;                                    /* life.c */
serve_fn txn_rehearse, txn_prepare, txn_quiesce, txn_save, txn_load, txn_commit, txn_abort; /* txn.c */
serve_fn show_serve;                                                           /* show.c */
void show_progress(struct host *h, int64_t now_us);
void txn_progress(struct host *h, int64_t now_us); /* answers for copies that have ended */

#endif
