/* SPDX-License-Identifier: MIT
 *
 * Attacks on other processes: their memory, descriptors, signals, limits and priorities. pid: the victim, told by the runner;
 * at: an address or a descriptor in it. */
#include "attack.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define SECRET_BYTES 64

static char room[1 << 16];

static void *at_of(struct sbx *x)
{
	return (void *)(uintptr_t)sbx_arg_u64(x, "at");
}

static int trace(struct sbx *x, void *self)
{
	pid_t pid = pid_of(x);
	long r = ptrace(n_of(x) ? PTRACE_SEIZE : PTRACE_ATTACH, pid, NULL, NULL), word;

	(void)self;
	if (r < 0)
		return said(x, r);
	if (n_of(x))
		(void)ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	(void)waitpid(pid, NULL, __WALL);
	for (size_t i = 0; i < SECRET_BYTES; i += sizeof word) {
		word = ptrace(PTRACE_PEEKDATA, pid, (char *)at_of(x) + i, NULL);
		memcpy(room + i, &word, sizeof word);
	}
	(void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
	return brought(x, 0, room, SECRET_BYTES);
}

static int vm_read(struct sbx *x, void *self)
{
	struct iovec here = { room, SECRET_BYTES }, there = { at_of(x), SECRET_BYTES };
	ssize_t n = process_vm_readv(pid_of(x), &here, 1, &there, 1, 0);

	(void)self;
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

static int vm_write(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	struct iovec here = { room, strlen(t) }, there = { at_of(x), strlen(t) };

	(void)self;
	memcpy(room, t, strlen(t));
	return said(x, process_vm_writev(pid_of(x), &here, 1, &there, 1, 0));
}

static int proc_mem(struct sbx *x, void *self)
{
	char name[64];
	int fd;
	ssize_t n = -1;

	(void)self;
	(void)snprintf(name, sizeof name, "/proc/%d/mem", (int)pid_of(x));
	if ((fd = open(name, O_RDONLY | O_CLOEXEC)) >= 0)
		n = pread(fd, room, SECRET_BYTES, (off_t)(uintptr_t)at_of(x));
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* All of another process's writable memory, searched for `text`; what follows each place comes back. */
static int scan_memory(struct sbx *x, void *self)
{
	static char maps[1 << 18], found[1 << 14];
	char name[64], *line, *next = maps;
	const char *t = text_of(x);
	size_t size = strlen(t), got = 0;
	int fd, memory;
	ssize_t n, at = 0;

	(void)self;
	(void)snprintf(name, sizeof name, "/proc/%d/maps", (int)pid_of(x));
	if ((fd = open(name, O_RDONLY | O_CLOEXEC)) < 0)
		return said(x, -1);
	while ((n = read(fd, maps + at, sizeof maps - 1 - (size_t)at)) > 0)
		at += n;
	close(fd);
	if (at <= 0)
		return said(x, -1);
	(void)snprintf(name, sizeof name, "/proc/%d/mem", (int)pid_of(x));
	memory = open(name, O_RDONLY | O_CLOEXEC);
	while ((line = strsep(&next, "\n")) && *line) {
		unsigned long from, to;
		char mode[5];

		if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) != 3 || mode[1] != 'w')
			continue;
		for (; from < to; from += 32768) {
			size_t part = to - from < sizeof room ? to - from : sizeof room;
			struct iovec here = { room, part }, there = { (void *)from, part };
			char *p = room;

			n = memory >= 0 ? pread(memory, room, part, (off_t)from) : process_vm_readv(pid_of(x), &here, 1, &there, 1, 0);
			while (n > 0 && (p = memmem(p, (size_t)(room + n - p), t, size)) && p + size + 24 <= room + n && got + 24 <= sizeof found) {
				memcpy(found + got, p + size, 24);
				got += 24;
				p += size;
			}
		}
	}
	if (memory >= 0)
		close(memory);
	errno = ENOENT;
	return brought(x, got ? 1 : -1, found, got);
}

/* The environment of every process that can be seen, by listing /proc and by guessing numbers. */
static int walk(struct sbx *x, void *self)
{
	char name[64];
	const char *t = text_of(x);

	(void)self;
	for (int pid = 1; pid <= n_of(x); pid++) {
		char *found;
		long n;

		(void)snprintf(name, sizeof name, "/proc/%d/environ", pid);
		n = slurp(name, room, sizeof room - 64);
		if (n > 0 && (found = memmem(room, (size_t)n, t, strlen(t))))
			return brought(x, pid, found, 64);
	}
	return said(x, -1);
}

/* The file `path` as another process sees it. */
static int through_root(struct sbx *x, void *self)
{
	char name[512];
	long n;

	(void)self;
	(void)snprintf(name, sizeof name, "/proc/%d/%s%s", (int)pid_of(x), n_of(x) ? "cwd/../../../../../../../.." : "root", path_of(x));
	n = slurp(name, room, sizeof room);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

static int through_fd(struct sbx *x, void *self)
{
	char name[64];
	long n;

	(void)self;
	(void)snprintf(name, sizeof name, "/proc/%d/fd/%ld", (int)pid_of(x), n_of(x));
	n = slurp(name, room, sizeof room);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

static int steal_fd(struct sbx *x, void *self)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid_of(x), 0);
	int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, (int)n_of(x), 0);
	ssize_t n = -1;

	(void)self;
	if (fd >= 0)
		n = pread(fd, room, sizeof room, 0);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* The victim's descriptors 100+2i and 101+2i are one description, or two: sixteen bits that only kcmp tells. */
static int compare(struct sbx *x, void *self)
{
	size_t n = 0;

	(void)self;
	for (int i = 0; i < 32; i++) {
		long r = syscall(SYS_kcmp, pid_of(x), pid_of(x), 0 /* KCMP_FILE */, 100 + 2 * i, 101 + 2 * i);

		if (r < 0)
			return said(x, r);
		room[n++] = r == 0 ? '1' : '0';
	}
	return brought(x, 0, room, n);
}

static int robust_list(struct sbx *x, void *self)
{
	void *head = NULL;
	size_t size = 0;
	long r = syscall(SYS_get_robust_list, pid_of(x), &head, &size);
	int n = snprintf(room, sizeof room, "list=%p", head);

	(void)self;
	return brought(x, r, room, r < 0 ? 0 : (size_t)n);
}

/* ---- signals: all SIGWINCH, which does nothing to who didn't ask for it. n: the way ---- */

static int send_signal(struct sbx *x, void *self)
{
	pid_t pid = pid_of(x);
	siginfo_t info;
	int fds[2] = { -1, -1 };
	long r = -1;

	(void)self;
	memset(&info, 0, sizeof info);
	info.si_signo = SIGWINCH;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	switch (n_of(x)) {
	case 0: r = kill(pid, SIGWINCH); break;
	case 1: r = syscall(SYS_tkill, pid, SIGWINCH); break;
	case 2: r = syscall(SYS_tgkill, pid, pid, SIGWINCH); break;
	case 3: r = syscall(SYS_rt_sigqueueinfo, pid, SIGWINCH, &info); break;
	case 4: r = syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGWINCH, &info); break;
	case 5: r = syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, pid, 0), SIGWINCH, NULL, 0); break;
	case 6: r = kill(-1, SIGWINCH); break;
	case 7: r = kill(-pid, SIGWINCH); break;
	default: /* a pipe's owner is told when it can be read */
		if (pipe(fds) < 0 || (r = fcntl(fds[0], F_SETOWN, pid)) < 0 || (r = fcntl(fds[0], F_SETSIG, SIGWINCH)) < 0 ||
			(r = fcntl(fds[0], F_SETFL, O_ASYNC | O_NONBLOCK)) < 0)
			break;
		r = write(fds[1], "x", 1);
	}
	return said(x, r);
}

