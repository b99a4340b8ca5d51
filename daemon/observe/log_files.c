/* SPDX-License-Identifier: MIT
 *
 * Files have numbers that only grow; a new one begins when the newest is full, and the oldest goes. A file that somebody has moved or removed
 * is theirs: it is looked at before each append, so nobody has to tell. */
#include "daemon/observe/log_files.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/json_scan.h"
#include "proto/names.h"

#define FOLDER    "logs"
#define NAME_ROOM 32
#define FILE_MAX  (LIMIT_LOG_FILE_BYTES + 2 * LIMIT_LOG_BATCH_BYTES)
#define NAMES_TAKEN 64 /* by files that somebody has put there: so many numbers are passed over at once */
#define KEPT_MAX  32768 /* more lines than the files can have */

struct log_file {
	uint64_t number, bytes;
	uint64_t ring, kept; /* bytes of the stream in it, of the newest ring that it has */
	uint64_t from, to;   /* and where they lie in the stream */
	dev_t device;        /* what its name meant */
	ino_t inode;
};

struct log_files {
	int state_dir_fd;    /* borrowed */
	char sandbox[LIMIT_ID_BYTES + 1];
	int fd;              /* of the newest, for appending; -1: not open */
	unsigned n;
	uint64_t last_number;
	struct log_file files[LIMIT_LOG_FILES + 1];
	struct log_files_gone gone;
};

/* ---- lines ---- */

static bool read_member(const char **at, const char *end, const char *key, uint64_t *ret)
{
	size_t n = strlen(key);
	uint64_t value = 0;
	const char *from;

	if ((size_t)(end - *at) < n || memcmp(*at, key, n) != 0)
		return false;
	for (from = *at += n; *at < end && **at >= '0' && **at <= '9'; ++*at)
		if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (unsigned)(**at - '0'), &value))
			return false;
	*ret = value;
	return *at > from;
}

bool log_file_line(const char *line, size_t size, struct seq *ret_seq, uint64_t *ret_raw, uint64_t *ret_n, size_t *ret_rest)
{
	const char *at = line, *end = line + size;

	if (!read_member(&at, end, "{\"seq\":\"", &ret_seq->major) || !read_member(&at, end, "-", &ret_seq->n) ||
		!read_member(&at, end, "\",\"raw\":", ret_raw) || !read_member(&at, end, ",\"n\":", ret_n) || end - at < 2 ||
		*at != ',' || *ret_n > LIMIT_LOG_LINE_BYTES + 16)
		return false;
	*ret_rest = (size_t)(at + 1 - line);
	return true;
}

/* Adds up what the lines stand for. Returns the bytes up to the end of the last line. */
static size_t count_lines(struct log_file *file, const char *text, size_t size, struct seq *ret_last, uint64_t *ret_accounted)
{
	size_t at = 0, rest;
	const char *end;
	struct seq seq;
	uint64_t raw, n;

	while (at < size && (end = memchr(text + at, '\n', size - at))) {
		if (log_file_line(text + at, (size_t)(end - text) - at, &seq, &raw, &n, &rest)) {
			if (seq.major != file->ring || file->to == 0) {
				file->kept = 0;
				file->from = raw - (n < raw ? n : raw);
			}
			file->to = raw;
			file->ring = seq.major;
			file->kept += n;
			*ret_last = seq;
			*ret_accounted = raw;
		}
		at = (size_t)(end - text) + 1;
	}
	return at;
}

/* ---- the folder ---- */

static void name_of(char to[NAME_ROOM], uint64_t number)
{
	(void)snprintf(to, NAME_ROOM, "%" PRIu64 ".log", number);
}

static bool name_read(const char *name, uint64_t *ret)
{
	const char *at = name, *end = name + strlen(name);
	char same[NAME_ROOM];

	if (!read_member(&at, end, "", ret) || *ret > INT64_MAX)
		return false;
	name_of(same, *ret);
	return strcmp(name, same) == 0;
}

