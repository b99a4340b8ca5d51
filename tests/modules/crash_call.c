/* SPDX-License-Identifier: MIT
 *
 * Every way to die in a call. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox_module.h"

struct crash { int64_t calls; };
SBX_STATE(crash, struct crash, SBX_FIELD(calls));

__attribute__((visibility("default"))) int crash_visibly(struct sbx *x, void *self);
int crash_visibly(struct sbx *x, void *self)
{
	volatile int *nowhere = (volatile int *)0x1234;

	(void)x, (void)self;
	*nowhere = 1;
	return 0;
}

static int call_abort(struct sbx *x, void *self)
{
	(void)x, (void)self;
	abort();
}

static int call_exit(struct sbx *x, void *self)
{
	(void)self;
	exit((int)sbx_arg_i64(x, "status"));
}

static int call_exit_now(struct sbx *x, void *self)
{
	(void)self;
	_exit((int)sbx_arg_i64(x, "status"));
}

__attribute__((noinline)) static int deeper(volatile char *above)
{
	volatile char here[4096];

	here[0] = above[0];
	return above[0] ? deeper(here) + here[0] : 0; /* never 0 */
}

static int overflow(struct sbx *x, void *self)
{
	volatile char first = 1;

	(void)x, (void)self;
	return deeper(&first);
}

static int fpe(struct sbx *x, void *self)
{
	volatile uint32_t zero = 0;

	(void)self;
	return sbx_put_i64(x, "never", x->host->size / zero);
}

static int ill(struct sbx *x, void *self)
{
	(void)x, (void)self;
	__builtin_trap();
}

static int raise_signal(struct sbx *x, void *self)
{
	(void)self;
	return raise((int)sbx_arg_i64(x, "signal"));
}

static int memory(struct sbx *x, void *self)
{
	(void)self;
	for (;;) /* sbx_alloc ends the host */
		if (!memset(sbx_alloc(x, 1 << 20), 1, 1 << 20))
			return -1;
}

static int close_channel(struct sbx *x, void *self)
{
	(void)x, (void)self;
	return close(3);
}

SBX_MODULE(crash, 1, SBX_USES(crash), SBX_FN_AS("segv", crash_visibly, ""), SBX_FN_AS("abort", call_abort, ""),
	SBX_FN_AS("exit", call_exit, "status: i64 = 3"), SBX_FN_AS("exit_now", call_exit_now, "status: i64 = 3"), SBX_FN(overflow, ""),
	SBX_FN(fpe, ""), SBX_FN(ill, ""), SBX_FN_AS("raise", raise_signal, "signal: i64"), SBX_FN(memory, ""), SBX_FN(close_channel, ""));
