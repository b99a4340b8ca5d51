/* SPDX-License-Identifier: MIT
 *
 * What ordinary code expects of libc and the kernel, a function for each part: it must work under every profile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox_module.h"

struct compat { int64_t calls; };
SBX_STATE(compat, struct compat, SBX_FIELD(calls));

#define NEED(condition)                                                                                      \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			return sbx_fail(x, "compat", "line %d: %s (%s)", __LINE__, #condition, strerror(errno)); \
	} while (0)

/* ---- threads ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int arrived;
static _Thread_local int own;

static void *arrive(void *n)
{
	own = *(int *)n;
	pthread_mutex_lock(&mutex);
	arrived++;
	pthread_cond_broadcast(&condition);
	pthread_mutex_unlock(&mutex);
	sched_yield();
	if (own % 2)
		pthread_exit(n);
	return own == *(int *)n ? n : NULL;
}

static void *wait_for_ever(void *semaphore)
{
	sem_post(semaphore);
	for (;;)
		(void)pause();
	return NULL;
}

static int threads(struct sbx *x, void *self)
{
	pthread_t ids[8], last;
	int numbers[8];
	sem_t started;
	void *result;

	(void)self;
	arrived = 0;
	for (int i = 0; i < 8; i++) {
		numbers[i] = i;
		NEED((errno = pthread_create(&ids[i], NULL, arrive, &numbers[i])) == 0);
		(void)pthread_setname_np(ids[i], "worker");
	}
	pthread_mutex_lock(&mutex);
	while (arrived < 8)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 8; i++) {
		NEED((errno = pthread_join(ids[i], &result)) == 0);
		NEED(result == &numbers[i]);
	}
	NEED(sem_init(&started, 0, 0) == 0);
	NEED((errno = pthread_create(&last, NULL, wait_for_ever, &started)) == 0);
	NEED(sem_wait(&started) == 0);
	NEED((errno = pthread_cancel(last)) == 0);
	NEED((errno = pthread_join(last, &result)) == 0 && result == PTHREAD_CANCELED);
	return 0;
}

/* ---- memory, sorting, numbers ---- */

static int compare(const void *a, const void *b)
{
	int left = *(const int *)a, right = *(const int *)b;

	return (left > right) - (left < right);
}

static int sorting(struct sbx *x, void *self)
{
	enum { N = 1000000 };
	int *numbers = malloc(N * sizeof *numbers);

	(void)self;
	NEED(numbers);
	for (int i = 0; i < N; i++)
		numbers[i] = (int)((unsigned)i * 2654435761u % N);
	qsort(numbers, N, sizeof *numbers, compare);
	for (int i = 1; i < N; i++)
		NEED(numbers[i - 1] <= numbers[i]);
	free(numbers);
	return 0;
}

static int memory(struct sbx *x, void *self)
{
	char *small[1000], *large, *shared;

	(void)self;
	for (int i = 0; i < 1000; i++) {
		NEED(small[i] = malloc((size_t)i + 1));
		memset(small[i], i, (size_t)i + 1);
	}
	for (int i = 0; i < 1000; i++)
		free(small[i]);
	NEED(large = calloc(1, 20 << 20));
	NEED(large = realloc(large, 40 << 20));
	memset(large, 1, 40 << 20);
	free(large);
	(void)malloc_trim(0);
	NEED(aligned_alloc(4096, 8192));
	shared = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(shared != MAP_FAILED);
	NEED(mprotect(shared, 4096, PROT_NONE) == 0 && mprotect(shared, 4096, PROT_READ | PROT_WRITE) == 0);
	NEED(madvise(shared, 16384, MADV_DONTNEED) == 0);
	NEED(munmap(shared, 16384) == 0);
	return 0;
}

static int numbers(struct sbx *x, void *self)
{
	volatile double one = 1.0;
	char text[64];

	(void)self;
	NEED(fabs(sin(one) - 0.8414709848) < 1e-9 && fabs(pow(one + 1, 0.5) - sqrt(2.0)) < 1e-12);
	NEED(fabs(lgamma(one + 4) - log(24.0)) < 1e-9 && isnan(sqrt(-one)));
	(void)snprintf(text, sizeof text, "%.3f %a %Lg %'d", 1.0 / 3, 0.5, (long double)1e10, 1234567);
	NEED(strcmp(text, "0.333 0x1p-1 1e+10 1234567") == 0);
	NEED(strtod("1e-3", NULL) > 0.0009);
	return 0;
}

