/* SPDX-License-Identifier: MIT
 *
 * Asks for a minor version of the ABI that no host has yet. */
#include "sandbox_module.h"

static int nothing(struct sbx *x, void *self)
{
	(void)x, (void)self;
	return 0;
}

static const struct sbx_item items[] = { SBX_FN(nothing, "") };
const struct sbx_module sandbox_module = { SBX_MAGIC, SBX_ABI_MAJOR, 99, sizeof(struct sbx_module), sizeof(struct sbx_item), 1, 1,
	"asks_more", items, "" };