/* -1 with errno. */
static int open_folder(const struct log_files *f, bool make)
{
	autoclose int logs = -1;

	if (make && mkdirat(f->state_dir_fd, FOLDER, 0700) == -1 && errno != EEXIST)
		return -1;
	logs = openat(f->state_dir_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (logs == -1 || (make && mkdirat(logs, f->sandbox, 0700) == -1 && errno != EEXIST))
		return -1;
	return openat(logs, f->sandbox, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

struct log_files *log_files_new(int state_dir_fd, const char *sandbox)
{
	struct log_files *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	assert(name_is_id(sandbox, strlen(sandbox)));
	f->state_dir_fd = state_dir_fd;
	f->fd = -1;
	(void)snprintf(f->sandbox, sizeof(f->sandbox), "%s", sandbox);
	return f;
}

struct log_files *log_files_free(struct log_files *f)
{
	if (f)
		fd_close(&f->fd);
	free(f);
	return NULL;
}

static bool is_there(int dir_fd, uint64_t number, struct stat *ret)
{
	char name[NAME_ROOM];

	name_of(name, number);
	return fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static void note_gone(struct log_files *f, const struct log_file *file)
{
	struct log_files_gone *g = &f->gone;

	if (g->to == 0 || g->ring != file->ring)
		*g = (struct log_files_gone){ file->ring, file->from, file->to };
	g->from = g->from < file->from ? g->from : file->from;
	g->to = g->to > file->to ? g->to : file->to;
}

/* What was moved or removed by others isn't in the log any more. Where that can't be told, all is as it was. */
static void forget_gone(struct log_files *f)
{
	autoclose int dir_fd = f->n > 0 ? open_folder(f, false) : -1;
	unsigned n = 0, before = f->n;

	if (before == 0 || (dir_fd == -1 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP))
		return;
	for (unsigned i = 0; i < before; i++) {
		const struct log_file *file = &f->files[i];
		struct stat st;

		if (dir_fd != -1 && (is_there(dir_fd, file->number, &st) ? st.st_dev == file->device && st.st_ino == file->inode : errno != ENOENT)) {
			f->files[n++] = *file;
			continue;
		}
		note_gone(f, file);
		if (i == before - 1)
			fd_close(&f->fd);
	}
	f->n = n;
}

struct log_files_gone log_files_gone(struct log_files *f)
{
	struct log_files_gone gone = f->gone;

	f->gone = (struct log_files_gone){ 0 };
	return gone;
}

/* Keeps the newest; the others go. */
static void list_add(struct log_files *f, int dir_fd, uint64_t number)
{
	unsigned at = f->n;
	char name[NAME_ROOM];

	while (at > 0 && f->files[at - 1].number > number)
		at--;
	memmove(&f->files[at + 1], &f->files[at], (f->n - at) * sizeof(f->files[0]));
	f->files[at] = (struct log_file){ .number = number };
	if (++f->n <= LIMIT_LOG_FILES)
		return;
	name_of(name, f->files[0].number);
	(void)unlinkat(dir_fd, name, 0);
	memmove(&f->files[0], &f->files[1], --f->n * sizeof(f->files[0]));
}

static char *load(int dir_fd, uint64_t number, size_t *ret_size)
{
	char name[NAME_ROOM];
	autoclose int fd = -1;

	name_of(name, number);
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd == -1 ? NULL : fd_read_all(fd, FILE_MAX, ret_size, NULL);
}

/* What is behind the last whole line of the newest file goes. */
static void cut(struct log_files *f, int dir_fd, size_t size, struct log_files_found *found)
{
	struct log_file *file = &f->files[f->n - 1];
	char name[NAME_ROOM];
	autoclose int fd = -1;

	if (size == file->bytes)
		return;
	name_of(name, file->number);
	fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd == -1 || ftruncate(fd, (off_t)size) == -1)
		return;
	found->cut_bytes = file->bytes - size;
	file->bytes = size;
}

int log_files_open(struct log_files *f, struct log_files_found *found, struct err *e)
{
	int dir_fd = open_folder(f, false);
	DIR *dir = dir_fd == -1 ? NULL : fdopendir(dir_fd);
	struct dirent *d;
	uint64_t number;

	*found = (struct log_files_found){ 0 };
	if (!dir && errno == ENOENT)
		return 0;
	if (!dir) {
		fd_close(&dir_fd);
		return err_sys(e, ERR_IO, "cannot read the logs of %s", f->sandbox);
	}
	while ((d = readdir(dir)))
		if (name_read(d->d_name, &number))
			list_add(f, dir_fd, number);
	for (unsigned i = 0; i < f->n; i++) {
		struct log_file *file = &f->files[i];
		size_t size = 0, whole;
		char *text = load(dir_fd, file->number, &size);
		struct stat st = { 0 };

		(void)is_there(dir_fd, file->number, &st);
		file->device = st.st_dev;
		file->inode = st.st_ino;
		file->bytes = size;
		whole = text ? count_lines(file, text, size, &found->last, &found->accounted) : 0;
		if (i == f->n - 1 && text)
			cut(f, dir_fd, whole, found);
		else if (i == f->n - 1)
			file->bytes = LIMIT_LOG_FILE_BYTES; /* whatever it is: nothing is appended */
		free(text);
		f->last_number = file->number;
	}
	(void)closedir(dir);
	return 0;
}

/* ---- appending ---- */

static int begin_file(struct log_files *f, struct err *e)
{
	autoclose int dir_fd = open_folder(f, true);
	char name[NAME_ROOM];
	struct stat st;

	fd_close(&f->fd);
	if (dir_fd == -1)
		return err_sys(e, ERR_IO, "cannot make the folder of the logs of %s", f->sandbox);
	for (unsigned tries = 0; f->fd == -1 && tries < NAMES_TAKEN; tries++) {
		name_of(name, ++f->last_number);
		f->fd = FAULT(LOG_ROTATE) ? -1 : openat(dir_fd, name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (f->fd == -1 && errno != EEXIST) {
			f->last_number--;
			break;
		}
	}
	if (f->fd == -1 || fstat(f->fd, &st) == -1) {
		err_sys(e, ERR_IO, "cannot make the log file %s of %s", name, f->sandbox);
		fd_close(&f->fd);
		return -1;
	}
	list_add(f, dir_fd, f->last_number);
	f->files[f->n - 1].device = st.st_dev;
	f->files[f->n - 1].inode = st.st_ino;
	return 0;
}

static int reopen(struct log_files *f)
{
	autoclose int dir_fd = open_folder(f, false);
	char name[NAME_ROOM];

	name_of(name, f->files[f->n - 1].number);
	f->fd = dir_fd == -1 ? -1 : openat(dir_fd, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return f->fd;
}

/* There is a file that has room. */
static int ready(struct log_files *f, struct err *e)
{
	forget_gone(f);
	if (f->n > 0 && f->files[f->n - 1].bytes < LIMIT_LOG_FILE_BYTES && (f->fd != -1 || reopen(f) != -1))
		return 0;
	return begin_file(f, e);
}

/* As much of the lines as the newest file takes: at least one line into an empty one. */
static size_t part_of(const struct log_files *f, const char *lines, size_t size)
{
	uint64_t bytes = f->files[f->n - 1].bytes, room = LIMIT_LOG_FILE_BYTES - bytes;
	const char *end = size > room ? memrchr(lines, '\n', (size_t)room) : lines + size - 1;

	assert(lines && size > 0);
	if (!end && bytes == 0)
		end = memchr(lines, '\n', size);
	return end ? (size_t)(end + 1 - lines) : 0;
}

static int write_part(struct log_files *f, const char *lines, size_t size, struct err *e)
{
	struct log_file *file = &f->files[f->n - 1];
	size_t done = 0;
	struct seq last;
	uint64_t accounted;

	while (done < size) {
		ssize_t n = FAULT(LOG_WRITE) ? -1 : write(f->fd, lines + done, size - done);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0) {
			(void)err_sys(e, ERR_IO, "cannot write the log of %s", f->sandbox);
			if (done > 0 && ftruncate(f->fd, (off_t)file->bytes) == -1)
				file->bytes = LIMIT_LOG_FILE_BYTES; /* nothing may stand behind half a line */
			return -1;
		}
		done += (size_t)n;
	}
	file->bytes += size;
	(void)count_lines(file, lines, size, &last, &accounted);
	return 0;
}

int log_files_append(struct log_files *f, const char *lines, size_t size, size_t *ret_bytes, struct err *e)
{
	*ret_bytes = 0;
	while (*ret_bytes < size) {
		size_t n;

		if (ready(f, e) == -1)
			return -1;
		n = part_of(f, lines + *ret_bytes, size - *ret_bytes);
		if (n == 0) { /* full, but for a few bytes */
			f->files[f->n - 1].bytes = LIMIT_LOG_FILE_BYTES;
			continue;
		}
		if (write_part(f, lines + *ret_bytes, n, e) == -1)
			return -1;
		*ret_bytes += n;
	}
	return 0;
}

uint64_t log_files_kept(const struct log_files *f, uint64_t ring)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < f->n; i++)
		sum += f->files[i].ring == ring ? f->files[i].kept : 0;
	return sum;
}

/* ---- removing ---- */

static int remove_folder(int logs_fd, const char *sandbox)
{
	int fd = openat(logs_fd, sandbox, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		fd_close(&fd);
		return errno == ENOENT ? 0 : -1;
	}
	while ((d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			(void)unlinkat(fd, d->d_name, 0);
	(void)closedir(dir);
	return unlinkat(logs_fd, sandbox, AT_REMOVEDIR);
}

int log_files_remove(int state_dir_fd, const char *sandbox, struct err *e)
{
	autoclose int logs = openat(state_dir_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (logs == -1 && errno == ENOENT)
		return 0;
	if (logs == -1 || remove_folder(logs, sandbox) == -1)
		return err_sys(e, ERR_IO, "cannot remove the logs of %s", sandbox);
	return 0;
}

int log_files_collect(int state_dir_fd, bool (*keep)(void *ctx, const char *sandbox), void *ctx)
{
	autoclose int logs = openat(state_dir_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int copy = logs == -1 ? -1 : openat(logs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *dir = copy == -1 ? NULL : fdopendir(copy);
	struct dirent *d;

	if (!dir) {
		fd_close(&copy);
		return 0;
	}
	while ((d = readdir(dir)))
		if (name_is_id(d->d_name, strlen(d->d_name)) && !keep(ctx, d->d_name) && remove_folder(logs, d->d_name) == 0)
			n++;
	(void)closedir(dir);
	return n;
}

/* ---- reading ---- */

struct wanted {
	struct json_span lines[KEPT_MAX];
	unsigned n; /* ever */
};

static void find_lines(const struct log_files_read *r, const char *text, size_t size, struct wanted *w)
{
	size_t at = 0, rest;
	const char *end;

	for (; at < size && (end = memchr(text + at, '\n', size - at)); at = (size_t)(end - text) + 1) {
		size_t n = (size_t)(end - text) - at;
		struct seq seq;
		uint64_t raw, bytes;
		int64_t at_ms;

		if (!log_file_line(text + at, n, &seq, &raw, &bytes, &rest) || seq_compare(seq, r->since) <= 0 ||
			seq_compare(seq, r->until) > 0 || json_check(text + at, n, NULL) == -1 ||
			!json_i64(json_get((struct json_span){ text + at, n }, "at"), &at_ms) || at_ms < r->since_ms)
			continue;
		w->lines[w->n++ % KEPT_MAX] = (struct json_span){ text + at + rest, n - rest };
	}
}

void log_files_read(struct log_files *f, struct log_files_read *r)
{
	autoclose int dir_fd = open_folder(f, false);
	struct wanted *w = calloc(1, sizeof(*w));
	char *texts[LIMIT_LOG_FILES + 1] = { NULL };
	unsigned n;

	forget_gone(f);
	for (unsigned i = 0; w && dir_fd != -1 && i < f->n; i++) {
		size_t size = 0;

		texts[i] = load(dir_fd, f->files[i].number, &size);
		if (texts[i])
			find_lines(r, texts[i], size, w);
	}
	n = !w ? 0 : w->n < r->lines ? w->n : r->lines;
	n = n < KEPT_MAX ? n : KEPT_MAX;
	for (unsigned i = w ? w->n - n : 0; w && i < w->n; i++) {
		const struct json_span *line = &w->lines[i % KEPT_MAX];

		buf_add_text(&r->to, r->n++ > 0 ? ",{" : "{");
		buf_add(&r->to, line->at, line->size);
	}
	r->to.failed = r->to.failed || !w;
	for (unsigned i = 0; i < LIMIT_LOG_FILES; i++)
		free(texts[i]);
	free(w);
}
