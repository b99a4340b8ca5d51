/* SPDX-License-Identifier: MIT
 *
 * The growable buffer. One byte more than the content is always kept, so that buf_text can't fail after the
 * appends have succeeded; that byte doesn't count against the ceiling. */
#include "proto/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

void buf_init(struct buf *b, size_t ceiling)
{
	*b = (struct buf){ .ceiling = ceiling };
}

void buf_fini(struct buf *b)
{
	free(b->data);
	buf_init(b, b->ceiling);
}

void buf_clear(struct buf *b)
{
	b->size = 0;
	b->failed = false;
}

/* Makes room for n more bytes and the NUL. */
static bool grow(struct buf *b, size_t n)
{
	size_t needed, room = b->room ? b->room : FIRST_ROOM;
	char *data;

	if (n >= PTRDIFF_MAX - b->size || (b->ceiling && (b->size > b->ceiling || n > b->ceiling - b->size)))
		return false;
	needed = b->size + n + 1;
	if (needed <= b->room)
		return true;
	while (room < needed)
		room *= 2; /* doesn't wrap: needed is at most PTRDIFF_MAX */
	if (b->ceiling && room - 1 > b->ceiling)
		room = b->ceiling + 1;
	data = realloc(b->data, room);
	if (!data)
		return false;
	b->data = data;
	b->room = room;
	return true;
}

void *buf_extend(struct buf *b, size_t n)
{
	char *at;

	if (b->failed)
		return NULL;
	if (!grow(b, n)) {
		b->failed = true;
		return NULL;
	}
	at = b->data + b->size;
	b->size += n;
	return at;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	void *at = buf_extend(b, n);

	if (at && n > 0)
		memcpy(at, p, n);
}

void buf_add_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_add_text(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof digits;

	do
		digits[--at] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	buf_add(b, digits + at, sizeof digits - at);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	size_t had = b->room - b->size;
	va_list args;
	int n;

	if (b->failed)
		return;
	va_start(args, format);
	n = vsnprintf(had ? b->data + b->size : NULL, had, format, args);
	va_end(args);
	if (n < 0 || !grow(b, (size_t)n)) {
		b->failed = true;
		return;
	}
	if ((size_t)n >= had) { /* it was only measured: once more, now that there is room */
		va_start(args, format);
		(void)vsnprintf(b->data + b->size, b->room - b->size, format, args);
		va_end(args);
	}
	b->size += (size_t)n;
}

void buf_drop_front(struct buf *b, size_t n)
{
	assert(n <= b->size);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->size - n);
	b->size -= n;
}

char *buf_text(struct buf *b)
{
	static char nothing[1];

	if (b->failed || !b->data)
		return nothing;
	b->data[b->size] = '\0';
	return b->data;
}

char *buf_take(struct buf *b, size_t *ret_size)
{
	char *data;

	if (!buf_extend(b, 0)) { /* an empty buffer gets its NUL here */
		buf_fini(b);
		return NULL;
	}
	data = buf_text(b);
	if (ret_size)
		*ret_size = b->size;
	buf_init(b, b->ceiling);
	return data;
}
