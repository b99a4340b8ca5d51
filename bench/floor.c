/* SPDX-License-Identifier: MIT
 *
 * The floor: what the kernel's part of the work costs on this machine, done directly and without a daemon. It is the
 * denominator of `make bench`, and a server, so that its measurements alternate with the daemon's, pair by pair.
 *
 *   floor FOLDER      FOLDER lies in /tmp and holds mod.so, which exports `int go(void)` that returns 42
 *
 * A command per line on stdin; each answer is one number per line, in microseconds; "error ..." ends the program.
 * The commands up to dlopen take a count (1): so many measurements, one after another.
 *   fork              a child that loads the object and replies over its socket; nothing confined
 *   fork-locked       the same with no_new_privs, a Landlock ruleset of four folders and a filter of 110 calls
 *   exec-locked       the same, but the child executes this program again (and builds the filter itself: it inherits no memory)
 *   spawn             one clone3 with new pid, mount, ipc and uts namespaces, a root of its own (tmpfs, binds, pivot_root), and
 *                     all of the above: the kernel's work for one confined sandbox
 *   spawn-net, spawn-exec, spawn-exec-net    with a network namespace, with exec, with both
 *   restart           SIGKILL of a spawned child -> its successor has replied
 *   dlopen            of the small object
 *   rtt N             N lines: one byte to another process over a Unix socket, and back
 *   rtt2 N            N lines: two of these, one after the other
 *   relay CALLERS DEPTH N REQUEST REPLY    per message, when CALLERS sockets with DEPTH messages in flight each send N messages of
 *                     REQUEST bytes through a relaying process to a second one, which answers REPLY bytes by the same way; the
 *                     second hop keeps the messages apart (SOCK_SEQPACKET), as a channel to a process that isn't trusted must
 *   relay-stream ...  the same, but the second hop is a stream of bytes: many messages pass in one write
 *   copy BYTES        two lines: out of one memory into a memfd and into another memory; fresh memfd, and the same one again
 *   memory            private KiB of a forked child that has loaded the object (the one answer that isn't a time)
 * As an ordinary user the namespaces are those of a user namespace. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench/drive.h"

#define ARRAY_LEN(a)  (sizeof(a) / sizeof((a)[0]))
#define NAMESPACES    (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)
#define FILTERED      110
#define COPY_CHUNK    (256u << 10)
#define GO_ANSWER     42
#define PATH_ROOM     256

struct variant {
	const char *name;
	uint64_t namespaces;
	bool exec, locked;
};

static const struct variant variants[] = {
	{ "fork", 0, false, false },
	{ "fork-locked", 0, false, true },
	{ "exec-locked", 0, true, true },
	{ "spawn", NAMESPACES, false, true },
	{ "spawn-net", NAMESPACES | CLONE_NEWNET, false, true },
	{ "spawn-exec", NAMESPACES, true, true },
	{ "spawn-exec-net", NAMESPACES | CLONE_NEWNET, true, true },
};

static char folder[PATH_ROOM - 32], object[PATH_ROOM], root[PATH_ROOM];
static struct sock_fprog filter;
static uid_t uid;
static gid_t gid;

static noreturn void fail(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- confinement ---- */

/* What a confined child still calls; the filter's 110 calls are others. */
static bool still_called(int nr)
{
	static const int kept[] = { SYS_read, SYS_write, SYS_close, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_openat,
		SYS_newfstatat, SYS_fstat, SYS_pread64, SYS_lseek, SYS_exit, SYS_exit_group, SYS_wait4, SYS_prctl, SYS_futex,
		SYS_gettid, SYS_getppid, SYS_tgkill, SYS_getrandom, SYS_clock_gettime, SYS_set_robust_list, SYS_set_tid_address,
#ifdef SYS_arch_prctl
		SYS_arch_prctl,
#endif
	};

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (kept[i] == nr)
			return true;
	return false;
}

