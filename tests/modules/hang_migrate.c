/* SPDX-License-Identifier: MIT
 *
 * A candidate for tally whose migrate never ends. */
#include <unistd.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return sbx_put_i64(x, "count", t->count);
}

static int hook(struct sbx *x, void *self)
{
	(void)x, (void)self;
	for (;;)
		(void)pause();
	return 0;
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_MIGRATE(hook));
