/* SPDX-License-Identifier: MIT
 *
 * The lives of zygotes. One that dies is replaced at once; one that can't get ready is tried a few times, and then those who
 * wait for it are told the step. Nothing here blocks: an answer that is overdue ends the zygote. */
#include "daemon/spawner/zygotes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/filter.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/zygotes_inside.h"
#include "proto/clock.h"
#include "proto/log.h"

#define PREPARE_MS    10000 /* exec and its steps: 10 ms, and the patience for a loaded machine */
#define ANSWER_MS     5000  /* a clone: 0.1 ms */
#define LINK_END_MS   5000  /* its hosts' first words, once it is dead */
#define FAILURES_MAX  12    /* a step of its own that failed counts for four, that somebody killed it for one */
#define FAILURE_OWN   4
#define RETRY_MS      50
#define BIRTHS_CPUS_MAX    64
#define BIRTHS_BESIDE_CPUS 2 /* so that no processor waits for the next request */

void zygotes_init(struct zygotes *all, uint32_t spares)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	memset(all, 0, sizeof *all);
	all->births_at_work = (unsigned)(cpus < 1 ? 1 : cpus > BIRTHS_CPUS_MAX ? BIRTHS_CPUS_MAX : cpus) + BIRTHS_BESIDE_CPUS;
	for (int i = 0; i < ZYGOTES; i++) {
		all->of[i] = (struct zygote){ .profile = i < PROFILE_NONE ? (enum profile)i : PROFILE_MEDIUM, .is_single = i >= PROFILE_NONE, .link_fd = -1,
			.filter_fd = -1, .deadline_ms = NEVER, .retry_at_ms = NEVER, .renew_at_ms = NEVER };
		spares_init(&all->of[i].spares, all->of[i].is_single ? 0 : spares);
	}
}

static const char *name_of(const struct zygote *z)
{
	return profile_policy(z->profile)->name;
}

/* ---- the start ---- */

static pid_t zygote_fork(struct spawner *sp, int its_end, struct err *e)
{
	static char name[] = "sandbox-host", argument[] = ZYGOTE_ARGUMENT;
	static char *const argv[] = { name, argument, NULL };
	struct child_plan plan;

	child_plan_init(&plan, CHILD_ZYGOTE);
	plan.fds[0] = plan.fds[1] = sp->null_fd;
	plan.fds[2] = STDERR_FILENO;
	plan.fds[ZYGOTE_FD_LINK] = its_end;
	plan.n_fds = ZYGOTE_FD_LINK + 1;
	plan.extra[CHILD_FD_PROGRAM] = sp->programs.host;
	plan.extra[CHILD_FD_FOLDER] = sp->runtime_fd;
	plan.argv = argv;
	plan.envp = spawn_environment;
	return spawn_child(sp, &plan, e);
}

static int filter_make(struct spawner *sp, struct zygote *z, struct err *e)
{
	struct filter filter;

	if (z->filter_fd != -1)
		return 0;
	if (filter_build(profile_policy(z->profile), sp->weaken, true, &filter, e) == -1)
		return err_prefix(e, "the filter of system calls");
	z->filter_fd = filter.fd;
	return 0;
}

static int zygote_begin(struct spawner *sp, struct zygote *z, struct err *e)
{
	struct zygote *same = &sp->zygotes.of[z->profile]; /* has the profile's filter */
	struct zygote_message m = { .version = ZYGOTE_WIRE_VERSION, .op = ZYGOTE_BEGIN, .profile = (uint16_t)z->profile,
		.flags = ZYGOTE_F_LISTENER | (sp->is_root ? 0 : ZYGOTE_F_ROOTLESS), .landlock_abi = sp->landlock_abi,
		.weaken = sp->weaken };
	const bool filtered = !(sp->weaken & PROTECTION_BIT(PROTECTION_SYSTEM_CALLS));
	const int on = 1;
	int pair[2], result = -1;

	(void)snprintf(m.objects, sizeof m.objects, "%s", sp->objects_dir);
	if (filtered && filter_make(sp, same, e) == -1)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make its link");
	/* The kernel says which process a word comes from: a host in a pid namespace doesn't know its own number here. */
	if (setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == -1 || fd_set_nonblocking(pair[0], true) == -1 ||
		fd_message_send(pair[0], &m, sizeof m, &same->filter_fd, filtered) == -1 ||
		(z->profile >= PROFILE__N && fd_message_send(pair[0], profile_policy(z->profile), sizeof(struct policy), NULL, 0) == -1))
		err_sys(e, ERR_UNAVAILABLE, "cannot prepare its link");
	else
		result = (z->pid = zygote_fork(sp, pair[1], e)) == -1 ? -1 : 0;
	fd_close(&pair[1]);
	if (result == -1) {
		z->pid = 0;
		fd_close(&pair[0]);
		return -1;
	}
	z->link_fd = pair[0];
	return 0;
}

