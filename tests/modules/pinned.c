/* SPDX-License-Identifier: MIT
 *
 * A module like tally that can't be unloaded: it defines a symbol that is unique in the process (as g++ does for some templates). */
#include "sandbox_module.h"

__asm__(".pushsection .data\n.globl pinned_thing\n.type pinned_thing, %gnu_unique_object\n.size pinned_thing, 8\n"
	"pinned_thing: .quad 0\n.popsection");
extern long pinned_thing __attribute__((visibility("default")));

struct tally { int64_t count; };
SBX_STATE(tally, struct tally, SBX_FIELD(count));

static int get(struct sbx *x, void *self)
{
	const struct tally *t = self;

	pinned_thing++;
	return sbx_put_i64(x, "count", t->count);
}

SBX_MODULE(tally, 1, SBX_USES(tally), SBX_FN(get, ""));
