/* SPDX-License-Identifier: MIT
 *
 * Policy `checkpoint call`: the state is saved before each reply is sent, into memory that outlives this process (proto/mirror.h). Only
 * declared state, by our own reader: a save that ran module code could do anything, and would take its time. A state that can't be saved
 * so is never passed over: a start or a reload is refused for it, a call that led to it is answered with an error. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_MIRROR_H
#define SANDBOXD_HOST_MIRROR_H

#include <stdbool.h>

#include "daemon/host/host.h"

/* HOST_MIRROR: from the START that follows on. */
void mirror_serve(struct host *h, const struct host_message *head, const char *body, int state_fd);
/* Can this instance's state be saved so at all? 0 without a mirror. */
int mirror_accepts(const struct host *h, struct module_instance *m, struct err *e);
/* Saves it. -1: the newest half is as it was; LIMIT_EXCEEDED or STATE_MISMATCH. Without a mirror: 0. */
int mirror_save(struct host *h, struct module_instance *m, struct err *e);

#endif
