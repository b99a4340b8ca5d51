/* SPDX-License-Identifier: MIT
 *
 * What a spare does while it waits, so that its start needn't: a process that was just cloned pays for each page that it touches first. */
#ifndef SANDBOXD_HOST_WARM_H
#define SANDBOXD_HOST_WARM_H

/* Behind the walls, before anything is known of a sandbox. Failures don't matter: all of it is only done earlier. */
void warm_up(void);

#endif
