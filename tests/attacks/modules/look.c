/* SPDX-License-Identifier: MIT
 *
 * Looks at what it was started with, and tries what honest code needs: reports B10, B42 and B49. */
#include "attack.h"

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

extern char **environ;
static char room[1 << 16];

/* The environment, as the library has it, as the kernel has it. */
static int environment(struct sbx *x, void *self)
{
	size_t n = 0;
	long more;

	(void)self;
	for (char **e = environ; e && *e && n + 1024 < sizeof room / 2; e++)
		n += (size_t)snprintf(room + n, 1024, "%s\n", *e);
	more = slurp("/proc/self/environ", room + n, sizeof room - n);
	n += more > 0 ? (size_t)more : 0;
	more = slurp("/proc/1/environ", room + n, sizeof room - n);
	n += more > 0 ? (size_t)more : 0;
	return brought(x, (long)n, room, n);
}

/* Open descriptors; signals blocked and ignored (SIGPIPE and what the host itself set apart). */
static int started_with(struct sbx *x, void *self)
{
	sigset_t blocked;
	struct stat st;

	(void)self;
	sbx_open_list(x, "descriptors");
	for (int fd = 0; fd < 4096; fd++)
		if (fstat(fd, &st) == 0)
			sbx_put_i64(x, NULL, fd);
	sbx_close(x);
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	sbx_open_list(x, "blocked");
	for (int s = 1; s < 65; s++)
		if (sigismember(&blocked, s) == 1)
			sbx_put_i64(x, NULL, s);
	sbx_close(x);
	sbx_open_list(x, "ignored");
	for (int s = 1; s < 65; s++) {
		struct sigaction a;

		if (sigaction(s, NULL, &a) == 0 && a.sa_handler == SIG_IGN)
			sbx_put_i64(x, NULL, s);
	}
	sbx_close(x);
	sbx_put_i64(x, "groups", getgroups(0, NULL));
	sbx_put_i64(x, "uid", getuid());
	return 0;
}

static void *thread_body(void *p)
{
	return p;
}

static pthread_barrier_t together;

static void *meet(void *p)
{
	pthread_barrier_wait(&together);
	return p;
}

static int ten_threads(struct sbx *x, void *self)
{
	pthread_t t[10];
	int e = 0;

	(void)self;
	pthread_barrier_init(&together, NULL, 11);
	for (int i = 0; i < 10; i++)
		if ((e = pthread_create(&t[i], NULL, meet, NULL)) != 0)
			return sbx_fail(x, "thread", "thread %d: %s", i, strerror(e));
	pthread_barrier_wait(&together);
	for (int i = 0; i < 10; i++)
		pthread_join(t[i], NULL);
	return sbx_put_i64(x, "made", 10);
}

#define TRY(what, good)   \
	do {              \
		errno = 0; \
		TRIED(what, good); \
	} while (0)
#define TRIED(what, good)                                                                                           \
	do {                                                                                                        \
		if (!(good)) {                                                                                      \
			char text[64];                                                                              \
			(void)snprintf(text, sizeof text, "%s: %s", what, strerrorname_np(errno) ? strerrorname_np(errno) : "?"); \
			sbx_put_str(x, NULL, text);                                                                 \
		}                                                                                                   \
	} while (0)

