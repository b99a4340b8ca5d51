/* SPDX-License-Identifier: MIT
 *
 * A module that takes the pages away under its own declared state: reading it faults, in whoever saves it. */
#include <sys/mman.h>

#include "sandbox_module.h"

struct spoilt { int64_t count; char *text; };
SBX_STATE(spoilt, struct spoilt, SBX_FIELD(count), SBX_FIELD(text));

static int fill(struct sbx *x, void *self)
{
	struct spoilt *s = self;
	char text[20000];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	sbx_set_str(x, &s->text, text);
	s->count = 7;
	return 0;
}

/* A page in the middle of the text. */
static int spoil(struct sbx *x, void *self)
{
	const struct spoilt *s = self;
	uintptr_t page = ((uintptr_t)s->text + 8192) / 4096 * 4096;

	return mprotect((void *)page, 4096, PROT_NONE) == 0 ? 0 : sbx_fail(x, "mprotect", "the page stays");
}

static int get(struct sbx *x, void *self)
{
	const struct spoilt *s = self;

	return sbx_put_i64(x, "count", s->count);
}

SBX_MODULE(spoilt, 1, SBX_USES(spoilt), SBX_ON_INIT(fill), SBX_FN(spoil, ""), SBX_FN(get, ""));
