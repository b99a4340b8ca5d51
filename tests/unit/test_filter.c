/* SPDX-License-Identifier: MIT
 *
 * The filter as data: the exported program is run by a small interpreter of its own and compared with the table, for every profile, call
 * number and architecture, and arguments around every condition; what must be so whatever the table says stands here again, by hand.
 * Then the kernel takes it, and the time that takes. */
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/call_numbers.h"
#include "daemon/spawner/calls.h"
#include "daemon/spawner/filter.h"
#include "proto/fd.h"
#include "proto/protection.h"
#include "tests/support/check_main.h"

#define X32 0x40000000

/* ---- the interpreter ---- */

struct program {
	struct sock_filter code[BPF_MAXINSNS];
	size_t n;
};

static void program_load(struct program *p, enum profile profile, uint64_t weaken, bool listener)
{
	struct filter f;
	struct err e = ERR_INIT;
	ssize_t size;

	ck_assert_msg(filter_build(profile_builtin(profile), weaken, listener, &f, &e) == 0, "%s", e.text);
	ck_assert(fd_is_memfd_sealed(f.fd));
	size = pread(f.fd, p->code, sizeof p->code, 0);
	ck_assert_int_gt(size, 0);
	ck_assert_uint_eq((size_t)size % sizeof *p->code, 0);
	p->n = (size_t)size / sizeof *p->code;
	ck_assert_uint_eq(p->n, f.n_instructions);
	for (size_t i = 0; i < p->n; i++) /* what stood for a block must not be left as an answer */
		if (p->code[i].code == (BPF_RET | BPF_K) && (p->code[i].k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_TRACE)
			ck_abort_msg("instruction %zu returns %#x", i, p->code[i].k);
	(void)close(f.fd);
}

/* Leaving the program, or an instruction that isn't one of the few, fails the test. */
static uint32_t program_run(const struct program *p, const struct seccomp_data *data, size_t *ret_steps)
{
	uint32_t a = 0;

	for (size_t at = 0, steps = 1;; at++, steps++) {
		const struct sock_filter *i;
		bool yes = false;

		if (at >= p->n) /* not ck_assert, which writes to a pipe each time */
			ck_abort_msg("it leaves the program");
		i = &p->code[at];
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k > sizeof *data - 4 || i->k % 4 != 0)
				ck_abort_msg("instruction %zu loads from %u", at, i->k);
			memcpy(&a, (const char *)data + i->k, sizeof a);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			continue;
		case BPF_JMP | BPF_JA:
			at += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= i->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			yes = a > i->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			yes = (a & i->k) != 0;
			break;
		case BPF_RET | BPF_K:
			if (ret_steps)
				*ret_steps = steps;
			return i->k;
		default:
			ck_abort_msg("instruction %zu has code %#x", at, i->code);
		}
		at += yes ? i->jt : i->jf;
	}
}

/* ---- the program against the table ---- */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

/* Around what the conditions of a call compare with: the value, a bit more or less, what lies beyond 32 bits. */
static uint64_t interesting(const struct call_row *rows, size_t n)
{
	const struct call_condition *c = &rows[random_next() % n].conditions[random_next() % CALL_CONDITIONS];
	uint64_t value = c->differs ? c->mask & (UINT64_C(1) << (random_next() % 32)) : c->value;

	switch (random_next() % 8) {
	case 0:
		return value;
	case 1:
		return value | UINT64_C(1) << 32;
	case 2:
		return value ^ UINT64_C(1) << (random_next() % 64);
	case 3:
		return value + random_next() % 3 - 1;
	case 4:
		return 0;
	case 5:
		return UINT64_MAX - random_next() % 2;
	case 6:
		return value | (random_next() & ~c->mask);
	default:
		return random_next() >> (random_next() % 64);
	}
}

