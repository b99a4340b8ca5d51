/* SPDX-License-Identifier: MIT
 *
 * A mirror: the memfd that a host saves its state into before each reply (checkpoint call), so that whoever kills it takes nothing away that was
 * acknowledged. Two halves: the one that isn't the newest is written, and then published by its sequence; so at every instant at least
 * one is whole, once the first was published. Control makes it, one for each process; the spawner holds it too. What lies in it is the
 * host's, and nothing there is believed: a half is copied first, then looked at, and its state is checked as every saved state is. */
#ifndef SANDBOXD_MIRROR_H
#define SANDBOXD_MIRROR_H

#include <stdint.h>

#include "proto/err.h"
#include "proto/limits.h"

#define MIRROR_HEAD_BYTES 4096u /* both heads; the halves begin at page boundaries */
#define MIRROR_BYTES      (MIRROR_HEAD_BYTES + 2ull * LIMIT_MIRROR_STATE_BYTES)

/* ---- control ---- */
/* Of MIRROR_BYTES, zeroed, sealed against SHRINK and GROW. -1 with err. */
int mirror_make(struct err *e);
/* The state of the newest whole half, in a sealed memfd of its own. -1: STATE_NOT_FOUND: there is none; or IO. */
int mirror_newest(int fd, uint64_t *ret_bytes, uint64_t *ret_sequence, struct err *e);

/* ---- host ---- */
struct mirror {
	uint8_t *map;      /* NULL: there is none */
	uint64_t sequence; /* of the newest half */
};

int mirror_open(struct mirror *m, int fd, struct err *e); /* the descriptor stays the caller's */
/* The half that may be written, LIMIT_MIRROR_STATE_BYTES; it isn't whole from now on. */
void *mirror_begin(struct mirror *m);
void mirror_publish(struct mirror *m, uint64_t bytes);    /* so many were written */

#endif
