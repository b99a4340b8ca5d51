/* SPDX-License-Identifier: MIT
 *
 * The zygote's loop: BEGIN, its own steps, then one clone per request. One thread, no heap, no stdio. */
#include "daemon/host/zygote/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/confine.h"
#include "daemon/host/host.h"
#include "proto/fd.h"
#include "proto/seldom.h"

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

#define BORN_TRIES 3000 /* of a millisecond: less than the spawner waits */

struct walls walls;
struct landlock_ruleset walls_landlock = { .fd = -1 };
SELDOM_WRITTEN struct sock_filter zygote_filter[ZYGOTE_FILTER_MAX];

static const struct {
	enum protection protection;
	uint64_t flag;
} namespaces[] = {
	{ PROTECTION_USER_NAMESPACE, CLONE_NEWUSER },
	{ PROTECTION_PID_NAMESPACE, CLONE_NEWPID },
	{ PROTECTION_MOUNT_NAMESPACE, CLONE_NEWNS },
	{ PROTECTION_IPC_NAMESPACE, CLONE_NEWIPC },
	{ PROTECTION_UTS_NAMESPACE, CLONE_NEWUTS },
	{ PROTECTION_CGROUP_NAMESPACE, CLONE_NEWCGROUP },
};

uint64_t zygote_namespaces(const struct zygote *z)
{
	uint64_t flags = 0;

	(void)z;
	for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++)
		if (walls_want(namespaces[i].protection))
			flags |= namespaces[i].flag;
	return flags;
}

int zygote_steps(struct zygote *z, const struct zygote_step *steps, size_t n, enum zygote_mode mode, const char **ret_step)
{
	for (size_t i = 0; i < n; i++) {
		*ret_step = steps[i].name;
		if ((steps[i].protection != PROTECTION_NONE && !walls_want(steps[i].protection)) ||
			(mode == ZYGOTE_TRY && steps[i].needs_request))
			continue;
		if (steps[i].run(z) == 0)
			continue;
		if (mode == ZYGOTE_MUST || steps[i].protection == PROTECTION_NONE)
			return -1;
		walls_lose(steps[i].protection, errno);
	}
	return 0;
}

static void say(struct zygote *z, struct zygote_message *m, enum zygote_op op, const char *step, int status)
{
	m->version = ZYGOTE_WIRE_VERSION;
	m->op = (uint16_t)op;
	m->profile = (uint16_t)z->profile;
	m->lost = walls.lost;
	m->status = status;
	if (step)
		(void)snprintf(m->step, sizeof m->step, "%s", step);
}

/* The spawner reads whatever it is sent; that it has gone is seen by the next receive. */
static int send_to_spawner(struct zygote *z, const struct zygote_message *m, int fd)
{
	return fd_message_send(z->link_fd, m, sizeof *m, &fd, fd == -1 ? 0 : 1);
}

/* Only well-formed messages of the spawner: anything else is a mistake of ours, and the next zygote does no better. */
static void receive(struct zygote *z, enum zygote_op op, size_t fds_min, size_t fds_max)
{
	ssize_t n = fd_message_receive(z->link_fd, &z->request, sizeof z->request, z->fds, &z->n_fds);

	if (n == 0 || (n == -1 && errno == ECONNRESET))
		_exit(0);
	if (n != (ssize_t)sizeof z->request || z->request.version != ZYGOTE_WIRE_VERSION || z->request.op != op ||
		z->n_fds < fds_min || z->n_fds > fds_max || z->request.profile >= PROFILE_NONE ||
		!memchr(z->request.objects, 0, sizeof z->request.objects) || !memchr(z->request.step, 0, sizeof z->request.step))
		_exit(HOST_EXIT_CONTRACT);
	z->cgroup_fd = -1;
	if (op == ZYGOTE_CLONE && (z->request.flags & ZYGOTE_F_CGROUP) && z->n_fds > fds_min)
		z->cgroup_fd = z->fds[--z->n_fds];
}

static int filter_read(struct zygote *z)
{
	struct stat st;

	if (z->n_fds == 0)
		return 0;
	if (fstat(z->fds[0], &st) == -1)
		return -1;
	if (st.st_size <= 0 || st.st_size > (off_t)sizeof zygote_filter || st.st_size % (off_t)sizeof *zygote_filter != 0) {
		errno = EINVAL;
		return -1;
	}
	if (pread(z->fds[0], zygote_filter, (size_t)st.st_size, 0) != (ssize_t)st.st_size) {
		errno = EIO;
		return -1;
	}
	z->n_filter = (uint16_t)((size_t)st.st_size / sizeof *zygote_filter);
	fd_close(&z->fds[0]);
	return 0;
}

