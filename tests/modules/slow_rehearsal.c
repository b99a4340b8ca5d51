/* SPDX-License-Identifier: MIT
 *
 * A candidate for sleeper whose rehearsal (a copy without a channel) takes half a second: time for calls to begin meanwhile. */
#include <fcntl.h>
#include <time.h>

#include "sandbox_module.h"

struct sleeper { int64_t naps; };
SBX_STATE(sleeper, struct sleeper, SBX_FIELD(naps));

static void rest_ms(int64_t ms)
{
	struct timespec rest = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&rest, &rest) == -1)
		;
}

static int migrate(struct sbx *x, void *self)
{
	(void)x, (void)self;
	if (fcntl(3, F_GETFD) == -1)
		rest_ms(500);
	return 0;
}

static int sleep_ms(struct sbx *x, void *self)
{
	struct sleeper *s = self;

	s->naps++;
	rest_ms(sbx_arg_i64(x, "ms"));
	return sbx_put_i64(x, "naps", s->naps);
}

SBX_MODULE(sleeper, 2, SBX_USES(sleeper), SBX_FN_AS("sleep", sleep_ms, "ms: i64"), SBX_ON_MIGRATE(migrate));
