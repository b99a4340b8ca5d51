/* SPDX-License-Identifier: MIT
 *
 * A candidate for tally that behaves in a rehearsal, whose copy has no channel, and dies of a SIGSEGV when it is loaded in earnest. */
#include <fcntl.h>

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
	volatile int *nowhere = (volatile int *)64;

	(void)x, (void)self;
	if (fcntl(3, F_GETFD) != -1)
		*nowhere = 1;
	return 0;
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_MIGRATE(hook));