/* Tree-shaped, and made once: a forked child only installs it. */
static void filter_build(void)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
	int fd = memfd_create("filter", MFD_CLOEXEC), n = 0;
	off_t size;

	if (!c || fd == -1 || seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2) != 0)
		fail("filter");
	for (int nr = 100; n < FILTERED && nr < 400; nr++)
		if (!still_called(nr) && seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), nr, 0) == 0)
			n++;
	if (n < FILTERED || seccomp_export_bpf(c, fd) != 0)
		fail("filter");
	seccomp_release(c);
	size = lseek(fd, 0, SEEK_END);
	filter.len = (unsigned short)((size_t)size / sizeof(struct sock_filter));
	filter.filter = malloc((size_t)size);
	if (!filter.filter || pread(fd, filter.filter, (size_t)size, 0) != size)
		fail("filter");
	close(fd);
}

static int landlock_set(void)
{
	static const char *const readable[] = { "/usr", "/lib", "/lib64", "/tmp" };
	struct landlock_ruleset_attr a = { .handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
			LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR };
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof a, 0), r;

	if (ruleset == -1)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(readable); i++) {
		struct landlock_path_beneath_attr p = { .allowed_access = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE,
			.parent_fd = open(readable[i], O_PATH | O_CLOEXEC) };

		if (p.parent_fd == -1)
			continue; /* not every machine has a /lib64 */
		syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &p, 0);
		close(p.parent_fd);
	}
	r = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
	close(ruleset);
	return r;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd == -1 || write(fd, text, strlen(text)) == -1)
		_exit(3);
	close(fd);
}

static void user_map(void)
{
	char map[64];

	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof map, "0 %u 1", (unsigned)gid);
	write_file("/proc/self/gid_map", map);
}

/* A root of this child's own: tmpfs, four binds, pivot_root. The old root is gone afterwards. */
static void root_build(void)
{
	static const struct {
		const char *from;
		unsigned long flags;
	} binds[] = { { "/usr", MS_BIND | MS_REC }, { "/lib", MS_BIND | MS_REC }, { "/lib64", MS_BIND | MS_REC }, { "/tmp", MS_BIND } };
	char path[PATH_ROOM + 16];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 || mount("tmpfs", root, "tmpfs", 0, "size=1m") == -1)
		_exit(4);
	for (size_t i = 0; i < ARRAY_LEN(binds); i++) {
		snprintf(path, sizeof path, "%s%s", root, binds[i].from);
		mkdir(path, 0755);
		/* in a user namespace, what is mounted below must come along */
		if (mount(binds[i].from, path, NULL, binds[i].flags, NULL) == -1)
			(void)mount(binds[i].from, path, NULL, MS_BIND | MS_REC, NULL);
	}
	snprintf(path, sizeof path, "%s/old", root);
	mkdir(path, 0755);
	if (syscall(SYS_pivot_root, root, path) == -1 || chdir("/") == -1 || umount2("/old", MNT_DETACH) == -1)
		_exit(5);
}

/* ---- children ---- */

/* What a host is, at the least: confined, one object loaded, a reply; then it echoes until its socket ends. */
static noreturn void child_run(const struct variant *v, int fd)
{
	void *handle;
	int (*go)(void) = NULL;
	char c;

	if (v->namespaces)
		root_build();
	if (v->locked) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		(void)landlock_set(); /* `landlock` tells whether this kernel has it */
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == -1)
			_exit(6);
	}
	handle = dlopen(object, RTLD_NOW | RTLD_LOCAL);
	if (handle)
		*(void **)&go = dlsym(handle, "go");
	c = (char)(go ? go() : 0);
	while (write(fd, &c, 1) == 1 && read(fd, &c, 1) == 1)
		;
	_exit(0);
}

