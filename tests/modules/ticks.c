/* SPDX-License-Identifier: MIT
 *
 * Its state changes by itself: a timer counts, from the first start on. */
#define SBX_WANT_MINOR 1
#include "sandbox_module.h"

struct ticks { int64_t count; };
SBX_STATE(ticks, struct ticks, SBX_FIELD(count));

static int tick(struct sbx *x, void *self)
{
	struct ticks *t = self;

	(void)x;
	t->count++;
	return 0;
}

static int init(struct sbx *x, void *self)
{
	(void)self;
	return sbx_every(x, "tick", 5);
}

static int get(struct sbx *x, void *self)
{
	const struct ticks *t = self;

	return sbx_put_i64(x, "count", t->count);
}

SBX_MODULE(ticks, 1, SBX_USES(ticks), SBX_ON_INIT(init), SBX_TIMER(tick), SBX_FN(get, ""));
