/* SPDX-License-Identifier: MIT
 *
 * Requests with a request_key: done once, whoever asks again and however often the client or control goes away. The key is
 * noted before the handler runs; the answer is kept before it is sent; the same request with the same key waits for that
 * answer or gets it from what is kept. A request that was refused before anything began leaves no trace: its key is free again.
 *
 * What an earlier control had begun is found in the table: a call that was sent becomes a request without a client again
 * (rpc_key_adopt), which its host's reply answers; all else is told by what became of its sandbox (struct rpc_key_owner).
 * Control process, loop thread only. */
#ifndef SANDBOXD_RPC_KEY_H
#define SANDBOXD_RPC_KEY_H

#include "daemon/front/outcomes.h"
#include "daemon/front/rpc.h"

struct rpc_keys;

enum rpc_key_fate { RPC_KEY_UNDECIDED, RPC_KEY_NOT_BEGUN, RPC_KEY_RESULT, RPC_KEY_ERROR };

/* How keyed requests look to who knows the sandboxes. */
struct rpc_key_owner {
	/* A request begins: what is there now, for `resolve`. */
	uint64_t (*before)(struct control *c, const struct outcome *row);
	/* An earlier control began it and nobody answers for it: says what it came to. UNDECIDED: it goes on. NOT_BEGUN: the key is
	 * free again. RESULT, ERROR: `to` is the answer. */
	enum rpc_key_fate (*resolve)(struct control *c,
		const struct outcome *row, struct buf *to);
};

/* fd_take as outcomes_open. c->loop NULL: no timer (tests call rpc_keys_tick). */
int rpc_keys_open(struct control *c, int fd_take, const struct rpc_key_owner *owner, struct rpc_keys **ret, struct err *e);
void rpc_keys_tick(struct rpc_keys *k, int64_t now_ms); /* runs those that may run now, ends those that waited too long */
/* Whatever an earlier control left and can be decided, is. Before clients are let in; and again whenever one asks. */
void rpc_keys_settle(struct rpc_keys *k);

/* A call that an earlier control had sent: the next one to this sandbox, as a request without a client; NULL: no more.
 * *ret_function lives as long as the request. */
struct rpc_request *rpc_key_adopt(struct control *c, const char *sandbox, uint64_t *ret_number, const char **ret_function);
/* A call is about to be sent under this number; 0: it couldn't be. */
void rpc_key_sent(struct rpc_request *r, uint64_t number);
/* Answers now, since the client's time is up, what goes on. Returns the request that its real answer is for; NULL: it had no key and
 * is gone. */
struct rpc_request *rpc_error_early(struct rpc_request *r, const struct err *e, cJSON *extra_take);
/* The error to come means that nothing was begun, though the request had been taken. */
void rpc_key_not_begun(struct rpc_request *r);

extern rpc_handler request_outcome; /* request.outcome */

/* ---- of the front ---- */
/* Answers it, lets it wait, or (NULL) lets its handler run. */
const struct rpc_done *rpc_key_enter(struct control *c, struct rpc_request *r);
/* r is being answered. json: the result, or the error object. */
void rpc_key_answered(struct rpc_request *r, bool is_error, const char *json, size_t size);

#endif
