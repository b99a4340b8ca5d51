/* SPDX-License-Identifier: MIT
 *
 * A state of bytes: `fill` makes it as large as asked, for the rows of the benchmark that reload it. */
#define SBX_WANT_MINOR 1
#include <sandbox_module.h>

struct bag { struct sbx_bytes data; };
SBX_STATE(bag, struct bag, SBX_FIELD(data));

static int fill(struct sbx *x, void *self)
{
	struct bag *b = self;

	sbx_free(x, b->data.data);
	b->data.data = NULL;
	b->data.size = 0;
	b->data.data = sbx_alloc(x, sbx_arg_u64(x, "n"));
	b->data.size = sbx_arg_u64(x, "n");
	memset(b->data.data, 7, b->data.size);
	return sbx_put_u64(x, "count", b->data.size);
}

static int count(struct sbx *x, void *self)
{
	struct bag *b = self;

	return sbx_put_u64(x, "count", b->data.size);
}

SBX_MODULE(bag, 1, SBX_USES(bag), SBX_FN(fill, "n: u64"), SBX_FN(count, ""));
