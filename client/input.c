/* SPDX-License-Identifier: MIT
 *
 * Files of the user. The daemon opens no path that a client names, so the bytes are read here; a fifo or a
 * device in the place of an object is refused instead of waited for. */
#include "client/input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/buf.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "proto/names.h"

#define PIECE_BYTES 65536

static int read_to_end(int fd, struct buf *to, const char *name, struct err *e)
{
	for (;;) {
		size_t had = to->size;
		char *at = buf_extend(to, PIECE_BYTES);
		ssize_t n;

		if (!at)
			return err_set(e, ERR_INTERNAL, "no memory to read %s", name);
		n = read(fd, at, PIECE_BYTES);
		to->size = had + (n > 0 ? (size_t)n : 0);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return err_sys(e, ERR_BAD_PARAM, "cannot read %s", name);
		if (n == 0)
			return 0;
		if (to->ceiling && to->size > to->ceiling - PIECE_BYTES)
			return err_set(e, ERR_REQUEST_TOO_LARGE, "%s has more than %zu bytes", name,
				to->ceiling - PIECE_BYTES);
	}
}

char *input_text(const char *path, size_t limit, size_t *ret_size, struct err *e)
{
	bool standard = strcmp(path, "-") == 0;
	const char *name = standard ? "standard input" : path;
	autoclose int opened = -1;
	struct buf text;
	char *data;

	if (!standard) {
		opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (opened == -1) {
			err_sys(e, ERR_BAD_PARAM, "cannot open %s", name);
			return NULL;
		}
	}
	buf_init(&text, limit + PIECE_BYTES); /* the last read asks for a whole piece */
	if (read_to_end(standard ? STDIN_FILENO : opened, &text, name, e) == -1) {
		buf_fini(&text);
		return NULL;
	}
	data = buf_take(&text, ret_size);
	if (!data)
		err_set(e, ERR_INTERNAL, "no memory to read %s", name);
	return data;
}

static bool ends_in(const char *text, const char *ending)
{
	size_t n = strlen(text), m = strlen(ending);

	return n > m && strcmp(text + n - m, ending) == 0;
}

/* The last part of the path, if the daemon takes it as a name; else what the daemon itself would say. */
static void name_source(struct codefile *c, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;

	if (!name_is_source_file(base, strlen(base)))
		base = "module.c";
	memcpy(c->name, base, strlen(base) + 1);
}

static bool is_code_name(const char *name)
{
	return name[0] != '.' && (ends_in(name, ".c") || ends_in(name, ".so"));
}

/* How many regular files of code a folder has; `first`: the path of one, "": none. -1: it can't be read. */
static int count_code(const char *folder, char first[PATH_MAX], struct err *e)
{
	DIR *d = opendir(folder);
	int n = 0;

	first[0] = '\0';
	if (!d)
		return err_sys(e, ERR_BAD_SOURCE, "cannot read the folder %s", folder);
	for (const struct dirent *each; (each = readdir(d));) {
		char path[PATH_MAX];
		struct stat st;

		if (!is_code_name(each->d_name) || snprintf(path, sizeof path, "%s/%s", folder, each->d_name) >= (int)sizeof path || stat(path, &st) == -1 ||
			!S_ISREG(st.st_mode))
			continue;
		if (n++ == 0)
			memcpy(first, path, sizeof path);
	}
	(void)closedir(d);
	return n;
}

static int read_file(struct codefile *c, const char *path, struct err *e);

/* The one file of code that is in it. */
static int read_folder(struct codefile *c, const char *folder, struct err *e)
{
	char path[PATH_MAX];
	int n = count_code(folder, path, e);

	if (n == 1)
		return read_file(c, path, e);
	if (n == 0)
		return err_set(e, ERR_BAD_SOURCE, "%s is a folder without a .c or .so file: name the file, or build the object first", folder);
	if (n > 1)
		return err_set(e, ERR_BAD_SOURCE, "%s is a folder with %d .c and .so files: name the one that is meant, such as %s", folder, n, path);
	return -1;
}

static int read_file(struct codefile *c, const char *path, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	*c = (struct codefile){ .is_source = ends_in(path, ".c") };
	if (fd == -1)
		return err_sys(e, ERR_BAD_SOURCE, "cannot open %s", path);
	if (fstat(fd, &st) == -1)
		return err_sys(e, ERR_BAD_SOURCE, "cannot look at %s", path);
	if (S_ISDIR(st.st_mode))
		return read_folder(c, path, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_BAD_SOURCE, "%s is not a regular file", path);
	if (!c->is_source && !ends_in(path, ".so") && !strstr(path, ".so."))
		return err_set(e, ERR_BAD_SOURCE, "%s is neither a .so nor a .c file", path);
	c->data = fd_read_all(fd, c->is_source ? LIMIT_SOURCE_BYTES : LIMIT_OBJECT_BYTES, &c->size, e);
	if (!c->data) {
		if (e)
			e->code = ERR_BAD_SOURCE;
		return err_prefix(e, "%s", path);
	}
	if (c->is_source)
		name_source(c, path);
	return 0;
}

static int read_standard_input(struct codefile *c, struct err *e)
{
	*c = (struct codefile){ .name = "module.c" };
	c->data = input_text("-", LIMIT_OBJECT_BYTES, &c->size, e);
	c->is_source = c->data && !(c->size >= 4 && memcmp(c->data, "\177ELF", 4) == 0);
	if (c->data && c->size == 0)
		err_set(e, ERR_BAD_SOURCE, "standard input is empty");
	else if (c->is_source && c->size > LIMIT_SOURCE_BYTES)
		err_set(e, ERR_BAD_SOURCE, "standard input has a source of %zu bytes; at most %u", c->size, LIMIT_SOURCE_BYTES);
	else if (c->data)
		return 0;
	if (e)
		e->code = ERR_BAD_SOURCE;
	codefile_fini(c);
	return -1;
}

int codefile_read(struct codefile *c, const char *path, struct err *e)
{
	if (strcmp(path, "-") == 0)
		return read_standard_input(c, e);
	return read_file(c, path, e);
}

void codefile_fini(struct codefile *c)
{
	free(c->data);
	*c = (struct codefile){ 0 };
}
