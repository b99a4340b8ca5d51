/* SPDX-License-Identifier: MIT
 *
 * daemon.doctor: what this machine can enforce, what is lost without the rest, and how to get it. The answers are found out by the steps
 * that every host goes through (probe.h), one profile after the other, not by looking at version numbers. Control process, loop thread. */
#ifndef SANDBOXD_DOCTOR_H
#define SANDBOXD_DOCTOR_H

#include <stdbool.h>

#include "daemon/front/rpc.h"

/* METHOD_DAEMON_DOCTOR. One examination at a time; who asks meanwhile is told `busy`. */
const struct rpc_done *daemon_doctor(struct control *c, struct rpc_request *r);
/* The spawner's notice of an exit that belongs to no sandbox: true when it was a probe's. */
bool doctor_exited(struct control *c, const struct spawner_message *m);
/* The daemon ends: who waits for an examination is told `shutting_down`. */
void doctor_shutdown(struct control *c);

#endif
