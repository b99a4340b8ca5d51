/* SPDX-License-Identifier: MIT
 *
 * A counter whose newest version follows a null pointer while it takes the old state over: what the demo offers to
 * show that the rehearsal finds it and the old version serves on. */
#include <sandbox_module.h>

struct counter {
	int64_t count;
};
SBX_STATE(counter, struct counter, SBX_FIELD(count), SBX_WAS("total"));

static int migrate(struct sbx *x, void *self)
{
	volatile int64_t *nowhere = (volatile int64_t *)(uintptr_t)16;

	(void)x;
	*nowhere = ((struct counter *)self)->count;
	return 0;
}

static int get(struct sbx *x, void *self)
{
	return sbx_put_i64(x, "count", ((struct counter *)self)->count);
}

SBX_MODULE(counter, 3, SBX_USES(counter), SBX_FN(get, ""), SBX_ON_MIGRATE(migrate));
