/* SPDX-License-Identifier: MIT
 *
 * A ring of free user ids. A freed id goes to the end, so that what an old host left behind (a file, a message queue) meets
 * its successor as late as possible. */
#include "daemon/spawner/uids.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void uids_fini(struct uids *u)
{
	free(u->ring);
	*u = (struct uids)UIDS_INIT;
}

int uids_add(struct uids *u, uid_t first, uint32_t count, struct err *e)
{
	uint32_t room = u->room + count;
	uid_t *ring;

	assert(u->n_free <= u->room);
	if (room < u->room)
		return err_set(e, ERR_LIMIT_EXCEEDED, "too many user ids");
	ring = calloc(room ? room : 1, sizeof *ring);
	if (!ring)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for %u user ids", room);
	for (uint32_t i = 0; i < u->n_free; i++)
		ring[i] = u->ring[(u->head + i) % u->room];
	for (uint32_t i = 0; i < count; i++)
		ring[u->n_free + i] = first + i;
	free(u->ring);
	u->ring = ring;
	u->room = room;
	u->head = 0;
	u->n_free += count;
	return 0;
}

bool uids_take(struct uids *u, uid_t *ret_uid)
{
	if (u->n_free == 0)
		return false;
	*ret_uid = u->ring[u->head];
	u->head = (u->head + 1) % u->room;
	u->n_free--;
	return true;
}

void uids_give(struct uids *u, uid_t uid)
{
	if (uid == 0 || uid == (uid_t)-1)
		return; /* whatever went wrong: no host gets it */
	assert(u->n_free < u->room);
	u->ring[(u->head + u->n_free) % u->room] = uid;
	u->n_free++;
}

/* A decimal field of a line that ends at `end`; false when it isn't a number below 2^33. */
static bool field_number(const char *field, const char *end, uint64_t *ret)
{
	uint64_t n = 0;
	const char *p = field;

	while (p < end && *p >= '0' && *p <= '9' && n < (1ull << 33))
		n = n * 10 + (uint64_t)(*p++ - '0');
	if (p == field || n >= (1ull << 33) || (p < end && *p != ':'))
		return false;
	*ret = n;
	return true;
}

static const char *field_next(const char *p, const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p));

	return colon ? colon + 1 : NULL;
}

static bool line_range(const char *line, const char *end, enum uids_file kind, uint64_t *ret_first, uint64_t *ret_count)
{
	const char *second = field_next(line, end);
	const char *third = second ? field_next(second, end) : NULL;

	if (!third)
		return false;
	switch (kind) {
	case UIDS_FILE_ACCOUNTS:
		*ret_count = 1;
		return field_number(third, end, ret_first);
	case UIDS_FILE_RANGES:
		return field_number(second, end, ret_first) && field_number(third, end, ret_count);
	}
	return false;
}

bool uids_text_meets(const char *text, size_t size, enum uids_file kind, uid_t first, uint32_t count, char ret_name[64])
{
	const char *end = text + size;

	for (const char *line = text; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *line_end = newline ? newline : end;
		uint64_t its_first, its_count;

		if (line_range(line, line_end, kind, &its_first, &its_count) && its_count > 0 &&
			its_first < (uint64_t)first + count && its_first + its_count > first) {
			const char *name_end = memchr(line, ':', (size_t)(line_end - line));

			text_clean(ret_name, 64, line, (uint64_t)(name_end - line));
			return true;
		}
		line = newline ? newline + 1 : end;
	}
	return false;
}
