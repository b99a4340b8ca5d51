/* SPDX-License-Identifier: MIT
 *
 * object.put. An upload is open (bytes come in), hashing (its bytes are the job's), then finished (a blob with its hash)
 * until another one needs its place or the connection ends. Refused chunks change nothing. */
#include "daemon/front/uploads.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/front/rpc_peer.h"
#include "daemon/store/blob.h"
#include "daemon/store/elf_check.h"
#include "daemon/store/storage.h"
#include "proto/json_out.h"
#include "proto/names.h"

enum upload_state { UPLOAD_OPEN, UPLOAD_HASHING, UPLOAD_FINISHED };

struct upload {
	struct storage_job job;       /* while hashing; first, so that the job's end finds the upload */
	struct rpc_request *request;  /* while hashing: who asked for the end of it */
	struct rpc_user *user;        /* whose bytes these are; NULL: the connection has gone */
	struct uploads *in;           /* the set that it is in; NULL: the connection has gone */
	enum upload_state state;
	char id[LIMIT_ID_BYTES + 1];
	struct buf data;              /* while open */
	struct blob *blob;            /* from hashing on */
	uint64_t serial;              /* in the order of finishing */
	uint64_t size;                /* bytes counted against the user */
};

static void upload_free(struct upload *u)
{
	if (u->user)
		u->user->upload_bytes -= u->size;
	buf_fini(&u->data);
	blob_unref(u->blob);
	free(u);
}

/* Takes it out of its set and frees it. */
static void upload_end(struct upload **slot)
{
	struct upload *u = *slot;

	*slot = NULL;
	upload_free(u);
}

void uploads_drop(struct uploads *set)
{
	for (size_t i = 0; i < LIMIT_UPLOADS_PER_CONNECTION; i++) {
		struct upload *u = set->items[i];

		set->items[i] = NULL;
		if (!u)
			continue;
		if (u->state != UPLOAD_HASHING) {
			upload_free(u);
			continue;
		}
		u->user->upload_bytes -= u->size; /* the user may be gone before the job is */
		u->user = NULL;
		u->in = NULL;
	}
}

struct blob *uploads_find(const struct uploads *set, const char *sha256)
{
	for (size_t i = 0; i < LIMIT_UPLOADS_PER_CONNECTION; i++) {
		struct upload *u = set->items[i];

		if (u && u->state == UPLOAD_FINISHED && strcmp(u->blob->sha256, sha256) == 0)
			return blob_ref(u->blob);
	}
	return NULL;
}

/* ---- places ---- */

static struct upload **slot_of(struct uploads *set, const char *id)
{
	for (size_t i = 0; i < LIMIT_UPLOADS_PER_CONNECTION; i++)
		if (set->items[i] && strcmp(set->items[i]->id, id) == 0)
			return &set->items[i];
	return NULL;
}

/* A free place; else that of the oldest finished upload which nobody uses; else NULL. */
static struct upload **slot_free(struct uploads *set)
{
	struct upload **oldest = NULL;

	for (size_t i = 0; i < LIMIT_UPLOADS_PER_CONNECTION; i++) {
		struct upload *u = set->items[i];

		if (!u)
			return &set->items[i];
		if (u->state == UPLOAD_FINISHED && u->blob->references == 1 && (!oldest || u->serial < (*oldest)->serial))
			oldest = &set->items[i];
	}
	if (oldest)
		upload_end(oldest);
	return oldest;
}

static int refuse_offset(const char *id, int64_t offset, uint64_t expected, struct err *e)
{
	err_set(e, ERR_BAD_PARAM, "object.put: offset %" PRId64 " of upload '%s' must be %" PRIu64
		": chunks come in order", offset, id, expected);
	return err_about(e, "offset", -1);
}

/* The upload that the chunk belongs to: a new one for offset 0. */
static struct upload **slot_for(struct rpc_peer *p, const char *id, int64_t offset, struct err *e)
{
	struct upload **slot = slot_of(&p->uploads, id);
	uint64_t expected = slot && (*slot)->state == UPLOAD_OPEN ? (*slot)->size : 0;

	if (slot && (*slot)->state == UPLOAD_HASHING) {
		err_set(e, ERR_WRONG_STATE, "object.put: upload '%s' has had its last chunk and is being hashed", id);
		return NULL;
	}
	if (offset < 0 || (uint64_t)offset != expected) {
		refuse_offset(id, offset, expected, e);
		return NULL;
	}
	if (slot && (*slot)->state == UPLOAD_OPEN)
		return slot;
	if (slot)
		upload_end(slot); /* the name is used again */
	slot = slot_free(&p->uploads);
	if (!slot) {
		err_set(e, ERR_LIMIT_EXCEEDED, "object.put: this connection has %d uploads that are open or in use",
			LIMIT_UPLOADS_PER_CONNECTION);
		return NULL;
	}
	*slot = calloc(1, sizeof(**slot));
	if (!*slot) {
		err_set(e, ERR_INTERNAL, "object.put: no memory for upload '%s'", id);
		return NULL;
	}
	(*slot)->user = p->user;
	(*slot)->in = &p->uploads;
	(void)snprintf((*slot)->id, sizeof((*slot)->id), "%s", id);
	buf_init(&(*slot)->data, 0);
	return slot;
}

/* ---- chunks ---- */

