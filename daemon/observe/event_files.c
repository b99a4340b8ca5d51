/* SPDX-License-Identifier: MIT
 *
 * The folder of events. The list of files is read once, and kept in order; the newest one is checked whole when it is opened,
 * since events are appended to it; the others when somebody reads them. */
#include "daemon/observe/event_files.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/json_scan.h"
#include "proto/log.h"

#define SUFFIX   ".events"
#define NAME_ROOM (SEQ_ROOM + sizeof(SUFFIX) + sizeof(".damaged"))
#define FILES    256  /* far more than LIMIT_EVENT_FILES_BYTES of full ones; the oldest go */
#define FILE_MAX (LIMIT_EVENT_SEGMENT_BYTES + LIMIT_EVENT_BATCH_BYTES + LIMIT_EVENT_PENDING_BYTES)

struct event_file {
	struct seq first;
	uint64_t bytes;
	int64_t changed_ms;
};

struct event_files {
	int dir_fd, fd;              /* fd: of the newest, for appending; -1: none */
	unsigned n;
	struct event_file files[FILES];
	struct event_files_found found;
	int64_t synced_ms;
};

/* ---- one event ---- */

bool event_filter_takes(const struct event_filter *f, const struct event_head *h)
{
	size_t n = strlen(f->type);

	if (!f->is_admin && (!h->is_owned || h->owner != f->uid))
		return false;
	if (f->sandbox[0] && strcmp(f->sandbox, h->sandbox) != 0)
		return false;
	if (h->at_ms < f->since_ms)
		return false;
	if (n > 0 && f->type[n - 1] == '.')
		return strncmp(f->type, h->type, n) == 0;
	return n == 0 || strcmp(f->type, h->type) == 0;
}

bool event_follows(struct seq before, struct seq next, bool is_known)
{
	return next.major == before.major ? next.n == before.n + 1 : is_known && next.major > before.major && next.n == 1;
}

bool event_head_read(const char *line, size_t size, struct event_head_room *room, struct event_head *ret)
{
	struct json_span whole = { line, size }, sandbox, owner;
	char seq[SEQ_ROOM];
	uint64_t uid = 0;

	if (size == 0 || size > LIMIT_EVENT_BYTES || json_check(line, size, NULL) == -1 || json_type(whole) != '{')
		return false;
	sandbox = json_get(whole, "sandbox");
	owner = json_get(whole, "owner");
	room->sandbox[0] = '\0';
	if (json_string(json_get(whole, "seq"), seq, sizeof(seq)) < 0 || !seq_read(seq, &ret->seq) || ret->seq.major > INT64_MAX ||
		!json_i64(json_get(whole, "at"), &ret->at_ms) ||
		json_string(json_get(whole, "type"), room->type, sizeof(room->type)) < 0)
		return false;
	ret->is_owned = json_u64(owner, &uid) && uid <= UINT32_MAX;
	if (json_type(sandbox) == '"' && (json_string(sandbox, room->sandbox, sizeof(room->sandbox)) <= 0 || !ret->is_owned))
		return false;
	ret->sandbox = room->sandbox;
	ret->type = room->type;
	ret->owner = ret->is_owned ? (uid_t)uid : 0;
	return true;
}

/* ---- the folder ---- */

static void name_of(char to[NAME_ROOM], struct seq first, const char *more)
{
	char seq[SEQ_ROOM];

	seq_write(seq, first);
	(void)snprintf(to, NAME_ROOM, "%s" SUFFIX "%s", seq, more);
}

static bool name_read(const char *name, struct seq *ret)
{
	size_t n = strlen(name), end = sizeof(SUFFIX) - 1;
	char seq[SEQ_ROOM];

	if (n <= end || n - end >= sizeof(seq) || strcmp(name + n - end, SUFFIX) != 0)
		return false;
	memcpy(seq, name, n - end);
	seq[n - end] = '\0';
	return seq_read(seq, ret) && ret->major <= INT64_MAX;
}

static int compare_files(const void *a, const void *b)
{
	const struct event_file *x = a, *y = b;

	return seq_compare(x->first, y->first);
}

static void forget(struct event_files *f, unsigned i)
{
	memmove(&f->files[i], &f->files[i + 1], (f->n - i - 1) * sizeof(f->files[0]));
	f->n--;
	if (i == f->n) /* the newest, that is appended to */
		fd_close(&f->fd);
}

static void put_aside(struct event_files *f, unsigned i)
{
	char name[NAME_ROOM], aside[NAME_ROOM];

	name_of(name, f->files[i].first, "");
	name_of(aside, f->files[i].first, ".damaged");
	(void)renameat(f->dir_fd, name, f->dir_fd, aside);
	log_warning("the file of events %s is damaged: it is renamed to .damaged, and its events are gone", name);
	f->found.n_damaged++;
	forget(f, i);
}

