/* SPDX-License-Identifier: MIT
 *
 * The whole state of a sandbox-host process, and the sending half of its channel. One thread, one request at
 * a time. Nothing here survives the process: what must, is in control's spec or the spawner's memfds. */
#ifndef SANDBOXD_HOST_HOST_H
#define SANDBOXD_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/code.h"
#include "daemon/host/copy.h"
#include "daemon/host/prepare.h"
#include "daemon/host/replies.h"
#include "proto/buf.h"
#include "proto/host_channel.h"
#include "proto/mirror.h"

/* Exit statuses that are the host's own; everything else is the module's doing. The last two
 * come with a HOST_DEATH whose text says what happened. */
enum host_exit {
	HOST_EXIT_STOPPED = 0,
	HOST_EXIT_FAILED = 1,    /* after HOST_FAILED */
	HOST_EXIT_ORPHAN = 90,   /* EOF on the channel: nobody is left who could read the status */
	HOST_EXIT_CONTRACT = 91, /* control broke the contract, or the process was started wrongly */
	HOST_EXIT_RESOURCE = 92, /* the host itself (not the module's arena) got no memory or descriptor */
	HOST_EXIT_BIRTH = 127    /* a step before anything of a module failed; the spawner was told which */
};

/* A message that can't be begun yet: calls while too many replies are unacknowledged, and what came after
 * them. */
struct host_waiting {
	struct host_message head;
	int state_fd;
	char *body;
	struct host_waiting *next;
};

struct host {
	int channel_fd;
	struct host_incoming incoming;
	uint64_t generation; /* of the first message; 0: none came yet */
	uint64_t last_call;  /* number of the last CALL that came; 0: none */
	enum host_phase phase;
	bool begun;                /* HOST_BEGIN was handled */
	struct code now;           /* serves */
	struct code candidate;     /* phase LOADED only */
	uint64_t candidate_serial; /* from QUIESCE, REHEARSE or LOAD on; 0: no transaction */
	struct copy rehearsal, saving, showing;
	uint64_t rehearsal_serial, saving_serial, showing_number;
	struct mirror mirror;      /* what the state is saved into before each reply; its map NULL: it isn't */
	bool mirror_failing;       /* after a timer, and that was told */
	struct prepare prepare;    /* memory for the reload that is at work */
	struct host_waiting *first, **last;
	unsigned n_waiting;
	bool trim_due;   /* what the start needed is given back when nothing comes for a while */
	bool came_empty; /* the last receive brought no message: it may not wait for one */
	bool stopped; /* the loop ends */
	int exit_status;
	struct replies replies; /* last: most of it is never touched */
};

/* What a message is answered with. Waits until the channel takes it; a closed channel ends the process. */
void host_post(struct host *h, enum host_message_type type, uint64_t number, uint32_t status, int64_t value,
	struct buf *body);
/* Any message, header prepared by the caller but for magic, generation and sizes. -1: can't be sent at all
 * (err says why). */
int host_post_raw(struct host *h, struct host_message *head, const void *body, size_t size, struct err *e);
/* {"code","message","step","name"}; step NULL: none. */
void host_error_body(struct buf *to, const struct err *e, const char *step);

#endif
