/* SPDX-License-Identifier: MIT
 *
 * Its own save nests as many lists as it was told to (report B32). `reply` nests a reply so. */
#define SBX_WANT_MINOR 1
#include "sandbox_module.h"

struct deep { int64_t depth; };

static int put(struct sbx *x, int64_t depth)
{
	for (int64_t i = 0; i < depth; i++)
		if (sbx_open_list(x, i == 0 ? "lists" : NULL) != 0)
			return -1;
	for (int64_t i = 0; i < depth; i++)
		if (sbx_close(x) != 0)
			return -1;
	return 0;
}

static int save(struct sbx *x, void *self)
{
	const struct deep *d = self;

	return sbx_put_i64(x, "depth", d->depth) != 0 ? -1 : put(x, d->depth);
}

static int restore(struct sbx *x, void *self)
{
	struct deep *d = self;

	d->depth = sbx_i64(x, sbx_saved(x, "depth"));
	return 0;
}

static int set(struct sbx *x, void *self)
{
	struct deep *d = self;

	d->depth = sbx_arg_i64(x, "depth");
	return sbx_put_i64(x, "depth", d->depth);
}

static int get(struct sbx *x, void *self)
{
	const struct deep *d = self;

	return sbx_put_i64(x, "depth", d->depth);
}

static int reply(struct sbx *x, void *self)
{
	(void)self;
	return put(x, sbx_arg_i64(x, "depth"));
}

SBX_MODULE(deep, 1, SBX_SELF(struct deep), SBX_FN(set, "depth: i64"), SBX_FN(get, ""), SBX_FN(reply, "depth: i64"),
	SBX_ON_SAVE(save), SBX_ON_RESTORE(restore));
