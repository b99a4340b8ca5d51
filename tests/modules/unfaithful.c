/* SPDX-License-Identifier: MIT
 *
 * Its save writes how often it was called: two saves of one state are never the same bytes. */
#define SBX_WANT_MINOR 1
#include "sandbox_module.h"

struct unfaithful { uint64_t saves; };

static int save(struct sbx *x, void *self)
{
	struct unfaithful *u = self;

	return sbx_put_u64(x, "saves", 1000 + ++u->saves);
}

static int restore(struct sbx *x, void *self)
{
	struct unfaithful *u = self;

	u->saves = sbx_u64(x, sbx_saved(x, "saves"));
	return 0;
}

static int get(struct sbx *x, void *self)
{
	struct unfaithful *u = self;

	return sbx_put_u64(x, "saves", u->saves);
}

SBX_MODULE(unfaithful, 1, SBX_SELF(struct unfaithful), SBX_FN(get, ""), SBX_ON_SAVE(save), SBX_ON_RESTORE(restore));
