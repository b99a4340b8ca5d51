/* SPDX-License-Identifier: MIT
 *
 * Attacks by taking too much. What was taken is kept until the sandbox ends, and measured from outside. n: how much to try for. */
#include "attack.h"

#include <pthread.h>
#include <sys/stat.h>

static int forks(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	long made = 0;

	(void)self;
	for (long i = 0; i < n_of(x); i++) {
		pid_t pid = fork();

		if (pid == 0)
			stay(t);
		if (pid < 0)
			break;
		made++;
	}
	return said(x, made ? made : -1);
}

/* Children that fork themselves, without end. */
static int fork_storm(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	pid_t pid = fork();

	(void)self;
	if (pid == 0) {
		prctl(PR_SET_NAME, t);
		alarm(30);
		for (;;)
			(void)!fork();
	}
	return said(x, pid);
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static int threads(struct sbx *x, void *self)
{
	pthread_attr_t a;
	pthread_t id;
	long made = 0;

	(void)self;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	while (made < n_of(x) && (errno = pthread_create(&id, &a, idle, NULL)) == 0)
		made++;
	return said(x, made ? made : -1);
}

/* MiB of memory, touched. m: 0 malloc, 1 mmap, 2 shared, 3 memfd, 4 brk, 5 stack of another kind: MAP_GROWSDOWN */
static int memory(struct sbx *x, void *self)
{
	const size_t mib = 1u << 20;
	long got = 0, m = m_of(x);
	int fd = m == 3 ? memfd_create("m", 0) : -1;

	(void)self;
	for (; got < n_of(x); got++) {
		char *p = NULL;

		if (m == 0)
			p = malloc(mib);
		else if (m == 4)
			p = sbrk((intptr_t)mib);
		else if (m == 3)
			p = ftruncate(fd, (got + 1) * (off_t)mib) < 0 ? NULL :
				mmap(NULL, mib, PROT_READ | PROT_WRITE, MAP_SHARED, fd, got * (off_t)mib);
		else
			p = mmap(NULL, mib, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (m == 2 ? MAP_SHARED : MAP_PRIVATE | (m == 5 ? MAP_GROWSDOWN : 0)), -1, 0);
		if (!p || p == (void *)-1)
			break;
		memset(p, 1, mib);
	}
	return said(x, got ? got : -1);
}

static int descriptors(struct sbx *x, void *self)
{
	long got = 0;

	(void)self;
	while (got < n_of(x) && dup(1) >= 0)
		got++;
	return said(x, got ? got : -1);
}

static long write_mib(int fd, long mib)
{
	static char bytes[1 << 20];
	long done = 0;

	signal(SIGXFSZ, SIG_IGN);
	memset(bytes, 'b', sizeof bytes);
	while (fd >= 0 && done < mib && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes)
		done++;
	return done;
}

/* One file of n MiB in its folder, or in path. */
static int big_file(struct sbx *x, void *self)
{
	char name[512];
	long mib;

	(void)self;
	(void)snprintf(name, sizeof name, "%s%s%s", path_of(x), *path_of(x) ? "/" : "./", text_of(x));
	mib = write_mib(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), n_of(x));
	return said(x, mib ? mib : -1);
}

static bool one_file(const char *folder, const char *text, long number, long mib)
{
	char name[512];
	int fd;
	bool whole;

	(void)snprintf(name, sizeof name, "%s/%s-%ld", folder, text, number);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	whole = fd >= 0 && write_mib(fd, mib) == mib;
	if (fd >= 0)
		close(fd);
	return whole;
}

/* Files of m MiB, n of them; m 0: empty ones, for the inodes. In its folder, and when that is full, or isn't one to write to, in path. */
static int many_files(struct sbx *x, void *self)
{
	long made = 0;

	(void)self;
	while (made < n_of(x) && (one_file(".", text_of(x), made, m_of(x)) || one_file(path_of(x), text_of(x), made, m_of(x))))
		made++;
	return said(x, made ? made : -1);
}

static long recurse(volatile char *above, long kib)
{
	volatile char here[1024];

	here[0] = above ? above[0] : 1;
	return kib > 0 ? recurse(here, kib - 1) + here[0] : here[0];
}

/* n KiB of stack, in use at once; then it sleeps on that stack while the runner looks. */
static int stack(struct sbx *x, void *self)
{
	(void)self;
	return said(x, recurse(NULL, n_of(x)));
}

static int spin(struct sbx *x, void *self)
{
	(void)self, (void)x;
	for (;;)
		;
	return 0;
}

/* Locked memory, which can't be swapped out. */
static int locked(struct sbx *x, void *self)
{
	size_t size = (size_t)n_of(x) << 20;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)self;
	return said(x, p == MAP_FAILED ? -1 : mlock(p, size));
}

ATTACKS(bombs, ATTACK(forks), ATTACK(fork_storm), ATTACK(threads), ATTACK(memory), ATTACK(descriptors), ATTACK(big_file), ATTACK(many_files),
	ATTACK(stack), ATTACK(spin), ATTACK(locked));