static void failed(struct spawner *sp, struct zygote *z, const char *step, int sys_errno)
{
	z->failures += sys_errno == EINTR ? 1 : FAILURE_OWN;
	log_error("the zygote of profile %s failed: %s: %s", name_of(z), step, sys_errno == EINTR ? "killed" : strerror(sys_errno));
	if (z->failures < FAILURES_MAX) {
		z->retry_at_ms = z->first ? clock_monotonic_ms() + RETRY_MS : NEVER;
		return;
	}
	z->failures = FAILURES_MAX - FAILURE_OWN; /* whoever starts a host later has it tried once more */
	births_fail(sp, z, step, sys_errno);
}

void zygote_want(struct spawner *sp, struct zygote *z)
{
	struct err e = ERR_INIT;

	if (z->state != ZYGOTE_NONE || z->retry_at_ms != NEVER || sp->ending || ((z->is_single || upgrade_drains(sp)) && !z->first))
		return;
	if (z->is_single)
		z->profile = z->first->profile;
	z->dismissed = false;
	z->n_asked = 0;
	z->renew_at_ms = NEVER;
	z->step[0] = '\0';
	z->sys_errno = 0;
	if (zygote_begin(sp, z, &e) == -1) {
		failed(sp, z, e.text, e.sys_errno);
		return;
	}
	z->state = ZYGOTE_PREPARES;
	z->deadline_ms = clock_monotonic_ms() + PREPARE_MS;
}

void zygote_expect(struct zygote *z)
{
	bool due = z->first && z->first->sent;

	if (z->state == ZYGOTE_GONE && z->dismissed)
		z->deadline_ms = clock_monotonic_ms() + LINK_END_MS;
	if (z->state != ZYGOTE_SERVES)
		return;
	z->deadline_ms = due ? clock_monotonic_ms() + ANSWER_MS : NEVER;
}

void zygote_step_failed(struct zygote *z, const char *step, int sys_errno)
{
	(void)snprintf(z->step, sizeof z->step, "%s", step);
	z->sys_errno = sys_errno;
}

/* ---- which one, and how long ---- */

/* Hosts that are made one by one wait where the fewest do. */
struct zygote *zygote_for(struct spawner *sp, enum profile profile, bool is_fresh)
{
	struct zygote *best = NULL;
	unsigned fewest = UINT_MAX;

	if (!is_fresh)
		return &sp->zygotes.of[profile];
	for (int i = PROFILE_NONE; i < ZYGOTES; i++) {
		unsigned n = sp->zygotes.of[i].state != ZYGOTE_NONE;

		for (const struct birth *b = sp->zygotes.of[i].first; b; b = b->next)
			n++;
		if (n < fewest)
			best = &sp->zygotes.of[i], fewest = n;
	}
	return best;
}

/* What it was asked for stands in front of the end of its link, and is carried out; nothing is sent any more. */
static void dismiss(struct zygote *z)
{
	z->dismissed = true;
	z->renew_at_ms = NEVER;
	log_debug("zygote %d of profile %s is dismissed after %u hosts", (int)z->pid, name_of(z), z->n_asked);
	(void)shutdown(z->link_fd, SHUT_WR);
	z->state = ZYGOTE_GONE;
	z->deadline_ms = clock_monotonic_ms() + LINK_END_MS;
}

