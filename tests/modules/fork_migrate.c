/* SPDX-License-Identifier: MIT
 *
 * A candidate for tally whose migrate leaves a grandchild that holds every descriptor, then crashes. */
#include <stdlib.h>
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
	if (fork() == 0) {
		alarm(20);
		for (;;)
			pause();
	}
	abort();
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""), SBX_ON_MIGRATE(hook));