static pid_t child_start(const struct variant *v, int *ret_fd)
{
	struct clone_args a = { .flags = v->namespaces | (v->namespaces && uid ? CLONE_NEWUSER : 0), .exit_signal = SIGCHLD };
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
		fail("socketpair");
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof a);
	if (pid == -1)
		fail("clone3");
	if (pid == 0) {
		char number[16], which[16];

		close(pair[0]);
		if (a.flags & CLONE_NEWUSER)
			user_map(); /* before exec, which leaves its capabilities only to a mapped root */
		if (!v->exec)
			child_run(v, pair[1]);
		fcntl(pair[1], F_SETFD, 0);
		snprintf(number, sizeof number, "%d", pair[1]);
		snprintf(which, sizeof which, "%d", (int)(v - variants));
		execl("/proc/self/exe", "floor", folder, number, which, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	*ret_fd = pair[0];
	return pid;
}

static void child_reply(int fd)
{
	char c = 0;

	errno = 0;
	if (read(fd, &c, 1) != 1 || c != GO_ANSWER)
		fail("the child gave no good reply");
}

static void child_end(pid_t pid, int fd)
{
	close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static const struct variant *variant_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(variants); i++)
		if (strcmp(variants[i].name, name) == 0)
			return &variants[i];
	return NULL;
}

/* ---- commands ---- */

static void say(double us)
{
	printf("%.2f\n", us);
}

static void spawn(const struct variant *v)
{
	double started = now_us();
	int fd;
	pid_t pid = child_start(v, &fd);

	child_reply(fd);
	say(now_us() - started);
	close(fd); /* its end; nothing is killed here, as nothing is in a stop in good order */
	waitpid(pid, NULL, 0);
}

static void restart(void)
{
	static pid_t pid;
	static int fd;
	const struct variant *v = variant_find("spawn");
	double started;

	if (pid == 0) {
		pid = child_start(v, &fd);
		child_reply(fd);
	}
	started = now_us();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	pid = child_start(v, &fd);
	child_reply(fd);
	say(now_us() - started);
}

static void load(void)
{
	double started = now_us();
	void *handle = dlopen(object, RTLD_NOW);

	if (!handle)
		fail("dlopen");
	say(now_us() - started);
	dlclose(handle);
}

static void round_trips(long n, int each)
{
	static int fd = -1;
	char c = 0;

	if (fd == -1) {
		child_start(variant_find("fork-locked"), &fd);
		child_reply(fd);
	}
	for (long i = 0; i < n; i++) {
		double started = now_us();

		for (int k = 0; k < each; k++)
			if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
				fail("round trip");
		say(now_us() - started);
	}
}

static void copy(size_t size)
{
	static char *from, *to;
	static size_t have;
	int fd = memfd_create("state", MFD_CLOEXEC);

	if (have != size) {
		if (have) {
			munmap(from, have);
			munmap(to, have);
		}
		from = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (from == MAP_FAILED || to == MAP_FAILED)
			fail("copy: memory");
		memset(from, 7, size);
		memset(to, 7, size);
		have = size;
	}
	for (int pass = 0; pass < 2; pass++) {
		double started = now_us();

		for (size_t at = 0, n; at < size; at += n) {
			n = size - at < COPY_CHUNK ? size - at : COPY_CHUNK;
			if (pwrite(fd, from + at, n, (off_t)at) != (ssize_t)n)
				fail("copy: write");
		}
		for (size_t at = 0, n; at < size; at += n) {
			n = size - at < COPY_CHUNK ? size - at : COPY_CHUNK;
			if (pread(fd, to + at, n, (off_t)at) != (ssize_t)n)
				fail("copy: read");
		}
		say(now_us() - started);
	}
	close(fd);
}

static void memory(void)
{
	char path[64], line[128];
	double kib = 0;
	int fd;
	pid_t pid = child_start(variant_find("fork"), &fd);
	FILE *f;

	child_reply(fd);
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	if (!f)
		fail(path);
	while (fgets(line, sizeof line, f)) {
		long k;

		if (sscanf(line, "Private_Clean: %ld", &k) == 1 || sscanf(line, "Private_Dirty: %ld", &k) == 1)
			kib += (double)k;
	}
	fclose(f);
	child_end(pid, fd);
	say(kib);
}

/* ---- the bare two-hop relay ---- */

