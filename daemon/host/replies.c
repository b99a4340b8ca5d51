/* SPDX-License-Identifier: MIT
 *
 * The ring of unacknowledged replies. */
#include "daemon/host/replies.h"

#include <assert.h>
#include <stdlib.h>

void replies_init(struct replies *r)
{
	r->first = r->n = r->bytes = 0;
	r->next = 1;
}

static void drop_oldest(struct replies *r)
{
	struct reply *oldest = &r->kept[r->first];

	r->bytes -= oldest->size;
	free(oldest->body);
	*oldest = (struct reply){ 0 };
	r->n--;
	r->first = r->n == 0 ? 0 : (r->first + 1) % LIMIT_REPLIES_UNACKED; /* one that is never full touches only its beginning */
}

void replies_fini(struct replies *r)
{
	while (r->n > 0)
		drop_oldest(r);
}

bool replies_full(const struct replies *r)
{
	return r->n == LIMIT_REPLIES_UNACKED || r->bytes >= LIMIT_REPLIES_UNACKED_BYTES;
}

const struct reply *replies_add(
	struct replies *r, uint64_t number, uint32_t status, char *body_take, size_t size)
{
	struct reply *new = &r->kept[(r->first + r->n) % LIMIT_REPLIES_UNACKED];

	assert(r->n < LIMIT_REPLIES_UNACKED);
	*new = (struct reply){ number, r->next++, status, size, body_take };
	r->n++;
	r->bytes += size;
	return new;
}

int replies_ack(struct replies *r, uint64_t sequence)
{
	if (sequence >= r->next)
		return -1;
	while (r->n > 0 && r->kept[r->first].sequence <= sequence)
		drop_oldest(r);
	return 0;
}

void replies_replace(struct replies *r, size_t i, uint32_t status, char *body_take, size_t size)
{
	struct reply *reply = &r->kept[(r->first + i) % LIMIT_REPLIES_UNACKED];

	assert(i < r->n);
	r->bytes = r->bytes - reply->size + size;
	free(reply->body);
	reply->status = status;
	reply->body = body_take;
	reply->size = size;
}

const struct reply *replies_at(const struct replies *r, size_t i)
{
	return i < r->n ? &r->kept[(r->first + i) % LIMIT_REPLIES_UNACKED] : NULL;
}
