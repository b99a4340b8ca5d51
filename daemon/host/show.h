/* SPDX-License-Identifier: MIT
 *
 * Looking at a state, the present one or a sealed one: by a forked copy, while calls go on. Runs in copies of sandbox-host only. */
#ifndef SANDBOXD_HOST_SHOW_H
#define SANDBOXD_HOST_SHOW_H

#include "daemon/host/copy.h"
#include "daemon/host/host.h"

struct show {
	struct host *host;
	enum show_what what;
	int state_fd; /* a sealed state; -1: the present one */
};

void show_run(void *ctx /* struct show */, struct copy_answer *answer); /* HOST_SHOWN's body */

#endif
