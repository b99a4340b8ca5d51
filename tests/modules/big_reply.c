/* SPDX-License-Identifier: MIT
 *
 * Replies, arguments and states of any size. */
#include "sandbox_module.h"

struct bag { struct sbx_bytes data; };
SBX_STATE(bag, struct bag, SBX_FIELD(data));

static int reply(struct sbx *x, void *self)
{
	uint64_t n = sbx_arg_u64(x, "bytes");
	char *text;
	int rc;

	(void)self;
	text = sbx_alloc(x, n + 1);
	memset(text, 'x', n);
	rc = sbx_put_str(x, "text", text);
	sbx_free(x, text);
	return rc;
}

static int length(struct sbx *x, void *self)
{
	(void)self;
	return sbx_put_u64(x, "bytes", strlen(sbx_arg_str(x, "text")));
}

/* The state becomes n bytes. */
static int fill(struct sbx *x, void *self)
{
	struct bag *b = self;
	uint64_t n = sbx_arg_u64(x, "bytes");
	char *bytes = sbx_alloc(x, n + 1);

	memset(bytes, 7, n);
	sbx_set_bytes(x, &b->data, bytes, n);
	sbx_free(x, bytes);
	return sbx_put_u64(x, "bytes", b->data.size);
}

SBX_MODULE(bag, 1, SBX_USES(bag), SBX_FN(reply, "bytes: u64"), SBX_FN(length, "text: str"), SBX_FN(fill, "bytes: u64"));
