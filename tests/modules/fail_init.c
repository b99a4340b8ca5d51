/* SPDX-License-Identifier: MIT
 *
 * A module whose init refuses, after a last line of output. */
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
	sbx_log(x, SBX_ERROR, "init: the disk is made of cheese");
	return sbx_fail(x, "cheese", "cannot start on cheese");
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_INIT(hook));
