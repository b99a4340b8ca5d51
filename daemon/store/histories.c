/* SPDX-License-Identifier: MIT
 *
 * A file under the hash of an id, not under the id: ids may end in .tmp and .damaged. */
#include "daemon/store/histories.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/store/blob.h"
#include "daemon/store/folder.h"
#include "proto/buf.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/log.h"
#include "proto/names.h"

#define HEAD       "sandboxd-history "
#define FORMAT     "1 "
#define HEAD_BYTES (sizeof HEAD FORMAT - 1 + SHA256_HEX_BYTES + 1) /* and the newline */

const struct histories_limits histories_limits = { LIMIT_HISTORIES_KEPT, LIMIT_HISTORIES_PER_OWNER, LIMIT_HISTORIES_BYTES };

/* What the bounds are made of. */
struct kept {
	char name[SHA256_HEX_BYTES + 1];
	uint32_t owner;
	int64_t destroyed_at_ms;
	size_t bytes;
};

struct histories {
	int dir_fd; /* the state folder */
	struct histories_limits limits;
	bool is_loaded;
	struct kept *items;
	size_t n, room;
	uint64_t bytes;
};

struct histories *histories_new(int state_dir_fd, const struct histories_limits *limits)
{
	struct histories *h = calloc(1, sizeof *h);

	if (h) {
		h->dir_fd = state_dir_fd;
		h->limits = *limits;
	}
	return h;
}

struct histories *histories_free(struct histories *h)
{
	if (h)
		free(h->items);
	free(h);
	return NULL;
}

void history_fini(struct history *k)
{
	free(k->text);
	*k = (struct history){ 0 };
}

static bool name_of(const char *id, char name[SHA256_HEX_BYTES + 1])
{
	sha256_hex(id, strlen(id), name);
	return name[0] != '\0';
}

/* ---- a text ---- */

/* Of k->text; it may come from a disk. */
static int text_parse(struct history *k, struct err *e)
{
	struct json_span top = { k->text, k->size };
	uint64_t owner = 0;

	if (json_check(k->text, k->size, e) < 0)
		return -1;
	if (memchr(k->text, '\n', k->size) || json_type(top) != '{')
		return err_set(e, ERR_IO, "it isn't one JSON object in one line");
	k->list = json_get(top, "list");
	k->history = json_get(top, "history");
	if (json_string(json_get(top, "id"), k->id, sizeof k->id) < 1 || !name_is_id(k->id, strlen(k->id)) ||
		!json_u64(json_get(top, "owner"), &owner) || owner > UINT32_MAX || !json_i64(json_get(top, "destroyed_at"), &k->destroyed_at_ms) ||
		json_type(k->list) != '{' || json_type(k->history) != '{')
		return err_set(e, ERR_IO, "a member of it is missing, or of another type");
	k->owner = (uint32_t)owner;
	return 0;
}

/* data: a whole file, which k takes what it needs of. */
static enum folder_found file_parse(const char *name, const char *data, size_t size, struct history *k, struct err *e)
{
	char sum[SHA256_HEX_BYTES + 1], is[SHA256_HEX_BYTES + 1];

	if (size >= sizeof HEAD FORMAT - 1 && memcmp(data, HEAD, sizeof HEAD - 1) == 0 && memcmp(data + sizeof HEAD - 1, FORMAT, sizeof FORMAT - 1) != 0) {
		const char *at = data + sizeof HEAD - 1, *end = memchr(at, ' ', size - (sizeof HEAD - 1));

		if (end && end > at && end - at < 6 && *at >= '1' && *at <= '9' && strspn(at, "0123456789") == (size_t)(end - at)) {
			(void)err_set(e, ERR_IO, "history %s was written by a newer sandboxd", name);
			return FOLDER_UNREADABLE;
		}
	}
	if (size <= HEAD_BYTES || memcmp(data, HEAD FORMAT, sizeof HEAD FORMAT - 1) != 0 || data[HEAD_BYTES - 1] != '\n') {
		(void)err_set(e, ERR_IO, "it doesn't begin as a history");
		return FOLDER_DAMAGED;
	}
	k->size = size - HEAD_BYTES;
	sha256_hex(data + HEAD_BYTES, k->size, sum);
	k->text = sum[0] ? malloc(k->size + 1) : NULL;
	if (!k->text) {
		(void)err_set(e, ERR_INTERNAL, "no memory to read history %s", name);
		return FOLDER_UNREADABLE;
	}
	memcpy(k->text, data + HEAD_BYTES, k->size);
	k->text[k->size] = '\0';
	if (memcmp(data + sizeof HEAD FORMAT - 1, sum, SHA256_HEX_BYTES) != 0)
		(void)err_set(e, ERR_IO, "its %zu bytes have the hash %s", k->size, sum);
	else if (text_parse(k, e) == 0 && !(name_of(k->id, is) && strcmp(is, name) == 0))
		(void)err_set(e, ERR_IO, "it is of another sandbox");
	if (e->code == ERR_OK)
		return FOLDER_GOOD;
	history_fini(k);
	return FOLDER_DAMAGED;
}

