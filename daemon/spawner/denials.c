/* SPDX-License-Identifier: MIT
 *
 * The listeners in one epoll set: what is asked, what it is answered, who is told. The process that asks waits, and may die
 * meanwhile; nothing of it is read but the registers that the kernel hands over. */
#include "daemon/spawner/denials.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/spawner/filter.h"
#include "daemon/spawner/spawner.h"
#include "proto/log.h"

#define EVENTS_PER_TURN 16

int denials_open(struct denials *d, struct err *e)
{
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return d->epoll_fd == -1 ? err_sys(e, ERR_UNAVAILABLE, "cannot make an epoll set") : 0;
}

void denials_close(struct denials *d)
{
	fd_close(&d->epoll_fd);
}

void denials_watch(struct spawner *sp, struct entry *entry, int listener_fd_take)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = entry };

	denials_unwatch(entry);
	entry->listener_fd = listener_fd_take;
	entry->listener_set = sp->denials.epoll_fd;
	entry->n_denials = 0;
	if (epoll_ctl(sp->denials.epoll_fd, EPOLL_CTL_ADD, listener_fd_take, &event) == -1) {
		log_warning("sandbox=%s its forbidden calls are not named: %s", entry->sandbox, strerror(errno));
		fd_close(&entry->listener_fd);
	}
}

void denials_unwatch(struct entry *entry)
{
	if (entry->listener_fd == -1)
		return;
	(void)epoll_ctl(entry->listener_set, EPOLL_CTL_DEL, entry->listener_fd, NULL);
	fd_close(&entry->listener_fd);
}

static void note(struct spawner *sp, const struct entry *entry, const struct seccomp_data *call, const struct filter_verdict *v)
{
	struct denials *d = &sp->denials;
	struct spawner_message *m;

	if (d->n == DENIALS_WAITING) {
		d->dropped++;
		return;
	}
	m = &d->waiting[(d->first + d->n++) % DENIALS_WAITING];
	*m = (struct spawner_message){ .version = SPAWNER_WIRE_VERSION, .op = SPAWNER_DENIED, .generation = entry->generation,
		.value = (uint32_t)call->nr, .status = v->error, .flags = v->kill ? SPAWNER_F_KILLED : 0, .pid = entry->pid,
		.dropped_bytes = d->dropped };
	d->dropped = 0;
	if (entry->n_denials >= LIMIT_DENIALS_NAMED)
		m->flags |= SPAWNER_F_LAST;
	(void)snprintf(m->sandbox, sizeof m->sandbox, "%s", entry->sandbox);
	(void)snprintf(m->name, sizeof m->name, "%s", v->call);
	(void)snprintf(m->text, sizeof m->text, "%s", operation_name(v->operation));
}

const struct spawner_message *denials_first(const struct denials *d)
{
	return d->n > 0 ? &d->waiting[d->first] : NULL;
}

void denials_sent(struct denials *d)
{
	d->first = (d->first + 1) % DENIALS_WAITING;
	d->n--;
}

/* false: nobody asks any more. */
static bool answer_one(struct spawner *sp, struct entry *entry)
{
	struct seccomp_notif ask;
	struct seccomp_notif_resp answer = { 0 };
	struct filter_verdict v;

	memset(&ask, 0, sizeof ask); /* the kernel refuses anything else */
	if (ioctl(entry->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &ask) == -1)
		return errno == ENOENT || errno == EINTR; /* the caller has died, or was interrupted */
	filter_decide(profile_policy(entry->profile), sp->weaken, true, &ask.data, &v);
	entry->n_denials++;
	note(sp, entry, &ask.data, &v);
	if (v.kill && entry->pid > 0)
		(void)kill(entry->pid, SIGKILL);
	answer.id = ask.id;
	answer.error = -(v.error > 0 ? v.error : EPERM);
	(void)ioctl(entry->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	if (entry->n_denials < LIMIT_DENIALS_NAMED)
		return true;
	log_warning("sandbox=%s made %u forbidden calls: further ones get ENOSYS and are not named", entry->sandbox, entry->n_denials);
	return false;
}

void denials_ready(struct spawner *sp)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(sp->denials.epoll_fd, events, EVENTS_PER_TURN, 0);

	for (int i = 0; i < n; i++) {
		struct entry *entry = events[i].data.ptr;

		if (!(events[i].events & EPOLLIN) || !answer_one(sp, entry))
			denials_unwatch(entry);
	}
}
