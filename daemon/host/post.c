/* SPDX-License-Identifier: MIT
 *
 * Sending on the channel. The host is an actor and may block here while nobody reads (control is being
 * replaced); it only must notice that both ends that could read are gone. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "daemon/host/death.h"
#include "daemon/host/host.h"
#include "proto/json_out.h"

int host_post_raw(struct host *h, struct host_message *head, const void *body, size_t size, struct err *e)
{
	death_if_forked();
	head->generation = h->generation;
	for (;;) {
		struct pollfd p = { .fd = h->channel_fd, .events = POLLOUT };
		int rc = host_send(h->channel_fd, head, body, size, -1, e);

		if (rc == 0)
			return 0;
		if (rc < 0 && e->sys_errno == EINTR)
			continue;
		if (rc < 0 && (e->sys_errno == EPIPE || e->sys_errno == ECONNRESET))
			death_orphan();
		if (rc < 0)
			return -1;
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			death_end(HOST_EXIT_RESOURCE, "cannot wait for the channel");
		if (p.revents & (POLLHUP | POLLNVAL))
			death_orphan();
	}
}

void host_post(struct host *h, enum host_message_type type, uint64_t number, uint32_t status, int64_t value,
	struct buf *body)
{
	struct host_message head = {
		.type = (uint16_t)type, .number = number, .status = status, .value = { value, 0 }
	};
	struct err e = ERR_INIT;

	if (body && body->failed)
		death_end(HOST_EXIT_RESOURCE, "no memory for a message to control");
	if (host_post_raw(h, &head, body ? body->data : NULL, body ? body->size : 0, &e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);
}

void host_error_body(struct buf *to, const struct err *e, const char *step)
{
	struct json_out o = json_out_to(to);

	json_out_object(&o, NULL);
	json_out_text(&o, "code", err_code_text(e->code));
	json_out_text(&o, "message", e->text);
	if (step)
		json_out_text(&o, "step", step);
	if (e->name[0])
		json_out_text(&o, "name", e->name);
	if (e->nearest[0])
		json_out_text(&o, "nearest", e->nearest);
	json_out_object_end(&o);
}
