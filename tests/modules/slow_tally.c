/* SPDX-License-Identifier: MIT
 *
 * A module like tally that takes its time for an increment, so that one can be cut in the middle; `log` leaves a line. */
#include <time.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

static int increment(struct sbx *x, void *self)
{
	struct tally *t = self;
	int64_t us = sbx_arg_i64(x, "us");
	struct timespec rest = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&rest, &rest) == -1)
		;
	t->count += sbx_arg_i64(x, "by");
	return sbx_put_i64(x, "count", t->count);
}

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return sbx_put_i64(x, "count", t->count);
}

static int say(struct sbx *x, void *self)
{
	(void)self;
	sbx_log(x, SBX_INFO, "%s", sbx_arg_str(x, "text"));
	return 0;
}

#ifndef STATE_VERSION
#define STATE_VERSION 1
#endif

SBX_MODULE(tally, STATE_VERSION, SBX_USES(tally), SBX_FN(increment, "by: i64 = 1, us: i64 = 0"), SBX_FN(get, ""), SBX_FN(say, "text: str"));