/* ---- the trial: a host that is only born, with another parent than hosts have ---- */

/* Where a container's filter has no clone3, which it can't look into: by clone, whose flags have room for all of ours. */
static pid_t clone_by(const struct clone_args *args)
{
	pid_t pid = (pid_t)syscall(SYS_clone3, args, sizeof *args);

#if defined __x86_64__ || defined __aarch64__
	if (pid == -1 && errno == ENOSYS && !(args->flags & CLONE_INTO_CGROUP))
#if defined __x86_64__
		pid = (pid_t)syscall(SYS_clone, args->flags | args->exit_signal, 0ul, 0ul, args->child_tid, 0ul);
#else
		pid = (pid_t)syscall(SYS_clone, args->flags | args->exit_signal, 0ul, 0ul, 0ul, args->child_tid);
#endif
#endif
	return pid;
}

static bool clone_works(uint64_t flags)
{
	struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD };
	pid_t pid = clone_by(&args);

	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

/* Which namespace is it that can't be had? */
static void namespaces_try(void)
{
	for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++)
		if (walls_want(namespaces[i].protection) && !clone_works(namespaces[i].flag | (walls_want(PROTECTION_USER_NAMESPACE) ? CLONE_NEWUSER : 0)))
			walls_lose(namespaces[i].protection, errno);
}

static int try_birth(struct zygote *z, const char **ret_step)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	struct walls *seen = mmap(NULL, sizeof walls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t pid;

	*ret_step = "try a host";
	if (seen == MAP_FAILED)
		return -1;
	args.flags = zygote_namespaces(z);
	pid = clone_by(&args);
	if (pid == -1) {
		namespaces_try();
		args.flags = zygote_namespaces(z);
		pid = clone_by(&args);
	}
	if (pid == 0) {
		const char *step;

		if (zygote_birth(z, ZYGOTE_TRY, &step) == -1)
			_exit(errno > 0 && errno < 128 ? errno : EIO);
		*seen = walls;
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) {
		walls.lost = seen->lost;
		memcpy(walls.why, seen->why, sizeof walls.why);
	} else if (pid > 0) {
		errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
		pid = -1;
	}
	(void)munmap(seen, sizeof walls);
	if (pid != -1 && walls_want(PROTECTION_OWN_ROOT) && !walls_want(PROTECTION_MOUNT_NAMESPACE)) {
		errno = walls.why[PROTECTION_MOUNT_NAMESPACE]; /* this process is inside already, and can't share it with hosts */
		pid = -1;
	}
	return pid == -1 ? -1 : 0;
}

/* The one own profile that this process and its hosts know. */
static void own_profile_receive(struct zygote *z)
{
	struct policy p;
	struct err e = ERR_INIT;
	int fds[FD_MESSAGE_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_message_receive(z->link_fd, &p, sizeof p, fds, &n_fds);

	if (n != (ssize_t)sizeof p || n_fds != 0 || policy_check(&p, &e) == -1)
		_exit(HOST_EXIT_CONTRACT);
	profile_own_put(z->profile, &p);
}

static void begin(struct zygote *z)
{
	struct zygote_message answer = { 0 };
	const char *step = "read the filter";
	uint64_t asked;

	receive(z, ZYGOTE_BEGIN, 0, 1);
	z->profile = (enum profile)z->request.profile;
	if (z->profile >= PROFILE__N)
		own_profile_receive(z);
	z->rootless = (z->request.flags & ZYGOTE_F_ROOTLESS) != 0;
	z->wants_listener = (z->request.flags & ZYGOTE_F_LISTENER) != 0;
	z->landlock_abi = z->request.landlock_abi;
	asked = confine_asked(z->profile, z->rootless);
	walls.left_out = asked & z->request.weaken;
	walls.asked = asked & ~z->request.weaken;
	if (filter_read(z) == -1 || zygote_prepare(z, &step) == -1 || try_birth(z, &step) == -1) {
		say(z, &answer, ZYGOTE_FAILED, step, errno);
		(void)send_to_spawner(z, &answer, -1);
		_exit(HOST_EXIT_FAILED);
	}
	answer.flags = (walls_want(PROTECTION_OWN_ROOT) ? ZYGOTE_F_ROOT : 0) | (walls_want(PROTECTION_PID_NAMESPACE) ? ZYGOTE_F_PIDS : 0);
	say(z, &answer, ZYGOTE_READY, NULL, 0);
	if (send_to_spawner(z, &answer, -1) == -1)
		_exit(0);
}

/* libc keeps the thread's number, and a lock or two are found by its robust list: its fork would set both in the child. */
struct libc_thread {
	int *tid;
	void *robust_head;
	size_t robust_size;
};

static void libc_thread_find(struct libc_thread *t)
{
	if (prctl(PR_GET_TID_ADDRESS, &t->tid, 0, 0, 0) == -1)
		t->tid = NULL;
	if (syscall(SYS_get_robust_list, 0, &t->robust_head, &t->robust_size) == -1)
		t->robust_head = NULL;
}

/* A sibling of ours: the spawner's child. exit_signal must be 0 then; the child inherits ours, SIGCHLD. 0: in the child. */
static pid_t clone_host(struct zygote *z, const struct libc_thread *libc)
{
	struct clone_args args = { .flags = zygote_namespaces(z) | CLONE_PARENT };
	pid_t pid;

	if (libc->tid) {
		args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
		args.child_tid = (uint64_t)(uintptr_t)libc->tid;
	}
	if (z->cgroup_fd != -1) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)z->cgroup_fd;
	}
	pid = clone_by(&args);
	if (pid == -1 && z->cgroup_fd != -1 && errno == ENOSYS) { /* without clone3: a birth's step enters it */
		args.flags &= ~CLONE_INTO_CGROUP;
		pid = clone_by(&args);
	} else if (pid == 0) {
		z->in_cgroup = z->cgroup_fd != -1;
	}
	if (pid == 0 && libc->robust_head)
		(void)syscall(SYS_set_robust_list, libc->robust_head, libc->robust_size);
	return pid;
}