static enum folder_found file_read(int folder_fd, const char *name, struct history *k, size_t *ret_bytes, struct err *e)
{
	autoclose int fd = -1;
	enum folder_found found = folder_file(folder_fd, name, "history", HEAD_BYTES + LIMIT_HISTORY_BYTES, &fd, ret_bytes, e);
	char *data;

	*k = (struct history){ 0 };
	if (found != FOLDER_GOOD)
		return found;
	data = fd_read_all(fd, HEAD_BYTES + LIMIT_HISTORY_BYTES, ret_bytes, e);
	if (!data)
		return FOLDER_UNREADABLE;
	found = file_parse(name, data, *ret_bytes, k, e);
	free(data);
	return found;
}

static void aside(int folder_fd, const char *name, const struct err *why, char problem[HISTORY_PROBLEM_BYTES])
{
	struct err e = ERR_INIT;

	if (folder_put_aside(folder_fd, name, "history", &e) == -1)
		(void)snprintf(problem, HISTORY_PROBLEM_BYTES, "histories: %s is damaged (%.100s): %.100s", name, why->text, e.text);
	else
		(void)snprintf(problem, HISTORY_PROBLEM_BYTES, "histories: %s was damaged (%.150s) and has been renamed to .damaged", name, why->text);
}

/* ---- the bounds ---- */

static struct kept *kept_find(struct histories *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->items[i].name, name) == 0)
			return &h->items[i];
	return NULL;
}

static void kept_remove(struct histories *h, struct kept *k)
{
	if (!k)
		return;
	h->bytes -= k->bytes;
	*k = h->items[--h->n];
}

static int kept_room(struct histories *h, struct err *e)
{
	size_t room = h->room ? h->room * 2 : 16;
	struct kept *more = h->n < h->room ? h->items : realloc(h->items, room * sizeof *more);

	if (!more)
		return err_set(e, ERR_INTERNAL, "no memory to count the histories that are kept");
	if (h->n == h->room)
		h->room = room;
	h->items = more;
	return 0;
}

/* There is room (kept_room). */
static void kept_add(struct histories *h, const char *name, const struct history *k, size_t bytes)
{
	struct kept *to = &h->items[h->n++];

	*to = (struct kept){ .owner = k->owner, .destroyed_at_ms = k->destroyed_at_ms, .bytes = bytes };
	memcpy(to->name, name, sizeof to->name);
	h->bytes += bytes;
}

static struct kept *kept_oldest(struct histories *h, const uint32_t *owner, const char *but_not)
{
	struct kept *oldest = NULL;

	for (size_t i = 0; i < h->n; i++)
		if ((!owner || h->items[i].owner == *owner) && strcmp(h->items[i].name, but_not) != 0 &&
			(!oldest || h->items[i].destroyed_at_ms < oldest->destroyed_at_ms))
			oldest = &h->items[i];
	return oldest;
}

static size_t kept_of(const struct histories *h, uint32_t owner)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->items[i].owner == owner;
	return n;
}

/* What is too much goes, but never the newest, which was just written. One that can't be removed is tried again with the next. */
static void bound(struct histories *h, int folder_fd, const char *newest, uint32_t owner)
{
	size_t removed = 0;

	for (;;) {
		bool owners = kept_of(h, owner) > h->limits.per_owner;
		struct kept *k = owners || h->n > h->limits.kept || h->bytes > h->limits.bytes ? kept_oldest(h, owners ? &owner : NULL, newest) : NULL;

		if (!k)
			break;
		if ((FAULT(HISTORY_UNLINK) || unlinkat(folder_fd, k->name, 0) == -1) && errno != ENOENT) {
			log_warning("cannot remove the kept history %s: %s", k->name, strerror(errno));
			break;
		}
		kept_remove(h, k);
		removed++;
	}
	if (removed > 0)
		log_info("removed the %zu oldest kept histories: more than may be kept", removed);
}

struct loading {
	struct histories *h;
	int folder_fd;
	char *problem;
	struct err err; /* no memory */
};

/* Of each file: whether it stays. All do; what is damaged has gone aside by then. */
static bool load_one(void *ctx, const char *name)
{
	struct loading *l = ctx;
	struct err e = ERR_INIT;
	struct history k;
	size_t bytes = 0;

	switch (file_read(l->folder_fd, name, &k, &bytes, &e)) {
	case FOLDER_GOOD:
		if (kept_room(l->h, &l->err) == 0)
			kept_add(l->h, name, &k, bytes);
		break;
	case FOLDER_DAMAGED:
		aside(l->folder_fd, name, &e, l->problem);
		break;
	case FOLDER_NONE:
		break;
	case FOLDER_UNREADABLE:
		log_warning("%s", e.text);
		break;
	}
	history_fini(&k);
	return true;
}

