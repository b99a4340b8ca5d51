/* SPDX-License-Identifier: MIT
 *
 * A module whose second version (trial_v2.c) can die of its own code, and whose third (trial_v3.c) is as good as the first. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

#ifndef TRIAL_VERSION
#define TRIAL_VERSION 1
#endif

struct trial { int64_t count; };
SBX_STATE(trial, struct trial, SBX_FIELD(count));

static int increment(struct sbx *x, void *self)
{
	struct trial *t = self;

	t->count += sbx_arg_i64(x, "by");
	return sbx_put_i64(x, "count", t->count);
}

static int get(struct sbx *x, void *self)
{
	const struct trial *t = self;

	sbx_put_i64(x, "code", TRIAL_VERSION);
	return sbx_put_i64(x, "count", t->count);
}

static int die(struct sbx *x, void *self)
{
	int number = (int)sbx_arg_i64(x, "signal");

	(void)self;
	if (number == 0)
		_exit(3);
	if (number == SIGABRT)
		abort();
	raise(number);
	return 0;
}

#ifdef TRIAL_SLOW
/* A rehearsal that takes a second, and a load that doesn't: descriptor 3 is the channel, which only the host itself has. */
static int check(struct sbx *x, void *self)
{
	struct timespec second = { 1, 0 };

	(void)x, (void)self;
	if (fcntl(3, F_GETFD) == -1)
		nanosleep(&second, NULL);
	return 0;
}
SBX_MODULE(trial, 1, SBX_USES(trial), SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""), SBX_FN(die, "signal: i64"), SBX_ON_CHECK(check));
#else
SBX_MODULE(trial, 1, SBX_USES(trial), SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""), SBX_FN(die, "signal: i64"));
#endif