static void same_verdict(const struct program *p, enum profile profile, uint64_t weaken, bool listener, const struct seccomp_data *call)
{
	struct filter_verdict v;
	uint32_t got = program_run(p, call, NULL);

	filter_decide(profile_builtin(profile), weaken, listener, call, &v);
	if (got == v.ret)
		return;
	ck_abort_msg("%s, weaken %#llx, listener %d: call %d (%s) of arch %#x with %#llx %#llx %#llx %#llx: program %#x, table %#x",
		profile_builtin(profile)->name, (unsigned long long)weaken, listener, call->nr, v.call, call->arch,
		(unsigned long long)call->args[0], (unsigned long long)call->args[1], (unsigned long long)call->args[2],
		(unsigned long long)call->args[3], got, v.ret);
}

static void compare(enum profile profile, uint64_t weaken, bool listener)
{
	static const uint32_t archs[] = { CALL_ARCH, AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, 0 };
	static const int beyond[] = { 1023, 1024, 1025, 0x3fffffff, X32, X32 + 1, X32 | 512, X32 | 547, 0x7fffffff, -1, -2147483647 - 1 };
	static struct program p;

	program_load(&p, profile, weaken, listener);
	for (int nr = 0; nr <= 600; nr++) {
		const struct call_row *rows = NULL;
		size_t n = 0;

		for (size_t i = 0; i < call_rows_n; i++)
			if (call_rows[i].number == nr && n++ == 0)
				rows = &call_rows[i];
		for (int turn = 0; turn < (n > 1 ? 600 : 10); turn++) {
			struct seccomp_data call = { .nr = nr, .arch = turn % 16 == 15 ? archs[random_next() % 5] : CALL_ARCH };

			for (int i = 0; i < 6; i++)
				call.args[i] = n > 0 ? interesting(rows, n) : random_next();
			same_verdict(&p, profile, weaken, listener, &call);
			call.nr |= X32;
			same_verdict(&p, profile, weaken, listener, &call);
			if (CALL_NUMBER_X32 == X32 && program_run(&p, &call, NULL) != SECCOMP_RET_KILL_PROCESS)
				ck_abort_msg("x32 call %d passes", nr);
		}
	}
	for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
		same_verdict(&p, profile, weaken, listener, &(struct seccomp_data){ .nr = beyond[i], .arch = CALL_ARCH });
}

START_TEST(program_is_table)
{
	static const uint64_t weakened[] = { 0, PROTECTION_BIT(PROTECTION_NETWORK), PROTECTION_BIT(PROTECTION_NEW_CODE), UINT64_MAX };

	for (int profile = 0; profile < PROFILE__N; profile++)
		for (size_t i = 0; i < sizeof weakened / sizeof *weakened; i++)
			for (int listener = 0; listener < 2; listener++)
				compare((enum profile)profile, weakened[i], listener);
}
END_TEST

/* ---- what must be so, whatever the table says ---- */

#define A      SECCOMP_RET_ALLOW
#define N      SECCOMP_RET_USER_NOTIF
#define K      SECCOMP_RET_KILL_PROCESS
#define E(nr)  (SECCOMP_RET_ERRNO | (nr))
#define HIGHER (UINT64_C(1) << 32)