static int output(struct sbx *x, void *self)
{
	(void)self;
	for (int i = 0; i < 100; i++)
		NEED(printf("line %d of %s\n", i, "output") > 0);
	NEED(fflush(stdout) == 0);
	NEED(fprintf(stderr, "and one of stderr\n") > 0);
	perror("perror");
	(void)isatty(1);
	return 0;
}

/* ---- time ---- */

static volatile sig_atomic_t ticks;

static void tick(int number)
{
	(void)number;
	ticks++;
}

static int sleeping(struct sbx *x, void *self)
{
	struct timespec nap = { 0, 1000000 }, a, b;
	time_t now = time(NULL);
	struct tm parts;

	(void)self;
	NEED(clock_gettime(CLOCK_MONOTONIC, &a) == 0);
	NEED(nanosleep(&nap, NULL) == 0 && usleep(1000) == 0);
	NEED((errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL)) == 0);
	NEED(poll(NULL, 0, 1) == 0);
	NEED(clock_gettime(CLOCK_MONOTONIC, &b) == 0);
	NEED((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 4000000);
	NEED(clock_gettime(CLOCK_REALTIME, &a) == 0 && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a) == 0 && clock() >= 0);
	NEED(gettimeofday(&(struct timeval){ 0 }, NULL) == 0 && localtime_r(&now, &parts) && mktime(&parts) == now);
	return 0;
}

static int timers(struct sbx *x, void *self)
{
	struct itimerspec soon = { .it_value = { 0, 1000000 }, .it_interval = { 0, 1000000 } };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = tick }, before;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	struct epoll_event ready = { .events = EPOLLIN };
	uint64_t expired;
	timer_t timer;
	int fd, poller;

	(void)self;
	ticks = 0;
	NEED(sigaction(SIGALRM, &action, &before) == 0);
	NEED(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
	while (ticks < 3)
		(void)pause();
	NEED(timer_delete(timer) == 0);
	NEED(setitimer(ITIMER_REAL, &often, NULL) == 0);
	while (ticks < 6)
		(void)pause();
	NEED(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0 && alarm(0) == 0);
	NEED(sigaction(SIGALRM, &before, NULL) == 0);
	NEED((fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) >= 0 && timerfd_settime(fd, 0, &soon, NULL) == 0);
	NEED((poller = epoll_create1(EPOLL_CLOEXEC)) >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, fd, &ready) == 0);
	NEED(epoll_wait(poller, &ready, 1, -1) == 1 && read(fd, &expired, sizeof expired) == sizeof expired && expired >= 1);
	NEED(close(fd) == 0 && close(poller) == 0);
	return 0;
}

/* ---- signals, jumps, traces ---- */

static int signals(struct sbx *x, void *self)
{
	struct sigaction action = { .sa_handler = tick }, before;
	struct signalfd_siginfo info;
	sigset_t set, old;
	int fd, number;

	(void)self;
	ticks = 0;
	NEED(sigaction(SIGUSR1, &action, &before) == 0);
	NEED(raise(SIGUSR1) == 0 && ticks == 1);
	NEED(kill(getpid(), SIGUSR1) == 0 && ticks == 2);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	NEED(sigprocmask(SIG_BLOCK, &set, &old) == 0);
	NEED(raise(SIGUSR1) == 0 && sigwait(&set, &number) == 0 && number == SIGUSR1);
	NEED((fd = signalfd(-1, &set, SFD_CLOEXEC)) >= 0 && raise(SIGUSR1) == 0);
	NEED(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && close(fd) == 0);
	NEED(sigprocmask(SIG_SETMASK, &old, NULL) == 0 && sigaction(SIGUSR1, &before, NULL) == 0);
	return ticks == 2 ? 0 : sbx_fail(x, "compat", "%d ticks", (int)ticks);
}

static int traces(struct sbx *x, void *self)
{
	void *frames[32];
	int n = backtrace(frames, 32);
	char **names = backtrace_symbols(frames, n);
	jmp_buf place;

	(void)self;
	NEED(n >= 3 && names && strstr(names[0], ".so"));
	free(names);
	if (setjmp(place) == 0)
		longjmp(place, 1);
	return 0;
}

/* ---- processes ---- */

