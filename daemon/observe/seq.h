/* SPDX-License-Identifier: MIT
 *
 * Numbers of things in order: MAJOR-N, where a later MAJOR goes on where an earlier one ended. Events: the incarnation of
 * control and the event of it; lines of a log: the log's ring and the position in it. Pure. */
#ifndef SANDBOXD_SEQ_H
#define SANDBOXD_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#define SEQ_ROOM 48 /* two 64-bit numbers and a '-' */

struct seq {
	uint64_t major, n;
};

void seq_write(char to[SEQ_ROOM], struct seq s);
bool seq_read(const char *text, struct seq *ret); /* strictly what seq_write writes */

static inline int seq_compare(struct seq a, struct seq b)
{
	if (a.major != b.major)
		return a.major < b.major ? -1 : 1;
	return a.n < b.n ? -1 : a.n > b.n;
}

#endif
