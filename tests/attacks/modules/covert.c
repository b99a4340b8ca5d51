/* SPDX-License-Identifier: MIT
 *
 * Two sandboxes try to pass bits. Each channel is a pair: `X_say` sets a bit (n), `X_hear` reads it; the runner calls them in turns
 * and compares what was said with what was heard. */
#include "attack.h"

#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>

static int held = -1;

/* Names and keys of each shot's own, from the runner. */
static key_t key_of(struct sbx *x)
{
	return (key_t)sbx_arg_u64(x, "at");
}

static int heard(struct sbx *x, long bit) { return said(x, bit); }

/* A file that both can open: a shared library, or what the runner names. */
static int flock_say(struct sbx *x, void *self)
{
	(void)self;
	if (held < 0 && (held = open(path_of(x), O_RDONLY | O_CLOEXEC)) < 0)
		return said(x, -1);
	return said(x, flock(held, n_of(x) ? LOCK_EX | LOCK_NB : LOCK_UN));
}

static int flock_hear(struct sbx *x, void *self)
{
	int fd = open(path_of(x), O_RDONLY | O_CLOEXEC), r;

	(void)self;
	if (fd < 0)
		return said(x, -1);
	r = flock(fd, LOCK_EX | LOCK_NB);
	if (r < 0 && errno != EWOULDBLOCK)
		return said(x, -1);
	close(fd);
	return heard(x, r < 0);
}

static int record_say(struct sbx *x, void *self)
{
	struct flock l = { .l_type = n_of(x) ? F_RDLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	(void)self;
	if (held < 0 && (held = open(path_of(x), m_of(x) ? O_RDWR | O_CLOEXEC : O_RDONLY | O_CLOEXEC)) < 0)
		return said(x, -1);
	return said(x, fcntl(held, F_SETLK, &l));
}

static int record_hear(struct sbx *x, void *self)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	int fd = open(path_of(x), O_RDONLY | O_CLOEXEC);

	(void)self;
	if (fd < 0 || fcntl(fd, F_GETLK, &l) < 0)
		return said(x, -1);
	close(fd);
	return heard(x, l.l_type != F_UNLCK);
}

static int memory_key_say(struct sbx *x, void *self)
{
	int id = shmget(key_of(x), 4096, 0666 | IPC_CREAT);
	char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	(void)self;
	if (p == (void *)-1)
		return said(x, -1);
	*p = (char)n_of(x);
	return said(x, shmdt(p));
}

static int memory_key_hear(struct sbx *x, void *self)
{
	int id = shmget(key_of(x), 4096, 0666);
	char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	(void)self;
	if (p == (void *)-1)
		return said(x, -1);
	return heard(x, *p);
}

static int semaphore_say(struct sbx *x, void *self)
{
	int id = semget(key_of(x), 1, 0666 | IPC_CREAT);

	(void)self;
	return said(x, id < 0 ? -1 : semctl(id, 0, SETVAL, (int)n_of(x)));
}

static int semaphore_hear(struct sbx *x, void *self)
{
	int id = semget(key_of(x), 1, 0666);

	(void)self;
	return said(x, id < 0 ? -1 : semctl(id, 0, GETVAL));
}

struct letter { long type; char bit; };

static int message_say(struct sbx *x, void *self)
{
	int id = msgget(key_of(x), 0666 | IPC_CREAT);
	struct letter m = { 1, (char)n_of(x) };

	(void)self;
	return said(x, id < 0 ? -1 : msgsnd(id, &m, 1, IPC_NOWAIT));
}

static int message_hear(struct sbx *x, void *self)
{
	int id = msgget(key_of(x), 0666);
	struct letter m;

	(void)self;
	if (id < 0 || msgrcv(id, &m, 1, 0, IPC_NOWAIT) < 0)
		return said(x, -1);
	return heard(x, m.bit);
}

/* The mere presence of a queue with a name. */
static int posix_say(struct sbx *x, void *self)
{
	long fd;

	(void)self;
	if (!n_of(x)) {
		(void)syscall(SYS_mq_unlink, text_of(x));
		return said(x, 0);
	}
	fd = syscall(SYS_mq_open, text_of(x), O_RDWR | O_CREAT, 0666, NULL);
	if (fd >= 0)
		close((int)fd);
	return said(x, fd);
}

static int posix_hear(struct sbx *x, void *self)
{
	long fd = syscall(SYS_mq_open, text_of(x), O_RDONLY, 0, NULL);

	(void)self;
	if (fd < 0 && errno != ENOENT && errno != EACCES)
		return said(x, -1);
	if (fd >= 0)
		close((int)fd);
	return heard(x, fd >= 0 || errno == EACCES);
}

static int shm_file_say(struct sbx *x, void *self)
{
	char name[256];
	int fd;

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	if (!n_of(x)) {
		(void)unlink(name);
		return said(x, 0);
	}
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
	return said(x, fd);
}

static int shm_file_hear(struct sbx *x, void *self)
{
	char name[256];
	struct stat st;

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	return heard(x, stat(name, &st) == 0);
}

static struct sockaddr_un name_at(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "%s", name);
	return at;
}

