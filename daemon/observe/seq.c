/* SPDX-License-Identifier: MIT */
#include "daemon/observe/seq.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

void seq_write(char to[SEQ_ROOM], struct seq s)
{
	(void)snprintf(to, SEQ_ROOM, "%" PRIu64 "-%" PRIu64, s.major, s.n);
}

/* Decimal digits without a sign or a leading zero, and `stop` behind them. Returns what follows; NULL: it isn't that. */
static const char *read_number(const char *from, char stop, uint64_t *ret)
{
	const char *at = from;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (unsigned)(*at - '0'), &n))
			return NULL;
	if (at == from || (*from == '0' && at > from + 1) || *at != stop)
		return NULL;
	*ret = n;
	return at + 1;
}

bool seq_read(const char *text, struct seq *ret)
{
	const char *rest = read_number(text, '-', &ret->major);

	return rest && read_number(rest, '\0', &ret->n);
}