/* ---- what another process may use ---- */

static int victim_limit(struct sbx *x, void *self)
{
	struct rlimit limit = { 55, 55 };

	(void)self;
	return said(x, prlimit(pid_of(x), RLIMIT_NOFILE, &limit, NULL));
}

static int victim_nice(struct sbx *x, void *self)
{
	(void)self;
	return said(x, setpriority(PRIO_PROCESS, (id_t)pid_of(x), 11));
}

static int victim_affinity(struct sbx *x, void *self)
{
	cpu_set_t set;

	(void)self;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return said(x, sched_setaffinity(pid_of(x), sizeof set, &set));
}

static int victim_scheduler(struct sbx *x, void *self)
{
	struct sched_param p = { 0 };

	(void)self;
	return said(x, sched_setscheduler(pid_of(x), SCHED_BATCH, &p));
}

static int victim_io(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_ioprio_set, 1 /* a process */, pid_of(x), 3 << 13 /* idle */));
}

/* ---- itself ---- */

/* n: bits beyond the 32 that the kernel looks at */
static int dumpable(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_prctl, PR_SET_DUMPABLE | n_of(x) << 32, 1, 0, 0, 0));
}

static int raise_limit(struct sbx *x, void *self)
{
	struct rlimit limit = { (rlim_t)m_of(x), (rlim_t)m_of(x) };
	int r = setrlimit((__rlimit_resource_t)n_of(x), &limit);

	(void)self;
	if (r < 0)
		r = (int)syscall(SYS_prlimit64, 0, n_of(x), &limit, NULL);
	return said(x, r);
}

