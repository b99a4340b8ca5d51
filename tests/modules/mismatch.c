/* SPDX-License-Identifier: MIT
 *
 * A candidate for tally whose state can't be restored: count became a text. */
#include "sandbox_module.h"

struct tally { char count[16]; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return sbx_put_str(x, "count", t->count);
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""));
