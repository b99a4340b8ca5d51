/* SPDX-License-Identifier: MIT
 *
 * Replies that control hasn't acknowledged: kept in order, to be sent again to a successor of control.
 * Bounded by number and bytes; when full, no further call may begin. Pure. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_REPLIES_H
#define SANDBOXD_HOST_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

struct reply {
	uint64_t number, sequence;
	uint32_t status;
	size_t size;
	char *body;
};

struct replies {
	size_t first, n;
	size_t bytes;
	uint64_t next; /* sequence of the next reply; starts at 1 */
	struct reply kept[LIMIT_REPLIES_UNACKED]; /* a ring; last, since an idle process touches none of it */
};

void replies_init(struct replies *r);
void replies_fini(struct replies *r);
bool replies_full(const struct replies *r);
/* Takes body (malloc'ed, NULL if size is 0). Not while full. The reply stays owned by r. */
const struct reply *replies_add(
	struct replies *r, uint64_t number, uint32_t status, char *body_take, size_t size);
/* Forgets what is acknowledged. -1: a sequence that was never sent. */
int replies_ack(struct replies *r, uint64_t sequence);
/* Another answer in the place of the i-th: it can't be sent as it is. Takes body. */
void replies_replace(struct replies *r, size_t i, uint32_t status, char *body_take, size_t size);
const struct reply *replies_at(const struct replies *r, size_t i); /* the oldest is 0; NULL beyond the end */

#endif
