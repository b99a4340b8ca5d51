/* SPDX-License-Identifier: MIT
 *
 * A candidate for tally whose check refuses every state. */
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
	const struct tally *t = self;

	return sbx_fail(x, "insane", "a count of %lld can't be", (long long)t->count);
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_CHECK(hook));