/* Decodes the checked base64 text behind what is there; gives back how much that was, -1 with err. */
static int64_t append(struct buf *to, const char *text, size_t n, struct err *e)
{
	size_t had = to->size;
	uint8_t *at = buf_extend(to, n / 4 * 3);
	int64_t decoded;

	if (!at) {
		to->failed = false; /* what came before is still good */
		return err_set(e, ERR_INTERNAL, "object.put: no memory for %zu bytes", n / 4 * 3);
	}
	decoded = base64_decode(at, text, n);
	to->size = had + (decoded > 0 ? (size_t)decoded : 0);
	if (decoded < 0) {
		err_set(e, ERR_BAD_PARAM, "object.put: data must be base64 whose last digit has no surplus bits");
		return err_about(e, "data", -1);
	}
	return decoded;
}

static int check_size(const struct upload *u, uint64_t more, struct err *e)
{
	if (u->size + more > LIMIT_OBJECT_BYTES) {
		err_set(e, ERR_LIMIT_EXCEEDED, "object.put: upload '%s' would have more than %u bytes", u->id,
			LIMIT_OBJECT_BYTES);
		return err_about(e, "data", -1);
	}
	if (u->user->upload_bytes + more > LIMIT_UPLOAD_BYTES_PER_UID) {
		err_set(e, ERR_LIMIT_EXCEEDED, "object.put: all uploads of uid %lu would have more than %u bytes",
			(unsigned long)u->user->uid, LIMIT_UPLOAD_BYTES_PER_UID);
		return err_about(e, "data", -1);
	}
	return 0;
}

static int take_chunk(struct upload *u, struct json_span data, struct err *e)
{
	size_t had = u->data.size, n = data.size - 2;
	const char *text = data.at + 1;
	char *decoded_text = NULL;
	int64_t decoded;

	if (memchr(data.at, '\\', data.size)) { /* "\/" */
		text = decoded_text = json_string_dup(data, &n);
		if (!text)
			return err_set(e, ERR_INTERNAL, "object.put: no memory for a chunk");
	}
	decoded = append(&u->data, text, n, e);
	free(decoded_text);
	if (decoded < 0)
		return -1;
	if (check_size(u, (uint64_t)decoded, e) == -1) {
		u->data.size = had;
		return -1;
	}
	u->size += (uint64_t)decoded;
	u->user->upload_bytes += (uint64_t)decoded;
	return 0;
}

/* ---- the end ---- */

static const struct rpc_done *answer(struct rpc_request *r, const struct upload *u)
{
	struct buf text = BUF_INIT;
	struct json_out o = json_out_to(&text);
	const struct rpc_done *done;
	struct err e;

	json_out_object(&o, NULL);
	json_out_text(&o, "upload", u->id);
	json_out_u64(&o, "received", u->size);
	if (u->state == UPLOAD_FINISHED)
		json_out_text(&o, "sha256", u->blob->sha256);
	json_out_object_end(&o);
	if (text.failed) {
		err_set(&e, ERR_INTERNAL, "object.put: no memory for the result");
		done = rpc_error(r, &e, NULL);
	} else {
		done = rpc_result_raw(r, text.data, text.size);
	}
	buf_fini(&text);
	return done;
}

static void hash_work(struct storage_job *job)
{
	struct upload *u = (struct upload *)job;

	struct elf_info ignored;

	blob_hash(u->blob);
	u->blob->is_checked = elf_check(u->blob->data, u->blob->size, &ignored, NULL) == 0; /* a source isn't, and needn't */
	job->status = 0;
}

static void hash_done(struct storage_job *job)
{
	struct upload *u = (struct upload *)job;
	struct rpc_request *r = u->request;
	struct uploads *set = u->in;

	u->request = NULL;
	if (set && job->status == 0) {
		u->state = UPLOAD_FINISHED;
		u->serial = set->n_finished++;
		(void)answer(r, u);
		return;
	}
	if (set) {
		struct upload **slot = slot_of(set, u->id);

		assert(slot);
		*slot = NULL;
	} else if (job->status == 0) {
		err_set(&job->err, ERR_INTERNAL, "object.put: the connection has gone"); /* nobody reads it */
	}
	(void)rpc_error(r, &job->err, NULL);
	upload_free(u);
}

static const struct rpc_done *finish(struct control *c, struct rpc_request *r, struct upload **slot)
{
	struct upload *u = *slot;
	size_t size = 0;
	char *data = buf_take(&u->data, &size);
	struct err e;

	u->blob = data ? blob_new(data, size) : NULL;
	if (!u->blob) {
		err_set(&e, ERR_INTERNAL, "object.put: no memory for upload '%s'", u->id);
		upload_end(slot);
		return rpc_error(r, &e, NULL);
	}
	u->state = UPLOAD_HASHING;
	u->request = r;
	u->job.work = hash_work;
	u->job.done = hash_done;
	storage_submit(c->storage, &u->job);
	return rpc_pending(r);
}

const struct rpc_done *uploads_put(struct control *c, struct rpc_request *r)
{
	struct upload **slot;
	struct err e;
	bool is_new;

	assert(r->peer); /* handlers start while the connection is there */
	slot = slot_for(r->peer, rpc_text(r, "upload"), rpc_integer(r, "offset", 0), &e);
	if (!slot)
		return rpc_error(r, &e, NULL);
	is_new = (*slot)->size == 0 && (*slot)->data.size == 0;
	if (take_chunk(*slot, rpc_param(r, "data"), &e) == -1) {
		if (is_new)
			upload_end(slot); /* a name that never got a byte takes no place */
		return rpc_error(r, &e, NULL);
	}
	if (rpc_bool(r, "last", false))
		return finish(c, r, slot);
	return answer(r, *slot);
}
