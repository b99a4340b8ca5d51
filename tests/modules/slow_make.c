/* SPDX-License-Identifier: MIT
 *
 * A counter that takes a second to be made, and says when that begins: time for control to be killed while a start is under way. */
#include <time.h>

#include "sandbox_module.h"

struct slow { int64_t count; };
SBX_STATE(slow, struct slow, SBX_FIELD(count));

static int make(struct sbx *x, void *self)
{
	struct timespec rest = { 1, 0 };

	(void)self;
	sbx_log(x, SBX_INFO, "being made");
	while (nanosleep(&rest, &rest) == -1)
		;
	return 0;
}

static int increment(struct sbx *x, void *self)
{
	struct slow *s = self;

	return sbx_put_i64(x, "count", ++s->count);
}

SBX_MODULE(slow, 1, SBX_USES(slow), SBX_FN(increment, ""), SBX_ON_MAKE(make));
