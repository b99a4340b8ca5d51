/* SPDX-License-Identifier: MIT
 *
 * Its function returns at once, and the host's loop stands all the same: a handler of a signal never returns. */
#include <signal.h>
#include <sys/time.h>

#include "sandbox_module.h"

static void stick_here(int number)
{
	(void)number;
	for (;;)
		continue;
}

static int stick(struct sbx *x, void *self)
{
	struct itimerval soon = { { 0, 0 }, { 0, 1000 } };
	struct sigaction act = { .sa_handler = stick_here };

	(void)self;
	(void)sigaction(SIGALRM, &act, NULL);
	(void)setitimer(ITIMER_REAL, &soon, NULL);
	return sbx_put_i64(x, "stuck", 1);
}

SBX_MODULE(stubborn_loop, 1, SBX_FN(stick, ""));
