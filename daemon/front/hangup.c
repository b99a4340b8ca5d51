/* SPDX-License-Identifier: MIT */
#include "daemon/front/hangup.h"

#include <sys/epoll.h>

#include "proto/fd.h"

#define EVENTS_PER_TURN 64

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct hangup *h = (struct hangup *)((char *)poll - offsetof(struct hangup, poll));
	struct epoll_event found[EVENTS_PER_TURN];
	int n;

	(void)status;
	(void)events;
	n = epoll_wait(h->fd, found, EVENTS_PER_TURN, 0);
	for (int i = 0; i < n; i++)
		h->gone(found[i].data.ptr);
}

int hangup_open(struct hangup *h, uv_loop_t *loop, void (*gone)(void *who), struct err *e)
{
	int r;

	h->gone = gone;
	h->fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->fd == -1)
		return err_sys(e, ERR_INTERNAL, "cannot watch for clients that hang up");
	r = uv_poll_init(loop, &h->poll, h->fd);
	if (r < 0) {
		fd_close(&h->fd);
		return err_set(e, ERR_INTERNAL, "cannot watch for clients that hang up: %s", uv_strerror(r));
	}
	(void)uv_poll_start(&h->poll, UV_READABLE, on_poll); /* can't fail: it was possible to add it */
	return 0;
}

int hangup_watch(struct hangup *h, int fd, bool is_first, void *who)
{
	struct epoll_event wanted = { .events = EPOLLONESHOT, .data = { .ptr = who } }; /* EPOLLHUP comes unasked */

	return epoll_ctl(h->fd, is_first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &wanted);
}

void hangup_close(struct hangup *h, uv_close_cb closed)
{
	(void)uv_poll_stop(&h->poll);
	fd_close(&h->fd);
	uv_close((uv_handle_t *)&h->poll, closed);
}
