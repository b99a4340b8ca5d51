/* SPDX-License-Identifier: MIT
 *
 * The program behind `sandboxd --simulate`: lines in, lines out, errors with the number of the line. Control's program. */
#include "daemon/simulate/simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/limits.h"

enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

int simulate_line(const char *line, size_t size, const struct simulate_options *o, struct buf *to, struct err *e)
{
	struct scenario s;
	size_t before = to->size;
	int status = scenario_parse(&s, line, size, e);

	if (status == 0)
		status = simulate_run(&s, o, to, e);
	scenario_fini(&s);
	if (status == -1)
		to->size = before;
	return status;
}

static int write_all(const struct buf *b)
{
	size_t done = 0;
	ssize_t n;

	while (done < b->size) {
		n = write(STDOUT_FILENO, b->data + done, b->size - done);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

static bool is_blank(const char *line, size_t size)
{
	return size == 0 || (size == 1 && line[0] == '\r');
}

static int failed(const struct simulate_options *o, const char *what)
{
	(void)fprintf(stderr, "sandboxd: cannot %s %s: %s\n", what, o->file, strerror(errno));
	return STATUS_FAILED;
}

/* One line of the file, wherever it ends. */
static int line_do(const struct simulate_options *o, const char *line, size_t size, unsigned long number, struct buf *to)
{
	struct err e = ERR_INIT;

	if (is_blank(line, size))
		return STATUS_DONE;
	buf_clear(to);
	if (simulate_line(line, size, o, to, &e) == -1) {
		if (e.offset >= 0)
			(void)fprintf(stderr, "sandboxd: %s, line %lu, byte %lld: %s\n", o->file, number, (long long)e.offset + 1, e.text);
		else
			(void)fprintf(stderr, "sandboxd: %s, line %lu: %s\n", o->file, number, e.text);
		return e.code == ERR_INTERNAL ? STATUS_FAILED : STATUS_USAGE;
	}
	return write_all(to) == -1 ? failed(o, "write the results of") : STATUS_DONE;
}

static int lines_do(const struct simulate_options *o, struct buf *in, bool at_end, unsigned long *number, struct buf *to)
{
	size_t done = 0;
	int status = STATUS_DONE;
	char *end;

	while (status == STATUS_DONE && done < in->size) {
		end = memchr(in->data + done, '\n', in->size - done);
		if (!end && !at_end)
			break;
		if (!end)
			end = in->data + in->size;
		if (++*number > LIMIT_SIMULATE_LINES) {
			(void)fprintf(stderr, "sandboxd: %s: more than %d lines\n", o->file, LIMIT_SIMULATE_LINES);
			status = STATUS_USAGE;
			break;
		}
		status = line_do(o, in->data + done, (size_t)(end - (in->data + done)), *number, to);
		done = (size_t)(end - in->data) + 1;
	}
	buf_drop_front(in, done < in->size ? done : in->size);
	if (status == STATUS_DONE && in->size > LIMIT_SIMULATE_LINE_BYTES) {
		(void)fprintf(stderr, "sandboxd: %s, line %lu: a scenario has at most %u bytes\n", o->file, *number + 1, LIMIT_SIMULATE_LINE_BYTES);
		status = STATUS_USAGE;
	}
	return status;
}

static int file_do(const struct simulate_options *o, int fd)
{
	struct buf in = BUF_INIT, to = BUF_INIT;
	unsigned long number = 0;
	int status = STATUS_DONE;
	ssize_t n = 1;
	void *at;

	buf_init(&to, LIMIT_SIMULATE_RESULT_BYTES);
	while (status == STATUS_DONE && n > 0) {
		at = buf_extend(&in, 65536);
		if (!at) {
			errno = ENOMEM;
			status = failed(o, "read");
			break;
		}
		do
			n = read(fd, at, 65536);
		while (n == -1 && errno == EINTR);
		in.size -= 65536 - (size_t)(n > 0 ? n : 0);
		status = n == -1 ? failed(o, "read") : lines_do(o, &in, n == 0, &number, &to);
	}
	buf_fini(&in);
	buf_fini(&to);
	return status;
}

static int options_read(struct simulate_options *o, int argc, char **argv)
{
	memset(o, 0, sizeof *o);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--simulate") == 0 && i + 1 < argc)
			o->file = argv[++i];
		else if (strcmp(argv[i], "--otp") == 0)
			o->otp = true;
		else if (strcmp(argv[i], "--explain") == 0)
			o->explain = true;
		else
			return -1;
	}
	return o->file ? 0 : -1;
}

int simulate_main(int argc, char **argv)
{
	struct simulate_options o;
	autoclose int fd = -1;
	struct stat st;

	if (options_read(&o, argc, argv) == -1) {
		(void)fputs("sandboxd-control is started by sandboxd, not by hand\n", stderr);
		return STATUS_USAGE;
	}
	if (strcmp(o.file, "-") == 0) {
		o.file = "standard input";
		return file_do(&o, STDIN_FILENO);
	}
	fd = open(o.file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd == -1)
		return failed(&o, "open");
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return failed(&o, "read");
	}
	return file_do(&o, fd);
}
