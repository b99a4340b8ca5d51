/* SPDX-License-Identifier: MIT
 *
 * Attacks that open more of the kernel: namespaces, mounts, io_uring, bpf and the like, other ways to make a system call.
 * What was gained stays open (a descriptor, a namespace, a mount): the runner looks at this process from outside. */
#include "attack.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

static char room[1 << 16];

#define NEW_USER 0x10000000ul

/* ---- namespaces. n: flags ---- */

static int unshare_into(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	int r = unshare((int)n_of(x));

	(void)self;
	if (r == 0 && fork() == 0)
		stay(t); /* some begin with the next child */
	return said(x, r);
}

static int clone_into(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	long pid = syscall(SYS_clone, (unsigned long)n_of(x) | SIGCHLD, NULL, NULL, NULL, 0);

	(void)self;
	if (pid == 0)
		stay(t);
	return said(x, pid);
}

static int clone3_into(struct sbx *x, void *self)
{
	struct { uint64_t flags, pidfd, child, parent, exit_signal, stack, stack_size, tls; } a = { .flags = (uint64_t)n_of(x),
		.exit_signal = SIGCHLD };
	const char *t = text_of(x);
	long pid = syscall(SYS_clone3, &a, sizeof a);

	(void)self;
	if (pid == 0)
		stay(t);
	return said(x, pid);
}

/* Into another process's user (and with it any other) namespace: through its /proc entry, or a pidfd. */
static int join(struct sbx *x, void *self)
{
	char name[64];
	int fd;
	long r;

	(void)self;
	(void)snprintf(name, sizeof name, "/proc/%d/ns/user", (int)pid_of(x));
	fd = n_of(x) ? (int)syscall(SYS_pidfd_open, pid_of(x), 0) : open(name, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -1 : setns(fd, (int)NEW_USER);
	return said(x, r);
}

/* ---- mounts, inside whatever namespaces it can make. n: the way; path: a folder ---- */

/* A folder that is there, with a root of its own or without. */
static const char *place(void)
{
	static const char *const names[] = { "/rw", "/tmp", "/objects", "/usr" };
	struct stat st;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (stat(names[i], &st) == 0 && S_ISDIR(st.st_mode))
			return names[i];
	return "/";
}

static long mount_by(long way, const char *folder)
{
	struct { uint64_t set, clear, propagation, user; } attributes = { .set = 0x00200000 /* NOSYMFOLLOW */ };
	long fd;

	switch (way) {
	case 0: return mount("none", folder, "tmpfs", 0, "");
	case 1: return mount("/", folder, NULL, MS_BIND | MS_REC, NULL);
	case 2: /* fsopen, FSCONFIG_CMD_CREATE, fsmount, move_mount */
		fd = syscall(SYS_fsopen, "tmpfs", 0);
		if (fd < 0 || syscall(SYS_fsconfig, fd, 6, NULL, NULL, 0) < 0 || (fd = syscall(SYS_fsmount, fd, 0, 0)) < 0)
			return -1;
		return syscall(SYS_move_mount, fd, "", -100, folder, 4);
	case 3:
		fd = syscall(SYS_open_tree, -100, "/", 0x8000 | 1 /* AT_RECURSIVE, OPEN_TREE_CLONE */);
		return fd < 0 ? -1 : syscall(SYS_move_mount, fd, "", -100, folder, 4);
	case 4: return syscall(442 /* mount_setattr */, -100, "/", 0, &attributes, sizeof attributes);
	default:
		if (mount("none", folder, "tmpfs", 0, "") < 0 || chdir(folder) < 0)
			return -1;
		return syscall(SYS_pivot_root, ".", ".");
	}
}

/* m: without a user namespace of its own it may still have the right. */
static int mounts(struct sbx *x, void *self)
{
	(void)self;
	if (unshare((int)(NEW_USER | 0x00020000)) < 0 && m_of(x) == 0)
		return said(x, -1);
	return said(x, mount_by(n_of(x), place()));
}

static int change_root(struct sbx *x, void *self)
{
	(void)self;
	if (m_of(x) == 0)
		(void)unshare((int)NEW_USER);
	return said(x, chroot(place()));
}

static int host_name(struct sbx *x, void *self)
{
	const char *t = text_of(x);

	(void)self;
	if (n_of(x) && unshare((int)(NEW_USER | 0x04000000)) < 0)
		return said(x, -1);
	return said(x, sethostname(t, strlen(t)));
}

/* ---- more of the kernel: each leaves its descriptor open ---- */

static int ring(struct sbx *x, void *self)
{
	unsigned char parameters[128] = { 0 };

	(void)self;
	return said(x, syscall(SYS_io_uring_setup, 4, parameters));
}

static int old_aio(struct sbx *x, void *self)
{
	static unsigned long context;

	(void)self;
	return said(x, syscall(SYS_io_setup, 8, &context));
}

static int user_faults(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_userfaultfd, O_CLOEXEC | n_of(x)));
}