/* An abstract name is taken, or not. */
static int name_say(struct sbx *x, void *self)
{
	struct sockaddr_un at = name_at(text_of(x));

	(void)self;
	if (!n_of(x)) {
		if (held >= 0)
			close(held);
		held = -1;
		return said(x, 0);
	}
	if (held < 0)
		held = socket(AF_UNIX, SOCK_STREAM, 0);
	return said(x, held < 0 ? -1 : bind(held, (void *)&at, sizeof at));
}

static int name_hear(struct sbx *x, void *self)
{
	struct sockaddr_un at = name_at(text_of(x));
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), r = fd < 0 ? -1 : bind(fd, (void *)&at, sizeof at);
	int e = errno;

	(void)self;
	if (fd < 0)
		return said(x, -1);
	close(fd);
	return heard(x, r < 0 && e == EADDRINUSE);
}

static int key_say(struct sbx *x, void *self)
{
	char c = (char)('0' + n_of(x));

	(void)self;
	return said(x, syscall(SYS_add_key, "user", text_of(x), &c, 1, -4));
}

static int key_hear(struct sbx *x, void *self)
{
	char c = 0;
	long key = syscall(SYS_keyctl, 10, -4, "user", text_of(x), 0);

	(void)self;
	if (key < 0 || syscall(SYS_keyctl, 11, key, &c, 1) < 0)
		return said(x, -1);
	return heard(x, c - '0');
}

/* Somebody opened the library: an inotify watch tells. */
static int watch_say(struct sbx *x, void *self)
{
	int fd = n_of(x) ? open(path_of(x), O_RDONLY | O_CLOEXEC) : -1;

	(void)self;
	if (fd >= 0)
		close(fd);
	return said(x, 0);
}

static int watch_hear(struct sbx *x, void *self)
{
	static int fd = -1;
	char room[4096];

	(void)self;
	if (fd < 0 && ((fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) < 0 || inotify_add_watch(fd, path_of(x), IN_OPEN) < 0))
		return said(x, -1);
	return heard(x, read(fd, room, sizeof room) > 0);
}

/* ---- what the kernel tells everybody about everybody ---- */

static long first, now;

/* How many processes there are in the machine: the sayer forks. */
static int count_say(struct sbx *x, void *self)
{
	static pid_t children[32];

	(void)self;
	for (int i = 0; i < 32; i++) {
		if (children[i] > 0) {
			kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
		}
		children[i] = n_of(x) ? fork() : 0;
		if (n_of(x) && children[i] == 0)
			stay("covert");
		if (children[i] < 0)
			return said(x, -1);
	}
	return said(x, 0);
}

static int count_hear(struct sbx *x, void *self)
{
	struct sysinfo i;

	(void)self;
	if (sysinfo(&i) < 0)
		return said(x, -1);
	now = i.procs;
	if (m_of(x))
		first = now; /* the runner says: nothing is being said now */
	return heard(x, now - first >= 16);
}

/* How much memory is free. The sayer takes 48 MiB. */
static int free_say(struct sbx *x, void *self)
{
	static char *p;
	const size_t size = 48u << 20;

	(void)self;
	if (p)
		munmap(p, size);
	p = NULL;
	if (n_of(x)) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED) {
			p = NULL;
			return said(x, -1);
		}
		memset(p, 1, size);
	}
	return said(x, 0);
}

static int free_hear(struct sbx *x, void *self)
{
	struct sysinfo i;

	(void)self;
	if (sysinfo(&i) < 0)
		return said(x, -1);
	now = (long)(i.freeram * i.mem_unit >> 20);
	if (m_of(x))
		first = now;
	return heard(x, first - now >= 24);
}

/* Inode numbers of pipes come from one counter per processor: whoever makes pipes on the same one moves it. */
static int inode_say(struct sbx *x, void *self)
{
	(void)self;
	for (int i = 0; n_of(x) && i < 4000; i++) {
		int ends[2];

		if (pipe(ends) < 0)
			return said(x, -1);
		close(ends[0]);
		close(ends[1]);
	}
	return said(x, 0);
}

static int inode_hear(struct sbx *x, void *self)
{
	static unsigned long before;
	struct stat st;
	int ends[2];
	unsigned long step;

	(void)self;
	if (pipe(ends) < 0 || fstat(ends[0], &st) < 0)
		return said(x, -1);
	close(ends[0]);
	close(ends[1]);
	step = (unsigned long)st.st_ino - before;
	before = (unsigned long)st.st_ino;
	return heard(x, step > 500 && step < 1000000);
}

/* Processor time: the sayer spins for a moment, or doesn't, while the hearer counts. Both calls run at once. */
static int busy_say(struct sbx *x, void *self)
{
	int64_t end = sbx_now_ms(x) + 60;

	(void)self;
	while (n_of(x) && sbx_now_ms(x) < end)
		;
	return said(x, 0);
}

static int busy_hear(struct sbx *x, void *self)
{
	int64_t end = sbx_now_ms(x) + 50;
	long turns = 0;

	(void)self;
	while (sbx_now_ms(x) < end)
		turns++;
	return said(x, turns);
}

#define PAIR(name) ATTACK(name##_say), ATTACK(name##_hear)
ATTACKS(covert, PAIR(flock), PAIR(record), PAIR(memory_key), PAIR(semaphore), PAIR(message), PAIR(posix),
	PAIR(shm_file), PAIR(name), PAIR(key), PAIR(watch), PAIR(count), PAIR(free), PAIR(inode), PAIR(busy));
