/* SPDX-License-Identifier: MIT
 *
 * A growable byte buffer with a ceiling. Growth that fails (memory, ceiling) sets `failed`, later appends are
 * no-ops, and the one check at the end suffices. Runs in every process. */
#ifndef SANDBOXD_BUF_H
#define SANDBOXD_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;
	size_t size, room;
	size_t ceiling;   /* 0: none */
	bool failed;
};

#define BUF_INIT { 0 }

void buf_init(struct buf *b, size_t ceiling);
void buf_fini(struct buf *b);                       /* frees; b is empty and usable again */
void buf_clear(struct buf *b);                      /* size 0, keeps the room, clears failed */
void *buf_extend(struct buf *b, size_t n);          /* n uninitialised bytes at the end; NULL when it failed */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_char(struct buf *b, char c);
void buf_add_text(struct buf *b, const char *s);
void buf_add_u64(struct buf *b, uint64_t v); /* in decimal */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_drop_front(struct buf *b, size_t n);       /* forgets the first n bytes */
char *buf_text(struct buf *b);                      /* NUL-terminated view (the NUL isn't counted); "" when failed */
char *buf_take(struct buf *b, size_t *ret_size);    /* caller frees; NUL-terminated; NULL when failed; b is empty after */

#endif