static int real_time(struct sbx *x, void *self)
{
	struct sched_param p = { .sched_priority = 1 };

	(void)self;
	return said(x, sched_setscheduler(0, SCHED_FIFO, &p));
}

static int be_less_nice(struct sbx *x, void *self)
{
	(void)self;
	return said(x, setpriority(PRIO_PROCESS, 0, -10));
}

static int io_real_time(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_ioprio_set, 1, 0, (1 << 13) | 0));
}

static int change_personality(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */ | 0x0040000 | n_of(x) << 32));
}

static int become(struct sbx *x, void *self)
{
	uid_t uid = (uid_t)n_of(x);
	long r = syscall(SYS_setresuid, uid, uid, uid);

	(void)self;
	if (r < 0)
		r = syscall(SYS_setresgid, uid, uid, uid);
	return said(x, r);
}

static int take_capabilities(struct sbx *x, void *self)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct all[2] = { { ~0u, ~0u, ~0u }, { 0x1ffu, 0x1ffu, 0x1ffu } };
	long r = syscall(SYS_capget, &head, all);

	(void)self;
	for (int i = 0; r == 0 && i < 2; i++)
		all[i].effective = all[i].inheritable = all[i].permitted;
	return said(x, r == 0 ? syscall(SYS_capset, &head, all) : r);
}

/* The parent's death is to be survived: the signal off, and never a look at the channel. */
static int outlive(struct sbx *x, void *self)
{
	(void)self, (void)x;
	prctl(PR_SET_PDEATHSIG, 0);
	alarm(60);
	for (;;)
		;
	return 0;
}

static int stop_itself(struct sbx *x, void *self)
{
	(void)self;
	kill(getpid(), SIGSTOP);
	kill(-1, SIGSTOP);
	return said(x, 0);
}

static int ignore_everything(struct sbx *x, void *self)
{
	sigset_t all;

	(void)self, (void)x;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (;;)
		;
	return 0;
}

/* ---- processes that are to outlive the sandbox. n: how many ---- */

static int daemonise(struct sbx *x, void *self)
{
	const char *t = text_of(x);

	(void)self;
	for (long i = 0; i < n_of(x); i++) {
		pid_t pid = fork();

		if (pid < 0)
			return said(x, pid);
		if (pid == 0) {
			setsid();
			if (fork() != 0)
				_exit(0);
			setsid();
			for (int s = 1; s < 65; s++)
				signal(s, SIG_IGN);
			for (int fd = 0; fd < 64; fd++)
				close(fd);
			stay(t);
		}
		(void)waitpid(pid, NULL, 0);
	}
	return said(x, 0);
}

/* A child that is its parent's brother: nobody's business to wait for. */
static int sibling(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	long pid = syscall(SYS_clone, 0x00008000ul /* CLONE_PARENT */ | SIGCHLD, NULL, NULL, NULL, 0);

	(void)self;
	if (pid == 0) {
		setsid();
		stay(t);
	}
	return said(x, pid);
}

ATTACKS(processes, ATTACK(trace), ATTACK(vm_read), ATTACK(vm_write), ATTACK(proc_mem), ATTACK(scan_memory), ATTACK(walk),
	ATTACK(through_root), ATTACK(through_fd), ATTACK(steal_fd), ATTACK(compare), ATTACK(robust_list), ATTACK(send_signal),
	ATTACK(victim_limit), ATTACK(victim_nice), ATTACK(victim_affinity), ATTACK(victim_scheduler), ATTACK(victim_io),
	ATTACK(dumpable), ATTACK(raise_limit), ATTACK(real_time), ATTACK(be_less_nice), ATTACK(io_real_time),
	ATTACK(change_personality), ATTACK(become), ATTACK(take_capabilities), ATTACK(outlive), ATTACK(stop_itself),
	ATTACK(ignore_everything), ATTACK(daemonise), ATTACK(sibling));
