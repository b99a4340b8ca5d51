/* SPDX-License-Identifier: MIT
 *
 * Attacks on files outside: reading, writing, naming, linking, watching, by path, by handle, by descriptors that leaked. */
#include "attack.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <utime.h>

static char room[1 << 16];

static int write_here(int fd, const char *text)
{
	int r = fd < 0 ? -1 : (int)write(fd, text, strlen(text));
	int e = errno;

	if (fd >= 0)
		close(fd);
	errno = e;
	return r;
}

static int read_file(struct sbx *x, void *self)
{
	long n = slurp(path_of(x), room, sizeof room);

	(void)self;
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* From n bytes before its end on: logs and databases. */
static int read_end(struct sbx *x, void *self)
{
	int fd = open(path_of(x), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	(void)self;
	if (fd < 0)
		return said(x, -1);
	(void)lseek(fd, -(off_t)sizeof room, SEEK_END);
	n = read(fd, room, sizeof room);
	close(fd);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

static int list_folder(struct sbx *x, void *self)
{
	DIR *d = opendir(path_of(x));
	struct dirent *e;
	size_t n = 0;

	(void)self;
	if (!d)
		return said(x, -1);
	while ((e = readdir(d)) && n + 300 < sizeof room)
		n += (size_t)snprintf(room + n, sizeof room - n, "%s\n", e->d_name);
	closedir(d);
	return brought(x, 1, room, n);
}

/* One level down as well: what is in each of the folder's folders. */
static int list_tree(struct sbx *x, void *self)
{
	DIR *d = opendir(path_of(x)), *s;
	struct dirent *e;
	size_t n = 0;

	(void)self;
	if (!d)
		return said(x, -1);
	while ((e = readdir(d))) {
		int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || !(s = fdopendir(fd)))
			continue;
		while ((e = readdir(s)) && n + 300 < sizeof room)
			n += (size_t)snprintf(room + n, sizeof room - n, "%s\n", e->d_name);
		closedir(s);
	}
	closedir(d);
	return brought(x, 1, room, n);
}

/* Reads every file in each folder below path: another sandbox's objects. */
static int read_tree(struct sbx *x, void *self)
{
	DIR *d = opendir(path_of(x)), *s;
	struct dirent *e;
	size_t n = 0;

	(void)self;
	if (!d)
		return said(x, -1);
	while ((e = readdir(d))) {
		int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), file;

		if (fd < 0 || e->d_name[0] == '.' || !(s = fdopendir(fd)))
			continue;
		while ((e = readdir(s)))
			if ((file = openat(dirfd(s), e->d_name, O_RDONLY | O_CLOEXEC)) >= 0) {
				ssize_t got = read(file, room + n, sizeof room - n);

				n += got > 0 ? (size_t)got : 0;
				close(file);
			}
		closedir(s);
	}
	closedir(d);
	return brought(x, 1, room, n);
}

static int write_file(struct sbx *x, void *self)
{
	(void)self;
	return said(x, write_here(open(path_of(x), O_WRONLY | O_CLOEXEC), text_of(x)));
}

static int truncate_file(struct sbx *x, void *self)
{
	(void)self;
	return said(x, truncate(path_of(x), 3));
}

/* path is a folder: a file named text appears in it. */
static int create_file(struct sbx *x, void *self)
{
	char name[512];

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	return said(x, write_here(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), "here"));
}

static int make_folder(struct sbx *x, void *self)
{
	char name[512];

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	return said(x, mkdir(name, 0777));
}

static int make_socket(struct sbx *x, void *self)
{
	char name[512];

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	return said(x, mknod(name, S_IFSOCK | 0666, 0));
}

static int make_device(struct sbx *x, void *self)
{
	char name[512];

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	return said(x, mknod(name, S_IFBLK | 0666, makedev(254, 0)));
}

static int make_fifo(struct sbx *x, void *self)
{
	char name[512];

	(void)self;
	(void)snprintf(name, sizeof name, "%s/%s", path_of(x), text_of(x));
	return said(x, mkfifo(name, 0666));
}

static int remove_file(struct sbx *x, void *self)
{
	(void)self;
	return said(x, unlink(path_of(x)));
}

static int rename_file(struct sbx *x, void *self)
{
	char name[512];

	(void)self;
	(void)snprintf(name, sizeof name, "%s.%s", path_of(x), text_of(x));
	return said(x, rename(path_of(x), name));
}

