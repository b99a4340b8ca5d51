/* SPDX-License-Identifier: MIT
 *
 * A host's way from START to its first word. Its channel and its pipes are made here and its ends are kept until it has them, so
 * that another zygote can be asked. What can go wrong with it is told as its exit, with the step. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/spawner/spawner.h"
#include "daemon/spawner/zygotes.h"
#include "daemon/spawner/zygotes_inside.h"
#include "proto/clock.h"
#include "proto/log.h"

#define CHANNEL_BUFFER_BYTES (1 << 20) /* sixteen of the largest messages, where net.core.wmem_max allows it */

enum { CHANNEL, OUT, ERROR };

/* ---- the list ---- */

static void list_add(struct zygote *z, struct birth *b)
{
	b->previous = z->last;
	if (z->last)
		z->last->next = b;
	else
		z->first = b;
	z->last = b;
	if (!z->next_unsent)
		z->next_unsent = b;
}

static void list_remove(struct zygote *z, struct birth *b)
{
	if (z->next_unsent == b)
		z->next_unsent = b->next;
	z->n_sent -= b->sent;
	if (b->previous)
		b->previous->next = b->next;
	else
		z->first = b->next;
	if (b->next)
		b->next->previous = b->previous;
	else
		z->last = b->previous;
}

void birth_drop(struct spawner *sp, struct entry *entry)
{
	struct birth *b = entry->birth;

	(void)sp;
	if (!b)
		return;
	list_remove(b->zygote, b);
	zygote_expect(b->zygote);
	for (size_t i = 0; i < 3; i++)
		fd_close(&b->fds[i]);
	entry->birth = NULL;
	free(b);
}

/* ---- what is asked of a zygote ---- */

/* The sandbox's objects, read-only, for a host that can't reach them by a path: a mount that hangs nowhere yet. */
static int objects_mount(const struct spawner *sp, const char *folder)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE };
	autoclose int fd = (int)syscall(SYS_open_tree, sp->objects_fd, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (fd == -1 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attributes, sizeof attributes) == -1)
		return -1;
	return fd_take(&fd);
}

/* Where there are cgroups, one with the host's limits: bits and words tell the host what it gets. */
static int cgroup_prepare(struct spawner *sp, const struct clone_request *r, struct zygote_message *m, int *ret_fd)
{
	const struct cgroup_limits limits = limits_of_cgroup(r->limits);

	m->lost = CGROUPS_BITS & ~(sp->cgroups.has & ~sp->weaken);
	(void)snprintf(m->step, sizeof m->step, "%s", cgroups_there(&sp->cgroups) ? "its cgroup lacks the controller" : sp->cgroups.why);
	if (!cgroups_there(&sp->cgroups) || (sp->weaken & CGROUPS_BITS) == CGROUPS_BITS)
		return 0;
	*ret_fd = cgroup_make(&sp->cgroups, r->leaf, &limits);
	m->flags |= ZYGOTE_F_CGROUP;
	return *ret_fd == -1 ? -1 : 0;
}

int clone_ask(struct spawner *sp, const struct zygote *z, const struct clone_request *r, const char **ret_step)
{
	struct zygote_message m = { .version = ZYGOTE_WIRE_VERSION, .op = ZYGOTE_CLONE, .profile = (uint16_t)z->profile, .flags = r->flags,
		.tag = r->tag, .uid = r->uid, .scratch_bytes = DEFAULT_SCRATCH_BYTES, .limits = *r->limits };
	int fds[5] = { r->its[CHANNEL], r->its[OUT], r->its[ERROR], -1, -1 };
	autoclose int objects_fd = -1, cgroup_fd = -1;
	size_t n = 3;

	*ret_step = "open objects";
	(void)snprintf(m.objects, sizeof m.objects, "%.150s/%s", sp->objects_dir, r->folder);
	if (z->has_root && sp->is_root) {
		fds[n++] = objects_fd = objects_mount(sp, r->folder);
		if (objects_fd == -1)
			return -1;
		m.flags |= ZYGOTE_F_OBJECTS;
	}
	*ret_step = "make a cgroup";
	if (cgroup_prepare(sp, r, &m, &cgroup_fd) == -1)
		return -1;
	if (cgroup_fd != -1)
		fds[n++] = cgroup_fd;
	*ret_step = NULL;
	return fd_message_send(z->link_fd, &m, sizeof m, fds, n);
}

/* ---- the start ---- */

static void buffers_raise(int fd)
{
	const int bytes = CHANNEL_BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == -1)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == -1)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/* Our read end doesn't block; the writer's does, as programs expect of their standard output. */
static int log_pipe(int *ours, int *its, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a pipe");
	*ours = ends[0];
	*its = ends[1];
	return fd_set_nonblocking(ends[0], true) == -1 ? err_sys(e, ERR_UNAVAILABLE, "cannot make a pipe") : 0;
}

