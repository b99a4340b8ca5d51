/* SPDX-License-Identifier: MIT
 *
 * Functions that run longer than they may: one that never looks, one that looks, one that sleeps, one that lets no signal in. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct overruns { int64_t n; };
SBX_STATE(overruns, struct overruns, SBX_FIELD(n));

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int spin(struct sbx *x, void *self)
{
	int64_t end = now_ms() + sbx_arg_i64(x, "ms");

	(void)self;
	while (now_ms() < end)
		continue;
	return sbx_put_i64(x, "done", 1);
}

static int heed(struct sbx *x, void *self)
{
	int64_t end = now_ms() + sbx_arg_i64(x, "ms");

	(void)self;
	while (now_ms() < end)
		if (sbx_stop_asked(x))
			return sbx_fail(x, "cancelled", "told to end");
	return sbx_put_i64(x, "done", 1);
}

static int nap(struct sbx *x, void *self)
{
	struct timespec t = { sbx_arg_i64(x, "ms") / 1000, 0 };

	(void)self;
	if (nanosleep(&t, NULL) < 0)
		return sbx_fail(x, "interrupted", "woken up");
	return sbx_put_i64(x, "done", 1);
}

static int deaf(struct sbx *x, void *self)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	return spin(x, self);
}

static int increment(struct sbx *x, void *self)
{
	struct overruns *o = self;

	return sbx_put_i64(x, "n", ++o->n);
}

/* Was this call told to end? It takes a while, as the next ones do that wait behind one that was. */
static int asked(struct sbx *x, void *self)
{
	int64_t end = now_ms() + 20;
	bool told = false;

	(void)self;
	while (now_ms() < end)
		told = told || sbx_stop_asked(x);
	return sbx_put_bool(x, "told", told);
}

SBX_MODULE(overruns, 1, SBX_USES(overruns), SBX_FN(spin, "ms: i64"), SBX_FN(heed, "ms: i64"), SBX_FN(nap, "ms: i64"), SBX_FN(deaf, "ms: i64"),
	SBX_FN(increment, ""), SBX_FN(asked, ""));
