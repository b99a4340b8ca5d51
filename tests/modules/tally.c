/* SPDX-License-Identifier: MIT
 *
 * A good module: counts. Its constructor leaves a mark on stderr, so that a test sees when code of the object first ran. */
#include <unistd.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

__attribute__((constructor)) static void mark(void)
{
	static const char text[] = "tally: constructor\n";

	(void)!write(2, text, sizeof text - 1);
}

static int init(struct sbx *x, void *self)
{
	struct tally *t = self;
	struct sbx_val from = sbx_config(x, "from");

	if (sbx_has(from))
		t->count = sbx_i64(x, from);
	sbx_log(x, SBX_INFO, "starts at %lld", (long long)t->count);
	return 0;
}

static int increment(struct sbx *x, void *self)
{
	struct tally *t = self;

	t->count += sbx_arg_i64(x, "by");
	return sbx_put_i64(x, "count", t->count);
}

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	return sbx_put_i64(x, "count", t->count);
}

static int say(struct sbx *x, void *self)
{
	(void)self;
	sbx_log(x, SBX_WARNING, "%s", sbx_arg_str(x, "text"));
	return 0;
}

static int refuse(struct sbx *x, void *self)
{
	(void)self;
	return sbx_fail(x, "not_today", "tally refuses");
}

static int stop(struct sbx *x, void *self)
{
	const struct tally *t = self;

	sbx_log(x, SBX_INFO, "stops at %lld", (long long)t->count);
	return 0;
}

static int unmake(struct sbx *x, void *self)
{
	(void)self;
	sbx_log(x, SBX_INFO, "unmade version 1");
	return 0;
}

SBX_MODULE(tally, 1, SBX_USES(tally), SBX_ON_INIT(init), SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""), SBX_FN(say, "text: str"),
	SBX_FN(refuse, ""), SBX_ON_STOP(stop), SBX_ON_UNMAKE(unmake));
