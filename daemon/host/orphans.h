/* SPDX-License-Identifier: MIT
 *
 * A pid 1's duty: whatever a module's processes leave behind becomes the host's child, and would stay a zombie, one of max_processes, to
 * its end. Reaped between calls, a bounded number in a turn. No signal handler: code that sleeps isn't woken by its children's ends.
 * Children of other threads are theirs. Host process; elsewhere orphans go to the spawner. */
#ifndef SANDBOXD_HOST_ORPHANS_H
#define SANDBOXD_HOST_ORPHANS_H

#include <stdint.h>
#include <sys/types.h>

void orphans_watch(void);          /* once, before any fork; hosts inherit it from their zygote */
int64_t orphans_due_us(void);      /* monotonic time of the next look; INT64_MAX: there is nobody to wait for */
/* Those that have ended, but for the host's own copies, which are waited for by name (0: none). */
void orphans_reap(pid_t copy, pid_t other_copy, int64_t now_us);

#endif
