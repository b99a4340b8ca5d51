/* SPDX-License-Identifier: MIT
 *
 * Says much when it is stopped, and ends by itself; with a child that holds the pipe open where that is asked. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_module.h"

struct farewell { int64_t lines; bool holds; };
SBX_STATE(farewell, struct farewell, SBX_FIELD(lines), SBX_FIELD(holds));

static int prepare(struct sbx *x, void *self)
{
	struct farewell *f = self;

	f->lines = sbx_arg_i64(x, "lines");
	f->holds = sbx_arg_bool(x, "holds");
	return 0;
}

static int stop(struct sbx *x, void *self)
{
	const struct farewell *f = self;

	(void)x;
	if (f->holds && fork() == 0) {
		(void)setsid();
		for (;;)
			(void)pause();
	}
	for (int64_t i = 1; i <= f->lines; i++)
		(void)printf("farewell %lld\n", (long long)i);
	(void)fflush(stdout);
	_exit(0);
}

SBX_MODULE(farewell, 1, SBX_USES(farewell), SBX_FN(prepare, "lines: i64, holds: bool = false"), SBX_ON_STOP(stop));
