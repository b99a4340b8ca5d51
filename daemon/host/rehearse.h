/* SPDX-License-Identifier: MIT
 *
 * What forked copies do: rehearse a candidate, save the state. Runs in copies of sandbox-host only. */
#ifndef SANDBOXD_HOST_REHEARSE_H
#define SANDBOXD_HOST_REHEARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/copy.h"
#include "daemon/host/host.h"

struct rehearse {
	struct host *host;
	uint64_t serial;
	const char *path;
	bool backwards;
	struct json_span patch;
	int state_fd; /* a sealed state to restore; -1: a save of the present one */
};

struct save {
	struct host *host;
	int fd; /* writable memfd of at least `capacity` bytes */
	uint64_t capacity;
	void *to; /* a mapping of it, which the save ends; NULL: none yet */
};

/* The state in fresh memory, as a sealed memfd would hold it; NULL with err. Nobody frees it: the copy ends. */
void *rehearse_save(struct module_instance *m, uint64_t *ret_size, struct err *e);
void rehearse_run(void *ctx /* struct rehearse */, struct copy_answer *answer); /* HOST_REHEARSED's body */
/* value = bytes written, or needed with status 1 (0: it failed for another reason). */
void save_run(void *ctx /* struct save */, struct copy_answer *answer);
/* The same in this process, for declared state. false: reading it faulted; a copy will say how. */
bool save_here(struct save *s, struct copy_answer *answer);

#endif
