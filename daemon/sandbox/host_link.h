/* SPDX-License-Identifier: MIT
 *
 * Control's end of one host's channel, and the read ends of its two log pipes. It checks what a message must satisfy whoever
 * sent it (type, generation, JSON bodies); what it means is the owner's business. Loop thread only.
 * A link is embedded in its owner, which is freed after `closed`. */
#ifndef SANDBOXD_HOST_LINK_H
#define SANDBOXD_HOST_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/observe/logs.h"
#include "proto/host_channel.h"

struct host_link;

struct host_link_owner {
	bool (*awaits)(struct host_link *l, uint64_t number);    /* is a REPLY with this number worth being looked at? else it is a violation */
	bool (*expects)(struct host_link *l);                    /* is another message likely to be there? else the next turn looks */
	void (*message)(struct host_link *l, const struct host_message *head, const char *body);
	void (*output)(struct host_link *l, enum log_stream stream, const char *data, size_t size);
	void (*writable)(struct host_link *l);                   /* there was no room; now there is */
	void (*broken)(struct host_link *l, const char *why);    /* contract violated; NULL: the channel's other end is closed */
};

struct host_link {
	uv_poll_t channel, streams[2];
	int channel_fd, stream_fds[2];
	uint64_t generation;
	const struct host_link_owner *owner;
	void *ctx;                    /* the owner's */
	uint64_t acked, seen;         /* reply sequences: told to the host, and received */
	uint64_t unacked_bytes;       /* of the bodies between them */
	unsigned open_handles, n_out;
	size_t turn_bytes;            /* of bodies, in this turn of the loop */
	int watched;                  /* what the loop waits for on the channel */
	bool full, broken, closing;
	void (*closed)(struct host_link *l);
	struct host_out { struct host_out *next; size_t size; int fd; char *data; } *out, **out_end; /* control messages that found it full */
};

/* Takes the three descriptors on success and on failure. -1 with err: nothing to close. */
int host_link_open(struct host_link *l, uv_loop_t *loop, uint64_t generation, int channel_fd, int stdout_fd, int stderr_fd,
	const struct host_link_owner *owner, void *ctx, struct err *e);
/* From now on what comes through the pipes is read; once. What had come before is there. */
void host_link_read_output(struct host_link *l);
bool host_link_is_open(const struct host_link *l);
/* The host has ended: reads what is left of channel and pipes (bounded), giving it to the owner. Returns which pipes aren't at their end, since
 * somebody else holds them: HOST_LINK_STDOUT | HOST_LINK_STDERR. What he writes is lost when the link is closed. */
#define HOST_LINK_STDOUT 0x1u
#define HOST_LINK_STDERR 0x2u
unsigned host_link_drain(struct host_link *l);
void host_link_close(struct host_link *l, void (*closed)(struct host_link *l));

/* 0: sent (or, for all but calls, queued); 1: no room (calls only): `writable` follows. -1: broken. */
int host_link_send(struct host_link *l, enum host_message_type type, uint64_t number, int64_t value, const void *body, size_t size,
	int state_fd);
int host_link_call(struct host_link *l, uint64_t number, bool is_cast, const char *function, const char *args, size_t args_size);

#endif
