/* SPDX-License-Identifier: MIT
 *
 * fork, and the parent's patience. The end of a copy is seen by its pidfd, not by EOF on the pipe: a
 * grandchild may hold the pipe open for ever. */
#include "daemon/host/copy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/json_scan.h"
#include "proto/limits.h"

struct answer_head {
	uint32_t status;
	uint32_t body_bytes;
	int64_t value;
};

void copy_init(struct copy *c, const char *what)
{
	*c = (struct copy){ .pidfd = -1, .pipe_fd = -1, .what = what };
	buf_init(&c->answer, sizeof(struct answer_head) + LIMIT_BODY_BYTES + 1);
}

bool copy_running(const struct copy *c)
{
	return c->pid != 0;
}

/* ---- in the copy ---- */

static void write_all(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(1);
		at += n;
		size -= (size_t)n;
	}
}

/* All above 2 but these two. */
static void close_others(int a, int b)
{
	unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

	if (a < 0 || b < 0)
		low = high;
	if (low > 3)
		(void)syscall(SYS_close_range, 3, low - 1, 0);
	if (high > low + 1)
		(void)syscall(SYS_close_range, low + 1, high - 1, 0);
	(void)syscall(SYS_close_range, high + 1, ~0u, 0);
}

static void silence(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	/* Where there is no /dev/null, writes fail instead: nothing of a copy may reach the sandbox's log. */
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			(void)close(fd);
	if (null > STDERR_FILENO)
		(void)close(null);
}

_Noreturn static void copy_main(
	struct death_page *page, pid_t parent, int pipe_fd, int keep_fd, copy_fn *run, void *ctx)
{
	struct copy_answer answer = { .body = BUF_INIT };
	struct answer_head head;

	death_in_copy(page);
	close_others(pipe_fd, keep_fd);
	silence();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	buf_init(&answer.body, LIMIT_BODY_BYTES);
	run(ctx, &answer);
	if (answer.body.failed)
		_exit(1);
	head = (struct answer_head){ answer.status, (uint32_t)answer.body.size, answer.value };
	write_all(pipe_fd, &head, sizeof head);
	write_all(pipe_fd, answer.body.data, answer.body.size);
	_exit(0);
}

/* ---- in the parent ---- */

unsigned copy_threads(void)
{
	char text[2048];
	const char *found;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	fd_close(&fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	found = strstr(text, "\nThreads:");
	return found ? (unsigned)strtoul(found + 9, NULL, 10) : 0;
}

/* unshare(CLONE_VM) does nothing but refuse when this memory has a second user. */
int copy_one_thread(struct err *e)
{
	unsigned threads;

	if (unshare(CLONE_VM) == 0)
		return 0;
	if (errno != EINVAL)
		return err_sys(e, ERR_RELOAD_FAILED, "cannot find out whether the module has threads");
	threads = copy_threads();
	if (threads > 1)
		return err_set(e, ERR_RELOAD_FAILED, "threads: %u: a forked copy would have only one of them",
			threads);
	return err_set(
		e, ERR_RELOAD_FAILED, "threads: another process or thread shares this process's memory");
}

static void forget(struct copy *c)
{
	const char *what = c->what;

	fd_close(&c->pidfd);
	fd_close(&c->pipe_fd);
	if (c->page)
		(void)munmap(c->page, sizeof *c->page);
	buf_fini(&c->answer);
	copy_init(c, what);
}

/* Not by pid where it can be helped: module code may have reaped the copy, and the pid may be somebody else's
 * now. */
static void kill_copy(const struct copy *c)
{
	if (c->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
	else
		(void)kill(c->pid, SIGKILL);
}

static int reap(struct copy *c)
{
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	return status;
}

int copy_start(struct copy *c, uint32_t timeout_ms, copy_fn *run, void *ctx, int keep_fd, struct err *e)
{
	int ends[2] = { -1, -1 };
	pid_t parent = getpid();

	assert(!copy_running(c));
	if (copy_one_thread(e) < 0)
		return -1;
	c->page = mmap(NULL, sizeof *c->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->page == MAP_FAILED) {
		c->page = NULL;
		return err_sys(e, ERR_RELOAD_FAILED, "cannot map a page for a %s", c->what);
	}
	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_sys(e, ERR_RELOAD_FAILED, "cannot make a pipe for a %s", c->what);
		forget(c);
		return -1;
	}
	c->pid = fork();
	if (c->pid == 0)
		copy_main(c->page, parent, ends[1], keep_fd, run, ctx);
	fd_close(&ends[1]);
	c->pipe_fd = ends[0];
	if (c->pid < 0) {
		c->pid = 0;
		err_sys(e, ERR_RELOAD_FAILED, "cannot fork a %s", c->what);
		forget(c);
		return -1;
	}
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0 || fcntl(c->pidfd, F_SETFD, FD_CLOEXEC) < 0 ||
		fd_set_nonblocking(c->pipe_fd, true) < 0) {
		err_sys(e, ERR_RELOAD_FAILED, "cannot watch a %s", c->what);
		copy_kill(c);
		return -1;
	}
	c->timeout_ms = timeout_ms;
	c->deadline_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
	return 0;
}

