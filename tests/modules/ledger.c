/* SPDX-License-Identifier: MIT
 *
 * Counts, and lets its state grow, or be spoilt, for those who save it before each reply. */
#include "sandbox_module.h"

struct ledger { int64_t count; struct sbx_bytes ballast; char *text; };
SBX_STATE(ledger, struct ledger, SBX_FIELD(count), SBX_FIELD(ballast), SBX_FIELD(text));

static int increment(struct sbx *x, void *self)
{
	struct ledger *l = self;

	l->count += sbx_arg_i64(x, "by");
	return sbx_put_i64(x, "count", l->count);
}

static int get(struct sbx *x, void *self)
{
	const struct ledger *l = self;

	return sbx_put_i64(x, "count", l->count);
}

static int grow(struct sbx *x, void *self)
{
	struct ledger *l = self;
	int64_t bytes = sbx_arg_i64(x, "bytes");
	char *data = sbx_alloc(x, (size_t)bytes + 1);

	memset(data, 'b', (size_t)bytes);
	sbx_set_bytes(x, &l->ballast, data, (size_t)bytes);
	sbx_free(x, data);
	return 0;
}

/* Text that isn't the host's memory can't be saved. */
static int spoil(struct sbx *x, void *self)
{
	static char literal[] = "literal";
	struct ledger *l = self;

	(void)x;
	l->text = literal;
	return 0;
}

static int mend(struct sbx *x, void *self)
{
	struct ledger *l = self;

	(void)x;
	l->text = NULL;
	return 0;
}

/* It changed something, and failed then. */
static int stumble(struct sbx *x, void *self)
{
	struct ledger *l = self;

	l->count++;
	return sbx_fail(x, "stumbled", "after it had counted");
}

SBX_MODULE(ledger, 1, SBX_USES(ledger), SBX_FN(increment, "by: i64 = 1"), SBX_FN(get, ""), SBX_FN(grow, "bytes: i64"), SBX_FN(spoil, ""),
	SBX_FN(mend, ""), SBX_FN(stumble, ""));
