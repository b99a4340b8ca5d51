/* SPDX-License-Identifier: MIT
 *
 * Line framing. What has been given out stays in front of the buffer until the next frame_room, which moves
 * the rest down: each byte is moved at most once per read that it waits for. */
#include "proto/frame.h"

#include <assert.h>
#include <string.h>

#define READ_BYTES (16u << 10) /* at the least; more while a long line is coming in */
#define READ_MAX   (256u << 10)
#define KEEP_BYTES (64u << 10) /* an idle connection keeps no larger buffer */

void frame_init(struct frame *f, size_t limit)
{
	*f = (struct frame){ .limit = limit };
	buf_init(&f->in, 0);
}

void frame_fini(struct frame *f)
{
	buf_fini(&f->in);
	frame_init(f, f->limit);
}

char *frame_room(struct frame *f, size_t *ret_room)
{
	size_t room;
	char *at;

	buf_drop_front(&f->in, f->line_start);
	f->scanned -= f->line_start;
	f->line_start = 0;
	room = f->in.size; /* it doubles: few reads for long lines, small buffers for short ones */
	if (room < READ_BYTES)
		room = READ_BYTES;
	if (room > READ_MAX)
		room = READ_MAX;
	if (room > f->limit)
		room = f->limit + 1;
	at = buf_extend(&f->in, room);
	if (!at)
		return NULL;
	f->in.size -= room;
	*ret_room = room;
	return at;
}

void frame_fed(struct frame *f, size_t n)
{
	assert(n <= f->in.room - f->in.size);
	f->in.size += n;
}

static enum frame_result more(struct frame *f)
{
	size_t unfinished = f->in.size - f->line_start;

	/* One byte beyond the limit may be the "\r" of the newline to come. */
	if (unfinished > f->limit + 1 || (unfinished == f->limit + 1 && f->in.data[f->in.size - 1] != '\r'))
		return FRAME_TOO_LARGE;
	if (unfinished == 0) {
		if (f->in.room > KEEP_BYTES)
			buf_fini(&f->in);
		buf_clear(&f->in);
		f->line_start = f->scanned = 0;
	}
	return FRAME_MORE;
}

enum frame_result frame_next(struct frame *f, char **ret_line, size_t *ret_size)
{
	char *line, *newline = NULL;
	size_t size;

	if (f->in.failed)
		return FRAME_NO_MEMORY;
	if (f->scanned < f->in.size)
		newline = memchr(f->in.data + f->scanned, '\n', f->in.size - f->scanned);
	if (!newline) {
		f->scanned = f->in.size;
		return more(f);
	}
	line = f->in.data + f->line_start;
	size = (size_t)(newline - line);
	if (size > 0 && line[size - 1] == '\r')
		size--;
	if (size > f->limit) { /* not taken, so that the answer stays the same */
		f->scanned = (size_t)(newline - f->in.data);
		return FRAME_TOO_LARGE;
	}
	f->line_start = f->scanned = (size_t)(newline - f->in.data) + 1;
	*ret_line = line;
	*ret_size = size;
	return FRAME_LINE;
}

bool frame_has_partial(const struct frame *f)
{
	return frame_held(f) > 0;
}

size_t frame_held(const struct frame *f)
{
	return f->in.size - f->line_start;
}
