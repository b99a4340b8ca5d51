/* SPDX-License-Identifier: MIT
 *
 * The front's own view of requests and of who sent them. A peer is a connection without its I/O: replies gather in `out`,
 * and `answered` tells its owner. So the whole of rpc can be run without a loop.
 *
 * A request and its peer end independently: a peer that goes leaves its requests without one (rpc_peer_fini), and what
 * they are answered later is dropped. Private to daemon/control/{rpc,rpc_answer,uploads,conn,listener}.c. */
#ifndef SANDBOXD_RPC_PEER_H
#define SANDBOXD_RPC_PEER_H

#include <stdint.h>
#include <sys/queue.h>

#include "daemon/front/rights.h"
#include "daemon/front/rpc.h"
#include "daemon/front/rpc_params.h"
#include "daemon/front/uploads.h"

/* All connections of one uid share it. */
struct rpc_user {
	uid_t uid;
	unsigned n_connections;
	uint64_t upload_bytes;  /* held in uploads of all its connections */
	uint64_t request_bytes; /* of requests that aren't freed, also of connections that are closed */
	uint64_t partial_bytes; /* of lines that aren't whole, and of whole ones that wait their turn */
	uint64_t reply_bytes;   /* that its connections haven't read */
	void (*left)(struct rpc_user *user); /* request_bytes has fallen: it may be of no use any more; may free it. NULL: nobody asks */
	LIST_ENTRY(rpc_user) link;
};

struct rpc_peer {
	uint64_t number;             /* of the connection; never used twice */
	struct rpc_user *user;
	enum rights_level rights;    /* of the connection: processes of one user may be in different groups */
	LIST_HEAD(, rpc_request) requests; /* unanswered */
	unsigned in_flight;          /* how many; each of a batch counts */
	struct uploads uploads;
	struct buf out;              /* whole lines */
	size_t unsent;               /* bytes taken from it that the client hasn't read */
	size_t batch_bytes;          /* replies in batches that aren't whole */
	TAILQ_HEAD(, rpc_stream) streams;
	unsigned n_streams;
	uint64_t last_stream;        /* the highest number used */
	/* out or batch_bytes has grown, or in_flight has fallen. Called in the middle of handlers: it may send, but nothing may end. */
	void (*answered)(struct rpc_peer *p);
};

/* The requests that came in one array; their replies leave in one. */
struct rpc_batch {
	unsigned n_open;             /* unanswered, and one while it is being read */
	struct rpc_peer *peer;       /* NULL: gone */
	struct buf replies;          /* with commas, without brackets */
	size_t counted;              /* of them, in peer->batch_bytes */
};

struct rpc_request {
	uint32_t magic;
	struct rpc_peer *peer;       /* NULL: gone */
	struct rpc_batch *batch;     /* NULL: came alone */
	const struct method *method;
	uint64_t connection;
	uid_t uid;
	enum rights_level rights;
	struct control *control;     /* NULL: it is another process's, which goes on with it */
	struct rpc_user *user;       /* whose bytes these are; NULL: nobody's */
	size_t bytes;
	void (*gone)(void *ctx, struct rpc_request *r);
	void *gone_ctx;
	struct json_span id;         /* at == NULL: a notification */
	struct rpc_params params;
	const char *texts[METHOD_MAX_PARAMS]; /* decoded, behind the line */
	LIST_ENTRY(rpc_request) link;
	/* of rpc_key.c */
	struct rpc_keys *keys;
	struct outcome *outcome;     /* the row that its answer is for; NULL: it has no key, or only waits for another's */
	bool is_begun;               /* taken: an error is an outcome from here on */
	const struct outcome *waits_for;
	int64_t wait_until_ms;
	TAILQ_ENTRY(rpc_request) wait_link;
	char line[];                 /* its own copy of what came */
};

void rpc_peer_init(struct rpc_peer *p, uint64_t number, struct rpc_user *user, enum rights_level rights,
	void (*answered)(struct rpc_peer *p));
void rpc_peer_fini(struct rpc_peer *p);

/* Runs what one line asks for, or refuses it; every reply but those of pending requests is in p->out afterwards. */
void rpc_line(struct control *c, struct rpc_peer *p, const char *line, size_t size);
/* An error that belongs to no request: a reply with the id null. */
void rpc_refuse(struct rpc_peer *p, const struct err *e);

/* ---- rpc_answer.c ---- */
/* One error reply, without a newline; extra may be NULL. */
void rpc_write_error(struct buf *to, struct json_span id, const struct err *e, const cJSON *extra);
/* error: one checked object */
const struct rpc_done *rpc_error_raw(struct rpc_request *r, const char *error, size_t size);
/* Puts a reply where those of this peer or batch go; NULL: dropped. rpc_reply_end ends it. */
struct buf *rpc_reply_begin(struct rpc_peer *p, struct rpc_batch *b);
void rpc_reply_end(struct rpc_peer *p, struct rpc_batch *b);

/* ---- rpc.c ---- */
void rpc_batch_release(struct rpc_batch *b); /* one of n_open is done; the last writes the reply and frees it */
void rpc_request_free(struct rpc_request *r);
void rpc_run(struct control *c, struct rpc_request *r);  /* its key, then its handler */
/* One of no client and no parameters; its line is this text. NULL: no memory. */
struct rpc_request *rpc_request_bare(const struct method *m, uid_t uid, const char *text);
void rpc_request_leave(struct rpc_request *r);           /* its client is answered or gone; it lives on */
void rpc_request_check(const struct rpc_request *r); /* asserts that it is one */

#endif