static void remove_oldest(struct event_files *f)
{
	char name[NAME_ROOM];

	name_of(name, f->files[0].first, "");
	(void)unlinkat(f->dir_fd, name, 0);
	forget(f, 0);
}

/* Never the newest. */
static void retain(struct event_files *f, int64_t now_ms)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < f->n; i++)
		bytes += f->files[i].bytes;
	while (f->n > 1 && (bytes > LIMIT_EVENT_FILES_BYTES || f->n >= FILES ||
				   f->files[0].changed_ms < now_ms - LIMIT_EVENT_FILES_AGE_MS)) {
		bytes -= f->files[0].bytes;
		remove_oldest(f);
	}
}

static int list(struct event_files *f, struct err *e)
{
	int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		fd_close(&fd);
		return err_sys(e, ERR_IO, "cannot read the folder of events or records in the state folder");
	}
	while ((d = readdir(dir))) {
		struct event_file file;
		struct stat st;

		if (!name_read(d->d_name, &file.first) || fstatat(f->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
			!S_ISREG(st.st_mode))
			continue;
		file.bytes = (uint64_t)st.st_size;
		file.changed_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
		if (f->n == FILES) { /* somebody else's doing: the oldest of them go */
			qsort(f->files, f->n, sizeof(f->files[0]), compare_files);
			if (compare_files(&file, &f->files[0]) < 0) {
				(void)unlinkat(f->dir_fd, d->d_name, 0);
				continue;
			}
			remove_oldest(f);
		}
		f->files[f->n++] = file;
	}
	(void)closedir(dir);
	qsort(f->files, f->n, sizeof(f->files[0]), compare_files);
	return 0;
}

