/* SPDX-License-Identifier: MIT
 *
 * Every way to die in a call, also in a thread of the module's own; and a call that profiles forbid. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

#define SBX_WANT_MINOR 1
#include "sandbox_module.h"

struct crash { int64_t refused; };
SBX_STATE(crash, struct crash, SBX_FIELD(refused));

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

static void *segv_there(void *x)
{
	(void)crash_visibly(x, NULL);
	return NULL;
}

static void *abort_there(void *x)
{
	(void)x;
	abort();
}

static int in_thread(void *(*run)(void *))
{
	pthread_t thread;

	return pthread_create(&thread, NULL, run, NULL) == 0 ? pthread_join(thread, NULL) : -1;
}

static int thread_segv(struct sbx *x, void *self)
{
	(void)x, (void)self;
	return in_thread(segv_there);
}

static int thread_abort(struct sbx *x, void *self)
{
	(void)x, (void)self;
	return in_thread(abort_there);
}

/* Of the last of so many. */
static int forbidden(struct sbx *x, void *self)
{
	(void)self;
	for (int64_t i = sbx_arg_i64(x, "times"); i > 0; i--) {
		errno = 0;
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	}
	return sbx_put_i64(x, "errno", errno);
}

static int forbidden_in_time(struct sbx *x, void *self)
{
	struct crash *c = self;

	(void)x;
	errno = 0;
	(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	c->refused = errno;
	return 0;
}

static int forbidden_later(struct sbx *x, void *self)
{
	(void)self;
	return sbx_after(x, "forbidden_in_time", sbx_arg_i64(x, "ms"));
}

static int refused(struct sbx *x, void *self)
{
	return sbx_put_i64(x, "errno", ((struct crash *)self)->refused);
}

SBX_MODULE(crash, 1, SBX_USES(crash), SBX_FN_AS("segv", crash_visibly, ""), SBX_FN_AS("abort", call_abort, ""),
	SBX_FN_AS("exit", call_exit, "status: i64 = 3"), SBX_FN_AS("exit_now", call_exit_now, "status: i64 = 3"), SBX_FN(overflow, ""),
	SBX_FN(fpe, ""), SBX_FN(ill, ""), SBX_FN_AS("raise", raise_signal, "signal: i64"), SBX_FN(memory, ""), SBX_FN(close_channel, ""),
	SBX_FN(thread_segv, ""), SBX_FN(thread_abort, ""), SBX_FN(forbidden, "times: i64 = 1"), SBX_FN(forbidden_later, "ms: i64"),
	SBX_FN(refused, ""), SBX_TIMER(forbidden_in_time));
