/* SPDX-License-Identifier: MIT
 *
 * What both sides of the benchmark share, so that they measure with the same code: the clock, and the caller that keeps
 * requests in flight. bench/client.c drives the daemon with it, bench/floor.c the bare relay. Included once per program. */
#ifndef SANDBOXD_BENCH_DRIVE_H
#define SANDBOXD_BENCH_DRIVE_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DRIVE_CALLERS_MAX 64
#define DRIVE_DEPTH_MAX   64

static inline double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Writes everything to a blocking socket. */
static inline int send_whole(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n > 0) {
			data += n;
			size -= (size_t)n;
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

/* A load: `n` callers, each with up to `depth` requests in flight, until `total` replies have come. A reply is a line. */
struct drive {
	const int *fds;
	int n, depth;
	long total;
	const char *request; /* one request */
	size_t size;
};

/* The replies that one read brings; -1: the socket failed. */
static inline long drive_read(int fd)
{
	static char in[1 << 16];
	ssize_t got = recv(fd, in, sizeof in, 0);
	long lines = 0;

	for (ssize_t i = 0; i < got; i++)
		lines += in[i] == '\n';
	return got > 0 ? lines : -1;
}

/* Refills each caller as its replies come: what one read brought is answered by one write. */
static inline int drive_loop(const struct drive *d, int ep, const char *copies)
{
	long sent = 0, done = 0;

	for (int i = 0; i < d->n; i++) {
		long k = d->total - sent < d->depth ? d->total - sent : d->depth;

		if (send_whole(d->fds[i], copies, (size_t)k * d->size) == -1)
			return -1;
		sent += k;
	}
	while (done < d->total) {
		struct epoll_event ev[DRIVE_CALLERS_MAX];
		int ready = epoll_wait(ep, ev, DRIVE_CALLERS_MAX, 30000);

		if (ready <= 0)
			return -1;
		for (int i = 0; i < ready; i++) {
			long got = drive_read(ev[i].data.fd), k = got;

			if (got < 0)
				return -1;
			done += got;
			if (k > d->total - sent)
				k = d->total - sent;
			if (k > 0 && send_whole(ev[i].data.fd, copies, (size_t)k * d->size) == -1)
				return -1;
			sent += k;
		}
	}
	return 0;
}

/* Microseconds for the whole load, or -1. */
static inline double drive_run(const struct drive *d)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	char *copies = malloc((size_t)d->depth * d->size);
	double started, took = -1;
	bool good = ep != -1 && copies && d->n <= DRIVE_CALLERS_MAX && d->depth <= DRIVE_DEPTH_MAX;

	for (int i = 0; good && i < d->depth; i++)
		memcpy(copies + (size_t)i * d->size, d->request, d->size);
	for (int i = 0; good && i < d->n; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.fd = d->fds[i] };

		good = epoll_ctl(ep, EPOLL_CTL_ADD, d->fds[i], &ev) == 0;
	}
	started = now_us();
	if (good && drive_loop(d, ep, copies) == 0)
		took = now_us() - started;
	free(copies);
	if (ep != -1)
		close(ep);
	return took;
}

#endif