static int channel_make(int *ours, int *its, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a channel");
	*ours = pair[0];
	*its = pair[1];
	if (fd_set_nonblocking(*ours, true) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a channel");
	buffers_raise(*ours);
	buffers_raise(*its);
	return 0;
}

int host_ends_make(int ours[3], int its[3], struct err *e)
{
	return channel_make(&ours[CHANNEL], &its[CHANNEL], e) == -1 || log_pipe(&ours[OUT], &its[OUT], e) == -1 ||
			log_pipe(&ours[ERROR], &its[ERROR], e) == -1 ? -1 : 0;
}

int birth_start(struct spawner *sp, struct entry *entry, enum profile profile, bool is_fresh, const struct host_limits *limits, struct err *e)
{
	struct zygote *z = zygote_for(sp, profile, is_fresh);
	struct birth *b = calloc(1, sizeof *b);
	int *ours = &entry->fds[ENTRY_CHANNEL];

	_Static_assert(ENTRY_STDOUT == ENTRY_CHANNEL + 1 && ENTRY_STDERR == ENTRY_CHANNEL + 2, "our ends, in the order of its");
	if (!b)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a start");
	for (size_t i = 0; i < 3; i++)
		b->fds[i] = -1;
	if (host_ends_make(ours, b->fds, e) == -1) {
		for (size_t i = 0; i < 3; i++) {
			fd_close(&ours[i]);
			fd_close(&b->fds[i]);
		}
		free(b);
		return -1;
	}
	b->entry = entry;
	b->profile = profile;
	b->zygote = z;
	entry->birth = b;
	entry->profile = profile;
	entry->limits = *limits;
	entry->host_build = sp->programs.host_build;
	entry_started(&sp->table, entry, ++sp->generations, clock_monotonic_ms());
	cgroup_leaf_name(entry->leaf, entry->sandbox, entry->generation);
	if (!is_fresh)
		pool_started(&z->spares.pool, entry->started_ms);
	list_add(z, b);
	zygote_want(sp, z);
	births_send(sp, z);
	return 0;
}

/* ---- the request ---- */

/* It has no process, and won't have one. */
static void birth_fail(struct spawner *sp, struct entry *entry, const char *step, int sys_errno)
{
	(void)snprintf(entry->step, sizeof entry->step, "%s", step);
	(void)snprintf(entry->text, sizeof entry->text, "%.90s", strerror(sys_errno));
	birth_drop(sp, entry);
	entry_leaf_end(sp, entry);
	entry_exited(&sp->table, entry, CHILD_STATUS_FAILED << 8, clock_monotonic_ms());
}

/* 1 sent, 0 no room now, -1 it has failed. */
static int birth_send(struct spawner *sp, struct zygote *z, struct birth *b)
{
	struct entry *entry = b->entry;
	const struct clone_request r = { entry->generation, 0, entry->uid, &entry->limits, entry->folder, entry->leaf, b->fds };
	const char *step;

	if (clone_ask(sp, z, &r, &step) == 0)
		return 1;
	if (step) {
		birth_fail(sp, entry, step, errno);
		return -1;
	}
	return 0; /* EPIPE: its death is on the way to us, and the next one is asked */
}

/* A few at a time: hundreds of processes that are made at once would leave no processor for those that serve. */
bool births_may_send(const struct spawner *sp, const struct zygote *z)
{
	return z->n_sent < sp->zygotes.births_at_work;
}

void births_send(struct spawner *sp, struct zygote *z)
{
	while (z->state == ZYGOTE_SERVES && z->next_unsent && births_may_send(sp, z)) {
		struct birth *b = z->next_unsent;
		int sent = birth_send(sp, z, b);

		if (sent == 0)
			return;
		if (sent == -1)
			continue;
		b->sent = true;
		z->n_sent++;
		z->next_unsent = b->next;
		entry_has_own_pids(b->entry, z->has_pids);
		zygote_expect(z);
		if (!zygote_asked(sp, z))
			return;
	}
}

/* ---- the answers ---- */

static struct birth *birth_find(struct zygote *z, uint64_t generation)
{
	struct birth *b = z->first;

	while (b && b->entry->generation != generation)
		b = b->next;
	return b;
}

/* A pid may have been reaped before anybody said whose it was. */
static void pid_known(struct spawner *sp, struct entry *entry, pid_t pid)
{
	int status;

	if (entry->pid == 0)
		entry_has_pid(&sp->table, entry, pid);
	if (zygotes_early_take(sp, pid, &status)) {
		birth_drop(sp, entry);
		entry_leaf_end(sp, entry);
		entry_exited(&sp->table, entry, status, clock_monotonic_ms());
	} else if (entry->kill_wanted) {
		(void)kill(pid, SIGKILL);
	}
}

void birth_cloned(struct spawner *sp, struct zygote *z, const struct zygote_message *m)
{
	struct birth *b = birth_find(z, m->tag);

	zygote_expect(z);
	if (!b || b->cloned) /* born already, or the first word of a host was faster */
		return;
	b->cloned = true;
	if (m->status != 0)
		birth_fail(sp, b->entry, m->step, m->status);
	else if (m->pid > 0)
		pid_known(sp, b->entry, m->pid);
}

void birth_born(struct spawner *sp, struct zygote *z, const struct zygote_message *m, pid_t pid, int *listener_fd)
{
	struct birth *b = birth_find(z, m->tag);
	struct entry *entry = b ? b->entry : NULL;

	if (!b || pid <= 0)
		return;
	b->cloned = true;
	if (m->status != 0) { /* it exits */
		(void)snprintf(entry->step, sizeof entry->step, "%s", m->step);
		(void)snprintf(entry->text, sizeof entry->text, "%.90s", strerror(m->status));
	}
	pid_known(sp, entry, pid);
	if (!entry->birth) /* it has ended already */
		return;
	birth_drop(sp, entry);
	if (m->status != 0)
		return;
	entry_born(entry);
	if (listener_fd)
		denials_watch(sp, entry, fd_take(listener_fd));
}

/* The link is at its end: a host that has not said its word by now is dead, or was never cloned. */
void births_link_ended(struct spawner *sp, struct zygote *z)
{
	struct birth *b = z->first, *next;

	for (; b; b = next) {
		next = b->next;
		if (b->cloned)
			birth_drop(sp, b->entry); /* its exit is reaped */
		else
			b->sent = false;
	}
	z->next_unsent = z->first;
	z->n_sent = 0;
}

void births_fail(struct spawner *sp, struct zygote *z, const char *step, int sys_errno)
{
	while (z->first)
		birth_fail(sp, z->first->entry, step, sys_errno);
}