static int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* What honest code of any age calls: it works, or is not there (ENOSYS); never EPERM, never death. */
static int libc_calls(struct sbx *x, void *self)
{
	pthread_t t;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec ts = { 0, 1000 };
	struct utsname u;
	struct sysinfo si;
	static int many[300000];
	static struct stat st;
	static unsigned char bytes[32], big[512];
	int ends[2];
	time_t now = time(NULL);
	struct tm tm;
	pid_t pid;
	long r;
	int fd;

	(void)self;
	sbx_open_list(x, "broken");
	TRY("pthread_create", (errno = pthread_create(&t, NULL, thread_body, NULL)) == 0 && pthread_join(t, NULL) == 0);
	TRY("pthread_mutex", pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
	TRY("stat", stat("/", &st) == 0 || errno == EACCES || errno == ENOENT);
	TRY("getrandom", getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
	TRY("getentropy", getentropy(bytes, sizeof bytes) == 0);
	TRY("clock_gettime", clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	ts = (struct timespec){ 0, 1000 };
	TRY("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL) == 0);
	TRY("localtime_r", localtime_r(&now, &tm) != NULL);
	TRY("uname", uname(&u) == 0);
	TRY("sysinfo", sysinfo(&si) == 0);
	TRY("pipe", pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && read(ends[0], bytes, 1) == 1 && close(ends[0]) == 0 && close(ends[1]) == 0);
	TRY("malloc", (free(malloc(64u << 20)), 1));
	for (int i = 0; i < 300000; i++)
		many[i] = (int)((unsigned)i * 7919u % 300007u);
	qsort(many, 300000, sizeof *many, compare_ints);
	TRY("qsort", many[0] <= many[1]);
	TRY("fork", (pid = fork()) >= 0 && (pid > 0 || (_exit(7), 1)));
	TRY("waitpid", waitpid(pid, &fd, 0) == pid && WEXITSTATUS(fd) == 7);
	/* ours to fail with ENOSYS: each has a fallback in libc */
	r = syscall(SYS_statx, -100, "/", 0, 0x7ff, big);
	TRIED("statx", r == 0 || errno == ENOSYS || errno == EACCES);
	r = syscall(439 /* faccessat2 */, -100, "/", 0, 0);
	TRIED("faccessat2", r == 0 || errno == ENOSYS || errno == EACCES || errno == ENOENT);
	r = syscall(SYS_rseq, NULL, 0, 0, 0);
	TRIED("rseq", r == 0 || errno == EINVAL || errno == EBUSY || errno == EPERM || errno == EFAULT || errno == ENOSYS);
	r = syscall(449 /* futex_waitv */, NULL, 0, 0, NULL, 0);
	TRIED("futex_waitv", r == 0 || errno == EINVAL || errno == ENOSYS);
	r = syscall(436 /* close_range */, 4000, 4001, 0);
	TRIED("close_range", r == 0 || errno == ENOSYS);
	r = syscall(SYS_membarrier, 0, 0, 0);
	TRIED("membarrier", r >= 0 || errno == ENOSYS);
	r = syscall(437 /* openat2 */, -100, "/nothing", NULL, 0);
	TRIED("openat2", errno == ENOSYS || errno == EINVAL || errno == ENOENT || errno == EFAULT);
	r = syscall(435 /* clone3 */, NULL, 0);
	TRIED("clone3", errno == ENOSYS || errno == EINVAL);
	r = syscall(452 /* fchmodat2 */, -100, "/nothing", 0, 0);
	TRIED("fchmodat2", errno == ENOSYS || errno == ENOENT || errno == EACCES || errno == EPERM);
	r = syscall(462 /* mseal */, NULL, 0, 0);
	TRIED("mseal", r == 0 || errno == ENOSYS || errno == EINVAL);
	for (long number = 480; number < 560; number++) {
		errno = 0;
		r = syscall(number, -1, -1, -1, -1, -1, -1);
		if (r != -1 || errno != ENOSYS) {
			char text[64];

			(void)snprintf(text, sizeof text, "unknown call %ld gave %ld, errno %d", number, r, errno);
			sbx_put_str(x, NULL, text);
		}
	}
	return sbx_close(x);
}

static char kept[64];

/* Something for others to steal. */
static int keep(struct sbx *x, void *self)
{
	(void)self;
	(void)snprintf(kept, sizeof kept, "%s", text_of(x));
	return said(x, 0);
}

/* It looks names up: that must end in an error, not in death. */
static int name_lookup(struct sbx *x, void *self)
{
	struct addrinfo *a = NULL;
	int r = getaddrinfo("localhost", "80", NULL, &a);

	(void)self;
	if (r == 0)
		freeaddrinfo(a);
	return said(x, r);
}

/* A line of its log. */
static int print(struct sbx *x, void *self)
{
	(void)self;
	return said(x, printf("%s\n", text_of(x)));
}

ATTACKS(look, ATTACK(environment), ATTACK(started_with), ATTACK(ten_threads), ATTACK(libc_calls), ATTACK(keep), ATTACK(print), ATTACK(name_lookup));
