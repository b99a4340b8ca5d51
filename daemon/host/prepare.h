/* SPDX-License-Identifier: MIT
 *
 * Memory for a reload, made ready while calls go on: the memfd that the state will be saved into, mapped and filled with
 * pages, the arena of the candidate's instance, and the host's own. A new page costs more than copying into it, and in the pause
 * all would come at once. Everything here is a wish: what the kernel or the limits refuse is left to be paid for later. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_PREPARE_H
#define SANDBOXD_HOST_PREPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct prepare {
	uint64_t serial;        /* of the candidate; 0: nothing is prepared */
	bool running;           /* pieces are left */
	uint8_t *map;           /* of the whole memfd, to write; NULL: none */
	uint8_t *view;          /* of it, to read: a private mapping, which doesn't stand in the way of a seal. NULL: none */
	uint64_t map_bytes, memfd_wanted, memfd_done, view_done;
	uint64_t arena_wanted, arena_done;
	dev_t device;           /* which memfd it is */
	ino_t inode;
};

/* The host's own memory, which it shares page by page with a copy that has ended: made its own again, all at once. */
void prepare_own_memory(void);
/* Begins for a state of `expected` bytes that will be saved into memfd, and an instance that holds arena_bytes. */
void prepare_begin(struct prepare *p, uint64_t serial, int memfd, uint64_t expected, uint64_t arena_bytes);
/* One piece, about a millisecond at most; true: that was the last one. */
bool prepare_step(struct prepare *p);
/* The mapping of memfd, the caller's now (munmap, before it is sealed); a new one where that isn't what was prepared.
 * NULL: it can't be mapped (errno). The arena waits for the next instance. */
void *prepare_take(struct prepare *p, int memfd, uint64_t bytes);
/* The sealed state, as it was prepared to be read; stays this file's. NULL: it isn't that memfd. */
const void *prepare_view(const struct prepare *p, int memfd, uint64_t bytes);
void prepare_unmap(struct prepare *p); /* the memfd's mapping alone */
void prepare_drop(struct prepare *p); /* all of it; nothing prepared: a no-op */

#endif
