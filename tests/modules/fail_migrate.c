/* SPDX-License-Identifier: MIT
 *
 * A candidate for tally whose migrate refuses. */
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
	(void)self;
	return sbx_fail(x, "no_way", "version %u is too old", sbx_old_version(x));
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_MIGRATE(hook));
