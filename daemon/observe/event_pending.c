/* SPDX-License-Identifier: MIT
 *
 * The file has its whole size on the disk before it is mapped, so that a full disk is an error here and not a signal later. */
#include "daemon/observe/event_pending.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/limits.h"

#define NAME  "pending"
#define MAGIC 0x45764531u
#define ROOM  (LIMIT_EVENT_PENDING_BYTES - sizeof(struct header))

struct header {
	uint32_t magic, used;      /* bytes behind the header */
	uint64_t major, n;         /* of the last event */
};

struct event_pending {
	unsigned char *map;
};

static struct header *header_of(const struct event_pending *p)
{
	return (struct header *)(void *)p->map;
}

/* The order of stores matters only to a process that looks after this one has been killed: the compiler's is enough. */
static void in_order(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static int open_file(int dir_fd, int *ret_fd, struct err *e)
{
	autoclose int fd = openat(dir_fd, NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;
	int r;

	if (fd == -1 || fstat(fd, &st) == -1)
		return err_sys(e, ERR_IO, "cannot open the file of pending events");
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_IO, "the file of pending events isn't a regular file");
	if (st.st_size != LIMIT_EVENT_PENDING_BYTES && ftruncate(fd, 0) == -1)
		return err_sys(e, ERR_IO, "cannot use the file of pending events");
	r = posix_fallocate(fd, 0, LIMIT_EVENT_PENDING_BYTES);
	if (r != 0) {
		errno = r;
		return err_sys(e, ERR_IO, "cannot keep %u bytes for pending events", LIMIT_EVENT_PENDING_BYTES);
	}
	*ret_fd = fd_take(&fd);
	return 0;
}

int event_pending_open(int dir_fd, struct event_pending **ret, struct err *e)
{
	autoclose int fd = -1;
	struct event_pending *p;
	void *map;

	if (open_file(dir_fd, &fd, e) == -1)
		return -1;
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(e, ERR_INTERNAL, "no memory for pending events");
	map = mmap(NULL, LIMIT_EVENT_PENDING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		free(p);
		return err_sys(e, ERR_IO, "cannot map the file of pending events");
	}
	p->map = map;
	if (header_of(p)->magic != MAGIC || header_of(p)->used > ROOM)
		*header_of(p) = (struct header){ .magic = MAGIC };
	*ret = p;
	return 0;
}

struct event_pending *event_pending_free(struct event_pending *p)
{
	if (p)
		(void)munmap(p->map, LIMIT_EVENT_PENDING_BYTES);
	free(p);
	return NULL;
}

const char *event_pending_text(const struct event_pending *p, size_t *ret_size, struct seq *ret_last)
{
	*ret_size = header_of(p)->used;
	*ret_last = (struct seq){ header_of(p)->major, header_of(p)->n };
	return (const char *)p->map + sizeof(struct header);
}

void event_pending_begin(struct event_pending *p)
{
	*header_of(p) = (struct header){ .magic = MAGIC };
}

void event_pending_add(struct event_pending *p, struct seq seq, const char *line, size_t size)
{
	struct header *h = header_of(p);

	/* In this order: a number whose line isn't there counts as lost, a line behind the last number is found all the same. */
	if (h->used <= ROOM && size <= ROOM - h->used) {
		memcpy(p->map + sizeof(*h) + h->used, line, size);
		in_order();
		__atomic_store_n(&h->used, h->used + (uint32_t)size, __ATOMIC_RELAXED);
		in_order();
	}
	h->major = seq.major;
	in_order();
	h->n = seq.n;
	in_order();
}

void event_pending_written(struct event_pending *p)
{
	in_order();
	__atomic_store_n(&header_of(p)->used, 0, __ATOMIC_RELAXED);
}
