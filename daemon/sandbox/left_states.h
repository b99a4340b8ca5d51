/* SPDX-License-Identifier: MIT
 *
 * The states that a sandbox's versions were left with: of each version the last one, for a rollback that takes it instead of the present
 * state. Memory of control only, so they end with it; bounded in number and bytes, the oldest give way. A small state is a copy, a large one
 * a mapping of the sealed memfd that it came in: no descriptor is kept. */
#ifndef SANDBOXD_LEFT_STATES_H
#define SANDBOXD_LEFT_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/limits.h"

struct left_state {
	uint32_t version;
	int fd;              /* of left_states_get: the caller's; -1 in the list */
	int64_t at_ms;       /* wall clock */
	uint64_t bytes;
	uint64_t calls_done; /* calls.done then */
	void *data;          /* the list's */
	bool is_mapped;
};

struct left_states {
	struct left_state items[LIMIT_LEFT_STATES]; /* oldest first */
	size_t n;
};

/* Takes a copy, or another reference, of the sealed memfd; in place of the same version's before. What can't be had, or is too large, is not
 * kept: false. */
bool left_states_add(struct left_states *l, const struct left_state *what, int memfd);
const struct left_state *left_states_find(const struct left_states *l, uint32_t version); /* NULL; without its fd */
/* As a sealed memfd of its own in ret->fd. -1: STATE_NOT_FOUND, or IO. */
int left_states_get(const struct left_states *l, uint32_t version, struct left_state *ret, struct err *e);
void left_states_drop(struct left_states *l, uint32_t version);
void left_states_fini(struct left_states *l);

#endif