/* path: what the link points to; text: the folder/name of the link. */
static int hard_link(struct sbx *x, void *self)
{
	(void)self;
	return said(x, link(path_of(x), text_of(x)));
}

static int symbolic_link(struct sbx *x, void *self)
{
	(void)self;
	return said(x, symlink(path_of(x), text_of(x)));
}

static int change_mode(struct sbx *x, void *self)
{
	(void)self;
	return said(x, chmod(path_of(x), 0741));
}

static int change_owner(struct sbx *x, void *self)
{
	(void)self;
	return said(x, chown(path_of(x), (uid_t)n_of(x), (gid_t)-1));
}

static int change_times(struct sbx *x, void *self)
{
	(void)self;
	return said(x, utime(path_of(x), NULL));
}

static int set_attribute(struct sbx *x, void *self)
{
	const char *t = text_of(x);

	(void)self;
	return said(x, setxattr(path_of(x), "user.attack", t, strlen(t), 0));
}

/* Waits up to n ms for a file that appears in the folder, and tells its name. */
static int watch_folder(struct sbx *x, void *self)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = -1;

	(void)self;
	if (fd < 0 || inotify_add_watch(fd, path_of(x), IN_CREATE) < 0)
		return said(x, -1);
	fprintf(stderr, "watching\n");
	if (poll(&p, 1, (int)n_of(x)) > 0)
		n = read(fd, room, sizeof room);
	close(fd);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* From wherever the current folder is, and from "/", upwards: a path of `path` below each. */