bool zygote_asked(struct spawner *sp, struct zygote *z)
{
	z->n_asked++;
	if (z->n_asked == 1 && !z->is_single)
		z->renew_at_ms = clock_monotonic_ms() + sp->config.zygote_age_ms;
	if (z->n_asked < (z->is_single ? 1 : sp->config.zygote_hosts))
		return true;
	dismiss(z);
	return false;
}

/* ---- the end ---- */

/* Dead and heard to the end: the next one, if anybody waits, or if it had served. */
static void replace(struct spawner *sp, struct zygote *z)
{
	char step[sizeof z->step];

	if (z->state != ZYGOTE_GONE || z->pid > 0 || z->link_fd != -1)
		return;
	z->state = ZYGOTE_NONE;
	z->deadline_ms = NEVER;
	if (sp->ending) {
		births_fail(sp, z, "sandboxd ends", ESHUTDOWN);
		return;
	}
	if (z->step[0]) {
		(void)snprintf(step, sizeof step, "%s", z->step);
		z->step[0] = '\0';
		failed(sp, z, step, z->sys_errno);
	} else { /* it had served */
		zygote_want(sp, z); /* a single one's next host, if there is one */
	}
}

static void link_close(struct spawner *sp, struct zygote *z)
{
	if (z->link_fd == -1)
		return;
	fd_close(&z->link_fd);
	births_link_ended(sp, z);
	spares_link_ended(sp, z);
	if (z->pid > 0)
		(void)kill(z->pid, SIGKILL); /* it closed its end, or was given up */
	replace(sp, z);
}

static void gone(struct spawner *sp, struct zygote *z)
{
	if (z->state == ZYGOTE_PREPARES && !z->step[0])
		zygote_step_failed(z, "get ready", ECHILD);
	z->state = ZYGOTE_GONE;
	spares_drop(sp, z);
	z->deadline_ms = clock_monotonic_ms() + LINK_END_MS;
	zygotes_read(sp);
}

void zygote_reaped(struct spawner *sp, struct zygote *z, int status)
{
	z->pid = 0;
	if (z->state == ZYGOTE_PREPARES && !z->step[0])
		zygote_step_failed(z, "get ready", ECHILD);
	if (z->step[0] && z->sys_errno == ECHILD && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		z->sys_errno = EINTR; /* not its own fault */
	if (!sp->ending && !z->dismissed)
		log_warning("the zygote of profile %s ended with status %d%s", name_of(z), status, z->first ? ": starts wait for the next" : "");
	gone(sp, z);
	replace(sp, z);
}

struct zygote *zygote_find_pid(struct spawner *sp, pid_t pid)
{
	for (int i = 0; i < ZYGOTES; i++)
		if (sp->zygotes.of[i].pid == pid)
			return &sp->zygotes.of[i];
	return NULL;
}

void zygotes_kill(struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++) {
		spares_kill(sp, &sp->zygotes.of[i]);
		if (sp->zygotes.of[i].pid > 0)
			(void)kill(sp->zygotes.of[i].pid, SIGKILL);
	}
}

void zygotes_drain(struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++) {
		struct zygote *z = &sp->zygotes.of[i];

		if (z->first)
			continue;
		z->dismissed = true;
		z->retry_at_ms = NEVER;
		spares_kill(sp, z);
		if (z->pid > 0)
			(void)kill(z->pid, SIGKILL);
	}
}

bool zygotes_drained(const struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++)
		if (sp->zygotes.of[i].state != ZYGOTE_NONE || sp->zygotes.of[i].first || !spares_none(&sp->zygotes.of[i].spares))
			return false;
	return true;
}

void zygotes_close(struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++) {
		struct zygote *z = &sp->zygotes.of[i];

		births_fail(sp, z, "sandboxd ends", ESHUTDOWN);
		spares_link_ended(sp, z);
		fd_close(&z->link_fd);
		fd_close(&z->filter_fd);
	}
}

/* ---- what comes ---- */

