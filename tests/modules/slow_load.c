/* SPDX-License-Identifier: MIT
 *
 * A next version of tally that takes its time to be loaded: not in the rehearsal's copy, which has no channel on descriptor 3. */
#include <fcntl.h>
#include <time.h>

#include "sandbox_module.h"

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

__attribute__((constructor)) static void take_time(void)
{
	struct timespec rest = { 1, 0 };

	if (fcntl(3, F_GETFD) != -1)
		while (nanosleep(&rest, &rest) == -1)
			;
}

static int get(struct sbx *x, void *self)
{
	return sbx_put_i64(x, "count", ((struct tally *)self)->count);
}

SBX_MODULE(tally, 2, SBX_USES(tally), SBX_FN(get, ""));
