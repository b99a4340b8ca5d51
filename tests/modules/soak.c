/* SPDX-License-Identifier: MIT
 *
 * For proofs over many reloads: each client numbers its increments, and the state tells which were counted, whether one came twice, and
 * whether one began out of its client's order. Takes its time, and does not mind the attention signal. */
#include <time.h>

#include "sandbox_module.h"

enum { CLIENTS = 8 };

#ifndef SOAK_VERSION
#define SOAK_VERSION 1
struct soak { int32_t last[CLIENTS]; int64_t count; uint32_t misordered; };
SBX_STATE(soak, struct soak, SBX_FIXED(last), SBX_FIELD(count), SBX_FIELD(misordered));
#define COUNT(s) ((s)->count)
#else
/* renamed, moved, widened, and something new that goes again on the way back */
struct soak { uint32_t misordered; char *note; bool has_note; int64_t sum; int64_t last[CLIENTS]; };
SBX_STATE(soak, struct soak, SBX_FIELD(misordered), SBX_FIELD(note), SBX_PRESENT(has_note), SBX_FIELD(sum), SBX_WAS("count"), SBX_FIXED(last));
#define COUNT(s) ((s)->sum)
#endif

static int increment(struct sbx *x, void *self)
{
	int64_t us = sbx_arg_i64(x, "us"), client = sbx_arg_i64(x, "client"), n = sbx_arg_i64(x, "n");
	struct timespec rest = { us / 1000000, us % 1000000 * 1000 };
	struct soak *s = self;

	if (client < 0 || client >= CLIENTS)
		return sbx_fail(x, "bad_client", "there are %d clients", (int)CLIENTS);
	if (n != s->last[client] + 1)
		s->misordered++;
	s->last[client] = (int32_t)n;
	while (us > 0 && nanosleep(&rest, &rest) == -1)
		;
	COUNT(s)++;
	return sbx_put_i64(x, "count", COUNT(s));
}

static int get(struct sbx *x, void *self)
{
	const struct soak *s = self;

	sbx_put_i64(x, "count", COUNT(s));
	sbx_put_u64(x, "misordered", s->misordered);
	sbx_open_list(x, "last");
	for (int i = 0; i < CLIENTS; i++)
		sbx_put_i64(x, NULL, s->last[i]);
	return sbx_close(x);
}

SBX_MODULE(soak, SOAK_VERSION, SBX_USES(soak), SBX_FN(increment, "client: i64, n: i64, us: i64 = 0"), SBX_FN(get, ""));