static int climb(struct sbx *x, void *self)
{
	char name[1024] = "";
	long n = -1;

	(void)self;
	for (int i = 0; i < 40; i++)
		(void)snprintf(name + 3 * i, sizeof name - 3 * (size_t)i, "../");
	(void)snprintf(name + 120, sizeof name - 120, "%s", path_of(x) + 1);
	if ((n = slurp(name, room, sizeof room)) < 0) {
		int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

		if ((fd = openat(root, name, O_RDONLY | O_CLOEXEC)) >= 0)
			n = read(fd, room, sizeof room);
	}
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* The oldest of all: a folder held open, chroot below (text), then climb out. */
static int chroot_out(struct sbx *x, void *self)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	(void)self;
	(void)mkdir(text_of(x), 0777);
	if (unshare(0x10000000 /* CLONE_NEWUSER */) < 0 || chroot(text_of(x)) < 0 || fchdir(fd) < 0)
		return said(x, -1);
	for (int i = 0; i < 64; i++)
		(void)!chdir("..");
	(void)!chroot(".");
	n = slurp(path_of(x), room, sizeof room);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* Every descriptor that is open: where it leads to, and what can be reached through it. */
static int leaked(struct sbx *x, void *self)
{
	char name[1100], link[256];
	size_t n = 0;

	(void)self;
	for (int fd = 0; fd < 1024; fd++) {
		ssize_t l;
		struct stat st;
		int up;

		if (fstat(fd, &st) < 0)
			continue;
		(void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		l = readlink(name, link, sizeof link - 1);
		link[l > 0 ? l : 0] = '\0';
		n += (size_t)snprintf(room + n, sizeof room - n, "fd %d mode %o dev %lu %s\n", fd, st.st_mode & S_IFMT,
			(unsigned long)st.st_dev, link);
		(void)snprintf(name, sizeof name, "../../../../../../../../../../../..%s", path_of(x));
		if ((up = openat(fd, name, O_RDONLY | O_CLOEXEC)) >= 0) {
			ssize_t got = read(up, room + n, 256);

			n += got > 0 ? (size_t)got : 0;
			close(up);
		}
		if (S_ISREG(st.st_mode) && n + 4096 < sizeof room) {
			ssize_t got = pread(fd, room + n, 2048, 0);

			n += got > 0 ? (size_t)got : 0;
		}
	}
	return brought(x, (long)n, room, n);
}

/* "Shocker": a handle made from outside names an inode past any root. text: its bytes in hexadecimal, n: type. */
static int by_handle(struct sbx *x, void *self)
{
	struct { struct file_handle h; unsigned char bytes[128]; } u = { .h = { .handle_type = (int)n_of(x) } };
	const char *hex = text_of(x);
	int mount = open(path_of(x), O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	ssize_t n = -1;

	(void)self;
	u.h.handle_bytes = (unsigned)strlen(hex) / 2;
	for (unsigned i = 0; i < u.h.handle_bytes && i < 128; i++) {
		unsigned v = 0;

		(void)sscanf(hex + 2 * i, "%2x", &v);
		u.h.f_handle[i] = (unsigned char)v;
	}
	fd = (int)syscall(SYS_open_by_handle_at, mount, &u.h, O_RDONLY);
	if (fd >= 0)
		n = read(fd, room, sizeof room);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

static int metadata(struct sbx *x, void *self)
{
	struct stat st;
	int r = stat(path_of(x), &st), n;

	(void)self;
	n = snprintf(room, sizeof room, "size=%lld", r == 0 ? (long long)st.st_size : 0);
	return brought(x, r, room, (size_t)n);
}

static int follow_link(struct sbx *x, void *self)
{
	ssize_t n = readlink(path_of(x), room, sizeof room);

	(void)self;
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* The program that this process, its parent or pid n runs: opened for writing, and through an O_PATH descriptor. */
static int overwrite_program(struct sbx *x, void *self)
{
	char name[64];
	int fd, r = -1;

	(void)self;
	if (n_of(x))
		(void)snprintf(name, sizeof name, "/proc/%ld/exe", n_of(x));
	else
		(void)snprintf(name, sizeof name, "/proc/self/exe");
	if (*path_of(x))
		(void)snprintf(name, sizeof name, "%s", path_of(x));
	r = write_here(open(name, O_WRONLY | O_CLOEXEC), text_of(x));
	if (r < 0 && (fd = open(name, O_PATH | O_CLOEXEC)) >= 0) {
		char again[64];

		(void)snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
		if ((r = write_here(open(again, O_WRONLY | O_CLOEXEC), text_of(x))) < 0)
			r = truncate(again, 4);
		close(fd);
	}
	return said(x, r);
}

/* A terminal by its path: text is written to it, or pushed into its input (n: 1 TIOCSTI, 2 with high bits set). */
static int terminal(struct sbx *x, void *self)
{
	int fd = open(path_of(x), O_RDWR | O_CLOEXEC);
	const char *t = text_of(x);
	long r = -1;

	(void)self;
	if (fd >= 0 && n_of(x) == 0)
		r = write(fd, t, strlen(t));
	for (; fd >= 0 && n_of(x) > 0 && *t; t++)
		r = syscall(SYS_ioctl, fd, 0x5412ul | (n_of(x) == 2 ? 1ul << 32 : 0), t); /* TIOCSTI */
	if (fd >= 0)
		close(fd);
	return said(x, r);
}

/* Whoever opens the file for writing waits until the lease is given back, or for three quarters of a minute. It stays open. */
static int lease(struct sbx *x, void *self)
{
	int fd = open(path_of(x), O_RDONLY | O_CLOEXEC);

	(void)self;
	return said(x, fd < 0 ? -1 : fcntl(fd, F_SETLEASE, F_RDLCK));
}

static int core_here(struct sbx *x, void *self)
{
	(void)self;
	if (chdir(path_of(x)) < 0)
		return said(x, -1);
	memset(room, 'c', sizeof room);
	(void)snprintf(room, sizeof room, "core of %s", text_of(x));
	prctl(PR_SET_DUMPABLE, 1);
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
	*(volatile int *)(uintptr_t)n_of(x) = 1;
	return said(x, 0);
}

ATTACKS(files, ATTACK(read_file), ATTACK(read_end), ATTACK(list_folder), ATTACK(list_tree), ATTACK(read_tree), ATTACK(write_file),
	ATTACK(truncate_file), ATTACK(create_file), ATTACK(make_folder), ATTACK(make_socket), ATTACK(make_device), ATTACK(make_fifo),
	ATTACK(remove_file), ATTACK(rename_file), ATTACK(hard_link), ATTACK(symbolic_link), ATTACK(change_mode), ATTACK(change_owner),
	ATTACK(change_times), ATTACK(set_attribute), ATTACK(watch_folder), ATTACK(climb), ATTACK(chroot_out), ATTACK(leaked),
	ATTACK(by_handle), ATTACK(metadata), ATTACK(follow_link), ATTACK(overwrite_program), ATTACK(terminal),
	ATTACK(core_here), ATTACK(lease));
