/* SPDX-License-Identifier: MIT
 *
 * An object whose constructor dies of a SIGSEGV inside dlopen. */
#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

__attribute__((constructor)) static void crash(void)
{
	volatile int *nowhere = (volatile int *)48;

	*nowhere = 1;
}

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return sbx_put_i64(x, "count", t->count);
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""));
