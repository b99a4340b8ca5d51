/* SPDX-License-Identifier: MIT
 *
 * A private sandboxd whose control and host are the test's helpers, and the control side of the spawner's contract. All
 * folders of a test program lie in one, removed by the parent of the tests also when one of them failed. */
#ifndef SANDBOXD_SPAWNER_FIXTURE_H
#define SANDBOXD_SPAWNER_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/spawner_wire.h"
#include "tests/support/check_main.h"
#include "tests/support/self_report.h"

#define FIXTURE_NOTICES 64
#define FIXTURE_PATH    400

struct fixture {
	char top[FIXTURE_PATH - 100]; /* exe/, run/, state/, relay, log */
	pid_t daemon;
	int relay_fd;              /* listening: helpers of control connect here */
	int control_fd;            /* the control that lives */
	int launcher_fd;           /* read end of the pipe whose write end the daemon was started with as 9 */
	pid_t control_pid;
	struct control_begin begin;
	char report[8192];         /* of control */
	uint64_t tag;
	struct spawner_message notices[FIXTURE_NOTICES];
	size_t n_notices;
	int notice_fd; /* of the newest LISTENER */
};

static char fixture_root[FIXTURE_PATH - 200];

static inline void fixture_path(const struct fixture *f, const char *tail, char path[FIXTURE_PATH])
{
	(void)snprintf(path, FIXTURE_PATH, "%s/%s", f->top, tail);
}

/* ---- in the parent of the tests ---- */
static inline void fixture_root_make(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(fixture_root, sizeof fixture_root, "%s/spawner-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(fixture_root) || chmod(fixture_root, 0711) == -1) {
		perror(fixture_root);
		exit(1);
	}
}

static inline void fixture_unmount(const char *top)
{
	char path[1024];

	(void)snprintf(path, sizeof path, "%.*s/run/objects", FIXTURE_PATH, top);
	(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
}

static inline void fixture_root_remove(void)
{
	DIR *dir = opendir(fixture_root);
	struct dirent *d;
	pid_t pid;

	while (dir && (d = readdir(dir))) {
		char path[1024];

		(void)snprintf(path, sizeof path, "%s/%s", fixture_root, d->d_name);
		if (d->d_name[0] != '.')
			fixture_unmount(path);
	}
	if (dir)
		(void)closedir(dir);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", fixture_root, (char *)NULL);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
}

/* ---- a folder with programs ---- */
static inline void file_copy(const char *from, const char *to, mode_t mode)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char part[65536];
	ssize_t n;

	ck_assert_msg(in != -1, "cannot read %s: %s", from, strerror(errno));
	ck_assert_msg(out != -1, "cannot write %s: %s", to, strerror(errno));
	while ((n = read(in, part, sizeof part)) > 0)
		ck_assert_int_eq(write(out, part, (size_t)n), n);
	ck_assert_int_eq(fchmod(out, mode), 0);
	(void)close(in);
	(void)close(out);
}

