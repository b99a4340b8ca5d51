/* SPDX-License-Identifier: MIT
 *
 * The orderly end of the daemon: all sandboxes stop, clients get their answers, then the spawner is told. Loop thread only. */
#ifndef SANDBOXD_SHUTDOWN_H
#define SANDBOXD_SHUTDOWN_H

#include <stdint.h>

#include "daemon/control/control.h"

/* asked: how often (1 orderly, 2 and more: whatever still lives is killed). */
void shutdown_begin(struct control *c, uint64_t asked);
struct sandbox;
/* One sandbox's orderly stop for the daemon's end; a group does it in its order. */
void shutdown_stop(struct sandbox *sb);
/* A process has ended: when it was the last, the end goes on. Does nothing while the daemon isn't shutting down. */
void shutdown_step(struct control *c);

#endif
