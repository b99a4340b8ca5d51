/* SPDX-License-Identifier: MIT
 *
 * The smallest useful module: one number that survives reloads. */
#include <sandbox_module.h>
#include <time.h>

struct counter {
	int64_t count;
};
SBX_STATE(counter, struct counter, SBX_FIELD(count));

static int increment(struct sbx *x, void *self)
{
	struct counter *c = self;

	c->count += sbx_arg_i64(x, "by");
	return sbx_put_i64(x, "count", c->count);
}

/* An increment that takes its time: what a reload has to wait for. */
static int work(struct sbx *x, void *self)
{
	struct timespec left = { 0, (long)sbx_arg_i64(x, "us") * 1000 };

	if (left.tv_nsec < 0 || left.tv_nsec > 999999000)
		return sbx_fail(x, "bad_time", "us is 0 to 999999");
	while (nanosleep(&left, &left) != 0)
		; /* the signal of a reload interrupts it; this one doesn't hurry */
	return increment(x, self);
}

static int get(struct sbx *x, void *self)
{
	struct counter *c = self;

	return sbx_put_i64(x, "count", c->count);
}

SBX_MODULE(counter, 1, SBX_USES(counter), SBX_FN(increment, "by: i64 = 1"), SBX_FN(work, "us: i64, by: i64 = 1"), SBX_FN(get, ""));