static int processes(struct sbx *x, void *self)
{
	volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ends[2], status;
	char byte = 0;
	pid_t pid;

	(void)self;
	NEED(shared != MAP_FAILED && pipe2(ends, O_CLOEXEC) == 0);
	for (int i = 0; i < 20; i++) {
		NEED((pid = fork()) >= 0);
		if (pid == 0) {
			*shared += 1;
			_exit(write(ends[1], "x", 1) == 1 ? i : 99);
		}
		NEED(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == i);
		NEED(read(ends[0], &byte, 1) == 1 && byte == 'x');
	}
	NEED(*shared == 20);
	NEED((pid = fork()) >= 0);
	if (pid == 0)
		for (;;)
			(void)pause();
	NEED(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	NEED(close(ends[0]) == 0 && close(ends[1]) == 0 && munmap((void *)(uintptr_t)shared, 4096) == 0);
	return 0;
}

static int ipc(struct sbx *x, void *self)
{
	uint64_t one = 1;
	int pair[2], fd;
	char text[8];

	(void)self;
	NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	NEED(send(pair[0], "hello", 5, 0) == 5 && recv(pair[1], text, sizeof text, 0) == 5);
	NEED(shutdown(pair[0], SHUT_WR) == 0 && read(pair[1], text, 1) == 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
	NEED((fd = eventfd(0, EFD_CLOEXEC)) >= 0 && write(fd, &one, 8) == 8 && read(fd, &one, 8) == 8 && close(fd) == 0);
	return 0;
}

/* ---- questions ---- */

static int questions(struct sbx *x, void *self)
{
	struct utsname name;
	struct rusage usage;
	struct rlimit limit;
	unsigned char bytes[32] = { 0 }, zero[32] = { 0 };
	cpu_set_t cpus;
	void *library;

	(void)self;
	NEED(getrandom(bytes, sizeof bytes, 0) == sizeof bytes && memcmp(bytes, zero, sizeof bytes) != 0);
	NEED(getentropy(bytes, sizeof bytes) == 0);
	NEED(getpid() > 0 && getppid() >= 0 && getuid() == geteuid() && getgroups(0, NULL) >= 0);
	NEED(uname(&name) == 0 && getrusage(RUSAGE_SELF, &usage) == 0 && getrlimit(RLIMIT_STACK, &limit) == 0);
	NEED(sysconf(_SC_PAGESIZE) >= 4096 && sysconf(_SC_NPROCESSORS_ONLN) >= 1 && sched_getaffinity(0, sizeof cpus, &cpus) == 0);
	NEED((library = dlopen("libm.so.6", RTLD_NOW)) != NULL && dlclose(library) == 0);
	(void)access("/etc/passwd", R_OK);
	return 0;
}

/* ---- files, in the folder that it was started in ---- */

static int files(struct sbx *x, void *self)
{
	char line[64], temporary[] = "tempXXXXXX";
	DIR *folder;
	FILE *f;
	int fd, n = 0;

	(void)self;
	NEED(mkdir("folder", 0700) == 0 && (f = fopen("folder/file", "w+")));
	NEED(fprintf(f, "one\ntwo %d\n", 2) == 10 && fseek(f, 4, SEEK_SET) == 0 && fgets(line, sizeof line, f));
	NEED(strcmp(line, "two 2\n") == 0 && ftruncate(fileno(f), 3) == 0 && fsync(fileno(f)) == 0 && fclose(f) == 0);
	NEED(rename("folder/file", "moved") == 0 && (f = fopen("moved", "a")) && fputs("!", f) >= 0 && fclose(f) == 0);
	NEED(truncate("moved", 2) == 0 && symlink("moved", "link") == 0 && readlink("link", line, sizeof line) == 5);
	NEED(chmod("moved", 0600) == 0 && link("moved", "hard") == 0 && mkfifo("fifo", 0600) == 0);
	NEED((fd = mkstemp(temporary)) >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
	NEED((folder = opendir(".")));
	for (struct dirent *entry; (entry = readdir(folder));)
		n += entry->d_name[0] != '.';
	NEED(closedir(folder) == 0 && n == 6);
	NEED(unlink("moved") == 0 && unlink("link") == 0 && unlink("hard") == 0 && unlink("fifo") == 0 && unlink(temporary) == 0);
	NEED(rmdir("folder") == 0 && getcwd(line, sizeof line));
	return sbx_put_str(x, "folder", line);
}

SBX_MODULE(compat, 1, SBX_USES(compat), SBX_FN(threads, ""), SBX_FN(sorting, ""), SBX_FN(memory, ""), SBX_FN(numbers, ""),
	SBX_FN(output, ""), SBX_FN(sleeping, ""), SBX_FN(timers, ""), SBX_FN(signals, ""), SBX_FN(traces, ""), SBX_FN(processes, ""),
	SBX_FN(ipc, ""), SBX_FN(questions, ""), SBX_FN(files, ""));