static inline void file_write(const struct fixture *f, const char *tail, const char *text)
{
	char path[FIXTURE_PATH];
	int fd;

	fixture_path(f, tail, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_int_ne(fd, -1);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static inline void program_copy(const struct fixture *f, const char *built, const char *name)
{
	const char *build = getenv("SANDBOXD_BUILD");
	char from[FIXTURE_PATH], to[FIXTURE_PATH];

	ck_assert_msg(build, "SANDBOXD_BUILD names the build folder");
	(void)snprintf(from, sizeof from, "%s/%s", build, built);
	(void)snprintf(to, sizeof to, "%s/exe/%s", f->top, name);
	file_copy(from, to, 0755);
}

static inline void fixture_init(struct fixture *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[FIXTURE_PATH];

	memset(f, 0, sizeof *f);
	f->control_fd = f->relay_fd = f->launcher_fd = f->notice_fd = -1;
	(void)snprintf(f->top, sizeof f->top, "%s/t-XXXXXX", fixture_root);
	ck_assert_ptr_nonnull(mkdtemp(f->top));
	ck_assert_int_eq(chmod(f->top, 0711), 0);
	fixture_path(f, "exe", path);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	fixture_path(f, "exe/include", path);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	program_copy(f, "sandboxd", "sandboxd");
	program_copy(f, "tests/support/fake_control", "sandboxd-control");
	program_copy(f, "tests/support/fake_host", "sandbox-host");
	file_write(f, "exe/include/sandbox_module.h", "#define FROM_THE_HEADER 42\n");
	fixture_path(f, "relay", path);
	ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
	memcpy(address.sun_path, path, strlen(path));
	f->relay_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(f->relay_fd, (const struct sockaddr *)&address, sizeof address), 0);
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(listen(f->relay_fd, 8), 0);
}

/* ---- the daemon ---- */
#define FIXTURE_ARGS 16

/* Starts <top>/exe/sandboxd with --runtime-dir <top>/run --state-dir <top>/state and more; stderr goes to <top>/log. The way it
 * is started is as bad as a launcher's can be: an open descriptor 9, SIGPIPE ignored, SIGTERM blocked, SIGCHLD ignored. */
static inline pid_t daemon_spawn(struct fixture *f, const char *log, const char *const *more)
{
	char exe[FIXTURE_PATH], run[FIXTURE_PATH], state[FIXTURE_PATH], log_path[FIXTURE_PATH];
	const char *argv[FIXTURE_ARGS + 1] = { "sandboxd", "--runtime-dir", run, "--state-dir", state };
	int launcher[2];
	size_t n = 5;
	pid_t pid;

	for (; more && *more; more++)
		argv[n++] = *more;
	fixture_path(f, "exe/sandboxd", exe);
	fixture_path(f, "run", run);
	fixture_path(f, "state", state);
	fixture_path(f, log, log_path);
	ck_assert_int_eq(pipe2(launcher, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		sigset_t term;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		(void)dup2(log_fd, STDERR_FILENO);
		(void)dup2(launcher[1], 9);
		(void)signal(SIGPIPE, SIG_IGN);
		(void)signal(SIGCHLD, SIG_IGN);
		sigemptyset(&term);
		sigaddset(&term, SIGTERM);
		(void)sigprocmask(SIG_BLOCK, &term, NULL);
		{
			union {
				const char *const *in;
				char *const *out;
			} u = { .in = argv }; /* execv doesn't write to them, but its type doesn't say so */

			execv(exe, u.out);
		}
		_exit(126);
	}
	(void)close(launcher[1]);
	fd_close(&f->launcher_fd);
	f->launcher_fd = launcher[0];
	return pid;
}

static inline void wait_readable(int fd, const char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, (int)(10000 * test_multiplier()));
	while (n == -1 && errno == EINTR);
	ck_assert_msg(n == 1, "nothing came: %s", what);
}

/* The next control connects. */
static inline void control_accept(struct fixture *f)
{
	int fds[FD_MESSAGE_MAX];
	size_t n_fds;
	ssize_t n;

	wait_readable(f->relay_fd, "a control");
	fd_close(&f->control_fd);
	f->control_fd = accept4(f->relay_fd, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ne(f->control_fd, -1);
	n = fd_message_receive(f->control_fd, f->report, sizeof f->report - 1, fds, &n_fds);
	ck_assert_int_gt(n, 0);
	f->report[n] = '\0';
	f->control_pid = (pid_t)report_number(f->report, "pid");
	n = fd_message_receive(f->control_fd, &f->begin, sizeof f->begin, fds, &n_fds);
	ck_assert_int_eq(n, (ssize_t)sizeof f->begin);
	f->n_notices = 0;
}

/* ---- the contract, control's side ---- */
static inline struct spawner_message message_of(uint16_t op, const char *sandbox)
{
	struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = op };

	(void)snprintf(m.sandbox, sizeof m.sandbox, "%s", sandbox ? sandbox : "");
	return m;
}

static inline void message_send(struct fixture *f, const struct spawner_message *m, const int *fds, size_t n_fds)
{
	ck_assert_int_eq(fd_message_send(f->control_fd, m, sizeof *m, fds, n_fds), 0);
}

/* The next message; notices are put aside. fds may be NULL: then they are closed. */
static inline bool message_next(struct fixture *f, struct spawner_message *ret, int *ret_fds, size_t *ret_n)
{
	int fds[FD_MESSAGE_MAX];
	size_t n_fds;
	ssize_t n;

	wait_readable(f->control_fd, "a message of the spawner");
	n = fd_message_receive(f->control_fd, ret, sizeof *ret, fds, &n_fds);
	ck_assert_msg(n == (ssize_t)sizeof *ret, "control is gone, or a message of %zd bytes", n);
	ck_assert_uint_eq(ret->version, SPAWNER_WIRE_VERSION);
	if (ret->tag == 0) {
		ck_assert_uint_lt(f->n_notices, FIXTURE_NOTICES);
		f->notices[f->n_notices++] = *ret;
		if (ret->op == SPAWNER_LISTENER || ret->op == SPAWNER_UPGRADE_REFUSED) {
			ck_assert_uint_eq(n_fds, 1);
			fd_close(&f->notice_fd);
			f->notice_fd = fds[0];
		}
		return false;
	}
	for (size_t i = 0; i < n_fds; i++)
		if (ret_fds)
			ret_fds[i] = fds[i];
		else
			fd_close(&fds[i]);
	if (ret_n)
		*ret_n = n_fds;
	return true;
}

/* Sends with a fresh tag and waits for the reply to it. */
static inline struct spawner_message ask(struct fixture *f, struct spawner_message m, const int *fds, size_t n_fds, int *ret_fds,
	size_t *ret_n)
{
	struct spawner_message reply;

	m.tag = ++f->tag;
	message_send(f, &m, fds, n_fds);
	while (!message_next(f, &reply, ret_fds, ret_n))
		;
	ck_assert_uint_eq(reply.tag, m.tag);
	return reply;
}

/* Waits for a notice and takes it out. */
static inline struct spawner_message notice_wait(struct fixture *f, uint16_t op)
{
	for (;;) {
		struct spawner_message m;

		for (size_t i = 0; i < f->n_notices; i++) {
			if (f->notices[i].op != op)
				continue;
			m = f->notices[i];
			f->notices[i] = f->notices[--f->n_notices];
			return m;
		}
		ck_assert_msg(!message_next(f, &m, NULL, NULL), "a reply that nobody asked for");
	}
}

static inline void control_ready(struct fixture *f)
{
	struct spawner_message m = message_of(SPAWNER_READY, NULL);

	message_send(f, &m, NULL, 0);
}

static inline void daemon_start_with(struct fixture *f, const char *const *more)
{
	fixture_init(f);
	f->daemon = daemon_spawn(f, "log", more);
	control_accept(f);
	control_ready(f);
}

static inline void daemon_start(struct fixture *f)
{
	daemon_start_with(f, NULL);
}

static inline char *file_text(const struct fixture *f, const char *tail)
{
	const size_t most = 1 << 20;
	char path[FIXTURE_PATH];
	size_t size = 0;
	ssize_t n;
	char *text = malloc(most + 1);
	int fd;

	fixture_path(f, tail, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd != -1 && text, "cannot open %s", path);
	while (size < most && (n = read(fd, text + size, most - size)) > 0) /* a log may grow meanwhile */
		size += (size_t)n;
	(void)close(fd);
	text[size] = '\0';
	return text;
}

static inline bool log_has(const struct fixture *f, const char *log, const char *part)
{
	char *text = file_text(f, log);
	bool has = strstr(text, part) != NULL;

	free(text);
	return has;
}

/* Waits for the daemon's end with a deadline. */
static inline int daemon_wait(pid_t pid)
{
	long until = test_now_ms() + 15000 * test_multiplier();
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (test_now_ms() > until) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, &status, 0);
			ck_abort_msg("sandboxd did not end");
		}
		poll(NULL, 0, 2);
	}
	return status;
}

