/* SPDX-License-Identifier: MIT
 *
 * Writes to its output as a hostile or a busy module does: by write(2), as fast as it is taken. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox_module.h"

struct flood { int64_t bytes; };
SBX_STATE(flood, struct flood, SBX_FIELD(bytes));

static int fd_of(struct sbx *x)
{
	return strcmp(sbx_arg_str(x, "to"), "stderr") == 0 ? 2 : 1;
}

static int64_t put(struct flood *f, int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n <= 0)
			return -1;
		f->bytes += n;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* bytes without a newline. */
static int pour(struct sbx *x, void *self)
{
	static char piece[65536];
	int64_t left = sbx_arg_i64(x, "bytes");

	memset(piece, '~', sizeof(piece));
	while (left > 0) {
		size_t n = left < (int64_t)sizeof(piece) ? (size_t)left : sizeof(piece);

		if (put(self, 1, piece, n) == -1)
			return -1;
		left -= (int64_t)n;
	}
	return sbx_put_i64(x, "bytes", ((struct flood *)self)->bytes);
}

/* One line of so many bytes, and its newline unless told otherwise. */
static int line(struct sbx *x, void *self)
{
	static char piece[1 << 20];
	int64_t size = sbx_arg_i64(x, "size");

	if (size < 0 || size >= (int64_t)sizeof(piece))
		return -1;
	memset(piece, 'x', (size_t)size);
	piece[size] = '\n';
	if (put(self, fd_of(x), piece, (size_t)size + (sbx_arg_bool(x, "newline") ? 1 : 0)) == -1)
		return -1;
	return sbx_put_i64(x, "bytes", ((struct flood *)self)->bytes);
}

/* "number N ...", n times. */
static int numbers(struct sbx *x, void *self)
{
	int64_t from = sbx_arg_i64(x, "from"), n = sbx_arg_i64(x, "n");
	char text[128];

	for (int64_t i = from; i < from + n; i++) {
		int size = snprintf(text, sizeof(text), "number %lld .......................................................\n", (long long)i);

		if (put(self, 1, text, (size_t)size) == -1)
			return -1;
	}
	return sbx_put_i64(x, "bytes", ((struct flood *)self)->bytes);
}

SBX_MODULE(flood, 1, SBX_USES(flood), SBX_FN(pour, "bytes: i64"), SBX_FN(line, "size: i64, to: str = \"stdout\", newline: bool = true"),
	SBX_FN(numbers, "from: i64, n: i64"));
