/* SPDX-License-Identifier: MIT
 *
 * When to give memory back to the kernel: what malloc keeps of many that have gone is only worth its price while as many are to come.
 * Asked at each end, it says yes whenever half of the most has gone since the last time: a walk through the heap is paid for by as many
 * ends as it has to look at. */
#ifndef SANDBOXD_EBB_H
#define SANDBOXD_EBB_H

#include <stdbool.h>
#include <stddef.h>

#define EBB_LEAST 16 /* what so few have had isn't worth a walk */

struct ebb {
	size_t most;
};

/* n: how many are left. */
static inline bool ebb_is_low(struct ebb *b, size_t n)
{
	if (n > b->most)
		b->most = n;
	if (b->most < EBB_LEAST || n > b->most / 2)
		return false;
	b->most = n;
	return true;
}

static inline void ebb_rises(struct ebb *b, size_t n)
{
	if (n > b->most)
		b->most = n;
}

#endif