/* The text of a file; NULL: it can't be read. The caller frees. */
static char *load(const struct event_files *f, const struct event_file *file, size_t *ret_size)
{
	char name[NAME_ROOM];
	autoclose int fd = -1;

	name_of(name, file->first, "");
	fd = openat(f->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd == -1 ? NULL : fd_read_all(fd, FILE_MAX, ret_size, NULL);
}

/* The event at *at, and *at is behind it. 1: there is one, 0: the end, -1: what is there is none, -2: half a line at the end. */
static int next_event(const char *text, size_t size, size_t *at, struct event_head_room *room, struct event_head *ret,
	struct json_span *ret_line)
{
	const char *end;

	if (*at == size)
		return 0;
	end = memchr(text + *at, '\n', size - *at);
	if (!end)
		return -2;
	*ret_line = (struct json_span){ text + *at, (size_t)(end - text) - *at };
	if (!event_head_read(ret_line->at, ret_line->size, room, ret))
		return -1;
	*at = (size_t)(end - text) + 1;
	return 1;
}

/* ---- opening ---- */

static int cut_at(struct event_files *f, struct event_file *file, size_t size, struct err *e)
{
	char name[NAME_ROOM];
	autoclose int fd = -1;

	name_of(name, file->first, "");
	fd = openat(f->dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd == -1 || ftruncate(fd, (off_t)size) == -1)
		return err_sys(e, ERR_IO, "cannot cut the torn end off the events");
	f->found.cut_bytes += file->bytes - size;
	file->bytes = size;
	return 0;
}

/* The newest file: its torn end is cut off. 1: good, 0: put aside, or empty. */
static int check_newest(struct event_files *f, struct err *e)
{
	struct event_file *file = &f->files[f->n - 1];
	struct event_head_room room;
	struct event_head h = { .seq = { 0, 0 } };
	struct seq last = { 0, 0 };
	struct json_span line;
	size_t size = 0, at = 0;
	char *text = load(f, file, &size);
	bool is_good = text != NULL, is_torn;
	int r = 0;

	while (is_good && (r = next_event(text, size, &at, &room, &h, &line)) == 1) {
		is_good = at != 0 && (last.n == 0 ? seq_compare(h.seq, file->first) == 0 : seq_compare(h.seq, last) > 0);
		last = h.seq;
	}
	/* The last line, whole or not, may be half of one that was being written; anything else is no crash's doing. */
	is_torn = is_good && (r == -2 || (r == -1 && (const char *)memchr(text + at, '\n', size - at) == text + size - 1));
	if (is_torn && last.n > 0) {
		r = cut_at(f, file, at, e);
		free(text);
		f->found.last = last;
		return r == -1 ? -1 : 1;
	}
	free(text);
	if (is_torn || (is_good && r == 0 && last.n == 0)) { /* nothing else is in it */
		char name[NAME_ROOM];

		f->found.cut_bytes += size;
		name_of(name, file->first, "");
		(void)unlinkat(f->dir_fd, name, 0);
		forget(f, f->n - 1);
		return 0;
	}
	if (!is_good || r < 0) {
		put_aside(f, f->n - 1);
		return 0;
	}
	f->found.last = last;
	return 1;
}

static int open_folder(struct event_files *f, int state_dir_fd, const char *folder, struct err *e)
{
	if (mkdirat(state_dir_fd, folder, 0700) == -1 && errno != EEXIST)
		return err_sys(e, ERR_IO, "cannot make the folder %s in the state folder", folder);
	f->dir_fd = openat(state_dir_fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (f->dir_fd == -1)
		return err_sys(e, ERR_IO, "cannot open the folder %s in the state folder", folder);
	return list(f, e);
}

int event_files_open(int state_dir_fd, const char *folder, struct event_files **ret, struct event_files_found *found, struct err *e)
{
	struct event_files *f = calloc(1, sizeof(*f));
	int r = 0;

	if (!f)
		return err_set(e, ERR_INTERNAL, "no memory for the events");
	f->dir_fd = f->fd = -1;
	if (open_folder(f, state_dir_fd, folder, e) == -1) {
		event_files_free(f);
		return -1;
	}
	while (f->n > 0 && r == 0)
		r = check_newest(f, e);
	if (r == -1) {
		event_files_free(f);
		return -1;
	}
	retain(f, clock_wall_ms());
	*found = f->found;
	*ret = f;
	return 0;
}

struct event_files *event_files_free(struct event_files *f)
{
	if (!f)
		return NULL;
	fd_close(&f->fd);
	fd_close(&f->dir_fd);
	free(f);
	return NULL;
}

int event_files_dir_fd(const struct event_files *f)
{
	return f->dir_fd;
}

/* ---- appending ---- */

static int open_newest(struct event_files *f, bool is_new, struct err *e)
{
	char name[NAME_ROOM];

	name_of(name, f->files[f->n - 1].first, "");
	f->fd = (is_new ? FAULT(EVENTS_ROTATE) : FAULT(EVENTS_OPEN)) ?
			-1 :
			openat(f->dir_fd, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), 0600);
	if (f->fd == -1)
		return err_sys(e, ERR_IO, "cannot open the file of events %s", name);
	if (is_new && fsync(f->dir_fd) == -1)
		return err_sys(e, ERR_IO, "cannot make the file of events %s durable", name);
	return 0;
}

/* Ready for so many bytes more. */
static int newest_for(struct event_files *f, size_t size, struct seq first, int64_t now_ms, struct err *e)
{
	struct stat st;

	/* Gone from outside: what comes goes into a new one. */
	if (f->fd != -1 && (fstat(f->fd, &st) == -1 || st.st_nlink == 0))
		forget(f, f->n - 1);
	if (f->n > 0 && f->files[f->n - 1].bytes + size <= LIMIT_EVENT_SEGMENT_BYTES) {
		if (f->fd != -1 || open_newest(f, false, e) == 0)
			return 0;
		if (errno != ENOENT)
			return -1;
		forget(f, f->n - 1);
	}
	if (f->fd != -1) {
		(void)fdatasync(f->fd);
		fd_close(&f->fd);
	}
	retain(f, now_ms);
	f->files[f->n++] = (struct event_file){ .first = first, .changed_ms = now_ms };
	if (open_newest(f, true, e) == 0)
		return 0;
	forget(f, f->n - 1);
	return -1;
}

int event_files_append(struct event_files *f, const char *lines, size_t size, struct seq first, struct seq last,
	int64_t now_ms, struct err *e)
{
	struct event_file *file;
	size_t done = 0;

	if (newest_for(f, size, first, now_ms, e) == -1)
		return -1;
	file = &f->files[f->n - 1];
	while (done < size) {
		ssize_t n = FAULT(EVENTS_WRITE) ? -1 : write(f->fd, lines + done, size - done);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0) {
			(void)err_sys(e, ERR_IO, "cannot write %zu bytes of events", size);
			if (done > 0 && ftruncate(f->fd, (off_t)file->bytes) == -1)
				file->bytes = LIMIT_EVENT_SEGMENT_BYTES; /* nothing may stand behind half a line */
			return -1;
		}
		done += (size_t)n;
	}
	file->bytes += size;
	file->changed_ms = now_ms;
	f->found.last = last;
	if (now_ms - f->synced_ms >= 1000 || now_ms < f->synced_ms) {
		f->synced_ms = now_ms;
		(void)event_files_sync(f); /* what it can't do now, it tries again */
	}
	return 0;
}

int event_files_sync(struct event_files *f)
{
	return f->fd == -1 ? 0 : FAULT(EVENTS_FSYNC) ? -1 : fdatasync(f->fd);
}

