/* SPDX-License-Identifier: MIT
 *
 * A sandbox's log from the inside: for logs.c (cutting, showing) and log_readers.c. */
#ifndef SANDBOXD_LOG_INSIDE_H
#define SANDBOXD_LOG_INSIDE_H

#include "daemon/observe/log_readers.h"
#include "daemon/observe/log_ring.h"

struct sandbox_log {
	struct log_ring ring;
	bool is_untold;    /* the ring is new and the caller doesn't know yet */
	uint64_t begin;    /* position in the ring: the newest process's output */
	uint64_t pumped;   /* up to here readers have had their turn */
	TAILQ_HEAD(, log_reader) readers;
	struct log_keep keep;
};

void log_readers_pump(struct sandbox_log *l);
void log_readers_gone(struct sandbox_log *l);
bool log_readers_want(struct sandbox_log *l); /* would any take a line now? */

#endif