/* With a listener. */
static const struct must {
	int nr;
	uint64_t args[6];
	uint32_t ret[PROFILE__N]; /* high, medium, low */
} musts[] = {
	/* what libc needs: each of these alone, refused, ends a program */
	{ __NR_rseq, { 0 }, { A, A, A } },
	{ __NR_sysinfo, { 0 }, { A, A, A } },
	{ __NR_futex, { 0 }, { A, A, A } },
	{ __NR_clock_nanosleep, { 0 }, { A, A, A } },
	{ __NR_rt_sigreturn, { 0 }, { A, A, A } },
	{ __NR_clone3, { 0 }, { E(ENOSYS), E(ENOSYS), E(ENOSYS) } },
	{ __NR_clone, { 0x3d0f00 }, { A, A, A } },                            /* pthread_create */
	{ __NR_clone, { CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD }, { A, A, A } }, /* fork */
	{ __NR_mmap, { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, 5 }, { A, A, A } }, /* dlopen */
	{ __NR_mprotect, { 0, 4096, PROT_READ }, { A, A, A } },
	{ __NR_openat, { 0, 0, O_RDONLY | O_CLOEXEC }, { A, A, A } },
	{ __NR_openat, { 0, 0, O_WRONLY | O_CREAT }, { A, A, A } },
	{ __NR_ioctl, { 1, TCGETS }, { A, A, A } },
	{ __NR_prlimit64, { 0, RLIMIT_STACK, 0, 0x1000 }, { A, A, A } },
	{ __NR_unshare, { CLONE_VM }, { A, A, A } },
	{ __NR_prctl, { PR_SET_PDEATHSIG, SIGKILL }, { A, A, A } },
	{ __NR_sendmsg, { 3 }, { A, A, A } },
	{ __NR_socketpair, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC }, { A, A, A } },
	/* unknown */
	{ 470, { 0 }, { E(ENOSYS), E(ENOSYS), A } },
	{ 999, { 0 }, { E(ENOSYS), E(ENOSYS), A } },
	/* what the upper half of an argument must not hide, and what it must not open */
	{ __NR_ioctl, { 0, TIOCSTI }, { N, N, N } },
	{ __NR_ioctl, { 0, TIOCSTI | HIGHER }, { N, N, N } },
	{ __NR_ioctl, { 0, TIOCLINUX | HIGHER }, { N, N, N } },
	{ __NR_ioctl, { 0, TCGETS | HIGHER }, { A, A, A } },
	{ __NR_ioctl, { 3, 0x8912 /* SIOCGIFCONF */ }, { N, E(ENOTTY), A } },
	{ __NR_prctl, { PR_SET_DUMPABLE, 1 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { PR_SET_DUMPABLE | HIGHER, 1 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { PR_SET_PDEATHSIG, 0 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { PR_SET_PDEATHSIG, SIGKILL | HIGHER }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { PR_SET_SECUREBITS, 0 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { 65 /* PR_SET_MDWE */, 0 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { PR_SET_SECCOMP, 2 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_prctl, { PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE }, { N, E(EPERM), E(EPERM) } },
	{ __NR_seccomp, { 1 }, { N, E(EPERM), E(EPERM) } },
	{ __NR_unshare, { CLONE_VM | HIGHER }, { N, N, N } },
	{ __NR_unshare, { CLONE_VM | CLONE_NEWUSER }, { N, N, N } },
	{ __NR_unshare, { 0x80 /* CLONE_NEWTIME */ }, { N, N, N } },
	{ __NR_prlimit64, { 0, RLIMIT_NOFILE, 0x1000 }, { N, E(EPERM), A } },
	{ __NR_prlimit64, { 0, RLIMIT_NOFILE, HIGHER }, { N, E(EPERM), A } },
	{ __NR_clone, { CLONE_NEWUSER | SIGCHLD }, { N, N, N } },
	{ __NR_clone, { CLONE_NEWNET | HIGHER }, { N, N, N } },
	{ __NR_clone, { CLONE_PARENT | SIGCHLD }, { N, N, N } },
	/* code */
	{ __NR_mmap, { 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS }, { N, E(EACCES), A } },
	{ __NR_mmap, { 0, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS }, { N, E(EACCES), A } },
	{ __NR_mmap, { 0, 4096, PROT_EXEC | HIGHER, MAP_PRIVATE | MAP_ANONYMOUS | HIGHER }, { N, E(EACCES), A } },
	{ __NR_mmap, { 0, 4096, PROT_EXEC, MAP_SHARED, 5 }, { N, E(EACCES), A } },
	{ __NR_mmap, { 0, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE, 5 }, { N, E(EACCES), A } },
	{ __NR_mprotect, { 0, 4096, PROT_READ | PROT_EXEC }, { N, E(EACCES), A } },
	{ __NR_pkey_mprotect, { 0, 4096, PROT_EXEC, 0 }, { N, E(EACCES), A } },
	{ __NR_shmat, { 0, 0, 0100000 }, { N, E(EACCES), A } },
	{ __NR_memfd_create, { 0 }, { E(ENOSYS), A, A } },
	{ __NR_personality, { 0xffffffff }, { A, A, A } },
	{ __NR_personality, { 0x0400000 /* READ_IMPLIES_EXEC */ }, { N, E(EACCES), A } },
	{ __NR_execve, { 0 }, { N, N, A } },
	{ __NR_execveat, { 0 }, { N, N, A } },
	/* network */
	{ __NR_socket, { AF_INET, SOCK_STREAM }, { N, E(EACCES), A } },
	{ __NR_socket, { AF_INET6 | HIGHER, SOCK_DGRAM }, { N, E(EACCES), A } },
	{ __NR_socket, { AF_UNIX, SOCK_STREAM }, { N, E(EACCES), A } },
	{ __NR_socket, { AF_NETLINK, SOCK_RAW }, { N, E(EACCES), A } },
	{ __NR_socket, { AF_VSOCK, SOCK_STREAM }, { N, E(EACCES), A } },
	{ __NR_socket, { AF_ALG, SOCK_SEQPACKET }, { N, E(EACCES), A } },
	{ __NR_socketpair, { AF_UNIX, SOCK_DGRAM }, { N, E(EACCES), A } },
	{ __NR_connect, { 0 }, { N, E(EACCES), A } },
	{ __NR_bind, { 0 }, { N, E(EACCES), A } },
	{ __NR_accept4, { 0 }, { N, E(EACCES), A } },
	{ __NR_setsockopt, { 0 }, { N, E(EACCES), A } },
	/* covert channels */
	{ __NR_flock, { 0 }, { N, E(ENOLCK), A } },
	{ __NR_fcntl, { 0, F_SETLK }, { N, E(ENOLCK), A } },
	{ __NR_fcntl, { 0, F_OFD_SETLK | HIGHER }, { N, E(ENOLCK), A } },
	{ __NR_fcntl, { 0, F_SETLEASE }, { N, E(ENOLCK), A } },
	{ __NR_fcntl, { 0, 1036 /* F_SET_RW_HINT */ }, { N, E(ENOLCK), A } },
	{ __NR_inotify_init1, { 0 }, { N, E(EPERM), A } },
	{ __NR_fanotify_init, { 0 }, { N, E(EPERM), A } },
	{ __NR_add_key, { 0 }, { N, N, N } },
	{ __NR_request_key, { 0 }, { N, N, N } },
	{ __NR_keyctl, { 0 }, { N, N, N } },
	/* the kernel */
	{ __NR_ptrace, { 0 }, { N, N, N } },
	{ __NR_process_vm_readv, { 0 }, { N, N, N } },
	{ __NR_process_vm_writev, { 0 }, { N, N, N } },
	{ __NR_pidfd_getfd, { 0 }, { N, N, N } },
	{ __NR_kcmp, { 0 }, { N, N, N } },
	{ __NR_perf_event_open, { 0 }, { N, N, N } },
	{ __NR_bpf, { 0 }, { N, N, N } },
	{ __NR_userfaultfd, { 0 }, { N, N, N } },
	{ __NR_io_uring_setup, { 0 }, { E(ENOSYS), E(ENOSYS), E(ENOSYS) } },
	{ __NR_io_uring_enter, { 0 }, { E(ENOSYS), E(ENOSYS), E(ENOSYS) } },
	{ __NR_io_uring_register, { 0 }, { E(ENOSYS), E(ENOSYS), E(ENOSYS) } },
	{ __NR_mount, { 0 }, { N, N, N } },
	{ __NR_umount2, { 0 }, { N, N, N } },
	{ __NR_pivot_root, { 0 }, { N, N, N } },
	{ __NR_chroot, { 0 }, { N, N, N } },
	{ __NR_fsopen, { 0 }, { N, N, N } },
	{ __NR_fsmount, { 0 }, { N, N, N } },
	{ __NR_move_mount, { 0 }, { N, N, N } },
	{ __NR_open_tree, { 0 }, { N, N, N } },
	{ __NR_mount_setattr, { 0 }, { N, N, N } },
	{ __NR_open_by_handle_at, { 0 }, { N, N, N } },
	{ __NR_setns, { 0 }, { N, N, N } },
	{ __NR_kexec_load, { 0 }, { N, N, N } },
	{ __NR_init_module, { 0 }, { N, N, N } },
	{ __NR_finit_module, { 0 }, { N, N, N } },
	{ __NR_delete_module, { 0 }, { N, N, N } },
	{ __NR_quotactl, { 0 }, { N, N, N } },
	{ __NR_reboot, { 0 }, { N, N, N } },
	{ __NR_settimeofday, { 0 }, { N, N, N } },
	{ __NR_clock_settime, { 0 }, { N, N, N } },
	{ __NR_mknodat, { 0, 0, S_IFCHR | 0600, 0x103 }, { N, N, N } },
	{ __NR_mknodat, { 0, 0, S_IFIFO | 0600, 0 }, { A, A, A } },
};

START_TEST(what_must_be)
{
	static struct program with, without;

	for (int profile = 0; profile < PROFILE__N; profile++) {
		uint32_t forbidden = profile == PROFILE_HIGH ? K : E(EPERM);

		program_load(&with, (enum profile)profile, 0, true);
		program_load(&without, (enum profile)profile, 0, false);
		for (size_t i = 0; i < sizeof musts / sizeof *musts; i++) {
			const struct must *m = &musts[i];
			struct seccomp_data call = { .nr = m->nr, .arch = CALL_ARCH };
			struct filter_verdict v;
			uint32_t got, alone;

			memcpy(call.args, m->args, sizeof call.args);
			got = program_run(&with, &call, NULL);
			alone = program_run(&without, &call, NULL);
			ck_assert_msg(got == m->ret[profile], "%s: row %zu, call %d: %#x instead of %#x", profile_builtin((enum profile)profile)->name, i,
				m->nr, got, m->ret[profile]);
			filter_decide(profile_builtin((enum profile)profile), 0, true, &call, &v);
			if (m->ret[profile] == N) { /* without a listener: what the listener would have answered */
				ck_assert_int_ne(v.error, 0);
				ck_assert_uint_lt(v.operation, OPERATION__N);
				ck_assert_str_ne(v.call, "");
				ck_assert_uint_eq(alone, v.kill ? K : E((uint32_t)v.error));
				ck_assert(operation_refusal(v.operation) ? !v.kill : alone == forbidden);
			} else {
				ck_assert_uint_eq(alone, got);
			}
			/* the same call by the door of another ABI */
			call.arch = AUDIT_ARCH_I386;
			ck_assert_uint_eq(program_run(&with, &call, NULL), K);
			call.arch = CALL_ARCH;
			call.nr |= X32;
			if (CALL_NUMBER_X32 == X32)
				ck_assert_uint_eq(program_run(&with, &call, NULL), K);
		}
	}
}
END_TEST

/* Nobody's policy may open what no built-in one does; weakening opens what it names. */
START_TEST(weakened)
{
	static struct program p;
	struct seccomp_data call = { .nr = __NR_socket, .arch = CALL_ARCH, .args = { AF_INET, SOCK_STREAM } };

	program_load(&p, PROFILE_HIGH, PROTECTION_BIT(PROTECTION_NETWORK), true);
	ck_assert_uint_eq(program_run(&p, &call, NULL), A);
	call.nr = __NR_execve;
	ck_assert_uint_eq(program_run(&p, &call, NULL), N);
	program_load(&p, PROFILE_HIGH, PROTECTION_BIT(PROTECTION_NEW_CODE), true);
	call.nr = __NR_memfd_create;
	ck_assert_uint_eq(program_run(&p, &call, NULL), A);
	program_load(&p, PROFILE_HIGH, UINT64_MAX, true);
	call.nr = __NR_ptrace;
	ck_assert_uint_eq(program_run(&p, &call, NULL), N);
}
END_TEST

/* Numbers from the last of the table on; -1 is what a tracer makes of a call that it takes away, and runs nothing. */
START_TEST(numbers_beyond)
{
	static const uint32_t beyond[] = { 600, 1023, 1024, 0x3fffffff, 0xffffffff }, other[] = { X32, X32 + 59, 0x7fffffff, 0x80000000, 0xfffffffe };
	static struct program p;

	for (int profile = 0; profile < PROFILE__N; profile++) {
		const uint32_t unknown = profile == PROFILE_LOW ? A : E(ENOSYS);

		program_load(&p, (enum profile)profile, 0, true);
		for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
			ck_assert_uint_eq(program_run(&p, &(struct seccomp_data){ .nr = (int)beyond[i], .arch = CALL_ARCH }, NULL), unknown);
		for (size_t i = 0; i < sizeof other / sizeof *other; i++)
			ck_assert_uint_eq(program_run(&p, &(struct seccomp_data){ .nr = (int)other[i], .arch = CALL_ARCH }, NULL),
				CALL_NUMBER_X32 == X32 ? K : unknown);
	}
}
END_TEST

/* ---- failures ---- */

static void fails_under(int resource, enum err_code code, int sys_errno, const char *what)
{
	struct filter f = { .fd = 0, .n_instructions = 1 };
	struct err e = ERR_INIT;
	struct rlimit before, none;
	int result;

	ck_assert_int_eq(getrlimit((__rlimit_resource_t)resource, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	ck_assert_int_eq(setrlimit((__rlimit_resource_t)resource, &none), 0);
	result = filter_build(profile_builtin(PROFILE_HIGH), 0, true, &f, &e);
	ck_assert_int_eq(setrlimit((__rlimit_resource_t)resource, &before), 0);
	ck_assert_int_eq(result, -1);
	ck_assert_int_eq(f.fd, -1);
	ck_assert_uint_eq(f.n_instructions, 0);
	ck_assert_int_eq(e.code, code);
	ck_assert_int_eq(e.sys_errno, sys_errno);
	ck_assert_msg(strstr(e.text, "profile high") && strstr(e.text, what) && strstr(e.text, strerror(sys_errno)), "%s", e.text);
}

START_TEST(failures_have_names)
{
	static struct program p;
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
	int lowest = dup(0);

	fails_under(RLIMIT_NOFILE, ERR_UNAVAILABLE, EMFILE, "memfd");
	fails_under(RLIMIT_FSIZE, ERR_UNAVAILABLE, EFBIG, "seccomp_export_bpf");
	(void)signal(SIGXFSZ, before);
	(void)close(lowest);
	ck_assert_int_eq(dup(0), lowest); /* no descriptor was left open */
	(void)close(lowest);
	program_load(&p, PROFILE_HIGH, 0, true);
}
END_TEST

/* ---- the table ---- */

/* Numbers that this version leaves unlisted on purpose: gone from the kernel, of no use, or new powers nobody has asked for. */
static const struct {
	int first, last;
	const char *why;
} unlisted[] = {
	{ 134, 134, "uselib" }, { 136, 136, "ustat" }, { 139, 139, "sysfs" }, { 156, 156, "_sysctl" }, { 174, 174, "create_module" },
	{ 177, 178, "get_kernel_syms, query_module" }, { 180, 185, "nfsservctl to security" }, { 205, 205, "set_thread_area" },
	{ 211, 212, "get_thread_area, lookup_dcookie" }, { 214, 216, "epoll_ctl_old, epoll_wait_old, remap_file_pages" },
	{ 236, 236, "vserver" }, { 335, 423, "no calls" }, { 444, 446, "landlock: layers of its own" },
	{ 451, 451, "cachestat: what is in the page cache" }, { 453, 453, "map_shadow_stack" },
	{ 457, 461, "statmount, listmount, lsm_*" }, { 463, 466, "*xattrat" }, { 468, 600, "newer" },
};

START_TEST(table_is_complete)
{
	bool used[OPERATION__N] = { false };

	for (size_t i = 0; i < call_rows_n; i++) {
		const struct call_row *row = &call_rows[i], *next = i + 1 < call_rows_n ? row + 1 : NULL;
		bool last = !next || next->number != row->number;

		ck_assert_msg(row->operations != 0 && !(row->operations & ~OPERATIONS_ALL), "%s", row->name);
		for (int op = 0; op < OPERATION__N; op++)
			used[op] |= (row->operations & OPERATION_BIT(op)) != 0;
		ck_assert_msg(last == (row->n_conditions == 0), "%s: its last row, and only that, has no condition", row->name);
		for (size_t k = 0; last && next && k + i + 1 < call_rows_n; k++)
			ck_assert_msg(next[k].number != row->number, "%s: its rows don't stand together", row->name);
		for (size_t k = 0; k < row->n_conditions; k++) {
			const struct call_condition *c = &row->conditions[k];

			ck_assert_msg(c->argument < 6 && c->mask != 0 && !(c->value & ~c->mask), "%s: can't hold, or always does", row->name);
			ck_assert(!c->differs || (c->value == 0 && c->mask <= UINT32_MAX));
		}
	}
	for (int op = 0; op < OPERATION__N; op++)
		ck_assert_msg(used[op], "no call belongs to %s", operation_name((enum operation)op));
}
END_TEST

#ifdef __x86_64__
START_TEST(every_call_is_accounted_for)
{
	for (int nr = 0; nr <= 600; nr++) {
		bool listed = call_find(&(struct seccomp_data){ .nr = nr }) != NULL, left_out = false;

		for (size_t i = 0; i < sizeof unlisted / sizeof *unlisted; i++)
			left_out |= nr >= unlisted[i].first && nr <= unlisted[i].last;
		ck_assert_msg(listed || left_out || nr == 334, "call %d is neither in calls.def nor left out on purpose", nr);
		if (nr != 334 && !(nr > 423 && nr < 470))
			ck_assert_msg(listed != left_out, "call %d: listed %d, left out %d", nr, listed, left_out);
	}
}
END_TEST
#endif

/* ---- the kernel ---- */

static long ns_between(struct timespec a, struct timespec b)
{
	return (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
}

static int compare_long(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

/* In a child each: ns that the installation took; the child then makes a call that must be refused. */
static long install_ns(const struct program *p)
{
	int ends[2], status;
	long ns = -1;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct sock_fprog program = { (unsigned short)p->n, (struct sock_filter *)(uintptr_t)p->code };
		struct timespec a, b;
		long took;

		(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		(void)clock_gettime(CLOCK_MONOTONIC, &a);
		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
			_exit(1);
		(void)clock_gettime(CLOCK_MONOTONIC, &b);
		took = ns_between(a, b);
		if (write(ends[1], &took, sizeof took) != sizeof took || prctl(PR_SET_DUMPABLE, 1) == 0 || errno != EPERM)
			_exit(2);
		_exit(0);
	}
	(void)close(ends[1]);
	ck_assert_int_eq(read(ends[0], &ns, sizeof ns), sizeof ns);
	(void)close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	return ns;
}

START_TEST(kernel_takes_it)
{
	static struct program p, with;
	long ns[51];

	for (int profile = 0; profile < PROFILE__N; profile++) {
		size_t deepest = 0, sum = 0;

		program_load(&with, (enum profile)profile, 0, true);
		program_load(&p, (enum profile)profile, 0, false);
		for (int nr = 0; nr < 470; nr++) {
			size_t steps;

			(void)program_run(&p, &(struct seccomp_data){ .nr = nr, .arch = CALL_ARCH }, &steps);
			sum += steps;
			deepest = steps > deepest ? steps : deepest;
		}
		for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
			ns[i] = install_ns(&p);
		qsort(ns, sizeof ns / sizeof *ns, sizeof *ns, compare_long);
		printf("NOTE filter of %s: %zu instructions (%zu with a listener), %zu.%zu on average and at most %zu to an answer; installed in %ld us (median)\n",
			profile_builtin((enum profile)profile)->name, p.n, with.n, sum / 470, sum % 470 * 10 / 470, deepest,
			ns[sizeof ns / sizeof *ns / 2] / 1000);
		ck_assert_uint_lt(p.n, 1000);
		ck_assert_uint_lt(deepest, 64);
	}
}
END_TEST

#ifdef __x86_64__
#define EVERY_CALL tcase_add_test(tc, every_call_is_accounted_for)
#else
#define EVERY_CALL (void)unlisted
#endif

CHECK_MAIN("filter", tcase_add_test(tc, program_is_table); tcase_add_test(tc, what_must_be); tcase_add_test(tc, weakened);
	tcase_add_test(tc, numbers_beyond); tcase_add_test(tc, failures_have_names); tcase_add_test(tc, table_is_complete); EVERY_CALL; tcase_add_test(tc, kernel_takes_it));
