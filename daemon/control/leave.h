/* SPDX-License-Identifier: MIT
 *
 * The upgrade of the daemon as control sees it: who asked for it waits for the spawner's word; then this process ends, and the next one, the new
 * program's, takes over as after a kill. What is due is answered first, and what the storage thread has is written. Loop thread only. */
#ifndef SANDBOXD_LEAVE_H
#define SANDBOXD_LEAVE_H

#include "daemon/control/control.h"
#include "daemon/front/rpc.h"

rpc_handler daemon_upgrade; /* METHOD_DAEMON_UPGRADE */
void upgrade_goes(struct control *c);                   /* SPAWNER_UPGRADE_GOES */
void upgrade_refused(struct control *c, int reason_fd); /* SPAWNER_UPGRADE_REFUSED; borrowed */
/* This process serves: if it is the first of a new program, that is an event. */
void upgrade_done(struct control *c);

#endif