/* Ends it as control does. */
static inline void daemon_finish(struct fixture *f)
{
	struct spawner_message m = message_of(SPAWNER_FINISHED, NULL);

	message_send(f, &m, NULL, 0);
	ck_assert_int_eq(daemon_wait(f->daemon), 0);
	fd_close(&f->control_fd);
}

static inline int spec_of(const char *text)
{
	int fd = fd_memfd("spec", text, strlen(text), true);

	ck_assert_int_ne(fd, -1);
	return fd;
}

static inline uid_t hold(struct fixture *f, const char *sandbox)
{
	int spec = spec_of("spec");
	struct spawner_message reply = ask(f, message_of(SPAWNER_HOLD, sandbox), &spec, 1, NULL, NULL);

	ck_assert_msg(reply.op == SPAWNER_OK, "HOLD: %s", reply.text);
	(void)close(spec);
	return reply.uid;
}

struct started {
	uint64_t generation;
	pid_t pid;
	int channel, out, error;
};

/* Asked for under a profile, with SPAWNER_F_FRESH or not; the process may still be to come. */
static inline struct started start_asked_as(struct fixture *f, const char *sandbox, const char *profile, struct host_limits limits, uint32_t flags)
{
	struct spawner_message m = message_of(SPAWNER_START, sandbox), reply;
	int fds[FD_MESSAGE_MAX];
	size_t n = 0;

	m.limits = limits;
	m.flags = flags;
	(void)snprintf(m.name, sizeof m.name, "%s", profile);
	reply = ask(f, m, NULL, 0, fds, &n);
	ck_assert_msg(reply.op == SPAWNER_STARTED, "START: %s", reply.text);
	ck_assert_uint_eq(n, 3);
	return (struct started){ reply.generation, reply.pid, fds[0], fds[1], fds[2] };
}

static inline struct started start_asked(struct fixture *f, const char *sandbox, const char *profile, struct host_limits limits)
{
	return start_asked_as(f, sandbox, profile, limits, 0);
}

/* Under the profile that takes least away, so that a host can tell what it sees; and born. */
static inline struct started start_limited(struct fixture *f, const char *sandbox, struct host_limits limits)
{
	struct started s = start_asked(f, sandbox, "low", limits);
	struct spawner_message m;

	do
		m = notice_wait(f, SPAWNER_BORN);
	while (m.generation != s.generation);
	ck_assert_int_gt(m.pid, 0);
	s.pid = m.pid;
	return s;
}

static inline struct started start(struct fixture *f, const char *sandbox)
{
	return start_limited(f, sandbox, (struct host_limits){ 0 });
}

/* A word from a host's channel. */
static inline void hear(const struct started *s, char *text, size_t room)
{
	int fds[FD_MESSAGE_MAX];
	size_t n_fds;
	ssize_t n;

	wait_readable(s->channel, "a word of the host");
	n = fd_message_receive(s->channel, text, room - 1, fds, &n_fds);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
}

static inline void tell(const struct started *s, const char *word)
{
	ck_assert_int_eq(fd_message_send(s->channel, word, strlen(word), NULL, 0), 0);
}

static inline void started_close(struct started *s)
{
	fd_close(&s->channel);
	fd_close(&s->out);
	fd_close(&s->error);
}

static inline bool process_gone(pid_t pid)
{
	return kill(pid, 0) == -1 && errno == ESRCH;
}

#endif