size_t copy_pollfds(const struct copy *c, struct pollfd fds[COPY_POLLFDS])
{
	size_t n = 0;

	if (c->pid == 0)
		return 0;
	fds[n++] = (struct pollfd){ .fd = c->pidfd, .events = POLLIN };
	if (c->pipe_fd >= 0)
		fds[n++] = (struct pollfd){ .fd = c->pipe_fd, .events = POLLIN };
	return n;
}

static void read_answer(struct copy *c)
{
	while (c->pipe_fd >= 0) {
		char piece[4096];
		ssize_t n = read(c->pipe_fd, piece, sizeof piece);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n > 0)
			buf_add(&c->answer, piece, (size_t)n);
		if (n <= 0 || c->answer.failed)
			fd_close(&c->pipe_fd); /* the end, or too much: its writer gets EPIPE */
	}
}

bool copy_progress(struct copy *c, int64_t now_us)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

	if (c->pid == 0)
		return false;
	read_answer(c);
	if (poll(&p, 1, 0) > 0) {
		read_answer(c); /* what it wrote between the two */
		return true;
	}
	if (now_us < c->deadline_us)
		return false;
	c->timed_out = true;
	return true;
}

/* No answer: why. */
static int explain(const struct copy *c, int status, struct err *e)
{
	struct host_death note = c->page->note;
	char object[sizeof note.object], text[sizeof note.text];

	if (c->timed_out)
		return err_set(e, ERR_TIMEOUT, "the %s took longer than %u ms", c->what, c->timeout_ms);
	text_clean(object, sizeof object, note.object, strnlen(note.object, sizeof note.object));
	text_clean(text, sizeof text, note.text, strnlen(note.text, sizeof note.text));
	if (!c->page->noted)
		note.signal = 0, object[0] = text[0] = '\0';
	if (WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));

		err_set(e, ERR_CRASHED, "the %s died with SIG%s", c->what, name ? name : "?");
		if (object[0] && note.signal == WTERMSIG(status))
			err_set(e, ERR_CRASHED, "the %s died with SIG%s at %s+0x%llx", c->what,
				name ? name : "?", object, (unsigned long long)note.pc_offset);
		if (text[0]) {
			char before[sizeof e->text];

			memcpy(before, e->text, sizeof before);
			err_set(e, ERR_CRASHED, "%s: %s", before, text);
		}
		return -1;
	}
	if (text[0])
		return err_set(e, ERR_CRASHED, "the %s ended without an answer: %s", c->what, text);
	return err_set(e, ERR_CRASHED, "the %s ended with exit status %d instead of an answer", c->what,
		WEXITSTATUS(status));
}

static int read_head(const struct copy *c, struct answer_head *head)
{
	if (c->answer.failed || c->answer.size < sizeof *head)
		return -1;
	memcpy(head, c->answer.data, sizeof *head);
	return head->status > 1 || head->body_bytes != c->answer.size - sizeof *head ? -1 : 0;
}

int copy_finish(struct copy *c, struct copy_answer *ret, char step[LIMIT_FUNCTION_BYTES + 1], struct err *e)
{
	struct answer_head head;
	const char *body;
	int rc = 0, status;

	if (c->timed_out)
		kill_copy(c);
	status = reap(c);
	text_clean(step, LIMIT_FUNCTION_BYTES + 1, c->page->running,
		strnlen(c->page->running, LIMIT_FUNCTION_BYTES));
	*ret = (struct copy_answer){ .body = BUF_INIT };
	if (c->timed_out || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || c->answer.size == 0) {
		rc = explain(c, status, e);
	} else if (read_head(c, &head) < 0) {
		rc = err_set(e, ERR_BAD_MODULE, "the %s gave an answer of a wrong size", c->what);
	} else {
		body = c->answer.data + sizeof head;
		if (head.body_bytes > 0 && (body[0] != '{' || json_check_within(body, head.body_bytes, LIMIT_REPLY_DEPTH, NULL) < 0)) {
			rc = err_set(e, ERR_BAD_MODULE, "the %s gave an answer that isn't JSON", c->what);
		} else {
			ret->status = head.status;
			ret->value = head.value;
			buf_add(&ret->body, body, head.body_bytes);
		}
	}
	forget(c);
	return rc;
}

void copy_kill(struct copy *c)
{
	if (c->pid == 0)
		return;
	kill_copy(c);
	(void)reap(c);
	forget(c);
}
