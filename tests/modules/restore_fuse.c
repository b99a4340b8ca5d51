/* SPDX-License-Identifier: MIT
 *
 * A module like tally that can't be made from a state while the file named in the state is there, or the one with the state's count behind
 * that name: it dies in restore. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SBX_WANT_MINOR 1
#include "sandbox_module.h"

struct tally { int64_t count; char *path; };
SBX_STATE(tally, struct tally, SBX_FIELD(count), SBX_FIELD(path));

static int init(struct sbx *x, void *self)
{
	struct tally *t = self;

	sbx_set_str(x, &t->path, sbx_text(x, sbx_config(x, "path")));
	return 0;
}

/* restore needs it; the table says it all. */
static int save(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_bool(x, "saved", true);
}

static int restore(struct sbx *x, void *self)
{
	const struct tally *t = self;
	char mine[512];

	(void)x;
	(void)snprintf(mine, sizeof mine, "%s.%lld", t->path, (long long)t->count);
	if (access(t->path, F_OK) == 0 || access(mine, F_OK) == 0)
		abort();
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

SBX_MODULE(tally, 1, SBX_USES(tally), SBX_ON_INIT(init), SBX_ON_SAVE(save), SBX_ON_RESTORE(restore),
	SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""));