static int load(struct histories *h, int folder_fd, char *problem, struct err *e)
{
	struct loading l = { h, folder_fd, problem, ERR_INIT };

	if (h->is_loaded)
		return 0;
	h->n = 0;
	h->bytes = 0;
	if (folder_collect(h->dir_fd, FOLDER_HISTORIES, load_one, &l, e) < 0)
		return -1;
	if (l.err.code != ERR_OK) {
		*e = l.err;
		return -1;
	}
	h->is_loaded = true;
	return 0;
}

/* ---- ---- */

static int keep(struct histories *h, const struct history *k, char *problem, struct err *e)
{
	autoclose int folder_fd = -1;
	struct buf b = BUF_INIT;
	char name[SHA256_HEX_BYTES + 1], sum[SHA256_HEX_BYTES + 1];
	int result;

	sha256_hex(k->text, k->size, sum);
	if (!sum[0] || !name_of(k->id, name))
		return err_set(e, ERR_INTERNAL, "no memory for its hash");
	if (k->size > LIMIT_HISTORY_BYTES)
		return err_set(e, ERR_LIMIT_EXCEEDED, "it has %zu bytes, more than %u", k->size, LIMIT_HISTORY_BYTES);
	if (folder_make(h->dir_fd, FOLDER_HISTORIES, &folder_fd, e) == -1 || load(h, folder_fd, problem, e) == -1 || kept_room(h, e) == -1)
		return -1;
	buf_printf(&b, HEAD FORMAT "%s\n", sum);
	buf_add(&b, k->text, k->size);
	result = b.failed ? err_set(e, ERR_INTERNAL, "no memory for its file") : folder_write(folder_fd, name, "history", b.data, b.size, e);
	if (result == 0) {
		kept_remove(h, kept_find(h, name));
		kept_add(h, name, k, b.size);
		bound(h, folder_fd, name, k->owner);
	}
	buf_fini(&b);
	return result;
}

int histories_keep(struct histories *h, const char *text, size_t size, char problem[HISTORY_PROBLEM_BYTES], struct err *e)
{
	struct history k = { .text = malloc(size + 1), .size = size };
	bool is_one;
	int result;

	problem[0] = '\0';
	if (!k.text)
		return err_set(e, ERR_INTERNAL, "no memory to keep a history of versions");
	memcpy(k.text, text, size);
	k.text[size] = '\0';
	is_one = text_parse(&k, e) == 0;
	if (!is_one)
		e->code = ERR_BAD_PARAM;
	result = is_one ? keep(h, &k, problem, e) : -1;
	if (result == -1)
		(void)err_prefix(e, "the history of versions of %s can't be kept", k.id[0] ? k.id : "a sandbox");
	history_fini(&k);
	return result;
}

bool histories_is_final(const struct err *e)
{
	return e->code == ERR_BAD_PARAM || e->code == ERR_LIMIT_EXCEEDED;
}

int histories_drop(struct histories *h, const char *id, struct err *e)
{
	autoclose int folder_fd = folder_open(h->dir_fd, FOLDER_HISTORIES);
	char name[SHA256_HEX_BYTES + 1];

	if (folder_fd == -1)
		return errno == ENOENT ? 0 : folder_open_error(FOLDER_HISTORIES, e);
	if (!name_of(id, name))
		return err_set(e, ERR_INTERNAL, "no memory for a hash");
	if (faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == -1 && errno == ENOENT)
		return 0;
	if (FAULT(HISTORY_UNLINK) || (unlinkat(folder_fd, name, 0) == -1 && errno != ENOENT) || fsync(folder_fd) == -1)
		return err_sys(e, ERR_IO, "cannot remove the history of versions that was kept of an earlier sandbox %s", id);
	kept_remove(h, kept_find(h, name));
	return 0;
}

int histories_get(struct histories *h, const char *id, struct history *ret, char problem[HISTORY_PROBLEM_BYTES], struct err *e)
{
	autoclose int folder_fd = folder_open(h->dir_fd, FOLDER_HISTORIES);
	char name[SHA256_HEX_BYTES + 1];
	struct err why = ERR_INIT;
	size_t bytes = 0;

	problem[0] = '\0';
	*ret = (struct history){ 0 };
	if (folder_fd == -1 && errno != ENOENT)
		return folder_open_error(FOLDER_HISTORIES, e);
	if (!name_of(id, name))
		return err_set(e, ERR_INTERNAL, "no memory for a hash");
	switch (folder_fd == -1 ? FOLDER_NONE : file_read(folder_fd, name, ret, &bytes, &why)) {
	case FOLDER_GOOD:
		return 0;
	case FOLDER_UNREADABLE:
		*e = why;
		return -1;
	case FOLDER_DAMAGED:
		aside(folder_fd, name, &why, problem);
		kept_remove(h, kept_find(h, name));
		break;
	case FOLDER_NONE:
		break;
	}
	return err_set(e, ERR_NOT_FOUND, "there is no sandbox %s", id);
}