/* ---- reading ---- */

static void give(struct event_files_read *r, struct json_span line)
{
	if (r->to.size > 0)
		buf_add_char(&r->to, ',');
	buf_add(&r->to, line.at, line.size);
	r->left--;
}

/* The events of one file behind r->at. false: its contents can't be right. */
static bool read_on(struct event_files_read *r, const char *text, size_t size)
{
	struct event_head_room room;
	struct event_head h;
	struct json_span line;
	size_t at = 0;
	int n;

	while (r->more && (n = next_event(text, size, &at, &room, &h, &line)) != 0 && n != -2) {
		if (n == -1)
			return false;
		if (!r->is_begin && seq_compare(h.seq, r->at) <= 0) {
			r->is_known = true;
			continue;
		}
		if (seq_compare(h.seq, r->until) >= 0) {
			r->more = false;
			break;
		}
		r->gap = r->gap || (!r->is_begin && !event_follows(r->at, h.seq, r->is_known));
		r->is_begin = false;
		r->is_known = true;
		r->at = h.seq;
		if (event_filter_takes(&r->filter, &h))
			give(r, line);
		r->more = r->left > 0 && r->to.size < LIMIT_EVENTS_PAGE_BYTES - LIMIT_EVENT_BYTES;
	}
	return true;
}

static void read_forward(struct event_files *f, struct event_files_read *r)
{
	struct seq from = r->has_file ? r->file : r->at;
	unsigned i = 0;
	size_t size;
	char *text;
	bool is_good;

	/* At first the newest file that begins at `at` or before it, then one by one. */
	if (r->has_file)
		while (i < f->n && seq_compare(f->files[i].first, from) < 0)
			i++;
	else
		while (!r->is_begin && i + 1 < f->n && seq_compare(f->files[i + 1].first, from) <= 0)
			i++;
	r->more = i < f->n && seq_compare(f->files[i].first, r->until) < 0;
	if (!r->more)
		return;
	r->file = f->files[i].first;
	r->file.n++; /* the one behind it */
	r->has_file = true;
	text = load(f, &f->files[i], &size);
	is_good = text && read_on(r, text, size);
	free(text);
	if (is_good)
		return;
	r->gap = true;
	put_aside(f, i);
}

/* Where the lines that are wanted lie in a file; the last r->left of them. */
struct kept_lines {
	struct json_span lines[1024];
	size_t n; /* ever */
};

static bool find_lines(const struct event_files_read *r, const char *text, size_t size, struct kept_lines *k)
{
	struct event_head_room room;
	struct event_head h;
	struct json_span line;
	size_t at = 0;
	int n;

	while ((n = next_event(text, size, &at, &room, &h, &line)) == 1 && seq_compare(h.seq, r->until) < 0)
		if (event_filter_takes(&r->filter, &h))
			k->lines[k->n++ % 1024] = line;
	return n != -1;
}

static void put_in_front(struct event_files_read *r, const struct kept_lines *k)
{
	struct buf behind = r->to;
	size_t n = k->n < r->left ? k->n : r->left, bytes = behind.size, first;

	if (n > 1024)
		n = 1024;
	for (first = k->n; first > k->n - n && bytes < LIMIT_EVENTS_PAGE_BYTES - LIMIT_EVENT_BYTES; first--)
		bytes += k->lines[(first - 1) % 1024].size + 1;
	r->more = first == k->n - n && r->left > n;
	buf_init(&r->to, 0);
	for (; first < k->n; first++)
		give(r, k->lines[first % 1024]);
	if (behind.size > 0 && r->to.size > 0)
		buf_add_char(&r->to, ',');
	buf_add(&r->to, behind.data, behind.size);
	r->to.failed = r->to.failed || behind.failed;
	buf_fini(&behind);
}

static void read_back(struct event_files *f, struct event_files_read *r)
{
	struct kept_lines *k;
	unsigned i = f->n;
	size_t size;
	char *text;

	while (i > 0 && seq_compare(f->files[i - 1].first, r->has_file ? r->file : r->until) >= 0)
		i--;
	r->more = i > 0 && r->left > 0;
	if (!r->more)
		return;
	i--;
	r->file = f->files[i].first;
	r->has_file = true;
	k = calloc(1, sizeof(*k));
	if (!k) {
		r->to.failed = true;
		r->more = false;
		return;
	}
	text = load(f, &f->files[i], &size);
	if (text && find_lines(r, text, size, k))
		put_in_front(r, k);
	else
		put_aside(f, i);
	free(text);
	free(k);
}

void event_files_read(struct event_files *f, struct event_files_read *r)
{
	if (r->left == 0)
		r->more = false;
	else if (r->is_back)
		read_back(f, r);
	else
		read_forward(f, r);
}