static void ready(struct spawner *sp, struct zygote *z, const struct zygote_message *m)
{
	if (z->state != ZYGOTE_PREPARES)
		return;
	z->state = ZYGOTE_SERVES;
	z->failures = 0;
	z->has_root = (m->flags & ZYGOTE_F_ROOT) != 0;
	z->has_pids = (m->flags & ZYGOTE_F_PIDS) != 0;
	z->lost = m->lost;
	/* Without a root of its own a host knows its folder by a path, so none can be made in advance. */
	pool_retarget(&z->spares.pool, z->has_root && !z->is_single ? sp->config.spare_hosts : 0, clock_monotonic_ms());
	z->deadline_ms = NEVER;
	log_debug("zygote %d of profile %s is ready", (int)z->pid, name_of(z));
	births_send(sp, z);
}

static void handle(struct spawner *sp, struct zygote *z, struct zygote_message *m, pid_t from, int *fds, size_t n_fds)
{
	m->step[sizeof m->step - 1] = '\0';
	if (m->version != ZYGOTE_WIRE_VERSION)
		return;
	switch ((enum zygote_op)m->op) {
	case ZYGOTE_READY:
		ready(sp, z, m);
		break;
	case ZYGOTE_FAILED:
		zygote_step_failed(z, m->step, m->status);
		break;
	case ZYGOTE_CLONED:
		(m->tag & SPARE_TAG ? spare_cloned : birth_cloned)(sp, z, m);
		break;
	case ZYGOTE_BORN:
		(m->tag & SPARE_TAG ? spare_born : birth_born)(sp, z, m, from, n_fds > 0 ? &fds[0] : NULL);
		break;
	case ZYGOTE_BEGIN:
	case ZYGOTE_CLONE:
		break;
	}
}

/* One message with who sent it. 1: there was one; 0: none now; -1: the end. */
static int receive_one(int fd, struct zygote_message *m, pid_t *ret_from, int fds[FD_MESSAGE_MAX], size_t *n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(FD_MESSAGE_MAX * sizeof(int))];
	} control;
	struct iovec whole = { .iov_base = m, .iov_len = sizeof *m };
	struct msghdr head = { .msg_iov = &whole, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
	ssize_t n;

	*n_fds = 0;
	*ret_from = 0;
	memset(m, 0, sizeof *m);
	do
		n = recvmsg(fd, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n == -1 && (errno == EINTR || errno == ECONNRESET)); /* that it died with words of ours unread is said once, in front */
	if (n == -1)
		return errno == EAGAIN || errno == ENOMEM ? 0 : -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(c), sizeof who);
			*ret_from = who.pid;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			*n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), *n_fds * sizeof(int));
		}
	}
	return n == 0 ? -1 : 1;
}

static void zygote_read(struct spawner *sp, struct zygote *z)
{
	while (z->link_fd != -1) {
		struct zygote_message m;
		int fds[FD_MESSAGE_MAX];
		size_t n_fds;
		pid_t from;
		int got = receive_one(z->link_fd, &m, &from, fds, &n_fds);

		if (got == 1)
			handle(sp, z, &m, from, fds, n_fds);
		for (size_t i = 0; i < n_fds; i++)
			fd_close(&fds[i]);
		if (got == 0)
			return;
		if (got == -1) {
			if (z->state != ZYGOTE_GONE) {
				if (z->state == ZYGOTE_PREPARES && !z->step[0])
					zygote_step_failed(z, "get ready", ECHILD);
				z->state = ZYGOTE_GONE;
				spares_drop(sp, z);
			}
			link_close(sp, z);
		}
	}
}

void zygotes_read(struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++)
		zygote_read(sp, &sp->zygotes.of[i]);
}

int zygotes_pollfds(const struct spawner *sp, struct pollfd fds[ZYGOTES])
{
	for (int i = 0; i < ZYGOTES; i++) {
		const struct zygote *z = &sp->zygotes.of[i];

		fds[i] = (struct pollfd){ .fd = z->link_fd, .events = POLLIN };
		if (z->state == ZYGOTE_SERVES && z->next_unsent && births_may_send(sp, z))
			fds[i].events |= POLLOUT;
	}
	return ZYGOTES;
}