struct relay {
	int callers, ends[DRIVE_CALLERS_MAX], echo; /* the relaying process's ends */
	bool stream;
	size_t request, reply;
	unsigned char origin[DRIVE_CALLERS_MAX * DRIVE_DEPTH_MAX]; /* who sent what is under way, in order */
	size_t first, last;
};

/* A second process that answers each message. Writers send whole messages, and reads take a whole number of them. */
static noreturn void relay_echo(int fd, size_t request, size_t reply)
{
	static char in[1 << 16], out[DRIVE_CALLERS_MAX * DRIVE_DEPTH_MAX * 64];

	memset(out, 'x', sizeof out);
	for (size_t at = reply; at <= sizeof out; at += reply)
		out[at - 1] = '\n';
	for (;;) {
		ssize_t n = recv(fd, in, sizeof in / request * request, 0);
		size_t answer = n > 0 ? (size_t)n / request * reply : 0;

		if (n <= 0)
			_exit(0);
		if ((size_t)n % request || answer > sizeof out || send_whole(fd, out, answer) == -1)
			_exit(7);
	}
}

static void relay_forward(struct relay *r, int caller)
{
	static char in[1 << 16];
	ssize_t n = recv(r->ends[caller], in, sizeof in / r->request * r->request, 0);

	if (n <= 0)
		_exit(0);
	if ((size_t)n % r->request)
		_exit(8);
	for (size_t i = 0; i < (size_t)n / r->request; i++)
		r->origin[r->last++ % sizeof r->origin] = (unsigned char)caller;
	for (size_t at = 0, size = r->stream ? (size_t)n : r->request; at < (size_t)n; at += size)
		if (send_whole(r->echo, in + at, size) == -1)
			_exit(8);
}

/* All replies that are there: a stream gives them in one read. */
static size_t relay_gather(struct relay *r, char *in, size_t room)
{
	ssize_t n = recv(r->echo, in, room / r->reply * r->reply, 0);
	size_t size = (size_t)n;

	if (n <= 0)
		_exit(0);
	while (!r->stream && room - size >= r->reply) {
		n = recv(r->echo, in + size, r->reply, MSG_DONTWAIT);
		if (n <= 0)
			break;
		size += (size_t)n;
	}
	if (size % r->reply)
		_exit(9);
	return size;
}

/* Runs of replies for one caller leave in one write. */
static void relay_back(struct relay *r)
{
	static char in[1 << 16];
	size_t n = relay_gather(r, in, sizeof in);

	for (size_t at = 0; at < n;) {
		unsigned char caller = r->origin[r->first % sizeof r->origin];
		size_t run = 0;

		while (at + run < n && r->origin[r->first % sizeof r->origin] == caller) {
			r->first++;
			run += r->reply;
		}
		if (send_whole(r->ends[caller], in + at, run) == -1)
			_exit(9);
		at += run;
	}
}

static noreturn void relay_loop(struct relay *r)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	for (int i = 0; i <= r->callers; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = (uint32_t)i };

		epoll_ctl(ep, EPOLL_CTL_ADD, i < r->callers ? r->ends[i] : r->echo, &ev);
	}
	for (;;) {
		struct epoll_event ev[DRIVE_CALLERS_MAX + 1];
		int ready = epoll_wait(ep, ev, DRIVE_CALLERS_MAX + 1, -1);

		for (int i = 0; i < ready; i++) {
			if (ev[i].data.u32 < (uint32_t)r->callers)
				relay_forward(r, (int)ev[i].data.u32);
			else
				relay_back(r);
		}
	}
}

