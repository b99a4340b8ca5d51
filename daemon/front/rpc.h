/* SPDX-License-Identifier: MIT
 *
 * A request's life: read from a connection as one line, checked strictly, matched with the method table, its parameters
 * checked by their rows, handed to a handler, answered exactly once, now or later. Connection and request end independently:
 * a request holds its connection's number, and the answer of one whose connection has gone is dropped in one place (rpc.c).
 *
 * A handler ends in exactly one of rpc_result*, rpc_error, rpc_pending; the return type can't be made otherwise. After
 * rpc_pending, rpc_result* or rpc_error is called once, later. Control process only. */
#ifndef SANDBOXD_RPC_H
#define SANDBOXD_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/control/control.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_scan.h"
#include "proto/methods.h"

typedef struct cJSON cJSON;
struct blob;         /* daemon/store/blob.h: counted bytes with their SHA-256 */
struct rpc_request;
struct rpc_done;     /* proof that a request was answered or taken over */

typedef const struct rpc_done *rpc_handler(struct control *c, struct rpc_request *r);

/* The handlers, one per row of the method table; a missing one doesn't link. Those of object.put and the connection live in
 * the front (uploads.c), all others in handlers_*.c. */
extern rpc_handler *const rpc_handlers[METHOD__N];

/* ---- who asks ---- */
uid_t rpc_uid(const struct rpc_request *r);
bool rpc_is_admin(const struct rpc_request *r);      /* root, the daemon's own user, configured administrators */
const char *rpc_right(const struct rpc_request *r);  /* "none", "operator", "admin" */
/* May this caller see what `owner` owns? Others must be answered not_found, as if it weren't there. */
bool rpc_may_see(const struct rpc_request *r, uid_t owner);
const struct method *rpc_method(const struct rpc_request *r);

/* ---- parameters; kinds, ranges and presence were checked before the handler runs. Spans live as long as the request ---- */
struct json_span rpc_param(const struct rpc_request *r, const char *name);                /* absent: at == NULL */
/* A decoded text parameter (ID, TEXT, CHOICE, SHA256, SOURCE_NAME, FUNCTION); NULL: absent. Lives as long as the request. */
const char *rpc_text(const struct rpc_request *r, const char *name);
int64_t rpc_integer(const struct rpc_request *r, const char *name, int64_t otherwise);
bool rpc_bool(const struct rpc_request *r, const char *name, bool otherwise);
/* Bytes uploaded on this connection under this hash; a new reference (blob_unref it), or NULL. */
struct blob *rpc_upload(const struct rpc_request *r, const char *sha256);

/* Each connection counts its requests from 0 in the order read; calls of one connection to one sandbox begin in it. */
uint64_t rpc_connection(const struct rpc_request *r);
bool rpc_is_gone(const struct rpc_request *r);       /* its connection is closed: nobody will read the answer */
/* Of a pending request: `gone` is told, from the loop, when its connection is closed before it is answered, and may answer it
 * to withdraw what hasn't begun. Not told of one with a request_key, which goes on without its client. NULL: no more. */
void rpc_on_gone(struct rpc_request *r, void (*gone)(void *ctx, struct rpc_request *r), void *ctx);

/* ---- answers; the request is freed by them. Numbers in cJSON trees: integers within 2^53 only ---- */
const struct rpc_done *rpc_result(struct rpc_request *r, cJSON *result_take);
/* `json` is one checked JSON value without raw newlines */
const struct rpc_done *rpc_result_raw(struct rpc_request *r, const char *json, size_t size);
/* data gets {code, hint, name, offset, nearest}; extra_take (may be NULL): an object whose members join it */
const struct rpc_done *rpc_error(struct rpc_request *r, const struct err *e, cJSON *extra_take);
const struct rpc_done *rpc_pending(struct rpc_request *r);

/* ---- what was answered, for who keeps a record: control->acted is told of each refusal, and of each change that was made ---- */
struct rpc_act {
	const struct method *method;
	const char *id;          /* its parameter of this name; NULL: it has none, or was refused before that was read */
	uid_t uid;
	bool is_admin;
	const struct err *e;     /* NULL: done */
};

/* ---- streams: notifications that follow the answer to a request with follow:true, until the client or its connection ends ---- */
struct rpc_stream;

struct rpc_stream_owner {
	void (*writable)(void *ctx); /* there is room again, after rpc_stream_has_room has said no; may close the stream */
	void (*ended)(void *ctx);    /* by the client; the stream is closed already */
};

/* From a handler, before it answers. NULL with err. `method` is a literal. */
struct rpc_stream *rpc_stream_open(struct rpc_request *r, const char *method, const struct rpc_stream_owner *owner, void *ctx,
	struct err *e);
uint64_t rpc_stream_number(const struct rpc_stream *s);
bool rpc_stream_has_room(struct rpc_stream *s); /* ask before each notification */
/* {"jsonrpc":"2.0","method":method,"params":{"subscription":N, members}}; members: checked JSON without braces and raw newlines. */
void rpc_stream_send(struct rpc_stream *s, const char *members, size_t size);
void rpc_stream_close(struct rpc_stream *s);    /* by its owner, who isn't told */

#endif