static int bpf_map(struct sbx *x, void *self)
{
	union bpf_attr a;

	(void)self;
	memset(&a, 0, sizeof a);
	a.map_type = BPF_MAP_TYPE_ARRAY;
	a.key_size = 4, a.value_size = 8, a.max_entries = 1;
	return said(x, syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}

static int bpf_program(struct sbx *x, void *self)
{
	struct bpf_insn code[] = { { .code = 0xb7, .dst_reg = 0 }, { .code = 0x95 } };
	union bpf_attr a;

	(void)self;
	memset(&a, 0, sizeof a);
	a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	a.insns = (uintptr_t)code, a.insn_cnt = 2, a.license = (uintptr_t) "GPL";
	return said(x, syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a));
}

static int perf(struct sbx *x, void *self)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1, .exclude_hv = 1 };

	(void)self;
	return said(x, syscall(SYS_perf_event_open, &a, pid_of(x), -1, -1, 0));
}

static int all_files(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_fanotify_init, 0x200 /* FID */, O_RDONLY));
}

static int watch(struct sbx *x, void *self)
{
	int fd = inotify_init1(IN_CLOEXEC);

	(void)self;
	return said(x, fd < 0 ? -1 : inotify_add_watch(fd, path_of(x), IN_OPEN | IN_ACCESS));
}

static int secret_memory(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(447 /* memfd_secret */, 0));
}

static int memory_file(struct sbx *x, void *self)
{
	(void)self;
	return said(x, memfd_create(text_of(x), 0));
}

static int queue(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_mq_open, text_of(x), O_RDWR | O_CREAT, 0600, NULL));
}

/* A filter of its own with a listener: everything that it forks asks it. */
static int own_filter(struct sbx *x, void *self)
{
	struct { uint16_t code; uint8_t jt, jf; uint32_t k; } allow = { 6, 0, 0, 0x7fff0000 };
	struct { uint16_t n; void *p; } program = { 1, &allow };

	(void)self;
	return said(x, syscall(SYS_seccomp, 1, 8 /* NEW_LISTENER */, &program));
}

/* The newest lines of the kernel's log. */
static int kernel_log(struct sbx *x, void *self)
{
	long n = syscall(SYS_syslog, 3 /* READ_ALL */, room, (int)sizeof room);

	(void)self;
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* To what it is, or a nanosecond further: but whoever asked is told that a clock was set. n: the way */
static int set_clock(struct sbx *x, void *self)
{
	struct timespec now;
	struct timeval tv;
	struct timex tx = { .modes = ADJ_SETOFFSET | ADJ_NANO, .time.tv_usec = 1 };

	(void)self;
	clock_gettime(CLOCK_REALTIME, &now);
	tv.tv_sec = now.tv_sec, tv.tv_usec = now.tv_nsec / 1000;
	switch (n_of(x)) {
	case 0: return said(x, clock_settime(CLOCK_REALTIME, &now));
	case 1: return said(x, settimeofday(&tv, NULL));
	case 2: return said(x, adjtimex(&tx));
	default: return said(x, clock_adjtime(CLOCK_REALTIME, &tx));
	}
}

/* ---- what only the machine's administrator may: the mildest of each kind ---- */

/* Not a reboot: whether Ctrl-Alt-Del is one. n: 1 yes, 0 it tells init. */
static int reboot_key(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_reboot, 0xfee1dead, 672274793, n_of(x) ? 0x89abcdef : 0, NULL));
}

static int swap_on(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_swapon, path_of(x), 0));
}

/* Every process that ends is written into the file. */
static int accounting(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_acct, path_of(x)));
}

#if defined __x86_64__
/* A child that has got the right to ports (n: 0 by ioperm, 1 by iopl) reads one that does nothing, which kills it without that right, and
 * stays under its name. */
static int ports(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	long n = n_of(x);
	pid_t pid = fork();

	(void)self;
	if (pid == 0) {
		unsigned char v;

		signal(SIGSEGV, SIG_DFL);
		if ((n ? syscall(SYS_iopl, 3) : syscall(SYS_ioperm, 0x80ul, 1ul, 1)) < 0)
			_exit(1);
		__asm__ volatile("inb $0x80, %0" : "=a"(v));
		stay(t);
	}
	return said(x, pid);
}
#endif

/* ---- other doors to the same kernel ---- */

#if defined __x86_64__
static long call_32(long number, long a, long b, long c)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
	r = (int)r;
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

/* unshare() of the 32-bit table: 310; in the 64-bit one that is process_vm_readv. */
static int door_32(struct sbx *x, void *self)
{
	(void)self;
	return said(x, call_32(310, n_of(x), 0, 0));
}

static int door_x32(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(0x40000000 | SYS_unshare, n_of(x)));
}
#endif

ATTACKS(kernel, ATTACK(unshare_into), ATTACK(clone_into), ATTACK(clone3_into), ATTACK(join), ATTACK(mounts), ATTACK(change_root),
	ATTACK(host_name), ATTACK(ring), ATTACK(old_aio), ATTACK(user_faults), ATTACK(bpf_map), ATTACK(bpf_program), ATTACK(perf),
	ATTACK(all_files), ATTACK(watch), ATTACK(secret_memory), ATTACK(memory_file), ATTACK(queue), ATTACK(own_filter), ATTACK(kernel_log),
#if defined __x86_64__
	ATTACK(door_32), ATTACK(door_x32), ATTACK(ports),
#endif
	ATTACK(set_clock), ATTACK(reboot_key), ATTACK(swap_on), ATTACK(accounting));