/* Starts the two processes; fds: the callers' ends. */
static void relay_start(struct relay *r, int *fds, pid_t *pids)
{
	int echo[2];

	if (socketpair(AF_UNIX, (r->stream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0, echo) == -1)
		fail("relay");
	pids[0] = fork();
	if (pids[0] == 0) {
		close(echo[0]);
		relay_echo(echo[1], r->request, r->reply);
	}
	close(echo[1]);
	r->echo = echo[0];
	for (int i = 0; i < r->callers; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
			fail("relay");
		fds[i] = pair[0];
		r->ends[i] = pair[1];
	}
	pids[1] = fork();
	if (pids[1] == 0) {
		for (int i = 0; i < r->callers; i++)
			close(fds[i]);
		relay_loop(r);
	}
	if (pids[0] == -1 || pids[1] == -1)
		fail("relay: fork");
	close(r->echo);
	for (int i = 0; i < r->callers; i++)
		close(r->ends[i]);
}

static void relay(bool stream, int callers, int depth, long n, size_t request, size_t reply)
{
	struct relay r = { .stream = stream, .callers = callers, .request = request, .reply = reply };
	int fds[DRIVE_CALLERS_MAX];
	char *message = malloc(request);
	pid_t pids[2];
	double us;

	if (!message)
		fail("relay: memory");
	memset(message, 'q', request);
	message[request - 1] = '\n';
	relay_start(&r, fds, pids);
	us = drive_run(&(struct drive){ fds, callers, depth, n, message, request });
	for (int i = 0; i < callers; i++)
		close(fds[i]);
	for (int i = 0; i < 2; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	free(message);
	if (us < 0)
		fail("relay");
	say(us / (double)n);
}

static void repeat(const struct variant *v, const char *name, long n)
{
	for (long i = 0; i < n; i++) {
		if (v)
			spawn(v);
		else if (!strcmp(name, "restart"))
			restart();
		else
			load();
	}
}

/* What is in flight must fit the sockets' buffers: two processes that both wait for room would wait for ever. */
static bool relay_sizes_fit(const long *a)
{
	return a[0] > 0 && a[0] <= DRIVE_CALLERS_MAX && a[1] > 0 && a[1] <= DRIVE_DEPTH_MAX && a[0] * a[1] <= 128 && a[2] > 0 &&
		a[3] > 0 && a[3] <= 256 && a[4] > 0 && a[4] <= 256;
}

static void command_run(const char *line)
{
	char name[32] = "";
	long a[5] = { 0 };
	int n = sscanf(line, "%31s %ld %ld %ld %ld %ld", name, &a[0], &a[1], &a[2], &a[3], &a[4]) - 1;
	const struct variant *v = variant_find(name);

	if (n <= 1 && (v || !strcmp(name, "restart") || !strcmp(name, "dlopen")))
		repeat(v, name, n == 1 ? a[0] : 1);
	else if (!strcmp(name, "memory") && n == 0)
		memory();
	else if (!strcmp(name, "landlock") && n == 0)
		say((double)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
	else if (!strcmp(name, "rtt") && n == 1)
		round_trips(a[0], 1);
	else if (!strcmp(name, "rtt2") && n == 1)
		round_trips(a[0], 2);
	else if (!strcmp(name, "copy") && n == 1 && a[0] > 0)
		copy((size_t)a[0]);
	else if ((!strcmp(name, "relay") || !strcmp(name, "relay-stream")) && n == 5 && relay_sizes_fit(a))
		relay(name[5] != '\0', (int)a[0], (int)a[1], a[2], (size_t)a[3], (size_t)a[4]);
	else {
		printf("error no such command: %s", line);
		exit(2);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256];

	if (argc < 2 || strlen(argv[1]) >= sizeof folder) {
		fprintf(stderr, "usage: floor FOLDER   (what it must hold, and the commands, stand at the top of bench/floor.c)\n");
		return 2;
	}
	filter_build();
	uid = getuid();
	gid = getgid();
	snprintf(folder, sizeof folder, "%s", argv[1]);
	snprintf(object, sizeof object, "%s/mod.so", folder);
	snprintf(root, sizeof root, "%s/root", folder);
	if (argc == 4) /* what execl above began */
		child_run(&variants[(size_t)atoi(argv[3]) % ARRAY_LEN(variants)], atoi(argv[2]));
	if (mkdir(root, 0755) == -1 && errno != EEXIST)
		fail(root);
	while (fgets(line, sizeof line, stdin))
		command_run(line);
	return 0;
}
