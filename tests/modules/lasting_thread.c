/* SPDX-License-Identifier: MIT
 *
 * Has a thread of its own, from begin to end. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "sandbox_module.h"

struct lasting { int64_t count; };
SBX_STATE(lasting, struct lasting, SBX_FIELD(count));

static pthread_t thread;
static sem_t over;

static void *wait_for_end(void *none)
{
	while (sem_wait(&over) == -1 && errno == EINTR)
		;
	return none;
}

static int begin(struct sbx *x, void *self)
{
	int error = sem_init(&over, 0, 0) == 0 ? pthread_create(&thread, NULL, wait_for_end, NULL) : errno;

	(void)self;
	return error ? sbx_fail(x, "no_thread", "%s", strerror(error)) : sbx_put_bool(x, "begun", true);
}

static int end(struct sbx *x, void *self)
{
	(void)self;
	(void)sem_post(&over);
	(void)pthread_join(thread, NULL);
	return sbx_put_bool(x, "ended", true);
}

SBX_MODULE(lasting_thread, 1, SBX_USES(lasting), SBX_FN(begin, ""), SBX_FN(end, ""));
