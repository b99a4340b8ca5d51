/* SPDX-License-Identifier: MIT
 *
 * The programs that the spawner runs, opened once at start: a package upgrade can't mix versions under a live daemon. Looked
 * for beside sandboxd itself, then where packages put them. Runs in the spawner. */
#ifndef SANDBOXD_PROGRAMS_H
#define SANDBOXD_PROGRAMS_H

#include "proto/err.h"

#ifndef SANDBOXD_LIBEXECDIR
#define SANDBOXD_LIBEXECDIR "/usr/libexec/sandboxd"
#endif
#ifndef SANDBOXD_INCLUDEDIR
#define SANDBOXD_INCLUDEDIR "/usr/include"
#endif

struct programs {
	int control, host; /* O_PATH, for execveat */
	int header;        /* sandbox_module.h, readable */
	uint32_t host_build; /* of the bytes of sandbox-host: tells whether two are the same program; 0: they can't be read */
};

#define PROGRAMS_INIT { -1, -1, -1, 0 }

int programs_open(struct programs *p, struct err *e);
/* Only control's program, to become it: a descriptor. -1 with err. */
int programs_open_control(struct err *e);
void programs_close(struct programs *p);

#endif
