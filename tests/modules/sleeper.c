/* SPDX-License-Identifier: MIT
 *
 * Functions that take their time. */
#include <time.h>

#include "sandbox_module.h"

struct sleeper { int64_t naps; };
SBX_STATE(sleeper, struct sleeper, SBX_FIELD(naps));

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int nap(struct sbx *x, bool wakes)
{
	int64_t until = now_ms() + sbx_arg_i64(x, "ms");

	for (int64_t left; (left = until - now_ms()) > 0;) {
		struct timespec rest = { left / 1000, left % 1000 * 1000000 };

		if (wakes && sbx_stop_asked(x))
			return sbx_fail(x, "cancelled", "woken %lld ms early", (long long)left);
		(void)nanosleep(&rest, NULL); /* the attention signal interrupts it */
	}
	return 0;
}

/* Sleeps whatever comes. */
static int sleep_ms(struct sbx *x, void *self)
{
	struct sleeper *s = self;

	s->naps++;
	return nap(x, false) ? -1 : sbx_put_i64(x, "naps", s->naps);
}

/* Ends early, with an error, when asked to. */
static int doze(struct sbx *x, void *self)
{
	struct sleeper *s = self;

	s->naps++;
	return nap(x, true) ? -1 : sbx_put_i64(x, "naps", s->naps);
}

SBX_MODULE(sleeper, 1, SBX_USES(sleeper), SBX_FN_AS("sleep", sleep_ms, "ms: i64"), SBX_FN(doze, "ms: i64"));
