/* SPDX-License-Identifier: MIT
 *
 * A module like tally whose init fails, crashes, hangs or exits while the file named in its configuration is there: so a first start
 * is good and later ones are not, or the other way round. */
#include <stdlib.h>
#include <unistd.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

static int init(struct sbx *x, void *self)
{
	const char *path = sbx_text(x, sbx_config(x, "path")), *how = sbx_text(x, sbx_config(x, "how"));

	(void)self;
	if (access(path, F_OK) == -1)
		return 0;
	if (strcmp(how, "crash") == 0)
		abort();
	if (strcmp(how, "exit") == 0)
		_exit(0);
	while (strcmp(how, "hang") == 0)
		(void)pause();
	return sbx_fail(x, "blown", "the fuse has blown");
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

static int end(struct sbx *x, void *self)
{
	(void)self;
	_exit((int)sbx_arg_i64(x, "status"));
	return 0;
}

SBX_MODULE(tally, 1, SBX_USES(tally), SBX_ON_INIT(init), SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""),
	SBX_FN_AS("exit", end, "status: i64"));
