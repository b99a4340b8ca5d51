/* SPDX-License-Identifier: MIT
 *
 * The counter's second version: `count` is called `total` now (and still found, both ways, by SBX_WAS); `step` and
 * `owner` are new and start with their defaults. */
#include <sandbox_module.h>
#include <time.h>

struct counter {
	int64_t total;
	int32_t step;
	char owner[16];
};
SBX_STATE(counter, struct counter,
	SBX_FIELD(total), SBX_WAS("count"),
	SBX_FIELD(step), SBX_DEFAULT(1), SBX_RANGE(1, 1000),
	SBX_FIELD(owner), SBX_DEFAULT_S("nobody"));

static int increment(struct sbx *x, void *self)
{
	struct counter *c = self;

	c->total += sbx_arg_i64(x, "by") * c->step;
	return sbx_put_i64(x, "count", c->total);
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

	sbx_put_i64(x, "count", c->total);
	sbx_put_i64(x, "step", c->step);
	return sbx_put_str(x, "owner", c->owner);
}

static int set_step(struct sbx *x, void *self)
{
	struct counter *c = self;
	int64_t step = sbx_arg_i64(x, "step");

	if (step < 1 || step > 1000)
		return sbx_fail(x, "bad_step", "a step is 1 to 1000");
	c->step = (int32_t)step;
	sbx_log(x, SBX_INFO, "the step is %d now", (int)c->step);
	return sbx_put_i64(x, "step", c->step);
}

SBX_MODULE(counter, 2, SBX_USES(counter), SBX_FN(increment, "by: i64 = 1"),
	SBX_FN(work, "us: i64, by: i64 = 1"), SBX_FN(get, ""), SBX_FN(set_step, "step: i64"));
