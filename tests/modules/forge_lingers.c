/* SPDX-License-Identifier: MIT
 *
 * The version before forge, whose process doesn't end by itself. */
#include <unistd.h>

#include "sandbox_module.h"

struct forge { int64_t sent; };
SBX_STATE(forge, struct forge, SBX_FIELD(sent));

static int ping(struct sbx *x, void *self)
{
	const struct forge *f = self;

	return sbx_put_i64(x, "sent", f->sent);
}

__attribute__((destructor)) static void linger(void)
{
	for (;;)
		(void)pause();
}

SBX_MODULE(forge, 1, SBX_USES(forge), SBX_FN(ping, ""));
