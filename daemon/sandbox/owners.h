/* SPDX-License-Identifier: MIT
 *
 * What each owner has, in total: one record per uid, changed where a sandbox's share changes and never counted anew, so that a request
 * costs the same however many sandboxes there are. Knows nothing of sandboxes (owned.h does). Loop thread only. */
#ifndef SANDBOXD_OWNERS_H
#define SANDBOXD_OWNERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/err.h"

enum owner_total {
	OWNER_SANDBOXES,
	OWNER_MEMORY,      /* bytes: max_memory of those that are to be up */
	OWNER_STORE_BYTES, /* objects and states that are referred to; what two refer to counts twice */
	OWNER_JOBS,        /* compile jobs at work */
	OWNER_TOTAL__N
};

#define OWNER_SHARE_MAX (1ull << 48) /* of one sandbox in one total: the sum over LIMIT_SANDBOXES can't overflow */

struct owner_share {
	uint64_t of[OWNER_TOTAL__N];
};

struct owners; /* NULL is none: nothing is counted, nothing is refused (tests) */

struct owners *owners_new(void);
struct owners *owners_free(struct owners *o); /* NULL ok; returns NULL */
/* One sandbox's share of this uid's totals was *counted and is `now`; *counted is set to that. The only writer of totals. */
void owners_set(struct owners *o, uid_t uid, struct owner_share *counted, const struct owner_share *now);
struct owner_share owners_get(const struct owners *o, uid_t uid); /* zeros: it has nothing */
/* May it have so much more? limits: 0 is none. -1: err is limit_exceeded, with total, limit, and what to do. What isn't to grow is never
 * refused, however much of it there is. */
int owners_check(const struct owners *o, uid_t uid, const struct owner_share *limits, const struct owner_share *more, struct err *e);
/* Owners that have anything, the one known longest first. */
size_t owners_count(const struct owners *o);
void owners_each(const struct owners *o, void (*one)(void *ctx, uid_t uid, const struct owner_share *totals), void *ctx, size_t most);
const char *owner_total_text(enum owner_total t); /* "store_bytes" */

#endif
