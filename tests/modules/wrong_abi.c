/* SPDX-License-Identifier: MIT
 *
 * A descriptor of an ABI that doesn't exist yet. */
#include "sandbox_module.h"

static const struct sbx_item items[] = { SBX_ITEM_(SBX_T_END, 0, NULL, NULL, NULL, NULL) };
static const char info[] SBX_SECTION_(".sbx.info") = "sbx=99;name=future;state=1";
const struct sbx_module sandbox_module = { SBX_MAGIC, 99, 0, sizeof(struct sbx_module), sizeof(struct sbx_item), 0, 1, "future", items, info };
