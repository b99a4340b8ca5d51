/* SPDX-License-Identifier: MIT
 *
 * Each object of it stays mapped: a destructor of the thread, which never ends, holds it. As C++ does for a thread_local with a destructor. */
#include "sandbox_module.h"

extern int __cxa_thread_atexit_impl(void (*destroy)(void *), void *of, void *dso);
extern void *__dso_handle __attribute__((visibility("hidden")));

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

static void destroy(void *of)
{
	(void)of;
}

static int make(struct sbx *x, void *self)
{
	(void)x;
	return __cxa_thread_atexit_impl(destroy, self, &__dso_handle);
}

static int increment(struct sbx *x, void *self)
{
	struct tally *t = self;

	return sbx_put_i64(x, "count", ++t->count);
}

SBX_MODULE(tally, 1, SBX_USES(tally), SBX_FN(increment, ""), SBX_ON_MAKE(make));