static void descriptors_close(struct zygote *z)
{
	for (size_t i = 0; i < z->n_fds; i++)
		fd_close(&z->fds[i]);
	z->n_fds = 0;
	fd_close(&z->cgroup_fd);
}

/* The kernel counts the descriptors that are on their way for the user as a whole, and compares with this process's limit, which is low
 * already. As an ordinary user's daemon has one user for all, a crowd of starts may be above it, for as long as control takes to receive. */
static int send_patiently(struct zygote *z, const struct zygote_message *m, int fd)
{
	int result, tries = 0;

	while ((result = send_to_spawner(z, m, fd)) == -1 && errno == ETOOMANYREFS && ++tries < BORN_TRIES)
		(void)poll(NULL, 0, 1);
	return result;
}

/* In the host: walls, one word to the spawner, then no way to it is left. That the spawner still is there to be a child of is
 * seen by the word: the death signal was set before. */
static void be_born(struct zygote *z)
{
	struct zygote_message answer = { .tag = z->request.tag };
	const char *step = "";
	int failed = zygote_birth(z, ZYGOTE_MUST, &step);

	say(z, &answer, ZYGOTE_BORN, failed == -1 ? step : NULL, failed == -1 ? errno : 0);
	if (send_patiently(z, &answer, z->listener_fd) == -1 || failed == -1)
		_exit(HOST_EXIT_BIRTH);
	fd_close(&z->listener_fd);
	fd_close(&z->link_fd);
	fd_close(&z->proc_fd); /* a way out of any root */
	walls.stand = true;
}

void zygote_run(void)
{
	static struct zygote z = { .link_fd = -1, .proc_fd = -1, .cgroup_fd = -1, .listener_fd = -1 };
	struct libc_thread libc;

	z.link_fd = fcntl(ZYGOTE_FD_LINK, F_DUPFD_CLOEXEC, ZYGOTE_FDS_FROM);
	if (z.link_fd == -1)
		_exit(HOST_EXIT_RESOURCE);
	(void)close(ZYGOTE_FD_LINK);
	(void)prctl(PR_SET_NAME, ZYGOTE_NAME, 0, 0, 0);
	z.uid = geteuid();
	z.gid = getegid();
	begin(&z);
	libc_thread_find(&libc);
	for (;;) {
		struct zygote_message answer = { 0 };
		pid_t pid;

		receive(&z, ZYGOTE_CLONE, 3, 5);
		pid = clone_host(&z, &libc);
		if (pid == 0)
			break;
		answer.tag = z.request.tag;
		answer.pid = pid > 0 ? pid : 0;
		say(&z, &answer, ZYGOTE_CLONED, pid == -1 ? "clone" : NULL, pid == -1 ? errno : 0);
		if (send_to_spawner(&z, &answer, -1) == -1)
			_exit(0);
		descriptors_close(&z);
	}
	be_born(&z);
}
