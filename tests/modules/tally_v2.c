/* SPDX-License-Identifier: MIT
 *
 * The next version of tally: a renamed field, a new one with a default, migrate and check. */
#include "sandbox_module.h"

struct tally { int64_t total; int32_t step; int32_t migrated_from; };
SBX_STATE(tally, struct tally, SBX_FIELD(total), SBX_WAS("count"), SBX_FIELD(step), SBX_DEFAULT(10), SBX_FIELD(migrated_from));

static int migrate(struct sbx *x, void *self)
{
	struct tally *t = self;

	t->migrated_from = (int32_t)sbx_old_version(x);
	return 0;
}

static int check(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return t->step > 0 ? 0 : sbx_fail(x, "bad_step", "a step of %d", t->step);
}

static int increment(struct sbx *x, void *self)
{
	struct tally *t = self;

	t->total += sbx_arg_i64(x, "by") * t->step;
	return sbx_put_i64(x, "count", t->total);
}

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	sbx_put_i64(x, "migrated_from", t->migrated_from);
	return sbx_put_i64(x, "count", t->total);
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""), SBX_ON_MIGRATE(migrate), SBX_ON_CHECK(check));
