/* SPDX-License-Identifier: MIT
 *
 * Chunks go one at a time: a local socket gains nothing from more, and a refused chunk then is the last. */
#include "client/upload.h"

#include <inttypes.h>

#include "proto/json_out.h"
#include "proto/limits.h"
#include "proto/methods.h"

static int put_chunk(struct rpcclient *c, size_t offset, const char *chunk, size_t size, bool last,
	struct rpcclient_reply *ret, struct err *e)
{
	struct buf params = BUF_INIT;
	struct json_out o = json_out_to(&params);
	int r;

	json_out_object(&o, NULL);
	json_out_text(&o, "upload", "code");
	json_out_u64(&o, "offset", offset);
	json_out_key_n(&o, "data", 4);
	buf_add_char(&params, '"'); /* base64 has nothing to escape */
	base64_encode(&params, chunk, size);
	buf_add_char(&params, '"');
	o.comma = true;
	json_out_bool(&o, "last", last);
	json_out_object_end(&o);
	if (params.failed)
		r = err_set(e, ERR_INTERNAL, "no memory to upload");
	else
		r = rpcclient_call(c, methods[METHOD_OBJECT_PUT].name,
			(struct json_span){ params.data, params.size }, ret, e);
	buf_fini(&params);
	return r;
}

int upload_bytes(struct rpcclient *c, const char *data, size_t size, char sha256[SHA256_HEX_BYTES + 1],
	struct rpcclient_reply *ret, struct err *e)
{
	size_t offset = 0, chunk;
	int64_t length;

	*ret = (struct rpcclient_reply){ 0 };
	do { /* nothing at all is one empty chunk */
		rpcclient_reply_fini(ret);
		chunk = size - offset < LIMIT_UPLOAD_CHUNK_BYTES ? size - offset : LIMIT_UPLOAD_CHUNK_BYTES;
		if (put_chunk(c, offset, data + offset, chunk, offset + chunk == size, ret, e) == -1)
			return -1;
		offset += chunk;
	} while (offset < size);
	length = json_string(json_get(ret->result, "sha256"), sha256, SHA256_HEX_BYTES + 1);
	rpcclient_reply_fini(ret);
	if (length < 0 || !name_is_sha256(sha256, (size_t)length))
		return err_set(
			e, ERR_UNREACHABLE, "what answers is not sandboxd: its object.put gave no sha256");
	return 0;
}
