/* SPDX-License-Identifier: MIT
 *
 * Line framing: bytes in, lines out. Pure and incremental; the limit is checked before anything is kept.
 * Runs in control and sandboxctl. */
#ifndef SANDBOXD_FRAME_H
#define SANDBOXD_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/buf.h"

struct frame {
	struct buf in;       /* bytes not yet given out */
	size_t scanned;      /* of them, known to hold no newline */
	size_t line_start;
	size_t limit;        /* longest line, without its newline */
};

enum frame_result { FRAME_LINE, FRAME_MORE, FRAME_TOO_LARGE, FRAME_NO_MEMORY };

void frame_init(struct frame *f, size_t limit);
void frame_fini(struct frame *f);
/* Room for the next read: never more than limit + 1 beyond what is unfinished. NULL: no memory. */
char *frame_room(struct frame *f, size_t *ret_room);
void frame_fed(struct frame *f, size_t n);
/* The next line, without "\n" or "\r\n"; valid until the next call of frame_room or frame_next.
 * FRAME_TOO_LARGE is final: the stream can't be resumed. Empty lines are given out too (size 0). */
enum frame_result frame_next(struct frame *f, char **ret_line, size_t *ret_size);
bool frame_has_partial(const struct frame *f);
size_t frame_held(const struct frame *f); /* bytes that haven't been given out */

#endif