void zygotes_ready(struct spawner *sp, const struct pollfd fds[ZYGOTES])
{
	for (int i = 0; i < ZYGOTES; i++) {
		struct zygote *z = &sp->zygotes.of[i];

		if (fds[i].fd != z->link_fd || fds[i].revents == 0)
			continue;
		zygote_read(sp, z);
		if (fds[i].revents & POLLOUT)
			births_send(sp, z);
	}
}

void zygotes_go_on(struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++)
		births_send(sp, &sp->zygotes.of[i]);
}

/* ---- exits of processes that nobody has named yet ---- */

static bool pids_due(const struct spawner *sp)
{
	for (int i = 0; i < ZYGOTES; i++) {
		if (spares_coming(&sp->zygotes.of[i]))
			return true;
		for (const struct birth *b = sp->zygotes.of[i].first; b && b->sent; b = b->next)
			if (b->entry->pid == 0)
				return true;
	}
	return false;
}

bool zygotes_early_exit(struct spawner *sp, pid_t pid, int status)
{
	struct zygotes *all = &sp->zygotes;

	if (!pids_due(sp)) {
		memset(all->early, 0, sizeof all->early);
		return false;
	}
	for (size_t i = 0; i < EARLY_EXITS; i++)
		if (all->early[i].pid == pid) { /* somebody else had the number before */
			all->early[i].status = status;
			return true;
		}
	all->early[all->n_early_next++ % EARLY_EXITS] = (struct early_exit){ pid, status };
	return true;
}

bool zygotes_early_take(struct spawner *sp, pid_t pid, int *ret_status)
{
	struct zygotes *all = &sp->zygotes;
	siginfo_t info;
	bool reaped = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD;

	*ret_status = SIGKILL; /* so many others may have come in between that its status is lost */
	for (size_t i = 0; i < EARLY_EXITS; i++)
		if (all->early[i].pid == pid) {
			if (reaped)
				*ret_status = all->early[i].status;
			all->early[i].pid = 0;
		}
	return reaped; /* else what is noted was an orphan's of the same number, long ago */
}

/* ---- time ---- */

int64_t zygotes_deadline(const struct spawner *sp)
{
	int64_t at = NEVER;

	for (int i = 0; i < ZYGOTES; i++) {
		const struct zygote *z = &sp->zygotes.of[i];

		if (z->deadline_ms < at)
			at = z->deadline_ms;
		if (z->retry_at_ms < at)
			at = z->retry_at_ms;
		if (z->state == ZYGOTE_SERVES && z->renew_at_ms < at)
			at = z->renew_at_ms;
		if (z->state == ZYGOTE_SERVES && !sp->ending && pool_due_ms(&z->spares.pool) < at)
			at = pool_due_ms(&z->spares.pool);
	}
	return at;
}

static void overdue(struct spawner *sp, struct zygote *z)
{
	log_error("the zygote of profile %s gave no answer in time: it is killed", name_of(z));
	if (z->state == ZYGOTE_GONE) {
		link_close(sp, z); /* some host of it hangs before its first word */
		return;
	}
	if (z->state == ZYGOTE_PREPARES)
		zygote_step_failed(z, "get ready", ETIMEDOUT);
	z->deadline_ms = NEVER;
	if (z->pid > 0)
		(void)kill(z->pid, SIGKILL);
}

void zygotes_timer(struct spawner *sp, int64_t now_ms)
{
	for (int i = 0; i < ZYGOTES; i++) {
		struct zygote *z = &sp->zygotes.of[i];

		if (now_ms >= z->deadline_ms)
			overdue(sp, z);
		if (now_ms >= z->renew_at_ms && z->state == ZYGOTE_SERVES)
			dismiss(z);
		if (now_ms >= z->retry_at_ms) {
			z->retry_at_ms = NEVER;
			zygote_want(sp, z);
		}
		if (z->state == ZYGOTE_SERVES && !sp->ending && !upgrade_drains(sp))
			spares_timer(sp, z, now_ms);
	}
}
