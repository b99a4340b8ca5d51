/* SPDX-License-Identifier: MIT
 *
 * The calls of one sandbox: a queue of those that wait, a list of those sent to the host and unanswered. Calls begin in the order
 * in which they were added. A caller's timeout ends only the waiting; a host's death answers what was sent as `crashed` with
 * outcome_unknown, and never sends it again; what was not sent waits for the next generation, unless its client goes. A cast is a call whose caller is
 * answered when it begins: it then runs on without one, and its failure is the event call.failed. Loop thread only; sends through
 * a function, so that it is tested without a host. */
#ifndef SANDBOXD_CALLS_H
#define SANDBOXD_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/front/rpc.h"
#include "daemon/front/rpc_key.h"
#include "proto/limits.h"

struct call {
	struct call *next;
	struct rpc_request *request;  /* NULL: nobody waits any more */
	uint64_t number;              /* epoch << 32 | n, once sent */
	int64_t deadline_ms;
	const char *function, *args;  /* of the request: valid while it waits */
	size_t args_size;
	bool is_old;                  /* sent by an earlier control: is it known that the host got it? (calls_received) */
	bool is_cast, began;          /* began: a cast's function runs; its caller has been answered */
	char cast_function[LIMIT_FUNCTION_BYTES + 1]; /* outlives its request */
};

struct call_list { struct call *first, **end; unsigned n; };

/* A cast failed after its caller was answered: the owner tells it as an event. */
typedef void calls_cast_failed(void *ctx, const char *function, const struct err *e);

struct calls {
	struct call_list waiting, running;
	uint64_t next_number;
	unsigned max_waiting;
	int64_t first_deadline_ms;    /* no call's deadline is earlier; INT64_MAX: none */
	uint64_t done, failed;        /* counts for info */
	uint64_t refused;             /* those of them, and of the casts, that ended with an error */
	calls_cast_failed *cast_failed;
	void *ctx;
};

void calls_init(struct calls *q, uint32_t epoch, unsigned max_waiting, calls_cast_failed *cast_failed, void *ctx);
/* Takes the request over, or refuses it with err (BUSY). */
int calls_add(struct calls *q, struct rpc_request *r, int64_t now_ms, struct err *e);
/* Sends what may be sent: send returns 0 (sent), 1 (no room now), -1 (broken). Nothing is sent beyond LIMIT_CALLS_IN_HOST. */
void calls_send(struct calls *q, int (*send)(void *ctx, const struct call *c), void *ctx);
/* A call with a key that an earlier control had sent under this number, or was about to; its request has no client. */
int calls_adopt(struct calls *q, struct rpc_request *r, uint64_t number, const char *function, struct err *e);
/* The host says that the last call it ever got had this number: adopted ones beyond it were never sent. */
void calls_received(struct calls *q, uint64_t last_number);
/* Was a call (or a cast) with this number sent, and is not answered for good yet? */
bool calls_awaits(const struct calls *q, uint64_t number);
/* A reply: the caller's request (NULL: its caller has left) in *ret; false: no such call is running, or a cast that began already.
 * A cast that is answered well stays running until calls_cast_ended. */
bool calls_replied(struct calls *q, uint64_t number, bool well, struct rpc_request **ret);
/* e NULL: it ended well. false: no such cast has begun (or will, as its caller was told at its timeout). */
bool calls_cast_ended(struct calls *q, uint64_t number, const struct err *e);
/* Answers those whose time has come; afterwards first_deadline_ms is exact. */
void calls_time(struct calls *q, int64_t now_ms);
/* The host has died: all that were sent are answered CRASHED with outcome_unknown; `text` says how it died. */
void calls_crashed(struct calls *q, const char *id, const char *text);
/* There will be no next generation: all that wait are answered with this error. */
void calls_refuse(struct calls *q, const struct err *e);

#endif
