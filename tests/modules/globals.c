/* SPDX-License-Identifier: MIT
 *
 * Two versions in one: variables beside the state, which begin afresh at each reload. */
#include "sandbox_module.h"

struct globals { int64_t count; };
SBX_STATE(globals, struct globals, SBX_FIELD(count));

static const int64_t step = 1; /* this one nobody writes */
static int64_t calls_served = 100;
static char last_caller[24];
static _Thread_local int depth;

static int increment(struct sbx *x, void *self)
{
	static unsigned times;
	struct globals *g = self;

	depth++;
	times++;
	last_caller[0] = 'x';
	g->count += *(const volatile int64_t *)&step;
	sbx_put_i64(x, "served", ++calls_served);
	sbx_put_u64(x, "times", times);
	sbx_put_i64(x, "count", g->count);
	depth--;
	return 0;
}

SBX_MODULE(globals, 1, SBX_USES(globals), SBX_FN(increment, ""));
