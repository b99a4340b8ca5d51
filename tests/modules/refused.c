/* SPDX-License-Identifier: MIT
 *
 * Calls that profiles refuse, one of each kind: which errno they get. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox_module.h"

struct refused { int64_t calls; };
SBX_STATE(refused, struct refused, SBX_FIELD(calls));

#define CHANNEL 3 /* the host's own socket, which module code can't help but have */

static long raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
		return -1;
	limit.rlim_cur = limit.rlim_max += 1000;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

static long interfaces(void)
{
	struct ifreq all[8];
	struct ifconf conf = { .ifc_len = sizeof all, .ifc_req = all };

	return ioctl(CHANNEL, SIOCGIFCONF, &conf);
}

static long locked(void)
{
	int fd = open("/usr/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);
	long rc;

	if (fd == -1)
		fd = CHANNEL;
	rc = flock(fd, LOCK_SH | LOCK_NB);
	if (fd != CHANNEL) {
		int kept = errno;

		(void)close(fd);
		errno = kept;
	}
	return rc;
}

static long run(const char *what)
{
	static char name[] = "nothing";
	char *const argv[] = { name, NULL };
	char byte = 'x';

	if (strcmp(what, "ptrace") == 0)
		return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	if (strcmp(what, "unshare") == 0)
		return unshare(CLONE_NEWUSER);
	if (strcmp(what, "keyctl") == 0)
		return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
	if (strcmp(what, "terminal") == 0)
		return syscall(SYS_ioctl, 0, TIOCSTI | 1ul << 32, &byte);
	if (strcmp(what, "exec") == 0)
		return execv("/nowhere/nothing", argv);
	if (strcmp(what, "socket") == 0)
		return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (strcmp(what, "flock") == 0)
		return locked();
	if (strcmp(what, "memfd") == 0)
		return memfd_create("code", MFD_CLOEXEC);
	if (strcmp(what, "writable_code") == 0)
		return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
	if (strcmp(what, "dumpable") == 0)
		return prctl(PR_SET_DUMPABLE, 1);
	if (strcmp(what, "death_signal") == 0)
		return prctl(PR_SET_PDEATHSIG, 0);
	if (strcmp(what, "raise_limit") == 0)
		return raise_limit();
	if (strcmp(what, "clone3") == 0)
		return syscall(SYS_clone3, NULL, 0);
	if (strcmp(what, "io_uring") == 0)
		return syscall(SYS_io_uring_setup, 1, NULL);
	if (strcmp(what, "unknown") == 0)
		return syscall(1000);
	if (strcmp(what, "interfaces") == 0)
		return interfaces();
#ifdef __x86_64__
	if (strcmp(what, "x32") == 0)
		return syscall(0x40000000 | SYS_getpid);
	if (strcmp(what, "int80") == 0) {
		long result = 20; /* getpid, by the old door */

		__asm__ volatile("int $0x80" : "+a"(result) : : "memory");
		errno = (int)-result;
		return result < 0 ? -1 : result;
	}
#endif
	errno = EDOM; /* the test asks for something that isn't here */
	return -1;
}

static int put(struct sbx *x, long result)
{
	const char *name = result == -1 ? strerrorname_np(errno) : NULL;

	return sbx_put_str(x, "errno", name ? name : "");
}

static int call(struct sbx *x, void *self)
{
	(void)self;
	return put(x, run(sbx_arg_str(x, "what")));
}

static int open_path(struct sbx *x, void *self)
{
	int fd = open(sbx_arg_str(x, "path"), O_RDONLY | O_CLOEXEC);

	(void)self;
	(void)put(x, fd);
	return fd == -1 ? 0 : close(fd);
}

static int append_to(struct sbx *x, void *self)
{
	int fd = open(sbx_arg_str(x, "path"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	long rc = fd == -1 ? -1 : write(fd, "x", 1);

	(void)self;
	(void)put(x, rc);
	return fd == -1 ? 0 : close(fd);
}

static int map_code(struct sbx *x, void *self)
{
	int fd = open(sbx_arg_str(x, "path"), O_RDONLY | O_CLOEXEC);
	void *at = fd == -1 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	(void)self;
	(void)put(x, at == MAP_FAILED ? -1 : 0);
	if (at != MAP_FAILED)
		(void)munmap(at, 4096);
	return fd == -1 ? 0 : close(fd);
}

SBX_MODULE(refused, 1, SBX_USES(refused), SBX_FN(call, "what: str"), SBX_FN_AS("open", open_path, "path: str"), SBX_FN_AS("append", append_to, "path: str"),
	SBX_FN_AS("map_code", map_code, "path: str"));
